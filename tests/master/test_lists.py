"""
Long lists of names: made once for all who ask, and not for all of them in one turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.master import lists
from saltwisted.master.replies import Packed
from saltwisted.stores.roots import joined, tree
from saltwisted.stores.roots.tree import Listing, both
from saltwisted.transports import turns
from saltwisted.wire import envelope
from saltwisted.wire.crypticle import open_sealed
from saltwisted.wire.msgpack import pack, unpack, unpack_raw
from tests.master.rig import Rig, RigMinion
from tests.master.test_automation_turns import Counting, one_turn

NAMES = tuple(sorted(f"d{n % 100:02}/f{n:05}.txt" for n in range(10_000)))


class PackedTests(SynchronousTestCase):
    """What a list is on the wire."""

    def packed(self, names: tuple[str, ...], again: bool = True) -> Any:
        """A list by its own name."""
        return self.successResultOf(
            maybeDeferred(lists.Lists(maybeDeferred).packed, "base", names, again)
        )

    def test_same(self) -> None:
        """However many names there are and wherever they are packed, the bytes are the same."""
        self.patch(lists, "AT_ONCE", 1500)
        for count in (0, 1, 500, 501, 1500, 1501, 2000, 2001, 2016, 10_000, 70_000):
            names = tuple(f"{n:05}ü" for n in range(count))
            for again in (True, False):
                value = self.packed(names, again)
                packed = value.packed if isinstance(value, Packed) else pack(value)
                self.assertEqual(packed, pack(names), (count, again))

    def test_links(self) -> None:
        """T-COST-2: very many links are packed in a thread, and are the same map."""
        links = {f"{n:05}\u00fc": "t" * (n % 40) for n in range(3000)}
        for prefix in ("", "000", "0001", "1"):
            some = {name: each for name, each in links.items() if name.startswith(prefix)}
            self.assertEqual(unpack(lists.packed_links(prefix, links)), some)

    def test_once(self) -> None:
        """The same names are packed once, others of the same environment anew."""
        counting = Counting(pack)
        self.patch(lists, "pack", counting)
        kept = lists.Lists(maybeDeferred)
        first = [kept.packed("base", NAMES) for _ in range(8)]
        once = counting.taken()
        changed = kept.packed("base", (*NAMES, "z"))

        self.assertEqual(once, 1)
        self.assertTrue(all(each is first[0] for each in first))
        self.assertEqual(unpack(changed.packed), [*NAMES, "z"])  # type: ignore[union-attr]

    def test_bounded(self) -> None:
        """Of many lists the last ones are kept, and one that is larger than all may be."""
        self.patch(lists, "KEPT", 400_000)
        counting = Counting(pack)
        self.patch(lists, "pack", counting)
        kept = lists.Lists(maybeDeferred)
        several = {name: tuple(f"{name}/{each}" for each in NAMES) for name in "abc"}
        for name in "aabbccaac":
            kept.packed(name, several[name])

        self.assertEqual(counting.taken(), 4)

    def test_in_thread(self) -> None:
        """Very many names are packed in a thread, once for all who ask meanwhile."""
        self.patch(lists, "AT_ONCE", 9999)
        asked: list[tuple[Any, ...]] = []
        done: Deferred[Any] = Deferred()
        kept = lists.Lists(lambda *call: asked.append(call) or done)  # type: ignore[func-returns-value]
        waiting: Any = [kept.packed("base", NAMES) for _ in range(3)]
        ((function, names),) = asked

        done.callback(function(names))

        self.assertEqual(
            [self.successResultOf(each) for each in waiting], [Packed(pack(NAMES))] * 3
        )
        self.assertEqual(kept.packed("base", NAMES), Packed(pack(NAMES)))

    def test_prefix(self) -> None:
        """A prefix is compared as text."""
        for prefix in ("", "d", "d0", "d07/", "d07/f00007.txt", "a", "z", "d07/f000071"):
            said = tuple(name for name in NAMES if name.startswith(prefix))
            self.assertEqual(lists.beginning_with(prefix, NAMES), said, prefix)


class JoinedTests(SynchronousTestCase):
    """Lists of several sources."""

    def test_once(self) -> None:
        """The lists of two sources are joined once; when one of them is another, anew."""
        counting = Counting(both)
        kept = joined.Joined(counting, maybeDeferred)
        one, other = Listing(("top.sls",)), Listing(NAMES)
        first: Any = [kept.of("base", [one, other]) for _ in range(3)]
        taken = counting.taken()
        changed: Any = kept.of("base", [Listing(("a.sls",)), other])

        self.assertEqual(taken, 1)
        self.assertEqual(first[0].files, (*NAMES, "top.sls"))
        self.assertEqual(changed.files, ("a.sls", *NAMES))
        self.assertIs(kept.of("base", [Listing(), other]), other)
        self.assertEqual(kept.of("base", []), Listing())

    def test_in_thread(self) -> None:
        """
        Very many names are put together in a thread, once for all who ask meanwhile; the newest
        lists count, and one that cannot be made is made anew.
        """
        self.patch(joined, "AT_ONCE", 99)
        self.patch(tree, "AT_ONCE", 99)
        asked: list[tuple[Any, ...]] = []
        ended: list[Deferred[Any]] = []

        def run(function: Any, *args: Any) -> Any:
            asked.append((function, *args))
            ended.append(Deferred())
            return ended[-1].addCallback(lambda _: function(*args))

        kept = joined.Joined(both, run)
        one, other = Listing(("a", NAMES[7], "top.sls"), ("x",)), Listing(NAMES, ("x", "y"))
        waiting: Any = [kept.of("base", [one, other]) for _ in range(3)]
        self.assertEqual(len(asked), 1)
        newer: Any = kept.of("base", [Listing(("b",)), other])
        self.assertEqual(len(asked), 2)
        for each in ended:
            each.callback(None)

        for each in waiting:
            found = self.successResultOf(each)
            self.assertEqual(found.files, tuple(sorted({"a", "top.sls", *NAMES})))
            self.assertEqual(found.dirs, ("x", "y"))
        self.assertEqual(self.successResultOf(newer).files, tuple(sorted(("b", *NAMES))))
        again: Any = kept.of("base", [Listing(("c",)), other])
        ended[-1].errback(StoreError("cannot"))
        self.failureResultOf(again, StoreError)
        kept.of("base", [Listing(("c",)), other])
        self.assertEqual(len(asked), 4)

    def test_order(self) -> None:
        """Names that are sorted in runs are as others."""
        self.patch(tree, "AT_ONCE", 10)
        self.patch(tree, "RUN", 7)

        self.assertEqual(tree.in_order(set(NAMES)), NAMES)
        self.assertEqual(tree.in_order(()), ())


class WaitingTests(SynchronousTestCase):
    """Eight minions ask for a list that is not there yet."""

    def setUp(self) -> None:
        self.rig = Rig(self)
        self.walked: Deferred[Any] = Deferred()
        roots: Any = self.rig.ctx.files._sources["roots"]
        roots.run = lambda *call: self.walked
        self.minions = [RigMinion(self.rig, f"web{n}").accepted() for n in range(8)]
        self.nonces = [minion.nonce() for minion in self.minions]
        load = {"cmd": "_file_list", "saltenv": "base"}
        self.replies = [
            self.rig.ask(minion.frame(load, nonce=nonce))
            for minion, nonce in zip(self.minions, self.nonces, strict=True)
        ]

    def come(self) -> None:
        """It is there."""
        self.walked.callback((Listing(NAMES), {self.rig.root: 1}))

    def test_turns(self) -> None:
        """They are answered in turns, and the list is packed once."""
        self.patch(turns, "PORTION", -1.0)
        counting = Counting(pack)
        self.patch(lists, "pack", counting)
        self.come()
        had = [sum(map(len, self.replies))]
        while had[-1] < 8:
            one_turn(self.rig.clock)
            had.append(sum(map(len, self.replies)))

        self.assertEqual(had, [0, 1, 2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(counting.taken(), 1)

    def test_sealed_in_thread(self) -> None:
        """What is large is sealed in a thread."""
        in_thread: list[Callable[..., Any]] = []
        run = self.rig.ctx.pool

        def pool(function: Callable[..., Any], *args: Any) -> Any:
            in_thread.append(function)
            return run(function, *args)

        object.__setattr__(self.rig.ctx, "pool", pool)
        self.come()

        self.assertEqual(in_thread, [envelope.encode_sealed_packed] * 8)
        rows = zip(self.minions, self.nonces, self.replies, strict=True)
        for minion, nonce, (reply,) in rows:
            assert minion.session is not None
            opened = open_sealed(minion.session, unpack_raw(reply), nonce)
            self.assertEqual(opened, list(NAMES))

    def test_closed(self) -> None:
        """When the master stops, those who stand in line are answered."""
        self.patch(turns, "PORTION", -1.0)
        self.come()
        self.rig.requests.close()

        self.assertEqual([len(each) for each in self.replies], [1] * 8)
        self.assertEqual(self.rig.clock.getDelayedCalls(), [])
