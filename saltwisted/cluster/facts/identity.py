"""
Changing the key that minions know: the nodes' side of C{saltwisted rotate-identity}.

From the first request until the change, the next key is in C{identity.next} beside the node's own
files. So a command that was interrupted continues with the same key: minions that have installed it
must not wait for another one. The change itself is one fact; every node that has it writes the key
into C{master.pem} and restarts with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from saltwisted.domain.replica.identity import Identity, decode
from saltwisted.domain.replica.secrets import IDENTITY, PUBLISH, SESSION, Secrets
from saltwisted.errors import DeniedError, WireError
from saltwisted.interfaces import Entropy
from saltwisted.stores.facts.node import NodeFiles
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.handshake import hand_over
from saltwisted.wire.rsa import PrivateKey, fingerprint
from saltwisted.wire.sessionkey import SECRET_BYTES


@define(kw_only=True)
class IdentityChange:
    """
    The part of one node.

    @ivar own: C{own()}: the key pair on this node's disk, PEM.
    @ivar key: the private half, ready to sign.
    @ivar generate: C{generate()}: a new pair, PEM; it may take seconds, so it runs in a thread.
    @ivar append: C{append(kind, body)} of the fact log.
    @ivar settled: C{settled()}: the members that have not confirmed what was appended.
    @ivar fits: C{fits(private, public)}: whether this node could begin with that pair.
    @ivar adopt: C{adopt(private, public)}: writes the key, and restarts with it.
    @ivar show: C{show(handovers)}: what our minions are told about earlier keys.
    @ivar minions: C{minions()}: the accepted ids, and those of them that are connected here.
    """

    files: NodeFiles
    secrets: Secrets
    own: Callable[[], tuple[bytes, bytes]] = field(repr=False)
    key: PrivateKey = field(repr=False)
    generate: Callable[[], tuple[bytes, bytes]] = field(repr=False)
    in_thread: Callable[..., Awaitable[Any]]
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    settled: Callable[[], Awaitable[Sequence[str]]]
    void_tokens: Callable[[], Mapping[str, Any]]
    fits: Callable[[bytes, bytes], bool] = field(repr=False)
    adopt: Callable[[bytes, bytes], None] = field(repr=False)
    show: Callable[[Sequence[tuple[str, bytes]]], None]
    minions: Callable[[], tuple[Sequence[str], Sequence[str]]]
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    hash_type: str
    log: Logger = field(factory=Logger)
    _changing: bool = False
    _ends: bool = False
    _refused: Identity | None = None

    def follow(self) -> None:
        """
        The secrets have changed, or this node begins: have the key that the cluster has. With
        another one than this node's it starts again, once.
        """
        current = self._current()
        if current is None or self._changing or self._ends or current == self._refused:
            return
        if self.own()[1].split() == current.public.split():
            self.show(current.handovers)
            return
        if not self.fits(current.private, current.public):
            # It would replace the key that this node has, and then the node could not begin
            self._refused = current
            self.log.error(
                "the cluster's new identity key cannot be used: its private half does not belong "
                "to {finger}, or cannot be opened with key_pass. This node keeps its key. If no "
                "operator changed the identity, a member is malicious",
                finger=fingerprint(current.public, self.hash_type),
            )
            return
        self.show(current.handovers)
        self._ends = True
        self.log.warn(
            "the cluster has a new identity key: {finger}",
            finger=fingerprint(current.public, self.hash_type),
        )
        self.adopt(current.private, current.public)

    def _current(self) -> Identity | None:
        found = self.secrets.current(IDENTITY)
        if found is None:
            return None
        try:
            return decode(found.value)
        except WireError:
            self.log.error("the cluster's identity key in the log cannot be used")
            return None

    # What operators ask

    async def prepare(self) -> dict[str, Any]:
        """What would happen, and the next key: the one of the last time, if that was not used."""
        if not self.files.next_identity()[0]:
            private, public = await self.in_thread(self.generate)
            self.files.keep_next_identity(private, public, [])
        return self.plan()

    def plan(self) -> dict[str, Any]:
        """What would happen, without a next key if none has been made."""
        _, public, installed = self.files.next_identity()
        accepted, here = self.minions()
        return {
            "public": public.decode("ascii"),
            "fingerprint": fingerprint(public, self.hash_type) if public else "",
            "present": self.own()[1].decode("ascii"),
            "present_fingerprint": fingerprint(self.own()[1], self.hash_type),
            "minions": sorted(accepted),
            "here": sorted(here),
            "installed": installed,
        }

    async def installed(self, minions: Sequence[str]) -> dict[str, Any]:
        """
        These minions have confirmed that they have the next key.

        @raises DeniedError: there is no next key.
        """
        private, public, _ = self.files.next_identity()
        if not private:
            raise DeniedError("no change of the identity is under way")
        self.files.keep_next_identity(private, public, sorted(set(minions)))
        return {"installed": sorted(set(minions))}

    async def forget(self) -> dict[str, Any]:
        """Abandon the change; a node that has installed the next key must have got this one."""
        self.files.forget_next_identity()
        return {"forgotten": True}

    async def change(self) -> dict[str, Any]:
        """
        Do it: on this node at once, and on all others when they know.

        @raises DeniedError: nothing was prepared.
        """
        private, public, _ = self.files.next_identity()
        if not private:
            raise DeniedError("no change of the identity is under way")
        self._changing = True
        try:
            unreached = await self._change(private, public)
        finally:
            self._changing = False
        self.files.forget_next_identity()
        self.follow()
        return {"fingerprint": fingerprint(public, self.hash_type), "unreached": unreached}

    async def _change(self, private: bytes, public: bytes) -> list[str]:
        before = self._current() or Identity(*self.own())
        signature = await self.in_thread(hand_over, self.key, public)
        new = before.followed_by(private, public, signature)
        now = self.now()
        await self.append("token", self.void_tokens())
        publish = SessionKey.generate(self.entropy).text.encode()
        for what, value in (
            (SESSION, self.entropy(SECRET_BYTES)),
            (PUBLISH, publish),
            # The last: with it nodes start again
            (IDENTITY, new.encode()),
        ):
            body = self.secrets.next_body(what, value, now, refuse_old=True)
            await self.append("secret", body)
        return list(await self.settled())
