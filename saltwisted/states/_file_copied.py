"""
C{file.copy}: a file or directory of this machine has a copy.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from attrs import define

from saltwisted.modules import _files
from saltwisted.states._file_work import FileState, owner


@define(kw_only=True, eq=False, repr=False, slots=False)
class Copied(FileState):
    """
    @ivar kwargs: whatever else was given; C{owner} is another name of C{user}.
    """

    source: str
    force: bool
    makedirs: bool
    preserve: bool
    user: Any
    group: Any
    mode: Any
    dir_mode: Any
    subdir: bool
    kwargs: dict[str, Any]

    def work(self) -> None:
        """From the arguments to the copy."""
        ret, source = self.ret, self.source
        ret["comment"] = f'Copied "{source}" to "{self.name}"'
        if not self.name:
            self.fail("Must provide name to file.copy")
        if not os.path.isabs(self.name):
            self.fail(f"Specified file {self.name} is not an absolute path")
        if not os.path.exists(source):
            self.fail(f'Source file "{source}" is not present')
        self._settle_owner()
        if self.subdir and os.path.isdir(self.name):
            self.name = os.path.join(self.name, os.path.basename(source))
        there = os.path.lexists(self.name)
        if there and not self.force:
            self.finish(f'The target file "{self.name}" exists and will not be overwritten')
        if self.around.test:
            ret["result"] = None
            self.finish(f'File "{source}" is set to be copied to "{self.name}"')
        if there:
            self._clear_place()
        self._make_directory()
        self._copy()

    def _settle_owner(self) -> None:
        look, salt = self.source, self.salt
        if self.preserve:
            self.user = salt["file.get_user"](look)
            self.group = salt["file.get_group"](look)
            self.mode = salt["file.get_mode"](look)
            return
        self.user = owner(self.user, self.kwargs)
        if self.user is None:
            self.user = self.around.opts["user"]
        if self.group is None:
            self.group = self.around.default_group(self.user)
        problem = self.around.unknown_owner(self.user, self.group)
        if problem:
            self.fail(problem)
        if self.mode is None:
            self.mode = salt["file.get_mode"](look)

    def _clear_place(self) -> None:
        both = os.path.isfile(self.name) and os.path.isfile(self.source)
        if both and _files.digest(self.name) == _files.digest(self.source):
            self.ret["comment"] += " - files are identical but force flag is set"
        try:
            self.salt["file.remove"](self.name, force=True)
        except OSError:
            self.fail(f'Failed to delete "{self.name}" in preparation for forced move')

    def _make_directory(self) -> None:
        folder = os.path.dirname(self.name)
        if os.path.isdir(folder):
            return
        if not self.makedirs:
            self.fail(f"The target directory {folder} is not present")
        mode = self.dir_mode
        if mode is None and self.mode is not None:
            # A user who may read the copy must be able to enter.
            digits = str(self.mode)[-3:]
            mode = "".join(one if one == "0" else str(int(one) | 1) for one in digits)
        self.around.make_parents(self.name, self.user, self.group, mode)

    def _copy(self) -> None:
        name, ret, salt = self.name, self.ret, self.salt
        try:
            if os.path.isdir(self.source):
                shutil.copytree(self.source, name, symlinks=True)
                for root, folders, names in os.walk(name):
                    for one in folders + names:
                        salt["file.lchown"](os.path.join(root, one), self.user, self.group)
            else:
                shutil.copy(self.source, name)
            ret["changes"] = {name: self.source}
            if not self.preserve:
                check = salt["file.check_perms"]
                checked, _ = check(name, ret, self.user, self.group, self.mode)
                if not checked["result"]:
                    ret["result"] = checked["result"]
                    ret["comment"] = checked["comment"]
        except OSError:
            self.fail(f'Failed to copy "{self.source}" to "{name}"')
