"""
A real master whose users have tokens of a provider, by the commands that people use.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import TestCase

from tests.harness import OurMaster, scratch
from tests.provider import Provider


class MasterTests(TestCase):
    """One of each."""

    timeout = 300

    def runs(self, token: str, user: str = "fred") -> Any:
        """C{salt-run -a oidc}, which reads the token from its standard input."""
        return subprocess.run(
            [
                *(sys.executable, "-m", "saltwisted.cli.main", "salt-run", "-c", self.master.conf),
                *("-a", "oidc", "--username", user, "test.arg", "x", "--out", "json"),
            ],
            input=f"{token}\n",
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=self.master.root,
            env=self.master.env,
        )

    def test_token(self) -> None:
        """A token of the provider runs what its groups may, in its user's name; no other does."""
        provider = Provider(self)
        rules = {**provider.options(), "ops%": ["@runner"]}
        self.master = OurMaster(scratch(self), external_auth={"oidc": rules})
        self.addCleanup(self.master.kill)
        self.master.up()
        good = provider.token(groups=["ops"] + [f"group-{number}" for number in range(300)])

        done = self.runs(good)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["args"], ["x"])
        self.assertIn(
            "fred (oidc) does runner fun='test.arg' (by the control socket", self.master.text()
        )
        for token, user in (
            (provider.token(), "fred"),
            (good, "root"),
            (provider.token(groups=["ops"], exp=5), "fred"),
            (good[:-4] + "AAAA", "fred"),
        ):
            self.assertNotEqual(self.runs(token, user).returncode, 0)
        self.assertEqual(provider.server.asked.count("/realm/keys"), 1)
        self.assertNotIn(good.split(".")[2], self.master.text())
