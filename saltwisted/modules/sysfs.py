"""
The kernel's objects and their attributes below C{/sys}.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import Any

log = logging.getLogger(__name__)

__grains__: dict[str, Any]


def __virtual__() -> bool:
    return bool(__grains__["kernel"] == "Linux")


def attr(key: str, value: Any = None) -> Any:
    """
    Read an attribute, or write it if a value is given; of a directory, its path.

    CLI Example::

        salt '*' sysfs.attr block/sda/queue/logical_block_size
    """
    path = target(key)
    if path is False or os.path.isdir(path):
        return path
    return read(path) if value is None else write(path, value)


def write(key: str, value: Any) -> bool:
    """
    Write an attribute; whether the kernel took it.

    CLI Example::

        salt '*' sysfs.write devices/system/cpu/cpu0/cpufreq/scaling_governor 'performance'
    """
    path = target(key)
    if path is False:
        return False
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{value}\n")
    except OSError as error:
        log.debug("%s does not take %s: %s", path, value, error)
        return False
    return True


def _number(text: str) -> Any:
    """A number, if it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _value(path: str) -> Any:
    """What an attribute says; false if it says nothing, or may not be read."""
    try:
        # Some of them are like pipes: reading waits for ever unless it is told not to.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as file:
            text = file.read().strip()
    except (OSError, TypeError, UnicodeDecodeError):
        return False
    return _number(text) if text else False


def read(key: Any, root: str = "") -> Any:
    """
    Read an attribute, or all those of a directory; several if a list is given.

    @param root: in front of the key, or of each of them.

    CLI Example::

        salt '*' sysfs.read class/net/em1/statistics
    """
    if not isinstance(key, str):
        each = {name: read(os.path.join(root, name)) for name in key}
        return {name: value for name, value in each.items() if value is not False}
    path = target(os.path.join(root, key))
    if path is False:
        return False
    if not os.path.isdir(path):
        return _value(path)
    found: dict[str, Any] = {}
    names = interfaces(path)
    for name in names["r"] + names["rw"]:
        value = read(os.path.join(path, name))
        if value is not False:
            place = found
            *folders, last = name.split("/")
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = value
    return found


def target(key: str, full: bool = True) -> Any:
    """
    Where a key leads, links followed; false if there is nothing.

    @param full: the path rather than its last part.

    CLI Example::

        salt '*' sysfs.target class/ttyS0
    """
    path = os.path.realpath(key if key.startswith("/sys") else os.path.join("/sys", key))
    if not os.path.exists(path):
        log.debug("Unknown SysFS key %s", path)
        return False
    return path if full else os.path.basename(path)


def interfaces(root: str) -> Any:
    """
    The attributes below a directory: those to read (C{r}), to write (C{w}), and to do both (C{rw}).

    Links are not followed.

    CLI Example::

        salt '*' sysfs.interfaces block/bcache0/bcache
    """
    top = target(root)
    if top is False or not os.path.isdir(top):
        log.error("SysFS %s not a dir", top)
        return False
    found: dict[str, list[str]] = {"r": [], "w": [], "rw": []}
    for folder, _folders, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                continue
            mode = os.stat(path).st_mode
            kind = ("r" if mode & stat.S_IRUSR else "") + ("w" if mode & stat.S_IWUSR else "")
            if kind:
                found[kind].append(os.path.relpath(path, top))
            else:
                log.warning("Unable to find any interfaces in %s", path)
    return found
