"""
The warm parent as a process: how it ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.process.warm import Frames, WarmParent, frame, pack

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


class LightTests(SynchronousTestCase):
    """What a parent is before anybody has asked it for a child."""

    def test_imports(self) -> None:
        """It has imported nothing that only children need: every daemon at rest has one."""
        code = "import sys, saltwisted.worker.process.warm; print(*sys.modules)"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        said = subprocess.run(
            [sys.executable, "-P", "-S", "-c", code], env=env, capture_output=True, check=True
        )
        loaded = {name.partition(".")[0] for name in said.stdout.decode().split()}
        self.assertEqual(loaded & {"attr", "ctypes", "inspect", "logging", "typing", "yaml"}, set())


QUICK = (
    "import sys; from saltwisted.worker.process import warm;"
    " warm.GRACE = 0.2; warm.main(sys.argv[1:])"
)
RENDER = "saltwisted.worker.automation.work:serve"


class OrphanTests(SynchronousTestCase):
    """A daemon is killed whose children are caught in something that does not end."""

    def left(self, entry: str, payload: Any) -> int:
        """A child's process, whose daemon and warm parent are gone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(ours.close)
        with theirs:
            number = theirs.fileno()
            parent = subprocess.Popen(
                [sys.executable, "-c", QUICK, str(number), "test"],
                pass_fds=[number],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.addCleanup(parent.wait)
        self.addCleanup(parent.kill)
        daemon, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(daemon.close)
        self.addCleanup(child.close)
        asked = {"do": "spawn", "n": 1, "entry": entry, "payload": pack(payload)}
        socket.send_fds(ours, [frame(asked)], [child.fileno()])
        ours.settimeout(PATIENCE)
        frames, told = Frames(), []
        while not told:
            told += list(frames.feed(ours.recv(4096)))
        self.assertEqual(told[0]["is"], "started")
        pid = int(told[0]["pid"])
        process = os.pidfd_open(pid)
        self.addCleanup(os.close, process)
        self.addCleanup(self.end, process)
        ours.close()
        self.assertEqual(parent.wait(PATIENCE), 0)
        return process

    def end(self, process: int) -> None:
        """Whatever comes."""
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def has_ended(self, process: int, seconds: float) -> bool:
        """Within so many seconds."""
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def fifo(self) -> str:
        """A file that nobody ever writes: who reads it waits for ever."""
        path = os.path.abspath(self.mktemp())
        os.mkfifo(path)
        return path

    def test_it_ends(self) -> None:
        """A child that does not look at its socket is killed; its parent has not waited for it."""
        process = self.left(RENDER, {"do": "map", "path": self.fifo()})

        self.assertTrue(self.has_ended(process, PATIENCE), "it goes on")


class KillTests(SynchronousTestCase):
    """What a daemon has killed."""

    def parent(self) -> WarmParent:
        """One in this process."""
        link, other = socket.socketpair()
        self.addCleanup(link.close)
        self.addCleanup(other.close)
        parent = WarmParent(link)
        self.addCleanup(os.close, parent._wake_read)
        self.addCleanup(os.close, parent._wake_write)
        return parent

    def test_has_no_group_yet(self) -> None:
        """A child that has just been forked is still in its parent's group, and is killed too."""
        parent = self.parent()
        child = subprocess.Popen(["sleep", "600"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        parent._children[child.pid] = 7

        parent._kill({"do": "kill", "n": 8, "signal": signal.SIGKILL, "group": True})
        self.assertIsNone(child.poll())
        parent._kill({"do": "kill", "n": 7, "signal": signal.SIGKILL, "group": True})

        self.assertEqual(child.wait(PATIENCE), -signal.SIGKILL)

    def test_what_it_has_started(self) -> None:
        """
        A program that a killed child has started is killed as well; one that a job has started goes
        on, and so does one of a child that has just ended.
        """
        for bound, ending, goes in ((True, 9, True), (False, 9, False), (True, 0, False)):
            parent = self.parent()
            ready, write = os.pipe()
            code = (
                "import os, signal, subprocess, sys;"
                " other = subprocess.Popen(['sleep', '600'], stdin=0, stdout=0, stderr=0);"
                f" os.write({write}, other.pid.to_bytes(8, 'big'));"
                f" {ending} and os.kill(os.getpid(), {ending}); os._exit(0)"
            )
            child = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[write],
                start_new_session=True,
            )
            os.close(write)
            other = int.from_bytes(os.read(ready, 8), "big")
            os.close(ready)
            process = os.pidfd_open(other)
            self.addCleanup(os.close, process)
            self.addCleanup(self.end, process)
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            parent._children[child.pid] = 7
            if bound:
                parent._bound.add(child.pid)

            parent._reap()
            child.returncode = 0

            poll = select.poll()
            poll.register(process, select.POLLIN)
            self.assertEqual(bool(poll.poll(PATIENCE * 1000 if goes else 0)), goes, (bound, ending))
            self.assertEqual(parent._children, {})

    def end(self, process: int) -> None:
        """Kill it, if it runs."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
