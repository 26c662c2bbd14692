"""
What C{file.recurse} has to make of a directory of the file server.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.states import _file_rules
from saltwisted.worker.exceptions import CommandExecutionError


@define
class Plan:
    """
    Paths below the target.

    @ivar files: path to C{salt://} address.
    @ivar folders: directories that are wanted.
    @ivar links: path to the link's text, and to the absolute path that it means.
    @ivar keep: what C{clean} must leave.
    """

    files: dict[str, str] = field(factory=dict)
    folders: set[str] = field(factory=set)
    links: dict[str, tuple[str, str]] = field(factory=dict)
    keep: set[str] = field(factory=set)


def existing(salt: Any, context: dict[str, Any], source: Any, saltenv: str) -> list[str]:
    """
    Those of the sources that are directories of the file server.

    @raises CommandExecutionError: an address is not a C{salt://} one, or none is there.
    """
    sources = [one.rstrip("/") for one in _file_rules.texts(source)]
    for one in sources:
        if not one.startswith("salt://"):
            raise CommandExecutionError(f"Invalid source '{one}' (must be a salt:// URI)")
    key = f"recurse__|-{sources}__|-{saltenv}"
    if key not in context:
        folders: dict[str, set[str]] = {}
        found = []
        for one in sources:
            path, its_env = _files.parse_url(one)
            env = its_env or saltenv
            if env not in folders:
                folders[env] = set(salt["cp.list_master_dirs"](saltenv=env))
            if path in folders[env]:
                found.append(one)
        if not found:
            raise CommandExecutionError("none of the specified sources were found")
        context[key] = found
    return list(context[key])


def _upwards(path: str) -> Iterator[str]:
    """The directories above a path, nearest first."""
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


class _Planner:
    def __init__(
        self, salt: Any, name: str, include: Any, exclude: Any, maxdepth: int | None
    ) -> None:
        self.salt = salt
        self.name = name
        self.include = include
        self.exclude = exclude
        self.maxdepth = maxdepth
        self.plan = Plan()
        self.links: dict[str, str] = {}
        self.all_folders: set[str] = set()
        self.ignored: set[str] = set()

    def target(self, served: str, root: str) -> str | None:
        """Where a served path goes, unless a rule leaves it out."""
        if not served.strip():
            return None
        relative = posixpath.relpath(served, root)
        if "/../" in f"/{relative}/":
            return None
        if self.maxdepth is not None and relative.strip("/").count("/") > self.maxdepth:
            return None
        if not _file_rules.wanted(relative, self.include, self.exclude):
            return None
        return os.path.join(self.name, os.path.normpath(relative))

    def taken(self, path: str) -> bool:
        """Whether an earlier source has something there, or a file above it."""
        if path in self.all_folders:
            return True
        return any(p in self.plan.files or p in self.links for p in (path, *_upwards(path)))

    def add_links(self, served: list[str], root: str, env: str) -> list[str]:
        """Take the links of one source; returns the files that are not behind one."""
        left = list(served)
        for link, text in self.salt["cp.list_master_symlinks"](env, root).items():
            behind = [one for one in left if one.startswith(link + "/")]
            left = [one for one in left if one != link and not one.startswith(link + "/")]
            path = self.target(link, root)
            if path is None or self.taken(path):
                continue
            meant = os.path.normpath(os.path.join(os.path.dirname(path), text))
            if behind and meant in self.plan.files:
                self.ignored.add(path)
            elif behind or meant not in self.plan.folders:
                self.links[path] = text
                self.plan.keep.add(path)
        return left

    def drop_dangling(self, root: str, env: str) -> None:
        """Links to served directories of which nothing is made would dangle: not made."""
        folders = set(self.salt["cp.list_master_dirs"](env, root))
        removed = True
        while removed:
            removed = False
            for link, text in list(self.links.items()):
                if posixpath.normpath(posixpath.join(root, text)) not in folders:
                    continue
                meant = os.path.normpath(os.path.join(self.name, text))
                if any(meant in known for known in (self.plan.files, self.all_folders, self.links)):
                    continue
                del self.links[link]
                removed = True


def plan(
    salt: Any,
    saltenv: str,
    name: str,
    sources: list[str],
    *,
    keep_symlinks: bool = False,
    include_pat: Any = None,
    exclude_pat: Any = None,
    maxdepth: int | None = None,
    include_empty: bool = False,
    merge: bool = False,
    **_: Any,
) -> Plan:
    """
    What is to be below C{name}.

    @param salt: C{__salt__}.
    @param merge: all sources count, earlier ones first; otherwise the first alone.
    """
    planner = _Planner(salt, name, include_pat, exclude_pat, maxdepth)
    made = planner.plan
    for source in sources if merge else sources[:1]:
        root, its_env = _files.parse_url(source)
        env = saltenv if its_env is None else its_env
        root = root if root.endswith("/") else root + "/"
        served = salt["cp.list_master"](env, root)
        if keep_symlinks:
            served = planner.add_links(served, root, env)
        for one in served:
            path = planner.target(one, root)
            if path is None or planner.taken(path):
                continue
            made.keep.add(path)
            made.folders.add(os.path.dirname(path))
            planner.all_folders.update(_upwards(path))
            made.files[path] = _files.create_url(one, env)
        if include_empty:
            for one in salt["cp.list_master_dirs"](env, root):
                path = planner.target(one, root)
                if path is None or path in planner.ignored or planner.taken(path):
                    continue
                made.folders.add(path)
                planner.all_folders.add(path)
                made.keep.add(path)
        elif keep_symlinks:
            planner.drop_dangling(root, env)
    made.links = {
        path: (text, os.path.normpath(os.path.join(os.path.dirname(path), text)))
        for path, text in planner.links.items()
    }
    return made
