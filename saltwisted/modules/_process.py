"""
Starting a program, waiting for it, and reading what it said.

The machinery below C{cmd.*}. It knows nothing of options, templates or logging.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

from saltwisted.worker.exceptions import CommandExecutionError, TimedProcTimeoutError

log = logging.getLogger(__name__)

_PIECES = re.compile(r"[^\s'\"`;|&<>(){}$=,]+")
"""What a shell, or a reader, takes for words."""


class BadTimeout(TimedProcTimeoutError):
    """A C{timeout} that is not a number; the command was not started."""


def run(
    cmd: Any,
    stdin: str | None,
    timeout: Any,
    options: dict[str, Any],
    wait: bool = True,
    capture: bool = True,
    raw_newlines: bool = False,
) -> tuple[int, int | None, bytes | None, bytes | None]:
    """
    Start a command and, unless told otherwise, wait for its end.

    @param timeout: seconds, a number; then the program and all its descendants are killed.
    @param options: for L{subprocess.Popen}.
    @param raw_newlines: leave a backslash and an C{n} in the input as they are.
    @return: process id, exit code, standard output, standard error.
    @raises OSError: it could not be started.
    @raises TimedProcTimeoutError: it ran too long; has C{pid}.
    @raises BadTimeout: the timeout is not a number.
    """
    if timeout and (isinstance(timeout, bool) or not isinstance(timeout, (int, float))):
        raise BadTimeout(f"Error: timeout {timeout} must be a number")
    options = dict(options)
    data = None
    if not wait or not capture:
        options["stdout"] = options["stderr"] = None
    if wait and stdin is not None:
        data = (stdin if raw_newlines else stdin.replace("\\n", "\n")).encode()
        options["stdin"] = subprocess.PIPE
    if isinstance(cmd, (list, tuple)):
        cmd = [word if isinstance(word, (str, bytes)) else str(word) for word in cmd]
    elif not isinstance(cmd, (str, bytes)):
        cmd = str(cmd)
    process = subprocess.Popen(cmd, **options)
    if not wait:
        return process.pid, None, None, None
    if not capture:
        process.wait()
        return process.pid, process.returncode, None, None
    try:
        out, err = process.communicate(data, timeout=timeout or None)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
        error = TimedProcTimeoutError(f"{cmd} : Timed out after {timeout} seconds")
        error.pid = process.pid  # type: ignore[attr-defined]
        raise error from None
    return process.pid, process.returncode, out, err


def kill_tree(pid: int) -> None:
    """SIGKILL to a process and all that descend from it, the process itself first."""
    for each in [pid, *descendants(pid)]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, from C{/proc}; those gone meanwhile are left out."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name in brackets may hold blanks and brackets: count from its end.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def text(data: bytes | None, encoding: str | None) -> str:
    """
    The output of a program: in this encoding, else UTF-8, else as the system has it.

    What cannot be read becomes replacement characters.
    """
    if data is None:
        return ""
    for name in [encoding] if encoding else ["utf-8", sys.getfilesystemencoding()]:
        try:
            return data.decode(name)
        except UnicodeDecodeError:
            continue
    return data.decode(encoding or "utf-8", "replace")


def home(user: str | None) -> str:
    """The home directory of a user (or the current one) if it can be read, else the root."""
    place = os.path.expanduser(f"~{user or ''}")
    return place if os.access(place, os.R_OK) and os.path.isdir(place) else "/"


LOGIN_TIMEOUT = 10
"""Seconds that a login may take. One that waits for input never ends."""


def _of_login(words: list[str]) -> bytes | None:
    """What a login prints; C{None} if it takes too long. It is ended then, with its children."""
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as login:
        try:
            return login.communicate(timeout=LOGIN_TIMEOUT)[0]
        except subprocess.TimeoutExpired:
            # At this, su ends the shell that it has put into a session of its own
            os.killpg(login.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                login.wait(3)
            with suppress(ProcessLookupError):
                os.killpg(login.pid, signal.SIGKILL)
            return None


def login_environment(user: str, shell: str | None) -> dict[str, str]:
    """
    The variables that a login of this user sets, asked from C{su}.

    @raises CommandExecutionError: the shell's start-up files garbled the answer.
    """
    marker = f"<<<{os.urandom(16).hex()}>>>"
    words = ["su", *(("-s", shell) if shell else ()), "-", user, "-c"]
    # Start-up files may print what they like before and after the two marks.
    words.append(f"printf %s '{marker}'; env -0; printf %s '{marker}'")
    try:
        output = _of_login(words)
    except OSError as error:
        raise CommandExecutionError(
            f"Environment could not be retrieved for user '{user}': {type(error).__name__}"
        ) from error
    if output is None:
        log.error(
            "The login of user '%s' did not end within %s s; its environment is not used.",
            user,
            LOGIN_TIMEOUT,
        )
        return {}
    parts = output.split(marker.encode())
    if len(parts) == 1:
        return {}
    if len(parts) != 3:
        raise CommandExecutionError(f"Environment could not be retrieved for user '{user}'")
    found = {}
    for item in parts[1].split(b"\0"):
        name, equals, value = item.partition(b"=")
        if equals and name != b"_":
            found[os.fsdecode(name)] = os.fsdecode(value)
    return found


def secrets(cmd: Any, stdin: Any, env: dict[str, str]) -> list[str]:
    """What the caller passed in and a log must not show: words, values, pieces of both."""
    words = cmd if isinstance(cmd, (list, tuple)) else str(cmd).split()
    found: set[str] = set()
    for text in (*map(str, words[1:]), *env.values(), str(stdin or "")):
        found.add(text)
        found.update(_PIECES.findall(text))
    return sorted((word for word in found if len(word) >= 5), key=len, reverse=True)


def blot(output: str, words: list[str]) -> str:
    """The text with these words replaced by stars."""
    for word in words:
        output = output.replace(word, "**********")
    return output


def in_terminal(
    cmd: Any, shell: str | None, timeout: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """
    Run a command on a pseudo terminal of its own, copying its output to ours.

    Standard error has a second one, so that the two can be told apart.
    """
    import fcntl
    import pty
    import shlex
    import struct
    import termios

    if isinstance(cmd, (list, tuple)):
        cmd = shlex.join(str(word) for word in cmd)
    out_master, out_slave = pty.openpty()
    err_master, err_slave = pty.openpty()
    for descriptor in (out_slave, err_slave):
        # The terminal of a person needs a carriage return before each line feed; what is read
        # here is data, as it would be without a terminal
        attributes = termios.tcgetattr(descriptor)
        attributes[1] &= ~termios.ONLCR
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        cmd,
        shell=True,
        executable=shell,
        stdin=out_slave,
        stdout=out_slave,
        stderr=err_slave,
        start_new_session=True,
        **options,
    )
    os.close(out_slave)
    os.close(err_slave)
    read: dict[int, bytearray] = {out_master: bytearray(), err_master: bytearray()}
    timed_out = not _copied(read, {out_master: sys.stdout, err_master: sys.stderr}, timeout)
    if timed_out:
        kill_tree(process.pid)
    process.wait()
    os.close(out_master)
    os.close(err_master)
    err = text(bytes(read[err_master]), None)
    if timed_out:
        err = f"SALT: Timeout after {timeout}s\n{err}"
    return {
        "pid": process.pid,
        "retcode": None if timed_out else process.returncode,
        "stdout": text(bytes(read[out_master]), None),
        "stderr": err,
    }


def _copied(read: dict[int, bytearray], streams: dict[int, TextIO], timeout: Any) -> bool:
    """
    Read from descriptors, and copy to streams, until nobody writes any more.

    @return: false if the time ran out before that.
    """
    import select

    deadline = time.monotonic() + timeout if timeout else None
    waiting = list(read)
    while waiting:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        ready = select.select(waiting, [], [], left)[0]
        if not ready:
            return False
        for descriptor in ready:
            try:
                chunk = os.read(descriptor, 65536)
            except OSError:
                # The other side of a terminal is gone: EIO.
                chunk = b""
            if chunk:
                read[descriptor] += chunk
                stream = streams[descriptor]
                stream.write(chunk.decode("utf-8", "replace"))
                stream.flush()
            else:
                waiting.remove(descriptor)
    return True
