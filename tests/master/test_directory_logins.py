"""
What a master makes of the answers of a backend that has names, groups, rules and ends of its own.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.logins import LOOK_ENTRY, NotProven, User
from tests.master.rig import Rig
from tests.provider import Provider

RULES = {"ops%": ["@runner"], "web%": ["state.*"], "fred": ["test.*"]}


class DirectoryTests(SynchronousTestCase):
    """One master with C{ldap}, and answers that the test gives."""

    def setUp(self) -> None:
        self.start()

    def start(self, **options: Any) -> None:
        """A master."""
        self.rig = Rig(self, external_auth={"ldap": dict(RULES)}, **options)
        self.answer(ok=True, name="fred", groups=["ops", "web"])

    def answer(self, **answer: Any) -> None:
        """What the backend says from now on."""
        self.rig.backends.answer = answer

    def prove(self, **given: Any) -> Deferred[User]:
        """One request with a password or a token."""
        given = given or {"eauth": "ldap", "username": "FRED", "password": "x"}
        return Deferred.fromCoroutine(self.rig.ctx.logins.prove(given, "10.0.0.1"))

    def token(self) -> dict[str, Any]:
        """A token of Fred's."""
        given = {"eauth": "ldap", "username": "FRED", "password": "x"}
        made = Deferred.fromCoroutine(self.rig.ctx.logins.make_token(given, "10.0.0.1"))
        found: dict[str, Any] = self.successResultOf(made)
        return found

    def rules(self, **given: Any) -> Any:
        """What somebody may."""
        return self.successResultOf(self.prove(**given)).rules

    def test_T_EAUTH_7_name(self) -> None:
        """T-EAUTH-7: a login and its token have the name that the backend says, and its rules."""
        who = self.successResultOf(self.prove())
        self.assertEqual((who.name, who.rules), ("fred", ["@runner", "state.*", "test.*"]))
        self.assertEqual(self.token()["name"], "fred")

    def test_T_EAUTH_7_one_lane(self) -> None:
        """T-EAUTH-7: who guesses by many spellings of a name is as slow as by one."""
        self.answer(ok=False)
        tries = [
            self.prove(eauth="ldap", username=name, password="x")
            for name in ("fred", "Fred", "FRED")
        ]
        self.rig.clock.pump([0.1] * 5)
        self.assertEqual(len(self.rig.backends.asked), 1)
        for _ in range(6):
            self.rig.clock.advance(1)
        for each in tries:
            self.failureResultOf(each, NotProven)

    def test_T_EAUTH_8_token(self) -> None:
        """T-EAUTH-8: a token loses a group five minutes after its user at the latest."""
        word = self.token()["token"]
        self.assertEqual(self.rules(token=word), ["@runner", "state.*", "test.*"])
        self.answer(ok=True, name="fred", groups=["web"])
        self.rig.clock.advance(300)

        self.assertEqual(self.rules(token=word), ["state.*", "test.*"])
        self.assertEqual(self.rig.backends.entries[-1], LOOK_ENTRY)
        self.assertNotIn("password", self.rig.backends.asked[-1])

    def test_T_EAUTH_8_kept_rules(self) -> None:
        """T-EAUTH-8: rules that a token keeps hold as long as all groups that gave them."""
        self.start(keep_acl_in_token=True)
        word = self.token()["token"]
        self.rig.ctx.config.external_auth["ldap"]["fred"] = []
        self.rig.clock.advance(300)
        self.assertEqual(self.rules(token=word), ["@runner", "state.*", "test.*"])

        self.answer(ok=True, name="fred", groups=["ops"])
        self.rig.clock.advance(300)
        self.assertEqual(self.rules(token=word), ["@runner"])

    def test_T_EAUTH_8_gone(self) -> None:
        """T-EAUTH-8: the tokens of whoever left the directory are worth nothing, and go."""
        words = [self.token()["token"] for _ in range(2)]
        self.answer(ok=False)
        self.rig.clock.advance(300)

        for word in words:
            self.failureResultOf(self.prove(token=word), NotProven)
        self.assertEqual(list(self.rig.ctx.logins.tokens.items()), [])

    def test_closed(self) -> None:
        """T-EAUTH-2: a closed account ends the tokens of the one whom the backend means."""
        word = self.token()["token"]
        self.answer(ok=False, closed=True, name="fred")
        refused = self.prove()
        self.rig.clock.advance(20)
        self.failureResultOf(refused, NotProven)

        self.failureResultOf(self.prove(token=word), NotProven)

    def test_until(self) -> None:
        """A token does not outlive what it was made of; what has ended makes none."""
        now = self.rig.ctx.logins.tokens.now()
        self.answer(ok=True, until=now + 60)
        made = self.token()
        self.assertEqual(made["expire"], now + 60)

        self.answer(ok=True, until=now)
        given = {"eauth": "ldap", "username": "fred", "password": "x"}
        refused = Deferred.fromCoroutine(self.rig.ctx.logins.make_token(given, "10.0.0.1"))
        self.failureResultOf(refused, NotProven)

    def test_rules(self) -> None:
        """What a backend grants counts beside the options, and C{*} does not then."""
        self.rig.ctx.config.external_auth["ldap"]["*"] = ["test.ping"]
        self.answer(ok=True, rules=["grains.*", {"web*": ["cmd.run"]}])
        given = {"eauth": "ldap", "username": "ann", "password": "x"}
        self.assertEqual(self.rules(**given), ["grains.*", {"web*": ["cmd.run"]}])
        self.answer(ok=True)
        self.assertEqual(self.rules(**given), ["test.ping"])

    def test_keys_are_kept(self) -> None:
        """What a backend fetched is handed in with the next call; what is older does not count."""
        provider = Provider(self)
        self.rig.ctx.config.external_auth["oidc"] = {**provider.options(), "fred": ["test.*"]}
        self.rig.backends.answer = None
        for kid in ("r1", "e1", "r1"):
            given = {"eauth": "oidc", "username": "fred", "password": provider.token(kid)}
            self.assertEqual(self.rules(**given), ["test.*"])
        self.assertEqual(provider.server.asked.count("/realm/keys"), 1)

        self.answer(ok=True, keep={"source": [], "tried": 1.0})
        self.rules(**given)
        self.rig.backends.answer = None
        self.rules(**given)
        self.assertEqual(provider.server.asked.count("/realm/keys"), 1)

    def test_explain(self) -> None:
        """C{auth.test} names what gives each right, and lets nobody in."""
        told = self.successResultOf(
            Deferred.fromCoroutine(self.rig.ctx.logins.explain("ldap", "Fred"))
        )

        self.assertEqual((told["name"], told["ok"], told["proven"]), ("fred", True, False))
        self.assertEqual(
            [(each["because"], each["rules"]) for each in told["rules"]],
            [("ops%", ["@runner"]), ("web%", ["state.*"]), ("fred", ["test.*"])],
        )
        self.assertEqual(self.rig.ctx.counters["login:accepted"], 0)
