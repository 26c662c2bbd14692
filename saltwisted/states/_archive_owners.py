"""
Whose the files are that came out of an archive.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field


def listed(head: str, items: Iterable[str]) -> str:
    """Text with a list below it."""
    return head + "\n" + "".join(f"\n- {item}" for item in items)


@define
class Owners:
    """
    @ivar states: C{__states__}.
    @ivar ret: the return of the state.
    @ivar words: the state's arguments.
    @ivar owner: the numbers of user and group; -1 for whichever it is.
    @ivar missing: what should be there, and is not.
    @ivar failed: what could not be given.
    """

    states: Any
    test: bool
    ret: dict[str, Any]
    name: str
    words: dict[str, Any]
    owner: tuple[int, int]
    missing: list[str] = field(factory=list)
    failed: list[str] = field(factory=list)

    def give(self, contents: Mapping[str, Any]) -> None:
        """Give all of the contents of an archive to their owner."""
        words = self.words
        user, group, only = words["user"], words["group"], words["enforce_ownership_on"]
        if not user and not group:
            return
        dirs, others = (
            contents["top_level_dirs"],
            [
                *contents["top_level_files"],
                *contents["top_level_links"],
            ],
        )
        if only:
            dirs, others = ([only], []) if os.path.isdir(only) else ([], [only])
        recurse = [kind for kind in ("user", "group") if words[kind]]
        for one in dirs:
            path = os.path.join(self.name, one)
            if not os.path.isdir(path):
                if not self.test:
                    self.missing.append(path)
                continue
            did = self.states["file.directory"](path, user=user, group=group, recurse=recurse)
            if did.get("changes"):
                self.ret["changes"]["updated ownership"] = True
            if did.get("result") is False or (not did.get("result") and not self.test):
                self.failed.append(path)
        for one in others:
            self._give_one(one)

    def _give_one(self, name: str) -> None:
        path = os.path.join(self.name, name)
        try:
            has = os.lstat(path)
        except OSError as error:
            if not self.test:
                if error.errno == errno.ENOENT:
                    self.missing.append(path)
                self.failed.append(path)
            return
        uid, gid = self.owner
        if uid in (-1, has.st_uid) and gid in (-1, has.st_gid):
            return
        if not self.test:
            try:
                os.lchown(path, uid, gid)
            except OSError:
                self.failed.append(name)
                return
        self.ret["changes"]["updated ownership"] = True

    def tell(self) -> None:
        """Add to the comment what did not go well."""
        head = "\n\nWhile trying to enforce user/group ownership, "
        if self.missing:
            if not self.words["if_missing"]:
                self.ret["result"] = False
            text = f"{head}the following paths were missing:"
            self.ret["comment"] += listed(text, self.missing)
        if self.failed:
            self.ret["result"] = False
            text = f"{head}Salt was unable to change ownership on the following paths:"
            self.ret["comment"] += listed(text, self.failed)
