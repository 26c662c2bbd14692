"""
What C{{{ value }}} prints: maps in a form that YAML reads back.

Python's C{repr} of an ordered map is not YAML, and that of a text with a newline
is another text when read back. So every printed value is rewritten first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from saltwisted.domain.render.yamldump import register_map, safe_dump


class PrintableMap(OrderedDict[Any, Any]):
    """A map whose C{str} and C{repr} are flow-style YAML."""

    def __str__(self) -> str:
        return self._text(str)

    def __repr__(self) -> str:
        return self._text(repr)

    def _text(self, show: Any) -> str:
        shown = (
            f"{key!r}: {_quoted(value) if isinstance(value, str) else show(value)}"
            for key, value in self.items()
        )
        return "{" + ", ".join(shown) + "}"


register_map(PrintableMap)


def _quoted(text: str) -> str:
    if "\n" in text or "\r" in text or "\t" in text:
        # On one line: a fold would be a line of the template's block of text
        options = {"default_style": '"', "default_flow_style": True, "width": 2**31 - 1}
        return safe_dump(text, **options).rstrip("\n")
    return repr(text)


def printable(value: Any) -> Any:
    """The environment's C{finalize}: nested maps become L{PrintableMap}."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return PrintableMap((key, printable(item)) for key, item in value.items())
    if isinstance(value, (list, tuple, set)):
        return value.__class__([printable(item) for item in value])
    return value
