"""
The machine that ships a log, with logs in memory and messages carried by hand.
"""

from __future__ import annotations

from random import Random
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.causality.knowledge import covers
from saltwisted.domain.replica import giving
from saltwisted.domain.replica.asking import (
    GRACE_SECONDS,
    WANT_SECONDS,
)
from saltwisted.domain.replica.book import Book
from saltwisted.domain.replica.effects import (
    BATCH_BYTES,
    Differs,
    Doubted,
    Effect,
    Forget,
    Merge,
    MergeFacts,
    MergeState,
    Read,
    Renew,
    Send,
    SendState,
    TooFarBehind,
    TooManyStreams,
)
from saltwisted.domain.replica.entry import Entry, Stream, sized
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.giving import (
    WINDOW_BYTES,
)
from saltwisted.domain.replica.keyset import KIND, KeySet
from saltwisted.domain.replica.setback import (
    AGAIN_SECONDS,
    MOST_RENEWALS,
)
from saltwisted.domain.replica.ship import (
    MOST_UNKNOWN,
    Shipper,
)
from saltwisted.domain.replica.words import (
    NOTHING,
    Entries,
    Hello,
    Known,
    StatePart,
    decode,
    encode,
    in_parts,
    state_parts,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin

PUB = b"a key\n"


class Node:
    """
    A log, its machine, and what it has said.

    @ivar blind: its disk gives no entries.
    @ivar full: its disk takes nothing of others.
    @ivar late: and has not said so yet.
    @ivar mute: it sends no state.
    """

    def __init__(self, net: Net, name: str) -> None:
        self.net = net
        self.name = name
        self.begin("0" * 15 + str(len(net.nodes)))
        net.nodes[name] = self

    def begin(self, incarnation: str) -> None:
        """With nothing."""
        self.keys = KeySet()
        self.book = Book(self.name, incarnation, Folds([self.keys]))
        self.entries: dict[tuple[Stream, int], Entry] = {}
        self.machine = Shipper(self.name, self.book, Random(1))
        self.said: list[Effect] = []
        self.sent_bytes = 0
        self.blind = self.full = self.late = self.mute = False

    def accept(self, minion_id: str, size: int = 0) -> Entry:
        """Something new here."""
        body = self.keys.act("accept", minion_id, PUB, by="x" * size)
        entry = self.book.append(KIND, body, self.net.now)
        self.entries[entry.stream, entry.number] = entry
        self.book.written([entry])
        self.do(self.machine.stored([entry], "", self.net.now))
        return entry

    def since(self, after: Any, limit: int) -> list[Entry]:
        """As a log gives it."""
        found: list[Entry] = []
        for stream, last in sorted(self.book.knowledge().items()):
            numbers = range(after.get(stream, 0) + 1, last + 1)
            found += [self.entries[stream, number] for number in numbers]
        return list(sized(found, limit))

    def do(self, effects: list[Effect]) -> None:
        """What a driver does."""
        self.said += effects
        machine, now = self.machine, self.net.now
        for effect in effects:
            if isinstance(effect, Send):
                message = effect.message + effect.tail
                self.sent_bytes += len(message)
                self.net.carry(self.name, effect.peer, message)
            elif isinstance(effect, Read):
                entries = [] if self.blind else self.since(effect.after, effect.limit)
                self.do(machine.read(effect.peer, entries, now))
            elif isinstance(effect, Merge) and self.full:
                if not self.late:
                    self.do(machine.unstored(now))
            elif isinstance(effect, Merge):
                new = self.book.take(effect.entries)
                for entry in new:
                    self.entries[entry.stream, entry.number] = entry
                self.book.merged(new, now)
                self.do(machine.stored(new, effect.peer, now))
            elif isinstance(effect, SendState) and self.mute:
                continue
            elif isinstance(effect, SendState):
                knowledge = self.book.knowledge()
                parts = list(state_parts(self.book.folds.dump(), 500))
                for index, part in enumerate(parts):
                    last = knowledge if index == len(parts) - 1 else None
                    self.net.carry(self.name, effect.peer, encode(StatePart(index, part, last)))
            elif isinstance(effect, MergeState):
                self.book.merged_facts(effect.facts, effect.knowledge, now)
                if effect.knowledge is not None:
                    self.do(machine.state_stored(effect.peer, now))
            elif isinstance(effect, MergeFacts):
                self.book.folds.apply_facts(effect.facts)
            elif isinstance(effect, Forget):
                self.book.raise_forgotten(effect.ignored)
            elif isinstance(effect, Renew) and self.full:
                self.do(machine.unrenewed(effect.peer, now))
            elif isinstance(effect, Renew):
                self.renew()

    def renew(self) -> None:
        """A new incarnation."""
        old, kept = self.book.renew("f" * 16)
        lost = [e for (s, n), e in sorted(self.entries.items()) if s == old and n > kept]
        for entry in lost:
            del self.entries[old, entry.number]
        again = [self.book.append(e.kind, e.fields(), self.net.now, e.stamp) for e in lost]
        for entry in again:
            self.entries[entry.stream, entry.number] = entry
        self.book.written(again)
        self.do(self.machine.renewed(self.net.now))

    def drop(self, keep: int) -> None:
        """Keep only the newest entries one by one."""
        floor = {s: n - keep for s, n in self.book.knowledge().items() if n > keep}
        self.book.raise_floor(floor)
        self.entries = {(s, n): e for (s, n), e in self.entries.items() if n > floor.get(s, 0)}

    def count(self, kind: type) -> int:
        """How often it has had such an effect."""
        return sum(isinstance(effect, kind) for effect in self.said)


class Net:
    """Links that carry in order, when told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.nodes: dict[str, Node] = {}
        self.links: set[frozenset[str]] = set()
        self.waiting: list[tuple[str, str, bytes]] = []
        self.silent: set[str] = set()

    def link(self, one: str, other: str) -> None:
        """Link two, and let them talk."""
        self.links.add(frozenset((one, other)))
        for node, peer in ((one, other), (other, one)):
            self.nodes[node].do(self.nodes[node].machine.connected(peer, self.now))
        self.run()

    def cut(self, one: str, other: str) -> None:
        """End a link."""
        self.links.discard(frozenset((one, other)))
        for node, peer in ((one, other), (other, one)):
            self.nodes[node].do(self.nodes[node].machine.disconnected(peer, self.now))

    def carry(self, one: str, other: str, message: bytes) -> None:
        if frozenset((one, other)) in self.links:
            self.waiting.append((one, other, message))

    def run(self) -> None:
        """Until nobody says anything; who is silent reads nothing."""
        held = []
        while self.waiting:
            one, other, message = self.waiting.pop(0)
            if other in self.silent:
                held.append((one, other, message))
            elif frozenset((one, other)) in self.links:
                node = self.nodes[other]
                node.do(node.machine.received(one, message, self.now))
        self.waiting = held

    def pass_time(self, seconds: float) -> None:
        """With all that is due meanwhile."""
        end = self.now + seconds
        while True:
            self.run()
            due = min(node.machine.due() for node in self.nodes.values())
            if due > end:
                break
            self.now = max(self.now, due)
            for node in self.nodes.values():
                if node.machine.due() <= self.now:
                    node.do(node.machine.tick(self.now))
        self.now = end


class ShipTests(SynchronousTestCase):
    def net(self, names: str) -> list[Node]:
        self.world = Net()
        return [Node(self.world, name) for name in names]

    def same(self, *nodes: Node) -> None:
        for node in nodes:
            self.assertEqual(node.book.knowledge(), nodes[0].book.knowledge(), node.name)
            self.assertEqual(node.book.digests(), nodes[0].book.digests(), node.name)

    def test_pushed_at_once(self) -> None:
        """What is new on one node is on the other without a tick, and acknowledged."""
        a, b = self.net("ab")
        self.world.link("a", "b")

        entry = a.accept("m1")
        self.world.run()

        self.same(a, b)
        self.assertEqual(a.machine.peers.confirmed_by(entry.stream, entry.number), ["b"])
        self.assertEqual(a.machine.peers.confirmed(), 1)
        self.assertEqual(a.machine.peers.lag("b"), 0)

    def test_packed_once(self) -> None:
        """What several peers are given at once is packed once, and kept no longer."""
        a, b, c = self.net("abc")
        for other in "bc":
            self.world.link("a", other)
        self.world.run()
        packed: list[Any] = []

        def counted(entries: Any) -> Any:
            packed.append(entries)
            return in_parts(entries)

        self.patch(giving, "in_parts", counted)
        for number in (1, 2):
            a.accept(f"m{number}", 100_000)
            self.world.run()
            self.same(a, b, c)
            self.assertEqual(len(packed), number)
        self.assertEqual(a.machine._giving._packed, ((), NOTHING))

    def test_long_entry(self) -> None:
        """
        The body of a long entry is neither copied where it is sent nor where it is read; the bytes
        between the nodes are those of any other message.
        """
        stream = Stream("a", "0" * 16)
        body = pack_bin({"load": b"x" * 100_000})
        entry = Entry(stream, 7, 1, "return", body)
        head, tail = in_parts([entry])
        self.assertIs(tail, body)
        message = head + tail
        self.assertEqual(message, encode(Entries([entry])))

        (found,) = cast(Entries, decode(message)).entries
        self.assertEqual(found, entry)
        view = cast(memoryview, found.body)
        self.assertIs(view.obj, message)
        self.assertEqual(dict(found.fields()), dict(entry.fields()))
        self.assertEqual(bytes(found.views()["load"]), b"x" * 100_000)
        self.assertEqual(b"".join(in_parts([found])), message)

        short = Entry(stream, 8, 1, "return", b"\x80")
        for entries in ([short], [short, entry], [entry, short], []):
            parts = in_parts(entries)
            self.assertEqual(b"".join(parts), encode(Entries(entries)))
            self.assertEqual(cast(Entries, decode(b"".join(parts))).entries, entries)

    def test_long_and_odd(self) -> None:
        """What only looks like a long entry is read as any other message, or is none."""
        entry = [["a", "0" * 16, 1, [[1, "return", b"x" * 100_000]]]]
        for odd in (
            {"w": "entries", "e": entry, "x": b"y" * 100_000},
            {"e": entry, "w": "entries"},
            {"w": "entries", "e": entry * 2},
        ):
            found = cast(Entries, decode(pack_bin(odd))).entries
            self.assertEqual({bytes(each.body) for each in found}, {b"x" * 100_000})
        for bad in (
            {"w": "entries", "e": [["a", "0" * 16, 0, entry[0][3]]]},
            {"w": "entries", "e": [["a", "0" * 16, 1, [[1, 2, b"x" * 100_000]]]]},
            {"w": "known", "k": b"x" * 100_000},
            b"x" * 100_000,
        ):
            self.assertRaises(WireError, decode, pack_bin(bad))

    def test_lacks(self) -> None:
        """Of a peer that is away it is known what it has missed since."""
        a, b = self.net("ab")
        self.assertIsNone(a.machine.peers.lacks("b"))
        self.world.link("a", "b")
        a.accept("m1")
        self.world.run()
        self.assertEqual(a.machine.peers.lacks("b"), 0)

        self.world.cut("a", "b")
        a.accept("m2")
        a.accept("m3")
        self.world.run()

        self.assertIsNone(a.machine.peers.lag("b"))
        self.assertEqual(a.machine.peers.lacks("b"), 2)
        self.world.link("a", "b")
        self.world.run()
        self.same(a, b)
        self.assertEqual(a.machine.peers.lacks("b"), 0)

    def test_caught_up(self) -> None:
        """Who was away gets what he missed, and knows when he has it."""
        a, b = self.net("ab")
        for number in range(20):
            a.accept(f"m{number}")
        self.assertIsNone(a.machine.peers.lag("b"))

        self.world.link("a", "b")

        self.same(a, b)
        self.assertTrue(b.machine.peers.caught_up_with("a"))

    def test_heard(self) -> None:
        """Who has all that a peer knew when it came has heard it, also when that is gone again."""
        a, b, c = self.net("abc")
        a.accept("m1")
        self.world.link("a", "b")
        self.assertEqual(b.machine.caught_up, {"a"})
        self.world.cut("a", "b")
        a.accept("m2")

        c.do(c.machine.connected("a", self.world.now))
        hello = Hello(a.book.knowledge(), {}, {})
        c.do(c.machine.received("a", encode(hello), self.world.now))

        # It has said what it knows, which is not here
        self.assertEqual(c.machine.caught_up, set())
        self.assertEqual(b.machine.caught_up, {"a"})

    def test_relayed(self) -> None:
        """What a says reaches b by way of c within a fraction of a second, and once."""
        a, b, c = self.net("abc")
        self.world.link("a", "c")
        self.world.link("b", "c")

        a.accept("m1")
        self.world.pass_time(0.3)

        self.same(a, b, c)
        self.assertEqual(b.count(Merge), 1)

    def test_not_twice(self) -> None:
        """Where all are linked, an entry travels each way once: nobody relays it."""
        a, b, c = self.net("abc")
        for pair in ("ab", "bc", "ac"):
            self.world.link(*pair)
        self.world.pass_time(1)
        before = {node: node.sent_bytes for node in (a, b, c)}

        a.accept("m1", size=100)
        self.world.pass_time(5)

        self.same(a, b, c)
        self.assertEqual((b.count(Read), c.count(Read)), (0, 0))
        self.assertLess(b.sent_bytes - before[b], 300)

    def test_silent_origin(self) -> None:
        """When the node where it arose says nothing, another is asked after a second."""
        a, b, c = self.net("abc")
        self.world.link("a", "c")
        self.world.link("b", "c")
        self.world.links.add(frozenset("ab"))
        for node, peer in ((a, "b"), (b, "a")):
            node.do(node.machine.connected(peer, self.world.now))
        self.world.run()
        self.world.links.discard(frozenset("ab"))  # they do not know it yet

        a.accept("m1")
        self.world.pass_time(0.9)
        self.assertEqual(b.book.knowledge(), {})
        self.world.pass_time(0.5)

        self.same(a, b, c)

    def givers(self, names: str) -> list[Node]:
        """Node a has said something to these, and not to x, which is not linked to a."""
        a, x, *others = self.net("ax" + names)
        for other in others:
            self.world.link("a", other.name)
        a.accept("m1")
        self.world.run()
        return [a, x, *others]

    def test_giver_that_cannot_read(self) -> None:
        """Who was asked and gave nothing is asked after all others: its disk may have erred."""
        a, x, c, d, e = self.givers("cde")
        d.blind = e.blind = True
        for name in "edc":
            self.world.link("x", name)

        self.world.pass_time(2 * WANT_SECONDS + 1)

        self.same(a, x, c)

    def test_giver_that_repeats(self) -> None:
        """Who sends again and again what is here makes no progress."""
        a, x, _, d = self.givers("cd")
        self.world.link("x", "d")
        self.same(a, x)
        d.blind = True
        a.accept("m2")
        self.world.run()
        self.world.pass_time(1)
        self.world.link("x", "c")
        old = encode(Entries([next(iter(x.entries.values()))]))
        for _ in range(4):
            self.world.pass_time(WANT_SECONDS / 2)
            x.do(x.machine.received("d", old, self.world.now))

        self.same(a, x)

    def test_all_blind(self) -> None:
        """All are asked in turn, and one that can read again is found without a new link."""
        a, b, c, d = self.net("abcd")
        for pair in ("ac", "ad"):
            self.world.link(*pair)
        a.accept("m1")
        self.world.run()
        c.blind = d.blind = True
        self.world.link("b", "c")
        self.world.link("b", "d")
        self.world.pass_time(8 * WANT_SECONDS)
        self.assertGreater(min(c.count(Read), d.count(Read)), 1)
        c.blind = False

        self.world.pass_time(3 * WANT_SECONDS)

        self.same(a, b)

    def test_state_of_another(self) -> None:
        """A whole state that one peer does not send is asked of the next."""
        a, b, c, d = self.net("abcd")
        for pair in ("ac", "ad"):
            self.world.link(*pair)
        for number in range(30):
            a.accept(f"m{number}")
        self.world.run()
        c.drop(5)
        d.drop(5)
        c.mute = True
        self.world.link("b", "c")
        self.world.link("b", "d")

        self.world.pass_time(2 * WANT_SECONDS + 1)

        self.same(a, b)
        self.assertEqual((c.count(SendState), d.count(SendState)), (1, 1))

    def test_fails_late(self) -> None:
        """What a disk has refused after a while is asked for, though nobody says anything."""
        a, b = self.net("ab")
        self.world.link("a", "b")
        b.full = True
        b.late = True
        a.accept("m1")
        self.world.pass_time(1)
        b.full = False

        b.do(b.machine.unstored(self.world.now))
        self.world.pass_time(GRACE_SECONDS + 0.5)

        self.same(a, b)

    def test_disk_takes_nothing(self) -> None:
        """What a full disk has refused is asked for again within seconds, and not at each turn."""
        a, b = self.net("ab")
        self.world.link("a", "b")
        b.full = True
        a.accept("m1")
        self.world.pass_time(20)
        self.assertLess(b.count(Merge), 10)
        b.full = False

        self.world.pass_time(WANT_SECONDS + GRACE_SECONDS + 1)

        self.same(a, b)

    def test_renewal_fails(self) -> None:
        """A new incarnation that the disk has refused is tried again, and at its own pace."""
        a, b = self.net("ab")
        for number in range(5):
            a.accept(f"old{number}")
        self.world.link("a", "b")
        self.world.cut("a", "b")
        a.begin(a.book.stream.incarnation)
        a.accept("new")
        a.full = True
        self.world.link("a", "b")
        self.world.pass_time(100)
        self.assertGreater(a.count(Renew), 10)
        self.assertLess(a.count(Renew), 100 / AGAIN_SECONDS + 2)
        self.assertEqual(a.count(Doubted), 0)
        a.full = False

        self.world.pass_time(AGAIN_SECONDS + 2)

        self.same(a, b)
        names = {register.minion_id for register in a.keys.registers.values()}
        self.assertEqual(names, {*(f"old{n}" for n in range(5)), "new"})

    def test_slow_peer(self) -> None:
        """What is on the way to a peer that does not read is bounded; only its lag grows."""
        a, b, c = self.net("abc")
        self.world.link("a", "b")
        self.world.link("a", "c")
        self.world.silent.add("b")
        for number in range(400):
            a.accept(f"m{number}", size=190 + 8000)
            self.world.run()
        waiting = sum(len(m) for _, other, m in self.world.waiting if other == "b")

        self.assertLess(waiting, WINDOW_BYTES + 2 * BATCH_BYTES)
        self.assertGreater(a.machine.peers.lag("b") or 0, 200)
        self.assertEqual(a.machine.peers.lag("c"), 0)
        self.world.silent.clear()
        self.world.run()
        self.same(a, b, c)

    def test_below_the_floor(self) -> None:
        """Who lacks entries that are no longer kept gets the whole state, of one peer alone."""
        a, b, c = self.net("abc")
        self.world.link("a", "b")
        for number in range(30):
            a.accept(f"m{number}")
        self.world.run()
        a.drop(5)
        b.drop(5)

        self.world.link("a", "c")
        self.world.link("b", "c")
        self.world.pass_time(1)

        self.same(a, b, c)
        self.assertEqual(a.count(SendState) + b.count(SendState), 1)
        self.assertTrue(c.machine.peers.caught_up_with("a"))

    def test_bit_rot(self) -> None:
        """Equal knowledge and different content is reported, and both hold the join afterwards."""
        a, b = self.net("ab")
        self.world.link("a", "b")
        for number in range(10):
            a.accept(f"m{number}")
        self.world.run()
        key = next(iter(b.keys.registers))
        b.keys.forget(key)
        self.assertNotEqual(a.book.digests(), b.book.digests())

        self.world.pass_time(40)

        self.same(a, b)
        self.assertEqual(len(b.keys.registers), 10)
        self.assertGreaterEqual(a.count(Differs) + b.count(Differs), 1)

    def test_no_false_alarm(self) -> None:
        """Digests are compared every half minute, and find nothing where nothing is wrong."""
        a, b, c = self.net("abc")
        for pair in ("ab", "bc", "ac"):
            self.world.link(*pair)
        for number in range(30):
            (a, b, c)[number % 3].accept(f"m{number}")
            self.world.pass_time(7)

        self.assertEqual([node.count(Differs) for node in (a, b, c)], [0, 0, 0])

    def test_set_back(self) -> None:
        """A node whose log was set back starts again, and no entry is lost, its own or others'."""
        a, b = self.net("ab")
        for number in range(5):
            a.accept(f"old{number}")
        self.world.link("a", "b")
        self.world.cut("a", "b")
        old = a.book.stream
        a.begin(old.incarnation)
        for number in range(2):
            a.accept(f"new{number}")

        self.world.link("a", "b")
        self.world.pass_time(2)

        self.same(a, b)
        self.assertNotEqual(a.book.stream, old)
        self.assertEqual(a.book.knowledge()[old], 5)
        names = {register.minion_id for register in b.keys.registers.values()}
        self.assertEqual(names, {*(f"old{n}" for n in range(5)), "new0", "new1"})

    def test_believed_some_times(self) -> None:
        """
        A peer that says for ever that it knows more of a node than the node itself is believed a
        bounded number of times; then an operator is told once, and entries go on to be taken.
        """
        a, b = self.net("ab")
        self.world.link("a", "b")
        machine = a.machine
        renewals = 0
        for number in range(10 * MOST_RENEWALS):
            said = encode(Known({a.book.stream: 1000 + number}))
            effects = machine.received("b", said, self.world.now)
            renewals += sum(isinstance(effect, Renew) for effect in effects)
            a.said += effects
            if any(isinstance(effect, Renew) for effect in effects):
                a.book.renew(f"{number:016x}")
                machine.renewed(self.world.now)

        self.assertEqual(renewals, MOST_RENEWALS)
        self.assertEqual(a.count(Doubted), 1)
        self.assertLessEqual(len(a.book.knowledge()), MOST_RENEWALS + 1)
        b.accept("m1")
        self.world.run()
        self.assertEqual({r.minion_id for r in a.keys.registers.values()}, {"m1"})

    def test_too_old(self) -> None:
        """Who lacks what may be forgotten is refused and told so, and nothing is taken from him."""
        a, b, _ = self.net("abc")
        self.world.link("a", "b")
        self.world.link("a", "c")
        a.accept("m1")
        self.world.run()
        self.world.cut("a", "b")
        a.accept("m2")
        self.world.run()
        a.book.raise_forgotten(a.book.knowledge())
        b.accept("m3")

        self.world.link("a", "b")

        self.assertEqual(
            [e for e in a.said if isinstance(e, TooFarBehind)], [TooFarBehind("b", False)]
        )
        self.assertEqual(
            [e for e in b.said if isinstance(e, TooFarBehind)], [TooFarBehind("a", True)]
        )
        self.assertFalse(covers(a.book.knowledge(), b.book.knowledge()))
        self.assertEqual(a.machine.peers.linked(), ["c"])

    def test_new_node_is_not_too_old(self) -> None:
        """A joiner, which knows nobody's entries but its own, is welcome."""
        a, b = self.net("ab")
        a.accept("m1")
        a.book.raise_forgotten(a.book.knowledge())
        b.accept("m2")

        self.world.link("a", "b")

        self.same(a, b)

    def test_forgetting_spreads(self) -> None:
        """What one member ignores, all ignore who know it, before anybody drops it."""
        a, b = self.net("ab")
        self.world.link("a", "b")
        a.accept("m1")
        self.world.run()
        a.book.raise_forgotten(a.book.knowledge())

        self.world.pass_time(40)

        self.assertEqual(b.book.forgotten(), a.book.knowledge())

    def test_T_PEER_8_forgetting(self) -> None:
        """
        T-PEER-8: a member that says that it has forgotten even the newest deletions is not
        followed, so that who was away for a moment is not too old afterwards.
        """
        a, b, c = self.net("abc")
        for other in "bc":
            self.world.link("a", other)
        a.accept("m1")
        self.world.run()
        old = dict(a.book.knowledge())
        self.patch(a.book, "aged", lambda: old)
        self.world.cut("a", "c")
        a.accept("m2")
        self.world.run()
        b.book.raise_forgotten(b.book.knowledge())

        self.world.pass_time(40)
        self.world.link("a", "c")

        self.assertEqual(a.book.forgotten(), {})
        self.same(a, c)
        self.assertEqual(a.count(TooFarBehind) + c.count(TooFarBehind), 0)
        b.book._forgotten = old
        self.world.pass_time(40)
        self.assertEqual(a.book.forgotten(), old, "what is old enough is ignored")

    def test_T_PEER_8_own_stream(self) -> None:
        """T-PEER-8: nobody puts entries under the numbers that a node is to use itself."""
        a, _ = self.net("ab")
        self.world.link("a", "b")
        a.accept("m1")
        self.world.run()
        stream = a.book.stream
        forged = Entry(stream, 2, 1, KIND, pack_bin(a.keys.act("accept", "evil", PUB)))
        real = Entry(Stream("x", "1" * 16), 1, 1, KIND, pack_bin(a.keys.act("accept", "x", PUB)))

        for _ in range(MOST_RENEWALS + 2):
            # It is believed no more that this node was set back
            a.machine._set_back._believed["b"] = MOST_RENEWALS
            effects = a.machine.received("b", encode(Entries([forged])), self.world.now)
            self.assertFalse([e for e in effects if isinstance(e, Merge | Send)])
        both = a.machine.received("b", encode(Entries([real, forged])), self.world.now)

        self.assertEqual([e.entries for e in both if isinstance(e, Merge)], [[real]])
        a.do(both)
        a.accept("m2")
        self.assertEqual({r.minion_id for r in a.keys.registers.values()}, {"m1", "m2", "x"})
        self.assertEqual(a.book.knowledge()[stream], 2)

    def test_T_PEER_8_streams(self) -> None:
        """
        T-PEER-8: who names thousands of streams of which nobody has heard is refused, whether it
        only names them, brings entries of them, or a state; others are served as before.
        """
        many = {Stream("x", f"{number:016x}"): 1 for number in range(MOST_UNKNOWN + 2)}
        body = pack_bin(KeySet().act("accept", "x", PUB))
        brought = [Entry(stream, 1, 1, KIND, body) for stream in many]
        for said in (
            [Hello(many, {}, {})],
            [Known(dict(list(many.items())[at : at + 900])) for at in range(0, len(many), 900)],
            [Entries(brought[at : at + 900]) for at in range(0, len(many), 900)],
        ):
            a, b, _ = self.net("abc")
            self.world.link("a", "b")
            self.world.link("a", "c")
            b.accept("m1")
            self.world.run()
            for message in said:
                a.do(a.machine.received("c", encode(message), self.world.now))

            self.assertEqual(a.count(TooManyStreams), 1, said[0])
            self.assertLessEqual(len(a.book.knowledge()), MOST_UNKNOWN + 2)
            self.assertEqual(a.machine.peers.linked(), ["b"])
            self.assertEqual(a.machine.received("c", encode(said[0]), self.world.now), [])
            b.accept("m2")
            self.world.run()
            self.assertEqual({r.minion_id for r in a.keys.registers.values()} - {"x"}, {"m1", "m2"})

    def test_T_PEER_8_a_new_node_takes_all(self) -> None:
        """T-PEER-8: a node that knows nothing takes however many streams its cluster has."""
        (a,) = self.net("a")
        self.world.nodes["b"] = b = Node(self.world, "b")
        many = {Stream("x", f"{number:016x}"): 1 for number in range(MOST_UNKNOWN + 2)}
        b.book.learn(many)
        b.book.raise_floor(many)

        self.world.link("a", "b")
        self.world.pass_time(1)

        self.assertEqual(a.book.knowledge(), b.book.knowledge())

    def test_lost_messages(self) -> None:
        """Even where a message is lost on a link that lives, the next digest brings it."""
        a, b = self.net("ab")
        self.world.link("a", "b")
        a.accept("m1")
        self.world.waiting.clear()
        self.world.run()
        self.assertEqual(b.book.knowledge(), {})

        self.world.pass_time(40)

        self.same(a, b)
