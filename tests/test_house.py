"""
The law of the floors: who may import whom, and what a floor may touch.

A violation is named with file and line. The table is the one of the architecture:
facts below, decisions above them, sockets above those; neighbours are strangers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from sys import stdlib_module_names

from twisted.trial.unittest import SynchronousTestCase


def words(text: str) -> set[str]:
    """A set, written as one reads it."""
    return set(text.split())


ROOT = Path(__file__).resolve().parent.parent
ZERO = {
    "",
    "advice",
    "claiming",
    "commits",
    "doors",
    "errors",
    "interfaces",
    "kinds",
    "mergekeys",
    "parts",
    "refnames",
    "words",
}
PURE = ZERO | {"wire", "config", "domain"}
BELOW = PURE | {"worker", "modules", "states", "transports", "stores", "turns"}
TWISTED = {"twisted", "zope", "constantly", "incremental", "automat", "txzmq", "zmq", "OpenSSL"}
LIBRARIES = {"attr", "attrs", "cryptography", "msgpack", "yaml", "jinja2", "markupsafe"}
PEERS = TWISTED | LIBRARIES | {"service_identity", "pyasn1"}

# package: (what of ours it may import, besides itself; what of others; whether it is pure)
LAW: dict[str, tuple[set[str], set[str], bool]] = {
    "": (set(), set(), True),
    "advice": (set(), set(), True),
    "claiming": (set(), set(), True),
    "commits": (set(), set(), True),
    "doors": (set(), set(), True),
    "errors": (set(), set(), True),
    "interfaces": ({"errors"}, set(), True),
    "kinds": ({"errors"}, set(), True),
    "mergekeys": (set(), {"yaml"}, True),
    "parts": (set(), set(), True),
    "refnames": (set(), set(), True),
    "words": (set(), set(), True),
    "wire": (ZERO, {"attr", "attrs", "cryptography", "msgpack"}, True),
    "config": (ZERO | {"wire"}, LIBRARIES, True),
    "domain": (ZERO | {"wire"}, LIBRARIES, True),
    "worker": (PURE, LIBRARIES, False),
    "modules": (PURE | {"worker"}, LIBRARIES, False),
    "states": (PURE | {"worker", "modules"}, LIBRARIES, False),
    "utils": (PURE | {"worker", "modules"}, LIBRARIES, False),
    # One line at the top of a script; no row names it
    "client": ({"worker"}, set(), False),
    # What site modules find as C{salt}; no row names it: nothing of ours imports it
    "compat": (PURE | {"worker", "modules", "states", "utils"}, LIBRARIES, False),
    # What shares the reactor's turns among these two
    "turns": (set(), set(), False),
    "transports": (PURE | {"turns"}, PEERS, False),
    "stores": (PURE | {"turns"}, PEERS | {"pygit2"}, False),
    "master": (BELOW, PEERS, False),
    "minion": (BELOW, PEERS, False),
    "cluster": (BELOW, PEERS, False),
    "web": (BELOW, PEERS | {"autobahn", "prometheus_client"}, False),
    "roles": (BELOW | {"master", "minion", "cluster", "web"}, PEERS, False),
    "tap": (ZERO | {"roles", "turns"}, TWISTED, False),
    "tools": (PURE | {"worker"}, LIBRARIES, False),
    "cli": (PURE | {"worker", "modules", "states", "tools"}, LIBRARIES, False),
    # For tests, ours and other people's: no row but its own names it
    "testing": (BELOW | {"master", "roles"}, PEERS, False),
}
ROOMS: dict[str, list[str]] = {
    "cluster": ["links", "claims", "facts", "jobs", "roots", "git", "life", "-"],
    "stores": ["-", "facts", "jobs", "roots", "git", "sources"],
    "worker": [
        *("-", "git", "grains", "process", "sdb", "states", "pillar", "automation"),
        "orchestration",
    ],
    "transports": ["-", "tcp", "zeromq"],
}
"""The rooms of a floor, from below: each imports those before it. C{-}: what lies in none."""
BORN_WHOLE = {"master", "roles"}
"""
Packages in which an object gets from outside what it has when it is made, and by its methods
alone later: whoever reads its class has seen everything that it can be.
"""
ALWAYS = {"clock", "seconds", "__doc__"}
"""But the clock of a C{LoopingCall} and the like can be given in no other way."""
LAZY = {"worker", "modules", "states", "utils", "compat", "tools", "cli"}
"""
These may import inside a function: a job or a command waits for what it needs, and no longer.
Such an import is no way round a circle: C{test_circles} sees it as any other.
"""
LATE = {
    "saltwisted.domain.render.tree", "saltwisted.roles.api", "saltwisted.roles.master",
    "saltwisted.roles.metrics",
}  # fmt: skip
"""
Modules elsewhere that import something of ours inside a function: the YAML reader takes 35 ms
to load, and few keys need it; what speaks HTTP takes memory, and libraries that not every master
has.
"""
IMPURE_MODULES = words(
    "asyncio fcntl ftplib getpass glob grp http logging mmap multiprocessing platform pty pwd"
    " resource secrets select selectors shutil signal smtplib socket socketserver sqlite3"
    " ssl subprocess syslog tempfile termios time urllib.request uuid"
)
IMPURE_CALLS = words("open input print now today utcnow")
PURE_OS = words("path fspath PathLike sep altsep extsep pathsep curdir pardir")
PURE_PATHS = words(
    "join dirname basename normpath isabs split splitext commonpath commonprefix relpath"
)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """
    All statements below a node, itself included, and nothing of what they are made of: a tenth of
    what C{ast.walk} visits.
    """
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, name, None)
            if isinstance(below, list):
                ahead += below


def imports(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Line, dotted name and whether at the top of the module, for every import."""
    top = {id(node) for node in ast.iter_child_nodes(tree)}
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}", id(node) in top


def impurities(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of whatever asks a clock, a disk, a socket or dice."""
    for line, name, _ in imports(tree):
        parts = [*name.split("."), "", ""]
        if (
            any(name == bad or name.startswith(bad + ".") for bad in IMPURE_MODULES)
            or name in ("pathlib", "pathlib.Path")
            or (parts[0] == "random" and parts[1] != "Random")
            or (parts[0] == "os" and parts[1] not in PURE_OS | {""})
            or (parts[:2] == ["os", "path"] and parts[2] not in PURE_PATHS | {""})
        ):
            yield line, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            naked = last in ("open", "input", "print")
            if last in IMPURE_CALLS and (name == last if naked else "date" in name):
                yield node.lineno, name + "()"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = ast.unparse(node.value)
            if owner == "os" and node.attr not in PURE_OS:
                yield node.lineno, f"os.{node.attr}"
            elif owner == "os.path" and node.attr not in PURE_PATHS:
                yield node.lineno, f"os.path.{node.attr}"


def inner_lines(tree: ast.AST) -> set[int]:
    """The lines of functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found: set[int] = set()
    for node in statements(tree):
        if isinstance(node, functions):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def offences(where: str, package: str, source: str) -> list[str]:
    """What is against the law in one file."""
    ours, theirs, pure = LAW[package]
    found = []
    for line, name, at_top, inside in imported(source):
        first, _, rest = name.partition(".")
        if first == "saltwisted":
            part = rest.partition(".")[0]
            part = part if part in LAW else ""
            if part != package and part not in ours:
                found.append(f"{where}:{line}: {package} may not import saltwisted.{part}")
        elif not first:
            found.append(f"{where}:{line}: relative import {name}")
        elif first not in stdlib_module_names and first not in theirs:
            if at_top or first in TWISTED or package not in LAZY:
                found.append(f"{where}:{line}: {package} may not import {name}")
        late = package in LAZY or module_name(ROOT / where) in LATE
        if first == "saltwisted" and inside and not late:
            found.append(f"{where}:{line}: {name} is imported inside a function")
        if package not in ("tap", "cli") and name == "twisted.internet.reactor":
            found.append(f"{where}:{line}: the reactor is an argument")
    if pure:
        impure = impurities(ast.parse(source))
        found += [f"{where}:{line}: {package} is pure, not {n}" for line, n in impure]
    return found


def filled_later(where: str, source: str) -> list[str]:
    """Where attributes that no class of this file has are assigned to other than C{self}."""
    tree = ast.parse(source)
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    own.add(item.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own |= {node.attr} if ast.unparse(node.value) == "self" else set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            found.append((node.lineno, ast.unparse(node)))
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        if ast.unparse(node.value) != "self" and node.attr not in own | ALWAYS:
            found.append((node.lineno, ast.unparse(node)))
    return [f"{where}:{line}: {what} is put into a finished object" for line, what in sorted(found)]


def module_name(path: Path) -> str:
    """The dotted name of a file of ours."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(source: str) -> tuple[tuple[int, str, bool, bool], ...]:
    """As L{imports}, and whether inside a function. To read all files takes seconds."""
    tree = ast.parse(source)
    inside = inner_lines(tree)
    return tuple((line, name, top, line in inside) for line, name, top in imports(tree))


def needs(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """
    Module to those of the others that it imports: at its top, in a function, or for types only.
    """
    found: dict[str, set[str]] = {}
    for name, source in sources.items():
        wanted = found[name] = set()
        for _, full, _, _ in imported(source):
            for target in (full, full.rpartition(".")[0]):
                if target in sources and target != name:
                    wanted.add(target)
                    break
    return found


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of modules each of which leads back to itself by way of the others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            for each in graph[ahead.pop()] - seen:
                seen.add(each)
                ahead.append(each)
        return seen

    beyond = {name: reached(name) for name in graph}
    found = []
    for name in sorted(graph):
        circle = {other for other in beyond[name] if name in beyond[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def climbs(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import from a room above their own, or from one that has no place."""

    def place(module: str) -> tuple[str, str]:
        _, floor, *rooms = module.split(".")
        return floor, rooms[0] if len(rooms) > 1 else "-"

    found = []
    for module, wanted in sorted(graph.items()):
        floor, room = place(module) if module.count(".") > 1 else ("", "-")
        for other in sorted(wanted):
            if floor not in ROOMS or not other.startswith(f"saltwisted.{floor}."):
                continue
            beside = place(other)[1]
            order = ROOMS[floor]
            if {room, beside} - set(order) or order.index(beside) > order.index(room):
                found.append(f"{module} imports {other}")
    return found


class HouseTests(SynchronousTestCase):
    """The house as it stands."""

    def test_rooms(self) -> None:
        """Within a floor, no room imports from one above it, and each has its place."""
        files = sorted((ROOT / "saltwisted").rglob("*.py"))
        files = [path for path in files if path.name != "__init__.py"]
        graph = needs({module_name(path): path.read_text() for path in files})

        self.assertEqual(climbs(graph), [])

    def test_rooms_bite(self) -> None:
        """A room that imports from above, and one that nobody gave a place, are named."""
        graph = {
            "saltwisted.cluster.links.peers": {"saltwisted.cluster.jobs.care"},
            "saltwisted.cluster.jobs.care": {"saltwisted.cluster.links.peers"},
            "saltwisted.stores.files": {"saltwisted.stores.jobs.log", "saltwisted.stores.stall"},
            "saltwisted.worker.attic.old": {"saltwisted.worker.walk"},
        }
        found = [line.partition(" ")[0].removeprefix("saltwisted.") for line in climbs(graph)]
        self.assertEqual(found, ["cluster.links.peers", "stores.files", "worker.attic.old"])

    def test_circles(self) -> None:
        """No modules import one another in a circle."""
        files = sorted((ROOT / "saltwisted").rglob("*.py"))
        graph = needs({module_name(path): path.read_text() for path in files})
        found = circles(graph)

        self.assertEqual(found, [], f"modules import one another: {found}")

    def test_born_whole(self) -> None:
        """Nothing is put into a finished object of a master, nor into one that a role has made."""
        found: list[str] = []
        for package in sorted(BORN_WHOLE):
            for path in sorted((ROOT / "saltwisted" / package).rglob("*.py")):
                found += filled_later(str(path.relative_to(ROOT)), path.read_text())

        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_born_whole_bites(self) -> None:
        """
        An attribute of somebody else is found however it is assigned; one's own, and that of a
        record which the module itself defines, is not.
        """
        cases = [
            ("ctx.files = view", ["1"]),
            ("class A:\n    def f(self):\n        self.a.b, self.c = 1, 2\n        x.c = 3", ["3"]),
            ("master.jobs.hooks += [1]\ndel master.x", ["1", "2"]),
            ("def f(run: Run) -> None:\n    run.shown: str = 'x'", ["2"]),
            ("with a as b.c:\n    pass\nfor b.d in e:\n    pass", ["1", "3"]),
            ("setattr(ctx, 'files', view)", ["1"]),
            ("class A:\n    x: int\ndef f(a):\n    a.x = 1\n    loop.clock = c", []),
        ]
        for source, lines in cases:
            found = [text.split(":")[1] for text in filled_later("x.py", source)]
            self.assertEqual(found, lines, source)

    def test_circles_bite(self) -> None:
        """A circle is found behind a function, and behind a check for types, and named once."""
        sources = {
            "p.a": "from p import b",
            "p.b": "def f():\n    from p.c import x",
            "p.c": "if TYPE_CHECKING:\n    from p.a import A",
            "p.d": "from p.a import A",
        }
        self.assertEqual(circles(needs(sources)), [{"p.a", "p.b", "p.c"}])

    def test_floors(self) -> None:
        """No file imports a neighbour, a higher floor, or what its floor may not touch."""
        found: list[str] = []
        for path in sorted((ROOT / "saltwisted").rglob("*.py")):
            parts = path.relative_to(ROOT / "saltwisted").with_suffix("").parts
            package = "" if parts[0] == "__init__" else parts[0]
            self.assertIn(package, LAW, f"{path}: a package without a row in the law")
            found += offences(str(path.relative_to(ROOT)), package, path.read_text())

        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_law_bites(self) -> None:
        """Each kind of offence is found, with its line."""
        cases = [
            ("wire", "import attrs\nimport time", 2),
            ("wire", "from os import urandom", 1),
            ("domain", "import os.path\nos.path.join('a')\nos.path.exists('a')", 3),
            ("domain", "import datetime\ndatetime.datetime.now()", 2),
            ("config", "def f():\n    return open('x')", 2),
            ("domain", "import random", 1),
            ("config", "from saltwisted.domain import jid", 1),
            ("master", "import os\nfrom saltwisted.minion.jobs import x", 2),
            ("stores", "from saltwisted.transports import bus", 1),
            ("transports", "from saltwisted import stores", 1),
            ("worker", "def f():\n    from twisted.internet import defer", 2),
            ("modules", "import zmq", 1),
            ("cli", "import sys\nfrom twisted.python import usage", 2),
            ("minion", "from twisted.internet import reactor", 1),
            ("roles", "from . import base", 1),
            ("worker", "import salt", 1),
            ("worker", "import os\nfrom saltwisted.modules import _files", 2),
            ("worker", "def f():\n    from saltwisted.states import file", 2),
            ("master", "def f():\n    from saltwisted.master import table", 2),
            ("config", "async def f():\n    import saltwisted.config.load", 2),
        ]
        for package, source, line in cases:
            found = offences("x.py", package, source)
            self.assertEqual([text.split(":")[1] for text in found], [str(line)], source)
        self.assertEqual(offences("x.py", "worker", "def f():\n    import salt"), [])

    def test_packages(self) -> None:
        """Every folder with code is a package and stands in setup.cfg, and nothing else does."""
        settings = ConfigParser()
        settings.read(ROOT / "setup.cfg")
        named = settings["options"]["packages"].split()
        folders = {
            ".".join(path.parent.relative_to(ROOT).parts)
            for path in (ROOT / "saltwisted").rglob("*.py")
        }
        bare = [f for f in folders if not (ROOT / f.replace(".", "/") / "__init__.py").exists()]

        self.assertEqual(bare, [])
        self.assertEqual(sorted(folders | {"twisted.plugins"}), sorted(named))

    def test_no_forgotten_tests(self) -> None:
        """Each test is where trial looks, under a name used once, and states its claim."""
        found = []
        for path in sorted((ROOT / "tests").rglob("*.py")):
            if not (path.parent / "__init__.py").exists():
                found.append(f"{path}: no __init__.py beside it")
            for node in statements(ast.parse(path.read_text())):
                if not isinstance(node, ast.ClassDef):
                    continue
                tests = [
                    item
                    for item in node.body
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                    and item.name.startswith("test")
                ]
                names = [item.name for item in tests]
                twice = {name for name in names if names.count(name) > 1}
                found += [f"{path}:{node.lineno}: {name} stands twice" for name in twice]
                for item in tests:
                    if ast.get_docstring(item) is None:
                        found.append(f"{path}:{item.lineno}: {item.name} states no claim")
                cases = [ast.unparse(base) for base in node.bases]
                if tests and not path.name.startswith("test_") and "TestCase" in "".join(cases):
                    found.append(f"{path}:{node.lineno}: trial does not look into this file")

        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_c_builds(self) -> None:
        """msgpack and PyYAML are the compiled ones."""
        import msgpack
        import yaml

        self.assertTrue(yaml.__with_libyaml__)
        self.assertEqual(msgpack.Packer.__module__, "msgpack._cmsgpack")
