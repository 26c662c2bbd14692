"""
The aliases of mail: C{/etc/aliases}, or the file that the option C{aliases.file} names.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from attrs import evolve, frozen

from saltwisted.modules import _files
from saltwisted.worker.exceptions import SaltInvocationError

__salt__: Any

__outputter__ = {
    "rm_alias": "txt",
    "has_target": "txt",
    "get_target": "txt",
    "set_target": "txt",
    "list_aliases": "yaml",
}

# Name, target, and what stands behind them: a comment with the space before it.
_LINE = re.compile(r"([^:#]*)\s*:?\s*([^#]*?)(\s+#.*|$)")


@frozen
class _Line:
    """One line of the file: an alias with its target and comment, or just a text."""

    text: str
    alias: str | None = None
    target: Any = None
    comment: str = ""

    def written(self) -> str:
        """
        The line as it is written.

        What is no alias stays as it is, where stock empties it: it may continue the line before.
        """
        target = ", ".join(self.target) if isinstance(self.target, list) else self.target
        if self.alias and target:
            return f"{self.alias}: {target}{self.comment}"
        return self.text


def _place() -> str:
    return os.path.realpath(str(__salt__["config.option"]("aliases.file")))


def _lines() -> list[_Line]:
    try:
        with open(_place(), encoding="utf-8", errors="surrogateescape") as file:
            found = file.read().splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []
    lines = []
    for text in found:
        parts = _LINE.match(text)
        lines.append(_Line(text, parts[1], parts[2], parts[3]) if parts else _Line(text))
    return lines


def _write(lines: list[_Line]) -> None:
    """Replace the file in one step, and have the mailer read it."""
    place = _place()
    text = "".join(f"{line.written()}\n" for line in lines)
    mode = None if os.path.exists(place) else 0o644
    _files.write_atomically(place, text.encode("utf-8", "surrogateescape"), mode)
    program = shutil.which("newaliases")
    if program is not None:
        __salt__["cmd.run"]([program], python_shell=False)


def list_aliases() -> dict[str, str]:
    """
    All aliases with their targets.

    CLI Example::

        salt '*' aliases.list_aliases
    """
    return {line.alias: line.target for line in _lines() if line.alias}


def get_target(alias: str) -> str:
    """
    The target of an alias; an empty text if there is no such alias.

    CLI Example::

        salt '*' aliases.get_target alias
    """
    return list_aliases().get(alias, "")


def has_target(alias: str, target: Any) -> bool:
    """
    Whether an alias has this target, a text or a list.

    CLI Example::

        salt '*' aliases.has_target alias target
    """
    if target == "":
        raise SaltInvocationError("target can not be an empty string")
    known = list_aliases()
    if alias not in known:
        return False
    return bool((", ".join(target) if isinstance(target, list) else target) == known[alias])


def set_target(alias: str, target: Any) -> bool:
    """
    Give an alias its target; the alias is added if it is not there.

    CLI Example::

        salt '*' aliases.set_target alias target
    """
    if alias == "":
        raise SaltInvocationError("alias can not be an empty string")
    if target == "":
        raise SaltInvocationError("target can not be an empty string")
    if get_target(alias) == target:
        return True
    lines: list[_Line] = []
    there = False
    for line in _lines():
        if line.alias != alias:
            lines.append(line)
        elif not there:
            lines.append(evolve(line, target=target))
            there = True
    if not there:
        lines.append(_Line("", alias, target))
    _write(lines)
    return True


def rm_alias(alias: str) -> bool:
    """
    Remove an alias.

    CLI Example::

        salt '*' aliases.rm_alias alias
    """
    if get_target(alias):
        _write([line for line in _lines() if line.alias != alias])
    return True
