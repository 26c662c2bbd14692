"""
A node as a member: what it writes first, which nodes it admits, and what follows from a removal.

It joins the folds of membership, tokens and secrets to the port, the links and the
node's own files. Keys, jobs and roots are replicated beside it, over the same links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.protocol import Protocol
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.protocols.amp import COMMAND, Box

from saltwisted import __version__
from saltwisted.cluster.facts.identity import IdentityChange
from saltwisted.cluster.life.join import CLAIM, Admission, pack_facts
from saltwisted.cluster.life.lifecycle import Lifecycle, MemberCard
from saltwisted.cluster.links.commands import Tell
from saltwisted.cluster.links.peers import Peers
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.replica.keyset import KIND as KEYS
from saltwisted.domain.replica.keyset import finger_of
from saltwisted.domain.replica.membership import (
    MEMBER,
    SUSPENDED,
    Member,
    Membership,
)
from saltwisted.domain.replica.secrets import (
    AUTHORITY,
    PUBLISH,
    SESSION,
    Secrets,
    ban_body,
)
from saltwisted.domain.replica.tokens import MINION, Tokens, minion_use
from saltwisted.errors import DeniedError, SaltwistedError, StoreError
from saltwisted.interfaces import Entropy
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.ticks import start_on_ticks
from saltwisted.transports.tls import AMP, BULK, JOIN, Badge, Session
from saltwisted.wire.commands import Auth
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.msgpack import pack_bin, unpack_bin
from saltwisted.wire.rsa import fingerprint
from saltwisted.wire.sessionkey import SECRET_BYTES

STATUS, FAREWELL = "status", "farewell"
STATUS_TIME = 1.5
KEEP_FACTS = 1.0
"""Seconds after which a change of membership is also kept beside the log."""
OWN_LAG = {"keys": 0, "returns": 0}
TICK = 30
ASK_AGAIN = 600.0
"""Seconds in which a node that was admitted may fetch its answer again, if it never got it."""
CLOSED = "this node leaves its cluster, and no member takes a change from it any more: use another"


class Farewell(Protocol):
    """
    Tells a removed node that it is removed, and reads nothing from it.

    It was away when that happened, and would serve its minions on for ever.
    """

    def connectionMade(self) -> None:
        """Say it, and hang up."""
        transport: Any = self.transport
        box = {b"word": FAREWELL.encode(), b"body": b"", b"bulk": b"0"}
        transport.write(Box({COMMAND: Tell.commandName, **box}).serialize())
        transport.loseConnection()


@define(kw_only=True)
class ClusterMember:
    """
    One member, from its log being open to its end.

    @ivar append: C{append(kind, body)} of the fact log.
    @ivar settled: C{settled(nodes)}: fires with the nodes that have not confirmed what this node
        has appended so far, at the latest after some seconds.
    @ivar unwritten: C{unwritten()}: why this node's disk does not take what is appended, or C{""}.
    @ivar status: C{status()}: what this node says of itself: plain data.
    @ivar lags: C{lags(node)}: C{keys}, C{returns}: entries that a member has yet to have; C{None}
        where that is not known.
    @ivar holders: minion to the node that has it, each minion once, also one with several masters.
    @ivar set_slot: C{set_slot(slot)}: the last digits of new jids.
    @ivar in_thread: C{in_thread(f)}: a call that blocks, whose result nobody wants.
    @ivar is_revoked: whether a revocation of a minion's key is known, by id and fingerprint.
    @ivar end_sessions: called when session secrets are refused that counted until now.
    @ivar drain: sends minions elsewhere, and waits for some seconds until those that run a job
        have returned and others have all jobs and returns; how many entries they have not, and
        who has not returned.
    @ivar deny_minion: the act that denies an accepted key, by minion id and the beginning of its
        fingerprint; C{None} when an operator has decided about it.
    @ivar rights: what this node was built to do with the roots.
    @ivar closed: why nothing more is appended, once the others are told that this node leaves.
    """

    reactor: Any
    card: MemberCard
    lifecycle: Lifecycle
    membership: Membership
    tokens: Tokens
    secrets: Secrets
    peers: Peers
    admission: Admission
    identity: IdentityChange
    append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    listen: Callable[[str, Callable[[Sequence[Any]], None]], None]
    settled: Callable[[], Awaitable[Sequence[str]]]
    unwritten: Callable[[], str]
    status: Callable[[], dict[str, Any]]
    lags: Callable[[str], dict[str, Any]]
    holders: Callable[[], Awaitable[Mapping[str, str]]]
    set_slot: Callable[[int], None]
    fire: Callable[[str, dict[str, Any]], None]
    in_thread: Callable[[Callable[[], Any]], None]
    is_revoked: Callable[[str, str], bool]
    end_sessions: Callable[[], None]
    drain: Callable[[], Awaitable[tuple[int, list[str]]]]
    deny_minion: Callable[[str, str], Mapping[str, Any] | None]
    session_period: float
    rights: tuple[str, ...]
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    log: Logger = field(factory=Logger)
    _keeping: Any = None
    _ticker: Any = None
    _running: bool = False
    _floor: int = 0
    _leaving: bool = False
    closed: str = ""
    _removed: set[str] = field(factory=set)

    # Service

    async def startService(self) -> None:
        """The log is open: write what is missing in it, open the gate, and dial."""
        self._running = True
        self._floor = self.secrets.floor(SESSION)
        self.peers.answer(CLAIM, self.admission.claimed)
        self.peers.answer(STATUS, lambda node, body: pack_bin(self.status()))
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
        self._wear()
        self.identity.follow()
        self.lifecycle.port.gate = self
        self.peers.startService()
        self._ticker = LoopingCall(self._tick)
        self._ticker.clock = self.reactor
        let_go(start_on_ticks(self._ticker, TICK), self.log, "secrets are no longer renewed")

    def stopService(self) -> None:
        """Close the links."""
        self._running = False
        if self._ticker is not None and self._ticker.running:
            self._ticker.stop()
        if self._keeping is not None and self._keeping.active():
            self._keeping.cancel()
            self._keep(as_now=True)
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

    # The gate of the peer port

    def purposes(self) -> Sequence[bytes]:
        """Joins only while there is something to join by."""
        if self.admission.open() or self._is_awaited():
            return (AMP, BULK, JOIN)
        return (AMP, BULK)

    def _is_awaited(self) -> bool:
        """Whether somebody was admitted, and may have to ask again before it can link."""
        linked = {link.session.key for link in self.peers.links()}
        newest = (self.now() - ASK_AGAIN) * 1000
        return any(
            member.key != self.key
            and member.key not in linked
            and member.added is not None
            and (member.wait or member.added[0] >> 16 > newest)
            for member in self.membership.live()
        )

    def judge(self, purpose: bytes, key: str) -> bool:
        """Members for links; anybody for the one record of a join."""
        known = self.membership.find(key)
        if purpose == AMP and known is not None and known.removed is not None:
            return True  # to be told so, and nothing else: see enter
        if purpose == JOIN:
            return self.admission.open() or (known is not None and known.removed is None)
        return self.peers.judge(purpose, key)

    def enter(self, session: Session) -> Any:
        """The protocol for an admitted peer."""
        if session.purpose == JOIN:
            return self.admission.reader(session)
        if not self.peers.judge(session.purpose, session.key):
            return Farewell()
        return self.peers.enter(session)

    # The first facts, and those about this node

    async def _found(self) -> None:
        now = self.now()
        if self.secrets.current(AUTHORITY) is None:
            await self.append(
                "secret", self.secrets.next_body(AUTHORITY, NodeKey.generate().pem, now)
            )
        if self.secrets.current(SESSION) is None:
            value = self.entropy(SECRET_BYTES)
            await self.append("secret", self.secrets.next_body(SESSION, value, now))
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
        """Tell the others where this node is, if they do not know yet."""
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

    def _wear(self) -> None:
        """Show a certificate of the current authority."""
        authority = self.secrets.current(AUTHORITY)
        if authority is None:
            return
        try:
            issuer = NodeKey.from_pem(authority.value)
            cluster, node, now = self.card.state.cluster, self.card.state.node, self.now()
            own = self.card.badge.key
            badge = Badge(
                own,
                issue(issuer, own.public, node, cluster, now),
                issue(issuer, issuer.public, cluster, cluster, now, is_ca=True),
            )
        except SaltwistedError:
            self.log.failure("the authority's key is of no use")
            return
        self.lifecycle.port.wear(badge)
        self.peers.wear(badge)

    @property
    def pin(self) -> str:
        """What a token pins: the authority's key."""
        authority = self.secrets.current(AUTHORITY)
        return NodeKey.from_pem(authority.value).id if authority is not None else ""

    @property
    def identity_pin(self) -> str:
        """What a token for minions pins: the masters' key."""
        return fingerprint(self.admission.identity()[1], "sha256").replace(":", "")

    # Changes, wherever they come from

    def _members_changed(self, changes: Sequence[Any]) -> None:
        if not self._running:
            return
        self._keep_soon()
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
            if not self._leaving:
                self.lifecycle.removed()
        elif own is not None and self.membership.must_change_slot(self.key):
            let_go(self.say_about(), self.log, "no new slot")

    def _follow_rights(self) -> None:
        """Which roots are here, and whose changes count, is decided when a member is built."""
        own = self.own
        if own is None or own.rights == self.rights or own.removed is not None:
            return
        self.rights = own.rights
        if self._keeping is not None and self._keeping.active():
            self._keeping.cancel()
        self._keep(as_now=True)
        self.lifecycle.build_anew(f"its rights are {', '.join(own.rights)} now")

    def _secrets_changed(self) -> None:
        if self._running:
            floor = self.secrets.floor(SESSION)
            if floor > self._floor:
                self._floor = floor
                self.end_sessions()
            self._keep_soon()
            self._wear()
            self.identity.follow()

    def _tokens_changed(self) -> None:
        if not self._running:
            return
        self._keep_soon()
        for _, key in self.tokens.overused():
            member = self.membership.find(key)
            if member is not None and member.state == MEMBER and member.approved is None:
                self.log.error(
                    "{node} joined with a token that had been used up elsewhere: it is "
                    "suspended until 'saltwisted members approve {node}'",
                    node=member.node,
                )
                d = as_deferred(self.append("member", {"op": "suspend", "key": key}))
                let_go(d, self.log, "no suspension")
        self._deny_overused()

    def _deny_overused(self) -> None:
        """A minion's acceptance may come after the use of the token by which it came."""
        for token_id, use in self.tokens.overused(MINION):
            start, _, minion_id = use.partition("/")
            act = self.deny_minion(minion_id, start)
            if act is not None:
                self.log.error(
                    "{minion} was accepted by token {id}, which had been used up elsewhere: "
                    "its key is denied until somebody accepts it",
                    minion=minion_id,
                    id=token_id[:12],
                )
                let_go(as_deferred(self.append(KEYS, act)), self.log, "no denial")

    def _keep_soon(self) -> None:
        if self._keeping is None or not self._keeping.active():
            self._keeping = self.reactor.callLater(KEEP_FACTS, self._keep)

    def _keep(self, as_now: bool = False) -> None:
        """Beside the log, so that a node whose log is lost still knows its cluster."""
        data = pack_facts(self.membership, self.secrets, self.tokens)

        def write() -> None:
            try:
                self.lifecycle.files.keep_facts(data)
            except SaltwistedError as error:
                self.log.error("the membership cannot be kept: {error}", error=error)

        if as_now:
            write()
        else:
            self.in_thread(write)

    def pre_accepted(self, auth: Auth) -> bool:
        """
        Whether a minion has shown a token that lets it in, or one for its id is live; uses it once.

        The use is counted here at once, and on the other members when it has reached them.
        """
        tokens, now = self.tokens, self.now()
        finger = finger_of(auth.pub.encode("utf-8", "surrogateescape"))
        token_id = ""
        if len(auth.join) == 2:
            shown, mac = (str(each)[:64] for each in auth.join)
            if tokens.proven_by_minion(shown, mac, auth.id, auth.pub, auth.nonce, finger, now):
                token_id = shown
            elif shown in tokens.registers:
                # Of an unknown one nothing is said: strangers could fill the log
                self.log.warn(
                    "{minion} shows a token that does not let it in: {why}",
                    minion=auth.id,
                    why=tokens.why_not(shown, now)
                    or ("it is for other ids, or its secret was not proven"),
                )
        token_id = token_id or tokens.for_minion(auth.id, finger, now)
        if not token_id:
            return False
        use = minion_use(auth.id, finger)
        if use in tokens.registers[token_id].used:
            # Accepted once by it; if somebody has revoked the key since, that holds
            return not self.is_revoked(auth.id, finger)
        body = {"op": "use", "id": token_id, "key": use}
        let_go(as_deferred(self.append("token", body)), self.log, "a token's use was not kept")
        self.log.info("{minion} is accepted by token {id}", minion=auth.id, id=token_id[:12])
        return True

    # Secrets

    def _tick(self) -> None:
        """One node, the lowest of those that see each other, makes new versions in time."""
        self._deny_overused()
        current = self.secrets.current(SESSION)
        linked = [link.node for link in self.peers.links()]
        lowest = all(self.card.state.node < node for node in linked)
        age = self.now() - current.born if current is not None else self.session_period
        if lowest and not -self.session_period < age < self.session_period:
            body = self.secrets.next_body(SESSION, self.entropy(SECRET_BYTES), self.now())
            let_go(as_deferred(self.append("secret", body)), self.log, "no new session secret")

    async def renew_secrets(self) -> None:
        """All secrets again; the versions before are refused at once. After a removal."""
        now = self.now()
        publish = SessionKey.generate(self.entropy).text.encode()
        for what, value in (
            (AUTHORITY, NodeKey.generate().pem),
            (SESSION, self.entropy(SECRET_BYTES)),
            (PUBLISH, publish),
        ):
            await self.append("secret", self.secrets.next_body(what, value, now, refuse_old=True))

    # What operators ask

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

    def _bidden_farewell(self, node: str, body: bytes) -> None:
        """
        A member says that we were removed: the fact itself comes over no link any more. Any member
        may say so, and could remove us as well; so it is named.
        """
        self.log.error("{node} says that this node was removed from the cluster", node=node)
        self.lifecycle.removed()

    async def remove(self, name: str, by: str, compromised: bool) -> dict[str, Any]:
        """
        Remove a node for good: its link, its tokens and every secret that it holds end.

        @raises DeniedError: no such member, or it is this node.
        """
        member = self.find(name)
        if member.key == self.key:
            raise DeniedError(
                f"this node is {name}: use 'saltwisted leave' here, or remove it on another member"
            )
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
        await self.renew_secrets()
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
        End this node's membership; the others go on without it.

        @param force: also when nobody can be told, and what is here alone stays behind.
        @raises DeniedError: there is nobody to leave, or to tell.
        """
        if not self.others():
            raise DeniedError("this node is the only member: there is nothing to leave")
        if not force and not self.peers.links():
            raise DeniedError(
                "no other member can be reached: nobody would take over what is only here, or "
                f"learn that this node leaves. Start {' or '.join(self.others())} first, or "
                "leave anyway with --force"
            )
        self._leaving = True
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
            self.log.warn("no other member could be told that this node leaves")
        return {
            "left": self.card.state.cluster,
            "unreached": unreached,
            "minions": minions,
            "alone": alone,
            "late": not_returned,
        }

    async def approve(self, name: str) -> dict[str, Any]:
        """
        Let a suspended node in.

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
        What a member may do with the roots from now on; who sends and who takes go by it.

        @raises DeniedError: no such member, or nobody could write any more.
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
