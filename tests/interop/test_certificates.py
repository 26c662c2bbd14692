"""
C{ca_server}: a minion signs the certificates of others, who ask it through the master.

One minion of ours and one of stock's, each of which is an authority and asks the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cryptography import x509
from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, OurMinion, StockMinion, needs_peers, scratch
from tests.modules.certs import AUTHORITY, OWN

OURS, STOCK = "ours", "stock-3008"
STATES = """
{% set other = pillar['other'] %}
mine:
  x509.certificate_managed:
    - name: {{ pillar['folder'] }}/{{ grains['id'] }}.crt
    - ca_server: {{ other }}
    - signing_policy: {{ pillar.get('policy', 'www') }}
    - private_key: {{ pillar['folder'] }}/own.key
    - CN: {{ grains['id'] }}.example.org
    - O: Them
"""


def outcome(answer: Any) -> Any:
    """The result, the comment and the changes of the state, beside which its file is told."""
    (state,) = (one for tag, one in answer.items() if tag.startswith("x509_|-"))
    return state["result"], state["comment"], state["changes"]


@needs_peers
class AuthorityTests(SynchronousTestCase):
    """Under our master."""

    def setUp(self) -> None:
        self.home = scratch(self)
        self.folder = Path(self.home, "certs")
        self.folder.mkdir()
        for name, text in (("ca.key", AUTHORITY), ("own.key", OWN)):
            (self.folder / name).write_text(text)
        policy = {
            "signing_private_key": str(self.folder / "ca.key"),
            "signing_cert": str(self.folder / "ca.crt"),
            "O": "Us",
            "days_valid": 400,
            "basicConstraints": "critical, CA:FALSE",
            "minions": "*",
        }
        options = {
            "x509_signing_policies": {"www": policy, "few": {**policy, "minions": "db*"}},
            "log_level": "warning",
        }
        peer = {".*": ["x509.sign_remote_certificate"]}
        self.master = OurMaster(self.home, peer=peer, auto_accept=True)
        self.addCleanup(self.master.kill)
        Path(self.master.file_root, "cert.sls").write_text(STATES)
        self.master.up()
        self.minions: list[Any] = [
            OurMinion(self.home, self.master, OURS, **options),
            StockMinion(self.home, "3008", self.master, STOCK, **options),
        ]
        for minion in self.minions:
            self.addCleanup(minion.kill)
            minion.up()
        for minion in self.minions:
            self.master.ping_until(minion.id)

    def applied(self, minion: str, other: str, *words: str, **pillar: Any) -> Any:
        given = {"other": other, "folder": str(self.folder), **pillar}
        text = f"pillar={json.dumps(given)}"
        return outcome(self.master.salt(minion, "state.apply", "cert", text, *words)[minion])

    def test_eachAsksTheOther(self) -> None:
        """
        Ours signs for stock's and stock's for ours; the policy of the signer stands, a second run
        changes nothing, and who may not is told the same.
        """
        made = self.master.salt(
            OURS, "x509.create_certificate", f"signing_private_key={self.folder}/ca.key",
            "CN=CA", "basicConstraints=critical, CA:TRUE", f"path={self.folder}/ca.crt",
        )  # fmt: skip
        self.assertTrue((self.folder / "ca.crt").exists(), made)
        pairs = ((OURS, STOCK), (STOCK, OURS))

        planned = [self.applied(*pair, "test=True") for pair in pairs]
        first = [self.applied(*pair) for pair in pairs]
        again = [self.applied(*pair) for pair in pairs]
        refused = [self.applied(*pair, policy="few") for pair in pairs]
        unknown = [self.applied(*pair, policy="nosuch") for pair in pairs]

        for answers in (planned, first, again, refused, unknown):
            mine, theirs = (json.dumps(answer) for answer in answers)
            self.assertEqual(mine.replace(OURS, "ID"), theirs.replace(STOCK, "ID"))
        self.assertEqual([one[0] for one in (planned[0], first[0], again[0])], [None, True, True])
        self.assertEqual((again[0][2], refused[0][0], unknown[0][0]), ({}, False, False))
        for minion in (OURS, STOCK):
            cert = x509.load_pem_x509_certificate((self.folder / f"{minion}.crt").read_bytes())
            names = {each.rfc4514_attribute_name: each.value for each in cert.subject}
            self.assertEqual(names, {"O": "Us", "CN": f"{minion}.example.org"})
            self.assertEqual(cert.issuer.rfc4514_string(), "CN=CA")
