"""
What operators do with members: remove, leave, approve, and set their rights to the roots.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.cluster.life.gate import FAREWELL
from saltwisted.cluster.life.join import Admission
from saltwisted.cluster.life.lifecycle import MemberCard
from saltwisted.cluster.life.secretscare import SecretsCare
from saltwisted.cluster.links.peers import Peers
from saltwisted.domain.replica.membership import MEMBER, Member, Membership
from saltwisted.domain.replica.secrets import Secrets, ban_body
from saltwisted.domain.replica.tokens import Tokens
from saltwisted.errors import DeniedError, StoreError
from saltwisted.transports.deferreds import as_deferred

CLOSED = "this node is leaving its cluster, and no member accepts changes from it: use another"


@define(kw_only=True)
class MemberActs:
    """
    Does what an operator wants with members, and reports which members it has not reached.

    @ivar append: C{append(kind, body)} of the fact log.
    @ivar settled: C{settled()}: fires with the nodes that have not confirmed what this node has
        appended so far, at the latest after some seconds.
    @ivar status: C{status()}: what this node reports about itself: plain data.
    @ivar drain: sends minions elsewhere, and waits for some seconds until those that run a job have
        returned and others have all jobs and returns; returns how many entries they lack, and who
        has not returned.
    @ivar closed: why nothing more is appended, once the others have been told that this node
        leaves.
    @ivar leaving: whether it leaves.
    """

    log = Logger()

    reactor: Any
    card: MemberCard
    membership: Membership
    tokens: Tokens
    secrets: Secrets
    secrets_care: SecretsCare
    peers: Peers
    admission: Admission
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    settled: Callable[[], Awaitable[Sequence[str]]]
    status: Callable[[], dict[str, Any]]
    drain: Callable[[], Awaitable[tuple[int, list[str]]]]
    fire: Callable[[str, dict[str, Any]], None]
    closed: str = ""
    leaving: bool = False

    @property
    def key(self) -> str:
        """This node's key id."""
        return self.card.badge.key.id

    def others(self) -> list[str]:
        """Ids of the other live members."""
        return self.membership.others(self.key)

    def find(self, name: str) -> Member:
        """
        A live member by its id, or by the beginning of its key.

        @raises DeniedError: there is none, or more than one.
        """
        found = [m for m in self.membership.live() if m.node == name]
        if len(found) != 1 and len(name) >= 8:
            found = [m for m in self.membership.live() if m.key.startswith(name)]
        if len(found) != 1:
            known = ", ".join(m.node for m in self.membership.live())
            how = "there is no member" if not found else "give the key: several members are named"
            raise DeniedError(f"{how} {name} (members: {known})")
        return found[0]

    async def remove(self, name: str, by: str, compromised: bool) -> dict[str, Any]:
        """
        Remove a node for good: its link, its tokens and every secret that it holds end.

        @raises DeniedError: no such member, or it is this node.
        """
        member = self.find(name)
        if member.key == self.key:
            raise DeniedError(f"this node is {name}: {advice.of('cluster.itself')}")
        for link in self.peers.links():
            if link.session.key == member.key:
                link.tell(FAREWELL, b"")
                link.close("it was removed", polite=True)
        body = {"op": "remove", "key": member.key, "by": by, "left": False}
        await self.append("member", body)
        await self.append("token", self.tokens.void_body())
        secret = self.admission.cluster_secret
        if secret and not self.secrets.is_banned(secret):
            await self.append("secret", ban_body(secret))
        await self.secrets_care.renew()
        unreached: Sequence[str]
        if compromised:
            linked = {link.node for link in self.peers.links()}
            unreached = [node for node in self.others() if node not in linked]
        else:
            unreached = list(await self.settled())
        return {
            "removed": member.node,
            "key": member.key,
            "unreached": unreached,
            "cluster_secret": bool(secret),
        }

    async def leave(self, by: str, force: bool = False) -> dict[str, Any]:
        """
        End this node's membership; the others continue without it.

        @param force: even if nobody can be told, and what is only here stays behind.
        @raises DeniedError: there is no other member, or none can be told.
        """
        if not self.others():
            raise DeniedError("this node is the only member: there is nothing to leave")
        if not force and not self.peers.links():
            raise DeniedError(
                "no other member can be reached: no member would take over what only this node "
                f"has, or learn that this node leaves. Start {' or '.join(self.others())} first, "
                "or leave anyway with --force"
            )
        self.leaving = True
        self.admission.closed = "this member is leaving the cluster: join through another one"
        others = self.others()
        minions = int(self.status().get("minions") or 0)
        alone, not_returned = await self.drain()
        # Whoever waits for what was done here hears that the others have it
        await self.settled()
        told = {link.node: link for link in self.peers.links()}
        going = as_deferred(
            self.append("member", {"op": "remove", "key": self.key, "by": by, "left": True})
        )
        # What is added from now on comes after it, and nobody takes that of one who is no member
        self.closed = CLOSED
        try:
            await going
        except StoreError:
            self.closed = ""
            raise
        # A node that has it closes the link: that is as good as a confirmation
        confirmed = as_deferred(self.settled())
        while not confirmed.called and not all(link.closed for link in told.values()):
            await deferLater(self.reactor, 0.05, lambda: None)
        unreached = [node for node in others if node not in told]
        if confirmed.called:
            late = set(await confirmed)
            unreached += [node for node, link in told.items() if node in late and not link.closed]
        if len(unreached) == len(others):
            self.log.warn(
                "this node leaves, but could tell no other member. {advice}",
                advice=advice.of("cluster.untold", node=self.card.state.node),
            )
        return {
            "left": self.card.state.cluster,
            "unreached": unreached,
            "minions": minions,
            "alone": alone,
            "late": not_returned,
        }

    async def approve(self, name: str) -> dict[str, Any]:
        """
        Admit a suspended node.

        @raises DeniedError: no such member.
        """
        member = self.find(name)
        if member.state == MEMBER:
            raise DeniedError(
                f"there is nothing to approve: {member.node} is a full member already"
            )
        await self.append("member", {"op": "approve", "key": member.key})
        self.fire("salt/cluster/approve", {"node": member.node})
        return {"approved": member.node}

    async def set_rights(self, name: str, rights: tuple[str, ...]) -> dict[str, Any]:
        """
        Set a member's rights to the roots; they decide who sends and who receives.

        @raises DeniedError: there is no such member, or nobody could write any more.
        """
        member = self.find(name)
        why_not = self.membership.why_not_rights(member, rights)
        if why_not:
            raise DeniedError(why_not)
        if rights != member.rights:
            body = {"op": "rights", "key": member.key, "rights": list(rights)}
            await self.append("member", body)
            self.fire("salt/cluster/rights", {"node": member.node, "rights": list(rights)})
        return {
            "node": member.node,
            "rights": list(rights),
            "unreached": list(await self.settled()),
        }
