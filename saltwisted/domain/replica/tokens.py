"""
Join tokens: the line that an operator pastes, and what the cluster remembers of it.

The line contains everything that a joining node needs: where the members are, the key that it may
trust (the pin), and a secret of 128 bits that it proves and never sends. The cluster keeps a
register per token: its terms, who used it, whether it was revoked. The removal of a node makes all
other tokens void: each token is of one C{epoch}, and the next epoch is a number that nobody can
foresee, so that a node cannot prepare a token that outlives its own removal.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import evolve, field, frozen

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream, counted, finite
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.domain.replica.membership import RIGHTS, rights_of
from saltwisted.errors import WireError
from saltwisted.interfaces import Entropy
from saltwisted.wire.msgpack import pack_bin, unpack_bin

PREFIX = "swt1-"
ID_BYTES = 16
SECRET_BYTES = 16
_CHECK = 4
_EPOCH_BYTES = 4
"""Random bytes in the step from one epoch to the next: less than L{MAX_STEP}."""
MASTER, MINION = "master", "minion"
ROLES = (MASTER, MINION)
MAX_USES = 10_000
_NOWHERE = (0, Dot(Stream("*", "0" * 16), 0))
_VOID = "*"

Place = tuple[int, Dot[Stream]]


@frozen(kw_only=True)
class Token:
    """
    The contents of the line.

    @ivar id: 32 hexadecimal digits; not secret.
    @ivar pin: 64 hexadecimal digits: L{saltwisted.domain.replica.certificates.key_id} of the
        cluster's authority; for a minion the SHA-256 fingerprint of the masters' key.
    @ivar expiry: seconds since 1970 by the issuer's clock.
    @ivar peers: C{host:port} of members: their peer ports; for a minion their request ports.
    """

    id: str
    secret: bytes = field(repr=False)
    pin: str
    expiry: float
    uses: int = 1
    role: str = MASTER
    pattern: str = ""
    cluster: str = ""
    peers: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """One word to paste."""
        body = pack_bin(
            [
                bytes.fromhex(self.id),
                self.secret,
                bytes.fromhex(self.pin),
                int(self.expiry),
                self.uses,
                self.role,
                self.pattern,
                self.cluster,
                list(self.peers),
            ]
        )
        check = hashlib.sha256(body).digest()[:_CHECK]
        return PREFIX + urlsafe_b64encode(check + body).decode("ascii").rstrip("=")


def parse(line: str) -> Token:
    """
    Read the line; whitespace around it does not matter.

    @raises WireError: it is not a token, or was not copied completely.
    """
    word = line.strip()
    if not word.startswith(PREFIX) or len(word) > 4096:
        raise WireError("not a join token")
    text = word[len(PREFIX) :]
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, ValueError) as error:
        raise WireError("not a complete join token: part of it was not copied") from error
    check, body = raw[:_CHECK], raw[_CHECK:]
    if hashlib.sha256(body).digest()[:_CHECK] != check:
        raise WireError("not a complete join token: part of it was not copied")
    try:
        token_id, secret, pin, expiry, uses, role, pattern, cluster, peers = unpack_bin(body)
        if not isinstance(secret, bytes):
            raise WireError("not a join token")
        found = Token(
            id=token_id.hex(),
            secret=secret,
            pin=pin.hex(),
            expiry=finite(expiry),
            uses=int(uses),
            role=str(role),
            pattern=str(pattern),
            cluster=str(cluster),
            peers=tuple(str(peer) for peer in peers),
        )
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise WireError("not a join token") from error
    if len(found.id) != 2 * ID_BYTES or len(found.secret) != SECRET_BYTES or len(found.pin) != 64:
        raise WireError("not a join token")
    return found


def new_token(entropy: Entropy, **terms: Any) -> Token:
    """A token with a new id and secret."""
    return Token(id=entropy(ID_BYTES).hex(), secret=entropy(SECRET_BYTES), **terms)


def prove(secret: bytes, *parts: bytes) -> bytes:
    """The proof that one knows a secret: HMAC-SHA-256 over parts, each with its length."""
    mac = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        mac.update(len(part).to_bytes(4, "big"))
        mac.update(part)
    return mac.digest()


def prove_minion(secret: bytes, minion_id: str, pub: str, nonce: str) -> bytes:
    """
    How a minion shows in its sign-in that it has a token: worth nothing for another id, key or
    sign-in.

    @param pub: its public key as it is sent.
    """
    return prove(secret, b"minion", minion_id.encode(), pub.encode(), nonce.encode())


def minion_use(minion_id: str, finger: str) -> str:
    """Under which name a token's use by a minion is remembered: of one id and one key."""
    return f"{finger[:32]}/{minion_id}"


@frozen(kw_only=True)
class Known:
    """
    What the cluster knows of one token.

    @ivar used: joiner's key (L{minion_use} of a minion) to when and where it was admitted.
    """

    secret: bytes = field(default=b"", repr=False)
    expiry: float = 0.0
    uses: int = 0
    role: str = MASTER
    pattern: str = ""
    wait: bool = False
    rights: tuple[str, ...] = RIGHTS
    by: str = ""
    epoch: int = 0
    created: Place | None = None
    used: Mapping[str, Place] = {}
    revoked: bool = False

    def admitted(self) -> list[str]:
        """The joiners' keys whose use counts, in order; later ones are too many."""
        order = sorted(self.used, key=lambda key: (self.used[key], key))
        return order[: self.uses]


class Tokens(Registers[Known]):
    """
    The fold of kind C{token}. A body has C{op} and C{id}; C{create} with the terms,
    C{use} with C{key}, C{revoke}, and C{void} (id C{*}) with the new C{epoch}.
    """

    kind = "token"

    def key_of(self, body: Mapping[str, Any]) -> str:
        """The token's id."""
        found = body["id"]
        if found != _VOID and (not isinstance(found, str) or len(found) != 2 * ID_BYTES):
            raise WireError("token-id")
        return str(found)

    def join(
        self, state: Known | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Known:
        """See the class."""
        old = state or Known()
        op = body["op"]
        if op == "void":
            return evolve(old, epoch=max(old.epoch, counted(int(body["epoch"]), old.epoch)))
        if op == "revoke":
            return evolve(old, revoked=True)
        if op == "use":
            key, here = str(body["key"])[:255], (stamp, origin)
            if key in old.used and old.used[key] <= here:
                return old
            return evolve(old, used={**old.used, key: here})
        if op != "create":
            raise WireError("token-op")
        here = (stamp, origin)
        if old.created is not None and old.created <= here:
            return old
        if not isinstance(body["secret"], bytes) or len(body["secret"]) != SECRET_BYTES:
            raise WireError("token-secret")
        return evolve(
            old,
            secret=body["secret"],
            expiry=finite(body["expiry"]),
            uses=max(1, min(int(body["uses"]), MAX_USES)),
            role=str(body["role"])[:16],
            pattern=str(body["pattern"])[:255],
            wait=bool(body["wait"]),
            rights=rights_of(body.get("rights", RIGHTS)),
            by=str(body["by"])[:255],
            epoch=int(body["epoch"]),
            created=here,
        )

    def facts(self, key: str, state: Known) -> Iterable[Fact]:
        """One fact for each thing that is known."""
        if key == _VOID:
            yield Fact({"op": "void", "id": key, "epoch": state.epoch}, *_NOWHERE)
            return
        if state.created is not None:
            yield Fact({"id": key, **_terms(state)}, *state.created)
        for joiner, place in sorted(state.used.items()):
            yield Fact({"op": "use", "id": key, "key": joiner}, *place)
        if state.revoked:
            yield Fact({"op": "revoke", "id": key}, *_NOWHERE)

    # What others ask

    @property
    def epoch(self) -> int:
        """Tokens of any other epoch are void."""
        found = self.registers.get(_VOID)
        return found.epoch if found is not None else 0

    def create_body(
        self, token: Token, by: str, wait: bool = False, rights: Sequence[str] = RIGHTS
    ) -> dict[str, Any]:
        """
        The body that makes a token known.

        @param wait: who joins by it waits for an operator's approval.
        @param rights: what who joins by it may do with the roots.
        """
        body = {
            "op": "create",
            "id": token.id,
            "secret": token.secret,
            "expiry": token.expiry,
            "uses": token.uses,
            "role": token.role,
            "pattern": token.pattern,
            "wait": wait,
            "by": by,
            "epoch": self.epoch,
        }
        return _with_rights(body, tuple(rights))

    def void_body(self, entropy: Entropy) -> dict[str, Any]:
        """The body that makes all tokens void, those too that somebody has prepared for later."""
        step = 1 + int.from_bytes(entropy(_EPOCH_BYTES), "big")
        return {"op": "void", "id": _VOID, "epoch": self.epoch + step}

    def is_live(self, token_id: str, now: float) -> bool:
        """Whether a token still admits somebody."""
        return self.why_not(token_id, now) == ""

    def why_not(self, token_id: str, now: float) -> str:
        """C{""} for a token that admits nodes or minions, else why it does not."""
        known = self.registers.get(token_id)
        if token_id == _VOID or known is None or known.created is None:
            return "unknown"
        if known.revoked:
            return "revoked"
        if known.epoch != self.epoch:
            return "void"
        if now > known.expiry:
            return "expired"
        if len(known.used) >= known.uses:
            return "used up"
        return ""

    def any_live(self, now: float, role: str = MASTER) -> bool:
        """Whether any token of a role still admits somebody."""
        return any(
            self.is_live(token_id, now)
            for token_id, known in self.registers.items()
            if known.role == role
        )

    def for_minion(self, minion_id: str, finger: str, now: float) -> str:
        """The id of a live minion token whose pattern matches, or C{""}: for who shows none."""
        for token_id, known in sorted(self.registers.items()):
            if known.pattern and self._lets_in(token_id, known, minion_id, finger, now):
                return token_id
        return ""

    def proven_by_minion(
        self,
        token_id: str,
        mac: str,
        minion_id: str,
        pub: str,
        nonce: str,
        finger: str,
        now: float,
    ) -> bool:
        """
        Whether a minion has shown a token that lets it in.

        @param mac: L{prove_minion} in hexadecimal digits, as it was sent.
        """
        known = self.registers.get(token_id)
        if known is None or not self._lets_in(token_id, known, minion_id, finger, now):
            return False
        proof = prove_minion(known.secret, minion_id, pub, nonce).hex()
        return hmac.compare_digest(mac.encode(), proof.encode())

    def _lets_in(
        self, token_id: str, known: Known, minion_id: str, finger: str, now: float
    ) -> bool:
        if known.role != MINION or (known.pattern and not fnmatchcase(minion_id, known.pattern)):
            return False
        why_not = self.why_not(token_id, now)
        # Another node may ask about a sign-in whose use has come here before its acceptance
        return not why_not or (
            why_not == "used up" and minion_use(minion_id, finger) in known.admitted()
        )

    def overused(self, role: str = MASTER) -> list[tuple[str, str]]:
        """C{(token id, joiner's key)} of those admitted beyond the number of uses."""
        return [
            (token_id, key)
            for token_id, known in self.registers.items()
            if known.created is not None and known.role == role and len(known.used) > known.uses
            for key in sorted(set(known.used) - set(known.admitted()))
        ]

    def list(self) -> dict[str, Known]:
        """All tokens, by id."""
        return {token_id: known for token_id, known in self.registers.items() if known.created}


def _with_rights(body: dict[str, Any], rights: tuple[str, ...]) -> dict[str, Any]:
    """All of them are not said."""
    return body if rights == RIGHTS else {**body, "rights": list(rights)}


def _terms(known: Known) -> dict[str, Any]:
    body = {
        "op": "create",
        "secret": known.secret,
        "expiry": known.expiry,
        "uses": known.uses,
        "role": known.role,
        "pattern": known.pattern,
        "wait": known.wait,
        "by": known.by,
        "epoch": known.epoch,
    }
    return _with_rights(body, known.rights)
