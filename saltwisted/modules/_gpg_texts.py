"""
The part of L{saltwisted.modules.gpg} that works on texts and files: signatures, encryption.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.modules._gpg_chain import content, keychain, passphrase_of, write
from saltwisted.modules._gpg_run import Answer, Signatures

log = logging.getLogger(__name__)

__salt__: Any

_MODELS = ("pgp", "classic", "tofu", "tofu+pgp", "direct", "always", "auto")


def sign(
    user: str | None = None,
    keyid: str | None = None,
    text: Any = None,
    filename: str | None = None,
    output: str | None = None,
    use_passphrase: bool = False,
    gnupghome: str | None = None,
    keyring: str | None = None,
) -> bytes:
    """
    Sign a text or a file: what comes back holds it and the signature.

    keyid
        The key; else the first one.
    output
        Write it into this file, too.

    CLI Example::

        salt '*' gpg.sign filename='/path/to/important.file' use_passphrase=True
    """
    passphrase = passphrase_of(__salt__) if use_passphrase else None
    gpg = keychain(__salt__, user, gnupghome, keyring)
    data = content(text, filename)
    words = ["--default-key", str(keyid)] if keyid else []
    signed = gpg.run("-sa", "--clearsign", *words, stdin=data, passphrase=passphrase).data
    if output and not text:
        write(output, signed)
    return signed


def verify(
    text: Any = None,
    user: str | None = None,
    filename: str | None = None,
    gnupghome: str | None = None,
    signature: str | None = None,
    trustmodel: str | None = None,
    signed_by_any: Any = None,
    signed_by_all: Any = None,
    keyring: str | None = None,
) -> dict[str, Any]:
    """
    Verify a signature.

    signature
        The file with the signature, where C{filename} does not hold it itself.
    trustmodel
        C{pgp}, C{classic}, C{tofu}, C{tofu+pgp}, C{direct}, C{always} or C{auto}.
    signed_by_any
        Fingerprints of keys, one of which must have signed.
    signed_by_all
        Fingerprints of keys, all of which must have signed.

    CLI Example::

        salt '*' gpg.verify filename='/path/to/important.file' trustmodel=direct
    """
    if trustmodel and trustmodel not in _MODELS:
        known = ", ".join(_MODELS)
        message = f"Invalid trustmodel defined: {trustmodel}. Use one of: {known}"
        log.warning(message)
        return {"res": False, "message": message}
    gpg = keychain(__salt__, user, gnupghome, keyring)
    words = ["--trust-model", trustmodel] if trustmodel else []
    if signed_by_any or signed_by_all:
        # In batch mode gpg stops at the first signature that is not valid.
        words.append("--no-batch")
    if text or not (filename and signature):
        done = gpg.run("--verify", *words, stdin=content(text, filename))
    else:
        done = gpg.run("--verify", *words, files=[signature, filename])
    signatures = Signatures.of(done)
    if signed_by_any or signed_by_all:
        return _required(signatures, _listed(signed_by_any), _listed(signed_by_all))
    good = signatures.good
    if not good or signatures.is_bad:
        return {"res": False, "message": "The signature could not be verified."}
    return {
        "res": True,
        "username": good[-1].username,
        "key_id": good[-1].key_id,
        "trust_level": good[-1].trust_level,
        "message": "The signature is verified.",
    }


def _listed(given: Any) -> list[str]:
    if not given:
        return []
    return [str(one) for one in (given if isinstance(given, list) else [given])]


def _required(signatures: Signatures, some: list[str], every: list[str]) -> dict[str, Any]:
    """Whether those have signed that had to."""
    signers = {one.fingerprint for one in signatures.good}
    ret = {"res": False, "message": "", "signatures": [s.as_map() for s in signatures.checked]}
    if some and not signers.intersection(some):
        said = "None of the public keys listed in signed_by_any provided a valid signature"
        return {**ret, "message": said}
    for one in every:
        if one not in signers:
            said = f"Public key {one} has not provided a valid signature, but was listed in "
            return {**ret, "message": f"{said}signed_by_all"}
    return {**ret, "res": True, "message": "All required keys have provided a signature"}


def _worked(
    done: Answer, okay: str, what: str, output: str | None, *, bare: bool
) -> dict[str, Any] | bytes | bool:
    """What C{encrypt} and C{decrypt} answer."""
    if not done.values(okay):
        log.error(done.stderr)
        if bare:
            return False
        comment = f"{_state(done)}.\nPlease check the salt-minion log."
        return {"res": False, "comment": comment}
    if output:
        write(output, done.data)
    if bare:
        return done.data if not output else b""
    said = f"{what} data has been written to {output}" if output else done.data
    return {"res": True, "comment": said}


def _state(done: Answer) -> str:
    """Why nothing was encrypted or decrypted."""
    state = ""
    for key, value in done.status:
        if key == "NODATA" and state != "decryption failed":
            state = "no data was provided"
        elif key == "INV_RECP":
            state = f"invalid recipient: {state}" if state else "invalid recipient"
        elif key == "NO_SECKEY":
            state = "no secret key"
        elif key in ("NEED_PASSPHRASE", "BAD_PASSPHRASE", "MISSING_PASSPHRASE"):
            state = key.replace("_", " ").lower()
        elif key == "NEED_PASSPHRASE_SYM":
            state = "need symmetric passphrase"
        elif key in ("DECRYPTION_FAILED", "BEGIN_DECRYPTION") and state != "no secret key":
            state = "decryption failed" if key == "DECRYPTION_FAILED" else "decryption incomplete"
        elif key == "BEGIN_ENCRYPTION":
            state = "encryption incomplete"
        elif key == "KEYEXPIRED":
            state = "key expired"
        elif key == "UNEXPECTED":
            state = "unexpected data"
        elif key == "FAILURE" and not state:
            state = f"error - {value}"
    return state


def encrypt(
    user: str | None = None,
    recipients: Any = None,
    text: Any = None,
    filename: str | None = None,
    output: str | None = None,
    sign: Any = None,
    use_passphrase: bool = False,
    always_trust: bool = False,
    gnupghome: str | None = None,
    bare: bool = False,
    keyring: str | None = None,
) -> dict[str, Any] | bytes | bool:
    """
    Encrypt a text or a file.

    recipients
        Whose keys: ids, fingerprints or addresses.
    sign
        Sign it, too; C{True} or the key.
    always_trust
        Take keys whose owners are not known to be trusted.
    bare
        Give the text alone, or C{False}.

    CLI Example::

        salt '*' gpg.encrypt text='Hello there.' recipients=recipient@example.com
    """
    passphrase = passphrase_of(__salt__) if sign and use_passphrase else None
    gpg = keychain(__salt__, user, gnupghome, keyring)
    data = content(text, filename)
    if not recipients:
        raise ValueError("No recipients or hidden recipients specified with asymmetric encryption")
    words = ["--encrypt", "--armor"]
    for one in recipients if isinstance(recipients, list | tuple) else [recipients]:
        words += ["--recipient", str(one)]
    if sign:
        words += ["--sign"] if sign is True else ["--sign", "--default-key", str(sign)]
    if always_trust:
        words += ["--trust-model", "always"]
    done = gpg.run(*words, stdin=data, passphrase=passphrase)
    return _worked(done, "END_ENCRYPTION", "Encrypted", output, bare=bare)


def decrypt(
    user: str | None = None,
    text: Any = None,
    filename: str | None = None,
    output: str | None = None,
    use_passphrase: bool = False,
    gnupghome: str | None = None,
    bare: bool = False,
    keyring: str | None = None,
) -> dict[str, Any] | bytes | bool:
    """
    Decrypt a text or a file.

    CLI Example::

        salt '*' gpg.decrypt filename='/path/to/important.file.gpg' use_passphrase=True
    """
    passphrase = passphrase_of(__salt__) if use_passphrase else None
    gpg = keychain(__salt__, user, gnupghome, keyring)
    done = gpg.run("--decrypt", stdin=content(text, filename), passphrase=passphrase)
    return _worked(done, "DECRYPTION_OKAY", "Decrypted", output, bare=bare)
