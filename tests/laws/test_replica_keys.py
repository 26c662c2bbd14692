"""
Laws of the key register: any order, any grouping, any repetition gives the same keys; and no
acceptance that did not know of a revocation outlives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import Fact, decode_fact, encode_fact
from saltwisted.domain.replica.keyset import REVOCATIONS, KeySet, finger_of

modest = settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
KEYS = [b"key one\n", b"key two\n"]
IDS = ["web1", "db1"]
ACTS = ["accept", "accept", "pend", "clash", "delete", "reject", "deny"]


class Node:
    """A node which acts on what it has seen, with a clock that may be anything."""

    def __init__(self, number: int) -> None:
        self.name = f"n{number}"
        self.incarnation = f"{number:016x}"
        self.keys = KeySet()
        self.count = 0
        self.facts: list[Fact] = []

    def act(self, act: str, minion_id: str, pub: bytes, stamp: int) -> Fact:
        self.count += 1
        body = self.keys.act(act, minion_id, pub)
        fact = Fact(body, stamp, Dot(Stream(self.name, self.incarnation), self.count))
        self.take(fact)
        return fact

    def take(self, fact: Fact) -> None:
        self.keys.apply(*fact)
        self.facts.append(fact)

    def meet(self, other: Node) -> None:
        """Everything the other has, in the order it got it."""
        for fact in list(other.facts):
            if fact not in self.facts:
                self.take(fact)


@st.composite
def histories(draw: st.DrawFn) -> Sequence[Fact]:
    """What three nodes did, meeting now and then, by clocks that are anywhere."""
    nodes = [Node(number) for number in range(3)]
    made: list[Fact] = []
    for _ in range(draw(st.integers(1, 12))):
        node = draw(st.sampled_from(nodes))
        if draw(st.integers(0, 2)) == 0:
            node.meet(draw(st.sampled_from(nodes)))
        else:
            act, stamp = draw(st.sampled_from(ACTS)), draw(st.integers(0, 5))
            pub, minion_id = draw(st.sampled_from(KEYS)), draw(st.sampled_from(IDS[:1] + IDS))
            made.append(node.act(act, minion_id, pub, stamp))
    return made


def folded(facts: Sequence[Fact]) -> KeySet:
    keys = KeySet()
    for fact in facts:
        keys.apply(*fact)
    return keys


def shown(keys: KeySet) -> list[object]:
    return [(minion_id, keys.view(minion_id)) for minion_id in sorted(keys.ids())]


def brute_accepted(facts: Sequence[Fact], minion_id: str, pub: bytes) -> bool:
    """The rule as it is written: some acceptance has seen every revocation."""
    ours = [f for f in facts if f.body["id"] == minion_id and f.body["fp"] == finger_of(pub)]
    revoked = [f.origin for f in ours if f.body["act"] in REVOCATIONS]

    def saw(act: Fact, dot: Dot[Stream]) -> bool:
        rows = {(n, i): number for n, i, number in act.body["seen"]}
        return bool(rows.get(dot.source, 0) >= dot.number)

    return any(all(saw(f, dot) for dot in revoked) for f in ours if f.body["act"] == "accept")


class KeyLaws(SynchronousTestCase):
    @modest
    @given(histories(), st.randoms(use_true_random=False))
    def test_any_order_and_repetition(self, facts: Sequence[Fact], dice: Random) -> None:
        """Whatever the order, and however often an act comes, the registers are equal."""
        mixed = [*facts, *dice.choices(facts, k=len(facts))] if facts else []
        dice.shuffle(mixed)

        one, other = folded(facts), folded(mixed)

        self.assertEqual(one.registers, other.registers)
        self.assertEqual(one.digest(), other.digest())
        self.assertEqual(shown(one), shown(other))

    @modest
    @given(histories(), st.integers(0, 12), st.integers(0, 12))
    def test_any_grouping(self, facts: Sequence[Fact], one: int, two: int) -> None:
        """States joined by their dumps, in any grouping, are what the acts one by one give."""
        cuts = sorted([min(one, len(facts)), min(two, len(facts))])
        parts = [facts[: cuts[0]], facts[cuts[0] : cuts[1]], facts[cuts[1] :]]
        dumps = [list(folded(part).dump()) for part in parts]
        wanted = folded(facts)
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
            inner = folded([*dumps[order[1]], *dumps[order[2]]])
            found = folded([*list(inner.dump()), *dumps[order[0]]])

            self.assertEqual(shown(found), shown(wanted))
            self.assertEqual(found.digest(), wanted.digest())

    @modest
    @given(histories())
    def test_the_rule(self, facts: Sequence[Fact]) -> None:
        """A key is accepted if and only if some acceptance has seen all its revocations."""
        keys = folded(facts)
        for minion_id in IDS:
            for pub in KEYS:
                register = keys.register(minion_id, finger_of(pub))
                accepted = register is not None and register.word == "accepted"

                self.assertEqual(accepted, brute_accepted(facts, minion_id, pub))

    @modest
    @given(histories())
    def test_never_forgets_a_denial(self, one: Sequence[Fact]) -> None:
        """What was not accepted stays so until somebody who saw that accepts it."""
        keys = folded(one)
        before = {k for k, r in keys.registers.items() if r.open}
        old = [f for f in one if f.body["act"] == "accept"]
        for fact in [*old, *one]:
            keys.apply(*fact)

        for key in before:
            self.assertNotEqual(keys.registers[key].word, "accepted")

    @modest
    @given(histories())
    def test_dump_and_back(self, facts: Sequence[Fact]) -> None:
        """A dump through its bytes rebuilds the same keys."""
        keys = folded(facts)
        again = folded([decode_fact(encode_fact(fact)) for fact in keys.dump()])

        self.assertEqual(shown(again), shown(keys))
        self.assertEqual(again.digest(), keys.digest())
        self.assertEqual(again.buckets(), keys.buckets())

    @modest
    @given(histories())
    def test_one_holder(self, facts: Sequence[Fact]) -> None:
        """At most one key of an id holds, and it is the one whose acceptance is earliest."""
        keys = folded(facts)
        for minion_id in keys.ids():
            accepted = [r for r in keys.of_id(minion_id) if r.word == "accepted"]
            view = keys.view(minion_id)
            if accepted:
                first = min(r.grants["accept"] for r in accepted)
                assert view.holder is not None
                self.assertEqual(view.holder.state, "accepted")
                self.assertEqual(view.holder.since, first)
                self.assertEqual(
                    {s.finger for s in view.denied if s.conflict}
                    >= {r.finger for r in accepted} - {view.holder.finger},
                    True,
                )
