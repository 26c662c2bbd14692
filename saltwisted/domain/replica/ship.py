"""
What one node sends the others about one log, and asks of them: a machine without sockets.

The rules, for each peer:

 - At the connection both say what they know (L{Hello}).
 - Everybody pushes what it has itself added, at once, to all; what others have added is asked for
   (L{Want}), of one peer at a time, as soon as somebody says that he knows it and the
   node where it arose is not linked, or has been silent about it for a second. So an
   entry travels each link once, and from A to B by way of C where A and B cannot meet.
 - What has reached the disk is acknowledged: to the sender at once, to all others a moment later.
 - No queue: the log is the queue. What is on the way to a peer is bounded in bytes; a slow
   peer only falls behind.
 - A node that lacks entries that are no longer kept asks one peer for the whole state.
 - At the connection and every half minute digests are compared; with equal knowledge they
   are equal, or something is broken: then it is reported, and the parts that differ are joined.
 - A peer that knows more of this node's own stream than the node itself shows that its disk was set
   back: a new incarnation begins. A node that has not answered yet may know more, too: until all
   have, nothing is numbered under the incarnation of an earlier life (C{caught_up}).

Events are method calls with the time; what is to be done comes back as a list of effects.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from attrs import define, field, frozen

from saltwisted.domain.causality.knowledge import beyond, count_missing, covers, joined
from saltwisted.domain.replica.digest import differing
from saltwisted.domain.replica.entry import Entry, Stream, sized
from saltwisted.domain.replica.fold import Fact
from saltwisted.domain.replica.knowledge import Knowledge, advance
from saltwisted.domain.replica.words import (
    Again,
    BucketFacts,
    BucketSums,
    Digest,
    Entries,
    Facts,
    Hello,
    Known,
    Message,
    StatePart,
    TooOld,
    Want,
    WantState,
    decode,
    encode,
    state_parts,
)

BATCH_BYTES = 256 * 1024
WINDOW_BYTES = 1024 * 1024
"""What may be on the way to a peer, not acknowledged."""

KNOWN_SECONDS = 0.1
"""How long news of what is on disk here may wait for more, except for the sender."""

GRACE_SECONDS = 1.0
"""How long the node where an entry arose is waited for, before another is asked."""

MOST_RENEWALS = 16
"""How often in this life one peer is believed that our log was set back."""
WANT_SECONDS = 5.0
"""How long a peer that was asked has to make progress; then the others are asked first."""

AGAIN_SECONDS = 5.0
"""When something is tried again that this node's own disk has refused."""

DIGEST_SECONDS = 30.0
_NEVER = float("inf")


class LogView(Protocol):
    """What the machine reads of a log: all in memory, and as of now."""

    @property
    def stream(self) -> Stream: ...
    @property
    def last(self) -> int:
        """The number of the newest entry of the present stream, be it on disk yet or not."""

    def knowledge(self) -> Knowledge: ...
    def floor(self) -> Knowledge: ...
    def forgotten(self) -> Knowledge: ...
    def digests(self) -> Mapping[str, bytes]:
        """Empty while own entries are not on disk: then they do not fit the knowledge."""

    def buckets(self, kind: str) -> bytes: ...
    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Fact]: ...


@frozen
class Send:
    """Send these bytes to a peer."""

    peer: str
    message: bytes = field(repr=False)


@frozen
class Read:
    """Read entries and give them to L{Shipper.read}, also none if that failed."""

    peer: str
    after: Knowledge
    limit: int = BATCH_BYTES


@frozen
class Merge:
    """Put entries of other nodes on disk, then call L{Shipper.stored} or L{Shipper.unstored}."""

    peer: str
    entries: Sequence[Entry]


@frozen
class SendState:
    """Send the whole state in parts (L{StatePart}), as fast as the link takes it."""

    peer: str


@frozen
class MergeState:
    """
    Put a part of a peer's state on disk; where it is the last (C{knowledge} is there) call
    L{Shipper.state_stored} then.
    """

    peer: str
    facts: Facts
    knowledge: Knowledge | None = None


@frozen
class MergeFacts:
    """Put facts of a peer that differ from ours on disk."""

    peer: str
    facts: Facts


@frozen
class Renew:
    """Begin a new incarnation, then call L{Shipper.renewed} or L{Shipper.unrenewed}."""

    peer: str
    stream: Stream
    number: int


@frozen
class Forget:
    """Tombstones up to here are forgotten by a peer: have them not count here either."""

    ignored: Knowledge


@frozen
class TooFarBehind:
    """The peer was away for too long (or, C{by_peer}, we were): one of us has to join as new."""

    peer: str
    by_peer: bool


@frozen
class Doubted:
    """It says too often that it knows more of us than we do: that is not believed any more."""

    peer: str


@frozen
class Differs:
    """Equal knowledge, different content: a disk or a program is at fault. It is being mended."""

    peer: str
    kind: str


Effect = (
    Send
    | Read
    | Merge
    | SendState
    | MergeState
    | MergeFacts
    | Renew
    | Forget
    | TooFarBehind
    | Differs
    | Doubted
)


@define
class PeerProgress:
    """
    What is known of one peer, while it is linked.

    @ivar known: what it reports to have on disk.
    @ivar sent: what it has, or is on the way to it; for own streams and those it asked for.
    @ivar wanted: foreign streams that it asked for, up to which number it gets them.
    @ivar told: what it was told of our own knowledge.
    @ivar goal: what it knew when it was linked: who has that has caught up with it.
    @ivar reading: the places after which entries are being read for it.
    @ivar warned: it was told that what it lacks is no longer kept.
    @ivar parts: how many parts of its whole state have come.
    @ivar forgets: which tombstones it ignores, and what it knew when it said so.
    """

    node: str
    digest_at: float
    known: dict[Stream, int] = field(factory=dict)
    floor: Knowledge = field(factory=dict)
    sent: dict[Stream, int] = field(factory=dict)
    wanted: dict[Stream, int] = field(factory=dict)
    told: dict[Stream, int] = field(factory=dict)
    goal: Knowledge | None = None
    flying: deque[tuple[Mapping[Stream, int], int]] = field(factory=deque)
    flying_bytes: int = 0
    reading: Mapping[Stream, int] | None = None
    refused: bool = False
    warned: bool = False
    parts: int = 0
    forgets: tuple[Knowledge, Knowledge] | None = None

    @property
    def ready(self) -> bool:
        """Whether it has said hello and may be talked to."""
        return self.goal is not None and not self.refused

    def landed(self) -> None:
        """Forget what is no longer on the way."""
        while self.flying and covers(self.known, self.flying[0][0]):
            self.flying_bytes -= self.flying.popleft()[1]

    def restart(self) -> None:
        """Nothing is on the way any more; what it does not know is to be sent again."""
        self.sent = dict(self.known)
        self.flying.clear()
        self.flying_bytes = 0


@define
class _Asked:
    """Which peer was asked for a stream, and until when it has time for the next entry."""

    peer: str
    until: float


class Shipper:
    """
    The machine for one log and all its peers.

    @ivar node: this node's id.
    @ivar caught_up: peers of which this node has on disk all that they knew when they were linked,
        once since this process started.
    @ivar greeted: peers that have said what they know, once since this process started.
    """

    def __init__(self, node: str, log: LogView, dice: Random) -> None:
        """
        @param dice: spreads the digests in time.
        """
        self.node = node
        self.caught_up: set[str] = set()
        self.greeted: set[str] = set()
        self._log = log
        self._dice = dice
        self._peers: dict[str, PeerProgress] = {}
        self._left: dict[str, Knowledge] = {}
        self._taking: dict[Stream, int] = dict(log.knowledge())
        self._known_at = _NEVER
        self._lacking: dict[Stream, float] = {}
        self._grace_at = _NEVER
        self._asked: dict[Stream, _Asked] = {}
        self._state: _Asked | None = None
        # How often who was asked for a stream, or for the whole state, gave nothing
        self._missed: Counter[tuple[Stream, str]] = Counter()
        self._state_missed: Counter[str] = Counter()
        self._renewing = False
        self._renew_at = _NEVER
        self._believed: Counter[str] = Counter()

    def reset(self) -> None:
        """The log has been opened: begin with what it knows."""
        self._taking = dict(self._log.knowledge())

    # -- links

    def connected(self, peer: str, now: float) -> list[Effect]:
        """A link is up."""
        if peer in self._peers:
            self.disconnected(peer, now)
        self._peers[peer] = PeerProgress(peer, now + DIGEST_SECONDS * self._dice.uniform(0.5, 1.0))
        return [self._hello(self._peers[peer])]

    def disconnected(self, peer: str, now: float) -> list[Effect]:
        """A link has ended."""
        gone = self._peers.pop(peer, None)
        if gone is not None and gone.ready:
            self._left[peer] = gone.known
        self._asked = {s: a for s, a in self._asked.items() if a.peer != peer}
        if self._state is not None and self._state.peer == peer:
            self._state = None
        return self._ask(now)

    def _hello(self, peer: PeerProgress) -> Effect:
        log = self._log
        peer.told = dict(log.knowledge())
        return self._send(peer.node, Hello(log.knowledge(), log.floor(), log.forgotten()))

    def _send(self, peer: str, message: Message) -> Send:
        return Send(peer, encode(message))

    # -- what comes in

    def received(self, peer: str, data: bytes, now: float) -> list[Effect]:
        """
        A message has come.

        @raises WireError: it is none: the link should end.
        """
        message = decode(data)
        state = self._peers.get(peer)
        if state is None or state.refused:
            return []
        if not state.ready and not isinstance(message, Hello | TooOld):
            return []
        effects: list[Effect] = self._handlers[type(message)](self, state, message, now)
        return effects

    def _got_hello(self, peer: PeerProgress, message: Hello, now: float) -> list[Effect]:
        foreign = any(stream.node != peer.node for stream in message.knowledge)
        if foreign and not covers(message.knowledge, self._log.forgotten()):
            peer.refused = True
            return [self._send(peer.node, TooOld()), TooFarBehind(peer.node, False)]
        peer.known = dict(message.knowledge)
        peer.floor = message.floor
        peer.wanted = {}
        if peer.goal is None:
            peer.goal = message.knowledge
        peer.restart()
        peer.forgets = (message.forgotten, message.knowledge)
        self.greeted.add(peer.node)
        return [
            *self._compare(peer),
            *self._check_own(peer),
            *self._pump(peer),
            *self._ask(now),
        ]

    def _compare(self, peer: PeerProgress) -> list[Effect]:
        """Say what our digests are, where that can be compared."""
        digests = self._log.digests()
        if not digests or not self._same(peer.known):
            return []
        return [self._digest(peer)]

    def _digest(self, peer: PeerProgress) -> Effect:
        log = self._log
        return self._send(peer.node, Digest(log.knowledge(), log.forgotten(), log.digests()))

    def _forget(self) -> list[Effect]:
        """
        Forget what peers have forgotten, once all is known here that they knew then.

        Not before: an old act that had not seen the deletion must still meet it here.
        """
        log = self._log
        effects: list[Effect] = []
        for peer in self._peers.values():
            if peer.forgets is not None:
                ignored, needed = peer.forgets
                if covers(log.forgotten(), ignored):
                    peer.forgets = None
                elif covers(log.knowledge(), joined(ignored, needed)):
                    peer.forgets = None
                    effects.append(Forget(ignored))
        return effects

    def _same(self, other: Knowledge) -> bool:
        ours = self._log.knowledge()
        return covers(other, ours) and covers(ours, other)

    def _got_known(self, peer: PeerProgress, message: Known, now: float) -> list[Effect]:
        peer.known = joined(peer.known, message.knowledge)
        peer.sent = joined(peer.sent, message.knowledge)
        peer.landed()
        return [*self._check_own(peer), *self._pump(peer), *self._ask(now)]

    def _check_own(self, peer: PeerProgress) -> list[Effect]:
        """Whether the peer knows more of our own stream than we do."""
        stream, last = self._log.stream, self._log.last
        if self._renewing or self._renew_at < _NEVER or peer.known.get(stream, 0) <= last:
            return []
        # A disk is set back once in a while. A peer that says so again and again is malicious:
        # each time all nodes know one more stream, for good.
        self._believed[peer.node] += 1
        if self._believed[peer.node] > MOST_RENEWALS:
            first = self._believed[peer.node] == MOST_RENEWALS + 1
            return [Doubted(peer.node)] if first else []
        self._renewing = True
        return [Renew(peer.node, stream, peer.known[stream])]

    def _got_entries(self, peer: PeerProgress, message: Entries, now: float) -> list[Effect]:
        self._taking = joined(self._taking, self._log.knowledge())
        taken = advance(self._taking, message.entries)
        ends = {entry.stream: entry.number for entry in message.entries}
        peer.known = joined(peer.known, ends)
        for stream in {entry.stream for entry in taken}:
            self._missed.pop((stream, peer.node), None)
            asked = self._asked.get(stream)
            if asked is not None and asked.peer == peer.node:
                asked.until = now + WANT_SECONDS
        effects: list[Effect] = [*self._check_own(peer)]
        if taken:
            effects.append(Merge(peer.node, taken))
        if not covers(self._taking, ends):
            for stream in ends:
                self._asked.pop(stream, None)
            effects.append(self._send(peer.node, Again(self._taking)))
            effects += self._ask(now)
        elif not taken:
            # Nothing new in it: the sender does not know what we have
            effects.append(self._tell(peer, ends))
        return effects

    def _tell(self, peer: PeerProgress, streams: Iterable[Stream]) -> Effect:
        knowledge = self._log.knowledge()
        news = {stream: knowledge[stream] for stream in streams if stream in knowledge}
        peer.told = joined(peer.told, news)
        return self._send(peer.node, Known(news))

    def _got_want(self, peer: PeerProgress, message: Want, now: float) -> list[Effect]:
        knowledge = self._log.knowledge()
        for stream, number in message.after.items():
            if knowledge.get(stream, 0) > number:
                peer.wanted[stream] = knowledge[stream]
                peer.sent[stream] = number
        return self._pump(peer)

    def _got_again(self, peer: PeerProgress, message: Again, now: float) -> list[Effect]:
        peer.known = joined(peer.known, message.knowledge)
        peer.wanted = {}
        peer.restart()
        # It may have taken entries whose acknowledgement is still on the way
        peer.sent = joined(peer.sent, message.knowledge)
        return self._pump(peer)

    # -- what goes out

    def _pump(self, peer: PeerProgress) -> list[Effect]:
        """Have entries read for a peer, if it lacks some and there is room on the way."""
        if not peer.ready or peer.reading is not None or peer.flying_bytes >= WINDOW_BYTES:
            return []
        goal = self._goal(peer)
        lacking = {s: n for s, n in goal.items() if n > peer.sent.get(s, 0)}
        floor = self._log.floor()
        below = [s for s in lacking if peer.sent.get(s, 0) < floor.get(s, 0)]
        effects: list[Effect] = []
        for stream in below:
            peer.wanted.pop(stream, None)
            lacking.pop(stream)
        if below and not peer.warned:
            # The floor may have risen since it was told: it has to ask for the whole state
            peer.warned = True
            effects.append(self._hello(peer))
        elif not below:
            peer.warned = False
        if lacking:
            after = {stream: peer.sent.get(stream, 0) for stream in lacking}
            peer.reading = after
            effects.append(Read(peer.node, {**self._log.knowledge(), **after}))
        return effects

    def _goal(self, peer: PeerProgress) -> dict[Stream, int]:
        """What a peer is to get from us: what arose here, and what it asked for."""
        goal = {s: n for s, n in self._log.knowledge().items() if s.node == self.node}
        return joined(goal, peer.wanted)

    def read(self, peer: str, entries: Sequence[Entry], now: float) -> list[Effect]:
        """Entries that were to be read are here; none if that failed (the peer asks again)."""
        state = self._peers.get(peer)
        if state is None:
            return []
        after, state.reading = state.reading or {}, None
        if not state.ready:
            return []
        fresh = advance(dict(state.sent), entries)
        if not fresh:
            moved = any(state.sent.get(stream, 0) != number for stream, number in after.items())
            return self._pump(state) if moved else []
        return [*self._give(state, fresh), *self._pump(state)]

    def _give(self, peer: PeerProgress, entries: Sequence[Entry]) -> list[Effect]:
        ends = {entry.stream: entry.number for entry in entries}
        peer.sent = joined(peer.sent, ends)
        size = sum(entry.size for entry in entries)
        peer.flying.append((ends, size))
        peer.flying_bytes += size
        for stream, number in ends.items():
            if peer.wanted.get(stream, 0) <= number:
                peer.wanted.pop(stream, None)
        return [self._send(peer.node, Entries(entries))]

    def stored(self, entries: Sequence[Entry], source: str, now: float) -> list[Effect]:
        """
        Entries are on disk here.

        @param source: which peer sent them; C{""} where they arose here.
        """
        effects: list[Effect] = []
        if not source:
            for peer in self._peers.values():
                effects += self._push(peer, entries)
        sender = self._peers.get(source)
        if sender is not None and sender.ready:
            effects.append(self._tell(sender, {entry.stream for entry in entries}))
        if self._peers:
            self._known_at = min(self._known_at, now + KNOWN_SECONDS)
        return [*effects, *self._ask(now)]

    def _push(self, peer: PeerProgress, entries: Sequence[Entry]) -> list[Effect]:
        if not peer.ready:
            return []
        if peer.reading is None and peer.flying_bytes < WINDOW_BYTES:
            place = dict(peer.sent)
            whole = advance(place, entries)
            if len(whole) == len(entries):
                few = sized(whole, BATCH_BYTES)
                effects = self._give(peer, few)
                return effects if len(few) == len(whole) else [*effects, *self._pump(peer)]
        return self._pump(peer)

    def unstored(self, now: float) -> list[Effect]:
        """A merge has failed: what it would have brought is still wanted."""
        self._taking = dict(self._log.knowledge())
        return self._ask(now)

    # -- what is missing here

    def _ask(self, now: float) -> list[Effect]:
        """Ask for what somebody knows, the node where it arose does not give, and we lack."""
        taking = self._taking = joined(self._taking, self._log.knowledge())
        ready = [peer for peer in self._peers.values() if peer.ready]
        for peer in ready:
            if peer.node not in self.caught_up and self.caught_up_with(peer.node):
                self.caught_up.add(peer.node)
        if self._state is not None and self._state.until <= now:
            self._state_missed[self._state.peer] += 1
            self._state = None
        effects = [*self._forget(), *self._ask_state(ready, now)]
        lacking: dict[Stream, list[PeerProgress]] = {}
        for peer in ready:
            for stream in beyond(peer.known, taking):
                lacking.setdefault(stream, []).append(peer)
        self._lacking = {s: self._lacking.get(s, now) for s in lacking}
        self._missed += Counter(
            (s, a.peer) for s, a in self._asked.items() if s in lacking and a.until <= now
        )
        self._missed = Counter({key: n for key, n in self._missed.items() if key[0] in lacking})
        self._asked = {s: a for s, a in self._asked.items() if s in lacking and a.until > now}
        self._grace_at = _NEVER
        wants: dict[str, dict[Stream, int]] = {}
        for stream, givers in lacking.items():
            if stream in self._asked or stream == self._log.stream:
                continue
            origin = self._peers.get(stream.node)
            grace = self._lacking[stream] + GRACE_SECONDS
            if origin is not None and now < grace:
                self._grace_at = min(self._grace_at, grace)
                continue
            able = [p for p in givers if taking.get(stream, 0) >= p.floor.get(stream, 0)]
            if not able:
                continue
            # Different streams of different peers, the same choice for the same stream; and who
            # gave nothing is asked after the others, for its disk may have erred
            giver = max(
                able,
                key=lambda p: (
                    -self._missed[stream, p.node],
                    p.known[stream],
                    -len(wants.get(p.node, ())),
                    p.node,
                ),
            )
            wants.setdefault(giver.node, {})[stream] = taking.get(stream, 0)
            self._asked[stream] = _Asked(giver.node, now + WANT_SECONDS)
        effects += [self._send(node, Want(after)) for node, after in sorted(wants.items())]
        return effects

    def _ask_state(self, ready: Sequence[PeerProgress], now: float) -> list[Effect]:
        if self._state is not None:
            return []
        able = [peer for peer in ready if not covers(self._taking, peer.floor)]
        if not able:
            self._state_missed.clear()
            return []
        peer = min(able, key=lambda p: self._state_missed[p.node])
        self._state = _Asked(peer.node, now + WANT_SECONDS)
        peer.parts = 0
        return [self._send(peer.node, WantState())]

    def _got_want_state(self, peer: PeerProgress, message: WantState, now: float) -> list[Effect]:
        return [SendState(peer.node)]

    def _got_state(self, peer: PeerProgress, message: StatePart, now: float) -> list[Effect]:
        if self._state is None or self._state.peer != peer.node:
            return []
        if message.index == 0:
            peer.parts = 0
        elif message.index != peer.parts:
            self._state = None
            return self._ask(now)
        peer.parts = message.index + 1
        self._state.until = now + 4 * WANT_SECONDS
        return [MergeState(peer.node, message.facts, message.knowledge)]

    def state_stored(self, peer: str, now: float) -> list[Effect]:
        """The last part of a state is on disk, and what is known by it with it."""
        if self._state is not None and self._state.peer == peer:
            self._state = None
        self._known_at = min(self._known_at, now)
        return self._ask(now)

    # -- digests

    def _got_digest(self, peer: PeerProgress, message: Digest, now: float) -> list[Effect]:
        peer.known = joined(peer.known, message.knowledge)
        effects = self._check_own(peer)
        peer.forgets = (message.forgotten, message.knowledge)
        peer.landed()
        if peer.flying or not covers(message.knowledge, peer.sent):
            # It is awake, and has not got what was sent: a reliable link does not do that
            peer.known = dict(message.knowledge)
            peer.restart()
        effects += self._pump(peer) + self._ask(now)
        ours = self._log.digests()
        if not ours or not self._same(message.knowledge):
            return effects
        for kind, digest in sorted(message.digests.items()):
            if kind in ours and ours[kind] != digest:
                effects.append(Differs(peer.node, kind))
                effects.append(
                    self._send(peer.node, BucketSums(kind, self._log.buckets(kind))),
                )
        return effects

    def _got_buckets(self, peer: PeerProgress, message: BucketSums, now: float) -> list[Effect]:
        kind = message.kind
        if kind not in self._log.digests():
            return []
        return self._facts_for(peer, kind, differing(message.sums, self._log.buckets(kind)), True)

    def _facts_for(
        self, peer: PeerProgress, kind: str, buckets: Sequence[int], answer: bool
    ) -> list[Effect]:
        if not buckets or not self._log.digests():
            # Not while own entries are on their way to the disk: a crash could undo them
            return []
        facts = self._log.dump_buckets(kind, set(buckets))
        parts = list(state_parts(((kind, fact) for fact in facts), BATCH_BYTES))
        effects: list[Effect] = []
        for part in parts:
            last = part is parts[-1]
            some = [fact for _, fact in part]
            effects.append(
                self._send(peer.node, BucketFacts(kind, some, buckets, answer and last)),
            )
        return effects

    def _got_facts(self, peer: PeerProgress, message: BucketFacts, now: float) -> list[Effect]:
        kind = message.kind
        effects: list[Effect] = [MergeFacts(peer.node, [(kind, fact) for fact in message.facts])]
        if message.answer:
            effects += self._facts_for(peer, kind, message.buckets, False)
        return effects

    def _got_too_old(self, peer: PeerProgress, message: TooOld, now: float) -> list[Effect]:
        peer.refused = True
        return [TooFarBehind(peer.node, True)]

    def renewed(self, now: float) -> list[Effect]:
        """The log has begun a new incarnation."""
        self._renewing = False
        self._renew_at = _NEVER
        self._taking = dict(self._log.knowledge())
        self._asked = {}
        effects: list[Effect] = [self._hello(p) for p in self._peers.values() if not p.refused]
        for peer in self._peers.values():
            effects += self._pump(peer)
        return [*effects, *self._ask(now)]

    def unrenewed(self, peer: str, now: float) -> list[Effect]:
        """No new incarnation could be begun, because of a peer: it is tried again."""
        self._renewing = False
        self._renew_at = now + AGAIN_SECONDS
        # That was this node's own fault
        self._believed[peer] -= 1
        return []

    def begun_anew(self, now: float) -> list[Effect]:
        """
        The log has lost what it held: what was believed to be on its way or on the disk is not.

        The peers hear it by a hello, and send again what arose on them; the rest is asked for.
        """
        self._state = None
        self._lacking = {}
        return self.renewed(now)

    # -- time

    def due(self) -> float:
        """When L{tick} wants to be called next."""
        times = [self._known_at, self._grace_at, self._renew_at]
        times += [peer.digest_at for peer in self._peers.values() if peer.ready]
        times += [asked.until for asked in self._asked.values()]
        if self._state is not None:
            times.append(self._state.until)
        return min(times)

    def tick(self, now: float) -> list[Effect]:
        """Time has passed."""
        effects: list[Effect] = []
        if now >= self._known_at:
            self._known_at = _NEVER
            for peer in self._peers.values():
                news = beyond(self._log.knowledge(), peer.told)
                if peer.ready and news:
                    effects.append(self._tell(peer, news))
        if now >= self._renew_at:
            self._renew_at = _NEVER
            for peer in self._peers.values():
                effects += self._check_own(peer)
        for peer in self._peers.values():
            if peer.ready and now >= peer.digest_at:
                peer.digest_at = now + DIGEST_SECONDS * self._dice.uniform(0.75, 1.25)
                effects.append(self._digest(peer))
                effects += self._pump(peer)
        return [*effects, *self._ask(now)]

    # -- questions

    def confirmed_by(self, stream: Stream, number: int) -> list[str]:
        """The linked peers that have an entry on disk."""
        return sorted(
            p.node for p in self._peers.values() if p.ready and p.known.get(stream, 0) >= number
        )

    def confirmed(self) -> int:
        """How far some linked peer has the present stream of this node on disk."""
        stream = self._log.stream
        return max((p.known.get(stream, 0) for p in self._peers.values() if p.ready), default=0)

    def linked(self) -> list[str]:
        """The peers that have said hello and are not refused."""
        return sorted(peer.node for peer in self._peers.values() if peer.ready)

    def caught_up_with(self, peer: str) -> bool:
        """Whether all is on disk here that this peer knew when it was linked."""
        state = self._peers.get(peer)
        return state is not None and state.ready and covers(self._log.knowledge(), state.goal or {})

    def has_all_of(self, peer: str) -> bool:
        """Whether all is on disk here that a linked peer has said to know."""
        state = self._peers.get(peer)
        return state is not None and state.ready and covers(self._log.knowledge(), state.known)

    def lag(self, peer: str) -> int | None:
        """How many entries a linked peer has yet to put on disk; C{None} when it is not linked."""
        state = self._peers.get(peer)
        if state is None or not state.ready:
            return None
        return count_missing(state.known, self._log.knowledge())

    def lacks(self, peer: str) -> int | None:
        """The same, also of a peer that is away: by what it had; C{None} when it never was here."""
        lag = self.lag(peer)
        if lag is None and peer in self._left:
            return count_missing(self._left[peer], self._log.knowledge())
        return lag

    _handlers: Mapping[type, Any] = {
        Hello: _got_hello,
        Entries: _got_entries,
        Known: _got_known,
        Want: _got_want,
        Again: _got_again,
        WantState: _got_want_state,
        StatePart: _got_state,
        Digest: _got_digest,
        BucketSums: _got_buckets,
        BucketFacts: _got_facts,
        TooOld: _got_too_old,
    }
