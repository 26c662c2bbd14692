"""
What no tree, local or a peer's, may do: rules for names and links, the brake, the limits.

An origin skips and names what the rules forbid; a receiver refuses the whole batch and
closes the link with the reason. Names that are merely odd (backslashes, two names that
differ in case) are legal on Linux and travel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from saltwisted.domain.roots.entry import FILE, KINDS, LINK, Batch, TreeEntry
from saltwisted.errors import SaltwistedError

MARKER = b".saltwisted-root"
TRASH = b".saltwisted-trash"
TEMPORARY = b".saltwisted-tmp-"

MAX_PATH = 4096
MAX_NAME = 255
MAX_DEPTH = 64
MAX_ENTRIES = 200_000
MIB = 1024 * 1024
_ODD = re.compile(rb"/(?:/|\.\.?/|\.saltwisted-)")
"""What a path between slashes has in it if one of its names may be forbidden."""


class Forbidden(SaltwistedError):
    """
    A peer, or a tree, did what the rules forbid.

    @ivar reason: a short word, the same in logs, counters and the error frame.
    """

    def __init__(self, reason: str, path: bytes = b"") -> None:
        shown = path[:200].decode("utf-8", "backslashreplace")
        super().__init__(f"{reason}: {shown}" if path else reason)
        self.reason = reason
        self.path = path


@frozen
class Limits:
    """
    What one share takes; options under C{cluster_roots} change it.

    @ivar max_file: bytes of the largest file.
    @ivar guard_files: deletions within a minute that are always let through.
    @ivar guard_part: the part of all files that may be deleted beyond those.
    @ivar guard_bytes: bytes of deleted files that are let through whatever part they are.
    @ivar links: C{inside}, C{all} or C{none}.
    """

    max_file: int = 1024 * MIB
    max_entries: int = MAX_ENTRIES
    guard_files: int = 100
    guard_part: float = 0.25
    guard_bytes: int = 64 * MIB
    links: str = "inside"


def check_path(path: bytes) -> None:
    """@raises Forbidden: this cannot be the name of anything in a root."""
    if not path or len(path) > MAX_PATH:
        raise Forbidden("path-length", path)
    if b"\0" in path:
        raise Forbidden("path-nul", path)
    if len(path) <= MAX_DEPTH and not _ODD.search(b"/%b/" % path):
        return  # As almost all: too short for what is too long or too deep
    parts = path.split(b"/")
    if len(parts) > MAX_DEPTH:
        raise Forbidden("path-depth", path)
    for part in parts:
        if part in (b"", b".", b".."):
            raise Forbidden("path-escape", path)
        if len(part) > MAX_NAME:
            raise Forbidden("path-name-length", path)
        if part in (MARKER, TRASH) or part.startswith(TEMPORARY):
            raise Forbidden("path-reserved", path)


def is_path(path: bytes) -> bool:
    """Whether this can be the name of something in a root."""
    try:
        check_path(path)
    except Forbidden:
        return False
    return True


def check_link(path: bytes, target: bytes, rule: str = "inside") -> None:
    """@raises Forbidden: this link may not be in a root under this rule."""
    if not target or b"\0" in target or len(target) > MAX_PATH:
        raise Forbidden("link-target", path)
    if rule == "none":
        raise Forbidden("link-not-allowed", path)
    if rule == "all":
        return
    if target.startswith(b"/"):
        raise Forbidden("link-outside", path)
    depth = path.count(b"/")
    for part in target.split(b"/"):
        if part == b"..":
            depth -= 1
            if depth < 0:
                raise Forbidden("link-outside", path)
        elif part not in (b"", b"."):
            depth += 1


def check_entry(path: bytes, entry: TreeEntry, limits: Limits) -> None:
    """@raises Forbidden: this entry may not be in a root."""
    check_path(path)
    if entry.kind not in KINDS or len(entry.kind) != 1:
        raise Forbidden("kind", path)
    if entry.mode & ~0o777:
        raise Forbidden("mode", path)
    if not -(1 << 62) < entry.mtime < 1 << 62:
        raise Forbidden("mtime", path)
    if entry.kind == FILE:
        if len(entry.content) != 32:
            raise Forbidden("digest-length", path)
        if not 0 <= entry.size <= limits.max_file:
            raise Forbidden("file-size", path)
    elif entry.kind == LINK:
        check_link(path, entry.content, limits.links)
    elif entry.content or entry.size:
        raise Forbidden("content", path)


def check_batch(batch: Batch, limits: Limits) -> None:
    """@raises Forbidden: the batch holds something that no share takes."""
    if len(batch.entries) > limits.max_entries:
        raise Forbidden("too-many-entries")
    last = b""
    for path, entry in batch.entries:
        check_entry(path, entry, limits)
        if path <= last:
            raise Forbidden("order", path)
        last = path


class Brake:
    """
    Counts deletions within a minute, since an C{rm -rf} is seen in steps.

    Held is a deletion of more than max(100 files, 25 %) of the files, or, above
    100 files or 64 MiB, of more than half of the bytes, or of everything. Files whose
    content turns up elsewhere in the same batch have moved and do not count.
    """

    window = 60.0

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._recent: list[tuple[float, int, int]] = []

    def weigh(
        self, shown: Mapping[bytes, tuple[TreeEntry | None, TreeEntry | None]]
    ) -> tuple[int, int]:
        """Files and bytes that a change of the visible tree deletes."""
        arriving: dict[bytes, int] = {}
        for _, after in shown.values():
            if after is not None and after.kind == FILE:
                arriving[after.content] = arriving.get(after.content, 0) + 1
        files = size = 0
        for before, after in shown.values():
            if before is None or before.kind != FILE or (after is not None and after.kind == FILE):
                continue
            if arriving.get(before.content, 0) > 0:
                arriving[before.content] -= 1
                continue
            files += 1
            size += before.size
        return files, size

    def holds(self, now: float, files: int, size: int, all_files: int, all_bytes: int) -> bool:
        """
        Whether this deletion goes too far, with those of the last minute.

        @param all_files: files in the tree before it.
        """
        if not files:
            return False
        self._recent = [one for one in self._recent if one[0] > now - self.window]
        before_files = sum(one[1] for one in self._recent)
        before_bytes = sum(one[2] for one in self._recent)
        gone_files, gone_bytes = files + before_files, size + before_bytes
        total_files, total_bytes = all_files + before_files, all_bytes + before_bytes
        limits = self._limits
        if files >= all_files and all_files > 1:
            return True
        if gone_files > max(limits.guard_files, limits.guard_part * total_files):
            return True
        large = gone_files > limits.guard_files or gone_bytes > limits.guard_bytes
        return large and gone_bytes * 2 > total_bytes

    def passed(self, now: float, files: int, size: int) -> None:
        """A deletion went through."""
        if files:
            self._recent.append((now, files, size))

    def clear(self) -> None:
        """An operator approved: count from here."""
        self._recent.clear()
