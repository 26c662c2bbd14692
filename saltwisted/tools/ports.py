"""
Who listens on a port of this machine, from C{/proc}.
"""

from __future__ import annotations

import os

_LISTEN = "0A"


def listening(port: int) -> set[str]:
    """The inodes of sockets that listen on a TCP port, of both IP versions."""
    found: set[str] = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as stream:
                rows = stream.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            words = row.split()
            if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                found.add(words[9])
    return found


def listener(port: int, first: int = 0) -> str:
    """
    Which process listens on a port, as C{name (pid N)}; empty when none does.

    Processes of others are C{another user's process} to whoever is not root.

    @param first: the pid that is looked at first: a child that it has just forked holds its sockets
        for a moment, too.
    """
    inodes = {f"socket:[{inode}]" for inode in listening(port)}
    if not inodes:
        return ""
    pids = filter(str.isdigit, os.listdir("/proc"))
    for pid in (str(first), *pids) if first else pids:
        try:
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") in inodes:
                    return f"{_command(pid)} (pid {pid})"
        except OSError:
            continue
    return "another user's process"


def _command(pid: str) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as stream:
        words = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").split()
    names = [os.path.basename(word) for word in words[:3] if not word.startswith("-")]
    return " ".join(names) or "?"
