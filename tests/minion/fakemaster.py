"""
A master in one object, made of C{saltwisted.wire}, and a network of such masters on a fake clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import AuthenticationError, RequestTimeout, StoreError, TransportClosed
from saltwisted.minion.channel import Identity
from saltwisted.minion.outside import Outside
from saltwisted.wire.commands import Auth, parse_command, take_common
from saltwisted.wire.crypticle import SessionKey, open_sealed
from saltwisted.wire.envelope import (
    BAD_LOAD,
    ClearRequest,
    decode_request,
    encode_private_reply,
    encode_sealed_reply,
)
from saltwisted.wire.handshake import MasterIdentity, accepted_reply, negative_reply
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import seal_job, sign_blob
from saltwisted.wire.rsa import PrivateKey, PublicKey
from tests.wire.recorded import Dice, key

NOW = 1_767_323_045.0
JID = "20260102030405000001"
IV = bytes(16)


class FakeMaster:
    """
    @ivar state: C{accepted}, C{pending}, C{rejected} or C{full}.
    @ivar script: replies to give before the usual ones: a frame, or C{None} for silence; or a
        function from the frame to one of these.
    @ivar log: what was asked: C{_auth}, or the C{cmd} of sealed loads.
    @ivar loads: the sealed loads.
    @ivar holds: whether it keeps the answer to a pending minion that has patience.
    @ivar patience: what each sign-in asked of that.
    @ivar ours: whether it answers the heartbeat like a saltwisted master.
    """

    made = 0

    def __init__(self, pair: PrivateKey | None = None, publish_port: int = 4505) -> None:
        FakeMaster.made += 1
        self.dice = Dice(FakeMaster.made * 1_000_000)
        self.identity = MasterIdentity(pair or key("master"))
        self.publish_port = publish_port
        self.publish_key = SessionKey.generate(self.dice)
        self.next_key: SessionKey | None = None
        self.former: list[SessionKey] = []
        self.sessions: dict[str, SessionKey] = {}
        self.state = "accepted"
        self.script: list[Any] = []
        self.log: list[str] = []
        self.loads: list[dict[str, Any]] = []
        self.masters: list[str] = []
        self.auths: list[Auth] = []
        self.pillar: Any = {"role": "web"}
        self.values: dict[str, Any] = {}
        self.holds = False
        self.kept: list[Any] = []
        self.patience: list[float] = []
        self.ours = False
        self.alive = True
        self.silent: set[str] = set()
        self.refused: set[str] = set()

    def session(self, minion_id: str) -> SessionKey:
        """The key of a minion, made when first needed."""
        return self.sessions.setdefault(minion_id, SessionKey.generate(self.dice))

    def keeps(self, frame: bytes) -> float:
        """For how many seconds the answer to this frame is kept."""
        if not self.holds or self.state != "pending" or not self.alive:
            return 0
        request = decode_request(frame)
        return float(request.load.get("patience", 0)) if isinstance(request, ClearRequest) else 0

    def decide(self) -> None:
        """Give the answers that were kept."""
        while self.kept:
            self.kept.pop(0)()

    def rotate(self) -> None:
        """Another publish key: the next one, if there is one."""
        self.former.insert(0, self.publish_key)
        self.publish_key = self.next_key or SessionKey.generate(self.dice)
        self.next_key = None

    def handle(self, frame: bytes) -> bytes | None:
        """The reply to a frame, or silence."""
        if not self.alive:
            return None
        if self.script:
            scripted = self.script.pop(0)
            if callable(scripted):
                scripted = scripted(frame)
            if scripted is not Ellipsis:
                return scripted
        request = decode_request(frame)
        if isinstance(request, ClearRequest):
            auth = parse_command(request.load, clear=True)
            assert isinstance(auth, Auth)
            self.log.append("_auth")
            self.auths.append(auth)
            self.patience.append(auth.patience)
            if not self.ours:
                auth.load.pop("saltwisted")
            if self.state != "accepted":
                ret = {"pending": True, "rejected": False, "full": "full"}[self.state]
                return negative_reply(auth, ret, self.identity.key, request.version)
            return accepted_reply(
                auth,
                self.identity,
                PublicKey.from_pem(auth.pub),
                self.publish_key,
                self.session(auth.id),
                self.publish_port,
                request.version,
            )
        try:
            load = open_sealed(self.session(request.id), request.blob)
        except AuthenticationError:
            self.log.append("bad load")
            return BAD_LOAD
        common = take_common(load)
        cmd = load["cmd"]
        if load.get("events") == []:
            cmd = "heartbeat"
        self.log.append(cmd)
        if cmd in self.silent:
            return None
        if cmd in self.refused:
            return BAD_LOAD
        self.loads.append(load)
        if cmd == "_pillar":
            return encode_private_reply(
                pack(self.pillar),
                key("minion").public,
                self.identity.key,
                common.nonce,
                self.dice,
                request.enc_algo,
                request.sig_algo,
            )
        value = self.values.get(cmd)
        if cmd == "_saltwisted_keys":
            value = {"aes": self.publish_key.text}
            if self.next_key is not None:
                value["next"] = self.next_key.text
            if self.former:
                value["before"] = [one.text for one in self.former]
            if self.masters:
                value["masters"] = self.masters
        return encode_sealed_reply(self.session(request.id), value, self.dice(16), common.nonce)

    def publication(
        self, signer: PrivateKey | None = None, sealed: SessionKey | None = None, **job: Any
    ) -> bytes:
        """A signed job for everybody."""
        full = {"fun": "test.ping", "arg": [], "tgt": "*", "jid": JID, "ret": "", **job}
        blob = seal_job(full, sealed or self.publish_key, self.dice(16))
        return sign_blob(blob, signer or self.identity.key)


class FakeRequests:
    """One request channel of a L{FakeNet}."""

    def __init__(self, net: FakeNet, address: str, port: int) -> None:
        self.net = net
        self.where = (address, port)
        self.closed = False
        self.pending: list[Deferred[bytes]] = []

    def request(self, frame: bytes, timeout: float) -> Deferred[bytes]:
        d: Deferred[bytes] = Deferred()
        if self.closed:
            d.errback(TransportClosed("closed"))
            return d
        self.pending.append(d)
        master = self.net.masters.get(self.where)

        def deliver() -> None:
            kept = master.keeps(frame) if master is not None else 0
            if kept:
                assert master is not None
                master.kept.append(reply_to_it)
                self.net.clock.callLater(kept, lambda: reply_to_it() if not d.called else None)
            else:
                reply_to_it()

        def reply_to_it() -> None:
            if d.called:
                return
            reply = master.handle(frame) if master is not None else None
            if reply is not None and not d.called:
                self.net.clock.callLater(self.net.delay, answer, reply)

        def answer(reply: bytes) -> None:
            if not d.called:
                d.callback(reply)

        def late(result: Any, timeout: float) -> Any:
            raise RequestTimeout("timeout")

        def done(result: Any) -> Any:
            if d in self.pending:
                self.pending.remove(d)
            return result

        self.net.clock.callLater(self.net.delay, deliver)
        d.addTimeout(timeout, self.net.clock, late)
        return d.addBoth(done)

    def close(self) -> None:
        self.closed = True
        for d in list(self.pending):
            if not d.called:
                d.errback(TransportClosed("closed"))


class FakeSubscription:
    """One subscription of a L{FakeNet}."""

    def __init__(
        self, net: FakeNet, where: tuple[str, int], received: Any, topics: Any, lost: Any
    ) -> None:
        self.net = net
        self.lost = lost
        self.where = where
        self.received = received
        self.topics = topics

    def close(self) -> None:
        if self in self.net.subscriptions:
            self.net.subscriptions.remove(self)


class FakeNet:
    """
    Masters by address and port, names by a table, on one clock.

    @ivar names: host to addresses; an exception is raised.
    """

    def __init__(self, delay: float = 0.01) -> None:
        self.clock = Clock()
        self.clock.rightNow = NOW
        self.delay = delay
        self.masters: dict[tuple[str, int], FakeMaster] = {}
        self.names: dict[str, Any] = {}
        self.channels: list[FakeRequests] = []
        self.subscriptions: list[FakeSubscription] = []
        self.resolved: list[str] = []

    def add(self, name: str, master: FakeMaster, address: str = "10.0.0.1") -> FakeMaster:
        """A master with a name."""
        self.names[name] = [address]
        self.masters[address, 4506] = master
        return master

    def requests(self, address: str, port: int, sockets: int = 8, host: str = "") -> FakeRequests:
        self.channels.append(FakeRequests(self, address, port))
        return self.channels[-1]

    def subscribe(
        self,
        address: str,
        port: int,
        identity: str,
        topics: Sequence[bytes],
        received: Callable[[Any, bytes | None], None],
        lost: Callable[[], None],
        host: str = "",
        hello: Callable[[], bytes | None] = lambda: None,
    ) -> FakeSubscription:
        self.subscriptions.append(FakeSubscription(self, (address, port), received, topics, lost))
        return self.subscriptions[-1]

    async def resolve(self, host: str) -> Sequence[str]:
        self.resolved.append(host)
        found = self.names.get(host, OSError("unknown host"))
        if isinstance(found, Exception):
            raise found
        return found

    def publish(self, payload: bytes) -> None:
        """To all that subscribe, whatever the address."""
        for one in list(self.subscriptions):
            one.received(payload, None)

    def run(self, seconds: float, step: float = 0.05) -> None:
        """Let time pass."""
        for _ in range(int(seconds / step) + 1):
            self.clock.advance(step)


class MemoryKeys:
    """The remembered master key."""

    path = "/pki/minion_master.pub"

    def __init__(self, known: PublicKey | None = None) -> None:
        self.key = known
        self.fail = False

    def known(self) -> PublicKey | None:
        return self.key

    def remember(self, key: PublicKey) -> None:
        if self.fail:
            raise StoreError("No space left on device", self.path)
        self.key = key


def at_once(function: Any, *args: Any) -> Deferred[Any]:
    """In place of a thread."""
    return maybeDeferred(function, *args)


def identity(**changes: Any) -> Identity:
    """A minion with a recorded key."""
    pair = key("minion")
    return Identity(id="m1", key=pair, tok=pair.sign_x931(b"salt"), **changes)


def outside(net: FakeNet, keys: MemoryKeys, **changes: Any) -> Outside:
    """The world is a fake network."""
    options: dict[str, Any] = {
        "reactor": net.clock,
        "dialer": net,
        "resolve": net.resolve,
        "run": at_once,
        "keys": keys,
        "identity": identity(),
        "entropy": Dice(),
        "now": net.clock.seconds,
        "dice": Random(1),
    }
    return Outside(**{**options, **changes})


def config(**options: Any) -> MinionConfig:
    """A minion's configuration."""
    return MinionConfig(**{"id": "m1", "master": "salt", **options})


def facts() -> MinionFacts:
    """What targets may ask."""
    return MinionFacts(id="m1", grains={"os": "Debian", "id": "m1"})
