from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from tempfile import mkdtemp
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.trial.unittest import TestCase

from saltwisted.domain.replica.entry import Entry, Stream, pack_fields
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.keyset import KIND, KeySet
from saltwisted.domain.replica.words import Entries, decode, encode
from saltwisted.errors import StoreError
from saltwisted.stores import telling
from saltwisted.stores.facts import log as log_module
from saltwisted.stores.facts.log import ReplicaLog
from saltwisted.stores.stall import Stall

PUB = b"-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----\n"
FAR = Stream("far", "f" * 16)


class ReplicaLogTests(TestCase):
    """The log on a real disk, with its real threads: the reactor is what they report to."""

    timeout = 60

    def setUp(self) -> None:
        folder = mkdtemp(prefix="replica-", dir=self.mktemp_parent())
        self.addCleanup(shutil.rmtree, folder, True)
        self.path = os.path.join(folder, "facts.sqlite")
        self.time = 1_800_000_000.0

    def mktemp_parent(self) -> str:
        os.makedirs(os.path.dirname(self.mktemp()), exist_ok=True)
        return os.path.dirname(self.mktemp())

    def opened(self, node: str = "near", path: str = "") -> ReplicaLog:
        self.keys = KeySet()
        log = ReplicaLog(
            reactor, path or self.path, node, Folds([self.keys]), now=lambda: self.time
        )
        log.startService()
        self.addCleanup(log.stopService)
        return log

    def accept(self, log: ReplicaLog, minion_id: str) -> Deferred[Entry]:
        return log.append(KIND, self.keys.act("accept", minion_id, PUB))

    def far(self, number: int, body: Mapping[str, Any] | None = None) -> Entry:
        fields = body or self.keys.act("accept", f"far{number}", PUB)
        return Entry(FAR, number, number, KIND, pack_fields(fields))

    def word(self, minion_id: str) -> str:
        holder = self.keys.view(minion_id).holder
        return holder.state if holder else ""

    async def _again(self, log: ReplicaLog) -> ReplicaLog:
        await log.stopService()
        return self.opened()

    def run_async(self, coroutine: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(coroutine)

    def test_restart(self) -> Deferred[Any]:
        """What was appended or merged is there after a restart, under the same incarnation."""

        async def run() -> None:
            log = self.opened()
            seen: list[tuple[int, str]] = []
            log.on_entries(lambda entries, source: seen.append((len(entries), source)))
            first = await self.accept(log, "m1")
            await log.merge([self.far(1), self.far(2)], "far")
            stream, known = log.stream, log.knowledge()
            self.assertEqual(first.number, 1)
            self.assertEqual(known, {stream: 1, FAR: 2})
            self.assertEqual(seen, [(1, ""), (2, "far")])

            log = await self._again(log)

            self.assertEqual(log.stream, stream)
            self.assertEqual(log.knowledge(), known)
            self.assertEqual([self.word(i) for i in ("m1", "far1", "far2")], ["accepted"] * 3)
            second = await self.accept(log, "m2")
            self.assertEqual(second.number, 2)

        return self.run_async(run())

    def test_long_entry(self) -> Deferred[Any]:
        """A long entry, which is a view of the message that it came with, is kept as any other."""

        async def run() -> None:
            log = self.opened()
            body = self.keys.act("accept", "far1", PUB, by="x" * 100_000)
            entry = self.far(1, body)
            (came,) = cast(Entries, decode(encode(Entries([entry])))).entries
            self.assertIsInstance(came.body, memoryview)
            await log.merge([came], "far")
            log = await self._again(log)

            self.assertEqual(self.word("far1"), "accepted")
            self.assertEqual(list(await log.since({}, 1)), [entry])

        return self.run_async(run())

    def test_gap(self) -> Deferred[Any]:
        """An entry behind a gap is left out, and taken when what is between has come."""

        async def run() -> None:
            log = self.opened()
            third = self.far(3)
            self.assertEqual(list(await log.merge([third], "far")), [])
            self.assertEqual(log.knowledge(), {})
            await log.merge([self.far(1), self.far(2), third], "far")
            self.assertEqual(log.knowledge(), {FAR: 3})

        return self.run_async(run())

    def test_copy_is_noticed(self) -> Deferred[Any]:
        """A log that was restored from a copy begins a new incarnation and knows what it held."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            old = log.stream
            await log.stopService()
            shutil.copy(self.path, self.path + ".backup")
            os.rename(self.path + ".backup", self.path)

            log = self.opened()

            self.assertNotEqual(log.stream, old)
            self.assertEqual(log.renewals, ["the log is a copy or was restored"])
            self.assertEqual(log.knowledge(), {old: 1})
            self.assertEqual(self.word("m1"), "accepted")
            self.assertEqual((await self.accept(log, "m2")).number, 1)

        return self.run_async(run())

    def test_another_node(self) -> Deferred[Any]:
        """A log under another node's id begins a new incarnation of that node."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            await log.stopService()

            log = self.opened("other")

            self.assertEqual(log.stream.node, "other")
            self.assertEqual(log.last, 0)

        return self.run_async(run())

    def test_damaged(self) -> Deferred[Any]:
        """A damaged file is kept aside, and a new log begun."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            await log.stopService()
            with open(self.path, "r+b") as file:  # noqa: ASYNC230 - a test may block
                file.write(b"no database at all, certainly not")

            log = self.opened()

            self.assertEqual(log.knowledge(), {})
            aside = [n for n in os.listdir(os.path.dirname(self.path)) if "corrupt" in n]
            self.assertEqual(len(aside), 1)
            self.assertIn("damaged", log.renewals[0])
            await self.accept(log, "m2")

        return self.run_async(run())

    def test_renewed(self) -> Deferred[Any]:
        """After a set-back, what nobody had confirmed is there again under the new incarnation."""

        async def run() -> None:
            log = self.opened()
            for number in (1, 2, 3):
                await self.accept(log, f"m{number}")
            log.confirmed(1)
            old = log.stream
            fourth = self.accept(log, "m4")
            shipped: list[Entry] = []
            log.on_entries(lambda entries, source: shipped.extend(entries))

            await log.renew()
            await fourth

            self.assertEqual(log.knowledge(), {old: 1, log.stream: 3})
            self.assertEqual({entry.stream for entry in shipped}, {log.stream})
            stream, known = log.stream, log.knowledge()
            log = await self._again(log)
            self.assertEqual((log.stream, log.knowledge()), (stream, known))
            self.assertEqual([self.word(f"m{n}") for n in (1, 2, 3, 4)], ["accepted"] * 4)

        return self.run_async(run())

    def test_not_all_heard(self) -> Deferred[Any]:
        """
        Before all members were heard nothing is numbered as in an earlier life: one of them may
        know other entries by these numbers. Afterwards the old incarnation goes on.
        """

        async def run() -> None:
            log = self.opened()
            log.all_told = lambda: False
            old = log.stream
            for number in (1, 2):
                await self.accept(log, f"m{number}")
            # A new log is under numbers that nobody has
            self.assertEqual(log.knowledge(), {old: 2})

            log = await self._again(log)
            log.all_told = lambda: False
            self.assertEqual(log.stream, old)
            await self.accept(log, "m3")
            await self.accept(log, "m4")

            self.assertNotEqual(log.stream, old)
            known = {old: 2, log.stream: 2}
            self.assertEqual(log.knowledge(), known)
            self.assertEqual(len(log.renewals), 1)
            new = log.stream
            log = await self._again(log)
            log.all_told = lambda: True
            self.assertEqual((log.stream, log.knowledge()), (new, known))
            await self.accept(log, "m5")
            log.all_told = lambda: False
            await self.accept(log, "m6")
            self.assertEqual(log.knowledge(), {old: 2, new: 4})
            self.assertEqual([self.word(f"m{n}") for n in range(1, 7)], ["accepted"] * 6)

        return self.run_async(run())

    def test_compacted(self) -> Deferred[Any]:
        """A snapshot holds what its entries said, and peers are told which are gone."""

        async def run() -> None:
            log = self.opened()
            for number in range(30):
                await self.accept(log, f"m{number}")
            await log.append(KIND, self.keys.act("delete", "m3", PUB))
            before = log.digests()

            self.assertEqual(await log.compact(keep=5), 5)

            self.assertEqual(log.floor(), {log.stream: 26})
            log = await self._again(log)
            self.assertEqual(log.digests(), before)
            self.assertEqual(log.floor(), {log.stream: 26})
            self.assertEqual(self.word("m3"), "")
            self.assertEqual(self.word("m29"), "accepted")
            entries = await log.since({log.stream: 26}, 10_000)
            self.assertEqual([entry.number for entry in entries], [27, 28, 29, 30, 31])

        return self.run_async(run())

    def test_state(self) -> Deferred[Any]:
        """The state of one log, taken by another, is the same knowledge and the same facts."""

        async def run() -> None:
            log = self.opened()
            for number in range(10):
                await self.accept(log, f"m{number}")
            knowledge, facts = log.state()
            found, digests = list(facts), log.digests()

            other = self.opened("other", self.path + ".other")
            await other.merge_state(found[:4], None)
            self.assertEqual(other.digests(), {})
            await other.merge_state(found[4:], knowledge)

            self.assertEqual(other.digests(), digests)
            self.assertEqual(other.knowledge(), knowledge)
            self.assertEqual(other.floor(), knowledge)

        return self.run_async(run())

    def test_disk_refuses(self) -> Deferred[Any]:
        """While the disk refuses, changes wait; when it takes them again, none is missing."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            blocker = sqlite3.connect(self.path, isolation_level=None)
            log._db.execute("PRAGMA busy_timeout=50")  # type: ignore[union-attr]
            blocker.execute("BEGIN IMMEDIATE")
            waiting = self.accept(log, "m2")
            while not log.problem:
                await _turn()
            self.assertEqual(log.knowledge(), {log.stream: 1})

            blocker.execute("ROLLBACK")
            blocker.close()
            await waiting

            self.assertEqual(log.knowledge(), {log.stream: 2})
            self.assertEqual(log.problem, "")
            self.flushLoggedErrors()

        return self.run_async(run())

    def test_nobody_waits(self) -> Deferred[Any]:
        """Who stops waiting for an entry takes nothing back: it is known once it is on the disk."""

        async def run() -> None:
            log = self.opened()
            told: list[int] = []
            log.on_entries(lambda entries, source: told.extend(e.number for e in entries))
            blocker = sqlite3.connect(self.path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            impatient = self.accept(log, "m1")
            impatient.addErrback(lambda failure: failure.trap(CancelledError))
            impatient.cancel()

            blocker.execute("ROLLBACK")
            blocker.close()
            await self.accept(log, "m2")

            self.assertEqual((log.knowledge(), told), ({log.stream: 2}, [1, 2]))

        return self.run_async(run())

    def test_told_in_turns(self) -> Deferred[Any]:
        """
        Of many entries that reach the disk together, each turn of the reactor tells of a few, in
        their order; when the log has ended nobody waits.
        """
        self.patch(telling, "PORTION", -1.0)
        turns, told = 0, []

        def turn() -> None:
            nonlocal turns
            turns += 1

        async def run() -> None:
            log = self.opened()
            log.on_entries(lambda entries, source: told.extend((turns, e.number) for e in entries))
            blocker = sqlite3.connect(self.path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            first = self.accept(log, "m0")
            while not log.stall.since:
                await _turn()
            waiting = [self.accept(log, f"m{number}") for number in range(1, 21)]
            counting = LoopingCall(turn)
            counting.start(0)  # type: ignore[unused-awaitable]
            blocker.execute("ROLLBACK")
            blocker.close()
            await first
            while len(told) < 12:
                await _turn()
            counting.stop()
            self.assertEqual(max(Counter(turn for turn, _ in told).values()), 1)

            await log.stopService()

            self.assertEqual([number for _, number in told], list(range(1, 22)))
            self.assertTrue(all(each.called for each in waiting))

        return self.run_async(run())

    def test_merged_in_turns(self) -> Deferred[Any]:
        """
        Of thousands of entries that a member sends, a few are folded in one turn; who waits for
        all is told when the last of them are.
        """
        self.patch(telling, "PORTION", -1.0)
        self.patch(log_module, "AT_ONCE", 5)

        async def run() -> None:
            log = self.opened()
            told: list[tuple[int, str]] = []
            known: list[int] = []

            def came(entries: Sequence[Entry], source: str) -> None:
                told.append((len(entries), source))
                reactor.callLater(0, lambda: known.append(log.knowledge()[FAR]))  # type: ignore[attr-defined]

            log.on_entries(came)
            new = await log.merge([self.far(number) for number in range(1, 18)], "far")
            await _turn()

            self.assertEqual(told, [(5, "far"), (5, "far"), (5, "far"), (2, "far")])
            self.assertEqual([entry.number for entry in new], list(range(1, 18)))
            # What was known a turn after each of them
            self.assertEqual(known, [5, 10, 15, 17])
            self.assertEqual(list(await log.merge([self.far(3)], "far")), [])
            await log.stopService()
            refused = log.merge([self.far(18)], "far")
            await self.assertFailure(refused, StoreError)

        return self.run_async(run())

    def test_stall_is_told(self) -> Deferred[Any]:
        """A write that does not come back is a problem, also while there is no error."""

        async def run() -> None:
            log = self.opened()
            time = 1.0
            log.stall = Stall(lambda: time)
            blocker = sqlite3.connect(self.path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            waiting = self.accept(log, "m1")
            while not log.stall.since:
                await _turn()
            self.assertEqual(log.problem, "")

            time = 8.0
            said = log.problem

            blocker.execute("ROLLBACK")
            blocker.close()
            await waiting
            self.assertEqual(said, "the disk has not finished a write for 7 s")
            while log.stall.since:
                await _turn()
            self.assertEqual(log.problem, "")

        return self.run_async(run())

    def overwrite(self) -> None:
        """The beginning of each page but the first."""
        with open(self.path, "r+b") as file:
            for page in range(1, os.path.getsize(self.path) // 4096):
                file.seek(page * 4096)
                file.write(b"\xff" * 100)

    async def _mended(self, log: ReplicaLog, count: int) -> None:
        """Wait until the file was rewritten, and see that all is in it, with what comes then."""
        while not any(".corrupt-" in name for name in os.listdir(os.path.dirname(self.path))):
            await _turn()
        while log.problem:
            await _turn()
        stream, known = log.stream, log.knowledge()
        await self.accept(log, "later")
        self.assertEqual(log.stream, stream)
        self.assertEqual(log.knowledge(), {**known, stream: known[stream] + 1})
        digests = log.digests()

        log = await self._again(log)

        self.assertEqual(log.knowledge(), {**known, stream: known[stream] + 1})
        self.assertEqual(log.digests(), digests)
        self.assertEqual([self.word(f"m{n}") for n in range(count)], ["accepted"] * count)
        self.flushLoggedErrors()

    def test_damaged_while_running(self) -> Deferred[Any]:
        """A file that is damaged under a running log is rewritten, with all that was known."""

        async def run() -> None:
            log = self.opened()
            for number in range(200):
                await self.accept(log, f"m{number}")
            await log.merge([self.far(1)], "far")
            other = sqlite3.connect(self.path)
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            other.close()
            self.overwrite()

            # Nobody asks for it: what is added meets the damage, or is asked for by a member
            waiting = self.accept(log, "m200")
            await log.since({}, 1 << 20).addErrback(lambda failure: failure.trap(StoreError))
            await waiting

            await self._mended(log, 201)

        return self.run_async(run())

    def test_flipped_bits(self) -> Deferred[Any]:
        """A row that holds something else than was written is found, and all is rewritten."""

        async def run() -> None:
            log = self.opened()
            for number in range(4):
                await self.accept(log, f"m{number}")
            await log.check(0.0)
            self.assertEqual(log.problem, "")
            other = sqlite3.connect(self.path)
            other.execute("UPDATE entries SET body = X'80' WHERE number = 2")
            other.commit()
            other.close()

            try:
                await log.check(0.0)
                self.fail("nothing was found")
            except StoreError:
                self.assertIn("is being rewritten", log.problem)

            await self._mended(log, 4)

        return self.run_async(run())

    def test_no_text(self) -> Deferred[Any]:
        """A word that is not text any more is damage like any other."""

        async def run() -> None:
            log = self.opened()
            for number in range(4):
                await self.accept(log, f"m{number}")
            self.harm("UPDATE entries SET kind = CAST(X'FF' AS TEXT) WHERE number = 2")

            try:
                await log.since({}, 1 << 20)
                self.fail("it was read")
            except StoreError:
                pass
            await self._mended(log, 4)

        return self.run_async(run())

    def test_no_text_at_the_start(self) -> Deferred[Any]:
        """Nor does it keep a node from its start."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            await log.stopService()
            self.harm("UPDATE entries SET kind = CAST(X'FF' AS TEXT)")

            log = self.opened()

            self.assertIn("the log was damaged", log.renewals[0])

        return self.run_async(run())

    def harm(self, statement: str) -> None:
        """Somebody or something writes into the file."""
        other = sqlite3.connect(self.path)
        other.execute(statement)
        other.commit()
        other.close()

    def test_flipped_bits_at_the_start(self) -> Deferred[Any]:
        """What was flipped while nothing ran is not folded: the members have it as it was."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            await log.stopService()
            other = sqlite3.connect(self.path)
            other.execute("UPDATE entries SET body = X'80'")
            other.commit()
            other.close()

            log = self.opened()

            self.assertIn("the log was damaged", log.renewals[0])
            self.assertEqual(log.knowledge(), {})

        return self.run_async(run())

    def test_another_file(self) -> Deferred[Any]:
        """A file that was removed or replaced under a running log is rewritten."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m0")
            os.unlink(self.path)

            try:
                await log.check(0.0)
                self.fail("nothing was found")
            except StoreError:
                pass

            while log.problem:
                await _turn()
            log = await self._again(log)
            self.assertEqual(self.word("m0"), "accepted")
            self.flushLoggedErrors()

        return self.run_async(run())

    def test_written_anew_while_compacting(self) -> Deferred[Any]:
        """A snapshot that was begun before the file was rewritten takes nothing out of it."""

        async def run() -> None:
            log = self.opened()
            for number in range(4):
                await self.accept(log, f"m{number}")
            await log.append(KIND, self.keys.act("pend", "m4", PUB))
            await log.compact(0)
            kept, calls = log._enqueue, []

            async def late(write: Any) -> None:
                """It is gathered, and before it is written all else happens."""
                await self.accept(log, "m4")
                log.met_damage("a test")
                while log.problem:
                    await _turn()
                await kept(write)

            def enqueue(write: Any, wake: bool = True) -> Deferred[None]:
                calls.append(write)
                if len(calls) != 2:
                    return kept(write, wake)
                return Deferred.fromCoroutine(late(write))

            self.patch(log, "_enqueue", enqueue)
            await log.compact(0)

            await self._mended(log, 5)

        return self.run_async(run())

    def test_marks(self) -> Deferred[Any]:
        """What was deleted long ago is ignored and then gone; who knows less is too old."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            await log.append(KIND, self.keys.act("delete", "m1", PUB))
            await log.mark(2, 1)
            await log.mark(2, 1)
            self.assertEqual(log.forgotten(), {})
            known = log.knowledge()
            await self.accept(log, "m2")

            await log.mark(2, 1)

            self.assertEqual(log.forgotten(), known)
            self.assertEqual(sorted(self.keys.ids()), ["m1", "m2"])
            log = await self._again(log)
            self.assertEqual(log.forgotten(), known)
            await log.mark(2, 1)
            self.assertEqual(sorted(self.keys.ids()), ["m2"])

        return self.run_async(run())

    def test_forgotten_stays_forgotten(self) -> Deferred[Any]:
        """
        A restart brings back neither an old acceptance that had not seen a deletion which is
        forgotten by now, nor a deletion against a key that is pending again since then.
        """

        async def run() -> None:
            log = self.opened()
            body = self.keys.act("accept", "m1", PUB)
            await log.append(KIND, self.keys.act("delete", "m1", PUB))
            await log.append(KIND, self.keys.act("delete", "m2", PUB))
            await log.merge([self.far(1, body)], "far")
            self.assertEqual(self.word("m1"), "")
            for _ in range(4):
                await log.mark(2, 1)
            # As another node does it that has dropped the deletion
            pend = KeySet().act("pend", "m2", PUB)
            await log.merge([self.far(2, pend)], "far")
            self.assertEqual((self.word("m1"), self.word("m2")), ("", "pending"))

            log = await self._again(log)

            self.assertEqual((self.word("m1"), self.word("m2")), ("", "pending"))
            self.assertTrue(log.forgotten())

        return self.run_async(run())

    def test_T_PEER_9_foreseen(self) -> Deferred[Any]:
        """
        T-PEER-9: a member that claims to have seen what this node will write does not make a key
        irrevocable: the revocation is written under an incarnation that nobody foresaw, and all
        that was written before stays.
        """

        async def run() -> None:
            log = self.opened()
            told: list[Entry] = []
            log.on_entries(lambda entries, source: told.extend(entries))
            await self.accept(log, "m2")
            first = log.stream
            body = dict(self.keys.act("accept", "m1", PUB))
            body["seen"] = [[*first, (1 << 62) - 1]]
            await log.merge([self.far(1, body)], "far")
            self.assertEqual(self.word("m1"), "accepted")
            late = self.accept(log, "m3")

            await log.append(KIND, self.keys.act("delete", "m1", PUB))
            await late

            self.assertEqual(self.word("m1"), "")
            self.assertNotEqual(log.stream, first)
            self.assertEqual(log.knowledge(), {first: 2, log.stream: 1, FAR: 1})
            self.assertEqual(
                [entry.dot for entry in told if entry.stream != FAR],
                [(first, 1), (first, 2), (log.stream, 1)],
            )
            self.assertTrue(log.digests())
            second = log.stream
            log = await self._again(log)
            self.assertEqual(log.stream, second)
            self.assertEqual([self.word(i) for i in ("m1", "m2", "m3")], ["", *["accepted"] * 2])

        return self.run_async(run())

    def test_T_PEER_8_aged(self) -> Deferred[Any]:
        """T-PEER-8: what may be ignored for others is what was known at the last but one mark."""

        async def run() -> None:
            log = self.opened()
            await self.accept(log, "m1")
            self.assertEqual(log.aged(), log.knowledge(), "a new log may follow the others")
            await log.mark()
            known = log.knowledge()
            await self.accept(log, "m2")
            await log.mark()
            await self.accept(log, "m3")

            self.assertEqual(log.aged(), known)

        return self.run_async(run())

    def test_newer_schema(self) -> None:
        """A file of a newer version is refused with a word, and left alone."""
        db = sqlite3.connect(self.path)
        db.execute("PRAGMA user_version=99")
        db.close()

        self.assertRaises(StoreError, self.opened)


def _turn() -> Deferred[None]:
    d: Deferred[None] = Deferred()
    reactor.callLater(0, d.callback, None)  # type: ignore[attr-defined]
    return d
