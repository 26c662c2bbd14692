"""
Mutations that survive, and why nobody could notice them.

A key is a name, or the beginning of one: then the reason holds for all that begin so. "There is no
test yet" is no reason.
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "domain.replica.fold.Registers.join: let raise NotImplementedError": (
        "No register is of the class itself: each kind of fact has its own."
    ),
    "domain.replica.fold.Registers.facts: let raise NotImplementedError": (
        "No register is of the class itself: each kind of fact has its own."
    ),
    "domain.replica.words._read_facts: and not isinstance(row, list) or len(row) != 6": (
        "The fact in a row of another length is refused by its own decoder."
    ),
    "domain.replica.words._read_facts: let not isinstance(row, list) or len(row) != 6": (
        "The fact in a row of another length is refused by its own decoder."
    ),
    "domain.sharing.ByTurns.take: and owner is None or things is None": (
        "Both are there or neither is: they come out of one pair."
    ),
    "worker.called.Called._has: yes not isinstance(key, str)": (
        "What is no text is no function of the loader either, which is asked next."
    ),
    "worker.called.Called.__reduce__: let raise TypeError": (
        "Then it answers with nothing, which the pickler refuses as well."
    ),
    "domain.replica.words._decode: let reader is None": (
        "What is no function cannot be called, and that error becomes the same refusal."
    ),
    "wire.msgpack._note: ": (
        "More marks than can be told apart are noticed when they are put back: the quick way of"
        " reading is only given up later."
    ),
    "wire.rsa.PrivateKey.sign_x931: let fill < 0": (
        "A block of such a message is not below the modulus, which is refused a few lines below."
    ),
    "wire.rsa.PrivateKey.sign_x931: and gcd(block, n) != 1 or block >= n": (
        "A block begins with 0x6a or 0x6b, and so is below the modulus; for the other condition one"
        " has to know a factor of it."
    ),
    "wire.rsa.PrivateKey.sign_x931: let gcd(block, n) != 1 or block >= n": (
        "A block begins with 0x6a or 0x6b, and so is below the modulus; for the other condition one"
        " has to know a factor of it."
    ),
    "wire.rsa.PrivateKey.sign_x931: let self.public.open_x931(signature) != message": (
        "A faulty signature does not open at all, which is an error already."
    ),
    "wire.publication.verify_publication: let not publication.signature": (
        "An empty signature is of no key, which is refused a few lines below."
    ),
    "wire.handshake.MinionHandshake._open: let token.__class__ is not bytes": (
        "What is no bytes cannot be decrypted, which is refused in the next line."
    ),
    "wire.handshake.MinionHandshake._key: let sealed.__class__ is not bytes": (
        "What is no bytes cannot be decrypted, which is refused in the next line."
    ),
    "wire.decoding.walking: let skip.passed != len(data)": (
        "The library is fed the same bytes afterwards, and refuses what is behind the value."
    ),
    "wire.envelope._span: let raise LookupError": (
        "Nothing is returned then, and its caller cannot take that apart: the same outcome."
    ),
}


def reason_of(name: str) -> str:
    """Why this one may survive; C{""} if nobody has said."""
    return next((reason for key, reason in REASONS.items() if name.startswith(key)), "")
