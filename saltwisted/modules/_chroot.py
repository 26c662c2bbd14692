"""
A directory as the root of a command: what is mounted there, and what is left running there.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

from saltwisted.modules import _process
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


@contextlib.contextmanager
def mounted(root: str, binds: Any) -> Iterator[None]:
    """
    Have the kernel's file systems and some directories visible below a root for a while.

    What runs below it is terminated before the mounts are undone.

    @param binds: the directories, or C{None}.
    """
    mounts: list[str] = []
    try:
        for kind, where in (("devtmpfs", "dev"), ("proc", "proc"), ("sysfs", "sys")):
            mount(mounts, os.path.join(root, where), kind, ["-t", kind])
        for bind in binds or ():
            target = os.path.join(root, os.path.relpath(bind, "/"))
            mount(mounts, target, bind, ["--bind"])
        yield
    finally:
        _end(root)
        for target in reversed(mounts):
            _process.run(["umount", target], None, None, {"stderr": subprocess.PIPE})


def mount(done: list[str], target: str, device: str, options: list[str]) -> None:
    """Mount something unless there is something; C{done} collects what to undo."""
    if os.path.ismount(target):
        return
    os.makedirs(target, exist_ok=True)
    _, code, _, err = _process.run(
        ["mount", *options, device, target], None, None, {"stderr": subprocess.PIPE}
    )
    if code != 0:
        raise CommandExecutionError(f"Unable to mount {target}: {_process.text(err, None)}")
    done.append(target)


def _end(root: str) -> None:
    """Terminate, then kill, what runs below this root."""
    for attempt in range(6):
        pids = _pids(root)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGTERM if attempt < 3 else signal.SIGKILL)
            except ProcessLookupError:
                pass
    if _pids(root):
        log.error("Processes running in chroot could not be killed, filesystem will remain mounted")


def _pids(chroot: str) -> list[int]:
    real = os.path.realpath(chroot)
    found = []
    for link in glob.glob("/proc/[0-9]*/root"):
        try:
            place = os.readlink(link)
        except OSError:
            continue
        if real != "/" and (place == real or place.startswith(real + "/")):
            found.append(int(link.split("/")[2]))
    return found
