"""
The secrets that all nodes share, in versions: session secret, publish key, authority.

One node makes a version, which replaces the one before. If two are made at once under one number,
the greater bytes win everywhere. C{floor} is the lowest version that is still accepted: an ordinary
rotation leaves the previous one valid, the removal of a node does not. The identity key of the
cluster is not here until it is changed: it is sealed to each joining node
(L{saltwisted.domain.replica.identity}).

A version is refused if it cannot be used (a publish key that is none, an authority that signs
nothing): a node that took it could not begin any more. And it is refused if its number is far above
the newest one that is known: after the greatest number that there is, no node could make another
version, not even when a node is removed.

Secrets that nobody may use any more (a C{cluster_secret} in the files that a removed node knows)
are kept here as digests, under C{banned}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.certificates import NodeKey
from saltwisted.domain.replica.entry import Stream, counted, finite
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.domain.replica.identity import decode
from saltwisted.errors import WireError
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.rsa import PublicKey

SESSION, PUBLISH, AUTHORITY, BANNED = "session", "publish", "authority", "banned"
IDENTITY = "identity"
KINDS = (SESSION, PUBLISH, AUTHORITY, IDENTITY)
KEPT = 2
"""Versions that are kept: the current one and the one before."""
MAX_VALUE = 16 * 1024
_NOWHERE = (0, Dot(Stream("*", "0" * 16), 0))


@frozen
class Secret:
    """
    One version.

    @ivar born: seconds since 1970, by the node that made it.
    """

    version: int
    value: bytes = field(repr=False)
    born: float


@frozen
class Versions:
    """
    Everything that is known of one secret, newest first.

    @ivar floor: lower versions are refused.
    @ivar banned: digests, only for C{banned}.
    """

    versions: tuple[Secret, ...] = ()
    floor: int = 0
    banned: tuple[str, ...] = ()


def check_value(what: str, value: bytes) -> None:
    """
    Whether nodes can use a value. That the private half of an identity fits its public one is
    found out before it is adopted: to open a private key takes long.

    @raises WireError: they cannot.
    """
    try:
        if what == PUBLISH:
            SessionKey(value.decode("ascii"))
        elif what == AUTHORITY:
            NodeKey.from_pem(value)
        elif what == IDENTITY:
            PublicKey.from_pem(decode(value).public)
    except ValueError as error:
        raise WireError("secret-value") from error


class Secrets(Registers[Versions]):
    """
    The fold of kind C{secret}. A body has C{what}, and for a new version C{version},
    C{value}, C{born}, C{floor}; for C{banned} a C{digest}.
    """

    kind = "secret"

    def __init__(self, check: Callable[[str, bytes], None] = check_value) -> None:
        """
        @param check: C{check(what, value)}: raises L{WireError} if nodes cannot use a value.
        """
        super().__init__()
        self._check = check

    def key_of(self, body: Mapping[str, Any]) -> str:
        """Which secret."""
        what = body["what"]
        if what not in (*KINDS, BANNED):
            raise WireError("secret-what")
        return str(what)

    def join(
        self, state: Versions | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Versions:
        """See the class."""
        old = state or Versions()
        if body["what"] == BANNED:
            digest = body["digest"]
            if not isinstance(digest, str) or len(digest) != 64:
                raise WireError("secret-digest")
            return evolve(old, banned=tuple(sorted({*old.banned, digest})))
        version, value, floor = body["version"], body["value"], body["floor"]
        if (
            not isinstance(version, int)
            or not isinstance(floor, int)
            or not 0 < version < 1 << 62
            or not 0 <= floor <= version
            or not isinstance(value, bytes)
            or not 0 < len(value) <= MAX_VALUE
        ):
            raise WireError("secret-version")
        counted(version, old.versions[0].version if old.versions else old.floor)
        self._check(body["what"], value)
        found = {each.version: each for each in old.versions}
        new = Secret(version, value, finite(body["born"]))
        rival = found.get(version)
        if rival is None or (new.born, new.value) > (rival.born, rival.value):
            found[version] = new
        lowest = max(floor, old.floor)
        kept = sorted((s for s in found.values() if s.version >= lowest), key=_by_version)
        return Versions(tuple(kept[:KEPT]), lowest)

    def facts(self, key: str, state: Versions) -> Iterable[Fact]:
        """One fact for each version, or each digest."""
        for digest in state.banned:
            yield Fact({"what": key, "digest": digest}, *_NOWHERE)
        for each in state.versions:
            body = {
                "what": key,
                "version": each.version,
                "value": each.value,
                "born": each.born,
                "floor": state.floor,
            }
            yield Fact(body, *_NOWHERE)

    # What others ask

    def versions(self, what: str) -> tuple[Secret, ...]:
        """Those that are accepted, newest first."""
        found = self.registers.get(what)
        return found.versions if found is not None else ()

    def current(self, what: str) -> Secret | None:
        """The newest."""
        found = self.versions(what)
        return found[0] if found else None

    def floor(self, what: str) -> int:
        """Lower versions are refused."""
        found = self.registers.get(what)
        return found.floor if found is not None else 0

    def next_body(
        self, what: str, value: bytes, now: float, refuse_old: bool = False
    ) -> dict[str, Any]:
        """
        The body of a new version.

        @param refuse_old: refuse all versions before, at once (after the removal of a node).
        """
        state = self.registers.get(what) or Versions()
        version = state.versions[0].version + 1 if state.versions else state.floor + 1
        return {
            "what": what,
            "version": version,
            "value": value,
            "born": now,
            "floor": version if refuse_old else state.floor,
        }

    def is_banned(self, secret: str) -> bool:
        """Whether a C{cluster_secret} no longer admits anybody."""
        state = self.registers.get(BANNED)
        return state is not None and secret_digest(secret) in state.banned


def ban_body(secret: str) -> dict[str, Any]:
    """The body that makes a C{cluster_secret} worthless."""
    return {"what": BANNED, "digest": secret_digest(secret)}


def secret_digest(secret: str) -> str:
    """What is kept of a secret that must not be used."""
    return hashlib.sha256(b"saltwisted banned " + secret.encode()).hexdigest()


def _by_version(secret: Secret) -> int:
    return -secret.version
