"""
The directory of a working tree: whether it is still the same one, and what in it takes no part.

Everything here blocks.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from saltwisted.domain.roots.guards import (
    MARKER,
)
from saltwisted.domain.roots.ignore import RULES_FILE, Ignored, ignorer, what_excludes
from saltwisted.errors import StoreError
from saltwisted.stores.roots.treefs import TreeFs

MARKER_TIME = 1_000_000_000
_IGNORED_RULES = 64 * 1024
GONE_AWAY = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENXIO))
"""What the system says where something else is now than was a moment ago."""


class TreeRoot:
    """
    A root directory, opened and closed again.

    @param path: the directory; created if it does not exist.
    @param share: the share's name, written into the marker file.
    @ivar ignored: what C{.rootsignore} and the configuration exclude.
    @ivar rules_changed: whether that has changed since the last question.
    """

    def __init__(self, path: str, share: str, extra_rules: tuple[bytes, ...], trash: str) -> None:
        self.path = path
        self.share = share
        self._extra = extra_rules
        self._trash = trash
        self._fs: TreeFs | None = None
        self.ignored: Ignored = ignorer(b"", extra_rules)
        self._rules = b""
        self.rules_changed = False

    @property
    def fs(self) -> TreeFs:
        """The open root."""
        if self._fs is None:
            self._fs = TreeFs(self.path, self._trash)
        return self._fs

    @property
    def opened(self) -> TreeFs | None:
        """The same, if it is open already."""
        return self._fs

    def open(self, remembered: tuple[int, int] | None) -> str:
        """
        Open the root and see that it is the one of last time.

        @param remembered: L{root_identity} of last time, which may have a device's number for the
            file system; C{None} the first time.
        @return: why the root cannot be trusted; empty if it can.
        """
        self.close()
        if remembered is None:
            with suppress(OSError):
                os.makedirs(self.path, mode=0o755, exist_ok=True)
        try:
            fs = self.fs
        except StoreError as error:
            return f"the root cannot be opened: {error.reason}"
        if remembered is None:
            marker = self._marker()
            if marker not in (None, self.share):
                return self._stranger()
            if marker is None:
                # Where we may not write, device and inode alone tell the root from another
                with suppress(PermissionError):
                    self.mark()
        else:
            stranger = self._stranger()
            if stranger:
                return stranger
            volume, inode = remembered
            # A disk that is mounted again, or a machine that was, may have numbered it again
            if inode != fs.inode or volume not in (fs.volume, fs.device):
                return "the root is not the directory that it was before"
        self.read_rules()
        return ""

    def check(self) -> str:
        """Why the root can no longer be trusted; empty if it can."""
        if self._fs is None:
            return "the root is not open"
        if not self._fs.same_root():
            return "the root is not the directory that it was before"
        return self._stranger()

    def _stranger(self) -> str:
        """What the marker file says against this directory; empty if nothing."""
        marker = self._marker()
        if marker is None:
            # Where we may not write we could not leave one, either
            return (
                "the marker file .saltwisted-root is missing: is the disk mounted?"
                if self.is_writable()
                else ""
            )
        if marker == self.share:
            return ""
        return f"the marker file .saltwisted-root says that this is the root of {marker}"

    def is_writable(self) -> bool:
        """Whether this process may write into the root."""
        return os.access(self.path, os.W_OK)

    def _marker(self) -> str | None:
        try:
            fd = self.fs.open(MARKER)
        except OSError:
            return None
        try:
            return os.read(fd, 1000).decode("utf-8", "replace").strip()
        finally:
            os.close(fd)

    def mark(self) -> None:
        """Write the marker file."""
        with suppress(FileExistsError):
            fd = self.fs.create(MARKER)
            try:
                os.write(fd, self.share.encode() + b"\n")
                os.fchmod(fd, 0o644)
                os.utime(fd, ns=(MARKER_TIME * 10**9, MARKER_TIME * 10**9))
                os.fsync(fd)
            finally:
                os.close(fd)

    def mark_anew(self) -> None:
        """Write the marker file whether there is one or not."""
        with suppress(OSError):
            self.fs.unlink(MARKER)
        self.mark()

    @property
    def root_identity(self) -> tuple[int, int]:
        """File system and inode, for L{open}."""
        return self.fs.volume, self.fs.inode

    def read_rules(self) -> None:
        """Take in C{.rootsignore} as it is now."""
        data = b""
        try:
            fd = self.fs.open(RULES_FILE)
        except OSError as error:
            # While it may not be read, what it excluded stays excluded; a look names it
            if error.errno not in GONE_AWAY:
                return
        else:
            try:
                data = os.read(fd, _IGNORED_RULES)
            finally:
                os.close(fd)
        self.rules_changed = self.rules_changed or data != self._rules
        self._rules = data
        self.ignored = ignorer(data, self._extra)

    def why_excluded(self, path: bytes) -> str:
        """What keeps a path from taking part, for who misses it; empty if nothing does."""
        found = what_excludes(path, self.ignored)
        if found is None:
            return ""
        name, always = os.fsdecode(found[0]), found[1]
        if always:
            return f"{name} is excluded: editors, version control and compilers use such names"
        return f"{name} is excluded by {os.fsdecode(RULES_FILE)} or by the configuration"

    def is_busy(self) -> bool:
        """Whether git, hg or svn is in the middle of something."""
        for name in (b".git/index.lock", b".hg/wlock", b".svn/wc.db-journal"):
            # Not while somebody has closed that directory to us: we should wait for ever
            with suppress(PermissionError):
                if self.fs.lstat(name) is not None:
                    return True
        return False

    def close(self) -> None:
        """Close the root."""
        if self._fs is not None:
            self._fs.close()
            self._fs = None
