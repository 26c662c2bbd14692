"""
The git program, run so that neither a remote nor a repository decides what is executed.

Git's own variables in the environment are not passed on. Hooks, filters, monitors and transports
that are programs are off, whatever a repository says. Git gets passwords from a program that it
calls (C{GIT_ASKPASS}), and only for the host of the remote: they are in no argument, no URL and no
file. What an administrator has configured for the user (proxies, certificate authorities, an agent,
helpers) applies.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

PROTOCOLS = "file:git:http:https:ssh"
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.alternateRefsCommand": "true",
    "core.bigFileThreshold": "16m",
    "fetch.unpackLimit": "1",
    "fetch.writeCommitGraph": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.showForcedUpdates": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
    "transfer.unpackLimit": "1",
    "transfer.bundleURI": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    **{f"protocol.{name}.allow": "always" for name in PROTOCOLS.split(":")},
}
"""What git is told before anything that a file says."""
KEPT = 16 * 1024
"""Bytes of what git says that are kept, of its beginning and of its end."""
MOST_MEMORY, LEAST_MEMORY = 4 << 30, 512 << 20
ASK = """#!/bin/sh
case "$1" in
*passphrase*) printf '%s\\n' "$SALTWISTED_GIT_PASSPHRASE" ;;
Username*"//$SALTWISTED_GIT_HOST'"*) printf '%s\\n' "$SALTWISTED_GIT_USER" ;;
Password*"@$SALTWISTED_GIT_HOST'"*) printf '%s\\n' "$SALTWISTED_GIT_PASSWORD" ;;
*) exit 1 ;;
esac
"""
"""What git and ssh ask; it answers for one host only."""
in_group = False
"""
Whether what is started here ends when this process is killed, since whoever made this one sees to
that (L{saltwisted.worker.process.warm}).
"""
_PR_SET_PDEATHSIG = 1
_NO_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class GitError(Exception):
    """
    Git has failed.

    @ivar text: what it said, without credentials.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def environment(
    reach: Mapping[str, Any], ask: str = "", settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """
    The environment of a git process.

    @param reach: how a remote is reached: C{url user password privkey passphrase proxy
        ssl_verify}, each if it is said.
    @param ask: the path of L{ASK}, if something can be asked.
    @param settings: what git is told beside L{SETTINGS}.
    """
    given = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environ = {
        key: value
        for key, value in given.items()
        if key not in ("SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "EDITOR", "VISUAL")
    }
    environ |= {
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    environ.setdefault("PATH", os.defpath)
    environ.setdefault("HOME", os.path.expanduser("~"))
    settings = {**SETTINGS, **(settings or {})}
    ssh = ["ssh", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15"]
    ssh += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3"]
    ssh += ["-o", "PermitLocalCommand=no", "-o", "ClearAllForwardings=yes"]
    if reach.get("privkey"):
        ssh += ["-o", "IdentitiesOnly=yes", "-i", str(reach["privkey"])]
    if reach.get("passphrase") and ask:
        ssh += ["-o", "PasswordAuthentication=no", "-o", "KbdInteractiveAuthentication=no"]
        ssh += ["-o", "NumberOfPasswordPrompts=1"]
        environ |= {"SSH_ASKPASS": ask, "SSH_ASKPASS_REQUIRE": "force"}
        environ["SALTWISTED_GIT_PASSPHRASE"] = str(reach["passphrase"])
    else:
        ssh += ["-o", "BatchMode=yes"]
    environ["GIT_SSH_COMMAND"] = shlex.join(ssh)
    environ["GIT_SSH_VARIANT"] = "ssh"
    if reach.get("ssl_verify") is False:
        settings["http.sslVerify"] = "false"
    if reach.get("proxy"):
        settings["http.proxy"] = str(reach["proxy"])
    if reach.get("login"):
        settings["credential.username"] = str(reach["login"])
    if (reach.get("password") or reach.get("is_told")) and ask:
        # No helper of the machine is asked, nor told to keep what is configured here
        settings["credential.helper"] = ""
        environ |= {
            "GIT_ASKPASS": ask,
            "SALTWISTED_GIT_HOST": host_of(str(reach["url"])),
            "SALTWISTED_GIT_USER": str(reach["user"]),
            "SALTWISTED_GIT_PASSWORD": str(reach["password"]),
        }
    environ["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        environ[f"GIT_CONFIG_KEY_{number}"] = key
        environ[f"GIT_CONFIG_VALUE_{number}"] = value
    return environ


def apart(reach: Mapping[str, Any]) -> dict[str, Any]:
    """
    The same, without credentials in the URL: it is an argument of processes, and every user of a
    machine reads those. What was in it is told to git when it asks, as what is configured.
    """
    scheme, mark, rest = str(reach["url"]).partition("://")
    host, slash, path = rest.partition("/")
    login, at, host = host.rpartition("@")
    if not at or scheme.lower() not in ("http", "https"):
        return dict(reach)
    from urllib.parse import unquote

    user, colon, password = (unquote(part) for part in login.partition(":"))
    found = {**reach, "url": f"{scheme}{mark}{host}{slash}{path}"}
    if reach.get("password"):
        return found
    if not colon:
        return {**found, "login": user}
    return {**found, "user": user, "password": password, "is_told": True}


def host_of(url: str) -> str:
    """Host and port of a URL, as git names them when it asks for a password."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def said(text: str, reach: Mapping[str, Any]) -> str:
    """What git said, in one line, without credentials and without signs for a terminal."""
    for name in ("password", "passphrase"):
        if len(str(reach.get(name) or "")) > 2:
            text = text.replace(str(reach[name]), "***")
    text = re.sub(r"(\w://)[^/\s@']*@", r"\1", text)
    lines = [_NO_COLOURS.sub("", line).strip() for line in text.splitlines()]
    return "; ".join(line for line in lines if line)[:1000]


def run(
    args: Sequence[str],
    environ: Mapping[str, str],
    *,
    seconds: float,
    most: int = 0,
    stdin: bytes = b"",
    sink: Callable[[bytes], None] | None = None,
) -> bytes:
    """
    Run C{git} with these arguments; what it wrote.

    @raises GitError: it failed, or took too long.
    @see: L{outcome}.
    """
    status, out, noise = outcome(args, environ, seconds=seconds, most=most, stdin=stdin, sink=sink)
    if status:
        raise GitError(noise.decode(errors="replace") or f"git ended with {status}")
    return out


def outcome(
    args: Sequence[str],
    environ: Mapping[str, str],
    *,
    seconds: float,
    most: int = 0,
    stdin: bytes = b"",
    sink: Callable[[bytes], None] | None = None,
) -> tuple[int, bytes, bytes]:
    """
    Run C{git} with these arguments: how it ended, what it wrote, and what it said about it.

    @param seconds: it is killed after these, with all that it has started.
    @param most: bytes that each file it writes may have; 0 is no limit.
    @param sink: takes the output in pieces.
    @raises GitError: it cannot be run, or took too long.
    """
    process = start(args, environ, most=most, asked=bool(stdin))
    pieces: list[bytes] = []
    with process:
        try:
            noise, in_time = _pump(process, stdin, sink or pieces.append, seconds)
        finally:
            end(process)
        status = process.wait()
    if not in_time:
        raise GitError(f"git did not finish within {seconds:g} s")
    return status, b"".join(pieces), noise


def start(
    args: Sequence[str],
    environ: Mapping[str, str],
    *,
    most: int = 0,
    asked: bool = False,
    silent: bool = False,
) -> subprocess.Popen[bytes]:
    """
    Start C{git} with these arguments. It ends with this process, and has the limits of all.

    @param most: bytes that each file it writes may have; 0 is no limit.
    @param asked: whether something is written to it.
    @param silent: whether what it says about it is of no interest.
    @raises GitError: it cannot be run.
    """
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: most_memory(),
        **({resource.RLIMIT_FSIZE: most} if most else {}),
    }
    try:
        with _lowered(limits):
            return subprocess.Popen(
                ["git", *args],
                env=dict(environ),
                stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if silent else subprocess.PIPE,
                cwd="/",
                # Without a function in between no copy of this process is made first: that would
                # take twice as long as all the rest
                preexec_fn=None if in_group else _bound(),
            )
    except FileNotFoundError:
        raise GitError("the program git is missing: install the package git") from None
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from error


def _bound() -> Callable[[], None]:
    """What makes a program end with the process that starts it."""
    # Looked up here: what runs between fork and exec copies each page that it touches
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def _lowered(limits: Mapping[int, int]) -> Iterator[None]:
    """What is started meanwhile has these limits, and this process the ones that it had."""
    had = {which: resource.getrlimit(which) for which in limits}
    try:
        for which, most in limits.items():
            hard = had[which][1]
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (least, hard))
        yield
    finally:
        for which, pair in had.items():
            resource.setrlimit(which, pair)


def most_memory() -> int:
    """
    Bytes that each process of git may fill: half of the machine's, and no more than 4 GiB.

    A remote that tells of refs for ever has git remember them for ever.
    """
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = max(min(whole // 2, MOST_MEMORY), LEAST_MEMORY)
    allowed = resource.getrlimit(resource.RLIMIT_DATA)[1]
    return most if allowed == resource.RLIM_INFINITY else min(most, allowed)


def _pump(
    process: subprocess.Popen[bytes], stdin: bytes, sink: Callable[[bytes], None], seconds: float
) -> tuple[bytes, bool]:
    """Hand over what is read and written until both ends are closed, or time is up."""
    assert process.stdout is not None and process.stderr is not None
    until = time.monotonic() + seconds
    head, tail = bytearray(), bytearray()
    rest = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "out")
        selector.register(process.stderr, selectors.EVENT_READ, "err")
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "in")
        while selector.get_map():
            left = until - time.monotonic()
            if left <= 0:
                return bytes(head + tail), False
            for key, _ in selector.select(left):
                stream: Any = key.fileobj
                if key.data == "in":
                    with suppress(BrokenPipeError):
                        rest = rest[os.write(key.fd, rest[:65536]) :]
                        if rest:
                            continue
                    selector.unregister(stream)
                    stream.close()
                    continue
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(stream)
                elif key.data == "out":
                    sink(data)
                elif len(head) < KEPT:
                    head += data
                else:
                    tail = (tail + data)[-KEPT:]
    return bytes(head + tail), True


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, if it runs, with all that it has started."""
    if process.poll() is not None:
        return
    for pid in [*_below(process.pid), process.pid]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _below(pid: int) -> list[int]:
    """The processes below one, the deepest first."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return [each for child in children for each in (*_below(child), child)]
