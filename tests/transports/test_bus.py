"""
The event bus: who gets what, in which order.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports.bus import EventBus, Fired
from tests.doors.measure import assert_linear


class BusTests(SynchronousTestCase):
    """EventBus."""

    def setUp(self) -> None:
        """A bus at noon, and a list of what was heard."""
        self.bus = EventBus(lambda: 1_782_907_200.25)
        self.heard: list[tuple[str, str]] = []

    def listen(self, prefix: str, name: str) -> Any:
        """Note the tags that come, under a name."""
        return self.bus.subscribe(prefix, lambda tag, data: self.heard.append((name, tag)))

    def test_prefixes(self) -> None:
        """A subscriber hears the tags that begin with its prefix, all of them with an empty one."""
        self.listen("salt/job/", "jobs")
        self.listen("", "all")
        self.listen("salt/job/1/ret/", "one")

        for tag in ("salt/job/1/new", "salt/job/1/ret/a", "salt", "my/tag"):
            self.bus.fire(tag, {})

        self.assertEqual(
            self.heard,
            [
                ("jobs", "salt/job/1/new"),
                ("all", "salt/job/1/new"),
                ("jobs", "salt/job/1/ret/a"),
                ("all", "salt/job/1/ret/a"),
                ("one", "salt/job/1/ret/a"),
                ("all", "salt"),
                ("all", "my/tag"),
            ],
        )

    def test_stamp(self) -> None:
        """Data get Salt 3008's time stamp or keep their own, and are not changed themselves."""
        seen: list[Mapping[str, Any]] = []
        self.bus.subscribe("", lambda tag, data: seen.append(data))
        own = {"a": 1}

        self.bus.fire("x", own)
        self.bus.fire("x", {"_stamp": "earlier"})

        self.assertEqual(seen[0], {"a": 1, "_stamp": "2026-07-01T12:00:00.250000+00:00"})
        self.assertEqual(seen[1], {"_stamp": "earlier"})
        self.assertEqual(own, {"a": 1})

    def test_leaving(self) -> None:
        """Who left hears nothing more, even when somebody else's receiver made him leave."""
        stop = self.listen("", "late")
        first = EventBus(lambda: 0.0)
        stops: list[Any] = []
        first.subscribe("", lambda tag, data: stops[0]())
        stops.append(first.subscribe("", lambda tag, data: self.heard.append(("gone", tag))))

        first.fire("x", {})
        stop()
        stop()
        self.bus.fire("x", {})

        self.assertEqual(self.heard, [])
        self.assertFalse(self.bus.listening("x"))

    def test_failing_receiver(self) -> None:
        """A receiver that fails loses its event alone, and is logged."""

        def fail(tag: str, data: Mapping[str, Any]) -> None:
            raise ValueError("broken")

        self.bus.subscribe("", fail)
        self.listen("", "other")
        self.bus.fire("x", {})

        self.assertEqual(self.heard, [("other", "x")])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_fired_from_inside(self) -> None:
        """An event that a receiver fires comes after the current one for everybody."""

        def answer(tag: str, data: Mapping[str, Any]) -> None:
            if tag == "question":
                self.bus.fire("answer", {})

        self.bus.subscribe("", answer)
        self.listen("", "late")
        self.bus.fire("question", {})

        self.assertEqual(self.heard, [("late", "question"), ("late", "answer")])

    def test_whole_events(self) -> None:
        """Whoever needs it gets the number and the origin as well."""
        seen: list[Fired] = []
        self.bus.subscribe_events("x", seen.append)
        self.bus.fire("x/1", {"_stamp": ""}, origin="other-node")
        self.bus.fire("y", {})
        self.bus.fire("x/2", {"_stamp": ""})

        self.assertEqual(
            seen,
            [Fired(1, "x/1", {"_stamp": ""}, "other-node"), Fired(3, "x/2", {"_stamp": ""}, "")],
        )

    def test_remembers_nothing(self) -> None:
        """An event that has been given out is gone, however large it was."""

        class Value(dict[str, Any]):
            """One that can be watched."""

        value = Value(a=1)
        gone = weakref.ref(value)
        self.bus.fire("x", {"return": value})
        del value

        self.assertIsNone(gone())
        self.assertEqual(self.bus.last, 1)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["fire", "join", "leave"]),
                st.text(alphabet="ab/", max_size=4),
            ),
            max_size=40,
        )
    )
    def test_as_the_plain_rule_says(self, steps: list[tuple[str, str]]) -> None:
        """Whatever comes and goes, exactly those hear who are there and whose prefix fits."""
        bus = EventBus(lambda: 0.0)
        present: list[tuple[int, str, Any]] = []
        heard: list[tuple[int, str]] = []
        expected: list[tuple[int, str]] = []
        for number, (kind, text) in enumerate(steps):
            if kind == "join":

                def receive(tag: str, data: Mapping[str, Any], number: int = number) -> None:
                    heard.append((number, tag))

                present.append((number, text, bus.subscribe(text, receive)))
            elif kind == "leave" and present:
                present.pop(len(text) % len(present))[2]()
            elif kind == "fire":
                expected += [(who, text) for who, prefix, _ in present if text.startswith(prefix)]
                bus.fire(text, {})

        self.assertEqual(heard, expected)

    def test_T_COST_1_many_prefixes(self) -> None:
        """Who listens for many tags costs in proportion, when it comes and when it goes."""

        def act(prefixes: list[str]) -> None:
            bus = EventBus(lambda: 0.0)
            for stop in [bus.subscribe(prefix, lambda tag, data: None) for prefix in prefixes]:
                stop()
            self.assertFalse(bus.listening("x"))

        def different(size: int) -> list[str]:
            return [f"{n}" * (n % 50) for n in range(size)]

        assert_linear(self, "different tags", different, act, (250, 4000))
        assert_linear(self, "one tag", lambda size: ["a"] * size, act, (500, 8000))
