"""
Session keys of minions: C{cachedir/sessions/<id>}, as in Salt, and in memory.

A session key survives a restart of the master, so that two thousand minions need
not sign in again. It is written behind and not synced: a key that a crash
loses is made anew when its minion signs in again, which it does by itself as soon as
the old key is refused. A key that was removed is removed from the disk at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from zlib import crc32

from twisted.logger import Logger

from saltwisted.domain.keys import valid_minion_id
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.stores import files
from saltwisted.stores.behind import Background, WriteBehind
from saltwisted.wire.crypticle import SessionKey


class SessionStore:
    """
    Reactor thread only; C{get} reads a file of 76 bytes once per minion.

    @param cachedir: the keys are in C{sessions} there.
    @param age: C{publish_session}: seconds for which a key is used. Each minion's ends up to
        a tenth earlier, by its id, so that minions which came together do not all
        sign in again together.
    @param accepted_at: mtime of the accepted key, or C{None}: a session on disk that is
        older belonged to another key.
    """

    log = Logger()

    def __init__(
        self,
        cachedir: str,
        entropy: Entropy,
        now: Callable[[], float],
        background: Background | None = None,
        age: float = 86400.0,
        accepted_at: Callable[[str], float | None] | None = None,
    ) -> None:
        self._folder = f"{cachedir}/sessions"
        self._entropy = entropy
        self._now = now
        self._age = age
        self._accepted_at = accepted_at
        self._behind = WriteBehind(background)
        self._keys: dict[str, tuple[SessionKey, float]] = {}

    def startService(self) -> None:
        """Make the directory (0700) and clear what a killed write left."""
        files.make_dir(self._folder)
        files.sweep_temporary(self._folder)

    def get(self, minion_id: str) -> SessionKey | None:
        """The key in use, or C{None} when there is none or it is too old: sign in again."""
        known = self._keys.get(minion_id)
        if known is None:
            known = self._load(minion_id)
            if known is None:
                return None
            self._keys[minion_id] = known
        if self._now() >= known[1] + self._life(minion_id):
            return None
        return known[0]

    def for_sign_in(self, minion_id: str) -> SessionKey:
        """The key to hand out: the one in use, or a new one."""
        key = self.get(minion_id)
        if key is not None:
            return key
        if not valid_minion_id(minion_id):
            raise StoreError("not a minion id", repr(minion_id)[:200])
        key = SessionKey.generate(self._entropy)
        self._keys[minion_id] = (key, self._now())
        self._behind.put(f"{self._folder}/{minion_id}", key.text.encode())
        return key

    def forget(self, minion_id: str) -> None:
        """Remove a key from memory and disk before returning."""
        self._keys.pop(minion_id, None)
        if valid_minion_id(minion_id):
            try:
                self._behind.delete(f"{self._folder}/{minion_id}")
            except StoreError as error:
                self.log.error("a session cannot be removed: {error}", error=error)

    def stopService(self) -> None:
        """Write what is still waiting."""
        self.flush()

    def retry(self) -> None:
        """Try again to write what the disk refused."""
        self._behind.retry()

    @property
    def problem(self) -> str:
        """Why the last write failed, or C{""}."""
        return self._behind.problem

    def flush(self) -> None:
        """Block until everything is written."""
        self._behind.flush()

    def _life(self, minion_id: str) -> float:
        return self._age * (1.0 - (crc32(minion_id.encode()) % 1000) / 10_000)

    def _load(self, minion_id: str) -> tuple[SessionKey, float] | None:
        if not valid_minion_id(minion_id):
            return None
        path = f"{self._folder}/{minion_id}"
        try:
            born = os.lstat(path).st_mtime
            text = files.read_file(path, 1024)
        except FileNotFoundError:
            return None
        except (OSError, StoreError) as error:
            self.log.error("a session cannot be read: {error}", error=error)
            return None
        if self._accepted_at is not None:
            accepted = self._accepted_at(minion_id)
            if accepted is None or accepted > born:
                return None
        try:
            return SessionKey((text or b"").decode("ascii").strip()), born
        except (WireError, UnicodeDecodeError):
            self.log.warn("{path} is no session key: ignored", path=path)
            return None
