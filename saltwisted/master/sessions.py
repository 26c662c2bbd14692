"""
What the master holds for each minion that talks to it: key, session, replay window.

Identity comes from here and from nowhere else: the session key that opened a
request says who sent it. A key that is gone from the accepted ones takes its
session with it, at the next request, whoever removed it (C{salt-key}, another
tool in the directory, a cluster peer).
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from typing import Any

from attrs import define, field

from saltwisted.errors import WireError
from saltwisted.stores.keys import KeyStore
from saltwisted.stores.sessions import SessionStore
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.rsa import PublicKey

TS_WINDOW = 300
"""Seconds that a request's C{ts} may lie behind the newest one of the same minion (T-REPLAY-2)."""

MAX_NONCES = 50_000
"""Nonces remembered per minion; a minion that acts faster is judged by its newest ones."""


@define
class MinionSession:
    """
    One signed-in minion.

    @ivar pub: the accepted public key's bytes; the session is void when they change.
    @ivar tok: the token bytes last verified; constant for a key.
    @ivar newest: highest C{ts} accepted since the last sign-in, in the minion's clock.
    @ivar nonces: nonces of requests that must not act twice, with their C{ts}.
    """

    minion_id: str
    pub: bytes
    public: PublicKey
    key: SessionKey = field(repr=False)
    tok: bytes = field(default=b"", repr=False)
    newest: int = 0
    nonces: dict[str, int] = field(factory=dict, repr=False)
    seen: float = 0.0
    address: str = ""

    def token_is_valid(self, tok: Any) -> bool:
        """Whether C{tok} is this key's signature over the word C{salt} (X9.31, Salt's wire)."""
        if isinstance(tok, str):
            tok = tok.encode("utf-8", "surrogateescape")
        if not isinstance(tok, bytes) or not tok:
            return False
        if self.tok and compare_digest(tok, self.tok):
            return True
        try:
            good = self.public.open_x931(tok) == b"salt"
        except WireError:
            return False
        if good:
            self.tok = tok
        return good

    def fresh(self, ts: int | None) -> bool:
        """Whether a request of this C{ts} is not older than the window; advances the mark."""
        if ts is None:
            return True
        if ts > self.newest:
            self.newest = ts
            return True
        return ts >= self.newest - TS_WINDOW

    def first_use(self, nonce: str, ts: int | None) -> bool:
        """Whether this nonce was not seen before; remembers it."""
        if nonce in self.nonces:
            return False
        self.nonces[nonce] = self.newest if ts is None else ts
        if len(self.nonces) > MAX_NONCES:
            self._forget_old()
        return True

    def _forget_old(self) -> None:
        floor = self.newest - TS_WINDOW
        kept = {n: t for n, t in self.nonces.items() if t >= floor}
        if len(kept) > MAX_NONCES // 2:
            kept = dict(list(kept.items())[-(MAX_NONCES // 2) :])
        self.nonces = kept


class Sessions:
    """All signed-in minions of this master, backed by C{cachedir/sessions} as in Salt."""

    def __init__(self, keys: KeyStore, store: SessionStore, now: Callable[[], float]) -> None:
        self._keys = keys
        self._store = store
        self._now = now
        self._live: dict[str, MinionSession] = {}
        keys.on_change(self._key_changed)

    def _key_changed(self, minion_id: str, old: str, new: str) -> None:
        # A denied key beside an accepted one, of which anybody can make one, ends no session
        if old == "accepted":
            self.forget(minion_id)

    def find(self, minion_id: str) -> MinionSession | None:
        """
        The session of an accepted minion, or C{None} when it has to sign in.

        One C{stat} of its key file per call (house decision 13): a key moved away
        by anybody stops being served at once.
        """
        pub = self._keys.accepted(minion_id)
        if pub is None:
            self._live.pop(minion_id, None)
            return None
        session = self._live.get(minion_id)
        if session is not None:
            if session.pub == pub:
                return session
            self.forget(minion_id)
            return None
        key = self._store.get(minion_id)
        if key is None:
            return None
        return self._open(minion_id, pub, key)

    def _open(self, minion_id: str, pub: bytes, key: SessionKey) -> MinionSession | None:
        try:
            public = PublicKey.from_pem(pub)
        except WireError:
            return None
        session = MinionSession(minion_id, pub, public, key)
        self._live[minion_id] = session
        return session

    def sign_in(self, minion_id: str, pub: bytes) -> MinionSession | None:
        """The session to hand out in a sign-in reply; a sign-in also resets the replay window."""
        key = self._store.for_sign_in(minion_id)
        session = self._live.get(minion_id)
        if session is None or session.pub != pub or session.key is not key:
            session = self._open(minion_id, pub, key)
        if session is not None:
            session.newest = 0
            session.nonces.clear()
        return session

    def forget(self, minion_id: str) -> None:
        """The key is gone or changed: nothing that was handed out for it is accepted again."""
        self._live.pop(minion_id, None)
        self._store.forget(minion_id)

    def live(self) -> dict[str, MinionSession]:
        """Sessions that were used since the start, by minion id."""
        return self._live
