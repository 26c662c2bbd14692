"""
The commands of C{docs/api.md} do what the page says: each is run as it stands there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from typing import Any

import yaml
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from saltwisted.testing.ports import reserve_ports
from tests.harness import ROOT, OurMaster, OurMinion, scratch, until
from tests.provider import Provider


class ApiPageTests(SynchronousTestCase):
    """A master that is configured as the page has it, but for its port and its users."""

    def setUp(self) -> None:
        """Start it."""
        if shutil.which("curl") is None:
            raise SkipTest("curl is not installed")
        with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
            self.page = file.read()
        found = re.search(r"^```yaml\n(.*?)^```", self.page, re.M | re.S)
        assert found is not None
        block = yaml.safe_load(found[1])
        self.assertEqual(block["rest_twisted"], {})
        home = scratch(self)
        users = os.path.join(home, "users")
        with open(users, "w", encoding="utf-8") as file:
            file.write("fred:secret\n")
        (self.port,) = reserve_ports(1)
        self.provider = Provider(self)
        rules = block["external_auth"].pop("pam")["fred"]
        # PAM knows the users of this machine; the rules are the page's
        auth = {
            "file": {"^filename": users, "fred": rules},
            "oidc": {**self.provider.options(), "fred": rules},
        }
        self.master = OurMaster(
            home,
            auto_accept=True,
            **{
                **block,
                "rest_twisted": {"port": self.port, "host": "127.0.0.1"},
                "external_auth": auth,
            },
        )
        self.addCleanup(self.master.kill)
        self.master.up()
        until("the API", lambda: not socket.socket().connect_ex(("127.0.0.1", self.port)))
        self.minion = OurMinion(home, self.master, "web1")
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.master.ping_until("web1")

    def follow(self, line: str, **words: str) -> Any:
        """What a shell gets for a line of the page."""
        line = line.replace("localhost:8000", f"127.0.0.1:{self.port}").replace("=pam", "=file")
        for word, text in words.items():
            line = line.replace(word, text)
        done = subprocess.run(
            ["sh", "-c", f"{line} -H 'Accept: application/json'"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_curl(self) -> None:
        """
        A login, a job with its token, and a job with a provider's token: all commands of the page
        that there are.
        """
        login, ping, bearer = re.findall(r"^curl .*$", self.page, re.M)

        (made,) = self.follow(login)["return"]
        self.assertEqual(made["user"], "fred")
        found = self.follow(ping, TOKEN=made["token"])
        self.assertEqual(found, {"return": [{"web1": True}]})

        token = self.provider.token(exp=int(time.time()) + 600)
        found = self.follow(bearer, **{"$TOKEN": token})
        self.assertEqual(found, {"return": [{"web1": True}]})
