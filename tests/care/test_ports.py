"""
Who listens on a port.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.tools.ports import listener


class ListenerTests(SynchronousTestCase):
    """By what the kernel says."""

    def test_a_child_holds_it_too(self) -> None:
        """A child that was forked a moment ago has the sockets of its parent: that is no theft."""
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.listen()
            port = sock.getsockname()[1]
            child = subprocess.Popen(
                [sys.executable, "-c", "input()"],
                pass_fds=(sock.fileno(),),
                stdin=subprocess.PIPE,
            )
            try:
                for pid in (os.getpid(), child.pid):
                    self.assertIn(f"(pid {pid})", listener(port, pid))
                self.assertRegex(listener(port), r"\(pid \d+\)")
            finally:
                child.communicate(b"\n")
        self.assertEqual(listener(port), "")
        self.assertEqual(listener(port, os.getpid()), "")
