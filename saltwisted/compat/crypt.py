"""C{salt.crypt}: signatures by the keys of minions and masters."""

from __future__ import annotations

import os
import pwd

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


def gen_keys(keysize: int, passphrase: str | None = None, e: int = 65537) -> tuple[str, str]:
    """A new private and public key, as PEM."""
    key = rsa.PrivateKey.generate(keysize)
    return key.pem(passphrase), key.public.pem


def write_keys(
    keydir: str,
    keyname: str,
    keysize: int,
    user: str | None = None,
    passphrase: str | None = None,
    e: int = 65537,
) -> str:
    """Write a new pair as C{NAME.pem} and C{NAME.pub} if there is none; the private key's path."""
    path, public = (os.path.join(keydir, f"{keyname}.{suffix}") for suffix in ("pem", "pub"))
    if os.path.isfile(path):
        return path
    texts = gen_keys(keysize, passphrase, e)
    for each, text, mode in ((path, texts[0], 0o400), (public, texts[1], 0o644)):
        number = os.open(each, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        if user:
            try:
                os.chown(each, pwd.getpwnam(user).pw_uid, -1)
            except (KeyError, OSError):
                pass  # As in Salt: whoever reads it will say so
    return path
