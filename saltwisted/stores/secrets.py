"""
The secret from which session keys are derived, for a master without peers.

One file has the current version and the one before. It survives a restart, so that two thousand
minions need not sign in again. Several masters may share it (a shared C{cluster_pki_dir}): a lock
lets one of them make a new version, and the others notice that the file has changed. In a cluster
with its own links, the secret comes from the replicated log instead.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from twisted.logger import Logger

from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.stores import files
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.wire.sessionkey import SECRET_BYTES, SessionSecret

KEPT = 2
_LOOK = 1.0


class SecretFile:
    """
    Reactor thread only. It costs one C{stat} a second, and a write and C{fsync} when a version is
    made.

    @param path: the file, 0600; its directory is created if it is missing.
    @param period: seconds after which a new version is made.
    """

    log = Logger()

    def __init__(
        self, path: str, entropy: Entropy, now: Callable[[], float], period: float = 43200.0
    ) -> None:
        self._path = path
        self._entropy = entropy
        self._now = now
        self._period = period
        self._secrets: tuple[SessionSecret, ...] = ()
        self._seen: tuple[int, int, int] | None = None
        self._looked = -1e18

    def __call__(self) -> tuple[SessionSecret, ...]:
        """
        The versions that count, newest first; the first is the one to hand out.

        A disk that refuses leaves the old version in use, or one in memory alone.
        """
        now = self._now()
        if not 0 <= now - self._looked < _LOOK:
            self._looked = now
            self._look()
        if not self._secrets or self._is_due(now):
            self._renew(now)
        return self._secrets

    def _is_due(self, now: float) -> bool:
        # A clock that was far ahead when the version was made must not keep it for years
        return not -self._period < now - self._secrets[0].born < self._period

    def _look(self) -> None:
        try:
            info = os.stat(self._path)
            seen = (info.st_ino, info.st_size, info.st_mtime_ns)
        except OSError:
            return
        if seen != self._seen:
            self._seen = seen
            self._secrets = self._read() or self._secrets

    def _read(self) -> tuple[SessionSecret, ...]:
        try:
            data = files.read_file(self._path, 65536)
            found = unpack_bin(data) if data else []
            secrets = tuple(
                SessionSecret(int(version), bytes(value), float(born))
                for version, value, born in found
                if len(value) == SECRET_BYTES
            )
        except (StoreError, WireError, TypeError, ValueError) as error:
            self.log.error("{path} cannot be used: {error}", path=self._path, error=str(error))
            return ()
        return secrets[:KEPT]

    def _renew(self, now: float) -> None:
        try:
            files.make_dir(os.path.dirname(self._path))
            with self._lock():
                # Another master may have been quicker
                self._secrets = self._read() or self._secrets
                if self._secrets and not self._is_due(now):
                    return
                made = self._made(now)
                rows = [[each.version, each.value, each.born] for each in made]
                files.write_atomic(self._path, pack_bin(rows))
                self._secrets = made
        except (StoreError, OSError) as error:
            self.log.error(
                "the session secret cannot be saved: {error}. Minions will have to sign in "
                "again after the next restart.",
                error=str(error),
            )
            self._secrets = self._made(now)

    def _made(self, now: float) -> tuple[SessionSecret, ...]:
        version = self._secrets[0].version + 1 if self._secrets else 1
        new = SessionSecret(version, self._entropy(SECRET_BYTES), now)
        return (new, *self._secrets)[:KEPT]

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fd = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
