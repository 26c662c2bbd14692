"""
Masters behind the balancers whose configurations we ship, real ones: HAProxy and nginx.

What is tested are C{etc/haproxy.cfg} and C{etc/nginx-stream.conf} themselves, with other
addresses and ports in them, and shorter times where a test must not wait for long.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from typing import Any, Protocol

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import (
    ROOT,
    Daemon,
    OurMinion,
    StockMinion,
    needs_peers,
    scratch,
    until,
    write_config,
)
from tests.interop.masters import HOSTS, Masters
from tests.interop.storm import LONG, SECONDS, Storm

PROXY = "127.0.0.9"
VERSIONS = ("3006", "3007", "3008")


class Ports(Protocol):
    """What all masters behind a balancer have in common."""

    publish_port: int
    ret_port: int


def shipped(name: str, masters: Ports, **changes: str) -> str:
    """The text of a configuration that we ship, for these masters."""
    with open(os.path.join(ROOT, "etc", name)) as handle:
        text = handle.read()
    for number, host in enumerate(HOSTS, 1):
        text = text.replace(f"10.0.0.1{number}:", f"{host}:")
    text = text.replace("4505", str(masters.publish_port)).replace("4506", str(masters.ret_port))
    for old, new in changes.items():
        assert old.replace("_", " ") in text, old
        text = re.sub(rf"{old.replace('_', ' ')} \S+", f"{old.replace('_', ' ')} {new}", text)
    return text


class Balanced(SynchronousTestCase):
    """A balancer in front of masters."""

    home: str

    def daemon(self, masters: Ports, name: str, *argv: str) -> Daemon:
        """Start a balancer."""
        made = Daemon(name, list(argv), self.home)
        self.addCleanup(made.kill)
        made.start()

        def open_for_all() -> bool:
            if not made.running:
                raise AssertionError(f"{name} ended:\n{made.tail()}")
            with socket.socket() as sock:
                return sock.connect_ex((PROXY, masters.ret_port)) == 0

        until(f"{name} to listen", open_for_all, 15)
        return made

    def haproxy(self, masters: Ports, **changes: str) -> Daemon:
        """HAProxy with the shipped file."""
        text = shipped("haproxy.cfg", masters, **changes)
        text = text.replace("bind :", f"bind {PROXY}:").replace("log /dev/log local0", "")
        text = text.replace("fd-hard-limit 100000", "maxconn 2000").replace("option tcplog", "")
        text = text.replace("daemon", f"stats socket {self.home}/stats").replace("log global", "")
        text = re.sub(r"(?m)^    (user|group) haproxy$", "", text)
        path = os.path.join(self.home, "haproxy.cfg")
        with open(path, "w") as handle:
            handle.write(text)
        return self.daemon(masters, "haproxy", _program("haproxy"), "-db", "-f", path)


@needs_peers
class BalancerTests(Balanced):
    """Minions that know one address, which is no master's."""

    def setUp(self) -> None:
        self.home = scratch(self)
        # Heartbeats of the masters a second apart, to see that they outlive short times
        self.masters = Masters(self.home, zmq_heartbeat_ivl=1000, gather_job_timeout=1).up()
        self.addCleanup(self.masters.kill)
        for master in self.masters.all:
            with open(os.path.join(master.file_root, "f"), "wb") as handle:
                handle.write(b"x" * 600_000)
        self.minions: dict[str, Any] = {}

    def start(self, *versions: str) -> None:
        """Stock minions and ours, at the balancer."""
        for version in versions:
            stock = StockMinion(self.home, version, self.masters[0])
            self.minions[stock.id] = stock
        ours = OurMinion(self.home, self.masters[0])
        self.minions[ours.id] = ours
        for minion in self.minions.values():
            self.addCleanup(minion.kill)
            write_config(os.path.join(minion.conf, "minion.d", "proxy.conf"), {"master": PROXY})
            minion.up()

    def everywhere(self, *args: str) -> dict[str, Any]:
        """A job given to every node; all answers, wherever they arrived."""
        jids = []
        for master in self.masters.all:
            done = master.command("salt", "--async", "*", *args, "--out", "txt")
            jids += [w for w in done.stdout.split() if w.isdigit() and len(w) == 20]
        self.assertEqual(len(jids), len(HOSTS))
        found: dict[str, Any] = {}

        def all_there() -> bool:
            for master in self.masters.all:
                for jid in jids:
                    found.update(master.run("jobs.lookup_jid", jid) or {})
            return set(found) == set(self.minions)

        until(f"{args} from {sorted(self.minions)}", all_there, 30)
        return found

    def check(self) -> None:
        """Sign-in and requests on any node; jobs given to every node reach everybody once."""
        for minion in self.minions:
            until(
                f"the key of {minion}",
                lambda m=minion: m in self.masters[0].keys()["minions"],
            )
        until("all minions", self.all_here, 60)
        self.assertEqual(self.everywhere("test.ping"), dict.fromkeys(self.minions, True))
        # A file comes in pieces, which different nodes serve under one session
        hashes = self.everywhere("cp.hash_file", "salt://f")
        paths = self.everywhere("cp.cache_file", "salt://f")
        self.assertTrue(all(paths.values()), paths)
        self.assertEqual(len({str(h["hsum"]) for h in hashes.values()}), 1)
        # A session that one node gave is good at the others
        served = [m.control().call("status")["sessions"] for m in self.masters.all]
        self.assertTrue(all(served), served)
        self.assertGreater(sum(served), len(self.minions))

    def all_here(self) -> bool:
        """Whether each minion answers some node."""
        here: set[str] = set()
        for master in self.masters.all:
            done = master.command("salt", "-t", "2", "*", "test.ping", "--out", "txt")
            here |= {m for m in self.minions if f"{m}: True" in done.stdout}
            # Answers arrive at any node; the one that asked may not hear of them
            for jid, job in (master.run("jobs.list_jobs") or {}).items():
                if job.get("Function") == "test.ping":
                    for other in self.masters.all:
                        here |= set(other.run("jobs.lookup_jid", jid) or {})
        return here == set(self.minions)

    def stats(self) -> dict[tuple[str, str], dict[str, str]]:
        """HAProxy's own figures, by proxy and server."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(os.path.join(self.home, "stats"))
            sock.sendall(b"show stat\n")
            text = b"".join(iter(lambda: sock.recv(65536), b"")).decode("latin-1")
        lines = [line.split(",") for line in text.lstrip("# ").splitlines() if line]
        return {(line[0], line[1]): dict(zip(lines[0], line, strict=False)) for line in lines[1:]}

    def test_haproxy(self) -> None:
        """Round robin over three masters; idle connections live; a stopped master is taken out."""
        self.haproxy(self.masters, timeout_client="5s", timeout_server="5s")
        self.start(*VERSIONS)
        self.check()
        stats = self.stats()
        for side in ("salt_publish", "salt_requests"):
            for server in ("m1", "m2", "m3"):
                self.assertGreater(int(stats[side, server]["stot"]), 0, (side, server))

        # Twice the time after which HAProxy ends a connection in which nothing moves
        def connections() -> int:
            return int(self.stats()["salt_publish", "FRONTEND"]["stot"])

        before = connections()
        time.sleep(11)
        self.assertEqual(connections(), before)

        frozen = self.masters[1]
        frozen.freeze()
        self.addCleanup(frozen.thaw)
        for side in ("salt_publish", "salt_requests"):
            until(
                "the stopped master to be out",
                lambda s=side: self.stats()[s, "m2"]["status"].startswith("DOWN"),
                20,
            )
            until("its connections to end", lambda s=side: self.stats()[s, "m2"]["scur"] == "0", 5)
        frozen.thaw()
        for side in ("salt_publish", "salt_requests"):
            until(
                "the master to be back",
                lambda s=side: self.stats()[s, "m2"]["status"].startswith("UP"),
                20,
            )

    def test_nginx(self) -> None:
        """The same sign-ins, requests and jobs through nginx."""
        module = "/usr/lib/nginx/modules/ngx_stream_module.so"
        text = shipped("nginx-stream.conf", self.masters).replace("listen ", f"listen {PROXY}:")
        text = (
            f"load_module {module};\ndaemon off;\npid {self.home}/nginx.pid;\n"
            f"error_log {self.home}/nginx.error;\nevents {{ }}\n{text}"
        )
        if os.geteuid() == 0:
            text = "user root;\n" + text
        path = os.path.join(self.home, "nginx.conf")
        with open(path, "w") as handle:
            handle.write(text)
        self.daemon(self.masters, "nginx", _program("nginx"), "-p", self.home, "-c", path)
        self.start("3008")
        self.check()


@needs_peers
class BalancedKillTests(Balanced, Storm):
    """The kill test of a cluster with minions that know one address, which is not a node's."""

    def test_kill_and_stop(self) -> None:
        """No return is lost and no job runs twice while nodes behind HAProxy fail."""
        self.begin()
        self.haproxy(self.nodes[0])
        for number in (1, 2):
            self.minion("3008", f"stock-{number}", master=PROXY)
        self.minion("ours", "ours-1", master=PROXY)
        self.fleet(100, master=PROXY)
        self.accept()
        # A stopped node is taken out after four seconds, and all at it come back to another one
        self.judge(SECONDS if LONG else SECONDS / 2, reached=0.5)


def _program(name: str) -> str:
    """Where a balancer is; missing is a failure, not a skip."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise AssertionError(f"{name} is not installed")
    return found
