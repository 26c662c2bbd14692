"""
What masters of one C{cluster_pki_dir} share besides the minions' keys: the publish key, and the
right to create things that may be created only once.

The directory is Salt's: a stock master writes and reads C{cluster.pem}, C{cluster.pub} and C{.aes}
there (3007, 3008). The secret of session keys is beside them (L{saltwisted.stores.secrets}).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.stores import files
from saltwisted.wire.crypticle import SessionKey

PUBLISH_KEY = ".aes"
LOCK = ".saltwisted_lock"


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """Hold the directory's lock; blocks until others have released it. Also over NFS."""
    files.make_dir(folder)
    path = os.path.join(folder, LOCK)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise files.store_error(error, path) from error
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise files.store_error(error, path) from error
    finally:
        os.close(fd)


class SharedPublishKey:
    """
    The publish key of a shared directory.

    L{open} and L{save} block; L{changed} costs one C{stat} if nothing has changed.

    @ivar key: as last seen in the directory.
    """

    def __init__(self, folder: str, entropy: Entropy) -> None:
        self._folder = folder
        self._path = os.path.join(folder, PUBLISH_KEY)
        self._mark: tuple[int, int, int] = (0, 0, 0)
        self.key = SessionKey.generate(entropy)

    def open(self) -> None:
        """
        Read it, and make it when there is none.

        @raises StoreError: the disk refuses, or the file holds something else.
        """
        with alone(self._folder):
            if not files.read_file(self._path, 1024):
                self.save(self.key)
        if self.changed() is None:
            raise StoreError("is not a publish key; remove it, and a new one is made", self._path)

    def changed(self) -> SessionKey | None:
        """The publish key, if the file is not the one that was last looked at."""
        try:
            info = os.stat(self._path)
            mark = (info.st_ino, info.st_size, info.st_mtime_ns)
            if mark == self._mark:
                return None
            text = files.read_file(self._path, 1024) or b""
            key = SessionKey(text.decode("ascii").strip())
        except (OSError, StoreError, WireError, UnicodeDecodeError):
            # Gone for a moment while somebody writes a new one: the next look finds it
            return None
        self._mark = mark
        self.key = key
        return key

    def save(self, key: SessionKey) -> None:
        """Everybody's publish key from now on."""
        files.write_atomic(self._path, key.text.encode(), 0o600)
