"""
The control socket as an interface to a table of operations. The kernel says who calls.
"""

from __future__ import annotations

import os
import pwd
from collections import Counter
from typing import Any

from saltwisted.domain.operations.table import Caller, Operations
from saltwisted.transports.ipc import ControlServer, PeerProcess, Stream


def user_name(uid: int) -> str:
    """The name of a local user; its number as text when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def local_caller(peer: PeerProcess) -> Caller:
    """The process on the other side, as one who calls."""
    return Caller(
        name=user_name(peer.uid),
        owner=peer.uid in (0, os.geteuid()),
        source=f"uid {peer.uid}",
        door="the control socket",
    )


class LocalDoor:
    """
    Serves a table to the processes of this machine; L{handle} is the handler of a control server.
    """

    def __init__(self, table: Operations) -> None:
        self._table = table

    async def handle(self, op: str, args: dict[str, Any], peer: PeerProcess, stream: Stream) -> Any:
        """
        One call.

        @raises RemoteError: unknown, badly asked, refused or failed.
        """
        return await self._table.call(op, args, local_caller(peer), stream)


class Doorway:
    """
    One control socket for the whole life of a daemon, while the tables behind it come and go.

    So a command always finds the socket, even while the daemon rebuilds its services; then the
    table C{between} answers.
    """

    def __init__(self, reactor: Any, path: str, between: Operations) -> None:
        """
        @param between: what answers while no other table does.
        """
        self._between = between
        self._table = between
        self._server = ControlServer(reactor, self._handle, path)

    def startService(self) -> None:
        """
        Listen.

        @raises ConfigError: the path is too long, in use, or something else is there.
        """
        self._server.startService()

    def stopService(self) -> Any:
        """Stop listening and hang up; fires when every connection is gone."""
        return self._server.stopService()

    async def _handle(
        self, op: str, args: dict[str, Any], peer: PeerProcess, stream: Stream
    ) -> Any:
        return await self._table.call(op, args, local_caller(peer), stream)

    def show(self, table: Operations, counters: Counter[str]) -> None:
        """From now on this table answers; errors of connections are counted."""
        self._server.counters = counters
        self._table = table

    def hide(self) -> Any:
        """
        From now on only C{between} answers. Existing connections are closed, because earlier
        requests to the table get no answer. Fires when all are closed.
        """
        self._table = self._between
        return self._server.hang_up()


class Behind:
    """A table behind a L{Doorway}, as one of the services to which it belongs."""

    def __init__(self, doorway: Doorway, table: Operations, counters: Counter[str]) -> None:
        self._doorway, self._table, self._counters = doorway, table, counters

    def startService(self) -> None:
        """Answer."""
        self._doorway.show(self._table, self._counters)

    def stopService(self) -> Any:
        """Answer no longer."""
        return self._doorway.hide()
