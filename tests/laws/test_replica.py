"""
Laws of replication: clocks, knowledge, the wire's form, and the folds that are not about keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.clock import MAX_AHEAD_SECONDS, HybridClock, stamp_at
from saltwisted.domain.causality.knowledge import Dot, count_missing, covers, joined
from saltwisted.domain.replica.entry import (
    Entry,
    Stream,
    decode_entries,
    encode_entries,
    pack_fields,
)
from saltwisted.domain.replica.fold import Fact, decode_fact, encode_fact
from saltwisted.domain.replica.knowledge import advance, decode_knowledge, encode_knowledge
from saltwisted.domain.replica.minions import BANKS, Minions
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
    encode,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

modest = settings(
    derandomize=True,
    max_examples=50,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
WORDS = tuple(
    "hello entries known want again want_state state digest buckets facts too_old".split()  # noqa: SIM905 - readable
)
streams = st.builds(
    Stream,
    st.sampled_from(["a", "b", "c.example"]),
    st.sampled_from(["0" * 16, "0123456789abcdef"]),
)
knowledge = st.dictionaries(streams, st.integers(1, 2**40), max_size=4)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2**60) | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
maps = st.dictionaries(st.text(max_size=6), plain, max_size=4)
entries = st.builds(
    Entry,
    streams,
    st.integers(1, 2**40),
    st.integers(0, 2**64 - 1),
    st.sampled_from(["keys", "member", "x"]),
    maps.map(pack_fields),
)
facts = st.builds(
    Fact,
    maps,
    st.integers(0, 2**64 - 1),
    st.builds(lambda s, n: Dot(s, n), streams, st.integers(0, 2**40)),
)
kinds = st.sampled_from(["keys", "secret"])
pairs = st.lists(st.tuples(kinds, facts), max_size=3)
messages = st.one_of(
    st.builds(Hello, knowledge, knowledge, knowledge),
    st.builds(Entries, st.lists(entries, max_size=4)),
    st.builds(Known, knowledge),
    st.builds(Want, st.dictionaries(streams, st.integers(0, 99), max_size=3)),
    st.builds(Again, knowledge),
    st.just(WantState()),
    st.builds(StatePart, st.integers(0, 99), pairs, st.none() | knowledge),
    st.builds(Digest, knowledge, knowledge, st.dictionaries(kinds, st.binary(max_size=16))),
    st.builds(BucketSums, kinds, st.binary(max_size=32)),
    st.builds(
        BucketFacts,
        kinds,
        st.lists(facts, max_size=3),
        st.lists(st.integers(0, 255), max_size=4),
        st.booleans(),
    ),
    st.just(TooOld()),
)


class ClockLaws(SynchronousTestCase):
    @modest
    @given(st.lists(st.floats(0, 4e9), min_size=1, max_size=20))
    def test_grows(self, times: Sequence[float]) -> None:
        """Stamps of a node grow, unless its clock was set back by more than ten minutes."""
        clock, last = HybridClock(), -1
        for now in times:
            stamp = clock.tick(now)
            back = last > stamp_at(now) + ((MAX_AHEAD_SECONDS * 1000) << 16)

            self.assertTrue(stamp > last or back)
            last = stamp

    @modest
    @given(st.floats(1e9, 2e9), st.lists(st.integers(0, 2**64 - 1), max_size=10))
    def test_nobody_pushes_it(self, now: float, stamps: Sequence[int]) -> None:
        """Whatever stamps come, a node's own is at most ten minutes and a bit ahead."""
        clock = HybridClock()
        for stamp in stamps:
            clock.observe(stamp, now)

        self.assertLessEqual(clock.tick(now), stamp_at(now + MAX_AHEAD_SECONDS + 1))


class KnowledgeLaws(SynchronousTestCase):
    @modest
    @given(knowledge, knowledge, knowledge)
    def test_join(self, one: Any, two: Any, three: Any) -> None:
        """Joining is commutative, associative and idempotent, and covers both."""
        self.assertEqual(joined(one, two), joined(two, one))
        self.assertEqual(joined(joined(one, two), three), joined(one, joined(two, three)))
        self.assertEqual(joined(one, one), one)
        self.assertTrue(covers(joined(one, two), one))
        self.assertEqual(count_missing(one, two) == 0, covers(one, two))

    @modest
    @given(st.lists(st.integers(1, 8), max_size=30))
    def test_no_gaps(self, numbers: Sequence[int]) -> None:
        """Taking entries in leaves no gap, whatever comes in which order."""
        stream = Stream("a", "0" * 16)
        known: dict[Stream, int] = {}
        taken = advance(known, [Entry(stream, n, 0, "x", b"\x80") for n in numbers])

        self.assertEqual([e.number for e in taken], list(range(1, len(taken) + 1)))
        self.assertEqual(known.get(stream, 0), len(taken))


class WireLaws(SynchronousTestCase):
    @modest
    @given(messages)
    def test_messages(self, message: Any) -> None:
        """Each message comes back from its bytes."""
        again = decode(encode(message))
        if isinstance(message, StatePart | BucketFacts):
            self.assertEqual(encode(again), encode(message))
        else:
            self.assertEqual(again, message)

    @modest
    @given(st.lists(entries, max_size=6), facts, knowledge)
    def test_parts(self, some: Sequence[Entry], fact: Fact, known: Any) -> None:
        """Entries, facts and knowledge come back from their plain form."""
        self.assertEqual(decode_entries(encode_entries(some)), list(some))
        self.assertEqual(decode_fact(encode_fact(fact)), fact)
        self.assertEqual(decode_knowledge(encode_knowledge(known)), known)

    @settings(modest, max_examples=300)
    @example(pack_bin({"w": ["hello"]}))
    @example(pack_bin({"w": "digest", "k": [], "o": [], "d": None}))
    @given(
        st.binary(max_size=60)
        | plain.map(pack_bin)
        | st.tuples(
            st.sampled_from(
                [
                    "hello",
                    "entries",
                    "known",
                    "want",
                    "again",
                    "state",
                    "digest",
                    "buckets",
                    "facts",
                    "too_old",
                ]
            ),
            st.dictionaries(st.sampled_from("kfoedxnbai"), plain, max_size=6),
        ).map(lambda pair: pack_bin({"w": pair[0], **pair[1]}))
    )
    def test_no_bytes_surprise(self, data: bytes) -> None:
        """No bytes whatever raise anything but L{WireError}."""
        try:
            decode(data)
        except WireError:
            return

    @modest
    @given(messages, st.integers(0, 400), st.integers(0, 255))
    def test_no_changed_message_surprises(self, message: Any, place: int, byte: int) -> None:
        """Nor does a message with one byte changed, or cut short."""
        data = encode(message)
        changed = bytearray(data)
        changed[place % len(data)] = byte
        for bad in (bytes(changed), data[: place % len(data)]):
            try:
                decode(bad)
            except WireError:
                continue


class MinionLaws(SynchronousTestCase):
    """Grains, pillar and mine: the newest wins, the same on every node."""

    @modest
    @given(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3), st.booleans()),
            max_size=12,
        ),
        st.randoms(use_true_random=False),
    )
    def test_any_order(self, plan: Sequence[tuple[int, int, int, bool]], dice: Random) -> None:
        """Whatever the order, all nodes hold the same values; and a later write wins by version."""
        nodes = [Minions() for _ in range(3)]
        seen: list[list[Fact]] = [[], [], []]
        made: list[Fact] = []
        last: dict[str, Fact] = {}
        for number, (who, bank, stamp, meets) in enumerate(plan):
            if meets:
                for fact in made:
                    nodes[who].apply(*fact)
            body = nodes[who].body(BANKS[bank], "m1", b"%d" % number)
            assert body is not None
            fact = Fact(body, stamp, Dot(Stream(f"n{who}", "0" * 16), number + 1))
            nodes[who].apply(*fact)
            made.append(fact)
            seen[who].append(fact)
            if meets:
                last[BANKS[bank]] = fact
            else:
                last.pop(BANKS[bank], None)
        mixed = [*made, *dice.choices(made, k=3)] if made else []
        dice.shuffle(mixed)
        one, other = Minions(), Minions()
        for fact in made:
            one.apply(*fact)
        for fact in mixed:
            other.apply(*fact)

        self.assertEqual(one.registers, other.registers)
        self.assertEqual(one.digest(), other.digest())
        for bank, fact in last.items():
            # It had seen all before, and nothing came after it
            self.assertEqual(one.registers[f"{bank}/m1"].origin, fact.origin)

    @modest
    @given(st.lists(st.tuples(st.sampled_from(BANKS), st.binary(max_size=5)), max_size=8))
    def test_dump_and_snapshot(self, writes: Sequence[tuple[str, bytes]]) -> None:
        """What is sent, and what is kept on disk, rebuild the same."""
        values: dict[tuple[str, str], bytes | None] = {}
        minions = Minions()
        minions.taker = lambda bank, minion_id, data: values.update({(bank, minion_id): data})
        minions.load = lambda bank, minion_id: values.get((bank, minion_id))
        for number, (bank, data) in enumerate(writes):
            body = minions.body(bank, "m1", data or None)
            if body is not None:
                minions.apply(body, 0, Dot(Stream("n", "0" * 16), number + 1))
        sent, kept = Minions(), Minions()
        for fact in minions.dump():
            sent.apply(*decode_fact(encode_fact(fact)))
        for fact in minions.snapshot():
            kept.apply(*decode_fact(encode_fact(fact)))

        self.assertEqual(sent.registers, minions.registers)
        self.assertEqual(kept.registers, minions.registers)
        self.assertEqual(sent.digest(), minions.digest())
