"""
C{file_roots} (or C{pillar_roots}) of this machine, answering as a master's file server would.

Used if C{file_client} is C{local}: L{LocalRoots.request} takes the same loads as the master's
C{_file_list}, C{_file_hash}, C{_serve_file} and others, so that the file client has one way for
both. Nothing outside a root is ever returned, and nothing is cached: the files are local.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saltwisted.worker.walk import walk


class LocalRoots:
    """
    Some environments of directories.

    @param opts: the minion's options.
    @param roots: environment to its directories; C{file_roots} by default.
    """

    def __init__(
        self, opts: Mapping[str, Any], roots: Mapping[str, list[str]] | None = None
    ) -> None:
        self._opts = opts
        self.roots: Mapping[str, list[str]] = roots or opts.get("file_roots") or {}
        self._globs = list(opts.get("file_ignore_glob") or ())
        self._regexes = [re.compile(text) for text in opts.get("file_ignore_regex") or ()]
        self._follow = bool(opts.get("fileserver_followsymlinks", True))
        self._no_links = bool(opts.get("fileserver_ignoresymlinks", False))
        self._commands: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "_file_envs": lambda load: sorted(self.roots),
            "_file_list": lambda load: self.listed(load, "files"),
            "_file_list_emptydirs": lambda load: self.listed(load, "empty"),
            "_dir_list": lambda load: self.listed(load, "dirs"),
            "_symlink_list": self._links,
            "_file_hash": self._hash,
            "_file_find": self._find,
            "_serve_file": self._serve,
            "_master_opts": lambda load: dict(self._opts),
            "_master_tops": lambda load: {},
        }

    def request(self, load: Mapping[str, Any], timeout: float | None = None) -> Any:
        """The answer to one file request; C{{}} for a command that is none."""
        command = self._commands.get(str(load.get("cmd")))
        return {} if command is None else command(load)

    def directories(self, saltenv: str) -> list[str]:
        """The roots of an environment, also of one that C{__env__} stands for."""
        if saltenv in self.roots:
            return [str(root) for root in self.roots[saltenv]]
        return [str(root).replace("__env__", saltenv) for root in self.roots.get("__env__", ())]

    def ignored(self, path: str) -> bool:
        """Whether C{file_ignore_regex} or C{file_ignore_glob} name it."""
        return any(regex.search(path) for regex in self._regexes) or any(
            fnmatch.fnmatch(path, glob) for glob in self._globs
        )

    def find(self, path: str, saltenv: str) -> str | None:
        """The file of the first root that has it, never outside the root."""
        relative = os.path.normpath(path.lstrip("|"))
        if os.path.isabs(relative) or relative.split("/")[0] == ".." or "\0" in relative:
            return None
        for root in self.directories(saltenv):
            full = os.path.join(root, relative)
            if not self._follow and not _inside(root, full):
                continue
            if os.path.isfile(full) and not self.ignored(full):
                return full
        return None

    def listed(self, load: Mapping[str, Any], form: str) -> list[str]:
        """Relative paths of an environment: C{files}, C{dirs} or C{empty} directories."""
        found = set()
        for kind, relative, _, _ in self._walk(load.get("saltenv", "base")):
            if kind == form or (form == "dirs" and kind == "empty"):
                found.add(relative)
        prefix = str(load.get("prefix") or "").strip("/")
        return sorted(path for path in found if path.startswith(prefix))

    def _links(self, load: Mapping[str, Any]) -> dict[str, str]:
        links: dict[str, str] = {}
        prefix = str(load.get("prefix") or "").strip("/")
        for _, relative, full, root in self._walk(load.get("saltenv", "base")):
            if relative.startswith(prefix) and os.path.islink(full):
                target = os.readlink(full)
                inside = _inside(root, os.path.join(os.path.dirname(full), target))
                if inside or not self._follow:
                    links[relative] = target
        return links

    def _walk(self, saltenv: str) -> Iterator[tuple[str, str, str, str]]:
        """Kind, relative path, full path and root of all that is not ignored."""
        for root in self.directories(saltenv):
            for parent, dirs, files in walk(root, self._follow):
                plain = set(files)
                for name in (*dirs, *files):
                    full = os.path.join(parent, name)
                    relative = os.path.relpath(full, root)
                    if (self._no_links and os.path.islink(full)) or self.ignored(relative):
                        continue
                    if name in plain:
                        yield "files", relative, full, root
                        continue
                    try:
                        empty = not os.listdir(full)
                    except OSError:
                        empty = False
                    yield "empty" if empty else "dirs", relative, full, root

    def _hash(self, load: Mapping[str, Any]) -> Any:
        full = self.find(str(load.get("path", "")), load.get("saltenv", "base"))
        if full is None:
            return ""
        kind = str(self._opts.get("hash_type", "sha256"))
        return {"hash_type": kind, "hsum": digest(full, kind)}

    def _find(self, load: Mapping[str, Any]) -> dict[str, Any]:
        path = str(load.get("path", ""))
        full = self.find(path, load.get("saltenv", "base"))
        if full is None:
            return {"path": "", "rel": ""}
        return {"path": full, "rel": path, "stat": list(os.stat(full)), "back": "roots"}

    def _serve(self, load: Mapping[str, Any]) -> dict[str, Any]:
        path = str(load.get("path", ""))
        full = self.find(path, load.get("saltenv", "base"))
        if full is None:
            return {"data": "", "dest": ""}
        with open(full, "rb") as stream:
            stream.seek(int(load.get("loc", 0)))
            data = stream.read(int(self._opts.get("file_buffer_size") or 262144))
        answer: dict[str, Any] = {"data": data, "dest": path}
        if load.get("gzip") and data:
            answer.update(data=gzip.compress(data, int(load["gzip"])), gzip=load["gzip"])
        return answer


def digest(path: str, kind: str) -> str:
    """The hexadecimal digest of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _inside(root: str, path: str) -> bool:
    base = os.path.realpath(root)
    return os.path.realpath(path).startswith(base.rstrip("/") + "/")
