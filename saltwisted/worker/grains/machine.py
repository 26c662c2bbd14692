"""
The machine as grains see it: files, programs, and their output.

It is a single interface, so that a test can describe another machine (a Rocky Linux, an LXC
container, a Xen domain) as a map of files and command outputs.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.grains import netinfo

PATIENCE = 1.0
"""Seconds after which a look-up without an answer says that the name servers are silent."""
SILENCE = 60.0
"""Seconds for which they are not asked then."""
TRY_AGAIN = 2
"""C{h_errno} of a look-up that nobody has answered."""


class Machine:
    """The real one."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._silent_until = float("-inf")

    def read(self, path: str) -> str | None:
        """Text of a small file, undecodable bytes escaped, or C{None}."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError:
            return None

    def read_bytes(self, path: str) -> bytes | None:
        """Bytes of a small file, or C{None}."""
        return systools.read_bytes(path)

    def exists(self, path: str) -> bool:
        """Anything of this name, links followed."""
        return os.path.exists(path)

    def isfile(self, path: str) -> bool:
        """A regular file."""
        return os.path.isfile(path)

    def isdir(self, path: str) -> bool:
        """A directory."""
        return os.path.isdir(path)

    def listdir(self, path: str) -> list[str]:
        """Sorted names; empty if there is no such directory."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def readlink(self, path: str) -> str:
        """Target of a link, or the empty string."""
        try:
            return os.readlink(path)
        except OSError:
            return ""

    def in_chroot(self) -> bool:
        """Whether our root directory is another one than that of process 1."""
        try:
            return os.stat("/") != os.stat("/proc/1/root/.")
        except OSError:
            return False

    def is_root(self) -> bool:
        """Whether the tools that need it would work."""
        return os.geteuid() == 0

    def which(self, name: str) -> str | None:
        """Path of a program."""
        return systools.which(name)

    def run(self, argv: Sequence[str], timeout: float = 30) -> tuple[int, str]:
        """
        Exit code and output (both streams' text stripped of the final newline, stderr dropped).

        @return: C{(127, "")} if it cannot be started or does not end in C{timeout} seconds.
        """
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=timeout,
                env={**os.environ, "LC_ALL": "C", "LANGUAGE": "C"},
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return 127, ""
        return done.returncode, done.stdout.decode("utf-8", "replace").rstrip("\n")

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """As L{netinfo.interfaces}."""
        return netinfo.interfaces()

    def routes(self, family: int) -> list[netinfo.Route]:
        """As L{netinfo.routes}; empty without netlink."""
        try:
            return netinfo.routes(family)
        except OSError:
            return []

    def node_name(self) -> str:
        """The host name as the kernel has it."""
        return socket.gethostname()

    def full_name(self) -> str:
        """
        The full host name: what the resolver calls canonical, else C{socket.getfqdn()}.

        May wait for the name servers.
        """
        answers = self._ask(
            socket.getaddrinfo,
            socket.gethostname(),
            0,
            socket.AF_UNSPEC,
            socket.SOCK_STREAM,
            socket.IPPROTO_TCP,
            socket.AI_CANONNAME,
        )
        names = [answer[3] for answer in answers or () if answer[3]]
        if names:
            return str(names[-1])
        # Which is what getfqdn() says, too, when nobody answers
        return socket.gethostname() if self._is_silent() else socket.getfqdn()

    def resolve(self, name: str, family: int) -> list[str]:
        """The different addresses of a name; may wait for the name servers."""
        answers = self._ask(socket.getaddrinfo, name, None, family)
        return list({str(answer[4][0]) for answer in answers or ()})

    def reverse_name(self, address: str) -> str:
        """The full name of an address or the empty string; may wait for the name servers."""
        answer = self._ask(socket.gethostbyaddr, address)
        return socket.getfqdn(answer[0]) if answer else ""

    def _ask(self, look_up: Callable[..., Any], *args: Any) -> Any:
        """
        Ask the resolver; C{None} if there is no answer.

        Where it has just waited without an answer, nobody is asked for a while: each question
        would wait as long, and a machine without its name servers would get
        its grains after a minute.
        """
        if self._is_silent():
            return None
        started = self._seconds()
        try:
            return look_up(*args)
        except (OSError, UnicodeError) as error:
            unanswered = error.args[:1] in ((socket.EAI_AGAIN,), (TRY_AGAIN,))
            if unanswered and self._seconds() - started > PATIENCE:
                self._silent_until = self._seconds() + SILENCE
            return None

    def _is_silent(self) -> bool:
        return self._seconds() < self._silent_until
