"""
What the parts of git in a cluster share: the repositories of this node, and the other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import DeferredLock

from saltwisted.cluster.git.exchange import Exchange
from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.commits import IGitCopy, IGitUpdates
from saltwisted.domain.git.agreement import Version, version_of
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.wire.msgpack import unpack_bin


@frozen(kw_only=True)
class Ground:
    """
    Reactor thread only.

    @ivar node: this node's id.
    @ivar may_write: whether a member may decide what others serve.
    @ivar may_have: whether a member may have a repository; depends on whether it is one of pillar.
    """

    clock: Any
    node: str
    peers: IPeers
    exchange: Exchange
    updates: Callable[[], IGitUpdates]
    may_write: Callable[[str], bool]
    may_have: Callable[[str, bool], bool]
    _locks: dict[str, DeferredLock] = field(factory=dict)

    def copies(self) -> Mapping[str, IGitCopy]:
        """The repositories that this node may have, by their names for all nodes."""
        found = self.updates().copies.all()
        return {
            key: copy for key, copy in found.items() if self.may_have(self.node, copy.is_pillar)
        }

    def link(self, node: str) -> IPeerLink | None:
        """To a node, if there is one."""
        return next((link for link in self.peers.links() if link.node == node), None)

    def lock(self, shared: str) -> DeferredLock:
        """Held by code that changes what is served from a repository."""
        return self._locks.setdefault(shared, DeferredLock())

    def asked(self, node: str, body: bytes, asks: bool = False) -> tuple[IGitCopy, dict[str, Any]]:
        """
        The repository that a peer means, and the peer's whole message.

        @param asks: whether it only asks; otherwise it decides what others must serve.
        @raises PeerRefused: the repository does not exist, or the peer has no right to it.
        """
        said = unpack_bin(body)
        copy = self.copies().get(str(said.get("key"))) if isinstance(said, dict) else None
        if copy is None:
            raise PeerRefused("this remote is not configured here")
        if not self.may_have(node, copy.is_pillar):
            raise PeerRefused("403: this member may not have pillars")
        if not asks and not self.may_write(node):
            raise PeerRefused("403: read-only: this member may not decide what others serve")
        return copy, said


def served(copy: IGitCopy) -> Version:
    """The version that this node serves of a repository."""
    return version_of(copy.state.get("version"))
