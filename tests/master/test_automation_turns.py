"""
Thousands of entries: the reactor thread reads and looks at a few at a time, and nothing that
happens in between is lost.

A turn is as short as it may be here: it ends after each step.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain import schedulebook
from saltwisted.domain.reactions import entries as reading
from saltwisted.transports import turns
from tests.master.reacting import Reacting
from tests.master.rig import Rig
from tests.master.test_schedule import ScheduleRig

SLS = "say:\n  runner.test.arg:\n    - args:\n      - i: {{ data['i'] }}\n"
HOURLY = {"function": "test.arg", "hours": 1, "run_on_start": False}


def one_turn(clock: Clock) -> None:
    """What a reactor does in one turn: calls that are due, but none that they ask for meanwhile."""
    due = [call for call in clock.getDelayedCalls() if call.getTime() <= clock.seconds()]
    for call in due:
        if call.active():
            clock.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)


class Counting:
    """How often a function was called since it was asked last."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self._calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As it does."""
        self._calls += 1
        return self._original(*args, **kwargs)

    def taken(self) -> int:
        """The calls since the last time."""
        calls, self._calls = self._calls, 0
        return calls


class ScheduleTurnTests(SynchronousTestCase):
    """The master's schedule."""

    def begun(self, schedule: dict[str, Any]) -> Rig:
        """A master whose turns are short; its schedule has begun to read."""
        rig = ScheduleRig(self, schedule=schedule)
        self.patch(turns, "PORTION", -1.0)
        rig.schedule.startService()
        self.addCleanup(self.stop, rig)
        return rig

    def stop(self, rig: Rig) -> None:
        """It leaves nothing behind, wherever it is."""
        stopping = rig.schedule.stopService()
        self.turn(rig, 5)
        self.successResultOf(stopping)
        self.assertEqual(rig.clock.getDelayedCalls(), [])

    def turn(self, rig: Rig, times: int) -> None:
        """So many turns of the reactor."""
        for _ in range(times):
            one_turn(rig.clock)

    def ask(self, rig: Rig, func: str, **data: Any) -> Deferred[Any]:
        """A request."""
        return Deferred.fromCoroutine(rig.asks.call(func, "fred", **data))

    def test_reads_in_turns(self) -> None:
        """No turn of the reactor reads more entries than one portion."""
        parse = Counting(schedulebook.parse_entry)
        self.patch(schedulebook, "parse_entry", parse)

        rig = self.begun({f"j{n}": HOURLY for n in range(50)})
        most = [parse.taken()]
        for _ in range(160):
            self.turn(rig, 1)
            most.append(parse.taken())

        self.assertEqual((sum(most), max(most)), (50, 1))
        self.assertEqual(len(rig.schedule.book.entries), 50)

    def test_starts_in_turns(self) -> None:
        """Of a thousand runs that are due at once, each turn begins a few."""
        rig = self.begun({f"j{n}": {"function": "test.arg", "seconds": 9} for n in range(30)})
        begun = []
        for _ in range(150):
            self.turn(rig, 1)
            begun.append(sum(tag.endswith("/new") for tag in rig.tags()))
            rig.events.clear()

        self.assertEqual((sum(begun), max(begun)), (30, 1))

    def test_as_before_until_read(self) -> None:
        """While a schedule is read anew the one before holds whole, and then the new one."""
        rig = self.begun({f"j{n}": HOURLY for n in range(10)})
        self.turn(rig, 60)
        rig.config = rig.schedule._ground.config
        object.__setattr__(
            rig.config, "schedule", {f"k{n}": {**HOURLY, "args": [n]} for n in range(10)}
        )

        rig.schedule.reconfigure()
        self.turn(rig, 12)
        between = set(rig.schedule.book.entries), set(rig.schedule.book.own)
        self.turn(rig, 60)

        old, new = ({f"{letter}{n}" for n in range(10)} for letter in "jk")
        self.assertEqual(between, (old, old))
        self.assertEqual(set(rig.schedule.book.entries), new)

    def test_change_while_reading(self) -> None:
        """What somebody changes while the schedule is read holds, and is answered once it does."""
        rig = self.begun({f"j{n}": HOURLY for n in range(20)})
        self.turn(rig, 5)

        adding = self.ask(rig, "add", schedule={"more": {**HOURLY, "hours": 2}})
        self.assertNoResult(adding)
        self.turn(rig, 600)  # Twisted 22.4 takes more of them

        answer = self.successResultOf(adding)
        self.assertIn("more", answer["schedule"])
        self.assertEqual(len(rig.schedule.book.entries), 21)

    def test_stopped_while_reading(self) -> None:
        """A master that is stopped while it reads runs nothing afterwards."""
        rig = self.begun({f"j{n}": {"function": "test.arg", "seconds": 9} for n in range(20)})
        self.turn(rig, 5)

        self.stop(rig)
        self.turn(rig, 60)

        self.assertEqual(rig.events, [])

    def test_remarks_in_turns(self) -> None:
        """What is said of misspelt options is looked for in turns too."""
        strange = {"function": "test.arg", "hours": 1, "secconds": 5}
        rig = self.begun({f"j{n}": strange for n in range(30)})
        self.turn(rig, 10)
        self.assertEqual(rig.schedule.book.entries, {})

        self.turn(rig, 200)

        self.assertEqual(len(rig.schedule.book.entries), 30)


class ReactionTurnTests(SynchronousTestCase):
    """The reactor's entries."""

    def reacting(self, reactor: Any, **sls: str) -> Reacting:
        """A master that reacts, and then has short turns."""
        made = Reacting(self, reactor, {f"{name}.sls": text for name, text in sls.items()})
        self.patch(turns, "PORTION", -1.0)
        return made

    def values(self, made: Reacting) -> list[Any]:
        """The numbers of the events that were reacted to."""
        made.turn()
        made.turn()
        return [ret["return"]["kwargs"]["i"] for ret in made.runs("runner.test.arg")]

    def test_configuration_in_turns(self) -> None:
        """
        Entries of a configuration that is read again are taken a few at a time; those before react
        until the last of them is read.
        """
        made = self.reacting([{"a": "@s.sls"}], s=SLS)
        parse = Counting(reading._entry)
        self.patch(reading, "_entry", parse)
        wanted = [{f"t{n}": made.path("s.sls")} for n in range(40)]
        object.__setattr__(made.rig.ctx.config, "reactor", wanted)

        made.reactor.reconfigure(True)
        most = [parse.taken()]
        made.rig.bus.fire("a", {"i": 1})
        for _ in range(50):
            one_turn(made.rig.clock)
            most.append(parse.taken())
        made.rig.bus.fire("a", {"i": 2})
        made.rig.bus.fire("t7", {"i": 3})

        self.assertEqual((sum(most), max(most)), (40, 1))
        self.assertEqual(self.values(made), [1, 3])

    def test_held_events_in_turns(self) -> None:
        """Events that waited for the file of entries are looked at in turns, in their order."""
        made = self.reacting([], s=SLS)
        made.write("map", f"- t: {made.path('s.sls')}\n")
        made.rig.ctx.reactions.configure(made.path("map"))
        made.workers.holding = True
        for number in range(5):
            made.rig.bus.fire("t", {"i": number})
        made.workers.holding = False

        known: Any = made.rig.ctx.reactions
        match = Counting(known.matching)
        # Of other events, that reactions cause, several may come at once
        known.matching = lambda tag: match(tag) if tag == "t" else []

        made.workers.release()
        most = [match.taken()]
        made.rig.bus.fire("t", {"i": 5})
        for _ in range(20):
            one_turn(made.rig.clock)
            most.append(match.taken())

        self.assertEqual((sum(most), max(most)), (6, 1))
        self.assertEqual(self.values(made), [0, 1, 2, 3, 4, 5])

    def test_claims_in_turns(self) -> None:
        """What is claimed for many at once, as by one message with votes, begins in turns."""
        made = self.reacting([{"t": "@s.sls"}], s=SLS)
        claims: Any = made.rig.ctx.seams.claims
        begin, asked = claims.begin, []

        def held(*args: Any) -> Deferred[Any]:
            asked.append(Deferred())
            return asked[-1].addCallback(lambda _: begin(*args))

        claims.begin = held
        for number in range(8):
            made.rig.bus.fire("t", {"i": number})
        for _ in range(60):
            one_turn(made.rig.clock)
        self.assertEqual(len(asked), 8)

        for each in asked:
            each.callback(None)
        begun = [len(made.said("run"))]
        for _ in range(12):
            one_turn(made.rig.clock)
            begun.append(len(made.said("run")))

        self.assertEqual(begun, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8])
        self.assertEqual(self.values(made), list(range(8)))

    def test_changed_while_read(self) -> None:
        """A file that changes while it is being read is read once more."""
        made = self.reacting([], s=SLS)
        made.write("map", f"- t: {made.path('s.sls')}\n")
        made.rig.ctx.reactions.configure(made.path("map"))
        made.workers.holding = True
        made.rig.bus.fire("t", {"i": 1})
        (held,) = made.workers.held
        answer = made.workers._answer(*held[1:])
        made.write("map", f"- u: {made.path('s.sls')}\n# another size\n")
        made.rig.bus.fire("u", {"i": 2})
        made.workers.holding = False
        made.workers.held.clear()

        answer.chainDeferred(held[0])

        self.assertEqual(self.values(made), [2])

    def test_add_and_delete(self) -> None:
        """Two changes at the same time are both made."""
        made = self.reacting([{f"t{n}": "@s.sls"} for n in range(10)], s=SLS)
        known = made.rig.ctx.reactions

        first = Deferred.fromCoroutine(known.add(made.rig.clock, "new", made.path("s.sls")))
        second = Deferred.fromCoroutine(known.delete(made.rig.clock, "t3"))
        self.assertNoResult(first)
        made.turn()
        made.turn()

        self.assertTrue(self.successResultOf(first)["status"])
        self.assertTrue(self.successResultOf(second)["status"])
        tags = [entry.tag for entry in known.entries]
        self.assertEqual(tags, [f"t{n}" for n in range(10) if n != 3] + ["new"])
