"""
Which suites there are: the lines of C{.ci/suites}, and what these leave of C{tests}.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LONG = os.environ.get("SALTWISTED_LONG") == "1"
TELLING = {
    "tests.harness": {"needs_peers", "PEERS", "peer_venv"},
    "tests.sim.play": {"count"},
}
"""
What a test module imports that has more to run here than by the README's command. What only lasts
longer with C{--long} is the same without it, and runs in the suites C{readme-*} already.
"""


@dataclass
class Suite:
    """
    @ivar options: C{debian}: on Debian's own packages; C{bare}: without stock peers, as the
        README's command runs them; C{rest}: all that other bare suites leave of it; C{more}: of its
        modules only the classes that do more here than there; C{seeds}: whole modules which
        differ there in the number of their seeds alone, so that those are played here only;
        C{pair}: beside one other at most; C{alone}: with nothing beside it; C{idle}: beside all, at
        the lowest priority; C{long}: only with C{--long}.
    """

    name: str
    options: set[str]
    tests: list[str]


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
    named = {
        re.sub(r"\.[A-Z].*", "", test)  # of a class its module: the line says what of it runs
        for suite in suites
        if "bare" not in suite.options
        for test in suite.tests
    }
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        words = list(file.relative_to(ROOT).with_suffix("").parts)
        prefixes = {".".join(words[:end]) for end in range(2, len(words) + 1)}
        if not prefixes & named and does_more(file):
            suites.append(Suite("-".join(words[1:]), {"more"}, [".".join(words)]))
    for suite in suites:
        if "more" in suite.options:
            suite.tests = [part for test in suite.tests for part in more(test)]
    return [suite for suite in suites if LONG or "long" not in suite.options]


def rest(suite: Suite, suites: list[Suite]) -> list[str]:
    """
    What is in C{tests}, and in no other suite of this kind. A folder of which another one has a
    part is taken by its modules.
    """
    kind = suite.options & {"bare", "debian"}
    taken = {
        test
        for other in suites
        if other.options & {"bare", "debian"} == kind
        or ("seeds" in other.options and "debian" not in kind)
        for test in other.tests
    }

    def within(folder: Path, name: str) -> list[str]:
        found = {
            path.parent if path.name == "__init__.py" else path
            for pattern in ("test_*.py", "*/__init__.py")
            for path in folder.glob(pattern)
        }
        left = []
        for path in sorted(found):
            part = f"{name}.{path.stem}"
            if any(test.startswith(f"{part}.") for test in taken):
                left += within(path, part)
            elif part not in taken:
                left.append(part)
        return left

    return within(ROOT / "tests", "tests")


def does_more(file: Path) -> set[str]:
    """
    The names in a module that stand for something else where there are stock peers: what tells
    of them, and all that is made of that.
    """
    text = file.read_text()
    lasts_longer = LONG and "SALTWISTED_LONG" in text
    if not lasts_longer and not any(module in text for module in TELLING):
        return set()
    body = ast.parse(text).body
    found = {
        name.asname or name.name
        for node in body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name in TELLING.get(node.module or "", ())
    }
    if lasts_longer:
        found |= {name for node in body for name in made(node)}
    before = -1
    while before != len(found):
        before = len(found)
        for node in body:
            if any(isinstance(one, ast.Name) and one.id in found for one in ast.walk(node)):
                found |= made(node)
    return found


def made(node: ast.stmt) -> set[str]:
    """The names that a statement gives to what it makes."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {
            one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)
        }
    return set()


def more(test: str) -> list[str]:
    """The classes of a module that do more where there are stock peers, or the whole module."""
    file = (ROOT / test.replace(".", "/")).with_suffix(".py")
    names = does_more(file)
    classes = {
        node.name: any(getattr(part, "name", "").startswith("test_") for part in node.body)
        or any(isinstance(base, ast.Name) and base.id in names for base in node.bases)
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    found = [name for name, tests in classes.items() if tests and name in names]
    left = [name for name, tests in classes.items() if tests and name not in names]
    return [f"{test}.{name}" for name in found] if found and left else [test]
