"""
Applies mutations to copies of the tree, and has the nearest tests run there.

A copy is taken by one worker at a time. What Python has compiled is kept beside the copy, and is
told from what a mutation was compiled to by the time of the file: each change has another.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from attrs import frozen

from tests.harness import ROOT
from tests.mutants.mutation import Mutation

SECONDS = 120.0
"""For the tests of one mutation. Some mutations make a loop endless."""
WORKERS = 2
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", "_trial_temp*", ".mypy_cache", ".ruff_cache", ".hypothesis"
)
_PASSED = re.compile(r"^PASSED\b.*\bsuccesses=[1-9]", re.M)
_TIMES = count(1_000_000_000)

KILLED, SURVIVED, BROKEN = "killed", "survived", "broken"


class UselessTests(Exception):
    """The tests of a mutation do not pass without it, or they test nothing."""


@frozen(kw_only=True)
class Outcome:
    """
    What became of a mutation.

    @ivar what: L{KILLED}, L{SURVIVED}, or L{BROKEN}: its tests say nothing.
    @ivar text: for a broken one why, for a killed one the first test that failed.
    """

    mutation: Mutation
    what: str
    text: str
    seconds: float


class Copy:
    """A copy of the tree, in a directory of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tree = os.path.join(folder, "tree")
        shutil.copytree(ROOT, self._tree, symlinks=True, ignore=_LEFT_OUT)
        self._environ = {
            **os.environ,
            "PYTHONPATH": self._tree,
            "PYTHONPYCACHEPREFIX": os.path.join(folder, "compiled"),
        }
        where = self._python("-c", "import saltwisted; print(saltwisted.__file__)")[1].strip()
        if not where.startswith(self._tree):
            raise UselessTests(f"the tests would be of {where}, and not of the copy")

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """
        The copy has this mutation meanwhile.

        @raises SyntaxError: the file would be no Python.
        """
        path = Path(self._tree, "saltwisted", mutation.path)
        source = path.read_bytes()
        changed = mutation.change(source)
        ast.parse(changed)
        self._write(path, changed)
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        moment = next(_TIMES)
        os.utime(path, (moment, moment))

    def run(self, tests: Sequence[str], seconds: float) -> tuple[bool, str]:
        """Whether these tests pass, at least one of them not skipped; and what trial printed."""
        place = os.path.join(self._folder, "trial")
        status, text = self._python(
            "-m", "twisted.trial", "--exitfirst", "--temp-directory", place, *tests, seconds=seconds
        )
        return status == 0 and _PASSED.search(text) is not None, text

    def _python(self, *args: str, seconds: float = 60.0) -> tuple[int | None, str]:
        """How Python ends, C{None} if it does not in time, and what it prints."""
        process = subprocess.Popen(
            [sys.executable, *args],
            cwd=self._tree,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, "it did not end in time"
        finally:
            # With all that tests have started and left behind
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, text


def failed(text: str) -> str:
    """The first test that trial says has failed."""
    # Behind the rule are the tracebacks, each followed by the name of its test
    names = re.findall(r"^(tests\.\S+)$", text.partition("\n====")[2], re.M)
    if names:
        return str(names[0])
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:100] if lines else "nothing was printed"


def run(
    mutations: Sequence[Mutation],
    folder: str,
    say: Callable[[Outcome], None],
    workers: int = WORKERS,
    seconds: float = SECONDS,
) -> list[Outcome]:
    """
    Try these mutations; what became of them, in their order.

    @param folder: a directory for the copies.
    @param say: hears of each outcome, in the order of the mutations.
    @raises NotApplying: one does not fit.
    """
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(workers):
        place = os.path.join(folder, str(number))
        os.mkdir(place)
        copies.put(Copy(place))

    def without(tests: tuple[str, ...]) -> str:
        """Why these tests say nothing; C{""} if they do."""
        copy = copies.get()
        try:
            passed, text = copy.run(tests, seconds)
            return "" if passed else f"without the mutation: {failed(text)}"
        finally:
            copies.put(copy)

    def one(mutation: Mutation, useless: Mapping[tuple[str, ...], str]) -> Outcome:
        begun = time.monotonic()
        what, text = BROKEN, useless[mutation.tests]
        if not text:
            copy = copies.get()
            try:
                with copy.mutated(mutation):
                    passed, printed = copy.run(mutation.tests, seconds)
                what, text = (SURVIVED, "") if passed else (KILLED, failed(printed))
            except SyntaxError as error:
                # Each test would fail, whatever it is about
                text = f"it makes no Python of the file: {error}"
            finally:
                copies.put(copy)
        return Outcome(mutation=mutation, what=what, text=text, seconds=time.monotonic() - begun)

    with ThreadPoolExecutor(workers) as pool:
        sets = list(dict.fromkeys(each.tests for each in mutations))
        useless = dict(zip(sets, pool.map(without, sets), strict=True))
        found = []
        for outcome in pool.map(lambda mutation: one(mutation, useless), mutations):
            say(outcome)
            found.append(outcome)
        return found
