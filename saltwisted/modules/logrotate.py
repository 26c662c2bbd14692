"""
The configuration of logrotate.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]

__func_alias__ = {"set_": "set"}

_CONF = "/etc/logrotate.conf"
_SCRIPTS = ("firstaction", "lastaction", "prerotate", "postrotate", "preremove")
"""What follows these, up to C{endscript}, is a shell's."""

_SINGLE = 8
_WHOLE = 24
"""C{file.replace}'s flags: a line, and text over several lines."""


def _value(words: list[str]) -> Any:
    """The value of a setting: true, a number, or text."""
    if not words:
        return True
    text = " ".join(words)
    try:
        return int(text) if len(words) == 1 else text
    except ValueError:
        return text


def _are_names(words: list[str]) -> bool:
    """Whether a line outside of blocks names files, whose block is to follow."""
    return all(
        word.startswith(("/", "~", '"', "'")) or any(sign in word for sign in "*?[")
        for word in words
    )


def _include(folder: str, found: dict[str, Any]) -> None:
    """Read the files of a directory; what each says is also kept under its name."""
    names = found.setdefault("include files", {})
    for name in os.listdir(folder):
        keys = names.setdefault(name, [])
        for key, value in _parsed(os.path.join(folder, name)).items():
            found[key] = value
            keys.append(key)


def _parsed(path: str) -> dict[str, Any]:
    """
    Settings by name, and blocks by each of their names.

    What is included is there too; C{include files} says what came from where.
    """
    found: dict[str, Any] = {}
    block: dict[str, Any] | None = None
    names: list[str] = []
    before: list[str] = []  # The names so far of the block that is to come
    script: list[str] | None = None
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.strip() for line in file]
    for line in lines:
        if script is not None:
            if line == "endscript":
                script = None
            else:
                script.append(line)
            continue
        if not line or line.startswith("#"):
            continue
        if line.endswith("{") or ("{" in line and "}" not in line):
            block = {}
            names = [*before, *line[: line.rindex("{")].split()]
            before = []
            continue
        words = line.split()
        if "}" in line:
            found.update(dict.fromkeys(names, {} if block is None else block))
            names, block = [], None
            continue
        place = found if block is None else block
        if block is None and _are_names(words):
            before += words
            continue
        if words[0] == "include":
            found["include"] = words[1]
            _include(words[1], found)
        if words[0] in _SCRIPTS and len(words) == 1:
            script = place[words[0]] = []
            continue
        place[words[0]] = _value(words[1:])
    found.update(dict.fromkeys(before, True))
    return found


def show_conf(conf_file: str = _CONF) -> dict[str, Any]:
    """
    The whole configuration, what is included too.

    CLI Example::

        salt '*' logrotate.show_conf
    """
    return _parsed(conf_file)


def get(key: str, value: str | None = None, conf_file: str = _CONF) -> Any:
    """
    A setting, or a block, or a setting of a block; false if it is not there.

    CLI Example::

        salt '*' logrotate.get rotate
        salt '*' logrotate.get /var/log/wtmp rotate /etc/logrotate.conf
    """
    found = _parsed(conf_file).get(key, False)
    if value and found:
        return found.get(value, False)
    return found


def _block(names: list[str], settings: dict[str, Any]) -> str:
    lines = [f"{' '.join(names)} {{"]
    for name, value in settings.items():
        if name in _SCRIPTS and isinstance(value, list):
            lines += [f"    {name}", *(f"        {line}" for line in value), "    endscript"]
        else:
            lines.append(f"    {name} {'' if value is True else value}")
    return "\n".join([*lines, "}"])


def set_(key: str, value: Any, setting: Any = None, conf_file: str = _CONF) -> Any:
    """
    Give a setting, or one of a block, another value. An included file is changed in its place.

    @param value: the value; of a block, the name of the setting.
    @param setting: the value of the block's setting.

    CLI Example::

        salt '*' logrotate.set rotate 2
        salt '*' logrotate.set /var/log/wtmp rotate 2
    """
    conf = _parsed(conf_file)
    for name, keys in conf.get("include files", {}).items():
        if key in keys:
            conf_file = os.path.join(conf["include"], name)
    change: dict[str, Any] = {"path": conf_file, "backup": False, "show_changes": False}
    if setting is None:
        current = conf.get(key, False)
        if isinstance(current, dict):
            raise SaltInvocationError(
                f"Error: {key} includes a dict, and a specific setting inside the dict was not"
                " declared"
            )
        if value == current:
            log.debug("Command '%s' already has: %s", key, value)
            return True
        line = key if value is True else f"{key} {value}" if value else ""
        change.update(flags=_SINGLE, pattern=f"^{key}.*", repl=line, prepend_if_not_found=True)
        return __salt__["file.replace"](**change)
    block = conf.get(key, {})
    if block and not isinstance(block, dict):
        raise SaltInvocationError(
            "Error: A setting for a dict was declared, but the configuration line given is not a"
            " dict"
        )
    if setting == block.get(value, False):
        log.debug("Command '%s' already has: %s", value, setting)
        return True
    if setting:
        block[value] = setting
    else:
        del block[value]
    # The names that share the block stay with it
    names = [name for name, value in conf.items() if value is block] or [key]
    before = r"\s+".join(re.escape(name) for name in names)
    text = _block(names, block)
    if "\\" in text:
        change["not_found_content"] = text
        text = text.replace("\\", "\\\\")
    # Up to a brace that begins a line: one inside of a line may be a script's
    change.update(flags=_WHOLE, pattern=rf"^{before}\s*{{.*?^\s*}}", repl=text)
    return __salt__["file.replace"](append_if_not_found=True, **change)
