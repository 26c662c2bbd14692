"""
Calls of C{x509} whose answers were recorded from stock Salt.

Keys and times are always the same, and Ed25519 and the older RSA signatures have no dice in them,
so that certificates are compared byte by byte. The keys protect nothing.
"""

from __future__ import annotations

from typing import Any


def pem(kind: str, body: str) -> str:
    """A PEM text; the sources hold no text that looks like a key in use."""
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


KEY = "PRIVATE KEY"
AUTHORITY = pem(KEY, "MC4CAQAwBQYDK2VwBCIEIGNjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj")
OWN = pem(KEY, "MC4CAQAwBQYDK2VwBCIEIG9vb29vb29vb29vb29vb29vb29vb29vb29vb29vb29v")
RSA = pem(
    f"RSA {KEY}",
    "MIIEowIBAAKCAQEAyfp48CEfHjNghtJx08AcZ0Z5v8uGdvJ0pT2N9rOIApBfJqdmNX39CQMVaTaG2CmaG9EWfrcC"
    "OKtzd/ryGTXjemnqxCNKqRq5CGdWBFAIREov4/Z0vtifc9N4qDcvyVO7Nhy1tDDSVnwmdSFb2wLcHhhChOafb0s/"
    "P5Npnrl9Islikt8WDeSZi0bKx3G1OX/HvVDsEd7W8Vj6C2fYqNrimF7lrHokcAInVyw3tSY8BCZPCGB5KoHkJW1p"
    "sKUq48Xey5NS0IcooE2Yet/vj314+x0+fjbsQhTH/7Oqf95sQfiTYiWvG/xBTRRleVQtOEiOYt/YZONunS92437z"
    "6IzwcwIDAQABAoIBAB/2XhsJ8sWxta3AMbkjppsFQRED4SSDm8fmZMfMg1J8jEIurXL7nAZIEaRTt6UPeE68mMW2"
    "qkhTgXNUJ+mraHMfvcIKH6+BBhT5XVhTXeuInemCP9lPqHQI3Agqq4o9kNuwUWTRcQe0n9VbURDoc/LjPeuQH1za"
    "WIj0B/vROKc/VQLpuOFhiRmIBvHymS15XenSvnTo4MbqFTpINu1bTAAMhfwGDjus896W1l8cnx1z6OUB4XvmpzQP"
    "T+csaDRS8rPCYykwV6UnHw0ocDdPmX++vD/+PYab32TbID4iRaQwwOq6JMH7NPtQSuIuiQEfZo2tDVexWNBuLF7i"
    "WDCYWnkCgYEA9jGiiFHRjbrdjhSdqO4+uFZyZAsDGBR8C/L1U462Uo7pc9rQLJHw0PG7Y8APdj/ctIS4Qi3XFP5v"
    "yJT3IU8iGVvaWYFB9tQBxnA0RxEfiTHDJtjiefSkBVmOOYN14ktRzfvftTs44XlKdcvZute3WgYTDB8JK/GxSB8M"
    "MnY7z58CgYEA0gX8TkTdMrCp/ylS5alP72gJsneugdLk3/eU7LALZo8WEGB8XsIFmVnlUFFVg6LKWQ3FVH1w/wWn"
    "gcvq3+uZNKuz9wZEQrgcOWmLaU7nW78tHitNvof0+Awz4RIRggdHY31zSMpTe1AK2dIGecp6KFCQ/NVAN+m/Ll76"
    "fgkTHq0CgYAHtGf0wjK/r8BtSOHiPoqB9FqiHOIc5882BIV+9vFnxgcyU/+91VdnApmttn4FYlxC3gByOcMIaioP"
    "afIN/c8AYiqEMJJi6iGgFzTboIKPJZqI5bK4xFo5vKLB1AZlbZwCyUYoAtF15PjalOWcflHDpHsGHxaHZIn6ytXz"
    "4lVe2wKBgE9yUjHtXNtq9rN+F0ynEoTWjyyCl3GmrEuIpT4vjfB62fbR+NoDfQi4d8U9LyL/dpnfWrEOTqs5oVa5"
    "I50WyzqgZRBhv3qZmJujMEhiv6P2GoQaD2uulF0siIdwRU0xobCh6PU1DAVOjvw8tZRmonUTnPT3WjaMZnSNGyaI"
    "GkJ1AoGBAJKnBfAJx4WZ0lSnAl4qSacBp/e92DsIzIDBw6JiHMnfOLo+ICbfVDS3/o7KPYb96PRrTkBn8/1r7ECT"
    "4qmrKHNbqV4gB8hF4Av18owF0nGztaKduGQYbhu0KHnutt+2j7agN3wH2FAa6ZH9ysDJZdnkKZ33w2a3TCXal3mq"
    "e+2i",
)
LOCKED = pem(
    f"ENCRYPTED {KEY}",
    "MIH0MF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBA8iJZ8kGGO3JeHlPwNIg95AgIIADAMBggqhkiG9w0C"
    "CQUAMB0GCWCGSAFlAwQBKgQQdQpfIbQPAl8aQBReQBKQmgSBkKEd9DfLI4l0Q9OkXzGOe1VTGmMvFt2PWSPJAFqd"
    "VnWYE5z0y8nMDMoy/pXguHCAVEBYMfwBdoS1A98dhGEV5ra9Hypy3oxwcdAk6fXBAaaL/zWa088DeVtOYgQmZ4NO"
    "GaPZnmNQIHt1t3kkYKJbZ0FH80D51FIY7AUy4BOqf/ASVuTROOhyKc+OakhYH68R8g==",
)
"""A key of NIST's curve P-256; its passphrase is C{pass}."""

SPAN = {"not_before": "2020-01-01 00:00:00", "not_after": "2049-12-31 23:59:59"}
EXTENSIONS: tuple[dict[str, Any], ...] = (
    {"basicConstraints": "critical, CA:TRUE, pathlen:1"},
    {"basicConstraints": {"critical": True, "ca": True, "pathlen": 0}},
    {"basicConstraints": {"ca": False}},
    {"keyUsage": "critical, cRLSign, keyCertSign"},
    {"keyUsage": ["critical", "digitalSignature", "keyAgreement", "decipherOnly"]},
    {"extendedKeyUsage": "serverAuth, clientAuth"},
    {"extendedKeyUsage": ["critical", "OCSPSigning", "1.2.3.4"]},
    {"extendedKeyUsage": "msEFS"},
    {"subjectKeyIdentifier": "hash"},
    {"subjectKeyIdentifier": "01:02:AF"},
    {"authorityKeyIdentifier": "keyid:always"},
    {"authorityKeyIdentifier": "keyid,issuer"},
    {"authorityKeyIdentifier": "keyid:always, issuer:always"},
    {"issuerAltName": ["DNS:a.example"]},
    {"authorityInfoAccess": "OCSP;URI:http://o.example/,caIssuers;URI:http://c.example/ca.cer"},
    {"authorityInfoAccess": {"OCSP": "URI:http://o.example/", "1.2.3.4": "DNS:x.example"}},
    {"authorityInfoAccess": [{"caIssuers": "URI:ldap://l.example/cn"}]},
    {"subjectAltName": "email:me@example.org,DNS:example.org,DNS:*.example.org,IP:::1"},
    {"subjectAltName": ["critical", "IP:192.0.2.7", {"dns": "x.example"}, "RID:1.2.3.4"]},
    {"subjectAltName": ["dirName:CN=a,O=b", "URI:https://u.example/p?q=1#f", "email:.e.example"]},
    {"subjectAltName": "DNS:b\u00fccher.example,DNS:stra\u00dfe.example,DNS:.dot.example"},
    {"crlDistributionPoints": "URI:http://a.example/a.crl, URI:http://b.example/b.crl"},
    {
        "crlDistributionPoints": [
            {
                "fullname": "URI:http://a.example/a.crl",
                "crlissuer": "DNS:c.example",
                "reasons": ["keyCompromise"],
            },
            "URI:http://b.example/b.crl",
        ]
    },
    {"certificatePolicies": "critical, 1.2.4.5, 1.1.3.4"},
    {
        "certificatePolicies": {
            "critical": True,
            "1.2.4.5.6": [
                "https://p.example",
                {"organization": "o", "noticeNumbers": [1, 2], "text": "t"},
            ],
        }
    },
    {"policyConstraints": "requireExplicitPolicy:3,inhibitPolicyMapping:1"},
    {"policyConstraints": {"inhibitPolicyMapping": 0}},
    {"inhibitAnyPolicy": 1},
    {"inhibitAnyPolicy": "critical, 2"},
    {
        "nameConstraints": {
            "critical": True,
            "permitted": ["IP:192.0.2.0/24", "email:.a.example"],
            "excluded": ["email:.b.example"],
        }
    },
    {"nameConstraints": "critical,permitted;IP:192.0.2.0/255.255.255.0,excluded;email:.b.example"},
    {"noCheck": "critical"},
    {"noCheck": True},
    {"tlsfeature": "status_request"},
    {"X509v3 Key Usage": "digitalSignature"},
)
BAD: tuple[dict[str, Any], ...] = (
    {"basicConstraints": "pathlen:1"},
    {"basicConstraints": {"pathlen": 1}},
    {"basicConstraints": {"ca": False, "pathlen": 1}},
    {"extendedKeyUsage": "nosuch"},
    {"subjectKeyIdentifier": "critical,hash"},
    {"subjectKeyIdentifier": "xyz"},
    {"authorityKeyIdentifier": "critical,keyid"},
    {"issuerAltName": "nosuch:x"},
    {"authorityInfoAccess": "nosuch;URI:http://a.example"},
    {"subjectAltName": "nosuch:x"},
    {"subjectAltName": "otherName:x"},
    {"subjectAltName": "IP:300.1.1.1"},
    {"subjectAltName": "DNS:under_score.example"},
    {"subjectAltName": "DNS:a..example"},
    {"subjectAltName": "email:x@*.example"},
    {"subjectAltName": "RID:x"},
    {"subjectAltName": [{"dns": 5}]},
    {"certificatePolicies": "nosuch"},
    {"nameConstraints": {}},
    {"nsComment": "x"},
    {"nsCertType": "x"},
    {"cn": "ignored", "subject": "no name"},
    {"subject": 5},
    {"subject": ["CN=a,O=b"]},
    {"digest": "md5"},
    {"digest": "nosuch"},
    {"encoding": "nosuch"},
    {"encoding": "der", "append_certs": ["x"]},
    {"serial_number": "xyz"},
)


def certificates(script: Any) -> None:
    """Keys, certificates, requests and lists of revocations."""
    call, w = script.call, script.path
    for name, text in (("ca.key", AUTHORITY), ("own.key", OWN), ("rsa.key", RSA)):
        script.write(name, text, 0o600)
    script.write("locked.key", LOCKED, 0o600)
    ca = {"signing_private_key": w("ca.key"), **SPAN}
    call(
        "x509.create_certificate",
        path=w("ca.crt"),
        CN="My CA",
        O="Us",
        C="DE",
        serial_number=1,
        basicConstraints="critical, CA:TRUE",
        keyUsage="critical, cRLSign, keyCertSign",
        subjectKeyIdentifier="hash",
        subjectAltName="DNS:ca.example",
        **ca,
    )
    script.read("ca.crt")
    call("file.get_mode", w("ca.crt"))
    signed = {"signing_cert": w("ca.crt"), **ca}
    for number, words in enumerate(EXTENSIONS):
        call(
            "x509.create_certificate",
            path=w(f"e{number}.crt"),
            private_key=w("own.key"),
            serial_number="0A:FF",
            CN="x.example",
            **words,
            **signed,
        )
        script.read(f"e{number}.crt")
        call("x509.read_certificate", w(f"e{number}.crt"))
    for words in BAD:
        words = {"private_key": w("own.key"), "CN": "x", "serial_number": 5, **signed, **words}
        call("x509.create_certificate", **words)
    _kinds(script, signed)
    _requests(script, signed)
    _lists(script)
    _looks(script)


def _kinds(script: Any, signed: dict[str, Any]) -> None:
    """Other keys, names and encodings."""
    call, w = script.call, script.path
    own = {"private_key": w("own.key"), "serial_number": 77, **signed}
    for subject in (
        "CN=x.example,O=Ex,C=DE",
        ["C=DE", "O=Ex", "CN=x.example+OU=y"],
        {"O": "Ex", "CN": "x", "C": "DE", "MAIL": "a@example.org", "UID": "u", "SN": "s"},
    ):
        call("x509.create_certificate", subject=subject, **own)
    for digest in ("sha384", "SHA512"):
        call(
            "x509.create_certificate",
            signing_private_key=w("rsa.key"),
            digest=digest,
            CN="rsa",
            serial_number=3,
            path=w("rsa.crt"),
            **SPAN,
        )
        call("x509.read_certificate", w("rsa.crt"))
    call("x509.create_certificate", CN="x", encoding="der", path=w("x.der"), **own)
    call("x509.read_certificate", w("x.der"))
    chain = {"CN": "x", "append_certs": [w("ca.crt")], **own}
    for encoding in ("pem", "pkcs7_pem", "pkcs7_der"):
        call("x509.create_certificate", encoding=encoding, path=w(f"x.{encoding}"), **chain)
        call("x509.read_certificate", w(f"x.{encoding}"))
    call("x509.create_certificate", encoding="pkcs12", path=w("x.p12"), **chain)
    call("x509.verify_signature", w("x.p12"), w("ca.crt"))
    call("x509.encode_certificate", w("x.p12"), "der")
    call("x509.encode_certificate", w("x.der"), "pem", private_key=w("own.key"))
    call("x509.encode_certificate", w("x.der"), "pkcs12")
    call("x509.create_certificate", CN="x", encoding="pem", overwrite=False, path=w("x.der"), **own)
    call("x509.create_certificate", CN="x", copypath=w("d"), prepend_cn=True, **own)
    script.read("d/x-4d.crt")
    call("x509.create_certificate", CN="x")
    call("x509.create_certificate", CN="x", **signed)
    wrong = {**own, "signing_private_key": w("own.key")}
    call("x509.create_certificate", CN="x", **wrong)
    call("x509.create_certificate", CN="x", ca_server="other")
    call("x509.create_certificate", CN="x", signing_policy="nosuch", **own)
    call(
        "x509.create_certificate",
        signing_private_key=w("ca.key"),
        not_before="2001-01-01 00:00:00",
        not_after="2001-12-31 00:00:00",
        CN="old",
        serial_number=8,
        path=w("old.crt"),
    )


def _requests(script: Any, signed: dict[str, Any]) -> None:
    call, w = script.call, script.path
    call(
        "x509.create_csr",
        private_key=w("own.key"),
        path=w("own.csr"),
        CN="own.example",
        keyUsage="critical, digitalSignature",
        subjectAltName="DNS:own.example",
        authorityKeyIdentifier="keyid",
    )
    script.read("own.csr")
    call("x509.read_csr", w("own.csr"))
    call("x509.encode_csr", w("own.csr"), "der")
    call("x509.encode_csr", w("own.csr"), "nosuch")
    call("x509.create_csr", private_key=w("own.key"), encoding="der", subject="CN=y")
    call("x509.create_csr", private_key=w("rsa.key"), digest="md5")
    call("x509.create_csr", private_key=w("a"), CN="x")
    from_request = {"csr": w("own.csr"), "serial_number": 9, **signed}
    call("x509.create_certificate", CN="own.example", **from_request)
    call("x509.create_certificate", CN="own.example", subjectAltName="DNS:b", **from_request)
    call("x509.create_certificate", **{**from_request, "csr": w("a")})
    call("x509.create_certificate", **{**from_request, "csr": w("bin")})


def _lists(script: Any) -> None:
    call, w = script.call, script.path
    words = {"signing_private_key": w("ca.key"), "signing_cert": w("ca.crt")}
    revoked = [
        {"serial_number": "0B:01", "revocation_date": "2024-01-02 03:04:05"},
        {"certificate": w("e0.crt"), "revocation_date": "2024-01-02 03:04:05"},
        {"certificate": w("old.crt"), "revocation_date": "2024-01-02 03:04:05"},
        {
            "serial_number": 12,
            "revocation_date": "2024-01-02 03:04:05",
            "extensions": {
                "CRLReason": "keyCompromise",
                "invalidityDate": "2023-01-02 03:04:05",
                "nosuch": 1,
            },
        },
        {"serial_number": 13, "revocation_date": "2024-01-02 03:04:05", "reason": "superseded"},
    ]
    extensions = {
        "authorityKeyIdentifier": "keyid:always",
        "cRLNumber": 5,
        "issuingDistributionPoint": {"fullname": "URI:http://c.example/c.crl", "onlyuser": True},
        "freshestCRL": "URI:http://d.example",
        "nosuch": 1,
    }
    call("x509.create_crl", revoked=revoked, path=w("c.crl"), extensions=extensions, **words)
    call("x509.read_crl", w("c.crl"))
    call("x509.verify_crl", w("c.crl"), w("ca.crt"))
    call("x509.verify_crl", w("c.crl"), w("own.key"))
    call("x509.create_crl", revoked=revoked, path=w("i.crl"), include_expired=True, **words)
    call("x509.read_crl", w("i.crl"))
    delta = {"cRLNumber": 6, "deltaCRLIndicator": "critical, 5"}
    call("x509.create_crl", revoked=[], path=w("d.crl"), encoding="der", extensions=delta, **words)
    call("x509.read_crl", w("d.crl"))
    call("x509.create_crl", revoked=[{"extensions": {}}], **words)
    call("x509.create_crl", revoked=[], extensions={"cRLNumber": "x"}, **words)
    call("x509.create_crl", revoked=[], encoding="pkcs12", **words)
    call("x509.create_crl", revoked=[], nosuch=1, **words)
    call("x509.create_crl", revoked=[], **{**words, "signing_private_key": w("own.key")})
    call("x509.read_crl", w("a"))


def _looks(script: Any) -> None:
    """Functions that change nothing, and private keys."""
    call, w = script.call, script.path
    for name in ("ca.crt", "own.key", "own.csr", "rsa.key", "a", "bin"):
        call("x509.get_public_key", w(name))
    call("x509.get_public_key", AUTHORITY)
    for words in ({}, {"passphrase": "pass"}, {"passphrase": "other"}):
        call("x509.get_public_key", w("locked.key"), **words)
        call("x509.get_private_key_size", w("locked.key"), **words)
        call("x509.get_private_key_size", w("own.key"), **words)
    call("x509.get_private_key_size", w("rsa.key"))
    call("x509.get_private_key_size", w("bin"))
    for public in ("ca.crt", "e0.crt", "own.csr", "own.key"):
        call("x509.verify_private_key", w("own.key"), w(public))
    call("x509.verify_private_key", w("a"), w("ca.crt"))
    call("x509.verify_signature", w("ca.crt"))
    call("x509.verify_signature", w("e0.crt"))
    call("x509.verify_signature", w("e0.crt"), w("ca.crt"))
    call("x509.verify_signature", w("rsa.crt"), w("own.key"))
    for name in ("ca.crt", "old.crt", "a"):
        call("x509.expired", w(name))
        call("x509.expires", w(name), days=1)
        call("x509.will_expire", w(name), 9)
        call("x509.read_certificate", w(name))
    call("x509.read_csr", w("ca.crt"))
    call("x509.read_certificates", w("e0.c*"))
    call("x509.get_pem_entry", w("ca.crt"))
    call("x509.get_pem_entry", w("ca.crt"), "CERTIFICATE")
    call("x509.get_pem_entry", w("ca.crt"), "X509 CRL")
    call("x509.get_pem_entry", "-----BEGIN X-----QUJD-----END X-----")
    call("x509.get_pem_entry", "no PEM")
    call("x509.get_pem_entries", w("own.*"))
    call("x509.write_pem", f"text\n{OWN}", w("w.pem"))
    script.read("w.pem")
    call("file.get_mode", w("w.pem"))
    call("x509.encode_private_key", w("rsa.key"))
    call("x509.encode_private_key", w("own.key"), "der")
    call("x509.encode_private_key", w("locked.key"), private_key_passphrase="pass")
    call("x509.encode_private_key", w("own.key"), "nosuch")
    for words in (
        {"algo": "nosuch"},
        {"keysize": 1000},
        {"algo": "ec", "keysize": 100},
        {"nosuch": 1},
        {"encoding": "nosuch"},
    ):
        call("x509.create_private_key", **words)
    for algo in ("ec", "ed25519", "ed448"):
        call("x509.create_private_key", algo=algo, path=w(f"{algo}.key"), passphrase="p")
        call("file.get_mode", w(f"{algo}.key"))
        call("x509.get_private_key_size", w(f"{algo}.key"), passphrase="p")
    call("x509.get_signing_policy", "nosuch")
    call("x509.sign_remote_certificate", "nosuch", {})
