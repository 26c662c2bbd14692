"""
What one node sends the others about one log, and requests from them: a machine without sockets.

The rules, for each peer:

 - When they connect, both say what they know (L{Hello}).
 - Each node pushes its own entries at once, to all. Entries of other nodes are requested
   (L{Want}), from one peer at a time, as soon as a peer says that it knows them and the
   node that created them is not linked, or has been silent about them for a second. So an
   entry crosses each link once, and gets from A to B through C if A and B cannot connect.
 - What has reached the disk is acknowledged: to the sender at once, to all others a moment later.
 - There is no queue: the log is the queue. What is on the way to a peer is limited in bytes; a slow
   peer only falls behind.
 - A node that lacks entries that are no longer kept asks one peer for the whole state.
 - When nodes connect, and every half minute, they compare digests. With equal knowledge these
   are equal, or something is broken: then it is reported, and the differing parts are joined.
 - If a peer knows more of this node's own stream than the node itself, this node's disk was set
   back: a new incarnation begins. A node that has not answered yet may know more, too: until all
   have, nothing is numbered under the incarnation of an earlier life (C{caught_up}).
 - A node takes entries of its own present incarnation from nobody.
 - A peer that names thousands of streams of which nobody has heard is refused: each of them would
   stay for good on all nodes, and in all that they say to each other.

Events are method calls with the time; the result is a list of effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from saltwisted.domain.allowance import Allowance
from saltwisted.domain.causality.knowledge import beyond, covers, joined
from saltwisted.domain.replica.asking import Asking
from saltwisted.domain.replica.comparing import Comparing
from saltwisted.domain.replica.effects import (
    Effect,
    Forget,
    LogView,
    Merge,
    MergeState,
    SendState,
    TooFarBehind,
    TooManyStreams,
    send,
)
from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.domain.replica.giving import Giving, hello
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.domain.replica.progress import PeerProgress, PeerTable
from saltwisted.domain.replica.setback import SetBack
from saltwisted.domain.replica.words import (
    Again,
    BucketFacts,
    BucketSums,
    Digest,
    Entries,
    Hello,
    Known,
    StatePart,
    TooOld,
    Want,
    WantState,
    decode,
)

KNOWN_SECONDS = 0.1
"""How long news of what is on disk here may wait for more, except for the sender."""

DIGEST_SECONDS = 30.0

MOST_UNKNOWN = 5000
"""Streams that a peer may name, or bring, that are not known here: an honest one brings those of
starts of nodes while this one was away. A node that knows nothing takes all that there are."""

STREAMS_A_DAY = 200
"""How many a peer may bring again on each day."""
_NEVER = float("inf")


class Shipper:
    """
    The machine for one log and all its peers.

    @ivar node: this node's id.
    @ivar peers: what is known of them; for queries.
    @ivar caught_up: peers of which this node has had on disk everything that they knew when they
        were linked, at some time since this process started.
    @ivar greeted: peers that have said what they know, at some time since this process started.
    """

    def __init__(self, node: str, log: LogView, dice: Random) -> None:
        """
        @param dice: spreads the digests in time.
        """
        self.node = node
        self.peers = PeerTable(log)
        self.caught_up: set[str] = set()
        self.greeted: set[str] = set()
        self._log = log
        self._dice = dice
        self._asking = Asking(log)
        self._giving = Giving(node, log)
        self._comparing = Comparing(log)
        self._set_back = SetBack(log)
        self._known_at = _NEVER
        self._streams = Allowance(MOST_UNKNOWN, STREAMS_A_DAY / 86400)

    def reset(self) -> None:
        """The log has been opened: begin with what it knows."""
        self._asking.reset()

    # -- links

    def connected(self, peer: str, now: float) -> list[Effect]:
        """A link is up."""
        if peer in self.peers.all:
            self.disconnected(peer, now)
        state = PeerProgress(peer, now + DIGEST_SECONDS * self._dice.uniform(0.5, 1.0))
        self.peers.all[peer] = state
        return [hello(self._log, state)]

    def disconnected(self, peer: str, now: float) -> list[Effect]:
        """A link has ended."""
        self.peers.remove(peer)
        self._asking.left(peer)
        return self._ask(now)

    # -- what comes in

    def received(self, peer: str, data: bytes, now: float) -> list[Effect]:
        """
        A message has come.

        @raises WireError: it is none: the link should end.
        """
        message = decode(data)
        state = self.peers.all.get(peer)
        if state is None or state.refused:
            return []
        if not state.ready and not isinstance(message, Hello | TooOld):
            return []
        effects = self._handlers[type(message)](self, state, message, now)
        if not state.refused and len(state.known) > len(self._log.knowledge()) + MOST_UNKNOWN:
            # Only then is it worth counting
            effects = self._too_many(state, state.known, now) or effects
        return effects

    def _too_many(self, peer: PeerProgress, named: Knowledge, now: float) -> list[Effect]:
        """Refuse a peer that names more streams than may be; nothing while there are few."""
        ours = self._log.knowledge()
        new = sum(1 for stream in named if stream not in ours)
        if new <= self._streams.left(peer.node, now) or not any(
            stream.node != self.node for stream in ours
        ):
            return []
        peer.refused = True
        self._asking.left(peer.node)
        return [TooManyStreams(peer.node)]

    def _brings(self, peer: PeerProgress, named: Knowledge, now: float) -> list[Effect]:
        """A peer brings entries, or a state, of these streams: are there too many new ones?"""
        refusal = self._too_many(peer, named, now)
        if not refusal:
            ours = self._log.knowledge()
            self._streams.take(peer.node, sum(1 for s in named if s not in ours), now)
        return refusal

    def _got_hello(self, peer: PeerProgress, message: Hello, now: float) -> list[Effect]:
        foreign = any(stream.node != peer.node for stream in message.knowledge)
        if foreign and not covers(message.knowledge, self._log.forgotten()):
            peer.refused = True
            return [send(peer.node, TooOld()), TooFarBehind(peer.node, False)]
        peer.known = dict(message.knowledge)
        peer.floor = message.floor
        peer.wanted = {}
        if peer.goal is None:
            peer.goal = message.knowledge
        peer.restart()
        peer.forgets = (message.forgotten, message.knowledge)
        self.greeted.add(peer.node)
        return [
            *self._comparing.begin(peer),
            *self._set_back.check(peer),
            *self._giving.pump(peer),
            *self._ask(now),
        ]

    def _forget(self) -> list[Effect]:
        """
        Forget what peers have forgotten, once all is known here that they knew then.

        Not before: an old act that had not seen the deletion must still meet it here. Nor what
        has been known here for less than a day: deletions are remembered for weeks, and a member
        that says that it has forgotten the newest ones would have all others refuse whoever was
        away for a moment.
        """
        log = self._log
        effects: list[Effect] = []
        for peer in self.peers.all.values():
            if peer.forgets is not None:
                ignored, needed = peer.forgets
                if covers(log.forgotten(), ignored):
                    peer.forgets = None
                elif covers(log.aged(), ignored) and covers(
                    log.knowledge(), joined(ignored, needed)
                ):
                    peer.forgets = None
                    effects.append(Forget(ignored))
        return effects

    def _got_known(self, peer: PeerProgress, message: Known, now: float) -> list[Effect]:
        peer.known = joined(peer.known, message.knowledge)
        peer.sent = joined(peer.sent, message.knowledge)
        peer.landed()
        return [*self._set_back.check(peer), *self._giving.pump(peer), *self._ask(now)]

    def _got_entries(self, peer: PeerProgress, message: Entries, now: float) -> list[Effect]:
        asking = self._asking
        ends = {entry.stream: entry.number for entry in message.entries}
        fresh = {stream: n for stream, n in ends.items() if stream not in asking.taking}
        if fresh and (refusal := self._brings(peer, fresh, now)):
            return refusal
        peer.known = joined(peer.known, ends)
        effects: list[Effect] = [*self._set_back.check(peer)]
        # What stands under this node's own numbers, it alone says
        own = self._log.stream
        ends.pop(own, None)
        others = [entry for entry in message.entries if entry.stream != own]
        taken = asking.take(peer.node, others, now)
        if taken:
            effects.append(Merge(peer.node, taken))
        if not covers(asking.taking, ends):
            asking.take_back(ends)
            effects.append(send(peer.node, Again(asking.taking)))
            effects += self._ask(now)
        elif ends and not taken:
            # Nothing new in it: the sender does not know what we have
            effects.append(self._tell(peer, ends))
        return effects

    def _tell(self, peer: PeerProgress, streams: Iterable[Stream]) -> Effect:
        knowledge = self._log.knowledge()
        news = {stream: knowledge[stream] for stream in streams if stream in knowledge}
        peer.told = joined(peer.told, news)
        return send(peer.node, Known(news))

    def _got_state(self, peer: PeerProgress, message: StatePart, now: float) -> list[Effect]:
        good = self._asking.take_part(peer, message, now)
        if good is None:
            return []
        if not good:
            return self._ask(now)
        if message.knowledge is not None and (
            refusal := self._brings(peer, message.knowledge, now)
        ):
            return refusal
        return [MergeState(peer.node, message.facts, message.knowledge)]

    def _got_digest(self, peer: PeerProgress, message: Digest, now: float) -> list[Effect]:
        peer.known = joined(peer.known, message.knowledge)
        effects = self._set_back.check(peer)
        peer.forgets = (message.forgotten, message.knowledge)
        peer.landed()
        if peer.flying or not covers(message.knowledge, peer.sent):
            # It is awake, and has not got what was sent: a reliable link does not do that
            peer.known = dict(message.knowledge)
            peer.restart()
        effects += self._giving.pump(peer) + self._ask(now)
        return effects + self._comparing.compare(peer, message.knowledge, message.digests)

    def _got_too_old(self, peer: PeerProgress, message: TooOld, now: float) -> list[Effect]:
        peer.refused = True
        return [TooFarBehind(peer.node, True)]

    # -- what was done

    def read(self, peer: str, entries: Sequence[Entry], now: float) -> list[Effect]:
        """Entries that were to be read are here; none if that failed (the peer asks again)."""
        state = self.peers.all.get(peer)
        return [] if state is None else self._giving.read(state, entries)

    def stored(self, entries: Sequence[Entry], source: str, now: float) -> list[Effect]:
        """
        Entries are on disk here.

        @param source: the peer that sent them; C{""} if this node created them.
        """
        effects: list[Effect] = []
        peers = self.peers.all
        if not source:
            for peer in peers.values():
                effects += self._giving.push(peer, entries)
            self._giving.given()
        sender = peers.get(source)
        if sender is not None and sender.ready:
            effects.append(self._tell(sender, {entry.stream for entry in entries}))
        if peers:
            self._known_at = min(self._known_at, now + KNOWN_SECONDS)
        return [*effects, *self._ask(now)]

    def unstored(self, now: float) -> list[Effect]:
        """A merge has failed: its entries are still wanted."""
        self._asking.reset()
        return self._ask(now)

    def state_stored(self, peer: str, now: float) -> list[Effect]:
        """The last part of a state is on disk, with the knowledge that it gives."""
        self._asking.took_state(peer)
        self._known_at = min(self._known_at, now)
        return self._ask(now)

    def renewed(self, now: float) -> list[Effect]:
        """The log has begun a new incarnation."""
        self._set_back.renewed()
        self._asking.begin_again()
        peers = self.peers.all.values()
        effects: list[Effect] = [hello(self._log, peer) for peer in peers if not peer.refused]
        for peer in peers:
            effects += self._giving.pump(peer)
        return [*effects, *self._ask(now)]

    def unrenewed(self, peer: str, now: float) -> list[Effect]:
        """No new incarnation could be begun, because of a peer: it is tried again."""
        self._set_back.failed(peer, now)
        return []

    def begun_anew(self, now: float) -> list[Effect]:
        """
        The log has lost its contents: entries that seemed to be on their way or on disk are not.

        The peers are told by a hello, and send their own entries again; the rest is requested.
        """
        self._asking.forget_all()
        return self.renewed(now)

    def _ask(self, now: float) -> list[Effect]:
        """Ask for what is lacking here, of who is linked."""
        ready = self.peers.ready()
        for peer in ready:
            if peer.node not in self.caught_up and self.peers.caught_up_with(peer.node):
                self.caught_up.add(peer.node)
        return [*self._forget(), *self._asking.ask(ready, self.peers.all, now)]

    # -- time

    def due(self) -> float:
        """When L{tick} wants to be called next."""
        times = [self._known_at, self._set_back.again_at, self._asking.due()]
        times += [peer.digest_at for peer in self.peers.ready()]
        return min(times)

    def tick(self, now: float) -> list[Effect]:
        """Time has passed."""
        effects: list[Effect] = []
        peers = self.peers.all.values()
        if now >= self._known_at:
            self._known_at = _NEVER
            for peer in peers:
                news = beyond(self._log.knowledge(), peer.told)
                if peer.ready and news:
                    effects.append(self._tell(peer, news))
        if self._set_back.is_due(now):
            for peer in peers:
                effects += self._set_back.check(peer)
        for peer in peers:
            if peer.ready and now >= peer.digest_at:
                peer.digest_at = now + DIGEST_SECONDS * self._dice.uniform(0.75, 1.25)
                effects.append(self._comparing.digest(peer))
                effects += self._giving.pump(peer)
        return [*effects, *self._ask(now)]

    _handlers: Mapping[type, Callable[[Shipper, PeerProgress, Any, float], list[Effect]]] = {
        Hello: _got_hello,
        Entries: _got_entries,
        Known: _got_known,
        Want: lambda machine, peer, message, now: machine._giving.wanted(peer, message),
        Again: lambda machine, peer, message, now: machine._giving.again(peer, message),
        WantState: lambda machine, peer, message, now: [SendState(peer.node)],
        StatePart: _got_state,
        Digest: _got_digest,
        BucketSums: lambda machine, peer, message, now: machine._comparing.sums(peer, message),
        BucketFacts: lambda machine, peer, message, now: machine._comparing.facts(peer, message),
        TooOld: _got_too_old,
    }
