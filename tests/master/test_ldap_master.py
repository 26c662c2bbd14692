"""
A real master whose logins are in a real directory, by the commands that people use.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import TestCase

from tests.harness import OurMaster, scratch
from tests.slapd import Slapd, needs_slapd

USERS = {"fred": "s3cret", "ann": "word"}
RULES = {
    "ops%": ["@runner"],
    "web%": [{"web*": ["state.apply"]}],
    "ann": ["test.*"],
    "^x": "",
}


@needs_slapd
class MasterTests(TestCase):
    """One of each."""

    timeout = 300

    def setUp(self) -> None:
        """Start them."""
        self.server = Slapd(self, USERS, {"ops": ("fred",), "web": ("fred", "ann")}).start()
        options = self.server.options()
        self.master = OurMaster(scratch(self), external_auth={"ldap": RULES}, **options)
        self.addCleanup(self.master.kill)
        self.master.up()

    def runs(self, name: str, password: str) -> Any:
        """C{salt-run -a ldap}: the exit status, and what it says."""
        done = self.master.command(
            "salt-run", "-a", "ldap", "--username", name, "--password", password,
            "test.arg", "x", "--out", "json",
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def test_login(self) -> None:
        """
        A command by LDAP is one bind as the user (4.14), done in the name that the directory has,
        and refused without the group, the password, or any password.
        """
        status, text = self.runs("FRED", "s3cret")
        self.assertEqual(status, 0, text)
        self.assertIn('"args": [', text)
        self.assertEqual(self.server.binds("fred"), 1)
        jobs = self.master.run("jobs.list_jobs")
        names = [job["User"] for job in jobs.values() if job["Function"] == "runner.test.arg"]
        self.assertEqual(names, ["fred"], jobs)
        for name, password in (("ann", "word"), ("fred", "wrong"), ("fred)(uid=*", "s3cret")):
            status, text = self.runs(name, password)
            self.assertNotEqual(status, 0, (name, text))
        self.assertNotIn("s3cret", self.master.text())

    def test_why(self) -> None:
        """C{auth test} says each search, bind, group and right (4.15), by text and as JSON."""
        done = self.master.command("auth", "test", "fred")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in (
            "fred by ldap: known; no password was tried",
            "bind as cn=salt,dc=example,dc=com: success",
            "search for (uid=fred) below 'dc=example,dc=com': 1 found (success)",
            "groups: ops, web",
            "may, because of ops%:\n    @runner",
            'may, because of web%:\n    {"web*": ["state.apply"]}',
        ):
            self.assertIn(words, done.stdout)
        self.assertEqual(self.server.binds("fred"), 0)

        done = self.master.command("auth", "test", "ann", "--json")
        (found,) = json.loads(done.stdout)
        self.assertEqual(
            [(each["because"], each["rules"]) for each in found["rules"]],
            [("web%", RULES["web%"]), ("ann", RULES["ann"])],
        )
        done = self.master.command("auth", "test", "nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody by ldap: unknown", done.stdout)
        done = self.master.command("auth", "test", "fred", "-a", "pan")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did you mean 'pam'?", done.stderr)

        self.server.daemon.kill()
        done = self.master.command("auth", "test", "fred")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Connection refused", done.stdout)
