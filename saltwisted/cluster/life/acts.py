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

    def _away(self, but: str = "") -> list[str]:
        """The other members that have no link to this node now, without one key."""
        linked = {link.node for link in self.peers.links()}
        return [node for node in self.others() if node not in linked and node != but]

    def plan_remove(self, name: str) -> dict[str, Any]:
        """
        What L{remove} will do and say; C{unreached}: who is not linked now.

        @raises DeniedError: no such member, or it is this node.
        """
        member = self.find(name)
        if member.key == self.key:
            raise DeniedError(f"this node is {name}: {advice.of('cluster.itself')}")
        return {
            "removed": member.node,
            "key": member.key,
            "unreached": self._away(member.node),
            "cluster_secret": bool(self.admission.cluster_secret),
        }

    async def remove(self, name: str, by: str, compromised: bool) -> dict[str, Any]:
        """
        Remove a node for good: its link, its tokens and every secret that it holds end.

        @raises DeniedError: as for L{plan_remove}.
        """
        plan = self.plan_remove(name)
        member = self.find(name)
        for link in self.peers.links():
            if link.session.key == member.key:
                link.tell(FAREWELL, b"")
                link.close("it was removed", polite=True)
        body = {"op": "remove", "key": member.key, "by": by, "left": False}
        await self.append("member", body)
        await self.append("token", self.tokens.void_body(self.secrets_care.entropy))
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
        return {**plan, "unreached": unreached}

    def plan_leave(self, force: bool = False) -> dict[str, Any]:
        """
        What L{leave} will do and say; C{unreached}: who is not linked now. What is only here is
        known when the others have been asked to take it.

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
        return {
            "left": self.card.state.cluster,
            "unreached": self._away(),
            "minions": int(self.status().get("minions") or 0),
            "alone": 0,
            "late": [],
        }

    async def leave(self, by: str, force: bool = False) -> dict[str, Any]:
        """
        End this node's membership; the others continue without it.

        @param force: even if nobody can be told, and what is only here stays behind.
        @raises DeniedError: as for L{plan_leave}.
        """
        plan = self.plan_leave(force)
        self.leaving = True
        self.admission.closed = "this member is leaving the cluster: join through another one"
        others = self.others()
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
        return {**plan, "unreached": unreached, "alone": alone, "late": not_returned}

    def plan_approve(self, name: str) -> dict[str, Any]:
        """
        What L{approve} will say.

        @raises DeniedError: no such member, or it is admitted already.
        """
        member = self.find(name)
        if member.state == MEMBER:
            raise DeniedError(
                f"there is nothing to approve: {member.node} is a full member already"
            )
        return {"approved": member.node}

    async def approve(self, name: str) -> dict[str, Any]:
        """
        Admit a suspended node.

        @raises DeniedError: as for L{plan_approve}.
        """
        plan = self.plan_approve(name)
        await self.append("member", {"op": "approve", "key": self.find(name).key})
        self.fire("salt/cluster/approve", {"node": plan["approved"]})
        return plan

    def plan_rights(self, name: str, rights: tuple[str, ...]) -> dict[str, Any]:
        """
        What L{set_rights} will say.

        @raises DeniedError: there is no such member, or nobody could write any more.
        """
        member = self.find(name)
        why_not = self.membership.why_not_rights(member, rights)
        if why_not:
            raise DeniedError(why_not)
        return {"node": member.node, "rights": list(rights), "unreached": self._away()}

    async def set_rights(self, name: str, rights: tuple[str, ...]) -> dict[str, Any]:
        """
        Set a member's rights to the roots; they decide who sends and who receives.

        @raises DeniedError: as for L{plan_rights}.
        """
        plan, member = self.plan_rights(name, rights), self.find(name)
        if rights != member.rights:
            body = {"op": "rights", "key": member.key, "rights": list(rights)}
            await self.append("member", body)
            self.fire("salt/cluster/rights", {"node": member.node, "rights": list(rights)})
        return {**plan, "unreached": list(await self.settled())}
