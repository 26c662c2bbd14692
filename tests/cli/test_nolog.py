"""
C{no_log}: what such a state was given is in no answer, log or file, whatever becomes of the state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker.masking import is_marked, masked, unnamed
from tests.harness import scratch, write_config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CANARY = "canary-7f3a"
STARS = "**********"
SLS = """
{% set secret = pillar['secret'] %}
written:
  file.managed: [{name: HOME/written, contents: {{ secret }}, no_log: true}]
named:
  cmd.run: [{name: "echo {{ secret }}", no_log: true}]
many:
  cmd.run: [{names: ["echo 1 {{ secret }}", "echo 2 {{ secret }}"], no_log: true}]
failed:
  cmd.run: [{name: "echo {{ secret }}; false", no_log: true}]
crashed:
  odd.crash: [{name: x, secret: {{ secret }}, no_log: true}]
warned:
  odd.warn: [{name: x, secret: {{ secret }}, no_log: true}]
unknown:
  odd.nosuch: [{name: "{{ secret }}", no_log: true}]
beside:
  odd.crash: [{name: x, secret: {{ secret }}, no_log: true, parallel: true}]
beside2:
  cmd.run: [{name: "echo {{ secret }} 2", no_log: true, parallel: true}]
left:
  cmd.run: [{name: "echo {{ secret }} 3", no_log: true, require: [{cmd: failed}]}]
tried:
  cmd.run: [{name: "echo {{ secret }} 4", no_log: true, prereq: [{cmd: last}]}]
again:
  cmd.run: [{name: "echo {{ secret }} 5; false", no_log: true, retry: {attempts: 2, interval: 0}}]
last:
  cmd.run: [{name: "true"}]
heard:
  cmd.wait: [{name: "echo {{ secret }} 6", no_log: true, listen: [{cmd: last}]}]
"""
OUTPUT = """
shown:
  cmd.run: [{name: "cat HOME/hidden; false"MARK}]
well:
  cmd.run: [{name: "cat HOME/hidden"MARK}]
beside:
  cmd.run: [{name: "cat HOME/hidden; false", parallel: trueMARK}]
beside2:
  cmd.run: [{name: "cat HOME/hidden >&2; false", parallel: trueMARK}]
unlike:
  cmd.run: [{name: "true", unless: "cat HOME/hidden; false"MARK}]
checked:
  cmd.run: [{name: "true", check_cmd: ["cat HOME/hidden; false"]MARK}]
loud:
  loud.speak: [{name: HOME/hiddenMARK}]
late:
  loud.speak: [{name: HOME/hidden, parallel: trueMARK}]
"""
"""States of which the secret comes out, without that it was given to them."""
LOUD = """
import logging, sys, threading, warnings

log = logging.getLogger("x.loud")

def mod_init(low):
    with open(low["name"]) as file:
        log.error(file.read())
    return True

def speak(name):
    with open(name) as file:
        secret = file.read()
    log.info("read %s", secret)
    log.warning({"read": secret})
    warnings.warn(secret)
    print(secret, file=sys.stderr)
    thread = threading.Thread(target=fail, args=(secret,))
    thread.start()
    thread.join()
    try:
        fail(secret)
    except ValueError:
        log.exception("in a trace")
    fail(secret)

def fail(secret):
    log.error("in a thread: " + secret, stack_info=True)
    raise ValueError(secret)
"""
ODD = """
def crash(name, secret):
    raise ValueError(f"no {secret}")

def warn(name, secret):
    return {"name": name, "result": True, "changes": {"new": secret}, "comment": [secret],
            "warnings": [secret],
            "sub_state_run": [{"name": "sub", "changes": {"a": secret}, "result": True,
                               "comment": secret,
                               "low": {"state": "odd", "__id__": "sub", "name": "sub",
                                       "fun": "warn"}}]}
"""


class NoLogTests(SynchronousTestCase):
    """One masterless run of states that succeed, fail, crash, wait and listen."""

    def setUp(self) -> None:
        self.home = scratch(self)
        write_config(
            f"{self.home}/etc/minion",
            {
                "id": "m1",
                "root_dir": f"{self.home}/root",
                "file_client": "local",
                "file_roots": {"base": [f"{self.home}/srv"]},
                "pillar_roots": {"base": [f"{self.home}/pillar"]},
                "states_dirs": [f"{self.home}/states"],
                "minion_pillar_cache": False,
            },
        )
        self.write("srv/x.sls", SLS.replace("HOME", self.home))
        self.write("states/odd.py", ODD)
        self.write("pillar/top.sls", "base: {'*': [secret]}")
        self.write("pillar/secret.sls", f"secret: {CANARY}")

    def write(self, path: str, text: str) -> None:
        """A file below the test's own directory."""
        os.makedirs(os.path.dirname(f"{self.home}/{path}"), exist_ok=True)
        with open(f"{self.home}/{path}", "w", encoding="utf-8") as file:
            file.write(text)

    def run_it(self, *words: str) -> tuple[Any, str]:
        """What C{salt-call} answers, and says besides; the secret is in neither."""
        answer, told = self.run_plainly(*words)
        self.assertNotIn(CANARY, json.dumps(answer))
        self.assertNotIn(CANARY, told)
        return answer, told

    def run_plainly(self, *words: str) -> tuple[Any, str]:
        """What C{salt-call} answers, and says besides."""
        done = subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", "salt-call", "--local",
             "-c", f"{self.home}/etc", "-l", "trace", "--out=json", *words],
            capture_output=True, text=True, timeout=300, check=False, cwd=self.home,
            env={**os.environ, "PYTHONPATH": ROOT, "HOME": "/root"},
        )  # fmt: skip
        self.assertTrue(done.stdout.startswith("{"), done.stderr[-3000:])
        return json.loads(done.stdout)["local"], done.stderr

    def on_disk(self) -> list[str]:
        """The files of the minion that have the secret."""
        found = []
        for folder, _, names in os.walk(f"{self.home}/root"):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    if CANARY.encode() in file.read():
                        found.append(os.path.join(folder, name))
        return found

    def test_T_LOG_1_no_log(self) -> None:
        """T-LOG-1: the secret is in no result, no log at any level, and no file of the minion."""
        results, _ = self.run_it("state.apply", "x")
        self.assertEqual(self.on_disk(), [])
        with open(f"{self.home}/written", encoding="utf-8") as file:
            self.assertEqual(file.read(), CANARY + "\n")
        by_id: dict[str, list[Any]] = {}
        for tag, result in results.items():
            by_id.setdefault(tag.split("_|-")[1], []).append(result["result"])
        self.assertEqual(
            {id_: each if len(each) > 1 else each[0] for id_, each in by_id.items()},
            {
                "written": True, "named": True, "many": [True, True], "failed": False,
                "crashed": False, "warned": True, "sub": True, "unknown": False, "beside": False,
                "beside2": True, "left": False, "tried": True, "again": False, "last": True,
                "heard": True, "listener_heard": True,
            },
        )  # fmt: skip
        self.assertIn("cmd_|-named_|-named_|-run", results)
        self.assertIn("cmd_|-many_|-many 2_|-run", results)
        self.assertEqual(results["cmd_|-last_|-true_|-run"]["changes"]["retcode"], 0)

    def test_T_LOG_1_output(self) -> None:
        """
        T-LOG-1: what commands print and modules say is in no log either, though nobody has given it
        to them. Without the mark it is there; with it there is a word in its place.
        """
        self.write("hidden", f"{CANARY}\n")
        self.write("states/loud.py", LOUD)
        sls = OUTPUT.replace("HOME", self.home)
        self.write("srv/x.sls", sls.replace("MARK", ""))
        self.write("srv/y.sls", sls.replace("MARK", ", no_log: true"))
        path = f"{self.home}/log"
        how = ("--log-file", path, "--log-file-level", "all")

        open_, told = self.run_plainly(*how, "state.apply", "x")
        with open(path, encoding="utf-8") as file:
            logged = file.read()
        for line in (
            "stdout: C", "stderr: C", "read C", "'read': 'C", "in a thread: C", "ValueError: C",
            "UserWarning: C",
        ):  # fmt: skip
            self.assertIn(line.replace("C", CANARY), told)
        self.assertIn(f"stdout: {CANARY}", logged)
        os.remove(path)
        marked, told = self.run_it(*how, "state.apply", "y")
        with open(path, encoding="utf-8") as file:
            logged = file.read()

        self.assertNotIn(CANARY, logged)
        self.assertIn("Executing state cmd.run for [shown]", logged)
        self.assertIn("The state shown failed", logged)
        for state in ("shown", "well", "beside", "beside2", "unlike", "checked", "loud", "late"):
            self.assertIn(f"(the state {state} is secret: what is logged of it is not", logged)
        self.assertEqual(
            {result["__id__"]: result["result"] for result in marked.values()},
            {result["__id__"]: result["result"] for result in open_.values()},
        )

    def test_T_LOG_1_job(self) -> None:
        """T-LOG-1: so it is with a whole job that is marked."""
        self.write("hidden", f"{CANARY}\n")
        path = f"{self.home}/log"
        how = ("--log-file", path, "--log-file-level", "all", "--set-metadata", "{no_log: true}")

        _, told = self.run_plainly(*how, "cmd.run", f"cat {self.home}/hidden; false")

        with open(path, encoding="utf-8") as file:
            logged = file.read()
        self.assertNotIn(CANARY, told + logged)
        self.assertRegex(logged, r"\(the job \d+ is secret: what is logged of it is not shown\)")

    def test_T_LOG_1_single(self) -> None:
        """T-LOG-1: so it is for one state alone; what a person types as its argument is his own."""
        self.write(
            "states/odd.py",
            "def own(name): return {'name': name, 'changes': {'a': name},"
            " 'result': False, 'comment': __salt__['pillar.get']('secret', unmask=True)}\n",
        )
        results, _ = self.run_it("state.single", "odd.own", "name=x", "no_log=True")
        self.assertEqual(results["odd_|-x_|-x_|-own"]["comment"], "**********")
        self.assertEqual(self.on_disk(), [])

    def test_T_LOG_1_numbers(self) -> None:
        """T-LOG-1: numbers and truth in the changes of such a state are stars too, as in 3008.5."""
        self.write(
            "states/odd.py",
            "def own(name): return {'name': name, 'result': True, 'comment': 4711, 'changes':"
            " {'pin': 4711, 'rate': 1.5, 'on': True, 'off': False, 'none': 0}}\n",
        )
        results, _ = self.run_plainly("state.single", "odd.own", "name=x", "no_log=True")
        result = results["odd_|-x_|-x_|-own"]
        self.assertEqual(
            result["changes"],
            {"pin": STARS, "rate": STARS, "on": STARS, "off": False, "none": 0},
        )
        self.assertEqual((result["result"], result["comment"]), (True, STARS))

    def test_T_LOG_1_cache(self) -> None:
        """T-LOG-1: a run that was kept before its state was marked does not stay on the disk."""
        self.write("srv/y.sls", "{{ 'a' }}:\n  cmd.run: [{name: 'echo {{ pillar.secret }}'}]\n")
        subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", "salt-call", "--local",
             "-c", f"{self.home}/etc", "state.apply", "y"],
            capture_output=True, timeout=300, check=True, cwd=self.home,
            env={**os.environ, "PYTHONPATH": ROOT, "HOME": "/root"},
        )  # fmt: skip
        self.assertNotEqual(self.on_disk(), [])
        self.write("srv/y.sls", "a:\n  cmd.run: [{name: 'echo {{ pillar.secret }}', no_log: 1}]\n")
        self.run_it("state.apply", "y", "cache=False")
        self.assertEqual([path for path in self.on_disk() if not path.endswith("/minion")], [])


class MaskTests(SynchronousTestCase):
    """The parts of it."""

    def test_names(self) -> None:
        """Names of marked states are their ids in tags; each result keeps a tag of its own."""
        chunks = [
            {"state": "cmd", "name": "a_|-b", "__id__": "x", "no_log": True},
            {"state": "cmd", "name": "c", "__id__": "x", "no_log": True},
            {"state": "cmd", "name": "d", "__id__": "d"},
        ]
        running = {
            "cmd_|-x_|-a_|-b_|-run": 1, "cmd_|-x_|-c_|-run": 2, "cmd_|-d_|-d_|-run": 3,
            "cmd_|-listener_x_|-c_|-mod_watch": 4, "pkg_|-x_|-c_|-run": 5,
        }  # fmt: skip
        self.assertEqual(
            unnamed(running, chunks),
            {
                "cmd_|-x_|-x_|-run": 1, "cmd_|-x_|-x 2_|-run": 2, "cmd_|-d_|-d_|-run": 3,
                "cmd_|-listener_x_|-listener_x_|-mod_watch": 4, "pkg_|-x_|-c_|-run": 5,
            },
        )  # fmt: skip

    def test_others(self) -> None:
        """A state without the mark is told as it is."""
        result = {"name": "a", "comment": "b", "changes": {"c": "d"}}
        self.assertEqual(masked({"name": "a"}, dict(result)), result)
        self.assertFalse(is_marked({"a": {"cmd": [{"name": "x"}, "run"], "__sls__": "y"}}))
        self.assertTrue(is_marked({"a": {"cmd": [{"no_log": True}, "run"], "__sls__": "y"}}))
