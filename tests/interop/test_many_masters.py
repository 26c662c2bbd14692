"""
Three masters of ours with one identity, as real processes, under minions that know all three.

Stock minions 3006 and 3008 and one of ours, each once with a list (hot) and once with
C{master_type: failover}. The masters are at 127.0.0.1, .2 and .3 with equal ports, since
stock minions tell masters apart by their addresses' text.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import (
    OurMaster,
    OurMinion,
    StockMinion,
    needs_peers,
    reserve_ports,
    scratch,
    until,
    write_config,
)

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


class Masters:
    """Three masters; only the key pair is shared, each keeps its own jobs and minion keys."""

    def __init__(self, home: str) -> None:
        publish, ret = reserve_ports(2)
        self.all = [
            OurMaster(
                home,
                f"m{number}",
                interface=host,
                publish_port=publish,
                ret_port=ret,
                auto_accept=True,
            )
            for number, host in enumerate(HOSTS, 1)
        ]
        first = self.all[0]
        for master in self.all:
            master.publish_port, master.ret_port = publish, ret
        first.up()
        for master in self.all[1:]:
            os.makedirs(master.pki, mode=0o700)
            for name in ("master.pem", "master.pub"):
                shutil.copy2(os.path.join(first.pki, name), os.path.join(master.pki, name))

    def __getitem__(self, number: int) -> OurMaster:
        return self.all[number]

    def kill(self) -> None:
        """End them all."""
        for master in self.all:
            master.kill()


def answers(master: OurMaster, *ids: str) -> bool:
    """Whether all these minions answer a ping of this master."""
    got = master.command("salt", "-t", "2", "-L", ",".join(ids), "test.ping", "--out", "json")
    return all(f'"{minion}": true' in got.stdout for minion in ids)


def job(master: OurMaster, minion: str, command: str) -> str:
    """Start a command on a minion; its jid."""
    done = master.command("salt", "--async", minion, "cmd.run", command, "--out", "txt")
    return next(w for w in done.stdout.split() if w.isdigit() and len(w) == 20)


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
        began = time.monotonic()
        try:
            until(f"{ids} to answer {master.name}", lambda: answers(master, *ids), seconds)
        except AssertionError as error:
            logs = "\n".join(f"-- {m.id}\n{m.tail(12)}" for m in self.minions.values())
            raise AssertionError(f"{error}\n{logs}") from None
        for minion in self.minions.values():
            self.assertTrue(minion.running, minion.tail())
        return time.monotonic() - began

    def test_hot(self) -> None:
        """Started in any order, all are served by all; one is killed in a job and comes back."""
        one, two, three = self.masters.all
        three.up()  # the second is not there yet
        ids = self.start("3006", "3008", "ours")
        self.all_answer(one, ids)
        self.all_answer(three, ids)
        two.up()
        self.all_answer(two, ids)

        mark = os.path.join(self.home, "mark")
        jid = job(two, "ours", f"sleep 2; echo x >> {mark}; echo done")
        until("the job", lambda: jid in str(two.salt("ours", "saltutil.running")))
        two.kill()
        # The living masters do not wait for the dead one, and get what it had asked for
        self.all_answer(one, ids, 10)
        self.all_answer(three, ids, 10)
        found = until(
            "the return",
            lambda: one.run("jobs.lookup_jid", jid) or three.run("jobs.lookup_jid", jid),
            20,
        )
        self.assertEqual(found, {"ours": "done"})
        with open(mark) as handle:
            self.assertEqual(handle.read(), "x\n")

        two.up()
        self.all_answer(two, ids)
        self.assertEqual(one.salt("ours", "test.ping"), {"ours": True})

    def test_failover(self) -> None:
        """The first master is away at the start; minions come to it when it is there, and leave."""
        one, two, three = self.masters.all
        one.kill()
        two.up()
        three.up()
        ids = self.start(
            "3006",
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

        mark = os.path.join(self.home, "mark")
        jid = job(one, "ours", f"sleep 2; echo x >> {mark}; echo done")
        until("the job", lambda: jid in str(one.salt("ours", "saltutil.running")))
        one.kill()
        took = self.all_answer(two, ["ours"], 13)
        self.assertLess(took, 13)
        found = until("the return", lambda: two.run("jobs.lookup_jid", jid), 20)
        self.assertEqual(found, {"ours": "done"})
        self.all_answer(two, ids)

        one.up()
        self.all_answer(one, ids)
        with open(mark) as handle:
            self.assertEqual(handle.read(), "x\n")

    def test_signed_masters_by_a_function(self) -> None:
        """Masters with keys of their own under one signing key; a function says who they are."""
        one, two, _ = self.masters.all
        one.kill()
        for name in ("master.pem", "master.pub"):
            os.unlink(os.path.join(two.pki, name))
        for master in (one, two):
            write_config(
                os.path.join(master.conf, "master.d", "sign.conf"), {"master_sign_pubkey": True}
            )
        one.up()
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
        self.all_answer(two, ["ours"], 13)

        for host, master in zip(HOSTS, (one, two), strict=False):
            with open(os.path.join(pki, "minion_masters", f"{host}.pub")) as handle:
                kept = handle.read()
            with open(os.path.join(master.pki, "master.pub")) as handle:
                self.assertEqual(kept.split(), handle.read().split())
