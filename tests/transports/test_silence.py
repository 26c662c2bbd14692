"""
Silences of the reactor: who is to blame, what is said, and how often.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.transports import latency
from saltwisted.transports.latency import LITTLE, PERIOD, LatencyMeter
from saltwisted.transports.silence import (
    LONGEST,
    NOTHING,
    SELDOM,
    SHOWN,
    SILENCE,
    AlarmWatch,
    Silences,
    Stack,
    frames_of,
    judge,
)
from tests.harness import ROOT

DUMP = """Stack (most recent call first):
  File "/usr/lib/python3/dist-packages/msgpack/fallback.py", line 120 in _unpack
  File "/usr/lib/python3/dist-packages/saltwisted/wire/msgpack.py", line 40 in unpack
  File "/usr/lib/python3/dist-packages/saltwisted/master/requests.py", line 77 in received
  File "/usr/lib/python3/dist-packages/saltwisted/transports/latency.py", line 200 in timed
  File "/usr/lib/python3/dist-packages/twisted/internet/base.py", line 9 in runUntilCurrent
"""

CHILD = """
import json, os, sys, time
from twisted.internet import reactor
from twisted.logger import globalLogBeginner, textFileLogObserver
from saltwisted.transports.latency import LatencyMeter
from saltwisted.transports.silence import AlarmWatch

globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)], redirectStandardIO=False)
meter = LatencyMeter(reactor, AlarmWatch())
began, count = time.thread_time(), 1_000_000
sum(range(count))
count = int(0.4 / (time.thread_time() - began) * count)

def held_by_c():
    sum(range(count))
    # While the reactor rests, a descriptor's callback is watched too
    os.write(pipe[1], b"x")

class Reader:
    def fileno(self):
        return pipe[0]
    def logPrefix(self):
        return "pipe"
    def doRead(self):
        sum(range(count))
        reactor.callLater(0.01, ended)
    def connectionLost(self, reason):
        pass

def ended():
    print(json.dumps(meter.figures()), flush=True)
    reactor.stop()

pipe = os.pipe()
reactor.addReader(Reader())
meter.startService()
reactor.addSystemEventTrigger("during", "shutdown", meter.stopService)
reactor.callLater(0.3, held_by_c)
reactor.run()
"""


class Reactor(Clock):
    """A clock with the two methods of a reactor that are measured."""

    def _doReadOrWrite(self, reader: Any) -> None:
        reader()

    def runUntilCurrent(self) -> None:
        """Whatever the test wants."""


class Told:
    """A watch that a test tells what it has seen."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.stack = NOTHING
        self.without = 0.0

    def start(self) -> None:
        """Noted."""
        self.done.append("start")

    def stop(self) -> None:
        """Noted."""
        self.done.append("stop")

    def arm(self) -> None:
        """Noted."""
        self.done.append("arm")

    def disarm(self) -> None:
        """Noted."""
        self.done.append("disarm")

    def take(self) -> Stack:
        """Once."""
        stack, self.stack = self.stack, NOTHING
        return stack

    def starved(self) -> float:
        """As told."""
        return self.without


class JudgeTests(SynchronousTestCase):
    """Who is to blame for a silence, by what was measured."""

    def test_work(self) -> None:
        """Who used the processor for most of the time is to blame for all of it."""
        self.assertEqual(judge(1.8, 1.7, 0.0, None).seconds, 1.8)

    def test_stopped(self) -> None:
        """Who was stopped by SIGSTOP is not to blame: the alarm came when it was continued."""
        self.assertEqual(judge(30.0, 0.01, 0.0, 29.7).seconds, 0.0)

    def test_stopped_at_work(self) -> None:
        """Of who worked for too long, and was stopped besides, only the work counts."""
        self.assertEqual(judge(30.0, 0.4, 0.0, 0.0).seconds, 0.4)

    def test_busy_machine(self) -> None:
        """Who was ready to run, and got no processor, is not to blame."""
        self.assertEqual(judge(0.5, 0.05, 0.4, 0.02).seconds, 0.0)

    def test_waited(self) -> None:
        """Who waited in a process that could have run is to blame: a disk, a lock, a name."""
        verdict = judge(0.5, 0.01, 0.02, 0.001)
        self.assertEqual(verdict.seconds, 0.5)
        self.assertIn("waited", verdict.why)

    def test_no_alarm(self) -> None:
        """Where no alarm tells, nobody who used little is blamed."""
        self.assertEqual(judge(0.5, 0.01, 0.0, None).seconds, 0.0)


class FramesTests(SynchronousTestCase):
    """What is shown of a stack."""

    def test_callback(self) -> None:
        """The frames of the callback, innermost first, without the reactor's and without paths."""
        self.assertEqual(
            frames_of(DUMP),
            [
                "msgpack/fallback.py:120 _unpack",
                "saltwisted/wire/msgpack.py:40 unpack",
                "saltwisted/master/requests.py:77 received",
            ],
        )

    def test_long(self) -> None:
        """A long name is cut; what is no stack has no frames."""
        (frame,) = frames_of(f'  File "/a/b.py", line 1 in {"x" * 1000}\n')
        self.assertEqual(len(frame), LONGEST)
        self.assertEqual(frames_of("  <no Python frame>\n"), [])


class SilenceTests(SynchronousTestCase):
    """One meter on one clock; T-COST-1: that somebody stalls the reactor does not go unseen."""

    def setUp(self) -> None:
        """Start it; time passes only within callbacks."""
        self.reactor = Reactor()
        self.watch = Told()
        self.at = {"monotonic": 1000.0, "thread_time": 5.0}
        for name in self.at:
            self.patch(latency.time, name, lambda name=name: self.at[name])
        self.meter = LatencyMeter(self.reactor, self.watch)
        self.meter.silences = Silences(self.watch, lambda: 1e9 + self.at["monotonic"])
        self.said: list[dict[str, Any]] = []
        self.patch(Silences, "log", Logger(observer=self.said.append))
        self.meter.startService()
        self.addCleanup(self.meter.stopService)

    def lines(self) -> list[dict[str, Any]]:
        """What an operator reads."""
        return [event for event in self.said if event["log_level"].name == "warn"]

    def work(self, seconds: float, cpu: float) -> None:
        """One callback that takes so long, and whose stack is taken in time."""

        def callback() -> None:
            began = self.at["monotonic"]
            self.at["monotonic"] += seconds
            self.at["thread_time"] += cpu
            if seconds > SILENCE:
                self.watch.stack = Stack(DUMP, 1e9 + began + SILENCE)

        self.reactor._doReadOrWrite(callback)
        self.reactor.runUntilCurrent()
        self.reactor.runUntilCurrent()

    def test_said(self) -> None:
        """It is counted, and logged with the kind of callback and its stack."""
        self.work(1.8, 1.7)

        (line,) = self.lines()
        self.assertEqual((line["who"], round(line["seconds"], 3)), ("function", 1.8))
        self.assertIn("fallback.py:120 _unpack < saltwisted/wire/msgpack.py:40", line["stack"])
        figures = self.meter.figures()
        self.assertEqual((figures["silences"], figures["silence_max_ms"]), (1, 1800.0))
        self.assertEqual(
            figures["silence_last"],
            {
                "at": 1e9 + 1001.8,
                "ms": 1800,
                "callbacks": 2,
                "who": "function",
                "where": "saltwisted/wire/msgpack.py:40 unpack",
            },
        )

    def test_many(self) -> None:
        """A turn of many callbacks is as long as all of them: nobody else was served meanwhile."""

        def callback() -> None:
            self.at["monotonic"] += 0.1
            self.at["thread_time"] += 0.1

        for _ in range(60):
            self.reactor._doReadOrWrite(callback)
        self.assertEqual(self.lines(), [])
        self.reactor.runUntilCurrent()

        (line,) = self.lines()
        self.assertEqual(round(line["seconds"], 3), 6.0)
        self.assertEqual((line["calls"], round(line["longest"], 3)), (61, 0.1))
        self.reactor.runUntilCurrent()
        self.assertEqual(self.meter.figures()["silences"], 1)

    def test_short_ones(self) -> None:
        """Where each callback was short, none is named, nor the one of an earlier turn."""
        self.work(0.1, 0.1)
        for _ in range(600):
            self.reactor._doReadOrWrite(lambda: self.pass_by(0.0009))
        self.reactor.runUntilCurrent()

        (line,) = self.lines()
        self.assertEqual((line["calls"], line["who"]), (601, "each of many"))

    def pass_by(self, seconds: float) -> None:
        """Work."""
        for name in self.at:
            self.at[name] += seconds

    def test_waiting(self) -> None:
        """That the reactor waits from one turn to the next is no silence."""
        for _ in range(3):
            self.at["monotonic"] += 5
            self.work(0.01, 0.01)
            self.at["monotonic"] += 5
            self.reactor.runUntilCurrent()

        self.assertEqual(self.meter.figures()["silences"], 0)

    def test_short(self) -> None:
        """What takes a quarter of a second, or less, is none."""
        self.work(SILENCE, SILENCE)
        self.assertEqual((self.lines(), self.meter.figures()["silences"]), ([], 0))

    def test_once_a_minute(self) -> None:
        """Of many, one line a minute says how many there were; all are counted."""
        for _ in range(10):
            self.work(0.5, 0.5)
        self.assertEqual(len(self.lines()), 1)
        self.at["monotonic"] += SELDOM
        self.work(0.3, 0.3)

        (_, line) = self.lines()
        self.assertEqual((line["count"], line["unsaid"]), (11, 9))
        self.assertEqual(self.meter.figures()["silence_max_ms"], 500.0)

    def test_stopped(self) -> None:
        """A process that was stopped within a callback blames nobody: the stack came too late."""

        def callback() -> None:
            self.at["monotonic"] += 20
            self.watch.stack = Stack(DUMP, 1e9 + self.at["monotonic"])

        self.reactor._doReadOrWrite(callback)
        self.reactor.runUntilCurrent()

        self.assertEqual((self.lines(), self.meter.figures()["silences"]), ([], 0))

    def test_old_stack(self) -> None:
        """A stack that was taken before the callback began is not shown as its own."""

        def callback() -> None:
            self.watch.stack = Stack(DUMP, 1e9 + self.at["monotonic"] - 1)
            self.at["monotonic"] += 1
            self.at["thread_time"] += 1

        self.reactor._doReadOrWrite(callback)
        self.reactor.runUntilCurrent()

        (line,) = self.lines()
        self.assertEqual(line["stack"], "(no stack)")

    def test_short_line(self) -> None:
        """However deep the stack is, the line stays short."""

        def callback() -> None:
            deep = "".join(f'  File "/x/y.py", line {n} in f\n' for n in range(100))
            self.watch.stack = Stack(deep, 1e9 + self.at["monotonic"] + SILENCE)
            self.at["monotonic"] += 1
            self.at["thread_time"] += 1

        self.reactor._doReadOrWrite(callback)
        self.reactor.runUntilCurrent()

        (line,) = self.lines()
        self.assertEqual(line["stack"].count(" < "), SHOWN - 1)

    def test_armed_at_work(self) -> None:
        """While there is work, the alarm is set ten times a second, and not for each callback."""
        for _ in range(3):
            for _ in range(LITTLE + 5):
                self.reactor._doReadOrWrite(lambda: None)
            self.reactor.runUntilCurrent()
            self.reactor.advance(PERIOD)

        self.assertEqual(self.watch.done, ["start", "arm", "arm", "arm"])

    def test_armed_at_rest(self) -> None:
        """A reactor that rests sets it in each turn, and off before it waits again."""
        self.reactor.advance(PERIOD)
        del self.watch.done[:]
        self.reactor.runUntilCurrent()
        self.assertEqual(self.watch.done, ["arm", "disarm"])
        self.reactor._doReadOrWrite(lambda: None)
        self.reactor.runUntilCurrent()
        self.assertEqual(self.watch.done, ["arm", "disarm"] * 2)

    def test_to_rest(self) -> None:
        """The turn in which it begins to rest ends with the alarm off: to wait is no silence."""
        self.reactor.runUntilCurrent = lambda: self.reactor.advance(PERIOD)
        self.meter.stopService()
        del self.watch.done[:]
        self.meter.startService()

        self.reactor.runUntilCurrent()

        self.assertEqual(self.watch.done, ["start", "arm", "disarm"])

    def test_stop(self) -> None:
        """The turn that stops the meter is no silence in service; the watch is stopped."""

        def callback() -> None:
            self.at["monotonic"] += 2
            self.at["thread_time"] += 2
            self.meter.stopService()

        self.reactor._doReadOrWrite(callback)
        self.reactor.runUntilCurrent()

        self.assertEqual((self.watch.done[-1], self.lines()), ("stop", []))


class AlarmTests(SynchronousTestCase):
    """The kernel's alarm."""

    def test_left(self) -> None:
        """One watch of a process has it; when it ends, nothing of it is left."""
        first, second = AlarmWatch(), AlarmWatch()
        for watch in (first, second):
            watch.start()
            self.addCleanup(watch.stop)
            watch.arm()
        self.assertEqual((first.on, second.on), (True, False))
        self.assertGreater(signal.getitimer(signal.ITIMER_REAL)[0], 0)

        second.stop()
        self.assertTrue(first.on)
        first.stop()

        self.assertEqual(signal.getitimer(signal.ITIMER_REAL), (0.0, 0.0))
        second.start()
        self.assertTrue(second.on)

    def test_others(self) -> None:
        """If somebody else uses the alarm, it is left alone."""
        before = signal.signal(signal.SIGALRM, lambda *args: None)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        watch = AlarmWatch()
        watch.start()
        self.addCleanup(watch.stop)

        watch.arm()

        self.assertEqual(signal.getitimer(signal.ITIMER_REAL), (0.0, 0.0))
        self.assertEqual((watch.take(), watch.starved()), (NOTHING, 0.0))

    def test_stack(self) -> None:
        """What the alarm finds is read once; the last one of several counts."""
        watch = AlarmWatch()
        watch.start()
        self.addCleanup(watch.stop)
        self.assertEqual(watch.take(), NOTHING)

        def earlier() -> None:
            signal.raise_signal(signal.SIGALRM)

        earlier()
        signal.raise_signal(signal.SIGALRM)

        frames = frames_of(watch.take().text)
        self.assertIn("test_stack", frames[0])
        self.assertEqual(watch.take(), NOTHING)
        self.assertGreaterEqual(watch.starved(), 0.0)

    def test_children(self) -> None:
        """A child has neither the alarm nor what handles it."""
        watch = AlarmWatch()
        watch.start()
        self.addCleanup(watch.stop)
        watch.arm()
        told = "import signal; print(signal.getitimer(signal.ITIMER_REAL))"
        done = subprocess.run(
            [sys.executable, "-c", told], capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stdout, "(0.0, 0.0)\n")
        self.assertFalse(os.get_inheritable(watch._file))

    def test_one_call_of_c(self) -> None:
        """
        T-COST-1: a real reactor whose callback is one call of C that holds the interpreter's lock:
        the line of the log has its stack, for a timer and, in a reactor that rests, for a
        descriptor. In a process of its own, since the alarm is the process's.
        """
        done = subprocess.run(
            [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": ROOT},
        )  # fmt: skip

        (line,) = (text for text in done.stdout.splitlines() if "stood still" in text)
        self.assertIn("by the clock in runUntilCurrent; 1 such", line)
        self.assertIn("innermost first: <string>:15 held_by_c <", line)
        (found,) = (json.loads(t) for t in done.stdout.splitlines() if t.startswith("{"))
        self.assertEqual((found["silences"], found["silence_last"]["who"]), (2, "Reader"))
        self.assertIn("doRead", found["silence_last"]["where"])
