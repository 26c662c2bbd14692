"""
The cache of the file client: where copies are on this machine, and how they are written.

No name from outside (a path, an environment, a URL) leads out of the cache, and a file is written
completely or not at all.
"""

from __future__ import annotations

import hashlib
import os
import stat
import urllib.parse
from collections.abc import Mapping
from typing import Any, BinaryIO

from saltwisted.worker.filequestions import parse_url
from saltwisted.worker.jobfiles import remove_quietly
from saltwisted.worker.localroots import digest
from saltwisted.worker.walk import walk

LONGEST_NAME = 255
"""Bytes in a file's name; longer names of the web are replaced by their digest."""


def inside(base: str, *names: str) -> str | None:
    """
    Join names from outside under a directory of ours.

    @return: C{None} when they would lead out of it, or are not names at all.
    """
    path = os.path.normpath(os.path.join(base, *(name.lstrip("/") for name in names)))
    if "\0" in path or not path.startswith(os.path.normpath(base).rstrip("/") + "/"):
        return None
    return path


class FileCache:
    """
    Where copies are, or would be. Nothing is fetched here.

    @param opts: the minion's options, of which C{cachedir} counts.
    """

    def __init__(self, opts: Mapping[str, Any]) -> None:
        self._opts = opts

    def folder(self, cachedir: str | None = None) -> str:
        """The cache directory; a relative one is under the minion's."""
        base = str(self._opts["cachedir"])
        return os.path.join(base, cachedir) if cachedir else base

    def place(self, relative: str, saltenv: str, cachedir: str | None = None) -> str | None:
        """Of a file of the file server; C{None} if it would be outside the cache."""
        base = os.path.join(self.folder(cachedir), "files")
        environment = inside(base, saltenv)
        return None if environment is None else inside(environment, relative)

    def local_place(self, path: str) -> str | None:
        """Of a file of this machine; C{None} as for L{place}."""
        return inside(os.path.join(self.folder(), "localfiles"), path)

    def web_place(self, url: str, saltenv: str, cachedir: str | None = None) -> str | None:
        """Of what the web has; C{None} as for L{place}."""
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2].replace(":", "")
        name = f"{parts.path}-{parts.query}" if parts.query else parts.path
        if len(name) > LONGEST_NAME:
            name = hashlib.sha256(name.encode()).hexdigest()
        base = os.path.join(self.folder(cachedir), "extrn_files")
        environment = inside(base, saltenv)
        folder = None if environment is None else inside(environment, host or ".")
        if environment is not None and not host:
            folder = environment
        return None if folder is None else inside(folder, name)

    def find(self, path: str, saltenv: str = "base", cachedir: str | None = None) -> str:
        """The path of a copy that is there, or C{""}."""
        name, senv = parse_url(path)
        saltenv = senv or saltenv
        escaped = "|" if name.startswith("|") else ""
        relative = name.lstrip("|/")
        place = self.place(relative, saltenv)
        if place is not None and os.path.exists(place):
            return escaped + place
        place = self.local_place(relative)
        if place is not None and os.path.exists(place):
            return escaped + place
        place = self.web_place(path, saltenv, cachedir)
        return place if place is not None and os.path.exists(place) else ""

    def dest(self, url: str, saltenv: str = "base", cachedir: str | None = None) -> str:
        """Where the copy of an address is or would be."""
        scheme = urllib.parse.urlsplit(url).scheme
        if scheme == "":
            return url
        if scheme != "salt":
            return self.web_place(url, saltenv, cachedir) or "Invalid path"
        name, senv = parse_url(url)
        return self.place(name.lstrip("|/"), senv or saltenv) or "Invalid path"

    def copies(self, saltenv: str = "base") -> list[str]:
        """Every file in the cache of an environment and in C{localfiles}."""
        found: set[str] = set()
        for base in (
            inside(os.path.join(self.folder(), "files"), saltenv),
            os.path.join(self.folder(), "localfiles"),
        ):
            for folder, _, files in walk(base or ""):
                found.update(os.path.join(folder, name) for name in files)
        return sorted(found)


class Replacement:
    """
    New content that replaces a file when the block ends without an error.

    An existing file keeps its owner and mode; a new one gets the umask's, or 0600. Through a link,
    the file that it names is replaced; devices and pipes are written to.

    @ivar keep: set it to false to leave the old file as it is.
    """

    def __init__(self, path: str, private: bool) -> None:
        self._path = os.path.realpath(path)
        self._private = private
        self._temporary = ""
        self._stream: BinaryIO
        self.keep = True

    def write(self, data: bytes) -> int:
        """Add some content."""
        return self._stream.write(data)

    def __enter__(self) -> Replacement:
        old = None
        try:
            old = os.stat(self._path)
        except FileNotFoundError:
            pass
        if old is not None and not stat.S_ISREG(old.st_mode):
            self._stream = open(self._path, "wb")
            return self
        folder = os.path.dirname(self._path)
        self._temporary = os.path.join(folder, f".salt-{os.urandom(8).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        mode = 0o600 if self._private or old is not None else 0o666
        fd = os.open(self._temporary, flags, mode)
        self._stream = open(fd, "wb")
        if old is not None and not self._private:
            try:
                os.fchown(fd, old.st_uid, old.st_gid)
            except PermissionError:
                pass
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._stream.close()
            if self._temporary and error is None and self.keep:
                os.rename(self._temporary, self._path)
                self._temporary = ""
        finally:
            if self._temporary:
                remove_quietly(self._temporary)


def make_private(folder: str) -> None:
    """Make directories of the cache, 0700; a file that stands in the way is an old copy."""
    missing = []
    while not os.path.isdir(folder):
        if os.path.lexists(folder):
            os.unlink(folder)
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass


def is_same(path: str, announced: Mapping[str, Any]) -> bool:
    """Whether a file is what C{hsum} and C{hash_type} say."""
    try:
        found = digest(path, str(announced.get("hash_type") or "sha256"))
        return found == str(announced["hsum"])
    except (OSError, ValueError):
        return False


_KINDS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}


def has_hash(path: str, source_hash: str) -> bool:
    """Whether a file has a digest, C{kind=hex} or the hex alone."""
    wanted_sum = source_hash.split("=")[-1].strip().lower()
    kind = _KINDS.get(len(wanted_sum))
    if kind is None or not os.path.isfile(path):
        return False
    return is_same(path, {"hsum": wanted_sum, "hash_type": kind})
