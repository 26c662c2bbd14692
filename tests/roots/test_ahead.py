"""Contents that are told, and fetched, before the batch that refers to them is there."""

from __future__ import annotations

import hashlib
import os

from twisted.internet.defer import Deferred

from saltwisted.cluster.roots.link import RootLink
from saltwisted.domain.roots import codec, frames
from saltwisted.stores.roots import treeread
from tests.roots.nodes import NodesCase, sleep, until
from tests.roots.test_hostile import HostilePeer


class AheadTests(NodesCase):
    """While one node still looks at its tree, the others fetch."""

    def test_before_the_batch(self) -> Deferred[None]:
        """A node has large and small contents of a tree whose batch nobody has made yet."""
        self.patch(treeread, "TOLD", 10_000)
        self.patch(treeread, "BULK", 100_000)

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("first", "x")
            await self.start()
            await self.settle()
            go = Deferred[None]()
            taken = a.share.edits.commit

            async def later(changed: object) -> None:
                await go
                await taken(changed)  # type: ignore[arg-type]

            a.share.edits.commit = later  # type: ignore[method-assign,assignment]
            contents = [os.urandom(2000) for _ in range(40)] + [os.urandom(300_000)]
            for number, data in enumerate(contents):
                a.write(f"new/f{number}", data)
            known = dict(b.share.core.db.knowledge)
            there = b.share.core.db.objects.has
            digests = [hashlib.sha256(data).digest() for data in contents]
            # All but the last of the small ones, which are less than a mebibyte (here 10 KB)
            await until(lambda: sum(map(there, digests)) >= 36 and there(digests[-1]))
            self.assertEqual(b.share.core.db.knowledge, known)
            self.assertIsNone(b.read("new/f0"))
            go.callback(None)
            await until(lambda: b.read("new/f40") == contents[40])
            await self.settle()

        return self.run_coroutine(story)

    def test_what_changes_is_not_offered(self) -> Deferred[None]:
        """A byte more in a large file travels as a difference, and is not fetched whole before."""
        self.patch(treeread, "BULK", 100_000)

        async def story() -> None:
            a, b = await self.make("ab")
            data = os.urandom(400_000)
            a.write("large", data)
            await self.start()
            await self.settle()
            before = sum(link.bytes_in for link in b.sync.streams.links.values())
            a.write("large", data[:200_000] + b"!" + data[200_000:])
            await until(lambda: len(b.read("large") or b"") == 400_001)
            await self.settle()
            self.assertLess(
                sum(link.bytes_in for link in b.sync.streams.links.values()) - before, 5000
            )

        return self.run_coroutine(story)

    def test_offer_without_a_batch(self) -> Deferred[None]:
        """What was offered and does not come, or is not what it should be, holds up nothing."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("first", "x")
            await self.start()
            await self.settle()
            (link,) = (one for one in a.sync.streams.of(a.share.name))
            offered, received = [], b.share.ahead.received

            def take(link: RootLink, body: bytes) -> None:
                received(link, body)
                offered.append(len(b.share.core.coming))

            b.share.ahead.received = take  # type: ignore[method-assign]
            link.offer(a.share.name, [(b"\1" * 32, 5000), (b"\2" * 32, 500_000)])
            await until(lambda: offered)
            self.assertEqual(offered, [2])
            await until(lambda: not b.share.core.coming)
            a.write("second", "y")
            await until(lambda: b.read("second") == b"y")
            await self.settle()

        return self.run_coroutine(story)


class HostileOfferTests(HostilePeer):
    """T-ROOT-5 and T-ROOT-6 for offers."""

    def test_T_ROOT_5_offers(self) -> Deferred[None]:
        """An offer of nonsense ends the stream; one of more than there is room for is ignored."""

        async def story() -> None:
            node = await self.victim()
            for bad in (
                5,
                [[b"x" * 32]],
                [[b"x" * 31, 1]],
                [[b"x" * 32, -1]],
                [[b"x" * 32, True]],
                [["x" * 32, 1]],
            ):
                await self.refused(
                    node,
                    lambda evil, bad=bad: evil.say(frames.OFFER, 0, codec.pack(bad)),  # type: ignore
                    "offer",
                )
            many = [[number.to_bytes(32, "big"), 1] for number in range(5001)]
            await self.refused(
                node, lambda evil: evil.say(frames.OFFER, 0, codec.pack(many)), "encoding"
            )
            evil = await self.attack(node)
            huge = [[bytes([number]) * 32, 200 << 20] for number in range(2)]
            evil.say(frames.OFFER, 0, codec.pack([[b"x" * 32, 1 << 60]]))
            evil.say(frames.OFFER, 0, codec.pack(huge))
            evil.say(frames.OFFER, 0, codec.pack([[b"y" * 32, 100]]))
            await until(lambda: node.share.core.coming)
            self.assertEqual(node.share.core.coming, {b"y" * 32})
            wrong = codec.squeeze(codec.pack(["p", [[b"y" * 32, b"z" * 100]]]))
            evil.say(frames.DATA, 0, wrong)
            await until(lambda: evil.lost)
            self.assertIn("object-digest", evil.reason)
            await until(lambda: not node.share.core.coming)
            self.assertEqual(node.read("mine"), b"mine\n")

        return self.run_coroutine(story)

    def test_offers_of_one_that_may_not_write(self) -> Deferred[None]:
        """Who may not write is asked for nothing."""

        async def story() -> None:
            node = await self.victim()
            node.rights["evil"] = {"write"}
            evil = await self.attack(node)
            evil.say(frames.OFFER, 0, codec.pack([[b"y" * 32, 100]]))
            evil.say(frames.PING, frames.NO_SHARE, codec.pack([1, 0, []]))
            await until(lambda: "evil" in node.sync.streams.flags)
            await sleep(0)
            self.assertEqual(node.share.core.coming, set())
            self.assertFalse(any(kind == frames.WANT for kind, _, _ in evil.heard))

        return self.run_coroutine(story)
