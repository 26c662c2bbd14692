"""
The control socket as a door to a table of operations: who calls is what the kernel says.
"""

from __future__ import annotations

import os
import pwd
from typing import Any

from saltwisted.domain.operations.table import Caller, Operations
from saltwisted.transports.ipc import Peer, Stream


def user_name(uid: int) -> str:
    """The name of a local user; its number as text when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def local_caller(peer: Peer) -> Caller:
    """The process on the other side, as one who calls."""
    return Caller(
        name=user_name(peer.uid),
        owner=peer.uid in (0, os.geteuid()),
        source=f"uid {peer.uid}",
        door="the control socket",
    )


class LocalDoor:
    """Serves a table to the processes of this machine; L{handle} is a control server's handler."""

    def __init__(self, table: Operations) -> None:
        self._table = table

    async def handle(self, op: str, args: dict[str, Any], peer: Peer, stream: Stream) -> Any:
        """
        One call.

        @raises RemoteError: unknown, badly asked, refused or failed.
        """
        return await self._table.call(op, args, local_caller(peer), stream)
