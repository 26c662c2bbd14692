"""
How all states of C{x509} go about it: look at the file, see what differs, make it anew.

The file itself (owner, mode, directories, backups) is C{file.managed}'s work, whose return is told
beside that of the state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS
from saltwisted.modules import _files
from saltwisted.modules._x509_load import decoded_base64
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

_FILE_WORDS = frozenset(
    (
        "user",
        "group",
        "mode",
        "attrs",
        "makedirs",
        "dir_mode",
        "backup",
        "create",
        "follow_symlinks",
        "check_cmd",
        "tmp_dir",
        "tmp_ext",
        "selinux",
        "file_encoding",
        "encoding_errors",
        "win_owner",
        "win_perms",
        "win_deny_perms",
        "win_inheritance",
        "win_perms_reset",
    )
)
_TEXTS = ("pem", "pkcs7_pem")


def split_words(words: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments for C{file.managed}, and the others."""
    ignored = INTERNAL_KEYWORDS - {"check_cmd"}
    file_words: dict[str, Any] = {"show_changes": False}
    others = {}
    for key, value in words.items():
        if key in _FILE_WORDS:
            file_words["encoding" if key == "file_encoding" else key] = value
        elif key not in ignored:
            others[key] = value
    return file_words, others


def only_files(words: Mapping[str, Any]) -> dict[str, Any]:
    """
    Arguments that are all for C{file.managed}.

    @raises SaltInvocationError: one is for nobody.
    """
    file_words, others = split_words(words)
    if others:
        raise SaltInvocationError(f"Unrecognized keyword arguments: {list(others)}")
    return file_words


def without_internal(words: Mapping[str, Any], *ignored: str) -> dict[str, Any]:
    """Arguments without some that meant something to an older module."""
    return {key: value for key, value in words.items() if key not in ignored}


@define(eq=False)
class Managed:
    """
    One file with something encoded in it.

    @ivar space: the globals of the state's module, with what the loader put there.
    @ivar name: the file.
    @ivar noun: what it holds, for comments.
    @ivar encoding: how it is to be encoded.
    @ivar file_words: the arguments for C{file.managed}.
    @ivar current: what is in the file; the check says it.
    @ivar was_there: whether a file that is made anew was there; C{None}: it was if C{current} is.
    """

    space: Mapping[str, Any]
    name: str
    noun: str
    encoding: str
    file_words: dict[str, Any]
    current: Any = field(default=None, init=False)
    was_there: bool | None = field(default=None, init=False)
    ret: dict[str, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ret = {
            "name": self.name,
            "changes": {},
            "result": True,
            "comment": f"The {self.noun} is in the correct state",
        }

    @property
    def _is_test(self) -> bool:
        return bool(self.space["__opts__"]["test"])

    def run(
        self,
        check: Callable[[str, bool], dict[str, Any]],
        make: Callable[[dict[str, Any]], str],
    ) -> dict[str, Any]:
        """
        The return of the state.

        @param check: what differs, from the path and whether there is a file.
        @param make: the new content, in the encoding; from what differs.
        """
        try:
            self._work(check, make)
        except (CommandExecutionError, SaltInvocationError) as error:
            self._fail(str(error))
        return self.ret

    def _fail(self, comment: str) -> None:
        self.ret.update(result=False, comment=comment, changes={})

    def _work(
        self,
        check: Callable[[str, bool], dict[str, Any]],
        make: Callable[[dict[str, Any]], str],
    ) -> None:
        forecast = self.file(test=True, replace=False)
        if forecast["result"] is False:
            self._fail("Problem while testing file.managed changes, see its output")
            self._add(forecast)
            return
        if "is not present and is not set for creation" in forecast["comment"]:
            self._add(forecast)
            return
        path, is_other = self._resolved()
        changes = check(path, not is_other and self.space["__salt__"]["file.file_exists"](path))
        if is_other:
            changes["replaced"] = self.name
        if not changes and forecast["result"] and not forecast["changes"]:
            self._add(forecast)
            return
        self.ret["changes"] = changes
        there = self.current is not None if self.was_there is None else self.was_there
        verb = "recreate" if there else "create"
        if self._is_test:
            if changes:
                self.ret["comment"] = f"The {self.noun} would have been {verb}d"
                self.ret["result"] = None
            self._add(forecast)
            return
        content = make(changes) if changes else None
        if is_other:
            self.space["__salt__"]["file.remove"](self.name)
        if content is not None:
            self.ret["comment"] = f"The {self.noun} has been {verb}d"
        self._put(path, content)

    def _resolved(self) -> tuple[str, bool]:
        """The path of the file itself, and whether a link has to make place for it."""
        if not self.space["__salt__"]["file.is_link"](self.name):
            return self.name, False
        if self.file_words.get("follow_symlinks", True):
            return os.path.realpath(self.name), False
        return self.name, True

    def _put(self, path: str, content: str | None) -> None:
        """The content, and owner, mode and the like."""
        is_text = self.encoding in _TEXTS
        if content is not None and is_text:
            done = self.file(contents=content, replace=True)
        elif content is None:
            done = self.file(contents=None, replace=False)
        else:
            done = self.file(replace=False)
        self._add(done)
        if done["result"] is False:
            verb = "create" if self.current is None else "update"
            self._fail(f"Could not {verb} file, see file.managed output")
        elif content is not None and not is_text:
            self._write(path, decoded_base64(content))

    def _write(self, path: str, data: bytes) -> None:
        """Put what is no text into a file whose owner and mode are right by now."""
        salt, opts = self.space["__salt__"], self.space["__opts__"]
        backup = salt["config.backup_mode"](self.file_words.get("backup", ""))
        if backup in ("minion", "both") and os.path.getsize(path):
            _files.backup(path, os.path.join(opts["cachedir"], "file_backup"))
        _files.write_atomically(path, data)

    def file(self, test: bool = False, **words: Any) -> dict[str, Any]:
        """What C{file.managed} says."""
        result = self.space["__salt__"]["state.single"](
            "file.managed",
            self.name,
            test=test or self._is_test,
            concurrent=True,
            **{**self.file_words, **words},
        )
        if not isinstance(result, dict):
            raise CommandExecutionError(f"Failed running file.managed in x509_v2 state: {result}")
        return dict(next(iter(result.values())))

    def _add(self, part: dict[str, Any]) -> None:
        """Tell of what C{file.managed} did."""
        part["low"] = {
            "name": self.name,
            "state": "file",
            "__id__": self.space["__low__"]["__id__"],
            "fun": "managed",
        }
        self.ret.setdefault("sub_state_run", []).append(part)
