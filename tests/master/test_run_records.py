"""
The lines of orchestrations on the disks of two nodes: which runs are unfinished, and what is told
of thousands of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.electorate import Seat
from saltwisted.domain.orchestration import words
from saltwisted.domain.orchestration.copies import Look, Put, Record, Send
from saltwisted.domain.orchestration.words import (
    begun_line,
    ended_line,
    holder_of,
    pack_line,
    read_run,
    result_line,
    resumed_line,
    step_line,
    taken_line,
)
from saltwisted.errors import StoreError, TakenOver
from saltwisted.master.orchestration.disk import RunDisk
from saltwisted.master.orchestration.going import Going
from saltwisted.master.orchestration.keepers import Electors, alone
from saltwisted.master.orchestration.kept import KeptOrchestrations
from saltwisted.master.orchestration.records import RunRecords
from saltwisted.master.orchestration.summaries import Summaries
from saltwisted.transports import turns
from saltwisted.transports.deferreds import as_deferred
from tests.cluster.memory import MemoryPeers
from tests.master.test_automation_turns import one_turn

JID = "20261123100000000000"
LOWS = [{"state": "salt", "fun": "state", "__id__": name, "name": name} for name in ("web", "dns")]
ABOUT = {"chunks": LOWS, "fun": "state.orchestrate", "options": {"arg": ["deploy"]}}
BEGUN = pack_line(begun_line("a", 100.0, ABOUT))
STEP = pack_line(step_line(0, "20261123100000000001", "a", 101.0))
RESULT = pack_line(result_line(0, {"result": True}, "a", 102.0))
ENDED = pack_line(ended_line("failed", 103.0))
MORE = [
    STEP,
    RESULT,
    ENDED,
    pack_line(taken_line("b", 104.0)),
    pack_line(resumed_line(2, None, "kim", "c", 105.0)),
    b"no line",
]
TERM = (1, 1)
AB = Electors(key="b", members=lambda: [Seat(name, name) for name in "ab"])


class MemoryStore:
    """Lines in memory."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = {record.jid: record for record in records}

    def load(self) -> Deferred[list[Record]]:
        """What it was made with."""
        loaded = [
            record.shed() if record.lines and holder_of(record.lines) is None else record
            for record in self.records.values()
        ]
        return succeed(loaded)

    def lines(self, jid: str) -> Deferred[Sequence[bytes]]:
        """At once."""
        return succeed(self.records[jid].lines)

    def write(self, puts: Collection[Put], forget: Collection[str] = ()) -> Deferred[None]:
        """At once."""
        for put in puts:
            before = self.records.get(put.jid, Record(jid=put.jid)).lines[: put.at]
            self.records[put.jid] = Record(
                jid=put.jid, promised=put.promised, term=put.term, lines=before + put.lines
            )
        for jid in forget:
            del self.records[jid]
        return succeed(None)

    def close(self) -> Deferred[None]:
        """Nothing is open."""
        return succeed(None)


def jid_of(number: int) -> str:
    """A run's."""
    return f"{int(JID) + number}"


def many(count: int) -> list[Record]:
    """Runs, of which each third has not ended."""
    return [
        Record(jid=jid_of(n), term=TERM, lines=(BEGUN, STEP, RESULT, *((ENDED,) if n % 3 else ())))
        for n in range(count)
    ]


class DiskTests(SynchronousTestCase):
    """One disk."""

    def opened(self, *records: Record) -> RunDisk:
        """One that was read."""
        clock = Clock()
        disk = RunDisk(clock, MemoryPeers("a", clock), MemoryStore(records))
        d = as_deferred(disk.start())
        clock.pump([0.0] * 4)
        self.successResultOf(d)
        return disk

    def took(self, disk: RunDisk, at: int, *lines: bytes, term: tuple[int, int] = TERM) -> None:
        """A writer has sent lines."""
        self.successResultOf(
            as_deferred(disk.took(Send(jid=JID, term=term, at=at, lines=tuple(lines))))
        )

    def test_only_new_lines_are_read(self) -> None:
        """
        To know whether a run goes on, each line is read once, however many were before: a run of
        200 steps does not read 40 000 lines, and one that ended is not read again.
        """
        read: list[bytes] = []
        unpack = words.unpack_line
        self.patch(words, "unpack_line", lambda packed: (read.append(packed), unpack(packed))[1])
        disk = self.opened()
        self.took(disk, 0, BEGUN)
        for number in range(200):
            self.took(disk, 1 + number, STEP)
            self.assertEqual(disk.unfinished(), {JID: "a"})
        self.took(disk, 201, ENDED)

        self.assertEqual(disk.unfinished(), {})
        self.assertEqual(len(read), 202)

    def test_reads_of_resumed(self) -> None:
        """A run that has ended and is resumed holds again what it read from its beginning."""
        disk = self.opened()
        about = {"generation": "1a", "trees": {"base": "1a"}}
        again = words.resumed_line(2, None, "kim", "a", 4.0)
        self.took(disk, 0, words.pack_line(words.begun_line("a", 1.0, about)))
        self.assertEqual(disk.reads(), {"1a": {"base": "1a"}})
        self.took(disk, 1, ENDED)
        self.assertEqual(disk.reads(), {})
        self.took(disk, 2, words.pack_line(again))

        self.assertEqual(disk.reads(), {"1a": {"base": "1a"}})

    @given(
        st.lists(
            st.tuples(st.integers(0, 9), st.lists(st.sampled_from(MORE), max_size=4), st.booleans())
        )
    )
    def test_as_all_lines_say(self, sent: list[tuple[int, list[bytes], bool]]) -> None:
        """Whatever is sent, late or twice or by a new writer: it is as if all lines were read."""
        disk = self.opened()
        self.took(disk, 0, BEGUN)
        term = 1
        for back, lines, anew in sent:
            have = self.lines(disk)
            at = max(0, len(have) - back)
            if anew:
                term, at, lines = term + 1, 0, [*have, *lines]
            elif not at:
                lines = [*have[:1], *lines]
            self.took(disk, at, *lines, term=(1, term))
            holder = holder_of(self.lines(disk))
            self.assertEqual(disk.unfinished(), {} if holder is None else {JID: holder})

    def lines(self, disk: RunDisk) -> tuple[bytes, ...]:
        """Those of the run, wherever they are."""
        record: Record = self.successResultOf(as_deferred(disk.record(JID)))
        return record.lines

    def test_ended_runs_are_not_in_memory(self) -> None:
        """
        Of a thousand runs that have ended no line is in memory, after a start neither; each is
        whole when it is asked for, and takes lines of who has it go on.
        """
        records = many(1500)
        disk = self.opened(*records)
        for record in records:
            self.successResultOf(
                as_deferred(disk.took(Send(jid=record.jid, term=TERM, at=3, lines=(ENDED,))))
            )
        held = [disk.keeper.record(record.jid) for record in records]
        self.assertEqual((sum(len(each.lines) for each in held), len(held)), (0, 1500))
        self.assertEqual({each.rank for each in held}, {(TERM, 4)})
        self.assertEqual(len(self.opened(*records).unfinished()), 500)

        jid = records[7].jid
        reply = self.successResultOf(as_deferred(disk.looked(Look(jid=jid, term=(2, 1)))))
        self.assertEqual((reply.ok, reply.lines), (True, (BEGUN, STEP, RESULT, ENDED)))
        more = (*reply.lines, MORE[4])
        self.successResultOf(as_deferred(disk.took(Send(jid=jid, term=(2, 1), at=0, lines=more))))
        self.assertEqual(disk.unfinished(), {jid: "c"})
        self.assertEqual(disk.keeper.record(jid).lines, more)

    def test_what_is_not_on_disk_stays(self) -> None:
        """The lines of a run that has ended stay in memory until they are written."""
        disk = self.opened()
        self.took(disk, 0, BEGUN)
        written: list[Deferred[None]] = []

        def write(puts: Any, forget: Any = ()) -> Deferred[None]:
            written.append(Deferred())
            return written[-1]

        self.patch(disk._store, "write", write)
        sent = [
            Send(jid=JID, term=TERM, at=at, lines=(line,)) for at, line in ((1, STEP), (2, ENDED))
        ]
        taken = [as_deferred(disk.took(each)) for each in sent]
        written[0].callback(None)
        self.assertEqual(disk.keeper.record(JID).lines, (BEGUN, STEP, ENDED))
        written[1].errback(StoreError("full"))
        self.failureResultOf(taken[1], StoreError)
        self.assertEqual(disk.keeper.record(JID).lines, (BEGUN, STEP, ENDED))
        again = as_deferred(disk.took(sent[1]))
        written[2].callback(None)

        self.successResultOf(again)
        self.assertEqual(disk.keeper.record(JID).unread, 3)

    def test_learned_and_forgotten(self) -> None:
        """What another disk has more counts; of what is forgotten nothing is left."""
        disk = self.opened()
        record = Record(jid=JID, term=TERM, lines=(BEGUN, STEP))
        self.successResultOf(as_deferred(disk.learn(record)))
        self.assertEqual(disk.unfinished(), {JID: "a"})
        self.assertEqual(self.heads(disk), {JID: (TERM, 2)})

        self.successResultOf(as_deferred(disk.forget([JID])))

        self.assertEqual((disk.unfinished(), self.heads(disk)), ({}, {}))

    def heads(self, disk: RunDisk) -> dict[str, Any]:
        """The runs that have lines."""
        heads: dict[str, Any] = self.successResultOf(as_deferred(disk.heads()))
        return heads

    def test_start(self) -> None:
        """
        Thousands of runs are looked at in turns; questions wait until that is done, and are
        answered in turns too.
        """
        self.patch(turns, "PORTION", -1.0)
        clock = Clock()
        disk = RunDisk(clock, MemoryPeers("a", clock), MemoryStore(many(35)))
        started = as_deferred(disk.start())
        ready = [as_deferred(disk.ready()) for _ in range(3)]
        for _ in range(34):
            one_turn(clock)
            self.failureResultOf(as_deferred(disk.heads()), StoreError)
        self.assertEqual([each.called for each in ready], [False] * 3)

        one_turn(clock)
        self.assertEqual([each.called for each in ready], [True, False, False])
        clock.pump([0.0] * 3)

        self.successResultOf(started)
        for each in ready:
            self.successResultOf(each)
        self.assertEqual(set(disk.unfinished()), {jid_of(n) for n in range(0, 35, 3)})

    def test_all_runs_in_turns(self) -> None:
        """Whoever asks for all runs, and whoever forgets the old ones, does so in turns."""
        clock = Clock()
        records = RunRecords(clock, "a", None, alone("a"), MemoryStore(many(35)))
        self.successResultOf(as_deferred(records.startService()))
        self.addCleanup(lambda: as_deferred(records.stopService()))
        self.patch(turns, "PORTION", -1.0)
        for ask in (records.heads, lambda: records.forget(float("inf"))):
            d, count = as_deferred(ask()), 0
            while not d.called:
                one_turn(clock)
                count += 1
            self.successResultOf(d)
            self.assertGreaterEqual(count, 35)

        heads = as_deferred(records.heads())
        clock.pump([0.0] * 3)
        self.assertEqual(self.successResultOf(heads), {})


class SlowWriter:
    """Its lines count when somebody says so."""

    doubtful = False

    def __init__(self) -> None:
        self.lines = [BEGUN]
        self.waiting: list[Deferred[None]] = []

    def add(self, line: Mapping[str, Any]) -> Deferred[None]:
        """On its way."""
        self.lines.append(pack_line(line))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def close(self) -> None:
        """Nothing more."""


class EndTests(SynchronousTestCase):
    """A run that ends while the line of a step is on its way to the disks."""

    def test_step_on_its_way(self) -> None:
        """The step is interrupted, whoever ends the run: no run that is over has one that runs."""
        for stops in (False, True):
            writer = SlowWriter()
            nobody: Any = None
            kept = KeptOrchestrations(
                Clock(), "a", nobody, nobody, lambda: 110.0, nobody, lambda: "continue", nobody
            )
            goings = kept._goings
            going = goings.add(Going(read_run(JID, writer.lines), writer))
            begun = as_deferred(goings.write(going, step_line(0, "7", "a", 101.0)))
            ended = as_deferred(kept._stop(JID, "kim") if stops else goings.over(JID, {}))
            for number in range(3):
                writer.waiting[number].callback(None)

            self.successResultOf(begun)
            self.successResultOf(ended)
            run = read_run(JID, writer.lines)
            self.assertEqual(run.state.value, "stopped" if stops else "interrupted")
            self.assertEqual(run.steps[0].state.value, "interrupted")
            self.assertEqual(going.run.shown(), run.shown())


class SlowStore(MemoryStore):
    """A disk that writes when somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.waiting: list[Deferred[None]] = []

    def write(self, puts: Collection[Put], forget: Collection[str] = ()) -> Deferred[None]:
        """Later."""
        done = super().write(puts, forget)
        if not self.slow:
            return done
        self.waiting.append(Deferred())
        return self.waiting[-1]


class LastLineTests(SynchronousTestCase):
    """Who wants something of a run whose last line is just being written."""

    def setUp(self) -> None:
        """A master alone, with a run whose last line is on its way to the disk."""
        self.clock, self.store = Clock(), SlowStore()
        self.records = RunRecords(self.clock, "a", None, alone("a"), self.store)
        self.wait(self.records.startService())
        line = begun_line("a", 100.0, ABOUT)
        self.writer = self.wait(self.records.begin(JID, 1, line, lambda: True))
        nobody: Any = None
        self.kept = KeptOrchestrations(
            self.clock, "a", nobody, nobody, lambda: 110.0, nobody, lambda: "continue", nobody
        )
        self.goings = self.kept._goings
        self.going = self.goings.add(Going(read_run(JID, self.writer.lines), self.writer))
        self.store.slow = True

    def wait(self, waiting: Any) -> Any:
        """What it comes to."""
        d = as_deferred(waiting)
        self.clock.pump([0.001] * 20)
        return self.successResultOf(d)

    def written(self) -> None:
        """The disk has it all."""
        while self.store.waiting:
            self.store.waiting.pop(0).callback(None)
            self.clock.pump([0.001] * 20)

    def test_stop_while_it_ends(self) -> None:
        """An operator who stops a run that is just ending is told so at once; it ends as it did."""
        over = as_deferred(self.goings.over(JID, {}))
        self.clock.pump([0.001] * 20)
        refused = self.failureResultOf(as_deferred(self.kept._stop(JID, "kim")), TakenOver)
        self.assertIn("just ending", str(refused.value))
        self.assertNoResult(over)

        self.written()
        self.successResultOf(over)
        self.assertEqual(read_run(JID, self.writer.lines).state.value, "failed")

    def test_gone_while_it_stops(self) -> None:
        """Whoever stops a run and goes away before that is written has stopped it."""
        stopped = as_deferred(self.kept._stop(JID, "kim"))
        self.clock.pump([0.001] * 20)
        stopped.cancel()
        self.failureResultOf(stopped, CancelledError)
        self.assertIn(JID, self.goings)

        self.written()
        self.assertEqual(read_run(JID, self.writer.lines).state.value, "stopped")
        self.assertNotIn(JID, self.goings)

    def test_gone_while_it_is_written(self) -> None:
        """What counts is known here, also if nobody waits for it any more."""
        wishes = {"web": {"do": "pause"}}
        wished = as_deferred(self.kept.wished(JID, wishes, "kim"))
        self.clock.pump([0.001] * 20)
        wished.cancel()
        self.failureResultOf(wished, CancelledError)

        self.written()
        self.assertEqual(self.going.run.wishes, wishes)
        self.assertEqual(read_run(JID, self.writer.lines).wishes, wishes)
        self.assertEqual(self.going.coming, [])

    def test_line_that_waits(self) -> None:
        """Whoever waits for a line of a run that goes on elsewhere is told, as is who adds one."""
        first = as_deferred(self.going.write(step_line(0, "7", "a", 101.0)))
        second = as_deferred(self.going.write(step_line(1, "8", "a", 101.0)))
        self.clock.pump([0.001] * 20)
        self.assertNoResult(first)
        self.goings.lost(JID)

        self.failureResultOf(first, TakenOver)
        self.failureResultOf(second, TakenOver)
        self.failureResultOf(as_deferred(self.writer.add(result_line(0, {}, "a", 1.0))), TakenOver)
        self.written()
        self.assertEqual(len(self.writer.lines), 3)


class ListTests(SynchronousTestCase):
    """Two nodes, C{b} of which was away for a while."""

    def setUp(self) -> None:
        """Both have thirty runs; C{a} has more of the newest, and one that C{b} lacks."""
        self.clock = Clock()
        self.peers = {name: MemoryPeers(name, self.clock) for name in "ab"}
        newest = Record(jid=jid_of(29), term=(1, 2), lines=(BEGUN, STEP, RESULT, ENDED))
        alone = Record(jid=jid_of(30), term=TERM, lines=(BEGUN,))
        self.records = {
            "a": self.node("a", [*many(29), newest, alone]),
            "b": self.node("b", many(30)),
        }
        self.peers["a"].join(self.peers["b"])
        self.summaries = Summaries(self.clock, self.records["b"])

    def node(self, name: str, records: Sequence[Record]) -> RunRecords:
        """One, with these on its disk."""
        made = RunRecords(self.clock, name, self.peers[name], AB, MemoryStore(records))
        self.wait(made.startService())
        return made

    def wait(self, waiting: Any) -> Any:
        """What it comes to."""
        d = as_deferred(waiting)
        self.clock.pump([0.001] * 200)
        return self.successResultOf(d)

    def listed(self, most: int = 0) -> Sequence[Mapping[str, Any]]:
        """What C{b} says."""
        found: Sequence[Mapping[str, Any]] = self.wait(self.summaries.listed(most))
        return found

    def asked(self, word: str) -> int:
        """How often C{a} was asked something."""
        return self.count.get(word, 0)

    def counting(self) -> None:
        """Count what C{a} is asked."""
        self.count: dict[str, int] = {}
        hear = self.peers["a"].hear

        def heard(node: str, word: str, body: bytes) -> Any:
            self.count[word] = self.count.get(word, 0) + 1
            return hear(node, word, body)

        self.patch(self.peers["a"], "hear", heard)

    def test_listed(self) -> None:
        """
        All that either node knows, oldest first, by what the better one has; only for what this
        node lacks is another one asked, and what has not changed is not read again.
        """
        self.counting()
        found = self.listed()

        self.assertEqual([run["jid"] for run in found], [jid_of(n) for n in range(31)])
        states = {run["jid"]: run["state"] for run in found}
        self.assertEqual(states[jid_of(27)], "running")
        self.assertEqual(states[jid_of(29)], "failed")
        self.assertEqual((found[29]["steps_done"], found[29]["steps_all"]), (1, 2))
        self.assertNotIn("steps", found[29])
        self.assertEqual((self.asked("run-jids"), self.asked("run-read")), (1, 2))

        self.patch(Summaries, "read", None)
        self.assertEqual(self.listed(), found)

    def test_newest(self) -> None:
        """With a limit the newest are listed, and only these are read."""
        self.counting()
        found = self.listed(3)

        self.assertEqual([run["jid"] for run in found], [jid_of(n) for n in (28, 29, 30)])
        self.assertEqual(self.asked("run-read"), 2)

    def test_changed(self) -> None:
        """A run that goes on is listed as it is now."""
        self.assertEqual(self.listed(1)[0]["steps_done"], 0)
        more = Send(jid=jid_of(30), term=TERM, at=1, lines=(STEP, RESULT))
        self.wait(self.records["a"].send("a", more))

        self.assertEqual(self.listed(1)[0]["steps_done"], 1)

    def test_read(self) -> None:
        """Who has as much as the asker sends no lines; who has more sends them."""
        lines: list[bytes] = []
        hear = self.peers["a"].hear

        def heard(node: str, word: str, body: bytes) -> Any:
            return as_deferred(hear(node, word, body)).addCallback(
                lambda answer: (lines.append(answer), answer)[1]
            )

        self.patch(self.peers["a"], "hear", heard)
        self.assertEqual(self.wait(self.summaries.read(jid_of(5))).counted, 4)
        self.assertEqual(self.wait(self.summaries.read(jid_of(30))).counted, 1)

        self.assertLess(len(lines[0]), 10)
        self.assertIn(BEGUN, lines[1])
