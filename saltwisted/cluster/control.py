"""
What the command line may ask about the cluster: operations of the control socket.

All are for root and the master's own user. Which operations there are does not depend on the
phase: a node that waits to be let in says so.
"""

from __future__ import annotations

import os
import pwd
from functools import partial
from typing import Any

from saltwisted.cluster.lifecycle import Lifecycle
from saltwisted.cluster.member import ClusterMember
from saltwisted.cluster.ondisk import done_or_unknown
from saltwisted.domain.replica.membership import RIGHTS, rights_of
from saltwisted.domain.replica.tokens import MASTER, MAX_USES, MINION, ROLES, new_token, parse
from saltwisted.errors import DeniedError, RemoteError, StoreError, WireError
from saltwisted.stores.node import LEFT, REMOVED
from saltwisted.transports.ipc import Peer

MAX_TTL = 365 * 86400.0


ACTS = frozenset(
    (
        "token_create",
        "token_revoke",
        "cluster_leave",
        "cluster_remove",
        "identity_change",
        "members_approve",
        "members_rights",
    )
)
"""What adds to the fact log: it is done when that is on this node's disk."""


class ClusterControl:
    """Operations by name; L{operations} are what a control socket serves."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def operations(self) -> dict[str, Any]:
        """Operation name to C{async method(args, peer)}."""
        prefix = "op_"
        return {
            name.removeprefix(prefix): self._guarded(name.removeprefix(prefix), getattr(self, name))
            for name in dir(self)
            if name.startswith(prefix)
        }

    def _guarded(self, name: str, method: Any) -> Any:
        async def run(args: dict[str, Any], peer: Peer, stream: Any) -> Any:
            if peer.uid not in (0, os.geteuid()):
                raise RemoteError(
                    "AuthorizationError",
                    ("only root and the master's own user may ask about the cluster"),
                )
            try:
                member = getattr(self._lifecycle.member, "cluster", None)
                act = partial(method, args, _user(peer.uid))
                if name not in ACTS or not isinstance(member, ClusterMember):
                    return await act()
                return await done_or_unknown(member.reactor, member.unwritten, act)
            except StoreError as error:
                raise RemoteError("StoreError", str(error)) from None
            except WireError as error:
                raise RemoteError("SaltInvocationError", error.reason) from None
            except DeniedError as error:
                raise RemoteError("ClusterError", str(error)) from None

        return run

    def _member(self) -> ClusterMember:
        member = self._lifecycle.member
        found = getattr(member, "cluster", None)
        if not isinstance(found, ClusterMember):
            raise DeniedError(self._lifecycle.why_not())
        return found

    async def op_members(self, args: dict[str, Any], user: str) -> Any:
        """C{{"cluster", "node", "ready", "members", "problem"}}."""
        life = self._lifecycle
        member = getattr(life.member, "cluster", None)
        if member is None or life.state.phase in (REMOVED, LEFT):  # it ends in a moment
            return {
                "cluster": life.state.cluster,
                "node": life.state.node,
                "ready": False,
                "ending": not life.in_room,
                "problem": life.why_not(),
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
        rows = await member.table()
        own: dict[str, Any] = next((row for row in rows if row["this"]), {})
        return {
            "cluster": life.state.cluster,
            "node": life.state.node,
            "ready": own.get("state") in ("serving", "degraded"),
            "problem": own.get("problem") or "",
            "progress": own.get("received"),
            "members": rows,
        }

    async def op_token_create(self, args: dict[str, Any], user: str) -> Any:
        """A new token, and who else has it."""
        member = self._member()
        role = str(args.get("role") or MASTER)
        if role not in ROLES:
            raise DeniedError(f"--role {role}: use " + " or ".join(ROLES))
        ttl, uses = float(args.get("ttl", 1800)), int(args.get("uses", 1))
        if not 0 < ttl <= MAX_TTL or not 0 < uses <= MAX_USES:
            raise DeniedError(f"use a --ttl of up to 365d, and --uses of up to {MAX_USES}")
        life = self._lifecycle
        if life.find_addresses():
            await member.say_about()
        if not life.settings.addresses:
            raise DeniedError(
                "this machine has no address that others could reach, so a token would lead "
                "nowhere: bring its network up, or name an address by the option interface"
            )
        near = self._by_nearness(member)
        if role == MINION:
            pin, addresses = member.identity_pin, [m.serves for m in near if m.serves]
        else:
            pin, addresses = member.pin, [*life.settings.addresses]
            addresses += [a for m in near for a in m.addresses]
            addresses += life.settings.also
        token = new_token(
            member.entropy,
            pin=pin,
            expiry=member.now() + ttl,
            uses=uses,
            role=role,
            pattern=str(args.get("pattern") or ""),
            cluster=self._lifecycle.state.cluster,
            peers=tuple(dict.fromkeys(addresses))[:20],
        )
        wait = bool(args.get("approve"))
        rights = _rights(args.get("rights"))
        if rights != RIGHTS and role == MINION:
            raise DeniedError(
                "--rights is for masters only: it says what they may do with the roots"
            )
        await member.append("token", member.tokens.create_body(token, user, wait, rights))
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

    async def op_token_list(self, args: dict[str, Any], user: str) -> Any:
        """All tokens, without their secrets."""
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

    async def op_token_revoke(self, args: dict[str, Any], user: str) -> Any:
        """Take a token back, by the beginning of its id."""
        member = self._member()
        start = str(args.get("id") or "")
        found = [each for each in member.tokens.list() if start and each.startswith(start)]
        if len(found) != 1:
            how = "no token begins" if not found else "several tokens begin"
            raise DeniedError(f"{how} with {start!r}: saltwisted token list shows them")
        await member.append("token", {"op": "revoke", "id": found[0]})
        return {"revoked": found[0], "unreached": list(await member.settled())}

    async def op_cluster_join(self, args: dict[str, Any], user: str) -> Any:
        """Join another cluster by a token; C{dry_run} changes nothing."""
        line = str(args.get("token") or "")
        token = parse(line)
        if token.role != MASTER:
            raise DeniedError("this token is for a minion; a master needs --role master")
        if args.get("dry_run"):
            return await self._lifecycle.preview(token)
        return await self._lifecycle.join(line, bool(args.get("discard")))

    async def op_cluster_init(self, args: dict[str, Any], user: str) -> Any:
        """Found without waiting for the listed peers."""
        if self._lifecycle.member is not None:
            return {"cluster": self._lifecycle.state.cluster, "already": True}
        self._lifecycle.force()
        return {"already": False}

    async def op_cluster_leave(self, args: dict[str, Any], user: str) -> Any:
        """End this node's membership."""
        done = await self._member().leave(user, bool(args.get("force")))
        self._lifecycle.removed(LEFT)
        return done

    async def op_cluster_remove(self, args: dict[str, Any], user: str) -> Any:
        """Remove another node for good."""
        return await self._member().remove(
            str(args.get("node") or ""), user, bool(args.get("compromised"))
        )

    async def op_identity_prepare(self, args: dict[str, Any], user: str) -> Any:
        """What a change of the identity key would do; makes the next one."""
        return await self._member().identity.prepare()

    async def op_identity_installed(self, args: dict[str, Any], user: str) -> Any:
        """Which minions hold the next one."""
        return await self._member().identity.installed([str(m) for m in args.get("minions") or ()])

    async def op_identity_forget(self, args: dict[str, Any], user: str) -> Any:
        """Give the change up."""
        return await self._member().identity.forget()

    async def op_identity_change(self, args: dict[str, Any], user: str) -> Any:
        """Change the identity key, on all members."""
        return await self._member().identity.change()

    async def op_members_approve(self, args: dict[str, Any], user: str) -> Any:
        """Let a suspended node in."""
        return await self._member().approve(str(args.get("node") or ""))

    async def op_members_rights(self, args: dict[str, Any], user: str) -> Any:
        """Say what a member may do with the roots from now on."""
        rights = _rights(args.get("rights"))
        return await self._member().set_rights(str(args.get("node") or ""), rights)


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


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
