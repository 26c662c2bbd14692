"""
Scripts on the master's machine that use C{salt.client}, run by a user with few rights.

The same script says the same beside stock 3008.2, whose master has the same options.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import unittest
from typing import Any
from unittest import skipIf

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import ROOT, OurMaster, OurMinion, StockMaster, needs_peers, scratch, until

USER = "nobody"
RULES = ["test.echo", "test.sleep", {"ours": ["test.arg_repr"]}]
SCRIPT = """
import json, sys, time
import salt.client

local = salt.client.LocalClient(sys.argv[1])
found = {}
jids = []


def said(name, call):
    try:
        found[name] = call()
    except Exception as error:
        found[name] = [type(error).__name__, str(error)]


def values(answers):
    return sorted((k, v["ret"]) for each in answers if each for k, v in each.items())


def followed():
    job = local.run_job("*", "test.echo", ["later"])
    jids.append(job["jid"])
    return [sorted(job["minions"]), values(
        local.get_cli_returns(job["jid"], set(job["minions"]), timeout=15)
    )]


def kept():
    end = time.monotonic() + 15  # stock tells of a return before it writes it down
    while len(local.get_cache_returns(jids[0])) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    return sorted((k, v["ret"]) for k, v in local.get_cache_returns(jids[0]).items())


said("cmd", lambda: local.cmd("*", "test.echo", ["x"]))
said("iter", lambda: values(local.cmd_iter("*", "test.echo", ["x"])))
said("followed", followed)
said("kept", kept)
said("own minion", lambda: sorted(local.cmd("ours", "test.arg_repr", ["x"])))
said("other minion", lambda: local.cmd("other", "test.arg_repr", ["x"]))
said("both minions", lambda: local.cmd("*", "test.arg_repr", ["x"]))
said("cmd refused", lambda: local.cmd("*", "cmd.run", [sys.argv[2]]))
said("iter refused", lambda: values(local.cmd_iter("*", "cmd.run", [sys.argv[2]])))
said("job refused", lambda: local.run_job("*", "cmd.run", [sys.argv[2]]))
said("async refused", lambda: local.cmd_async("*", "cmd.run", [sys.argv[2]]))
said("one of two", lambda: local.cmd("*", ["test.echo", "cmd.run"], [["x"], [sys.argv[2]]]))
said("as another", lambda: local.cmd("*", "cmd.run", [sys.argv[2]], user="root"))
print()
print(json.dumps(found, default=str))
"""


class Site:
    """A master with two minions of ours, and scripts that are run beside it."""

    def __init__(self, test: unittest.TestCase, stock: bool) -> None:
        home = scratch(test)
        os.chmod(home, 0o755)
        options: dict[str, Any] = {"publisher_acl": {USER: RULES}}
        self.master: Any = (
            StockMaster(home, "3008", **options) if stock else OurMaster(home, **options)
        )
        test.addCleanup(self.master.kill)
        for root, name, text in (
            (self.master.file_root, "words.txt", "text\n"),
            (self.master.pillar_root, "top.sls", "base: {'*': [word]}\n"),
            (self.master.pillar_root, "word.sls", "word: of {{ grains['id'] }}\n"),
        ):
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.master.up()
        self.python = f"{self.master.venv}/bin/python" if stock else sys.executable
        self.first = "" if stock else "import saltwisted.client\n"
        self.minions = [OurMinion(home, self.master, name) for name in ("ours", "other")]
        for minion in self.minions:
            test.addCleanup(minion.kill)
            minion.up()
            self.master.accept(minion.id)
        everybody = {minion.id: True for minion in self.minions}
        until(
            "both minions",
            lambda: self.master.salt("-t", "3", "*", "test.ping") == everybody,
        )

    def script(self, text: str, *words: str, user: str = USER) -> Any:
        """What a script prints as JSON that this user runs; its first word is the configuration."""
        entry = pwd.getpwnam(user)
        path = os.path.join(self.master.conf, "master")
        done = subprocess.run(
            [self.python, "-W", "ignore", "-c", self.first + text, path, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={**os.environ, "PYTHONPATH": ROOT if self.first else "", "HOME": "/"},
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
        )
        if done.returncode:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])


OTHERS = """
import json, sys
import salt.client, salt.config, salt.runner, salt.wheel, salt.utils.event

opts = salt.config.master_config(sys.argv[1])
local = salt.client.LocalClient(mopts=opts)
calls = [
    lambda: local.get_cache_returns(sys.argv[2]),
    lambda: list(local.get_cli_returns(sys.argv[2], ["ours"], timeout=1)),
    lambda: local.get_cache_returns("20200101000000000000"),
    lambda: salt.runner.RunnerClient(opts).cmd("jobs.list_jobs"),
    lambda: salt.wheel.WheelClient(opts).call_func("key.list_all"),
    lambda: salt.utils.event.get_master_event(opts, opts["sock_dir"]).get_event(wait=1),
    lambda: salt.utils.event.get_event("master", opts=opts, listen=False).fire_event({}, "x"),
]
found = []
for call in calls:
    try:
        found.append(call())
    except Exception as error:
        found.append(str(error))
print(json.dumps(found, default=str))
"""
CALLER = """
import json, sys
import salt.client

caller = salt.client.Caller(sys.argv[2])
found = []
for call in (
    lambda: caller.cmd("test.echo", "1"),
    lambda: caller.cmd("pillar.get", "word", unmask=True),
    lambda: caller.cmd("cp.get_file_str", "salt://words.txt"),
    lambda: caller.cmd("config.get", "id"),
    lambda: caller.cmd("cmd.run", "id -un"),
    lambda: caller.function("test.arg", "a=[1, 2]", "3", "x y"),
    lambda: caller.function("test.echo", "{a: 1}"),
):
    try:
        found.append(call())
    except Exception as error:
        found.append([type(error).__name__, str(error)])
print()
print(json.dumps(found, default=str))
"""
MAY_NOT = ["AuthorizationError", 'Authentication failure of type "user" occurred for user nobody.']
EXPECTED = {
    "cmd": {"ours": "x", "other": "x"},
    "iter": [["other", "x"], ["ours", "x"]],
    "followed": [["other", "ours"], [["other", "later"], ["ours", "later"]]],
    "kept": [["other", "later"], ["ours", "later"]],
    "own minion": ["ours"],
    **dict.fromkeys(("other minion", "both minions", "one of two", "as another"), MAY_NOT),
    **dict.fromkeys(("cmd refused", "iter refused", "job refused", "async refused"), MAY_NOT),
}


CALLED = [
    *("1", "of ours", "text\n", "ours", "root"),
    *({"args": [3, "x y"], "kwargs": {"a": [1, 2]}}, {"a": 1}),
]


@skipIf(os.getuid() != 0, "only root can be another user")
class RightsTests(SynchronousTestCase):
    """Real daemons, and scripts in processes of their own."""

    def test_rights(self) -> None:
        """
        A user whom C{publisher_acl} binds gets what it gives him, by every function of
        C{LocalClient}, and the returns of his own jobs; what is refused does not happen. Jobs of
        others, runners, keys and events are root's.
        """
        site = Site(self, stock=False)
        mark = os.path.join(site.master.root, "mark")

        self.assertEqual(site.script(SCRIPT, f"touch {mark}"), EXPECTED)
        self.assertFalse(os.path.exists(mark))
        jid = site.master.control().call("publish", tgt="ours", fun="test.echo", arg=["x"])["jid"]
        words = (
            f"{USER} has published no job {jid}",
            f"{USER} has published no job {jid}",
            f"{USER} has published no job 20200101000000000000",
            "only root and the master's own user may use salt-run",
            "only root and the master's own user may use salt-key",
            "only root and the master's own user may use the event bus",
            "only root and the master's own user may use the event bus",
        )
        self.assertEqual(site.script(OTHERS, jid), list(words))

    def test_caller(self) -> None:
        """C{Caller} has the minion's pillar and files; who may not ask the minion lacks them."""
        site = Site(self, stock=False)
        said = site.script(CALLER, os.path.join(site.minions[0].conf, "minion"), user="root")
        self.assertEqual(said, CALLED)

        his = site.script(CALLER, os.path.join(site.minions[0].conf, "minion"))
        self.assertEqual((his[0], his[5:]), (CALLED[0], CALLED[5:]))
        for refused in his[1:5]:
            self.assertEqual(refused[0], "SaltClientError")
            self.assertIn("for root and the minion's own user alone", refused[1])

    @needs_peers
    def test_beside_stock(self) -> None:
        """
        Stock gives and refuses the same, by errors of the same class; save that of several
        functions in one job it takes the right to one for the right to all.
        """
        site = Site(self, stock=True)
        # As its manual says for users of C{publisher_acl}, and so that they hear of returns
        for folder, folders, _ in os.walk(site.master.root):
            folders[:] = [name for name in folders if name != "pki"]
            os.chmod(folder, 0o755)
        os.chmod(os.path.join(site.master.root, "run", "master_event_pub.ipc"), 0o666)

        def heard() -> Any:
            # Stock's client misses a return that comes just before it listens
            answers = site.script(SCRIPT, "true")
            return answers if answers["followed"][1] else None

        said = until("stock's client to see the returns", heard)
        del said["one of two"]

        self.assertEqual({k: self.kind(v) for k, v in said.items()},
            {k: self.kind(v) for k, v in EXPECTED.items() if k in said},
        )  # fmt: skip
        called = site.script(CALLER, os.path.join(site.minions[0].conf, "minion"), user="root")
        self.assertEqual(called, CALLED)

    def kind(self, value: Any) -> Any:
        """Of a refusal its class alone."""
        return value[0] if isinstance(value, list) and value[:1] == MAY_NOT[:1] else value
