"""
The whole life of the packages on a clean Debian 12.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted import __version__
from saltwisted.domain.replica.tokens import new_token
from tests.harness import until
from tests.packaging import formula
from tests.packaging.lab import Machine, hub, packages
from tests.packaging.pages import Reader
from tests.packaging.root import CACHE, earlier, run

TOOLS = ("debootstrap", "dpkg-buildpackage", "lintian", "setpriv", "unshare")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
OLD = "0.0.1"
MASTER, MINION = "saltwisted-master", "saltwisted-minion"
COMMANDS = ("salt", "salt-call", "salt-cp", "salt-key", "salt-run")

if not CACHE:
    REASON = "SALTWISTED_PACKAGES is not set: it names the directory for the Debian base tree"
elif os.geteuid():
    REASON = "a Debian root can only be made by root"
else:
    REASON = f"not installed: {', '.join(MISSING)}" if MISSING else ""


def answer_of(said: str) -> dict[str, Any]:
    """
    What a command answered. Before it stands what it said on standard error, of minions that have
    yet to come after a start, say.
    """
    found: dict[str, Any] = json.loads(said[said.index("{") :])
    return found


@unittest.skipIf(bool(REASON), REASON)
class PackageTests(SynchronousTestCase):
    """One root, from an empty Debian to an empty Debian."""

    def setUp(self) -> None:
        self.scratch = tempfile.mkdtemp(prefix="swp", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        (host,) = hub(self, 1)
        self.root = Machine(os.path.join(self.scratch, "a"), host, self)

    def test_life(self) -> None:
        """Installed, serving, upgraded under a running minion, removed, and purged to nothing."""
        salt, main = packages()
        old = earlier(main, OLD, self.scratch)
        before = self.snapshot()

        self.root.install(old)
        self.check_installed()
        self.check_owner()
        self.check_serving()
        self.check_reload()
        self.check_upgrade(main)
        self.check_formula()
        self.check_balancer()
        self.check_links(salt)
        self.check_purged(main, before)

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

    def check_owner(self) -> None:
        """What root's commands leave before the first start is the service's; else one line."""
        pki = "/etc/saltwisted/pki/master"
        token = new_token(
            os.urandom, pin="0" * 64, expiry=time.time() + 600, uses=1, role="master",
            pattern="", cluster="0" * 16, peers=("192.0.2.1:4520",),
        )  # fmt: skip
        said = self.root.follow(f"saltwisted join {token.line}")
        self.assertIn("systemctl start saltwisted-cluster", said)
        self.assertEqual(self.root.do("find", f"{pki}/cluster", "!", "-user", "saltwisted"), "")
        self.root.do("systemctl", "start", "saltwisted-cluster")
        said = self.root.follow("saltwisted status --role cluster", (2,))
        self.assertIn("192.0.2.1", said)
        self.root.do("systemctl", "stop", "saltwisted-cluster")
        self.root.do("rm", "-r", f"{pki}/cluster")
        self.root.do("install", "-d", "-m", "0700", f"{pki}/cluster")
        self.root.follow("systemctl start saltwisted-cluster", (1,))
        self.assertEqual(self.root.shown("saltwisted-cluster", "ExecMainStatus"), "78")
        self.assertEqual(self.root.shown("saltwisted-cluster", "NRestarts"), "0")
        said = self.root.do("journalctl", "-u", "saltwisted-cluster", "-o", "cat", "--no-pager")
        self.assertIn(f"Fix it with: chown -R saltwisted: {pki}\n", said)
        self.assertNotIn("Traceback", said)
        self.root.do("chown", "-R", "saltwisted:", f"{pki}/cluster")
        self.root.do("rmdir", f"{pki}/cluster")
        self.root.do("systemctl", "reset-failed")

    def check_serving(self) -> None:
        """Both units serve, watched by systemd, and the master as its user without rights."""
        self.root.write("etc/saltwisted/master.d/level.conf", "log_level: info\n")
        self.root.write(
            "etc/saltwisted/minion.d/here.conf",
            "id: web1\nmaster: 127.0.0.1\nacceptance_wait_time: 1\nlog_level: info\n",
        )
        self.root.do("systemctl", "enable", "--now", MASTER, MINION)
        for unit in (MASTER, MINION):
            first = self.root.shown(unit, "WatchdogTimestampMonotonic")
            self.assertNotEqual(first, "0")
        self.assertIn("serving", self.root.shown(MASTER, "StatusText"))
        status = self.root.do("cat", f"/proc/{self.root.pid(MASTER)}/status")
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

    def check_reload(self) -> None:
        """C{systemctl reload} re-reads the configuration, and drops no minion."""
        self.root.write("etc/saltwisted/master.d/groups.conf", "nodegroups:\n  fleet: 'web*'\n")

        self.root.do("systemctl", "reload", MASTER)

        words = "configuration read again; changed: nodegroups"
        until("the reload", lambda: words in self.root.logs())
        answer = answer_of(self.salt("salt", "-N", "fleet", "test.ping", "--out", "json"))
        self.assertEqual(answer, {"web1": True})

    def check_upgrade(self, package: str) -> None:
        """The daemons of the old package are replaced; a job outlives that of its minion."""
        before = {unit: self.root.pid(unit) for unit in (MASTER, MINION)}

        self.root.install(package)

        self.assertIn(f"saltwisted {__version__}", self.root.do("saltwisted", "--version"))
        for unit, pid in before.items():
            self.assertNotIn(self.root.pid(unit), (0, pid))
        until("the minion under the upgraded master", lambda: self.ping() is True)
        restart = f"systemctl restart {MINION}; sleep 1; echo lived"
        said = self.salt("salt", "--async", "web1", "cmd.run", restart)
        jid = said.split()[-1]
        until("the job's own return", lambda: "lived" in self.lookup(jid))
        until("the minion's answer", lambda: self.ping() is True)
        self.assertLess(self.root.stop(MASTER), 10.0)
        self.root.do("systemctl", "start", MASTER)
        until("the minion under the master", lambda: self.ping() is True)
        report = self.salt("salt", "web1", "test.versions_report", "--out", "txt")
        self.assertIn(__version__, report)

    def check_formula(self) -> None:
        """
        A formula is applied with Debian's own Python packages: packages, a service, templates, an
        account and a certificate come, and the second run changes nothing.
        """
        for place, files in (("salt", formula.FILES), ("pillar", formula.PILLAR)):
            for name, text in files.items():
                self.root.write(f"srv/{place}/{name}", text)

        first, second = self.applied(), self.applied()

        failed = {tag: one for tag, one in first.items() if one["result"] is not True}
        self.assertEqual(failed, {})
        self.assertGreaterEqual(len(first), 12)
        again = {tag: one for tag, one in second.items() if one["changes"] or not one["result"]}
        self.assertEqual(again, {})
        self.assertEqual(self.root.shown("cron", "ActiveState"), "active")
        self.assertIn("3 * * * ticker /bin/true", self.root.read("etc/cron.d/tick"))
        self.assertEqual(self.root.read("etc/clock/facts.yaml"), "hours:\n- 3\n- 4\nmade: true\n")

    def check_balancer(self) -> None:
        """The page about HAProxy, with HAProxy's own unit and the limits that it has here."""
        page = Reader("haproxy.md")
        self.root.do("systemctl", "stop", MASTER)
        self.root.do("apt-get", "install", "-q", "-y", "haproxy")
        until("HAProxy", lambda: self.root.shown("haproxy", "ActiveState") == "active")

        page.to(self.root, "systemctl reload haproxy")

        page.finished()
        self.root.do("systemctl", "restart", "haproxy")
        self.assertEqual(self.root.shown("haproxy", "ActiveState"), "active")
        heard = self.root.do("ss", "-Hltn", "sport = :4505 or sport = :4506")
        self.assertEqual(len(heard.splitlines()), 2, heard)
        self.root.do("apt-get", "purge", "-q", "-y", "haproxy")
        self.root.do("systemctl", "start", MASTER)
        until("the minion's answer", lambda: self.ping() is True)

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
        answer = answer_of(self.root.do("salt", "*", "test.ping", "--out", "json"))
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

    def check_purged(self, package: str, before: set[str]) -> None:
        """
        Removal stops what runs and keeps configuration and keys; purge leaves nothing that was not
        there before: no user, group, process or file.
        """
        self.root.do("apt-get", "remove", "-q", "-y", "saltwisted")

        for unit in (MASTER, MINION):
            self.assertEqual(self.root.shown(unit, "ActiveState"), "inactive")
        self.assertEqual(self.root.processes("saltwisted"), [])
        self.assertTrue(os.path.exists(self.root.at("etc/saltwisted/pki/master/minions/web1")))
        self.assertFalse(os.path.lexists(self.root.at("usr/bin/saltwisted")))
        self.assertNotIn("saltwisted", self.root.do("twistd3", "--help"))
        # Back, with its keys; and then all at once
        self.root.install(package)
        self.root.do("systemctl", "start", MASTER, MINION)
        until("the minion's answer", lambda: self.ping() is True)

        self.root.do("apt-get", "purge", "-q", "-y", "saltwisted")

        self.assertEqual(self.root.processes("saltwisted"), [])
        new = sorted(self.snapshot() - before)
        self.assertEqual([path for path in new if "saltwisted" in path], [])
        self.assertNotIn("saltwisted", self.root.read("etc/passwd") + self.root.read("etc/group"))
        self.assertEqual(self.root.do("find", "/run", "-name", "*saltwisted*"), "")

    # -- helpers

    def snapshot(self) -> set[str]:
        """Every path of the root."""
        skipped = {"proc", "sys", "dev", "root", "tmp"}
        found: set[str] = set()
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
        return answer_of(said).get("web1")

    def applied(self) -> dict[str, Any]:
        """The results of C{state.apply} on the minion."""
        said = self.salt("salt", "-t", "120", "web1", "state.apply", "--out", "json")
        found: dict[str, Any] = answer_of(said)["web1"]
        self.assertIsInstance(found, dict, found)
        return found

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
