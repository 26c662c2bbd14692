"""
What strangers may make long stays cheap: targets, jids, tags, functions, arguments.

Cost is counted in lines of Python that run, which is the same on every machine: an input four times
as long may take four times as many. What C does in between (slices, regular expressions) cannot
be counted; at the full length the reader's CPU time shows whether it grows with the square.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import pairwise
from time import thread_time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.acl import command_fault, decide, may_publish, peer_may_publish
from saltwisted.domain.events import minion_may_fire
from saltwisted.domain.jid import is_jid, jid_mark, jid_seconds, jid_to_time
from saltwisted.domain.keys import valid_minion_id
from saltwisted.domain.targeting import traverse
from saltwisted.domain.targeting.bounds import LENGTH, fault
from saltwisted.domain.targeting.globs import glob_regex, globbed
from saltwisted.domain.targeting.matchers import MinionFacts, matches
from saltwisted.domain.targeting.regexes import is_risky
from saltwisted.domain.targeting.selection import HEAVY, Risky, Universe, selecting
from saltwisted.domain.targeting.traverse import scalar

SIZES = (150, 600, 2400)
QUICK = 1.5
"""
Seconds of CPU; what grows with the square takes minutes. What takes longer than this is compared
with a quarter of itself on the same machine, as fast or slow as that is just now.
"""
GROWTH = 8
"""
How much longer than a quarter the whole may take: four times is what is claimed, and what grows
with the square takes sixteen times.
"""


def lines(work: Callable[[], Any]) -> int:
    """How many lines of Python a piece of work runs."""
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    forget()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of CPU that a piece of work takes."""
    forget()
    before = thread_time()
    work()
    return thread_time() - before


def forget() -> None:
    """What was worked out before is worked out again."""
    re.purge()
    for cached in (glob_regex, is_risky, scalar, traverse._kept, traverse._regex):
        cached.cache_clear()


def _deep(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {"os": "Debian"}
    here = data
    for _ in range(levels):
        here["a"] = {"b": [1, "x" * 20]}
        here = here["a"]
    return data


GRAINS = _deep(100)
IDS = [f"web{number}" for number in range(16)]
MASTER = Universe(
    accepted=IDS, fetch=lambda bank, name: GRAINS, cached=lambda bank: IDS, nodegroups={"g": "web1"}
)

TARGETS: dict[str, Callable[[int], str]] = {
    "delimiters": lambda n: ":" * n,
    "keys": lambda n: "a:" * (n // 2) + "x",
    "keys and a star": lambda n: "a:" * (n // 2) + "x*",
    "stars as keys": lambda n: "*:" * (n // 2) + "x",
    "a few long keys": lambda n: ("a:" * 30 + "b" * n)[:n],
    "as many keys as are read": lambda n: "a:" * 60 + "*b" * (n // 2),
    "brackets": lambda n: "[" * n,
    "brackets below keys": lambda n: "a:" * 30 + "[" * n,
    "stars": lambda n: "*a" * (n // 2),
    "digits": lambda n: "1" * n + ":x",
    "digits as a step": lambda n: "a:" + "1" * n + ":x",
    "times of day": lambda n: "a;" + "1:" * (n // 2) + ";x",
    "yaml": lambda n: "a:" + "[" * n + ":x",
    "commas": lambda n: "a," * (n // 2),
    "parentheses": lambda n: "( " * (n // 2) + "web1",
    "closed parentheses": lambda n: "( " * (n // 4) + "web1" + " )" * (n // 4),
    "words": lambda n: "a or " * (n // 5) + "web1",
    "nots": lambda n: "not a and " * (n // 10) + "web1",
    "groups": lambda n: "N@g or " * (n // 7) + "web1",
    "grains": lambda n: "G@a:b* or " * (n // 10) + "web1",
    "one long grain": lambda n: "G@a:" + "b" * n,
    "one grain of many keys": lambda n: "G@" + "a:" * (n // 2) + "b",
    "alternatives": lambda n: "|".join(["a:b"] * (n // 4)),
    "networks": lambda n: "1/" * (n // 2),
    "points": lambda n: "1." * (n // 2),
    "a long name": lambda n: "w" * n,
}
KINDS = ("glob", "pcre", "list", "grain", "grain_pcre", "pillar_exact", "compound", "ipcidr",
         "nodegroup")  # fmt: skip


def _select(tgt: Any, kind: str, delimiter: str = ":") -> int:
    """Judge a target as a master does; the steps it took."""
    steps = selecting(tgt, kind, MASTER, delimiter)
    number = 0
    answer = None
    try:
        while True:
            asked = steps.send(answer)
            number += 1
            answer = [] if isinstance(asked, Risky) else None
    except StopIteration:
        return number


class SizeLaws(SynchronousTestCase):
    """No input of N bytes costs more than c times N."""

    def linear(self, name: str, make: Callable[[int], Any], work: Callable[[Any], Any]) -> None:
        """Four times the input runs at most about four times the lines."""
        work(make(40))  # what is imported is imported now
        costs = [lines(lambda size=size: work(make(size))) for size in SIZES]
        for small, large in pairwise(costs):
            self.assertLess(large, 4.6 * small + 3000, (name, costs))

        # What the interpreter does in one line, such as a search, is seen by its time alone
        whole = cpu(lambda: work(make(LENGTH)))
        if whole > QUICK:
            # In turns and several times: others may use the processor and its caches meanwhile
            quarter = whole
            for _ in range(4):
                quarter = min(quarter, cpu(lambda: work(make(LENGTH // 4))))
                whole = min(whole, cpu(lambda: work(make(LENGTH))))
            self.assertLess(whole, GROWTH * quarter, name)

    def test_targets(self) -> None:
        """A master judges targets of every form at a cost that grows with their length."""
        for name, make in TARGETS.items():
            for kind in KINDS:
                self.linear(f"{kind}: {name}", make, lambda tgt, kind=kind: _select(tgt, kind))
            self.linear(f"delimiter: {name}", make, lambda tgt: _select(tgt, "grain", ";"))

    def test_minions(self) -> None:
        """So does a minion, which judges what its master has published."""
        facts = MinionFacts(id="web1", grains=GRAINS, pillar=GRAINS, nodegroups={"g": "web1"})
        for name, make in TARGETS.items():
            for kind in ("glob", "list", "grain", "compound", "ipcidr"):
                self.linear(
                    f"{kind}: {name}", make, lambda tgt, kind=kind: matches(tgt, kind, facts)
                )

    def test_globs(self) -> None:
        """A glob is read once, however many brackets it opens."""
        for text in ("[", "[!", "]", "[a", "[]", "[a]", "*["):
            self.linear(
                text,
                lambda n, text=text: text * (n // len(text)),
                lambda glob: globbed("web1", glob),
            )

    def test_steps(self) -> None:
        """No step is long: what takes long to compile is given to somebody else."""
        for tgt, kind in (
            ("*" + "a" * HEAVY, "glob"),
            ("a" * (HEAVY + 1), "pcre"),
            ("a:*" + "b" * HEAVY, "grain"),
            ("a:" * 60 + "*" + "b" * (HEAVY // 50), "grain"),
            ("a:" + "b" * (HEAVY + 1), "pillar_pcre"),
            ("G@a:*" + "b" * HEAVY + " or web1", "compound"),
            ("E@" + "a" * (HEAVY + 1) + " or web1", "compound"),
        ):
            steps = list(selecting(tgt, kind, MASTER))
            self.assertTrue(any(isinstance(step, Risky) for step in steps), tgt[:20])
        self.assertGreater(_select(",".join(["x"] * 100_000), "list"), 20)
        self.assertGreater(_select("( " * 60 + "web1", "compound"), 60)

    def test_bounds(self) -> None:
        """What is longer or deeper than anybody writes means nobody, and says how much it is."""
        for tgt, kind, reason in (
            ("a" * (LENGTH + 1), "glob", "65537 characters long; at most 65536"),
            (["a" * 40_000, "b" * 40_000], "glob", "80000 characters long"),
            (["a"] * 2000, "glob", "2000 words; at most 1024"),
            ("a or " * 600 + "a", "compound", "1201 words"),
            ("( " * 65 + "a" + " )" * 65, "compound", "65 nested parentheses"),
            ("a:" * 64, "grain", "65 parts; at most 64"),
            ("web* or G@" + "a:" * 64, "compound", "65 parts"),
            ("web* or G;@" + "a;" * 64, "compound", "65 parts"),
            ("I@" + "a:" * 64, "compound_pillar_exact", "65 parts"),
            ("a," * 140_000, "list", "140001 names; at most 131072"),
            (["a"] * 140_000, "list", "140000 names"),
            ("a" * 9_000_000, "list", "9000000 characters long"),
        ):
            self.assertIn(reason, fault(tgt, kind))
            with self.assertRaises(StopIteration) as end:
                next(selecting(tgt, kind, MASTER))
            self.assertEqual(list(end.exception.value.minions), [])
            self.assertIn(reason, end.exception.value.problems[0])
        self.assertIn("65 parts", fault("a|" * 64, "grain", "|"))
        for tgt, kind in (
            ("a:" * 63, "grain"),
            ("( " * 64 + "a" + " )" * 64, "compound"),
            ("L@" + ",".join(f"web{number}" for number in range(7000)), "compound"),
            ([f"web{number}.example.com" for number in range(100_000)], "list"),
            (5, "glob"),
        ):
            self.assertEqual(fault(tgt, kind), "")

    def test_names(self) -> None:
        """Jids, tags and ids of any length are judged at a glance."""
        for name, make in (
            ("digits", lambda n: "2" * n),
            ("a jid and more", lambda n: "20261121120000000001_" + "1" * n),
            ("words", lambda n: "salt/" + "a/" * (n // 2)),
            ("a job", lambda n: "salt/job/" + "1" * n + "/ret/web1"),
            ("points", lambda n: "." * n),
            ("letters", lambda n: "a" * n),
        ):
            for judge in (is_jid, jid_to_time, jid_seconds, jid_mark, valid_minion_id):
                self.linear(name, make, judge)
            self.linear(name, make, lambda tag: minion_may_fire("web1", tag))

    def test_commands(self) -> None:
        """Functions and arguments of any length are judged at a cost that grows with it."""
        rules = ["test.*", "saltutil.*", "state.*", "mine.*", {"web*": ["grains.*"]},
                 {"*": [{"cmd.run": {"args": [".*a.*b"], "kwargs": {"x": ".*a.*b"}}}]}]  # fmt: skip

        def judge(command: tuple[Any, list[Any]]) -> None:
            fun, arg = command
            if command_fault(fun):
                return
            black = {"modules": ["no.*", "[a-z]*.x"]}
            judging = may_publish(rules, black, "fred", fun, arg, "*", "glob")
            decide(judging, lambda tgt, kind, delimiter: ("web1",))
            peer = peer_may_publish({".*": rules}, "web1", fun, arg, "*", "glob")
            decide(peer, lambda tgt, kind, delimiter: ("web1",))

        def maps(n: int) -> list[Any]:
            return [{"__kwarg__": True, f"x{number}": number} for number in range(n // 4)]

        def nestled(n: int) -> Any:
            arg: Any = ["x" * n]
            for _ in range(100):
                arg = [arg]
            return arg

        commands: dict[str, Callable[[int], tuple[Any, list[Any]]]] = {
            "a long name": lambda n: ("a" * n, []),
            "many functions": lambda n: ("test.ping," * (n // 10), []),
            "functions as a list": lambda n: (["test.ping"] * (n // 10), [[]] * (n // 10)),
            "commas": lambda n: ("," * n, []),
            "a long argument": lambda n: ("cmd.run", ["a" * n]),
            "a long keyword": lambda n: ("cmd.run", [{"__kwarg__": True, "x": "a" * n}]),
            "many arguments": lambda n: ("test.echo", ["a"] * n),
            "many maps": lambda n: ("saltutil.cmd", ["*", "test.ping", *maps(n)]),
            "nested lists": lambda n: ("test.echo", nestled(n)),
            "slots": lambda n: ("test.echo", ["__slot__:salt:test.ping()"] * (n // 25)),
            "a long slot": lambda n: ("test.echo", ["__slot__:" * (n // 9)]),
            "spaces in a slot": lambda n: ("test.echo", ["__slot__:" + " " * n + "x"]),
            "an equals sign": lambda n: ("state.single", ["a" * n + "=x"]),
            "yaml": lambda n: ("state.single", ["name=" + "[" * n]),
            "much yaml": lambda n: ("state.single", ["name=[a]"] * (n // 8)),
            "nested names": lambda n: ("saltutil.cmd", ["*", "test.ping," * (n // 10)]),
            "a long nested name": lambda n: ("saltutil.cmd", ["*", "a" * n]),
            "nested arguments": lambda n: ("saltutil.cmd", ["*", "test.ping", ["a"] * n]),
            "mine": lambda n: ("mine.update", [{f"x{k}": [1] for k in range(n // 8)}]),
            "one entry": lambda n: ("mine.update", [{"test.ping": [{"x": 1}] * (n // 8)}]),
            "states": lambda n: (
                "state.high",
                [{f"x{k}": {"module.run": [{"test.ping": []}]} for k in range(n // 30)}],
            ),
            "names of a state": lambda n: (
                "state.high",
                [{"x": {"module.run": [{"names": ["test.ping"] * (n // 10)}]}}],
            ),
            "arguments of a state": lambda n: (
                "state.high",
                [{"x": {"module.run": [{f"k{k}": k} for k in range(n // 10)]}}],
            ),
            "functions of a state": lambda n: (
                "state.single",
                ["module.run", "x", {"__kwarg__": True, **{f"test.p{k}": [] for k in range(n)}}],
            ),
            "conditions": lambda n: (
                "state.single",
                ["test.nop", "x", {"__kwarg__": True, "onlyif": [{"fun": "test.ping"}] * n}],
            ),
        }
        for name, make in commands.items():
            self.linear(name, make, judge)
