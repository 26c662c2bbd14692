"""
Whether the members' working trees match what they have committed.

A member acknowledges changes when it serves them to minions, before its working tree is written. A
caller that waits for a file on another master waits for that too: word C{roots-written}.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred, DeferredList

from saltwisted.cluster.roots.sync import RootSync
from saltwisted.errors import RemoteError, SaltwistedError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "roots-written"
MOST_SHARES = 256


class RootWritten:
    """Reactor thread only."""

    def __init__(self, sync: RootSync, peers: IPeers) -> None:
        self._sync = sync
        self._peers = peers
        peers.answer(WORD, self._asked)

    def _asked(self, node: str, body: bytes) -> Deferred[bytes]:
        return Deferred.fromCoroutine(self._answer(node, body))

    async def _answer(self, node: str, body: bytes) -> bytes:
        """Share to what keeps its working tree from being the generation; empty for nothing."""
        try:
            names = [str(name) for name in unpack_bin(body)[:MOST_SHARES]]
        except (WireError, TypeError, ValueError) as error:
            raise RemoteError("ValueError", f"{WORD}: not a list of shares") from error
        sync = self._sync
        shares = [sync.shares[n] for n in names if n in sync.shares and sync.host.may_have(node, n)]
        return pack_bin({share.name: await share.not_written() for share in shares})

    async def problems(self, names: Sequence[str], seconds: float) -> dict[str, str]:
        """
        Ask the linked members, and wait until each has written what it has committed.

        @param seconds: the time limit.
        @return: a member's id to the reason why its working trees do not match what it has
            committed; members without a problem are not in it.
        """
        body = pack_bin(list(names))
        links = self._peers.links()
        answers = await DeferredList(
            [Deferred.fromCoroutine(self._ask(link, body, seconds)) for link in links]
        )
        found = {link.node: why for link, (_, why) in zip(links, answers, strict=True)}
        return {node: str(why) for node, why in found.items() if why}

    async def _ask(self, link: IPeerLink, body: bytes, seconds: float) -> str:
        try:
            value = unpack_bin(await as_deferred(link.ask(WORD, body, seconds)))
        except (SaltwistedError, WireError) as error:
            return f"its working tree may not be written yet: {error}"
        if not isinstance(value, dict):
            return "its answer is invalid"
        return "; ".join(f"{name}: {why}" for name, why in sorted(value.items()) if why)
