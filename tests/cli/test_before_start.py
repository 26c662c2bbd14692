"""What commands leave where a daemon looks at its start."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.keyfiles import lay_down_beginning, lay_down_token
from saltwisted.stores.facts.node import NodeFiles


class BeforeTheStartTests(SynchronousTestCase):
    """On a machine where the daemon has never run."""

    def setUp(self) -> None:
        """Nothing is there, not even the directory of the keys."""
        top = tempfile.mkdtemp(prefix="before")
        self.addCleanup(shutil.rmtree, top)
        self.pki = os.path.join(top, "etc", "pki", "master")

    def test_begin(self) -> None:
        """C{cluster init} before the first start is found at it; without it a node is not told."""
        self.assertFalse(NodeFiles(self.pki).begins())

        lay_down_beginning(self.pki)
        lay_down_beginning(self.pki)

        self.assertTrue(NodeFiles(self.pki).begins())

    def test_identity(self) -> None:
        """A master that has keys already, which minions may know, needs no word."""
        os.makedirs(self.pki)
        with open(f"{self.pki}/master.pem", "w"):
            pass

        self.assertTrue(NodeFiles(self.pki).begins())

    def test_private(self) -> None:
        """What they make on the way is its owner's alone."""
        for lay_down in (lay_down_beginning, lambda pki: lay_down_token(pki, "swt1-x", False)):
            shutil.rmtree(self.pki, ignore_errors=True)
            lay_down(self.pki)

            for folder in (self.pki, f"{self.pki}/cluster"):
                self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700, folder)
