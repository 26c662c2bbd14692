"""
Three masters of ours with one identity, as real processes, under minions that know all three.

Stock minions and one of ours, each once with a list (hot) and once with C{master_type: failover}.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import (
    OurMaster,
    OurMinion,
    StockMinion,
    needs_peers,
    scratch,
    until,
    write_config,
)
from tests.interop.masters import (
    HOSTS,
    Masters,
    all_answer,
    begin_jobs,
    end_jobs,
    in_time,
    kept_promise,
    lines,
)


@needs_peers
class ManyMastersTests(SynchronousTestCase):
    """Kill any master: those that know the others go on."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.masters = Masters(self.home)
        self.addCleanup(self.masters.kill)
        self.minions: dict[str, Any] = {}

    def start(self, *kinds: str, **options: Any) -> list[str]:
        """Start minions of these kinds (a stock version or C{ours}); their ids."""
        many = {"master": list(HOSTS), "auth_timeout": 3, **options}
        for kind in kinds:
            if kind == "ours":
                minion: Any = OurMinion(self.home, self.masters[0])
            else:
                minion = StockMinion(self.home, kind, self.masters[0])
            write_config(os.path.join(minion.conf, "minion.d", "many.conf"), many)
            self.addCleanup(minion.kill)
            minion.up()
            self.minions[minion.id] = minion
        return list(self.minions)

    def all_answer(self, master: OurMaster, ids: list[str], seconds: float = 60) -> float:
        """Wait until all answer this master; how long that took."""
        return all_answer(master, ids, self.minions, seconds)

    def test_hot(self) -> None:
        """Started in any order, all are served by all; one is killed in a job and comes back."""
        one, two, three = self.masters.all
        one.up()
        three.up()  # the second is not there yet
        ids = self.start("3006", "3007", "3008", "ours")
        self.all_answer(one, ids)
        self.all_answer(three, ids)
        two.up()
        self.all_answer(two, ids)

        (jid,) = begin_jobs(two, self.home, ["ours"])
        two.kill()
        end_jobs(self.home)
        # The living masters do not wait for the dead one, and get what it had asked for
        quick = [name for name in ids if name != "stock-3007"]  # for which see below
        kept_promise(one, quick, self.minions)
        kept_promise(three, quick, self.minions)
        self.all_answer(one, ids)
        self.all_answer(three, ids)
        found = until(
            "the return",
            lambda: one.run("jobs.lookup_jid", jid) or three.run("jobs.lookup_jid", jid),
            20,
        )
        self.assertEqual(found, {"ours": "done"})
        self.assertEqual(lines(os.path.join(self.home, "mark")), ["ours"])

        two.up()
        # 3007 first works off, one after the other, the returns that it owes the one that was
        # dead: minutes on a busy machine, and nothing that a master can do about
        self.all_answer(two, [name for name in ids if name != "stock-3007"])
        self.assertEqual(one.salt("ours", "test.ping"), {"ours": True})

    def test_failover(self) -> None:
        """The first master is away at the start; minions come to it when it is there, and leave."""
        one, two, three = self.masters.all
        two.up()
        three.up()
        ids = self.start(
            "3006",
            "3007",
            "3008",
            "ours",
            master_type="failover",
            retry_dns=0,
            master_alive_interval=5,
            master_failback=True,
            master_failback_interval=5,
        )
        self.all_answer(two, ids)
        one.up()
        self.all_answer(one, ids)

        (jid,) = begin_jobs(one, self.home, ["ours"])
        one.kill()
        end_jobs(self.home)
        kept_promise(two, ["ours"], self.minions)
        found = until("the return", lambda: two.run("jobs.lookup_jid", jid), 20)
        self.assertEqual(found, {"ours": "done"})
        self.all_answer(two, ids)

        one.up()
        self.all_answer(one, ids)
        self.assertEqual(lines(os.path.join(self.home, "mark")), ["ours"])

    def test_schedule_and_calls(self) -> None:
        """The first master of the list is dead: scheduled states run, and calls are quick."""
        one, two, _ = self.masters.all
        self.masters.up()
        for master in self.masters.all:
            with open(os.path.join(master.file_root, "tick.sls"), "w") as handle:
                handle.write(f"echo tick >> {self.home}/ticks:\n  cmd.run\n")
        every = {"tick": {"function": "state.apply", "args": ["tick"], "seconds": 2}}
        self.start("ours", schedule=every)
        minion = self.minions["ours"]
        self.all_answer(two, ["ours"])
        ticks = os.path.join(self.home, "ticks")
        until("the schedule", lambda: len(lines(ticks)) > 0)

        one.kill()
        before = len(lines(ticks))
        in_time("the schedule", lambda: until("ticks", lambda: len(lines(ticks)) > before + 1))
        # With the daemon, and without one: a connection of its own to the first that answers
        in_time("a call through the daemon", lambda: self.state_call(minion))
        minion.kill()
        in_time("a call without the daemon", lambda: self.state_call(minion))

    def state_call(self, minion: OurMinion) -> None:
        """Our C{salt-call state.apply}, which needs a master for the file."""
        done = subprocess.run(
            [sys.executable, "-m", "saltwisted.cli.main", "salt-call", "-c", minion.conf,
             "state.apply", "tick"],
            capture_output=True, text=True, timeout=120, env=minion.env, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_one_set_of_keys(self) -> None:
        """Masters that start together make one identity; a key accepted at one counts at all."""
        shutil.rmtree(self.home)
        os.mkdir(self.home)
        self.masters = Masters(self.home, auto_accept=False)
        self.addCleanup(self.masters.kill)
        one, two, three = self.masters.up().all
        ids = self.start("3008", "ours")
        for minion in ids:
            until(f"the key of {minion}", lambda m=minion: m in two.keys()["minions_pre"])
        two.command("salt-key", "-y", "-A", check=True)
        for master in (one, two, three):
            self.all_answer(master, ids)
            self.assertEqual(master.keys()["minions"], sorted(ids))
        self.assertEqual(os.listdir(os.path.join(self.masters.pki, "minions_pre")), [])

        three.command("salt-key", "-y", "-d", "ours", check=True)

        # Another publish key for all, and no word for the minion that is out
        for master in (one, two, three):
            self.all_answer(master, ["stock-3008"])
            gone = master.command("salt", "-t", "1", "ours", "test.ping", "--out", "json")
            self.assertNotIn("true", gone.stdout)

    def test_ipv6(self) -> None:
        """A master on IPv6 alone; C{master} as C{[::1]:port}, as C{tcp://} and as bare address."""
        master = OurMaster(self.home, "six", interface="::1", ipv6=True, auto_accept=True)
        self.addCleanup(master.kill)
        master.up()
        stock = StockMinion(self.home, "3008", master, ipv6=True)
        write_config(os.path.join(stock.conf, "minion.d", "six.conf"), {"master": "::1"})
        self.minions = {stock.id: stock}
        for number, form in enumerate(("::1", f"[::1]:{master.ret_port}", "tcp://[::1]"), 1):
            ours = OurMinion(self.home, master, f"six{number}", ipv6=True)
            write_config(os.path.join(ours.conf, "minion.d", "six.conf"), {"master": form})
            self.minions[ours.id] = ours
        for minion in self.minions.values():
            self.addCleanup(minion.kill)
            minion.up()

        self.all_answer(master, list(self.minions))

    def test_signed_masters_by_a_function(self) -> None:
        """Masters with keys of their own under one signing key; a function says who they are."""
        one, two, _ = self.masters.all
        for master in (one, two):
            write_config(
                os.path.join(master.conf, "master.d", "sign.conf"),
                {"master_sign_pubkey": True, "cluster_id": None},
            )
        one.up()
        os.makedirs(two.pki, mode=0o700)
        for name in ("master_sign.pem", "master_sign.pub"):
            shutil.copy2(os.path.join(one.pki, name), os.path.join(two.pki, name))
        two.up()
        minion = OurMinion(self.home, one)
        write_config(
            os.path.join(minion.conf, "minion.d", "func.conf"),
            {"master": "who.leads", "master_type": "func", "verify_master_pubkey_sign": True},
        )
        pki = os.path.join(minion.root, "etc/salt/pki/minion")
        modules = os.path.join(minion.root, "var/cache/salt/minion/extmods/modules")
        for folder in (pki, modules):
            os.makedirs(folder, mode=0o700)
        shutil.copy2(os.path.join(one.pki, "master_sign.pub"), pki)
        with open(os.path.join(modules, "who.py"), "w") as handle:
            handle.write(f"def leads():\n    return {list(HOSTS[:2])!r}\n")
        self.addCleanup(minion.kill)
        self.minions[minion.id] = minion.up()
        self.all_answer(one, ["ours"])

        one.kill()
        kept_promise(two, ["ours"], self.minions)

        for host, master in zip(HOSTS, (one, two), strict=False):
            with open(os.path.join(pki, "minion_masters", f"{host}.pub")) as handle:
                kept = handle.read()
            with open(os.path.join(master.pki, "master.pub")) as handle:
                self.assertEqual(kept.split(), handle.read().split())
