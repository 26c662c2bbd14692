"""
C{salt.output}: the text that a command prints for data, for functions of a site that print it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from saltwisted.cli import output
from saltwisted.cli.output import Options

strip_esc_sequence = output.without_escapes


def get_printout(out: str | None, opts: Options | None = None, **kwargs: Any) -> Callable[..., Any]:
    """The outputter of a name, C{nested} if there is none: called with data, it gives a text."""
    found = {**(opts or {}), **kwargs}
    outputter = output.select(out, found)

    def printout(data: Any, **more: Any) -> Any:
        return outputter(data, found, **more)

    return printout


def out_format(
    data: Any, out: str | None, opts: Options | None = None, **kwargs: Any
) -> str | None:
    """The text for data; by C{nested}, and then C{raw}, if the outputter cannot do it."""
    return output.format_data(data, out, dict(opts or {}), **kwargs)


try_printout = out_format


def string_format(data: Any, out: str | None, opts: Options | None = None, **kwargs: Any) -> str:
    """As L{out_format}, without colours."""
    return re.sub(r"\x1b[^m]*m", "", out_format(data, out, opts, **kwargs) or "")


def html_format(data: Any, out: str | None, opts: Options | None = None, **kwargs: Any) -> str:
    """As L{string_format}, with blanks and ends of lines for a browser."""
    text = string_format(data, out, opts, **kwargs)
    return text.replace(" ", "&nbsp;").replace("\n", "<br />")


def display_output(
    data: Any, out: str | None = None, opts: Options | None = None, **kwargs: Any
) -> None:
    """Print the text for data, or append it to C{output_file}."""
    output.display(data, out, dict(opts or {}), **kwargs)
