"""
Jobs and their returns, from the publication to the acknowledgement, on pretended processes.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.minion import returns as returns_module
from saltwisted.minion.executor import Executor
from saltwisted.minion.jobs import Jobs
from saltwisted.minion.returns import Returns
from saltwisted.worker.jobfiles import (
    ON_PURPOSE,
    SIGNALLED,
    Outbox,
    OutboxReturn,
    command_name,
    note_signal,
    read_procs,
    write_proc,
)
from tests.minion.fakes import FakeChild, FakeWorkers, run_now

JID = "20260101000000000001"


class Case(SynchronousTestCase):
    """Jobs of a minion in a directory."""

    def setUp(self) -> None:
        """Build the parts on a clock."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.clock = Clock()
        self.outbox = Outbox(os.path.join(self.base, "outbox"))
        self.sent: list[tuple[Any, str]] = []
        self.answers: list[Deferred[Any] | Exception] = []
        self.asked: list[tuple[str, str]] = []
        self.build()

    def build(self) -> None:
        """A daemon, as if newly started."""
        self.workers = FakeWorkers()
        self.returns = Returns(
            self.clock, self.outbox, self.send, run_now, random.Random(1), (5.0, 10.0)
        )
        self.jobs = Jobs(
            self.clock,
            Executor(self.workers, self.clock.seconds, 2, {}),
            self.returns,
            self.outbox,
            run_now,
            self.base,
            "m1",
            self.ask,
        )

    def start(self) -> None:
        """Start it, with a master there."""
        self.returns.startService()
        self.jobs.startService()
        self.returns.connected()

    def tearDown(self) -> None:
        """Stopping leaves no timers."""
        self.jobs.stopService()
        self.returns.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def send(self, load: dict[str, Any], via: str) -> Deferred[Any]:
        """The way to the master."""
        self.sent.append((load, via))
        answer = self.answers.pop(0) if self.answers else succeed(None)
        return fail(answer) if isinstance(answer, Exception) else answer

    async def ask(self, op: str, args: dict[str, Any], stream: Any, via: str) -> Any:
        """Other questions of jobs."""
        self.asked.append((op, via))
        return "answered"

    def take(self, jid: str = JID, fun: Any = "test.ping", **more: Any) -> FakeChild:
        """A master publishes a job; its process."""
        self.jobs.take({"jid": jid, "fun": fun, "arg": [], "user": "root", **more}, "red")
        return self.workers.children[-1]

    def finish(self, child: FakeChild, value: Any = True) -> str:
        """A process puts its return on disk, tells of it and ends."""
        job = child.payload["job"]
        load = {"cmd": "_return", "id": "m1", "jid": job["jid"], "return": value}
        name, packed = self.outbox.put(load, child.payload["via"])
        self.successResultOf(child.says("return", name=name, packed=packed))
        child.ends()
        return name


class JobsTests(Case):
    """The life of a job."""

    def test_whole_life(self) -> None:
        """A job is run, its return sent to its master, and forgotten once that is acknowledged."""
        self.start()
        child = self.take(serial=7, tgt="*", ret="mongo")
        self.assertEqual(
            child.payload["job"],
            {"jid": JID, "fun": "test.ping", "arg": [], "user": "root", "tgt": "*", "ret": "mongo"},
        )
        answer: Deferred[Any] = Deferred()
        self.answers = [answer]

        self.finish(child)
        self.assertEqual([(load["return"], via) for load, via in self.sent], [(True, "red")])
        self.assertEqual(len(self.outbox.names()), 1)
        answer.callback("")

        self.assertEqual((self.outbox.names(), len(self.returns)), ([], 0))

    def test_questions(self) -> None:
        """What a job asks besides is passed on, with the master that it came from."""
        self.start()
        child = self.take()

        self.assertEqual(self.successResultOf(child.says("request", load={})), "answered")
        self.assertEqual(self.asked, [("request", "red")])

    def test_crash_of_site(self) -> None:
        """If it has executed a file of the site's, the last one is named."""
        self.start()
        child = self.take(fun="mine.crash")
        for name in ("other", "mine"):
            self.assertIsNone(self.successResultOf(child.says("begins", path=f"/ext/{name}.py")))
        child.ends("exited with status 4")

        ((load, _),) = self.sent
        self.assertEqual(
            load["return"],
            f"The process of the job (pid {child.pid}) exited with status 4 before it returned; "
            "the last file of the site's own that it executed is /ext/mine.py",
        )
        self.assertEqual(self.asked, [])

    def test_crash(self) -> None:
        """A job whose process dies returns how it died, failed, with the fields of the job."""
        self.start()
        child = self.take(fun="x.crash", metadata={"a": 1})
        child.ends("was ended by SIGSEGV")

        ((load, via),) = self.sent
        self.assertEqual(
            load["return"],
            f"The process of the job (pid {child.pid}) was ended by SIGSEGV before it returned",
        )
        self.assertEqual(
            {
                key: load[key]
                for key in ("cmd", "id", "jid", "fun", "success", "retcode", "metadata")
            },
            {
                "cmd": "_return",
                "id": "m1",
                "jid": JID,
                "fun": "x.crash",
                "success": False,
                "retcode": 1,
                "metadata": {"a": 1},
            },
        )
        self.assertEqual((via, self.outbox.names()), ("red", []))

    def test_died_before_telling(self) -> None:
        """A process that had put its return on disk, and died then, is not called failed."""
        self.start()
        child = self.take()
        self.outbox.put({"jid": JID, "return": "real"})

        child.ends("was ended by SIGKILL")

        self.assertEqual([load["return"] for load, _ in self.sent], ["real"])

    def test_no_return_wanted(self) -> None:
        """A job that says it has no return is not called failed."""
        self.start()
        child = self.take()
        self.successResultOf(child.says("return"))

        child.ends()

        self.assertEqual(self.sent, [])

    def test_disk_refused(self) -> None:
        """A return that could not be put on disk is sent from memory, and repeated too."""
        self.start()
        self.answers = [TransportClosed("gone")]
        child = self.take()

        load = {"jid": JID, "return": 1}
        self.successResultOf(child.says("return", load=load, via="red"))
        child.ends()
        self.clock.advance(20)

        self.assertEqual(self.sent, [(load, "red"), (load, "red")])

    def test_bad_jid(self) -> None:
        """A jid that would be a path is refused."""
        self.start()

        self.jobs.take({"jid": "../../etc/x", "fun": "test.ping", "arg": []}, "red")

        self.assertEqual(self.workers.children, [])

    def test_scheduled(self) -> None:
        """Scheduled jobs return under the jid that the schedule says, or not at all."""
        self.start()
        job = {"jid": JID, "fun": "test.ping", "arg": [], "schedule": "beat"}
        self.jobs.schedule(job, True, "req")
        self.jobs.schedule({**job, "jid": JID + "1"}, False, "")

        asked, silent = self.workers.children
        self.assertEqual((asked.payload["return_jid"], asked.payload["listed"]), ("req", True))
        self.assertEqual(self.jobs.named("beat"), 2)
        asked.ends("exited with status 3")
        silent.ends("exited with status 3")

        self.assertEqual([load["jid"] for load, _ in self.sent], ["req"])

    def test_own(self) -> None:
        """The entry that keeps the mine fresh is the minion's own; no other job is."""
        self.start()
        mine = {"fun": "mine.update", "arg": [], "schedule": "__mine_interval"}
        asks: list[tuple[Callable[[], Any], bool]] = [
            (lambda: self.jobs.schedule({"jid": "1", **mine}, True, "req"), True),
            (
                lambda: self.jobs.schedule({"jid": "2", **mine, "fun": "cmd.run"}, True, "req"),
                False,
            ),
            (lambda: self.jobs.take({"jid": JID + "3", **mine}, "red"), False),
            (lambda: Deferred.fromCoroutine(self.jobs.call("grains.items", [], "4")), True),
        ]
        for ask, own in asks:
            asked = ask()
            child = self.workers.children[-1]
            self.assertIs(bool(child.payload.get("own", child.payload["private"])), own)
            child.ends("exited with status 3")
            if isinstance(asked, Deferred):
                self.failureResultOf(asked, RemoteError)

    def test_listed(self) -> None:
        """Running and waiting jobs are listed; a waiting one has no pid."""
        self.start()
        children = [self.take(jid) for jid in ("1", "2")]
        self.take("3")

        self.assertEqual(
            [(job["jid"], job["pid"]) for job in self.jobs.listed()],
            [("1", children[0].pid), ("2", children[1].pid), ("3", 0)],
        )

    def test_too_many(self) -> None:
        """A job for which there is no room in the queue returns that."""
        self.start()
        self.jobs._executor._queue_limit = 0
        for jid in ("1", "2", "3"):
            self.take(jid)

        ((load, _),) = self.sent
        self.assertEqual(load["jid"], "3")
        self.assertIn("too busy", load["return"])

    def test_stop_with_queue(self) -> None:
        """Jobs that waited when the minion stopped return that, after the next start."""
        self.start()
        for jid in ("1", "2", "3"):
            self.take(jid)
        self.returns.disconnected()

        self.jobs.stopService()
        self.returns.stopService()
        self.build()
        self.start()

        ((load, _),) = self.sent
        self.assertEqual(load["jid"], "3")
        self.assertIn("stopped", load["return"])


class RecoveryTests(Case):
    """What an earlier daemon has left."""

    def test_returns_on_disk(self) -> None:
        """Returns that an earlier daemon could not send are sent, oldest first."""
        for number in (1, 2, 3):
            self.outbox.put({"jid": str(number), "return": number}, "red")

        self.start()

        self.assertEqual([load["return"] for load, _ in self.sent], [1, 2, 3])
        self.assertEqual(self.outbox.names(), [])

    def test_killed_on_purpose(self) -> None:
        """
        A job that somebody had ended says so in its return, by either way; one that was killed
        otherwise does not.
        """
        self.start()
        said: list[bool] = []
        for way in ("otherwise", "module", "daemon"):
            jid = f"2026013104050612345{len(said)}"
            child = self.take(jid=jid)
            path = write_proc(self.base, child.payload["job"], child.pid)
            if way == "module":
                ((_, known),) = read_procs(self.base)
                note_signal(self.base, known, 9)
            elif way == "daemon":
                self.jobs.kill(jid)
            child.ends("was ended by SIGKILL")
            said.append(str(self.sent[-1][0]["return"]).endswith(ON_PURPOSE))
            self.assertFalse(os.path.exists(path))
        self.assertEqual(said, [False, True, True])

    def test_lost(self) -> None:
        """A job whose process is gone without a return is returned as failed, once."""
        write_proc(self.base, {"jid": JID, "fun": "x.y", "arg": [1], "user": "joe"}, 4194305)

        self.start()

        ((load, _),) = self.sent
        self.assertIn("ended without a return", load["return"])
        self.assertEqual((load["fun"], load["fun_args"], load["user"]), ("x.y", [1], "joe"))
        self.assertEqual(list(read_procs(self.base)), [])

    def test_lost_on_purpose(self) -> None:
        """The same of a job that somebody had ended while no daemon was there."""
        write_proc(self.base, {"jid": JID, "fun": "x.y", "arg": [1], SIGNALLED: 9}, 4194305)

        self.start()

        ((load, _),) = self.sent
        self.assertTrue(load["return"].endswith(ON_PURPOSE))
        self.assertNotIn(SIGNALLED, load)

    def test_lost_but_returned(self) -> None:
        """A process file that a finished job left behind is only removed."""
        write_proc(self.base, {"jid": JID, "fun": "x.y", "arg": []}, 4194305)
        self.outbox.put({"jid": JID, "return": "real"})

        self.start()

        self.assertEqual([load["return"] for load, _ in self.sent], ["real"])
        self.assertEqual(list(read_procs(self.base)), [])

    def test_adopted(self) -> None:
        """A job that is still at work is listed and watched, and its return sent."""
        process = self.sleeper()
        proc = write_proc(self.base, {"jid": JID, "fun": "x.y", "arg": []}, process.pid)
        self.start()
        self.clock.advance(1)
        self.assertEqual([job["jid"] for job in self.jobs.listed()], [JID])
        self.assertEqual(self.sent, [])

        self.outbox.put({"jid": JID, "return": "late"})
        os.unlink(proc)
        process.kill()
        process.wait()
        self.clock.advance(1)

        self.assertEqual([load["return"] for load, _ in self.sent], ["late"])
        self.assertEqual(self.jobs.listed(), [])

    def test_adopted_dies(self) -> None:
        """A watched job that dies without a return is returned as failed."""
        process = self.sleeper()
        write_proc(self.base, {"jid": JID, "fun": "x.y", "arg": []}, process.pid)
        self.start()

        process.kill()
        process.wait()
        self.clock.advance(1)

        ((load, _),) = self.sent
        self.assertIn("ended without a return", load["return"])

    def sleeper(self) -> subprocess.Popen[bytes]:
        """A process that has the name of our job."""
        code = (
            "import time\n"
            f"open('/proc/self/comm', 'w').write({command_name(JID)!r})\n"
            "print(flush=True)\n"
            "time.sleep(60)\n"
        )
        process = subprocess.Popen(["python3", "-S", "-c", code], stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        process.stdout.readline()
        return process


class ReturnsTests(Case):
    """Until it is acknowledged."""

    def put(self, value: Any = 1) -> str:
        """A return on disk that we are told of."""
        name, _ = self.outbox.put({"jid": JID, "return": value})
        self.returns.add(name)
        return name

    def test_repeated(self) -> None:
        """What is not acknowledged is sent again, with pauses that grow up to five minutes."""
        self.start()
        self.answers = [TransportClosed("no answer") for _ in range(12)]
        self.put()

        times = []
        while self.answers:
            before = len(self.sent)
            waited = 0
            while len(self.sent) == before:
                self.clock.advance(1)
                waited += 1
            times.append(waited)
        self.clock.advance(301)
        self.assertEqual(self.outbox.names(), [])

        self.assertTrue(5 <= times[0] <= 11, times)
        self.assertTrue(10 <= times[1] <= 21, times)
        self.assertTrue(all(waited <= 301 for waited in times), times)
        self.assertEqual(times[-1], 300)

    def test_waits_for_master(self) -> None:
        """Without a master nothing is tried; a master that comes gets everything at once."""
        self.returns.startService()
        self.jobs.startService()
        self.put()
        self.clock.advance(1000)
        self.assertEqual(self.sent, [])

        self.returns.connected()

        self.assertEqual(len(self.sent), 1)

    def test_reconnected(self) -> None:
        """A master that comes back ends a pause."""
        self.start()
        self.answers = [TransportClosed("no answer") for _ in range(6)]
        self.put()
        for seconds in (12, 24, 48):
            self.clock.advance(seconds)
        before = len(self.sent)

        self.answers = []
        self.returns.disconnected()
        self.returns.connected()

        self.assertEqual(len(self.sent), before + 1)
        self.assertEqual(self.outbox.names(), [])

    def test_few_at_once(self) -> None:
        """Only some are on the wire together; each acknowledgement lets the next go."""
        self.start()
        waiting: list[Deferred[Any]] = [Deferred() for _ in range(20)]
        self.answers = list(waiting)
        for number in range(20):
            self.put(number)
        self.assertEqual(len(self.sent), returns_module.AT_ONCE)

        for answer in waiting:
            answer.callback(None)

        self.assertEqual([load["return"] for load, _ in self.sent], list(range(20)))

    def test_same_twice(self) -> None:
        """Being told twice of one return sends it once."""
        self.start()
        answer: Deferred[Any] = Deferred()
        self.answers = [answer]
        name = self.put()

        self.returns.add(name)
        self.returns.rescan()
        answer.callback(None)

        self.assertEqual(len(self.sent), 1)

    def test_gone_file(self) -> None:
        """A file that somebody has removed is forgotten."""
        self.start()

        self.returns.add("00000000000000000001_x")

        self.assertEqual((self.sent, len(self.returns)), ([], 0))

    def test_bound(self) -> None:
        """When too many wait the oldest is dropped, from the disk too."""
        self.patch(returns_module, "MOST", 2)
        self.returns.startService()
        self.jobs.startService()
        names = [self.put(number) for number in range(3)]

        self.assertEqual(self.outbox.names(), names[1:])
        self.assertEqual(len(self.returns), 2)

    def test_not_in_memory(self) -> None:
        """A return that waits on disk is not kept in memory as well."""
        self.start()
        self.answers = [TransportClosed("x")]
        name, _ = self.outbox.put({"jid": JID, "return": 1})

        self.returns.add(name, OutboxReturn({"jid": JID, "return": 1}, ""))

        self.assertIsNone(self.returns._waiting[name].kept)
