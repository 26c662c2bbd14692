"""C{salt.crypt}: signatures by the keys of minions and masters."""

from __future__ import annotations

from saltwisted.wire import rsa

PKCS1v15_SHA1 = rsa.PKCS1V15_SHA1


def _bytes(message: str | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.encode()


def sign_message(
    privkey_path: str,
    message: str | bytes,
    passphrase: str | None = None,
    algorithm: str = PKCS1v15_SHA1,
) -> bytes:
    """The signature of a message by the private key in a file."""
    with open(privkey_path, "rb") as file:
        key = rsa.PrivateKey.from_pem(file.read(), passphrase)
    return key.sign(_bytes(message), algorithm)


def verify_signature(
    pubkey_path: str, message: str | bytes, signature: bytes, algorithm: str = PKCS1v15_SHA1
) -> bool:
    """Whether a signature is that of a message, by the public key in a file."""
    with open(pubkey_path, "rb") as file:
        key = rsa.PublicKey.from_pem(file.read())
    return key.verify(_bytes(message), signature, algorithm)
