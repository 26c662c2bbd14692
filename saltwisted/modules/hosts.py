"""
The file C{/etc/hosts} (option C{hosts.file}).
"""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

from saltwisted.modules import _files

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__context__: dict[str, Any]


def _path() -> str:
    key = "hosts.__get_hosts_filename"
    if key not in __context__:
        __context__[key] = __salt__["config.option"]("hosts.file")
    return __context__[key] or ""


def _usable_path() -> str:
    """The path of the file, which is made if it is not there; empty if it is not a file."""
    path = _path()
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8"):
            pass
    return path if os.path.isfile(path) else ""


def _list_hosts() -> dict[str, Any]:
    """Address to C{aliases} and C{comment}; lines that are comments under names of their own."""
    key = "hosts._list_hosts"
    if key in __context__:
        found: dict[str, Any] = __context__[key]
        return found
    found = {}
    comments = 0
    try:
        with open(_path(), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError as error:
        _files.read_error(error, _path(), (errno.ENOENT,))
        return found
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            found.setdefault(f"comment-{comments}", []).append(text)
            comments += 1
            continue
        data, _mark, comment = text.partition("#")
        words = data.split()
        if not words:
            continue
        entry = found.setdefault(words[0], {})
        entry.setdefault("aliases", []).extend(words[1:])
        if comment.lstrip():
            entry["comment"] = comment.lstrip()
    __context__[key] = found
    return found


def list_hosts() -> dict[str, Any]:
    """
    All entries, by address.

    CLI Example::

        salt '*' hosts.list_hosts
    """
    return dict(_list_hosts())


def get_ip(host: str) -> str:
    """
    The address of a name, or the empty string.

    CLI Example::

        salt '*' hosts.get_ip <hostname>
    """
    for address, entry in _list_hosts().items():
        if isinstance(entry, dict) and host in entry.get("aliases", ()):
            return address
    return ""


def get_alias(ip: str) -> list[str]:
    """
    The names of an address.

    CLI Example::

        salt '*' hosts.get_alias <ip addr>
    """
    hosts = _list_hosts()
    return list(hosts[ip]["aliases"]) if ip in hosts else []


def has_pair(ip: str, alias: Any) -> bool:
    """
    Whether an address has a name, or all names of a list.

    CLI Example::

        salt '*' hosts.has_pair <ip> <alias>
    """
    hosts = _list_hosts()
    if ip not in hosts:
        return False
    names = alias if isinstance(alias, list) else [alias]
    return set(names) <= set(hosts[ip]["aliases"])


def set_host(ip: str, alias: str, comment: str | None = None) -> bool:
    """
    Make these names, text with blanks, the only ones of an address; none removes it.

    CLI Example::

        salt '*' hosts.set_host <ip> <alias>
    """
    path = _usable_path()
    if not path:
        return False
    __context__.pop("hosts._list_hosts", None)
    wanted = f"{ip}\t\t{alias}" + (f"\t\t# {comment}" if comment else "") + "\n"
    if not alias.strip():
        wanted = ""
    lines = []
    placed = False
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if line.strip().split(None, 1)[:1] == [ip]:
                line = "" if placed else wanted
                placed = True
            lines.append(line)
    if not placed:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(wanted)
    _put(path, lines)
    return True


def _put(path: str, lines: list[str]) -> None:
    # The file itself is rewritten: in containers it is often a mount of its own.
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)


def rm_host(ip: str, alias: str) -> bool:
    """
    Take a name from an address; without names left the address goes as well.

    CLI Example::

        salt '*' hosts.rm_host <ip> <alias>
    """
    if not has_pair(ip, alias):
        return True
    __context__.pop("hosts._list_hosts", None)
    path = _usable_path()
    lines = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            data, mark, comment = line.strip().partition("#")
            words = data.split()
            if words[:1] == [ip]:
                left = [word for word in words[1:] if word != alias]
                line = ""
                if left:
                    note = f"# {comment.lstrip()}" if mark and comment.lstrip() else ""
                    line = f"{ip}\t\t{' '.join(left)} {note}\n"
            lines.append(line)
    _put(path, lines)
    return True


def add_host(ip: str, alias: str) -> bool:
    """
    Give an address a further name.

    CLI Example::

        salt '*' hosts.add_host <ip> <alias>
    """
    if not _usable_path():
        return False
    if has_pair(ip, alias):
        return True
    hosts = _list_hosts()
    __context__.pop("hosts._list_hosts", None)
    hosts.setdefault(ip, {}).setdefault("aliases", []).append(alias)
    _write_hosts(hosts)
    return True


def set_comment(ip: str, comment: str) -> bool:
    """
    Set the comment of an address; false if it is not there.

    CLI Example::

        salt '*' hosts.set_comment <ip> <comment>
    """
    if not _usable_path():
        return False
    hosts = _list_hosts()
    __context__.pop("hosts._list_hosts", None)
    if ip not in hosts:
        return False
    if hosts[ip].get("comment") != comment:
        hosts[ip]["comment"] = comment
        _write_hosts(hosts)
    return True


def _write_hosts(hosts: dict[str, Any]) -> None:
    lines = []
    for ip, entry in hosts.items():
        if isinstance(entry, list):
            line = "".join(entry)
        else:
            line = f"{ip}\t\t{' '.join(entry['aliases'])}"
            if "comment" in entry:
                line += f"\t\t# {entry['comment']}"
        if line.strip():
            lines.append(f"{line.strip()}\n")
    _put(_usable_path(), lines)
