"""
Sessions of users of a directory: they have the groups that their users have now.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.master.groups import FRESH, HOLD
from saltwisted.web.events import CHECK
from tests.web.test_events import EventsTestCase, events_of

RULES: dict[str, Any] = {
    "ops%": [".*", "@runner", "@wheel", {"@event": ["salt/netapi/hook/*"]}],
    "fred": ["test.*", {"@event": ["salt/netapi/hook/own"]}],
    "ann": [".*", "@runner", "@wheel"],
}
ARG = {"client": "runner", "fun": "test.arg", "arg": ["a"]}


class DirectoryTests(EventsTestCase):
    """One API, and a directory whose answers the test gives."""

    def setUp(self) -> None:
        self.api = self.made(
            external_auth={"ldap": RULES},
            block={"collect_stats": True},
        )

    def says(self, **answer: Any) -> None:
        """What the directory says from now on."""
        self.api.rig.backends.answer = {"ok": True, **answer}

    def session(self, user: str, *groups: str) -> str:
        """Somebody logs in."""
        self.says(name=user, groups=list(groups))
        low = {"username": user, "password": "x", "eauth": "ldap"}
        reply = self.api.ask("POST", "/login", low)
        self.assertEqual(reply.status, 200, reply.text)
        return str(reply.json["return"][0]["token"])

    def asked(self, token: str) -> list[int]:
        """How a runner, two hooks, the figures and the list of jobs are answered."""
        api = self.api
        return [
            reply.status
            for reply in (
                api.ask("POST", "/", [ARG], token=token),
                api.ask("POST", "/hook/deploy", {}, token=token),
                api.ask("POST", "/hook/own", {}, token=token),
                api.ask("GET", "/stats", token=token),
                api.ask("GET", "/jobs", token=token),
            )
        ]

    def test_T_EAUTH_8_taken_away(self) -> None:
        """
        T-EAUTH-8: a group that is taken away is lost to a session within minutes: for what it runs,
        for the hooks that it sends, and for the events that it sees already.
        """
        token = self.session("fred", "ops")
        listening = self.api.open("GET", "/events", token=token)
        self.api.wait(0.1)
        self.assertEqual(self.asked(token), [200] * 5)

        self.says(name="fred", groups=[])
        self.api.rig.clock.pump([CHECK] * int(HOLD / CHECK + 1))
        self.api.rig.bus.fire("others/secret", {})
        self.api.wait(0.1)

        tags = [each["tag"] for each in events_of(listening.transport.value())]
        self.assertIn("salt/netapi/hook/deploy", tags)
        self.assertNotIn("others/secret", tags)
        self.assertEqual(self.asked(token), [401, 401, 200, 200, 401])

    def test_T_EAUTH_8_gone(self) -> None:
        """T-EAUTH-8: the session of a user who is in no directory any more ends, wherever it is."""
        token = self.session("ann")
        listening = self.api.open("GET", "/events", token=token)
        self.api.wait(0.1)
        self.assertEqual(self.asked(token), [200] * 5)

        self.says(ok=False)
        self.api.rig.clock.pump([CHECK] * int(HOLD / CHECK + 1))

        self.assertTrue(listening.transport.value().endswith(b"0\r\n\r\n"))
        self.assertEqual(self.asked(token), [401] * 5)

    def test_silent_directory(self) -> None:
        """
        While a directory says nothing its users' listeners keep nobody waiting: another's stream
        ends with his session. No question is put twice.
        """
        fred, ann = self.session("fred", "ops"), self.session("ann")
        streams = [self.api.open("GET", "/events", token=token) for token in (fred, ann)]
        self.api.wait(0.1)
        asked: list[str] = []
        unanswered: list[Deferred[Any]] = []

        def call(entry: str, payload: Any, timeout: float) -> Deferred[Any]:
            asked.append(payload["username"])
            unanswered.append(Deferred())
            return unanswered[-1]

        self.patch(self.api.rig.backends, "call", call)
        self.api.rig.clock.pump([CHECK] * int(HOLD / CHECK + 2))
        self.assertEqual(sorted(asked), ["ann", "fred"])
        unanswered[asked.index("ann")].callback({"ok": True, "name": "ann", "groups": []})
        self.api.rig.clock.pump([CHECK] * 2)
        self.assertEqual(self.api.ask("POST", "/logout", token=ann).status, 200)
        self.api.wait(CHECK + 0.1)

        ended = [stream.transport.value().endswith(b"0\r\n\r\n") for stream in streams]
        self.assertEqual(ended, [False, True])
        self.assertGreater(HOLD, FRESH)
        for each in unanswered:
            if not each.called:
                each.callback({"problem": "away"})
