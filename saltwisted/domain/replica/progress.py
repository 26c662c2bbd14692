"""
What is known of the peers to which a log is shipped: what each has, and what is on its way to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from attrs import define, field

from saltwisted.domain.causality.knowledge import count_missing, covers
from saltwisted.domain.replica.effects import LogView
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.knowledge import Knowledge


@define
class PeerProgress:
    """
    What is known of one peer, while it is linked.

    @ivar known: what it reports to have on disk.
    @ivar sent: what it has, or what is on the way to it; for own streams and those that it
        requested.
    @ivar wanted: foreign streams that it requested, and up to which number it gets them.
    @ivar told: what it was told of our own knowledge.
    @ivar goal: what it knew when it was linked: a node that has that has caught up with it.
    @ivar reading: the places after which entries are being read for it.
    @ivar warned: whether it was told that what it lacks is no longer kept.
    @ivar parts: how many parts of its whole state have arrived.
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
        """Whether it has said hello and may be sent messages."""
        return self.goal is not None and not self.refused

    def landed(self) -> None:
        """Forget what is no longer on the way."""
        while self.flying and covers(self.known, self.flying[0][0]):
            self.flying_bytes -= self.flying.popleft()[1]

    def restart(self) -> None:
        """Nothing is on the way any more; everything that it does not know must be sent again."""
        self.sent = dict(self.known)
        self.flying.clear()
        self.flying_bytes = 0


class PeerTable:
    """
    The linked peers, and what those had that have left.

    @ivar all: by their names.
    """

    def __init__(self, log: LogView) -> None:
        self.all: dict[str, PeerProgress] = {}
        self._log = log
        self._gone: dict[str, Knowledge] = {}

    def remove(self, peer: str) -> None:
        """A link has ended."""
        gone = self.all.pop(peer, None)
        if gone is not None and gone.ready:
            self._gone[peer] = gone.known

    def ready(self) -> list[PeerProgress]:
        """Those that have said hello and are not refused."""
        return [peer for peer in self.all.values() if peer.ready]

    def confirmed_by(self, stream: Stream, number: int) -> list[str]:
        """The linked peers that have an entry on disk."""
        return sorted(
            p.node for p in self.all.values() if p.ready and p.known.get(stream, 0) >= number
        )

    def confirmed(self) -> int:
        """How far some linked peer has the present stream of this node on disk."""
        stream = self._log.stream
        return max((p.known.get(stream, 0) for p in self.all.values() if p.ready), default=0)

    def linked(self) -> list[str]:
        """The peers that have said hello and are not refused."""
        return sorted(peer.node for peer in self.all.values() if peer.ready)

    def caught_up_with(self, peer: str) -> bool:
        """Whether all is on disk here that this peer knew when it was linked."""
        state = self.all.get(peer)
        return state is not None and state.ready and covers(self._log.knowledge(), state.goal or {})

    def has_all_of(self, peer: str) -> bool:
        """Whether everything that a linked peer has said it knows is on disk here."""
        state = self.all.get(peer)
        return state is not None and state.ready and covers(self._log.knowledge(), state.known)

    def lag(self, peer: str) -> int | None:
        """How many entries a linked peer has yet to put on disk; C{None} when it is not linked."""
        state = self.all.get(peer)
        if state is None or not state.ready:
            return None
        return count_missing(state.known, self._log.knowledge())

    def lacks(self, peer: str) -> int | None:
        """The same, also for a peer that is away: by what it had; C{None} if it never was here."""
        lag = self.lag(peer)
        if lag is None and peer in self._gone:
            return count_missing(self._gone[peer], self._log.knowledge())
        return lag
