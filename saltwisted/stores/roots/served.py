"""
The directories of C{file_roots}, as the file server reads them.

There may be several environments, with several roots each; the first root that has a file serves
it. Nothing is copied: each request looks the file up by C{stat}, so an edit takes effect at once.
Hashes are cached by what identifies a file's content (inode, size, times), and listings by the
mtimes of their directories. C{stat} and reads of data in the page cache happen inline; hashing,
walking and real disk reads happen in the pool.

This module is stricter than Salt: no C{..} in any form, no absolute path, no NUL, no environment
that is not a plain name, and nothing from below the master's C{pki_dir}, whatever link leads there.
Links that leave a root are followed as in Salt (C{fileserver_followsymlinks}, true by default,
because sites link formulas in), or not at all.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from attrs import define, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.errors import StoreError
from saltwisted.stores.files import store_error
from saltwisted.stores.roots.tree import (
    INLINE,
    OPEN,
    YOUNG,
    Listing,
    hash_file,
    read_file,
    read_now,
    real_path,
    revisit,
    unchanged,
)

RunInPool = Callable[..., "Deferred[Any]"]

_FRESH = 1.0
_INLINE_FOLDERS = 100
_MAX_HASHES = 100_000
_MAX_JUDGED = 100_000
_MAX_LISTED = 64
_DYNAMIC = "__env__"

Mark = tuple[int, int, int, int, int]
"""What identifies a file's content: device, inode, size, mtime and ctime in nanoseconds."""


class RootsOptions(Protocol):
    """The options that matter here, by Salt's names."""

    @property
    def fileserver_followsymlinks(self) -> bool: ...
    @property
    def fileserver_list_cache_time(self) -> int: ...
    @property
    def fileserver_ignoresymlinks(self) -> bool: ...
    @property
    def file_ignore_regex(self) -> Any: ...
    @property
    def file_ignore_glob(self) -> Any: ...
    @property
    def hash_type(self) -> str: ...
    @property
    def pki_dir(self) -> str: ...
    @property
    def cluster_pki_dir(self) -> str | None: ...


@frozen
class Found:
    """
    A file that may be served.

    @ivar full: its path on this machine.
    @ivar rel: its path below the root, normalised.
    @ivar back: the name of its source.
    """

    full: str
    rel: str
    info: os.stat_result
    back: str

    @property
    def mark(self) -> Mark:
        """What identifies its content."""
        info = self.info
        return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


class Shared:
    """One result for which several callers wait, each with a Deferred of its own."""

    def __init__(self) -> None:
        self._waiting: list[Deferred[Any]] | None = []
        self._outcome: Any = None

    def follow(self, running: Deferred[Any]) -> None:
        """Take the outcome of this Deferred, now or later."""
        shared: Any = running
        shared.addBoth(self._done)

    def _done(self, outcome: Any) -> None:
        self._outcome = outcome
        waiting, self._waiting = self._waiting or [], None
        for each in waiting:
            if not each.called:
                each.callback(outcome)

    def join(self) -> Deferred[Any]:
        """Fires with the outcome; may be cancelled without harm to the others."""
        mine: Deferred[Any] = Deferred()
        if self._waiting is None:
            mine.callback(self._outcome)
        else:
            self._waiting.append(mine)
        return mine


@define
class _Known:
    listing: Listing
    folders: dict[str, int]
    checked: float
    coming: Shared | None = None


class Roots:
    """
    Reactor thread only. Functions that it runs in the pool touch nothing but their arguments.

    @param file_roots: environment to directories, as configured; patterns are expanded.
    @param run: runs a blocking call in the pool, C{run(function, *arguments) -> Deferred}.
    @param monotonic: seconds on a clock that does not jump, for the age of listings.
    @param now: seconds since 1970, to recognise files that were written at this moment.
    """

    name = "roots"
    log = Logger()

    def __init__(
        self,
        file_roots: Mapping[str, Any],
        run: RunInPool,
        options: RootsOptions,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._configured = {str(env): _as_list(roots) for env, roots in file_roots.items()}
        self.run = run
        self._monotonic = monotonic
        self._now = now
        self._follow = bool(options.fileserver_followsymlinks)
        self._fresh = min(_FRESH, float(options.fileserver_list_cache_time))
        self._ignore_links = bool(options.fileserver_ignoresymlinks)
        self._ignored = _ignorer(options.file_ignore_regex, options.file_ignore_glob)
        self.hash_type = str(options.hash_type)
        private = (options.pki_dir, options.cluster_pki_dir)
        self._private = tuple(os.path.realpath(path) for path in private if path)
        self._roots: dict[str, tuple[str, ...]] = {}
        self._hashes: OrderedDict[Mark, str] = OrderedDict()
        self._hashing: dict[Mark, Shared] = {}
        self._judged: OrderedDict[tuple[str, int, int], bool] = OrderedDict()
        self._listings: OrderedDict[str, _Known] = OrderedDict()
        self.refresh()

    def startService(self) -> None:
        """
        Check that the hash type exists.

        @raises StoreError: when it does not.
        """
        try:
            hashlib.new(self.hash_type)
        except ValueError as error:
            raise StoreError(f"hash_type {self.hash_type!r} is unknown to this Python") from error

    def stopService(self) -> None:
        """Nothing is open."""

    def refresh(self) -> None:
        """Forget every listing, and expand the patterns in C{file_roots} again."""
        self._listings.clear()
        self._judged.clear()
        self._roots = {
            env: tuple(path for root in roots for path in _expand(root))
            for env, roots in self._configured.items()
        }

    # -- environments

    def envs(self) -> list[str]:
        """Names of the environments, sorted, C{__env__} among them if it is configured."""
        return sorted(self._roots)

    def roots_of(self, saltenv: str) -> tuple[str, ...]:
        """The directories of an environment; none if it does not exist."""
        roots = self._roots.get(saltenv)
        if roots is not None:
            return roots if saltenv != _DYNAMIC else ()
        dynamic = self._roots.get(_DYNAMIC)
        if dynamic is None or not _is_plain_name(saltenv):
            return ()
        return tuple(root.replace(_DYNAMIC, saltenv) for root in dynamic)

    # -- one file

    def find(self, saltenv: str, path: str, index: int | None = None) -> Found | None:
        """
        Look a file up: one C{stat} per root until one has it.

        @param index: only that root, counted from 0.
        """
        rel = clean_path(path)
        if rel is None:
            return None
        roots = self.roots_of(saltenv)
        if index is not None:
            roots = roots[index : index + 1] if index >= 0 else ()
        for root in roots:
            full = f"{root}/{rel}"
            try:
                info = os.stat(full)
            except (OSError, ValueError):
                continue
            if not stat.S_ISREG(info.st_mode):
                continue
            if self._may_serve(root, full, info) and not self._ignored(full):
                return Found(full, rel, info, self.name)
        return None

    def _may_serve(self, root: str, full: str, info: os.stat_result) -> bool:
        """
        Whether links lead where they may; judged once per path and file.

        A path is judged again when another file appears under it.
        """
        key = (full, info.st_dev, info.st_ino)
        known = self._judged.get(key)
        if known is not None:
            return known
        real = real_path(full)
        good = not any(_below(real, private) for private in self._private)
        if good and not self._follow:
            good = _below(real, os.path.realpath(root))
        self._judged[key] = good
        if len(self._judged) > _MAX_JUDGED:
            self._judged.popitem(last=False)
        return good

    def hash(self, found: Found) -> str | Deferred[str]:
        """
        The hash of a file's content in hex: from memory, at once if small, else from the pool.

        @raises StoreError: when it cannot be read; also through the Deferred.
        """
        mark = found.mark
        known = self._hashes.get(mark)
        if known is not None:
            return known
        if found.info.st_size <= INLINE:
            return self._hashed(mark, hash_file(found.full, self.hash_type))
        running = self._hashing.get(mark)
        if running is None:

            def finished(outcome: Any) -> Any:
                self._hashing.pop(mark, None)
                return self._hashed(mark, outcome) if isinstance(outcome, str) else outcome

            running = self._hashing[mark] = Shared()
            running.follow(self.run(hash_file, found.full, self.hash_type).addBoth(finished))
        return running.join()

    def _hashed(self, mark: Mark, value: str) -> str:
        # A file may change again within one tick of its clock and keep its mark: while it is
        # that young, it is read each time
        if self._now() - mark[4] / 1e9 > YOUNG:
            self._hashes[mark] = value
            if len(self._hashes) > _MAX_HASHES:
                self._hashes.popitem(last=False)
        return value

    def read(self, found: Found, start: int, size: int) -> bytes | Deferred[bytes]:
        """
        Up to C{size} bytes from C{start}: at once if they are in memory, else from the pool.

        @raises StoreError: when it cannot be read; also through the Deferred.
        """
        if start < 0 or start > 1 << 62:
            return b""
        try:
            fd = os.open(found.full, OPEN)
        except OSError as error:
            raise store_error(error, found.full) from error
        try:
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) != (found.info.st_dev, found.info.st_ino):
                # Replaced this moment: what is there now may be anything, so it is judged first
                raise StoreError("was replaced while it was read", found.full)
            length = min(size, info.st_size - start)
            if length <= 0:
                return b""
            data = read_now(fd, start, length)
            if data is not None:
                return data
        except OSError as error:
            raise store_error(error, found.full) from error
        finally:
            os.close(fd)
        identity = (info.st_dev, info.st_ino)
        return self.run(read_file, found.full, identity, start, length)

    # -- listings

    def listing(self, saltenv: str) -> Listing | Deferred[Listing]:
        """
        Everything in an environment, at most a second old.

        Within that second, or C{fileserver_list_cache_time} if that is less, no question is asked;
        later the directories' mtimes are
        compared (inline if they are few), and only a change makes it walk again.
        """
        known = self._listings.get(saltenv)
        if known is None:
            roots = self.roots_of(saltenv)
            if not roots:
                return Listing()
            known = self._listings[saltenv] = _Known(Listing(), {}, float("-inf"))
            while len(self._listings) > _MAX_LISTED:
                self._listings.popitem(last=False)
            return self._walk(saltenv, known, roots)
        if known.coming is not None:
            return known.coming.join()
        if self._monotonic() - known.checked < self._fresh:
            return known.listing
        if len(known.folders) <= _INLINE_FOLDERS and unchanged(known.folders):
            known.checked = self._monotonic()
            return known.listing
        return self._walk(saltenv, known, self.roots_of(saltenv))

    def _walk(
        self, saltenv: str, known: _Known, roots: tuple[str, ...]
    ) -> Listing | Deferred[Listing]:
        began = self._monotonic()

        def finished(outcome: Any) -> Any:
            known.coming = None
            if isinstance(outcome, tuple):
                known.listing, known.folders = outcome
                known.checked = began
                return known.listing
            if self._listings.get(saltenv) is known and not known.folders:
                del self._listings[saltenv]
            return outcome

        shared = known.coming = Shared()
        work = self.run(
            revisit,
            known.listing,
            known.folders,
            roots,
            self._follow,
            self._ignore_links,
            self._ignored,
            self._now(),
        )
        shared.follow(work.addBoth(finished))
        return shared.join()


# -- paths


def clean_path(path: str) -> str | None:
    """
    A relative path without C{.} and doubled slashes; C{None} for one that could lead astray.

    It refuses C{..} as a component (even if it would cancel out), absolute paths, NUL, and the
    empty path.
    """
    if not path or path[0] == "/" or "\0" in path:
        return None
    parts = [part for part in path.split("/") if part and part != "."]
    if not parts or ".." in parts:
        return None
    return "/".join(parts)


def _is_plain_name(name: str) -> bool:
    return bool(name) and name not in (".", "..", _DYNAMIC) and not set("/\\\0") & set(name)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _as_list(roots: Any) -> list[str]:
    if isinstance(roots, str):
        return [roots]
    return [str(root) for root in roots or []]


def _expand(root: str) -> Iterable[str]:
    root = root.rstrip("/") or "/"
    return sorted(glob.glob(root)) if glob.has_magic(root) else (root,)


def _ignorer(patterns: Any, globs: Any) -> Callable[[str], bool]:
    expressions = [str(pattern) for pattern in _as_list(patterns)]
    tests = []
    for pattern in expressions:
        try:
            tests.append(re.compile(pattern).search)
        except re.error as error:
            raise StoreError(
                f"file_ignore_regex: {pattern} is not a valid pattern: {error}"
            ) from error
    tests += [re.compile(fnmatch.translate(str(pattern))).match for pattern in _as_list(globs)]
    if not tests:
        return lambda _path: False
    return lambda path: any(test(path) is not None for test in tests)
