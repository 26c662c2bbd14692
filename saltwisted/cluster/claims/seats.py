"""
Which members may vote, according to the membership, and which were declared dead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define
from twisted.logger import Logger

from saltwisted import advice
from saltwisted.domain.claims.electorate import Seat
from saltwisted.domain.replica.declared import KIND, Declared, declared_body
from saltwisted.domain.replica.membership import Member, Membership
from saltwisted.errors import DeniedError
from saltwisted.transports.deferreds import as_deferred, let_go


@define(kw_only=True)
class Seats:
    """
    @ivar key: this node's key id.
    @ivar linked: the ids of members with a link.
    @ivar append: appends to the fact log.
    @ivar settled: fires with the members that have not confirmed it.
    """

    log = Logger()

    key: str
    node: str
    membership: Membership
    declared: Declared
    linked: Callable[[], Sequence[str]]
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    settled: Callable[[], Awaitable[Sequence[str]]]
    fire: Callable[[str, dict[str, Any]], None]
    _saying: bool = False

    def members(self) -> list[Seat]:
        """Those that should vote."""
        dead = self.declared.dead()
        return [Seat(m.node, m.key) for m in self.membership.members() if m.key not in dead]

    def gone(self) -> set[str]:
        """Keys that do not count for a majority."""
        removed = {m.key for m in self.membership.registers.values() if m.removed is not None}
        return removed | self.declared.dead()

    def plan_declare_dead(self, member: Member) -> dict[str, Any]:
        """
        What L{declare_dead} will say.

        @raises DeniedError: it lives, as far as this node can see.
        """
        if member.key == self.key:
            raise DeniedError("this node is alive")
        if member.node in self.linked():
            raise DeniedError(
                f"{member.node} is linked to this node, so it is alive: {advice.of('member.alive')}"
            )
        return {"dead": member.node, "unreached": []}

    async def declare_dead(self, member: Member, by: str) -> dict[str, Any]:
        """
        An operator has seen that a member is dead: it does not count for majorities until it is
        back.

        @raises DeniedError: as for L{plan_declare_dead}.
        """
        plan = self.plan_declare_dead(member)
        await self.append(KIND, declared_body(member.key, True, by))
        self.log.warn("{by} has declared {node} dead", by=by, node=member.node)
        self.fire("salt/cluster/declared_dead", {"node": member.node, "by": by})
        return {**plan, "unreached": list(await self.settled())}

    def came_back(self) -> None:
        """
        Called again and again: if this node was declared dead and is linked to another member, it
        tells it that it is alive, and what may have happened.
        """
        by = self.declared.why(self.key)
        if not by or self._saying or not self.linked():
            return
        self._saying = True
        self.log.error(
            "{by} had declared this node dead: what it did meanwhile may have been done by another "
            "member as well: {advice}",
            by=by,
            advice=advice.of("receipts.look"),
        )
        self.fire("salt/cluster/back_from_dead", {"node": self.node, "by": by})
        said = as_deferred(self.append(KIND, declared_body(self.key, False, self.node)))
        let_go(
            said.addBoth(self._said),
            self.log,
            "the other members could not be told that this node is alive",
        )

    def _said(self, result: Any) -> Any:
        self._saying = False
        return result
