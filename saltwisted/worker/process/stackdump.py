"""
SIGUSR1 and SIGUSR2 as in Salt: the present stack of the process, and a profile.

Neither ends anything: not the daemon, and not its workers, which C{systemctl kill} reaches too. The
handlers run between two steps of Python, even if the process is caught in a loop: that is their
purpose. Each warm parent has this module, so what only the handlers need is imported when they run.
The form of the dump and the names of files are those of Salt's C{salt/utils/debug.py}.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, TextIO

    Tell = Callable[[str], object]
    """Takes one line for the log; it must be safe to call within a signal handler."""


def install(tell: Tell = lambda line: None) -> None:
    """Take both signals; to be called in the main thread."""
    signal.signal(signal.SIGUSR1, lambda number, frame: dump(frame, tell))
    signal.signal(signal.SIGUSR2, lambda number, frame: profile(tell))


def dump(frame: FrameType | None, tell: Tell) -> None:
    """Write the stacks of all threads to the terminal, or to a file of its own."""
    if sys.stderr is not None and sys.stderr.isatty():
        _write(frame, sys.stderr)
        return
    try:
        path, number = _fresh_file(f"salt-debug-{int(time.time())}", ".log")
        with open(number, "w", encoding="utf-8") as stream:
            _write(frame, stream)
    except OSError as error:
        tell(f"SIGUSR1: the stack trace cannot be written: {error}")
    else:
        tell(f"SIGUSR1: the stack trace is in {path}")


def _write(frame: FrameType | None, stream: TextIO) -> None:
    import threading
    import traceback

    stream.write("======== Salt Debug Stack Trace =========\n")
    traceback.print_stack(frame, file=stream)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, other in sys._current_frames().items():
        if ident != threading.get_ident():
            stream.write(f"-------- thread {names.get(ident, ident)}\n")
            traceback.print_stack(other, file=stream)
    stream.write("=========================================\n")


def _fresh_file(start: str, end: str) -> tuple[str, int]:
    """
    A new file in the directory for such: never one, or a link, that somebody has put there.

    @return: its path and an open descriptor.
    """
    import tempfile

    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for middle in ("", f"-{os.getpid()}", f"-{os.getpid()}-{os.urandom(4).hex()}"):
        path = os.path.join(tempfile.gettempdir(), start + middle + end)
        try:
            return path, os.open(path, flags, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(path)


def profile(tell: Tell) -> None:
    """Start yappi, or stop it and keep what it has found; nothing where it is not installed."""
    import importlib

    try:
        yappi: Any = importlib.import_module("yappi")
    except ImportError:
        tell("SIGUSR2: profiling needs the Python module yappi")
        return
    if not yappi.is_running():
        yappi.start()
        tell("SIGUSR2: profiling has started; send the signal again to stop it")
        return
    yappi.stop()
    try:
        path, number = _fresh_file(f"callgrind.salt-{int(time.time())}-{os.getpid()}", "")
        os.close(number)
        yappi.get_func_stats().save(path, type="CALLGRIND")
    except OSError as error:
        tell(f"SIGUSR2: the profile cannot be written: {error}")
    else:
        tell(f"SIGUSR2: the profile is in {path}")
    yappi.clear_stats()
