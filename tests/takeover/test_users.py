"""
Users of the machine who may call something: their commands after a takeover, an installation and a
restore.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from functools import cache
from unittest import SkipTest, skipUnless

import yaml
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.takeover import judge_all
from saltwisted.errors import ConfigError, RemoteError, TransportClosed
from saltwisted.tools import takeover
from saltwisted.tools.places import Places
from saltwisted.wire.rsa import PrivateKey
from saltwisted.worker.control import ControlClient
from saltwisted.worker.process.configio import Disk, load_from_disk
from tests.harness import ROOT, Daemon, reserve_ports, scratch, twistd, until, write_config

USER = "nobody"


@cache
def interpreter(user: str | None) -> str:
    """A Python that this user may run, with what our commands need: root's own may be closed."""
    if user is None:
        return sys.executable
    for path in (sys.executable, "/usr/bin/python3"):
        words = [path, "-c", "import attrs, msgpack, yaml"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(words, user=user, check=True, cwd="/", capture_output=True)
            return path
    raise SkipTest(f"{user} may run no Python that has attrs, msgpack and yaml")


def run(*words: str, user: str | None = None) -> subprocess.CompletedProcess[str]:
    """One of our commands."""
    who = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid,
                                   "extra_groups": []}  # fmt: skip
    return subprocess.run(
        [interpreter(user), "-m", "saltwisted.cli.main", *words],
        capture_output=True, text=True, timeout=120, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": ROOT, "HOME": "/"}, **who,  # type: ignore[call-overload]
    )  # fmt: skip


@skipUnless(os.geteuid() == 0, "only root can be somebody else")
class UserTests(SynchronousTestCase):
    """A master that was taken over, its configuration with secrets."""

    def setUp(self) -> None:
        self.home = scratch(self)
        os.chmod(self.home, 0o755)
        self.stock, self.ours = f"{self.home}/stock", f"{self.home}/ours"
        publish, ret = reserve_ports(2)
        write_config(
            f"{self.stock}/master",
            {
                "id": "one",
                "interface": "127.0.0.1",
                "publish_port": publish,
                "ret_port": ret,
                "root_dir": self.home,
                "pki_dir": f"{self.stock}/pki",
                "publisher_acl": {USER: ["test.*"]},
                "auth.ldap.bindpw": "hush-ldap",
                "mysql.pass": "hush-mysql",
                "nodegroups": {"all": "*"},
            },
        )
        os.makedirs(f"{self.stock}/pki", 0o700)
        key = PrivateKey.generate(2048)
        for name, text in (("master.pem", key.pem()), ("master.pub", key.public.pem)):
            with open(f"{self.stock}/pki/{name}", "w", encoding="ascii") as file:
                file.write(text)
        self.daemon = Daemon(
            "ours",
            [*twistd(), "--nodaemon", "--pidfile=", "saltwisted", "--role", "master", "--config",
             self.ours],
            self.home,
        )  # fmt: skip
        self.addCleanup(self.daemon.kill)

    def serve(self) -> None:
        """Start it, and wait for it."""
        self.daemon.start()

        def serves() -> bool:
            path = f"{self.ours}/run/master/saltwisted.sock"
            try:
                with ControlClient(path=path, timeout=20.0) as client:
                    return bool(client.call("status")["serving"])
            except (TransportClosed, RemoteError):
                return False

        until("ours to serve", serves)

    def ask(self, when: str) -> None:
        """The user asks, and the master answers him."""
        done = run("salt", "-c", self.ours, "*", "test.ping", user=USER)
        said = done.stdout + done.stderr
        self.assertIn("No minions matched the target", said, f"{when}: {said}")
        self.assertNotIn("cannot be read", said, when)
        done = run("salt", "-c", self.ours, "*", "cmd.run", "id", user=USER)
        said = done.stdout + done.stderr
        self.assertIn("Authentication failure", said, f"{when}: {said}")

    def test_user(self) -> None:
        """
        After a takeover, beside a file of the daemon's own as an installation has, and after a
        restore onto an empty machine, the master answers a user of publisher_acl; no file that he
        can read has a secret.
        """
        done = run("takeover", "--from", self.stock, "--to", self.ours)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        folder = f"{self.ours}/master.d"
        modes = {name: os.stat(f"{folder}/{name}").st_mode & 0o777 for name in os.listdir(folder)}
        self.assertEqual(modes, {"takeover.conf": 0o644, "takeover-secrets.conf": 0o640})
        readable = run("salt", "-c", self.ours, "--config-dump", user=USER).stdout
        self.assertIn("nodegroups", readable)
        self.assertNotIn("hush", readable)
        config = load_from_disk("master", self.ours).master
        self.assertEqual(config.value("mysql.pass"), "hush-mysql")
        self.serve()
        self.ask("after a takeover")
        write_config(f"{folder}/logins.conf", {"auth.ldap.bindpw": "hush-ldap"})
        os.chmod(f"{folder}/logins.conf", 0o600)
        self.ask("beside a file of the daemon's")
        saved = run("backup", "-c", self.ours, f"{self.home}/saved")
        self.assertEqual(saved.returncode, 0, saved.stderr)
        self.daemon.kill()
        shutil.rmtree(self.ours)
        back = run("restore", "-c", self.stock, f"{self.home}/saved")
        self.assertEqual(back.returncode, 0, back.stderr)

        self.serve()
        self.ask("after a restore")


class PassingTests(SynchronousTestCase):
    """Which files are passed over, and by whom."""

    def setUp(self) -> None:
        self.home = scratch(self)
        write_config(f"{self.home}/master", {"id": "one"})
        write_config(f"{self.home}/master.d/more.conf", {"timeout": 7})
        os.chmod(self.home, 0o755)
        os.chmod(f"{self.home}/master.d/more.conf", 0)
        if os.geteuid() == 0:
            os.seteuid(pwd.getpwnam(USER).pw_uid)
            self.addCleanup(os.seteuid, 0)

    def test_who(self) -> None:
        """A command passes over what its user may not read, and knows what; a daemon refuses."""
        disk = Disk(passing=True)

        config = load_from_disk("master", self.home, {}, disk=disk).master

        self.assertEqual((config.id, config.timeout), ("one", MasterConfig().timeout))
        self.assertEqual(disk.passed, [f"{self.home}/master.d/more.conf"])
        error = self.assertRaises(ConfigError, load_from_disk, "master", self.home, {})
        self.assertIn("more.conf: cannot be read", str(error))


class FilesTests(SynchronousTestCase):
    """What a takeover writes."""

    def test_apart(self) -> None:
        """
        Each option is in one of the two files: those with a secret, at any depth, in that which
        only the master reads; without a secret there is no such file.
        """
        given = {
            "timeout": 7,
            "key_pass": "hush",
            "gitfs_remotes": ["https://user:hush@host/x.git"],
            "ext_pillar": [{"git": [{"main https://host/y.git": [{"password": "hush"}]}]}],
        }
        for secrets in (True, False):
            options = given if secrets else {"timeout": 7}
            known = {*MasterConfig.fields, *MasterConfig.dotted}
            findings, kept = judge_all({k: (v, "f") for k, v in options.items()}, known)
            plan = takeover.Plan(
                source=MasterConfig(), sources=(), places=Places.of(self.mktemp()),
                findings=tuple(findings), options=kept, keys={}, fingerprint="", service_user="x",
                jobs=0, warnings=(), problems=(),
            )  # fmt: skip

            files = {os.path.basename(name): text for name, text in takeover.files(plan).items()}

            wanted = {"master", "takeover.conf"} | ({"takeover-secrets.conf"} if secrets else set())
            self.assertEqual(set(files), wanted)
            self.assertNotIn("hush", files["takeover.conf"])
            merged = {}
            for text in files.values():
                merged.update(yaml.safe_load(text) or {})
            self.assertEqual(merged, options)
