"""
Files from encoded values of the pillar.
"""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.process.loader import Loaders
from tests.modules.harness import GRAINS


class DecodeTests(SynchronousTestCase):
    """C{file.decode} with C{contents_pillar}."""

    def test_plain(self) -> None:
        """The state gets the value itself; stock decodes the stars in its place."""
        path = Path(self.mktemp())
        opts = MinionConfig(id="m1", file_client="local").as_opts()
        loaders = Loaders(opts, grains=dict(GRAINS), pillar={"b64": "aGVsbG8K"}, stock=False)

        ret = loaders.states["file.decode"](str(path), contents_pillar="b64")

        self.assertIs(ret["result"], True)
        self.assertEqual(path.read_text(), "hello\n")
