"""
Each backend of C{external_auth} by each way in: the HTTP API, commands, and tokens of either.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.trial.unittest import SkipTest, TestCase

from saltwisted.testing.ports import reserve_ports
from tests.harness import OurMaster, scratch, until
from tests.provider import Provider
from tests.slapd import Slapd, needs_slapd
from tests.webserver import WebServer

RULES = ["test.*", "@runner"]
CHUNK = {"client": "runner", "fun": "test.arg", "arg": ["x"]}


def judge(path: str, form: Mapping[str, str]) -> Any:
    """The site's own web server: one user, whose rules are in its answer."""
    if form == {"username": "rita", "password": "rest-word"}:
        return 200, json.dumps(RULES).encode()
    return 401, b""


class WaysTestCase(TestCase):
    """
    One master.

    @ivar users: backend to a user of it, and his password.
    """

    timeout = 300
    users: Mapping[str, tuple[str, str]]

    def begin(self, under: Sequence[str] = (), **options: Any) -> None:
        """
        Start it.

        @param under: a command that begins it.
        """
        (self.port,) = reserve_ports(1)
        self.master = OurMaster(
            self.home,
            rest_twisted={"port": self.port, "host": "127.0.0.1", "disable_ssl": True},
            netapi_enable_clients=["runner"],
            **options,
        )
        self.master.argv = [*under, *self.master.argv]
        self.addCleanup(self.master.kill)
        self.master.up()
        until("the API", self.listens)

    def listens(self) -> bool:
        """Whether the API takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def post(self, path: str, low: Any, token: str = "") -> tuple[int, Any]:
        """One request of the API: its status, and what it says."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["X-Auth-Token"] = token
        connection.request("POST", path, json.dumps(low), headers)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if answer.status == 200 else content

    def command(self, *args: str, password: str = "", token: str = "") -> Any:
        """What C{salt-run ARGS test.arg x} answers to somebody, by password or kept token."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder, 0o700)
        if token:
            with open(f"{folder}/salt_token", "w", encoding="ascii") as file:
                file.write(token)
        words = ["salt-run", "-c", self.master.conf, *args, "test.arg", "x", "--out", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", *words],
            input=f"{password}\n",
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=self.master.root,
            env={**self.master.env, "HOME": folder},
        )
        self.assertEqual(done.returncode, 0, (args, done.stdout, done.stderr))
        return json.loads(done.stdout)["args"]

    def try_ways(self) -> None:
        """Each user comes by each way; then somebody with another password comes by the API."""
        for eauth, (user, password) in self.users.items():
            login = {"username": user, "password": password, "eauth": eauth}
            status, found = self.post("/login", login)
            self.assertEqual(status, 200, (eauth, found))
            (session,) = found["return"]
            self.assertEqual((session["user"], session["eauth"]), (user, eauth))
            word = session["token"]
            status, (token,) = self.post("/token", login)
            for path, low, proof in (
                ("/", [CHUNK], word),
                ("/run", [{**CHUNK, **login}], ""),
                ("/run", [{**CHUNK, "token": token["token"]}], ""),
            ):
                status, found = self.post(path, low, proof)
                self.assertEqual(status, 200, (eauth, path, found))
                self.assertEqual(found["return"][0]["args"], ["x"])
            self.assertEqual(
                self.command("-a", eauth, "--username", user, password=password), ["x"]
            )
            self.assertEqual(self.command("-a", eauth, token=word), ["x"], "of the API")

            text = self.master.text()
            done = f"{user} ({eauth}) does runner fun='test.arg' (by the"
            api, near = f"{done} HTTP API, 127.0.0.1)", f"{done} control socket, uid {os.getuid()})"
            self.assertEqual((text.count(api), text.count(near)), (3, 2), text)
            self.assertNotIn(password.split(".")[-1] if eauth == "oidc" else word, text)
        jobs = self.master.run("jobs.list_jobs").values()
        ran = [job["User"] for job in jobs if job["Function"] == "runner.test.arg"]
        self.assertEqual(
            {user: ran.count(user) for user, _ in self.users.values()},
            {user: 5 for user, _ in self.users.values()},
        )

        refused = set()
        for eauth, (user, _) in self.users.items():
            name = user if eauth != "auto" else "nobody"
            login = {"username": name, "password": "wrong", "eauth": eauth}
            status, found = self.post("/login", login)
            if eauth != "auto":
                refused.add((status, found))
        self.assertEqual(len(refused), 1, refused)
        self.assertEqual(refused.pop()[0], 401)


@needs_slapd
class WaysTests(WaysTestCase):
    """All backends that need no account of this machine."""

    def setUp(self) -> None:
        """Start those whom the master asks, and it."""
        self.home = scratch(self)
        with open(f"{self.home}/users", "w", encoding="utf-8") as file:
            file.write("fred:file-word\n")
        directory = Slapd(self, {"lena": "ldap-word"}, {"ops": ("lena",)}).start()
        provider, server = Provider(self), WebServer(self, judge)
        self.users = {
            "file": ("fred", "file-word"),
            "rest": ("rita", "rest-word"),
            "ldap": ("lena", "ldap-word"),
            "oidc": ("olga", provider.token(sub="olga", preferred_username="olga")),
            "sharedsecret": ("sara", "shared-word"),
            "auto": ("anna", "any"),
        }
        self.begin(
            external_auth={
                "file": {"^filename": f"{self.home}/users", "fred": RULES},
                "rest": {"^url": f"{server.url}/login"},
                "ldap": {"ops%": RULES},
                "oidc": {**provider.options(), "olga": RULES},
                "sharedsecret": {"sara": RULES},
                "auto": {"anna": RULES},
            },
            sharedsecret="shared-word",
            **directory.options(),
        )

    def test_ways(self) -> None:
        """
        Whoever is let in is so by the API, by a command and by the token of either (pains-next
        2.3), under his own name, which is on record with where from (2.12); a wrong password and
        another's name are refused by the API in one way.
        """
        self.try_ways()


class PamWaysTests(WaysTestCase):
    """PAM itself, with a service that the master alone sees: nothing of this machine changes."""

    def setUp(self) -> None:
        """Start it where C{/etc/pam.d} is the test's."""
        if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
            raise SkipTest(
                "only root, outside of most containers, gives a process mounts of its own"
            )
        self.home = scratch(self)
        services, judge = f"{self.home}/pam.d", f"{self.home}/judge"
        os.mkdir(services)
        with open(judge, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n[ "$PAM_USER:$(tr -d "\\0")" = daemon:pam-word ]\n')
        os.chmod(judge, 0o755)
        with open(f"{services}/salt-test", "w", encoding="ascii") as file:
            file.write(f"auth required pam_exec.so quiet expose_authtok {judge}\n")
            file.write("account required pam_permit.so\n")
        # One who is on every machine
        self.users = {"pam": ("daemon", "pam-word")}
        inside = f'mount --bind {services} /etc/pam.d && exec "$@"'
        self.begin(
            ["unshare", "-m", "sh", "-c", inside, "sh"],
            external_auth={"pam": {"daemon": RULES}},
            **{"auth.pam.service": "salt-test"},
        )

    def test_ways(self) -> None:
        """A user of this machine is let in by the API, by a command and by tokens of either."""
        self.try_ways()
