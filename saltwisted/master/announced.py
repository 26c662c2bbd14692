"""
The identity that a subscriber of C{transport: tcp} claims in its first frame.

Salt's frame is C{{enc: aes, load: ...}} with id and token, sealed with the publish key that all
minions have. The token is the minion's own signature, so nobody can receive publications in another
minion's name. Our minions add C{saltwisted}: they know our signs of life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from saltwisted.errors import WireError
from saltwisted.master.sessions import Sessions
from saltwisted.wire.crypticle import SessionKey, open_sealed
from saltwisted.wire.publication import topic_of


class Announced:
    """Checks first frames."""

    def __init__(self, sessions: Sessions, keys: Callable[[], Iterable[SessionKey]]) -> None:
        """
        @param keys: the publish keys that a minion may hold.
        """
        self._sessions = sessions
        self._keys = keys

    def who(self, body: Any) -> tuple[bytes, bool] | None:
        """
        The topic of the minion and whether it is one of ours; C{None} when nothing is proved.

        @param body: of the frame, raw.
        """
        blob = body.get(b"load") if isinstance(body, dict) and body.get(b"enc") == b"aes" else None
        if not isinstance(blob, bytes):
            return None
        load = self._open(blob)
        minion_id = load.get("id") if isinstance(load, dict) else None
        if not isinstance(minion_id, str):
            return None
        session = self._sessions.find(minion_id)
        if session is None or not session.token_is_valid(load.get("tok")):
            return None
        return topic_of(minion_id), load.get("saltwisted") is True

    def _open(self, blob: bytes) -> Any:
        for key in self._keys():
            with suppress(WireError):
                return open_sealed(key, blob)
        return None
