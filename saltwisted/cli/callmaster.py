"""
What surrounds a C{salt-call}: options, grains, pillar, files, and the way to the master.

The way is the control socket of the minion that runs with this configuration. Where none
runs, or where C{--id} or C{--master} ask for another than it is, a private minion is started: a
child process that signs in, asks what we ask, and ends with us.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

from saltwisted.cli import console, link
from saltwisted.cli.options import CommandLine
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import DaemonLink, MasterLink, NoMaster
from saltwisted.worker.process.witness import Witness

PRIVATE_MINION = (
    "import sys; from twisted.internet import reactor; from saltwisted.roles.caller import main; "
    "sys.exit(main(reactor, sys.argv[1:]))"
)
"""The program of the child: Twisted is imported there, and not here."""


_REASONS = {"pending": "the key of this minion waits to be accepted there"}


class Surroundings:
    """
    Salt's surroundings for one function, each part made when it is first asked for.

    @ivar loaders: the modules.
    @ivar witness: says which file of the site's has ended the command.
    """

    def __init__(self, line: CommandLine, local: bool) -> None:
        self._line = line
        self._opts = line.opts
        self.witness = Witness()
        self._child: subprocess.Popen[bytes] | None = None
        self._client = None if local else self._connect()
        master: Any = Alone(self._opts) if self._client is None else MasterLink(self._client)
        self._master = master
        daemon = None if self._client is None else DaemonLink(self._client)

        def files() -> Any:
            from saltwisted.worker.fileclient import file_client

            if self._opts.get("file_client") != "local":
                return file_client(self._opts, master)
            from saltwisted.worker.git.localfiles import local_files

            return file_client(self._opts, master, served=local_files(self._opts))

        self.loaders = Loaders(
            self._opts,
            grains=lambda: make_grains(self._opts),
            pillar=self._pillar,
            master=master,
            daemon=daemon,
            fileclient=files,
        )

    def close(self) -> None:
        """Hang up; a private minion ends with that."""
        self.witness.close()
        if self._client is not None:
            self._client.close()
        if self._child is not None:
            try:
                self._child.wait(5)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    def tell_master(self, ret: dict[str, Any]) -> None:
        """Hand the return over; the master gives it a job id."""
        if self._client is None:
            return
        load = {"cmd": "_return", **ret, "jid": "req"}
        try:
            self._client.call("return", load=load, via="")
        except (RemoteError, TransportClosed) as error:
            console.log(
                "warning", f"The master was not told of the return: {error}{self._reasons()}"
            )

    def _reasons(self) -> str:
        """Why the masters are not there, as the minion knows it."""
        if self._client is None:
            return ""
        try:
            masters = self._client.call_within(5.0, "status")["masters"]
        except (RemoteError, TransportClosed, TimeoutError, KeyError, TypeError):
            return ""
        found = [
            f"{one['master']}: {_REASONS.get(one['reason'], one['reason'])}"
            for one in masters
            if one.get("reason")
        ]
        return f" ({'; '.join(found)})" if found else ""

    def _connect(self) -> ControlClient:
        """The minion that runs here, if it is the one that is meant; else a private one."""
        line = self._line
        if not line.given("id") and not line.given("master"):
            client = link.connect(self._opts)
            try:
                client.fileno()
                return client
            except TransportClosed as error:
                console.log("debug", f"No minion runs here ({error}); starting a private one")
        ours, theirs = socket.socketpair()
        words = [sys.executable, "-c", PRIVATE_MINION, "--config", line.config_dir]
        words += ["--fd", str(theirs.fileno()), "--timeout", str(self._opts["auth_timeout"])]
        for name in ("id", "master"):
            if line.given(name):
                words += [f"--{name}", str(self._opts[name])]
        with theirs:
            self._child = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, close_fds=True
            )
        return ControlClient(sock=ours)

    def _pillar(self) -> Any:
        opts = self._opts
        load = {
            "cmd": "_pillar",
            "ver": "2",
            "id": opts["id"],
            "grains": self.loaders.grains if self._client is None else dict(self.loaders.grains),
            "saltenv": opts.get("saltenv"),
            "pillarenv": opts.get("pillarenv"),
        }
        try:
            return self._master.pillar(load)
        except SaltClientError as error:
            # Without its pillar no function does what it should: this is the end of the call.
            raise SystemExit(f"The pillar could not be fetched: {error}") from None


class Alone(NoMaster):
    """C{__master__} with C{--local}: pillars are compiled from C{pillar_roots} here."""

    def __init__(self, opts: dict[str, Any]) -> None:
        super().__init__("salt-call runs without one (--local)")
        self._opts = opts
        self._worker: Any = None

    def pillar(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """The pillar, from the files of this machine."""
        from saltwisted.worker.pillar.work import PillarWorker

        if self._worker is None:
            self._worker = PillarWorker(self._opts)
        request = {key: load.get(key) for key in ("id", "grains", "saltenv", "pillarenv")}
        request["override"] = load.get("pillar_override")
        return self._worker.value(request)
