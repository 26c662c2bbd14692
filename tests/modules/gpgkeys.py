"""
Keys of GnuPG, and what they have signed, for tests: C{tests/vectors/gpgkeys.json}.

They were made once, so that fingerprints stay the same. To make them anew (all records change)::

    python3 tests/modules/gpgkeys.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile

FILE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors", "gpgkeys.json"
)
PAST = "20200101T120000"
"""When all that is here was made."""


def keys() -> dict[str, str]:
    """What is there, by name."""
    with open(FILE, encoding="utf-8") as file:
        found: dict[str, str] = json.load(file)
    return found


def detached(data: bytes, name: str = "ann") -> str:
    """A signature of these bytes, made now."""
    home = tempfile.mkdtemp(prefix="gpgkeys")
    gpg = ["gpg", "--batch", "--quiet", "--homedir", home]
    try:
        secret = keys()[f"{name}_secret"].encode()
        subprocess.run([*gpg, "--import"], input=secret, check=True)
        signing = [*gpg, "--armor", "--detach-sign"]
        return subprocess.run(signing, input=data, capture_output=True, check=True).stdout.decode()
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)


def make(home: str) -> dict[str, str]:
    """Make everything in a keychain of its own."""

    def gpg(*words: str, text: str = "", at: str = PAST) -> str:
        command = ["gpg", "--batch", "--quiet", "--yes", "--homedir", home, "--trust-model"]
        command += ["always", "--pinentry-mode", "loopback", "--passphrase", ""]
        done = subprocess.run(
            [*command, "--faked-system-time", f"{at}!", *words],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def sign(text: str, *who: str, how: str = "--clearsign", more: tuple[str, ...] = ()) -> str:
        users = [word for one in who for word in ("--local-user", f"{one}@example.com")]
        return gpg(*users, *more, "--armor", how, text=text)

    made: dict[str, str] = {}
    for name, end in (("ann", "0"), ("ben", "0"), ("old", "2020-02-01"), ("gone", "0")):
        user = f"{name.title()} <{name}@example.com>"
        gpg("--quick-generate-key", user, "ed25519", "sign", end)
        listed = gpg("--with-colons", "--list-keys", user)
        prints = [line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr")]
        made[f"{name}_fingerprint"] = prints[0]
        if name != "gone":
            gpg("--quick-add-key", prints[0], "cv25519", "encr", end)
        made[f"{name}_secret"] = gpg("--armor", "--export-secret-keys", prints[0])
        made[f"{name}_signed"] = sign("hello\n", name)
        made[f"{name}_detached"] = sign("hello\n", name, how="--detach-sign")
        made[name] = gpg("--armor", "--export", prints[0])
    made["both_signed"] = sign("hello\n", "ann", "ben")
    made["both_detached"] = sign("hello\n", "ann", "ben", how="--detach-sign")
    made["with_gone_detached"] = sign("hello\n", "gone", "ann", how="--detach-sign")
    made["bad_signed"] = made["ann_signed"].replace("hello", "hallo")
    late = ("--default-sig-expire", "2020-01-10")
    made["late_signed"] = sign("hello\n", "ann", more=late)
    revoked = os.path.join(home, "openpgp-revocs.d", f"{made['gone_fingerprint']}.rev")
    with open(revoked, encoding="utf-8") as file:
        gpg("--import", text=file.read().replace(":-----BEGIN", "-----BEGIN"))
    made["gone_revoked"] = gpg("--armor", "--export", made["gone_fingerprint"])
    made["all"] = gpg("--armor", "--export")
    return made


def main() -> None:
    """Write the file."""
    home = tempfile.mkdtemp(prefix="gpgkeys")
    try:
        made = make(home)
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)
    with open(FILE, "w", encoding="utf-8") as out:
        json.dump(made, out, indent=1, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()
