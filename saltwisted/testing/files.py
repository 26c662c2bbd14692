"""
A source of files, in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Mapping

from saltwisted.parts import IFileSource
from saltwisted.stores.roots.served import Found, clean_path
from saltwisted.stores.roots.tree import Listing


class MemoryFiles:
    """Environments of files that a test has said."""

    def __init__(
        self,
        envs: Mapping[str, Mapping[str, bytes]],
        links: Mapping[str, Mapping[str, str]] | None = None,
        empty: Mapping[str, Collection[str]] | None = None,
        name: str = "roots",
        hash_type: str = "sha256",
    ) -> None:
        """
        @param envs: environment to the files in it, path to content.
        @param links: environment to its links, path to where each leads, relative to itself.
        @param empty: environment to its empty directories.
        @param name: as C{fileserver_backend} calls it.
        """
        self.name = name
        self._hash_type = hash_type
        self._envs = {env: dict(files) for env, files in envs.items()}
        self._links = {env: dict((links or {}).get(env, {})) for env in envs}
        self._empty = {env: set((empty or {}).get(env, ())) for env in envs}

    def startService(self) -> None:
        """Nothing to open."""

    def stopService(self) -> None:
        """Nothing to close."""

    def write(self, saltenv: str, path: str, content: bytes) -> None:
        """Put a file there, or another content into it."""
        self._envs[saltenv][path] = content

    def envs(self) -> list[str]:
        """Names of the environments, sorted."""
        return sorted(self._envs)

    def refresh(self) -> None:
        """There is nothing that could be old."""

    def find(self, saltenv: str, path: str, index: int | None = None) -> Found | None:
        """The file, also by way of links."""
        rel = clean_path(path)
        files = self._envs.get(saltenv)
        if rel is None or files is None or index not in (None, 0):
            return None
        real = self._resolve(saltenv, rel)
        if real not in files:
            return None
        size = len(files[real])
        info = os.stat_result((stat.S_IFREG | 0o644, 1, 0, 1, 0, 0, size, 0, 0, 0))
        return Found(f"/{saltenv}/{real}", rel, info, self.name)

    def _resolve(self, saltenv: str, path: str) -> str:
        """Where a path leads to; C{""} if links lead out, or in a circle."""
        links, parts, at = self._links[saltenv], path.split("/")[::-1], list[str]()
        for _ in range(1000):
            if not parts:
                return "/".join(at)
            part = parts.pop()
            if part == "..":
                if not at:
                    return ""
                at.pop()
            elif (target := links.get("/".join([*at, part]))) is not None:
                if target.startswith("/"):
                    return ""
                parts.extend(target.split("/")[::-1])
            elif part not in ("", "."):
                at.append(part)
        return ""

    def _content(self, found: Found) -> bytes:
        _, env, real = found.full.split("/", 2)
        return self._envs[env][real]

    def hash(self, found: Found) -> str:
        """The hash of a file in hex."""
        return hashlib.new(self._hash_type, self._content(found)).hexdigest()

    def read(self, found: Found, start: int, size: int) -> bytes:
        """A range of a file."""
        return self._content(found)[start : start + size] if start >= 0 else b""

    def listing(self, saltenv: str) -> Listing:
        """Everything in an environment."""
        if saltenv not in self._envs:
            return Listing()
        links, inside = self._links[saltenv], {*self._envs[saltenv], *self._empty[saltenv]}
        folders = {path.rsplit("/", n)[0] for path in [*inside, *links] for n in range(1, 64)}
        folders = {path for path in folders if path not in inside and path not in links}
        folders |= self._empty[saltenv]
        shown = {*inside, *folders, *links}
        for link in sorted(links):
            real = self._resolve(saltenv, link)
            if real in folders:
                below = {path for path in shown if path.startswith(f"{real}/")}
                shown |= {link + path[len(real) :] for path in below}
        dirs = {path for path in shown if self._resolve(saltenv, path) in folders}
        empty = {p for p in dirs if self._resolve(saltenv, p) in self._empty[saltenv]}
        return Listing(
            tuple(sorted(shown - dirs)),
            tuple(sorted(dirs)),
            tuple(sorted(empty)),
            dict(sorted((p, t) for p, t in links.items())),
        )


_MemoryFiles: type[IFileSource] = MemoryFiles  # mypy compares them
