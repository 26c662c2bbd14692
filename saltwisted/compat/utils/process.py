"""C{salt.utils.process}: processes of this machine by their ids."""

from __future__ import annotations

import os
from typing import Any


def os_is_running(pid: Any) -> bool:
    """Whether there is a process of this id."""
    if isinstance(pid, str):
        pid = int(pid)
    return pid > 0 and os.path.isdir(f"/proc/{pid}")


def get_pidfile(pidfile: str) -> int:
    """The id in a file; -1: there is none."""
    try:
        with open(pidfile, encoding="utf-8") as file:
            return int(file.read().strip())
    except (OSError, ValueError):
        return -1


def check_pidfile(pidfile: str) -> bool:
    """Whether there is such a file."""
    return os.path.isfile(pidfile)


def appendproctitle(name: str) -> None:
    """Processes of saltwisted have names of their own."""
