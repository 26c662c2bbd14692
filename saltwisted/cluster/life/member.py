"""
A node as a member: what it writes first, and what it does when others write.

This connects the folds of membership, tokens and secrets to the port, the links and the node's own
files. Keys, jobs and roots are replicated separately, over the same links.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from saltwisted import __version__, advice
from saltwisted.cluster.facts.identity import IdentityChange
from saltwisted.cluster.life.acts import MemberActs
from saltwisted.cluster.life.gate import FAREWELL, MemberGate
from saltwisted.cluster.life.join import CLAIM, Admission
from saltwisted.cluster.life.keptmembership import KeptMembership
from saltwisted.cluster.life.lifecycle import Lifecycle, MemberCard
from saltwisted.cluster.life.miniontokens import MinionTokens
from saltwisted.cluster.life.roster import STATUS, Roster
from saltwisted.cluster.life.secretscare import SecretsCare
from saltwisted.cluster.links.peers import Peers
from saltwisted.domain.replica.membership import MEMBER, SUSPENDED, Member, Membership
from saltwisted.domain.replica.tokens import Tokens
from saltwisted.interfaces import Entropy
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.ticks import start_on_ticks
from saltwisted.wire.msgpack import pack_bin
from saltwisted.wire.rsa import fingerprint

TICK = 30


@define(kw_only=True)
class ClusterMember:
    """
    One member, from the time when its log is open to its end.

    @ivar acts: what operators do with members.
    @ivar roster: what members report about themselves.
    @ivar gate: who may connect to the peer port.
    @ivar append: C{append(kind, body)} of the fact log.
    @ivar settled: C{settled(nodes)}: fires with the nodes that have not confirmed what this node
        has appended so far, at the latest after some seconds.
    @ivar unwritten: C{unwritten()}: why this node's disk does not take what is appended, or C{""}.
    @ivar set_slot: C{set_slot(slot)}: the last digits of new jids.
    @ivar rights: the rights to the roots with which this node was built.
    """

    reactor: Any
    card: MemberCard
    lifecycle: Lifecycle
    membership: Membership
    tokens: Tokens
    peers: Peers
    admission: Admission
    identity: IdentityChange
    acts: MemberActs
    roster: Roster
    gate: MemberGate
    kept: KeptMembership
    secrets_care: SecretsCare
    minion_tokens: MinionTokens
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    listen: Callable[[str, Callable[[Sequence[Any]], None]], None]
    settled: Callable[[], Awaitable[Sequence[str]]]
    unwritten: Callable[[], str]
    set_slot: Callable[[int], None]
    fire: Callable[[str, dict[str, Any]], None]
    rights: tuple[str, ...]
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    log: Logger = field(factory=Logger)
    _ticker: Any = None
    _running: bool = False
    _removed: set[str] = field(factory=set)

    # Service

    async def startService(self) -> None:
        """The log is open: write what it lacks, open the gate, and dial."""
        self._running = True
        self.secrets_care.begin()
        self.peers.answer(CLAIM, self.admission.claimed)
        self.peers.answer(STATUS, lambda node, body: pack_bin(self.roster.status()))
        self.peers.answer(FAREWELL, self._bidden_farewell)
        self._removed = {m.key for m in self.membership.registers.values() if m.removed}
        self.listen("member", self._members_changed)
        self.listen("secret", lambda changes: self._secrets_changed())
        self.listen("token", lambda changes: self._tokens_changed())
        if self.card.founder:
            await self._found()
            self.lifecycle.founded()
        own = self.own
        if own is None or own.state not in (MEMBER, SUSPENDED):
            self.lifecycle.removed()
            return
        self.set_slot(own.slot)
        await self.say_about()
        self._follow_rights()
        self.secrets_care.wear()
        self.identity.follow()
        self.lifecycle.port.gate = self.gate
        self.peers.startService()
        self._ticker = LoopingCall(self._tick)
        self._ticker.clock = self.reactor
        let_go(start_on_ticks(self._ticker, TICK), self.log, "secrets are no longer renewed")

    def stopService(self) -> None:
        """Close the links."""
        self._running = False
        if self._ticker is not None and self._ticker.running:
            self._ticker.stop()
        self.kept.stop()
        self.peers.stopService()

    @property
    def key(self) -> str:
        """This node's key id."""
        return self.card.badge.key.id

    @property
    def own(self) -> Member | None:
        """This node's register."""
        return self.membership.find(self.key)

    def others(self) -> list[str]:
        """Ids of the other live members."""
        return self.membership.others(self.key)

    @property
    def serves(self) -> str:
        """Where minions find this node."""
        return self.lifecycle.settings.serves

    def masters(self) -> list[str]:
        """Where minions find the members, this one among them; for our minions."""
        found = {member.serves for member in self.membership.members()}
        return sorted(each for each in found if each)

    # The first facts, and those about this node

    async def _found(self) -> None:
        await self.secrets_care.found()
        if self.own is None:
            await self.append(
                "member",
                {
                    "op": "add",
                    "key": self.key,
                    "node": self.card.state.node,
                    "public": self.card.badge.key.public.hex(),
                    "by": self.card.state.node,
                    "token": "",
                    "wait": False,
                    "about": self._about(0),
                },
            )

    def _about(self, slot: int) -> dict[str, Any]:
        return {
            "addresses": list(self.lifecycle.settings.addresses),
            "slot": slot,
            "version": __version__,
            "serves": self.lifecycle.settings.serves,
        }

    async def say_about(self) -> None:
        """Tell the others the addresses of this node, if they do not know them yet."""
        own = self.own
        if own is None:
            return
        slot = own.slot
        if slot < 0 or self.membership.must_change_slot(self.key):
            slot = self.membership.free_slot()
            self.log.info("this node takes slot {slot}", slot=slot)
        about = self._about(slot)
        if not about["addresses"]:
            about["addresses"] = own.addresses
        if about != dict(own.about):
            await self.append("member", {"op": "about", "key": self.key, "about": about})
        self.set_slot(slot)

    @property
    def identity_pin(self) -> str:
        """What a token for minions pins: the masters' key."""
        return fingerprint(self.admission.identity()[1], "sha256").replace(":", "")

    # Changes, wherever they come from

    def _members_changed(self, changes: Sequence[Any]) -> None:
        if not self._running:
            return
        self.kept.keep_soon()
        gone = {m.key for m in self.membership.registers.values() if m.removed is not None}
        new, self._removed = gone - self._removed, gone
        for key in new:
            member = self.membership.find(key)
            if member is not None:
                self.log.warn(
                    "{node} has {state} the cluster"
                    if member.left
                    else ("{node} was removed from the cluster"),
                    node=member.node,
                    state="left",
                )
                self.fire(
                    "salt/cluster/leave" if member.left else "salt/cluster/remove",
                    {"node": member.node, "by": member.removed_by},
                )
        self.peers.membership_changed()
        self._follow_rights()
        own = self.own
        if own is not None and own.removed is not None:
            if not self.acts.leaving:
                self.lifecycle.removed()
        elif own is not None and self.membership.must_change_slot(self.key):
            let_go(self.say_about(), self.log, "no new slot")

    def _follow_rights(self) -> None:
        """Which roots are here, and whose changes count, is decided when a member is built."""
        own = self.own
        if own is None or own.rights == self.rights or own.removed is not None:
            return
        self.rights = own.rights
        self.kept.keep_now()
        self.lifecycle.build_anew(f"its rights are {', '.join(own.rights)} now")

    def _secrets_changed(self) -> None:
        if self._running:
            self.kept.keep_soon()
            self.secrets_care.changed()
            self.identity.follow()

    def _tokens_changed(self) -> None:
        if not self._running:
            return
        self.kept.keep_soon()
        for _, key in self.tokens.overused():
            member = self.membership.find(key)
            if member is not None and member.state == MEMBER and member.approved is None:
                self.log.error(
                    "{node} is suspended until somebody approves it. {advice}",
                    node=member.node,
                    advice=advice.of("member.suspended", node=member.node),
                )
                d = as_deferred(self.append("member", {"op": "suspend", "key": key}))
                let_go(d, self.log, "no suspension")
        self.minion_tokens.deny_overused()

    def _tick(self) -> None:
        self.minion_tokens.deny_overused()
        self.secrets_care.renew_in_time()

    def _bidden_farewell(self, node: str, body: bytes) -> None:
        """
        A member says that we were removed: the fact itself comes over no link any more. Any member
        may say so, and could remove us as well; so it is named.
        """
        self.log.error("{node} says that this node was removed from the cluster", node=node)
        self.lifecycle.removed()
