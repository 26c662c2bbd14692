"""
Becoming another user: which calls are made, in which order.
"""

from __future__ import annotations

import os
import pwd
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import ConfigError
from saltwisted.roles.privileges import become


class BecomeTests(SynchronousTestCase):
    """The system's calls are played; real daemons do it in C{tests.attack.test_privileges}."""

    def setUp(self) -> None:
        """Be root, or somebody."""
        self.calls: list[tuple[Any, ...]] = []
        self.patch(os, "environ", dict(os.environ))
        for name in ("initgroups", "setgid", "setuid", "setgroups"):
            self.patch(os, name, lambda *given, name=name: self.calls.append((name, *given)))
        self.patch(os, "geteuid", lambda: self.uid)
        self.uid = 0
        self.entry = pwd.getpwnam("nobody")

    def test_T_PRIV_1_order(self) -> None:
        """T-PRIV-1: root's groups go first, then its group, and the user at last: all or none."""
        become("nobody")

        entry = self.entry
        self.assertEqual(
            self.calls,
            [
                ("initgroups", entry.pw_name, entry.pw_gid),
                ("setgid", entry.pw_gid),
                ("setuid", entry.pw_uid),
            ],
        )
        self.assertEqual(os.environ["HOME"], entry.pw_dir)
        self.assertEqual({os.environ["USER"], os.environ["LOGNAME"]}, {"nobody"})

    def test_nothing_to_do(self) -> None:
        """Who is that user already, or is told no name, stays as he is."""
        become("")
        self.uid = self.entry.pw_uid
        become("nobody")

        self.assertEqual(self.calls, [])

    def test_cannot(self) -> None:
        """T-PRIV-1: who may not switch, or to nobody there is, does not go on as he is."""
        self.assertRaises(ConfigError, become, "no-such-user-here")
        self.uid = 12345
        self.patch(pwd, "getpwuid", lambda uid: self.entry)
        self.assertRaises(ConfigError, become, "nobody")

        self.assertEqual(self.calls, [])
