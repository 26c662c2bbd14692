"""
Masters with keys of their own, and one signing key that vouches for them: stock minions and ours.
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
    peer_venv,
    reserve_ports,
    scratch,
    until,
    write_config,
)
from tests.interop.masters import HOSTS, all_answer

VERSIONS = ("3006", "3007", "3008")
TRUST = {"verify_master_pubkey_sign": True, "always_verify_signature": True}


@needs_peers
class SignedMastersTests(SynchronousTestCase):
    """C{master_sign_pubkey} and what belongs to it."""

    def setUp(self) -> None:
        self.home = scratch(self)
        publish, ret = reserve_ports(2)
        self.masters = []
        for number, host in enumerate(HOSTS[:2], 1):
            master = OurMaster(
                self.home,
                f"m{number}",
                interface=host,
                publish_port=publish,
                ret_port=ret,
                auto_accept=True,
            )
            master.publish_port, master.ret_port = publish, ret
            with open(os.path.join(master.pillar_root, "top.sls"), "w") as handle:
                handle.write("base: {'*': [who]}\n")
            with open(os.path.join(master.pillar_root, "who.sls"), "w") as handle:
                handle.write(f"who: m{number}\n")
            self.addCleanup(master.kill)
            self.masters.append(master)
        self.minions: dict[str, Any] = {}

    def options(self, master: OurMaster, **options: Any) -> None:
        """Settings of a master, from its next start on."""
        write_config(os.path.join(master.conf, "master.d", "sign.conf"), options)

    def start(self, kind: str, name: str, signer: str, **options: Any) -> Any:
        """A minion that trusts this signing key."""
        one = self.masters[0]
        minion: Any = (
            OurMinion(self.home, one, name)
            if kind == "ours"
            else StockMinion(self.home, kind, one, name)
        )
        pki = os.path.join(minion.root, "etc/salt/pki/minion" if kind == "ours" else "pki")
        os.makedirs(pki, mode=0o700)
        shutil.copy2(signer, os.path.join(pki, "master_sign.pub"))
        settings = {"master": list(HOSTS[:2]), "master_type": "failover", **TRUST, **options}
        write_config(os.path.join(minion.conf, "minion.d", "sign.conf"), settings)
        self.addCleanup(minion.kill)
        return minion.up()

    def by_stock(self, master: OurMaster) -> bytes:
        """The signature that 3008's C{salt-key} makes for this master: over one newline more."""
        pki = os.path.join(self.home, "stockpki")
        os.makedirs(pki, mode=0o700)
        for name in ("master.pem", "master.pub", "master_sign.pem", "master_sign.pub"):
            shutil.copy2(os.path.join(master.pki, name), pki)
        conf = os.path.join(self.home, "stockconf")
        settings = {
            "root_dir": self.home,
            "pki_dir": pki,
            "id": "signer",
            "log_file": "/signer.log",
        }
        write_config(os.path.join(conf, "master"), {**settings, "master_sign_pubkey": True})
        program = f"{peer_venv('3008')}/bin/salt-key"
        done = subprocess.run(
            [program, "-c", conf, "--gen-signature"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": ""},
            check=False,
        )
        path = os.path.join(pki, "signer_pubkey_signature")
        self.assertTrue(os.path.exists(path), done.stdout + done.stderr)
        with open(path, "rb") as handle:
            return handle.read()

    def test_signatures(self) -> None:
        """
        Signed at once, by a file of ours with and without a newline, by a file of 3008's: stock
        minions and ours believe it, also after a fail-over to a master with another key, whose
        pillar they can read. With another signing key nobody signs in.
        """
        one, two = self.masters
        one.up()
        done = one.command("salt-key", "--gen-signature", "--auto-create")
        self.assertEqual(done.returncode, 0, done.stderr)
        path = os.path.join(one.pki, "m1_master_pubkey_signature")
        with open(path, "rb") as handle:
            ours = handle.read()
        self.assertTrue(ours.endswith(b"\n"))
        one.kill()
        signer = os.path.join(one.pki, "master_sign.pub")
        other = os.path.join(self.home, "other")
        os.makedirs(os.path.join(other, "pki"))
        write_config(os.path.join(other, "master"), {"pki_dir": f"{other}/pki", "id": "other"})
        for name in ("master.pem", "master.pub"):
            shutil.copy2(os.path.join(one.pki, name), os.path.join(other, "pki"))
        made = subprocess.run(
            [
                sys.executable,
                "-m",
                "saltwisted.cli.main",
                "salt-key",
                "-c",
                other,
                "--gen-signature",
                "--auto-create",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env=one.env,
            check=False,
        )
        wrong = os.path.join(other, "pki", "master_sign.pub")
        self.assertTrue(os.path.exists(wrong), made.stdout + made.stderr)

        self.options(one, master_sign_pubkey=True)
        one.up()
        alive = {"master_alive_interval": 3, "retry_dns": 0}
        for version in VERSIONS:
            name = f"s{version}"
            self.minions[name] = self.start(version, name, signer, **alive)
        self.minions["ours"] = self.start("ours", "ours", signer)
        strangers = [
            self.start("3006", "wrong3006", wrong),
            self.start("3008", "wrong3008", wrong),
            self.start("ours", "wrongours", wrong),
        ]
        ids = list(self.minions)
        all_answer(one, ids, self.minions)

        with_file = {"master_sign_pubkey": True, "master_use_pubkey_signature": True}
        name = "signature.b64"
        for content in (ours, ours.rstrip(b"\n"), self.by_stock(one)):
            one.kill()
            with open(os.path.join(one.pki, name), "wb") as handle:
                handle.write(content)
            self.options(one, **with_file, master_pubkey_signature=name)
            one.up()
            all_answer(one, ids, self.minions)

        # The next master has another key; it needs the signing key alone
        self.options(two, master_sign_pubkey=True)
        os.makedirs(two.pki, mode=0o700)
        for key in ("master_sign.pem", "master_sign.pub"):
            shutil.copy2(os.path.join(one.pki, key), two.pki)
        two.up()
        one.kill()
        all_answer(two, ids, self.minions, 90)
        pillars: dict[str, Any] = {}

        def from_the_second() -> bool:
            two.salt("-L", ",".join(ids), "saltutil.refresh_pillar")
            # 3008 and ours show no values of a pillar
            pillars.update(two.salt("-L", ",".join(ids), "match.pillar", "who:m2"))
            return all(pillars.get(name) is True for name in ids)

        try:
            until("the pillar of the second master", from_the_second, 30)
        except AssertionError as error:
            logs = "\n".join(f"-- {m.id}\n{m.tail(15)}" for m in self.minions.values())
            raise AssertionError(f"{error}\n{pillars}\n{logs}") from None

        for stranger in strangers:
            self.assertIn("sign", stranger.text().lower())
            # It may not even have come so far that the master knows its key
            done = two.command("salt", "-t", "1", stranger.id, "test.ping")
            self.assertNotIn("True", done.stdout)

    def test_signature_of_another_key(self) -> None:
        """A master whose signature file does not fit does not start, and says so."""
        one = self.masters[0]
        one.up()
        one.command("salt-key", "--gen-signature", "--auto-create", check=True)
        one.kill()
        self.options(one, master_sign_pubkey=True, master_use_pubkey_signature=True)
        for name in ("master.pem", "master.pub"):
            os.unlink(os.path.join(one.pki, name))
        one.start()

        until("its end", lambda: not one.running)

        self.assertIn(
            "m1_master_pubkey_signature is not a signature of this master's key", one.text()
        )
