"""
Repositories for tests, made by the git program.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

REFSPECS = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
ENVIRON = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


class Repo:
    """A repository with a working tree."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(path)
        self.git("init", "--quiet", "--initial-branch", "master")

    @property
    def url(self) -> str:
        """How it is fetched."""
        return f"file://{self.path}"

    def git(self, *args: str, data: bytes = b"", **environ: str) -> str:
        """Run git in it; what it said."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env={**ENVIRON, **environ},
            input=data,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"git {args}: {done.stderr.decode()}")
        return done.stdout.decode().strip()

    def write(self, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> None:
        """Files in the working tree."""
        for path, content in files.items():
            full = Path(self.path, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content)
        for path, target in (links or {}).items():
            full = Path(self.path, path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.symlink_to(target)

    def commit(self, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> str:
        """Commit these files beside what is there; the commit."""
        self.write(files, links)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "m")
        return self.git("rev-parse", "HEAD")

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree of entries (mode, name, object) that git itself would refuse; the object."""
        rows = sorted(entries, key=lambda row: row[1] + b"/" * (row[0] == "40000"))
        raw = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in rows
        )
        args = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
        return self.git(*args, data=raw)

    def blob(self, content: bytes) -> str:
        """A blob."""
        return self.git("hash-object", "-w", "--stdin", data=content)

    def branch(self, name: str, tree: str) -> str:
        """A branch with one commit, of this tree."""
        commit = self.git("commit-tree", tree, "-m", "m")
        self.git("update-ref", f"refs/heads/{name}", commit)
        return commit


def fetch_request(folder: str, url: str, **more: Any) -> dict[str, Any]:
    """What a worker is asked to fetch."""
    return {
        "do": "fetch",
        "folder": folder,
        "url": url,
        "refspecs": REFSPECS,
        "seconds": 60.0,
        "most": 1 << 30,
        "now": 1.0,
        **more,
    }


def git_daemon(test: SynchronousTestCase, top: str, port: int) -> subprocess.Popen[bytes]:
    """Serve the repositories in a directory by C{git daemon}, until the test ends."""
    args = ["git", "daemon", "--export-all", "--reuseaddr", "--listen=127.0.0.1"]
    process = subprocess.Popen(
        [*args, f"--port={port}", f"--base-path={top}", top],
        env=ENVIRON,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def end() -> None:
        if process.poll() is None:
            os.killpg(process.pid, 15)
            process.wait()

    test.addCleanup(end)
    return process
