"""
What a decoder of the roots refuses: each condition alone, with everything else in order.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.codec import (
    pack,
    pack_batch,
    pack_entries,
    pack_state,
    squeeze,
    unpack,
    unpack_batch,
    unpack_counter,
    unpack_entries,
    unpack_knowledge,
    unpack_replica,
    unpack_state,
)
from saltwisted.domain.roots.entry import (
    ABSENT,
    DIR,
    FILE,
    LINK,
    Batch,
    Move,
    ReplicaId,
    TreeEntry,
    Version,
)
from saltwisted.domain.roots.guards import MAX_PATH, Forbidden, Limits
from saltwisted.wire.msgpack import pack_bin

OURS = ReplicaId("a", b"1" * 8)
OTHER = ReplicaId("b", b"2" * 8)
PAIRS = [
    (b"a", TreeEntry(DIR, 0o755)),
    (b"a/b", TreeEntry(FILE, 0o644, 3, 5, b"d" * 32)),
    (b"a/c", TreeEntry(LINK, 0, 0, 6, b"b")),
    (b"a/d", TreeEntry(ABSENT)),
]
BATCH = Batch(
    replica=OURS,
    lo=5,
    stamp=7,
    deps={OURS: 4, OTHER: 2},
    entries=tuple(PAIRS),
    settled=((b"a/b", Dot(OTHER, 1)),),
    approved="root",
    moves=(),
)
COLUMNS = ("kinds", "shared", "lengths", "rest", "modes", "sizes", "times", "contents", "targets")
FIELDS = (
    *("master", "incarnation", "lo", "hi", "stamp", "deps", "columns", "settled"),
    *("approved", "moves"),
)
WORDS = ("replicas", "visible", "lost", "knowledge")


class EntryTests(SynchronousTestCase):
    """Columns of entries."""

    def refused(self, reason: str, **changes: Any) -> None:
        """These columns are refused for this reason."""
        row = pack_entries(PAIRS)
        for name, value in changes.items():
            row[COLUMNS.index(name)] = value
        error = self.assertRaises(Forbidden, unpack_entries, row)
        self.assertEqual(error.reason, reason, changes)

    def test_as_they_were(self) -> None:
        """What is packed is unpacked as it was."""
        self.assertEqual(unpack_entries(pack_entries(PAIRS)), PAIRS)

    def test_T_ROOT_1_lengths(self) -> None:
        """
        T-ROOT-1: a path takes no more of the one before it than that has, and no less than nothing;
        its own part has a length, and its bytes are there.
        """
        _, shared, lengths, rest, *_ = pack_entries(PAIRS)
        self.assertEqual((shared, lengths, rest), ([0, 1, 2, 2], [1, 2, 1, 1], b"a/bcd"))
        for shares in ([0, 2, 2, 2], [0, -1, 2, 2], [1, 1, 2, 2], [0, 1.0, 2, 2], [0, True, 2, 2]):
            self.refused("path-length", shared=shares)
        for ends in ([1, -2, 1, 1], [1, 2.0, 1, 1], [1, 2, 1, True]):
            self.refused("path-length", lengths=ends)
        # A negative length between two others takes the bytes of another path
        self.refused("path-length", lengths=[1, 5, -2, 1])
        for bytes_ in (b"a/bcde", b"a/bc"):
            self.refused("columns", rest=bytes_)

    def test_T_ROOT_1_long(self) -> None:
        """
        T-ROOT-1: a path of 100 000 bytes is refused, whether it comes whole or grows out of the one
        before it; one of the largest size is a path.
        """
        whole = b"x" * 100_000
        self.refused("path-length", lengths=[1, 2, 1, 99_996], rest=b"a/bc" + whole[:99_996])
        half = b"x" * (MAX_PATH // 2 + 1)
        for piece in (half, b"x" * MAX_PATH):
            row = pack_entries([(b"a", TreeEntry(ABSENT)), (b"b", TreeEntry(ABSENT))])
            row[1:4] = [0, len(piece)], [len(piece)] * 2, piece * 2
            error = self.assertRaises(Forbidden, unpack_entries, row)
            self.assertEqual(error.reason, "path-length")

        largest = [(b"x" * MAX_PATH, TreeEntry(ABSENT))]
        self.assertEqual(unpack_entries(pack_entries(largest)), largest)

    def test_T_ROOT_5_repeated(self) -> None:
        """T-ROOT-5: paths that repeat one another for a few bytes have a bound together."""
        self.patch(codec, "MOST_PATHS", 10 * MAX_PATH)
        count = 12
        row = pack_entries(
            [(b"%d" % number, TreeEntry(ABSENT)) for number in range(10, 10 + count)]
        )
        row[1:4] = [0, *[MAX_PATH] * (count - 1)], [MAX_PATH, *[0] * (count - 1)], b"x" * MAX_PATH
        error = self.assertRaises(Forbidden, unpack_entries, row)
        self.assertEqual(error.reason, "too-large")

    def test_types(self) -> None:
        """Each column is of its type and of its length, and each number a number."""
        for name in COLUMNS:
            for value in (None, 1, {}):
                self.refused("columns", **{name: value})
        for name in ("shared", "lengths", "modes", "sizes", "times", "targets"):
            value = pack_entries(PAIRS)[COLUMNS.index(name)]
            for other in ([*value, value[-1]], value[:-1], tuple(value)):
                self.refused("columns", **{name: other})
        for name in ("modes", "sizes", "times"):
            value = pack_entries(PAIRS)[COLUMNS.index(name)]
            for odd in (1.0, True, None, "1"):
                self.refused("columns", **{name: [odd, *value[1:]]})
        for contents in (b"d" * 31, b"d" * 33, b"d" * 64, b""):
            self.refused("digest-length", contents=contents)
        self.refused("kind", kinds="dfl?")
        self.refused("link-target", targets=["b"])

    def test_shape(self) -> None:
        """There are nine columns in a list, of no more entries than are asked for."""
        row = pack_entries(PAIRS)
        for other in (None, {}, (*row,), row[:-1], [*row, []]):
            error = self.assertRaises(Forbidden, unpack_entries, other)
            self.assertEqual(error.reason, "columns")
        self.assertEqual(len(unpack_entries(row, 4)), 4)
        error = self.assertRaises(Forbidden, unpack_entries, row, 3)
        self.assertEqual(error.reason, "too-many-entries")

    def test_T_ROOT_3_modes(self) -> None:
        """T-ROOT-3: no bit besides those of reading, writing and executing comes through."""
        row = pack_entries(PAIRS)
        row[4] = [0o7755, 0o104644]
        found = unpack_entries(row)
        self.assertEqual([entry.mode for _, entry in found[:2]], [0o755, 0o644])


class PartTests(SynchronousTestCase):
    """Names of replicas, counters, and what is known of them."""

    def test_replica(self) -> None:
        """A replica is a name of one to 255 signs and eight bytes."""
        self.assertEqual(unpack_replica("a" * 255, b"1" * 8), ReplicaId("a" * 255, b"1" * 8))
        for master, incarnation in (
            ("", b"1" * 8), ("a" * 256, b"1" * 8), (b"a", b"1" * 8), (None, b"1" * 8),
            ("a", "1" * 8), ("a", b"1" * 7), ("a", b"1" * 9), ("a", None), (["a"], b"1" * 8),
        ):  # fmt: skip
            error = self.assertRaises(Forbidden, unpack_replica, master, incarnation)
            self.assertEqual(error.reason, "replica")

    def test_counter(self) -> None:
        """A counter is a number from 1 on, far from the largest that a database has."""
        self.assertEqual([unpack_counter(each) for each in (1, (1 << 62) - 1)], [1, (1 << 62) - 1])
        for value in (0, -1, 1 << 62, 1.0, True, None, "1"):
            error = self.assertRaises(Forbidden, unpack_counter, value)
            self.assertEqual(error.reason, "counter")

    def test_knowledge(self) -> None:
        """Knowledge is a list of so many rows of three."""
        row = ["a", b"1" * 8, 4]
        self.assertEqual(unpack_knowledge([row]), {OURS: 4})
        self.patch(codec, "MAX_REPLICAS", 2)
        for value in (None, {}, (row,), [row] * 3, [tuple(row)], [row[:2]], [[*row, 1]], [None]):
            error = self.assertRaises(Forbidden, unpack_knowledge, value)
            self.assertEqual(error.reason, "knowledge")

    def test_plain(self) -> None:
        """What is unpacked is plain data with no more lists than are allowed."""
        self.assertEqual(unpack(pack([1, [2]])), [1, [2]])
        for data in (b"", b"\xc1", pack(1) + b"\0", b"\xd4\x01\x00", pack([[]] * 100_000)):
            error = self.assertRaises(Forbidden, unpack, data, 50)
            self.assertEqual(error.reason, "encoding")

    def test_expanded(self) -> None:
        """T-ROOT-5: what is compressed becomes no larger than it may, and is whole."""
        plain = b"x" * 1000
        squeezed = squeeze(plain)
        self.assertEqual(squeezed[:1], b"z")
        self.assertEqual(codec.expand(squeezed, 1000), plain)
        self.assertEqual(codec.expand(b"-" + plain, 1000), plain)
        for data, most, reason in (
            (squeezed, 999, "too-large"),
            (b"-" + plain, 999, "too-large"),
            (squeezed[:-5], 1000, "truncated"),
            (b"zjunk", 1000, "encoding"),
            (b"?" + plain, 1000, "encoding"),
            (b"", 1000, "encoding"),
        ):
            error = self.assertRaises(Forbidden, codec.expand, data, most)
            self.assertEqual(error.reason, reason, data[:5])


class BatchTests(SynchronousTestCase):
    """A batch."""

    def row(self, batch: Batch = BATCH) -> list[Any]:
        """Its fields."""
        row: list[Any] = unpack(codec.expand(pack_batch(batch), codec.MAX_BODY))
        return row

    def refused(self, reason: str, limits: Limits | None = None, **changes: Any) -> None:
        """A batch with these fields is refused for this reason."""
        row = self.row()
        for name, value in changes.items():
            row[FIELDS.index(name)] = value
        data = squeeze(pack(row))
        error = self.assertRaises(Forbidden, unpack_batch, data, limits or Limits())
        self.assertEqual(error.reason, reason, changes)

    def test_as_it_was(self) -> None:
        """What is packed is unpacked as it was, with its last counter."""
        found, last = unpack_batch(pack_batch(BATCH), Limits())
        self.assertEqual((evolve(found, coded=None), last), (BATCH, 8))
        # What the writer itself has seen is not sent: it is what comes before
        self.assertRaises(ValueError, pack_batch, evolve(BATCH, lo=6))

    def test_fields(self) -> None:
        """Each field is of its type and within its bounds."""
        for master in ("", 1, None, "x" * 256):
            self.refused("replica", master=master)
        self.refused("replica", incarnation=b"1" * 7)
        for counter in (0, -1, 1 << 62, 1.0, None):
            self.refused("counter", lo=counter)
            self.refused("counter", hi=counter)
        for stamp in (-1, 1 << 63, 1.0, None, "1"):
            self.refused("stamp", stamp=stamp)
        for approved in (None, 1, b"root", "x" * 256):
            self.refused("batch", approved=approved)
        self.refused("knowledge", deps=None)
        self.refused("columns", columns=None)

    def test_shape(self) -> None:
        """There are ten fields in a list."""
        row = self.row()
        for other in (None, {}, row[:-1], [*row, 0]):
            error = self.assertRaises(Forbidden, unpack_batch, squeeze(pack(other)), Limits())
            self.assertEqual(error.reason, "batch")

    def test_counters(self) -> None:
        """The last counter is that of the last entry; with moves it is not before the first."""
        for last in (4, 5, 7, 9, 10**9):
            self.refused("counter", hi=last)
        move = [[b"a", b"b", b"d" * 32]]
        self.refused("counter", hi=4, moves=move)
        self.refused("counter", hi=5 + 11, moves=move, limits=Limits(max_entries=10))
        row = self.row()
        row[FIELDS.index("hi")], row[FIELDS.index("moves")] = 30, move
        found, last = unpack_batch(squeeze(pack(row)), Limits())
        self.assertEqual((found.moves, last), ((Move(b"a", b"b", b"d" * 32),), 30))

    def test_settled(self) -> None:
        """What was settled is a list of so many rows of a path and a place."""
        good = [b"p", "a", b"1" * 8, 4]
        self.patch(codec, "MAX_ENTRIES", 2)
        for value in (
            *(None, {}, [good] * 3, [good[:3]], [[*good, 1]]),
            *([["p", *good[1:]]], [None]),
        ):
            self.refused("batch", settled=value)
        self.refused("replica", settled=[[b"p", "", b"1" * 8, 4]])
        self.refused("counter", settled=[[b"p", "a", b"1" * 8, 0]])

    def test_moves(self) -> None:
        """Moves are a list of at most a thousand rows of two paths and a digest."""
        good = [b"a", b"b", b"d" * 32]
        for value in (
            *(None, {}, [good] * 1001, [good[:2]], [[*good, b""]], [None]),
            *([["a", *good[1:]]], [[b"a", "b", good[2]]], [[b"a", b"b", "d" * 32]]),
            *([[b"a", b"b", b"d" * 31]], [[b"a", b"b", b"d" * 33]]),
        ):
            self.refused("batch", moves=value, hi=30)

    def test_T_ROOT_1_rules(self) -> None:
        """T-ROOT-1: what is well-formed is still judged by the rules for paths."""
        for path, reason in (
            (b"../x", "path-escape"), (b"/x", "path-escape"), (b"x\0", "path-nul"),
            (b"", "path-length"), (b"x" * 256, "path-name-length"), (b"/".join([b"x"] * 65),
                                                                     "path-depth"),
            (b".saltwisted-root", "path-reserved"), (b".saltwisted-tmp-1", "path-reserved"),
            (b".saltwisted-trash/x", "path-reserved"),
        ):  # fmt: skip
            columns = pack_entries([(path, TreeEntry(ABSENT))])
            self.refused(reason, columns=columns, hi=5)


class StateTests(SynchronousTestCase):
    """A whole state."""

    def setUp(self) -> None:
        """One of three versions, one of them lost."""
        one = Version(Dot(OURS, 3), 9, TreeEntry(DIR, 0o755))
        two = Version(Dot(OTHER, 2), 4, TreeEntry(FILE, 0o644, 3, 5, b"d" * 32))
        lost = Version(Dot(OURS, 1), 1, TreeEntry(ABSENT))
        self.known = {OURS: 3, OTHER: 2}
        self.data = pack_state({b"a": (one,), b"b": (two,)}, [(b"c", lost)], self.known)
        self.found = ({b"a": (one,), b"b": (two,)}, [(b"c", lost)], self.known)

    def refused(self, reason: str, row: Any) -> None:
        """A state with these fields is refused."""
        error = self.assertRaises(Forbidden, unpack_state, squeeze(pack(row)), Limits())
        self.assertEqual(error.reason, reason, row)

    def changed(self, **changes: Any) -> list[Any]:
        """The fields of the state, some of them others."""
        row: list[Any] = unpack(codec.expand(self.data, codec.MAX_BODY))
        for name, value in changes.items():
            row[WORDS.index(name)] = value
        return row

    def test_as_it_was(self) -> None:
        """What is packed is unpacked as it was."""
        self.assertEqual(unpack_state(self.data, Limits()), self.found)

    def test_shape(self) -> None:
        """There are four fields in a list, the first of so many replicas."""
        row = self.changed()
        for other in (None, {}, row[:3], [*row, 0], self.changed(replicas=None)):
            self.refused("state", other)
        for replicas in ([["a"]], [["a", b"1" * 8, 0]], [None], [{}]):
            self.refused("state", self.changed(replicas=replicas))
        self.refused("replica", self.changed(replicas=[["a", b"1"]]))
        self.refused("knowledge", self.changed(knowledge=None))
        self.patch(codec, "MAX_REPLICAS", 1)
        self.refused("state", self.changed(knowledge=[]))

    def test_tables(self) -> None:
        """A table has four columns of one length; its numbers mean replicas, counters, stamps."""
        for name in ("visible", "lost"):
            table = self.changed()[WORDS.index(name)]
            for other in (None, {}, table[:3], [*table, 0]):
                self.refused("state", self.changed(**{name: other}))
            for place in (1, 2, 3):
                for column in (None, [*table[place], 1], table[place][:-1]):
                    bad = [*table[:place], column, *table[place + 1 :]]
                    self.refused("state", self.changed(**{name: bad}))
                for odd in (1.0, True, None, "1"):
                    bad = [*table[:place], [odd, *table[place][1:]], *table[place + 1 :]]
                    self.refused("state", self.changed(**{name: bad}))
            for number in (-1, 2):
                bad = [table[0], [number, *table[1][1:]], *table[2:]]
                self.refused("state", self.changed(**{name: bad}))
            for stamp in (-1, 1 << 63):
                bad = [*table[:3], [stamp, *table[3][1:]]]
                self.refused("state", self.changed(**{name: bad}))
            bad = [*table[:2], [0, *table[2][1:]], table[3]]
            self.refused("counter", self.changed(**{name: bad}))

    def test_T_ROOT_1_rules(self) -> None:
        """T-ROOT-1: the paths of a state are judged by the rules, too."""
        table = self.changed()[WORDS.index("lost")]
        bad = [pack_entries([(b"../x", TreeEntry(ABSENT))]), *table[1:]]
        for name in ("visible", "lost"):
            self.refused("path-escape", self.changed(**{name: bad}))

    def test_packed_by_others(self) -> None:
        """Only plain data is unpacked: no extension of the encoding has a meaning here."""
        data = squeeze(pack_bin([1]) + b"\xc7\x00\x01")
        self.assertRaises(Forbidden, unpack_state, data, Limits())
