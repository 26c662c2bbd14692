"""
The whole life of the packages on a clean Debian 12.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import tempfile
import unittest
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import __version__
from tests.harness import reserve_ports, until
from tests.packaging.root import CACHE, ENDED, Root, Unit, build, earlier, run

TOOLS = ("debootstrap", "dpkg-buildpackage", "lintian", "setpriv", "unshare")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
OLD = "0.0.1"
COMMANDS = ("salt", "salt-call", "salt-cp", "salt-key", "salt-run")

if not CACHE:
    REASON = "SALTWISTED_PACKAGES is not set: it names the directory for the Debian base tree"
elif os.geteuid():
    REASON = "a Debian root can only be made by root"
else:
    REASON = f"not installed: {', '.join(MISSING)}" if MISSING else ""


@unittest.skipIf(bool(REASON), REASON)
class PackageTests(SynchronousTestCase):
    """One root, from an empty Debian to an empty Debian."""

    def setUp(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="swp", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.root = Root(os.path.join(self.scratch, "root"))

    def test_life(self) -> None:
        """Installed, serving, upgraded under a running minion, removed, and purged to nothing."""
        packages = os.path.join(self.scratch, "packages")
        salt, main = build(packages)
        old = earlier(main, OLD, packages)
        self.root.unpack()
        before = self.snapshot()

        self.root.install(old)
        self.check_installed()
        master, minion = self.check_serving()
        self.check_reload(master)
        self.check_upgrade(main, master, minion)
        self.check_links(salt)
        self.check_purged(master, minion, before)

    # -- the chapters

    def check_installed(self) -> None:
        """Nothing is started or enabled; the plugin is known; the keys' directories are ours."""
        self.assertIn("saltwisted", self.root.do("twistd3", "--help"))
        self.assertNotIn("Unable to write", self.as_user("twistd3", "--help"))
        self.assertIn(OLD, self.root.do("saltwisted", "--version"))
        wants = Path(self.root.at("etc/systemd/system")).rglob("saltwisted*")
        self.assertEqual([str(path) for path in wants], [])
        for path, owner, mode in (
            ("/etc/saltwisted", "root", 0o755),
            ("/etc/saltwisted/pki/master", "saltwisted", 0o700),
            ("/etc/saltwisted/pki/minion", "root", 0o700),
            ("/var/cache/saltwisted/master", "saltwisted", 0o700),
            ("/var/log/saltwisted", "root", 0o755),
        ):
            info = os.stat(self.root.at(path))
            self.assertEqual(stat.S_IMODE(info.st_mode), mode, path)
            self.assertEqual(self.root.do("stat", "-c", "%U", path).strip(), owner, path)
        for name in COMMANDS:
            said = self.root.do(f"/usr/lib/saltwisted/bin/{name}", "--version")
            self.assertTrue(said.startswith(f"{name} "), said)
        self.assertFalse(os.path.lexists(self.root.at("usr/bin/salt")))
        page = self.root.read_gz("usr/share/man/man1/saltwisted-salt-key.1.gz")
        self.assertIn("accept the pending keys", page)
        words = self.root.do("saltwisted", "complete", "--", "salt-call", "test.pi").split()
        self.assertEqual(words, ["test.ping"])

    def check_serving(self) -> tuple[Unit, Unit]:
        """Both units serve by their own ExecStart, and the master as its user without rights."""
        publish, ret = reserve_ports(2)
        self.root.write(
            "etc/saltwisted/master.d/ports.conf",
            f"interface: 127.0.0.1\npublish_port: {publish}\nret_port: {ret}\nlog_level: info\n",
        )
        self.root.write(
            "etc/saltwisted/minion.d/ports.conf",
            f"id: web1\nmaster: 127.0.0.1\nmaster_port: {ret}\npublish_port: {publish}\n"
            "acceptance_wait_time: 1\nlog_level: info\n",
        )
        master = Unit(self.root, "saltwisted-master", self).start()
        minion = Unit(self.root, "saltwisted-minion", self).start()
        master.wait_for("WATCHDOG=1", times=2)
        minion.wait_for("WATCHDOG=1", times=2)
        status = Path(f"/proc/{master.pid}/status").read_text()
        user = self.root.do("id", "-u", "saltwisted").strip()
        self.assertIn(f"Uid:\t{user}\t{user}\t{user}\t{user}", status)
        self.assertIn("CapEff:\t0000000000000000", status)
        pending = self.root.at("etc/saltwisted/pki/master/minions_pre/web1")
        until("the pending key", lambda: os.path.exists(pending))
        self.assertEqual(self.complete("salt-key", "-a", "w"), ["web1"])
        self.salt("salt-key", "-y", "-a", "web1")
        until("the minion's answer", lambda: self.ping() is True)
        self.assertEqual(self.complete("salt", "w"), ["web1"])
        for place in ("etc/saltwisted/pki", "var/cache/saltwisted"):
            for path in Path(self.root.at(place)).rglob("*"):
                if "master" in path.parts and not path.is_symlink():
                    self.assertEqual(path.lstat().st_uid, int(user), path)
        return master, minion

    def check_reload(self, master: Unit) -> None:
        """ExecReload re-reads the configuration, and drops no minion."""
        self.root.write("etc/saltwisted/master.d/groups.conf", "nodegroups:\n  fleet: 'web*'\n")
        count = master.said.count("READY=1")

        os.kill(master.pid, signal.SIGHUP)

        master.wait_for("RELOADING=1")
        master.wait_for("READY=1", times=count + 1)
        self.assertIn("configuration read again; changed: nodegroups", master.tail())
        answer = json.loads(self.salt("salt", "-N", "fleet", "test.ping", "--out", "json"))
        self.assertEqual(answer, {"web1": True})

    def check_upgrade(self, package: str, master: Unit, minion: Unit) -> None:
        """A minion that runs while its package is replaced goes on, and the new one takes over."""
        pid = minion.pid
        assert minion.process is not None

        self.root.install(package)

        self.assertIn(f"saltwisted {__version__}", self.root.do("saltwisted", "--version"))
        self.assertIsNone(minion.process.poll())
        self.assertIs(self.ping(), True)
        # A job that restarts its own minion, as systemd does it: the main process alone ends
        said = self.salt("salt", "--async", "web1", "cmd.run", f"kill {pid}; sleep 3; echo lived")
        jid = said.split()[-1]
        self.assertIn(minion.process.wait(15), ENDED)
        minion.start()
        until("the upgraded minion's answer", lambda: self.ping() is True)
        until("the job's own return", lambda: "lived" in self.lookup(jid))
        self.assertLess(master.stop(), 10.0)
        master.start()
        until("the minion under the upgraded master", lambda: self.ping() is True)
        report = self.salt("salt", "web1", "test.versions_report", "--out", "txt")
        self.assertIn(__version__, report)

    def check_links(self, package: str) -> None:
        """C{saltwisted-salt} takes Salt's names beside a stock package, and gives them back."""
        stock = self.stock_package()
        self.root.install(stock)
        self.assertIn("stock", self.root.do("/usr/bin/salt"))

        self.root.install(package)

        self.assertIn("saltwisted", self.root.do("/usr/bin/salt", "--version"))
        self.assertIn("stock", self.root.do("/usr/bin/salt.stock"))
        fish = "usr/share/fish/vendor_completions.d/salt.fish"
        self.assertIn("saltwisted complete", self.root.read(fish))
        self.assertEqual(self.root.read(f"{fish}.stock"), "stock\n")
        answer = json.loads(self.root.do("salt", "*", "test.ping", "--out", "json"))
        self.assertEqual(answer, {"web1": True})
        # the stock package may be upgraded meanwhile
        self.root.do("dpkg", "--install", f"/root/{os.path.basename(stock)}")
        self.assertIn("saltwisted", self.root.do("/usr/bin/salt", "--version"))
        self.root.do("apt-get", "remove", "-q", "-y", "saltwisted-salt")
        self.assertIn("stock", self.root.do("/usr/bin/salt"))
        self.assertFalse(os.path.lexists(self.root.at("usr/bin/salt.stock")))
        self.assertEqual(self.root.read(fish), "stock\n")
        self.assertFalse(os.path.lexists(self.root.at("usr/bin/salt-key")))
        self.root.do("apt-get", "purge", "-q", "-y", "stock-salt", "saltwisted-salt")

    def check_purged(self, master: Unit, minion: Unit, before: set[str]) -> None:
        """Removal keeps configuration and keys; purge leaves nothing that was not there before."""
        self.assertLess(minion.stop(), 10.0)
        self.assertLess(master.stop(), 10.0)

        self.root.do("apt-get", "remove", "-q", "-y", "saltwisted")

        self.assertTrue(os.path.exists(self.root.at("etc/saltwisted/pki/master/minions/web1")))
        self.assertFalse(os.path.lexists(self.root.at("usr/bin/saltwisted")))
        self.assertNotIn("saltwisted", self.root.do("twistd3", "--help"))
        self.root.do("apt-get", "purge", "-q", "-y", "saltwisted")
        new = sorted(self.snapshot() - before)
        left = [path for path in new if "saltwisted" in path and not path.endswith(".notify")]
        self.assertEqual(left, [])
        self.assertNotIn("saltwisted", self.root.read("etc/passwd") + self.root.read("etc/group"))

    # -- helpers

    def snapshot(self) -> set[str]:
        """Every path of the root."""
        skipped = {"proc", "sys", "dev", "root"}
        found = set()
        for name in sorted(set(os.listdir(self.root.path)) - skipped):
            for folder, folders, files in os.walk(self.root.at(name)):
                found.update(os.path.join(folder, one) for one in (*folders, *files))
        return {os.path.relpath(path, self.root.path) for path in found}

    def salt(self, name: str, *words: str) -> str:
        """One of the commands, as root."""
        return self.root.do(f"/usr/lib/saltwisted/bin/{name}", *words)

    def ping(self) -> Any:
        """What the minion answers."""
        try:
            said = self.salt("salt", "-t", "5", "web1", "test.ping", "--out", "json")
        except AssertionError:
            return None
        return json.loads(said).get("web1")

    def lookup(self, jid: str) -> str:
        """What has come back of a job."""
        return self.salt("salt-run", "jobs.lookup_jid", jid, "--out", "json")

    def complete(self, *words: str) -> list[str]:
        """What a shell would offer."""
        return self.root.do("saltwisted", "complete", "--", *words).split()

    def as_user(self, *words: str) -> str:
        """Run something as the master's user."""
        ids = ("--reuid=saltwisted", "--regid=saltwisted", "--init-groups")
        return self.root.do("setpriv", *ids, *words)

    def stock_package(self) -> str:
        """A package that has C{/usr/bin/salt}, as the stock one."""
        tree = os.path.join(self.scratch, "stock")
        os.makedirs(os.path.join(tree, "DEBIAN"))
        os.makedirs(os.path.join(tree, "usr/bin"))
        Path(tree, "DEBIAN/control").write_text(
            "Package: stock-salt\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x.invalid>\n"
            "Description: has /usr/bin/salt\n"
        )
        completions = Path(tree, "usr/share/fish/vendor_completions.d")
        completions.mkdir(parents=True)
        Path(completions, "salt.fish").write_text("stock\n")
        program = Path(tree, "usr/bin/salt")
        program.write_text("#!/bin/sh\necho stock\n")
        program.chmod(0o755)
        made = os.path.join(self.scratch, "stock-salt_1_all.deb")
        run("dpkg-deb", "--root-owner-group", "--build", tree, made)
        return made
