"""
The gate between a start and the first request: the node first applies what the other members know.

A node has caught up when every member has answered, or after C{catchup_wait} seconds. Members that
did not answer are named, and the node is degraded. A joining node waits until its contents equal
those of a member by digest, however long it takes (C{docs/replication.md}). Members answer each
other before they serve, so a cluster that starts as a whole never waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.errors import SaltwistedError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

DIGESTS = "digests"
STEP = 0.05
ASK_TIME = 5.0
TELL_AGAIN = 30.0


@define(kw_only=True)
class CatchUp:
    """
    A part of the service, started before the ports that minions know.

    @ivar others: ids of all other members that are not removed.
    @ivar caught_up_with: whether this node has all that a member knew when its link came up.
    @ivar digests: the digests of this node's contents, by kind.
    @ivar verified: false for a joining node that has not yet compared itself with a member.
    @ivar now_verified: called when it has.
    @ivar wait: seconds to wait for members that do not answer.
    @ivar alone: C{serve_alone}: whether to serve without them at all.
    @ivar missing: members that have not answered; while there are any, the node is degraded.
    @ivar done: whether requests may be served.
    """

    clock: Any
    peers: IPeers
    others: Callable[[], Sequence[str]]
    caught_up_with: Callable[[str], bool]
    digests: Callable[[], Mapping[str, bytes]]
    verified: bool
    now_verified: Callable[[], None]
    wait: float
    alone: bool
    missing: tuple[str, ...] = ()
    done: bool = False
    log: Logger = field(factory=Logger)
    _running: bool = False

    def __attrs_post_init__(self) -> None:
        self.peers.answer(
            DIGESTS,
            lambda node, body: pack_bin({k: bytes(v) for k, v in self.digests().items()}),
        )

    async def startService(self) -> None:
        """Wait until this node may serve."""
        self._running = True
        if not self.verified:
            await self._verify()
            self.verified = True
            self.now_verified()
        await self._wait()
        self.done = self._running

    def stopService(self) -> None:
        """Serve no more."""
        self._running = False
        self.done = False

    def late_members(self) -> list[str]:
        """Members whose knowledge this node has not got yet."""
        return [node for node in self.others() if not self.caught_up_with(node)]

    @property
    def degraded(self) -> list[str]:
        """Members that were not heard at the start and still are not."""
        if self.missing:
            late = set(self.late_members())
            self.missing = tuple(node for node in self.missing if node in late)
        return list(self.missing)

    async def _wait(self) -> None:
        end = self.clock.seconds() + self.wait
        # First when the wait is over, since a node that may serve alone would begin then
        tell = self.clock.seconds() + min(self.wait, TELL_AGAIN)
        while self._running:
            late = self.late_members()
            if not late:
                return
            now = self.clock.seconds()
            if now >= end and (self.alone or len(late) < len(self.others())):
                self.missing = tuple(late)
                self.log.warn(
                    "degraded: {missing} did not answer within {seconds:.0f} s. This node "
                    "serves what it knows. Keys that were revoked only there are still "
                    "accepted until a link returns. Start them.",
                    missing=", ".join(late),
                    seconds=self.wait,
                )
                return
            if now >= tell:
                tell = now + TELL_AGAIN
                self.log.warn(
                    "not serving yet: {late} did not say which keys were revoked meanwhile, and no "
                    "reachable member can know it (serve_alone: false). Minions use other masters; "
                    "the jobs and keys of this node are kept. {advice}",
                    late=", ".join(late),
                    advice=advice.of("cluster.silent", late=late),
                )
            await self._pause()

    async def _verify(self) -> None:
        told = self.clock.seconds()
        while self._running:
            for link in self.peers.links():
                if self.caught_up_with(link.node) and await self._equals(link):
                    self.log.info("caught up with {node}", node=link.node)
                    return
            if self.clock.seconds() >= told + TELL_AGAIN:
                told = self.clock.seconds()
                self.log.warn(
                    "not serving yet: this node has joined, but does not have the cluster's "
                    "keys yet. It has to reach at least one member. {advice}",
                    advice=advice.of("members.look"),
                )
            await self._pause()

    async def _equals(self, link: Any) -> bool:
        try:
            theirs = unpack_bin(await as_deferred(link.ask(DIGESTS, b"", ASK_TIME)))
        except SaltwistedError:
            return False
        ours = {kind: bytes(value) for kind, value in self.digests().items()}
        return bool(ours) and ours == theirs

    def _pause(self) -> Deferred[None]:
        return deferLater(self.clock, STEP, lambda: None)
