"""
What the members of a cluster report about themselves when this node asks them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, DeferredList

from saltwisted.cluster.links.peers import Peers
from saltwisted.domain.replica.membership import SUSPENDED, Member, Membership
from saltwisted.errors import SaltwistedError
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import unpack_bin

STATUS = "status"
STATUS_TIME = 1.5
OWN_LAG = {"keys": 0, "returns": 0}


@frozen(kw_only=True)
class Roster:
    """
    Asks the members for their condition, and lists them.

    @ivar key: this node's key id.
    @ivar status: C{status()}: what this node reports about itself: plain data.
    @ivar lags: C{lags(node)}: C{keys}, C{returns}: how many entries a member still lacks; C{None}
        if that is unknown.
    @ivar holders: minion to the node that has it; each minion once, even one with several masters.
    """

    key: str
    membership: Membership
    peers: Peers
    status: Callable[[], dict[str, Any]]
    lags: Callable[[str], dict[str, Any]]
    holders: Callable[[], Awaitable[Mapping[str, str]]]
    now: Callable[[], float]

    async def ask_peers(self, word: str, body: bytes, seconds: float) -> list[bytes]:
        """The answers of all linked members that answer in time."""
        asked = [as_deferred(link.ask(word, body, seconds)) for link in self.peers.links()]
        found: Deferred[Any] = DeferredList(asked, consumeErrors=True)
        return [value for good, value in await found if good]

    async def table(self) -> list[dict[str, Any]]:
        """One row for each live member, this node first to know."""
        links = {link.session.key: link for link in self.peers.links()}
        asked = {
            key: as_deferred(link.ask(STATUS, b"", STATUS_TIME)) for key, link in links.items()
        }
        answers: dict[str, dict[str, Any]] = {self.key: self.status()}
        for key, waiting in asked.items():
            try:
                value = unpack_bin(await waiting)
                answers[key] = value if isinstance(value, dict) else {}
            except SaltwistedError as error:
                answers[key] = {"problem": str(error)}
        contacts = self.peers.contacts()
        here = Counter((await self.holders()).values())
        rows = []
        for member in self.membership.live():
            contact = contacts.get(member.key)
            answer = answers.get(member.key, {})
            row = {
                "node": member.node,
                "role": "cluster",
                "state": _state(member, member.key == self.key, member.key in links, answer),
                "this": member.key == self.key,
                "version": answer.get("version") or member.version,
                "uptime": answer.get("uptime"),
                # Not what each says: a stock minion with two masters is at both
                "minions": here[member.node] if "minions" in answer else None,
                "lag": self.lags(member.node) if member.key != self.key else OWN_LAG,
                "received": answer.get("received"),
                "roots": answer.get("roots", "not replicated" if answer else ""),
                "rights": list(member.rights),
                "slot": member.slot,
                "addresses": member.addresses,
                "key": member.key,
                "seen": self.now() if member.key in answers else getattr(contact, "seen", 0.0),
                "problem": answer.get("problem") or getattr(contact, "problem", ""),
            }
            rows.append(row)
        return rows


def _state(member: Member, own: bool, linked: bool, answer: Mapping[str, Any]) -> str:
    """C{suspended}, C{down}, C{starting}, C{degraded} or C{serving}."""
    if member.state == SUSPENDED:
        return SUSPENDED
    if not own and not linked:
        return "down"
    if not answer.get("serving"):
        return "starting"
    return "degraded" if answer.get("degraded") else "serving"
