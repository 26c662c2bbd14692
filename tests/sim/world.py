"""
One minion, some masters, and what can go wrong between them, all drawn from one seed.

Real are the links with their rule book, fail-over, the channels, the judgement of
publications, the memory of seen jobs, and the returns with their repetitions. Played are the
masters, the network, the disk and RSA (keys here only look like keys: a signature is
a hash). Time is a L{Clock} that jumps from one event to the next.

What breaks, until a moment at which all is well again: connections (with or without a
notice), messages (lost, late, twice, out of order), masters (killed, restarted with or
without their sessions, frozen, moved to another address), names.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.errors import AuthenticationError, RequestTimeout, TransportClosed
from saltwisted.minion.channel import Identity, Requests
from saltwisted.minion.connection import Hooks, MasterLink
from saltwisted.minion.links import Links
from saltwisted.minion.outside import Outside
from saltwisted.minion.returns import Returns
from saltwisted.minion.rules import Event, SignedIn
from saltwisted.minion.signin import SignInTalk
from saltwisted.minion.subscriber import Seen, Subscriber
from saltwisted.wire.commands import take_common
from saltwisted.wire.crypticle import SessionKey, open_sealed
from saltwisted.wire.envelope import (
    BAD_LOAD,
    decode_request,
    encode_private_reply,
    encode_sealed_reply,
)
from saltwisted.wire.msgpack import pack
from saltwisted.wire.publication import seal_job, sign_blob
from saltwisted.worker.jobfiles import OutboxReturn
from tests.wire.recorded import key

NOW = 1_767_323_045.0
HELLO = b"sign in"

SOON = 12.0
"""
Seconds from healing to a proven connection, and from a master's end, noticed or not, to
the use of another one: ten, and two for the connection itself.
"""

FOUND = (3.0, 5.0)
"""Seconds until ZeroMQ's heartbeats end a connection in which nothing moves."""

SETTLED = 75.0
"""Seconds from healing until every master is connected and every return is acknowledged."""


class Broken(AssertionError):
    """A promise was not kept."""


class QuickKey:
    """Looks like both halves of a key pair, at the price of a hash."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.public = self

    def sign(self, data: bytes, algorithm: str = "") -> bytes:
        return hashlib.sha256(self.name.encode() + data).digest()

    def verify(self, data: bytes, signature: bytes, algorithm: str = "") -> bool:
        return self.sign(data) == signature

    def encrypt(self, data: bytes, algorithm: str = "") -> bytes:
        return b"\xff" + self.name.encode() + b":" + data

    def decrypt(self, data: bytes, algorithm: str = "") -> bytes:
        name, _, text = data.partition(b":")
        if name != b"\xff" + self.name.encode():
            raise AuthenticationError("not for us")
        return text

    def fingerprint(self, hash_type: str = "") -> str:
        return self.name


class QuickTalk(SignInTalk):
    """A sign-in of one word; all around the exchange itself is the real thing."""

    world: World

    async def _once(self, requests: Requests) -> Event:
        reply = await requests.request(HELLO, self._rules.auth_timeout)
        master = self.world.granted[bytes(reply)]
        session = self._session
        session.key, session.publish_key, session.next_key = master.key, master.publish_key, None
        session.master_key, session.ours = self.world.identity, master.ours  # type: ignore[assignment]
        self.publish_port = 4505
        return SignedIn()


@define(eq=False)
class Grant:
    """What a sign-in gave."""

    key: SessionKey
    publish_key: SessionKey
    ours: bool


@define(eq=False)
class SimMaster:
    """
    One master.

    @ivar cut: nothing passes, and nobody is told.
    @ivar loss: the chance to lose a message; C{doubling}: to carry it twice.
    @ivar slowness: the seconds that one takes at most.
    @ivar life: which of its lives and connections this is.
    @ivar compiles: the seconds that a pillar takes.
    @ivar well: since when nothing is wrong with it.
    """

    world: World
    name: str
    address: str
    ours: bool
    publish_key: SessionKey
    key: SessionKey
    alive: bool = True
    frozen: bool = False
    stills: int = 0
    cut: bool = False
    loss: float = 0.0
    doubling: float = 0.0
    slowness: float = 0.05
    inbox: list[Callable[[], None]] = field(factory=list)
    life: int = 0
    compiles: float = 0.05
    well: float = NOW
    returns: Counter[str] = field(factory=Counter)

    def receive(self, work: Callable[[], None]) -> None:
        """A message has come: at once, when it is awake again, or never."""
        if self.alive:
            if self.frozen:
                self.inbox.append(work)
            else:
                work()

    def pillar(self, request: Any, nonce: str) -> bytes:
        """The answer with a pillar."""
        world = self.world
        return encode_private_reply(
            pack({"from": self.name}),
            world.own,  # type: ignore[arg-type]
            world.identity,  # type: ignore[arg-type]
            nonce,
            world.entropy,
            request.enc_algo,
            request.sig_algo,
        )

    def compiled(self, life: int, answer: Callable[[], None]) -> None:
        """A pillar is ready; who has died meanwhile says nothing."""
        if self.alive and self.life == life:
            answer()

    def handle(self, frame: bytes, say: Callable[[bytes], None]) -> None:
        """Answer a request."""
        world = self.world
        if frame == HELLO:
            ticket = world.entropy(16)
            world.granted[ticket] = Grant(self.key, self.publish_key, self.ours)
            say(ticket)
            return
        request = decode_request(frame)
        try:
            load = open_sealed(self.key, request.blob)  # type: ignore[union-attr]
        except AuthenticationError:
            say(BAD_LOAD)
            return
        nonce = take_common(load).nonce
        cmd, value = load["cmd"], None
        if cmd == "_pillar":
            world.clock.callLater(
                self.compiles, self.compiled, self.life, partial(say, self.pillar(request, nonce))
            )
            return

        if cmd == "_saltwisted_keys":
            value = {"aes": self.publish_key.text}
        elif cmd == "_return":
            self.returns[load["jid"]] += 1
        say(encode_sealed_reply(self.key, value, world.entropy(16), nonce))

    def publish(self, jid: str) -> None:
        """A job for everybody who listens."""
        if not self.alive or self.frozen:
            return
        world = self.world
        load = {"fun": "test.ping", "arg": [], "tgt": "*", "jid": jid, "ret": ""}
        blob = seal_job(load, self.publish_key, world.entropy(16))
        payload = sign_blob(blob, world.identity)  # type: ignore[arg-type]
        for one in list(world.subscriptions):
            if one.address == self.address and one.life == self.life:
                for _ in range(2 if world.dice.random() < self.doubling else 1):
                    world.carry(self, partial(one.deliver, payload))


@define(eq=False)
class SimSubscription:
    """One subscription; it reconnects by itself, as ZeroMQ does."""

    world: World
    address: str
    received: Any
    lost: Any
    life: int = -1
    closed: bool = False

    def connect(self) -> None:
        """Connect, or try again a little later."""
        if self.closed:
            return
        world = self.world
        master = world.at(self.address)
        if master is not None and master.alive and not master.cut:
            self.life = master.life
        else:
            world.clock.callLater(0.5 + world.dice.random(), self.connect)

    def end(self, told: bool) -> None:
        """The connection ends; C{told}: the minion's kernel knows at once."""
        if self.life < 0 or self.closed:
            return
        self.life = -1
        # Without a word from the other side ZeroMQ's own heartbeats find out
        wait = 0.1 * self.world.dice.random() if told else self.world.dice.uniform(*FOUND)
        self.world.clock.callLater(wait, self._ended)

    def _ended(self) -> None:
        if not self.closed:
            self.lost()
            self.connect()

    def deliver(self, payload: bytes) -> None:
        if not self.closed and self.life >= 0:
            self.received(payload, None)

    def close(self) -> None:
        self.closed = True
        if self in self.world.subscriptions:
            self.world.subscriptions.remove(self)


class SimRequests:
    """One request channel."""

    def __init__(self, world: World, address: str) -> None:
        self.world = world
        self.address = address
        self.closed = False
        self.pending: set[Deferred[bytes]] = set()

    def request(self, frame: bytes, timeout: float) -> Deferred[bytes]:
        world = self.world
        d: Deferred[bytes] = Deferred()
        if self.closed:
            d.errback(TransportClosed("closed"))
            return d
        self.pending.add(d)
        master = world.at(self.address)

        def answer(reply: bytes) -> None:
            if not d.called:
                d.callback(reply)

        def work() -> None:
            if master is not None:
                master.handle(frame, lambda reply: world.carry(master, lambda: answer(reply)))

        if master is not None:
            for _ in range(2 if world.dice.random() < master.doubling else 1):
                world.carry(master, lambda: master.receive(work))

        def late(result: Any, timeout: float) -> Any:
            raise RequestTimeout("timeout")

        def done(result: Any) -> Any:
            self.pending.discard(d)
            return result

        return d.addTimeout(timeout, world.clock, late).addBoth(done)

    def close(self) -> None:
        self.closed = True
        for d in list(self.pending):
            if not d.called:
                d.errback(TransportClosed("closed"))


class MemoryOutbox:
    """A disk that keeps returns."""

    path = "/nowhere"

    def __init__(self) -> None:
        self.kept: dict[str, OutboxReturn] = {}

    def names(self) -> list[str]:
        return sorted(self.kept)

    def read(self, name: str) -> OutboxReturn | None:
        return self.kept.get(name)

    def remove(self, name: str) -> None:
        self.kept.pop(name, None)


class NoKeys:
    """The key file; nobody asks it here."""

    path = "/nowhere"

    def known(self) -> None:
        return None

    def remember(self, key: Any) -> None:
        raise AssertionError("not here")


class Lines:
    """The file of seen jobs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def load(self) -> list[str]:
        return list(self.lines)

    def append(self, line: str) -> None:
        self.lines.append(line)

    def replace(self, lines: list[str]) -> None:
        self.lines = lines


OWN = QuickKey("minion")
TOK = key("minion").sign_x931(b"salt")


class World:
    """
    Everything that one seed makes.

    @ivar story: what was done to the masters, for people.
    """

    def __init__(
        self,
        seed: int,
        setting: tuple[str, int, dict[str, Any]] | None = None,
        plan: Callable[[World], None] | None = None,
    ) -> None:
        """
        @param setting: C{master_type}, the number of masters, and options, instead of those of
            the seed.
        @param plan: says what goes wrong in the first minute, instead of the seed.
        """
        self.seed = seed
        self.plan = plan
        self.dice = dice = Random(seed)
        self.clock = Clock()
        self.clock.rightNow = NOW
        self.entropy = dice.randbytes
        self.identity = QuickKey("master")
        self.own = OWN
        self.granted: dict[bytes, Grant] = {}
        self.subscriptions: list[SimSubscription] = []
        self.story: list[str] = []
        self.failures: list[str] = []
        self.ran: Counter[str] = Counter()
        self.jids = 0
        self.had = self.used = NOW
        count = dice.choice((1, 2, 2, 3, 3, 3, 4))
        ours = dice.random() < 0.8
        if setting is not None:
            count, ours = setting[1], True
        self.masters = [
            SimMaster(
                self,
                f"m{n}",
                f"10.0.{n}.1",
                ours,
                SessionKey.generate(self.entropy),
                SessionKey.generate(self.entropy),
            )
            for n in range(count)
        ]
        for master in self.masters:
            master.compiles = dice.choice((0.05, 0.05, 0.5, 4.0))
        self.addresses = {master.name: master.address for master in self.masters}
        self.kind = dice.choice(("str", "failover", "failover", "distributed"))
        options: dict[str, Any] = {}
        if self.kind != "str":
            options = {
                "master_failback": dice.random() < 0.5,
                "master_failback_interval": dice.choice((0, 3, 15)),
                "random_master": dice.random() < 0.3,
            }
        if not ours:
            options["master_alive_interval"] = 10
        if setting is not None:
            self.kind, options = setting[0], setting[2]
        config = MinionConfig(
            id="m1", master=[m.name for m in self.masters], master_type=self.kind, **options
        )
        self.story.append(f"{self.kind} {count} masters ours={ours} {options}")
        facts = MinionFacts(id="m1", grains={"id": "m1"})
        outside = Outside(
            reactor=self.clock,
            dialer=self,
            resolve=self.resolve,
            run=maybeDeferred,
            keys=NoKeys(),
            identity=Identity(id="m1", key=OWN, tok=TOK),  # type: ignore[arg-type]
            entropy=self.entropy,
            now=self.clock.seconds,
            dice=Random(dice.random()),
        )
        subscriber = Subscriber(lambda: facts, self.on_job, Seen(Lines(), self.clock.seconds))
        self.links = Links(
            config,
            outside,
            subscriber,
            lambda: facts,
            Hooks(on_up=lambda link, first: self.look(), on_down=lambda link, why: self.look()),
        )
        for link in self.links.links:
            talk = QuickTalk(link.name, config, link.rules, outside, link.session, lambda: facts)
            talk.world = self
            link.upkeep.talk = talk
        self.outbox = MemoryOutbox()
        self.returns = Returns(
            self.clock,
            self.outbox,  # type: ignore[arg-type]
            lambda load, via: Deferred.fromCoroutine(self.links.deliver(load, via)),
            maybeDeferred,
            Random(dice.random()),
        )
        self.connected = False

    # -- what links need

    async def resolve(self, host: str) -> Sequence[str]:
        found = self.addresses.get(host)
        if found is None:
            raise OSError("unknown host")
        return [found]

    def requests(self, address: str, port: int, sockets: int = 8, host: str = "") -> SimRequests:
        return SimRequests(self, address)

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
    ) -> SimSubscription:
        one = SimSubscription(self, address, received, lost)
        self.subscriptions.append(one)
        self.clock.callLater(self.dice.uniform(0.001, 0.05), one.connect)
        return one

    # -- the network

    def at(self, address: str) -> SimMaster | None:
        """Who has this address now."""
        return next((master for master in self.masters if master.address == address), None)

    def carry(self, master: SimMaster, arrive: Callable[[], None]) -> None:
        """
        A message on its way to or from a master.

        What a cut swallows is sent again, as TCP does (RFC 6298: after twice as long each time),
        until the cut has lasted so long that heartbeats end the connection, and it with it.
        """
        if self.dice.random() < master.loss:
            return
        address, life = master.address, master.life

        def come(again: float = 0.2) -> None:
            if master.address != address or master.life != life:
                return
            if not master.cut:
                arrive()
            elif again < FOUND[0]:
                self.clock.callLater(again, come, 2 * again)

        self.clock.callLater(self.dice.uniform(0.001, master.slowness), come)

    def look(self) -> None:
        """As the role does: the returns go when a master is there."""
        there = self.links.best is not None
        if there:
            self.returns.connected()
        elif self.connected:
            self.returns.disconnected()
        self.connected = there

    # -- jobs

    def on_job(self, job: Any, link: MasterLink) -> None:
        self.ran[job.jid] += 1
        self.clock.callLater(self.dice.choice((0.1, 1.0, 10.0)), self.done, job.jid, link.name)

    def done(self, jid: str, via: str) -> None:
        kept = OutboxReturn({"cmd": "_return", "id": "m1", "jid": jid, "return": True}, via)
        name = f"{self.ran.total():06d}_{jid}"
        self.outbox.kept[name] = kept
        self.returns.add(name, kept)

    def jid(self) -> str:
        self.jids += 1
        stamp = time.gmtime(self.clock.seconds())
        return time.strftime("%Y%m%d%H%M%S", stamp) + f"{self.jids:06d}"

    def some_job(self) -> None:
        """Published by one master, or by all of them under one jid."""
        jid = self.jid()
        everybody = self.dice.random() < 0.4
        for master in self.masters if everybody else [self.dice.choice(self.masters)]:
            self.clock.callLater(self.dice.uniform(0, 0.5), master.publish, jid)

    # -- what goes wrong

    def ends(self, master: SimMaster, told: bool) -> None:
        """All connections of a master end."""
        master.well = self.clock.seconds()
        for one in self.subscriptions:
            if one.address == master.address:
                one.end(told)

    def kill(self, master: SimMaster) -> None:
        self.ends(master, not master.cut)
        master.alive, master.frozen = False, False
        master.inbox.clear()
        master.life += 1

    def revive(self, master: SimMaster) -> None:
        if master.alive:
            return
        master.alive = True
        if self.dice.random() < 0.5:
            master.key = SessionKey.generate(self.entropy)
        if self.dice.random() < 0.5:
            master.publish_key = SessionKey.generate(self.entropy)

    def still(self, master: SimMaster, how: str) -> None:
        """Nothing moves any more; when it stays so, ZeroMQ ends the subscriptions."""
        before = master.frozen or master.cut
        setattr(master, how, True)
        if before:
            return
        stills = master.stills = master.stills + 1

        def found(one: SimSubscription) -> None:
            if master.stills == stills and (master.frozen or master.cut):
                one.end(True)

        for one in self.subscriptions:
            if one.address == master.address:
                self.clock.callLater(self.dice.uniform(*FOUND), found, one)

    def thaw(self, master: SimMaster) -> None:
        master.frozen = False
        inbox, master.inbox = master.inbox, []
        for work in inbox:
            work()

    def move(self, master: SimMaster) -> None:
        self.ends(master, False)
        head, _, tail = master.address.rpartition(".")
        master.address = f"{head}.{int(tail) + 1}"
        master.life += 1
        self.clock.callLater(self.dice.uniform(0, 5), self.rename, master, master.address)

    def rename(self, master: SimMaster, address: str) -> None:
        if address == master.address:
            self.addresses[master.name] = address

    def trouble(self, horizon: float) -> None:
        """Draw one outage, which ends before the horizon."""
        dice, clock = self.dice, self.clock
        master = dice.choice(self.masters)
        some = self.masters if dice.random() < 0.2 else [master]
        begin = dice.uniform(0, horizon)
        length = min(
            dice.choice((0.3, 2.0, 8.0, 30.0, 90.0, 600.0)) * dice.random(), horizon - begin
        )
        kind = dice.choice(
            ("kill", "kill", "freeze", "cut", "loss", "double", "slow", "reset", "half", "move",
             "name")
        )  # fmt: skip
        names = ",".join(one.name for one in some)
        self.story.append(f"{begin:7.2f} s for {length:6.2f} s: {kind} {names}")

        def at(when: float, what: Callable[..., Any], *args: Any) -> None:
            clock.callLater(when, what, *args)

        for one in some:
            if kind == "kill":
                at(begin, self.kill, one)
                at(begin + length, self.revive, one)
            elif kind == "freeze":
                at(begin, self.still, one, "frozen")
                at(begin + length, self.thaw, one)
            elif kind == "cut":
                at(begin, self.still, one, "cut")
                at(begin + length, setattr, one, "cut", False)
            elif kind == "loss":
                at(begin, setattr, one, "loss", dice.choice((0.1, 0.5, 0.9)))
                at(begin + length, setattr, one, "loss", 0.0)
                # What TCP cannot mend ends the connection
                at(begin + length, self.ends, one, True)
            elif kind == "double":
                at(begin, setattr, one, "doubling", 0.5)
                at(begin + length, setattr, one, "doubling", 0.0)
            elif kind == "slow":
                at(begin, setattr, one, "slowness", dice.choice((0.5, 3.0, 12.0)))
                at(begin + length, setattr, one, "slowness", 0.05)
            elif kind == "reset":
                at(begin, self.ends, one, True)
            elif kind == "half":
                at(begin, self.ends, one, False)
            elif kind == "move":
                at(begin, self.move, one)
            else:
                at(begin, self.addresses.pop, one.name, None)
                at(begin + length, self.rename_now, one)

    def rename_now(self, master: SimMaster) -> None:
        self.addresses[master.name] = master.address

    def heal(self) -> None:
        """All is well from now on."""
        for master in self.masters:
            master.cut, master.loss, master.doubling, master.slowness = False, 0.0, 0.0, 0.05
            self.thaw(master)
            self.revive(master)
            self.rename_now(master)

    def ails(self, master: SimMaster) -> bool:
        """Whether anything is wrong with a master or the way to it."""
        return bool(
            not master.alive
            or master.frozen
            or master.cut
            or master.loss
            or master.slowness > 0.05
            or self.addresses.get(master.name) != master.address
        )

    def watch(self, healed: float) -> None:
        """While one master has been well for long enough, one is in use, and none that is dead."""
        now = self.clock.seconds()
        for master in self.masters:
            if self.ails(master):
                master.well = now
        best = self.links.best
        used = self.masters[self.links.links.index(best)] if best is not None else None
        if used is not None:
            self.had = now
            if used.alive and not used.frozen and not used.cut:
                self.used = now
        well = min(master.well for master in self.masters)
        slack = SOON + max(master.compiles for master in self.masters)
        at = f"at {now - NOW:.0f} s, though one is well"
        self.check(now - max(self.had, well) <= slack, f"no master {at}")
        self.check(now - max(self.used, well) <= slack, f"a dead master is in use {at}")
        if now < healed + SETTLED:
            self.clock.callLater(1.0, self.watch, healed)

    # -- the run

    def until(self, when: float) -> None:
        """Let time pass, from event to event."""
        clock = self.clock
        while clock.calls and clock.calls[0].getTime() <= when:
            clock.advance(max(0.0, clock.calls[0].getTime() - clock.seconds()))
        clock.advance(max(0.0, when - clock.seconds()))

    def check(self, good: Any, promise: str) -> None:
        if not good:
            states = [(one["master"], one["state"], one["reason"]) for one in self.links.status()]
            story = "\n  ".join(self.story)
            raise Broken(f"seed {self.seed}: {promise}\n  {story}\n  {states}")

    def _logged(self, event: Any) -> None:
        if "log_failure" in event:
            self.failures.append(event["log_failure"].getTraceback())

    def run(self) -> None:
        """
        Play it.

        @raises Broken: a promise was not kept.
        """
        observer: Any = self._logged
        globalLogPublisher.addObserver(observer)
        try:
            self._run()
        finally:
            globalLogPublisher.removeObserver(observer)

    def _run(self) -> None:
        dice = self.dice
        horizon = dice.choice((20.0, 60.0, 200.0, 600.0))
        if self.plan is not None:
            horizon = 60.0
            self.plan(self)
        else:
            for _ in range(dice.randint(1, 8)):
                self.trouble(horizon)
        self.story[1:] = sorted(self.story[1:])
        for _ in range(dice.randint(1, 12)):
            self.clock.callLater(dice.uniform(0, horizon), self.some_job)
        self.returns.startService()
        self.links.startService()
        healed = NOW + horizon
        self.clock.callLater(0, self.watch, healed)
        self.until(healed)
        self.heal()

        # One round trip to the master that the minion would ask, whatever it believes
        soon = SOON + max(master.compiles for master in self.masters)
        self.until(healed + soon)
        self.check(self.links.best, f"no master {soon:.0f} s after all was well")
        asked: Deferred[Any] = Deferred.fromCoroutine(self.links.request({"cmd": "_ask"}))
        outcome: list[Any] = []
        _ = asked.addBoth(outcome.append)
        self.until(healed + soon + 1)
        self.check(outcome == [None], f"the master in use does not answer: {outcome}")

        self.until(healed + SETTLED)
        if self.kind == "str":
            self.check(all(link.up for link in self.links.links), "not all masters are connected")
        else:
            up = [link for link in self.links.links if link.up]
            self.check(up == [self.links.best], "not exactly one master is connected")
        for master in self.masters:
            if self.kind == "str" or self.links.best is self.links.named(master.name):
                jid = self.jid()
                master.publish(jid)
                self.until(self.clock.seconds() + 1)
                self.check(self.ran[jid] == 1, f"a job of {master.name} did not come")
        self.until(self.clock.seconds() + 30)

        twice = [jid for jid, times in self.ran.items() if times > 1]
        self.check(not twice, f"jobs ran twice: {twice}")
        arrived: Counter[str] = sum((m.returns for m in self.masters), Counter())
        lost = [jid for jid in self.ran if not arrived[jid]]
        self.check(not lost, f"returns are lost: {lost}")
        self.check(not self.outbox.kept, "returns wait on the disk")
        self.check(not self.failures, f"a mistake of ours: {self.failures[:1]}")

        self.links.stopService()
        self.returns.stopService()
        self.until(self.clock.seconds() + 120)
        self.check(not self.clock.calls, f"timers are left: {self.clock.calls[:3]}")
        self.check(not self.subscriptions, "sockets are left")
