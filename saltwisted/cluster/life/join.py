"""
Joining: the member that admits, and the node that asks.

L{saltwisted.domain.replica.joining} has the rules of the record, and
L{saltwisted.domain.replica.tokens} those of tokens. This module connects them to sockets, the log
and the other members: a use of a token is on disk here and known to every reachable member before
anybody is admitted by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted import __version__, advice
from saltwisted.cluster.links.peers import CONNECT_TIME, join_address, split_address
from saltwisted.domain.keys import valid_minion_id
from saltwisted.domain.replica.certificates import NodeKey, host_name, issue, seal
from saltwisted.domain.replica.fold import Fact, Registers, decode_fact, encode_fact
from saltwisted.domain.replica.joining import (
    BY_SECRET,
    MAX_REPLY,
    NONCE_BYTES,
    RECORD_BYTES,
    REPLY_HEAD,
    Attempts,
    Channel,
    Record,
    file_sums,
    is_pinned,
    make_record,
    make_reply,
    open_reply,
    secret_key,
    split_record,
)
from saltwisted.domain.replica.membership import MEMBER, RIGHTS, SUSPENDED, Membership
from saltwisted.domain.replica.secrets import AUTHORITY, Secrets
from saltwisted.domain.replica.tokens import MASTER, Token, Tokens
from saltwisted.doors import PEER_JOIN, PEER_STRANGER
from saltwisted.errors import DeniedError, SaltwistedError, TransportClosed, WireError
from saltwisted.interfaces import Entropy
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.tls import JOIN, Badge, Dialler, Doorway, Session
from saltwisted.wire.msgpack import pack_bin, unpack_bin

RECORD_TIME = PEER_STRANGER.holds
"""Seconds that a stranger has for its record."""
REPLY_TIME = PEER_JOIN.holds
CLAIM_TIME = 2.0
"""Seconds that another member has to say what it knows of a token."""
CLAIM = "token.claim"
IDENTITY_BOX = b"identity"
ASK, ENTER, COMPARE = "ask", "join", "compare"


def pack_facts(*folds: Registers[Any]) -> bytes:
    """
    The facts that a joining node must know before its first link, and that a node keeps beside its
    log.
    """
    rows = [[fold.kind, encode_fact(fact)] for fold in folds for fact in fold.dump()]
    return pack_bin(rows)


def unpack_facts(data: bytes) -> list[tuple[str, Fact]]:
    """
    The reverse.

    @raises WireError: anything else.
    """
    rows = unpack_bin(data) if data else []
    try:
        return [(str(kind), decode_fact(row)) for kind, row in rows]
    except (TypeError, ValueError) as error:
        raise WireError("facts of a join") from error


class RecordReader(Protocol):
    """
    The accepting side: reads one record and not one byte more, answers, and closes the connection.

    @param answer: C{answer(record, channel, session)}: a coroutine of the reply's bytes, or C{b""}
        for no reply.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        own_key: str,
        session: Session,
        answer: Callable[[Record, Channel, Session], Awaitable[bytes]],
    ) -> None:
        self._clock = clock
        self._session = session
        self._channel = Channel(session.exporter("join"), session.key, own_key)
        self._answer = answer
        self._buffer = b""
        self._done = False
        self._timer: Any = None

    def connectionMade(self) -> None:
        """A stranger has some seconds."""
        self._timer = self._clock.callLater(RECORD_TIME, self._hang_up)

    def _hang_up(self) -> None:
        self._done = True
        self.transport.abortConnection()  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        """One record; anything else closes."""
        if self._done:
            return
        if len(self._buffer) + len(data) > RECORD_BYTES:
            self._hang_up()
            return
        self._buffer += data
        if len(self._buffer) == RECORD_BYTES:
            self._done = True
            let_go(self._serve(self._buffer), self.log, "a join failed")

    async def _serve(self, data: bytes) -> None:
        transport: Any = self.transport
        try:
            reply = await self._answer(split_record(data), self._channel, self._session)
        except WireError:
            reply = b""
        if not reply:
            transport.abortConnection()
            return
        transport.write(reply)
        transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Gone."""
        self._done = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()


@define(kw_only=True)
class Admission:
    """
    How a member admits others.

    @ivar key: this node's key id.
    @ivar log_append: C{append(kind, body)} of the fact log.
    @ivar identity: C{identity()}: the cluster's key pair, C{(private, public)} PEM.
    @ivar fingerprint: the fingerprint of that public key, as C{salt-key -F} shows it.
    @ivar minions: C{minions()}: how many accepted keys there are.
    @ivar cluster_secret: the option; C{""} for none.
    @ivar alarm: C{alarm(tag, data)}: an event for operators.
    @ivar ask_peers: C{ask_peers(word, body, seconds)}: the answers of all linked members.
    @ivar census: C{census()}: the census of this node (L{saltwisted.cluster.links.census}).
    @ivar is_linked: C{is_linked(node)}: whether a member runs, as far as this node can see.
    @ivar closed: why nobody is admitted here any more: the other members might never hear of a node
        that is admitted just before this node leaves.
    """

    node: str
    cluster: str
    key: str
    clock: Any
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    membership: Membership
    tokens: Tokens
    secrets: Secrets
    log_append: Callable[[str, Mapping[str, Any]], Awaitable[Any]]
    identity: Callable[[], tuple[bytes, bytes]] = field(repr=False)
    fingerprint: Callable[[], str]
    minions: Callable[[], int]
    cluster_secret: str = field(repr=False)
    alarm: Callable[[str, dict[str, Any]], None]
    ask_peers: Callable[[str, bytes, float], Awaitable[Sequence[bytes]]]
    census: Callable[[], Awaitable[Mapping[str, Any]]]
    attempts: Attempts = field(factory=Attempts)
    closed: str = ""
    is_linked: Callable[[str], bool] = lambda node: False
    log: Logger = field(factory=Logger)
    _lock: DeferredLock = field(factory=DeferredLock)
    _claims: dict[str, set[str]] = field(factory=dict)

    def open(self) -> bool:
        """Whether anybody could join now: only then is the purpose offered at all."""
        return self._secret_is_live() or self.tokens.any_live(self.now())

    def _secret_is_live(self) -> bool:
        return bool(self.cluster_secret) and not self.secrets.is_banned(self.cluster_secret)

    def may_try(self, source: str) -> bool:
        """Whether this address may still try (T-PEER-4)."""
        return self.attempts.allowed(source, self.now())

    def reader(self, session: Session) -> RecordReader | None:
        """The protocol for a node that wants to join."""
        if not self.may_try(session.address):
            return None
        return RecordReader(self.clock, self.key, session, self.answer)

    def _secret_of(self, record: Record) -> bytes | None:
        if record.token_id == BY_SECRET:
            return secret_key(self.cluster_secret) if self._secret_is_live() else None
        known = self.tokens.registers.get(record.token_id.hex())
        if known is None or known.created is None or known.role != MASTER:
            return None
        return known.secret

    async def answer(self, record: Record, channel: Channel, session: Session) -> bytes:
        """The reply to a record; nothing at all to one whose proof is wrong."""
        secret = self._secret_of(record)
        proven = record.proven(channel, secret or self.entropy(16))
        if secret is None or not proven:
            self._wrong(session)
            return b""
        fields = record.fields()
        value = self._about()
        try:
            if fields.get("do") == ENTER:
                await self._lock.acquire()
                try:
                    value.update(await self._enter(record, fields, session))
                finally:
                    self._lock.release()
            elif fields.get("do") == COMPARE:
                value["census"] = await self._compared(record)
            elif fields.get("dry") and self.membership.find(session.key) is None:
                self._judge(record, fields)
        except DeniedError as error:
            value["refused"] = str(error)
            self.log.warn(
                "join of {node!r} from {source} refused: {why}",
                node=str(fields.get("node"))[:200],
                source=session.address,
                why=str(error),
            )
        return make_reply(channel, secret, record.nonce, value)

    async def _compared(self, record: Record) -> Mapping[str, Any]:
        """
        What this cluster has, for one who could have it by joining.

        @raises DeniedError: an operator has to approve the nodes that come with this token.
        """
        known = self.tokens.registers.get(record.token_id.hex())
        reason = self.tokens.why_not(record.token_id.hex(), self.now())
        if known is None or known.wait or reason:
            raise DeniedError(
                f"the token is {reason}"
                if reason
                else "the cluster does not show what it has before an operator approves"
            )
        return await self.census()

    def _wrong(self, session: Session) -> None:
        self.log.warn("a join from {source} did not prove its secret", source=session.address)
        if self.attempts.failed(session.address, self.now()):
            self.log.error(
                "joins are closed for a minute: too many wrong secrets, the last from {source}",
                source=session.address,
            )
            self.alarm("salt/cluster/join_attack", {"source": session.address, "node": self.node})

    def _about(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "cluster": self.cluster,
            "fingerprint": self.fingerprint(),
            "sums": file_sums(self.identity()[1]),
            "minions": self.minions(),
            "members": [member.node for member in self.membership.live()],
            "version": __version__,
        }

    async def _enter(
        self, record: Record, fields: Mapping[str, Any], session: Session
    ) -> dict[str, Any]:
        """
        Admit a proven joiner.

        @raises DeniedError: why not.
        """
        node = str(fields.get("node"))
        known = self.membership.find(session.key)
        if known is not None and known.added is not None:
            if known.state == MEMBER:
                return self._welcome(session, node)
            if known.state == SUSPENDED:
                return {"suspended": True}
            raise DeniedError(
                "this node was removed with this key, which is final: join as a new node"
            )
        slot = self._judge(record, fields)
        by_token = record.token_id != BY_SECRET
        wait = False
        if by_token:
            wait = await self._use(record.token_id.hex(), session.key)
        addresses = [join_address(session.address, fields["port"])]
        for given in fields.get("addresses") or ():
            if isinstance(given, str) and len(given) < 255 and given not in addresses:
                addresses.insert(0, given)
        body = {
            "op": "add",
            "key": session.key,
            "node": node,
            "public": session.public.hex(),
            "by": self.node,
            "token": record.token_id.hex() if by_token else "cluster_secret",
            "wait": wait,
            "about": {
                "addresses": addresses[:8],
                "slot": slot,
                "version": str(fields.get("version", ""))[:64],
            },
        }
        if by_token:
            rights = self.tokens.registers[record.token_id.hex()].rights
            if rights != RIGHTS:
                body["rights"] = list(rights)
        await self.log_append("member", body)
        self.log.info(
            "{node} at {address} has joined with {token}{wait}",
            node=node,
            address=addresses[0],
            token=body["token"],
            wait=" and waits for approval" if wait else "",
        )
        self.alarm(
            "salt/cluster/join",
            {"node": node, "address": addresses[0], "by": body["token"], "waits": wait},
        )
        return {"suspended": True} if wait else self._welcome(session, node)

    def _judge(self, record: Record, fields: Mapping[str, Any]) -> int:
        """
        Whether a proven stranger could come in now; changes nothing.

        @return: its slot.
        @raises DeniedError: why not.
        """
        node, port = fields.get("node"), fields.get("port")
        if self.closed:
            raise DeniedError(self.closed)
        if not isinstance(node, str) or not valid_minion_id(node):
            raise DeniedError("the node's id is not valid")
        if not isinstance(port, int) or not 0 < port < 65536:
            raise DeniedError("the node does not name a port")
        if any(True for _ in self.membership.named(node)):
            alive = node == self.node or self.is_linked(node)
            row = "cluster.alive" if alive else "cluster.known"
            raise DeniedError(str(advice.of(row, node=node)))
        slot = self.membership.free_slot()
        if slot < 0:
            raise DeniedError("the cluster is full: it has 100 nodes")
        if record.token_id == BY_SECRET:
            return slot
        token_id = record.token_id.hex()
        pattern = self.tokens.registers[token_id].pattern
        if pattern and not fnmatchcase(node, pattern):
            raise DeniedError(f"the token is for nodes named {pattern}")
        reason = self.tokens.why_not(token_id, self.now())
        if reason:
            raise DeniedError(f"the token is {reason}")
        return slot

    async def _use(self, token_id: str, key: str) -> bool:
        """
        Use a token once, known to all reachable members.

        @return: whether its terms ask for an operator's approval.
        @raises DeniedError: it is not valid any more, or somebody else was quicker.
        """
        reason = self.tokens.why_not(token_id, self.now())
        others = self._claims.get(token_id, set()) - {key}
        known = self.tokens.registers[token_id]
        if not reason and len(others | set(known.used)) >= known.uses:
            reason = "used up"
        if reason:
            raise DeniedError(f"the token is {reason}")
        await self.log_append("token", {"op": "use", "id": token_id, "key": key})
        place = self.tokens.registers[token_id].used[key]
        claim = pack_bin([token_id, key])
        answers = await self.ask_peers(CLAIM, claim, CLAIM_TIME)
        ahead = {
            other
            for other, when in self.tokens.registers[token_id].used.items()
            if other != key and (when, other) < (place, key)
        }
        for answer in answers:
            for other, stamp, origin in unpack_bin(answer):
                if other != key and ((stamp, tuple(origin)), other) < (place, key):
                    ahead.add(other)
        if len(ahead) >= known.uses:
            raise DeniedError("the token is used up: another node was faster")
        return known.wait

    def claimed(self, node: str, body: bytes) -> bytes:
        """Another member is about to use a token: say who used it here, and remember."""
        try:
            token_id, key = unpack_bin(body)
        except (TypeError, ValueError):
            raise WireError(CLAIM) from None
        known = self.tokens.registers.get(str(token_id))
        self._claims.setdefault(str(token_id), set()).add(str(key))
        used = known.used if known is not None else {}
        return pack_bin([[other, when[0], list(when[1])] for other, when in used.items()])

    def _welcome(self, session: Session, node: str) -> dict[str, Any]:
        authority = self.secrets.current(AUTHORITY)
        if authority is None:
            raise DeniedError(
                "this member does not have the key of the cluster's certificate authority yet"
            )
        private, public = self.identity()
        certificate = issue(
            NodeKey.from_pem(authority.value), session.public, node, self.cluster, self.now()
        )
        return {
            "certificate": certificate,
            "facts": pack_facts(self.membership, self.secrets, self.tokens),
            "identity": seal(pack_bin([private, public]), session.public, IDENTITY_BOX),
        }


@define
class Unfounded:
    """How a node without a cluster answers those who prove C{cluster_secret}: it has none."""

    node: str
    key: str
    clock: Any
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    cluster_secret: str = field(repr=False)
    attempts: Attempts = field(factory=Attempts)

    def open(self) -> bool:
        """With a C{cluster_secret} alone."""
        return bool(self.cluster_secret)

    def reader(self, session: Session) -> RecordReader | None:
        """The protocol for a node that asks."""
        if not self.attempts.allowed(session.address, self.now()):
            return None
        return RecordReader(self.clock, self.key, session, self.answer)

    async def answer(self, record: Record, channel: Channel, session: Session) -> bytes:
        """Our id, and no cluster."""
        secret = secret_key(self.cluster_secret)
        if not record.proven(channel, secret) or record.token_id != BY_SECRET:
            self.attempts.failed(session.address, self.now())
            return b""
        value = {"node": self.node, "cluster": "", "version": __version__}
        return make_reply(channel, secret, record.nonce, value)


# The asking side


class Myself(SaltwistedError):
    """The address belongs to this node."""


class _Asker(Protocol):
    """Sends the record and takes the one answer."""

    def __init__(self, record: bytes, done: Deferred[tuple[bytes, bytes]]) -> None:
        self._record = record
        self._done: Deferred[tuple[bytes, bytes]] | None = done
        self._buffer = bytearray()

    def connectionMade(self) -> None:
        """Send it."""
        self.transport.write(self._record)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        """Collect the answer; one answer, whatever follows (T-PEER-2)."""
        if self._done is None:
            return
        self._buffer += data
        if len(self._buffer) < REPLY_HEAD.size:
            return
        size, mac = REPLY_HEAD.unpack_from(self._buffer)
        if size > MAX_REPLY:
            self.transport.abortConnection()  # type: ignore[union-attr]
            return
        if len(self._buffer) >= REPLY_HEAD.size + size:
            done, self._done = self._done, None
            body = bytes(self._buffer[REPLY_HEAD.size : REPLY_HEAD.size + size])
            self.transport.abortConnection()  # type: ignore[union-attr]
            done.callback((mac, body))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Without an answer: the proof was refused, or the node is gone."""
        done, self._done = self._done, None
        if done is not None:
            done.errback(TransportClosed("it closed the connection without an answer"))


@define(kw_only=True)
class Joiner:
    """
    Asks one member at a time.

    @ivar badge: the node's key with a certificate that it signed itself.
    @ivar token: the token, or C{None} to prove C{cluster_secret}.
    @ivar pinned: C{cluster_pub_fingerprint}: what the cluster's identity key must be, or C{""}.
    """

    reactor: Any
    badge: Badge
    entropy: Entropy = field(repr=False)
    token: Token | None = None
    cluster_secret: str = field(default="", repr=False)
    pinned: str = ""
    default_port: int = 4520

    async def ask(self, address: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """
        Send one record to one address.

        @raises Myself: this node listens there.
        @raises TransportClosed: nobody answers, or the proof is refused.
        @raises DeniedError: the token pins another node than the one that answers, or that one
            does not know the secret.
        """
        token = self.token
        if token is None and not self.cluster_secret:
            raise DeniedError("neither a token nor a cluster_secret: this node could trust nobody")
        secret = token.secret if token is not None else secret_key(self.cluster_secret)
        nonce = self.entropy(NONCE_BYTES)
        answered: Deferred[tuple[bytes, bytes]] = Deferred()
        channels: list[Channel] = []
        own = self.badge.key.id

        def enter(session: Session) -> Any:
            problem: SaltwistedError | None = None
            if session.key == own:
                problem = Myself(address)
            elif token is not None and not session.vouched_by(token.pin, host_name(token.cluster)):
                problem = DeniedError(
                    f"the node at {address} does not belong to the cluster of this token"
                )
            if problem is not None:
                answered.errback(problem)
                return None
            channel = Channel(session.exporter("join"), own, session.key)
            channels.append(channel)
            token_id = BY_SECRET if token is None else bytes.fromhex(token.id)
            return _Asker(make_record(channel, token_id, secret, nonce, fields), answered)

        def gone(door: Doorway) -> None:
            if door.inner is None and not answered.called:
                answered.errback(
                    TransportClosed("it admits nobody now (perhaps no token is valid there)")
                )

        host, port = split_address(address, self.default_port)
        endpoint = HostnameEndpoint(self.reactor, host, port, timeout=CONNECT_TIME)
        dialler = Dialler(self.badge, lambda purpose, key: True, JOIN)
        door = Doorway(self.reactor, enter, gone)
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = lambda addr: door  # type: ignore[method-assign]
        try:
            await wrapClientTLS(dialler, endpoint).connect(factory)
            mac, body = await answered.addTimeout(REPLY_TIME, self.reactor)
        except SaltwistedError:
            raise
        except Exception as error:
            raise TransportClosed(str(error)[:200] or type(error).__name__) from error
        try:
            value = open_reply(channels[0], secret, nonce, mac, body)
        except WireError as error:
            raise DeniedError(f"{address}: {error.reason}") from error
        shown, sums = str(value.get("fingerprint") or ""), value.get("sums")
        known = sums if isinstance(sums, list) else []
        if self.pinned and value.get("cluster") and not is_pinned(self.pinned, shown, known):
            raise DeniedError(
                f"the cluster of {address} has the identity {shown}, which is not the one in "
                "cluster_pub_fingerprint"
            )
        return value
