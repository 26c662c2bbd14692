"""
Worker processes for real: a warm parent, its children, and how each one ends.

These tests use the reactor and fork, since what they are about is processes; each takes some
tens of milliseconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import signal
import sys
import tempfile
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater
from twisted.logger import Logger, LogLevel, formatEvent
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.stores.roots.filework import make_request, read_request
from saltwisted.transports.callpool import CallPool, PoolLimits
from saltwisted.transports.children import Exit
from saltwisted.transports.workers import WarmPool
from saltwisted.worker.jobfiles import Outbox, is_job_process, read_kept, read_procs
from saltwisted.worker.process import warm
from tests.fakes.warm import fork_warm_parent
from tests.transports.test_ipc import awaited

RUN = "saltwisted.worker.process.main:run_job"
SERVE = "tests.transports.workload:serve"


def write(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w") as file:
        file.write(text)


def text_of(path: str) -> str:
    """What is in it."""
    with open(path) as file:
        return file.read()


def folders_with(word: bytes, base: str) -> list[str]:
    """The directories below one that have files with a word in them."""
    found = []
    for folder, _, names in os.walk(base):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                if word in file.read():
                    found.append(os.path.relpath(folder, base))
    return sorted(found)


class Case(TestCase):
    """A pool in a directory of its own."""

    timeout = 20

    def setUp(self) -> None:
        """Start it; the exec'd parents of a test know our entry too."""
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.begun: list[str] = []
        self.pool = self.make()
        self.pool.privilegedStartService()
        self.pool.startService()

    def make(
        self,
        on: Any = reactor,
        rest: float | None = None,
        rest_of_it: float | None = None,
        **limits: Any,
    ) -> WarmPool:
        """A pool whose parents are forked, also the later ones: quicker, and enough here."""
        entries = warm.ENTRIES

        def fork(preload: Any) -> Any:
            warm.ENTRIES = entries | {SERVE}
            try:
                return fork_warm_parent(preload)
            finally:
                warm.ENTRIES = entries

        pool = WarmPool(
            on, fork, fork, pools={SERVE: PoolLimits(rest=rest_of_it, **{"size": 1, **limits})},
            handler=self.answer, rest=rest,
        )  # fmt: skip
        pool.set_fact("opts", {"id": "m1", "cachedir": self.base, "file_client": "remote"})
        self.addCleanup(lambda: pool.stopService())
        return pool

    async def answer(self, op: str, args: dict[str, Any], peer: Any, stream: Any) -> Any:
        """The daemon's side of what children ask."""
        if op == "begins":
            self.begun.append(args["path"])
            return None
        self.heard.append((op, args))
        if op == "slow":
            await deferLater(reactor, 30, lambda: None)
        return {"answer": op}

    def job(self, fun: str, *arg: Any, **more: Any) -> Any:
        """Start a job."""
        job = {"jid": f"2026010100000000{len(self.heard):04}", "fun": fun, "arg": list(arg)}
        payload = {"job": job, "outbox": os.path.join(self.base, "outbox"), **more}
        return self.pool.spawn(RUN, payload, self.answer)

    def module(self, name: str, *lines: str) -> None:
        """Put an execution module of its own in place."""
        folder = os.path.join(self.base, "extmods", "modules")
        os.makedirs(folder)
        with open(os.path.join(folder, name + ".py"), "w") as stream:
            stream.write("\n".join(lines))

    def patient(self, **more: Any) -> tuple[Any, str]:
        """A job that ends when a file is there: the child, and the file's path."""
        self.module(
            "patient",
            "import os, time",
            "def wait(path):",
            "    while not os.path.exists(path):",
            "        time.sleep(0.01)",
            "    return 'waited'",
        )
        path = os.path.join(self.base, "go on")
        return self.job("patient.wait", path, **more), path

    async def until(self, condition: Any) -> Any:
        """Wait, in small steps, for something that a process of ours does outside the reactor."""
        while not (value := condition()):
            await deferLater(reactor, 0.01, lambda: None)
        return value


class FailureTests(SynchronousTestCase):
    """What a child says when it fails."""

    def test_said(self) -> None:
        """A daemon that has stopped is nothing to report; a mistake is, with its traceback."""
        stream = io.StringIO()
        self.patch(sys, "stderr", stream)

        self.assertEqual(warm._status_of(TransportClosed("the daemon went away")), 75)
        self.assertEqual(stream.getvalue(), "")
        self.assertEqual(warm._status_of(ValueError("what")), 70)
        self.assertIn("ValueError: what", stream.getvalue())


class JobTests(Case):
    """A child for one job."""

    @awaited
    async def test_return(self) -> None:
        """A job's return is on disk when the daemon is told of it, and the process ends cleanly."""
        child = self.job("test.ping")

        how = await child.exited

        self.assertTrue(how.clean, how)
        ((op, args),) = self.heard
        self.assertEqual(op, "return")
        kept = Outbox(os.path.join(self.base, "outbox")).read(args["name"])
        assert kept is not None
        self.assertEqual((kept.load["return"], kept.load["id"]), (True, "m1"))
        self.assertEqual(read_kept(args["packed"]), kept)
        self.assertEqual(list(read_procs(self.base)), [])

    @awaited
    async def test_T_LOG_1_secret(self) -> None:
        """T-LOG-1: what a secret job was given and returns is stars before any disk has it."""
        opts = {"id": "m1", "cachedir": self.base, "file_client": "remote", "cache_jobs": True}
        self.pool.set_fact("opts", opts)
        marked = {"jid": "20260101000000000001", "fun": "test.echo", "arg": ["canary-6"]}

        for secret in (True, False):
            job = {**marked, "metadata": {"no_log": secret}}
            await self.job("test.echo", job=job).exited

            found = folders_with(b"canary-6", self.base)
            kept = [] if secret else [f"minion_jobs/{marked['jid']}", "outbox"]
            self.assertEqual(found, kept)

    @awaited
    async def test_listed_and_killed(self) -> None:
        """A running job is in the proc directory with the pid of its process, and can be killed."""
        child = self.job("test.sleep", 60)
        ((_, data),) = await self.until(lambda: list(read_procs(self.base)))

        self.assertEqual((data["fun"], data["pid"]), ("test.sleep", child.pid))
        self.assertTrue(is_job_process(child.pid, data["jid"]))
        self.assertEqual(os.getpgid(child.pid), child.pid)
        child.kill(signal.SIGTERM)
        how = await child.exited

        self.assertEqual((how.status, str(how)), (signal.SIGTERM, "was ended by SIGTERM"))
        self.assertEqual(self.heard, [])

    @awaited
    async def test_forks(self) -> None:
        """
        Of two processes that come back from a function of the site's, or leave it by an error, one
        returns. Before its file is executed the daemon is told which it is.
        """
        self.module(
            "forking",
            "import os, sys",
            "def back():",
            "    pid = os.fork()",
            "    if pid:",
            "        os.waitpid(pid, 0)",
            "    return 'parent' if pid else 'child'",
            "def leave():",
            "    pid = os.fork()",
            "    if pid == 0:",
            "        sys.exit(3)",
            "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        )
        for fun, value in (("forking.back", "parent"), ("forking.leave", 0)):
            self.heard.clear()
            await self.job(fun).exited

            ((_, args),) = self.heard
            outbox = Outbox(os.path.join(self.base, "outbox"))
            kept = outbox.read(args["name"])
            assert kept is not None
            self.assertEqual(kept.load["return"], value)
            self.assertEqual(outbox.names(), [args["name"]])
            outbox.remove(args["name"])
        path = os.path.join(self.base, "extmods", "modules", "forking.py")
        self.assertEqual(self.begun, [path] * 4)

    @awaited
    async def test_crash(self) -> None:
        """A process that dies under the interpreter harms nothing; the daemon learns the signal."""
        self.module(
            "crash",
            "import os, faulthandler",
            "def now():",
            "    faulthandler.disable()",
            "    os.kill(os.getpid(), 11)",
            "def exit():",
            "    os._exit(3)",
        )

        crashed = await self.job("crash.now").exited
        ended = await self.job("crash.exit").exited
        after = await self.job("test.ping").exited

        self.assertEqual(str(crashed), "was ended by SIGSEGV")
        self.assertEqual(str(ended), "exited with status 3")
        self.assertTrue(after.clean)

    @awaited
    async def test_kill_reaches_programs(self) -> None:
        """Killing a job's group ends the programs that it started."""
        self.module(
            "starts",
            "import os, subprocess",
            "def program(path):",
            "    p = subprocess.Popen(['sleep', '60'])",
            "    os.symlink(str(p.pid), path)",
            "    p.wait()",
        )
        note = os.path.join(self.base, "pid")
        child = self.job("starts.program", note)
        await self.until(lambda: os.path.lexists(note))
        program = int(os.readlink(note))

        child.kill(signal.SIGKILL)
        await child.exited

        await self.until(lambda: _gone(program))

    @awaited
    async def test_facts(self) -> None:
        """Children find the facts that the daemon has told, the newest ones."""
        self.pool.set_fact("pillar", {"a": 1})
        self.pool.set_fact("pillar", {"a": False, "long": "x" * 100000})
        self.pool.set_fact("grains", {"os": "X"})

        await self.job("pillar.get", "a", private=True).exited

        self.assertEqual(self.heard[0][0], "private_return")
        self.assertIs(self.heard[0][1]["ret"]["return"], False)

    @awaited
    async def test_stdout(self) -> None:
        """What a module prints disturbs nothing."""
        self.module(
            "noisy",
            "import os",
            "def f():",
            "    print('x' * 100000)",
            "    os.write(1, b'y')",
            "    return 'quiet'",
        )
        await self.job("noisy.f", private=True).exited

        self.assertEqual(self.heard[0][1]["ret"]["return"], "quiet")

    @awaited
    async def test_large(self) -> None:
        """Arguments and returns larger than any socket buffer pass."""
        big = "x" * 3_000_000

        await self.job("test.echo", big, private=True).exited

        self.assertEqual(self.heard[0][1]["ret"]["return"], big)

    @awaited
    async def test_many(self) -> None:
        """Many jobs at once all return, each once."""
        children = [self.job("test.echo", number, private=True) for number in range(20)]

        for child in children:
            await child.exited

        values = sorted(args["ret"]["return"] for _, args in self.heard)
        self.assertEqual(values, list(range(20)))

    @awaited
    async def test_outlives_the_daemon(self) -> None:
        """A job goes on when the daemon stops, and leaves its return on disk."""
        _, go_on = self.patient()
        await self.until(lambda: list(read_procs(self.base)))

        await self.pool.stopService()
        os.mkdir(go_on)

        outbox = Outbox(os.path.join(self.base, "outbox"))
        (name,) = await self.until(outbox.names)
        kept = outbox.read(name)
        assert kept is not None
        self.assertEqual((kept.load["return"], kept.load["fun"]), ("waited", "patient.wait"))


class ParentTests(Case):
    """The warm parent itself."""

    @awaited
    async def test_replaced(self) -> None:
        """When the parent is killed its jobs go on, and a new parent takes the next ones."""
        running, go_on = self.patient(private=True)
        await self.until(lambda: running.pid)
        old = self.pool.parent_pid

        os.kill(old, signal.SIGKILL)
        await self.until(lambda: self.pool.parent_pid not in (0, old))
        await self.job("test.ping", private=True).exited
        os.mkdir(go_on)
        how = await running.exited

        functions = [args["ret"]["fun"] for _, args in self.heard]
        self.assertEqual(functions, ["test.ping", "patient.wait"])
        self.assertEqual((how.pid, how.status), (running.pid, None))

    @awaited
    async def test_job_between_parents(self) -> None:
        """A job that is given while there is no parent runs when there is one again."""
        os.kill(self.pool.parent_pid, signal.SIGKILL)
        child = self.job("test.ping", private=True)

        how = await child.exited

        self.assertEqual([args["ret"]["return"] for _, args in self.heard], [True])
        self.assertTrue(how.clean)

    @awaited
    async def test_program(self) -> None:
        """A parent that is started as a program, as while the reactor runs, works the same."""
        pool = WarmPool(reactor, warm.exec_warm_parent, warm.exec_warm_parent)
        self.addCleanup(pool.stopService)
        pool.set_fact("opts", {"id": "m2", "cachedir": self.base})
        pool.startService()
        self.pool, first = pool, self.pool

        how = await self.job("test.ping").exited
        self.pool = first

        self.assertTrue(how.clean)
        kept = read_kept(self.heard[0][1]["packed"])
        assert kept is not None
        self.assertEqual(kept.load["id"], "m2")

    @awaited
    async def test_debug_signals(self) -> None:
        """SIGUSR1 and SIGUSR2 end no warm parent, from its first moment; the first is answered."""
        self.patch(os, "environ", {**os.environ, "TMPDIR": self.base})
        pool = WarmPool(reactor, warm.exec_warm_parent, warm.exec_warm_parent)
        self.addCleanup(pool.stopService)
        pool.set_fact("opts", {"id": "m2", "cachedir": self.base})
        pool.startService()
        self.pool, first = pool, self.pool
        pid = pool.parent_pid
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(pid, number)

        how = await self.job("test.ping").exited
        self.pool = first

        self.assertTrue(how.clean)
        self.assertEqual(pool.parent_pid, pid)
        dumps = [name for name in os.listdir(self.base) if name.startswith("salt-debug-")]
        self.assertEqual(len(dumps), 1, dumps)

    @awaited
    async def test_descriptors(self) -> None:
        """A parent holds none of the daemon's descriptors but its own end of the link."""
        await self.job("test.ping", private=True).exited
        folder = f"/proc/{self.pool.parent_pid}/fd"
        targets = {os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}

        others = {name for name in targets if name.startswith(("socket:", "anon_inode:"))}

        self.assertEqual(len(others), 1, targets)

    @awaited
    async def test_gone_after_stop(self) -> None:
        """Stopping leaves no warm parent behind."""
        pid = self.pool.parent_pid

        await self.pool.stopService()

        self.assertTrue(_gone(pid))


class Timed:
    """The reactor; what takes five seconds or more goes by a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.seconds = self.clock.seconds

    def callLater(self, delay: float, call: Any, *args: Any) -> Any:
        """By one or the other."""
        return (reactor if delay < 5 else self.clock).callLater(delay, call, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(reactor, name)


class RestTests(Case):
    """A parent that lives only while somebody needs what it has imported."""

    def setUp(self) -> None:
        """A pool whose parents rest after 100 seconds."""
        super().setUp()
        self.time = Timed()
        self.pool = self.make(self.time, 100.0, idle=10.0)
        self.pool.privilegedStartService()
        self.pool.startService()

    async def served(self) -> int:
        """One call of a pooled child, which is idle then; the parent's pid."""
        await self.pool.call(SERVE, {"what": "pid", "args": []}, 1000)
        await deferLater(reactor, 0)
        return self.pool.parent_pid

    async def alone(self) -> None:
        """Wait until no child is left."""
        await self.until(lambda: self.pool.status()["children"] == 0)

    @awaited
    async def test_on_demand(self) -> None:
        """The first child has one started, some time after the last it ends, and so again."""
        self.assertEqual(self.pool.parent_pid, 0)
        self.pool.set_fact("word", "known")
        first = await self.served()
        self.time.clock.advance(11)
        await self.alone()

        self.time.clock.advance(99)
        self.assertEqual(self.pool.parent_pid, first)
        self.time.clock.advance(2)
        self.assertEqual(self.pool.parent_pid, 0)
        await self.until(lambda: _gone(first))
        word = await self.pool.call(SERVE, {"what": "fact", "args": ["word"]}, 1000)

        self.assertEqual(word, "known")
        self.assertNotIn(self.pool.parent_pid, (0, first))
        self.time.clock.advance(1)

    @awaited
    async def test_busy(self) -> None:
        """A child that is still there keeps it, however old both are."""
        child, go_on = self.patient()
        await self.until(lambda: list(read_procs(self.base)))
        parent = self.pool.parent_pid

        self.time.clock.advance(1000)
        write(go_on, "")
        how = await child.exited

        self.assertTrue(how.clean)
        self.assertEqual(self.pool.parent_pid, parent)
        self.time.clock.advance(100)
        self.assertEqual(self.pool.parent_pid, 0)

    @awaited
    async def test_one_entry(self) -> None:
        """One entry that nobody needs any more is enough: what it has imported goes."""
        await self.job("test.ping", private=True).exited
        parent = self.pool.parent_pid
        for _ in range(9):
            self.assertEqual(await self.served(), parent)
            self.time.clock.advance(11)
            await self.alone()
        self.time.clock.advance(1)

        self.assertEqual(self.pool.parent_pid, 0)
        after = await self.served()
        self.time.clock.advance(99)
        await self.alone()
        self.assertEqual(await self.served(), after)

    @awaited
    async def test_shorter(self) -> None:
        """What one entry has imported may be let go sooner than all else."""
        self.pool = self.make(self.time, 100.0, idle=10.0, rest_of_it=6.0)
        self.pool.startService()
        await self.job("test.ping", private=True).exited
        self.time.clock.advance(50)
        self.assertNotEqual(self.pool.parent_pid, 0)
        await self.served()
        self.time.clock.advance(11)
        await self.alone()

        self.time.clock.advance(5)
        self.assertNotEqual(self.pool.parent_pid, 0)
        self.time.clock.advance(2)

        self.assertEqual(self.pool.parent_pid, 0)

    @awaited
    async def test_lost(self) -> None:
        """One that was killed while it waited for work is followed by one that rests as well."""
        first = await self.served()
        self.time.clock.advance(11)
        await self.alone()
        os.kill(first, signal.SIGKILL)
        await self.until(lambda: self.pool.parent_pid not in (0, first))

        self.time.clock.advance(101)

        self.assertEqual(self.pool.parent_pid, 0)

    @awaited
    async def test_early(self) -> None:
        """A child that is asked for before the pool starts has its parent when it does."""
        self.pool = self.make(self.time, 100.0)
        child = self.job("test.ping", private=True)

        self.pool.startService()

        self.assertTrue((await child.exited).clean)


class PoolTests(Case):
    """Children that take calls one after another."""

    def call(self, what: str, *args: Any, timeout: float = 10) -> Deferred[Any]:
        """One call of the workload."""
        return self.pool.call(SERVE, {"what": what, "args": list(args)}, timeout)

    @awaited
    async def test_calls(self) -> None:
        """One child takes many calls, in order, and raises and asks back in between."""
        pids = [await self.call("pid"), await self.call("pid")]
        self.assertEqual(pids[0], pids[1])

        error = await self.assertFailure(self.call("raise", "why"), RemoteError)
        self.assertEqual((error.name, error.message), ("ValueError", "why"))
        self.assertEqual(await self.call("ask", "thing"), {"answer": "thing"})
        self.assertEqual(await self.call("pid"), pids[0])

    @awaited
    async def test_lines(self) -> None:
        """What a call logs is in the daemon's log, from the configuration's level on."""
        seen: list[Any] = []
        self.patch(CallPool, "log", Logger(observer=seen.append))
        await self.call("log", 40, 30, 20, 10)
        self.assertEqual(
            [formatEvent(event) for event in seen], ["of.site: said 40", "of.site: said 30"]
        )

        seen.clear()
        self.pool.set_fact("opts", {"log_level": "info"})
        self.pool.recycle(SERVE)
        await self.call("log", 40, 20, 10)
        self.assertEqual([event["log_level"] for event in seen], [LogLevel.error, LogLevel.info])

    @awaited
    async def test_queue(self) -> None:
        """More calls than children wait their turn."""
        calls = [self.call("echo", number) for number in range(10)]

        self.assertEqual([await call for call in calls], list(range(10)))

    @awaited
    async def test_timeout(self) -> None:
        """A call that takes too long fails, its child is killed, and the next has a new one."""
        first = await self.call("pid")

        error = await self.assertFailure(self.call("sleep", 30, timeout=0.1), RemoteError)
        second = await self.call("pid")

        self.assertEqual(error.name, "WorkerTimeout")
        self.assertNotEqual(first, second)
        await self.until(lambda: _gone(first))

    @awaited
    async def test_crash(self) -> None:
        """A call whose child dies fails by name and the queue goes on."""
        crash = self.assertFailure(self.call("exit", 9), RemoteError)
        after = self.call("echo", "still here")

        error = await crash

        self.assertEqual(
            (error.name, error.message), ("WorkerDied", "the worker process exited with status 9")
        )
        self.assertEqual(await after, "still here")

    @awaited
    async def test_recycled(self) -> None:
        """A child is replaced after its number of calls."""
        self.pool = self.make(calls=2)
        self.pool.startService()

        pids = [await self.call("pid") for _ in range(4)]

        self.assertEqual(pids[0], pids[1])
        self.assertEqual(pids[2], pids[3])
        self.assertNotEqual(pids[1], pids[2])

    @awaited
    async def test_idle(self) -> None:
        """A child without work is let go after a while."""
        self.pool = self.make(idle=0.05)
        self.pool.startService()
        pid = await self.call("pid")

        await self.until(lambda: _gone(pid))

        self.assertEqual(await self.call("echo", 1), 1)

    @awaited
    async def test_recycle(self) -> None:
        """Recycling replaces idle children, which then know newer facts."""
        self.pool.set_fact("word", "old")
        self.assertEqual(await self.call("fact", "word"), "old")
        self.pool.set_fact("word", "new")

        self.pool.recycle(SERVE)

        self.assertEqual(await self.call("fact", "word"), "new")

    @awaited
    async def test_refused(self) -> None:
        """When too many calls wait another is refused at once."""
        self.pool = self.make(queue=1)
        self.pool.startService()
        first = self.call("sleep", 0.1)

        error = await self.assertFailure(self.call("echo", 1), RemoteError)

        self.assertEqual(error.name, "WorkerBusy")
        await first

    @awaited
    async def test_cancel(self) -> None:
        """A call that is cancelled while it waits is never made."""
        first = self.call("ask", "one")
        second = self.call("ask", "two")

        second.addErrback(lambda failure: None)
        second.cancel()
        await first
        await self.call("echo", 1)

        self.assertEqual([op for op, _ in self.heard], ["one"])

    @awaited
    async def test_unknown_entry(self) -> None:
        """Only the named entries can be called."""
        call = self.pool.call("os:system", {"what": "echo"}, 5)

        error = await self.assertFailure(call, RemoteError)

        self.assertEqual(error.message, "the worker process could not be started")

    @awaited
    async def test_stop(self) -> None:
        """Stopping fails what waits and ends the children."""
        pid = await self.call("pid")
        waiting = self.assertFailure(self.call("sleep", 30), RemoteError)

        await self.pool.stopService()
        error = await waiting

        self.assertEqual(error.message, "the daemon is stopping")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class RootsTests(Case):
    """The worker of the roots, which keeps nothing from one request to the next."""

    @awaited
    async def test_reads_and_makes(self) -> None:
        """A file goes into a pack, and out of it; what cannot be done is said."""
        entry = "saltwisted.stores.roots.filework:serve"
        write(f"{self.base}/f", "text")
        write(f"{self.base}/pack", "")
        info = os.stat(self.base)
        root = self.base, info.st_dev, info.st_ino
        request = read_request(root, f"{self.base}/pack", [(b"f", 4), (b"g", 4)])
        (digest, offset, *identity), none = await self.pool.call(entry, request, 10)
        self.assertEqual((digest, offset), (hashlib.sha256(b"text").digest(), 0))
        self.assertEqual((none, identity[1]), (None, 4))
        request = make_request(root, {3: f"{self.base}/pack"}, [(b"new", 0o640, 10**9, 3, 0, 4)])
        await self.pool.call(entry, request, 10)
        self.assertEqual(text_of(f"{self.base}/new"), "text")
        request["root"] = self.base, 1, 1
        with self.assertRaises(RemoteError):
            await self.pool.call(entry, request, 10)


class ExitTests(TestCase):
    """The words for the end of a process."""

    def test_words(self) -> None:
        """Each kind of end is told."""
        self.assertEqual(str(Exit(5, 0)), "exited with status 0")
        self.assertEqual(str(Exit(5, 9)), "was ended by SIGKILL")
        self.assertEqual(str(Exit(5, None)), "ended")
        self.assertEqual(str(Exit(0, None)), "could not be started")


def _gone(pid: int) -> bool:
    """Whether a process has ended (it may still be a zombie of a parent that is gone)."""
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
