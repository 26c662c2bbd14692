"""
Files of the C{.ini} kind (virtual module C{ini}): options, sections, comments kept.

A file is read into a tree of L{_Section}, changed there and written whole. How an option
takes the place of a comment that names it, where a new one goes, and how separators are
written is as in Salt, since people compare the resulting files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

__salt__: dict[str, Any]
__opts__: dict[str, Any]

__virtualname__ = "ini"

_HEADER = re.compile(r"^\s*\[(.+?)\]\s*$", flags=re.MULTILINE)
_COMMENT = re.compile(r"^\s*(#|;)\s*(.*)")
_INDENTED = re.compile(r"(\s+)(.*)")


def __virtual__() -> str:
    return __virtualname__


def set_option(
    file_name: str,
    sections: Mapping[str, Any] | None = None,
    separator: str = "=",
    encoding: str | None = None,
    no_spaces: bool = False,
) -> dict[str, Any]:
    """
    Set options: C{{section: {option: value}}}, or C{{option: value}} above the first section.

    @param no_spaces: no blanks around the separator.
    @return: what changed, with C{before} and C{after}.

    CLI Example::

        salt '*' ini.set_option path_to_ini_file '{section_to_change: {key: value}}'
    """
    tree = _load(file_name, separator, encoding, no_spaces)
    changes = tree.merge(sections or {})
    _save(tree, file_name, encoding)
    return changes


def get_option(
    file_name: str,
    section: str,
    option: str,
    separator: str = "=",
    encoding: str | None = None,
) -> Any:
    """
    One option; without section one above the first section; C{None} if it is not there.

    CLI Example::

        salt '*' ini.get_option /path/to/ini section_name option_name
    """
    tree = _load(file_name, separator, encoding)
    if not section:
        return tree.get(option)
    found = tree.get(section, {})
    return found.get(option) if isinstance(found, dict) else None


def remove_option(
    file_name: str,
    section: str,
    option: str,
    separator: str = "=",
    encoding: str | None = None,
) -> Any:
    """
    Remove an option; gives its value, or C{None} if it was not there.

    CLI Example::

        salt '*' ini.remove_option /path/to/ini section_name option_name
    """
    tree = _load(file_name, separator, encoding)
    place = tree.get(section)
    value = (place if isinstance(place, dict) else tree).pop(option, None)
    _save(tree, file_name, encoding)
    return value


def get_section(
    file_name: str, section: str, separator: str = "=", encoding: str | None = None
) -> dict[str, Any]:
    """
    The options of a section.

    CLI Example::

        salt '*' ini.get_section /path/to/ini section_name
    """
    return _options(_load(file_name, separator, encoding).get(section, {}))


def remove_section(
    file_name: str, section: str, separator: str = "=", encoding: str | None = None
) -> dict[str, Any] | None:
    """
    Remove a section; gives its options, or C{None} if it was not there.

    CLI Example::

        salt '*' ini.remove_section /path/to/ini section_name
    """
    tree = _load(file_name, separator, encoding)
    if section not in tree:
        return None
    removed = tree.pop(section)
    _save(tree, file_name, encoding)
    return _options(removed)


def get_ini(file_name: str, separator: str = "=", encoding: str | None = None) -> dict[str, Any]:
    """
    The whole file.

    CLI Example::

        salt '*' ini.get_ini /path/to/ini
    """
    return _plain(_load(file_name, separator, encoding))


def _options(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if not key.startswith("#")}


def _plain(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _plain(value) if isinstance(value, dict) else value
        for key, value in _options(tree).items()
    }


class _Section(dict[str, Any]):
    """
    Options, comments and sections in their order.

    Comments are kept under C{#comment1}, ... and lines that are nothing under C{#unknown1}, ...
    """

    def __init__(self, name: str, separator: str, no_spaces: bool = False) -> None:
        super().__init__()
        self.name = name
        self.separator = separator
        self.no_spaces = no_spaces
        # Only the first letter of a longer separator is quoted, as in Salt.
        self._option = re.compile(rf"(\s*)(.+?)\s*(\{separator})\s*(.*)\s*")

    def read(self, text: str) -> None:
        """Fill from the lines between two headers; an option already replaces its comment here."""
        text = text.strip("\n")
        if not text:
            return
        comments = unknown = 0
        indent = ""
        # Above the first option there is nothing that an indented line could continue.
        begun = False
        for line in text.split("\n"):
            if _COMMENT.match(line):
                comments += 1
                self.merge({f"#comment{comments}": line})
                continue
            deeper = _INDENTED.match(line)
            if begun and deeper and deeper.group(1).replace("\t", "    ") > indent:
                # A continuation of what stands above.
                last = next(reversed(self))
                self.merge({last: f"{self[last]}\n{line}"})
                continue
            begun = begun or bool(line.strip())
            match = self._option.match(line)
            if match:
                indent = match.group(1).replace("\t", "    ")
                self.merge({match.group(2): match.group(4)})
                continue
            unknown += 1
            self.merge({f"#unknown{unknown}": line})

    def _make_room(self, option: str) -> None:
        """Put a new option in the place of the first comment that holds it, else at the end."""
        place = None
        for key, value in self.items():
            if "#comment" in key:
                match = self._option.match(value.lstrip("#"))
                if match and match.group(2) == option:
                    place = key
                    break
        old = list(self.items())
        self.clear()
        for key, value in old:
            self[option if key == place else key] = None if key == place else value
        if place is None:
            self[option] = None

    def merge(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Set options and sections; gives what changed."""
        changes: dict[str, Any] = {}
        for key, value in wanted.items():
            new: Any = str(value)
            plain: Any = new
            if isinstance(value, Mapping):
                new = _Section(key, self.separator, self.no_spaces)
                new.merge(value)
                plain = dict(new)
            if key not in self:
                changes[key] = {"before": None, "after": plain}
                if not isinstance(new, _Section):
                    self._make_room(key)
                self[key] = new
                continue
            current = self[key]
            if isinstance(current, _Section):
                deeper = current.merge(new)
                if deeper:
                    changes[key] = deeper
            elif current != new:
                changes[key] = {"before": current, "after": plain}
                self[key] = new
        return changes

    def lines(self) -> Iterator[str]:
        """The text, a header first, sections last."""
        yield f"\n[{self.name}]\n"
        mark = self.separator.strip()
        if not mark:
            mark = " "
        elif not self.no_spaces:
            mark = f" {mark} "
        for key, value in self.items():
            if _COMMENT.match(key):
                yield f"{value}\n"
            elif not isinstance(value, _Section):
                yield f"{key}{mark}{value}\n"
        for value in self.values():
            if isinstance(value, _Section):
                yield from value.lines()


def _load(path: str, separator: str, encoding: str | None, no_spaces: bool = False) -> _Section:
    tree = _Section(path, separator, no_spaces)
    try:
        with open(path, encoding=encoding or "utf-8") as file:
            text = "\n".join(file.read().splitlines())
    except FileNotFoundError:
        return tree
    except OSError as error:
        if __opts__.get("test"):
            return tree
        raise CommandExecutionError(f"Unable to open file '{path}'. Exception: {error}") from error
    if not text:
        return tree
    head, *rest = _HEADER.split(text)
    tree.read(head)
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        section = _Section(name, separator)
        section.read(body)
        tree.merge({name: section})
    return tree


def _save(tree: _Section, path: str, encoding: str | None) -> None:
    lines = list(tree.lines())[1:]
    if lines:
        lines[0] = lines[0].lstrip("\n")
    try:
        with open(path, "w", encoding=encoding or "utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise CommandExecutionError(f"Unable to write file '{path}'. Exception: {error}") from error
