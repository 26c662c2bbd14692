"""
States of C{x509} whose answers were recorded from stock Salt.

What is signed has dates of today, so that the returns and the modes are compared, not the bytes.
"""

from __future__ import annotations

import os
import sys
from typing import Any

if __package__:
    from tests.modules.certs import AUTHORITY, LOCKED, OWN, RSA, SPAN
else:
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "modules"))
    from certs import AUTHORITY, LOCKED, OWN, RSA, SPAN


def certs(s: Any) -> None:
    """Files with keys, requests, certificates and lists of revocations."""
    w = s.path
    for name, text in (("ca.key", AUTHORITY), ("own.key", OWN), ("rsa.key", RSA)):
        s.write(name, text, 0o600)
    s.write("locked.key", LOCKED, 0o600)
    _keys(s)
    _requests(s)
    s.apply(
        "x509.certificate_managed",
        w("ca.crt"),
        signing_private_key=w("ca.key"),
        CN="My CA",
        basicConstraints="critical, CA:TRUE",
        subjectKeyIdentifier="hash",
        serial_number=1,
        days_valid=3650,
    )
    _certificates(s, {"signing_private_key": w("ca.key"), "signing_cert": w("ca.crt")})
    _lists(s, {"signing_private_key": w("ca.key"), "signing_cert": w("ca.crt")})
    s.apply("x509.pem_managed", w("p.pem"), text=OWN.replace("\n", " \n"), mode="0600")
    s.look("p.pem")
    s.once("x509.pem_managed", w("p.pem"), text="no PEM at all")
    s.once("x509.pem_managed", w("p.pem"), text=OWN, nosuch=1)
    s.calls.append(("file.find", {"path": w("."), "print": "path", "name": "*.pem"}, None))


def _keys(s: Any) -> None:
    w, state = s.path, "x509.private_key_managed"
    for algo in ("ec", "ed25519", "ed448"):
        s.apply(state, w(f"k.{algo}"), algo=algo)
    s.modes("k.ec")
    s.apply(state, w("k.ec"), algo="ec", mode="0640")
    s.apply(state, w("k.ec"), algo="ec", keysize=384)
    s.apply(state, w("k.ec"), algo="ed25519", mode="0600")
    s.modes("k.ec")
    s.apply(state, w("k.ec"), algo="ed25519", encoding="der")
    s.apply(state, w("k.ec"), algo="ed25519", encoding="der", passphrase="one")
    s.apply(state, w("k.ec"), algo="ed25519", encoding="der", passphrase="two")
    s.apply(state, w("k.ec"), algo="ed25519", passphrase="two", overwrite=True)
    s.apply(state, w("k.ec"), algo="ed25519")
    s.apply(state, w("k.p12"), algo="ec", encoding="pkcs12", passphrase="p")
    s.modes("k.p12")
    s.apply(state, w("k.new"), algo="ec", new=True)
    s.apply(state, w("locked.key"), algo="ec", passphrase="pass")
    s.apply(state, w("locked.key"), algo="ec", overwrite=True)
    s.apply(state, w("own.key"), algo="ed25519", mode="0600")
    s.apply(state, w("a"), algo="ec")
    s.apply(state, w("deep/dir/k"), algo="ec")
    s.apply(state, w("deep/dir/k"), algo="ec", makedirs=True)
    s.apply(state, w("absent"), algo="ec", create=False)
    for words in (
        {"algo": "nosuch"},
        {"algo": "ed25519", "keysize": 256},
        {"algo": "rsa", "keysize": 1000},
        {"algo": "ec", "nosuch": 1},
        {"algo": "ec", "user": "nosuchuser"},
    ):
        s.once(state, w("q"), True, **words)
        s.once(state, w("q"), False, **words)
    s.find("deep")


def _requests(s: Any) -> None:
    w, state = s.path, "x509.csr_managed"
    words = {"private_key": w("own.key"), "CN": "own.example"}
    s.apply(state, w("own.csr"), **words)
    s.look("own.csr")
    s.apply(state, w("own.csr"), keyUsage="digitalSignature", mode="0640", **words)
    s.apply(state, w("own.csr"), keyUsage="cRLSign", **words)
    s.apply(state, w("own.csr"), subject="CN=other", private_key=w("own.key"))
    s.apply(state, w("own.csr"), encoding="der", subject="CN=other", private_key=w("own.key"))
    s.apply(state, w("own.csr"), private_key=w("rsa.key"), CN="own.example")
    s.apply(state, w("own.csr"), private_key=w("rsa.key"), CN="own.example", digest="sha512")
    s.apply(state, w("own.csr"), **words)
    s.apply(state, w("a"), **words)
    s.once(state, w("q"), private_key=w("bin"), CN="x")
    s.once(state, w("q"), private_key=w("own.key"), CN="x", basicConstraints="nosuch")
    s.once(state, w("q"), private_key=w("own.key"), CN="x", digest="md5")
    s.once(state, w("nosuch/q"), **words)


def _certificates(s: Any, signed: dict[str, Any]) -> None:
    w, state = s.path, "x509.certificate_managed"
    words = {**signed, "private_key": w("own.key"), "CN": "x.example"}
    s.apply(state, w("x.crt"), **words)
    s.modes("x.crt")
    s.apply(state, w("x.crt"), days_remaining=400, **words)
    s.apply(state, w("x.crt"), days_valid=800, days_remaining=400, **words)
    s.apply(state, w("x.crt"), **{**words, "CN": "y.example"})
    s.apply(state, w("x.crt"), subjectAltName="DNS:x.example", **words)
    s.apply(state, w("x.crt"), subjectAltName="DNS:y.example", keyUsage="cRLSign", **words)
    s.apply(state, w("x.crt"), serial_number=99, **words)
    s.apply(state, w("x.crt"), append_certs=w("ca.crt"), **words)
    s.apply(state, w("x.crt"), append_certs=[w("ca.crt")], mode="0640", **words)
    s.apply(state, w("x.crt"), encoding="der", **words)
    s.apply(state, w("x.crt"), encoding="pkcs7_pem", **words)
    s.apply(state, w("x.crt"), encoding="pkcs12", **words)
    s.apply(state, w("x.crt"), encoding="pkcs12", pkcs12_friendlyname="me", **words)
    s.apply(state, w("x.crt"), encoding="pkcs12", pkcs12_passphrase="p", **words)
    s.apply(state, w("x.crt"), **words)
    s.apply(state, w("x.crt"), **{**words, "private_key": w("rsa.key")})
    s.apply(state, w("x.crt"), signing_private_key=w("rsa.key"), CN="x.example")
    s.apply(state, w("x.crt"), signing_private_key=w("rsa.key"), CN="x.example", digest="sha512")
    s.apply(state, w("span.crt"), **SPAN, serial_number=3, **words)
    s.look("span.crt")
    s.apply(state, w("a"), **words)
    s.apply(state, w("absent"), create=False, **words)
    s.once(state, w("q"), CN="x", **{**signed, "signing_private_key": w("own.key")})
    s.once(state, w("q"), CN="x", csr=w("conf"), **signed)
    s.once(state, w("q"), ca_server="other", CN="x")
    s.once(state, w("q"), user="nosuchuser", **words)
    s.apply(state, w("fromcsr.crt"), csr=w("own.csr"), CN="own.example", **signed)


def _lists(s: Any, signed: dict[str, Any]) -> None:
    w, state = s.path, "x509.crl_managed"
    one = [{"serial_number": "0B:01"}]
    fixed = [*one, {"serial_number": 12, "extensions": {"CRLReason": "keyCompromise"}}]
    s.apply(state, w("c.crl"), revoked=one, **signed)
    s.apply(state, w("c.crl"), revoked=fixed, mode="0640", **signed)
    # Stock says of an empty list that it was not there.
    s.apply(state, w("empty.crl"), revoked=[], **signed)
    s.apply(state, w("c.crl"), revoked=one, days_valid=10, days_remaining=5, **signed)
    s.apply(state, w("c.crl"), revoked=one, **signed)
    s.apply(state, w("c.crl"), revoked=one, encoding="der", **signed)
    s.apply(state, w("c.crl"), revoked=one, extensions={"cRLNumber": 5}, **signed)
    s.apply(state, w("auto.crl"), revoked=one, extensions={"cRLNumber": "auto"}, **signed)
    s.apply(state, w("a"), revoked=one, **signed)
    s.once(state, w("q"), revoked=[{}], **signed)
    s.once(state, w("q"), revoked=one, nosuch=1, **signed)
