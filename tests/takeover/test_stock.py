"""
C{saltwisted takeover} on real stock masters with real stock minions that nobody touches.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.advice.carrying import Shell, printed
from tests.gitrepos import Repo
from tests.harness import (
    ROOT,
    StockMaster,
    StockMinion,
    needs_peers,
    reserve_ports,
    scratch,
    until,
    write_config,
)


def digests(*folders: str) -> dict[str, str]:
    """Every file below these directories, with its content, mode and owner."""
    found = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.is_symlink():
                info = path.stat()
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path)] = f"{digest} {info.st_mode:o} {info.st_uid}"
    return found


def command(name: str, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """One of our commands."""
    return subprocess.run(
        [sys.executable, "-m", "saltwisted.cli.main", name, *words],
        capture_output=True, text=True, timeout=seconds, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip


def answers(directory: str, *target: str) -> Any:
    """Who answers our command."""
    words = ("-c", directory, "-t", "5", *target, "test.ping", "--out", "json", "--static")
    try:
        return json.loads(command("salt", *words).stdout)
    except ValueError:
        return None


def stop_ours(target: str) -> None:
    """End ours if a failure left it running."""
    try:
        with open(os.path.join(target, "run/master/twistd.pid"), encoding="utf-8") as stream:
            os.kill(int(stream.read()), 15)
    except (OSError, ValueError):
        pass


@needs_peers
class StockTests(SynchronousTestCase):
    """There and back again."""

    def test_3006(self) -> None:
        """A 3006 master with a 3006 and a 3008 minion is taken over and given back."""
        self.there_and_back("3006")

    def test_3008(self) -> None:
        """A 3008 master with a 3006 and a 3008 minion is taken over and given back."""
        self.there_and_back("3008")

    def there_and_back(self, version: str) -> None:
        """The whole story, for one version of the stock master."""
        home = scratch(self)
        target = os.path.join(home, "ours")
        stock = StockMaster(home, version, nodegroups={"fleet": "stock-*"})
        write_config(
            os.path.join(stock.conf, "master.d/more.conf"),
            {
                "reactor": [{"x": ["/y"]}],
                "schedule": {"often": {"function": "test.arg", "seconds": 2}},
                "engines": [{"test": {}}],
                "peer": {".*": ["test.ping"]},
                **(self.git_site(home) if version == "3008" else {}),
            },
        )
        self.addCleanup(stock.kill)
        stock.up()
        minions = [StockMinion(home, peer, stock) for peer in ("3006", "3008")]
        late = StockMinion(home, "3008", stock, "late")
        for minion in (*minions, late):
            self.addCleanup(minion.kill)
            minion.up()
        for minion in minions:
            stock.accept(minion.id)
        both = {minion.id: True for minion in minions}
        until("stock's answers", lambda: self.asked(stock, "*") == both)
        until("the late key", lambda: os.path.exists(f"{stock.pki}/minions_pre/late"))
        stock.command("salt", "*", "test.echo", "remember me")
        if version == "3008":
            stock.command("salt", "stock-3006", "cp.push", os.path.join(home, "states/word"))
        before = digests(stock.conf, stock.pki)
        pids = [minion.pid for minion in (*minions, late)]

        self.check_dry_run(stock, target)
        words = ("--from", stock.conf, "--to", target, "--switch", "--json")
        refused = command("takeover", *words)
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("set, but not supported: engines; --yes goes on", refused.stderr)
        self.assertFalse(os.path.exists(target))
        done = command("takeover", *words[:4])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        shell, told = Shell(self), done.stdout
        self.addCleanup(stop_ours, target)
        # As it was printed, and what somebody has to agree to
        shell.run(printed(told, "takeover.switch") + " --yes")

        self.assertFalse(stock.running)
        self.assertEqual(digests(stock.conf, stock.pki), before)
        until("our answers", lambda: answers(target, "*") == both)
        # what stock knew of the minions came along, so that targets by grains work
        self.assertEqual(answers(target, "-G", "role:web"), both)
        self.assertEqual(answers(target, "-N", "fleet"), both)
        self.assertEqual(
            until("stock's history", lambda: self.remembered(target)),
            {minion.id: "remember me" for minion in minions},
        )
        self.check_automation(target)
        if version == "3008":
            self.check_git(home, target)
        accepted = command("salt-key", "-c", target, "-y", "-a", "late")
        self.assertEqual(accepted.returncode, 0, accepted.stderr)
        all_three = {**both, "late": True}
        until("the late minion", lambda: answers(target, "*") == all_three)

        said = json.loads(shell.run(printed(told, "takeover.undo") + " --json"))
        self.assertEqual(said["changes"], ["write minions/late", "remove minions_pre/late"])
        self.assertEqual(said["kept"], [])
        self.assertFalse(os.path.exists(os.path.join(target, "pki/master/master.pem")))
        after = digests(stock.conf, stock.pki)
        moved = {f"{stock.pki}/minions_pre/late", f"{stock.pki}/minions/late"}
        self.assertEqual(set(after) ^ set(before), moved)
        self.assertEqual({p: d for p, d in after.items() if p in before and before[p] != d}, {})
        stock.up()
        until("stock's answers again", lambda: self.asked(stock, "*") == all_three)
        running = [minion.pid for minion in (*minions, late) if minion.running]
        self.assertEqual(running, pids)

    def git_site(self, home: str) -> dict[str, Any]:
        """The configuration of a site that has states and a pillar in git, as stock reads it."""
        states, pillar = (Repo(os.path.join(home, name)) for name in ("states", "pillar"))
        states.commit({"salt/in_git": b"of git\n", "word": b"pushed\n"})
        pillar.commit({"top.sls": b"base: {'*': [word]}\n", "word.sls": b"word: of pillar\n"})
        return {
            "fileserver_backend": ["roots", "git", "minion"],
            "gitfs_provider": "gitpython",
            "git_pillar_provider": "gitpython",
            "gitfs_remotes": [{states.url: [{"root": "salt"}, {"mountpoint": "salt://sub"}]}],
            "ext_pillar": [{"git": [f"master {pillar.url}"]}],
            "file_recv": True,
        }

    def check_git(self, home: str, target: str) -> None:
        """Ours serves what stock did: of git, of what minions have pushed, and the pillar."""
        pushed = f"stock-3006{os.path.realpath(home)}/states/word"
        for path, expected in (("sub/in_git", "of git\n"), (pushed, "pushed\n")):
            words = ("-c", target, "stock-3008", "cp.get_file_str", f"salt://{path}")
            said = command("salt", *words, "--out", "json", "--static").stdout
            self.assertEqual(json.loads(said), {"stock-3008": expected})
        words = ("-c", target, "pillar.show_pillar", "stock-3008", "--out", "json")
        self.assertEqual(json.loads(command("salt-run", *words).stdout)["word"], "of pillar")

    def check_automation(self, target: str) -> None:
        """What stock did by itself, ours does: the schedule runs, the reactor knows its tags."""
        until(
            "a run of the schedule",
            lambda: (
                json.loads(command("schedule", "-c", target, "--json").stdout or "{}")
                .get("often", {})
                .get("_ran", {})
                .get("success")
            ),
        )
        listed = command("salt-run", "-c", target, "--out", "json", "reactor.list")
        self.assertEqual(json.loads(listed.stdout), [{"x": ["/y"]}], listed.stderr)

    def remembered(self, target: str) -> Any:
        """What came back of the job that stock had run, as our master tells it."""
        words = ("-c", target, "--out", "json", "jobs.list_jobs", "search_function=test.echo")
        jobs = json.loads(command("salt-run", *words).stdout or "{}")
        for jid, job in jobs.items():
            self.assertEqual((job["Target"], job["Arguments"]), ("*", ["remember me"]))
            found = command("salt-run", "-c", target, "--out", "json", "jobs.lookup_jid", jid)
            return json.loads(found.stdout)
        return None

    def check_dry_run(self, stock: StockMaster, target: str) -> None:
        """A dry run says everything and does nothing."""
        done = command("takeover", "--from", stock.conf, "--to", target, "--dry-run", "--json")

        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse(os.path.exists(target))
        self.assertTrue(stock.running)
        said = json.loads(done.stdout)
        verdicts = {row["option"]: row["verdict"] for row in said["options"]}
        self.assertEqual(verdicts["nodegroups"], "taken")
        self.assertEqual(verdicts["peer"], "taken")
        self.assertEqual(verdicts["pki_dir"], "mapped")
        self.assertEqual(verdicts["worker_threads"], "ignored")
        self.assertEqual(verdicts["reactor"], "taken")
        self.assertEqual(verdicts["schedule"], "taken")
        self.assertEqual(verdicts["engines"], "unsupported")
        self.assertEqual(said["keys"], {"minions": 2, "minions_pre": 1})
        self.assertGreater(said["jobs"], 0)
        self.assertTrue(said["files"][1].endswith("master.d/more.conf"))
        words = command("takeover", "--from", stock.conf, "--to", target, "--dry-run").stdout
        self.assertIn("unsupported  engines", words)

    def asked(self, stock: StockMaster, *target: str) -> Any:
        """Who answers the stock command."""
        words = ("-t", "5", *target, "test.ping", "--out", "json", "--static")
        try:
            return json.loads(stock.command("salt", *words).stdout)
        except ValueError:
            return None


@needs_peers
class MergeTests(SynchronousTestCase):
    """Two stock masters with one key become one cluster."""

    def check_shown(self, stock: StockMaster, words: tuple[str, ...]) -> None:
        """What differs is shown, and waits for a yes; nothing has happened by then."""
        with open(os.path.join(stock.file_root, "here.sls"), "w", encoding="utf-8") as stream:
            stream.write("{}\n")
        more = os.path.join(stock.conf, "master.d/more.conf")
        write_config(more, {"publisher_acl": {"fred": ["test.*"]}})

        shown = command("takeover", *words, "--dry-run")
        refused = command("takeover", *words)

        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertEqual(refused.returncode, 1, refused.stdout + refused.stderr)
        self.assertIn("--yes accepts all of it", refused.stderr)
        self.assertTrue(stock.running)
        self.assertFalse(os.path.exists(os.path.join(words[3], "pki")))
        for done in (shown, refused):
            found = {one["id"]: one for one in json.loads(done.stdout)["merge"]["differences"]}
            self.assertEqual(found["key.here"]["names"], [f"stock-{stock.version}"])
            self.assertEqual(found["key.there"]["count"], 1)
            self.assertEqual(found["file.here"]["names"], ["file/base/0: here.sls"])
            acl = 'publisher_acl: {"fred": ["test.*"]} here, {} there'
            self.assertIn(acl, found["option.differs"]["names"])
        os.unlink(more)

    def test_merge(self) -> None:
        """Each has a minion that the other never accepted; both answer on both."""
        home = scratch(self)
        first, second = (
            StockMaster(
                os.path.join(home, name),
                version,
                id=f"master-{name}",  # on hosts of their own they have the hosts' names
                interface=address,
                cluster_pool_port=reserve_ports(1)[0],
            )
            for name, version, address in (
                ("a", "3006", "127.0.0.1"),
                ("b", "3008", "127.0.0.2"),
            )
        )
        os.makedirs(second.pki)
        done = command("salt-key", "--gen-keys=master", f"--gen-keys-dir={second.pki}")
        self.assertEqual(done.returncode, 0, done.stderr)
        os.makedirs(first.pki)
        for name in ("master.pem", "master.pub"):
            shutil.copy(os.path.join(second.pki, name), first.pki)
        minions = []
        for stock, address in ((first, "127.0.0.1"), (second, "127.0.0.2")):
            self.addCleanup(stock.kill)
            stock.start()
            stock.address = address  # type: ignore[attr-defined]
            minion = StockMinion(home, stock.version, stock)
            self.addCleanup(minion.kill)
            minion.up()
            minions.append(minion)
            stock.accept(minion.id)
        ours = [os.path.join(home, name) for name in ("ours-a", "ours-b")]
        for target in ours:
            self.addCleanup(stop_ours, target)

        words = ("--from", first.conf, "--to", ours[0], "--switch", "--role", "cluster", "--json")
        done = command("takeover", *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        def serves() -> bool:
            return command("status", "-c", ours[0]).returncode == 0

        until("the first node", serves)
        made = command("token", "-c", ours[0], "create", "--json")
        self.assertEqual(made.returncode, 0, made.stderr)
        token = json.loads(made.stdout)["token"]
        words = ("--from", second.conf, "--to", ours[1], "--merge", token, "--json")
        self.check_shown(second, words)
        done = command("takeover", *words, "--yes")

        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads(done.stdout)["joined"]["minions"], 1)
        everybody = {minion.id: True for minion in minions}
        for target in ours:
            until(f"all minions by {target}", lambda t=target: answers(t, "*") == everybody)
        self.assertTrue(all(minion.running for minion in minions))


class FailureTests(SynchronousTestCase):
    """What stands in the way is said, and nothing is touched."""

    def test_no_master(self) -> None:
        """A directory without a master's configuration."""
        home = scratch(self)

        done = command("takeover", "--from", home, "--to", f"{home}/o")

        self.assertEqual(done.returncode, 1)
        self.assertIn("no salt-master configuration", done.stderr)

    def test_no_key(self) -> None:
        """A master that has never run has no key, and nothing to take over."""
        home = scratch(self)
        write_config(f"{home}/etc/master", {"root_dir": home})

        done = command("takeover", "--from", f"{home}/etc", "--to", f"{home}/o", "--json")

        self.assertEqual(done.returncode, 1)
        self.assertIn("master.pem", json.loads(done.stdout)["error"])
        self.assertFalse(os.path.exists(f"{home}/o"))

    def test_other_identity(self) -> None:
        """A target that is another master already is left alone."""
        home = scratch(self)
        write_config(f"{home}/etc/master", {"root_dir": home})
        for folder in (f"{home}/etc/salt/pki/master", f"{home}/o/pki/master"):
            os.makedirs(folder)
            done = command("salt-key", "--gen-keys=master", f"--gen-keys-dir={folder}")
            self.assertEqual(done.returncode, 0, done.stderr)
        before = digests(f"{home}/o")

        done = command("takeover", "--from", f"{home}/etc", "--to", f"{home}/o", "--json")

        self.assertEqual(done.returncode, 1, done.stdout)
        problems = [one["id"] for one in json.loads(done.stdout)["problems"] if one["fatal"]]
        self.assertEqual(problems, ["identity"])
        self.assertEqual(digests(f"{home}/o"), before)

    def test_nothing_to_undo(self) -> None:
        """Without a record nothing is given back."""
        home = scratch(self)

        done = command("takeover", "--to", home, "--undo")

        self.assertEqual(done.returncode, 1)
        self.assertIn("no record of a takeover", done.stderr)
