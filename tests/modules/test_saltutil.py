"""
C{saltutil}: running jobs, refreshing through the daemon, the master on this machine.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.modules import _process
from saltwisted.worker import jobfiles
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltClientError,
    SaltInvocationError,
)
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.orchestration.acts import Acts, Publishing
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.main import NoMaster
from saltwisted.worker.states.steps import ACTS
from tests.modules.harness import load

JID = "20260131040506123456"

_JOB = """
import ctypes, signal, subprocess, sys
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
signal.pause()
"""


class Daemon:
    """Keeps what it is asked; answers from a table."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers or {}

    def call(self, op: str, **args: Any) -> Any:
        self.asked.append((op, args))
        answer = self.answers.get(op, True)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Jobs(SynchronousTestCase):
    """Real processes under Salt's process files."""

    def setUp(self) -> None:
        self.cache = self.mktemp()
        os.makedirs(self.cache)
        self.module = load("saltutil", opts={"cachedir": self.cache})

    def start(self) -> tuple[subprocess.Popen[str], int]:
        """A process that looks like a job, and its child's pid."""
        process = subprocess.Popen(
            [sys.executable, "-c", _JOB, jobfiles.command_name(JID)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(_process.kill_tree, process.pid)
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        child = int(process.stdout.readline())
        job = {"jid": JID, "fun": "test.sleep", "arg": [600], "tgt": "*"}
        jobfiles.write_proc(self.cache, job, process.pid)
        return process, child

    def test_running(self) -> None:
        """A job at work is listed with its publication and process id, and found by both."""
        process, _ = self.start()

        (job,) = self.module.running()

        self.assertEqual((job["jid"], job["fun"], job["pid"]), (JID, "test.sleep", process.pid))
        self.assertEqual(self.module.find_job(JID), job)
        self.assertEqual(self.module.find_job(int(JID)), job)
        self.assertEqual(self.module.is_running("test.*"), [job])
        self.assertEqual(self.module.is_running("state.*"), [])

    def test_strangers(self) -> None:
        """A process file whose number belongs to a stranger now is removed, nobody is signalled."""
        path = jobfiles.write_proc(self.cache, {"jid": JID, "fun": "test.ping"}, os.getppid())

        self.assertEqual(self.module.kill_job(JID), "")
        self.assertFalse(os.path.exists(path))

    def test_kill(self) -> None:
        """Killing a job kills what it started."""
        process, child = self.start()
        watch = os.pidfd_open(child)
        self.addCleanup(os.close, watch)

        answer = self.module.kill_job(JID)

        self.assertEqual(answer, f"Signal 9 sent to job {JID} at pid {process.pid}")
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertTrue(jobfiles.signalled(jobfiles.proc_path(self.cache, JID)))
        # The descriptor becomes readable when the process has ended.
        self.assertEqual(select.select([watch], [], [], 10)[0], [watch])

    def test_term(self) -> None:
        """All jobs are asked to end by SIGTERM."""
        process, _ = self.start()

        self.assertEqual(
            self.module.term_all_jobs(), [f"Signal 15 sent to job {JID} at pid {process.pid}"]
        )
        self.assertEqual(process.wait(), -signal.SIGTERM)

    def test_clearCache(self) -> None:
        """Clearing the cache spares returns that wait to be sent, and running jobs."""
        for name in ("files/base/a", "outbox/r", "proc/p", "top"):
            path = os.path.join(self.cache, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8"):
                pass

        self.assertTrue(self.module.clear_cache())

        left = [
            os.path.relpath(os.path.join(folder, name), self.cache)
            for folder, _, names in os.walk(self.cache)
            for name in names
        ]
        self.assertEqual(sorted(left), ["outbox/r", "proc/p"])

    def test_badJid(self) -> None:
        """A job id that leads out of the cache is not a job id."""
        os.makedirs(os.path.join(self.cache, "minion_jobs"))
        answer = self.module.find_cached_job("../..")
        self.assertIn("not found", answer)


class Refreshing(SynchronousTestCase):
    """What is asked of the daemon."""

    def test_pillar(self) -> None:
        """A pillar refresh hands on whether to wait and whether to drop the master's cache."""
        daemon = Daemon()
        module = load("saltutil", daemon=daemon)

        self.assertTrue(module.refresh_pillar())
        self.assertTrue(module.refresh_pillar(wait=True, timeout=5, clean_cache=False))

        self.assertEqual(
            daemon.asked,
            [
                ("refresh", {"what": "pillar", "clean_cache": True}),
                (
                    "refresh",
                    {"what": "pillar", "clean_cache": False, "wait": True, "timeout": 5},
                ),
            ],
        )

    def test_refused(self) -> None:
        """A daemon that refuses is a false answer, not an exception."""
        module = load("saltutil", daemon=Daemon({"refresh": RemoteError("X", "no")}))

        self.assertFalse(module.refresh_modules())

    def test_grains(self) -> None:
        """Grains bring the pillar along unless it is not wanted."""
        daemon = Daemon()
        module = load("saltutil", daemon=daemon)

        module.refresh_grains()
        module.refresh_grains(refresh_pillar=False)

        self.assertEqual(
            [args["what"] for _, args in daemon.asked], ["grains", "pillar", "grains", "modules"]
        )

    def test_cachedGrains(self) -> None:
        """Grains are computed again, although C{grains_cache} has kept them."""
        folder = self.mktemp()
        os.mkdir(folder)
        kept = os.path.join(folder, "grains.cache.p")
        open(kept, "w").close()

        load("saltutil", daemon=Daemon(), opts={"cachedir": folder}).refresh_grains()

        self.assertFalse(os.path.exists(kept))

    def test_revoke(self) -> None:
        """Revoking asks the master, and a master that cannot be asked is a false answer."""
        loads: list[dict[str, Any]] = []

        class Master:
            def request(self, load: dict[str, Any]) -> bool:
                loads.append(load)
                return True

        class Gone:
            def request(self, load: dict[str, Any]) -> bool:
                raise TimeoutError

        opts = {"id": "mm"}
        self.assertTrue(load("saltutil", opts=opts, master=Master()).revoke_auth(True))
        self.assertFalse(load("saltutil", opts=opts, master=Gone()).revoke_auth())
        self.assertEqual(loads, [{"cmd": "revoke_auth", "id": "mm", "preserve_minion_cache": True}])


class Syncing(SynchronousTestCase):
    """Custom modules into C{extension_modules}."""

    def setUp(self) -> None:
        self.cache = os.path.abspath(self.mktemp())
        os.makedirs(self.cache)
        self.daemon = Daemon()
        self.module = load(
            "saltutil",
            daemon=self.daemon,
            opts={
                "cachedir": self.cache,
                "extension_modules": os.path.join(self.cache, "extmods"),
                "file_client": "remote",
                "clean_dynamic_modules": True,
            },
            fileclient=self,
        )

    def cache_dir(self, path: str, env: str, *rest: Any) -> list[str]:
        """The file client: one module in the cache, and one that leads out of it."""
        base = os.path.join(self.cache, "files", env, path.removeprefix("salt://"))
        os.makedirs(base, exist_ok=True)
        full = os.path.join(base, "one.py")
        with open(full, "w", encoding="utf-8") as file:
            file.write("x = 1\n")
        return [full, *self.extra]

    extra: tuple[str, ...] = ()

    def test_modes(self) -> None:
        """Synced modules are for their owner alone, whatever the umask."""
        self.addCleanup(os.umask, os.umask(0))

        self.assertEqual(self.module.sync_modules("base", refresh=False), ["modules.one"])

        place = os.path.join(self.cache, "extmods", "modules")
        self.assertEqual(os.stat(place).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(os.path.join(place, "one.py")).st_mode & 0o777, 0o600)

    def test_grains_are_waited_for(self) -> None:
        """Synced grains are the master's before the job returns: the next one may target them."""
        self.module.sync_grains("base")

        asked = [args for op, args in self.daemon.asked if op == "refresh"]
        self.assertEqual(asked[0], {"what": "grains", "wait": True, "timeout": 30})

    def test_outside(self) -> None:
        """A path outside of the cache is not copied."""
        self.extra = (os.path.join(self.cache, "elsewhere.py"),)
        with open(self.extra[0], "w", encoding="utf-8"):
            pass

        self.module.sync_modules("base", refresh=False)

        place = os.path.join(self.cache, "extmods")
        found = [name for _, _, names in os.walk(place) for name in names]
        self.assertNotIn("elsewhere.py", found)

    def test_masterless(self) -> None:
        """Pillar modules are only for minions without a master."""
        with self.assertRaises(CommandExecutionError) as caught:
            self.module.sync_pillar("base")
        self.assertEqual(
            str(caught.exception), "Pillar modules can only be synced to masterless minions"
        )

    def test_removed(self) -> None:
        """What the server no longer has is removed with its compiled leftovers."""
        self.module.sync_modules("base", refresh=False)
        place = os.path.join(self.cache, "extmods", "modules")
        os.makedirs(os.path.join(place, "__pycache__"))
        for name in ("old.py", "__pycache__/old.cpython-311.pyc"):
            with open(os.path.join(place, name), "w", encoding="utf-8"):
                pass

        self.assertEqual(self.module.sync_modules("base", refresh=False), [])

        self.assertEqual(os.listdir(place), ["one.py"])
        shutil.rmtree(place)


class MineAndEvents(SynchronousTestCase):
    """Modules that talk to a master through its daemon."""

    def test_event(self) -> None:
        """Events for the master go through the daemon, with what was asked to go along."""
        daemon = Daemon()
        module = load(
            "event",
            daemon=daemon,
            opts={"id": "mm", "file_client": "remote", "saltenv": "dev", "pillarenv": None},
            grains={"os": "Debian", "x": 1},
            pillar={"p": 2},
        )

        sent = module.send(
            "a/b", {"k": 1}, with_grains=["os"], with_pillar=True, with_env_opts=True, more=5
        )
        fired = module.fire({"y": 1}, "local")

        self.assertEqual((sent, fired), (True, True))
        self.assertEqual(
            daemon.asked,
            [
                (
                    "fire_event",
                    {
                        "tag": "a/b",
                        "data": {
                            "grains": {"os": "Debian"},
                            "pillar": {"p": 2},
                            "saltenv": "dev",
                            "pillarenv": None,
                            "more": 5,
                            "k": 1,
                        },
                        "to_master": True,
                    },
                ),
                ("fire_event", {"tag": "local", "data": {"y": 1}}),
            ],
        )

    def test_eventRefused(self) -> None:
        """An event that cannot leave is a false answer."""
        module = load(
            "event",
            daemon=Daemon({"fire_event": RemoteError("SaltClientError", "no master")}),
            opts={"id": "mm", "file_client": "remote"},
        )

        self.assertFalse(module.send("a"))
        self.assertFalse(module.fire({}, "a"))

    def test_mine(self) -> None:
        """The mine is written and read by Salt's requests."""
        loads: list[dict[str, Any]] = []

        class Master:
            def request(self, load: dict[str, Any]) -> Any:
                loads.append(load)
                return {"mm": 1, "other": 2} if load["cmd"] == "_mine_get" else True

        module = load(
            "mine",
            salt={"test.echo": lambda text: text},
            opts={"id": "mm", "file_client": "remote"},
            master=Master(),
        )

        self.assertTrue(module.send("test.echo", "x", allow_tgt="web*"))
        self.assertEqual(
            module.get("*", "test.echo", exclude_minion=True),
            {"other": 2},
        )
        self.assertTrue(module.delete("test.echo"))
        self.assertTrue(module.flush())

        wrapped = {"__data__": "x", "__saltmine_acl__": 1, "allow_tgt": "web*"}
        self.assertEqual(
            loads,
            [
                {"cmd": "_mine", "data": {"test.echo": wrapped}, "id": "mm", "clear": False},
                {
                    "cmd": "_mine_get",
                    "id": "mm",
                    "tgt": "*",
                    "fun": "test.echo",
                    "tgt_type": "glob",
                },
                {"cmd": "_mine_delete", "id": "mm", "fun": "test.echo"},
                {"cmd": "_mine_flush", "id": "mm"},
            ],
        )

    def test_mineWithoutMaster(self) -> None:
        """A mine that the master does not take is a false answer; the next update brings it."""

        class Master:
            def request(self, load: dict[str, Any]) -> Any:
                raise SaltClientError("no master is connected")

        module = load(
            "mine",
            salt={"test.echo": lambda text: text},
            opts={"id": "mm", "file_client": "remote"},
            master=Master(),
        )

        self.assertFalse(module.send("test.echo", "x"))

    def test_publish(self) -> None:
        """A published job is asked for until all that were expected have answered."""
        loads: list[dict[str, Any]] = []
        answers: list[Any] = [
            {"jid": JID, "minions": ["a", "b"]},
            {"a": {"ret": 1}},
            {"a": {"ret": 1}, "b": {"ret": 2, "out": "txt"}},
        ]

        class Master:
            connected = True

            def request(self, load: dict[str, Any]) -> Any:
                loads.append(load)
                return answers.pop(0)

        module = load("publish", opts={"id": "mm"}, master=Master())
        module._PAUSE = 0

        found = module.publish("*", "test.arg", ["1", "x=2"], timeout=60)

        self.assertEqual(found, {"a": 1, "b": 2})
        self.assertEqual(
            loads[0],
            {
                "cmd": "minion_pub",
                "fun": "test.arg",
                "arg": ["1", "x=2"],
                "tgt": "*",
                "tgt_type": "glob",
                "ret": "",
                "tmo": 60,
                "form": "clean",
                "id": "mm",
                "no_parse": [],
            },
        )
        self.assertEqual(loads[1:], [{"cmd": "pub_ret", "id": "mm", "jid": JID}] * 2)

    def test_publishDenied(self) -> None:
        """What the master does not allow, and publishing publishes, is an empty answer."""

        class Master:
            def request(self, load: dict[str, Any]) -> Any:
                return None

        module = load("publish", opts={"id": "mm"}, master=Master())

        self.assertEqual(module.publish("*", "cmd.run", "id"), {})
        self.assertEqual(module.publish("*", "publish.publish", "x"), {})


class Pushing(SynchronousTestCase):
    """C{cp.push}: files to the master."""

    def test_push(self) -> None:
        """A file goes in pieces with its place in the minion's part of the cache."""
        loads: list[dict[str, Any]] = []

        class Master:
            def request(self, load: dict[str, Any]) -> bool:
                loads.append(load)
                return True

        folder = os.path.realpath(self.mktemp())
        os.makedirs(folder)
        path = os.path.join(folder, "f")
        with open(path, "wb") as file:
            file.write(b"abcde")
        module = load("cp", opts={"id": "mm", "file_buffer_size": 2}, master=Master())

        self.assertTrue(module.push(path, upload_path="/up/./there", remove_source=True))

        self.assertEqual(
            [(load["loc"], load["data"]) for load in loads], [(0, b"ab"), (2, b"cd"), (4, b"e")]
        )
        self.assertEqual(loads[0]["path"], ["up", "there"])
        self.assertEqual(loads[0]["size"], 5)
        self.assertFalse(os.path.exists(path))

    def test_empty(self) -> None:
        """An empty file is sent too, and a refusal stops the sending."""
        loads: list[dict[str, Any]] = []

        class Master:
            def request(self, load: dict[str, Any]) -> bool:
                loads.append(load)
                return False

        path = os.path.abspath(self.mktemp())
        with open(path, "wb"):
            pass
        module = load("cp", opts={"id": "mm", "file_buffer_size": 2}, master=Master())

        self.assertFalse(module.push(path))
        self.assertFalse(module.push(path, upload_path="/a/../b"))
        self.assertEqual([load["data"] for load in loads], [b""])

    def test_directory(self) -> None:
        """All files below a directory are sent, or those that fit a glob, under a new path."""
        sent: list[list[str]] = []

        class Master:
            def request(self, load: dict[str, Any]) -> bool:
                sent.append(load["path"])
                return True

        folder = os.path.realpath(self.mktemp())
        for name in ("a.conf", "b/c.conf", "b/d.txt"):
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("x")
        module = load("cp", opts={"id": "mm", "file_buffer_size": 2}, master=Master())

        self.assertTrue(module.push_dir(folder, glob="*.conf", upload_path="/up"))
        self.assertFalse(module.push_dir(folder, glob="*.nothing"))
        self.assertEqual(sorted(sent), [["up", "a.conf"], ["up", "b", "c.conf"]])


class OnTheMaster(SynchronousTestCase):
    """C{saltutil.cmd}, C{runner} and C{wheel}: over the control socket of a master beside us."""

    def module(self, answers: dict[str, Any]) -> Any:
        """The module with a connection that answers from a table, streams as lists."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        asked = self.asked

        class Connection:
            def __enter__(self) -> Connection:
                return self

            def __exit__(self, *args: object) -> None:
                pass

            def call(self, op: str, **args: Any) -> Any:
                asked.append((op, args))
                if isinstance(answers[op], Exception):
                    raise answers[op]
                return answers[op]

            stream = call

        made = load("saltutil", opts={"id": "mm"})
        made.cmd.__globals__["_master_control"] = Connection
        return made

    def test_cmd(self) -> None:
        """Each return is told by its minion, keywords travel as the last argument."""
        module = self.module(
            {
                "run": [
                    {"kind": "published", "jid": JID, "minions": ["a"], "missing": []},
                    {"kind": "return", "id": "a", "data": {"return": 5, "retcode": 0, "out": "x"}},
                    {"kind": "missing", "ids": ["b"], "connected": {}},
                ]
            }
        )

        found = module.cmd("*", "test.arg", ["1"], kwarg={"k": 2}, timeout=3)

        self.assertEqual(found, {"a": {"ret": 5, "retcode": 0, "jid": JID, "out": "x"}})
        op, args = self.asked[0]
        self.assertEqual((op, args["arg"]), ("run", ["1", {"__kwarg__": True, "k": 2}]))
        self.assertEqual(args["timeout"], 3)

    def test_parts(self) -> None:
        """
        A batch of an orchestration says who gets which part before the first; one that is gone on
        with asks nobody again, and goes on with the same.
        """
        returned = [
            {"kind": "published", "jid": JID, "minions": ["a", "b"], "missing": []},
            *({"kind": "return", "id": m, "data": {"return": True}} for m in "ab"),
        ]
        module = self.module({"run": returned, "parts": None})
        acts = Acts("/nowhere", JID)
        connection = module.cmd.__globals__["_master_control"]
        acts.call = connection().call  # type: ignore[method-assign]
        module.cmd.__globals__[ACTS] = acts
        self.addCleanup(module.cmd.__globals__.pop, ACTS)

        acts.publish_as(Publishing(JID, 3))
        module.cmd("*", "state.apply", batch=1)
        ping, parts, *runs = self.asked
        self.assertEqual((ping[1]["fun"], parts[0]), ("test.ping", "parts"))
        self.assertEqual(parts[1], {"step": 3, "turns": [["a"], ["b"]], "lost": {}})
        told = [(run["tgt"], run["jid"], run["step"], run["part"]) for _, run in runs]
        self.assertEqual(told, [(["a"], JID, 3, 0), (["b"], JID, 3, 1)])

        self.asked.clear()
        lost = {"c": {"failed": True, "jid": "x"}}
        acts.publish_as(Publishing(JID, 3, {"turns": [["b"], ["a"]], "lost": lost, "begun": 1}))
        found = module.cmd("*", "state.apply", batch="50%", expect_minions=True)
        self.assertEqual([run["tgt"] for _, run in self.asked], [["b"], ["a"]])
        self.assertEqual(found["c"], lost["c"])

    def test_runner(self) -> None:
        """A runner's value comes alone, or with all about it."""
        whole = {"return": [1], "success": True, "jid": JID, "tag": f"salt/run/{JID}"}
        module = self.module({"runner": whole})

        self.assertEqual(module.runner("test.arg", ["a"], {"b": 1}, c=2, __pub_user="x"), [1])
        self.assertEqual(module.runner("test.arg", full_return=True), whole)
        self.assertEqual(
            self.asked[0], ("runner", {"fun": "test.arg", "arg": ["a"], "kwarg": {"b": 1, "c": 2}})
        )

    def test_wheel(self) -> None:
        """A wheel's answer has stock's keys on the top, and its arguments are read as YAML."""
        module = self.module({"wheel": {"return": {}, "success": True, "jid": JID, "tag": "t"}})

        answer = module.wheel("key.accept", "m", "5", force="yes", __pub_user="x")

        (_, asked) = self.asked[0]
        self.assertEqual((asked["arg"], asked["kwarg"]), (["m", 5], {"force": "yes"}))
        self.assertTrue(answer.pop("_stamp"))
        self.assertEqual(
            answer,
            {
                "fun": "wheel.key.accept",
                "fun_args": ["m", 5, {"force": "yes"}],
                "jid": JID,
                "return": {},
                "success": True,
            },
        )

    def test_arguments_that_are_none(self) -> None:
        """A text as C{arg} or C{kwarg} is refused, as in stock, and not taken apart."""
        module = self.module({})
        with self.assertRaisesRegex(SaltInvocationError, "arg must be formatted as a list/tuple"):
            module.runner("test.arg", arg="abc")
        with self.assertRaisesRegex(SaltInvocationError, "kwarg must be formatted as a dict"):
            module.runner("test.arg", kwarg="a=1")

    def test_noMaster(self) -> None:
        """Where no master runs, or it refuses, the caller is told so."""
        for error, text in (
            (TransportClosed("no daemon"), "minion that is located on the master"),
            (RemoteError("AuthorizationError", "not you"), "not you"),
        ):
            module = self.module({"run": error, "runner": error, "wheel": error})
            for function in (
                lambda module=module: module.cmd("*", "test.ping"),
                lambda module=module: module.runner("a.b"),
                lambda module=module: module.wheel("a.b"),
            ):
                with self.assertRaises(CommandExecutionError) as caught:
                    function()
                self.assertIn(text, str(caught.exception))


class BrokenTopTests(SynchronousTestCase):
    """Syncing while the top file is broken."""

    given: Mapping[str, Any] = {}
    """More options of the configuration."""

    def synced(self, top: str, **envs: str) -> Any:
        """What C{saltutil.sync_modules} says; C{envs} have top files of their own."""
        base = os.path.abspath(self.mktemp())
        roots = {}
        for env, text in {"base": top, **envs}.items():
            roots[env] = [os.path.join(base, env)]
            os.makedirs(os.path.join(base, env, "_modules"))
            with open(os.path.join(base, env, "top.sls"), "w") as file:
                file.write(text)
            with open(os.path.join(base, env, "_modules", f"of_{env}.py"), "w") as file:
                file.write("def hi():\n    return 1\n")
        conf = os.path.join(base, "conf")
        os.makedirs(conf)
        given = {"id": "m1", "root_dir": base, "file_client": "local", "file_roots": roots}
        given.update(self.given)
        with open(os.path.join(conf, "minion"), "w") as file:
            json.dump(given, file)
        opts = load_from_disk("minion", conf).config.as_opts()
        master = NoMaster()
        loaders = Loaders(
            opts,
            grains={},
            pillar={},
            master=master,
            fileclient=lambda: file_client(opts, master),
            stock=False,
        )
        return loaders.modules["saltutil.sync_modules"]()

    def test_kinds(self) -> None:
        """Whatever is wrong with the rendering, the modules of C{base} arrive."""
        for top in (
            "{% if %}",
            "base: [",
            "base:\n  '*': [{{ salt['of_base.hi']() }}]\n",
            "{{ salt['test.exception']('boom') }}",
            "{% import 'nosuch.jinja' as x %}",
            "{{ nosuch.nosuch }}",
            "{{ 1 / 0 }}",
        ):
            self.assertEqual(self.synced(top), ["modules.of_base"], top)

    def test_other_environments(self) -> None:
        """The top files that can be rendered still say which environments are meant."""
        dev = "dev: {'*': [x]}\n"
        self.assertEqual(self.synced("{% if %}", dev=dev), ["modules.of_dev"])

    def test_environment(self) -> None:
        """
        The C{saltenv} of the configuration, or of the run that this is a part of, is the only one;
        C{state_top_saltenv} says whose top file counts.
        """
        tops = {env: f"{env}: {{'*': [x]}}\n" for env in ("base", "dev", "qa")}
        others = {"dev": tops["dev"], "qa": tops["qa"]}
        both = [f"modules.of_{env}" for env in ("base", "dev", "qa")]
        for given, came in (
            ({}, both),
            ({"saltenv": "dev"}, ["modules.of_dev"]),
            ({"saltenv": "base"}, ["modules.of_base"]),
            ({"state_top_saltenv": "qa"}, ["modules.of_qa"]),
        ):
            self.given = given
            self.assertEqual(sorted(self.synced(tops["base"], **others)), came, given)
        self.given = {"saltenv": "dev"}
        self.assertEqual(self.synced(tops["base"], dev=""), ["modules.of_dev"])

    def test_no_top(self) -> None:
        """A file that renders to something else than a top file is refused in a sentence."""
        error = self.assertRaises(CommandExecutionError, self.synced, "[1]")
        self.assertIn("Unable to render top file(s): ", str(error))
