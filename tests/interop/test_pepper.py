"""
C{pepper}, the command that others wrote for salt-api, against our API.

C{pepper-3008.2.json} has what each command line of L{COMMANDS} printed, and its exit code, with a
stock 3008.2 and its CherryPy in the place of our master, and two of our minions. C{python -m
tests.interop.test_pepper OUT} records it again; the peer then needs CherryPy.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import unittest
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.testing.ports import reserve_ports
from tests.harness import (
    PEERS,
    Daemon,
    OurMaster,
    OurMinion,
    StockMaster,
    needs_peers,
    scratch,
    until,
)

RECORDED = os.path.join(os.path.dirname(__file__), "pepper-3008.2.json")
COMMANDS = [
    ["*", "test.ping"],
    ["web1", "test.arg", "1", "a=b"],
    ["-E", "web[12]", "test.ping"],
    ["-L", "web1,web2", "test.ping"],
    ["-G", "id:web1", "test.ping"],
    ["-C", "web1 or G@id:web2", "test.ping"],
    ["-I", "no:such", "test.ping"],
    ["--grain-pcre", "id:web[2-9]", "test.ping"],
    ["-N", "second", "test.ping"],
    ["-t", "7", "*", "test.ping"],
    ["-v", "*", "test.ping"],
    ["-r", "*", "test.ping"],
    ["-r", "--client=runner", "test.arg", "x", "a=b"],
    ["-r", "--client=wheel", "key.finger", "match=nosuch"],
    ["-T", "web1", "test.ping"],
    ["-T", "web2", "test.ping"],
    ["none*", "test.ping"],
    ["*", "no.such"],
    ["*", "cmd.run", "exit 3"],
    ["--fail-any", "*", "cmd.run", "exit 3"],
    ["--fail-any", "*", "test.ping"],
    ["--fail-any-none", "*", "cmd.run", "exit 3"],
    ["--fail-all", "*", "cmd.run", "exit 3"],
    ["--fail-all", "*", "test.ping"],
    ["--fail-all-none", "*", "test.ping"],
    ["--fail-if-incomplete", "*", "test.ping"],
    ["--output=answers", "*", "test.ping"],
    ["--json", '[{"client": "local", "tgt": "*", "fun": "test.ping"}]'],
    ["--json", "[{"],
    ["--client=local_async", "*", "test.ping"],
    ["--json", '{"client": "local_batch", "tgt": "*", "fun": "test.ping", "batch": "1"}'],
    ["--client=local_subset", "*", "test.ping"],
    ["--client=runner", "test.arg", "x", "a=b"],
    ["--client=runner", "jobs.active"],
    ["--client=runner_async", "test.arg"],
    ["--client=wheel", "key.list", "match=accepted"],
    ["--client=wheel_async", "key.list_all"],
    ["--client=nosuch", "*", "test.ping"],
]
MOMENTS = re.compile(r"\b20\d{18}\b|20\d\d-\d\d-\d\dT[0-9:.]+(?:\+00:00)?")


def plain(text: str) -> Any:
    """What pepper printed, without what is another each time; as JSON where it is JSON."""
    text = MOMENTS.sub("MOMENT", text)
    try:
        return _plain(json.loads(text))
    except ValueError:
        return sorted(line.strip() for line in text.splitlines() if line.strip())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        # Stock's event of a runner that is waited for; pepper hands on all that is in it
        return {k: _plain(v) for k, v in sorted(value.items()) if k != "_stamp"}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


class Site:
    """A master with an API and two minions, and C{pepper} with a home of its own."""

    def __init__(self, test: unittest.TestCase, stock: bool) -> None:
        home = scratch(test)
        users = os.path.join(home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write("admin:adminpw\n")
        (port,) = reserve_ports(1)
        block = {"port": port, "host": "127.0.0.1", "disable_ssl": True}
        options = {
            "external_auth": {
                "file": {"^filename": users, "admin": [".*", "@wheel", "@runner", "@jobs"]}
            },
            "netapi_enable_clients": [
                "local", "local_async", "local_batch", "local_subset",
                "runner", "runner_async", "wheel", "wheel_async",
            ],
            "rest_cherrypy": block,
            "nodegroups": {"second": "web2"},
        }  # fmt: skip
        self.master: Any = (
            StockMaster(home, "3008", **options) if stock else OurMaster(home, **options)
        )
        test.addCleanup(self.master.kill)
        self.master.up()
        if stock:
            argv = [f"{self.master.venv}/bin/salt-api", "-c", self.master.conf]
            api = Daemon("salt-api", argv, self.master.root, {"PYTHONPATH": ""})
            test.addCleanup(api.kill)
            api.start()
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        for name in ("web1", "web2"):
            minion = OurMinion(home, self.master, name)
            test.addCleanup(minion.kill)
            minion.up()
            self.master.accept(name)
        until("both minions", lambda: self.master.salt("*", "test.ping") == BOTH)
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "SALTAPI_URL": f"http://127.0.0.1:{port}/",
            "SALTAPI_USER": "admin",
            "SALTAPI_PASS": "adminpw",
            "SALTAPI_EAUTH": "file",
        }

    def pepper(self, *words: str, password: str = "adminpw") -> dict[str, Any]:
        """What it printed, and its exit code."""
        done = subprocess.run(
            [f"{PEERS}/pepper/bin/pepper", *words],
            env={**self._env, "SALTAPI_PASS": password},
            cwd=self._env["HOME"],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        error = done.stderr.strip().splitlines()
        return {
            "status": done.returncode,
            "out": plain(done.stdout),
            "error": MOMENTS.sub("MOMENT", error[-1]) if error else "",
        }


BOTH = {"web1": True, "web2": True}


@needs_peers
class PepperTests(SynchronousTestCase):
    """Two minions of ours."""

    maxDiff = None

    def test_commands(self) -> None:
        """Each command line prints what it prints with stock, and ends as there."""
        self.assertTrue(os.path.exists(f"{PEERS}/pepper/bin/pepper"), "no pepper beside the peers")
        with open(RECORDED, encoding="utf-8") as file:
            recorded = json.load(file)
        site = Site(self, stock=False)
        self.assertEqual(sorted(recorded), sorted(" ".join(words) for words in COMMANDS))

        answers = {" ".join(words): site.pepper(*words) for words in COMMANDS}

        for words, theirs in recorded.items():
            self.assertEqual(answers[words], theirs, words)
        # Stock answers 500 here
        for words in (["--client=runner", "no.such"], ["-N", "nosuch", "test.ping"]):
            unknown = site.pepper(*words)
            said = (unknown["status"], unknown["out"])
            self.assertEqual(said, (1, ["HTTP Error 400: Bad Request"]), words)
        refused = site.pepper("*", "test.ping", password="wrong")
        self.assertEqual((refused["status"], refused["out"]), (1, []))
        self.assertIn("Authentication denied", refused["error"])


if __name__ == "__main__":
    case = PepperTests("test_commands")
    try:
        found = Site(case, stock=True)
        made = {" ".join(words): found.pepper(*words) for words in COMMANDS}
        with open(sys.argv[1], "w", encoding="utf-8") as out:
            json.dump(made, out, indent=1, sort_keys=True)
            out.write("\n")
    finally:
        case.doCleanups()
