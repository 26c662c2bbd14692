"""
The order in which sign-ins are answered: nobody is pushed back by who can wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.pace import BURST
from saltwisted.doors import SIGN_INS
from saltwisted.errors import WireError
from saltwisted.master import signins
from saltwisted.master.signins import BATCH, HELD_FOR, PLACES, UNUSUAL_ALL, USUAL, SignIns
from saltwisted.transports import turns
from saltwisted.wire.commands import Auth, parse_command
from tests.master.rig import Rig
from tests.wire.recorded import key


class Held:
    """Threads whose work is done when the test says so."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[str], Deferred[Any]]] = []

    def run(self, function: Callable[..., Any], work: Any, *args: Any) -> Deferred[Any]:
        """Keep it."""
        done: Deferred[Any] = Deferred()
        self.batches.append(([item.waiting.auth.id for item in work], done))
        return done


class OrderTests(SynchronousTestCase):
    """A master whose two threads are busy while others come."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.threads = Held()
        self.signins = SignIns(self.rig.ctx, self.rig.identity, self.threads)  # type: ignore[arg-type]
        self.pub = key("minion").public.pem

    def come(self, minion_id: str, session: bool = False, known: bool = True) -> None:
        """A minion signs in."""
        ctx = self.rig.ctx
        if known:
            ctx.keys.put("accepted", minion_id, self.pub.encode())
        if session:
            ctx.sessions.live()[minion_id] = ctx.sessions.sign_in(minion_id, self.pub.encode())  # type: ignore[assignment]
        auth = parse_command({"cmd": "_auth", "id": minion_id, "pub": self.pub}, clear=True)
        assert isinstance(auth, Auth)
        self.signins.submit(auth, 3, "peer", lambda reply: None)

    def test_in_one(self) -> None:
        """
        The keys of one batch are written as one: a cluster makes one entry of them, and they are
        made durable together.
        """
        durable: list[list[str]] = []

        @contextmanager
        def group() -> Iterator[None]:
            durable.append([])
            yield

        groups: list[list[str]] = []

        @contextmanager
        def together() -> Iterator[None]:
            groups.append([])
            yield

        ctx = self.rig.ctx
        for number in (1, 2):
            self.come(f"busy{number}")
        ctx.keys.on_change(lambda minion_id, old, new: groups[-1].append(minion_id))
        ctx.keys.on_change(lambda minion_id, old, new: durable[-1].append(minion_id))
        self.patch(ctx.seams.key_changes, "in_one", together)
        self.patch(ctx.keys, "together", group)
        for number in range(BATCH):
            self.come(f"new{number}", known=False)

        self.threads.batches[0][1].callback(None)

        self.assertEqual(groups, [[f"new{number}" for number in range(BATCH)]])
        self.assertEqual(durable, groups)

    def test_new_key_has_a_session(self) -> None:
        """
        A session comes from an acceptance that is in the log: a minion whose key is new is let in,
        not turned away, where a batch of keys becomes one entry at its end.
        """
        logged = False

        @contextmanager
        def together() -> Iterator[None]:
            nonlocal logged
            yield
            logged = True

        self.rig = Rig(self, auto_accept=True)
        self.signins = SignIns(self.rig.ctx, self.rig.identity, self.threads)  # type: ignore[arg-type]
        ctx = self.rig.ctx
        sign_in = ctx.sessions.sign_in
        self.patch(ctx.seams.key_changes, "in_one", together)
        self.patch(ctx.sessions, "sign_in", lambda *args: sign_in(*args) if logged else None)

        self.come("web1", known=False)

        self.assertEqual([ids for ids, _ in self.threads.batches], [["web1"]])
        self.assertFalse(self.signins.settled())
        self.assertEqual(ctx.counters["refused:weak-key"], 0)

    def test_looks_at_the_disk(self) -> None:
        """
        A sign-in asks the disk for a key once in each place, and not while it is put into a queue;
        one that is new also for what it has become.
        """
        self.rig = Rig(self, auto_accept=True)
        self.signins = SignIns(self.rig.ctx, self.rig.identity, self.threads)  # type: ignore[arg-type]
        looked: list[str] = []
        original = os.lstat

        def lstat(path: str) -> os.stat_result:
            looked.append(os.path.basename(os.path.dirname(path)))
            return original(path)

        self.patch(os, "lstat", lstat)
        for places in (
            ["minions_rejected", "minions", "minions_pre", "minions", "minions"],
            ["minions_rejected", "minions", "minions"],
        ):
            looked.clear()
            self.come("web1", known=False)
            self.assertEqual(looked, places)

    def test_order(self) -> None:
        """
        Who comes again before those that only lack the new publish key, strangers last; and yet
        of each eight places one is theirs, and one the others'.
        """
        for number in (1, 2):
            self.come(f"busy{number}")
        for number in range(2 * BATCH):
            self.come(f"again{number}", session=True)
        for number in range(BATCH):
            self.come(f"new{number}")
        self.come("stranger", known=False)
        self.assertEqual([ids for ids, _ in self.threads.batches], [["busy1"], ["busy2"]])
        self.assertEqual(self.signins.waiting(), 3 * BATCH + 1)
        self.assertFalse(self.signins.settled())

        self.threads.batches[0][1].callback(None)

        first = self.threads.batches[2][0]
        self.assertEqual(len(first), BATCH)
        kinds = [name.rstrip("0123456789") for name in first[:PLACES]]
        self.assertEqual(sorted(kinds), ["again"] + ["new"] * (PLACES - 2) + ["stranger"])

    def test_disk_takes_long(self) -> None:
        """A batch is smaller where its keys take long to write: others are not kept waiting."""
        used = 0.0

        def written(minion_id: str, old: str, new: str) -> None:
            nonlocal used
            used += 0.001

        for number in (1, 2):
            self.come(f"busy{number}")
        self.rig.ctx.keys.on_change(written)
        self.patch(turns, "PORTION", 0.002)
        self.patch(signins, "thread_time", lambda: used)
        for number in range(BATCH):
            self.come(f"new{number}", known=False)

        self.threads.batches[0][1].callback(None)

        self.assertEqual([ids for ids, _ in self.threads.batches[2:]], [["new0", "new1", "new2"]])

    def test_settled(self) -> None:
        """A change of the publish key waits for accepted minions until they have their answers."""
        for number in range(4 * BATCH):
            self.come(f"stranger{number}", known=False)
        self.assertTrue(self.signins.settled())
        self.come("web1")
        self.assertFalse(self.signins.settled())
        served = 0
        while "web1" not in self.threads.batches[served][0]:
            self.threads.batches[served][1].callback(None)
            served += 1
        self.assertFalse(self.signins.settled())
        self.threads.batches[served][1].callback(None)

        self.assertTrue(self.signins.settled())
        self.assertGreater(len(self.threads.batches), served)

    def test_all_are_served(self) -> None:
        """Nobody is forgotten, and who asks twice is answered once."""
        names = [f"m{number}" for number in range(2 * BATCH)]
        for name in names:
            self.come(name, session=name.endswith("1"))
        for name in names[2:]:
            self.come(name, session=name.endswith("1"))
        served = 0
        while served < len(self.threads.batches):
            self.threads.batches[served][1].callback(None)
            served += 1
        everybody = [name for ids, _ in self.threads.batches for name in ids]

        self.assertEqual(sorted(everybody), sorted(names))
        self.assertTrue(self.signins.settled())

    def test_paced(self) -> None:
        """
        Of many that only lack the new publish key a few come at once and the others at a bounded
        rate, while one that comes again is taken at once; who repeats keeps its place.
        """
        names = [f"again{number:03}" for number in range(400)]
        for name in names:
            self.come(name, session=True)
        self.serve()
        self.assertEqual(len(self.served()), BURST)

        self.come("new")
        self.serve()
        self.assertEqual(self.served()[-1], "new")
        self.come(names[20], session=True)
        self.rig.clock.advance(0.1)
        self.serve()
        self.assertLessEqual(len(self.served()), 2 * BURST + 1)
        for _ in range(250):
            self.rig.clock.advance(0.01)
            self.serve()

        again = [name for name in self.served() if name != "new"]
        self.assertEqual(sorted(again), names)
        self.assertLess(again.index(names[20]), again.index(names[60]))
        self.assertTrue(self.signins.settled())

    def served(self) -> list[str]:
        """Whose answers were made, in order."""
        return [name for ids, _ in self.threads.batches for name in ids]

    def serve(self) -> None:
        """The threads do what they were given, also what follows from that."""
        # It grows while it is gone through
        for _, done in self.threads.batches:
            if not done.called:
                done.callback(None)


class PatienceTests(SynchronousTestCase):
    """Minions whose keys are pending, and that would rather wait than be told so again."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.threads = Held()
        self.signins = SignIns(self.rig.ctx, self.rig.identity, self.threads)  # type: ignore[arg-type]
        self.signins.startService()
        self.addCleanup(self.signins.stopService)
        self.pub = key("minion").public.pem

    def come(self, minion_id: str, patience: object = 10, peer: str = "peer") -> None:
        """A minion signs in."""
        load = {"cmd": "_auth", "id": minion_id, "pub": self.pub, "patience": patience}
        auth = parse_command(load, clear=True)
        assert isinstance(auth, Auth)
        self.signins.submit(auth, 3, peer, lambda reply: None)

    def served(self) -> list[str]:
        """Whose answers were made, in order; the threads are ready for more."""
        for _, done in self.threads.batches:
            if not done.called:
                done.callback(None)
        return [name for ids, _ in self.threads.batches for name in ids]

    def test_wakes(self) -> None:
        """Who waits is answered as soon as its key is accepted, and the others wait on."""
        self.come("one")
        self.come("two")
        self.rig.clock.advance(3)
        self.rig.ctx.keys.put("denied", "one", b"another")
        self.rig.clock.advance(0)
        self.assertEqual(self.served(), [])

        self.rig.ctx.keys.move("one", "pending", "accepted")
        self.rig.clock.advance(0)

        self.assertEqual(self.served(), ["one"])
        self.assertIn("one", self.rig.ctx.sessions.live())

    def test_patience_ends(self) -> None:
        """Who waits in vain is told after its time, and no wait is longer than ours."""
        self.come("one", 4)
        self.come("two", float("inf"))
        self.rig.clock.advance(4)
        self.assertEqual(self.served(), ["one"])

        self.rig.clock.advance(HELD_FOR)

        self.assertEqual(self.served(), ["one", "two"])
        self.assertTrue(self.signins.settled())

    def test_no_patience(self) -> None:
        """Who asks for no wait, or for nonsense, is answered at once."""
        for number, patience in enumerate((0, -1, float("nan"))):
            self.come(f"m{number}", patience)

        self.assertEqual(self.served(), ["m0", "m1", "m2"])

    def test_bounded(self) -> None:
        """
        One answer is kept of an id, and of all ids no more than a bound: who comes then is told at
        once, and holds nothing.
        """
        self.patch(signins, "HELD", 3)
        self.come("m0", peer="a")
        self.come("m0", peer="b")
        self.assertEqual(self.served(), ["m0"])

        for number in range(1, 6):
            self.come(f"m{number}")

        self.assertEqual(self.served(), ["m0", "m3", "m4", "m5"])
        self.signins.stopService()
        self.assertEqual(self.rig.clock.getDelayedCalls(), [])


class LargeSignInTests(SynchronousTestCase):
    """Sign-ins of strangers that are larger than any minion's."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.threads = Held()
        self.signins = SignIns(self.rig.ctx, self.rig.identity, self.threads)  # type: ignore[arg-type]
        self.signins.startService()
        self.addCleanup(self.signins.stopService)
        self.pub = key("minion").public.pem

    def come(self, minion_id: str, size: int, patience: float = 0.0) -> None:
        """One that came in so many bytes."""
        load = {"cmd": "_auth", "id": minion_id, "pub": self.pub, "patience": patience}
        auth = parse_command(load, clear=True)
        assert isinstance(auth, Auth)
        self.signins.submit(auth, 3, "1.2.3.4", lambda reply: None, size)

    def test_T_MEM_1_size(self) -> None:
        """A sign-in that is larger than any can be is refused before anything is kept."""
        with self.assertRaises(WireError) as caught:
            self.come("web1", SIGN_INS.request + 1)

        self.assertEqual(caught.exception.reason, "signin-size")
        self.assertEqual(self.signins.waiting(), 0)

    def test_T_MEM_1_all(self) -> None:
        """Large ones share a bound, while ordinary ones still come in; answered ones free it."""
        most = UNUSUAL_ALL // SIGN_INS.request
        for number in range(most):
            self.come(f"large{number}", SIGN_INS.request)
        with self.assertRaises(WireError) as caught:
            self.come("large", SIGN_INS.request)
        self.assertEqual(caught.exception.reason, "signin-queue-full")
        self.come("small", USUAL)

        while self.threads.batches:
            self.threads.batches.pop(0)[1].callback(None)
        self.come("large", SIGN_INS.request)

    def test_T_MEM_1_again(self) -> None:
        """Who asks again and again, or waits for an acceptance, counts once."""
        for _ in range(3 * UNUSUAL_ALL // SIGN_INS.request):
            self.come("web1", SIGN_INS.request, patience=30.0)
            while self.threads.batches:
                self.threads.batches.pop(0)[1].callback(None)
