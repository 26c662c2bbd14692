"""
Data as people read it: the text of the C{nested} outputter, four columns for each level.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from numbers import Number
from typing import Any


def nested_text(data: Any) -> str:
    """Nested maps and lists in lines, without colours."""
    lines: list[str] = []
    Nested(defaultdict(str), False, True, lines).show(data, 0, "")
    return "\n".join(lines)


class Nested:
    """
    One walk over the data.

    @param paint: escape sequences by the names of their colours.
    @param failed: whether keys are red.
    @param strip: whether terminal commands in the data are made harmless.
    @param lines: what collects the result.
    """

    def __init__(
        self, paint: Mapping[str, str], failed: bool, strip: bool, lines: list[str]
    ) -> None:
        self.end = paint["ENDC"]
        self.value = paint["GREEN"]
        self.plain = paint["LIGHT_YELLOW"]
        self.key = paint["RED"] if failed else paint["CYAN"]
        self.mark = paint["RED"] if failed else paint["GREEN"]
        self.strip = strip
        self.lines = lines

    def show(self, data: Any, indent: int, prefix: str) -> None:
        """Append the lines for C{data}; C{prefix} (a list's dash) goes on the first one."""
        pad = " " * indent
        add = self.lines.append
        if isinstance(data, bytes):
            try:
                data = data.decode("utf-8")
            except UnicodeDecodeError:
                pass
        if data is None or data is True or data is False:
            add(f"{pad}{self.plain}{prefix}{data}{self.end}")
        elif isinstance(data, Number):
            add(f"{pad}{self.plain}{prefix}{data!r}{self.end}")
        elif isinstance(data, str):
            for line in data.splitlines():
                shown = line.replace("\033", "?") if self.strip else line
                add(f"{pad}{self.value}{prefix}{shown}{self.end}")
                prefix = " " * len(prefix)
        elif isinstance(data, list | tuple):
            for item in data:
                if isinstance(item, list | tuple | Mapping):
                    add(f"{pad}{self.mark}|_{self.end}")
                    prefix = "" if isinstance(item, Mapping) else "- "
                    self.show(item, indent + 2, prefix)
                else:
                    self.show(item, indent, "- ")
        elif isinstance(data, Mapping):
            self._show_map(data, indent, prefix)

    def _show_map(self, data: Mapping[Any, Any], indent: int, prefix: str) -> None:
        pad = " " * indent
        if indent:
            self.lines.append(f"{pad}{self.key}----------{self.end}")
        if isinstance(data, OrderedDict):
            keys = list(data)
        else:
            try:
                keys = sorted(data)
            except TypeError:  # mixed types of keys
                data = {str(key): value for key, value in data.items()}
                keys = sorted(data)
        for key in keys:
            self.lines.append(f"{pad}{self.key}{prefix}{key}{self.end}:")
            self.show(data[key], indent + 4, "")
