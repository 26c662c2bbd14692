"""
Making a file what C{file.get_managed} found, as C{file.manage_file} does.
"""

from __future__ import annotations

import logging
import os
import urllib.parse
from typing import Any

from attrs import define, field

from saltwisted.modules import (
    _file_diff,
    _file_make,
    _file_owners,
    _file_source,
    _file_write,
    _files,
)
from saltwisted.modules._file_around import Around, Lenience, SecurityContext
from saltwisted.modules._file_perms import Permissions
from saltwisted.modules._file_source import Signing
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)


def kept_mode(salt: Any, source: str, saltenv: str, mode: Any) -> Any:
    """The mode of a source, for C{mode: keep}."""
    if urllib.parse.urlparse(source).scheme in ("salt", "file", ""):
        try:
            return salt["cp.stat_file"](source, saltenv=saltenv, octal=True)
        except Exception as error:
            log.warning("Unable to stat %s: %s", source, type(error).__name__)
    return mode


def _umask() -> int:
    """The umask of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _directory_mode(dir_mode: Any, mode: Any) -> Any:
    """For directories made on the way to a file: the file's mode, with x where there is any r."""
    if dir_mode is not None or mode is None:
        return dir_mode
    return "".join(digit if digit == "0" else str(int(digit) | 1) for digit in str(mode)[-3:])


def _touch_private(name: str, private: bool) -> bool:
    """Make an empty file; readable by nobody else until its mode is set, if one is asked for."""
    old = os.umask(0o077) if private else None
    try:
        return _file_write.touch(name)
    finally:
        if old is not None:
            os.umask(old)


class Stopped(Exception):
    """The file cannot be made; the return says why."""


@define(kw_only=True, eq=False, repr=False)
class Placement:
    """
    A file, what it should become, and the return of the state that wants it.

    @ivar sfn: the local file with the wanted content; empty where it is to be fetched.
    @ivar source_sum: its announced hash.
    @ivar signature: where its signature is; true for one within the file.
    @ivar serious: whether the content differed in earnest.
    """

    around: Around
    name: str
    sfn: Any
    ret: Any
    source: Any
    source_sum: Any
    user: Any
    group: Any
    mode: Any
    attrs: Any
    saltenv: str
    backup: Any
    makedirs: bool
    show_changes: bool
    contents: Any
    dir_mode: Any
    follow_symlinks: bool
    skip_verify: bool
    keep_mode: bool
    encoding: str | None
    encoding_errors: str
    use_etag: bool
    signature: Any
    new_file_diff: bool
    selinux: SecurityContext
    lenience: Lenience
    signing: Signing
    state: dict[str, Any] = field(factory=dict, init=False)
    serious: bool = field(default=False, init=False)

    def place(self) -> dict[str, Any]:
        """Make the file; answers as a state."""
        self.name = _files.expanded(self.name)
        self.state = self.ret or {
            "name": self.name,
            "changes": {},
            "comment": "",
            "result": True,
        }
        self.source_sum = dict(self.source_sum or {})
        if "hsum" in self.source_sum:
            self.source_sum["hsum"] = self.source_sum["hsum"].lower()
        try:
            if self.source:
                self._have_source()
            if os.path.isfile(self.name) or os.path.islink(self.name):
                self._renew()
            else:
                self._make()
        except Stopped:
            pass
        return self.state

    # -- steps of both ways -----------------------------------------------------

    def _stop(self, comment: str) -> Stopped:
        self.state["result"] = False
        self.state["comment"] = comment
        return Stopped()

    def _fetch(self) -> None:
        self.sfn = self.around.salt["cp.cache_file"](
            self.source, self.saltenv, verify_ssl=self.signing.verify_ssl
        )
        if not self.sfn:
            raise self._stop(f"Source file '{self.source}' not found")

    def _have_source(self) -> None:
        if not self.sfn:
            self._fetch()
            kind = self.source_sum.get("hash_type", self.around.opts["hash_type"])
            self.source_sum = {
                "hash_type": kind,
                "hsum": _file_owners.get_hash(self.sfn, form=kind),
            }
        if self.keep_mode:
            self.mode = kept_mode(self.around.salt, self.source, self.saltenv, self.mode)

    def _verify(self, subject: Any, advice: str = "") -> None:
        """Stop if what was fetched is not what was announced or signed."""
        if (
            self.source
            and urllib.parse.urlparse(self.source).scheme != "salt"
            and not self.skip_verify
            and not self.use_etag
        ):
            kind, wanted = self.source_sum["hash_type"], self.source_sum["hsum"]
            got = _file_owners.get_hash(self.sfn, kind)
            if got != wanted:
                raise self._stop(
                    f"Specified {kind} checksum for {subject} "
                    f"({wanted}) does not match actual checksum ({got}){advice}"
                )
        if self.signature:
            try:
                self.signing.verify(self.around.salt, self.sfn, self.signature)
            except CommandExecutionError as error:
                raise self._stop(f"Failed checking new file's signature: {error}") from error

    def _clean(self, path: Any) -> None:
        _file_source.clean_tmp(self.around.opts, path)

    def _commit(self, new: str, target: str) -> None:
        opts, salt = self.around.opts, self.around.salt
        try:
            _files.copyfile(new, target, salt["config.backup_mode"](self.backup), opts["cachedir"])
        except OSError as error:
            self._clean(new)
            raise self._stop(f"Failed to commit change: {error}") from error

    def _set_permissions(self, **options: Any) -> None:
        self.state, _ = Permissions(
            around=self.around,
            name=self.name,
            ret=self.state,
            user=self.user,
            group=self.group,
            mode=self.mode,
            attrs=self.attrs,
            selinux=self.selinux,
            **options,
        ).set()

    def _diff(self, old: str, new: str, **options: Any) -> Any:
        found = _file_diff.diff(
            self.around, old, new, show_filenames=False, lenience=self.lenience, **options
        )
        if self.lenience and isinstance(found, tuple):
            self.serious, found = found
        return found

    # -- a file that is there ----------------------------------------------------

    def _renew(self) -> None:
        state = self.state
        a_link = os.path.islink(self.name)
        real = os.path.realpath(self.name) if a_link and self.follow_symlinks else self.name
        replace_link = a_link and not self.follow_symlinks
        usual = self.around.opts["hash_type"]
        have = None
        if self.source and not replace_link:
            have = _file_owners.get_hash(real, self.source_sum.get("hash_type", usual))
        if self.source and (have is None or self.source_sum.get("hsum", usual) != have):
            self._renew_from_source(real)
        if self.contents is not None:
            self._renew_contents(real)
        if os.path.islink(self.name) and not self.follow_symlinks:
            if not self.sfn:
                self._fetch()
            self._verify(self.name)
            self._commit(self.sfn, self.name)
            state["changes"]["diff"] = "Replace symbolic link with regular file"
        self._set_permissions(follow_symlinks=self.follow_symlinks)
        if self.state["changes"]:
            self.state["comment"] = f"File {self.name} updated"
            if self.lenience and not self.serious:
                self.state["skip_req"] = True
        elif self.state["result"]:
            self.state["comment"] = f"File {self.name} is in the correct state"
        self._clean(self.sfn)

    def _renew_from_source(self, real: str) -> None:
        changes = self.state["changes"]
        self._verify(
            self.source,
            ". If the 'source_hash' value refers to a remote file with multiple possible "
            "matches, then it may be necessary to set 'source_hash_name'.",
        )
        if self.around.hides_templates:
            changes["diff"] = "<Obfuscated Template>"
        elif not self.show_changes:
            changes["diff"] = "<show_changes=False>"
        else:
            try:
                difference = self._diff(real, self.sfn)
                if difference:
                    changes["diff"] = difference
            except CommandExecutionError as error:
                changes["diff"] = error.strerror
        self._commit(self.sfn, real)

    def _renew_contents(self, real: str) -> None:
        temporary = _file_diff.write_temporary(self.contents, self.encoding, self.encoding_errors)
        try:
            difference = self._diff(real, temporary, show_changes=self.show_changes, template=True)
        except CommandExecutionError as error:
            self.state.setdefault("warnings", []).append(
                f"Failed to detect changes to file: {error.strerror}"
            )
            difference = ""
        if difference:
            self.state["changes"]["diff"] = difference
            self._commit(temporary, real)
        self._clean(temporary)

    # -- a file that is not there yet --------------------------------------------

    def _make(self) -> None:
        test = self.around.test
        changes = self.state["changes"]
        if self.source:
            self._verify(self.name)
            changes["diff"] = "New file"
            if self.new_file_diff:
                changes["diff"] = _file_diff.diff_to_nothing(self.around, self.sfn)
        self._make_directory()
        if not self.source and not test:
            self._make_empty()
        if self.contents is not None:
            self._fill(changes)
        elif self.sfn:
            self._commit(self.sfn, self.name)
        if self.mode is None:
            self.mode = f"{0o666 & ~_umask():o}"
        self._set_permissions()
        state = self.state
        if not state["comment"]:
            state["comment"] = f"File {self.name} updated"
        if test:
            state["comment"] = f"File {self.name} not updated"
        elif not state["changes"] and state["result"]:
            state["comment"] = f"File {self.name} is in the correct state"
        self._clean(self.sfn)
        if self.lenience and state["changes"] and not self.serious:
            state["skip_req"] = True

    def _make_directory(self) -> None:
        if os.path.isdir(os.path.dirname(self.name)):
            return
        if not self.makedirs:
            self._clean(self.sfn)
            self.state["changes"].pop("diff", None)
            raise self._stop("Parent directory not present")
        mode = _directory_mode(self.dir_mode, self.mode)
        _file_make.make_parents(self.around, self.name, self.user, self.group, mode)

    def _make_empty(self) -> None:
        if not _touch_private(self.name, bool(self.mode)):
            what = "Empty file" if self.contents is None else "File"
            raise self._stop(f"{what} {self.name} not created")
        if self.contents is None:
            self.state["changes"]["new"] = f"file {self.name} created"
            self.state["comment"] = "Empty file"
        else:
            self.state["changes"]["diff"] = "New file"

    def _fill(self, changes: dict[str, Any]) -> None:
        temporary = _file_diff.write_temporary(self.contents, self.encoding, self.encoding_errors)
        if self.new_file_diff and changes.get("diff") == "New file":
            changes["diff"] = _file_diff.diff_to_nothing(self.around, temporary)
        try:
            self._commit(temporary, self.name)
        finally:
            self._clean(temporary)
