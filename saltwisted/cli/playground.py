"""
A small installation in one temporary directory: real daemons, loopback only, no root rights.

L{Playground} makes the files, reserves ports, starts and ends the daemons. What is shown with
it is in L{saltwisted.cli.demo}.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from saltwisted.cli import link
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.process.configio import Machine

LONGEST_ROOT = 60
"""Characters of the directory's path; a unix socket below it must stay below 108."""
START_LIMIT = 60.0
"""Seconds that a daemon has to answer. It needs one; a loaded machine may need many."""
STOP_LIMIT = 10.0
"""Seconds that a daemon has to end by itself."""
POLL = 0.02
TAIL = 25
"""Lines of a failing daemon's log to show."""

_RUN_TWISTD = "import sys; from twisted.scripts.twistd import run; sys.argv[0] = 'twistd'; run()"


class PlaygroundError(Exception):
    """
    Something did not come up.

    @ivar daemon: the daemon that is to blame, or C{None}.
    """

    def __init__(self, reason: str, daemon: Daemon | None = None) -> None:
        super().__init__(reason)
        self.daemon = daemon


class Interrupts:
    """
    Ctrl-C and SIGTERM as C{KeyboardInterrupt}, but not in the middle of what must be whole.

    A daemon that was just started and is not yet remembered would run for ever.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._holds = 0
        self._pending = False

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *args: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """An interrupt that comes meanwhile is raised at the end of the block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        if self._pending and not self._holds:
            self._pending = False
            raise KeyboardInterrupt

    def _came(self, _number: int, _frame: Any) -> None:
        if self._holds:
            self._pending = True
        else:
            raise KeyboardInterrupt


class Daemon:
    """
    One daemon of the playground.

    @ivar name: C{master}, or the minion's id.
    @ivar directory: its configuration; everything that it writes is below.
    """

    def __init__(self, role: str, name: str, directory: str) -> None:
        self.role = role
        self.name = name
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self.opts = {"sock_dir": os.path.join(directory, "run")}

    @property
    def command(self) -> list[str]:
        """The words that start it."""
        arguments = ["--nodaemon", "--pidfile=", "saltwisted", "--role", self.role]
        return [*_twistd(), *arguments, "--config", self.directory]

    @property
    def output(self) -> str:
        """The file with what it prints."""
        return os.path.join(self.directory, "output")

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, in a process group of its own: a Ctrl-C at the terminal is ours to handle."""
        with open(self.output, "ab") as file:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
            )

    def client(self) -> ControlClient:
        """A client for its control socket."""
        return link.connect(self.opts)

    def answers(self) -> bool:
        """Whether its control socket answers; raises when the process has ended."""
        if not self.alive:
            code = self.process.returncode if self.process is not None else None
            raise PlaygroundError(f"{self.name} ended with status {code}", self)
        try:
            with self.client() as client:
                client.call_within(5.0, "status")
        except (TransportClosed, TimeoutError):
            return False
        except RemoteError:
            return True
        return True

    def tail(self) -> list[str]:
        """The end of what it printed and logged."""
        lines: list[str] = []
        for path in (self.output, os.path.join(self.directory, "log")):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    lines += file.read().splitlines()[-TAIL:]
            except OSError:
                continue
        return lines[-TAIL:]

    def ask_to_end(self) -> None:
        """Send SIGTERM to the daemon and its workers."""
        self._signal(signal.SIGTERM)

    def end(self, deadline: float) -> None:
        """Wait until it has ended; kill it at C{deadline} (monotonic seconds)."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


class Playground:
    """
    The directory and its daemons.

    @ivar root: the directory.
    @ivar master: the master.
    @ivar minions: the minions.
    """

    def __init__(self, minions: int, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self.root = _make_root()
        self.master = Daemon("master", "master", self._directory("master"))
        self.minions = [
            Daemon("minion", name, self._directory(name))
            for name in (f"demo-{number}" for number in range(1, minions + 1))
        ]
        self._write_content()

    @property
    def daemons(self) -> list[Daemon]:
        """All of them, the master first."""
        return [self.master, *self.minions]

    def start_master(self, tick: Callable[[], None]) -> None:
        """
        Start the master on ports that are free, and wait until it answers.

        @param tick: called while waiting.
        @raises PlaygroundError: it does not come up.
        """
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.ports = [sock.getsockname()[1] for sock in held]
        self._configure_master()
        for minion in self.minions:
            self._configure_minion(minion)
        for sock in held:
            sock.close()
        self._start(self.master)
        self.wait(self.master.answers, "the master to answer", tick, self.master)

    def start_minions(
        self, tick: Callable[[], None], minions: Sequence[Daemon] | None = None
    ) -> None:
        """Start minions, or all of them, and wait until the master has all their keys."""
        for minion in minions or self.minions:
            self._start(minion)
        with self.master.client() as client:

            def pending() -> bool:
                for minion in self.minions:
                    if not minion.alive:
                        raise PlaygroundError(f"{minion.name} ended", minion)
                keys = client.call("wheel", fun="key.list_all", kwarg={})["return"]
                known = {*keys["minions_pre"], *keys["minions"]}
                return all(minion.name in known for minion in self.minions)

            self.wait(pending, "the minions' keys", tick)

    def _start(self, daemon: Daemon) -> None:
        with self._interrupts.held():
            daemon.start()

    def wait(
        self,
        ready: Callable[[], bool],
        what: str,
        tick: Callable[[], None],
        daemon: Daemon | None = None,
    ) -> None:
        """
        Look until it is so.

        @raises PlaygroundError: not within L{START_LIMIT}.
        """
        deadline = time.monotonic() + START_LIMIT
        while not ready():
            if time.monotonic() > deadline:
                raise PlaygroundError(
                    f"waited {START_LIMIT:.0f} seconds for {what}", daemon or self.master
                )
            tick()
            time.sleep(POLL)

    def stop(self) -> None:
        """End every daemon, the minions first, and remove the directory. Safe to call twice."""
        for daemon in reversed(self.daemons):
            daemon.ask_to_end()
        deadline = time.monotonic() + STOP_LIMIT
        for daemon in reversed(self.daemons):
            daemon.end(deadline)
        shutil.rmtree(self.root, ignore_errors=True)

    def _directory(self, name: str) -> str:
        path = os.path.join(self.root, name)
        os.makedirs(path, 0o700)
        return path

    def _write_content(self) -> None:
        """What the master serves: a file, states, and a pillar that differs by minion."""
        files = {
            "files/hello.txt": "This file came from the master's file server.\n",
            "files/top.sls": "base:\n  '*':\n    - site\n",
            "files/site.sls": "directory:\n  file.directory:\n"
            f"    - name: {self.root}/{{{{ grains.id }}}}/site\n"
            "page:\n  file.managed:\n"
            f"    - name: {self.root}/{{{{ grains.id }}}}/site/index.txt\n"
            '    - contents: "{{ pillar.greeting }}"\n'
            "    - require:\n      - file: directory\n",
            "pillar/top.sls": "base:\n  '*':\n    - demo\n",
            "pillar/demo.sls": "greeting: Hello, {{ grains['id'] }}\nroles:\n  - demo\n",
        }
        for name, text in files.items():
            path = os.path.join(self.master.directory, name)
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            _write(path, text)

    def _configure_master(self) -> None:
        here = self.master.directory
        publish, requests = self.ports
        _write(
            os.path.join(here, "master"),
            _common(here)
            + f"interface: 127.0.0.1\npublish_port: {publish}\nret_port: {requests}\n"
            + f"file_roots: {{base: ['{here}/files']}}\n"
            + f"pillar_roots: {{base: ['{here}/pillar']}}\n",
        )

    def _masters(self) -> str:
        """What the minions know of masters."""
        return "127.0.0.1"

    def _configure_minion(self, minion: Daemon) -> None:
        publish, requests = self.ports
        _write(
            os.path.join(minion.directory, "minion"),
            _common(minion.directory)
            + f"id: {minion.name}\nmaster: {self._masters()}\n"
            + f"publish_port: {publish}\nmaster_port: {requests}\nacceptance_wait_time: 1\n",
        )


def _common(directory: str) -> str:
    """Lines for both roles: every path below one directory, and the user who runs this."""
    user = Machine().user()
    paths = {"sock_dir": "run", "pki_dir": "pki", "cachedir": "cache", "log_file": "log"}
    lines = [f"{name}: {directory}/{path}" for name, path in paths.items()]
    return "\n".join([f"root_dir: {directory}", f"user: {user}", *lines]) + "\n"


def _make_root() -> str:
    """A fresh directory with a path that is short enough for sockets below it."""
    root = tempfile.mkdtemp(prefix="saltwisted-demo-")
    if len(root) <= LONGEST_ROOT:
        return root
    os.rmdir(root)
    return tempfile.mkdtemp(prefix="saltwisted-demo-", dir="/tmp")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _twistd() -> list[str]:
    """C{twistd} of the Python that runs this; its script where there is one."""
    script = os.path.join(os.path.dirname(sys.executable), "twistd")
    if os.path.dirname(sys.executable) != "/usr/bin" and os.access(script, os.X_OK):
        return [script]
    return [sys.executable, "-c", _RUN_TWISTD]
