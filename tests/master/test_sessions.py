"""What a master remembers of a minion's requests, so that none acts twice (T-REPLAY-2)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.sessions import FEW_NONCES, MAX_NONCES, TS_WINDOW, MinionSession

ANY: Any = None


def session() -> MinionSession:
    """A minion that has just signed in; what its keys are plays no part."""
    return MinionSession("web1", b"", ANY, ANY, 0.0)


def acts(one: MinionSession, nonce: str, ts: int | None) -> bool:
    """Whether a request is done, as the master judges."""
    return one.fresh(ts) and one.first_use(nonce, ts)


class NonceTests(SynchronousTestCase):
    """Which nonces are remembered."""

    @given(st.lists(st.tuples(st.integers(-350, 350), st.booleans()), max_size=120))
    def test_T_REPLAY_2_never_twice(self, steps: list[tuple[int, bool]]) -> None:
        """
        Whatever the minion's clock says from one request to the next, with or without a time in
        them: a request that was done once is not done again, then or at the end.
        """
        one, ts, done = session(), 1_000_000, []
        for number, (step, has_time) in enumerate(steps):
            ts += step
            request = f"nonce{number}", ts if has_time else None
            if acts(one, *request):
                done.append(request)
            self.assertFalse(acts(one, *request))

        self.assertEqual([request for request in done if acts(one, *request)], [])

    def test_T_REPLAY_2_to_the_edge(self) -> None:
        """However many follow: a request is remembered as long as its time is in the window."""
        one = session()
        for number in range(40):
            self.assertTrue(acts(one, f"early{number}", 1000))
        for number in range(200):
            self.assertTrue(acts(one, f"late{number}", 1000 + TS_WINDOW))

        self.assertFalse(any(acts(one, f"early{number}", 1000) for number in range(40)))

    def test_a_life_of_requests(self) -> None:
        """A minion that asks for years leaves no more than its last minutes."""
        one = session()
        for number in range(20_000):
            self.assertTrue(acts(one, f"nonce{number}", 10 * number))
            self.assertLessEqual(len(one.nonces), 2 * (TS_WINDOW // 10 + 1) + FEW_NONCES)

    def test_without_time(self) -> None:
        """Nonces of requests that have no time are kept as long as there is room for them."""
        one = session()
        for number in range(MAX_NONCES + 100):
            one.first_use(f"nonce{number}", None)

        self.assertLessEqual(len(one.nonces), MAX_NONCES + 1)
        newest = range(MAX_NONCES + 100 - MAX_NONCES // 2, MAX_NONCES + 100)
        self.assertFalse(any(one.first_use(f"nonce{number}", None) for number in newest))
