"""
The C{table} outputter: lists of rows as boxed columns.

Options of the configuration are C{out.table.*}, as in Salt: C{has_header},
C{row_delimiter}, C{delim}, C{justify}, C{separate_rows}, C{prefix}, C{suffix}, C{width},
C{rows_key}, C{labels_key}, C{title}, C{nested_indent}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted.cli.output import Options, colors

_JUSTIFY: dict[str, Callable[[str, int], str]] = {
    "center": str.center,
    "right": str.rjust,
    "left": str.ljust,
}
_STYLE: dict[str, Any] = {
    "has_header": True,
    "row_delimiter": "-",
    "delim": " | ",
    "justify": "center",
    "separate_rows": True,
    "prefix": "| ",
    "suffix": " |",
    "width": 50,
}


def output(data: Any, opts: Options, **kwargs: Any) -> str:
    """Show every list of rows in C{data}, under the keys that lead to it."""

    def chosen(name: str) -> Any:
        return kwargs.get(name) or opts.get(f"out.table.{name}")

    style = dict(_STYLE)
    for name in style:
        value = chosen(name)
        if value is not None:
            style[name] = value
    table = _Table(colors(opts), style, chosen("rows_key"), chosen("labels_key"))
    table.show(data, kwargs.get("nested_indent", 0) or opts.get("out.table.nested_indent", 0))
    return "\n".join(table.lines)


class _Table:
    """One walk over the data; C{lines} collects the result."""

    def __init__(
        self, paint: dict[str, str], style: dict[str, Any], rows_key: Any, labels_key: Any
    ) -> None:
        self.paint = paint
        self.style = style
        self.rows_key = rows_key
        self.labels_key = labels_key
        self.lines: list[str] = []

    def show(self, data: Any, indent: int) -> None:
        """Look for rows in C{data}."""
        if isinstance(data, dict):
            if not self.rows_key or self.rows_key in data:
                self._show_keys(data, indent)
            else:
                for key in sorted(data):
                    self.show(data[key], indent)
        elif isinstance(data, list | tuple) and not self.rows_key:
            self._show_rows(data, None, indent)

    def _show_keys(self, data: dict[Any, Any], indent: int) -> None:
        for key in sorted(data):
            if self.rows_key and key != self.rows_key:
                continue
            if not self.rows_key:
                self._line(indent, "DARK_GRAY", str(key), ":")
                self._line(indent, "DARK_GRAY", "----------")
            value = data[key]
            if isinstance(value, list | tuple):
                labels = data.get(self.labels_key) if self.labels_key else None
                self._show_rows(value, labels, indent)
            else:
                self.show(value, indent + 4)

    def _line(self, indent: int, color: str, text: str, after: str = "") -> None:
        self.lines.append(f"{' ' * indent}{self.paint[color]}{text}{self.paint['ENDC']}{after}")

    def _show_rows(self, rows: Sequence[Any], labels: Any, indent: int) -> None:
        """Rows must be of one type: maps, texts or lists of texts."""
        if not rows or any(type(row) is not type(rows[0]) for row in rows):
            return
        if isinstance(labels, Mapping):
            labels = [labels[key] for key in sorted(labels)]
        first = rows[0]
        if type(first) is dict:
            if not labels:
                labels = [str(key).replace("_", " ").title() for key in sorted(first)]
            rows = [[str(row[key]) for key in sorted(row)] for row in rows]
        elif isinstance(first, str):
            rows = [[row] for row in rows]
        everything = [labels, *rows] if labels else list(rows)
        self._draw(everything, bool(self.style["has_header"] and labels), indent + 4)

    def _draw(self, rows: list[Any], header: bool, indent: int) -> None:
        style = self.style
        wrapped = [[self._wrap(cell).split("\n") for cell in row] for row in rows]
        physical = [
            [[cell[line] for cell in row] for line in range(len(row[0]) if row else 0)]
            for row in _level(wrapped)
        ]
        every = [line for row in physical for line in row]
        widths = [max(len(cell) for cell in column) for column in zip(*every, strict=False)]
        frame = len(style["prefix"]) + len(style["suffix"])
        rule = style["row_delimiter"] * (
            frame + sum(widths) + len(style["delim"]) * (len(widths) - 1)
        )
        justify = _JUSTIFY[style["justify"].lower()]
        if style["separate_rows"]:
            self._line(indent, "LIGHT_GRAY", rule)
        for row in physical:
            for line in row:
                cells = style["delim"].join(map(justify, line, widths))
                self._line(indent, "WHITE", f"{style['prefix']}{cells}{style['suffix']}")
            if style["separate_rows"] or header:
                self._line(indent, "LIGHT_GRAY", rule)
                header = False

    def _wrap(self, text: str) -> str:
        """Break a cell at spaces where it would pass the column's width."""
        words = text.split(" ")
        done = words[0]
        for word in words[1:]:
            line = done[done.rfind("\n") + 1 :]
            wide = len(line) + len(word.split("\n", 1)[0]) >= self.style["width"]
            done += ("\n" if wide else " ") + word
        return done


def _level(rows: list[list[list[str]]]) -> list[list[list[str]]]:
    """Cells of one row with the same number of lines."""
    return [
        [cell + [""] * (max(map(len, row)) - len(cell)) for cell in row] if row else row
        for row in rows
    ]
