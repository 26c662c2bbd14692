"""
C{saltwisted status}, C{doctor}, C{backup} and C{restore} on real daemons.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.keyfiles import lay_down_beginning
from tests.harness import (
    ROOT,
    OurMaster,
    OurMinion,
    reserve_ports,
    scratch,
    twistd,
    until,
    write_config,
)


def command(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One of our commands."""
    return subprocess.run(
        [sys.executable, "-m", "saltwisted.cli.main", name, *words],
        capture_output=True, text=True, timeout=120, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip


class CareTests(SynchronousTestCase):
    """One master with one minion."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.master = OurMaster(self.home)
        self.addCleanup(self.master.kill)
        self.master.up()

    def minion(self) -> OurMinion:
        """A minion that the master trusts."""
        minion = OurMinion(self.home, self.master).up()
        self.addCleanup(minion.kill)
        self.master.accept(minion.id)
        self.master.ping_until(minion.id)
        return minion

    def findings(self, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """The doctor's exit code and findings by id."""
        done = command("doctor", "-c", self.master.conf, "--json", *words)
        self.assertTrue(done.stdout, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["unknown"], {})
        return done.returncode, {one["id"]: one for one in said["findings"]}

    def test_status(self) -> None:
        """0 serving, 1 error, 2 not ready; the minion's too."""
        minion = self.minion()

        done = command("status", "-c", self.master.conf, "--role", "master", "--json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(json.loads(done.stdout)["state"], "serving")
        self.assertEqual(command("status", "-c", minion.conf, "--role", "minion").returncode, 0)
        self.assertEqual(self.master.stop(), -15)
        self.assertEqual(command("status", "-c", self.master.conf).returncode, 2)

        def lost() -> bool:
            return command("status", "-c", minion.conf, "--role", "minion").returncode == 2

        until("the minion to notice", lost)
        write_config(os.path.join(self.master.conf, "master"), {"publish_port": "none"})
        done = command("status", "-c", self.master.conf)
        self.assertEqual(done.returncode, 1)
        self.assertIn("publish_port", done.stdout)

    def test_doctor(self) -> None:
        """A sound master has no errors; loose modes are found and mended."""
        self.minion()

        code, found = self.findings("--from-minion", "ours")
        self.assertNotEqual(code, 1, found)
        os.chmod(os.path.join(self.master.pki, "master.pem"), 0o644)
        code, found = self.findings()
        self.assertEqual(code, 1)
        self.assertIn("master.pem", found["file.mode"]["text"])
        self.assertTrue(found["file.mode"]["command"].startswith("chmod 0600 "))
        code, found = self.findings("--fix")

        self.assertNotIn("file.mode", found)
        info = os.stat(os.path.join(self.master.pki, "master.pem"))
        self.assertEqual(stat.S_IMODE(info.st_mode), 0o600)

    def test_doctor_asked(self) -> None:
        """The master tells the same findings, as data, to who may ask; nobody waits for it."""
        os.chmod(os.path.join(self.master.pki, "master.pem"), 0o644)
        _, found = self.findings()

        said = self.master.ask("doctor")

        self.assertEqual(said["unknown"], {})
        told = {one["id"]: one for one in said["findings"]}
        self.assertEqual(told, found)
        self.assertEqual(told["file.mode"]["node"], "master_master")

    def test_doctor_finds(self) -> None:
        """A stopped daemon, a taken port, cloned keys, and options that ask for too much."""
        keys = os.path.join(self.master.pki, "minions")
        done = command("salt-key", "--gen-keys=one", f"--gen-keys-dir={self.home}")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("web1", "web2"):
            shutil.copy(f"{self.home}/one.pub", os.path.join(keys, name))
        write_config(os.path.join(self.master.conf, "master.d/more.conf"), {"engines": [{"a": {}}]})
        self.assertEqual(self.master.stop(), -15)
        other = OurMaster(self.home, "other")
        other.options["publish_port"] = self.master.publish_port
        write_config(os.path.join(other.conf, "master"), other.options)
        self.addCleanup(other.kill)
        other.up()

        code, found = self.findings()

        self.assertEqual(code, 1)
        self.assertIn("daemon.down", found)
        self.assertIn(f"(pid {other.pid})", found["port.taken"]["text"])
        self.assertEqual(found["key.shared"]["evidence"], ["web1 = web2"])
        self.assertIn("engines", found["option.unsupported"]["evidence"][0])

    def test_doctor_minion(self) -> None:
        """The doctor looks at the roles that run here; a minion without a master is an error."""
        minion = self.minion()

        def look(*words: str) -> dict[str, Any]:
            done = command("doctor", "-c", minion.conf, "--json", *words)
            said = json.loads(done.stdout)
            self.assertEqual(said["unknown"], {})
            return {one["id"]: one for one in said["findings"]}

        self.assertNotIn("minion.master", look())
        self.assertEqual(self.master.stop(), -15)
        until("the minion to notice", lambda: "minion.master" in look("--role", "minion"))
        self.assertEqual(look()["minion.master"]["severity"], "error")
        minion.kill()
        self.assertIn("--role minion", look()["daemon.down"]["command"])

    def test_broken(self) -> None:
        """A file that is not YAML: every command says so in one line, as the daemon does."""
        with open(os.path.join(self.master.conf, "master"), "a") as stream:
            stream.write("\nx: [\n")
        done = command("doctor", "-c", self.master.conf, "--json")
        (broken,) = [
            one for one in json.loads(done.stdout)["findings"] if one["id"] == "config.broken"
        ]
        self.assertEqual(done.returncode, 1)
        daemon = subprocess.run(
            [*twistd(), "--nodaemon", "--pidfile=",
             "saltwisted", "--role", "master", "--config", self.master.conf],
            capture_output=True, text=True, timeout=60, check=False, cwd=self.home,
            env={**os.environ, "PYTHONPATH": ROOT},
        )  # fmt: skip
        self.assertIn(broken["evidence"][0], daemon.stderr)
        for name in ("status", "backup", "members", "roots", "salt-run", "keys"):
            done = command(name, "-c", self.master.conf, *["/x"] * (name == "backup"))
            self.assertNotIn("Traceback", done.stderr, name)
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn(broken["evidence"][0], done.stdout + done.stderr, name)

    def test_backup(self) -> None:
        """Taken while it runs, shown, put back: keys and jobs are those of then."""
        minion = self.minion()
        file = os.path.join(self.home, "backup.tgz")
        jobs = set(self.master.run("jobs.list_jobs"))

        done = command("backup", "-c", self.master.conf, file)

        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
        self.assertEqual(os.listdir(self.home).count("backup.tgz"), 1)
        self.master.command("salt-key", "-y", "-d", minion.id, check=True)
        minion.kill()
        refused = command("restore", "-c", self.master.conf, file)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the master is running", refused.stderr)
        self.assertEqual(self.master.stop(), -15)
        with open(os.path.join(self.master.pki, "minions_pre", "later"), "wb") as key:
            key.write(b"x")
        dry = command("restore", "-c", self.master.conf, "--dry-run", "--json", file)
        changes = {
            (one["what"], os.path.basename(one["path"]))
            for one in json.loads(dry.stdout)["changes"]
        }
        self.assertIn(("new", minion.id), changes)
        self.assertIn(("removed", "later"), changes)
        self.assertFalse(os.path.exists(os.path.join(self.master.pki, "minions", minion.id)))

        done = command("restore", "-c", self.master.conf, file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.master.up()
        self.assertEqual(self.master.keys()["minions"], [minion.id])
        self.assertLessEqual(jobs, set(self.master.run("jobs.list_jobs")))
        minion.up()
        self.master.ping_until(minion.id)

    def test_damaged(self) -> None:
        """A backup that is cut or changed is refused before anything is written."""
        file = os.path.join(self.home, "backup.tgz")
        self.assertEqual(command("backup", "-c", self.master.conf, file).returncode, 0)
        self.assertEqual(self.master.stop(), -15)
        with tarfile.open(file) as whole:
            members = [(m, whole.extractfile(m).read() if m.isreg() else b"") for m in whole]
        bad = os.path.join(self.home, "bad.tgz")
        with tarfile.open(bad, "w:gz") as forged:
            for member, data in members:
                if member.name.endswith("master.pem"):
                    data = bytes(reversed(data))
                forged.addfile(member, io.BytesIO(data))
        with open(file, "rb") as stream:
            cut = stream.read()[:-2000]
        with open(os.path.join(self.home, "cut.tgz"), "wb") as stream:
            stream.write(cut)

        for name in ("bad.tgz", "cut.tgz", "master/etc/master"):
            done = command("restore", "-c", self.master.conf, os.path.join(self.home, name))
            self.assertEqual(done.returncode, 1, name)
            self.assertNotIn("Traceback", done.stderr)


class NodeTests(SynchronousTestCase):
    """A node of a cluster, alone."""

    def test_node(self) -> None:
        """It serves; a reload changes what it knows of nodegroups, and its log goes on."""
        master = OurMaster(scratch(self), cluster_pool_port=reserve_ports(1)[0])
        master.argv = [word if word != "master" else "cluster" for word in master.argv]
        lay_down_beginning(master.pki)
        self.addCleanup(master.kill)
        master.up()

        def serving() -> bool:
            return command("status", "-c", master.conf).returncode == 0

        until("the node to serve", serving)
        self.assertIn("cluster: serving", command("status", "-c", master.conf).stdout)
        write_config(os.path.join(master.conf, "master.d/x.conf"), {"nodegroups": {"a": "*"}})
        os.kill(master.pid, signal.SIGHUP)
        master.wait_for_line("configuration read again; changed: nodegroups")
        done = command("doctor", "-c", master.conf, "--json")
        self.assertEqual(json.loads(done.stdout)["unknown"], {})
        self.assertNotEqual(done.returncode, 1, done.stdout)
        self.check_backup(master)
        self.check_roots(master)

    def check_roots(self, node: OurMaster) -> None:
        """C{status} and C{doctor} see what is wrong with its roots, and name the node's role."""
        pipe = os.path.join(node.file_root, "pipe")
        os.mkfifo(pipe)
        command("roots", "-c", node.conf, "sync")
        done = command("status", "-c", node.conf)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("1 path is not replicated", done.stdout)
        done = command("doctor", "-c", node.conf, "--json")
        found = {one["id"]: one for one in json.loads(done.stdout)["findings"]}
        self.assertIn("pipe", found["roots.skipped"]["evidence"][0])
        os.unlink(pipe)
        os.unlink(os.path.join(node.file_root, ".saltwisted-root"))
        command("roots", "-c", node.conf, "sync")
        done = command("status", "-c", node.conf)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("file/base/0 is suspended", done.stdout)
        done = command("doctor", "-c", node.conf)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("roots.suspended", done.stdout)
        node.stop()
        done = command("doctor", "-c", node.conf)
        self.assertIn("--role cluster --config", done.stdout)

    def check_backup(self, node: OurMaster) -> None:
        """
        What makes it a node is in a backup: its key and the facts; the store of its roots, which
        the other members have as well, on request.
        """
        with open(os.path.join(node.file_root, "top.sls"), "w") as stream:
            stream.write("base: {}\n")
        done = command("roots", "-c", node.conf, "sync", "--wait")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        file = os.path.join(os.path.dirname(node.conf), "node.tgz")
        done = command("backup", "-c", node.conf, file)
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(file) as whole:
            self.assertFalse([m.name for m in whole if "/roots/" in m.name])
        done = command("backup", "-c", node.conf, "--roots", file)
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(file) as whole:
            names = {os.path.basename(member.name) for member in whole}
            paths = [member.name for member in whole]
        self.assertLessEqual(
            {"master.pem", "node.pem", "node.json", "facts.sqlite", "jobs.sqlite", "index.sqlite"},
            names,
        )
        self.assertTrue(any("/roots/" in path and "/packs/" in path for path in paths), paths)
        dry = command("restore", "-c", node.conf, "--dry-run", "--json", file)
        self.assertEqual(dry.returncode, 0, dry.stdout + dry.stderr)


class NoMasterTests(SynchronousTestCase):
    """Where nothing runs."""

    def test_nothing(self) -> None:
        """A machine without a daemon is not ready; a wrong word is a usage error."""
        home = scratch(self)
        ports = reserve_ports(2)
        write_config(
            f"{home}/master", {"root_dir": home, "publish_port": ports[0], "ret_port": ports[1]}
        )
        self.assertEqual(command("status", "-c", home).returncode, 2)
        self.assertEqual(command("status", "-c", home, "please").returncode, 64)
        self.assertEqual(command("backup", "-c", home).returncode, 64)
