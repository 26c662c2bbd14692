"""
Calls of C{asymmetric} to ask of stock and of ours: signatures by keys of all kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if __package__:
    from tests.modules.certs import AUTHORITY, LOCKED, OWN, RSA
else:
    from certs import AUTHORITY, LOCKED, OWN, RSA

if TYPE_CHECKING:
    from tests.modules.scripts import Script


def _keys(s: Script) -> None:
    keys = {"authority": AUTHORITY, "own": OWN, "rsa": RSA, "ec": LOCKED}
    for name, text in keys.items():
        s.write(name, text)
        locked = {"passphrase": "pass"} if name == "ec" else {}
        s.call("x509.get_public_key", s.path(name), **locked)
    s.write("hello", "hello\n")
    s.write("other", "hallo\n")
    for name in keys:
        locked = {"passphrase": "pass"} if name == "ec" else {}
        key, digest = s.path(name), {"digest": "sha512"}
        s.call("asymmetric.sign", key, filename=s.path("hello"), path=s.path(f"{name}.f"), **locked)
        s.call("asymmetric.sign", key, text="hello\n", path=s.path(f"{name}.t"), **locked)
        s.call("asymmetric.sign", key, text="x", path=s.path(f"{name}.5"), **digest, **locked)
        given = {"path": s.path(f"{name}.b"), "raw": False}
        s.call("asymmetric.sign", key, filename=s.path("hello"), **given, **locked)


def _verify(s: Script) -> None:
    for name, key in (("own", OWN), ("authority", AUTHORITY), ("rsa", RSA), ("ec", LOCKED)):
        pub = {"pubkey": s.path(f"{name}.pub")}
        for form in "ftb":
            for data in ({"text": "hello\n"}, {"filename": s.path("hello")}, {"text": "hallo"}):
                s.call("asymmetric.verify", signature=s.path(f"{name}.{form}"), **data, **pub)
        for digest in ("sha512", "sha256"):
            signed = {"signature": s.path(f"{name}.5"), "text": "x", "digest": digest}
            s.call("asymmetric.verify", **signed, **pub)
        s.call("asymmetric.verify", signature=s.path("own.f"), text="hello\n", **pub)
        s.call("asymmetric.verify", signature=s.path("own.f"), text="x", pubkey=key)


def signatures(s: Script) -> None:
    """Signed, verified, and signed by several; what is missing, or is no key."""
    from cryptography.hazmat.primitives import serialization

    _keys(s)
    for name, text in (("own", OWN), ("authority", AUTHORITY), ("rsa", RSA), ("ec", LOCKED)):
        secret = b"pass" if name == "ec" else None
        loaded = serialization.load_pem_private_key(text.encode(), secret)
        public: Any = loaded.public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        s.write(f"{name}.pub", public.public_bytes(serialization.Encoding.PEM, form))
    for key in (OWN, AUTHORITY):
        for more in ({}, {"raw": True}, {"raw": False}):
            s.call("asymmetric.sign", key, text="hello", **more)
    s.call("asymmetric.sign", OWN)
    s.call("asymmetric.sign", LOCKED, text="x")
    s.call("asymmetric.sign", "nokey", text="x")
    s.call("asymmetric.sign", RSA, text="x", digest="sha5")
    _verify(s)
    signed = {name: s.path(f"{name}.f") for name in ("own", "authority", "rsa", "ec")}
    pubs = {name: s.path(f"{name}.pub") for name in signed}
    every = list(signed.values())
    hello = {"filename": s.path("hello")}
    asked: list[dict[str, Any]] = [
        {"signed_by_any": pubs["own"], "signature": signed["own"]},
        {"signed_by_any": [pubs["rsa"], pubs["own"]], "signature": signed["own"]},
        {"signed_by_any": [pubs["rsa"], "/nokey", pubs["ec"]], "signature": signed["own"]},
        {"signed_by_all": list(pubs.values()), "signature": list(signed.values())},
        {"signed_by_all": list(pubs.values()), "signature": [signed["own"], signed["rsa"]]},
        {"signed_by_all": [pubs["own"], "/nokey"], "signature": signed["own"]},
        {
            "signed_by_all": pubs["ec"],
            "signed_by_any": pubs["own"],
            "signature": every,
        },
        {"signed_by_all": pubs["ec"], "signed_by_any": pubs["own"], "signature": signed["own"]},
        {"signed_by_all": pubs["ec"], "pubkey": pubs["own"], "signature": signed["own"]},
        {"signed_by_any": pubs["own"], "signature": ["salt://nosuch.sig", signed["own"]]},
        {"signed_by_any": pubs["own"], "signature": ["salt://nosuch.sig"]},
        {"pubkey": pubs["own"], "signature": "salt://nosuch.sig"},
        {"pubkey": pubs["own"], "signature": [signed["own"]]},
        {"pubkey": pubs["own"], "signature": "not a signature"},
        {"pubkey": "salt://nosuch.pub", "signature": signed["own"]},
        {"pubkey": "no key", "signature": signed["own"]},
        {"pubkey": f"file://{pubs['own']}", "signature": f"file://{signed['own']}"},
        {"pubkey": pubs["own"], "signature": "file:///nosuch"},
        {"signature": signed["own"]},
        {"pubkey": pubs["own"]},
    ]
    for more in asked:
        s.call("asymmetric.verify", **hello, **more)
    base: dict[str, Any] = {"pubkey": pubs["own"], "signature": signed["own"]}
    s.call("asymmetric.verify", text="x", filename="y", **base)
    s.call("asymmetric.verify", filename="/nosuch", **base)
    s.call("asymmetric.verify", **base)
