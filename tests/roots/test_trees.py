"""Trees that jobs are pinned to: brought where they are not here, and marked where that fails."""

from __future__ import annotations

import tempfile
from collections import Counter
from shutil import rmtree
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots import trees as roottrees
from saltwisted.cluster.roots.mixed import MIXED
from saltwisted.cluster.roots.pins import RootPins
from saltwisted.cluster.roots.pinwords import DONE, PIN, USED
from saltwisted.cluster.roots.ran import RAN
from saltwisted.domain.roots import ranon
from saltwisted.domain.roots.entry import DIR, FILE, TreeEntry
from saltwisted.domain.roots.manifest import Generation, generation_of
from saltwisted.errors import DeniedError, NotKept, StoreError
from saltwisted.stores.roots.marks import RootMarks
from saltwisted.wire.msgpack import unpack_bin
from tests.roots.nodes import NodesCase, until

EMPTY = Generation(0, b"", {}, {}, {})


def tree(*contents: bytes) -> Generation:
    """A generation of some files."""
    entries = {b"f%d" % n: TreeEntry(FILE, 0o644, 1, 1, c) for n, c in enumerate(contents)}
    return generation_of({b"d": TreeEntry(DIR, 0o755), **entries}, EMPTY, 1.0)


class BringTests(NodesCase):
    """Two nodes whose histories had different trees on the way to the same one."""

    def test_fetched_from_a_peer(self) -> Deferred[Any]:
        """A tree that this node never had comes with its contents, and again from the history."""
        # However slow the machine is
        self.patch(roottrees, "LIMIT", 60.0)

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            one.write("common", "c")
            await until(lambda: two.read("common") == b"c", what="common")
            one.cut()
            await until(
                lambda: not one.sync.streams.links and not two.sync.streams.links, what="no links"
            )
            one.write("mine", "only on a for now")
            two.write("yours", "only on b for now")
            await one.share.rescan()
            await two.share.rescan()
            wanted = one.share.generation
            assert wanted is not None
            self.assertNotEqual(wanted.digest, two.share.generation.digest)  # type: ignore
            one.link(two)
            await self.settle()
            self.assertIsNone(two.share.trees.get(wanted.digest))

            brought = await two.share.trees.bring(wanted.digest, "a")

            assert brought is not None
            self.assertEqual(sorted(dict(brought.walk())), [b"common", b"mine"])
            entry = brought.get(b"mine")
            assert entry is not None
            assert two.share.store is not None
            self.assertEqual(two.share.store.objects.read(entry.content), b"only on a for now")
            # What this node had itself needs nobody, also when it is no more in memory
            own = two.share.store.history.newest()[1].digest
            two.share.trees._recent.clear()
            one.cut()
            again = await two.share.trees.bring(own, "")
            assert again is not None
            self.assertEqual(again.digest, own)

        return self.run_coroutine(story)

    def test_given_up(self) -> Deferred[Any]:
        """What nobody has is given up when its time is over."""
        self.patch(roottrees, "LIMIT", 0.1)

        async def story() -> None:
            one, two = await self.make("ab")
            await self.start()
            one.write("x", "x")
            await self.settle()
            self.assertIsNone(await two.share.trees.bring(b"?" * 32, "a"))
            self.assertEqual(two.share.trees._coming, {})
            self.assertEqual(one.sync.streams.flags, {})

        return self.run_coroutine(story)


class FakeTrees:
    """What L{roottrees.RootTrees} gives."""

    def __init__(self) -> None:
        self.here: dict[bytes, Generation] = {}
        self.asked: list[tuple[bytes, str, Deferred[Any]]] = []

    def get(self, digest: bytes) -> Generation | None:
        """A tree that is here."""
        return self.here.get(digest)

    def bring(self, digest: bytes, node: str) -> Deferred[Any]:
        """Note the question."""
        self.asked.append((digest, node, Deferred()))
        return self.asked[-1][2]


class FakeShare:
    """One share."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.trees = FakeTrees()


class FakeCommits:
    """What other commits there are (L{saltwisted.commits.IEarlierCommits})."""

    def __init__(self) -> None:
        self.digest = b""
        self.here: set[bytes] = set()
        self.reached: set[bytes] = set()
        self.reading: set[bytes] = set()
        self.used: Any = None

    def on_use(self, user: Any) -> None:
        """Whom to ask what is used."""
        self.used = user

    def read(self) -> set[bytes]:
        """What runs of this node read."""
        return self.reading

    def has(self, digest: bytes) -> bool:
        """Whether they are here."""
        return digest in self.here

    def over(self, digest: bytes) -> Any:
        """Their source."""
        return digest if digest in self.here else None

    def told(self, digest: bytes) -> Any:
        """As people are told of them."""
        return {"base": {"states": digest.hex()}}

    def bring(self, digest: bytes, node: str) -> Deferred[bool]:
        """Those that another node has."""
        if digest in self.reached:
            self.here.add(digest)
        return succeed(digest in self.here)

    def find(self, wanted: str) -> Deferred[bytes]:
        """By the beginning of a digest."""
        found = [each for each in self.here if each.hex().startswith(wanted)]
        return succeed(found[0]) if found else fail(NotKept(wanted))


def shown(chosen: Any, git: Any) -> dict[str, Any]:
    """What stands for a file server."""
    return {**chosen, **({} if git is None else {"git": git})}


class FakeSync:
    """One node's roots."""

    def __init__(self, node: str, generation: Generation) -> None:
        self.node = node
        self.shares = {"file/base/0": FakeShare(generation)}
        self.pinned: Any = None
        # All that a node lends, and says of itself, is this one object
        self.host = self.report = self.news = self
        self.events: list[tuple[str, Any]] = []

    def digests(self) -> dict[str, bytes]:
        """What is newest."""
        return {name: share.generation.digest for name, share in self.shares.items()}

    def now(self) -> float:
        """Seconds since 1970."""
        return 1_000_000_000.0

    def pool(self, function: Any, *args: Any) -> Deferred[Any]:
        """At once."""
        return succeed(function(*args))

    def event(self, what: str, data: Any) -> None:
        """Note it."""
        self.events.append((what, data))


class FakePeers:
    """Nodes whose words reach each other at once."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.others: list[tuple[str, FakePeers]] = []
        self.said: list[tuple[str, Any]] = []
        self.receivers: list[Any] = []
        self.node = ""

    def answer(self, word: str, handler: Any) -> None:
        """Whom to ask."""
        self.handlers[word] = handler

    def on_link(self, receiver: Any) -> None:
        """Whom to tell of links."""
        self.receivers.append(receiver)

    def linked(self, link: Any, up: bool) -> None:
        """Tell them of one."""
        for receiver in self.receivers:
            receiver(link, up)

    def links(self) -> list[Any]:
        """This object is its own only link."""
        return [self]

    def tell(self, word: str, body: bytes) -> None:
        """To all others."""
        self.said.append((word, unpack_bin(body)))
        for _, other in self.others:
            other.handlers[word](self.node, body)


class PinsTests(SynchronousTestCase):
    """Jobs, minions and marks."""

    def setUp(self) -> None:
        """Two nodes with different newest trees."""
        folder = tempfile.mkdtemp(prefix="marks-", dir="/tmp")
        self.addCleanup(rmtree, folder, True)
        self.folder = folder
        self.clock = Clock()
        self.commits: dict[str, Any] = {}
        self.old, self.new = tree(b"old"), tree(b"new")
        self.one, self.one_peers, self.one_sync = self.node("one", self.old)
        self.two, self.two_peers, self.two_sync = self.node("two", self.new)
        self.one_peers.others = [("two", self.two_peers)]
        self.two_peers.others = [("one", self.one_peers)]

    def node(self, name: str, generation: Generation) -> tuple[RootPins, FakePeers, FakeSync]:
        """A node."""
        sync, peers = FakeSync(name, generation), FakePeers()
        peers.node = name
        marks = RootMarks(f"{self.folder}/{name}.sqlite")
        commits = self.commits.setdefault(name, FakeCommits())
        args: Any = (sync, peers, self.clock, shown, Counter(), marks, f"{self.folder}/{name}.ran")
        pins = RootPins(*args, commits=lambda: commits)
        self.successResultOf(Deferred.fromCoroutine(pins.startService()))
        return pins, peers, sync

    def publish(self, jid: str = "1") -> None:
        """A state job of node one."""
        self.one.facts(jid, "state.apply")
        self.one.published(jid, ["m"])

    def test_brought(self) -> None:
        """A request waits for the tree of its job, and is served from it; nothing is mixed."""
        self.publish()
        trees = self.two_sync.shares["file/base/0"].trees
        waiting = self.two.files("m")
        self.assertNoResult(waiting)
        self.assertEqual([one[:2] for one in trees.asked], [(self.old.digest, "one")])
        trees.here[self.old.digest] = self.old
        trees.asked[0][2].callback(self.old)
        self.assertEqual(self.successResultOf(waiting), {"file/base/0": self.old})
        self.assertEqual(self.two.files("m"), {"file/base/0": self.old})
        self.assertEqual((self.one.notes("1"), self.two.notes("1")), ({}, {}))
        self.assertEqual([word for word, _ in self.one_peers.said], [RAN, PIN])
        self.assertEqual([word for word, _ in self.two_peers.said], [USED])

    def with_commits(self) -> tuple[bytes, bytes]:
        """Both serve some commits; then the first node serves others, which the second reaches."""
        first, second = b"1" * 32, b"2" * 32
        for commits in self.commits.values():
            commits.digest = first
            commits.here = {first}
        return first, second

    def test_commits(self) -> None:
        """
        Commits are one more tree: a job is served them on every node, whatever is fetched
        meanwhile, and its record says which they are.
        """
        first, second = self.with_commits()
        self.two_sync.shares["file/base/0"].trees.here[self.old.digest] = self.old
        facts = self.one.facts("1", "state.apply")
        self.one.published("1", ["m"])
        self.assertEqual(facts["commits"], {"base": {"states": first.hex()}})
        for commits in self.commits.values():
            commits.digest = second
            commits.here.add(second)
        for pins in (self.one, self.two):
            pins_sync = self.one_sync if pins is self.one else self.two_sync
            pins_sync.shares["file/base/0"].trees.here[self.old.digest] = self.old
            self.assertEqual(pins.files("m")["git"], first)
        self.one.returned("1", "m")
        self.assertIsNone(self.one.files("m"))
        self.assertIsNone(self.two.files("m"))

    def test_commits_elsewhere(self) -> None:
        """
        A node that has never served them has them from another one: before its minion asks, or when
        it does. Else it is told.
        """
        first, second = self.with_commits()
        self.commits["one"].digest = second
        self.commits["two"].reached = {second}
        self.two_sync.shares["file/base/0"].trees.here[self.old.digest] = self.old
        self.publish()
        self.assertIn(second, self.commits["two"].here)
        self.assertEqual(self.two.files("m")["git"], second)
        self.commits["two"].here = {first}
        self.assertEqual(self.successResultOf(self.two.files("m"))["git"], second)
        self.assertEqual(self.two.notes("1"), {})

        self.commits["two"].here = {first}
        self.commits["two"].reached = set()
        served = self.successResultOf(self.two.files("m"))
        self.assertNotIn("git", served)
        self.assertEqual(list(self.two.notes("1")["mixed"]), ["m"])
        self.assertEqual(self.one.notes("1"), self.two.notes("1"))

    def test_generation_on_every_node(self) -> None:
        """What a job has run may be named on every node, also in another life of that."""
        first, second = self.with_commits()
        name = self.one.facts("1", "state.apply")["generation"]
        self.commits["two"].digest = second
        self.commits["two"].here.add(second)
        self.two_sync.shares["file/base/0"].trees.here[self.old.digest] = self.old
        for _ in range(2):
            self.assertEqual(
                self.successResultOf(
                    Deferred.fromCoroutine(self.two.choose("2", "state.apply", name, []))
                ),
                [],
            )
            facts = self.two.facts("2", "state.apply")
            self.assertEqual(facts["generation"], name)
            self.assertEqual(facts["commits"], {"base": {"states": first.hex()}})
            self.clock.advance(60)
            self.two, self.two_peers, _ = self.node("two", self.new)
            self.two._sync = self.two_sync  # type: ignore[assignment]

    def test_run(self) -> None:
        """
        The job of a step runs on the commits of its run, and on the directories of now; also on
        another node. Where they cannot be had it is refused.
        """
        first, second = self.with_commits()
        name = self.one.facts("1", "state.sls")["generation"]
        for commits in self.commits.values():
            commits.digest = second
            commits.here.add(second)
        self.successResultOf(Deferred.fromCoroutine(self.two.follow("2", "state.sls", name)))
        facts = self.two.facts("2", "state.sls")
        self.assertEqual(facts["commits"], {"base": {"states": first.hex()}})
        again = self.successResultOf(Deferred.fromCoroutine(self.two.again(name)))
        self.assertEqual(again, {"file/base/0": self.new, "git": first})

        self.commits["two"].here = {second}
        following = Deferred.fromCoroutine(self.two.follow("3", "state.sls", name))
        self.assertIn(name, str(self.failureResultOf(following, NotKept).value))

    def test_long_run(self) -> None:
        """
        The generation of a run that lives is known on all nodes, however many others have run
        since, and when its node is gone or the other was started again: it can be gone on with.
        """
        self.patch(ranon, "MOST", 3)
        first, second = self.with_commits()
        name = self.one.facts("1", "state.apply")["generation"]
        self.commits["one"].reading = {first}
        self.commits["two"].digest = second
        share: Any = self.two_sync.shares["file/base/0"]

        def others(numbers: range, seconds: float) -> None:
            for number in numbers:
                share.generation = tree(b"%d" % number)
                self.two.facts(f"2{number}", "state.apply")
                self.clock.advance(seconds)

        def goes_on() -> Deferred[Any]:
            return Deferred.fromCoroutine(self.two.follow("3", "state.sls", name))

        others(range(10), ranon.USED)
        self.assertIn(name, self.one.ran.known())
        self.assertIn(first, self.commits["two"].used())
        self.assertLessEqual(len(self.two.ran.known()), 5)
        self.successResultOf(goes_on())

        self.two, self.two_peers, _ = self.node("two", self.new)
        self.two._sync = self.two_sync  # type: ignore[assignment]
        self.commits["one"].reading = set()
        others(range(20, 25), 1.0)
        self.successResultOf(goes_on())
        self.clock.advance(ranon.USED)
        others(range(30, 40), 1.0)
        self.assertIn(name, str(self.failureResultOf(goes_on(), NotKept).value))

    def test_most_used(self) -> None:
        """However much is used at once: a bounded number is known."""
        self.patch(ranon, "MOST", 3)
        self.patch(ranon, "MOST_USED", 4)
        for number in range(20):
            self.one.ran.add(str(number), {"x": b"%d" % number})
        self.assertEqual(list(self.one.ran.known()), [str(number) for number in range(13, 20)])

    def test_long_job(self) -> None:
        """The generation of a job that has not returned is known on all nodes, too."""
        self.patch(ranon, "MOST", 3)
        first, _ = self.with_commits()
        name = self.one.facts("1", "state.apply")["generation"]
        self.one.published("1", ["m"])
        self.one.files("m")
        self.clock.advance(ranon.USED)
        for number in range(10):
            for node, pins in (("one", self.one), ("two", self.two)):
                pins.ran.add(str(number), {"file/base/0": b"%d" % number})
                self.assertIn(first, self.commits[node].used())
            self.clock.advance(ranon.USED)
        for pins in (self.one, self.two):
            self.assertEqual((name in pins.ran.known(), len(pins.ran.known())), (True, 4))
        self.one.returned("1", "m")
        for pins in (self.one, self.two):
            pins.ran.add("another", {"file/base/0": first})
            self.assertNotIn(name, pins.ran.known())

    def choose(self, wanted: str, fun: str = "state.apply") -> Deferred[Any]:
        """A job of node one that is to run on an earlier tree."""
        return Deferred.fromCoroutine(self.one.choose("2", fun, wanted, []))

    def test_chosen(self) -> None:
        """
        A job runs on an earlier tree, by its name or by that of a generation that a job ran: its
        record says so, and all nodes are told. What is unknown, not kept, or would mean nothing is
        refused by its name.
        """
        share: Any = self.one_sync.shares["file/base/0"]

        def find(name: str) -> Any:
            if not self.old.digest.hex().startswith(name):
                raise StoreError("there is no such generation", name)
            return self.old

        share.store = SimpleNamespace(history=SimpleNamespace(find=find))
        self.publish()
        self.one.returned("1", "m")
        share.generation, share.trees.here[self.new.digest] = self.new, self.new
        share.trees.here[self.old.digest] = self.old
        for wanted in (self.old.name, self.old.name[:6]):
            self.successResultOf(self.choose(wanted))
            facts = self.one.facts("2", "state.apply")
            self.assertEqual(facts["generation"], self.old.name)
            self.assertEqual(facts["trees"], {"file/base/0": self.old.digest.hex()})
            self.one.published("2", ["m"])
            self.assertEqual(self.one.files("m"), {"file/base/0": self.old})
            self.assertIn("2", [body[0] for word, body in self.one_peers.said if word == PIN])
            self.one.returned("2", "m")

        for wanted, fun, why in (
            ("nothing", "state.apply", "there is none of that name"),
            (self.old.name, "test.ping", "reads no files"),
        ):
            error = self.failureResultOf(self.choose(wanted, fun), DeniedError).value
            self.assertIn(wanted, str(error))
            self.assertIn(why, str(error))
        del share.trees.here[self.old.digest]
        choosing = self.choose(self.old.name)
        share.trees.asked[-1][2].callback(None)
        error = self.failureResultOf(choosing, DeniedError).value
        self.assertIn(f"'{self.old.name}': file/base/0 no longer keeps its tree", str(error))

    def test_mixed(self) -> None:
        """What cannot be brought is served as it is, and the job says so on all nodes, for good."""
        self.publish()
        waiting = self.two.files("m")
        self.two_sync.shares["file/base/0"].trees.asked[0][2].callback(None)
        self.assertEqual(self.successResultOf(waiting), {"file/base/0": self.new})
        # Not asked for again at each request
        self.assertEqual(self.two.files("m"), {"file/base/0": self.new})
        mixed = {"mixed": {"m": [self.new.name]}}
        self.assertEqual((self.one.notes("1"), self.two.notes("1")), (mixed, mixed))
        self.assertEqual([what for what, _ in self.two_sync.events], ["mixed"])
        self.assertEqual([word for word, _ in self.two_peers.said], [USED, MIXED])
        again, peers, _ = self.node("one", self.old)
        self.assertEqual(again.notes("1"), mixed)
        late, late_peers, _ = self.node("late", self.old)
        peers.others = [("late", late_peers)]
        peers.linked(peers, True)
        self.assertEqual(late.notes("1"), mixed)

    def test_told_to_late_nodes(self) -> None:
        """A node that is linked after the job went out serves its tree, too."""
        self.two_peers.others = []
        self.one_peers.others = []
        self.publish()
        self.assertIsNone(self.two.files("m"))
        self.one_peers.others = [("two", self.two_peers)]
        self.one_peers.linked(self.one_peers, True)
        self.assertNoResult(self.two.files("m"))
        self.clock.advance(3600)  # in use at two alone, by now
        self.assertIsNone(self.one.files("m"))

    def test_in_use_elsewhere(self) -> None:
        """A run that is longer than ten minutes, and goes on at another node."""
        self.publish()
        self.two.files("m")
        self.clock.advance(3600)
        self.one_sync.shares["file/base/0"].generation = self.new
        trees = self.one_sync.shares["file/base/0"].trees
        trees.here[self.old.digest] = self.old
        self.assertEqual(self.one.files("m"), {"file/base/0": self.old})
        self.one.returned("1", "m")
        self.assertEqual(self.one_peers.said[-1], (DONE, ["1", "m"]))
        self.assertIsNone(self.one.files("m"))
        self.assertIsNone(self.two.files("m"))
