"""
Whether commits and tags have valid signatures: checked by git, with gpg or ssh-keygen.

Only the keys of one file are used: gpg gets a directory of its own that lives as long as the check,
fetches no keys, and leaves no agent. The present contents of the file count, even for commits that
were served before (L{saltwisted.domain.git.signing} has the rules).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.git import signing
from saltwisted.worker.git import program
from saltwisted.worker.git.program import GitError

MOST_KEYS = 16 * 1024 * 1024
"""Bytes of a file of keys."""
MOST_SIGNED = 5000
"""Commits of which it is known that they were good, and that may be environments."""
GPG_CONF = """no-autostart
no-auto-key-retrieve
no-auto-key-locate
no-auto-check-trustdb
disable-dirmngr
trust-model always
batch
no-tty
"""
_NEVER = "/bin/false"


class Judge:
    """
    Who may sign, according to the configuration.

    @ivar policy: distinguishes this rule and its keys from every other.
    @param kind: C{gpg} or C{ssh}.
    @param path: the file with the keys.
    @param place: a directory of its own, not created yet.
    @param seconds: the time limit of all its checks together, from the first on.
    @raises GitError: the keys cannot be read.
    """

    def __init__(self, kind: str, path: str, place: str, seconds: float) -> None:
        self._kind, self._path, self._place = kind, path, place
        self._seconds, self._until = seconds, 0.0
        self._content = self._read()
        self.policy = f"{kind}:{hashlib.sha256(self._content).hexdigest()}"
        self._environ: dict[str, str] = {}
        self._keys: dict[str, signing.Key] = {}

    def _read(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                content = file.read(MOST_KEYS + 1)
        except OSError as error:
            raise GitError(f"{self._path} (the keys that may sign): {error.strerror}") from error
        if not content.strip() or len(content) > MOST_KEYS:
            how = "is empty" if not content.strip() else "is too large"
            raise GitError(f"{self._path} (the keys that may sign) {how}")
        return content

    def wrong(self, repo: str, oid: str, is_tag: bool) -> str:
        """
        What is wrong with the signature of a commit or an annotated tag; C{""} for nothing.

        @raises GitError: that cannot be told.
        """
        if not self._environ:
            self._until = time.monotonic() + self._seconds
            self._prepare()
        args = ["--git-dir", repo, "verify-tag" if is_tag else "verify-commit", "--raw", oid]
        status, _, noise = program.outcome(args, self._environ, seconds=self._left())
        if len(noise) >= program.KEPT:
            return "has a signature for which gpg writes too much output"
        told = noise.decode(errors="replace")
        if self._kind == "gpg":
            return signing.wrong_with_gpg(status, told, self._keys)
        return signing.wrong_with_ssh(status, told)

    def judged(
        self,
        repo: str,
        tips: Mapping[str, list[str]],
        before: Mapping[str, Any],
        pins: Mapping[str, str],
    ) -> dict[str, Any]:
        """
        Which refs are served at which commit, by who has signed them.

        The tip of a ref counts if it is signed; else what was served before, if that still is good.

        @param tips: what the remote has: ref to its object, the commit and its tree.
        @param before: the state so far; empty for none.
        @param pins: commits, by name, that are configured as they are.
        @return: C{refs}, C{refused} (ref to its object and what is wrong), C{signed} (commits that
            were found good, the newest last) and C{good} (objects that are), C{verify} (the rule).
        """
        same = before.get("verify") == self.policy
        good = set(before.get("good", ())) if same else set()
        asked: set[str] = set()
        bad = {oid: str(why) for oid, why in before.get("refused", {}).values()} if same else {}

        def wrong(oid: str, is_tag: bool) -> str:
            asked.add(oid)
            if oid in good:
                return ""
            if oid not in bad:
                bad[oid] = self.wrong(repo, oid, is_tag)
            if not bad[oid]:
                good.add(oid)
            return bad[oid]

        refs: dict[str, list[str]] = {}
        refused: dict[str, list[str]] = {}
        signed = dict.fromkeys(before.get("signed", ()) if same else ())
        for ref, tip in tips.items():
            oid, commit, _ = tip
            why = _wrong_with(ref, tip, repo, wrong) if commit else ""
            if not why:
                refs[ref] = tip
                continue
            refused[ref] = [oid, why]
            old = before.get("refs", {}).get(ref)
            if old and old[1] and not _wrong_with(ref, old, repo, wrong):
                refs[ref] = old
        now = [tip[1] for tip in refs.values() if tip[1]]
        now += [oid for oid in pins.values() if not wrong(oid, False)]
        for commit in now:
            # The newest are the last
            signed.pop(commit, None)
            signed[commit] = None
        return {
            "refs": refs,
            "refused": refused,
            "signed": list(signed)[-max(MOST_SIGNED, len(now)) :],
            "good": sorted(good & asked),
            "verify": self.policy,
        }

    def close(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._place, ignore_errors=True)

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise GitError("not all signatures could be verified in time")
        return left

    def _prepare(self) -> None:
        os.makedirs(self._place, mode=0o700, exist_ok=True)
        settings = {
            "gpg.program": _NEVER,
            "gpg.openpgp.program": _NEVER,
            "gpg.x509.program": _NEVER,
            "gpg.ssh.program": _NEVER,
            "gpg.ssh.allowedSignersFile": os.devnull,
            "gpg.ssh.revocationFile": os.devnull,
            "gpg.minTrustLevel": "undefined",
        }
        if self._kind == "ssh":
            allowed = os.path.join(self._place, "allowed")
            with open(allowed, "wb") as file:
                file.write(self._content)
            settings["gpg.ssh.program"] = _found("ssh-keygen", "openssh-client")
            settings["gpg.ssh.allowedSignersFile"] = allowed
            self._environ = program.environment({}, settings=settings)
            return
        gpg = _found("gpg", "gpg")
        settings["gpg.program"] = settings["gpg.openpgp.program"] = gpg
        with open(os.path.join(self._place, "gpg.conf"), "w") as file:
            file.write(GPG_CONF)
        keys = os.path.join(self._place, "keys")
        with open(keys, "wb") as binary:
            binary.write(self._content)
        self._environ = program.environment({}, settings=settings) | {"GNUPGHOME": self._place}
        said = self._gpg(gpg, "--import", keys)
        self._keys = signing.keys_of(self._gpg(gpg, "--with-colons", "--list-keys").stdout)
        if not self._keys:
            raise GitError(f"{self._path} has no OpenPGP keys: {program.said(said.stderr, {})}")

    def _gpg(self, gpg: str, *args: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [gpg, *args],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                errors="replace",
                timeout=self._left(),
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._environ = {}
            raise GitError(f"gpg cannot read {self._path}: {type(error).__name__}") from error


def _found(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise GitError(f"the program {name} is missing: install the package {package}")
    return path


def _wrong_with(ref: str, tip: list[str], repo: str, wrong: Any) -> str:
    """What is wrong with a ref; an annotated tag is judged itself, and has to be that tag."""
    oid, commit, _ = tip
    is_tag = oid != commit
    why = str(wrong(oid, is_tag))
    if why or not is_tag or not ref.startswith("refs/tags/"):
        return why
    environ = program.environment({})
    content = program.run(["--git-dir", repo, "cat-file", "tag", oid], environ, seconds=30.0)
    name = signing.name_in_tag(content)
    return "" if f"refs/tags/{name}" == ref else f"is the tag {name}"
