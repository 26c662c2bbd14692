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
from saltwisted.worker.pillar.here import Here
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
        self.loaders = Here(self._opts, self._client, _end).loaders

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
            console.log("warning", f"The return did not reach the master: {error}{self._reasons()}")

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


def _end(error: SaltClientError) -> None:
    # Without its pillar no function does what it should: this is the end of the call.
    raise SystemExit(f"The pillar could not be fetched: {error}") from None
