"""
C{transport: tcp} between us and stock Salt, as real processes, with TLS and without.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.certificates import Authority
from tests.harness import (
    OurMaster,
    OurMinion,
    StockMaster,
    StockMinion,
    needs_peers,
    scratch,
    until,
    write_config,
)
from tests.interop.masters import HOSTS, Masters, all_answer, kept_promise

LONG = os.environ.get("SALTWISTED_LONG") == "1"
VERSIONS = ("3006", "3007", "3008")
WITH_TLS = ("3006", "3008")
"""3007.15 sets C{SSLContext.protocol}, which Python 3.10 and later refuse: no TLS at all there."""


class Rig(SynchronousTestCase):
    """A directory, an authority, and daemons that are ended."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.authority = Authority(self.home)

    def ssl(self, name: str, *names: str, **more: Any) -> dict[str, Any]:
        """Salt's option, with a certificate of our authority."""
        issued = self.authority.issue(name, *names)
        return {**issued, "ca_certs": self.authority.ca, "cert_reqs": "CERT_REQUIRED", **more}

    def daemon(self, made: Any) -> Any:
        """Start it, end it after the test."""
        self.addCleanup(made.kill)
        return made.up()


@needs_peers
class OurMasterTests(Rig):
    """Stock minions and ours under our master."""

    def check(self, master: OurMaster, ids: list[str]) -> None:
        """Jobs for all, for some by name, and for some by grains; files go out in pieces."""
        with open(os.path.join(master.file_root, "big"), "wb") as handle:
            handle.write(os.urandom(3_000_000))
        for minion in ids:
            master.ping_until(minion)
        answers = master.salt("*", "test.ping")
        self.assertEqual(answers, dict.fromkeys(ids, True))
        self.assertEqual(master.salt("-L", ",".join(ids), "test.ping"), answers)
        self.assertEqual(master.salt(ids[0], "test.echo", "x"), {ids[0]: "x"})
        self.assertEqual(master.salt("-G", "role:web", "test.ping"), answers)
        hashes = master.salt("*", "cp.hash_file", "salt://big")
        copies = master.salt("*", "cp.cache_file", "salt://big")
        self.assertEqual({m for m, path in copies.items() if path}, set(ids))
        self.assertEqual(len({str(h["hsum"]) for h in hashes.values()}), 1)

    def test_plain(self) -> None:
        """Three stock versions and ours, and all of them again after the master was killed."""
        master = self.daemon(OurMaster(self.home, transport="tcp", auto_accept=True))
        for version in VERSIONS:
            self.daemon(StockMinion(self.home, version, master, transport="tcp"))
        self.daemon(OurMinion(self.home, master, transport="tcp"))
        ids = [f"stock-{version}" for version in VERSIONS] + ["ours"]
        self.check(master, ids)
        present = master.run("manage.present")
        self.assertEqual(sorted(present), sorted(ids))

        master.kill()
        master.up()

        for minion in ids:
            master.ping_until(minion)

    def test_tls(self) -> None:
        """The same inside TLS with client certificates; without one nobody gets in."""
        master = self.daemon(
            OurMaster(
                self.home,
                transport="tcp",
                auto_accept=True,
                ssl=self.ssl("master", "localhost", "127.0.0.1"),
            )
        )
        for version in WITH_TLS:
            options = self.ssl(f"stock-{version}")
            self.daemon(StockMinion(self.home, version, master, transport="tcp", ssl=options))
        self.daemon(OurMinion(self.home, master, transport="tcp", ssl=self.ssl("ours")))
        bare = {"ca_certs": self.authority.ca, "cert_reqs": "CERT_REQUIRED"}
        self.daemon(OurMinion(self.home, master, "bare", transport="tcp", ssl=bare))
        stranger = OurMinion(self.home, master, "plain", transport="tcp")
        self.daemon(stranger)

        ids = [f"stock-{version}" for version in WITH_TLS] + ["ours"]
        self.check(master, ids)

        self.assertEqual(sorted(master.keys()["minions"]), sorted(ids))
        self.assertTrue(stranger.running)

    def test_failover(self) -> None:
        """A minion of ours leaves a tcp master that is killed, and one that hangs."""
        masters = Masters(self.home, transport="tcp").up()
        self.addCleanup(masters.kill)
        minion = OurMinion(self.home, masters[0], transport="tcp", master_type="failover")
        many = os.path.join(minion.conf, "minion.d", "many.conf")
        write_config(many, {"master": list(HOSTS)})
        self.daemon(minion)
        all_answer(masters[0], ["ours"], {"ours": minion})

        masters[0].kill()
        kept_promise(masters[1], ["ours"], {"ours": minion})

        masters[1].freeze()
        self.addCleanup(masters[1].thaw)
        kept_promise(masters[2], ["ours"], {"ours": minion})


@needs_peers
class StockMasterTests(Rig):
    """Our minion under stock masters."""

    def check(self, version: str, ssl: bool) -> None:
        """Signed in, given a job by name, a file, and found again after a restart."""
        options: dict[str, Any] = {"transport": "tcp"}
        if version == "3008":
            options["worker_pools_enabled"] = False  # with them nobody can sign in by tcp
        master = StockMaster(
            self.home,
            version,
            **options,
            **({"ssl": self.ssl("master", "localhost", "127.0.0.1")} if ssl else {}),
        )
        self.addCleanup(shutil.rmtree, master.root, ignore_errors=True)
        self.daemon(master)
        with open(os.path.join(master.file_root, "f"), "w") as handle:
            handle.write("content\n")
        minion = OurMinion(
            self.home,
            master,
            transport="tcp",
            saltwisted_unsigned_publications=True,
            **({"ssl": self.ssl("ours")} if ssl else {}),
        )
        self.daemon(minion)
        master.accept("ours")
        until(
            "an answer",
            lambda: (
                "true"
                in master.command("salt", "-t", "3", "ours", "test.ping", "--out=json").stdout
            ),
        )
        self.assertEqual(master.salt("ours", "cp.get_file_str", "salt://f"), {"ours": "content\n"})

    def test_3006_tls(self) -> None:
        """3006, inside TLS."""
        if not LONG:
            raise SkipTest("SALTWISTED_LONG is not set: 3007 and 3008 alone")
        self.check("3006", True)

    def test_3007(self) -> None:
        """3007."""
        self.check("3007", False)

    def test_3008_tls(self) -> None:
        """3008, inside TLS."""
        self.check("3008", True)
