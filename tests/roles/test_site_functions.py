"""
Runners and wheel functions of a site's own in real processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import deferLater
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import TestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.who import Who
from saltwisted.errors import RemoteError
from saltwisted.master.ground import Ground
from saltwisted.master.runner_table import Run
from saltwisted.master.site import SiteFunctions
from saltwisted.master.wheel_table import Call
from saltwisted.transports.bus import EventBus
from saltwisted.transports.callpool import PoolLimits
from saltwisted.transports.workers import WarmPool
from saltwisted.wire.msgpack import unpack
from saltwisted.worker.process.warm import exec_warm_parent
from tests.transports.test_ipc import awaited

RUNNERS = '''
"""Runners of the site."""
import json, logging, os, subprocess, sys, threading
import salt.exceptions
from salt.utils.files import fopen

log = logging.getLogger(__name__)
PLACE = os.getcwd()

def hello(name="world", *more, shout=False):
    """Say hello."""
    print("line one")
    print("half", end="")
    log.warning("careful, %s", name)
    subprocess.run(["sh", "-c", "echo a program; echo its error >&2"])
    __jid_event__.fire_event({"data": 50}, "progress")
    return ["hello " + name + "!" * shout, __user__, __jid__, __opts__["id"]]

def leave():
    sys.exit(3)

def die():
    os._exit(4)

def shoot():
    os.kill(os.getpid(), 9)

def forks():
    return "child" if os.fork() == 0 else "parent"

def fails():
    raise salt.exceptions.CommandExecutionError("the reason")

def stays(path):
    if os.fork() == 0:
        os.setsid()
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        while True:
            os.write(1, b"z" * 999 + b"\\n")
    while not os.path.exists(path):
        pass
    print("before")
    return "stays"

def deceives():
    told = []
    for op, args in [
        ("log", {}), ("log", {"level": "x", "message": "m"}), ("say", {}), ("say", {"text": 5}),
        ("complain", {"text": 5}), ("progress", {}), ("progress", {"end": 5}), ("begins", {}),
        ("begins", {"path": []}), ("no_such", {}),
    ]:
        try:
            told.append(__jid_event__._client.call(op, **args))
        except Exception as error:
            told.append(error.name)
    __jid_event__._client.call("log", level=-5, message="m")
    return told

def changes():
    os.environ.clear()
    sys.path[:] = []
    os.chdir("/")
    os.close(1)
    sys.stdout.close()
    import saltwisted.worker.process.loader as ours
    ours.Loader = None
    json.dumps = None
    return "changed"

def looks():
    return [bool(os.environ.get("PATH")), bool(sys.path), os.getcwd() == PLACE, json.dumps(1)]

def threads():
    found = []
    def work():
        for _ in range(100):
            found.append(__salt__["mysite.plain"]())
    all = [threading.Thread(target=work) for _ in range(10)]
    [each.start() for each in all]
    [each.join() for each in all]
    return [len(found), set(found) == {__opts__["id"]}]

def plain():
    return __opts__["id"]

def code():
    __context__["retcode"] = 5
    return "said"

def odd():
    return {"a": {1}, 2: (b"x", 1 << 70)}

def loud():
    for _ in range(4000):
        print("x" * 99)
    os.write(1, b"y" * 200000)
    return "loud"
'''
ENDS = "import os\nos._exit(7)\n"
RAISES = "print('at import')\nraise RuntimeError('not today')\n"
FORKS = "import os\nos.fork()\ndef here():\n    return 'here'\n"
WHEEL = 'def go(x=1):\n    """Go."""\n    return [x, __opts__["id"]]\n'


class ProcessTests(TestCase):
    """Real ones are what claims to harm nobody has to be tried with."""

    timeout = 60

    def setUp(self) -> None:
        """A warm parent, and directories with modules."""
        self.base = Path(tempfile.mkdtemp(dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.base)
        for kind, name, text in (
            ("runners", "mysite", RUNNERS),
            ("runners", "ends", ENDS),
            ("runners", "raises", RAISES),
            ("runners", "forks", FORKS),
            ("wheel", "mywheel", WHEEL),
        ):
            (self.base / "extmods" / kind).mkdir(parents=True, exist_ok=True)
            (self.base / "extmods" / kind / f"{name}.py").write_text(text)
        opts = {
            "id": "a_master",
            "extension_modules": str(self.base / "extmods"),
            "cachedir": str(self.base),
            "sock_dir": str(self.base),
            "runner_dirs": [],
            "wheel_dirs": [],
            "module_dirs": [],
            "site_function_timeout": 30,
        }
        self.pool = WarmPool(reactor, exec_warm_parent, exec_warm_parent)
        self.pool.set_fact("opts", opts)
        self.pool.privilegedStartService()
        self.pool.startService()
        self.addCleanup(self.pool.stopService)
        directories = SimpleNamespace(newest=SimpleNamespace(backends=("roots",)))
        ground = SimpleNamespace(
            config=SimpleNamespace(**opts),
            seams=SimpleNamespace(pins=directories),
            pool=maybeDeferred,
            clock=reactor,
            bus=EventBus(lambda: 0.0),
        )
        self.ground = cast(Ground, ground)
        self.told: list[Any] = []
        self.runners = SiteFunctions(self.ground, self.pool, "runners", {})

    async def call(self, fun: str, *arg: Any, **kwarg: Any) -> Any:
        """Call a runner."""
        await self.runners.learn()
        module, _, name = fun.partition(".")

        async def progress(data: Any, end: str) -> None:
            self.told.append({end: data})

        async def tell(item: Any) -> None:
            self.told.append(item)

        carol = Who("carol", "file")
        self.run_ = Run(cast(Any, None), "20260101000000000001", carol, progress, tell)
        return await self.runners[module].FUNCTIONS[name](self.run_, *arg, **kwarg)

    async def refused(self, fun: str) -> str:
        """The words with which a call fails."""
        try:
            found = await self.call(fun)
        except RemoteError as error:
            return str(error)
        raise AssertionError(found)

    @awaited
    async def test_own_words(self) -> None:
        """What a runner and its programs write, log and fire is told, in order and whole."""
        found = await self.call("mysite.hello", "Kim", shout=True)

        self.assertEqual(found, ["hello Kim!", "carol", "20260101000000000001", "a_master"])
        said = "\n".join(item["say"] for item in self.told if "say" in item)
        self.assertEqual(said, "line one\na program\nhalf")
        self.assertIn({"err": "its error"}, self.told)
        self.assertIn({"log": "warning", "text": "careful, Kim"}, self.told)
        self.assertIn({"progress": {"data": 50}}, self.told)

    @awaited
    async def test_described(self) -> None:
        """Names, words and arguments are known without a call; files that fail are not there."""
        await self.runners.learn()

        self.assertEqual(sorted(self.runners), ["ends", "forks", "mysite", "raises"])
        hello = self.runners["mysite"].FUNCTIONS["hello"]
        self.assertEqual(hello.__doc__, "Say hello.")
        self.assertNotIn("fopen", self.runners["mysite"].FUNCTIONS)

    @awaited
    async def test_bad_files(self) -> None:
        """A file that raises or ends its process at import is named; one that forks works."""
        for module, why in (("ends", "exited with status 7"), ("raises", "not today")):
            text = await self.refused(f"{module}.go")
            self.assertIn(f"{self.base}/extmods/runners/{module}.py cannot be used: ", text)
            self.assertIn(why, text)
        self.assertEqual(await self.call("forks.here"), "here")

    @awaited
    async def test_ends(self) -> None:
        """However a function ends its process, its caller is told, and the next call works."""
        for fun, why in (
            ("leave", "SystemExit: 3"),
            ("die", "exited with status 4"),
            ("shoot", "was ended by SIGKILL"),
            ("fails", "CommandExecutionError: the reason"),
        ):
            text = await self.refused(f"mysite.{fun}")
            self.assertIn(f"Exception occurred in runner mysite.{fun}", text)
            self.assertIn("mysite.py", text)
            self.assertIn(why, text)
            self.assertEqual(await self.call("mysite.plain"), "a_master")

    @awaited
    async def test_hangs(self) -> None:
        """One that hangs is ended with the programs that it has started."""
        (self.base / "extmods" / "runners" / "slow.py").write_text(
            "import subprocess\ndef go(path):\n    subprocess.run(['sh', '-c', "
            "'echo $$ > ' + path + '; exec sleep 1000'])\n"
        )
        self.ground.config.site_function_timeout = 1.0
        with self.assertRaisesRegex(RemoteError, "took longer than 1 seconds"):
            await self.call("slow.go", str(self.base / "pid"))
        while self.is_running(self.base / "pid"):
            await deferLater(reactor, 0.02, lambda: None)

    def is_running(self, file: Path) -> bool:
        """Whether the process whose pid is in a file runs."""
        state = Path(f"/proc/{file.read_text().strip()}/stat")
        try:
            return ") Z " not in state.read_text()
        except OSError:
            return False

    @awaited
    async def test_forks(self) -> None:
        """Of two processes that come back from a function, one answers."""
        self.assertEqual(await self.call("mysite.forks"), "parent")

    @awaited
    async def test_T_SITE_1_stays(self) -> None:
        """T-SITE-1: a child that a function leaves behind, and that writes on, holds up nobody."""
        path = self.base / "pid"
        try:
            self.assertEqual(await self.call("mysite.stays", str(path)), "stays")
        finally:
            os.kill(int(path.read_text()), signal.SIGKILL)

        self.assertIn("before", "".join(item.get("say", "") for item in self.told))

    @awaited
    async def test_T_SITE_1_deceives(self) -> None:
        """T-SITE-1: what a function tells its master by itself is refused if it makes no sense."""
        self.assertEqual(await self.call("mysite.deceives"), ["SaltInvocationError"] * 10)

    @awaited
    async def test_changes(self) -> None:
        """Environment, paths, directory, streams and modules are as ever for the next call."""
        self.assertEqual(await self.call("mysite.changes"), "changed")
        self.assertEqual(await self.call("mysite.looks"), [True, True, True, "1"])

    @awaited
    async def test_threads(self) -> None:
        """C{__salt__} and C{__opts__} are there in threads: ten with a hundred calls each."""
        self.assertEqual(await self.call("mysite.threads"), [1000, True])

    @awaited
    async def test_answers(self) -> None:
        """A return code fails the run; what msgpack has no word for arrives all the same."""
        self.assertEqual(await self.call("mysite.code"), "said")
        self.assertTrue(self.run_.failed)
        self.assertEqual(await self.call("mysite.odd"), {"a": [1], 2: [b"x", str(1 << 70)]})

    @awaited
    async def test_loud(self) -> None:
        """Much output arrives whole, a line of 200 000 bytes in pieces."""
        self.assertEqual(await self.call("mysite.loud"), "loud")

        said = "".join(item["say"].replace("\n", "") for item in self.told)
        self.assertEqual((said.count("x"), said.count("y")), (99 * 4000, 200000))

    @awaited
    async def test_wheel(self) -> None:
        """A wheel function likewise."""
        wheel = SiteFunctions(self.ground, self.pool, "wheel", {})
        await wheel.learn()

        found = await wheel["mywheel"].FUNCTIONS["go"](Call(cast(Any, None), "carol"), x=2)
        self.assertEqual(found, [2, "a_master"])


PILLAR = """
import os, sys

def ext_pillar(minion_id, pillar, how):
    print("on standard output")
    seen = [os.environ.get("SITE"), "/site" in sys.path, os.getcwd() == "/", os.getpid()]
    os.environ["SITE"] = "1"
    sys.path.append("/site")
    os.chdir("/")
    if minion_id == "patches":
        import json
        import saltwisted.worker.pillar.external as external
        from saltwisted.domain.render.pipeline import Renderer
        json.dumps = external.Sources = None
        Renderer.file = lambda *args, **kwargs: {}
    if minion_id == "forks":
        os.fork()
    if minion_id == "ends":
        os._exit(3)
    return {"seen": seen}
"""


class PillarTests(TestCase):
    """A process that compiles pillars of several minions, and an external pillar of the site's."""

    timeout = 60

    @awaited
    async def test_put_back(self) -> None:
        """
        What it changes of its process is put back before the next minion's; of two processes that
        come back from it one answers; one that ends its process costs that pillar alone. One that
        patches ours is named, and its process serves no other.
        """
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        base = Path(tempfile.mkdtemp(dir="/tmp"))
        self.addCleanup(shutil.rmtree, base)
        (base / "ext" / "pillar").mkdir(parents=True)
        (base / "ext" / "pillar" / "mine.py").write_text(PILLAR)
        opts = {
            **MasterConfig(pillar_roots={"base": [str(base)]}, config_dir=str(base)).as_opts(),
            "extension_modules": str(base / "ext"),
            "ext_pillar": [{"mine": 1}],
        }
        entry = "saltwisted.worker.pillar.work:serve"
        pool = WarmPool(
            reactor, exec_warm_parent, exec_warm_parent, pools={entry: PoolLimits(size=1, keep=1)}
        )
        pool.set_fact("opts", opts)
        pool.privilegedStartService()
        pool.startService()
        self.addCleanup(pool.stopService)

        async def seen(minion: str) -> Any:
            answer = await pool.call(entry, {"do": "pillar", "id": minion, "grains": {}}, 30)
            return unpack(answer["packed"])["seen"]

        first = await seen("forks")
        self.assertEqual(first[:3], [None, False, False])
        self.assertEqual(await seen("m2"), first)
        with self.assertRaisesRegex(RemoteError, "exited with status 3"):
            await seen("ends")
        third = await seen("m3")
        self.assertEqual(third[:3], first[:3])
        self.assertEqual(await seen("patches"), third)
        after = await seen("m4")
        self.assertEqual(after[:3], first[:3])
        self.assertNotEqual(after[3], third[3])
        (said,) = [event["harm"] for event in events if "harm" in event]
        self.assertIn("ext/pillar/mine.py has replaced ", said)
        for name in ("json.dumps", "external.Sources", "pipeline.Renderer.file"):
            self.assertIn(name, said)
