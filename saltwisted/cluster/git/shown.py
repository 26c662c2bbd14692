"""
Which commits each node serves, for display.
"""

from __future__ import annotations

from typing import Any

from saltwisted.cluster.git.ground import Ground
from saltwisted.errors import SaltwistedError
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

STATUS = "git-status"
PATIENCE = 5.0


class Shown:
    """Reactor thread only."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        ground.peers.answer(STATUS, self._asked)

    def _asked(self, node: str, body: bytes) -> bytes:
        return pack_bin(self._ground.updates().copies.told(self._ground.may_have(node, True)))

    async def everywhere(self) -> dict[str, Any]:
        """What each other linked node serves, asked of it."""
        found: dict[str, Any] = {}
        asked = [
            (link.node, as_deferred(link.ask(STATUS, b"", PATIENCE)))
            for link in self._ground.peers.links()
        ]
        for node, answer in asked:
            try:
                found[node] = unpack_bin(await answer)
            except SaltwistedError as error:
                found[node] = {"error": str(error)}
        return found
