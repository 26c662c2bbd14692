"""
Loaded first by every Python process of a watched site: writes down what it creates where.

One JSON line per event in C{$SALTWISTED_WATCH}: C{[pid, event, path, flags, parent's mode]};
C{flags} are those of C{open(2)}. Reading is not written down. Audit hooks see what Python
code asks for, which is all that our own code does.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

_LOG = os.environ.get("SALTWISTED_WATCH", "")
_CREATE = os.O_CREAT


def _note(event: str, path: Any, flags: int) -> None:
    try:
        text = os.fsdecode(path)
    except TypeError:
        return  # an open descriptor, or the address of another kind of socket
    text = os.path.abspath(text)
    if text.startswith(("/dev/", "/proc/")) or text == _LOG:
        return
    try:
        mode = stat.S_IMODE(os.stat(os.path.dirname(text)).st_mode)
    except OSError:
        return
    line = f"{os.getpid()}\t{event}\t{flags}\t{mode:o}\t{text!r}\n"
    fd = os.open(_LOG, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line.encode("utf-8", "replace"))
    finally:
        os.close(fd)


_inside = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    global _inside
    if _inside:
        return
    _inside = True
    try:
        if event == "open":
            path, _mode, flags = args
            if flags & _CREATE:
                _note("open", path, flags)
        elif event in ("os.mkdir", "sqlite3.connect", "tempfile.mkstemp", "tempfile.mkdtemp"):
            _note(event, args[0], 0)
        elif event in ("os.rename", "os.link", "os.symlink", "socket.bind"):
            _note(event, args[1], 0)
    finally:
        _inside = False


if _LOG:
    sys.addaudithook(_hook)
