"""
Repositories for tests, made by the git program.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
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


class Pack:
    """A pack whose objects are differences to each other as somebody wants them."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []

    def whole(self, kind: str, content: bytes) -> str:
        """An object as it is; its name."""
        number = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}[kind]
        self._rows.append(_head(number, len(content)) + zlib.compress(content, 9))
        return name_of(kind, content)

    def to(self, base: str, size: int, kind: str, content: bytes) -> str:
        """An object of less than 128 bytes, as a difference to one of so many bytes; its name."""
        delta = _number(size) + _number(len(content)) + bytes([len(content)]) + content
        self._rows.append(_head(7, len(delta)) + bytes.fromhex(base) + zlib.compress(delta))
        return name_of(kind, content)

    def data(self) -> bytes:
        """It, with the digest at its end."""
        data = b"PACK" + struct.pack(">II", 2, len(self._rows)) + b"".join(self._rows)
        return data + hashlib.sha1(data, usedforsecurity=False).digest()

    def into(self, repo: Repo) -> None:
        """Put it into a repository."""
        repo.git("index-pack", "--stdin", data=self.data())


def name_of(kind: str, content: bytes) -> str:
    """The name of an object."""
    head = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def _head(kind: int, size: int) -> bytes:
    first, size = kind << 4 | size & 15, size >> 4
    return bytes([first | 128]) + _number(size) if size else bytes([first])


def _number(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])
