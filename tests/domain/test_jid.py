"""
Job ids: their form, their time, and that none is given out twice.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.jid import JidMaker, is_jid, jid_at, jid_mark, jid_seconds, jid_to_time

MOMENT = 1_782_907_200.25  # 2026-07-01 12:00:00.25 UTC


class JidTests(SynchronousTestCase):
    """One class for one small module."""

    def test_form(self) -> None:
        """A jid is the UTC time in twenty digits, microseconds included."""
        self.assertEqual(jid_at(MOMENT), "20260701120000250000")
        self.assertEqual(jid_at(MOMENT, "4711"), "20260701120000250000_4711")

    def test_time_as_printed(self) -> None:
        """The start time reads as in stock C{jobs} runners, and is empty for no jid."""
        self.assertEqual(jid_to_time("20260701120000250000"), "2026, Jul 01 12:00:00.250000")
        for odd in ("", "req", "20261301120000250000", None, 5, "2026070112000025000x"):
            self.assertEqual(jid_to_time(odd), "", odd)

    def test_T_PATH_6_only_digits_pass(self) -> None:
        """T-PATH-6: what is not twenty digits, perhaps with a process number, is not a jid."""
        for good in ("20260701120000250000", "20260701120000250000_1"):
            self.assertTrue(is_jid(good), good)
        for bad in (
            "",
            "req",
            "../../../etc/passwd",
            "20260701120000250000\n",
            "20260701120000250000_",
            "20260701120000250000_x",
            "20260701120000250000/../x",
            "２０２６０７０１１２００００２５００００",
            b"20260701120000250000",
            20260701120000250000,
            None,
        ):
            self.assertFalse(is_jid(bad), bad)

    def test_no_moment(self) -> None:
        """Twenty digits that name no moment have no seconds, and do not raise."""
        self.assertIsNone(jid_seconds("99999999999999999999"))
        self.assertIsNone(jid_seconds("nonsense"))

    @given(st.floats(min_value=0, max_value=4e9))
    def test_round_trip(self, now: float) -> None:
        """The time in a jid is the time that it was made of, to the microsecond."""
        seconds = jid_seconds(jid_at(now))

        assert seconds is not None
        self.assertLess(abs(seconds - now), 2e-6)

    @given(st.lists(st.floats(min_value=1e9, max_value=2e9), min_size=2, max_size=50))
    def test_growing(self, times: list[float]) -> None:
        """Whatever the clock does, each jid is greater than the one before."""
        maker = JidMaker()

        jids = [maker.make(now) for now in times]

        self.assertEqual(jids, sorted(set(jids)))
        self.assertTrue(all(map(is_jid, jids)))

    @given(
        st.lists(st.tuples(st.integers(0, 2), st.floats(1e9, 2e9)), min_size=2, max_size=50),
    )
    def test_slots(self, calls: list[tuple[int, float]]) -> None:
        """The last two digits are the slot: nodes of any clocks never give out the same jid."""
        makers = [JidMaker(slot=slot) for slot in (0, 7, 99)]

        jids = [(which, makers[which].make(now)) for which, now in calls]

        self.assertEqual(len({jid for _, jid in jids}), len(jids))
        for which, maker in enumerate(makers):
            own = [jid for node, jid in jids if node == which]
            self.assertEqual(own, sorted(own))
            self.assertTrue(all(int(jid[18:20]) == maker.slot for jid in own), own)

    def test_resume(self) -> None:
        """After a restart no jid comes again, although the clock was set back meanwhile."""
        maker = JidMaker(slot=3)
        last = maker.make(MOMENT)
        after = JidMaker(slot=3)
        after.resume(jid_mark(last))

        self.assertEqual(jid_mark(last), maker.mark)
        self.assertGreater(after.make(MOMENT - 3600), last)
        self.assertEqual(jid_mark("no jid"), 0)
        self.assertEqual(jid_mark("20269999999999999999"), 0)

    def test_unique_jid(self) -> None:
        """With C{unique_jid} the process number follows."""
        self.assertEqual(JidMaker("99").make(MOMENT), "20260701120000250000_99")
