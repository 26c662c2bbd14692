"""
Events that are reacted to: what is acknowledged when, and what becomes of them after a death.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, execute, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.reactions.keeping import PATIENCE, Kept, Owed
from saltwisted.errors import StoreError, WireError
from saltwisted.master.automation import kept as kept_module
from saltwisted.master.automation.kept import KeptEvents
from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.reactor import Reactor
from saltwisted.master.loneclaims import LoneClaims
from saltwisted.master.receipts import ReceiptBook
from saltwisted.master.seams import Seams
from saltwisted.stores.claims import ClaimStore
from saltwisted.stores.keptevents import KeptEventStore
from saltwisted.transports import turns
from saltwisted.wire.msgpack import pack_bin
from tests.cluster.memory import MemoryPeers
from tests.fakes.disk import Disk
from tests.master.reacting import Reacting, Workers
from tests.master.rig import Rig, RigMinion
from tests.master.test_automation_turns import one_turn

RUNNER = """
say:
  runner.test.arg:
    - args:
        i: {{ data['data']['i'] }}
"""
LOCAL = """
ping:
  local.test.arg:
    - tgt: m1
    - args:
        i: {{ data['data']['i'] }}
"""
EVENT = ("m1", "site/x", {"i": 1}, {0: "event/k/1"})


class Member:
    """One node's, in one life."""

    def __init__(self, test: KeptTests, node: str, life: str, peers: MemoryPeers | None) -> None:
        self.disk, self.found = Disk(), []
        self.peers, self.counters = peers, Counter[str]()
        self.store = KeptEventStore(os.path.join(test.folder, node), self.disk.run)
        self.kept = KeptEvents(
            test.clock, node, life, self.store, test.clock.seconds, self.counters, peers
        )
        self.found: list[tuple[Kept, float]] = []
        self.kept.on_found(lambda *found: self.found.append(found))
        self.kept.startService()
        test.addCleanup(self.end)

    def on_disk(self) -> list[Kept]:
        """What the next life would find."""
        again = KeptEventStore(self.store.path, self.disk.run)
        try:
            return again._load()
        finally:
            again._close()

    def end(self) -> None:
        """As a killed process: nothing more is written or told."""
        if self.peers is not None:
            for link in self.peers.links():
                self.peers.cut(link.node)
        if self.kept._loop is not None:
            self.kept._loop.stop()
            self.kept._loop = None
        self.kept._is_open = False
        self.store._close()


class KeptTests(SynchronousTestCase):
    """Nodes that are linked without sockets."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.clock.advance(1_800_000_000)
        self.folder = os.path.abspath(self.mktemp())

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and all have their turns."""
        while seconds > 0.5:
            self.clock.advance(0.5)
            seconds -= 0.5
        self.clock.advance(seconds)
        for _ in range(10):
            self.clock.advance(0)

    def member(self, node: str, life: str = "1") -> Member:
        """A node that is linked to nobody."""
        return Member(self, node, life, MemoryPeers(node, self.clock))

    def members(self, names: str) -> list[Member]:
        """All of them linked."""
        made = [self.member(name) for name in names]
        for number, one in enumerate(made):
            for other in made[:number]:
                self.join(one, other)
        self.turn()
        return made

    def join(self, one: Member, other: Member) -> None:
        """Link two."""
        assert one.peers is not None and other.peers is not None
        one.peers.join(other.peers)

    def keep(self, at: Member, event: Any = EVENT) -> tuple[Deferred[Any], list[Owed]]:
        """What fires at the acknowledgement, and what is owed then."""
        owed: list[Owed] = []
        d = at.kept.keep([event])

        def stored(found: list[Owed]) -> Any:
            owed.extend(found)
            return at.kept.copied(found)

        return d.addCallback(stored), owed

    def test_done_before_it_was_told(self) -> None:
        """
        What is done in the turn in which it came is told to the others as owed and then as done;
        else they would have it for ever.
        """
        a, b = self.members("ab")
        _, owed = self.keep(a)
        for row in owed[0].parts.values():
            a.kept.done(row)
        a.kept._tick()
        self.turn(2.0)

        self.assertEqual((len(a.kept.shelf), len(b.kept.shelf)), (0, 0))

    # -- when it is acknowledged ---------------------------------------------------------------

    def test_two_disks(self) -> None:
        """It is acknowledged when it is on this disk and on another node's, and not before."""
        a, b, c = self.members("abc")
        a.disk.holding = b.disk.holding = c.disk.holding = True
        d, _ = self.keep(a)
        self.turn()
        self.assertNoResult(d)

        c.disk.release()
        self.turn()
        self.assertNoResult(d)
        a.disk.release()
        self.turn()

        self.successResultOf(d)
        self.assertEqual(len(b.disk.held), 1)
        b.disk.release()

    def test_own_disk_alone_does_not_do(self) -> None:
        """Its own disk is not enough while others are linked, but after a second."""
        a, b = self.members("ab")
        b.disk.holding = True
        d, _ = self.keep(a)
        self.turn(0.9)
        self.assertNoResult(d)

        self.turn(0.2)

        self.successResultOf(d)
        self.assertEqual(a.counters["events:copies-1"], 1)
        b.disk.release()

    def test_link_ends(self) -> None:
        """When the last link ends, nobody is waited for."""
        a, b = self.members("ab")
        b.disk.holding = True
        d, _ = self.keep(a)
        self.turn()

        assert a.peers is not None
        a.peers.cut("b")

        self.successResultOf(d)

    def test_others_refuse(self) -> None:
        """A full disk elsewhere costs a second, and not the acknowledgement."""
        a, b = self.members("ab")
        b.disk.full = True
        d, _ = self.keep(a)
        self.turn(0.9)
        self.assertNoResult(d)

        self.turn(0.2)

        self.successResultOf(d)
        self.assertEqual(len(b.kept.shelf), 0)

    def test_full_disk(self) -> None:
        """A disk that refuses: no acknowledgement, nothing is owed, and the others know that."""
        a, b = self.members("ab")
        a.disk.full = True

        d, _ = self.keep(a)
        self.turn(2)

        self.failureResultOf(d, StoreError)
        self.assertIn("the disk is full", a.kept.problem)
        self.assertEqual((len(a.kept.shelf), len(b.kept.shelf)), (0, 0))
        a.disk.full = False
        self.successResultOf(self.keep(self.members("c")[0])[0])
        d, _ = self.keep(a)
        self.turn()
        self.successResultOf(d)
        self.assertEqual(a.kept.problem, "")

    def test_too_many(self) -> None:
        """
        Beyond the bound nothing is acknowledged; nor is what would take the room of others, while
        theirs is (T-COST-3).
        """
        (a,) = self.members("a")
        a.kept.shelf._most = 5
        first, owed = self.keep(a)
        self.keep(a)

        self.failureResultOf(self.keep(a)[0], StoreError)
        self.assertEqual(a.counters["events:not-kept"], 1)
        other, _ = self.keep(a, ("m2", *EVENT[1:]))
        self.turn()
        self.successResultOf(other)
        self.successResultOf(first)
        a.kept.done(owed[0].parts[0])

        self.successResultOf(self.keep(a)[0])

    def test_disk_is_not_there(self) -> None:
        """A file that cannot be opened is tried again; meanwhile nothing is acknowledged."""
        a = self.member("a")
        a.end()
        again = Member.__new__(Member)
        again.found, again.peers, again.counters, again.disk = [], None, Counter(), Disk()
        again.disk.full = True
        again.store = KeptEventStore(os.path.join(self.folder, "a"), again.disk.run)
        again.kept = KeptEvents(
            self.clock, "a", "2", again.store, self.clock.seconds, again.counters
        )
        again.kept.startService()
        self.addCleanup(again.end)
        self.failureResultOf(self.keep(again)[0], StoreError)

        again.disk.full = False
        self.turn(1)

        self.successResultOf(self.keep(again)[0])

    def test_read_in_turns(self) -> None:
        """
        Thousands of events that an earlier life has left are read in turns, and nothing is
        acknowledged before; what another node says meanwhile to be done is done.
        """
        a, b = self.members("ab")
        owed = []
        for _ in range(10):
            d, found = self.keep(a)
            self.turn()
            self.successResultOf(d)
            owed += found
        b.end()
        self.patch(turns, "PORTION", -1.0)
        again = self.member("b", "2")
        for _ in range(4):
            one_turn(self.clock)
        self.assertLess(len(again.kept.shelf), 10)
        self.failureResultOf(self.keep(again)[0], StoreError)
        again.kept._done_came("a", pack_bin([list(owed[9].parts[0].id)]))
        told = [list(owed[number].parts[0].id)[1:] for number in range(8)]
        again.kept._life_came("a", pack_bin(["1", 10, told]))
        self.turn()
        self.turn(1.0)

        self.assertEqual(len(again.kept.shelf), 8)
        self.assertEqual(sorted(row.number for row in again.on_disk()), list(range(1, 9)))

    def test_large(self) -> None:
        """What does not fit into a message stays on one disk, and harms nobody beside it."""
        self.patch(kept_module, "LARGEST", 1000)
        a, b = self.members("ab")
        large, _ = self.keep(a, ("m1", "site/x", {"i": "x" * 2000}, {0: "event/k/1"}))
        small, _ = self.keep(a)
        self.turn()

        self.successResultOf(small)
        self.assertNoResult(large)
        self.turn(1.1)
        self.successResultOf(large)
        self.assertEqual(len(b.kept.shelf), 1)

    # -- who takes it up -----------------------------------------------------------------------

    def test_node_dies(self) -> None:
        """The first of the others takes it up, once; the next does not, when it is done."""
        a, b, c = self.members("abc")
        _, owed = self.keep(a)
        self.turn()

        a.end()
        self.turn(PATIENCE + 1)

        ((kept, age),) = b.found
        self.assertEqual(kept.id, owed[0].parts[0].id)
        self.assertTrue(PATIENCE <= age <= PATIENCE + 1, age)
        self.assertEqual(c.found, [])
        b.kept.done(kept)
        self.turn(30)
        self.assertEqual((len(b.found), c.found), (1, []))
        self.assertEqual((len(b.kept.shelf), len(c.kept.shelf)), (0, 0))

    def test_second_dies_too(self) -> None:
        """If who took it up dies in it, the next takes it up."""
        a, b, c = self.members("abc")
        self.keep(a)
        self.turn()
        a.end()
        self.turn(PATIENCE + 1)
        self.assertEqual(len(b.found), 1)

        b.end()
        self.turn(PATIENCE)

        self.assertEqual(len(c.found), 1)

    def test_one_that_may_not(self) -> None:
        """A node that would get no claim takes nothing up, and does when it would."""
        a, b = self.members("ab")
        self.keep(a)
        self.turn()
        may: list[bool] = []
        b.kept._may = lambda: bool(may)
        a.end()
        self.turn(10)
        self.assertEqual(b.found, [])

        may.append(True)
        self.turn(1)

        self.assertEqual(len(b.found), 1)

    def test_after_a_start(self) -> None:
        """What is on disk is found by the next life, also what came from another node."""
        a, b = self.members("ab")
        _, owed = self.keep(a)
        self.turn()
        a.end()
        b.end()

        again = self.member("a", "2")
        self.turn(1)
        self.assertEqual([found[0] for found in again.found], [owed[0].parts[0]])
        other = self.member("b", "2")
        self.turn(PATIENCE + 1)

        self.assertEqual([found[0].id for found in other.found], [owed[0].parts[0].id])

    def test_link_is_back(self) -> None:
        """A node whose link was lost for a moment is left to its own events."""
        a, b = self.members("ab")
        self.keep(a)
        self.turn()
        assert a.peers is not None
        a.peers.cut("b")
        self.turn(PATIENCE / 2)
        self.join(a, b)

        self.turn(60)

        self.assertEqual(b.found, [])

    def test_done_is_told(self) -> None:
        """What is done is struck out on all disks."""
        a, b = self.members("ab")
        _, owed = self.keep(a)
        self.turn()
        self.assertEqual(len(b.kept.shelf), 1)

        a.kept.done(owed[0].parts[0])
        self.turn(1)

        for each in (a, b):
            each.end()
            store = KeptEventStore(each.store.path, execute)
            self.assertEqual(self.successResultOf(store.load()), [])
            store._close()

    def test_done_before_it_is_read(self) -> None:
        """What others say is done while a disk refuses to be read is struck out once it is read."""
        a, b = self.members("ab")
        _, owed = self.keep(a)
        self.turn()
        b.end()

        def refuses(store: KeptEventStore) -> list[Kept]:
            raise StoreError("the disk refuses", store.path)

        broken = self.patch(KeptEventStore, "_load", refuses)
        again = self.member("b", "2")
        self.join(a, again)
        self.turn(1)
        self.assertIn("the disk refuses", again.kept.problem)
        a.kept.done(owed[0].parts[0])
        self.turn(2)
        broken.restore()
        self.turn(2)

        self.assertEqual(again.kept.problem, "")
        self.assertEqual(len(again.kept.shelf), 0)
        self.assertEqual(again.on_disk(), [])
        a.end()
        self.turn(PATIENCE + 5)
        self.assertEqual(again.found, [])

    def test_nonsense(self) -> None:
        """What makes no sense is refused, and a row in another node's name."""
        (a,) = self.members("a")
        for body in (pack_bin(None), pack_bin(["1", [[1]]]), pack_bin([1])):
            self.assertRaises(WireError, a.kept._keep_came, "b", body)
            self.assertRaises(WireError, a.kept._done_came, "b", body)
        foreign = evolve(Kept(**KEPT), source="c#1").told()
        self.assertRaises(WireError, a.kept._keep_came, "b", pack_bin(["1", [foreign]]))


KEPT: dict[str, Any] = {
    "source": "b#1", "number": 1, "part": 0, "minion": "m", "tag": "t", "key": "event/k/1",
    "at": 0.0, "data": b"\x80",
}  # fmt: skip


class LoneRig(Rig):
    """A master alone that keeps events in a file, whose earlier life may have left some."""

    def __init__(self, test: Any, **options: Any) -> None:
        self.test, self.path, self.life = test, options.pop("path"), options.pop("life")
        super().__init__(test, **options)

    def beside(self, alone: Seams) -> Seams:
        """With that file."""
        self.disk = Disk()
        seconds = self.clock.seconds
        self.receipts = ClaimStore(f"{self.path}-claims", self.disk.run, "", "alone")
        self.book = ReceiptBook(self.clock, self.receipts, lambda: None)
        self.claims = LoneClaims("rig_master", seconds, seconds, None, self.life, self.book)
        self.book.startService()
        self.store = KeptEventStore(self.path, self.disk.run)
        self.kept = KeptEvents(
            self.clock,
            "rig_master",
            self.life,
            self.store,
            self.clock.seconds,
            self.counters,
            given=self.claims.keys.given,
        )
        self.kept.startService()
        self.test.addCleanup(self.end)
        return evolve(alone, claims=self.claims, kept=self.kept, book=self.book)

    def end(self) -> None:
        """As a killed process."""
        for part in (self.kept, self.book):
            if part._loop is not None:
                part._loop.stop()
                part._loop = None
        self.kept._is_open = self.book.is_open = False
        self.store._close()
        self.receipts._close()


class Life(Reacting):
    """One life of a master that reacts."""

    def __init__(
        self, test: Any, reactor: Any, sls: str, path: str, life: str, **options: Any
    ) -> None:
        self.rig = rig = LoneRig(test, path=path, life=life, config_dir="/nowhere", **options)
        self.minion = RigMinion(rig, "m1").accepted()
        self.folder = os.path.join(rig.home, "reactor")
        os.makedirs(self.folder)
        self.write("a.sls", sls)
        self._begin(test, reactor)

    def _begin(self, test: Any, reactor: Any) -> None:
        rig = self.rig
        rig.ctx.reactions.configure(self.placed(reactor))
        self.workers = Workers(rig.config.as_opts())
        self.pause = Pause(rig.ctx.seams.schedule, rig.clock.seconds)
        self.pause.startService()
        self.reactor = Reactor(rig.ctx, self.workers, self.pause)
        self.reactor.startService()
        test.addCleanup(self.reactor.stopService)

    def send(self, i: int, **fields: Any) -> list[bytes]:
        """An event of the minion; the answers so far."""
        load = {"cmd": "_minion_event", "tag": "site/x", "data": {"i": i}, **fields}
        return self.rig.ask(self.minion.frame(load))

    def kill(self) -> None:
        """Nothing more is done or written."""
        self.reactor.stopService()
        self.rig.end()


class OwedTests(SynchronousTestCase):
    """A master alone and its next life, on the same file."""

    def setUp(self) -> None:
        self.path = os.path.abspath(self.mktemp())

    def life(self, life: str, sls: str = RUNNER, reactor: Any = None, **options: Any) -> Life:
        """One life."""
        return Life(self, reactor or [{"site/x": ["@a.sls"]}], sls, self.path, life, **options)

    def rows(self) -> list[Kept]:
        """What is on disk, when what is done has been struck out."""
        store = KeptEventStore(self.path, execute)
        found: list[Kept] = self.successResultOf(store.load())
        store._close()
        return found

    def test_reacted_to(self) -> None:
        """It is acknowledged and reacted to, and nothing is owed after that."""
        made = self.life("1")

        self.assertEqual(len(made.send(1)), 1)
        made.turn()

        self.assertEqual(len(made.runs()), 1)
        made.turn(1)
        self.assertEqual(self.rows(), [])

    def test_no_answer_before_the_disk(self) -> None:
        """While it is not on disk, it is neither acknowledged nor reacted to nor on the bus."""
        made = self.life("1")
        made.rig.disk.holding = True
        replies = made.send(1)
        made.turn()
        self.assertEqual((replies, made.runs(), "site/x" in made.rig.tags()), ([], [], False))

        made.rig.disk.release()
        made.turn()

        self.assertEqual((len(replies), len(made.runs())), (1, 1))

    def test_too_old_on_the_disk(self) -> None:
        """
        What took longer than C{publish_window} to reach the disk, as in a process that stood still,
        is acknowledged and said as lost: others have long forgotten its copies.
        """
        for seconds, runs, lost in ((29, 1, 0), (31, 0, 1)):
            self.setUp()
            made = self.life("1")
            made.rig.disk.holding = True
            replies = made.send(1)
            made.rig.clock.advance(seconds)
            made.rig.disk.release()
            made.turn()

            told = made.rig.tags().count("saltwisted/reaction/lost")
            self.assertEqual((len(replies), len(made.runs()), told), (1, runs, lost))
            made.kill()

    def test_refused(self) -> None:
        """A full disk: no answer at all, no reaction; the same call may come again."""
        made = self.life("1")
        made.rig.disk.full = True
        self.assertEqual(made.send(1, data={"i": 1, "__pub_jid": "20261123071617133250"}), [])
        made.turn()
        self.assertEqual(made.runs(), [])
        self.assertEqual(made.rig.counters["failed:_minion_event"], 1)

        made.rig.disk.full = False
        answer = made.send(1, data={"i": 1, "__pub_jid": "20261123071617133250"})
        made.turn()

        self.assertEqual((len(answer), len(made.runs())), (1, 1))

    def test_others_need_no_disk(self) -> None:
        """An event that nobody reacts to is answered whatever the disk says, without a write."""
        made = self.life("1")
        made.rig.disk.full = True

        self.assertEqual(len(made.send(1, tag="site/other")), 1)

        self.assertIn("site/other", made.rig.tags())

    def test_killed_before_rendering(self) -> None:
        """The next life reacts to what was acknowledged and not rendered yet, once."""
        first = self.life("1")
        first.workers.holding = True
        self.assertEqual(len(first.send(1)), 1)
        first.turn()
        first.kill()

        second = self.life("2")
        second.turn(1)

        self.assertEqual([run["return"]["kwargs"]["i"] for run in second.runs()], [1])
        second.turn(1)
        self.assertEqual(self.rows(), [])
        second.kill()
        third = self.life("3")
        third.turn(1)
        self.assertEqual(third.runs(), [])

    def test_each_entry_of_its_own(self) -> None:
        """An entry with batch is owed by itself: what was done is not done again."""
        entries = [{"site/x": ["@a.sls"]}, {"site/x": {"sls": ["@a.sls"], "debounce": 5}}]
        first = self.life("1", reactor=entries)
        first.send(1)
        first.turn(1)
        self.assertEqual(len(first.runs()), 1)
        self.assertEqual([row.part for row in self.rows()], [2])
        first.kill()

        second = self.life("2", reactor=entries)
        second.turn(1)
        self.assertEqual(second.runs(), [])
        second.turn(5)

        self.assertEqual(len(second.runs()), 1)
        second.turn(1)
        self.assertEqual(self.rows(), [])

    def test_too_old(self) -> None:
        """What is older than publish_window is said as lost."""
        first = self.life("1")
        first.workers.holding = True
        first.send(1)
        first.kill()
        (row,) = self.rows()
        store = KeptEventStore(self.path, execute)
        self.successResultOf(store.load())
        self.successResultOf(store.write([evolve(row, at=row.at - 31)]))
        store._close()

        second = self.life("2")
        second.turn(1)

        self.assertEqual(second.runs(), [])
        self.assertEqual([lost["why"] for lost in second.said("lost")], ["old"])
        second.turn(1)
        self.assertEqual(self.rows(), [])

    def killed_in_it(self, sls: str, once: str, listening: Sequence[str] = ()) -> Life:
        """
        What had begun when the first life was killed; the second, after it has looked.

        @param listening: minions that subscribe from the start of the second on.
        """
        entries = [{"site/x": {"sls": ["@a.sls"], "once": once}}]
        first = self.life("1", sls, entries)
        self.patch(first.rig.claims, "end", lambda claim, result: succeed(None))
        first.send(1)
        first.turn()
        self.jobs = first.rig.published_jobs()
        first.kill()
        # What was claimed had not left this disk yet
        self.assertEqual(len(self.rows()), 1)
        second = self.life("2", sls, entries)
        second.rig.subscribed.update(listening)
        second.turn(1)
        second.turn(1)
        self.assertEqual(self.rows(), [])
        return second

    def test_killed_in_a_runner(self) -> None:
        """A runner that had begun is said as lost."""
        second = self.killed_in_it(RUNNER, "at_most")

        self.assertEqual(second.runs(), [])
        self.assertEqual([lost["why"] for lost in second.said("lost")], ["died"])

    def test_killed_in_a_runner_at_least(self) -> None:
        """With C{at_least} it runs again."""
        second = self.killed_in_it(RUNNER, "at_least")

        self.assertEqual(len(second.runs()), 1)

    def test_killed_after_a_job(self) -> None:
        """A job is published again under the same jid, by which minions know it."""
        second = self.killed_in_it(LOCAL, "at_most")

        self.assertEqual(len(self.jobs), 1)
        self.assertEqual([job["jid"] for job in second.rig.published_jobs()], [self.jobs[0]["jid"]])

    def late(self, made: Life) -> list[dict[str, Any]]:
        """What was published for those alone that came after the recovered job."""
        first, *late = made.rig.published_jobs()
        self.assertEqual([job["jid"] for job in late], [first["jid"]] * len(late))
        self.assertEqual(made.rig.counters["jobs:again"], sum(len(job["tgt"]) for job in late))
        return [{"tgt": job["tgt"], "tgt_type": job["tgt_type"]} for job in late]

    def test_minion_connects_late(self) -> None:
        """Who was not there when the job was published again gets it when it comes, once."""
        second = self.killed_in_it(LOCAL, "at_most")
        second.rig.ctx.sessions.forget("m1")
        second.turn(10)
        self.assertEqual(self.late(second), [])

        second.rig.connected.add("192.0.2.1")
        second.rig.subscribed.add("m1")
        second.turn(1)

        self.assertEqual(self.late(second), [{"tgt": ["m1"], "tgt_type": "list"}])
        for _ in range(40):
            second.turn(1)
        self.assertEqual(len(self.late(second)), 1)

    def test_minion_signs_in_late(self) -> None:
        """A minion that is known by its requests alone gets it a moment after it has signed in."""
        second = self.killed_in_it(LOCAL, "at_most")
        second.rig.ctx.sessions.forget("m1")
        second.turn(10)
        self.assertEqual(self.late(second), [])

        second.minion.sign_in()
        second.turn(1)
        self.assertEqual(self.late(second), [])
        second.turn(1)
        second.turn(1)

        # Sooner than one that gives no sign
        self.assertEqual(self.late(second), [{"tgt": ["m1"], "tgt_type": "list"}])
        for _ in range(40):
            second.turn(1)
        self.assertEqual(len(self.late(second)), 1)

    def test_minion_gives_no_sign(self) -> None:
        """A stock minion that nobody can tell by its address gets it in the middle of the time."""
        second = self.killed_in_it(LOCAL, "at_most")
        second.rig.ctx.sessions.forget("m1")
        second.rig.connected.add("192.0.2.1")

        for _ in range(13):
            second.turn(1)
        self.assertEqual(self.late(second), [])
        for _ in range(30):
            second.turn(1)

        self.assertEqual(self.late(second), [{"tgt": ["m1"], "tgt_type": "list"}])

    def test_minion_comes_too_late(self) -> None:
        """After publish_window nobody is waited for."""
        second = self.killed_in_it(LOCAL, "at_most")
        second.rig.ctx.sessions.forget("m1")
        second.turn(31)

        second.rig.connected.add("192.0.2.1")
        second.rig.subscribed.add("m1")
        second.turn(1)
        second.turn(5)

        self.assertEqual(self.late(second), [])

    def test_minion_was_there(self) -> None:
        """Who listens while the job is published again does not get it once more."""
        second = self.killed_in_it(LOCAL, "at_most", ["m1"])
        for _ in range(5):
            second.turn(1)

        self.assertEqual(self.late(second), [])

    def test_minion_has_returned(self) -> None:
        """Who has returned does not get it once more when it comes, be it restarted."""
        second = self.killed_in_it(LOCAL, "at_most")
        jid = self.jobs[0]["jid"]
        second.rig.bus.fire(f"salt/job/{jid}/ret/m1", {"id": "m1", "jid": jid, "return": True})

        second.rig.connected.add("192.0.2.1")
        second.rig.subscribed.add("m1")
        for _ in range(5):
            second.turn(1)

        self.assertEqual(self.late(second), [])

    def test_equal_event_after_a_start(self) -> None:
        """An equal event that comes while the earlier one is taken up is another one."""
        first = self.life("1")
        first.workers.holding = True
        first.send(1)
        first.kill()
        second = self.life("2")
        second.workers.holding = True
        second.turn(1)
        second.send(1)
        second.turn()

        second.workers.holding = False
        second.workers.release()
        second.turn()

        self.assertEqual(len(second.runs()), 2)

    def test_lost_is_not_owed(self) -> None:
        """What is said as lost, since too many wait, is not owed."""
        made = self.life("1", reactor_worker_hwm=1)
        made.workers.holding = True
        for i in range(40):
            made.send(i)
        made.turn(1)

        lost = len(made.said("lost"))
        self.assertTrue(lost)
        self.assertEqual(len(self.rows()), 40 - lost)
