"""
C{whitelist_modules} and C{whitelist_state_modules} in whole calls: what a person or a site names is
bound by them, and what modules, states and this program do among themselves is not.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.worker.pillar.work import PillarWorker
from saltwisted.worker.process.call import execute
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.localcall import run_call

JID = "20260101000000000001"
ALLOWED = ["test", "state", "config", "ourown"]
ESCAPES = {
    "item": """
        x:
          test.succeed_without_changes:
            - comment: "{{ salt['cmd.run']('echo escaped') }}"
        """,
    "attribute": """
        x:
          test.succeed_without_changes:
            - comment: "{{ salt.cmd.run('echo escaped') }}"
        """,
    "module.run": """
        x:
          module.run:
            - cmd.run:
              - cmd: echo escaped
        """,
    "module.run as it was": """
        x:
          module.run:
            - name: cmd.run
            - cmd: echo escaped
        """,
    "provider": """
        x:
          module.run:
            - name: test.run
            - cmd: echo escaped
            - provider:
              - test: cmdmod
        """,
    "slot": """
        x:
          test.configurable_test_state:
            - changes: false
            - result: true
            - comment: __slot__:salt:cmd.run("echo escaped")
        """,
    "slot beside": """
        x:
          test.configurable_test_state:
            - changes: false
            - result: true
            - comment: __slot__:salt:cmd.run("echo escaped")
            - parallel: true
        """,
    "function in a condition": """
        x:
          test.configurable_test_state:
            - changes: true
            - result: true
            - comment: escaped
            - onlyif:
              - fun: cmd.retcode
                cmd: 'true'
        """,
    "command in a condition": """
        x:
          test.configurable_test_state:
            - changes: true
            - result: true
            - comment: escaped
            - onlyif: 'true'
        """,
    "template of a file": """
        HOME/out:
          file.managed:
            - source: salt://template
            - template: jinja
            - show_changes: true
        """,
}
"""Names of C{cmd.run} in what a site writes, each in another place."""


class WhitelistTests(SynchronousTestCase):
    """A minion without a master, whose states are in a directory."""

    def setUp(self) -> None:
        """Make it, with a quiet log."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.write("srv/template", "{{ salt['cmd.run']('echo escaped') }}\n")

    def write(self, name: str, text: str) -> None:
        """A file below the directory."""
        path = os.path.join(self.base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)

    def call(self, fun: str, *args: Any, **options: Any) -> dict[str, Any]:
        """The return of a job of this minion."""
        config = MinionConfig(
            id="m1",
            file_client="local",
            cachedir=f"{self.base}/cache",
            extension_modules=f"{self.base}/extmods",
            file_roots={"base": [f"{self.base}/srv"]},
            pillar_roots={"base": []},
            **options,
        )
        return run_call(config, fun, args)

    def state(self, text: str, **options: Any) -> dict[str, Any]:
        """The return of C{state.apply} of this SLS."""
        self.write("srv/it.sls", text.replace("HOME", self.base))
        return self.call("state.apply", "it", **options)

    def test_T_ACL_3_site(self) -> None:
        """
        T-ACL-3: what a site writes calls no function that C{whitelist_modules} does not allow,
        wherever it names one; without the option each of these works, so that each is a way.
        """
        for name, text in ESCAPES.items():
            # What a slot names and is not there stays as it is written
            proof = '"comment": "escaped"' if "slot" in name else '"result": true'
            bound = json.dumps(self.state(text, whitelist_modules=ALLOWED)["return"])
            self.assertNotIn(proof, bound, name)
            self.assertFalse(os.path.exists(f"{self.base}/out"), name)
            if name == "module.run":
                self.assertIn("Unavailable function: cmd.run.", bound)
            free = json.dumps(self.state(text)["return"])
            self.assertIn(proof, free, name)

    def test_T_ACL_3_person(self) -> None:
        """T-ACL-3: nobody calls such a function by its name, nor by one that calls others."""
        for fun, args in (
            ("cmd.run", ["echo escaped"]),
            ("test.cross_test", ["cmd.run", ["echo escaped"]]),
            ("test.try", ["cmd.run"]),
        ):
            ret = self.call(fun, *args, whitelist_modules=ALLOWED)
            self.assertNotEqual(ret["return"], "escaped", fun)
        self.assertEqual(
            self.call("cmd.run", whitelist_modules=ALLOWED)["return"],
            "'cmd.run' is not available.",
        )

    def test_T_ACL_3_several(self) -> None:
        """T-ACL-3: nor as one of several functions of a job; and nobody is told of such ones."""
        opts = {"id": "m1", "cachedir": self.base, "whitelist_modules": ["test", "sys"]}
        loaders = Loaders(opts, grains={}, stock=False)
        job = {"fun": ["test.ping", "cmd.run"], "arg": [[], ["echo escaped"]], "jid": JID}

        ret = execute(loaders, job)

        self.assertIs(ret["return"]["test.ping"], True)
        self.assertIn("'cmd.run' is not available.", ret["return"]["cmd.run"])
        self.assertEqual(ret["retcode"], {"test.ping": 0, "cmd.run": 1})
        self.assertEqual(loaders.called["sys.list_modules"](), ["sys", "test"])
        self.assertEqual(loaders.called["sys.doc"]("cmd.run"), {})
        self.assertEqual(loaders.called["sys.argspec"]("cmd.run"), {})
        self.assertEqual(loaders.called["sys.list_functions"]("cmd"), [])

    def test_T_ACL_3_pillar(self) -> None:
        """T-ACL-3: nor does a template of a pillar that this minion compiles for itself."""
        self.write("pillar/top.sls", "base: {'*': [it]}\n")
        self.write("pillar/it.sls", "a: {{ salt['cmd.run']('echo escaped') }}\n")
        config = MinionConfig(
            id="m1",
            file_client="local",
            cachedir=f"{self.base}/cache",
            pillar_roots={"base": [f"{self.base}/pillar"]},
        )
        found = []
        for listed in ([], ["test"]):
            opts = {**config.as_opts(), "whitelist_modules": listed}
            found.append(PillarWorker(opts).value({"id": "m1", "grains": {}}))

        self.assertEqual(found[0], {"a": "escaped"})
        self.assertEqual(list(found[1]), ["_errors"])

    def test_states_work(self) -> None:
        """States do their work by any function, and so does a site's module that is allowed."""
        self.write("extmods/modules/ourown.py", "def say(): return __salt__['cmd.run']('echo x')\n")
        text = f"""
        {self.base}/made:
          file.managed:
            - contents: hello
        echo word:
          cmd.run: []
        """

        found = self.state(text, whitelist_modules=ALLOWED)["return"]

        self.assertEqual([each["result"] for each in found.values()], [True, True], found)
        self.assertEqual(self.call("ourown.say", whitelist_modules=ALLOWED)["return"], "x")
        self.assertEqual(
            self.call("config.get", "id", whitelist_modules=["config"])["return"], "m1"
        )

    def test_own_jobs(self) -> None:
        """A minion's own jobs (its grains) are not bound; those of others are."""
        opts = {"id": "m1", "cachedir": self.base, "whitelist_modules": ["test"]}
        loaders = Loaders(opts, grains={"os": "x"}, stock=False)
        job = {"fun": "grains.items", "arg": [], "jid": JID}

        self.assertEqual(execute(loaders, job, own=True)["return"], {"os": "x"})
        refused = execute(loaders, job)

        self.assertEqual(
            (refused["return"], refused["retcode"]), ("'grains.items' is not available.", 1)
        )

    def test_T_ACL_3_states(self) -> None:
        """
        T-ACL-3: an SLS uses only states that C{whitelist_state_modules} allows, in stock's words;
        so does C{state.single}.
        """
        text = """
        x:
          test.nop: []
        echo escaped:
          cmd.run: []
        """

        ret = self.state(text, whitelist_state_modules=["test"])
        single = self.call(
            "state.single", "cmd.run", "echo escaped", whitelist_state_modules=["test"]
        )

        self.assertNotIn('"stdout"', json.dumps([ret, single]))
        self.assertIn("State 'cmd.run' was not found in SLS 'it'", json.dumps(ret["return"]))
        self.assertIn("Specified state 'cmd.run' was not found", json.dumps(single["return"]))
