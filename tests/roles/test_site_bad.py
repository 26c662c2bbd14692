"""
Each way in which a file of a site's may be bad, with each kind that a running master or a running
minion executes. What C{salt-call} executes is in L{tests.cli.test_site_bad}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError
from tests.harness import OurMaster, OurMinion, scratch, until

LONG = os.environ.get("SALTWISTED_LONG") == "1"

FAILS = {
    "raises": 'raise RuntimeError("not today")',
    "leaves": "import sys; sys.exit(3)",
    "ends": "import os; os._exit(7)",
    "shoots": "import os; os.kill(os.getpid(), 9)",
}
"""The file is named to whoever asked, or in the log."""
WORKS = {
    "forks": "import os; os.fork()",
    "prints": 'print("on standard output")',
    "changes": "import os, sys; os.environ.clear(); sys.path[:] = []; os.chdir('/')",
    "patches": "import json, saltwisted.modules.test as ours; ours.ping = json.dumps = None",
}
"""The function answers, once."""
BODIES = {
    "modules": "def f():\n    {}\n    return 'fine'\n",
    "states": "def f(name):\n    {}\n"
    "    return {'name': name, 'result': True, 'changes': {}, 'comment': 'fine'}\n",
    "renderers": "def render(data, *args, **kwargs):\n    {}\n    return {'x': 'fine'}\n",
    "pillar": "def ext_pillar(minion_id, pillar, *args):\n    {}\n    return {'x': 'fine'}\n",
    "tops": "def top(**kwargs):\n    {}\n    return {'base': ['fine']}\n",
    "returners": "def returner(ret):\n    {}\n    with open(PLACE, 'a') as f:\n"
    "        f.write('fine\\n')\n",
    "executors": "def execute(opts, data, func, args, kwargs):\n    {}\n    return 'fine'\n",
    "grains": "def f():\n    {}\n    return {'site': 'fine'}\n",
}
BODIES.update(dict.fromkeys(("runners", "wheel", "utils"), BODIES["modules"]))
ASKS = "def f():\n    return __utils__['bad.f']()\n"


class BadFileTests(SynchronousTestCase):
    """
    One master and one minion serve all cases of a test. In CI each case is tried with each kind
    either where the file is executed or where its function is called, in turns; with C{--long} in
    both places.
    """

    def setUp(self) -> None:
        """Start both. Tops and external pillars of the name C{bad} are configured."""
        home = scratch(self)
        self.place = Path(home, "place")
        self.asked = 0
        self.site = Path(home, "site")
        for kind in BODIES:
            (self.site / kind).mkdir(parents=True)
        (self.site / "modules" / "asks.py").write_text(ASKS)
        options = {"module_dirs": [str(self.site)]}
        self.master = OurMaster(home, ext_pillar=[{"bad": 1}], master_tops={"bad": {}}, **options)
        self.addCleanup(self.master.kill)
        self.pillar = Path(self.master.pillar_root, "one.sls")
        self.write_pillar("x: 1")
        Path(self.master.pillar_root, "top.sls").write_text("base: {'*': [one]}\n")
        Path(self.master.file_root, "bad.sls").write_text("#!bad\nx: 1\n")
        self.master.up()
        self.minion = OurMinion(home, self.master, "m1", **options)
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.master.accept("m1")
        until("the minion", lambda: self.master.hears("m1"))

    def write_pillar(self, text: str) -> None:
        """What the pillar of all minions says."""
        self.pillar.write_text(f"{text}\n")

    # -- questions

    def ask(self, operation: str, fun: str, *arg: Any) -> Any:
        """What a runner or a function of the wheel answers."""
        return self.master.ask(operation, fun=fun, arg=list(arg), kwarg={})["return"]

    def job(self, fun: str, *arg: Any, **load: Any) -> Any:
        """What the minion returns."""
        with self.master.control() as client:
            for item in client.stream_within(60, "run", tgt="m1", fun=fun, arg=list(arg), **load):
                if item["kind"] == "return":
                    return item["data"]["return"]
        raise AssertionError(f"no return of {fun}\n{self.minion.tail()}")

    def shown(self, text: str) -> Any:
        """The pillar that the master compiles of this file."""
        self.write_pillar(text)
        try:
            return self.ask("runner", "pillar.show_pillar", "m1")
        finally:
            self.write_pillar("x: 1")

    def returned(self) -> str:
        """What a returner has written by the time that its process has ended."""
        self.place.unlink(missing_ok=True)
        self.job("test.ping", ret="bad")
        until("the returner", lambda: self.job("saltutil.running") == [])
        return self.place.read_text() if self.place.exists() else ""

    def gathered(self) -> Any:
        """A grain, computed anew."""
        self.job("saltutil.refresh_grains", "refresh_pillar=False", "clean_pillar_cache=False")
        return self.job("grains.get", "site")

    def questions(self) -> dict[str, tuple[str, Callable[[], Any]]]:
        """By what is tried: the kind of its file, and the question that has it executed."""
        executed = {"kwargs": {"module_executors": ["bad"]}}
        show = "pillar.show_pillar"
        return {
            "runners": ("runners", lambda: self.ask("runner", "bad.f")),
            "wheel": ("wheel", lambda: self.ask("wheel", "bad.f")),
            "salt.cmd": ("modules", lambda: self.ask("runner", "salt.cmd", "bad.f")),
            "external pillars": ("pillar", lambda: self.ask("runner", show, "m1")),
            "functions in pillars": ("modules", lambda: self.shown("x: {{ salt['bad.f']() }}")),
            "renderers of pillars": ("renderers", lambda: self.shown("#!bad\nx: 1")),
            "tops": ("tops", lambda: self.job("state.show_top")),
            "modules": ("modules", lambda: self.job("bad.f")),
            "utils": ("utils", lambda: self.job("asks.f")),
            "states": ("states", lambda: self.job("state.single", "bad.f", "name=x")),
            "renderers": ("renderers", lambda: self.job("slsutil.renderer", "salt://bad.sls")),
            "returners": ("returners", self.returned),
            "executors": ("executors", lambda: self.job("test.ping", **executed)),
            "grains": ("grains", self.gathered),
        }

    # -- cases

    def check(self, what: str, case: str, called: bool) -> None:
        """
        One file that is bad, one question; and the next job is unharmed.

        @param called: whether it is the function that does it, and not the file.
        """
        kind, question = self.questions()[what]
        line = (FAILS | WORKS)[case]
        self.asked += 1
        fine = f"fine{self.asked}."  # whatever is kept of an earlier file says something else
        body = BODIES[kind].replace("PLACE", repr(str(self.place))).replace("fine", fine)
        text = body.replace("{}", line, 1) if called else line + "\n" + body.replace("{}", "", 1)
        path = self.site / kind / "bad.py"
        path.write_text(text)
        before = len(self.master.text()), len(self.minion.text())

        def logged() -> str:
            return self.master.text()[before[0] :] + self.minion.text()[before[1] :]

        def answered() -> str:
            try:
                return json.dumps(question())
            except RemoteError as error:
                return str(error)

        answer = answered()
        about = f"{what}, {case} {'when called' if called else 'when executed'}: {answer}"
        if case in FAILS:
            self.assertNotIn(fine, answer, about)
            until(f"the file to be named: {about}", lambda: str(path) in answer + logged())
        elif what == "grains":
            # The daemon collects them while it goes on
            until(about, lambda: fine in answered())
        else:
            # Both processes that come out of a returner's fork write
            times = 2 if (what, case, called) == ("returners", "forks", True) else 1
            self.assertEqual(answer.count(fine), times, f"{about}\n{logged()}")
        path.unlink()
        after = self.ask("runner", "salt.execute", "m1", "test.ping")
        self.assertEqual(after, {"m1": True}, about)

    def check_all(self, *names: str) -> None:
        """All cases with some of what is tried."""
        for number, what in enumerate(names):
            for case in FAILS | WORKS:
                number += 1
                for called in (False, True):
                    if LONG or called == bool(number % 2):
                        self.check(what, case, called)

    def test_on_master(self) -> None:
        """Runners, wheel functions, C{salt.cmd}, tops, and all that makes a pillar."""
        self.check_all("runners", "wheel", "salt.cmd", "tops", "external pillars")
        self.check_all("functions in pillars", "renderers of pillars")

    def test_on_minion(self) -> None:
        """Modules, utilities, states, renderers, returners, executors and grains."""
        self.check_all("modules", "utils", "states", "renderers", "returners", "executors")
        self.check_all("grains")

    def test_named(self) -> None:
        """
        A file that is called like one of ours takes its place as a whole, for every kind; when it
        is gone, ours is there again.
        """
        executor = {"kwargs": {"module_executors": ["splay"], "executor_opts": {"splaytime": 1}}}
        (self.site / "modules" / "asks.py").write_text(ASKS.replace("bad.f", "hashutils.f"))
        Path(self.master.file_root, "named.sls").write_text('#!json\n{"x": "ours"}\n')
        for kind, name, ask, after in (
            ("runners", "jobs", lambda: self.ask("runner", "jobs.f"), "not available"),
            ("wheel", "config", lambda: self.ask("wheel", "config.f"), "not available"),
            ("modules", "hashutil", lambda: self.job("hashutil.f"), "not available"),
            ("utils", "hashutils", lambda: self.job("asks.f"), "KeyError"),
            ("states", "host", lambda: self.job("state.single", "host.f", "name=x"), "not found"),
            ("renderers", "json", lambda: self.job("slsutil.renderer", "salt://named.sls"), "ours"),
            ("renderers", "json", lambda: self.shown('#!json\n{"x": "ours"}'), "ours"),
            ("executors", "splay", lambda: self.job("test.echo", "x", **executor), "x"),
        ):
            path = self.site / kind / f"{name}.py"
            path.write_text(BODIES[kind].replace("{}", "", 1))
            self.assertIn("fine", f"{kind}: {ask()!r}")
            path.unlink()
            self.assertIn(after, f"{kind}: {ask()!r}")
