"""
Groups of users who hold tokens: asked for again, and how long what was answered counts.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.eauth import Token
from saltwisted.master.groups import FRESH, HOLD, RETRY, Groups
from saltwisted.transports import turns
from tests.master.test_automation_turns import one_turn


class GroupsTests(SynchronousTestCase):
    """A directory whose answers the test gives."""

    def setUp(self) -> None:
        self.now = 1000.0
        self.asked: list[Deferred[Any]] = []
        self.gone: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.clock = Clock()
        self.groups = Groups(self.clock, lambda: self.now, self._look, self._gone, self._tell)
        self.token = Token(
            name="fred", eauth="ldap", start=1000.0, expire=9e9, groups=("ops", "web")
        )

    def _look(self, eauth: str, username: str) -> Deferred[Any]:
        self.assertEqual((eauth, username), ("ldap", "fred"))
        self.asked.append(Deferred())
        return self.asked[-1]

    async def _gone(self, eauth: str, username: str) -> None:
        self.gone.append((eauth, username))

    def _tell(self, about: str, text: str) -> None:
        self.told.append(text)

    def of(self) -> Deferred[Any]:
        """One use of the token."""
        return Deferred.fromCoroutine(self.groups.of(self.token))

    def test_fresh(self) -> None:
        """A token that was just made is believed at once, and nobody is asked."""
        self.now += FRESH - 1
        self.assertEqual(self.successResultOf(self.of()), ("ops", "web"))
        self.assertEqual(self.asked, [])

    def test_T_EAUTH_8_taken_away(self) -> None:
        """T-EAUTH-8: a group that is taken away is lost at the next use; nobody waits for it."""
        self.now += FRESH
        self.assertEqual(self.successResultOf(self.of()), ("ops", "web"))
        self.asked[0].callback({"ok": True, "groups": ["ops"]})
        self.assertEqual(self.successResultOf(self.of()), ("ops",))
        self.assertEqual(len(self.asked), 1)

    def test_T_EAUTH_8_idle(self) -> None:
        """T-EAUTH-8: a token that was not used for long waits for the answer, and so do others."""
        self.now += 3600
        uses = [self.of(), self.of()]
        for use in uses:
            self.assertNoResult(use)
        self.assertEqual(len(self.asked), 1)
        self.asked[0].callback({"ok": True, "groups": ["ops"]})
        for use in uses:
            self.assertEqual(self.successResultOf(use), ("ops",))

    def test_answered_in_turns(self) -> None:
        """Of many requests that wait for one answer, each turn of the reactor lets a few go on."""
        self.patch(turns, "PORTION", -1.0)
        self.now += 3600
        uses = [self.of() for _ in range(5)]
        self.asked[0].callback({"ok": True, "groups": ["ops"]})
        seen = [sum(use.called for use in uses)]
        while self.clock.getDelayedCalls():
            one_turn(self.clock)
            seen.append(sum(use.called for use in uses))

        self.assertEqual(seen, [1, 2, 3, 4, 5, 5])

    def test_T_EAUTH_8_no_answer(self) -> None:
        """
        T-EAUTH-8: while a directory is away what it said counts for five minutes, and then no group
        does; it is asked again now and then, and counts again when it answers.
        """
        self.now += FRESH
        self.assertEqual(self.successResultOf(self.of()), ("ops", "web"))
        self.asked[0].callback({"problem": "away"})
        self.assertEqual(self.successResultOf(self.of()), ("ops", "web"))
        self.assertEqual(len(self.asked), 1)

        self.now += HOLD - FRESH
        use = self.of()
        self.asked[1].callback({"problem": "away"})
        self.assertEqual(self.successResultOf(use), ())
        self.assertEqual(self.told[:2], ["away", "away"])
        self.assertIn("fred", self.told[2])

        self.assertEqual(self.successResultOf(self.of()), ())
        self.assertEqual(len(self.asked), 2)
        self.now += RETRY
        use = self.of()
        self.asked[2].callback({"ok": True, "groups": ["web"]})
        self.assertEqual(self.successResultOf(use), ("web",))

    def test_T_EAUTH_8_gone(self) -> None:
        """T-EAUTH-8: whoever is in no directory any more is nobody, and his tokens end."""
        self.now += 3600
        use = self.of()
        self.asked[0].callback({"ok": False})
        self.assertIs(self.successResultOf(use), None)
        self.assertEqual(self.gone, [("ldap", "fred")])

    def test_T_EAUTH_8_every_node(self) -> None:
        """
        T-EAUTH-8: on each of several nodes a group that is taken away is lost within minutes of
        use, whichever node the token was made on, and although no node tells another.
        """
        groups = ["ops", "web"]
        asked: list[int] = []

        def looking(node: int) -> Groups:
            def look(eauth: str, username: str) -> Deferred[Any]:
                asked.append(node)
                return succeed({"ok": True, "groups": list(groups)})

            return Groups(self.clock, lambda: self.now, look, self._gone, self._tell)

        nodes = [looking(number) for number in range(3)]
        taken: float | None = None
        lost: dict[int, float] = {}
        for second in range(0, 1800, 10):
            self.now = 1000.0 + second
            if second == 900:
                groups.remove("web")
                taken = self.now
            # The second is asked seldom, and the last one hardly ever
            for number, every in enumerate((10, 60, 600)):
                if second % every:
                    continue
                use = Deferred.fromCoroutine(nodes[number].of(self.token))
                if "web" not in self.successResultOf(use):
                    lost.setdefault(number, self.now)
        assert taken is not None
        self.assertEqual(sorted(lost), [0, 1, 2])
        self.assertEqual(set(asked), {0, 1, 2})
        for number, every in enumerate((10, 60, 600)):
            # It is asked for again at a use, and what that one gives may still be the old answer
            self.assertLessEqual(lost[number] - taken, FRESH + 2 * every)
            self.assertGreaterEqual(lost[number], taken)

    def test_login_is_an_answer(self) -> None:
        """A newer login counts before what was answered earlier, also after he was gone."""
        self.test_T_EAUTH_8_gone()
        self.token = Token(
            name="fred", eauth="ldap", start=self.now + 5, expire=9e9, groups=("web",)
        )
        self.now += 6
        self.assertEqual(self.successResultOf(self.of()), ("web",))

    def test_failure(self) -> None:
        """A question that fails altogether leaves nobody waiting."""
        self.now += 3600
        use = self.of()
        self.asked[0].errback(ValueError("x"))
        self.assertEqual(self.successResultOf(use), ())
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
