"""
One function of a site's own, called from everywhere (pains 5.5); and what modules of a site find
around them in threads, coroutines and parallel states (5.7), and of the pillar (5.8).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, scratch, until
from tests.webserver import WebServer

MODULE = """
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import salt.loader.dunder as names
from salt.exceptions import CommandExecutionError
from salt.utils.files import fopen


def says(word, **kwargs):
    line = f"{word} {__opts__['id']} {bool(__grains__['os'])} {__salt__['test.echo']('e')}"
    with fopen(PLACE, "a") as file:
        file.write(line + "\\n")
    return line


def around(number=0):
    found = []

    def ask():
        found.append([__salt__["test.echo"](number), names.__salt__["test.echo"](number),
                      __grains__["id"], __opts__["id"], __pillar__["secret"],
                      __salt__["pillar.get"]("secret"), __context__.setdefault("seen", "seen")])

    async def later():
        await asyncio.sleep(0)
        ask()
        await asyncio.get_running_loop().run_in_executor(None, ask)

    ask()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: ask(), range(2)))
    asyncio.run(later())
    return [len(found), sorted({tuple(each) for each in found})]


def plain():
    ask = __salt__
    return [ask["pillar.get"]("secret"), ask["pillar.get"]("deep:word", unmask=True),
            ask["pillar.items"]()["secret"], ask["pillar.items"](unmask=True)["secret"],
            ask["pillar.item"]("secret")["secret"], ask["pillar.raw"]("secret"),
            ask["pillar.fetch"]("secret"), ask["pillar.fetch"]("secret", unmask=True),
            ask["config.get"]("secret"), ask["pillar.get"]("deep")["word"],
            ask["pillar.get"]("secret", unmask=False)]
"""
STATE = """
def told(name):
    number, lines = __salt__["mysite.around"](name)
    return {"name": name, "result": True, "changes": {}, "comment": repr([number, lines])}
"""
TREE = {
    "_modules/mysite.py": MODULE,
    "_states/mystate.py": STATE,
    "places.sls": """
rendered {{ salt['mysite.says']('template') }}:
  test.nop
mysite.says:
  module.run:
    - word: modulerun
""",
    "beside.sls": """
{% for name in ('one', 'two', 'three') %}
{{ name }}:
  mystate.told:
    - parallel: True
{% endfor %}
""",
    "file.sls": """
{place}:
  file.managed:
    - contents: {{{{ salt['mysite.plain']() | json }}}}
""",
    "orch.sls": """
rendered {{ salt['mysite.says']('orchestration') }}:
  test.nop
called:
  salt.function:
    - name: mysite.says
    - tgt: m1
    - arg: [orchestrated]
ran:
  salt.runner:
    - name: salt.cmd
    - arg: [mysite.says, orchestratedrunner]
""",
    "react.sls": """
{% set line = salt['mysite.says']('reaction') %}
told:
  local.mysite.says:
    - tgt: m1
    - args:
      - word: reacted
""",
}
PILLAR = {
    "top.sls": "base: {m1: [one]}\n",
    "one.sls": "secret: hush\ndeep: {word: deeper}\nline: {{ salt['mysite.says']('pillar') }}\n",
}
STARS = "**********"


def written(folder: str, files: Mapping[str, str]) -> None:
    """Write a tree."""
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class PlacesTests(SynchronousTestCase):
    """One master and one minion, in processes, serve all tests."""

    def setUp(self) -> None:
        """Start both, and have the modules synced as a site does."""
        home = scratch(self)
        self.place = os.path.join(home, "said")
        reactions = [{"site/happened": ["salt://react.sls"]}]
        self.master = OurMaster(home, reactor=reactions)
        module = {"_modules/mysite.py": MODULE.replace("PLACE", repr(self.place))}
        target = {"file.sls": TREE["file.sls"].format(place=os.path.join(home, "written"))}
        written(self.master.file_root, {**TREE, **module, **target})
        written(self.master.pillar_root, PILLAR)
        self.addCleanup(self.master.kill)
        self.master.up()
        self.assertEqual(self.run_("saltutil.sync_all")["modules"], ["modules.mysite"])
        self.minion = OurMinion(home, self.master, "m1")
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.master.accept("m1")
        until("the minion", lambda: self.master.hears("m1"))
        self.salt("saltutil.sync_all")

    def run_(self, fun: str, *words: str) -> Any:
        """What C{salt-run} prints."""
        done = self.master.command("salt-run", "-l", "warning", "--out=json", fun, *words)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def salt(self, fun: str, *words: str) -> Any:
        """What C{salt m1} says."""
        return self.master.salt("m1", fun, *words)["m1"]

    def call(self, *words: str) -> Any:
        """What C{salt-call} prints."""
        done = self.master.command("salt-call", "-c", self.minion.conf, "--out=json", *words)
        return json.loads(done.stdout)["local"]

    def said(self) -> set[str]:
        """The words that were said, each with who said it."""
        lines = Path(self.place).read_text().splitlines() if os.path.exists(self.place) else []
        self.assertEqual({line.split(" ", 2)[2] for line in lines} - {"True e"}, set())
        return {" ".join(line.split()[:2]) for line in lines}

    def test_everywhere(self) -> None:
        """
        A job, salt-call with and without the master, a template, a state, a pillar, a reaction, an
        orchestration, its runner, C{salt.cmd} and both schedules call the same function; the runner
        C{http} asks web servers from the master.
        """
        master = "master_master"
        self.salt("mysite.says", "job")
        self.call("mysite.says", "call")
        self.call("--local", "mysite.says", "local")
        ret = self.salt("state.apply", "places")
        self.assertEqual({each["result"] for each in ret.values()}, {True}, ret)
        self.assertIn(f"pillar {master} True e", self.salt("pillar.get", "line", "unmask=True"))
        self.assertIn("runner master_master", self.run_("salt.cmd", "mysite.says", "runner"))
        self.run_("state.orchestrate", "orch")
        self.master.ask("fire_event", tag="site/happened", data={})
        every = ["schedule.add", "own", "seconds=1"]
        self.salt(*every, "function=mysite.says", 'job_args=["schedule"]')
        self.run_(*every, "function=salt.cmd", 'job_args=["mysite.says", "masterschedule"]')
        wanted = {
            *(f"{word} m1" for word in ("job", "call", "local", "template", "modulerun")),
            *(f"{word} m1" for word in ("orchestrated", "reacted", "schedule")),
            *(f"{word} {master}" for word in ("pillar", "runner", "orchestration")),
            *(f"{word} {master}" for word in ("orchestratedrunner", "reaction", "masterschedule")),
        }
        until(f"all of {sorted(wanted)}", lambda: self.said() >= wanted)

        self.assertEqual(self.said(), wanted)
        self.assertEqual(
            self.run_("salt.cmd", "mysite.nosuch")[:28], "'mysite.nosuch' is not avail"
        )

        web = WebServer(self, lambda path, form: (200, json.dumps([path, form]).encode()))
        told = self.run_("http.query", f"{web.url}/x", "method=POST", "data=a=b", "decode=True")
        self.assertEqual(told["dict"], ["/x", {"a": "b"}])
        refused = WebServer(self, lambda path, form: (503, b"busy"))
        self.assertIn("503", self.run_("http.query", refused.url)["error"])

        found = self.salt("mysite.around", "7")
        names = [7, 7, "m1", "m1", "hush", "hush", "seen"]
        self.assertEqual(found, [6, [names]])
        ret = self.salt("state.apply", "beside")
        comments = {each["name"]: each["comment"] for each in ret.values()}
        self.assertEqual(
            comments,
            {name: repr([6, [(name, name, *names[2:])]]) for name in ("one", "two", "three")},
        )
        self.salt("state.apply", "file")
        self.assertIn("hush", Path(self.master.root, "..", "written").read_text())
        plain = ["hush", "deeper", *["hush"] * 7, "deeper", STARS]
        self.assertEqual(self.salt("mysite.plain"), plain)
        self.assertEqual(self.salt("pillar.get", "secret"), STARS)
        self.assertEqual(self.call("pillar.get", "secret"), STARS)
        shown = self.salt("state.single", "module.run", "name=pillar.get", "key=secret")
        self.assertNotIn("hush", repr(shown))
