from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import AuthenticationError, StoreError, WireError
from saltwisted.minion.channel import Session
from saltwisted.minion.subscriber import Seen, Subscriber, jid_time
from saltwisted.stores.minion import SeenFile
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import parse_job, sign_blob
from tests.minion.fakemaster import JID, NOW, FakeMaster, facts
from tests.wire.recorded import Dice, key


class MemoryKept:
    """Lines in memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.replaced = 0
        self.broken = False

    def load(self) -> list[str]:
        return list(self.lines)

    def append(self, line: str) -> None:
        if self.broken:
            raise StoreError("full")
        self.lines.append(line)

    def replace(self, lines: list[str]) -> None:
        self.lines = list(lines)
        self.replaced += 1


def jid(seconds: float, number: int = 0) -> str:
    """A jid so many seconds after L{NOW}."""
    from datetime import UTC, datetime

    when = datetime.fromtimestamp(NOW + seconds, UTC)
    return when.strftime("%Y%m%d%H%M%S") + f"{number:06d}"


def job(name: str, **fields: Any) -> Any:
    return parse_job({"fun": "test.ping", "arg": [], "tgt": "*", "jid": name, "ret": "", **fields})


class JidTimeTests(SynchronousTestCase):
    def test_times(self) -> None:
        """A jid is a time in UTC to the microsecond, with or without a process number."""
        self.assertEqual(jid_time("20260102030405500000"), NOW + 0.5)
        self.assertEqual(jid_time("20260102030405500000_77"), NOW + 0.5)

    def test_others(self) -> None:
        """Anything else is no time."""
        for text in (
            "",
            "req",
            "x" * 20,
            "20261302030405500000",
            "20260102030405",
            "2" * 21,
            "20260102250405500000",
            "٢" * 20,
            "20260102030405500000_x",
        ):
            self.assertIsNone(jid_time(text))


class SeenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.kept = MemoryKept()
        self.now = NOW
        self.seen = self.build()

    def build(self, **options: Any) -> Seen:
        seen = Seen(self.kept, lambda: self.now, **options)
        seen.load()
        return seen

    def accept(self, name: str, source: str = "a", key: str = "k", **fields: Any) -> str:
        one = job(name, **fields)
        why = self.seen.why_not(one, key, source)
        if not why:
            self.seen.add(one, key, source)
        return why

    def test_T_REPLAY_1_same_again(self) -> None:
        """A job runs once, also when it comes again through another master."""
        self.assertEqual(self.accept(JID), "")
        self.assertEqual(self.accept(JID), "duplicate")
        self.assertEqual(self.accept(JID, source="b"), "duplicate")

    def test_T_REPLAY_1_after_restart(self) -> None:
        """What was run is remembered by the next process, and by the one after it."""
        self.accept(jid(0))
        self.accept(jid(1))
        for _ in range(2):
            self.seen = self.build()

            self.assertEqual(self.accept(jid(0)), "duplicate")
            self.assertEqual(self.accept(jid(1)), "duplicate")
        self.assertEqual(self.accept(jid(2)), "")

    def test_T_REPLAY_1_never_seen(self) -> None:
        """A recorded job that we never got is refused when it lies behind the window."""
        self.accept(jid(0))

        self.assertEqual(self.accept(jid(-3601)), "stale")
        self.assertEqual(self.accept(jid(-3599)), "")
        self.seen = self.build()
        self.assertEqual(self.accept(jid(-3601)), "stale")

    def test_window_is_per_master(self) -> None:
        """A master whose clock is behind another's is not shut out by it."""
        self.accept(jid(0), source="a")

        self.assertEqual(self.accept(jid(-7200), source="b"), "")

    def test_no_window(self) -> None:
        """A window of 0 is none."""
        self.seen = self.build(window=0)
        self.accept(jid(0))

        self.assertEqual(self.accept(jid(-(10**6))), "")

    def test_wrong_clock(self) -> None:
        """One job from far ahead does not shut out those that are right."""
        self.accept(jid(10**8))

        self.assertEqual(self.accept(jid(0)), "")
        self.assertEqual(self.accept(jid(10**8)), "duplicate")

    def test_forgotten_ones_stay_refused(self) -> None:
        """What had to be forgotten is refused by its time, also after a restart."""
        self.seen = self.build(remember=10)
        for n in range(300):
            self.accept(jid(n))

        for _ in range(2):
            self.assertEqual(self.accept(jid(5)), "stale")
            self.assertEqual(self.accept(jid(289)), "stale")
            self.assertEqual(self.accept(jid(299)), "duplicate")
            self.seen = self.build(remember=10)
        self.assertGreater(self.kept.replaced, 0)
        self.assertLess(len(self.kept.lines), 150)

    def test_other_jids(self) -> None:
        """Jids that are not times are told apart too, whatever they are made of."""
        for name in ("req", "a b\nc", "é"):
            self.assertEqual(self.accept(name), "")
            self.assertEqual(self.accept(name), "duplicate")

        self.assertTrue(all("\n" not in line for line in self.kept.lines))

    def test_serial(self) -> None:
        """A serial must grow while its publish key lives; with a new key it starts over."""
        self.assertEqual(self.accept(jid(1), serial=5), "")
        self.assertEqual(self.accept(jid(2), serial=5), "serial")
        self.seen = self.build()

        self.assertEqual(self.accept(jid(3), serial=4), "serial")
        self.assertEqual(self.accept(jid(4), serial=6), "")
        self.assertEqual(self.accept(jid(5), serial=1, key="other"), "")

    def test_rubbish_in_the_file(self) -> None:
        """Lines that nobody wrote are skipped."""
        self.kept.lines = ["", "x", "j", "s a b", "f x.y", "f 1.5.6", f"j {JID} a", "\x00"]
        self.seen = self.build()

        self.assertEqual(self.accept(JID), "duplicate")

    def test_file(self) -> None:
        """On disk: kept across objects, a line cut short is left out, the mode is 0600."""
        import os

        path = self.mktemp() + "/deep/seen"
        first = SeenFile(path)
        self.assertEqual(first.load(), [])
        first.append("j 1 a")
        first.append("j 2 a")
        first.close()
        with open(path, "ab") as handle:
            handle.write(b"j 3")
        second = SeenFile(path)

        self.assertEqual(second.load(), ["j 1 a", "j 2 a"])
        second.replace(["j 9 a"])
        second.append("j 10 a")
        self.assertEqual(SeenFile(path).load(), ["j 9 a", "j 10 a"])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        second.close()


class SubscriberTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.master = FakeMaster()
        self.jobs: list[Any] = []
        self.kept = MemoryKept()
        self.session = Session(
            publish_key=self.master.publish_key, master_key=self.master.identity.key.public
        )
        self.subscriber = self.build()

    def build(self, **options: Any) -> Subscriber:
        return Subscriber(
            facts,
            lambda job, source: self.jobs.append((job.jid, source)),
            Seen(self.kept, lambda: NOW),
            **options,
        )

    def deliver(self, payload: bytes) -> bool:
        publication = self.subscriber.read(payload, self.session)
        one, opened_by = self.subscriber.open(publication, self.session, NOW)
        return self.subscriber.take(one, opened_by, "link", "salt")

    def test_job(self) -> None:
        """A signed job for us is handed out with its source, and kept before."""
        self.assertTrue(self.deliver(self.master.publication()))

        self.assertEqual(self.jobs, [(JID, "link")])
        self.assertEqual(self.kept.lines, [f"j {JID} salt"])

    def test_targets(self) -> None:
        """Jobs for others are not handed out, nor remembered; each kind of target is asked."""
        for tgt, tgt_type, ours in (
            ("m1", "glob", True),
            ("m2", "glob", False),
            ("os:Debian", "grain", True),
            ("os:Suse", "grain", False),
            ("m1,m7", "list", True),
            ("m1 and not G@os:Debian", "compound", False),
            ("x", "no such type", False),
        ):
            number = self.subscriber.counters["taken"] + 1
            payload = self.master.publication(tgt=tgt, tgt_type=tgt_type, jid=jid(number))

            self.assertEqual(self.deliver(payload), ours, tgt)

        self.assertEqual(len(self.kept.lines), 3)

    def test_T_MIN_1(self) -> None:
        """Clear publications, and ones that are none, are dropped."""
        for payload in (pack({"enc": "clear", "load": {"fun": "x"}}), b"", b"\xc1", pack([])):
            self.assertRaises(WireError, self.subscriber.read, payload, self.session)

    def test_T_MIN_2(self) -> None:
        """Who knows the publish key cannot make us accept a job without the master's signature."""
        publication = self.master.publication(signer=key("minion2"))
        blob = self.subscriber.read(self.master.publication(), self.session).blob

        for payload in (publication, sign_blob(blob, None)):
            self.assertRaises(AuthenticationError, self.subscriber.read, payload, self.session)

    def test_T_MIN_2_option(self) -> None:
        """Only where told so is a missing signature accepted, and a wrong one never."""
        self.subscriber = self.build(insist=False)
        blob = self.subscriber.read(self.master.publication(), self.session).blob

        self.assertTrue(self.deliver(sign_blob(blob, None)))
        self.assertRaises(
            AuthenticationError,
            self.subscriber.read,
            self.master.publication(signer=key("minion2")),
            self.session,
        )

    def test_before_sign_in(self) -> None:
        """Without a known master nothing is believed."""
        self.assertRaises(
            AuthenticationError, self.subscriber.read, self.master.publication(), Session()
        )

    def test_T_REPLAY_1_recorded_publication(self) -> None:
        """The same bytes again run nothing, also in a new process."""
        payload = self.master.publication()
        self.deliver(payload)

        self.assertFalse(self.deliver(payload))
        seen = Seen(self.kept, lambda: NOW)
        seen.load()
        self.subscriber._seen = seen
        self.assertFalse(self.deliver(payload))
        self.assertEqual(len(self.jobs), 1)

    def test_announced_key(self) -> None:
        """A publication under the announced next key opens, and makes it the current one."""
        self.session.next_key = coming = SessionKey.generate(lambda n: b"n" * n)

        self.assertTrue(self.deliver(self.master.publication(sealed=coming)))

        self.assertEqual((self.session.publish_key, self.session.next_key), (coming, None))

    def test_unknown_key(self) -> None:
        """Under any other key it is for the connection to sign in again."""
        other = SessionKey.generate(Dice())
        publication = self.subscriber.read(
            self.master.publication(sealed=SessionKey.generate(lambda n: b"q" * n)), self.session
        )

        self.assertRaises(AuthenticationError, self.subscriber.open, publication, self.session, NOW)
        self.session.next_key = other
        self.assertRaises(AuthenticationError, self.subscriber.open, publication, self.session, NOW)

    def test_full_disk(self) -> None:
        """When the disk is full the job runs all the same, and it is said."""
        self.kept.broken = True

        self.assertTrue(self.deliver(self.master.publication()))
        self.assertFalse(self.deliver(self.master.publication()))

        self.assertEqual(self.subscriber.counters["unkept"], 1)
