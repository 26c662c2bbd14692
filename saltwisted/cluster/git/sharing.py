"""
One node fetches, and all serve the same: who fetches, what is reported, and when a node changes
what it serves.

The holder of the duty C{git} (C{git_pillar}) has remotes fetched: by itself, or by another node if
it cannot reach one. The result is I{offered}: every linked node gets the objects, and confirms it.
Then the holder serves the result and tells all nodes, and each node that hears it does the same. So
a node never serves objects that it lacks, and all nodes change within the time of a message. A node
that did not get the objects in time keeps serving what it had, and catches up with any node that
serves more.

L{saltwisted.domain.git.agreement} has the rules of versions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from saltwisted.claiming import IClaims
from saltwisted.cluster.git.exchange import told
from saltwisted.cluster.git.following import Following
from saltwisted.cluster.git.ground import Ground, served
from saltwisted.cluster.git.hearsay import Hearsay
from saltwisted.cluster.git.shown import Shown
from saltwisted.cluster.git.turns import Turns
from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.commits import IGitCopy
from saltwisted.domain.git.agreement import (
    NONE,
    Do,
    Version,
    carried,
    following,
    heard,
    is_new,
    version_of,
)
from saltwisted.errors import SaltwistedError
from saltwisted.interfaces import IPeerLink
from saltwisted.transports.deferreds import all_within, as_deferred, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

OFFER, UPDATE = "git-offer", "git-update"
DUTIES = {False: "git", True: "git_pillar"}
"""By whether it is for pillar: members without pillars fetch none."""
LOOK = 2.0
"""Seconds after which it is looked again for what has not been done."""
OFFERED = 10.0
"""Seconds that all linked nodes have to get the objects; who takes longer comes later."""
SERVED = 10.0
"""Seconds for which an update waits until all linked nodes serve what was fetched."""
POLL = 0.02
FIRST = 15.0
"""Seconds that a start waits for repositories where nothing is here yet."""
BESIDE = 3.0
"""The same, where others are served already: minions are not kept from these."""
LONELY = 30.0
"""Seconds without anybody in reach who fetches, after which that is told."""
TELLS = 600.0


class GitSharing:
    """
    A part of a node, started when claims are (L{saltwisted.commits.IGitSharing}). Reactor thread
    only.

    @param seconds: the time limit of one fetch.
    @ivar follow: gets what others serve.
    @ivar duty: the claims by which it fetches, for pillar or not.
    """

    log = Logger()
    holds = True

    def __init__(self, ground: Ground, claims: IClaims, seconds: Callable[[], float]) -> None:
        self._ground, self._claims = ground, claims
        self.duty: dict[bool, Any] = {}
        self._wanted: set[bool] = set()
        self._reached = 0.0
        self._loop: Any = None
        self._turns = Turns(ground, seconds)
        self._hearsay = Hearsay(ground, self._term)
        self.follow = Following(ground, self._hearsay)
        self._shown = Shown(ground)
        ground.peers.answer(OFFER, self._offered)
        ground.peers.answer(UPDATE, self._asked_to_update)

    async def startService(self) -> None:
        """Claim the duties; wait a little for repositories that are missing completely."""
        self._reached = self._ground.clock.seconds()
        self._hearsay.begin()
        self.follow.begin()
        self._loop = LoopingCall(self._look)
        self._loop.clock = self._ground.clock
        let_go(self._loop.start(LOOK), self.log, "git: the check of duties and remotes has stopped")
        copies = self._ground.copies().values()
        patience = BESIDE if any(_is_known(copy) for copy in copies) else FIRST
        end = self._ground.clock.seconds() + patience
        while self._ground.clock.seconds() < end and self._loop is not None:
            if all(_is_known(copy) or copy.error for copy in self._ground.copies().values()):
                break
            await deferLater(self._ground.clock, 0.1)

    async def stopService(self) -> None:
        """Fetch no more; another node may."""
        loop, self._loop = self._loop, None
        if loop is not None and loop.running:
            loop.stop()
        self._hearsay.end()
        self.follow.end()
        for pillar in list(self._wanted):
            self._wanted.discard(pillar)
            await self._claims.release(DUTIES[pillar])

    def _look(self) -> None:
        try:
            self._want()
            self.follow.look()
            if self._fetcher_is_near():
                self._reached = self._ground.clock.seconds()
        except Exception:
            self.log.failure("git: the check of duties and remotes has failed")

    def _want(self) -> None:
        """Be ready to fetch, if there is anything to fetch, and this node may."""
        kinds = {copy.is_pillar for copy in self._ground.copies().values()}
        for pillar, name in DUTIES.items():
            mine = pillar in kinds and self._ground.may_write(self._ground.node)
            if mine and pillar not in self._wanted:
                self._wanted.add(pillar)
                self._claims.duty(name, partial(self._began, pillar), partial(self._ended, pillar))
            elif not mine and pillar in self._wanted:
                self._wanted.discard(pillar)
                let_go(
                    as_deferred(self._claims.release(name)),
                    self.log,
                    "git: a duty was not released",
                )

    def _began(self, pillar: bool, claim: Any) -> None:
        self.duty[pillar] = claim
        if self._loop is not None:
            self.log.info("git: this node fetches ({duty})", duty=DUTIES[pillar])
            self._hearsay.tell_all()
            self._ground.updates().begin(pillar)

    def _ended(self, pillar: bool, why: str) -> None:
        # A fetch that runs comes to nothing: its outcome is looked at with the claim
        self.duty.pop(pillar, None)
        self._hearsay.tell_all()
        self._ground.updates().begin(pillar)

    def fetches(self, pillar: bool) -> bool:
        """Whether this node has the duty now."""
        return self._term(pillar) > 0

    async def fetch(
        self, shared: str, damaged: bool, ask: Callable[[], Awaitable[Any]]
    ) -> Mapping[str, Any]:
        """By this node if it has the duty, else by the one that has it."""
        copy = self._ground.copies().get(shared)
        if copy is None:
            return {"elsewhere": "", "error": "this node has no pillars"}
        if damaged and (node := await self.follow.mended(copy)):
            return {"state": copy.state, "elsewhere": node}
        if self.fetches(copy.is_pillar):
            return await self._fetch_here(copy, ask)
        return await self._fetch_there(copy)

    def problems(self) -> Sequence[str]:
        """What keeps this node from serving what the others do."""
        copies = self._ground.copies()
        texts = [text for shared, text in self.follow.behind.items() if shared in copies]
        if self._loop is not None and self._ground.clock.seconds() - self._reached > LONELY:
            why = self._claims.problem() or "no node has the duty, or its holder is not connected"
            texts.append(
                f"no node that fetches git remotes is in reach, this one serves what it has: {why}"
            )
        return texts

    def status(self) -> Mapping[str, Any]:
        """Who fetches, and which generation each node serves."""
        linked = {link.node for link in self._ground.peers.links()}
        return {
            "fetched_by": {
                DUTIES[pillar]: self._holder(pillar)
                for pillar in sorted({copy.is_pillar for copy in self._ground.copies().values()})
            },
            "nodes": {
                node: {"linked": node in linked, "generation": said.generation}
                for node, said in sorted(self._hearsay.heard.items())
            },
        }

    def everywhere(self) -> Awaitable[Mapping[str, Any]]:
        """What each other node serves, asked of it."""
        return self._shown.everywhere()

    def _holder(self, pillar: bool) -> str:
        if self.fetches(pillar):
            return self._ground.node
        return self._hearsay.fetcher(pillar)

    def _term(self, pillar: bool) -> int:
        claim = self.duty.get(pillar)
        return int(claim.term) if claim is not None and self._claims.holds(claim) else 0

    def _fetcher_is_near(self) -> bool:
        kinds = {copy.is_pillar for copy in self._ground.copies().values()}
        return all(self._holder(pillar) for pillar in kinds)

    async def _fetch_here(
        self, copy: IGitCopy, ask: Callable[[], Awaitable[Any]]
    ) -> Mapping[str, Any]:
        claim = self.duty[copy.is_pillar]
        try:
            fetched, locks = await self._turns.fetched(copy, ask)
        except SaltwistedError as error:
            self._ground.clock.callLater(0, self._hearsay.tell_all)
            return {"error": str(error)}
        try:
            if not await self.count(copy, claim, lambda state: carried(fetched, state)):
                return {"elsewhere": "", "error": "this node no longer fetches"}
        except SaltwistedError as error:
            return {"error": str(error)}
        self._ground.clock.callLater(0, self._hearsay.tell_all)
        return {"state": copy.state, "locks": locks, "nodes": await self.all_serve(copy)}

    async def count(
        self,
        copy: IGitCopy,
        claim: Any,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> bool:
        """
        Make a new state valid on all nodes, if it differs; C{False} if this node has lost the duty.

        @param change: computes it from what is served now.
        @raises SaltwistedError: the disk refuses.
        """
        lock = self._ground.lock(copy.shared)
        await lock.acquire()
        try:
            ours, state = served(copy), change(copy.state)
            newest = max(self._hearsay.newest.get(copy.shared, NONE), ours)
            if not self._claims.holds(claim):
                return False
            if is_new(state, copy.state, ours, newest):
                version = following(newest, claim.term)
                self._hearsay.saw(copy.shared, version)
                self._ground.exchange.keep(copy.shared, version, state)
                await self._offer(copy, version, state)
                if not self._claims.holds(claim):
                    return False
                await self.follow.serve(copy, version)
            return True
        finally:
            lock.release()

    async def _fetch_there(self, copy: IGitCopy) -> Mapping[str, Any]:
        link = await self.link_to_holder(copy.is_pillar)
        if link is None:
            return {"elsewhere": "", "error": f"no node fetches now: {self.nobody()}"}
        try:
            question = {"key": copy.shared}
            said = unpack_bin(await link.ask(UPDATE, pack_bin(question), TELLS))
        except SaltwistedError as error:
            return {"elsewhere": link.node, "error": f"{link.node}: {error}"}
        if not isinstance(said, dict):
            return {"elsewhere": link.node, "error": f"{link.node}: its answer is invalid"}
        version = version_of(said.get("version"))
        end = self._ground.clock.seconds() + SERVED
        while served(copy) < version and self._ground.clock.seconds() < end:
            await deferLater(self._ground.clock, POLL)
        answer: dict[str, Any] = {"elsewhere": link.node, "state": copy.state}
        if isinstance(nodes := said.get("nodes"), dict):
            mine = served(copy) >= version
            answer["nodes"] = {**nodes, self._ground.node: mine}
        if said.get("error"):
            answer["error"] = str(said["error"])
        return answer

    def nobody(self) -> str:
        """Why nobody fetches."""
        return self._claims.problem() or "no node has the duty yet, or its holder is not connected"

    async def link_to_holder(self, pillar: bool) -> IPeerLink | None:
        """The node that has the duty; a young cluster takes some seconds until one has it."""
        end = self._ground.clock.seconds() + SERVED
        while True:
            link = self._ground.link(self._holder(pillar))
            if link is not None:
                return link
            if self._ground.clock.seconds() >= end or self._claims.problem():
                return None
            await deferLater(self._ground.clock, 0.25)

    async def _asked_to_update(self, node: str, body: bytes) -> bytes:
        copy, _ = self._ground.asked(node, body, asks=True)
        if not self.fetches(copy.is_pillar):
            raise PeerRefused("this node does not fetch")
        outcome = await as_deferred(self._ground.updates().update_now(copy.shared))
        return pack_bin(
            {
                "version": list(served(copy)),
                "error": str(outcome.get("error", "")),
                "nodes": dict(outcome.get("nodes", {})),
            }
        )

    async def _offer(self, copy: IGitCopy, version: Version, fetched: Mapping[str, Any]) -> None:
        """Have every linked node get the objects, and wait for them as long as that is bearable."""
        body = pack_bin({**told(fetched), "key": copy.shared, "version": list(version)})
        asked = []
        for link, _ in self._hearsay.with_it(copy.shared):
            waiting = as_deferred(link.ask(OFFER, body, TELLS))
            let_go(
                waiting.addErrback(self._not_taken, link.node),
                self.log,
                "git: an offer to another node has failed",
            )
            asked.append(waiting)
        await all_within(self._ground.clock, OFFERED, asked, look=POLL)

    def _not_taken(self, failure: Any, node: str) -> None:
        failure.trap(SaltwistedError)
        self.log.info(
            "git: {node} does not have the new commits yet: {why}",
            node=node,
            why=str(failure.value),
        )

    async def _offered(self, node: str, body: bytes) -> bytes:
        """Get the objects of what will be served soon."""
        copy, said = self._ground.asked(node, body)
        version = version_of(said.get("version"))
        link = self._ground.link(node)
        self._hearsay.saw(copy.shared, version)
        lock = self._ground.lock(copy.shared)
        await lock.acquire()
        try:
            ours = served(copy)
            held = self._ground.exchange.held(copy.shared)
            if link is not None and heard(ours, version, held.keys()) is Do.BRING:
                await self._ground.exchange.bring(copy, link, version, said)
        except SaltwistedError as error:
            raise PeerRefused(str(error)[:1000]) from None
        finally:
            lock.release()
        return pack_bin({"have": list(version)})

    async def all_serve(self, copy: IGitCopy) -> dict[str, bool]:
        """Wait until all linked nodes serve what this one does; returns which of them do."""
        version = served(copy)
        end = self._ground.clock.seconds() + SERVED
        while True:
            found = {self._ground.node: True}
            for link, theirs in self._hearsay.with_it(copy.shared):
                found[link.node] = theirs >= version
            if all(found.values()) or self._ground.clock.seconds() >= end:
                return found
            await deferLater(self._ground.clock, POLL)


def _is_known(copy: IGitCopy) -> bool:
    """Whether something of a repository is served, and be it that there is nothing in it."""
    return bool(copy.state.get("refs")) or served(copy) != NONE
