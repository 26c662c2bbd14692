"""
What differs between a file and what it should be.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from attrs import define, field

from saltwisted.modules import _edit, _file_owners, _file_perms, _file_source, _files
from saltwisted.modules._file_around import Around, Lenience, SecurityContext
from saltwisted.worker.exceptions import CommandExecutionError, MinionError

log = logging.getLogger(__name__)


def diff(
    around: Around,
    file1: str,
    file2: str,
    *,
    saltenv: str = "base",
    show_filenames: bool = True,
    show_changes: bool = True,
    template: bool = False,
    source_hash_file1: str | None = None,
    source_hash_file2: str | None = None,
    lenience: Lenience,
) -> Any:
    """
    A unified diff of two files, of this machine or from the file server.

    @return: where some differences do not count, a pair: whether they differ in earnest, and
        the diff.
    @raises CommandExecutionError: one of them is not there, or cannot be read.
    """
    hashes = (source_hash_file1, source_hash_file2)
    paths = _cached(around, tuple(zip((file1, file2), hashes, strict=True)), saltenv)
    contents: list[list[bytes]] = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                contents.append(file.readlines())
        except OSError as error:
            raise CommandExecutionError(f"Failed to read {path}: {error.strerror}") from error
    if contents[0] == contents[1]:
        return (False, "") if lenience else ""
    if template and around.hides_templates:
        return "<Obfuscated Template>"
    if not show_changes:
        return "<show_changes=False>"
    binary = _binary_difference(*paths)
    if binary:
        return binary
    names = paths if show_filenames else []
    if lenience:
        return _edit.conditional_diff(contents[0], contents[1], *names, **lenience.words)
    return _edit.diff(contents[0], contents[1], *names)


def _cached(around: Around, files: tuple[tuple[str, str | None], ...], saltenv: str) -> list[str]:
    """Where files, each with its hash if that is known, are on this machine."""
    paths: list[str] = []
    errors: list[str] = []
    for name, source_hash in files:
        try:
            # A plain path needs no cache, and states compare many.
            if os.path.isabs(name) and os.path.isfile(name):
                cached: Any = name
            else:
                cached = around.salt["cp.cache_file"](name, saltenv, source_hash=source_hash)
        except MinionError as error:
            errors.append(str(error))
            continue
        if cached is False or cached == "":
            errors.append(f"File {name} not found")
        else:
            paths.append(cached)
    if errors:
        raise CommandExecutionError("Failed to cache one or more files", info=errors)
    return paths


def _binary_difference(old: str, new: str) -> str:
    """In place of a diff, where one of the files is not text."""
    was, becomes = not _files.is_text(old), not _files.is_text(new)
    if was and becomes:
        return "Replace binary file"
    if was:
        return "Replace binary file with text file"
    if becomes:
        return "Replace text file with binary file"
    return ""


def diff_to_nothing(around: Around, path: str) -> Any:
    """A file as a diff to an empty one."""
    empty = _files.mkstemp()
    try:
        return diff(around, empty, path, show_filenames=False, lenience=Lenience())
    finally:
        _files.safe_remove(empty)


@define(kw_only=True, eq=False, repr=False)
class Comparison:
    """
    A file, and what it should be: content, owner, mode.

    @ivar sfn: the local file with the wanted content, if it was fetched.
    @ivar have: what the file is; empty if there is none.
    @ivar serious: whether the content differs in earnest.
    """

    around: Around
    name: str
    sfn: str
    source: Any
    source_sum: Any
    user: Any
    group: Any
    mode: Any
    attrs: Any
    saltenv: str
    contents: Any
    selinux: SecurityContext
    verify_ssl: bool
    follow_symlinks: bool
    lenience: Lenience
    new_file_diff: bool
    changes: dict[str, Any] = field(factory=dict, init=False)
    have: dict[str, Any] = field(factory=dict, init=False)
    serious: bool = field(default=False, init=False)

    def compare(self) -> Any:
        """What differs; with lenience a pair: whether in earnest, and what."""
        summed = self.source_sum or {}
        try:
            self.have = _file_owners.stats(self.name, summed.get("hash_type"), self.follow_symlinks)
        except CommandExecutionError:
            self.have = {}
        if not self.have and not self.new_file_diff:
            self.changes["newfile"] = self.name
            return (True, self.changes) if self.lenience else self.changes
        if "hsum" in summed and summed["hsum"] != self.have.get("sum"):
            self._source_differs(summed["hsum"])
        if self.contents is not None:
            self._compare_contents()
        if not self.have:
            return self.changes
        self._compare_owner()
        if self.attrs:
            different = _file_perms.attr_changes(self.name, self.attrs)
            if different is not None and any(different):
                self.changes["attrs"] = self.attrs
        if self.selinux:
            self._compare_context()
        return (self.serious, self.changes) if self.lenience else self.changes

    def _difference(self, path: str, **options: Any) -> Any:
        """The diff to a wanted content."""
        if not self.lenience and not self.have:
            return diff_to_nothing(self.around, path)
        found = diff(
            self.around, self.name, path, show_filenames=False, lenience=self.lenience, **options
        )
        if self.lenience and isinstance(found, tuple):
            self.serious, found = found
        return found

    def _source_differs(self, wanted: str) -> None:
        sfn = self.sfn
        if not sfn and self.source:
            sfn = self.around.salt["cp.cache_file"](
                self.source, self.saltenv, source_hash=wanted, verify_ssl=self.verify_ssl
            )
        if not sfn:
            self.changes["sum"] = "Checksum differs"
            return
        try:
            self.changes["diff"] = self._difference(sfn, template=True)
        except CommandExecutionError as error:
            self.changes["diff"] = error.strerror

    def _compare_contents(self) -> None:
        temporary = write_temporary(self.contents)
        difference: Any
        try:
            difference = self._difference(temporary)
        except CommandExecutionError as error:
            log.error("Failed to diff files")
            difference = error.strerror
        _file_source.clean_tmp(self.around.opts, temporary)
        if difference:
            hidden = self.around.hides_templates
            self.changes["diff"] = "<Obfuscated Template>" if hidden else difference

    def _compare_owner(self) -> None:
        have = self.have
        if self.user is not None and self.user not in (have["user"], have["uid"]):
            self.changes["user"] = self.user
        if self.group is not None and self.group not in (have["group"], have["gid"]):
            self.changes["group"] = self.group
        mode = _files.normalize_mode(self.mode)
        if mode is not None and mode != have["mode"]:
            self.changes["mode"] = mode

    def _compare_context(self) -> None:
        try:
            parts = _file_perms.selinux_parts(self.name)
        except ValueError:
            log.error("Unable to get current selinux attributes")
            self.changes["selinux"] = "Unable to get current selinux attributes"
            return
        words = ("user", "role", "type", "range")
        for word, new, old in zip(words, self.selinux.parts, parts, strict=True):
            if new and new != old:
                self.changes["selinux"] = {word: new}


def write_temporary(contents: Any, encoding: str | None = None, errors: str = "strict") -> str:
    """A temporary file with a content that a state gives."""
    if not isinstance(contents, bytes):
        contents = str(contents).encode(encoding or "utf-8", errors if encoding else "strict")
    return _files.temporary_with(contents)
