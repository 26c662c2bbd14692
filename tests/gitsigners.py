"""
People who sign commits, for tests: with keys of OpenPGP and of SSH, made by the real programs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from unittest import SkipTest

from tests.gitrepos import Repo


class Signers:
    """
    Keys below a directory of its own.

    @param test: the test whose end is the end of all this.
    """

    def __init__(self, test: Any) -> None:
        for name in ("gpg", "gpgconf", "ssh-keygen"):
            if shutil.which(name) is None:
                raise SkipTest(f"there is no program {name}")
        # The path of an agent's socket is short
        self.home = tempfile.mkdtemp(prefix="sw-gpg-", dir="/tmp")
        test.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        test.addCleanup(self._run, "gpgconf", "--kill", "all")
        os.chmod(self.home, 0o700)

    def _run(self, *args: str) -> bytes:
        environ = {"PATH": os.environ["PATH"], "GNUPGHOME": self.home, "LC_ALL": "C"}
        done = subprocess.run(args, env=environ, capture_output=True, check=False)
        if done.returncode:
            raise AssertionError(f"{args}: {done.stderr.decode()}")
        return done.stdout

    def gpg(self, *args: str, at: str = "") -> bytes:
        """Run gpg, at some other time if that is said."""
        faked = ["--faked-system-time", f"{at}T000000!"] if at else []
        return self._run("gpg", "--batch", "--quiet", "--passphrase", "", *faked, *args)

    def openpgp(self, name: str, expires: str = "never", at: str = "20250101") -> str:
        """Make a key of somebody; its address."""
        who = f"{name}@example.org"
        self.gpg("--quick-generate-key", f"{name} <{who}>", "ed25519", "sign", expires, at=at)
        return who

    def keyring(self, *names: str) -> str:
        """A file with these people's keys; its path."""
        path = os.path.join(self.home, "keyring")
        Path(path).write_bytes(self.gpg("--armor", "--export", *names))
        return path

    def ssh(self, name: str) -> str:
        """Make an SSH key; its path."""
        path = os.path.join(self.home, name)
        self._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path)
        return path

    def allowed(self, *rows: str) -> str:
        """A file with those who may sign: the path of a key, before it perhaps options."""
        path = os.path.join(self.home, "allowed")
        lines = []
        for row in rows:
            options, _, key = row.rpartition(" ")
            text = Path(key + ".pub").read_text().strip()
            lines.append(f"{os.path.basename(key)} {options} {text}\n")
        Path(path).write_text("".join(lines))
        return path

    def by(self, who: str, at: str = "") -> tuple[list[str], dict[str, str]]:
        """What git is told, and its environment, where somebody signs."""
        if who.startswith("/"):
            return ["-c", "gpg.format=ssh", "-c", f"user.signingkey={who}"], {}
        args = ["-c", f"user.signingkey={who}"]
        if at:
            program = Path(self.home, f"gpg-{at}")
            program.write_text(f'#!/bin/sh\nexec gpg --faked-system-time {at}T000000! "$@"\n')
            program.chmod(0o755)
            args += ["-c", f"gpg.program={program}"]
        return args, {"GNUPGHOME": self.home}

    def commit(
        self, repo: Repo, files: dict[str, bytes], who: str, at: str = "", **environ: str
    ) -> str:
        """Commit, signed by somebody; the commit."""
        repo.write(files)
        repo.git("add", "--all")
        args, more = self.by(who, at)
        repo.git(*args, "commit", "--quiet", "--allow-empty", "-S", "-m", "m", **more, **environ)
        return repo.git("rev-parse", "HEAD")

    def tag(self, repo: Repo, name: str, who: str) -> str:
        """An annotated tag, signed by somebody; its object."""
        args, more = self.by(who)
        repo.git(*args, "tag", "-s", "-m", "m", name, **more)
        return repo.git("rev-parse", f"refs/tags/{name}")
