"""
Whether git's report on a signature is good, and the texts about a bad one.

A signature counts if one of the trusted keys made it while that key was valid. If a key has expired
since then, its signatures stay valid; if it is revoked, or no longer in the file, they do not. The
signer states the time of a signature.

Reports have names in them that others have chosen. Their lines end where the programs end them, and
not at all that Python takes for an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

KINDS = {"gpg": "OpenPGP", "ssh": "SSH"}
_OUTCOMES = ("GOODSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG", "ERRSIG")
_SSH_GOOD = 'Good "git" signature for '
_SSH_OTHER = 'Good "git" signature with '
_SIGNED_UNKNOWN = "is signed with a key that may not sign"


@frozen
class Key:
    """
    A key, or a part of one, by which somebody may sign.

    @ivar expires: seconds since 1970; 0 for never.
    """

    expires: int = 0
    is_revoked: bool = False

    def was_valid(self, at: int) -> bool:
        """Whether it was no older then than it says it may become."""
        return not self.expires or at <= self.expires


def keys_of(listed: str) -> dict[str, Key]:
    """
    Fingerprint to key, of all primary keys and their parts.

    @param listed: what C{gpg --with-colons --list-keys} says.
    """
    found: dict[str, Key] = {}
    primary = last = Key()
    for line in listed.split("\n"):
        row = line.split(":")
        if row[0] in ("pub", "sub") and len(row) > 6:
            last = Key(int(row[6]) if row[6].isdigit() else 0, row[1] == "r")
            if row[0] == "pub":
                primary = last
            else:
                # A part lives no longer than the whole
                ends = [each.expires for each in (primary, last) if each.expires]
                last = Key(min(ends, default=0), primary.is_revoked or last.is_revoked)
        elif row[0] == "fpr" and len(row) > 9:
            found[row[9]] = last
    return found


def wrong_with_gpg(status: int, told: str, keys: Mapping[str, Key]) -> str:
    """
    What is wrong with an OpenPGP signature; C{""} for nothing.

    @param status: the exit status of C{git verify-commit --raw}.
    @param told: its output: the lines of C{gpg --status-fd}.
    """
    rows = [line.split() for line in told.split("\n") if line.startswith("[GNUPG:] ")]
    outcomes = [row for row in rows if len(row) > 2 and row[1] in _OUTCOMES]
    if not outcomes:
        return "has no OpenPGP signature"
    if len(outcomes) > 1:
        return "has more than one signature"
    outcome, name = outcomes[0][1], outcomes[0][2]
    if outcome == "ERRSIG":
        return f"{_SIGNED_UNKNOWN}: {name}"
    if outcome == "BADSIG":
        return f"has an invalid signature: {name}"
    if outcome == "REVKEYSIG":
        return f"is signed with a revoked key: {name}"
    if outcome == "EXPSIG":
        return f"has an expired signature: {name}"
    valid = [row for row in rows if len(row) > 4 and row[1] == "VALIDSIG" and row[4].isdigit()]
    if len(valid) != 1:
        return "has a signature that cannot be verified"
    key = keys.get(valid[0][2])
    if key is None:
        return f"{_SIGNED_UNKNOWN}: {name}"
    if key.is_revoked:
        return f"is signed with a revoked key: {name}"
    if not key.was_valid(int(valid[0][4])):
        return f"was signed after the key had expired: {name}"
    return "has a signature that cannot be verified" if outcome == "GOODSIG" and status else ""


def wrong_with_ssh(status: int, told: str) -> str:
    """What is wrong with an SSH signature; C{""} for nothing."""
    lines = told.split("\n")
    if not status and lines and lines[0].startswith(_SSH_GOOD):
        return ""
    for line in lines:
        if line.startswith((_SSH_OTHER, _SSH_GOOD)):
            return (
                f"{_SIGNED_UNKNOWN}, or was not allowed to at that time: {line.rsplit(None, 1)[-1]}"
            )
    if any("verif" in line.lower() and "fail" in line.lower() for line in lines):
        return "has an invalid signature"
    return "has no SSH signature"


def name_in_tag(content: bytes) -> str:
    """The name that an annotated tag says it has."""
    for line in content.partition(b"\n\n")[0].split(b"\n"):
        if line.startswith(b"tag "):
            return line[4:].decode(errors="surrogateescape")
    return ""


def called(ref: str) -> str:
    """A ref, as people call it."""
    kind, _, name = ref.removeprefix("refs/").partition("/")
    if kind == "tags":
        return f"tag {name}"
    return f"branch {name.partition('/')[2] or name}"


def sentence(ref: str, refusal: Mapping[str, Any]) -> str:
    """
    The text about a ref that is not served as it is.

    @param refusal: C{commit}, C{why}, and C{serves}, the commit that is served, or C{""}.
    """
    serves = str(refusal["serves"])
    rest = f"its last good one, {serves[:12]}, is served" if serves else "it is not served"
    return f"{called(ref)} is at {str(refusal['commit'])[:12]}, which {refusal['why']}; {rest}"
