"""
The latest jobs of a cluster, and the memory that they take.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs.latest import LatestJobs
from saltwisted.wire.msgpack import pack_bin, unpack_bin


def names(count: int) -> list[str]:
    """Names as they come from another node: made anew each time."""
    found: list[str] = unpack_bin(pack_bin([f"minion{number}" for number in range(count)]))
    return found


class LatestTests(SynchronousTestCase):
    """What is kept, and what is not."""

    def test_latest(self) -> None:
        """The jobs that came last are kept, with their minions."""
        jobs = LatestJobs(3, 0.0)
        for number in range(5):
            jobs.put(str(number), {"fun": f"f{number}"}, [f"m{number}"], number)
        jobs.put("3", {"fun": "again"}, ["m"], 6)

        self.assertEqual(len(jobs), 3)
        self.assertEqual(jobs.last(9), [("2", ("m2",)), ("4", ("m4",)), ("3", ("m",))])
        self.assertEqual(jobs.last(1), [("3", ("m",))])
        self.assertEqual(jobs.get("3"), ({"fun": "again"}, ("m",)))
        self.assertIsNone(jobs.get("1"))

    def test_same_minions(self) -> None:
        """A thousand jobs to the same two thousand minions take the memory of one such list."""
        jobs = LatestJobs(2000, 0.0)
        for number in range(1000):
            jobs.put(str(number), {"fun": "test.ping"}, names(2000), number)
        lists = {id(minions) for _, minions in jobs.last(1000)}

        self.assertEqual((len(jobs), len(lists)), (1000, 1))
        self.assertLess(jobs.bytes, 400_000)

    def test_large(self) -> None:
        """Large jobs and long lists push out older ones."""
        jobs = LatestJobs(2000, 5.0, most_bytes=100_000)
        for number in range(100):
            jobs.put(f"a{number}", {"arg": ["x" * 9000]}, ["m"], number)
        self.assertEqual([jid for jid, _ in jobs.last(99)], [f"a{n}" for n in range(89, 100)])
        for number in range(100):
            jobs.put(f"b{number}", {}, names(300 + number), 100 + number)
        self.assertEqual([jid for jid, _ in jobs.last(99)], [f"b{n}" for n in range(95, 100)])
        for number in range(100):
            jobs.put(f"c{number}", {}, ["m"], 200 + number)
        self.assertLess(jobs.bytes, 100_000)
        self.assertGreater(len(jobs), 100)

    def test_young(self) -> None:
        """A job that may yet be published again is kept, however many and large others come."""
        jobs = LatestJobs(3, 10.0, most_bytes=1000)
        for number in range(50):
            jobs.put(str(number), {"arg": "x" * 500}, names(100 + number), number / 5)
        self.assertEqual(len(jobs), 50)
        jobs.put("50", {}, ["m"], 100.0)
        self.assertEqual(len(jobs), 1)

    def test_too_large(self) -> None:
        """The latest job is kept even where none may be young, and it alone is too much."""
        jobs = LatestJobs(3, 0.0, most_bytes=1000)
        for number in range(3):
            jobs.put(str(number), {"arg": "x" * 5000}, ["m"], number)
            self.assertEqual(jobs.last(9), [(str(number), ("m",))])

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 300))))
    def test_counted(self, told: list[tuple[int, int, int]]) -> None:
        """However they come, what is counted is what is kept."""
        jobs = LatestJobs(6, 2.0, most_bytes=500)
        for now, (jid, minions, size) in enumerate(told):
            jobs.put(str(jid), {"arg": "x" * size}, names(minions), now)
            kept = [jobs.get(each) for each, _ in jobs.last(99)]
            assert all(kept)
            lists = {each[1] for each in kept if each}
            expected = sum(len(pack_bin(each[0])) for each in kept if each)
            self.assertEqual(jobs.bytes, expected + 72 * sum(map(len, lists)))
            self.assertEqual(jobs.last(1)[0], (str(jid), tuple(names(minions))))
