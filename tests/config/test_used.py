"""
What the schema says of an option's use is so: who is handed on is read by nobody, and who is not
has a reader.

The first half is by construction (L{HandedOn}: there is no attribute) and, for the maps that
modules get, a look at the sources. The second half is a look at the sources alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig, MinionConfig
from saltwisted.config.schema import HandedOn, NotLookedAt, Options

PACKAGE = Path(__file__).resolve().parent.parent.parent / "saltwisted"
NAMES = {*MasterConfig.fields, *MinionConfig.fields} - {"extra", "config_dir", "conf_file"}
READ = {
    name
    for cls in (MasterConfig, MinionConfig)
    for name in cls.fields
    if name in NAMES and name not in cls.handed_on
}
CONFIGS = {"config", "_config"}
"""What holds a configuration is called so; C{self} in C{options.py}."""
MAPS = {"opts", "_opts", "__opts__"}
SPEAKERS = (
    "config/options.py", "config/load.py", "domain/takeover.py", "domain/replica/settings.py",
    "roles/reload.py",
)  # fmt: skip
"""Files that have lists of options, and act by none of the names in them."""
COMPOSED = {
    "disable_modules": ("worker/process/loader.py", 'f"disable_{tag}'),
    "disable_returners": ("worker/process/loader.py", 'f"disable_{tag}'),
    "beacons": ("minion/daemon.py", '"beacons"'),
    "module_dirs": ("worker/process/modulefiles.py", '"module_dirs"'),
    "fileserver_list_cache_time": (
        "stores/roots/served.py",
        "options.fileserver_list_cache_time",
    ),
}
"""
Options whose whole name stands nowhere, or whose reader calls the configuration otherwise, with the
file and the words that read them.
"""


class Small(Options):
    """Two options."""

    looked: int = 1
    handed: HandedOn[int | None] = 2


class Smaller(Small):
    """The same, and who makes it looks at the second."""

    handed: int = 3


class HandedOnTests(SynchronousTestCase):
    """The marker in the schema."""

    def test_no_attribute(self) -> None:
        """A handed-on option cannot be read, not even with a default in hand."""
        small = Small(handed=5)

        with self.assertRaises(NotLookedAt):
            _ = small.handed
        with self.assertRaises(NotLookedAt):
            getattr(small, "handed", None)

        self.assertEqual(small.looked, 1)
        self.assertEqual(Small.handed_on, {"handed"})

    def test_value(self) -> None:
        """It is accepted, kept, copied and compared, and its value is there for who asks so."""
        small = Small(handed=5)

        self.assertEqual(Small.fields, {"looked": "int", "handed": "int | None"})
        self.assertEqual(Small.defaults, {"looked": 1, "handed": 2})
        self.assertEqual(small.value("handed"), 5)
        self.assertEqual(small.evolve(looked=2).value("handed"), 5)
        self.assertEqual(copy.copy(small), small)
        self.assertNotEqual(small, Small())
        self.assertIsNone(small.value("never-heard-of"))
        with self.assertRaises(AttributeError):
            small.handed = 7

    def test_role(self) -> None:
        """A role that looks at an option that is handed on elsewhere has its attribute."""
        self.assertEqual(Smaller().handed, 3)
        self.assertEqual(Smaller.handed_on, set())

    def test_handed_on(self) -> None:
        """Modules and templates see handed-on options, and options without an attribute."""
        config = MasterConfig(engines=[{"one": {}}], extra={"keys.cache_driver": "x"})

        self.assertEqual(config.as_opts()["engines"], [{"one": {}}])
        self.assertEqual(config.value("engines"), [{"one": {}}])
        self.assertEqual(config.value("keys.cache_driver"), "x")


def holder(node: ast.expr) -> str:
    """The last name of what an attribute or item is taken from."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def item(node: ast.AST) -> tuple[str, str] | None:
    """The map and the constant key of C{map["key"]} that is read, or of C{map.get("key")}."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        base, key = node.value, node.slice
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and node.args
    ):
        base, key = node.func.value, node.args[0]
    else:
        return None
    if isinstance(key, ast.Constant) and key.value in NAMES:
        return holder(base), key.value
    return None


def readers(tree: ast.Module, where: str) -> Iterator[tuple[str, int]]:
    """Which options a file reads for certain, with the lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            own = where == "config/options.py" and holder(node.value) == "self"
            if node.attr in NAMES and (own or holder(node.value) in CONFIGS):
                yield node.attr, node.lineno
        elif found := item(node):
            if found[0] in MAPS:
                yield found[1], node.lineno


def likely(tree: ast.Module, where: str) -> Iterator[str]:
    """Which options a file names so that they may be read: words for a map, or for a function."""
    for node in ast.walk(tree):
        if where == "config/load.py":
            # The loader has the values in a map before there is a configuration
            if (found := item(node)) and found[0] == "values":
                yield found[1]
        elif (
            where not in SPEAKERS
            and isinstance(node, ast.Constant)
            and node.value in NAMES
            and "_" in node.value  # one word alone may mean anything
        ):
            yield node.value


@cache
def found() -> tuple[dict[str, str], set[str]]:
    """What the sources read for certain, each with one place, and what they seem to read."""
    certain: dict[str, str] = {}
    seeming: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        where = str(path.relative_to(PACKAGE))
        tree = ast.parse(path.read_text())
        for name, line in readers(tree, where):
            certain.setdefault(name, f"{where}:{line}")
        seeming.update(likely(tree, where))
    return certain, seeming


class UsedTests(SynchronousTestCase):
    """The marks of all options."""

    def test_handed_on_is_not_read(self) -> None:
        """Nothing of ours reads an option of which the page says that nobody looks at it."""
        certain, _ = found()

        wrong = [f"{place}: {name}" for name, place in certain.items() if name not in READ]

        self.assertEqual(wrong, [], "take HandedOn[...] away from these in config/options.py")

    def test_the_rest_is_read(self) -> None:
        """Every option of which the page says that it is used has a reader."""
        certain, seeming = found()
        for name, (where, words) in COMPOSED.items():
            self.assertIn(words, (PACKAGE / where).read_text(), name)

        lost = READ - certain.keys() - seeming - COMPOSED.keys()

        self.assertEqual(sorted(lost), [], "these are HandedOn[...], or forgotten")
        self.assertGreater(len(certain), 200)
