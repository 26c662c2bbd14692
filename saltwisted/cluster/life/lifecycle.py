"""
The phases of a node: alone, waiting, joining, member, removed.

The role (L{saltwisted.roles.cluster}) builds a member from what is on disk. A node that joins,
leaves or is removed stops that service, changes the disk, and builds the service again. So there is
one way into every phase, the same after a restart as at run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted import __version__, advice
from saltwisted.cluster.life.join import (
    ASK,
    ENTER,
    IDENTITY_BOX,
    Joiner,
    Myself,
    Unfounded,
    unpack_facts,
)
from saltwisted.cluster.links.port import Closed, PeerPort
from saltwisted.domain.replica.certificates import NodeKey, issue
from saltwisted.domain.replica.founding import Answer, Found, JoinPeer, Wait, decide
from saltwisted.domain.replica.joining import file_sums, is_pinned
from saltwisted.domain.replica.tokens import Token, parse
from saltwisted.errors import DeniedError, SaltwistedError, TransportClosed, WireError
from saltwisted.interfaces import Entropy
from saltwisted.stores.facts.node import ALONE, JOINING, LEFT, MEMBER, REMOVED, NodeFiles, NodeState
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.tls import JOIN, Badge, Session
from saltwisted.wire.msgpack import unpack_bin
from saltwisted.words import counted

AGAIN = 1.0
"""Seconds between two rounds of asking the listed peers, plus as much jitter."""
CALLED_WITHIN = 8.0
"""
Seconds within which each member dials one that is away:
L{saltwisted.cluster.links.attached.MOST_DELAY}, and half as much by chance.
"""
LOOK_EVERY = 0.1
GOOD_BYE = 0.2
"""Seconds between an answer on the control socket and the end of the service behind it."""
START_TIME = 30.0
"""Seconds without progress after which the daemon counts as started although it does not serve."""
TELL_EVERY = 2.0
APPROVAL = 2.0
"""Seconds between two questions of a joiner that waits for an operator."""


@frozen(kw_only=True)
class Settings:
    """
    The cluster options of the configuration.

    @ivar node: the configured id.
    @ivar peers: C{cluster_peers}, C{host} or C{host:port}.
    @ivar addresses: where others reach this node, if it differs from the address of its outgoing
        connections.
    @ivar also: other addresses of this node, for its tokens.
    @ivar serves: where minions find this node, C{host:port}.
    @ivar hosts: the addresses in all of these.
    """

    node: str
    interface: str
    port: int
    peers: tuple[str, ...] = ()
    cluster_secret: str = field(default="", repr=False)
    pinned: str = ""
    addresses: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    serves: str = ""
    hosts: tuple[str, ...] = ()


@frozen(kw_only=True)
class MemberCard:
    """
    The data from which a member is built.

    @ivar founder: whether the cluster's first facts still have to be written.
    @ivar facts: the facts that came with the join.
    @ivar again: whether this process was this member a moment ago, and knows who was away.
    """

    state: NodeState
    badge: Badge
    founder: bool
    facts: Sequence[tuple[str, Any]]
    again: bool = False


@define
class Waiting:
    """The gate of a node without a cluster: it says so to callers that prove C{cluster_secret}."""

    unfounded: Unfounded

    def purposes(self) -> Sequence[bytes]:
        """Joins alone."""
        return (JOIN,) if self.unfounded.open() else ()

    def judge(self, purpose: bytes, key: str) -> bool:
        """Anybody may send its one record."""
        return purpose == JOIN

    def enter(self, session: Session) -> Any:
        """See L{Unfounded}."""
        return self.unfounded.reader(session)


def _outside(phase: str) -> str:
    """What is said of a node that is no longer a member."""
    how = "has left" if phase == LEFT else "was removed from"
    return f"this node {how} its cluster and serves nobody. {advice.of('cluster.outside')}"


class Lifecycle:
    """
    Brings a node into its phase, and from one to another.

    @param build: C{build(card)}: the member's service (C{startService}, C{stopService}, and for
        display C{waiting}, C{problems}, C{work}, C{progress}).
    @param local: C{local()}: this master's own identity and minions, as found on disk:
        C{{"fingerprint", "minions"}}.
    @ivar outside: whether the node has settled as one that is no member.
    @ivar advice: what a person can do about it: an id of L{saltwisted.advice}, or C{""}.
    @param fatal: ends the daemon with this error, if a member that was built again cannot start.
    @param still_starting: is told from time to time why a member that starts does not serve yet.
    @param where: this node's addresses, as its network is now: fields of L{Settings}.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        settings: Settings,
        files: NodeFiles,
        build: Callable[[MemberCard], Any],
        local: Callable[[], dict[str, Any]],
        entropy: Entropy,
        now: Callable[[], float],
        dice: Callable[[], float],
        fingerprint_of: Callable[[bytes], str],
        fatal: Callable[[BaseException], None],
        still_starting: Callable[[str], None] = lambda why: None,
        where: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.settings = settings
        self.files = files
        self.state = NodeState()
        self.waits_for: tuple[str, ...] = ()
        self.problem = ""
        self.advice = ""
        self.member: Any = None
        self._reactor = reactor
        self._build = build
        self._local = local
        self._entropy = entropy
        self._now = now
        self._dice = dice
        self._fatal = fatal
        self._still_starting = still_starting
        self._where = where
        self._fingerprint_of = fingerprint_of
        self._counters: Counter[str] = Counter()
        self._service: Any = None
        self._searching: Deferred[Any] | None = None
        self._lock = DeferredLock()
        self._running = False
        self._started = False
        self._opened = False
        self.outside = False
        self._forced = False
        self.port: PeerPort
        self.key: NodeKey

    # Start and stop

    async def startService(self) -> None:
        """
        Open the peer port and enter the phase that is on disk; returns when a member serves, or at
        once if there is something to wait for.

        @raises PortError: the port is in use.
        @raises StoreError: the node's own files cannot be read.
        """
        self._running = True
        self.files.open()
        self.state = self.files.state()
        if not self.state.node:
            self.state = evolve(self.state, node=self.settings.node)
            self.files.save(self.state)
        elif self.state.node != self.settings.node:
            self.log.warn(
                (
                    "the cluster knows this node as {node}, and it keeps that name: the option id: "
                    "{id} is ignored"
                ),
                node=self.state.node,
                id=self.settings.node,
            )
        self.key = self.files.key()
        self.port = PeerPort(
            self._reactor,
            self.settings.interface,
            self.settings.port,
            self._own_badge(),
            self._counters,
        )
        self._opened = True
        self.port.startService()
        if self.files.pending_token()[0]:
            await self._search(self._join_pending())
        elif self.state.phase == MEMBER:
            await self._serve_soon()
        elif self.state.phase in (REMOVED, LEFT):
            self.problem, self.advice = _outside(self.state.phase), "cluster.outside"
            self.log.error("{problem}", problem=self.problem)
            self.outside = True
        elif self.settings.peers:
            await self._search(self._found_or_join())
        elif self.files.begins():
            await self._found()
        else:
            await self._search(self._found_unless_known())
        self._started = True

    async def stopService(self) -> None:
        """Stop whatever runs."""
        self._running = False
        self.problem = "this node stops"
        self._stop_searching()
        if not self._opened:
            return  # the start ended before there was anything to stop
        await self._stop_member()
        await as_deferred(self.port.stopService())

    def _own_badge(self) -> Badge:
        """A certificate that this node signed itself: enough to ask, not to be a member."""
        certificate = issue(self.key, self.key.public, self.state.node, "unknown", self._now())
        return Badge(self.key, certificate)

    async def _search(self, search: Coroutine[Any, Any, None]) -> None:
        self._started = True
        self.outside = True
        self.port.gate = Waiting(
            Unfounded(
                self.state.node,
                self.key.id,
                self._reactor,
                self._now,
                self._entropy,
                self.settings.cluster_secret,
            )
        )
        self._searching = Deferred.fromCoroutine(search)
        let_go(self._searching, self.log, "the search for the cluster ended")

    def _stop_searching(self) -> None:
        searching, self._searching = self._searching, None
        if searching is not None:
            searching.cancel()

    def find_addresses(self) -> bool:
        """Determine again where this node can be reached; returns whether that has changed."""
        before, self.settings = self.settings, evolve(self.settings, **self._where())
        return self.settings != before

    # Being a member

    async def _serve(self, again: bool = False) -> None:
        self.outside = False
        self.find_addresses()
        self.problem, self.waits_for, self.advice = "", (), ""
        card = MemberCard(
            state=self.state,
            badge=self._own_badge(),
            founder=bool(self.state.more.get("founder")),
            facts=unpack_facts(self.files.facts()),
            again=again,
        )
        self.member = self._build(card)
        self._service = self.member
        try:
            await as_deferred(self._service.startService())
        except Exception as error:
            if not self._started:
                raise
            # Nobody waits for this start any more: without it the daemon is of no use
            self.log.error("the cluster member did not start: this daemon exits")
            self._fatal(error)

    async def _serve_soon(self) -> None:
        """
        Serve; the daemon counts as started when minions are served. But one that gets no further
        for long (C{serve_alone: false}, a joiner whose members are away, a root that waits for an
        operator) counts as started, too: what starts after it should not wait for that.
        """
        serving = Deferred.fromCoroutine(self._serve())
        now = self._reactor.seconds()
        end, told, progress = now + START_TIME, now, None
        while not serving.called and now < end:
            await deferLater(self._reactor, 0.02)
            now = self._reactor.seconds()
            if now < told + TELL_EVERY or self.member is None:
                continue
            told, before = now, progress
            progress = self.member.progress()
            if progress != before:
                end = now + START_TIME
            self._still_starting(self.summary())
        if serving.called:
            await serving
        else:
            let_go(serving, self.log, "the member did not start")

    def why_not(self) -> str:
        """Why this node serves nobody; empty if it does."""
        if self.member is not None and self.state.phase == MEMBER:
            return str(self.member.waiting())
        if self.waits_for:
            cause = self.problem or "this node is in no cluster yet"
            return f"{cause}: it waits for {', '.join(self.waits_for)}"
        return self.problem or "this node is in no cluster yet"

    def summary(self) -> str:
        """How the node is, for the service manager's status line."""
        why = self.why_not()
        if why:
            return f"not serving yet: {why}"
        problems = self.member.problems()
        return "; ".join(["serving, with something missing", *problems]) if problems else "serving"

    async def _stop_member(self) -> None:
        service, self._service, self.member = self._service, None, None
        self.port.gate = Closed()
        if service is not None:
            await as_deferred(service.stopService())

    async def _found(self) -> None:
        cluster = self._entropy(8).hex()
        self._save(cluster=cluster, phase=MEMBER, verified=True, more={"founder": True})
        self.log.info("{node} founds cluster {cluster}", node=self.state.node, cluster=cluster)
        await self._serve()

    def _save(self, **changes: Any) -> None:
        self.state = evolve(self.state, **changes)
        self.files.save(self.state)

    def founded(self) -> None:
        """The first facts are on disk."""
        self._save(more={**self.state.more, "founder": False})

    def verified(self) -> None:
        """A joiner has everything that the cluster knew."""
        if not self.state.verified:
            self._save(verified=True)

    def removed(self, phase: str = REMOVED) -> None:
        """Others removed this node, or it left: it no longer serves anybody."""
        if self.state.phase != MEMBER:
            return
        self._save(phase=phase)
        self.problem, self.advice = _outside(phase), "cluster.outside"
        self.log.error("{problem}", problem=self.problem)

        async def end() -> None:
            await self._stop_member()
            self.outside = True

        self._reactor.callLater(0, lambda: let_go(end(), self.log, "the shutdown was not clean"))

    def change_identity(self, private: bytes, public: bytes) -> None:
        """The cluster has another identity key: take it, and start again with it."""

        async def begin() -> None:
            await self._lock.acquire()
            try:
                if self.state.phase != MEMBER or not self._running:
                    return
                await deferLater(self._reactor, GOOD_BYE)
                self.problem = "this node starts again with another identity key"
                await self._stop_member()
                self.files.adopt_identity(private, public)
                if self._running:
                    await self._serve(again=True)
            finally:
                self._lock.release()

        let_go(Deferred.fromCoroutine(begin()), self.log, "the identity key was not changed")

    def build_anew(self, why: str) -> None:
        """What this member was built by has changed: start again."""

        async def begin() -> None:
            await self._lock.acquire()
            try:
                if self.state.phase != MEMBER or not self._running:
                    return
                self.log.warn("{why}: this node restarts its services", why=why)
                await deferLater(self._reactor, GOOD_BYE)
                self.problem = f"this node starts again: {why}"
                await self._stop_member()
                if self._running:
                    await self._serve(again=True)
            finally:
                self._lock.release()

        let_go(Deferred.fromCoroutine(begin()), self.log, "the member could not be started again")

    # Founding and joining

    async def _found_or_join(self) -> None:
        peers = [str(peer) for peer in self.settings.peers]
        told = ""
        while self._running:
            if self._forced:
                await self._found()
                return
            answers = {peer: await self._ask(peer) for peer in peers}
            step = decide(self.state.node, peers, answers)
            if isinstance(step, Found):
                await self._found()
                return
            if isinstance(step, JoinPeer):
                try:
                    await self._enter(self._joiner(None), [step.address], discard=False)
                    return
                except SaltwistedError as error:
                    step = Wait((f"{step.address}: {error}",))
            self.waits_for = step.whom
            text = ", ".join(step.whom)
            if text != told:
                told = text
                self.log.warn(
                    "not ready: waiting for {whom}. {advice}",
                    whom=text,
                    advice=advice.of("cluster.peers"),
                )
            await deferLater(self._reactor, AGAIN * (1 + self._dice()))

    async def _found_unless_known(self) -> None:
        """
        A node that has no identity is new, or has lost its disk. Of the latter the minions know
        the cluster's key, and stock ones give up for good when another one answers. Its members
        know it as well, and dial it: who is called by none is the first of a cluster.
        """
        end = self._reactor.seconds() + CALLED_WITHIN
        self.waits_for = (f"a call from a member that knows it, for {CALLED_WITHIN:.0f} s",)
        while self._running and not self._forced and self._reactor.seconds() < end:
            if self.port.taken_for_member:
                self.problem = (
                    "members of a cluster know a node at this address: this node has lost its disk"
                )
                await self._until_told("cluster.lost-disk")
                return
            await deferLater(self._reactor, LOOK_EVERY)
        if self._running:
            await self._found()

    async def _until_told(self, told: str = "cluster.unfounded") -> None:
        """
        Serve nobody before a person says what this node is to be.

        @param told: the advice to this person.
        """
        self.advice = told
        self.waits_for = (str(advice.of(told)),)
        self.log.warn("not ready: {why}", why=self.why_not())
        while self._running and not self._forced:
            await deferLater(self._reactor, AGAIN)
        if self._running:
            await self._found()

    def force(self) -> None:
        """C{cluster init}: found without waiting for anybody."""
        self._forced = True

    async def _ask(self, address: str) -> Answer:
        try:
            value = await self._joiner(None).ask(address, {"do": ASK, "node": self.state.node})
        except Myself:
            return Answer(myself=True)
        except SaltwistedError as error:
            return Answer(reason=str(error))
        return Answer(node=str(value.get("node", "")), cluster=str(value.get("cluster", "")))

    def _joiner(self, token: Token | None) -> Joiner:
        return Joiner(
            reactor=self._reactor,
            badge=self._own_badge(),
            entropy=self._entropy,
            token=token,
            cluster_secret="" if token is not None else self.settings.cluster_secret,
            pinned=self.settings.pinned,
            default_port=self.settings.port,
        )

    async def _join_pending(self) -> None:
        """A join that was asked for before the daemon ran, or that a restart interrupted."""
        while self._running:
            try:
                line, discard = self.files.pending_token()
                token = parse(line)
                if not self.waits_for:
                    self.waits_for = (f"an answer of {', '.join(token.peers)}",)
                await self._enter(self._joiner(token), token.peers, discard)
                self.files.forget_token()
                return
            except (DeniedError, WireError) as error:
                self.problem = f"the join was refused: {error}"
                self.log.error("{problem}. The token is dropped", problem=self.problem)
                self.files.forget_token()
                self.advice = "cluster.refused"
                self.waits_for = (str(advice.of("cluster.refused")),)
                if self.state.phase == ALONE:
                    await self._until_told("cluster.refused")
                return
            except SaltwistedError as error:
                self.waits_for = (str(error),)
                await deferLater(self._reactor, AGAIN * (1 + self._dice()))

    async def preview(self, token: Token) -> dict[str, Any]:
        """
        What a join by this token would do; changes nothing.

        @raises SaltwistedError: nobody can be reached, or the token is refused.
        """
        joiner, problem = self._joiner(token), "the token names no peers"
        for address in token.peers:
            try:
                value = await joiner.ask(
                    address,
                    {"do": ASK, "node": self.state.node, "port": self.port.port, "dry": True},
                )
            except Myself:
                problem = f"{address} is this node itself"
                continue
            except TransportClosed as error:
                problem = f"{address}: {error}"
                continue
            own = self._local()
            same = own["fingerprint"] in ("", value.get("fingerprint"))
            return {
                "cluster": value.get("cluster"),
                "members": value.get("members"),
                "refused": value.get("refused", ""),
                "minions": value.get("minions"),
                "identity": value.get("fingerprint"),
                "own_identity": own["fingerprint"],
                "identity_changes": not same,
                "own_minions": own["minions"],
                "cut_off": 0 if same else own["minions"],
            }
        raise TransportClosed(problem)

    async def join(self, line: str, discard: bool) -> dict[str, Any]:
        """
        Join another cluster now; this node's own (of one) ends.

        @raises DeniedError: this node is a member among others, the token is invalid, or minions
            would be cut off.
        """
        await self._lock.acquire()
        try:
            token = parse(line)
            if self.state.phase == MEMBER and self.state.cluster == token.cluster:
                return {"joined": self.state.cluster, "already": True}
            if self.state.phase == MEMBER and self.member is not None and self.member.others():
                raise DeniedError(
                    f"this node already belongs to cluster {self.state.cluster} with "
                    f"{', '.join(self.member.others())}. {advice.of('cluster.other')}"
                )
            self._stop_searching()
            self.files.keep_token(line, discard)
            admitted: Deferred[dict[str, Any]] = Deferred()
            # On its own: the control connection that asked ends with the service it belongs to
            let_go(self._join_now(token, discard, admitted), self.log, "the join failed")
            return await admitted
        finally:
            self._lock.release()

    async def _join_now(
        self, token: Token, discard: bool, admitted: Deferred[dict[str, Any]]
    ) -> None:
        try:
            await self._enter(self._joiner(token), token.peers, discard, admitted.callback)
        except SaltwistedError as error:
            self.files.forget_token()
            if admitted.called:
                raise
            admitted.errback(error)
            if self.state.phase == ALONE and self._running:
                peers = self.settings.peers
                await self._search(self._found_or_join() if peers else self._until_told())
        else:
            self.files.forget_token()

    async def _enter(
        self,
        joiner: Joiner,
        peers: Sequence[str],
        discard: bool,
        admitted: Callable[[dict[str, Any]], None] = lambda value: None,
    ) -> None:
        """
        Ask one member after another to be admitted, and become a member.

        @param admitted: called once: when a member has let us in, a moment before this node's
            service is stopped to be built again, or when it is known that an operator has
            to approve first.
        @raises DeniedError: refused, with the reason.
        @raises TransportClosed: nobody answered.
        """
        if self.state.phase in (REMOVED, LEFT):
            self.key = self.files.key(new=True)
            joiner.badge = self._own_badge()
        problems: list[str] = []
        for address in peers:
            try:
                value = await joiner.ask(address, {"do": ASK, "node": self.state.node})
                self._check_identity(value, discard)
                value, waited = await self._admitted(joiner, address, admitted)
            except Myself:
                problems.append(f"{address} is this node itself")
                continue
            except TransportClosed as error:
                problems.append(f"{address}: {error}")
                continue
            identity = self._checked(value)
            if not waited:
                admitted({"joined": value["cluster"], "by": value.get("node"), "already": False})
            await deferLater(self._reactor, GOOD_BYE)
            await self._adopt(value, *identity)
            return
        raise TransportClosed("; ".join(problems) or "the token names no peers")

    def _check_identity(self, value: Mapping[str, Any], discard: bool) -> None:
        own = self._local()
        differs = own["fingerprint"] not in ("", value.get("fingerprint"))
        if differs and own["minions"] and not discard:
            raise DeniedError(
                "this master has another identity key than the cluster. Joining would cut off "
                f"{counted(int(own['minions']), 'accepted minion')}, since stock minions never "
                "take another master key by themselves. --discard-identity joins anyway"
            )

    async def _admitted(
        self, joiner: Joiner, address: str, told_to: Callable[[dict[str, Any]], None]
    ) -> tuple[dict[str, Any], bool]:
        """The answer that admits, and whether an operator had to approve."""
        fields = {
            "do": ENTER,
            "node": self.state.node,
            "port": self.port.port,
            "addresses": list(self.settings.addresses),
            "version": __version__,
        }
        told = False
        while True:
            value = await joiner.ask(address, fields)
            if value.get("refused"):
                raise DeniedError(str(value["refused"]))
            if not value.get("suspended"):
                return value, told
            self.waits_for = (str(advice.of("member.approve", node=self.state.node)),)
            if not told:
                told = True
                self.log.warn("waiting for {whom}", whom=self.waits_for[0])
                told_to({"joined": value["cluster"], "waits": self.waits_for[0], "already": False})
            await deferLater(self._reactor, APPROVAL)

    def _checked(self, value: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """
        The identity key pair in an answer.

        @raises DeniedError: the answer is not what it ought to be; nothing has changed.
        """
        try:
            private, public = unpack_bin(self.key.open(value["identity"], IDENTITY_BOX))
            unpack_facts(value["facts"])
            value["cluster"].encode()
        except (WireError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeniedError(f"the answer to the join cannot be used: {error}") from error
        fingerprint = self._fingerprint_of(public)
        pinned = self.settings.pinned
        if fingerprint != value.get("fingerprint") or (
            pinned and not is_pinned(pinned, fingerprint, file_sums(public))
        ):
            raise DeniedError("the identity key in the answer is not the expected one")
        return private, public

    async def _adopt(self, value: Mapping[str, Any], private: bytes, public: bytes) -> None:
        """Become what the answer says: accepted once, in this state alone (T-PEER-2)."""
        cluster = str(value["cluster"])
        self.problem = f"this node starts again as a member of cluster {cluster}"
        await self._stop_member()
        self._save(phase=JOINING)
        self.files.keep_facts(value["facts"])
        self.files.forget_log()
        self.files.adopt_identity(private, public)
        self._save(cluster=cluster, phase=MEMBER, verified=False, more={})
        self.log.info(
            "{node} has joined cluster {cluster} with {by}",
            node=self.state.node,
            cluster=cluster,
            by=value.get("node"),
        )
        if self._running:
            self.port.wear(self._own_badge())
            # Callers that wait for the join do not wait until all is caught up
            let_go(self._serve(), self.log, "the member did not start")
