"""What peers say while a node is still opening its store."""

from __future__ import annotations

import threading
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.cluster.roots import link as rootlink
from saltwisted.cluster.roots import share as rootshare
from saltwisted.domain.roots import codec
from saltwisted.domain.roots.frames import ACK
from tests.roots.nodes import SHARE, Node, NodesCase, until


def knows(node: Node, peer: Node) -> bool:
    """Whether a node knows that a peer has all that it has itself."""
    store = node.share.store
    return store is not None and (
        node.sync.streams.links[peer.name].peer.knowledge[SHARE] == dict(store.knowledge)
    )


class EarlyTests(NodesCase):
    """A node that starts again; links are there before its store is."""

    async def again(self, node: Node, other: Node) -> tuple[Deferred[Any], threading.Event]:
        """Start a node again, whose store opens when it is said; a stream to the other is up."""
        await node.stop()
        self.nodes.remove(node)
        node = Node(node.name, node.folder, node.members)
        self.nodes.append(node)
        opens = threading.Event()
        self.addCleanup(opens.set)
        core = node.share.core
        make = core.make_store

        def make_late(folder: str) -> Any:
            opens.wait(30)
            return make(folder)

        core.make_store = make_late
        started = node.start()
        other.link(node)
        await until(lambda: "b" in other.sync.streams.links, what="a stream")
        await until(lambda: "a" in node.sync.streams.links, what="a stream")
        return started, opens

    def test_nothing_is_lost(self) -> Deferred[Any]:
        """
        What was committed meanwhile comes as soon as the store is open, and both know at once what
        the other has: not with the next greeting, half a minute later.
        """

        async def story() -> None:
            one, other = await self.make("ab")
            one.write("f", "f")
            await self.start()
            await self.settle()
            started, opens = await self.again(other, one)
            other = self.nodes[1]
            one.write("g", "g")
            await one.share.flush()
            await until(lambda: bool(other.share._early), what="a message")
            self.assertIsNone(other.share.store)
            opens.set()
            await started
            await until(lambda: other.read("g") == b"g", 10, "the file")
            await until(lambda: knows(one, other) and knows(other, one), 10, "what they know")
            self.assertEqual(other.share._early, [])

        return self.run_coroutine(story)

    def test_too_much(self) -> Deferred[Any]:
        """Only so much is kept; what is lost then is said again."""
        self.patch(rootshare, "MOST_EARLY", 100)
        self.patch(rootlink, "PING_EVERY", 0.5)

        async def story() -> None:
            one, other = await self.make("ab")
            await self.start()
            await self.settle()
            started, opens = await self.again(other, one)
            other = self.nodes[1]
            one.write("g", "g" * 10_000)
            await one.share.flush()
            await until(lambda: other.share._early_bytes > 100, what="messages")
            self.assertLessEqual(sum(len(body) for _, _, body in other.share._early), 100)
            opens.set()
            await started
            await until(lambda: other.read("g") == b"g" * 10_000, 10, "the file")

        return self.run_coroutine(story)

    def test_against_the_rules(self) -> Deferred[Any]:
        """Whatever breaks the rules closes its stream then, and holds up nothing."""

        async def story() -> None:
            one, other = await self.make("ab")
            one.write("f", "f")
            await self.start()
            await self.settle()
            started, opens = await self.again(other, one)
            other = self.nodes[1]
            link = one.sync.streams.links["b"]
            link.tell(ACK, one.share.name, codec.pack("nonsense"))
            await until(lambda: bool(other.share._early), what="a message")
            broken = other.sync.streams.links["a"]
            opens.set()
            await started
            await until(lambda: broken.closed, what="the end of the stream")
            self.assertEqual(other.sync.streams.flags["a"], "ack")
            self.assertEqual(other.read("f"), b"f")

        return self.run_coroutine(story)
