"""
A master's key pair on disk, and the key pair that signs it.
"""

from __future__ import annotations

import os

from saltwisted import advice
from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError, StoreError, WireError
from saltwisted.stores.files import read_file
from saltwisted.stores.keys import kept_keys, master_keys
from saltwisted.stores.shared import alone
from saltwisted.wire.handshake import MasterIdentity, signed_form_of
from saltwisted.wire.rsa import PrivateKey, PublicKey, fingerprint


def shared_pki(config: MasterConfig) -> str:
    """Salt's C{cluster_pki_dir}, a directory that masters have in common; C{""} for none."""
    return config.cluster_pki_dir or "" if config.cluster_id else ""


def identity_of(config: MasterConfig) -> MasterIdentity:
    """
    The master's key pair, made when there is none, and its signing key if it has one.

    With a C{cluster_pki_dir} it is C{cluster.pem} there, the same for all, as in Salt.

    @raises StoreError: when a file is missing, unreadable or refused.
    @raises ConfigError: a key cannot be used, or its passphrase is another.
    """
    passphrase = config.key_pass or None

    def generate() -> tuple[bytes, bytes]:
        return _generated(config, passphrase)

    def public_of(private: bytes) -> bytes:
        return (PrivateKey.from_pem(private, passphrase).public.pem + "\n").encode()

    common = shared_pki(config)
    if common:
        passphrase = config.cluster_key_pass or None
        with alone(common):
            pair = master_keys(common, generate, public_of, name="cluster")
    else:
        pair = master_keys(config.pki_dir, generate, public_of)
    key = _opened(pair.private, passphrase, common or config.pki_dir, "cluster" if common else "")
    sign_key = None
    if config.master_sign_pubkey and config.master_use_pubkey_signature:
        signature, shown = pub_signature_of(config, pair.public)
        return MasterIdentity(key, shown, None, signature)
    if config.master_sign_pubkey:
        passphrase = config.signing_key_pass or config.key_pass or None
        sign_pair = master_keys(
            config.pki_dir, generate, public_of, name=config.master_sign_key_name
        )
        name = config.master_sign_key_name
        sign_key = _opened(sign_pair.private, passphrase, config.pki_dir, name)
    return MasterIdentity(key, pair.public, sign_key)


def check_identity(config: MasterConfig) -> None:
    """
    Whether the keys that there are can be used, as L{identity_of} will; nothing is made.

    @raises StoreError: when a file is missing, unreadable or refused.
    @raises ConfigError: a key cannot be used, or its passphrase is another.
    """
    common = shared_pki(config)
    folder, name = (common, "cluster") if common else (config.pki_dir, "master")
    passphrase = (config.cluster_key_pass if common else config.key_pass) or None
    pair = kept_keys(folder, name)
    if pair is not None:
        key = _opened(pair.private, passphrase, folder, name)
    if not config.master_sign_pubkey:
        return
    if config.master_use_pubkey_signature:
        # Of a key that is yet to be made nobody has a signature
        public = b"" if pair is None else pair.public or key.public.pem.encode() + b"\n"
        pub_signature_of(config, public)
        return
    signing = kept_keys(config.pki_dir, config.master_sign_key_name)
    if signing is not None:
        passphrase = config.signing_key_pass or config.key_pass or None
        _opened(signing.private, passphrase, config.pki_dir, config.master_sign_key_name)


def _opened(pem: bytes, passphrase: str | None, folder: str, name: str) -> PrivateKey:
    try:
        return PrivateKey.from_pem(pem, passphrase)
    except WireError as error:
        how = "with the passphrase of the configuration" if passphrase else "without a passphrase"
        raise ConfigError(
            f"is not an RSA private key that can be used {how} ({error.reason})",
            os.path.join(folder, f"{name or 'master'}.pem"),
        ) from error


def pub_signature_of(config: MasterConfig, public: bytes) -> tuple[bytes, bytes]:
    """
    The signature that C{salt-key --gen-signature} has made, and the form of the public key that
    it is for.

    @raises ConfigError: there is none, or it is another key's.
    """
    name = config.master_pubkey_signature or f"{config.id}_pubkey_signature"
    path = os.path.join(config.pki_dir, name)
    signature = read_file(path, 65536)
    if not signature:
        raise ConfigError(
            f"master_use_pubkey_signature is set, but {path} does not exist: "
            f"{advice.of('key.signature')}"
        )
    signer = read_file(os.path.join(config.pki_dir, f"{config.master_sign_key_name}.pub"), 65536)
    try:
        shown = signed_form_of(public, signature, PublicKey.from_pem(signer) if signer else None)
    except WireError as error:
        raise ConfigError(
            f"{path} is not a signature of this master's key ({error.reason})"
        ) from error
    return signature.strip(), shown


def new_pair(config: MasterConfig) -> tuple[bytes, bytes]:
    """A new key pair for a master, as files; takes up to seconds."""
    return _generated(config, config.key_pass or None)


def is_pair(config: MasterConfig, private: bytes, public: bytes) -> bool:
    """
    Whether a master with this configuration could use two files as its key; takes some
    milliseconds.
    """
    try:
        key = PrivateKey.from_pem(private, config.key_pass or None)
        return key.public == PublicKey.from_pem(public)
    except WireError:
        return False


def own_pair(pki_dir: str) -> tuple[bytes, bytes]:
    """
    The two files of the master's key.

    @raises StoreError: one cannot be read.
    """
    private, public = (_read(os.path.join(pki_dir, name)) for name in ("master.pem", "master.pub"))
    return private, public


def own_fingerprint(config: MasterConfig) -> str:
    """
    That of the master's public key, or C{""} when it has none yet.

    @raises StoreError: the file cannot be read.
    """
    public = read_file(os.path.join(config.pki_dir, "master.pub"), 65536)
    return fingerprint(public, config.hash_type) if public else ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from error


def _generated(config: MasterConfig, passphrase: str | None) -> tuple[bytes, bytes]:
    key = PrivateKey.generate(max(int(config.keysize), 2048))
    return key.pem(passphrase).encode(), (key.public.pem + "\n").encode()
