"""
A whole master without sockets, threads or a reactor, and minions to talk to it.

Keys, sessions, caches and files are real, in a scratch directory; the job store and
pillars are fakes; calls for the thread pool run at once; time is a L{Clock}.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.jid import JidMaker
from saltwisted.domain.operations.table import Operations
from saltwisted.master.automation.schedule import MasterSchedule
from saltwisted.master.automation.schedulecontrol import ScheduleControl
from saltwisted.master.autosign import Autosign
from saltwisted.master.calls import Calls
from saltwisted.master.context import Context
from saltwisted.master.control import Control, table_of
from saltwisted.master.dispatch import Dispatcher
from saltwisted.master.fileserver import FileServer
from saltwisted.master.ground import Ground
from saltwisted.master.logins import Logins
from saltwisted.master.orchestration.running import Orchestrating
from saltwisted.master.presence import Presence
from saltwisted.master.publisher import Publisher
from saltwisted.master.requests import Requests
from saltwisted.master.rotation import Rotation
from saltwisted.master.seams import LonePins, LonePruneTime, LoneSecrets, Seams
from saltwisted.master.sessions import Sessions
from saltwisted.master.signins import SignIns
from saltwisted.master.table import clear_commands, sealed_commands
from saltwisted.master.userkeys import UserKeys
from saltwisted.stores.cache import MinionCache
from saltwisted.stores.keys import KeyStore
from saltwisted.stores.roots.served import Roots
from saltwisted.stores.secrets import SecretFile
from saltwisted.stores.sessions import SessionStore
from saltwisted.stores.tokens import TokenFiles
from saltwisted.testing.jobs import MemoryJobs
from saltwisted.transports import turns
from saltwisted.transports.bus import EventBus
from saltwisted.transports.localdoor import LocalDoor
from saltwisted.wire.crypticle import SessionKey, open_sealed, seal
from saltwisted.wire.envelope import encode_sealed_request
from saltwisted.wire.handshake import Accepted, MasterIdentity, MinionHandshake, NotYet
from saltwisted.wire.msgpack import pack, unpack, unpack_raw
from saltwisted.wire.publication import decode_publication, open_job
from saltwisted.wire.rsa import PrivateKey, PublicKey
from saltwisted.worker.process import authwork
from tests.wire.recorded import Dice, key


class FakePublishServer:
    """Keeps what was published."""

    port = 4505

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Sequence[bytes] | None]] = []

    def publish(self, payload: bytes, topics: Sequence[bytes] | None = None) -> None:
        """Keep it."""
        self.sent.append((payload, topics))


class FakePillars:
    """Every minion's pillar is its name."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def packed(self, minion_id: str, grains: Any, *args: Any, **kwargs: Any) -> bytes:
        """A pillar, packed."""
        self.asked.append((minion_id, grains, args, kwargs))
        return pack({"who": minion_id})

    async def pillar(self, minion_id: str, *args: Any) -> dict[str, Any]:
        """A pillar."""
        return {"who": minion_id}

    def clear(self) -> None:
        """Nothing is kept."""


class FakeBackends:
    """Judges passwords as the worker processes do, in this one; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.entries: list[str] = []
        self.answer: dict[str, Any] | None = None

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """Judge."""
        self.asked.append(payload)
        self.entries.append(entry)
        return succeed(self.answer or authwork.serve(payload, None, {}))


class FakeChild:
    """A process that does what a test says: it asks by L{ask}, and ends by L{end}."""

    def __init__(self, entry: str, payload: Any, handler: Any) -> None:
        self.entry, self.payload, self._handler = entry, payload, handler
        self.exited: Deferred[Any] = Deferred()

    def ask(self, op: str, **args: Any) -> Deferred[Any]:
        """Ask the master."""
        return Deferred.fromCoroutine(self._handler(op, args, None, None))

    def end(self, how: str = "ended") -> None:
        """It has ended, if it has not yet."""
        if not self.exited.called:
            self.exited.callback(how)

    def kill(self) -> None:
        """It ends at once."""
        self.end("was ended by SIGKILL")


class FakeChildren:
    """Makes processes for L{Orchestrating}; keeps them all."""

    def __init__(self) -> None:
        self.all: list[FakeChild] = []

    def spawn(self, entry: str, payload: Any, handler: Any) -> FakeChild:
        """Make one."""
        self.all.append(FakeChild(entry, payload, handler))
        return self.all[-1]


class AtOnce:
    """A thread pool that has no threads."""

    def run(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Call now."""
        d: Deferred[Any] = maybeDeferred(function, *args)
        return d

    def start(self, function: Callable[[], Any]) -> None:
        """Call now."""
        function()


class Rig:
    """
    One master.

    @ivar replies: what was answered to the last L{ask}; a list, since never is an answer too.
    """

    def __init__(
        self,
        test: SynchronousTestCase,
        *,
        jobs: Any = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        """
        @param jobs: makes the job store of a directory; a fake one without.
        @param clock: one that several masters share.
        """
        # However slow the machine is just now: nobody turns the clock for a loop that takes a pause
        test.patch(turns, "PORTION", 3600.0)
        self.home = tempfile.mkdtemp(prefix="swt", dir="/tmp")
        test.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.root = os.path.join(self.home, "srv")
        os.makedirs(self.root)
        config = MasterConfig(
            **{
                "id": "rig_master",
                "pki_dir": os.path.join(self.home, "pki"),
                "cachedir": os.path.join(self.home, "cache"),
                "sock_dir": os.path.join(self.home, "run"),
                "file_roots": {"base": [self.root]},
                **options,
            }
        )
        self.clock = clock or Clock()
        self.clock.advance(0 if clock else 1_800_000_000)
        now = self.clock.seconds
        threads = AtOnce()
        entropy = Dice()
        self.identity = MasterIdentity(key("master"))
        keys = KeyStore(config.pki_dir)
        keys.open()
        secrets = SecretFile(os.path.join(config.cachedir, "secret"), entropy, now)
        cache = MinionCache(config.cachedir)
        cache.startService()
        self.publisher = publisher = Publisher(
            config, key("master"), entropy, SessionKey.generate(entropy), self.clock.seconds
        )
        self.publications = FakePublishServer()
        publisher.add_server(self.publications)
        self.connected: set[str] = set()
        self.subscribed: set[str] = set()
        roots = Roots(config.file_roots, threads.run, config)
        roots.startService()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.jobs = jobs(self.home) if jobs else MemoryJobs(now)
        self.config, self.bus, self.keys, self.counters = config, EventBus(now), keys, Counter()
        self.backends = FakeBackends()
        tokens = TokenFiles(os.path.join(config.cachedir, "tokens"), threads.run, now)
        tokens.startService()
        seams = self.beside(
            Seams(
                pins=LonePins(FileServer([roots], config, threads.run)),
                secrets=LoneSecrets(secrets, keys.acceptance),
                tokens=tokens,
                prune_time=LonePruneTime(now, now),
            )
        )
        store = SessionStore(
            config.cachedir, seams.secrets.versions, now, acceptance=seams.secrets.acceptance
        )
        store.startService()
        sessions = Sessions(keys, store, now, seams.whereabouts.came)
        ground = Ground(
            config=config,
            node=config.id,
            clock=self.clock,
            now=now,
            entropy=entropy,
            identity=key("master"),
            bus=self.bus,
            keys=keys,
            jobs=self.jobs,
            cache=cache,
            sessions=sessions,
            publisher=publisher,
            presence=Presence(
                sessions,
                cache,
                lambda: self.connected,
                now,
                seams.whereabouts,
                subscribed=lambda minion_id: minion_id in self.subscribed,
            ),
            users=UserKeys(config.cachedir, "root", [], entropy),
            autosign=Autosign(config, keys, seams.voucher),
            pool=threads.run,
            counters=self.counters,
            seams=seams,
        )
        self.bus.subscribe("", lambda tag, data: self.events.append((tag, dict(data))))
        dispatcher = Dispatcher(ground, JidMaker())
        signins = SignIns(ground, self.identity, threads)  # type: ignore[arg-type]
        calls = Calls(ground, dispatcher.new_jid, dispatcher.chosen)
        self.schedule = MasterSchedule(
            ground,
            calls,
            dispatcher.new_jid,
            lambda: self.ctx,
            lambda first, last: first,
            self.clock.seconds,
        )
        self.asks = ScheduleControl(ground, self.schedule)
        self.children = FakeChildren()
        self.orchestrating = Orchestrating(
            ground, self.children, dispatcher.new_jid, lambda: self.ctx
        )
        self.ctx = Context.of(
            ground,
            dispatcher=dispatcher,
            calls=calls,
            schedule=self.asks,
            orchestrating=self.orchestrating,
            logins=Logins(self.clock, config, now, entropy, self.backends, tokens, self.counters),
            pillars=FakePillars(),
            signins=signins,
            rotation=Rotation(
                self.clock,
                publisher,
                signins.settled,
                dispatcher.announce_next_key,
                lambda: self.bus.fire("key", {"rotate_aes_key": True}),
                seams.agreement,
            ),
        )
        self.requests = Requests(self.ctx, sealed_commands(), clear_commands())
        self.entropy = entropy

    def table(self) -> Operations:
        """The table of operations of this master."""
        return table_of(Control(self.ctx, dict), self.ctx.counters)

    def door(self) -> LocalDoor:
        """What its control socket calls."""
        return LocalDoor(self.table())

    def beside(self, alone: Seams) -> Seams:
        """What stands beside this master; to be replaced by a rig with peers."""
        return alone

    def ask(self, frame: bytes | memoryview, peer: str = "127.0.0.1") -> list[bytes]:
        """Send a frame; the answers so far (at most one comes ever)."""
        replies: list[bytes] = []
        self.requests.handle(frame, peer, replies.append)
        return replies

    def tags(self) -> list[str]:
        """Tags of all events so far."""
        return [tag for tag, _ in self.events]

    def published_jobs(self) -> list[dict[str, Any]]:
        """All jobs that were published under the current key."""
        return [
            open_job(decode_publication(payload), self.ctx.publisher.key).load
            for payload, _ in self.publications.sent
        ]


class RigMinion:
    """A minion that does what it is told, also what no minion should."""

    def __init__(self, rig: Rig, minion_id: str, private: PrivateKey | None = None) -> None:
        self.rig = rig
        self.id = minion_id
        self.key = private or key("minion")
        self.handshake = MinionHandshake(
            id=minion_id, key=self.key, token=SessionKey.generate(rig.entropy).text
        )
        self.known: PublicKey | None = None
        self.session: SessionKey | None = None
        self.publish_key: SessionKey | None = None
        self.tok = self.key.sign_x931(b"salt")
        self._count = 0

    def nonce(self) -> str:
        """A nonce that no other request has."""
        self._count += 1
        return f"{self._count:032x}"

    def sign_in(self) -> Accepted | NotYet:
        """Sign in; remember what was given."""
        nonce = self.nonce()
        (reply,) = self.rig.ask(self.handshake.request(nonce, self.known))
        outcome = self.handshake.read(reply, nonce, self.known)
        if isinstance(outcome, Accepted):
            self.known = outcome.master_key
            self.session = outcome.session
            self.publish_key = outcome.publish_key
        return outcome

    def accepted(self) -> RigMinion:
        """Sign in with a key that the operator has accepted."""
        self.rig.ctx.keys.put("accepted", self.id, self.key.public.pem.encode() + b"\n")
        outcome = self.sign_in()
        assert isinstance(outcome, Accepted), outcome
        return self

    def frame(self, load: dict[str, Any], envelope_id: str = "", **changes: Any) -> bytes:
        """A sealed request; C{changes} replace what every request carries."""
        assert self.session is not None
        full: dict[str, Any] = {
            **load,
            "id": self.id,
            "nonce": self.nonce(),
            "ts": int(self.rig.clock.seconds()),
            "tok": self.tok,
            **changes,
        }
        full = {name: value for name, value in full.items() if value is not None}
        blob = seal(self.session, full, self.rig.entropy(16))
        return encode_sealed_request(envelope_id or self.id, blob)

    def ask(self, cmd: str, **fields: Any) -> Any:
        """One good request, and the opened answer."""
        nonce = self.nonce()
        changes = {"ts": fields.pop("ts")} if "ts" in fields else {}
        replies = self.rig.ask(self.frame({"cmd": cmd, **fields}, nonce=nonce, **changes))
        if not replies:
            return NO_ANSWER
        blob = unpack_raw(replies[0])
        if blob == b"bad load":
            return "bad load"
        if isinstance(blob, dict):
            return unpack(replies[0])
        assert self.session is not None
        return open_sealed(self.session, blob, nonce)


NO_ANSWER = object()
"""What L{RigMinion.ask} gives when the master kept silent."""
