"""Deltas, batches on the wire, and the rules for names."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots import codec
from saltwisted.domain.roots.delta import (
    MOST_OPERATIONS,
    Copy,
    apply_delta,
    literal_bytes,
    make_delta,
    pack_delta,
    unpack_delta,
)
from saltwisted.domain.roots.entry import DIR, GONE, TreeEntry, lanes
from saltwisted.domain.roots.guards import Brake, Forbidden, Limits, check_link, check_path
from saltwisted.domain.roots.ignore import ignorer
from saltwisted.domain.roots.index import Index
from saltwisted.domain.roots.moves import unfold
from tests.roots.world import World, file, random_run

BYTES = st.lists(st.sampled_from([b"a" * 40, b"line\n", b"other text ", b"x"]), max_size=60).map(
    b"".join
)


class DeltaTests(SynchronousTestCase):
    """C{apply(make(old, new), old) == new}, and little travels."""

    @given(BYTES, BYTES)
    @settings(max_examples=300, deadline=None)
    def test_round_trip(self, old: bytes, new: bytes) -> None:
        """Any content is rebuilt exactly, over the plain form as well."""
        made = make_delta(old, new)
        plain = unpack_delta(pack_delta(made), len(new), len(old))

        self.assertEqual(apply_delta(old, made), new)
        self.assertEqual(apply_delta(old, plain), new)

    def test_small_changes_are_small(self) -> None:
        """An inserted byte, a cut and a swap of halves cost next to nothing."""
        import random

        old = random.Random(1).randbytes(2_000_000)
        middle = len(old) // 2
        cases = {
            "insert": (old[:middle] + b"!" + old[middle:], 1),
            "cut": (old[:middle] + old[middle + 5000 :], 0),
            "append": (old + b"0123456789", 10),
            "swap": (old[middle:] + old[:middle], 0),
            "two": (old[:100] + b"A" + old[100:1_500_000] + b"B" + old[1_500_000:], 1100),
        }
        for name, (new, most) in cases.items():
            made = make_delta(old, new)
            self.assertEqual(apply_delta(old, made), new, name)
            self.assertLessEqual(literal_bytes(made), most, name)

    def test_small_text(self) -> None:
        """A line inserted into a small file travels alone, more or less."""
        old = b"".join(b"line %d of the file\n" % n for n in range(100))
        new = old[:900] + b"# changed here\n" + old[900:]

        self.assertLessEqual(literal_bytes(make_delta(old, new)), 20)

    def test_bad_deltas(self) -> None:
        """Copies outside the base, wrong totals and foreign types are refused."""
        for data, why in (
            ([[0, 11]], "not an operation"),
            ([[5, 6]], "not an operation"),
            ([[-1, 2]], "not an operation"),
            ([b"abcd"], "larger"),
            ([b"ab", [0, 2], "c"], "larger"),
            ([b"ab"], "smaller"),
            ([], "smaller"),
            ([b"abc", "c"], "not an operation"),
            ([b"abc", [0, 3, 4]], "not an operation"),
            ([[0, True]], "not an operation"),
            ([b"abc", [0, 0]], "not an operation"),
            ("abc", "not a delta"),
            ((b"abc",), "not a delta"),
            ([b"abc", *[b""] * (2 * MOST_OPERATIONS + 4)], "not a delta"),
            ([[1 << 70, 3]], "not an operation"),
        ):
            self.assertRaisesRegex(ValueError, why, unpack_delta, data, 3, 10)

    def test_outside(self) -> None:
        """No copy that reaches beyond the base is made, whoever has made the operations."""
        for start, length in ((-1, 2), (0, -1), (9, 2), (11, 0)):
            self.assertRaises(ValueError, apply_delta, b"0123456789", [Copy(start, length)])
        self.assertEqual(apply_delta(b"0123456789", [Copy(9, 1), Copy(10, 0)]), b"9")


class CodecTests(SynchronousTestCase):
    """Batches and states as bytes."""

    def test_round_trip(self) -> None:
        """Every batch and state of a random story survives the wire."""
        limits = Limits()
        for seed in range(30):
            world = random_run(seed)
            for replica in world.replicas:
                for batch in replica.log:
                    # Contents in the world are texts; on the wire they are digests
                    real = _with_digests(batch)
                    again, hi = codec.unpack_batch(codec.pack_batch(real), limits)
                    self.assertEqual((again, hi), (_unmoved(real), real.hi))
                rows = {
                    path: tuple(v._replace(entry=_digest(v.entry)) for v in row)
                    for path, row in replica.index.rows.items()
                }
                lost = sorted(
                    (path, v._replace(entry=_digest(v.entry)))
                    for (path, _), v in replica.conflicts.items()
                )
                data = codec.pack_state(rows, lost, replica.index.knowledge)
                self.assertEqual(
                    codec.unpack_state(data, limits), (rows, lost, replica.index.knowledge)
                )

    def test_moved_directory(self) -> None:
        """A moved directory of 2000 files is one short record, and unfolds elsewhere."""
        one, other = (Index(*lanes(name, name.encode() * 8)) for name in "AB")
        tree = {b"old/d%d" % d: TreeEntry(DIR, 0o755) for d in range(40)}
        tree[b"old"] = TreeEntry(DIR, 0o755)
        for d in range(40):
            for f in range(50):
                tree[b"old/d%d/f%d" % (d, f)] = _digest(file(b"%d.%d" % (d, f)))
        made = one.commit(tree, 1)
        assert made is not None
        other.apply(made[0])
        moved = dict.fromkeys(tree, GONE)
        moved |= {b"new" + path[3:]: entry for path, entry in tree.items()}

        made = one.commit(moved, 2)

        assert made is not None
        data = codec.pack_batch(made[0], folded=True)
        self.assertLess(len(data), 200)
        batch, hi = codec.unpack_batch(data, Limits())
        more = unfold(other.folders, batch.moves)
        assert more is not None
        self.assertEqual(sorted([*batch.entries, *more.items()]), list(made[0].entries))
        self.assertEqual(hi, made[0].hi)
        other.commit({b"old/d1/f1": _digest(file(b"changed"))}, 3)
        self.assertIsNone(unfold(other.folders, batch.moves))

    @given(st.binary(max_size=200))
    @settings(max_examples=300, deadline=None)
    def test_arbitrary_bytes(self, data: bytes) -> None:
        """A decoder raises nothing but its own error."""
        for decode in (codec.unpack_batch, codec.unpack_state):
            for prefix in (b"-", b"z", b""):
                with self.assertRaises(Forbidden):
                    decode(prefix + data, Limits())

    @given(st.data())
    @settings(max_examples=200, deadline=None)
    def test_damaged_batch(self, data: st.DataObject) -> None:
        """Nor does one for a batch in which a value was replaced by another."""
        world = World(2)
        world.write(world.replicas[0], b"a/x", b"1" * 32)
        body = codec.unpack(codec.expand(codec.pack_batch(world.replicas[0].log[0]), 1 << 20))
        columns = body[6]
        odd = data.draw(
            st.one_of(
                st.none(), st.integers(-(2**63), 2**63 - 1), st.binary(), st.just(""), st.just([])
            )
        )
        where = data.draw(st.integers(0, len(body) + len(columns) - 1))
        if where < len(body):
            body[where] = odd
        else:
            columns[where - len(body)] = odd
        try:
            codec.unpack_batch(b"-" + codec.pack(body), Limits())
        except Forbidden:
            pass

    def test_bomb(self) -> None:
        """What grows beyond the limit when unpacked is refused before it does."""
        import zlib

        bomb = b"z" + zlib.compress(b"\0" * (codec.MAX_BODY + 1))
        self.assertRaises(Forbidden, codec.unpack_batch, bomb, Limits())


class RulesTests(SynchronousTestCase):
    """Names, links, ignored files, and the brake."""

    def test_paths(self) -> None:
        """What could lead outside is refused; odd names are not."""
        for path in (b"", b"/x", b"../x", b"a/../../x", b"a/./b", b"a//b", b"a/", b"a\0b"):
            self.assertRaises(Forbidden, check_path, path)
        for path in (b"x" * 256, b"/".join([b"d"] * 65), b"d/" * 2100 + b"x"):
            self.assertRaises(Forbidden, check_path, path)
        for path in (b"a", b"C:\\x", b"A/a", b"...", b"x" * 255, "ü/ß".encode(), b"\xff"):
            check_path(path)

    def test_links(self) -> None:
        """A link stays inside by its text alone."""
        for path, target in (
            (b"a", b"/etc/passwd"),
            (b"a", b"../x"),
            (b"d/a", b"../../x"),
            (b"d/a", b"b/../../../x"),
            (b"a", b""),
            (b"a", b"x\0"),
        ):
            self.assertRaises(Forbidden, check_link, path, target)
        for path, target in ((b"a", b"b"), (b"d/a", b"../b"), (b"a", b"d/../b"), (b"a", b".")):
            check_link(path, target)

    def test_ignored(self) -> None:
        """Defaults, own rules, anchors, directories, and taking back."""
        ignored = ignorer(b"*.bak\n/top\nbuild/\n# remark\n!keep.bak\nd/**/z\n")
        for path, is_dir in (
            (b".git", True),
            (b"x/.git", True),
            (b"a.pyc", False),
            (b"d/.a.sls.swp", False),
            (b"a~", False),
            (b"4913", False),
            (b"x/a.bak", False),
            (b"top", False),
            (b"x/build", True),
            (b"d/q/r/z", False),
            (b".saltwisted-trash", True),
        ):
            self.assertTrue(ignored(path, is_dir), path)
        for path, is_dir in (
            (b"a.sls", False),
            (b"keep.bak", False),
            (b"x/top", False),
            (b"build", False),
            (b"swap", False),
            (b".gitignore", False),
        ):
            self.assertFalse(ignored(path, is_dir), path)

    def test_brake(self) -> None:
        """A hundred files go; a quarter, half of the bytes, or everything does not."""
        brake = Brake(Limits())
        self.assertFalse(brake.holds(0, 100, 100, 400, 10_000))
        self.assertTrue(brake.holds(0, 101, 101, 400, 10_000))
        self.assertFalse(brake.holds(0, 2500, 2500, 10_000, 1_000_000))
        self.assertTrue(brake.holds(0, 2501, 2501, 10_000, 1_000_000))
        self.assertTrue(brake.holds(0, 101, 600_000, 10_000, 1_000_000))
        self.assertTrue(brake.holds(0, 3, 70 << 20, 10_000, 100 << 20))
        self.assertFalse(brake.holds(0, 3, 60 << 20, 10_000, 100 << 20))
        self.assertTrue(brake.holds(0, 5, 50, 5, 50))

    def test_brake_in_steps(self) -> None:
        """What is deleted little by little within a minute counts together."""
        brake = Brake(Limits())
        held = []
        for step in range(4):
            left = 400 - 40 * step
            held.append(brake.holds(step, 40, 40, left, left))
            brake.passed(step, 40, 40)

        self.assertEqual(held, [False, False, True, True])
        self.assertFalse(brake.holds(100, 40, 40, 240, 240))

    def test_moves_do_not_count(self) -> None:
        """A file whose content turns up elsewhere has moved."""
        brake = Brake(Limits())
        one, two = file(b"1"), file(b"2")

        weighed = brake.weigh({b"a": (one, None), b"b": (two, None), b"c": (None, one)})

        self.assertEqual(weighed, (1, 1))


def _digest(entry: TreeEntry) -> TreeEntry:
    import hashlib

    if entry.kind != "f":
        return entry
    digest = hashlib.sha256(entry.content).digest()
    return TreeEntry(entry.kind, entry.mode, entry.size, entry.mtime, digest)


def _with_digests(batch):  # type: ignore[no-untyped-def]
    from attrs import evolve

    return evolve(batch, entries=tuple((path, _digest(e)) for path, e in batch.entries))


def _unmoved(batch):  # type: ignore[no-untyped-def]
    from attrs import evolve

    return evolve(batch, moves=())
