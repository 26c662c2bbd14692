"""
The cluster's authority signs the certificates of each node's HTTP API.

Clients have one certificate, the authority's, and can so verify every node. After the removal of a
node there is another authority, because the removed node knew the key of the old one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from attrs import define, field

from saltwisted.domain.replica.certificates import NodeKey, name_of, serving, trusted
from saltwisted.domain.replica.secrets import AUTHORITY, Secrets
from saltwisted.errors import WireError


@define
class Vouching:
    """
    For one node.

    @ivar node: its id.
    @ivar hosts: C{hosts()}: the addresses of this machine, as its network is now.
    """

    node: str
    secrets: Secrets = field(repr=False)
    hosts: Callable[[], Sequence[str]]
    now: Callable[[], float]
    _hearers: list[Callable[[], None]] = field(factory=list)
    _told: int = 0

    @property
    def pin(self) -> str:
        """As tokens pin it."""
        authority = self.secrets.current(AUTHORITY)
        return NodeKey.from_pem(authority.value).id if authority is not None else ""

    def names(self) -> Sequence[str]:
        """The node's id, the machine's name, and its addresses."""
        found = (self.node, socket.gethostname(), *self.hosts())
        return [name for name in dict.fromkeys(map(name_of, found)) if name]

    def issue(self, public: bytes, names: Sequence[str], days: int) -> tuple[bytes, bytes]:
        """By the current authority."""
        authority = self.secrets.current(AUTHORITY)
        if authority is None:
            raise WireError("no authority")
        key, now = NodeKey.from_pem(authority.value), self.now()
        return serving(key, public, names, now, days), trusted(key, now)

    def on_change(self, hear: Callable[[], None]) -> None:
        """Called at each new version of the authority."""
        self._hearers.append(hear)

    def changed(self) -> None:
        """The secrets have changed; possibly this one."""
        authority = self.secrets.current(AUTHORITY)
        version = authority.version if authority is not None else 0
        if version != self._told:
            self._told = version
            for hear in self._hearers:
                hear()
