"""
Masters that are killed, stopped and cut off at the worst moments, as real processes.

Three masters of ours with one identity. After each blow our minions answer from the others
within ten seconds more than a healthy one needs, none has ended, no job ran twice and no
return is lost. Stock minions do as well as they can: some blows they do not notice by design
(a stopped master under fail-over), and those they are spared.

With C{SALTWISTED_LONG=1} fifty fail-overs instead of three, and ten minutes without a master.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
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
    answers,
    begin_jobs,
    end_jobs,
    in_time,
    job,
    kept_promise,
    lines,
    whom_they_answer,
)
from tests.interop.network import Hub, needs_namespaces

LONG = os.environ.get("SALTWISTED_LONG") == "1"


class Rig(SynchronousTestCase):
    """Three masters and minions that know them."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.minions: dict[str, Any] = {}

    def begin(self, **options: Any) -> None:
        """Masters on loopback."""
        # Who is asked in vain, by a master that was started a moment ago, is not waited for
        self.masters = Masters(self.home, gather_job_timeout=1, publish_window=1, **options).up()
        self.addCleanup(self.masters.kill)

    def start(self, kind: str, name: str, inside: Any = None, **options: Any) -> Any:
        """A minion of this kind (a stock version or C{ours})."""
        master = self.masters[0]
        minion: Any = (
            OurMinion(self.home, master, name)
            if kind == "ours"
            else StockMinion(self.home, kind, master, name)
        )
        many = {"master": list(HOSTS), "auth_timeout": 3, **options}
        write_config(os.path.join(minion.conf, "minion.d", "many.conf"), many)
        if inside is not None:
            minion.argv = inside(minion.argv)
        self.addCleanup(minion.kill)
        self.minions[minion.id] = minion
        return minion.up()

    def answer(self, master: OurMaster, *names: str, within: float = 60) -> float:
        """Wait until these answer this master."""
        return all_answer(master, list(names or self.minions), self.minions, within)

    def kept(self, master: OurMaster, *names: str, more: float = 0) -> float:
        """These answer this master in time (L{kept_promise}); how long it took."""
        return kept_promise(master, list(names or self.minions), self.minions, more)

    def used(self, minion: str) -> OurMaster:
        """The master that a minion of ours uses under fail-over: the one it answers."""
        return until(
            f"{minion} to use a master",
            lambda: next((m for m in self.masters.all if self.connected(m, minion)), None),
            20,
        )

    def connected(self, master: OurMaster, minion: str) -> bool:
        """Whether it answers this one."""
        return master.running and answers(master, minion, wait=1)

    def returned(self, jid: str, *masters: OurMaster) -> Any:
        """The return of a job, at any of these masters."""
        return until(
            f"the return of {jid}",
            lambda: next((r for m in masters if (r := m.run("jobs.lookup_jid", jid))), None),
            30,
        )

    def lines(self, name: str) -> list[str]:
        """What a job has written."""
        return lines(os.path.join(self.home, name))


@needs_peers
class KillTests(Rig):
    """SIGKILL and SIGSTOP."""

    def test_in_the_middle(self) -> None:
        """During a job, right after publishing, during a file: nothing is lost, nothing twice."""
        self.begin()
        one, two, three = self.masters.all
        content = os.urandom(64_000_000)
        for master in self.masters.all:
            with open(os.path.join(master.file_root, "big"), "wb") as handle:
                handle.write(content)
        self.start("ours", "failover", master_type="failover")
        self.start("ours", "hot")
        self.answer(one)
        self.answer(two, "hot")
        self.answer(three, "hot")

        # During a job, and right after another was published
        mark = os.path.join(self.home, "mark")
        jids = begin_jobs(one, self.home, self.minions)
        late = [job(one, name, f"echo late-{name} >> {mark}; echo done") for name in self.minions]
        one.kill()
        end_jobs(self.home)
        self.kept(two)
        for jid, name in zip(jids, self.minions, strict=True):
            self.assertEqual(self.returned(jid, two, three), {name: "done"})

        # During a file transfer, from the master that gives the file
        targets = {name: os.path.join(self.home, f"got-{name}", "big") for name in self.minions}
        for target in targets.values():
            os.mkdir(os.path.dirname(target))
        got = {
            name: self.async_job(two, name, "cp.get_file", "salt://big", target)
            for name, target in targets.items()
        }
        until(
            "the files to come",
            lambda: all(os.listdir(os.path.dirname(target)) for target in targets.values()),
            every=0.02,
        )
        two.kill()
        self.kept(three)
        for name, jid in got.items():
            self.assertEqual(self.returned(jid, three), {name: targets[name]})
            with open(targets[name], "rb") as handle:
                digest = hashlib.sha256(handle.read()).digest()
            self.assertEqual(digest, hashlib.sha256(content).digest())

        # What was published at the last moment was sent or died with the master; it happens
        # once or never. Its return is at the master that acknowledged it.
        one.up()
        two.up()
        ran = self.lines("mark")
        for jid, name in zip(late, self.minions, strict=True):
            if f"late-{name}" in ran:
                self.assertEqual(self.returned(jid, one, two, three), {name: "done"})
        self.assertEqual(len(ran), len(set(ran)))

    def async_job(self, master: OurMaster, minion: str, *args: str) -> str:
        """Start something; its jid."""
        done = master.command("salt", "--async", minion, *args, "--out", "txt")
        return next(w for w in done.stdout.split() if w.isdigit() and len(w) == 20)

    def test_stopped(self) -> None:
        """A master that is stopped (SIGSTOP): ours leave it, also before and during sign-in."""
        self.begin()
        one, two, three = self.masters.all
        self.start("ours", "failover", master_type="failover")
        self.start("ours", "hot")
        for version in ("3006", "3007", "3008"):
            self.start(version, f"hot{version}")
        self.answer(one)
        for master in (two, three):
            self.answer(master, *(n for n in self.minions if n != "failover"))

        one.freeze()
        self.addCleanup(one.thaw)
        self.kept(two, "failover", "hot")
        self.answer(two)  # stock minions with a list as well
        self.start("ours", "new", master_type="failover")
        self.kept(two, "new", more=5)

        one.thaw()
        self.answer(one, *(n for n in self.minions if n not in ("failover", "new")))

    def test_to_and_fro(self) -> None:
        """Fail-overs in a row: each within the bound, no job twice, the process stays the same."""
        self.begin()
        minion = self.start("ours", "failover", master_type="failover")
        pid = minion.pid
        for number in range(50 if LONG else 3):
            used = self.used("failover")
            used.kill()
            in_time(
                f"fail-over {number}",
                lambda: until(
                    "another master",
                    lambda: any(self.connected(m, "failover") for m in self.masters.all),
                ),
            )
            used.up()
            self.assertTrue(minion.running)
            self.assertEqual(minion.pid, pid)

    def test_all_away(self) -> None:
        """No master at all for a while: nobody of ours ends, all come back; so do stock ones."""
        self.begin()
        self.start("ours", "failover", master_type="failover")
        self.start("ours", "hot")
        patient = {"master_tries": -1, "retry_dns": 1, "auth_tries": 20, "random_reauth_delay": 1}
        for version in ("3006", "3008"):
            # 3007 waits for dead masters with its returns, some minutes in all
            self.start(version, f"hot{version}", **patient)
        one, two, _ = self.masters.all
        self.answer(one)
        jids = begin_jobs(one, self.home, ("failover", "hot"))

        self.masters.kill()
        end_jobs(self.home)
        time.sleep(600 if LONG else 10)
        self.assertTrue(all(minion.running for minion in self.minions.values()))
        two.up()

        self.kept(two, "failover", "hot")
        for jid, name in zip(jids, ("failover", "hot"), strict=True):
            self.assertEqual(self.returned(jid, two), {name: "done"})
        self.assertEqual(sorted(self.lines("mark")), ["failover", "hot"])
        self.answer(two)

    def test_other_protocols(self) -> None:
        """Ports that answer nonsense, nothing, or hang up do not keep ours from the real master."""
        self.begin()
        _, _, three = self.masters.all
        for master in self.masters.all[:2]:
            master.kill()
        # The first speaks HTTP, the second says nothing at all
        for host, words in ((HOSTS[0], b"HTTP/1.0 400 Bad Request\r\n\r\n"), (HOSTS[1], b"")):
            for port in (self.masters.publish_port, self.masters.ret_port):
                self.addCleanup(_stranger(host, port, words))

        self.start("ours", "failover", master_type="failover")
        self.start("ours", "hot")

        self.kept(three, more=5)


def _stranger(host: str, port: int, words: bytes) -> Any:
    """Listen, and say this to everybody; returns how to end it."""
    server = socket.create_server((host, port))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            if words:
                client.sendall(words)
            held.append(client)

    threading.Thread(target=serve, daemon=True).start()

    def end() -> None:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for client in held:
            client.close()

    return end


@needs_peers
@needs_namespaces
class CutTests(Rig):
    """Hosts that are cut off, connections that die on the way, addresses that change."""

    def begin(self, **options: Any) -> None:
        """Masters on hosts of their own; minions find them by name."""
        self.hub = Hub(3)
        self.addCleanup(self.hub.remove)
        self.name_all()
        self.masters = Masters(self.home, ("0.0.0.0",) * 3, publish_window=1, **options)
        self.addCleanup(self.masters.kill)
        for master, host in zip(self.masters.all, self.hub.hosts, strict=True):
            master.argv = host.inside(master.argv)
        self.masters.up()

    def name_all(self) -> None:
        """The names say where the hosts are."""
        self.hub.names(**{f"m{n}": host.address for n, host in enumerate(self.hub.hosts, 1)})

    def known(self, kind: str, name: str, **options: Any) -> Any:
        """A minion in the hub."""
        return self.start(
            kind, name, inside=self.hub.inside, **{"master": ["m1", "m2", "m3"], **options}
        )

    def test_cut(self) -> None:
        """Everything is dropped on the way; a connection dies unnoticed; an address changes."""
        self.begin()
        one, two, three = self.masters.all
        first, second, _ = self.hub.hosts
        self.known("ours", "failover", master_type="failover")
        self.known("ours", "hot")
        keepalive = {"tcp_keepalive_idle": 5, "tcp_keepalive_cnt": 2, "tcp_keepalive_intvl": 2}
        for version in ("3006", "3007", "3008"):
            self.known(
                version,
                f"f{version}",
                master_type="failover",
                master_alive_interval=5,
                retry_dns=0,
                **keepalive,
            )
        ours = ("failover", "hot")
        self.answer(one)
        jids = begin_jobs(one, self.home, ours)

        first.drop()
        end_jobs(self.home)
        self.kept(two, *ours)
        for jid, name in zip(jids, ours, strict=True):
            self.assertEqual(self.returned(jid, two, three), {name: "done"})
        self.assertEqual(sorted(self.lines("mark")), sorted(ours))
        self.answer(two, within=90)  # stock minions by their TCP keepalive

        # The subscription of each minion is dead on the way, its requests are not
        first.heal()
        second.forget(self.masters.publish_port)
        in_time(
            "another subscription",
            lambda: until(
                "ours to answer again",
                lambda: all(whom_they_answer(self.masters.all, ours).values()),
            ),
        )
        second.heal()
        self.answer(two, "hot")

        # The master has another address, and after a while its name says so
        used = self.used("failover")
        host = self.hub.hosts[self.masters.all.index(used)]
        host.move()
        others = [master for master in self.masters.all if master is not used]
        in_time(
            "the fail-over from a host that has moved",
            lambda: until(
                "another master", lambda: whom_they_answer(others, ["failover"])["failover"]
            ),
        )
        self.name_all()
        self.answer(used, "hot", within=20)
