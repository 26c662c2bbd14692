"""
Silences of the reactor: turns that took so long that everybody had to wait.

In one turn the reactor calls all whose descriptors are ready, and then all whose timers are due. It
may be one callback that takes long, or many that do not take so long each. While a callback runs,
no timer fires; and while it is one call of C code that holds the interpreter's lock, no other
thread runs either. So an alarm of the kernel (C{setitimer}) interrupts it, and the handler of
C{faulthandler}, which is C and asks for no lock, writes the stack to a file in memory. The handler
runs in the interrupted thread itself, whose frames stand still meanwhile; C{dump_traceback_later}
would read them from another thread, and start one each time (28 microseconds instead of half of
one). The kernel gives the alarm to no child.

What is found is judged when the turn has ended. A process that was stopped, or got no processor, is
no fault of the callback that ran at that time.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from twisted.logger import Logger

SILENCE = 0.25
"""Seconds that no turn may take."""
BRIEF = 0.001
"""Seconds of a callback that is not worth a name."""
ROUGHLY = 0.1
"""Seconds by which an alarm may be late in a process that runs."""
TICK = 0.01
"""Seconds by which the time of a file may be behind."""
SELDOM = 60.0
"""Seconds from one line of the log to the next, at least."""
SHOWN = 12
"""The innermost frames that a line of the log has."""
LONGEST = 160
"""Characters of one frame."""
BOUNDARY = "saltwisted/transports/latency.py"
"""Frames of this file, and those outside them, are the reactor's own."""

_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$', re.M)
_OURS = "saltwisted/"


class Turn:
    """
    The turn of the reactor that goes on; the same object each time, since there are thousands.

    @ivar began: when, by C{time.monotonic}.
    @ivar used: the CPU that the thread had used then.
    @ivar calls: how many callbacks there were so far; 0 while the reactor waits.
    @ivar longest: the longest of them that took more than L{BRIEF}, in seconds.
    @ivar who: its kind.
    """

    __slots__ = ("began", "calls", "longest", "used", "who")

    def __init__(self) -> None:
        self.began = self.used = 0.0
        self.calls = 0
        self.longest = BRIEF
        self.who = ""


class Stack(NamedTuple):
    """
    @ivar text: what C{faulthandler} wrote; empty if the alarm did not come.
    @ivar at: when, in seconds of C{time.time}.
    """

    text: str
    at: float


NOTHING = Stack("", 0.0)


class Watch(Protocol):
    """Whoever takes the stack of a turn that takes too long. Reactor thread only."""

    def start(self) -> None:
        """Be ready."""

    def stop(self) -> None:
        """Leave nothing behind."""

    def arm(self) -> None:
        """Take the stack L{SILENCE} from now, and not when it was said before."""

    def disarm(self) -> None:
        """Take none."""

    def take(self) -> Stack:
        """The last stack that was taken, once."""

    def starved(self) -> float:
        """For how many seconds the thread was ready, and had no processor, since last asked."""


class NoWatch:
    """There are no stacks: time is a test's, or the alarm is somebody else's."""

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def arm(self) -> None:
        """Nothing."""

    def disarm(self) -> None:
        """Nothing."""

    def take(self) -> Stack:
        """None."""
        return NOTHING

    def starved(self) -> float:
        """It is not known."""
        return 0.0


class AlarmWatch:
    """
    Uses the alarm that a process has; of several watches in one process the first one.

    If something else uses it already, there are no stacks, and the silences are counted still.

    @ivar on: whether the alarm is ours.
    """

    _taken = False

    def __init__(self) -> None:
        self.on = False
        self._file = self._waits = -1
        self._waited = 0.0

    def start(self) -> None:
        """Take the alarm, unless it is used."""
        free = (
            not AlarmWatch._taken
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
            and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        )
        if not free:
            return
        AlarmWatch._taken = self.on = True
        self._file = os.memfd_create("silence")
        faulthandler.register(signal.SIGALRM, file=self._file, all_threads=False)
        try:
            self._waits = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._waits = -1
        self.starved()

    def stop(self) -> None:
        """Give it back. First the alarm, then what handles it: otherwise it would be the end."""
        if not self.on:
            return
        self.disarm()
        faulthandler.unregister(signal.SIGALRM)
        AlarmWatch._taken = self.on = False
        for each in (self._file, self._waits):
            if each >= 0:
                os.close(each)
        self._file = self._waits = -1

    def arm(self) -> None:
        """Within half a microsecond."""
        if self.on:
            signal.setitimer(signal.ITIMER_REAL, SILENCE)

    def disarm(self) -> None:
        """As quickly."""
        if self.on:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def take(self) -> Stack:
        """What the file has; it is empty afterwards."""
        if not self.on:
            return NOTHING
        about = os.fstat(self._file)
        if not about.st_size:
            return NOTHING
        data = os.pread(self._file, about.st_size, 0)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        # An alarm that came while nothing was wrong may have left another one before it
        text = data.decode("utf-8", "replace").rpartition("most recent call first")[2]
        return Stack(text, about.st_mtime)

    def starved(self) -> float:
        """As the kernel's scheduler counts it, where it does."""
        if self._waits < 0:
            return 0.0
        before = self._waited
        self._waited = int(os.pread(self._waits, 64, 0).split()[1]) / 1e9
        return self._waited - before


class Verdict(NamedTuple):
    """
    @ivar seconds: how long the reactor stood still because of its callbacks; 0 if not of them.
    @ivar why: what they did meanwhile.
    """

    seconds: float
    why: str


def judge(took: float, used: float, starved: float, late: float | None) -> Verdict:
    """
    Whether callbacks are to blame for a silence, and for how much of it.

    Who used the processor for most of the time worked. Who used little waited for something, if
    the alarm came in time: then the process could have run. Else it was stopped, or the machine
    had no processor for it.

    @param took: seconds from the turn's beginning to its end.
    @param used: seconds of CPU of the reactor's thread.
    @param starved: seconds in which that was ready to run and did not.
    @param late: how many seconds too late the alarm came; C{None} if none did.
    """
    if used * 2 >= took:
        return Verdict(took, "it worked")
    if used >= SILENCE:
        return Verdict(used, "it worked")
    if starved * 2 >= took or late is None or late > ROUGHLY:
        return Verdict(0.0, "the process got no processor")
    return Verdict(took, "it waited for a disk, a lock or another thread")


def frames_of(text: str) -> list[str]:
    """
    The frames of one callback, innermost first: C{file:line function}.

    Files of ours have their names from the package on; of others the last two parts remain.
    """
    found = []
    for path, line, function in _FRAME.findall(text):
        parts = path.split("/")
        if "saltwisted" in parts[:-1]:
            start = len(parts) - 1 - parts[::-1].index("saltwisted")
        else:
            start = max(0, len(parts) - 2)
        name = "/".join(parts[start:])
        if name == BOUNDARY:
            break
        found.append(f"{name}:{line} {function}"[:LONGEST])
    return found


class Silences:
    """
    Counts the silences of one reactor, and says the worst of them. Reactor thread only.

    @ivar count: how many there were.
    @ivar longest: the longest, in seconds.
    @ivar last: the last one: when it ended, how long it was, which callback took longest, where.
    """

    log = Logger()

    def __init__(self, watch: Watch, now: Callable[[], float] = time.time) -> None:
        self.watch = watch
        self._now = now
        self._said = -SELDOM
        self._unsaid = 0
        self.count = 0
        self.longest = 0.0
        self.last: dict[str, Any] = {}

    def ended(self, turn: Turn, took: float, used: float) -> None:
        """
        A turn that took too long has ended.

        @param used: seconds of CPU.
        """
        now = self._now()
        stack = self.watch.take()
        starved = self.watch.starved()
        late = None
        if stack.at < now - took - TICK:
            # The alarm came while nothing ran: the process had been stopped then
            stack = NOTHING
        if stack.text:
            # It was set at the beginning, or up to a beat before
            late = stack.at - (now - took) - SILENCE
        seconds, why = judge(took, used, starved, late)
        if not seconds:
            self.log.debug(
                "a turn took {took:.2f} s, and {used:.2f} s of CPU: {why}",
                took=took, used=used, why=why,
            )  # fmt: skip
            return
        who = turn.who if turn.longest > BRIEF else "each of many"
        frames = frames_of(stack.text)
        where = next((each for each in frames if each.startswith(_OURS)), "".join(frames[:1]))
        self.count += 1
        self.longest = max(self.longest, seconds)
        self.last = {
            "at": round(now, 1),
            "ms": round(seconds * 1000),
            "callbacks": turn.calls,
            "who": who,
            "where": where,
        }
        ended = turn.began + took
        if ended - self._said < SELDOM:
            self._unsaid += 1
            return
        self._said, unsaid, self._unsaid = ended, self._unsaid, 0
        self.log.warn(
            "the reactor stood still for {seconds:.2f} s: {why}, {used:.2f} s of CPU in {calls} "
            "callbacks, the longest {longest:.2f} s by the clock in {who}; {count} such since the "
            "start, {unsaid} of them not logged since the last line; innermost first: {stack}",
            seconds=seconds, why=why, used=used, calls=turn.calls, longest=turn.longest,
            who=who, count=self.count, unsaid=unsaid,
            stack=" < ".join(frames[:SHOWN]) or "(no stack)",
        )  # fmt: skip

    def figures(self) -> dict[str, Any]:
        """For C{status} and metrics; times in milliseconds."""
        return {
            "silences": self.count,
            "silence_max_ms": round(self.longest * 1000, 2),
            "silence_last": dict(self.last),
        }
