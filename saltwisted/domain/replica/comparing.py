"""
Whether two nodes with the same knowledge have the same contents: first their digests, then those of
parts, then their facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saltwisted.domain.causality.knowledge import covers
from saltwisted.domain.replica.digest import differing
from saltwisted.domain.replica.effects import (
    BATCH_BYTES,
    Differs,
    Effect,
    LogView,
    MergeFacts,
    send,
)
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.domain.replica.progress import PeerProgress
from saltwisted.domain.replica.words import BucketFacts, BucketSums, Digest, state_parts


class Comparing:
    """With equal knowledge, digests are equal, or something is broken: then facts are joined."""

    def __init__(self, log: LogView) -> None:
        self._log = log

    def _same(self, other: Knowledge) -> bool:
        ours = self._log.knowledge()
        return covers(other, ours) and covers(ours, other)

    def digest(self, peer: PeerProgress) -> Effect:
        """Say what our digests are."""
        log = self._log
        return send(peer.node, Digest(log.knowledge(), log.forgotten(), log.digests()))

    def begin(self, peer: PeerProgress) -> list[Effect]:
        """Send our digests, if they can be compared."""
        if not self._log.digests() or not self._same(peer.known):
            return []
        return [self.digest(peer)]

    def compare(
        self, peer: PeerProgress, knowledge: Knowledge, digests: Mapping[str, bytes]
    ) -> list[Effect]:
        """Compare a peer's digests: where they differ, the parts are compared."""
        ours = self._log.digests()
        if not ours or not self._same(knowledge):
            return []
        effects: list[Effect] = []
        for kind, digest in sorted(digests.items()):
            if kind in ours and ours[kind] != digest:
                effects.append(Differs(peer.node, kind))
                effects.append(send(peer.node, BucketSums(kind, self._log.buckets(kind))))
        return effects

    def sums(self, peer: PeerProgress, message: BucketSums) -> list[Effect]:
        """The digests of a peer's parts have come: it gets ours that differ."""
        kind = message.kind
        if kind not in self._log.digests():
            return []
        return self._facts_for(peer, kind, differing(message.sums, self._log.buckets(kind)), True)

    def facts(self, peer: PeerProgress, message: BucketFacts) -> list[Effect]:
        """The facts of parts that differ have come; a peer that wants ours gets them."""
        kind = message.kind
        effects: list[Effect] = [MergeFacts(peer.node, [(kind, fact) for fact in message.facts])]
        if message.answer:
            effects += self._facts_for(peer, kind, message.buckets, False)
        return effects

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
                send(peer.node, BucketFacts(kind, some, buckets, answer and last)),
            )
        return effects
