"""C{roots sync --wait} waits for the working trees of the members, not for their stores alone."""

from __future__ import annotations

import os
import shutil
import threading
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.cluster.roots.control import RootControl
from saltwisted.cluster.roots.written import WORD, RootWritten
from saltwisted.errors import RemoteError
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from tests.cluster.memory import MemoryPeers
from tests.fakes.operations import call_of
from tests.roots.nodes import SHARE, Node, NodesCase, clock, until


class WrittenTests(NodesCase):
    """Two nodes, and the words between them."""

    async def _pair(self) -> tuple[list[Node], list[RootWritten], list[MemoryPeers]]:
        nodes = await self.make("ab")
        await self.start()
        await self.settle()
        peers = [MemoryPeers(node.name, clock) for node in nodes]
        written = [RootWritten(node.sync, each) for node, each in zip(nodes, peers, strict=True)]
        peers[0].join(peers[1])
        return nodes, written, peers

    def test_waits_until_it_is_written(self) -> Deferred[Any]:
        """What a member has committed and not written yet is not said to be there."""

        async def story() -> None:
            (a, b), (asks, _), _ = await self._pair()
            may_write = threading.Event()
            self.addCleanup(may_write.set)
            write = b.share.core.tree.writer.write

            def slowly(*args: Any) -> Any:
                may_write.wait(60)
                return write(*args)

            self.patch(b.share.core.tree.writer, "write", slowly)
            a.write("f.sls", "text")
            control = RootControl(a.sync, clock, asks)
            d = Deferred.fromCoroutine(control.sync(call_of(wait=True)))
            await until(lambda: control._result([a.share])["done"], what="b has committed it")
            self.assertEqual(b.read("f.sls"), None)
            self.assertFalse(d.called)

            may_write.set()
            result = await d

            self.assertTrue(result["done"], result)
            self.assertEqual(b.read("f.sls"), b"text")

        return self.run_coroutine(story)

    def test_a_tree_that_cannot_be_written(self) -> Deferred[Any]:
        """A member whose root is gone is named with the reason; so is one that does not answer."""

        async def story() -> None:
            (a, b), (asks, _), peers = await self._pair()
            a.write("f.sls", "text")
            await until(lambda: b.read("f.sls") == b"text", what="f.sls")
            shutil.move(b.tree, f"{b.tree}.away")
            os.mkdir(b.tree)
            await b.share.rescan()
            a.write("f.sls", "other")
            control = RootControl(a.sync, clock, asks)

            result = await control.sync(call_of(wait=True, timeout=0.2))

            self.assertFalse(result["done"])
            self.assertIn(f"{SHARE}: suspended: ", result["peers"]["b"]["error"])
            self.assertFalse(result["peers"]["b"]["ok"])

            peers[0].links()[0].held = []
            found = await asks.problems([SHARE], 0.1)
            self.assertIn("may not be written yet", found["b"])

        return self.run_coroutine(story)

    def test_what_is_asked(self) -> Deferred[Any]:
        """Unknown shares are left out, and what is not a list is refused."""

        async def story() -> None:
            (_, b), _, peers = await self._pair()
            answer = unpack_bin(await peers[1].hear("a", WORD, pack_bin([SHARE, "file/no/0"])))
            self.assertEqual(answer, {SHARE: ""})
            b.rights["a"] = {"pillar"}
            self.assertEqual(
                unpack_bin(await peers[1].hear("a", WORD, pack_bin(["pillar/base/0"]))), {}
            )
            for body in (b"", b"\xc1", pack_bin(7)):
                with self.assertRaises(RemoteError):
                    await peers[1].hear("a", WORD, body)

        return self.run_coroutine(story)
