"""
Owner, mode, attributes and SELinux context of a path, as C{file.check_perms} wants them.
"""

from __future__ import annotations

import logging
import os
from typing import Any, NamedTuple

from attrs import define, field

from saltwisted.modules import _file_owners, _file_work, _files
from saltwisted.modules._file_around import Around, SecurityContext
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

_SELINUX_NAMES = ("User", "Role", "Type", "Range")


class AttrChanges(NamedTuple):
    """Letters of C{chattr} that a file has too few of, and too many."""

    added: str | None
    removed: str | None


def attr_changes(path: str, attrs: Any) -> AttrChanges | None:
    """What C{chattr} would have to add and remove."""
    found = _file_owners.lsattr(path)
    new, old = set(attrs), set(found.get(path, ()))
    # Extents are the file system's business: nobody takes that letter away.
    if "e" in old:
        new.add("e")
    return AttrChanges("".join(new - old) or None, "".join(old - new) or None)


def selinux_parts(name: str) -> list[str]:
    """
    The four parts of a path's SELinux context.

    @raises ValueError: it has none.
    """
    parts = _file_owners.get_selinux_context(name).split(":")
    if len(parts) != 4:
        raise ValueError("no SELinux context")
    return parts


def set_selinux(salt: Any, path: str, wanted: SecurityContext, persist: bool) -> Any:
    """Set parts of a path's SELinux context; answers with the new one, or false."""
    if not wanted:
        return False
    user, role, kind, level = wanted.parts
    if persist:
        result = salt["selinux.fcontext_add_policy"](
            path, sel_type=kind, sel_user=user, sel_level=level
        )
        if result.get("retcode", None) != 0:
            raise CommandExecutionError(f"Problem setting fcontext: {result}")
    words = ["chcon"]
    for option, value in (("-u", user), ("-r", role), ("-t", kind), ("-l", level)):
        if value:
            words += [option, value]
    if salt["cmd.retcode"]([*words, path], python_shell=False):
        return False
    return _file_owners.get_selinux_context(path)


@define(kw_only=True, eq=False, repr=False)
class Permissions:
    """
    What a path should be, and what was done about it.

    @ivar ret: the return of a state, made here if there is none.
    """

    around: Around
    name: str
    ret: Any
    user: Any
    group: Any
    mode: Any
    attrs: Any = None
    follow_symlinks: bool = False
    selinux: SecurityContext = field(factory=SecurityContext)
    _perms: dict[str, Any] = field(factory=dict, init=False)
    _old: dict[str, Any] = field(factory=dict, init=False)

    def set(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Put it right; answers with the state's return, and the old permissions."""
        self.name = _files.expanded(self.name)
        self.mode = _files.normalize_mode(self.mode)
        earlier: Any = ""
        if not self.ret:
            self.ret = {"name": self.name, "changes": {}, "comment": [], "result": True}
        else:
            earlier = self.ret["comment"]
            self.ret["comment"] = []
        ret, old = self.ret, self._look()
        self._old = old
        self._perms = {
            "luser": old["uid"] if isinstance(self.user, int) else old["user"],
            "lgroup": old["gid"] if isinstance(self.group, int) else old["group"],
            "lmode": old["mode"],
        }
        itself = os.path.islink(self.name) and not self.follow_symlinks
        self._change(itself)
        self._compare(itself)
        if self.attrs is not None and not os.path.isdir(self.name) and not itself:
            self._set_attrs()
        if self.selinux:
            self._set_context()
        if isinstance(earlier, str):
            ret["comment"] = "; ".join([*([earlier] if earlier else []), *ret["comment"]])
        if self.around.test is True and ret["changes"]:
            ret["result"] = None
        return ret, self._perms

    def _look(self) -> dict[str, Any]:
        return _file_owners.stats(self.name, follow_symlinks=self.follow_symlinks)

    def _change(self, itself: bool) -> None:
        """
        Set owner and mode.

        @param itself: it is about a link, and not what it points to.
        """
        old, perms, test = self._old, self._perms, self.around.test
        if self.user and self.user not in (old["user"], old["uid"]):
            perms["cuser"] = self.user
        if self.group and self.group not in (old["group"], old["gid"]):
            perms["cgroup"] = self.group
        if ("cuser" in perms or "cgroup" in perms) and not test:
            self._change_owner(itself)
        if self.mode is not None and test is not True and not itself and self.mode != old["mode"]:
            perms["cmode"] = self.mode
            _file_owners.set_mode(self.name, self.mode)

    def _change_owner(self, itself: bool) -> None:
        old = self._old
        change = _file_owners.lchown if itself else _file_owners.chown
        try:
            problem = change(
                self.name,
                old["user"] if self.user is None else self.user,
                old["group"] if self.group is None else self.group,
            )
            if problem:
                self._failed(problem)
            elif not os.path.islink(self.name):
                # A change of owner takes set-uid bits away; they come back here.
                _file_owners.set_mode(self.name, old["mode"])
        except OSError:
            self.ret["result"] = False

    def _failed(self, comment: str) -> None:
        self.ret["result"] = False
        self.ret["comment"].append(comment)

    def _compare(self, itself: bool) -> None:
        """Say what has changed, or would, and what refused to."""
        new = self._look()
        for word, wanted, have, changed in (
            ("user", self.user, (new["user"], new["uid"]), "cuser"),
            ("group", self.group, (new["group"], new["gid"]), "cgroup"),
            ("mode", None if itself else self.mode, (new["mode"],), "cmode"),
        ):
            if not wanted:
                continue
            if wanted in have:
                if changed in self._perms:
                    self.ret["changes"][word] = wanted
            elif self.around.test is True:
                self.ret["changes"][word] = wanted
            else:
                self._failed(f"Failed to change {word} to {wanted}")

    def _set_attrs(self) -> None:
        name, attrs = self.name, self.attrs
        difference = attr_changes(name, attrs)
        if not difference or not any(difference):
            return
        changes = {"old": "".join(_file_owners.lsattr(name).get(name, ())), "new": attrs}
        if self.around.test is not True:
            if difference.added:
                _file_work.change_attrs((name,), "add", difference.added)
            if difference.removed:
                _file_work.change_attrs((name,), "remove", difference.removed)
            if any(attr_changes(name, attrs) or ()):
                self._failed(f"Failed to change attributes to {attrs}")
                changes["new"] = "".join(_file_owners.lsattr(name).get(name, ()))
        if changes["old"] != changes["new"]:
            self.ret["changes"]["attrs"] = changes

    def _set_context(self) -> None:
        name, ret = self.name, self.ret
        try:
            have = selinux_parts(name)
        except ValueError:
            log.error("Unable to get current selinux attributes")
            self._failed("Failed to get selinux attributes")
            return
        wanted = zip(self.selinux.parts, have, strict=True)
        asked = [new if new and new != old else None for new, old in wanted]
        if not any(asked):
            return
        rows = list(zip(_SELINUX_NAMES, asked, have, strict=True))
        changes = {
            "Old": " ".join(f"{word}: {old}" for word, new, old in rows if new),
            "New": " ".join(f"{word}: {new}" for word, new, old in rows if new),
        }
        if self.around.test:
            ret["comment"] = [f"File {name} selinux context to be updated"]
            ret["result"] = None
            ret["changes"]["selinux"] = changes
            return
        # The policy needs a type beside whatever else is set.
        seuser, serole, setype, serange = asked
        new = SecurityContext(
            seuser=seuser, serole=serole, setype=setype or have[2], serange=serange
        )
        result = set_selinux(self.around.salt, name, new, persist=True)
        parts = result.split(":") if isinstance(result, str) else []
        if len(parts) != 4:
            log.error("Unable to set current selinux attributes")
            self._failed("Failed to set selinux attributes")
            return
        ret["comment"].append(f"The file {name} is set to be changed")
        words = ("seuser", "serole", "setype", "serange")
        for word, one, now in zip(words, asked, parts, strict=True):
            if one and one != now:
                self._failed(f"Unable to update {word} context")
        ret["changes"]["selinux"] = changes
