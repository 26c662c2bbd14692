"""C{salt.utils.x509}: certificates and keys, loaded and compared."""

from __future__ import annotations

from typing import Any

from saltwisted.modules import _x509_load as _load


def load_cert(
    cert: Any, passphrase: Any = None, load_chain: bool = False, get_encoding: bool = False
) -> Any:
    """
    A certificate, of a file, a text or bytes in any encoding that Salt knows.

    @param load_chain: with the other certificates there.
    @param get_encoding: with its encoding, the others, and the key of a PKCS#12 file.
    """
    found = _load.certificates(cert, passphrase)
    if get_encoding:
        return found
    return (found[0], found[2] or []) if load_chain else found[0]


def load_privkey(pk: Any, passphrase: Any = None, get_encoding: bool = False) -> Any:
    """
    A private key, of a file, a text or bytes.

    @param get_encoding: with its encoding.
    """
    if get_encoding:
        return _load.private_key_and_encoding(pk, passphrase)
    return _load.private_key(pk, passphrase)


def load_pubkey(pk: Any) -> Any:
    """A public key, of a file, a text or bytes."""
    return _load.public_key(pk)


def verify_signature(cert: Any, pubkey: Any) -> bool:
    """Whether a certificate is signed by the owner of a public key."""
    return _load.is_signed_by(cert, pubkey)


def is_pair(pubkey: Any, privkey: Any) -> bool:
    """Whether a public key is the one of a private key."""
    return _load.same_key(pubkey, privkey.public_key())


def match_pubkey(pubkey_a: Any, pubkey_b: Any) -> bool:
    """Whether two public keys are one."""
    return _load.same_key(pubkey_a, pubkey_b)
