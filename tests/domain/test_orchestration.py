"""
A run of an orchestration as data: its lines, their copies, and what a takeover does.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.electorate import Electorate, Seat, found
from saltwisted.domain.orchestration.copies import (
    NONE,
    Keeper,
    Look,
    Record,
    Reply,
    Send,
    Takeover,
    Writer,
    decode_look,
    decode_record,
    decode_reply,
    decode_send,
    encode_look,
    encode_record,
    encode_reply,
    encode_send,
    next_term,
)
from saltwisted.domain.orchestration.life import RunState, StepState
from saltwisted.domain.orchestration.seats import enough, seats_line, seats_of, with_seats
from saltwisted.domain.orchestration.takeover import (
    How,
    Known,
    Plan,
    how,
    known_of,
    plan,
    unheard,
    unheard_why,
)
from saltwisted.domain.orchestration.words import (
    ENDED,
    MAX_BEGUN,
    MAX_LINE,
    Run,
    Step,
    begun_line,
    ended_line,
    holder_of,
    interrupted_line,
    pack_line,
    part_line,
    parts_line,
    read_run,
    result_line,
    resumed_line,
    standing_of,
    step_line,
    taken_line,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

JID = "20261123100000000000"
LOWS = [
    {"state": "salt", "fun": "state", "__id__": "web", "name": "web"},
    {"state": "salt", "fun": "runner", "__id__": "dns", "name": "cache.clear_all"},
    {"state": "salt", "fun": "function", "__id__": "ping", "name": "test.ping"},
]


def begun(**more: Any) -> dict[str, Any]:
    """The first line of a run of three steps."""
    about = {"chunks": LOWS, "fun": "state.orchestrate", "user": "kim", **more}
    return begun_line("a", 100.0, {"options": {"arg": ["deploy"]}, **about})


def run_of(*lines: dict[str, Any]) -> Run:
    """What lines come to."""
    return read_run(JID, [pack_line(line) for line in lines])


class RunTests(SynchronousTestCase):
    """What lines come to."""

    def test_whole_run(self) -> None:
        """A run that goes well is done, and says when, where and under which jid each step was."""
        lines: list[dict[str, Any]] = [begun()]
        for number in range(3):
            lines.append(step_line(number, f"j{number}", "a", 101.0 + number))
            lines.append(result_line(number, {"result": True}, "a", 101.5 + number))
        run = run_of(*lines, ended_line("done", 110.0))

        shown = run.shown()
        self.assertEqual((shown["state"], shown["steps_done"], shown["node"]), ("done", 3, "a"))
        self.assertEqual(shown["what"], "state.orchestrate deploy")
        self.assertEqual([step["jid"] for step in shown["steps"]], ["j0", "j1", "j2"])
        self.assertEqual([step["duration"] for step in shown["steps"]], [0.5] * 3)

    def test_failed_step(self) -> None:
        """A result that is false is a failure; one of a step that never began counts as well."""
        run = run_of(
            begun(),
            step_line(0, "j0", "a", 101.0),
            result_line(0, {"result": False}, "a", 102.0),
            result_line(1, {"result": False, "comment": "requisite"}, "a", 102.0),
            result_line(2, {"result": None}, "a", 103.0),
        )
        states = [step.state for step in run.steps]
        self.assertEqual(states, [StepState.FAILED, StepState.FAILED, StepState.DONE])
        # Who takes over does not do again what has failed
        self.assertEqual(sorted(run.results()), [0, 1, 2])

    def test_done_is_done(self) -> None:
        """A step that is done is never begun again, whatever is said later."""
        lines = [begun(), step_line(0, "j0", "a", 1.0), result_line(0, {"result": True}, "a", 2.0)]
        run = run_of(*lines, step_line(0, "j9", "b", 3.0), interrupted_line(0, "x", 4.0))

        self.assertIs(run.steps[0].state, StepState.DONE)
        self.assertEqual(run.steps[0].jid, "j0")

    def test_resumption(self) -> None:
        """Failed and interrupted steps wait again, those that are done stay, the attempt counts."""
        lines = [
            begun(),
            step_line(0, "j0", "a", 1.0),
            result_line(0, {"result": True}, "a", 2.0),
            step_line(1, "j1", "a", 3.0),
            interrupted_line(1, "a died", 9.0),
            ended_line("interrupted", 9.0, "a died in dns"),
        ]
        self.assertEqual(run_of(*lines).state, RunState.INTERRUPTED)
        run = run_of(*lines, resumed_line(2, None, "kim", "b", 20.0))

        self.assertEqual((run.state, run.node, run.attempt), (RunState.RUNNING, "b", 2))
        self.assertEqual([s.state.value for s in run.steps], ["done", "waiting", "waiting"])
        self.assertEqual(run.results(), {0: {"result": True}})

    def test_resumption_behind_a_step(self) -> None:
        """Steps ahead of the one to go on from count as done, and say who said so."""
        lines = [begun(), step_line(0, "j0", "a", 1.0), interrupted_line(0, "x", 2.0)]
        run = run_of(*lines, ended_line("interrupted", 2.0), resumed_line(2, 2, "kim", "b", 3.0))

        self.assertEqual([s.state.value for s in run.steps], ["skipped", "skipped", "waiting"])
        self.assertEqual(sorted(run.results()), [0, 1])
        self.assertIn("kim", run.results()[0]["comment"])

    def test_generation(self) -> None:
        """A run stays on its generation; an operator who has it go on has it read the newest."""
        lines = [begun(generation="one"), taken_line("b", 1.0), ended_line("failed", 2.0)]
        again = resumed_line(2, None, "kim", "b", 3.0, {"generation": "two"})
        older = {name: value for name, value in again.items() if name != "generation"}

        self.assertEqual(run_of(*lines).about["generation"], "one")
        self.assertEqual(run_of(*lines, again, taken_line("c", 4.0)).about["generation"], "two")
        self.assertEqual(run_of(*lines, older).about["generation"], "one")
        self.assertEqual(run_of(*lines, again).shown()["generation"], "two")

    def test_what_is_done_is_not_resumed(self) -> None:
        """A line that says so of a run that is done, or goes on, changes nothing."""
        for line in (ended_line("done", 2.0), taken_line("a", 2.0)):
            run = run_of(begun(), line, resumed_line(2, None, "kim", "b", 3.0))
            self.assertEqual((run.node, run.attempt), ("a", 1))

    def test_strange_lines(self) -> None:
        """Unknown lines, numbers beyond all measure and results that are none change nothing."""
        run = run_of(
            begun(),
            {"what": "later", "n": 1},
            {"what": "step", "n": 10**9},
            {"what": "step", "n": "1"},
            {"what": "result", "n": 1, "result": "x"},
        )
        self.assertEqual([s.state for s in run.steps], [StepState.WAITING] * 3)
        self.assertRaises(WireError, read_run, JID, [b"\x93"])
        self.assertRaises(WireError, read_run, JID, [pack_bin("text")])

    def test_listeners(self) -> None:
        """A step that is no chunk is known by the call that its line has."""
        low = {"state": "salt", "fun": "function", "__id__": "listener_x"}
        run = run_of(begun(), step_line(4, "j4", "a", 1.0, low))

        self.assertEqual(len(run.steps), 5)
        self.assertEqual((run.steps[4].name, run.steps[4].state.value), ("listener_x", "running"))

    def test_sizes(self) -> None:
        """Of a large result the outcome is kept; chunks beyond the measure are refused."""
        large = {"result": True, "changes": {"x": "y" * MAX_LINE}, "comment": "z" * MAX_LINE}
        packed = pack_line(result_line(0, large, "a", 1.0))
        run = read_run(JID, [pack_line(begun()), packed])

        self.assertLess(len(packed), 4096)
        self.assertIs(run.steps[0].state, StepState.DONE)
        assert run.steps[0].result is not None
        self.assertTrue(run.steps[0].result["changes"])
        self.assertRaises(WireError, pack_line, begun(pillar="x" * MAX_BEGUN))

    def test_holder(self) -> None:
        """The node of a run is that of the last line that names one; none when it has ended."""
        lines = [begun(), step_line(0, "j", "z", 1.0), taken_line("b", 2.0)]
        packed = [pack_line(line) for line in lines]

        self.assertEqual(holder_of(packed[:1]), "a")
        self.assertEqual(holder_of(packed), "b")
        self.assertIsNone(holder_of([*packed, pack_line(ended_line("failed", 3.0))]))
        self.assertIsNone(holder_of([]))
        again = [ended_line("failed", 3.0), resumed_line(2, None, "kim", "c", 4.0)]
        self.assertEqual(holder_of([*packed, *map(pack_line, again)]), "c")

    def test_standing(self) -> None:
        """
        What a run reads is what its beginning says, or who resumed it, until it ends: also where
        the lines come one by one, and where somebody resumes it without a word about that.
        """
        one, two = ({"generation": name, "trees": {"base": name}} for name in ("1a", "2b"))
        lines = [
            (begun(**one), ("a", ("1a", {"base": "1a"}))),
            (step_line(0, "j", "z", 1.0), ("a", ("1a", {"base": "1a"}))),
            (taken_line("b", 2.0), ("b", ("1a", {"base": "1a"}))),
            (ended_line("failed", 3.0), ENDED),
            (resumed_line(2, None, "kim", "c", 4.0), ("c", ("1a", {"base": "1a"}))),
            (ended_line("failed", 5.0), ENDED),
            (resumed_line(3, None, "kim", "c", 6.0, two), ("c", ("2b", {"base": "2b"}))),
            (taken_line("a", 7.0), ("a", ("2b", {"base": "2b"}))),
        ]
        packed = [pack_line(line) for line, _ in lines]
        before = ENDED
        for number, (_, standing) in enumerate(lines):
            self.assertEqual(standing_of(packed[: number + 1]), standing)
            if before is not ENDED:
                self.assertEqual(standing_of(packed[number : number + 1], before), standing)
            before = standing
        self.assertEqual(standing_of([*packed, b"?"]), ENDED)


class TakeoverTests(SynchronousTestCase):
    """What is done with each kind of step."""

    def step(self, fun: str = "state", jid: str = "j", **low: Any) -> Step:
        """One that was running."""
        return Step(0, {"state": "salt", "fun": fun, **low}, StepState.RUNNING, jid)

    def test_kinds(self) -> None:
        """Jobs are found by their jid; of everything else nobody can know what it did."""
        out, young, old = Known(True, 500.0), Known(False, 3.0), Known(False, 31.0)
        for fun in ("state", "function"):
            self.assertIs(how(self.step(fun), out, 30.0)[0], How.ATTACH)
            self.assertIs(how(self.step(fun), young, 30.0)[0], How.PUBLISH)
            self.assertIs(how(self.step(fun), old, 30.0)[0], How.INTERRUPT)
        for fun in ("runner", "wheel", "parallel_runners", "wait_for_event"):
            self.assertIs(how(self.step(fun), out, 30.0)[0], How.INTERRUPT)
        self.assertIs(how(Step(0, {"state": "cmd", "fun": "run"}), out, 30.0)[0], How.INTERRUPT)

    def test_parts(self) -> None:
        """
        What goes out in parts is gone on with: before the first part in any case, later if the
        latest one is known to be out, or may still go out.
        """
        lines = [parts_line(0, [["k", "l"], ["m"]], {"n": {"failed": True}}, 2.0)]
        for number, at in ((0, 3.0), (1, 100.0), (1, 500.0), (5, 600.0)):
            lines.append(part_line(0, number, at))

        def chosen(count: int, minions: Any, now: float) -> How:
            begun_ = begun(chunks=[{"state": "salt", "fun": "state", "batch": 2}])
            run = run_of(begun_, step_line(0, "j", "a", 1.0), *lines[:count])
            (step,) = run.steps
            return how(step, known_of(step, minions, 1.0, now), 30.0)[0]

        for count in (0, 1):
            self.assertIs(chosen(count, None, 9999.0), How.PUBLISH)
        self.assertIs(chosen(2, ["k", "l"], 9999.0), How.ATTACH)
        self.assertIs(chosen(2, ["k"], 33.0), How.PUBLISH)
        self.assertIs(chosen(2, None, 34.0), How.INTERRUPT)
        # A line that comes twice, or of no part, changes nothing
        for count in (3, 4, 5):
            self.assertIs(chosen(count, ["k", "l"], 130.0), How.PUBLISH)
            self.assertIs(chosen(count, ["k", "l"], 131.0), How.INTERRUPT)
            self.assertIs(chosen(count, ["m", "l", "k"], 131.0), How.ATTACH)

    def test_parts_are_new_with_a_new_jid(self) -> None:
        """A step that begins again, or that an operator has go on, chooses its parts anew."""
        lines = [step_line(0, "j", "a", 1.0), parts_line(0, [["k"]], {}, 2.0)]
        self.assertIsNotNone(run_of(begun(), *lines).steps[0].parts)
        self.assertIsNone(run_of(begun(), *lines, step_line(0, "i", "b", 3.0)).steps[0].parts)
        stopped = [interrupted_line(0, "x", 4.0), ended_line("interrupted", 4.0)]
        again = resumed_line(2, None, "kim", "b", 5.0)
        self.assertIsNone(run_of(begun(), *lines, *stopped, again).steps[0].parts)

    def test_retry(self) -> None:
        """A step that says that it may be done again is; only C{true} says so."""
        old = Known(False, 31.0)
        for fun in ("runner", "wheel", "wait_for_event", "state"):
            self.assertIs(how(self.step(fun, retry_on_takeover=True), old, 30.0)[0], How.AGAIN)
        self.assertIs(how(self.step("runner", retry_on_takeover="no"), old, 30.0)[0], How.INTERRUPT)
        self.assertIs(how(self.step(retry_on_takeover=True), Known(True), 30.0)[0], How.ATTACH)

    def test_unheard(self) -> None:
        """
        A minion that had the job and is not heard of keeps a step from being known, unless the step
        says that it may fail.
        """
        both = {"web2", "web1"}
        for low, left in (
            ({}, ["web1", "web2"]),
            ({"expect_minions": False}, []),
            ({"fail_minions": ["web1"]}, ["web2"]),
            ({"fail_minions": "web1, web2"}, []),
            ({"fail_minions": 3}, ["web1", "web2"]),
            ({"fun": "state", "allow_fail": 1}, ["web1", "web2"]),
            ({"fun": "state", "allow_fail": "2"}, []),
            ({"fun": "state", "allow_fail": -1}, ["web1", "web2"]),
            ({"fun": "function", "allow_fail": 2}, ["web1", "web2"]),
        ):
            self.assertEqual(unheard(low, both), left, low)
        self.assertEqual(
            unheard_why("7", ["web1", "web2"], ["web2"]),
            "it is not known what became of job 7 (web2: does not run it any more, and its return"
            " did not come; web1: does not answer)",
        )

    def plan(self, *lines: dict[str, Any], mode: str = "continue", **about: Any) -> Plan:
        """That of a run whose jobs were all published."""
        run = run_of(begun(**about), *lines)
        return plan(run, mode, lambda step: Known(True), 30.0, "a", 50.0)

    def test_goes_on(self) -> None:
        """A run in a job on minions goes on, attached to it; one between two steps just goes on."""
        found = self.plan(step_line(0, "j0", "a", 1.0))
        self.assertEqual((found.goes_on, found.attach, found.lines), (True, {0: "j0"}, []))
        self.assertEqual(self.plan(), Plan())

    def test_stops_there(self) -> None:
        """A run in a runner is interrupted in that step, and says so."""
        lines = [step_line(0, "j0", "a", 1.0), result_line(0, {"result": True}, "a", 2.0)]
        lines.append(step_line(1, "j1", "a", 3.0))
        found = self.plan(*lines)
        run = run_of(begun(), *lines, *map(dict, found.lines))

        self.assertFalse(found.goes_on)
        self.assertEqual([s.state.value for s in run.steps], ["done", "interrupted", "waiting"])
        self.assertEqual((run.state, run.why), (RunState.INTERRUPTED, "a died in dns"))

    def test_those_who_know_are_gone(self) -> None:
        """
        If members that are gone may have known of more, the run is interrupted at the first step
        that is not known to be over, whatever that is.
        """
        lines = [step_line(0, "j0", "a", 1.0), result_line(0, {"result": True}, "a", 2.0)]
        for more in ([], [step_line(1, "j1", "a", 3.0)]):
            run = run_of(begun(), *lines, *more)
            got = plan(run, "continue", lambda step: Known(True), 30.0, "a", 50.0, doubtful=True)
            after = run_of(begun(), *lines, *more, *map(dict, got.lines))

            self.assertFalse(got.goes_on)
            self.assertEqual(
                [s.state.value for s in after.steps], ["done", "interrupted", "waiting"]
            )
            self.assertIs(after.state, RunState.INTERRUPTED)
            self.assertIn("those who are gone with it", after.steps[1].why)

    def test_dies_twice(self) -> None:
        """A step that was called interrupted stays so, though who said it died before the end."""
        lines = [step_line(1, "j1", "a", 3.0), interrupted_line(1, "x", 4.0), taken_line("b", 5.0)]
        found = self.plan(*lines)

        self.assertFalse(found.goes_on)
        self.assertEqual([line["what"] for line in found.lines], ["ended"])

    def test_modes(self) -> None:
        """With C{interrupt} and C{off} nothing goes on; nor does what is a step of another run."""
        for more in ({"mode": "interrupt"}, {"mode": "off"}, {"parent": "20261123100000000001"}):
            found = self.plan(step_line(0, "j0", "a", 1.0), **more)
            self.assertFalse(found.goes_on)
            self.assertEqual([line["what"] for line in found.lines], ["interrupted", "ended"])
        found = plan(Run(JID), "continue", lambda step: Known(), 30.0, "a", 50.0)
        self.assertFalse(found.goes_on)


def seats(names: str) -> list[Seat]:
    """Members that are known by their names."""
    return [Seat(name, name) for name in names]


class SeatsTests(SynchronousTestCase):
    """On whose disks a line has to be."""

    def test_enough(self) -> None:
        """Two copies of three; of two the first by name, and the other one while it is linked."""
        for have, of, linked, two, expected in (
            ("a", "a", "a", "pair", True),
            ("a", "abc", "a", "pair", False),
            ("ac", "abc", "abc", "pair", True),
            ("ax", "abc", "abc", "pair", False),
            ("ab", "abcd", "abcd", "pair", False),
            ("a", "ab", "a", "pair", True),
            ("a", "ab", "ab", "pair", False),
            ("b", "ab", "b", "pair", False),
            ("b", "ab", "b", "both", True),
            ("b", "ab", "ab", "both", False),
        ):
            told = (have, of, linked)
            self.assertIs(enough(have, found(seats(of)), linked, (), two), expected, told)

    def test_gone(self) -> None:
        """Who was removed counts for nothing; of what is left of three both are needed."""
        self.assertTrue(enough("a", found(seats("ab")), "a", "b"))
        self.assertTrue(enough("b", found(seats("ab")), "b", "a"))
        self.assertFalse(enough("a", found(seats("abc")), "a", "c"))
        self.assertTrue(enough("ab", found(seats("abc")), "ab", "c"))
        self.assertTrue(enough("c", found(seats("abc")), "c", "ab"))

    def test_while_they_change(self) -> None:
        """While seats change, a majority of the old ones and one of the new ones are needed."""
        changing = Electorate(2, (tuple(seats("abc")), tuple(seats("abcde"))))
        for have, expected in (("ab", False), ("cde", False), ("abd", True), ("ade", False)):
            self.assertIs(enough(have, changing, "abcde"), expected, have)

    def test_named_in_lines(self) -> None:
        """The latest line that names seats holds, whatever follows it; an old run names none."""
        first, then = found(seats("a")), Electorate(2, (tuple(seats("a")), tuple(seats("ab"))))
        begun_ = pack_line(with_seats(begun(), first))
        step = pack_line(step_line(0, "j", "a", 1.0))
        change = pack_line(seats_line(then))

        self.assertEqual(seats_of([begun_, step]), (first, 1))
        self.assertEqual(seats_of([begun_, step, change, step]), (then, 3))
        self.assertEqual(seats_of([pack_line(begun()), step]), (None, 0))
        self.assertEqual(read_run(JID, [begun_, change, step]).steps[0].jid, "j")

    def writer(self) -> Writer:
        """Of three, of which two have all."""
        writer = Writer(JID, (1, 1), found(seats("abc")))
        writer.add_seats(b"begun", writer.seats)
        for name in "ab":
            writer.said(name, Reply(ok=True, count=1))
        return writer

    def test_newcomers(self) -> None:
        """
        Who joins gets a seat when it has all lines; then both majorities are needed until the line
        that says so counts, and after that the new one.
        """
        writer, members = self.writer(), seats("abcde")
        self.assertIsNone(writer.next_seats(members, "abde"))
        for name in "de":
            writer.said(name, Reply(ok=True, count=1))
        joint = writer.next_seats(members, "abde")
        assert joint is not None
        self.assertTrue(joint.changes)
        writer.add_seats(b"joint", joint)
        for name in "ade":
            writer.said(name, Reply(ok=True, count=2))
        self.assertEqual((writer.counted("abde"), writer.next_seats(members, "abde")), (1, None))
        writer.said("b", Reply(ok=True, count=2))
        after = writer.next_seats(members, "abde")
        assert after is not None

        self.assertEqual(after.sets, (tuple(members),))

    def test_who_leaves(self) -> None:
        """Who was removed loses its seat; if nobody is left of them, the members begin anew."""
        writer = self.writer()
        joint = writer.next_seats(seats("ab"), "ab", "c")
        assert joint is not None
        self.assertEqual(joint.sets, (tuple(seats("abc")), tuple(seats("ab"))))
        anew = writer.next_seats(seats("de"), "de", "abc")
        assert anew is not None

        self.assertEqual(anew.sets, (tuple(seats("de")),))


class CopiesTests(SynchronousTestCase):
    """Lines on several disks."""

    def sent(self, term: int, at: int, *lines: bytes) -> Send:
        """What a writer sends."""
        return Send(jid=JID, term=(1, term), at=at, lines=lines)

    def test_prefix(self) -> None:
        """A keeper has a prefix: what comes twice, late or too early is not taken."""
        keeper = Keeper()
        for sent, count in (
            (self.sent(1, 0, b"a"), 1),
            (self.sent(1, 1, b"b", b"c"), 3),
            (self.sent(1, 0, b"a"), 3),
            (self.sent(1, 4, b"e"), 3),
        ):
            self.assertEqual(keeper.take(sent)[0].count, count)
        self.assertEqual(keeper.record(JID).lines, (b"a", b"b", b"c"))

    def test_earlier_writers(self) -> None:
        """After a promise nothing of an earlier term is taken, nor another look of that term."""
        keeper = Keeper()
        keeper.take(self.sent(1, 0, b"a"))
        reply, puts = keeper.look(Look(jid=JID, term=(1, 5)))

        self.assertEqual((reply.ok, reply.lines, len(puts)), (True, (b"a",), 1))
        self.assertFalse(keeper.take(self.sent(1, 1, b"b"))[0].ok)
        self.assertFalse(keeper.look(Look(jid=JID, term=(1, 5)))[0].ok)
        self.assertEqual(keeper.record(JID).lines, (b"a",))

    def test_new_writer(self) -> None:
        """Lines of a new term replace all; a piece of them alone is not taken."""
        keeper = Keeper()
        keeper.take(self.sent(1, 0, b"a", b"stray"))
        self.assertEqual(keeper.take(self.sent(5, 1, b"x"))[0].count, 0)
        self.assertEqual(keeper.take(self.sent(5, 0, b"a", b"x"))[0].count, 2)
        self.assertEqual(keeper.record(JID).lines, (b"a", b"x"))

    def test_writer(self) -> None:
        """A line counts when enough have it; never again once somebody has taken over."""
        writer = Writer(JID, (1, 1), found(seats("abc")), [b"a"])
        self.assertEqual(writer.counted("abc"), 0)
        writer.said("a", Reply(ok=True, count=1))
        self.assertEqual(writer.counted("abc"), 0)
        writer.said("c", Reply(ok=True, count=1))
        self.assertEqual(writer.counted("abc"), 1)
        writer.add(b"b")
        self.assertEqual(writer.counted("abc"), 1)
        sent = writer.to_send("c")
        assert sent is not None
        self.assertEqual((sent.at, sent.lines), (1, (b"b",)))
        writer.said("b", Reply(ok=False, promised=(1, 2)))
        self.assertEqual((writer.counted("abc"), writer.to_send("c")), (0, None))

    def test_takeover(self) -> None:
        """The record of the highest term holds, and of those the longest, however many say less."""
        of_three = found(seats("abc"))
        takeover = Takeover(Record(jid=JID, term=(1, 1), lines=(b"a", b"b", b"c")))
        takeover.add("a", Reply(ok=True, term=(1, 1), lines=None))
        self.assertFalse(takeover.is_enough(of_three, ()))
        takeover.add("b", Reply(ok=True, term=(1, 4), lines=(b"a",)))
        self.assertTrue(takeover.is_enough(of_three, ()))
        takeover.add("c", Reply(ok=False, promised=(1, 9)))

        self.assertEqual((takeover.best.lines, takeover.refused), ((b"a",), (1, 9)))

    def test_terms(self) -> None:
        """A term is above all that are known, also where the numbers of claims begin again."""
        self.assertEqual(next_term(1, 7, NONE), (1, 7))
        self.assertEqual(next_term(1, 1, (1, 7)), (1, 8))
        self.assertEqual(next_term(2, 1, (1, 7)), (2, 1))

    def test_learning(self) -> None:
        """A keeper learns what another has more of, but breaks no promise by it."""
        keeper = Keeper()
        more = Record(jid=JID, term=(1, 2), lines=(b"a", b"b"))
        self.assertEqual(len(keeper.learn(more)), 1)
        self.assertEqual(keeper.learn(more), [])
        keeper.look(Look(jid=JID, term=(1, 9)))
        self.assertEqual(keeper.learn(Record(jid=JID, term=(1, 3), lines=(b"x",))), [])

    def test_wire(self) -> None:
        """Messages are read as they were written; anything else is a C{WireError}."""
        look = Look(jid=JID, term=(1, 2), have=((1, 1), 3))
        sent = self.sent(1, 2, b"a", b"b")
        reply = Reply(ok=True, promised=(1, 2), count=3, term=(1, 1), lines=(b"x",))
        record = Record(jid=JID, term=(1, 1), lines=(b"x",))

        self.assertEqual(decode_look(encode_look(look)), look)
        self.assertEqual(decode_send(encode_send(sent)), sent)
        self.assertEqual(decode_reply(encode_reply(reply)), reply)
        self.assertEqual(decode_record(encode_record(record)), record)
        for bad in (b"", b"\xc0", pack_bin([]), pack_bin([JID, [1], 0, []]), pack_bin({"a": 1})):
            for decode in (decode_look, decode_send, decode_reply):
                self.assertRaises(WireError, decode, bad)
        values: list[Any] = [None, [], {}, {"jid": 1, "term": [1, 1], "lines": []}]
        for value in values:
            self.assertRaises(WireError, decode_record, value)
