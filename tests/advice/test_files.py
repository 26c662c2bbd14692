"""
Advice about files and disks, carried out as root on files of our own.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import unittest
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import advice
from saltwisted.cluster.life.settings import check
from saltwisted.config.options import MasterConfig
from saltwisted.domain import doctor
from saltwisted.domain.doctor import Finding
from saltwisted.domain.roots import health
from saltwisted.errors import ConfigError
from saltwisted.tools.doctor import Doctor, mend
from saltwisted.tools.takeover import cannot_read
from saltwisted.worker.process.configio import load_from_disk
from tests.advice.carrying import Shell, printed
from tests.harness import scratch, write_config

USER = "nobody"


def needs_root(test: Any) -> Any:
    """Skip where nobody may give files away; as root it must work."""
    return test if os.geteuid() == 0 else unittest.skip("to give files away needs root")(test)


def reads(path: str, user: str = USER) -> bool:
    """Whether a user can read a file."""
    entry = pwd.getpwnam(user)
    done = subprocess.run(
        ["cat", path],
        user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode == 0


@needs_root
class ModeTests(SynchronousTestCase):
    """A master that does not run, and is configured to run as somebody else than root."""

    def setUp(self) -> None:
        self.home = scratch(self)
        os.chmod(self.home, 0o755)
        self.conf = f"{self.home}/etc"
        self.shell = Shell(self)
        self.options = {"root_dir": self.home, "user": USER, "id": "m"}
        write_config(f"{self.conf}/master", self.options)
        entry = pwd.getpwnam(USER)
        self.pki = f"{self.home}/etc/salt/pki/master"
        os.makedirs(self.pki)
        for path in (f"{self.home}/etc/salt/pki/master", f"{self.home}/etc/salt/pki"):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        os.chmod(self.pki, 0o700)

    def looked(self) -> list[Finding]:
        """What the doctor finds in files."""
        loaded = load_from_disk("master", self.conf, {}, guess_id=False)
        found = Doctor(loaded.master, list(loaded.sources)).look()
        return [one for one in found if one.id.startswith("file.")]

    def file(self, name: str, text: str, mode: int, user: str = "root") -> str:
        """A file of somebody's."""
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)
        os.chmod(path, mode)
        return path

    def carry_out(self, row: str) -> Finding:
        """The one finding has this advice; after it is followed, there is none."""
        (finding,) = self.looked()
        assert finding.advice is not None
        self.assertEqual(finding.advice.id, row)
        self.shell.run(finding.command)
        self.assertEqual(self.looked(), [])
        return finding

    def test_stopped(self) -> None:
        """
        With the daemon stopped, and before it has ever run, files of its user are as they should
        be: root's id is advised for none of them.
        """
        self.file("etc/salt/pki/master/master.pem", "key", 0o400, USER)

        self.assertEqual(self.looked(), [])
        shutil.rmtree(self.pki)
        self.assertEqual(self.looked(), [])

    def test_mode(self) -> None:
        """A key that others may read loses their rights, and the daemon keeps its own."""
        path = self.file("etc/salt/pki/master/master.pem", "key", 0o644, USER)

        self.carry_out("file.mode")

        self.assertTrue(reads(path))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)

    def test_group(self) -> None:
        """A configuration of root's with a password goes to the group of the daemon."""
        path = self.file("etc/master.d/logins.conf", "ldap_bind_password: geheim\n", 0o644)

        self.carry_out("file.group")

        self.assertTrue(reads(path))
        self.assertFalse(reads(path, "daemon"))
        self.assertEqual(os.stat(path).st_uid, 0)

    def test_user(self) -> None:
        """A key of root's, which others alone let the daemon read, goes to the daemon."""
        path = self.file("etc/salt/pki/master/master.pem", "key", 0o644)

        self.carry_out("file.user")

        self.assertTrue(reads(path))
        self.assertFalse(reads(path, "daemon"))

    def test_owner(self) -> None:
        """A key of a third user's goes to the daemon's."""
        path = self.file("etc/salt/pki/master/master.pem", "key", 0o600, "daemon")

        self.carry_out("file.owner")

        self.assertTrue(reads(path))

    def test_fix(self) -> None:
        """C{--fix} does what the advice says: afterwards the daemon reads each of them."""
        paths = [
            self.file("etc/salt/pki/master/master.pem", "key", 0o644),
            self.file("etc/master.d/logins.conf", "ldap_bind_password: geheim\n", 0o644),
            self.file("etc/salt/pki/master/old.pem", "key", 0o644, USER),
        ]

        for finding in self.looked():
            mend(finding)

        self.assertEqual(self.looked(), [])
        for path in paths:
            self.assertTrue(reads(path), path)
            self.assertFalse(reads(path, "daemon"), path)

    def test_healthy(self) -> None:
        """Numbers, switches and names of files are no secrets, and everybody may read them."""
        text = "token_expire: 43200\nkeep_passwords: false\ntoken_dir: /x\nsecret_file: /y\n"
        path = self.file("etc/master.d/logins.conf", text, 0o644)

        self.assertEqual(self.looked(), [])
        self.assertTrue(reads(path, "daemon"))

    def test_tree(self) -> None:
        """A daemon whose files are root's says whom to give them to, and starts then."""
        path = self.file("etc/salt/pki/master/master.pem", "key", 0o600)
        os.chmod(self.conf, 0o755)
        script = (
            "import sys; from saltwisted.roles.privileges import become, check_owner;"
            "from saltwisted.worker.process.configio import load_from_disk;"
            "config = load_from_disk('master', sys.argv[1]).master;"
            "become(config.user); check_owner(config)"
        )
        start = shlex.join([sys.executable, "-c", script, self.conf])

        said = self.shell.run(start, allowed=(1,))
        self.shell.run(printed(said, "own.tree"))

        self.assertEqual(self.shell.run(start), "")
        self.assertTrue(reads(path))

    def test_access(self) -> None:
        """A node that may not read its roots gets access beside those who have it."""
        if shutil.which("setfacl") is None:
            raise unittest.SkipTest("setfacl is missing: install the package acl")
        root = f"{self.home}/srv"
        path = self.file("srv/a/secret.sls", "x", 0o600)
        os.chmod(f"{root}/a", 0o700)
        share = {"root": root, "user": USER, "unread": {"a": "Permission denied"}}
        (finding,) = health.of_share("file/base/0", share)
        self.assertFalse(reads(path))

        self.shell.run(finding.command)

        self.assertTrue(reads(path))
        self.assertTrue(reads(self.file("srv/a/later.sls", "x", 0o640)), "what comes later")
        self.assertEqual(os.stat(path).st_uid, 0)

    def test_takeover_access(self) -> None:
        """What the user of our master may not read, it may then; nothing changes its owner."""
        if shutil.which("setfacl") is None:
            raise unittest.SkipTest("setfacl is missing: install the package acl")
        root = os.path.join(self.home, "srv")
        path = self.file("srv/a/secret.sls", "x", 0o600)
        self.assertTrue(cannot_read(root, USER))

        self.shell.run(advice.command("takeover.access", user=USER, path=root))

        self.assertEqual(cannot_read(root, USER), [])
        self.assertTrue(reads(path))


class DiskTests(SynchronousTestCase):
    """What only looks."""

    def test_look(self) -> None:
        """What takes room and inodes is shown for a directory with any name."""
        shell, home = Shell(self), scratch(self)
        os.makedirs(f"{home}/a b/c")
        (space,) = doctor.disks({f"{home}/a b": (1, 100, 900, 1000)})
        (inodes,) = doctor.disks({f"{home}/a b": (1 << 40, 1 << 40, 9, 1000)})
        (refused,) = doctor.shut_in({"jobs": "disk full"})

        for finding in (space, inodes):
            self.assertIn(f"{home}/a b/c", shell.run(finding.command))
        self.assertIn("/", shell.run(refused.command))

    def test_secret(self) -> None:
        """A secret that is made as the error says is a good one."""
        config = MasterConfig(cluster_secret="short")
        text = str(self.assertRaises(ConfigError, check, config))

        command = printed(text, "cluster.secret")
        secret = Shell(self).run(command).strip()

        check(config.evolve(cluster_secret=secret))
        self.assertTrue(re.fullmatch(r"[\w+/=]{40,}", secret))
