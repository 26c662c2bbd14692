"""
Who belongs to the cluster: a register per node key, in which a removal is final.

A member is its public key. What is known of it only grows: that it was added, that an operator
approved it, that it was removed. So all orders of arrival end in the same state, and a removal
outranks everything concurrent. Its addresses, version and slot are the newest that the node itself
(or the node that admitted it) said. Its rights to the roots are the newest that an operator set,
and until then those of its token. C{saltwisted.cluster} decides who may do these things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.errors import WireError

SLOTS = 100
"""Nodes that a cluster can have: a jid's last two digits are the slot of who gave it."""
MEMBER, SUSPENDED, REMOVED, LEFT = "member", "suspended", "removed", "left"
_TEXTS = ("node", "public", "by", "token")
READ, WRITE, PILLAR = "read", "write", "pillar"
RIGHTS = (READ, WRITE, PILLAR)
"""What a member may do with the roots: have files, change them, and have pillars."""

Place = tuple[int, Dot[Stream]]
"""When and where a fact arose: the order in which the later of two facts is found."""


@frozen(kw_only=True)
class Member:
    """
    What is known of one node key.

    @ivar key: SHA-256 of the public key, 64 hexadecimal digits.
    @ivar public: the public key, DER in hexadecimal digits; C{""} while only a removal is known.
    @ivar wait: whether it waits for an operator (C{members approve}).
    @ivar added: when it was added; the earliest counts.
    @ivar about: C{addresses}, C{slot}, C{version}, C{serves}: the newest values.
    @ivar granted: its rights when it was added, of L{RIGHTS}.
    @ivar rights_set: its rights as an operator has changed them later.
    @ivar removed: when it was removed, or C{None}.
    """

    key: str
    node: str = ""
    public: str = ""
    by: str = ""
    token: str = ""
    wait: bool = False
    granted: tuple[str, ...] = RIGHTS
    rights_set: tuple[str, ...] = RIGHTS
    rights_at: Place | None = None
    added: Place | None = None
    approved: Place | None = None
    suspended: Place | None = None
    about: Mapping[str, Any] = {}
    about_at: Place | None = None
    removed: Place | None = None
    removed_by: str = ""
    left: bool = False

    @property
    def state(self) -> str:
        """C{member}, C{suspended}, C{removed} or C{left}."""
        if self.removed is not None or self.added is None:
            return LEFT if self.left else REMOVED
        if (self.wait or self.suspended is not None) and self.approved is None:
            return SUSPENDED
        return MEMBER

    @property
    def rights(self) -> tuple[str, ...]:
        """What it may do with the roots."""
        return self.granted if self.rights_at is None else self.rights_set

    @property
    def addresses(self) -> list[str]:
        """Where it listens for peers, C{host:port}."""
        return [str(each) for each in self.about.get("addresses", ())]

    @property
    def slot(self) -> int:
        """The last two digits of its jids; -1 while unknown."""
        return int(self.about.get("slot", -1))

    @property
    def serves(self) -> str:
        """Where its minions find it, C{host:port}; C{""} while it has not said."""
        return str(self.about.get("serves", ""))

    @property
    def version(self) -> str:
        """Its release."""
        return str(self.about.get("version", ""))


class Membership(Registers[Member]):
    """
    The fold of kind C{member}. Bodies have C{op} and C{key}, and for

      - C{add}: node, public, by, token, wait, about, and perhaps rights;
      - C{rights}: rights;
      - C{approve}, C{suspend}: nothing more;
      - C{about}: about;
      - C{remove}: by, left.
    """

    kind = "member"

    def key_of(self, body: Mapping[str, Any]) -> str:
        """The node key."""
        key = body["key"]
        if not isinstance(key, str) or len(key) != 64 or set(key) - set("0123456789abcdef"):
            raise WireError("member-key")
        return key

    def join(
        self, state: Member | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> Member:
        """See the class."""
        old = state or Member(key=self.key_of(body))
        here: Place = (stamp, origin)
        op = body["op"]
        if op == "add":
            return _about(_added(old, body, here), body, here)
        if op == "about":
            return _about(old, body, here)
        if op == "rights":
            rights = rights_of(body["rights"])
            if old.rights_at is not None and old.rights_at >= here:
                return old
            return evolve(old, rights_set=rights, rights_at=here)
        if op == "approve":
            return evolve(old, approved=_later(old.approved, here))
        if op == "suspend":
            return evolve(old, suspended=_earlier(old.suspended, here))
        if op == "remove":
            if old.removed is not None and old.removed <= here:
                return old
            return evolve(
                old, removed=here, removed_by=str(body["by"])[:255], left=bool(body["left"])
            )
        raise WireError("member-op")

    def newest(self, body: Mapping[str, Any]) -> int:
        """That of the rights, or of what the node says about itself, which it replaces."""
        state = self.registers.get(self.key_of(body))
        places = {"rights": "rights_at", "about": "about_at"}
        place: Place | None = getattr(state, places.get(body["op"], ""), None)
        return 0 if place is None else place[0]

    def facts(self, key: str, state: Member) -> Iterable[Fact]:
        """One fact for each thing that is known."""
        if state.added is not None:
            body = {"op": "add", "key": key, "wait": state.wait, "about": {}}
            body.update({name: getattr(state, name) for name in _TEXTS})
            if state.granted != RIGHTS:
                body["rights"] = list(state.granted)
            yield Fact(body, *state.added)
        if state.rights_at is not None:
            body = {"op": "rights", "key": key, "rights": list(state.rights_set)}
            yield Fact(body, *state.rights_at)
        if state.about_at is not None:
            yield Fact({"op": "about", "key": key, "about": dict(state.about)}, *state.about_at)
        if state.approved is not None:
            yield Fact({"op": "approve", "key": key}, *state.approved)
        if state.suspended is not None:
            yield Fact({"op": "suspend", "key": key}, *state.suspended)
        if state.removed is not None:
            body = {"op": "remove", "key": key, "by": state.removed_by, "left": state.left}
            yield Fact(body, *state.removed)

    # What others ask

    def find(self, key: str) -> Member | None:
        """The register of a node key."""
        return self.registers.get(key)

    def is_member(self, key: str) -> bool:
        """Whether the holder of this key may link to us."""
        found = self.registers.get(key)
        return found is not None and found.state == MEMBER

    def live(self) -> list[Member]:
        """All that were added and not removed, suspended ones too, by node id."""
        found = [m for m in self.registers.values() if m.state in (MEMBER, SUSPENDED)]
        return sorted(found, key=lambda member: (member.node, member.key))

    def members(self) -> list[Member]:
        """Those that may link, by node id."""
        return [member for member in self.live() if member.state == MEMBER]

    def others(self, key: str) -> list[str]:
        """Ids of the live members but for the one with this key."""
        return [member.node for member in self.live() if member.key != key]

    def all_may(self, right: str) -> bool:
        """Whether every live member has a right."""
        return all(right in member.rights for member in self.live())

    def named(self, node: str) -> Iterator[Member]:
        """Live registers with this node id; more than one only after a partition."""
        return (member for member in self.live() if member.node == node)

    def may(self, node: str, right: str) -> bool:
        """Whether the member of this id has a right; of several of one id each must have it."""
        found = list(self.named(node))
        return bool(found) and all(right in member.rights for member in found)

    def may_as_seen_by(self, key: str, own: str, node: str, right: str) -> bool:
        """
        The rights by which a member acts. The membership says nothing about the member itself
        before its first facts are written, nor when it leaves: then edits there stay as they are.

        @param key: its key; C{own}: its id.
        """
        if node != own:
            return self.may(node, right)
        member = self.find(key)
        return member is None or member.removed is not None or right in member.rights

    def why_not_rights(self, member: Member, rights: tuple[str, ...]) -> str:
        """
        Why a member's rights cannot be changed in this way, or C{""}: some member must keep them.
        """
        rest = [set(other.rights) for other in self.live() if other.key != member.key]
        both = {WRITE, PILLAR}
        if WRITE not in rights and not any(WRITE in others for others in rest):
            return f"{member.node} is the only member that may write: then nobody could"
        if PILLAR not in rights and not any(PILLAR in others for others in rest):
            return f"{member.node} is the only member with pillars: they would be lost"
        ends = both <= {*member.rights} and not both <= {*rights}
        if ends and not any(both <= others for others in rest):
            return f"{member.node} is the only member that may write pillars: then nobody could"
        return ""

    def free_slot(self) -> int:
        """The lowest slot that no live member has; -1 when there is none."""
        taken = {member.slot for member in self.live()}
        return next((slot for slot in range(SLOTS) if slot not in taken), -1)

    def must_change_slot(self, key: str) -> bool:
        """Of two live nodes with one slot, the one that was added later takes another."""
        own = self.registers.get(key)
        if own is None or own.added is None:
            return False
        return any(
            other.key != key
            and other.slot == own.slot
            and other.added is not None
            and other.added < own.added
            for other in self.live()
        )


def rights_of(value: Any) -> tuple[str, ...]:
    """
    Rights as they come in a body.

    @raises WireError: others than L{RIGHTS}, or without C{read}.
    """
    if not isinstance(value, (list, tuple)) or len(value) > len(RIGHTS):
        raise WireError("member-rights")
    if READ not in value or not all(right in RIGHTS for right in value):
        raise WireError("member-rights")
    return tuple(right for right in RIGHTS if right in value)


def _earlier(old: Place | None, new: Place) -> Place:
    return new if old is None else min(old, new)


def _later(old: Place | None, new: Place) -> Place:
    return new if old is None else max(old, new)


def _added(old: Member, body: Mapping[str, Any], here: Place) -> Member:
    texts = {name: body[name] for name in _TEXTS}
    if not all(isinstance(text, str) and len(text) <= 1024 for text in texts.values()):
        raise WireError("member-add")
    if not texts["node"] or len(texts["node"]) > 255:
        raise WireError("member-node")
    granted = rights_of(body.get("rights", RIGHTS))
    if old.added is not None and old.added <= here:
        return old
    return evolve(old, added=here, wait=bool(body["wait"]), granted=granted, **texts)


def _about(old: Member, body: Mapping[str, Any], here: Place) -> Member:
    about = body["about"]
    if not isinstance(about, Mapping):
        raise WireError("member-about")
    if not about or (old.about_at is not None and old.about_at >= here):
        return old
    slot, addresses = about["slot"], about["addresses"]
    if not isinstance(slot, int) or not -1 <= slot < SLOTS:
        raise WireError("member-slot")
    if not isinstance(addresses, (list, tuple)) or len(addresses) > 16:
        raise WireError("member-addresses")
    kept = {
        "addresses": [str(each)[:255] for each in addresses],
        "slot": slot,
        "version": str(about["version"])[:64],
    }
    if about.get("serves"):
        kept["serves"] = str(about["serves"])[:255]
    return evolve(old, about=kept, about_at=here)
