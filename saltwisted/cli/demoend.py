"""
The end of a demo that was left running: its daemons, then its directory.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from contextlib import suppress

NAME = "saltwisted-demo-"
"""How the directory of a demo is called, followed by something that is random."""
STOP_LIMIT = 30.0
"""Seconds after which a daemon that was asked to end is killed."""


class NoDemo(Exception):
    """There is no demo of this user in a directory."""


def end(root: str) -> int:
    """
    End what runs in the directory of a demo, and remove that.

    @return: how many daemons there were.
    @raises NoDemo: it is no such directory, or another user's.
    """
    root = os.path.realpath(root)
    try:
        owner = os.lstat(root).st_uid
    except OSError as error:
        raise NoDemo(f"{root}: {error.strerror}") from None
    if not os.path.basename(root).startswith(NAME) or not os.path.isdir(root):
        raise NoDemo(f"{root} is no directory of a demo")
    if owner != os.geteuid():
        raise NoDemo(f"{root} belongs to another user")
    count = _end_all(root, signal.SIGTERM)
    # Whoever has not ended by now does not listen
    _end_all(root, signal.SIGKILL)
    shutil.rmtree(root)
    return count


def running(root: str) -> list[int]:
    """The processes of this user whose command names something in the directory of a demo."""
    inside = os.fsencode(root + os.sep)
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid != os.geteuid():
                continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if any(word.startswith(inside) for word in file.read().split(b"\0")):
                    found.append(int(name))
    return found


def _end_all(root: str, number: int) -> int:
    """Signal all that runs there, and wait until it has ended; how many there were."""
    until = time.monotonic() + STOP_LIMIT
    poll = select.poll()
    processes: list[int] = []
    for pid in running(root):
        with suppress(ProcessLookupError):
            processes.append(os.pidfd_open(pid))
            signal.pidfd_send_signal(processes[-1], number)
    for process in processes:
        poll.register(process, select.POLLIN)
    waiting = set(processes)
    while waiting and (left := until - time.monotonic()) > 0:
        for process, _ in poll.poll(left * 1000):
            poll.unregister(process)
            waiting.discard(process)
    for process in processes:
        os.close(process)
    return len(processes)
