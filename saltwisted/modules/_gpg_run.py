"""
The program C{gpg}: how it is started, and what it says of keys and signatures.

Salt asks it through python-gnupg. Here it is started directly, so that the program is enough. Its
status lines have a descriptor of their own: no file name or user id can be taken for one.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from attrs import define, field, frozen

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

LETTERS: Mapping[str, str] = {
    "e": "Expired",
    "q": "Unknown",
    "n": "Not Trusted",
    "f": "Fully Trusted",
    "m": "Marginally Trusted",
    "u": "Ultimately Trusted",
    "r": "Revoked",
    "-": "Unknown",
}
"""What C{gpg} thinks of a key, in Salt's words."""

TRUST: Mapping[str, str] = {
    "TRUST_EXPIRED": "Expired",
    "TRUST_UNDEFINED": "Undefined",
    "TRUST_NEVER": "Never",
    "TRUST_MARGINAL": "Marginal",
    "TRUST_FULLY": "Fully",
    "TRUST_ULTIMATE": "Ultimate",
}
"""What it thinks of the key behind a good signature."""

_LISTED = (
    *("type", "trust", "length", "algo", "keyid", "date", "expires", "dummy", "ownertrust"),
    *("uid", "sig", "cap"),
)
_FOUND = ("type", "keyid", "algo", "length", "date", "expires")
_ESCAPED = re.compile(r"\\x([0-9a-f][0-9a-f])", re.IGNORECASE)
_BACKSLASHED = {r"\n": "\n", r"\r": "\r", r"\f": "\f", r"\v": "\v", r"\b": "\b", r"\0": "\0"}


@frozen
class Answer:
    """
    What C{gpg} said.

    @ivar status: the keyword and the rest of each status line.
    """

    status: Sequence[tuple[str, str]]
    data: bytes
    stderr: str
    code: int

    def values(self, *keys: str) -> list[str]:
        """The rest of each status line with one of these keywords."""
        return [value for key, value in self.status if key in keys]


@frozen
class Gpg:
    """
    A keychain, and how C{gpg} works with it.

    @ivar account: whose keychain it is, if not this process's: C{gpg} then runs in that account, as
        its configuration may name programs.
    """

    home: str
    keyring: str | None = None
    account: pwd.struct_passwd | None = None

    def run(
        self,
        *words: str,
        operands: Sequence[str] = (),
        stdin: bytes | IO[bytes] = b"",
        passphrase: str | None = None,
        files: Sequence[str] = (),
    ) -> Answer:
        """
        Run it.

        @param operands: what is never an option, whatever it begins with.
        @param files: paths that this process opens, as operands before the others.
        """
        program = systools.which("gpg")
        if program is None:
            raise CommandExecutionError("gpg binary is not in the path")
        opened: list[int] = []
        with tempfile.TemporaryFile() as said:
            command = [program, "--no-tty", "--no-verbose", "--fixed-list-mode", "--batch"]
            command += ["--with-colons", "--status-fd", str(said.fileno()), "--homedir", self.home]
            if self.keyring:
                command += ["--no-default-keyring", "--keyring", self.keyring]
            try:
                if passphrase:
                    opened.append(_secret(passphrase))
                    command += ["--pinentry-mode", "loopback", "--passphrase-fd", str(opened[0])]
                command += words
                for path in files:
                    opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                    operands = [*operands, f"-&{opened[-1]}"]
                if files:
                    command.append("--enable-special-filenames")
                if operands:
                    command += ["--", *operands]
                given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
                done = subprocess.run(
                    command,
                    capture_output=True,
                    check=False,
                    pass_fds=(said.fileno(), *opened),
                    **given,
                    **self._account(),
                )
            finally:
                for number in opened:
                    os.close(number)
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").splitlines()
        status = []
        for line in lines:
            key, _, value = line.removeprefix("[GNUPG:] ").partition(" ")
            status.append((key, value))
        return Answer(status, done.stdout, done.stderr.decode("utf-8", "replace"), done.returncode)

    def _account(self) -> dict[str, Any]:
        env = {**os.environ}
        account = self.account
        if account is None or account.pw_uid == os.geteuid():
            return {"env": env}
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
        env.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)
        env.pop("GNUPGHOME", None)
        ids = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
        return {**ids, "env": env, "cwd": "/"}

    def keys(self, *, secret: bool = False) -> list[dict[str, Any]]:
        """The keys of the keychain."""
        which = "--list-secret-keys" if secret else "--list-keys"
        done = self.run(which, "--fingerprint", "--fingerprint", "--with-keygrip")
        return list(listed(done.data, with_subkeys=True))

    def named(
        self, keyid: str | None, fingerprint: str | None, *, secret: bool = False
    ) -> dict[str, Any] | bool:
        """One key, by its fingerprint, its long or its short id; C{False} if there is none."""
        for key in self.keys(secret=secret):
            if is_meant(key, keyid, fingerprint):
                return key
        return False


def _secret(text: str) -> int:
    """The end of a pipe from which this can be read: it stands in no list of processes."""
    if any(mark in text for mark in "\n\r\0"):
        raise ValueError("Invalid passphrase")
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(text.encode() + b"\n")
    return reading


def is_meant(key: Mapping[str, Any], keyid: str | None, fingerprint: str | None) -> bool:
    """Whether this is the key with that fingerprint or id."""
    known = key["keyid"]
    return keyid in (known, known[8:]) or (
        key.get("fingerprint") is not None and key.get("fingerprint") == fingerprint
    )


def _uid(text: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), text)
    for escaped, plain in _BACKSLASHED.items():
        text = text.replace(escaped, plain)
    return text


def _records(data: bytes) -> Iterator[list[str]]:
    for line in data.decode("utf-8", "replace").splitlines():
        yield line.strip().split(":")


def listed(data: bytes, *, with_subkeys: bool) -> Iterator[dict[str, Any]]:
    """
    The keys of a list with colons, as Salt shows them.

    @param with_subkeys: whether fingerprints of subkeys are shown, too.
    """
    found: list[dict[str, Any]] = []
    subkey: dict[str, Any] | None = None
    for parts in _records(data):
        fields = dict(zip(_LISTED, parts, strict=False))
        if parts[0] in ("pub", "sec"):
            found.append({**fields, "uids": [], "subs": {}})
            subkey = None
        elif not found:
            continue
        elif parts[0] in ("sub", "ssb"):
            subkey = found[-1]["subs"][parts[4]] = fields
        elif parts[0] == "uid":
            found[-1]["uids"].append(_uid(fields["uid"]))
        elif parts[0] == "fpr" and subkey is None:
            found[-1]["fingerprint"] = fields["uid"]
        elif parts[0] == "fpr" and subkey is not None and with_subkeys:
            subkey["fingerprint"] = fields["uid"]
    return (shown(key) for key in found)


def searched(data: bytes) -> Iterator[dict[str, Any]]:
    """The keys that a key server has found, as Salt shows them."""
    found: list[dict[str, Any]] = []
    for parts in _records(data):
        if parts[0] == "pub" and len(parts) > 1:
            found.append({**dict(zip(_FOUND, parts, strict=False)), "uids": []})
        elif parts[0] == "uid" and found and len(parts) > 1:
            found[-1]["uids"].append(_uid(parts[1]))
    return (shown(key) for key in found)


def shown(key: Mapping[str, Any]) -> dict[str, Any]:
    """A key in Salt's words."""
    result: dict[str, Any] = {"keyid": key["keyid"]}
    for name in ("uids", "fingerprint"):
        if name in key:
            result[name] = key[name]
    if key.get("expires"):
        result["expires"] = time.strftime("%Y-%m-%d", time.localtime(float(key["expires"])))
        result["expired"] = time.time() >= float(key["expires"])
    if key.get("date"):
        result["created"] = time.strftime("%Y-%m-%d", time.localtime(float(key["date"])))
    if key.get("length"):
        result["keyLength"] = key["length"]
    for name, letter in (("ownerTrust", key.get("ownertrust")), ("trust", key.get("trust"))):
        if letter:
            result[name] = LETTERS.get(letter, "Unknown")
    if key.get("subs"):
        result["subkeys"] = [shown(sub) for sub in key["subs"].values()]
    return result


@define
class Signature:
    """A signature that C{gpg} could check: its key is there, and it fits the data."""

    key_id: str | None = None
    username: str | None = None
    fingerprint: str | None = None
    trust_level: str | None = None
    status: str | None = None

    def as_map(self) -> dict[str, Any]:
        """As C{gpg.verify} shows it."""
        return {
            "username": self.username,
            "key_id": self.key_id,
            "fingerprint": self.fingerprint,
            "trust_level": self.trust_level,
            "status": self.status,
        }


@define
class Signatures:
    """
    What was said of all signatures of some data.

    @ivar checked: those that fit the data, made by a key that is there.
    @ivar is_bad: whether one does not fit the data.
    """

    checked: list[Signature] = field(factory=list)
    is_bad: bool = False

    @classmethod
    def of(cls, answer: Answer) -> Signatures:
        """Read the status lines. A word about trust counts for the signature before it alone."""
        result = cls()
        now: Signature | None = None
        for key, value in answer.status:
            if key == "NEWSIG":
                now = None
            elif key == "BADSIG":
                result.is_bad, now = True, None
            elif key == "SIG_ID":
                now = Signature()
                result.checked.append(now)
            elif now is not None:
                now = _heard(now, key, value)
        return result

    @property
    def good(self) -> list[Signature]:
        """Those that are neither expired nor made by an expired or revoked key."""
        return [one for one in self.checked if one.trust_level is not None]


_WITHOUT_WORTH = {
    "EXPSIG": "signature expired",
    "EXPKEYSIG": "signing key has expired",
    "REVKEYSIG": "signing key was revoked",
}


def _heard(one: Signature, key: str, value: str) -> Signature | None:
    """Something more about this signature; C{None} when that was the last word."""
    if key == "GOODSIG" or key in _WITHOUT_WORTH:
        one.key_id, _, one.username = value.partition(" ")
        one.status = _WITHOUT_WORTH.get(key, "signature good")
    elif key == "VALIDSIG":
        parts = value.split()
        one.fingerprint = parts[9] if len(parts) >= 10 else None
        if one.status == "signature good":
            one.status = "signature valid"
    elif key in TRUST:
        if one.status == "signature valid":
            one.trust_level = TRUST[key]
        return None
    return one


def key_parameters(given: Mapping[str, Any]) -> bytes:
    """
    What C{gpg --gen-key} reads, each C{key_type} a line C{Key-Type}.

    @raise SaltInvocationError: something would be more than one line.
    """
    lines = []
    for name, value in given.items():
        text = str(value)
        if any(mark in text for mark in "\n\r\0"):
            raise SaltInvocationError(f"{name} has more than one line")
        if text.strip():
            lines.append(f"{name.replace('_', '-').title()}: {text}")
    if "passphrase" not in given:
        lines.append("%no-protection")
    return "\n".join([*lines, "%commit", ""]).encode()
