"""
C{salt.utils.x509} and C{salt.utils.minions} of site modules, as extensions call them.
"""

from __future__ import annotations

import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.compat.utils import minions
from saltwisted.compat.utils import x509 as util
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError


def name(text: str) -> x509.Name:
    """A name with this common name."""
    return x509.Name([x509.NameAttribute(util.NAME_ATTRS_OID["CN"], text)])


class BuilderTests(SynchronousTestCase):
    """A certificate beside a builder that has not signed yet."""

    def setUp(self) -> None:
        """A key, and a certificate that it signed itself."""
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.cert = self.builder().sign(self.key, hashes.SHA256())

    def builder(self, subject: str = "a", issuer: str = "a", key: Any = None) -> Any:
        """One that makes the certificate, or another."""
        begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key((key or self.key).public_key())
            .serial_number(7)
            .not_valid_before(begin)
            .not_valid_after(begin + datetime.timedelta(days=9))
            .add_extension(x509.BasicConstraints(True, None), critical=True)
        )

    def test_same(self) -> None:
        """Nothing differs from the builder that made it; its times are not looked at."""
        later = self.builder().add_extension(*util._create_freshest_crl([{"fullname": "uri:x"}]))

        self.assertEqual(util._compare_cert(self.cert, self.builder(), self.cert, 7, 1, 2), {})
        self.assertEqual(
            util._compare_cert(self.cert, later, None, None, None, None),
            {"extensions": {"added": ["freshestCRL"], "changed": [], "removed": []}},
        )

    def test_differs(self) -> None:
        """Key, names, signer and a serial number that was asked for are told of, as by states."""
        other = ec.generate_private_key(ec.SECP256R1())
        signer = self.builder(key=other).sign(other, hashes.SHA256())

        found = util._compare_cert(self.cert, self.builder("b", "c", other), signer, 7, None, None)
        self.assertEqual(
            found,
            {
                "private_key": True,
                "signing_private_key": True,
                "subject_name": "CN=b",
                "issuer_name": "CN=c",
            },
        )
        builder = self.builder()
        builder._serial_number = 8
        self.assertEqual(
            util._compare_cert(self.cert, builder, None, 8, None, None), {"serial_number": 8}
        )
        self.assertEqual(util._compare_cert(self.cert, builder, None, None, None, None), {})

    def test_no_builder(self) -> None:
        """What does not show what it was given is named."""
        error = self.assertRaises(
            CommandExecutionError, util._compare_cert, self.cert, 5, None, None, None, None
        )
        self.assertIn("_serial_number from int", str(error))

    def test_written(self) -> None:
        """PEM and DER of a certificate are those of the library, and are read back."""
        pem, der = util.to_pem(self.cert), util.to_der(self.cert)

        self.assertTrue(pem.startswith(b"-----BEGIN CERTIFICATE-----"))
        self.assertEqual([util.load_cert(each) for each in (pem, der)], [self.cert] * 2)


class ExtensionTests(SynchronousTestCase):
    """Extensions and names from what a state says of them."""

    def test_made(self) -> None:
        """Each comes with whether it is critical."""
        access, access_critical = util._create_authority_info_access(
            [{"OCSP": "uri:http://o"}, {"caIssuers": "uri:http://c"}]
        )
        points, points_critical = util._create_crl_distribution_points(
            ["critical", {"fullname": "uri:http://p"}]
        )

        self.assertEqual([each.access_location.value for each in access], ["http://o", "http://c"])
        self.assertEqual([point.full_name[0].value for point in points], ["http://p"])
        self.assertEqual((access_critical, points_critical), (False, True))

    def test_names(self) -> None:
        """Names of all kinds but C{othername}, which is refused in stock's words."""
        found = util._parse_general_names(
            [("dns", "*.a.b"), ("IP", "10.0.0.0/8"), ("email", "a@b")]
        )

        self.assertEqual([str(each.value) for each in found], ["*.a.b", "10.0.0.0/8", "a@b"])
        error = self.assertRaises(
            SaltInvocationError, util._parse_general_names, [("otherName", "x")]
        )
        self.assertEqual(str(error), "otherName is currently not implemented")


class MinionDataTests(SynchronousTestCase):
    """C{get_minion_data}."""

    def test_not_kept(self) -> None:
        """Where no data of minions are kept, nobody is asked, and nothing is known."""
        for opts in ({}, {"minion_data_cache": False}):
            self.assertEqual(minions.get_minion_data("web1", opts), ("web1", None, None))
        self.assertEqual(minions.get_minion_data("", {}), (None, None, None))
