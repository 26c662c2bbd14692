"""
C{salt.utils.vt}: a program that believes it has a terminal.

Its standard input and output are a pseudo terminal, its standard error is a pipe, as in stock.
"""

from __future__ import annotations

import codecs
import fcntl
import logging
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import Any

LEVELS = {"quiet": 1000, "profile": 15, "trace": 5, "garbage": 1}
"""Salt's own words for levels of the log; Python knows the others."""
PATIENCE = 0.1
"""Seconds that each signal has to end the program."""


class TerminalException(Exception):
    """The program cannot be started, or does not end."""


def setwinsize(child: int, rows: int = 80, cols: int = 80) -> None:
    """Give a terminal a size."""
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def getwinsize(child: int) -> tuple[int, int]:
    """A terminal's rows and columns."""
    found = fcntl.ioctl(child, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    return struct.unpack("HHHH", found)[:2]


class _Source:
    """One stream of the program: what has come of it, where it is shown and logged."""

    def __init__(self, descriptor: int, shown: Any, log: Callable[[str], None]) -> None:
        self.descriptor: int | None = descriptor
        self.ended = False
        self._shown = shown
        self._log = log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, size: int) -> str | None:
        """What can be read now; C{None}: it has ended."""
        if self.descriptor is None:
            return None
        try:
            data = os.read(self.descriptor, size)
        except OSError:  # a terminal that nobody has open any more
            data = b""
        if not data:
            self.ended = True
            self.close()
            return None
        text = self._decoder.decode(data).replace("\r\n", os.linesep)
        self._log(text)
        if self._shown is not None:
            self._shown.write(text)
            self._shown.flush()
        return text

    def close(self) -> None:
        """Read no more."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class Terminal:
    """
    A program, begun at once.

    @param args: its words, or with C{shell} a line.
    @param stream_stdout: C{True}, or where its output is written as it comes; C{stream_stderr} so.
    @param log_stdout: C{True}, or a logger for its output; C{log_stdin}, C{log_stderr} so.
    @param log_sanitize: a text that the log shows as stars.
    @raises TerminalException: it cannot be begun.
    """

    def __init__(
        self,
        args: Any = None,
        executable: str | None = None,
        shell: bool = False,
        cwd: str | None = None,
        env: Any = None,
        preexec_fn: Callable[[], object] | None = None,
        rows: int | None = None,
        cols: int | None = None,
        log_stdin: Any = None,
        log_stdin_level: Any = "debug",
        log_stdout: Any = None,
        log_stdout_level: Any = "debug",
        log_stderr: Any = None,
        log_stderr_level: Any = "debug",
        log_sanitize: str | None = None,
        stream_stdout: Any = None,
        stream_stderr: Any = None,
        force_receive_encoding: str = "utf-8",
    ) -> None:
        if not args and not executable:
            raise TerminalException('You need to pass at least one of "args", "executable" ')
        shown = (
            _stream("stream_stdout", stream_stdout, sys.stdout),
            _stream("stream_stderr", stream_stderr, sys.stderr),
        )
        size = shutil.get_terminal_size((80, 24))
        self.rows, self.cols = rows or size.lines, cols or size.columns
        self.log_sanitize = log_sanitize
        self.exitstatus: int | None = None
        self.signalstatus: int | None = None
        line = " ".join(args) if shell and not isinstance(args, str) else args
        ours, theirs = pty.openpty()
        setwinsize(theirs, self.rows, self.cols)
        errors, into = os.pipe()
        try:
            self.proc = subprocess.Popen(
                line,
                executable=executable,
                shell=shell,
                cwd=cwd,
                env=env,
                preexec_fn=preexec_fn,
                stdin=theirs,
                stdout=theirs,
                stderr=into,
                start_new_session=True,
            )
        except Exception as error:
            os.close(ours)
            os.close(errors)
            raise TerminalException(f"Failed to spawn the VT. Error: {error}") from error
        finally:
            os.close(theirs)
            os.close(into)
        self.pid = self.proc.pid
        self._in = self._logging("STDIN", log_stdin, log_stdin_level)
        self._out = _Source(ours, shown[0], self._logging("STDOUT", log_stdout, log_stdout_level))
        self._err = _Source(errors, shown[1], self._logging("STDERR", log_stderr, log_stderr_level))

    def _logging(self, name: str, wanted: Any, level: Any) -> Callable[[str], None]:
        if wanted is None or wanted is False:
            return lambda text: None
        logger = wanted
        if wanted is True:
            logger = logging.getLogger(f"{__name__}.Terminal.PID-{self.pid}.{name}")
        number = level
        if isinstance(level, str):
            number = LEVELS.get(level) or logging.getLevelName(level.upper())

        def log(text: str) -> None:
            shown = text.replace(self.log_sanitize, "******") if self.log_sanitize else text
            if shown.rstrip():
                logger.log(number, "%s", shown.rstrip())

        return log

    @property
    def has_unread_data(self) -> bool:
        """Whether one of its streams has not ended."""
        return not (self._out.ended and self._err.ended)

    def send(self, data: str) -> int | None:
        """Type something; how much of it was taken, C{None} where nothing can be any more."""
        if self._out.descriptor is None:
            return None
        if not select.select([], [self._out.descriptor], [], 0)[1]:
            return 0
        self._in(data)
        try:
            return os.write(self._out.descriptor, data.encode())
        except OSError:
            self.close()
            return None

    def sendline(self, data: str, linesep: str = os.linesep) -> int | None:
        """Type a line."""
        return self.send(f"{data}{linesep}")

    def recv(self, maxsize: int | None = None) -> tuple[str | None, str | None]:
        """What has come by now on both streams; C{None} of one that has ended."""
        gone = not self.isalive()
        several = [each for each in (self._out, self._err) if each.descriptor is not None]
        ready = select.select([each.descriptor for each in several], [], [], 0)[0]
        if gone and not ready:
            # A child of it may have them open still
            for each in several:
                each.ended = True
                each.close()
        answer = [
            source.read(max(maxsize or 1024, 1))
            if source.descriptor in ready or source.descriptor is None
            else ""
            for source in (self._out, self._err)
        ]
        return answer[0], answer[1]

    def isalive(self) -> bool:
        """Whether it runs."""
        status = self.proc.poll()
        if status is None:
            return True
        self.exitstatus = status if status >= 0 else None
        self.signalstatus = -status if status < 0 else None
        return False

    def wait(self) -> int | None:
        """Wait until it has ended; its exit status."""
        self.proc.wait()
        self.isalive()
        return self.exitstatus

    def terminate(self, force: bool = False) -> bool:
        """
        Ask it to end by several signals; whether it has.

        @param force: by one that it cannot refuse, too.
        """
        for number in (
            *(signal.SIGHUP, signal.SIGCONT, signal.SIGINT, signal.SIGTERM),
            *((signal.SIGKILL,) if force else ()),
        ):
            if not self.isalive():
                return True
            self.proc.send_signal(number)
            end = time.monotonic() + PATIENCE
            while self.isalive() and time.monotonic() < end:
                time.sleep(0.005)
        return not self.isalive()

    def kill(self) -> None:
        """End it at once."""
        self.proc.kill()

    def close(self, terminate: bool = True, kill: bool = False) -> None:
        """
        Read and write no more, and end it.

        @raises TerminalException: it does not end.
        """
        self._out.close()
        self._err.close()
        if terminate and not self.terminate(kill):
            raise TerminalException("Failed to terminate child process.")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *about: object) -> None:
        self.close(terminate=True, kill=True)
        self.proc.wait()


def _stream(name: str, wanted: Any, own: Any) -> Any:
    """Where a stream is shown."""
    if wanted is True or wanted is False:
        return own if wanted else None
    if not all(hasattr(wanted, each) for each in ("write", "flush", "close")):
        raise TerminalException(
            f"Don't know how to handle '{wanted}' as the VT's '{name}' parameter."
        )
    return wanted
