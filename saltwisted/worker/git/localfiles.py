"""
C{gitfs} of a minion without a master: C{salt-call --local} with C{fileserver_backend: [git]}.

Each process fetches once, when it first wants a file, as stock does; if a remote is away, its
earlier commits are used. The process reads those commits to its end. L{saltwisted.domain.git}
decides which environment is which commit, and where a path leads, as for a master.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from attrs import define, field

from saltwisted.config.git import GitRemote, remotes_of
from saltwisted.domain.git import mapping, trees
from saltwisted.domain.git.mapping import Tip
from saltwisted.errors import ConfigError
from saltwisted.worker.git import work
from saltwisted.worker.git.repository import state_of
from saltwisted.worker.localroots import LocalRoots

log = logging.getLogger(__name__)

DIRECTORIES = ("roots",)
SECONDS = 300.0
MOST = 8192 << 20
"""Bytes that a remote may send in one fetch."""


@define(eq=False)
class Local:
    """One remote on this machine, at its present commits."""

    remote: GitRemote
    path: str
    refs: Mapping[str, Tip]
    repo: Any = field(repr=False)

    def tip(self, env: str) -> Tip | None:
        """The commit that an environment is."""
        tip = mapping.tip_of(self.remote, self.refs, env)
        if not isinstance(tip, str):
            return tip
        if self.remote.verify:
            # Nobody has signed it
            return None
        try:
            found = self.repo[tip]
        except (KeyError, ValueError):
            return None
        return Tip(tip, str(found.id), str(found.tree_id)) if found.type_str == "commit" else None

    def look(self, tree: str, name: str) -> trees.Entry | None:
        """What a directory has by a name."""
        try:
            found = self.repo[tree][name]
        except (KeyError, UnicodeError, ValueError):
            return None
        return int(found.filemode), str(found.id)

    def target(self, oid: str) -> str | None:
        """Where a link leads."""
        return trees.text_of(bytes(self.repo[oid].data))

    def places(self, env: str) -> tuple[str, list[str], list[str]] | None:
        """The tree of an environment, its root and its mount point, in parts."""
        tip = self.tip(env)
        if tip is None:
            return None
        root = mapping.root_of(self.remote, env).split("/")
        mountpoint = mapping.mountpoint_of(self.remote, env).split("/")
        return tip.tree, [part for part in root if part], [part for part in mountpoint if part]


def folder_of(cachedir: str, remote: GitRemote) -> str:
    """Where a remote's repository is: by its URL and by how it is reached."""
    reached = (remote.url, remote.user, remote.privkey, remote.refspecs, *remote.judged)
    name = hashlib.sha256(repr(reached).encode()).hexdigest()[:32]
    return os.path.join(cachedir, "saltwisted", "git", name)


def fetched(opts: Mapping[str, Any], remote: GitRemote) -> Local | None:
    """A remote, after it was asked; C{None} where nothing of it is known."""
    import pygit2

    folder = folder_of(str(opts["cachedir"]), remote)
    request = {"do": "fetch", "folder": folder, "pins": [], "seconds": SECONDS, "most": MOST}
    answer = work.fetch({**request, **remote.reached(), "now": time.time(), "fresh": False})
    if "error" in answer:
        log.error("gitfs: %s cannot be fetched: %s", remote.shown, answer["error"])
    state = answer.get("state") or state_of(folder)
    if not state:
        return None
    refs = {ref: Tip(*tip) for ref, tip in state["refs"].items()}
    path = os.path.join(folder, state["repo"])
    return Local(remote, path, refs, pygit2.Repository(path))


class LocalGit:
    """
    Answers file requests like L{LocalRoots}, from commits.

    @param opts: a minion's options.
    """

    def __init__(self, opts: Mapping[str, Any]) -> None:
        self._opts = opts

    @cached_property
    def _remotes(self) -> list[Local]:
        try:
            import pygit2  # noqa: F401 - looked for before anything is fetched
        except ImportError as error:
            raise ConfigError("gitfs needs pygit2: install the package python3-pygit2") from error
        remotes, wrong = remotes_of(lambda name: self._opts.get(name))
        for text in wrong:
            log.error("%s", text)
        found = [fetched(self._opts, remote) for remote in remotes]
        return [each for each in found if each is not None]

    def envs(self) -> set[str]:
        """The environments."""
        return {
            env for each in self._remotes for env in mapping.environments(each.remote, each.refs)
        }

    def find(self, path: str, env: str) -> tuple[int, str, bytes] | None:
        """The mode, object and content of the file that the first remote has."""
        parts = trees.clean(path.lstrip("|"))
        envs = self.envs()
        for each in self._remotes if parts is not None else ():
            assert parts is not None
            place = each.places(env) if mapping.listed_in(each.remote, env, envs) else None
            if place is None or list(parts[: len(place[2])]) != place[2]:
                continue
            below = (*place[1], *parts[len(place[2]) :])
            found = trees.resolve(place[0], below, each.look, each.target)
            if found is not None and found[0] != trees.FOLDER:
                return found[0], found[1], bytes(each.repo[found[1]].data)
        return None

    def listed(self, form: str, env: str) -> dict[str, str]:
        """C{files}, C{dirs} or C{links} of an environment; links with their targets."""
        whole: dict[str, str] = {}
        for each in reversed(self._remotes):
            place = each.places(env)
            top = trees.resolve(place[0], place[1], each.look, lambda oid: None) if place else None
            if place is None or top is None or top[0] != trees.FOLDER:
                continue
            request = {"repo": each.path, "tree": top[1], "mountpoint": "/".join(place[2])}
            answer = work.serve({"do": "list", **request})
            if "error" in answer:
                log.error("gitfs: %s: %s", each.remote.shown, answer["error"])
                continue
            found = answer[form]
            whole.update(found if form == "links" else dict.fromkeys(trees.of_runs(found), ""))
        return whole


def local_files(opts: Mapping[str, Any]) -> LocalSources | None:
    """Who answers a minion without a master; C{None} where it has directories alone."""
    backends = tuple(opts.get("fileserver_backend") or DIRECTORIES)
    if backends == DIRECTORIES or opts.get("file_client") != "local":
        return None
    return LocalSources(opts) if opts.get("__role") == "minion" else None


class LocalSources:
    """
    All sources of files of a minion without a master, in the order of C{fileserver_backend}.

    @param opts: its options.
    """

    def __init__(self, opts: Mapping[str, Any]) -> None:
        self._opts = opts
        self._roots = LocalRoots(opts)
        made: dict[str, LocalRoots | LocalGit] = {"roots": self._roots, "gitfs": LocalGit(opts)}
        names = dict.fromkeys(opts.get("fileserver_backend") or ("roots",))
        self._sources = [made[name] for name in names if name in made]
        self._last: tuple[tuple[str, str], Any] | None = None

    def request(self, load: Mapping[str, Any], timeout: float | None = None) -> Any:
        """The answer to one file request; C{{}} for a command that is none."""
        cmd = str(load.get("cmd"))
        if cmd == "_file_envs":
            return sorted(
                {
                    env
                    for each in self._sources
                    for env in (each.envs() if isinstance(each, LocalGit) else each.roots)
                }
            )
        lists = {"_file_list": "files", "_dir_list": "dirs", "_symlink_list": "links"}
        if cmd in lists:
            return self._listed(load, lists[cmd])
        if cmd in ("_file_hash", "_file_find", "_serve_file"):
            return self._file(cmd, load)
        if cmd == "_file_list_emptydirs" and self._roots not in self._sources:
            return []
        return self._roots.request(load, timeout)

    def _listed(self, load: Mapping[str, Any], form: str) -> Any:
        env, prefix = str(load.get("saltenv", "base")), str(load.get("prefix") or "").strip("/")
        whole: dict[str, str] = {}
        for each in reversed(self._sources):
            if isinstance(each, LocalGit):
                found = each.listed(form, env)
                whole.update({k: v for k, v in found.items() if k.startswith(prefix)})
            else:
                roots = each.request(load)
                whole.update(roots if form == "links" else dict.fromkeys(roots, ""))
        return dict(sorted(whole.items())) if form == "links" else sorted(whole)

    def _file(self, cmd: str, load: Mapping[str, Any]) -> Any:
        path, env = str(load.get("path", "")), str(load.get("saltenv", "base"))
        for each in self._sources:
            if not isinstance(each, LocalGit):
                if each.find(path, env) is not None:
                    return each.request(load)
                continue
            # The chunks of a file are asked for one after the other
            if self._last is None or self._last[0] != (path, env):
                self._last = ((path, env), each.find(path, env))
            if self._last[1] is not None:
                return self._of_commit(cmd, load, path, self._last[1])
        return self._roots.request({**load, "path": ""})

    def _of_commit(
        self, cmd: str, load: Mapping[str, Any], path: str, found: tuple[int, str, bytes]
    ) -> Any:
        mode, oid, data = found
        if cmd == "_file_hash":
            kind = str(self._opts.get("hash_type") or "sha256")
            hashed = hashlib.new(kind, data, usedforsecurity=False).hexdigest()
            return {"hash_type": kind, "hsum": hashed}
        if cmd == "_file_find":
            numbers = [
                mode,
                int(oid[:12], 16),
                0,
                1,
                os.geteuid(),
                os.getegid(),
                len(data),
                0,
                0,
                0,
            ]
            return {"path": path, "rel": path, "stat": numbers, "back": "gitfs"}
        start = int(load.get("loc", 0))
        size = int(self._opts.get("file_buffer_size") or 262144)
        return {"data": data[start : start + size], "dest": path}
