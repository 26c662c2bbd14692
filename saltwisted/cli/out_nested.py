"""
The C{nested} outputter: keys in cyan, values in green, four columns per level.
"""

from __future__ import annotations

from typing import Any

from saltwisted.cli.output import Options, colors
from saltwisted.domain.nestedtext import Nested


def output(data: Any, opts: Options, **kwargs: Any) -> str:
    """
    Show nested maps and lists; a non-zero C{_retcode} paints keys red.

    Keyword C{nested_indent}: columns before the first level.
    """
    paint = colors(opts)
    failed = kwargs.get("_retcode", 0) != 0
    indent = kwargs.get("nested_indent", 0) or opts.get("nested_indent", 0)
    lines: list[str] = []
    Nested(paint, failed, opts.get("strip_colors", True), lines).show(data, indent, "")
    return "\n".join(lines)
