"""
The warm parent as a process: how it ends.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.process.warm import frame

CODE = "import sys; from saltwisted.worker.process.warm import main; main(sys.argv[1:])"
PATIENCE = 30.0


class EndTests(SynchronousTestCase):
    """Its daemon goes away."""

    def setUp(self) -> None:
        """One that has served a request, and whose answer was not read."""
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.ours.close)
        with theirs:
            number = theirs.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-c", CODE, str(number), "test"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[number],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.addCleanup(self.process.stdout.close)  # type: ignore[union-attr]
        request = frame({"do": "spawn", "n": 1, "entry": "no such entry", "payload": b""})
        with open(os.devnull) as null:
            socket.send_fds(self.ours, [request], [null.fileno()])
        poll = select.poll()
        poll.register(self.ours, select.POLLIN)
        self.assertTrue(poll.poll(PATIENCE * 1000), "no answer")

    def ended(self) -> tuple[int, bytes]:
        """Its exit status, and what it said."""
        said, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said

    def test_killed_daemon(self) -> None:
        """A daemon that was killed with something unread: the parent ends, and says nothing."""
        self.ours.close()

        self.assertEqual(self.ended(), (0, b""))

    def test_stopped_daemon(self) -> None:
        """A daemon that has read all."""
        self.ours.recv(4096)
        self.ours.close()

        self.assertEqual(self.ended(), (0, b""))
