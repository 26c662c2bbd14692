"""
What a node lacks of a log, and which peer it has asked for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import define

from saltwisted.domain.causality.knowledge import beyond, covers, joined
from saltwisted.domain.replica.effects import LogView, Send, send
from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.domain.replica.knowledge import advance
from saltwisted.domain.replica.progress import PeerProgress
from saltwisted.domain.replica.words import StatePart, Want, WantState

GRACE_SECONDS = 1.0
"""How long the node where an entry arose is waited for, before another is asked."""

WANT_SECONDS = 5.0
"""How long a peer that was asked has to make progress; then the others are asked first."""

_NEVER = float("inf")


@define
class _Asked:
    """Which peer was asked for a stream, and until when it has time for the next entry."""

    peer: str
    until: float


class Asking:
    """
    One peer at a time is asked for each stream, and one for the whole state.

    @ivar taking: what is on disk here, or being written.
    """

    def __init__(self, log: LogView) -> None:
        self.taking: dict[Stream, int] = dict(log.knowledge())
        self._log = log
        self._lacking: dict[Stream, float] = {}
        self._grace_at = _NEVER
        self._asked: dict[Stream, _Asked] = {}
        self._state: _Asked | None = None
        # How often who was asked for a stream, or for the whole state, gave nothing
        self._missed: Counter[tuple[Stream, str]] = Counter()
        self._state_missed: Counter[str] = Counter()

    def reset(self) -> None:
        """Pending writes do not reach the disk: begin with what is there."""
        self.taking = dict(self._log.knowledge())

    def begin_again(self) -> None:
        """The same, and nobody has been asked for entries."""
        self.reset()
        self._asked = {}

    def forget_all(self) -> None:
        """The log has lost its contents: nobody has been asked for anything."""
        self._state = None
        self._lacking = {}

    def left(self, peer: str) -> None:
        """A link has ended: what its peer was asked for does not come."""
        self._asked = {s: a for s, a in self._asked.items() if a.peer != peer}
        if self._state is not None and self._state.peer == peer:
            self._state = None

    def take(self, peer: str, entries: Sequence[Entry], now: float) -> list[Entry]:
        """A peer has sent entries; those that are to be put on disk."""
        self.taking = joined(self.taking, self._log.knowledge())
        taken = advance(self.taking, entries)
        for stream in {entry.stream for entry in taken}:
            self._missed.pop((stream, peer), None)
            asked = self._asked.get(stream)
            if asked is not None and asked.peer == peer:
                asked.until = now + WANT_SECONDS
        return taken

    def take_back(self, streams: Iterable[Stream]) -> None:
        """These do not come as they were asked for."""
        for stream in streams:
            self._asked.pop(stream, None)

    def ask(
        self, ready: Sequence[PeerProgress], linked: Mapping[str, PeerProgress], now: float
    ) -> list[Send]:
        """
        Ask for entries that a peer knows, we lack, and the node that created them does not send.

        @param ready: which peers may be asked.
        @param linked: all peers, including those that have not said hello yet.
        """
        taking = self.taking = joined(self.taking, self._log.knowledge())
        if self._state is not None and self._state.until <= now:
            self._state_missed[self._state.peer] += 1
            self._state = None
        effects = self._ask_state(ready, now)
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
            origin = linked.get(stream.node)
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
        effects += [send(node, Want(after)) for node, after in sorted(wants.items())]
        return effects

    def _ask_state(self, ready: Sequence[PeerProgress], now: float) -> list[Send]:
        if self._state is not None:
            return []
        able = [peer for peer in ready if not covers(self.taking, peer.floor)]
        if not able:
            self._state_missed.clear()
            return []
        peer = min(able, key=lambda p: self._state_missed[p.node])
        self._state = _Asked(peer.node, now + WANT_SECONDS)
        peer.parts = 0
        return [send(peer.node, WantState())]

    def take_part(self, peer: PeerProgress, part: StatePart, now: float) -> bool | None:
        """
        A part of a state has come; C{None}: it was not asked for, false: it is not the next one,
        and the state is to be asked for again.
        """
        if self._state is None or self._state.peer != peer.node:
            return None
        if part.index == 0:
            peer.parts = 0
        elif part.index != peer.parts:
            self._state = None
            return False
        peer.parts = part.index + 1
        self._state.until = now + 4 * WANT_SECONDS
        return True

    def took_state(self, peer: str) -> None:
        """The whole state of a peer is on disk."""
        if self._state is not None and self._state.peer == peer:
            self._state = None

    def due(self) -> float:
        """When L{ask} wants to be called next."""
        times = [self._grace_at, *(asked.until for asked in self._asked.values())]
        if self._state is not None:
            times.append(self._state.until)
        return min(times)
