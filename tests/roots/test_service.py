"""The parts of a node's roots service, each without the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from attrs import evolve
from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots.clocks import PeerClocks
from saltwisted.cluster.roots.founding import FOUND_AFTER, Founding
from saltwisted.cluster.roots.host import Host
from saltwisted.cluster.roots.news import RootNews
from saltwisted.cluster.roots.room import Room
from saltwisted.domain.roots.index import Outcome
from saltwisted.domain.roots.manifest import name_of, name_of_all

SHARE = "file/base/0"


class ClocksTests(SynchronousTestCase):
    """What peers say of the time."""

    def setUp(self) -> None:
        self.events: list[str] = []
        self.clocks = PeerClocks(lambda: 1000.0, lambda what, data: self.events.append(what))

    def test_off(self) -> None:
        """A clock over ten minutes off is told once, until it is right, by who is linked."""
        self.clocks.said("b", 1_000_000 + 1_200_000, {"b"})
        self.assertIn("over ten minutes", self.clocks.problem)
        self.clocks.said("b", 0, {"b"})
        self.assertEqual(self.events, ["suspended"])
        self.clocks.said("b", 0, ())
        self.assertEqual(self.clocks.problem, "")
        self.clocks.said("b", 0, {"b"})
        self.assertIn("over ten minutes", self.clocks.problem)
        self.clocks.compared({"b": 2.0}, {"b"})
        self.assertEqual((self.clocks.problem, self.events), ("", ["suspended"] * 2))


class RoomTests(SynchronousTestCase):
    """How much is taken."""

    def test_quota(self) -> None:
        """What is there and what is to come are held against the quota."""

        class Objects:
            def total(self) -> int:
                return 6 << 20

        room, objects = Room({"quota_mib": 8, "free_mib": 0}), Objects()
        here = self.mktemp()
        os.mkdir(here)
        self.assertEqual(room.problem(objects, here, 2 << 20), "")  # type: ignore[arg-type]
        said = room.problem(objects, here, 3 << 20)  # type: ignore[arg-type]
        self.assertEqual(said, "quota: 3 MiB to come, 6 of 8 MiB are in use (quota_mib)")

    def test_free(self) -> None:
        """What has to stay free, stays free."""
        here = self.mktemp()
        os.mkdir(here)
        free = os.statvfs(here)
        size = free.f_bavail * free.f_frsize + (1 << 30)
        self.assertIn("no room", Room({"free_mib": 1}).problem(None, here, size))


class FakeLink:
    """A stream to a peer."""

    def __init__(self, node: str, knows: bool) -> None:
        self.node = node
        self.peer = self
        self.knowledge = {SHARE: {"x": 1} if knows else {}}


class FakeStreams:
    """Some streams."""

    def __init__(self) -> None:
        self.links: dict[str, FakeLink] = {}

    def writers(self, share: str) -> list[FakeLink]:
        """All of them."""
        return list(self.links.values())


class BlankShare:
    """A share that has no tree."""

    ready = False
    store = None

    def __init__(self) -> None:
        self.founded = 0

    def found(self) -> Any:
        """Ours is the first."""
        self.founded += 1
        return succeed(None)


class FoundingTests(SynchronousTestCase):
    """Whose tree is the first."""

    def begin(self, members: Sequence[str], *linked: FakeLink, node: str = "b") -> None:
        """A node without a tree starts."""
        self.clock = Clock()
        self.streams, self.share = FakeStreams(), BlankShare()
        host = Host(
            reactor=self.clock,
            node=node,
            pool=lambda function, *args: succeed(function(*args)),
            fire=lambda tag, data: None,
            members=lambda: members,
        )
        self.host = host
        for link in linked:
            self.streams.links[link.node] = link
        self.founding = Founding(
            host,
            {SHARE: self.share},  # type: ignore[dict-item]
            lambda: self.streams,  # type: ignore[arg-type, return-value]
        )
        self.founding.blank(SHARE)

    def test_alone(self) -> None:
        """Who has no other members founds at once, and once."""
        self.begin([])
        self.founding.look()
        self.clock.advance(FOUND_AFTER)
        self.assertEqual(self.share.founded, 1)

    def test_waits(self) -> None:
        """Members that are not reached are waited for; not once it is stopped."""
        self.begin(["c"])
        self.clock.advance(FOUND_AFTER - 1)
        self.assertEqual(self.share.founded, 0)
        self.clock.advance(1)
        self.assertEqual(self.share.founded, 1)
        self.begin(["c"])
        self.founding.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_smallest(self) -> None:
        """Of those without a tree the smallest founds; where one has a tree, nobody does."""
        for other, knows, expected in (("c", False, 1), ("a", False, 0), ("c", True, 0)):
            self.begin([other], FakeLink(other, knows))
            self.founding.peer_knows(SHARE)
            self.assertEqual(self.share.founded, expected, (other, knows))

    def test_no_right(self) -> None:
        """Who may not write does not found."""
        self.begin(["c"])
        self.founding._host = evolve(self.host, may=lambda node, right: False)
        self.clock.advance(FOUND_AFTER)
        self.assertEqual(self.share.founded, 0)


class NewsTests(SynchronousTestCase):
    """Who is told what."""

    def test_tags(self) -> None:
        """Events carry the node; a commit that shows nothing new is none."""
        fired: list[tuple[str, Any]] = []
        news = RootNews("a", lambda tag, data: fired.append((tag, dict(data))))
        told: list[str] = []
        news.on_generation.append(told.append)
        news.event("held", {"share": SHARE})
        self.assertEqual(fired, [("salt/roots/held", {"node": "a", "share": SHARE})])
        news.committed(SHARE, None, None, Outcome(), True)  # type: ignore[arg-type]
        news.loaded(SHARE)
        self.assertEqual((len(fired), told), (1, [SHARE]))


class NameTests(SynchronousTestCase):
    """The name of several trees together."""

    def test_names(self) -> None:
        """Of one share that of its tree; of several one that depends on each, and on no order."""
        one, two = b"1" * 32, b"2" * 32
        self.assertEqual(name_of_all({"a": one}), name_of(one))
        both = name_of_all({"a": one, "b": two})
        self.assertEqual(both, name_of_all({"b": two, "a": one}))
        self.assertNotEqual(both, name_of_all({"a": two, "b": one}))
