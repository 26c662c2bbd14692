"""
What a cluster node offers in addition to its master: its rows of the table of operations.

All are for root and the master's own user. The list of operations does not depend on the phase: a
node that waits for admission says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from saltwisted import advice
from saltwisted.cluster.facts.keyview import KeyView
from saltwisted.cluster.facts.ondisk import done_or_unknown
from saltwisted.cluster.life.drift import Drift
from saltwisted.cluster.life.lifecycle import Lifecycle
from saltwisted.cluster.life.member import ClusterMember
from saltwisted.cluster.links.ring import Ring
from saltwisted.domain.operations.arguments import FLAG, NUMBER, TEXT, TEXTS, WHOLE, Argument
from saltwisted.domain.operations.table import (
    ACCOUNT,
    Call,
    Caller,
    Handler,
    Operation,
    Operations,
    owner_only,
)
from saltwisted.domain.replica.membership import RIGHTS, rights_of
from saltwisted.domain.replica.tokens import MASTER, MAX_USES, MINION, ROLES, new_token, parse
from saltwisted.errors import DeniedError, RemoteError, StoreError, WireError
from saltwisted.stores.facts.node import LEFT, REMOVED

MAX_TTL = 365 * 86400.0
OWNER = "only root and the master's own user may "
RECORDED: Mapping[str, tuple[str, ...]] = {
    "members_approve": ("node",),
    "members_declare_dead": ("node",),
    "members_rights": ("node", "rights"),
    "token_create": ("role", "ttl", "uses", "pattern", "rights"),
    "token_revoke": ("id",),
    "cluster_init": (),
    "cluster_join": (),
    "cluster_leave": (),
    "cluster_remove": ("node", "compromised"),
    "identity_change": (),
}
"""What of these is on record, with which arguments."""
MAY = owner_only(f"{OWNER}ask about the cluster")
NODE = Argument("node", TEXT, needed=True)
DRY = Argument("dry_run", FLAG)
"""
With it an operation plans, answers with its plan, in the form of its answer, and does nothing. It
refuses what it would refuse.
"""


class ClusterControl:
    """The operations of membership, tokens and the identity key."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def operations(self) -> list[Operation]:
        """The rows."""
        look, act = self._told, self._act
        node = (NODE,)
        return [
            _row("members", look(self.members)),
            _row("members_approve", act(self.members_approve), *node, DRY),
            _row("members_declare_dead", act(self.members_declare_dead), *node, DRY),
            _row("members_rights", act(self.members_rights), *node, Argument("rights", TEXT), DRY),
            _row(
                "token_create",
                act(self.token_create),
                Argument("ttl", NUMBER),
                Argument("uses", WHOLE),
                Argument("role", TEXT),
                Argument("pattern", TEXT),
                Argument("approve", FLAG),
                Argument("rights", TEXT),
            ),
            _row("token_list", look(self.token_list)),
            _row("token_revoke", act(self.token_revoke), Argument("id", TEXT, needed=True)),
            _row(
                "cluster_join",
                look(self.cluster_join),
                Argument("token", TEXT, needed=True),
                DRY,
                Argument("discard", FLAG),
            ),
            _row("cluster_init", look(self.cluster_init)),
            _row("cluster_leave", act(self.cluster_leave), Argument("force", FLAG), DRY),
            _row(
                "cluster_remove",
                act(self.cluster_remove),
                *node,
                Argument("compromised", FLAG),
                DRY,
            ),
            _row("identity_prepare", look(self.identity_prepare), DRY),
            _row("identity_installed", look(self.identity_installed), Argument("minions", TEXTS)),
            _row("identity_forget", look(self.identity_forget)),
            _row("identity_change", act(self.identity_change)),
        ]

    def _told(self, handler: Handler) -> Handler:
        """The same, with errors in the words of these operations."""

        @wraps(handler)
        async def run(call: Call) -> Any:
            try:
                return await handler(call)
            except StoreError as error:
                raise RemoteError("StoreError", str(error)) from None
            except WireError as error:
                raise RemoteError("SaltInvocationError", error.reason) from None
            except DeniedError as error:
                raise RemoteError("ClusterError", str(error)) from None

        return run

    def _act(self, handler: Handler) -> Handler:
        """What adds to the fact log: it is done when that is on this node's disk."""

        @wraps(handler)
        async def run(call: Call) -> Any:
            member = getattr(self._lifecycle.member, "cluster", None)
            if not isinstance(member, ClusterMember):
                return await handler(call)
            return await done_or_unknown(member.reactor, member.unwritten, lambda: handler(call))

        return self._told(run)

    def _member(self) -> ClusterMember:
        member = self._lifecycle.member
        found = getattr(member, "cluster", None)
        if not isinstance(found, ClusterMember):
            raise DeniedError(self._lifecycle.why_not())
        return found

    async def members(self, call: Call) -> Any:
        """Report the members, the state of each, and whether this node is ready."""
        return await self.state()

    async def state(self) -> dict[str, Any]:
        """C{{"cluster", "node", "ready", "members", "problem", "work", "drift"}}."""
        life = self._lifecycle
        member = getattr(life.member, "cluster", None)
        if member is None or life.state.phase in (REMOVED, LEFT):  # it ends in a moment
            return {
                "cluster": life.state.cluster,
                "node": life.state.node,
                "ready": False,
                "ending": not life.outside,
                "problem": life.why_not(),
                "advice": life.advice,
                "members": [
                    {
                        "node": life.state.node,
                        "role": "cluster",
                        "state": "waiting" if life.waits_for else life.state.phase,
                        "this": True,
                        "problem": life.why_not(),
                    }
                ],
            }
        rows = await member.roster.table()
        own: dict[str, Any] = next((row for row in rows if row["this"]), {})
        return {
            "cluster": life.state.cluster,
            "node": life.state.node,
            "ready": own.get("state") in ("serving", "degraded"),
            "problem": own.get("problem") or "",
            "progress": own.get("received"),
            "work": life.member.work(),
            "claims": life.member.claims(),
            "drift": life.member.drift(),
            "members": rows,
        }

    async def token_create(self, call: Call) -> Any:
        """Create a token with which machines join, and report which members have it."""
        member = self._member()
        role = str(call.args.get("role") or MASTER)
        if role not in ROLES:
            raise DeniedError(f"--role {role}: use " + " or ".join(ROLES))
        ttl, uses = float(call.args.get("ttl", 1800)), int(call.args.get("uses", 1))
        if not 0 < ttl <= MAX_TTL or not 0 < uses <= MAX_USES:
            raise DeniedError(f"use a --ttl of up to 365d, and --uses of up to {MAX_USES}")
        life = self._lifecycle
        if life.find_addresses():
            await member.say_about()
        if not life.settings.addresses:
            raise DeniedError(
                "this machine has no address that others can reach, so a token would be "
                "useless: bring its network up, or set an address with the option interface"
            )
        near = self._by_nearness(member)
        if role == MINION:
            pin, addresses = member.identity_pin, [m.serves for m in near if m.serves]
        else:
            pin, addresses = member.secrets_care.pin, [*life.settings.addresses]
            addresses += [a for m in near for a in m.addresses]
            addresses += life.settings.also
        token = new_token(
            member.entropy,
            pin=pin,
            expiry=member.now() + ttl,
            uses=uses,
            role=role,
            pattern=str(call.args.get("pattern") or ""),
            cluster=self._lifecycle.state.cluster,
            peers=tuple(dict.fromkeys(addresses))[:20],
        )
        wait = bool(call.args.get("approve"))
        rights = _rights(call.args.get("rights"))
        if rights != RIGHTS and role == MINION:
            raise DeniedError(
                "--rights is for masters only: it says what they may do with the roots"
            )
        await member.append("token", member.tokens.create_body(token, call.user, wait, rights))
        unreached = list(await member.settled())
        others = member.others()
        return {
            "token": token.line,
            "id": token.id,
            "expiry": token.expiry,
            "held_by": [node for node in others if node not in unreached],
            "unreached": unreached,
        }

    @staticmethod
    def _by_nearness(member: ClusterMember) -> list[Any]:
        """Members that are linked first: a token lists those that live."""
        linked = {link.node for link in member.peers.links()} | {member.card.state.node}
        return sorted(member.membership.members(), key=lambda m: m.node not in linked)

    async def token_list(self, call: Call) -> Any:
        """List all tokens, without their secrets."""
        member = self._member()
        now = member.now()
        return [
            {
                "id": token_id,
                "role": known.role,
                "uses": known.uses,
                "used": len(known.used),
                "expiry": known.expiry,
                "pattern": known.pattern,
                "approve": known.wait,
                "rights": list(known.rights) if known.role == MASTER else [],
                "by": known.by,
                "state": member.tokens.why_not(token_id, now) or "live",
            }
            for token_id, known in sorted(
                member.tokens.list().items(), key=lambda item: item[1].expiry
            )
        ]

    async def token_revoke(self, call: Call) -> Any:
        """Revoke a token, named by the beginning of its id."""
        member = self._member()
        start = call.args["id"]
        found = [each for each in member.tokens.list() if each.startswith(start)]
        if len(found) != 1:
            how = "no token begins" if not found else "several tokens begin"
            raise DeniedError(f"{how} with {start!r}: {advice.of('token.list')}")
        await member.append("token", {"op": "revoke", "id": found[0]})
        return {"revoked": found[0], "unreached": list(await member.settled())}

    async def cluster_join(self, call: Call) -> Any:
        """Join another cluster by a token; C{dry_run} changes nothing."""
        line = call.args["token"]
        token = parse(line)
        if token.role != MASTER:
            raise DeniedError("this token is for a minion; a master needs --role master")
        if call.args.get("dry_run"):
            return await self._lifecycle.preview(token)
        return await self._lifecycle.join(line, bool(call.args.get("discard")))

    async def cluster_init(self, call: Call) -> Any:
        """Found a cluster without waiting for the configured peers."""
        if self._lifecycle.member is not None:
            return {"cluster": self._lifecycle.state.cluster, "already": True}
        self._lifecycle.force()
        return {"already": False}

    async def cluster_leave(self, call: Call) -> Any:
        """End this node's membership; C{dry_run} changes nothing."""
        acts, force = self._member().acts, bool(call.args.get("force"))
        if call.args.get("dry_run"):
            return acts.plan_leave(force)
        done = await acts.leave(call.user, force)
        self._lifecycle.removed(LEFT)
        return done

    async def cluster_remove(self, call: Call) -> Any:
        """Remove another node for good; C{dry_run} changes nothing."""
        acts, node = self._member().acts, call.args["node"]
        if call.args.get("dry_run"):
            return acts.plan_remove(node)
        return await acts.remove(node, call.user, bool(call.args.get("compromised")))

    async def identity_prepare(self, call: Call) -> Any:
        """
        Create the next identity key, and report what the change to it would do; C{dry_run} creates
        none.
        """
        if call.args.get("dry_run"):
            return self._member().identity.plan()
        return await self._member().identity.prepare()

    async def identity_installed(self, call: Call) -> Any:
        """Record which minions have the next identity key."""
        return await self._member().identity.installed(list(call.args.get("minions") or ()))

    async def identity_forget(self, call: Call) -> Any:
        """Abandon the change of the identity key."""
        return await self._member().identity.forget()

    async def identity_change(self, call: Call) -> Any:
        """Change the identity key, on all members."""
        return await self._member().identity.change()

    async def members_approve(self, call: Call) -> Any:
        """Admit a suspended node; C{dry_run} changes nothing."""
        acts, node = self._member().acts, call.args["node"]
        return acts.plan_approve(node) if call.args.get("dry_run") else await acts.approve(node)

    async def members_declare_dead(self, call: Call) -> Any:
        """
        Declare a member dead: majorities do not count it until it is back; C{dry_run} changes
        nothing.
        """
        self._member()
        member, node = self._lifecycle.member, call.args["node"]
        if call.args.get("dry_run"):
            return member.plan_declare_dead(node)
        return await member.declare_dead(node, call.user)

    async def members_rights(self, call: Call) -> Any:
        """Set what a member may do with the roots from now on; C{dry_run} changes nothing."""
        acts, node = self._member().acts, call.args["node"]
        rights = _rights(call.args.get("rights"))
        if call.args.get("dry_run"):
            return acts.plan_rights(node, rights)
        return await acts.set_rights(node, rights)


def _rights(value: Any) -> tuple[str, ...]:
    """
    Rights as an operator says them: words with commas between; nothing for all.

    @raises DeniedError: other words, or no C{read}.
    """
    words = [word.strip() for word in str(value or "all").split(",") if word.strip()]
    if words == ["all"]:
        return RIGHTS
    try:
        return rights_of(words)
    except WireError:
        raise DeniedError(
            f"rights {value}: use 'all', or 'read' with or without 'write' and 'pillar', "
            "separated by commas"
        ) from None


def waiting_room(node: ClusterControl, status: Callable[[], dict[str, Any]]) -> Operations:
    """
    The table of a node that is not a member now; for other operations it says what the node waits
    for.

    @param status: the few facts that are available.
    """

    async def status_of_it(call: Call) -> Any:
        """Say that the node does not serve yet."""
        return status()

    async def not_ready(caller: Caller) -> None:
        await MAY.judge(caller, {})
        state = await node.state()
        raise RemoteError("NotReady", state["problem"])

    row = Operation(name="status", right=ACCOUNT, handler=status_of_it)
    return Operations("this node", [row, *node.operations()], otherwise=not_ready)


def _row(name: str, handler: Handler, *takes: Argument) -> Operation:
    return Operation(name=name, right=MAY, handler=handler, takes=takes, record=RECORDED.get(name))


def views(drift: Drift, ring: Ring, keys: KeyView) -> list[Operation]:
    """The rows that only read, and only on a member."""

    async def members_drift(call: Call) -> Any:
        """Report the options that should be equal on all members and are not."""
        return await drift.rows()

    async def members_ring(call: Call) -> Any:
        """Make every member try the ports of every other, and report the result."""
        return await ring.rows()

    async def keys_shown(call: Call) -> Any:
        """Report where and when keys were seen, accepted or rejected, and which conflict."""
        args = call.args
        return keys.shown(
            args.get("match") or "*",
            pending=bool(args.get("pending")),
            conflicts=bool(args.get("conflicts")),
        )

    return [
        Operation(
            name="members_drift", right=owner_only(f"{OWNER}see options"), handler=members_drift
        ),
        Operation(
            name="members_ring", right=owner_only(f"{OWNER}test ports"), handler=members_ring
        ),
        Operation(
            name="keys_shown",
            right=owner_only(f"{OWNER}see keys"),
            handler=keys_shown,
            takes=(
                Argument("match", TEXT),
                Argument("pending", FLAG),
                Argument("conflicts", FLAG),
            ),
        ),
    ]
