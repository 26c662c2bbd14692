"""
C{file.symlink} and C{file.hardlink}: another way to a file.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.states._file_work import FileState, owner
from saltwisted.worker.exceptions import CommandExecutionError


@define(kw_only=True, eq=False, repr=False, slots=False)
class Link(FileState):
    """
    What both kinds have.

    @ivar target: what it leads to.
    @ivar kwargs: whatever else was given; C{owner} is another name of C{user}.
    """

    target: str
    force: bool
    makedirs: bool
    user: Any
    group: Any
    kwargs: dict[str, Any]

    def settle_owner(self) -> None:
        """Whose it is if nobody says: the minion's user, and the group of that."""
        if self.user is None:
            self.user = self.around.opts["user"]
        if self.group is None:
            self.group = self.around.default_group(self.user)

    def check(self, *paths: tuple[str, str]) -> None:
        """Fail if something forbids the link: unknown owner, relative path."""
        errors = []
        if self.salt["file.user_to_uid"](self.user) == "":
            errors.append(f"User {self.user} does not exist")
        if self.salt["file.group_to_gid"](self.group) == "":
            errors.append(f"Group {self.group} does not exist")
        for word, path in paths:
            if not os.path.isabs(path):
                errors.append(f"Specified {word} {path} is not an absolute path")
        if errors:
            self.fail(". ".join(errors) + ("." if len(errors) > 1 else ""))


@define(kw_only=True, eq=False, repr=False, slots=False)
class Hardlink(Link):
    """A second name of a file."""

    dir_mode: Any

    def work(self) -> None:
        """From the arguments to the link."""
        self.dir_mode = _files.normalize_mode(self.dir_mode)
        self.user = owner(self.user, self.kwargs)
        if not self.name:
            self.fail("Must provide name to file.hardlink")
        self.settle_owner()
        self.check(("file", self.name), ("target", self.target))
        if self.around.test:
            self.ret.update(self._forecast())
        else:
            self._prepare()
            self._link()

    def _forecast(self) -> dict[str, Any]:
        """What would be done, for C{test}."""
        name, target = self.name, self.target
        if not os.path.exists(target):
            return {"result": False, "comment": f"Target {target} for hard link does not exist"}
        for word, path in (("from", target), ("to", name)):
            if os.path.isdir(path):
                return {"result": False, "comment": f"Unable to hard link {word} directory {path}"}
        if not os.path.exists(name):
            return {
                "result": None,
                "comment": f"Hard link {name} to {target} is set for creation",
                "changes": {"new": name},
            }
        if self.salt["file.is_hardlink"](name):
            if self._same_inode():
                text = f"The hard link {name} is presently targetting {target}"
                return {"result": True, "comment": text}
            return {
                "result": None,
                "comment": f"Link {name} target is set to be changed to {target}",
                "changes": {"change": name},
            }
        if self.force:
            text = (
                f"The file or directory {name} is set for removal to make way for a new hard link "
                f"targeting {target}"
            )
            return {"result": None, "comment": text}
        text = (
            f"File or directory exists where the hard link {name} should be. "
            "Did you mean to use force?"
        )
        return {"result": False, "comment": text}

    def _prepare(self) -> None:
        """Fail if it cannot be made, and make the directories above it."""
        for word, path in (("to", self.name), ("from", self.target)):
            if os.path.isdir(path):
                self.fail(f"Unable to hard link {word} directory {path}")
        if not os.path.exists(self.target):
            self.fail(f"Target {self.target} for hard link does not exist")
        folder = os.path.dirname(self.name)
        if not os.path.isdir(folder):
            if not self.makedirs:
                self.fail(f"Directory {folder} for hard link is not present")
            self.around.make_parents(self.name, self.user, self.group, self.dir_mode)

    def _link(self) -> None:
        name, target, ret = self.name, self.target, self.ret
        if os.path.isfile(name) and not self.salt["file.is_hardlink"](name):
            if not self.force:
                self.fail(f"File exists where the hard link {name} should be")
            os.remove(name)
            ret["changes"]["forced"] = "File for hard link was forcibly replaced"
        failed, done = "Unable to create new hard link", "Created new hard link"
        if self.salt["file.is_hardlink"](name):
            if self._same_inode():
                self.finish(f"Target of hard link {name} is already pointing to {target}")
            os.remove(name)
            failed, done = "Unable to set target of hard link", "Set target of hard link"
        elif os.path.exists(name):
            return
        try:
            self.salt["file.link"](target, name)
        except CommandExecutionError as error:
            self.fail(f"{failed} {name} -> {target}: {error}")
        ret["comment"] = f"{done} {name} -> {target}"
        ret["changes"]["new"] = name

    def _same_inode(self) -> bool:
        paths = (self.name, self.target)
        inodes = [self.salt["file.stats"](p, None, follow_symlinks=False) for p in paths]
        return all("inode" in one for one in inodes) and inodes[0]["inode"] == inodes[1]["inode"]


@define(kw_only=True, eq=False, repr=False, slots=False)
class Symlink(Link):
    """
    A path that points to another.

    @ivar backupname: to what something in the way is renamed.
    @ivar there: how it is asked whether something is in the way.
    """

    backupname: str | None
    mode: Any
    atomic: bool
    disallow_copy_and_unlink: bool
    inherit_user_and_group: bool
    follow_symlinks: bool
    there: Any = field(default=None, init=False)

    def work(self) -> None:
        """From the arguments to the link."""
        if not self.name:
            self.fail("Must provide name to file.symlink")
        self.there = os.path.exists if self.follow_symlinks else os.path.lexists
        self.mode = _files.normalize_mode(self.mode)
        self.user = owner(self.user, self.kwargs)
        if (
            self.inherit_user_and_group
            and (self.user is None or self.group is None)
            and self.salt["file.is_link"](self.name)
        ):
            have = self._owner()
            self.user = have[0] if self.user is None else self.user
            self.group = have[1] if self.group is None else self.group
        self.settle_owner()
        self.check(("file", self.name))
        folder = os.path.dirname(self.name)
        lacking = not os.path.isdir(folder)
        if self.around.test:
            self._foretell(folder, lacking)
            return
        if lacking:
            if not self.makedirs:
                self.fail(f"Directory {folder} for symlink is not present")
            self.around.make_parents(self.name, self.user, self.group, self.mode)
        self._clear_place()
        self._link()

    def _foretell(self, folder: str, lacking: bool) -> None:
        self.ret.update(self._forecast())
        if lacking and self.makedirs:
            self.ret["comment"] += f"\n{folder} will be created"
        elif lacking:
            self.ret["comment"] += f"\nDirectory {folder} for symlink is not present"

    def _forecast(self) -> dict[str, Any]:
        """What would be done, for C{test}."""
        name, target, wanted = self.name, self.target, (self.user, self.group)
        if self.salt["file.is_link"](name):
            if self.salt["file.readlink"](name) != target:
                return {
                    "result": None,
                    "comment": f"Link {name} target is set to be changed to {target}",
                    "changes": {"change": name},
                }
            text = f"The symlink {name} is present"
            have = self._owner()
            if have == wanted:
                return {"result": True, "comment": text, "changes": {}}
            text += (
                f", but the ownership of the symlink would be changed from {have[0]}:{have[1]} to "
                f"{wanted[0]}:{wanted[1]}"
            )
            changes = {"ownership": f"{have[0]}:{have[1]}"}
            return {"result": None, "comment": text, "changes": changes}
        if not self.there(name):
            return {
                "result": None,
                "comment": f"Symlink {name} to {target} is set for creation",
                "changes": {"new": name},
            }
        if self.force:
            text = (
                f"The file or directory {name} is set for removal to make way for a new symlink "
                f"targeting {target}"
            )
            return {"result": None, "comment": text, "changes": {}}
        text = (
            f"File or directory exists where the symlink {name} should be. "
            "Did you mean to use force?"
        )
        return {"result": False, "comment": text, "changes": {}}

    def _clear_place(self) -> None:
        """Remove another link, rename what is in the way; end here if the link is there."""
        name, whose = self.name, f"{self.user}:{self.group}"
        if self.salt["file.is_link"](name):
            points_to = self.salt["file.readlink"](name)
            if os.path.normpath(points_to) == os.path.normpath(self.target):
                if self._owner() == (self.user, self.group):
                    self.finish(f"Symlink {name} is present and owned by {whose}")
                if not self._own():
                    self.fail(f"Failed to set ownership of symlink {name} to {whose}")
                self.ret["changes"]["ownership"] = whose
                self.finish(f"Set ownership of symlink {name} to {whose}")
            self.salt["file.remove"](name)
        elif self.there(name):
            self._out_of_the_way()

    def _out_of_the_way(self) -> None:
        """Rename what stands where a link is to be, if that is wanted; else fail."""
        name, backup = self.name, self.backupname
        if backup is None:
            if self.force or self.atomic:
                return
            kind = "File system entry"
            if os.path.isfile(name):
                kind = "File"
            elif os.path.isdir(name):
                kind = "Directory"
            self.fail(f"{kind} exists where the symlink {name} should be")
        if not os.path.isabs(backup):
            if backup != os.path.basename(backup):
                self.fail(f"Backupname must be an absolute path or a file name: {backup}")
            backup = os.path.join(os.path.dirname(os.path.normpath(name)), backup)
        if os.path.lexists(backup):
            if not self.force:
                self.fail(
                    f"Symlink & backup dest exists and Force not set. {name} -> {self.target} - "
                    f"backup: {backup}"
                )
            self.salt["file.remove"](backup)
        no_copy = self.disallow_copy_and_unlink
        try:
            self.salt["file.move"](name, backup, disallow_copy_and_unlink=no_copy)
        except Exception as error:
            self.fail(f"Unable to rename {name} to backup {backup} -> : {error}")

    def _link(self) -> None:
        name, target, ret = self.name, self.target, self.ret
        try:
            self.salt["file.symlink"](
                target,
                name,
                force=self.force,
                atomic=self.atomic,
                follow_symlinks=self.follow_symlinks,
            )
        except (CommandExecutionError, OSError) as error:
            self.fail(f"Unable to create new symlink {name} -> {target}: {error}")
        ret["comment"] = f"Created new symlink {name} -> {target}"
        ret["changes"]["new"] = name
        if self._owner() != (self.user, self.group) and not self._own():
            ret["result"] = False
            ret["comment"] += f", but was unable to set ownership to {self.user}:{self.group}"

    def _owner(self) -> tuple[Any, Any]:
        """Whose the link itself is."""
        return (
            self.salt["file.get_user"](self.name, follow_symlinks=False),
            self.salt["file.get_group"](self.name, follow_symlinks=False),
        )

    def _own(self) -> bool:
        with contextlib.suppress(OSError):
            self.salt["file.lchown"](self.name, self.user, self.group)
        return self._owner() == (self.user, self.group)
