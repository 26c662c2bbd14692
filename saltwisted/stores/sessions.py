"""
Session keys of minions: those derived from a secret, and those that a stock master left.

L{saltwisted.wire.sessionkey} derives the keys that we hand out from the secret; they are not stored
in files. C{cachedir/sessions/<id>} is Salt's: a key that a stock master handed out is accepted
until it expires or its minion signs in with us, so after a takeover no minion has to sign in again.
The file of a revoked minion is removed at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from zlib import crc32

from attrs import frozen
from twisted.logger import Logger

from saltwisted.domain.keys import clean_key, valid_minion_id
from saltwisted.errors import StoreError, WireError
from saltwisted.stores import files
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.sessionkey import SessionSecret, derive_session

Secrets = Callable[[], Sequence[SessionSecret]]


@frozen
class Lent:
    """A key that a minion may use, until C{ends} (seconds since 1970)."""

    key: SessionKey
    ends: float


class SessionStore:
    """
    Reactor thread only. It costs one C{stat} for the first lookup of each key.

    @param cachedir: Salt's files are in C{sessions} there.
    @param secrets: the valid versions of the secret, newest first. A new one is expected at half of
        C{age}; so no key is used for longer than that.
    @param age: C{publish_session}: seconds for which a key is used. Each minion's ends up to
        a tenth earlier, by its id, so that minions do not all sign in again together.
    @param acceptance: number of the acceptance of a minion's key, or C{None} if it is not accepted
        (or no longer).
    @param accepted_at: mtime of the accepted key, or C{None}: a session on disk that is
        older belonged to another key.
    """

    log = Logger()

    def __init__(
        self,
        cachedir: str,
        secrets: Secrets,
        now: Callable[[], float],
        age: float = 86400.0,
        acceptance: Callable[[str], int | None] = lambda minion_id: 0,
        accepted_at: Callable[[str], float | None] | None = None,
    ) -> None:
        self._folder = f"{cachedir}/sessions"
        self.secrets = secrets
        self._now = now
        self._age = age
        self.acceptance = acceptance
        self._accepted_at = accepted_at
        self._on_disk: set[str] = set()

    def startService(self) -> None:
        """Make the directory (0700), and see whose keys a stock master left there."""
        files.make_dir(self._folder)
        files.sweep_temporary(self._folder)
        try:
            self._on_disk = set(filter(valid_minion_id, os.listdir(self._folder)))
        except OSError as error:
            raise files.store_error(error, self._folder) from error

    def stopService(self) -> None:
        """Nothing waits to be written."""

    def valid(self, minion_id: str, pub: bytes) -> list[Lent]:
        """All keys that this minion may use now, the most likely first."""
        now = self._now()
        found = [*self._derived(minion_id, pub, self.secrets()), *self._left(minion_id)]
        return [lent for lent in found if now < lent.ends]

    def for_sign_in(self, minion_id: str, pub: bytes) -> Lent:
        """
        The key to hand out; a key that a stock master left is not accepted any more.

        @raises StoreError: the id is not a valid name, or the key is not accepted.
        """
        if not valid_minion_id(minion_id):
            raise StoreError("not a minion id", repr(minion_id)[:200])
        lent = self._derived(minion_id, pub, self.secrets()[:1])
        if not lent:
            raise StoreError("the key is not accepted", minion_id)
        self.forget(minion_id)
        return lent[0]

    def forget(self, minion_id: str) -> None:
        """Remove what a stock master left, before returning."""
        if minion_id in self._on_disk:
            try:
                files.remove(f"{self._folder}/{minion_id}")
                self._on_disk.discard(minion_id)
            except StoreError as error:
                self.log.error("a session cannot be removed: {error}", error=error)

    def _derived(self, minion_id: str, pub: bytes, secrets: Sequence[SessionSecret]) -> list[Lent]:
        number = self.acceptance(minion_id)
        if number is None:
            return []
        pub = clean_key(pub)
        life = self._age * (1.0 - (crc32(minion_id.encode("utf-8", "replace")) % 1000) / 10_000)
        return [
            Lent(derive_session(secret, minion_id, pub, number), secret.born + life)
            for secret in secrets
        ]

    def _left(self, minion_id: str) -> list[Lent]:
        if minion_id not in self._on_disk:
            return []
        path = f"{self._folder}/{minion_id}"
        try:
            born = os.lstat(path).st_mtime
            text = files.read_file(path, 1024)
        except FileNotFoundError:
            self._on_disk.discard(minion_id)
            return []
        except (OSError, StoreError) as error:
            self.log.error("a session cannot be read: {error}", error=error)
            return []
        if self._accepted_at is not None:
            accepted = self._accepted_at(minion_id)
            if accepted is None or accepted > born:
                return []
        try:
            key = SessionKey((text or b"").decode("ascii").strip())
        except (WireError, UnicodeDecodeError):
            self.log.warn("{path} is not a session key, and is ignored", path=path)
            return []
        return [Lent(key, born + self._age)]
