"""
Members connect to one another's ports on request (C{saltwisted doctor}), to find a firewall that is
open only one way.

A member is dialled only at the addresses that the membership has for it, and a member can only have
its own ports dialled (T-PEER-5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory, Protocol

from saltwisted.cluster.links.peers import join_address, split_address
from saltwisted.domain.replica.membership import Membership
from saltwisted.errors import SaltwistedError, WireError
from saltwisted.interfaces import IPeers
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

WORD = "ring"
DIAL_TIME = 3.0
ASK_TIME = 12.0
MOST_PORTS = 8
MOST_HOSTS = 4


def reaches(reactor: Any, host: str, port: int) -> Deferred[bool]:
    """Whether a connection comes about; it is closed at once."""
    factory = Factory.forProtocol(Protocol)
    factory.noisy = False
    dialled = HostnameEndpoint(reactor, host, port, timeout=DIAL_TIME).connect(factory)

    def there(protocol: Any) -> bool:
        protocol.transport.abortConnection()
        return True

    return dialled.addCallbacks(there, lambda failure: False)


class Ring:
    """
    Whether this node's ports can be reached from the others, and theirs from here.

    @param ports: what this node listens on.
    """

    def __init__(
        self,
        node: str,
        peers: IPeers,
        membership: Membership,
        ports: Sequence[int],
        reaches: Callable[[str, int], Any],
    ) -> None:
        """
        @param reaches: C{reaches(host, port)}: a Deferred of whether a connection came about.
        """
        self._reaches = reaches
        self._node = node
        self._peers = peers
        self._membership = membership
        self._ports = list(ports)
        peers.answer(WORD, self._asked)

    async def _asked(self, node: str, body: bytes) -> bytes:
        """
        Another member wants to know how its ports look from here.

        @raises WireError: it does not say which.
        """
        ports = unpack_bin(body)
        if not isinstance(ports, list) or not all(type(port) is int for port in ports):
            raise WireError("ports to ring")
        reached = await self._dial(node, [port for port in ports if 0 < port < 65536])
        return pack_bin({"reached": reached, "ports": self._ports})

    async def _dial(self, node: str, ports: Sequence[int]) -> dict[str, bool]:
        """By C{host:port}, whether a connection came about; by any of its hosts is enough."""
        hosts: list[str] = []
        for member in self._membership.named(node):
            hosts += [split_address(text, 0)[0] for text in member.addresses]
        hosts = list(dict.fromkeys(hosts))[:MOST_HOSTS]
        found: dict[str, bool] = {}
        for port in ports[:MOST_PORTS]:
            tries = await gatherResults([self._reaches(host, port) for host in hosts])
            best = hosts[tries.index(True)] if True in tries else ", ".join(hosts) or node
            way = join_address(best, port) if True in tries else f"{best} port {port}"
            found[way] = True in tries
        return found

    async def rows(self) -> Mapping[str, Any]:
        """C{{"reached": {"a to 10.0.0.2:4505": true}, "unknown": {node: why}}}."""
        reached: dict[str, bool] = {}
        unknown: dict[str, str] = {}
        links = self._peers.links()
        answers = [self._ask(link) for link in links]
        for link, answer in zip(links, answers, strict=True):
            try:
                value = unpack_bin(await answer)
                theirs = await self._dial(link.node, [int(port) for port in value["ports"]])
                for way, there in value["reached"].items():
                    reached[f"{link.node} to {way}"] = bool(there)
                for way, there in theirs.items():
                    reached[f"{self._node} to {way} ({link.node})"] = there
            except (SaltwistedError, WireError, KeyError, TypeError, ValueError) as error:
                unknown[link.node] = str(error) or type(error).__name__
        return {"reached": reached, "unknown": unknown}

    def _ask(self, link: Any) -> Any:
        return as_deferred(link.ask(WORD, pack_bin(self._ports), ASK_TIME))
