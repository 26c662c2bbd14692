"""
The table of doors: everything that listens or connects has a row, and every row is true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.doors import DOORS

ROOT = Path(__file__).resolve().parent.parent.parent

DAEMONS = (
    "cluster",
    "master",
    "minion",
    "roles",
    "stores",
    "transports",
    "web",
    "worker",
    "tap.py",
)
"""Where the code of daemons is; modules, states and commands are somebody's job or command."""

OPENS = {
    *("listenTCP", "listenUNIX", "listenSSL", "adoptStreamPort", "listenUDP", "listenMulticast"),
    *("connectTCP", "connectUNIX", "connectSSL", "create_connection", "create_server"),
    *("HostnameEndpoint", "TCP4ClientEndpoint", "TCP6ClientEndpoint", "UNIXClientEndpoint"),
    *("TCP4ServerEndpoint", "TCP6ServerEndpoint", "UNIXServerEndpoint"),
    *("serverFromString", "clientFromString", "Agent", "urlopen", "HTTPSConnection"),
    *("HTTPConnection", "build_opener"),
}
"""Functions and classes by which something is opened to others."""

OF_A_SOCKET = {"bind", "connect", "connect_ex", "listen"}
"""Methods that mean it of a socket, and something else of others."""
SOCKETS = {"connection", "sock", "socket", "server"}
"""Names of what has such a socket."""

NO_DOORS = {
    "saltwisted/roles/notify.py": "one datagram to systemd; nothing comes back",
    "saltwisted/worker/control.py": "a command asks the daemon of its own machine, and waits alone",
    "saltwisted/worker/fetch.py": "the process of a job fetches what a state names; nobody waits",
    "saltwisted/worker/renderfilters.py": "the process of a template looks up a name",
}
"""Files that open something by which nobody can keep a daemon busy, and why."""


def opened(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The function in which each thing is opened, and its line."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            name = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = child.name
            elif isinstance(child, ast.Call) and opens(child.func):
                yield function, child.lineno
            elif isinstance(child, ast.Name) and child.id in OPENS:
                # A class that is chosen here, and called by another name
                yield function, child.lineno
            yield from visit(child, name)

    yield from visit(tree, "")


def opens(called: ast.expr) -> bool:
    """Whether a call by this expression opens something."""
    if isinstance(called, ast.Name):
        return called.id in OPENS
    if not isinstance(called, ast.Attribute):
        return False
    if called.attr in OPENS:
        return True
    if called.attr not in OF_A_SOCKET:
        return False
    owner = called.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.lstrip("_") in SOCKETS


DECODED = "tests.wire.test_decoding.CostTests"
LINKS = "tests.doors.test_cluster.LinkCosts"
MINIONS = "tests.doors.test_minions.CommandTests"
HEADS = "tests.doors.test_http.HeadTests"
RATES = "tests.loopback.test_rates.RateTests"
DRIVERS = {
    "clear requests": ("tests.master.test_clearreads.ReadTests", DECODED),
    "sign-ins": (
        "tests.master.test_signins.LargeSignInTests",
        "tests.master.test_autosign.AutosignTests",
    ),
    "control": ("tests.doors.test_cluster.ControlCosts",),
    "control-minion": ("tests.doors.test_cluster.ControlCosts",),
    "peer-stranger": ("tests.doors.test_cluster.PortCosts",),
    "peer-member": (
        LINKS,
        "tests.doors.test_cluster.WordCosts",
        "tests.doors.test_cluster.RootsCosts",
    ),
    # A joining node reads an answer by the same reader as a member does
    "peer-join": (LINKS,),
    "etcd": ("tests.doors.test_cluster.AnswerCosts",),
    # Worker processes read what directories and providers say, and pass little on
    "ldap": (DECODED, "tests.doors.test_cluster.ControlCosts"),
    "login-web": ("tests.doors.test_cluster.AnswerCosts",),
    "git": (
        "tests.doors.test_git.WayTests",
        "tests.doors.test_git.LinearTests",
        "tests.doors.test_git.TurnTests",
    ),
    "files": ("tests.doors.test_git.LinearTests", "tests.doors.test_roots.DiskTests"),
    "http": (HEADS, "tests.doors.test_http.PipelineTests", "tests.doors.test_http.BodyTests"),
    "http-users": (HEADS, "tests.doors.test_http.BodyTests", "tests.doors.test_http.ReaderTests"),
    "hooks": (HEADS, "tests.doors.test_http.BodyTests"),
    "events": ("tests.doors.test_http.ListenerTests",),
    "static": ("tests.doors.test_http.ReaderTests",),
    "metrics": (HEADS,),
    "requests-zeromq": ("tests.transports.test_unfinished.RoomTests", DECODED, RATES),
    "publications-zeromq": ("tests.transports.test_unfinished.RoomTests", RATES),
    "requests-tcp": (
        RATES,
        "tests.doors.test_transports.FrameTests",
        "tests.doors.test_transports.TurnTests",
    ),
    "requests-tls": (
        "tests.doors.test_transports.StreamTests",
        "tests.doors.test_transports.FrameTests",
    ),
    "publications-tcp": (
        RATES,
        "tests.doors.test_transports.ReaderTests",
        "tests.doors.test_transports.TurnTests",
    ),
    "publications-tls": (
        "tests.doors.test_transports.ReaderTests",
        "tests.doors.test_transports.StreamTests",
    ),
    "masters": (DECODED,),
    "minions-data": (MINIONS,),
    "minions-ask": (MINIONS,),
    "publish": (MINIONS,),
}
"""Which tests drive each door: a new row has to say."""


class TableTests(SynchronousTestCase):
    """The rows and the code."""

    def test_T_MEM_1_every_opening(self) -> None:
        """Whatever listens or connects is named by a row."""
        rows = {place for door in DOORS.values() for place in door.opened}
        missing, found = [], set()
        for part in DAEMONS:
            path = ROOT / "saltwisted" / part
            for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
                where = str(file.relative_to(ROOT))
                for function, line in opened(ast.parse(file.read_text())):
                    found.add(f"{where}:{function}")
                    if f"{where}:{function}" not in rows and where not in NO_DOORS:
                        missing.append(
                            f"{where}:{line}: {function} opens something, and no row of "
                            "saltwisted/doors.py says what it may cost"
                        )

        self.assertEqual(missing, [])
        self.assertGreater(len(found), 10)

    def test_places(self) -> None:
        """What the rows name is there."""
        for door in DOORS.values():
            for place in door.opened:
                file, _, function = place.partition(":")
                text = (ROOT / file).read_text()
                self.assertRegex(text, rf"\bdef {function}\(", f"{door.name}: {place}")

    def test_T_MEM_1_exceptions(self) -> None:
        """Each file that is excepted opens something, or the exception can go."""
        for where in NO_DOORS:
            self.assertNotEqual(list(opened(ast.parse((ROOT / where).read_text()))), [], where)

    def test_T_COST_1_every_door_is_driven(self) -> None:
        """Each row names the tests that drive its door with generated input, and they are there."""
        self.assertEqual(set(DRIVERS), set(DOORS))
        for door, places in DRIVERS.items():
            for place in places:
                module, _, name = place.rpartition(".")
                case = getattr(import_module(module), name)
                tests = [word for word in vars(case) if word.startswith("test_")]
                self.assertTrue(tests, f"{door}: {place}")

    def test_bites(self) -> None:
        """A new listener, an endpoint and a bound socket are found."""
        for text in (
            "def f(self):\n    self.reactor.listenTCP(1, x)",
            "async def f():\n    await HostnameEndpoint(r, h, 1).connect(x)",
            "def f():\n    if x:\n        connection.bind('tcp://*:1')",
            "def f():\n    self._sock.connect(('h', 1))",
            "def f():\n    kind = TCP4ClientEndpoint\n    return kind(1)",
        ):
            self.assertEqual({name for name, _ in opened(ast.parse(text))}, {"f"})
        self.assertEqual(list(opened(ast.parse("def f():\n    signature(g).bind(1)"))), [])

    def test_rows(self) -> None:
        """A row has a name of its own, limits that mean something, and says what is beyond."""
        for name, door in DOORS.items():
            self.assertEqual(door.name, name)
            self.assertTrue(door.beyond and door.who and door.title, name)
            self.assertGreater(door.request, 0, name)
            self.assertGreater(door.per_kib, 0, name)
            self.assertGreater(door.memory_all, 0, name)
            self.assertLessEqual(door.memory, door.memory_all, name)
            self.assertLessEqual(door.strangers, door.memory_all, name)
            self.assertLessEqual(door.turn, 50, name)
