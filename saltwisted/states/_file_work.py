"""
What the file states share: what is around a call, how a state ends, and accumulated texts.

These modules are imported, not loaded, so nothing is injected into them: C{file} hands over
what a run of states put into it, as an L{Around}.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from attrs import define, field, frozen

from saltwisted.modules import _files
from saltwisted.states import _file_rules
from saltwisted.wire import msgpack

log = logging.getLogger(__name__)

Ret = dict[str, Any]


@frozen(kw_only=True, eq=False)
class Around:
    """
    What a run of states puts around a call. It is made again for each call, since it changes.

    @ivar salt: C{__salt__}.
    @ivar instance: which run this is; nothing outside of one.
    """

    salt: Any
    opts: Mapping[str, Any] = field(repr=False)
    context: dict[str, Any] = field(repr=False)
    lowstate: Sequence[Mapping[str, Any]] = field(repr=False)
    env: str
    instance: str

    @property
    def test(self) -> bool:
        """Whether changes are only foretold."""
        return bool(self.opts["test"])

    def unknown_owner(self, user: Any, group: Any) -> str:
        """What is wrong with a user and group; nothing is under C{test}, they may come yet."""
        text = ""
        if user and self.salt["file.user_to_uid"](user) == "":
            text += f"User {user} is not available "
        if group and self.salt["file.group_to_gid"](group) == "":
            text += f"Group {group} is not available"
        if text and self.test:
            log.warning(text)
            return ""
        return text

    def default_group(self, user: Any) -> Any:
        """The primary group of a user."""
        if "user.info" not in self.salt:
            return user
        return self.salt["file.gid_to_group"](self.salt["user.info"](user).get("gid", 0))

    def make_parents(
        self, path: str, user: Any = None, group: Any = None, mode: Any = None
    ) -> None:
        """Make the directories above a path."""
        self.salt["file.makedirs"](path=path, user=user, group=group, mode=mode)

    def accumulator_file(self) -> str:
        """Where this run of states keeps its accumulated texts."""
        folder = os.path.join(self.opts["cachedir"], "accumulator")
        _files.make_private(folder)
        return os.path.join(folder, self.instance)

    def accumulated(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Texts by file and accumulator, and the states that each is for, of this run."""
        data: dict[str, Any] = {}
        # Outside a run of states there is no instance, and nothing was accumulated.
        if self.instance:
            with contextlib.suppress(OSError), open(self.accumulator_file(), "rb") as file:
                data = msgpack.unpack(file.read()) or {}
        return data.get("accumulators", {}), data.get("accumulators_deps", {})


@frozen(eq=False)
class Surroundings:
    """
    Makes the L{Around} of each call of a module of states.

    @ivar space: the module's globals, which a run of states changes between two calls.
    """

    space: Mapping[str, Any]

    def __call__(self) -> Around:
        """What this call finds around itself; outside of a run there are no more states."""
        return Around(
            salt=self.space["__salt__"],
            opts=self.space["__opts__"],
            context=self.space["__context__"],
            lowstate=self.space.get("__lowstate__", ()),
            env=self.space.get("__env__", "base"),
            instance=self.space.get("__instance_id__", ""),
        )


class Finished(Exception):
    """The return is complete."""


@define(kw_only=True, eq=False, repr=False, slots=False)
class FileState:
    """
    One call of a file state, from its arguments to its return.

    @ivar name: the path.
    @ivar ret: the return so far.
    """

    around: Around
    name: str
    ret: Ret = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ret = new_ret(self.name)

    @property
    def salt(self) -> Any:
        """C{__salt__}."""
        return self.around.salt

    def run(self) -> Ret:
        """Do it all."""
        with contextlib.suppress(Finished):
            self.work()
        return self.ret

    def work(self) -> None:
        """Fill L{ret}."""
        raise NotImplementedError

    def fail(self, text: str) -> NoReturn:
        """End the state: it failed."""
        failed_ret(self.ret, text)
        raise Finished

    def finish(self, comment: str) -> NoReturn:
        """End the state with the result that it has."""
        self.ret["comment"] = comment
        raise Finished


def new_ret(name: str, result: bool | None = True) -> Ret:
    """A return that says nothing yet."""
    return {"name": name, "changes": {}, "result": result, "comment": ""}


def failed_ret(ret: Ret, text: str) -> Ret:
    """The return of a state that failed."""
    ret["result"] = False
    ret["comment"] = text
    return ret


def owner(user: Any, kwargs: Mapping[str, Any]) -> Any:
    """The user, also when it was called C{owner}."""
    if user or "owner" not in kwargs:
        return user
    log.warning('Use of argument owner found, "owner" is invalid, please use "user"')
    return kwargs["owner"]


def warn_about_hash(source: Any, source_hash: Any) -> None:
    """Say that a hash is of no use with a source that is not from the web."""
    if source is not None and source_hash and not _file_rules.is_remote(source):
        log.warning("source_hash is only used with 'http', 'https' or 'ftp'")


def unusable(name: str) -> str:
    """Why a file cannot be edited, if so."""
    if not os.path.isabs(name):
        return f"Specified file {name} is not an absolute path"
    if not os.path.exists(name):
        return f"{name}: file not found"
    return ""


def text_lines(path: str, keep_ends: bool = True) -> list[str]:
    """The lines of a text in UTF-8."""
    with open(path, "rb") as file:
        return file.read().decode("utf-8").splitlines(keep_ends)


def shown_diff(name: str, old: list[str], new: list[str], show: bool = True, glue: str = "") -> str:
    """What is shown of how a file differs from before."""
    if not _files.is_text(name):
        return "Replace binary file"
    if not show:
        return "<show_changes=False>"
    return glue.join(difflib.unified_diff(old, new))


def edited(ret: dict[str, Any], changes: Any, forecast: str, test: bool) -> dict[str, Any]:
    """A return after an edit: the diff, or that there was nothing to do."""
    if not changes:
        ret.update(result=True, comment="No changes needed to be made")
        return ret
    ret["changes"]["diff"] = changes
    if test:
        ret.update(result=None, comment=forecast)
    else:
        ret.update(result=True, comment="Changes were made")
    return ret
