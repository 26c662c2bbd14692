"""
Runs suites of tests side by side, each in a trial of its own, and adds up what they say.

A suite is a line of C{.ci/suites}: a name, its options, and what trial is to run. Those that take
longest stand first. Most of the time passes in waiting for daemons, so more suites run at once than
there are cores. What promises seconds, and measures how slow the machine is meanwhile, is marked
C{pair}, and runs two at a time when those have ended; what makes load itself is marked C{alone},
and comes last.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LONG = os.environ.get("SALTWISTED_LONG") == "1"
SKIPPED = re.compile(
    r"\b(needs_peers|SALTWISTED_PEERS|tests\.sim\.play" + "|SALTWISTED_LONG" * LONG + r")\b"
)
"""
What a test module says that has more to run here than by the README's command. What only lasts
longer with C{--long} is the same without it, and runs in the suites C{readme-*} already.
"""
UNRUN = b"was never awaited"
MOST_AGAIN = 4
"""
Failed tests that get a second judgement. What fails beside three other suites for want of time may
be well; when more fail than this it is not for want of time.
"""


@dataclass
class Suite:
    """
    @ivar options: C{debian}: on Debian's own packages; C{bare}: without stock peers, as the
        README's command runs them; C{rest}: all that other bare suites leave of it; C{pair}: beside
        one other at most; C{alone}: with nothing beside it.
    """

    name: str
    options: set[str]
    tests: list[str]


@dataclass
class Outcome:
    """What one trial said; without its closing line it failed."""

    suite: Suite
    status: int
    seconds: float
    log: Path

    def failed(self) -> list[str]:
        """The tests that failed, by name; empty if the trial did not get so far as to say."""
        blocks = self.log.read_text(errors="replace").split("=" * 79)
        wrong = [block for block in blocks if re.match(r"\n\[(FAIL|ERROR)\]", block)]
        names = {
            name for block in wrong for name in re.findall(r"^tests(?:\.\w+){3,}$", block, re.M)
        }
        return sorted(names) if len(names) and len(names) <= self.counts()[1] else []

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


def read(path: Path) -> list[Suite]:
    """
    The suites of a file, and one for each module that no line names and that has tests which
    need a stock peer, or do more where there is one, than the README's command runs.
    """
    suites = []
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words:
            name, options, *tests = words
            suites.append(Suite(name, set(options.split(",")) - {"-"}, tests))
    for suite in suites:
        if "rest" in suite.options:
            suite.tests = rest(suite, suites)
    named = {test for suite in suites if "bare" not in suite.options for test in suite.tests}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        words = file.relative_to(ROOT).with_suffix("").parts
        prefixes = {".".join(words[:end]) for end in range(2, len(words) + 1)}
        if not prefixes & named and SKIPPED.search(file.read_text()):
            suites.append(Suite("-".join(words[1:]), set(), [".".join(words)]))
    return suites


def rest(suite: Suite, suites: list[Suite]) -> list[str]:
    """What is in C{tests}, and in no other suite with these options."""
    options = suite.options - {"rest"}
    taken = {test for other in suites if other.options == options for test in other.tests}
    found = {
        path.parent if path.name == "__init__.py" else path
        for pattern in ("test_*.py", "*/__init__.py")
        for path in (ROOT / "tests").glob(pattern)
    }
    return sorted({f"tests.{path.stem}" for path in found} - taken)


def run(suite: Suite, work: Path, pythons: dict[str, str], peers: str) -> Outcome:
    """Run one suite to its end; all that it prints goes to a file."""
    env = dict(os.environ)
    if "bare" not in suite.options:
        env["SALTWISTED_PEERS"] = peers
        env["SALTWISTED_PACKAGES"] = str(work / "debian")
    python = pythons["debian" if "debian" in suite.options else "newest"]
    scratch = work / f"trial-{suite.name}"
    log = work / f"{suite.name}.log"
    # Sets of texts have another order in each process; what that brings to light can be repeated
    seed = env.setdefault("PYTHONHASHSEED", str(random.randrange(1, 2**32)))
    argv = [python, "-m", "twisted.trial", "--reporter", "timing"]
    began = time.monotonic()
    with log.open("wb") as out:
        status = subprocess.run(
            [*argv, "--temp-directory", str(scratch), *suite.tests],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if UNRUN in log.read_bytes():
        # Debian's Twisted takes a test that is a bare coroutine for one that has passed
        print(f"{suite.name}: a coroutine was never awaited: see {log}", flush=True)
        status = status or 1
    outcome = Outcome(suite, status, time.monotonic() - began, log)
    passed, failed, skipped = outcome.counts()
    print(
        f"{suite.name}: {passed} passed, {failed} failed, {skipped} skipped"
        f" in {outcome.seconds:.0f} s" + f" (PYTHONHASHSEED={seed})" * bool(status),
        flush=True,
    )
    return outcome


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


def main() -> int:
    """Run all; the exit status is 1 if one failed."""
    parser = ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="where logs go")
    parser.add_argument("--newest", required=True, help="a python with the newest packages")
    parser.add_argument("--debian", required=True, help="a python with Debian's packages")
    parser.add_argument("--peers", required=True, help="the directory of the stock Salts")
    parser.add_argument("--at-once", type=int, default=4, help="suites side by side (4)")
    parser.add_argument("only", nargs="*", help="suites by name (all)")
    options = parser.parse_args()
    suites = read(HERE / "suites")
    if options.only:
        suites = [suite for suite in suites if suite.name in options.only]
    pythons = {"newest": options.newest, "debian": options.debian}

    def one(suite: Suite) -> Outcome:
        return run(suite, options.work, pythons, options.peers)

    outcomes: list[Outcome] = []
    for at_once, mark in ((options.at_once, ""), (2, "pair"), (1, "alone")):
        chosen = [s for s in suites if (s.options & {"pair", "alone"}) == ({mark} - {""})]
        with ThreadPoolExecutor(at_once) as pool:
            outcomes += pool.map(one, chosen)
    for outcome in outcomes:
        if outcome.status:
            print(f"\n== {outcome.suite.name} failed\n")
            print(outcome.log.read_text(errors="replace"))
    counts = [outcome.counts() for outcome in outcomes]
    failures = [outcome for outcome in outcomes if outcome.status]
    if failures and again(failures, one):
        # Each is said above, with why it failed the first time
        counts = [(passed + failed, 0, skipped) for passed, failed, skipped in counts]
        failures = []
    passed, failed, skipped = (sum(each) for each in zip(*counts, strict=True))
    if failures:
        print("FAILED:", " ".join(outcome.suite.name for outcome in failures))
    # Last, and alone on its line: how a test runner closes
    (options.work / "closing").write_text(f"{passed} {failed} {skipped}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
