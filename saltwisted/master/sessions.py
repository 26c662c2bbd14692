"""
What the master keeps for each minion that talks to it: key, session, replay window.

Only this establishes a sender's identity: the session key that opened a request says who sent it.
When a key is no longer accepted, its session ends with the next request, whoever removed the key
(C{salt-key}, another tool in the directory, a cluster peer).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from hmac import compare_digest
from typing import Any

from attrs import define, evolve, field

from saltwisted.errors import AuthenticationError, StoreError, WireError
from saltwisted.stores.keys import KeyStore
from saltwisted.stores.sessions import Lent, SessionStore
from saltwisted.wire.crypticle import SessionKey, open_sealed
from saltwisted.wire.rsa import PublicKey

TS_WINDOW = 300
"""Seconds that a request's C{ts} may lie behind the newest one of the same minion (T-REPLAY-2)."""

MAX_NONCES = 50_000
"""Nonces remembered per minion; a minion that acts faster is judged by its newest ones."""
FEW_NONCES = 16
"""So many are not worth looking through for old ones."""


@define
class MinionSession:
    """
    One signed-in minion.

    @ivar pub: the accepted public key's bytes; the session is void when they change.
    @ivar ends: when the session key expires, in seconds since 1970.
    @ivar tok: the token bytes last verified; constant for a key.
    @ivar newest: highest C{ts} accepted since the last sign-in, in the minion's clock.
    @ivar nonces: nonces of requests that must not act twice, with their C{ts} if they had one. A
        request from before the window is refused without its nonce, which is forgotten after some
        time.
    @ivar room: the number of nonces that are kept; then the old ones are forgotten.
    """

    minion_id: str
    pub: bytes
    public: PublicKey
    key: SessionKey = field(repr=False)
    ends: float
    tok: bytes = field(default=b"", repr=False)
    newest: int = 0
    nonces: dict[str, int | None] = field(factory=dict, repr=False)
    room: int = FEW_NONCES
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

    def spoke(self, address: str, now: float) -> None:
        """It has made a request that was in order, from this address."""
        self.seen = now
        self.address = address

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
        self.nonces[nonce] = ts
        if len(self.nonces) > self.room:
            self._forget_old()
        return True

    def _forget_old(self) -> None:
        floor = self.newest - TS_WINDOW
        kept = {n: t for n, t in self.nonces.items() if t is None or t >= floor}
        if len(kept) > MAX_NONCES // 2:
            kept = dict(list(kept.items())[-(MAX_NONCES // 2) :])
        self.nonces = kept
        # Twice as many: each nonce is looked at about once more, however many there are
        self.room = max(FEW_NONCES, 2 * len(kept))


class Sessions:
    """
    All minions that this master has talked to, and their keys.

    A minion may have the key of the previous secret, or one that another node handed out. So if the
    key that it used last does not open a request, the others that it may use are tried.

    @param came: called with the id of a minion that signs in, or sends its first request since
        then, or since the start.
    """

    def __init__(
        self,
        keys: KeyStore,
        store: SessionStore,
        now: Callable[[], float],
        came: Callable[[str], None] = lambda minion_id: None,
    ) -> None:
        self._keys = keys
        self._store = store
        self._now = now
        self._live: dict[str, MinionSession] = {}
        self._came = came
        keys.on_change(self._key_changed)

    def _key_changed(self, minion_id: str, old: str, new: str) -> None:
        # A denied key beside an accepted one, of which anybody can make one, ends no session
        if old == "accepted":
            self.forget(minion_id)

    def find(self, minion_id: str) -> MinionSession | None:
        """
        The session of an accepted minion, or C{None} when it has to sign in.

        One C{stat} of its key file per call: a key that anybody moves away stops being served
        at once.
        """
        pub = self._keys.accepted(minion_id)
        if pub is None:
            self._live.pop(minion_id, None)
            return None
        session = self._live.get(minion_id)
        if session is not None:
            if session.pub != pub:
                self.forget(minion_id)
                return None
            if self._now() < session.ends:
                return session
        lent = self._store.valid(minion_id, pub)
        return self._open(minion_id, pub, lent[0]) if lent else None

    def others(self, session: MinionSession) -> list[Lent]:
        """The keys that this minion may use, except the one that it used last."""
        valid = self._store.valid(session.minion_id, session.pub)
        return [lent for lent in valid if lent.key != session.key]

    def open(
        self,
        session: MinionSession,
        blob: bytes | memoryview,
        others: Sequence[Lent] | None = None,
        light: bool = False,
    ) -> tuple[MinionSession, Any]:
        """
        Open a request of a minion; the session that comes back holds the key that did it.

        @param others: from L{others}; with them, this may run in a thread.
        @param light: only if that takes a moment, else L{TakesLong} is raised.
        @raises AuthenticationError: sealed with no key that this minion may use.
        @raises WireError: sealed well, but malformed.
        """
        try:
            return session, open_sealed(session.key, blob, light=light)
        except AuthenticationError:
            for lent in self.others(session) if others is None else others:
                with suppress(AuthenticationError):
                    value = open_sealed(lent.key, blob, light=light)
                    return evolve(session, key=lent.key, ends=lent.ends), value
            raise

    def keep(self, session: MinionSession) -> None:
        """This key of the minion is the one it uses now."""
        self._live[session.minion_id] = session

    def _open(self, minion_id: str, pub: bytes, lent: Lent) -> MinionSession | None:
        try:
            public = PublicKey.from_pem(pub)
        except WireError:
            return None
        session = MinionSession(minion_id, pub, public, lent.key, lent.ends)
        self._live[minion_id] = session
        self._came(minion_id)
        return session

    def sign_in(self, minion_id: str, pub: bytes) -> MinionSession | None:
        """The session to hand out in a sign-in reply; a sign-in also resets the replay window."""
        try:
            lent = self._store.for_sign_in(minion_id, pub)
        except StoreError:
            return None
        session = self._live.get(minion_id)
        if session is None or session.pub != pub or session.key != lent.key:
            session = self._open(minion_id, pub, lent)
        else:
            self._came(minion_id)
        if session is not None:
            session.ends = lent.ends
            session.newest = 0
            session.nonces.clear()
            session.room = FEW_NONCES
        return session

    def forget(self, minion_id: str) -> None:
        """The key is gone or changed: nothing that was handed out for it is accepted again."""
        self._live.pop(minion_id, None)
        self._store.forget(minion_id)

    def end_all(self) -> None:
        """
        Secrets are refused from now on that some sessions come from: each minion's next request has
        to open with a key that counts, or it signs in again.
        """
        self._live.clear()

    def live(self) -> dict[str, MinionSession]:
        """Sessions that were used since the start, by minion id."""
        return self._live
