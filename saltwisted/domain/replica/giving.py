"""
What peers get of a log: own entries at once, entries of other nodes on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from saltwisted.domain.causality.knowledge import joined
from saltwisted.domain.replica.effects import BATCH_BYTES, Effect, LogView, Read, Send, send
from saltwisted.domain.replica.entry import Entry, Stream, sized
from saltwisted.domain.replica.knowledge import advance
from saltwisted.domain.replica.progress import PeerProgress
from saltwisted.domain.replica.words import NOTHING, Again, Hello, Parts, Want, in_parts

WINDOW_BYTES = 1024 * 1024
"""What may be on the way to a peer, not acknowledged."""


def hello(log: LogView, peer: PeerProgress) -> Send:
    """Say what we know."""
    peer.told = dict(log.knowledge())
    return send(peer.node, Hello(log.knowledge(), log.floor(), log.forgotten()))


class Giving:
    """
    What is sent, limited in bytes for each peer.

    @param node: this node's id.
    """

    def __init__(self, node: str, log: LogView) -> None:
        self._node = node
        self._log = log
        self._packed: tuple[Sequence[Entry], Parts] = ((), NOTHING)

    def wanted(self, peer: PeerProgress, message: Want) -> list[Effect]:
        """A peer asks for streams, from where it has them."""
        knowledge = self._log.knowledge()
        for stream, number in message.after.items():
            if knowledge.get(stream, 0) > number:
                peer.wanted[stream] = knowledge[stream]
                peer.sent[stream] = number
        return self.pump(peer)

    def again(self, peer: PeerProgress, message: Again) -> list[Effect]:
        """A peer could not use what it was sent: begin with what it has."""
        peer.known = joined(peer.known, message.knowledge)
        peer.wanted = {}
        peer.restart()
        # It may have taken entries whose acknowledgement is still on the way
        peer.sent = joined(peer.sent, message.knowledge)
        return self.pump(peer)

    def pump(self, peer: PeerProgress) -> list[Effect]:
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
            effects.append(hello(self._log, peer))
        elif not below:
            peer.warned = False
        if lacking:
            after = {stream: peer.sent.get(stream, 0) for stream in lacking}
            peer.reading = after
            effects.append(Read(peer.node, {**self._log.knowledge(), **after}))
        return effects

    def _goal(self, peer: PeerProgress) -> dict[Stream, int]:
        """What a peer is to get from us: what arose here, and what it asked for."""
        goal = {s: n for s, n in self._log.knowledge().items() if s.node == self._node}
        return joined(goal, peer.wanted)

    def read(self, peer: PeerProgress, entries: Sequence[Entry]) -> list[Effect]:
        """Entries that were to be read are here; none if that failed (the peer asks again)."""
        after, peer.reading = peer.reading or {}, None
        if not peer.ready:
            return []
        fresh = advance(dict(peer.sent), entries)
        if not fresh:
            moved = any(peer.sent.get(stream, 0) != number for stream, number in after.items())
            return self.pump(peer) if moved else []
        effects = self._give(peer, fresh)
        self.given()
        return [*effects, *self.pump(peer)]

    def _give(self, peer: PeerProgress, entries: Sequence[Entry]) -> list[Effect]:
        ends = {entry.stream: entry.number for entry in entries}
        peer.sent = joined(peer.sent, ends)
        size = sum(entry.size for entry in entries)
        peer.flying.append((ends, size))
        peer.flying_bytes += size
        for stream, number in ends.items():
            if peer.wanted.get(stream, 0) <= number:
                peer.wanted.pop(stream, None)
        return [Send(peer.node, *self._pack(entries))]

    def _pack(self, entries: Sequence[Entry]) -> Parts:
        """Made once for all peers that are given the same, one after the other."""
        last, packed = self._packed
        if len(last) != len(entries) or not all(map(is_, last, entries)):
            packed = in_parts(entries)
            self._packed = entries, packed
        return packed

    def given(self) -> None:
        """All have been given what is new: it needs no place any more."""
        self._packed = (), NOTHING

    def push(self, peer: PeerProgress, entries: Sequence[Entry]) -> list[Effect]:
        """Entries that arose here are on disk: give them at once, if there is room on the way."""
        if not peer.ready:
            return []
        if peer.reading is None and peer.flying_bytes < WINDOW_BYTES:
            place = dict(peer.sent)
            whole = advance(place, entries)
            if len(whole) == len(entries):
                few = sized(whole, BATCH_BYTES)
                effects = self._give(peer, few)
                return effects if len(few) == len(whole) else [*effects, *self.pump(peer)]
        return self.pump(peer)
