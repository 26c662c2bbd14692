"""
C{file.directory}: a directory with owner and mode, and all in it where that is wanted.

Also what C{clean} may remove below a directory, which C{file.recurse} asks as well.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from attrs import define, evolve, frozen

from saltwisted.modules import _files
from saltwisted.states import _file_recurse, _file_rules
from saltwisted.states._file_work import Around, FileState, failed_ret, owner
from saltwisted.worker.exceptions import CommandExecutionError

Walked = list[tuple[str, list[str], list[str]]]
"""Directories with the names of the directories and of the files in them."""


def walk(top: str, max_depth: int | None = None) -> Walked:
    """Directories with what is in them, not deeper than C{max_depth}."""
    found = []
    above = top.rstrip(os.sep).count(os.sep)
    for root, folders, names in os.walk(top):
        if max_depth is not None and root.rstrip(os.sep).count(os.sep) - above >= max_depth:
            folders.clear()
            continue
        found.append((root, list(folders), list(names)))
    return found


def required(around: Around, name: str, require: Any) -> set[str]:
    """What C{clean} must leave below a directory, since required file states made it."""
    keep: set[str] = set()
    if not isinstance(require, list):
        return keep
    wanted = [one["file"] for one in require if "file" in one]
    for file, low in itertools.product(wanted, around.lowstate):
        if file not in (low["name"], low["__id__"]):
            continue
        path = low["name"]
        if not os.path.isdir(path):
            keep.add(path)
            continue
        relative = os.path.relpath(os.path.abspath(path), os.path.abspath(name))
        if relative.startswith(os.pardir):
            continue
        if low["fun"] == "recurse":
            try:
                sources = _file_recurse.existing(
                    around.salt, around.context, low.get("source", []), around.env
                )
            except CommandExecutionError:
                continue
            options = {key: val for key, val in low.items() if key not in ("source", "sources")}
            options.pop("name")
            keep |= _file_recurse.plan(around.salt, around.env, path, sources, **options).keep
        else:
            for root, folders, names in os.walk(path):
                keep.update((path, *(os.path.join(root, one) for one in names + folders)))
    return keep


def clean(around: Around, root: str, keep: set[str], exclude_pat: Any) -> list[str]:
    """Remove (or, under C{test}, name) what is below a directory and not kept."""
    kept = {root}
    for path in keep:
        if os.path.isabs(path):
            path = os.path.abspath(path)
            while path not in kept:
                kept.add(path)
                path = os.path.dirname(path)
    removed = []
    for folder, folders, names in os.walk(root):
        for one in folders + names:
            path = os.path.join(folder, one)
            if path in kept:
                continue
            if not _file_rules.wanted(os.path.relpath(path, root), None, exclude_pat):
                continue
            removed.append(path)
            if around.test:
                continue
            try:
                os.remove(path)
            except OSError:
                around.salt["file.remove"](path)
    return removed


@frozen
class Meta:
    """Whose a path is to be, and with which mode; C{None} where that does not matter."""

    user: Any
    group: Any
    dir_mode: Any
    file_mode: Any

    def only(self, chosen: set[str]) -> Meta:
        """Of these, what the words of C{recurse} name."""
        meant = self
        if "user" not in chosen:
            meant = evolve(meant, user=None)
        if "group" not in chosen:
            meant = evolve(meant, group=None)
        if "mode" not in chosen:
            meant = evolve(meant, dir_mode=None, file_mode=None)
        return meant


@define(kw_only=True, eq=False, repr=False, slots=False)
class Directory(FileState):
    """
    @ivar meta: whose the directory is to be, and what is in it.
    @ivar words: what C{recurse} says.
    @ivar follow: whether links count by what they point to.
    """

    meta: Meta
    words: Any
    max_depth: int | None
    makedirs: bool
    clean: bool
    require: Any
    exclude_pat: Any
    follow: bool
    force: bool
    backupname: str | None
    allow_symlink: bool
    children_only: bool
    kwargs: dict[str, Any]

    def work(self) -> None:
        """From the arguments to the directory."""
        if not self.name:
            self.fail("Must provide name to file.directory")
        if self.name != "/":
            self.name = self.name.removesuffix("/")
        if self.max_depth is not None and self.clean:
            self.fail("Cannot specify both max_depth and clean")
        self._settle_meta()
        problem = self.around.unknown_owner(self.meta.user, self.meta.group)
        if problem:
            self.fail(problem)
        if not os.path.isabs(self.name):
            self.fail(f"Specified file {self.name} is not an absolute path")
        is_link = os.path.islink(self.name)
        if os.path.isfile(self.name) or (is_link and (self.force or not self.allow_symlink)):
            self._clear_the_way()

        result, comment, changes = self._changes()
        self.ret["changes"].update(changes)
        if self.around.test or not self.ret["changes"]:
            self.ret["result"] = result
            self.ret["comment"] = comment
        elif not os.path.isdir(self.name):
            self._make()
        else:
            self._enforce()

    def _settle_meta(self) -> None:
        dir_mode = self.meta.dir_mode
        if not dir_mode and "mode" in self.kwargs:
            dir_mode = self.kwargs["mode"]
        self.meta = Meta(
            owner(self.meta.user, self.kwargs),
            self.meta.group,
            _files.normalize_mode(dir_mode),
            _files.normalize_mode(self.meta.file_mode or dir_mode),
        )

    # -- what is in the way ----------------------------------------------------------

    def _clear_the_way(self) -> None:
        """Put away what stands where the directory is to be, or end the state."""
        if self.backupname is not None:
            self._back_up(self.backupname)
            return
        is_file = os.path.isfile(self.name)
        if not self.force:
            kind = "file" if is_file else "symlink"
            self.fail(f"Specified location {self.name} exists and is a {kind}")
        kind = "File" if is_file else "Symlink"
        if self.around.test:
            self.ret["changes"]["forced"] = f"{kind} would be forcibly replaced"
        else:
            # A link to a file goes, not what it points to.
            self.salt["file.remove"](self.name)
            self.ret["changes"]["forced"] = f"{kind} was forcibly replaced"

    def _back_up(self, backupname: str) -> None:
        changes = self.ret["changes"]
        if os.path.lexists(backupname):
            if not self.force:
                self.fail(f"File exists where the backup target {backupname} should go")
            if self.around.test:
                changes["forced"] = f"Existing file at backup path {backupname} would be removed"
            else:
                self.salt["file.remove"](backupname)
        if not self.around.test:
            os.rename(self.name, backupname)
            return
        changes["backup"] = f"{self.name} would be renamed to {backupname}"
        changes[self.name] = {"directory": "new"}
        self.ret["result"] = None
        self.finish(f"{self.name} would be backed up and replaced with a new directory")

    # -- what has to change ----------------------------------------------------------

    def _changes(self) -> tuple[bool | None, str, dict[str, Any]]:
        """What there is to do: the result and comment of a test, and the changes."""
        name = self.name
        changes: dict[str, Any] = {}
        walked = walk(name, self.max_depth) if self.words or self.clean else []
        meant = self.meta
        if self.words:
            try:
                chosen = _file_rules.recurse_words(self.words)
            except (TypeError, ValueError) as error:
                return False, str(error), changes
            meant = meant.only(chosen)
            self._add_wrong_below(changes, walked, chosen, meant)
        if not self.children_only and (
            wrong := self._wrong_meta(name, meant, meant.dir_mode, True)
        ):
            changes[name] = wrong
        if self.clean:
            self._add_unkept(changes, walked)
        if not os.path.isdir(name):
            changes[name] = {"directory": "new"}
        if not changes:
            return True, f"The directory {name} is in the correct state", changes
        lines = [
            f"{path}: {key} - {val}\n" for path in changes for key, val in changes[path].items()
        ]
        return None, "".join(["The following files will be changed:\n", *lines]), changes

    def _add_wrong_below(
        self, changes: dict[str, Any], walked: Walked, chosen: set[str], meant: Meta
    ) -> None:
        for root, folders, names in walked:
            for one in () if "ignore_files" in chosen else names:
                path = os.path.join(root, one)
                if wrong := self._wrong_meta(path, meant, meant.file_mode, False):
                    changes[path] = wrong
            for one in () if "ignore_dirs" in chosen else folders:
                path = os.path.join(root, one)
                if wrong := self._wrong_meta(path, meant, meant.dir_mode, True):
                    changes[path] = wrong

    def _wrong_meta(self, path: str, meant: Meta, mode: Any, folder: bool) -> dict[str, Any]:
        """What is not as wanted about the owner and mode of a path."""
        changes: dict[str, Any] = {}
        try:
            have = self.salt["file.stats"](path, None, self.follow)
        except CommandExecutionError:
            if not folder:
                raise
            have = {}
        if folder and not have:
            return {"directory": "new"}
        if meant.user is not None and meant.user not in (have.get("user"), have.get("uid")):
            changes["user"] = meant.user
        if meant.group is not None and meant.group not in (have.get("group"), have.get("gid")):
            changes["group"] = meant.group
        mode = _files.normalize_mode(mode)
        # A link has no mode of its own.
        has_mode = self.follow or have.get("type") != "link"
        if has_mode and mode is not None and mode != _files.normalize_mode(have.get("mode")):
            changes["mode"] = mode
        return changes

    def _add_unkept(self, changes: dict[str, Any], walked: Walked) -> None:
        keep = required(self.around, self.name, self.require)
        for root, folders, names in walked:
            for one in names + folders:
                path = os.path.join(root, one)
                # A path counts as kept if the name of a kept one contains it.
                if any(path in kept for kept in keep):
                    continue
                if _file_rules.wanted(os.path.relpath(path, self.name), None, self.exclude_pat):
                    changes[path] = {"removed": "Removed due to clean"}

    # -- the change ------------------------------------------------------------------

    def _make(self) -> None:
        name, meta = self.name, self.meta
        owned: dict[str, Any] = {"user": meta.user, "group": meta.group, "mode": meta.dir_mode}
        if not os.path.isdir(os.path.dirname(name)):
            if not self.makedirs:
                self.fail(f"No directory to create {name} in")
            self.salt["file.makedirs"](path=name, **owned)
        self.salt["file.mkdir"](name, **owned)
        if not os.path.isdir(name):
            self.fail(f"Failed to create directory {name}")
        self.ret["changes"][name] = {"directory": "new"}

    def _enforce(self) -> None:
        """Set owner and mode of a directory that is there, and see to what is in it."""
        name, meta = self.name, self.meta
        if not self.children_only:
            self.ret, _ = self.salt["file.check_perms"](
                name, self.ret, meta.user, meta.group, meta.dir_mode, None, self.follow
            )
        walked = walk(name, self.max_depth) if self.words or self.clean else []
        chosen: set[str] = set()
        if self.words:
            try:
                chosen = _file_rules.recurse_words(self.words)
            except (TypeError, ValueError) as error:
                failed_ret(self.ret, str(error))
        errors = self._enforce_below(walked, chosen) if chosen else []
        ret = self.ret
        if self.clean:
            keep = required(self.around, name, self.require)
            removed = clean(self.around, name, keep, self.exclude_pat)
            if removed:
                ret["changes"]["removed"] = removed
                ret["comment"] = f"Files cleaned from directory {name}"
        if not ret["comment"]:
            if self.children_only:
                ret["comment"] = f"Directory {name}/* updated"
            elif ret["changes"]:
                ret["comment"] = f"Directory {name} updated"
        if errors:
            ret["result"] = False
            ret["comment"] += "\n\nThe following errors were encountered:\n"
            ret["comment"] += "".join(f"\n- {error}" for error in errors)

    def _enforce_below(self, walked: Walked, chosen: set[str]) -> list[str]:
        """Set owners and modes of all in the directory; returns what went wrong."""
        self._note_lost_owners(chosen)
        if "silent" in chosen:
            self.ret["changes"] = {"recursion": "Changes silenced"}
        meant = self.meta.only(chosen)
        errors = []
        for root, folders, names in walked:
            jobs = [(one, meant.file_mode) for one in names if "ignore_files" not in chosen]
            jobs += [(one, meant.dir_mode) for one in folders if "ignore_dirs" not in chosen]
            for one, mode in jobs:
                path = os.path.join(root, one)
                try:
                    self.salt["file.check_perms"](
                        path, self.ret, meant.user, meant.group, mode, None, self.follow
                    )
                except CommandExecutionError as error:
                    if not error.strerror.startswith("Path not found"):
                        errors.append(error.strerror)
        return errors

    def _note_lost_owners(self, chosen: set[str]) -> None:
        """The state fails, but goes on, if an owner to be set was not given or is not known."""
        user, group = self.meta.user, self.meta.group
        lacking = "not specified, but configured as a target for recursive ownership management"
        if "user" in chosen:
            if not user and not isinstance(user, int):
                failed_ret(self.ret, f"user {lacking}")
            elif isinstance(self.salt["file.user_to_uid"](user), str):
                failed_ret(
                    self.ret, f"Failed to enforce ownership for user {user} (user does not exist)"
                )
        if "group" in chosen:
            if not group and not isinstance(group, int):
                failed_ret(self.ret, f"group {lacking}")
            elif isinstance(self.salt["file.group_to_gid"](group), str):
                failed_ret(self.ret, f"Failed to enforce group ownership for group {group}")
