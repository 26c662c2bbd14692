"""
Runs suites of tests side by side, each in a trial of its own, and adds up what they say.

A suite is a line of C{.ci/suites}: a name, its options, and what trial is to run. Those that take
longest stand first. Most of the time passes in waiting for daemons, so more suites run at once than
there are cores. What promises seconds, and measures how slow the machine is meanwhile, is marked
C{pair}, and runs two at a time when those have ended; what makes load itself is marked C{alone},
and comes last. What does nothing but compute is marked C{idle}: it runs from the first moment on,
beside all of these, and gets the processor time that they leave.

The table at the end says where the time went: the seconds of each suite, and the processor time of
it and of all that it started and waited for.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from chosen import HERE, ROOT, Suite, read

UNRUN = b"was never awaited"
NO_PEER = "SALTWISTED_PEERS is not set"
SILENT = 7200.0 if os.environ.get("SALTWISTED_LONG") == "1" else 1800.0
"""
Seconds in which a suite says nothing, after which it hangs, and is ended. One that only computes,
with the processor time that others leave, may be silent for as long as it wants.
"""
AT_ONCE = 3
"""
Suites side by side for each processor. One of real nodes uses a third of a processor.
"""
AT_REST = max(2, os.cpu_count() or 1)
"""
How many suites share what the others leave of the processors: in the end all of them are left.
"""
MOST_AGAIN = 4
"""
Failed tests that get a second judgement. What fails beside three other suites for want of time may
be well; when more fail than this it is not for want of time.
"""


@dataclass
class Outcome:
    """What one trial said; without its closing line it failed."""

    suite: Suite
    status: int
    seconds: float
    cpu: float
    log: Path

    def failed(self) -> list[str]:
        """The tests that failed, by name; empty if the trial did not get so far as to say."""
        names = self.told(r"\[(FAIL|ERROR)\]")
        return sorted(names) if len(names) and len(names) <= self.counts()[1] else []

    def told(self, heading: str) -> set[str]:
        """The tests of which it says more at the end, below such a heading."""
        blocks = self.log.read_text(errors="replace").split("=" * 79)
        return {
            name
            for block in blocks
            if re.match(rf"\n{heading}", block)
            for name in re.findall(r"^tests(?:\.\w+){3,}$", block, re.M)
        }

    def tests(self) -> set[str]:
        """All tests that it began."""
        text = self.log.read_text(errors="replace")
        return set(re.findall(r"^(tests(?:\.\w+){3,}) \.\.\. ", text, re.M))

    def counts(self) -> tuple[int, int, int]:
        """Tests that passed, that failed and that were skipped."""
        text = self.log.read_text(errors="replace")
        ran = re.findall(r"^Ran (\d+) tests", text, re.M)
        closing = re.findall(r"^(?:PASSED|FAILED) ?(?:\((.*)\))?$", text, re.M)
        told = dict(re.findall(r"(\w+)=(\d+)", closing[-1] if closing else ""))
        skipped = int(told.get("skips", 0))
        failed = sum(
            int(told.get(word, 0)) for word in ("failures", "errors", "unexpectedSuccesses")
        )
        if self.status and not failed:
            failed = 1
        total = int(ran[-1]) if ran else failed
        return max(total - failed - skipped, 0), failed, skipped


@dataclass
class Runner:
    """
    Runs suites, each to its end; all that one prints goes to a file.

    @ivar idle: the processes of suites that run in sessions of their own.
    """

    work: Path
    pythons: dict[str, str]
    peers: str
    idle: set[int] = field(default_factory=set)

    def run(self, suite: Suite) -> Outcome:
        """Run one suite."""
        env = dict(os.environ)
        if "bare" not in suite.options:
            env["SALTWISTED_PEERS"] = self.peers
            env["SALTWISTED_PACKAGES"] = str(self.work / "debian")
        python = self.pythons["debian" if "debian" in suite.options else "newest"]
        scratch = self.work / f"trial-{suite.name}"
        log = self.work / f"{suite.name}.log"
        # Sets of texts have another order in each process; what that brings to light can be
        # repeated
        seed = env.setdefault("PYTHONHASHSEED", str(random.randrange(1, 2**32)))
        argv = [python, "-m", "twisted.trial", "--reporter", "timing"]
        argv += ["--temp-directory", str(scratch), *suite.tests]
        began = time.monotonic()
        with log.open("wb") as out:
            status, cpu = self.ended(argv, env, out.fileno(), "idle" in suite.options)
        if UNRUN in log.read_bytes():
            # Debian's Twisted takes a test that is a bare coroutine for one that has passed
            print(f"{suite.name}: a coroutine was never awaited: see {log}", flush=True)
            status = status or 1
        outcome = Outcome(suite, status, time.monotonic() - began, cpu, log)
        passed, failed, skipped = outcome.counts()
        print(
            f"{suite.name}: {passed} passed, {failed} failed, {skipped} skipped"
            f" in {outcome.seconds:.0f} s" + f" (PYTHONHASHSEED={seed})" * bool(status),
            flush=True,
        )
        return outcome

    def ended(
        self, argv: list[str], env: dict[str, str], out: int, idle: bool
    ) -> tuple[int, float]:
        """The exit status of a process, and the processor time of it and of its children."""
        if idle:
            argv = ["nice", "-n", "19", *argv]
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=idle,
        )
        if idle:
            self.idle.add(process.pid)
            # Where the kernel groups processes by session, niceness counts only within a group
            with suppress(OSError):
                Path(f"/proc/{process.pid}/autogroup").write_text("19")
        size, since = 0, time.monotonic()
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if (now_said := os.fstat(out).st_size) != size:
                size, since = now_said, time.monotonic()
            elif not idle and time.monotonic() - since > SILENT:
                os.write(out, b"\nIt has said nothing for so long that it hangs.\n")
                process.kill()
            time.sleep(0.2)
        self.idle.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, used.ru_utime + used.ru_stime

    def end(self) -> None:
        """End what the terminal cannot interrupt."""
        for pid in list(self.idle):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


@dataclass
class Phase:
    """
    Suites that run side by side.

    @ivar busy: which part of all processor time was used meanwhile, by whomever.
    """

    name: str
    seconds: float
    busy: float


def measured(name: str, work: Callable[[], object]) -> Phase:
    """Do some work, and say how busy the processors were."""
    began, (busy, total) = time.monotonic(), ticks()
    work()
    after, all_after = ticks()
    return Phase(name, time.monotonic() - began, (after - busy) / max(all_after - total, 1))


def ticks() -> tuple[int, int]:
    """The time of all processors since the machine's start: what was used, and all."""
    with open("/proc/stat") as file:
        user, nice, system, idle, waiting, *more = map(int, file.readline().split()[1:9])
    used = user + nice + system + sum(more[:2])
    return used, used + idle + waiting


def table(outcomes: list[Outcome], phases: list[Phase]) -> str:
    """Where the time went: what took longest is first."""
    lines = [f"{'seconds':>8} {'CPU s':>8}  suite"]
    for one in sorted(outcomes, key=lambda outcome: -outcome.seconds):
        marks = ", ".join(sorted(one.suite.options))
        lines.append(
            f"{one.seconds:8.0f} {one.cpu:8.0f}  {one.suite.name}" + f" ({marks})" * bool(marks)
        )
    lines.append(f"{'':8} {sum(one.cpu for one in outcomes):8.0f}  all")
    for phase in phases:
        lines.append(f"{phase.seconds:8.0f} {'':8}  {phase.name}: processors {phase.busy:.0%} busy")
    return "\n".join(lines)


def unseen(outcomes: list[Outcome]) -> set[str]:
    """The tests that wait for a stock peer, and that no suite has run beside one."""
    skipped: set[str] = set()
    ran: set[str] = set()
    for one in outcomes:
        without = one.told(rf"\[SKIPPED\]\n{NO_PEER}")
        skipped |= without
        ran |= one.tests() - without
    return skipped - ran


def again(failures: list[Outcome], one: Callable[[Suite], Outcome]) -> bool:
    """
    Judge the tests that failed once more, with nothing beside them; whether all are well then.

    Both results are printed: a test that fails now and then is a defect, of it or of the code.
    """
    tests = [outcome.failed() for outcome in failures]
    if not all(tests) or sum(map(len, tests)) > MOST_AGAIN:
        return False
    well = True
    for outcome, names in zip(failures, tests, strict=True):
        suite = replace(outcome.suite, name=f"{outcome.suite.name}-again", tests=names)
        repeated = one(suite)
        if repeated.status:
            well = False
            print(repeated.log.read_text(errors="replace"))
        else:
            print("UNSTABLE: failed beside others, passed alone:", " ".join(names), flush=True)
    return well


def every(suites: list[Suite], runner: Runner, at_once: int) -> tuple[list[Outcome], list[Phase]]:
    """What all suites said, and what was done in which phase."""
    outcomes: list[Outcome] = []
    phases: list[Phase] = []

    def marked(mark: str) -> list[Suite]:
        return [s for s in suites if (s.options & {"pair", "alone", "idle"}) == ({mark} - {""})]

    def side_by_side(at_once: int, chosen: list[Suite]) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            outcomes.extend(pool.map(runner.run, chosen))

    with ThreadPoolExecutor(AT_REST) as leavings:
        beside = [leavings.submit(runner.run, suite) for suite in marked("idle")]
        try:
            for number, mark in ((at_once, ""), (2, "pair"), (1, "alone")):
                if chosen := marked(mark):
                    work = partial(side_by_side, number, chosen)
                    phases.append(measured(f"{number} at once", work))
            phases.append(measured("what was left to compute", partial(wait, beside)))
        except BaseException:
            leavings.shutdown(wait=False, cancel_futures=True)
            runner.end()
            raise
        outcomes += [future.result() for future in beside]
    return outcomes, phases


def main() -> int:
    """Run all; the exit status is 1 if one failed."""
    parser = ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="where logs go")
    parser.add_argument("--newest", required=True, help="a python with the newest packages")
    parser.add_argument("--debian", required=True, help="a python with Debian's packages")
    parser.add_argument("--peers", required=True, help="the directory of the stock Salts")
    many = AT_ONCE * (os.cpu_count() or 1)
    parser.add_argument("--at-once", type=int, default=many, help=f"suites side by side ({many})")
    parser.add_argument("only", nargs="*", help="suites by name (all)")
    options = parser.parse_args()
    suites = read(HERE / "suites")
    if options.only:
        suites = [suite for suite in suites if suite.name in options.only]
    pythons = {"newest": options.newest, "debian": options.debian}
    runner = Runner(options.work, pythons, options.peers)
    outcomes, phases = every(suites, runner, options.at_once)
    print(table(outcomes, phases), flush=True)
    for outcome in outcomes:
        if outcome.status:
            print(f"\n== {outcome.suite.name} failed\n")
            print(outcome.log.read_text(errors="replace"))
    counts = [outcome.counts() for outcome in outcomes]
    failures = [outcome for outcome in outcomes if outcome.status]
    if failures and again(failures, runner.run):
        # Each is said above, with why it failed the first time
        counts = [(passed + failed, 0, skipped) for passed, failed, skipped in counts]
        failures = []
    passed, failed, skipped = (sum(each) for each in zip(*counts, strict=True))
    if missing := set() if options.only else unseen(outcomes):
        print("FAILED: no suite runs these beside stock:", *sorted(missing), sep="\n  ")
        failed += len(missing)
    if failures:
        print("FAILED:", " ".join(outcome.suite.name for outcome in failures))
    # Last, and alone on its line: how a test runner closes
    (options.work / "closing").write_text(f"{passed} {failed} {skipped}\n")
    return 1 if failures or failed else 0


if __name__ == "__main__":
    sys.exit(main())
