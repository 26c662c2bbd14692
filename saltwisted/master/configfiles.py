"""
Changes to the files of a master's configuration, which count from its next start.

All of it blocks: it is for the thread pool.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from saltwisted.domain.yamltext import load_yaml
from saltwisted.errors import StoreError
from saltwisted.stores.files import read_file, store_error, write_atomic


def set_option(path: str, key: str, value: Any) -> None:
    """
    Set one option in a file; all other lines, comments among them, stay as they are.

    @param path: the file, or the directory that it is in.
    @raises StoreError: the file is no map of options, or cannot be written.
    """
    mode = 0o640
    if os.path.isdir(path):
        path = os.path.join(path, "master")
    if os.path.exists(path):
        mode = os.stat(path).st_mode & 0o7777
    old = (read_file(path) or b"").decode("utf-8", "surrogateescape")
    try:
        new = with_option(old, str(key), value)
    except yaml.YAMLError as error:
        raise StoreError(f"cannot be changed: {type(error).__name__}", path) from None
    except ValueError as error:
        raise StoreError(f"cannot be changed: {error}", path) from None
    write_atomic(path, new.encode("utf-8", "surrogateescape"), mode)


def with_option(text: str, key: str, value: Any) -> str:
    """
    The text of a file with one option set.

    @raises ValueError: the text is no map, or one that cannot be changed line by line.
    @raises yaml.YAMLError: it is no YAML, or the value cannot be written as such.
    """
    before = load_yaml(text)
    if before is not None and not isinstance(before, Mapping):
        raise ValueError("it is no map of options")
    line = as_yaml({key: value})
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    place = _lines_of(text, lines, key)
    if place is None:
        lines.append(line)
    else:
        first, last = place
        lines[first:last] = [line]
    made = "".join(lines)
    if load_yaml(made) != {**(before or {}), key: value}:
        raise ValueError("it is not written option by option")
    return made


def _lines_of(text: str, lines: Sequence[str], key: str) -> tuple[int, int] | None:
    """The first line of an option, and that behind its last."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        return None
    for name, value in node.value:
        if name.value == key:
            end = value.end_mark
            last = end.line + (1 if end.column else 0)
            if isinstance(value, yaml.CollectionNode):
                # A block ends where the next option begins: comments between are no part of it
                while lines[last - 1].lstrip()[:1] in ("", "#"):
                    last -= 1
            return name.start_mark.line, last
    return None


def write_part(folder: str, name: Any, contents: Any) -> str:
    """
    Write C{name.conf} into the folder of further files.

    @return: what was done, in stock's words.
    @raises StoreError: the name leads elsewhere, or the disk refuses.
    """
    if not isinstance(name, str) or not name or name.startswith(".") or {"/", "\0"} & set(name):
        raise StoreError("Invalid path", str(name))
    try:
        text = as_yaml(contents)
    except yaml.YAMLError as error:
        raise StoreError(f"cannot be written as YAML: {error}", name) from None
    path = os.path.join(folder, f"{name}.conf")
    try:
        os.makedirs(folder, 0o755, exist_ok=True)
        if os.path.islink(path):
            raise StoreError("Invalid path", path)
    except OSError as error:
        raise store_error(error, folder) from None
    write_atomic(path, text.encode(), 0o640)
    return f"Wrote {name}.conf"


def as_yaml(value: Any) -> str:
    """Plain data as lines of YAML."""
    return str(yaml.safe_dump(value, default_flow_style=False, allow_unicode=True))
