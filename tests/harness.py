"""
Real daemons for tests: ours and stock Salt's, as child processes on loopback.

Every process gets a directory of its own below one scratch directory and ports
that were reserved before. Waiting is for something observed: a line of a log, an
event, a socket that answers; each wait has an end and then shows the log.
Only processes started here are ended here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.testing.ports import reserve_ports as reserve_ports
from saltwisted.worker.control import ControlClient

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.environ.get("SALTWISTED_PEERS", "")
SECONDS = float(os.environ.get("SALTWISTED_TEST_PATIENCE", "120"))
EVENTS_SECONDS = 5 * SECONDS
"""How long the events of one listener are waited for, all in all."""


def needs_peers(test: Any) -> Any:
    """Skip a test class, saying why, unless C{SALTWISTED_PEERS} names the stock Salts."""
    if PEERS:
        return test
    return unittest.skip("SALTWISTED_PEERS is not set: no stock Salt to test against")(test)


def peer_venv(version: str) -> str:
    """The venv of a stock Salt; missing is a failure, not a skip."""
    path = os.path.join(PEERS, version)
    if not os.path.exists(os.path.join(path, "bin", "salt-minion")):
        raise AssertionError(f"no stock Salt {version}: {path}/bin/salt-minion is not there")
    return path


def scratch(test: unittest.TestCase) -> str:
    """
    A short directory below /tmp (unix sockets have short paths), removed after the test; jobs that
    still run in it, whose daemons were killed, are ended first.
    """
    path = tempfile.mkdtemp(prefix="swt", dir="/tmp")
    test.addCleanup(shutil.rmtree, path, ignore_errors=True)
    test.addCleanup(end_what_runs_in, path)
    return path


def end_what_runs_in(folder: str) -> None:
    """
    Kill what works below a directory: a daemon's jobs outlive it, in sessions of their own, and
    work where it did.
    """
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd").startswith(f"{folder}/"):
                os.kill(int(name), signal.SIGKILL)


def until(
    what: str, condition: Callable[[], Any], seconds: float = 0.0, every: float = 0.05
) -> Any:
    """
    Wait until C{condition} gives something true, and return that.

    Whoever asks by a process of his own rests for as long as the answer took, up to a third of a
    second: the processors are for what is waited for.

    @raises AssertionError: after C{seconds}, naming what was waited for.
    """
    end = time.monotonic() + (seconds or SECONDS)
    while True:
        began = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"waited {seconds or SECONDS:.0f} s in vain for {what}")
        time.sleep(max(every, min(now - began, 0.3)))


def waited_for(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same events, until they have been waited for too long."""
    left = EVENTS_SECONDS
    last: dict[str, Any] = {}
    began = time.monotonic()
    with contextlib.suppress(TimeoutError):
        for last in events:
            left -= time.monotonic() - began
            if left < 0:
                break
            yield last
            began = time.monotonic()
        else:
            return
    raise AssertionError(f"waited {EVENTS_SECONDS:.0f} s in vain for an event; the last was {last}")


class Daemon:
    """One child process with its log."""

    def __init__(
        self, name: str, argv: list[str], home: str, env: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = argv
        self.home = home
        self.log = os.path.join(home, f"{name}.log")
        self.env = {**os.environ, "PYTHONPATH": ROOT, **(env or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a process group of its own."""
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.home,
                env=self.env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process is not None and self.process.poll() is None

    def text(self) -> str:
        """Its log so far."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as handle:
                return handle.read()
        except FileNotFoundError:
            return ""

    def wait_for_line(self, words: str, seconds: float = 0.0, times: int = 1) -> None:
        """Wait until its log has these words, at least so many times."""

        def seen() -> bool:
            if self.text().count(words) >= times:
                return True
            if not self.running:
                raise AssertionError(f"{self.name} ended:\n{self.tail()}")
            return False

        try:
            until(f"{words!r} in the log of {self.name}", seen, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return "\n".join(self.text().splitlines()[-lines:])

    def kill(self, sig: int = signal.SIGKILL) -> None:
        """End it, and everything that it started, and wait for its end."""
        if self.process is None:
            return
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if sig == signal.SIGKILL:
                    os.killpg(self.process.pid, sig)
                else:
                    os.kill(self.process.pid, sig)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(20)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process = None

    def freeze(self) -> None:
        """Stop it and everything that it started, without a word to anybody."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, if it still is there."""
        if self.running:
            os.killpg(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Ask it to end; returns its exit status."""
        assert self.process is not None
        process = self.process
        process.send_signal(signal.SIGTERM)
        return process.wait(30)


def write_config(path: str, values: dict[str, Any]) -> None:
    """A configuration file; JSON is YAML."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        for key, value in values.items():
            handle.write(f"{key}: {json.dumps(value)}\n")


def twistd() -> list[str]:
    """How this interpreter runs twistd."""
    return [
        sys.executable,
        "-c",
        "from twisted.scripts.twistd import run; run()",
    ]


class OurMaster(Daemon):
    """C{twistd saltwisted --role master} in a directory of its own."""

    def __init__(self, home: str, name: str = "master", **options: Any) -> None:
        self.root = os.path.join(home, name)
        os.makedirs(self.root, exist_ok=True)
        self.conf = os.path.join(self.root, "etc")
        self.publish_port, self.ret_port = reserve_ports(2)
        for folder in ("srv/salt", "srv/pillar"):
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        self.file_root = os.path.join(self.root, "srv/salt")
        self.pillar_root = os.path.join(self.root, "srv/pillar")
        self.options = {
            "interface": "127.0.0.1",
            "publish_port": self.publish_port,
            "ret_port": self.ret_port,
            "root_dir": self.root,
            "id": f"{name}_master",
            "file_roots": {"base": [self.file_root]},
            "pillar_roots": {"base": [self.pillar_root]},
            "log_level": "info",
            "timeout": 15,
            "gather_job_timeout": 3,
            **options,
        }
        write_config(os.path.join(self.conf, "master"), self.options)
        super().__init__(
            name,
            [
                *twistd(),
                "--nodaemon",
                "--pidfile=",
                "saltwisted",
                "--role",
                "master",
                "--config",
                self.conf,
            ],
            self.root,
        )

    @property
    def pki(self) -> str:
        """Its C{pki_dir}."""
        return os.path.join(self.root, "etc/salt/pki/master")

    @property
    def socket_path(self) -> str:
        """Its control socket."""
        return os.path.join(self.root, "var/run/salt/master/saltwisted.sock")

    def up(self) -> OurMaster:
        """Start it and wait until it serves."""
        self.start()
        return self.serving()

    def serving(self) -> OurMaster:
        """Wait until it serves."""

        def serves() -> bool:
            if not self.running:
                raise AssertionError(f"{self.name} ended:\n{self.tail()}")
            client = self.control()
            try:
                said = client.call("status")
                return bool(said["pid"] == self.pid and said["serving"])
            except TransportClosed:
                return False
            finally:
                client.close()

        until(f"{self.name} to serve", serves, every=0.02)
        return self

    def control(self) -> Any:
        """A client of its control socket."""
        return ControlClient(path=self.socket_path)

    def ask(self, op: str, **args: Any) -> Any:
        """The answer of an operation of its control socket."""
        with ControlClient(path=self.socket_path, timeout=60.0) as client:
            return client.call(op, **args)

    def hears(self, minion: str) -> bool:
        """Whether a minion answers it."""
        call = {"fun": "salt.execute", "arg": [minion, "test.ping"], "kwarg": {}}
        try:
            answer = self.ask("runner", **call)
        except (RemoteError, TransportClosed):
            return False
        return bool(answer["return"] == {minion: True})

    def orchestrate(self, sls: str, **pillar: Any) -> str:
        """Begin an orchestration; its jid."""
        kwarg = {"pillar": pillar} if pillar else {}
        call = {"fun": "state.orchestrate", "arg": [sls], "kwarg": kwarg, "async": True}
        return str(self.ask("runner", **call)["jid"])

    def orchestration(self, jid: str) -> dict[str, Any]:
        """What it says of an orchestration, with results; no state while it does not answer."""
        try:
            found: dict[str, Any] = self.ask("orch.show", jid=jid, results=True)
        except (RemoteError, TransportClosed):
            found = {"state": "", "node": "", "why": "", "steps": []}
        return found

    def command(
        self, name: str, *args: str, check: bool = False, seconds: float = 90
    ) -> subprocess.CompletedProcess[str]:
        """Run one of our commands (C{salt}, C{salt-key}, ...) against this master."""
        try:
            done = subprocess.run(
                [sys.executable, "-m", "saltwisted.cli.main", name, "-c", self.conf, *args],
                capture_output=True,
                text=True,
                timeout=seconds,
                cwd=self.root,
                env=self.env,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(
                f"{name} {args} did not end within {seconds} s:\n{error.output}\n{error.stderr}\n"
                + self.tail()
            ) from None
        if check and done.returncode != 0:
            raise AssertionError(
                f"{name} {args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\n"
                + self.tail()
            )
        return done

    def salt(self, *args: str, seconds: float = 90) -> Any:
        """Run C{salt ARGS --out json --static}; the decoded answer."""
        done = self.command("salt", *args, "--out", "json", "--static", seconds=seconds)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(
                f"salt {args}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.tail()}"
            ) from None

    def run(self, *args: str, seconds: float = 90) -> Any:
        """Run C{salt-run ARGS --out json}; the decoded answer."""
        done = self.command("salt-run", *args, "--out", "json", seconds=seconds)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(
                f"salt-run {args}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.tail()}"
            ) from None

    def keys(self) -> dict[str, list[str]]:
        """What C{salt-key -L --out json} says."""
        done = self.command("salt-key", "-L", "--out", "json", check=True)
        found: dict[str, list[str]] = json.loads(done.stdout)
        return found

    def accept(self, minion_id: str) -> None:
        """Wait for a pending key, and accept it."""
        folder = os.path.join(self.pki, "minions_pre", minion_id)
        until(f"the pending key of {minion_id}", lambda: os.path.exists(folder))
        self.command("salt-key", "-y", "-a", minion_id, check=True)

    @contextlib.contextmanager
    def events(self, *prefixes: str) -> Iterator[Iterator[dict[str, Any]]]:
        """
        Events from now on, as they come.

        @raises AssertionError: from the iterator, once all the waiting for events adds up to
            L{EVENTS_SECONDS}. The one that a test waits for will not come, though others do.
        """
        client = self.control()
        stream = client.stream_within(EVENTS_SECONDS, "events", tags=list(prefixes) or [""])
        next(stream)  # the bus says that it listens
        try:
            yield waited_for(stream)
        finally:
            client.close()

    def ping_until(self, minion_id: str, seconds: float = 0.0) -> None:
        """
        Ping until the minion answers, without a process for each question.

        Who has just come may not have subscribed yet and miss the first, so each waits for a
        second, not for Salt's several.
        """
        until(
            f"{minion_id} to answer",
            lambda: self._answers(minion_id),
            seconds,
        )

    def _answers(self, minion_id: str) -> bool:
        if not self.running:
            raise AssertionError(f"{self.name} ended:\n{self.tail()}")
        asked = {"tgt": minion_id, "fun": "test.ping", "timeout": 1, "gather_job_timeout": 1}
        client = self.control()
        try:
            for item in client.stream_within(10, "run", **asked):
                if item["kind"] == "return" and item["id"] == minion_id:
                    return bool(item["data"].get("return") is True)
        except (TransportClosed, RemoteError, TimeoutError):
            pass
        finally:
            client.close()
        return False


class StockMinion(Daemon):
    """A salt-minion of one of the stock versions."""

    def __init__(
        self,
        home: str,
        version: str,
        master: Any,
        minion_id: str = "",
        **options: Any,
    ) -> None:
        self.id = minion_id or f"stock-{version}"
        self.version = version
        self.root = os.path.join(home, self.id)
        self.conf = os.path.join(self.root, "conf")
        os.makedirs(self.root, exist_ok=True)
        write_config(
            os.path.join(self.conf, "minion"),
            {
                "id": self.id,
                "master": getattr(master, "address", "127.0.0.1"),
                "master_port": master.ret_port,
                "publish_port": master.publish_port,
                "root_dir": self.root,
                "pki_dir": "/pki",
                "cachedir": "/cache",
                "sock_dir": "/run",
                "log_file": "/minion.file.log",
                "pidfile": "/minion.pid",
                "log_level": "info",
                "acceptance_wait_time": 1,
                "random_startup_delay": 0,
                "recon_default": 100,
                "recon_max": 500,
                "enable_fqdns_grains": False,
                "grains": {"role": "web", "deep": {"list": ["one", "two"]}},
                **options,
            },
        )
        venv = peer_venv(version)
        super().__init__(
            self.id,
            [
                f"{venv}/bin/salt-minion",
                "-c",
                self.conf,
                "-l",
                str(options.get("log_level", "info")),
            ],
            self.root,
            {"PYTHONPATH": ""},
        )

    def up(self) -> StockMinion:
        """
        Start it.

        The pid file of one that was killed goes first: where nobody reaps orphans, its
        process stays a zombie, and stock takes that for a running minion.
        """
        for name in os.listdir(self.root):
            if name.endswith(".pid"):
                os.unlink(os.path.join(self.root, name))
        self.start()
        return self

    def call(self, *args: str, seconds: float = 120) -> Any:
        """Run the stock C{salt-call ARGS --out json} on it."""
        done = subprocess.run(
            [f"{peer_venv(self.version)}/bin/salt-call", "-c", self.conf, "--out", "json", *args],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=self.root,
            env=self.env,
            check=False,
        )
        try:
            return json.loads(done.stdout)["local"]
        except (ValueError, KeyError):
            raise AssertionError(f"salt-call {args}:\n{done.stdout}\n{done.stderr}") from None


class StockMaster(Daemon):
    """A salt-master of one of the stock versions."""

    def __init__(self, home: str, version: str, **options: Any) -> None:
        self.version = version
        self.root = os.path.join(home, f"stockmaster-{version}")
        self.conf = os.path.join(self.root, "conf")
        os.makedirs(self.root, exist_ok=True)
        self.publish_port, self.ret_port = reserve_ports(2)
        self.file_root = os.path.join(self.root, "salt")
        self.pillar_root = os.path.join(self.root, "pillar")
        os.makedirs(self.file_root)
        os.makedirs(self.pillar_root)
        write_config(
            os.path.join(self.conf, "master"),
            {
                "interface": "127.0.0.1",
                "publish_port": self.publish_port,
                "ret_port": self.ret_port,
                "root_dir": self.root,
                "pki_dir": "/pki",
                "cachedir": "/cache",
                "sock_dir": "/run",
                "log_file": "/master.file.log",
                "pidfile": "/master.pid",
                "worker_threads": 2,
                "file_roots": {"base": [self.file_root]},
                "pillar_roots": {"base": [self.pillar_root]},
                "log_level": "info",
                "timeout": 15,
                "gather_job_timeout": 3,
                **options,
            },
        )
        self.venv = peer_venv(version)
        super().__init__(
            f"stockmaster-{version}",
            [f"{self.venv}/bin/salt-master", "-c", self.conf, "-l", "info"],
            self.root,
            {"PYTHONPATH": ""},
        )

    @property
    def pki(self) -> str:
        """Its C{pki_dir}."""
        return os.path.join(self.root, "pki")

    def up(self) -> StockMaster:
        """Start it and wait until its request port answers."""
        self.start()

        def listening() -> bool:
            if not self.running:
                raise AssertionError(f"{self.name} ended:\n{self.tail()}")
            with socket.socket() as sock:
                return sock.connect_ex(("127.0.0.1", self.ret_port)) == 0

        until(f"{self.name} on port {self.ret_port}", listening)
        return self

    def command(
        self, name: str, *args: str, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the stock commands."""
        return subprocess.run(
            [f"{self.venv}/bin/{name}", "-c", self.conf, *args],
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=self.root,
            env=self.env,
            check=False,
        )

    def salt(self, *args: str, seconds: float = 120) -> Any:
        """Run the stock C{salt ARGS --out json --static}; the decoded answer."""
        done = self.command("salt", *args, "--out", "json", "--static", seconds=seconds)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AssertionError(
                f"salt {args}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.tail()}"
            ) from None

    def accept(self, minion_id: str) -> None:
        """Wait for a pending key, and accept it with the stock C{salt-key}."""
        path = os.path.join(self.pki, "minions_pre", minion_id)
        until(f"the pending key of {minion_id}", lambda: os.path.exists(path))
        done = self.command("salt-key", "-y", "-a", minion_id)
        assert done.returncode == 0, done.stderr


class OurMinion(Daemon):
    """C{twistd saltwisted --role minion} in a directory of its own."""

    def __init__(self, home: str, master: Any, minion_id: str = "ours", **options: Any) -> None:
        self.id = minion_id
        self.root = os.path.join(home, minion_id)
        self.conf = os.path.join(self.root, "etc")
        os.makedirs(self.root, exist_ok=True)
        self.options = {
            "id": minion_id,
            "master": getattr(master, "address", "127.0.0.1"),
            "master_port": master.ret_port,
            "publish_port": master.publish_port,
            "root_dir": self.root,
            "log_level": "info",
            "acceptance_wait_time": 1,
            "grains": {"role": "web", "deep": {"list": ["one", "two"]}},
            **options,
        }
        write_config(os.path.join(self.conf, "minion"), self.options)
        super().__init__(
            minion_id,
            [
                *twistd(),
                "--nodaemon",
                "--pidfile=",
                "saltwisted",
                "--role",
                "minion",
                "--config",
                self.conf,
            ],
            self.root,
        )

    def up(self) -> OurMinion:
        """Start it."""
        self.start()
        return self
