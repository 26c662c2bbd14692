"""Two and three nodes with real trees: an edit on one is served and written on the others."""

from __future__ import annotations

import os
import shutil

from twisted.internet.defer import Deferred

from tests.roots.nodes import NodesCase, until


class EditTests(NodesCase):
    """One edits, the others follow."""

    def test_first_sync_and_edits(self) -> Deferred[None]:
        """Files, empty directories, links, modes, renames and deletions arrive exactly."""

        async def story() -> None:
            a, b = await self.make("ab")
            a.write("top.sls", "base:\n  '*': [web]\n")
            a.write("web/init.sls", "one\n" * 500)
            a.write("web/big.bin", os.urandom(300_000))
            os.makedirs(a.path("empty/deep"))
            os.symlink("init.sls", a.path("web/link.sls"))
            os.chmod(a.path("top.sls"), 0o640)
            await self.start()
            await self.settle()
            self.assertEqual(b.read("top.sls"), a.read("top.sls"))

            a.write("web/init.sls", "one\n" * 250 + "changed\n" + "one\n" * 250)
            os.chmod(a.path("top.sls"), 0o600)
            await until(lambda: b.read("web/init.sls") == a.read("web/init.sls"))
            await self.settle()

            b.write("from/b.sls", "b\n")
            os.unlink(b.path("web/link.sls"))
            await until(lambda: a.read("from/b.sls") == b"b\n")
            await self.settle()

            os.rename(a.path("web"), a.path("www"))
            shutil.rmtree(a.path("empty"))
            await until(lambda: b.read("www/init.sls") and not os.path.exists(b.path("empty")))
            await self.settle()

        return self.run_coroutine(story)
