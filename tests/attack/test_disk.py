"""
A disk that is full, or read-only, below a running master.

The master's C{cachedir} is a small ext4 of its own in a file, which takes root and a loop
device to mount; without them the tests skip and say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from typing import Any

import msgpack
import zmq
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.attack.fleet import Silence, WireMinion, put_key
from tests.harness import OurMaster, scratch, until

SIZE = 16 * 1024 * 1024
JID = "202611211200{:08d}"


ENDED = (0, -signal.SIGTERM)
"""How a stopped twistd ends: the newer ones by the signal itself."""


def _run(*args: str) -> None:
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SkipTest(f"no file system of our own here: {' '.join(args)}: {done.stderr.strip()}")


class Disk(SynchronousTestCase):
    """One master each; its cache on sixteen megabytes."""

    def setUp(self) -> None:
        """Mount, start, sign one minion in."""
        home = scratch(self)
        self.master = OurMaster(home)
        self.cache = os.path.join(self.master.root, "var/cache/salt/master")
        os.makedirs(self.cache)
        if os.geteuid() != 0:
            raise SkipTest("only root may mount a file system of our own")
        self.image = os.path.join(home, "image")
        with open(self.image, "wb") as handle:
            handle.truncate(SIZE)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", self.image)
        self.mount()
        self.addCleanup(subprocess.run, ["umount", "-l", self.cache], check=True)
        self.addCleanup(self.master.kill)
        put_key(self.master.pki, "web1")
        put_key(self.master.pki, "web2")
        with open(os.path.join(self.master.file_root, "good"), "w") as handle:
            handle.write("good")
        self.master.up()
        self.context = zmq.Context()
        self.addCleanup(self.context.destroy, 0)
        self.minion = WireMinion(self.context, self.master.ret_port, "web1")
        self.minion.sign_in()
        self.count = 0
        self.kept: dict[str, Any] = {}

    def mount(self) -> None:
        """Mount the image below the master's cache."""
        _run("mount", "-o", "loop,errors=remount-ro", self.image, self.cache)

    def fill(self) -> str:
        """Leave not a byte free; the file that does it."""
        path = os.path.join(self.cache, "filler")
        with open(path, "wb", buffering=0) as handle:
            for size in (65536, 512):
                with contextlib.suppress(OSError):
                    while True:
                        handle.write(b"x" * size)
        return path

    def status(self) -> dict[str, Any]:
        """What the control socket says."""
        with self.master.control() as control:
            found: dict[str, Any] = control.call_within(10, "status")
        return found

    def send(self, size: int = 100, seconds: float = 5.0) -> bool:
        """Send one return; whether it was acknowledged."""
        self.count += 1
        jid = JID.format(self.count)
        value = f"{self.count}:" + "x" * size
        try:
            answer = self.minion.ask(
                "_return", seconds, jid=jid, fun="test.arg", retcode=0, **{"return": value}
            )
        except Silence:
            return False
        self.assertIsNone(answer)
        self.kept[jid] = value
        return True

    def serves(self) -> None:
        """Files, events, pings over the control socket and sign-ins work."""
        self.assertEqual(self.minion.ask("_serve_file", path="good", loc=0)["data"], "good")
        self.assertEqual(self.minion.ask("_file_list", saltenv="base", prefix=""), ["good"])
        self.assertIsNot(self.minion.ask("_minion_event", tag="my/tag", data={}), "")
        fresh = WireMinion(self.context, self.master.ret_port, "web2")
        fresh.sign_in()
        self.assertEqual(fresh.ask("_file_envs"), ["base"])
        fresh.asker.close()
        self.assertTrue(self.status()["uptime"] > 0)

    def says(self, words: str) -> None:
        """The log has it, once: thousands of refused returns are one line and a counter."""
        self.master.wait_for_line(words, 10)

    def found(self) -> None:
        """All that was acknowledged can be looked up, nothing is half written."""
        with self.master.control() as control:
            for jid, value in self.kept.items():
                answer = control.call("runner", fun="jobs.lookup_jid", arg=[jid])["return"]
                self.assertEqual(answer, {"web1": value})
        path = os.path.join(self.cache, "saltwisted/jobs.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        for folder, _, names in os.walk(self.cache):
            for name in names:
                self.assertFalse(name.startswith(".tmp-"), f"{folder}/{name}")
                if os.path.basename(folder) in ("mine", "grains", "pillar"):
                    with open(os.path.join(folder, name), "rb") as handle:
                        self.assertIsInstance(msgpack.unpackb(handle.read()), dict)

    def test_full(self) -> None:
        """A full disk: no return is acknowledged, all else works, and it recovers by itself."""
        self.assertTrue(self.send())
        filler = self.fill()
        refused = 0
        for _ in range(100):
            if not self.send(60_000, 0.5):
                refused += 1
                if refused == 3:
                    break
        self.assertEqual(refused, 3)

        self.says("the job cache cannot be written")
        self.minion.ask("_mine", data={"blob": "m" * 100_000})
        self.serves()
        problems = self.status()["problems"]
        self.assertIn("full", problems["jobs"])
        self.assertIn("No space", problems["cache"])
        self.assertEqual(self.master.text().count("the job cache cannot be written"), 1)

        os.unlink(filler)
        until("the master to take returns again", lambda: self.send(60_000, 2))
        self.says("the disk takes writes again")
        until("no problems", lambda: self.status()["problems"] == {})
        self.found()
        self.serves()
        self.assertIn(self.master.stop(), ENDED)
        self.master.up()
        self.minion.sign_in()
        self.found()
        mined = self.minion.ask("_mine_get", tgt="web1", fun="blob")
        self.assertEqual({n: len(v) for n, v in mined.items()}, {"web1": 100_000})

    def test_read_only(self) -> None:
        """A disk that becomes read-only by an error: the same, and nothing is lost."""
        self.assertTrue(self.send())
        device = _device(self.cache)
        trigger = f"/sys/fs/ext4/{device}/trigger_fs_error"
        if not os.access(trigger, os.W_OK):
            raise SkipTest(f"{trigger} cannot be written: no error can be had from this ext4")
        with open(trigger, "w") as handle:
            handle.write("test")
        self.assertFalse(self.send(100, 0.5))
        self.assertFalse(self.send(100, 0.5))

        self.says("the job cache cannot be written")
        self.minion.ask("_mine", data={"blob": "m" * 1000})
        self.serves()
        self.assertIn("jobs", self.status()["problems"])

        self.assertIn(self.master.stop(), ENDED)
        subprocess.run(["umount", self.cache], check=True)
        # Another mount namespace may still hold the old device: what is on it moves to a new one
        os.sync()
        self.image = shutil.copy(self.image, f"{self.image}-again")
        subprocess.run(["e2fsck", "-fy", self.image], check=False, capture_output=True)
        self.mount()
        self.master.up()
        self.minion.sign_in()
        self.assertTrue(self.send())
        self.assertEqual(self.status()["problems"], {})
        self.found()

    def test_full_from_the_start(self) -> None:
        """A master that finds its disk full at the start stays, serves what it can and says 3,
        as often as it is started; what it had is not broken."""
        self.assertTrue(self.send())
        fillers = []
        for number in range(2):
            self.assertIn(self.master.stop(), ENDED)
            filler = self.fill()
            fillers.append(f"{filler}-{number}")
            os.rename(filler, fillers[-1])
            self.master.up()
            self.minion.session = None
            self.minion.sign_in()

            self.serves()
            self.assertIn("full", self.status()["problems"]["disk"])
            self.assertEqual(self.master.command("status", "--role", "master").returncode, 3)
        for filler in fillers:
            os.unlink(filler)
        self.assertIn(self.master.stop(), ENDED)
        self.master.up()
        self.minion.session = None
        self.minion.sign_in()
        self.assertEqual(self.status()["problems"], {})
        self.assertTrue(self.send())
        self.found()


def _device(path: str) -> str:
    """The name of the device that is mounted there."""
    with open("/proc/mounts") as handle:
        for line in handle:
            device, where, *_ = line.split()
            if where == path:
                return os.path.basename(device)
    raise AssertionError(f"nothing is mounted on {path}")
