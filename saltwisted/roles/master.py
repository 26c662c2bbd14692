"""
C{--role master}: which parts make a master, and in which order they start.

Stores before sockets: nobody is answered before the keys are read and the job
cache is open. Nothing is decided here.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger
from zmq import ZMQError

from saltwisted import __version__
from saltwisted.config.options import MasterConfig
from saltwisted.domain.jid import JidMaker, jid_mark
from saltwisted.domain.replica.pruning import PruneClock
from saltwisted.errors import ConfigError, PortError, WireError
from saltwisted.master.announced import Announced
from saltwisted.master.autosign import Autosign
from saltwisted.master.context import Context
from saltwisted.master.control import Control, table_of
from saltwisted.master.dispatch import Dispatcher
from saltwisted.master.fileserver import FileServer
from saltwisted.master.logins import ENTRY as LOGIN_ENTRY
from saltwisted.master.logins import NEAR_ENTRY, Logins
from saltwisted.master.maintenance import Maintenance
from saltwisted.master.pillars import Pillars
from saltwisted.master.presence import Presence
from saltwisted.master.publisher import Publisher
from saltwisted.master.requests import Requests
from saltwisted.master.reserve import Reserve
from saltwisted.master.rotation import Rotation
from saltwisted.master.sessions import Sessions
from saltwisted.master.sharing import PublishKeyFile
from saltwisted.master.signins import SignIns
from saltwisted.master.table import clear_commands, sealed_commands
from saltwisted.master.userkeys import UserKeys
from saltwisted.roles.banner import Banner
from saltwisted.roles.base import OrderedService
from saltwisted.roles.ending import giving_up
from saltwisted.roles.history import stock_history
from saltwisted.roles.logs import observer
from saltwisted.roles.memory import Collector, Trimmer, tune_malloc
from saltwisted.roles.notify import StatusLine
from saltwisted.roles.ports import TcpPorts, check_transport
from saltwisted.roles.privileges import become, check_owner, keep_memory, restrict_umask
from saltwisted.roles.reload import MASTER_BUILT_IN, Reload
from saltwisted.stores.cache import MinionCache
from saltwisted.stores.files import make_dir, read_file, sweep_temporary
from saltwisted.stores.jobs.history import JobHistory
from saltwisted.stores.jobs.store import JobStore
from saltwisted.stores.keys import KeyStore, master_keys
from saltwisted.stores.roots.served import Roots
from saltwisted.stores.secrets import SecretFile
from saltwisted.stores.sessions import SessionStore
from saltwisted.stores.shared import SharedPublishKey, alone
from saltwisted.stores.tokens import TokenFiles
from saltwisted.transports.bus import EventBus
from saltwisted.transports.ipc import ControlServer
from saltwisted.transports.latency import LatencyMeter
from saltwisted.transports.localdoor import LocalDoor
from saltwisted.transports.threads import Threads
from saltwisted.transports.workers import PoolLimits, WarmPool
from saltwisted.transports.zeromq.fairness import Keepalive, ZeroMQ
from saltwisted.transports.zeromq.publisher import PubServer
from saltwisted.transports.zeromq.router import RouterServer
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.handshake import MasterIdentity, signed_form_of
from saltwisted.wire.publication import topic_of
from saltwisted.wire.rsa import PrivateKey, PublicKey
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.warm import exec_warm_parent

log = Logger()
SOCKET = "saltwisted.sock"
PILLAR_ENTRY = "saltwisted.worker.pillar.work:serve"
ROOTS_ENTRY = "saltwisted.stores.roots.filework:serve"


def build(reactor: Any, config_dir: str | None, log_level: str | None) -> OrderedService:
    """
    A master, ready to be started by twistd.

    @raises ConfigError: when the configuration cannot work.
    @raises StoreError: when the keys cannot be read or made.
    """
    loaded = load_from_disk("master", config_dir)
    config = loaded.master
    restrict_umask()
    become(config.user)
    keep_memory()
    check_owner(config)
    tune_malloc()
    logs = observer(config, log_level, os.environ)
    master = Master(reactor, config)
    return OrderedService(
        reactor,
        [
            Banner(config, loaded.sources, loaded.warnings),
            *master.parts,
            StatusLine(reactor, master.summary),
        ],
        failed=giving_up(reactor),
        started=master.started,
        observer=logs,
        reload=Reload(
            config,
            lambda: load_from_disk("master", config_dir),
            master.files_threads.run,
            MASTER_BUILT_IN,
            lambda names: master.ctx.pillars.reconfigure(),
            logs,
            log_level,
        ),
    )


def shared_pki(config: MasterConfig) -> str:
    """Salt's C{cluster_pki_dir}, a directory that masters have in common; C{""} for none."""
    return config.cluster_pki_dir or "" if config.cluster_id else ""


def identity_of(config: MasterConfig) -> MasterIdentity:
    """
    The master's key pair, made when there is none, and its signing key if it has one.

    With a C{cluster_pki_dir} it is C{cluster.pem} there, the same for all, as in Salt.

    @raises StoreError: when a file is missing, unreadable or refused.
    """
    passphrase = config.key_pass or None

    def generate() -> tuple[bytes, bytes]:
        key = PrivateKey.generate(max(int(config.keysize), 2048))
        return key.pem(passphrase).encode(), (key.public.pem + "\n").encode()

    def public_of(private: bytes) -> bytes:
        return (PrivateKey.from_pem(private, passphrase).public.pem + "\n").encode()

    common = shared_pki(config)
    if common:
        passphrase = config.cluster_key_pass or None
        with alone(common):
            pair = master_keys(common, generate, public_of, name="cluster")
    else:
        pair = master_keys(config.pki_dir, generate, public_of)
    key = PrivateKey.from_pem(pair.private, passphrase)
    sign_key = None
    if config.master_sign_pubkey and config.master_use_pubkey_signature:
        signature, shown = pub_signature_of(config, pair.public)
        return MasterIdentity(key, shown, None, signature)
    if config.master_sign_pubkey:
        passphrase = config.signing_key_pass or config.key_pass or None
        sign_pair = master_keys(
            config.pki_dir, generate, public_of, name=config.master_sign_key_name
        )
        sign_key = PrivateKey.from_pem(sign_pair.private, passphrase)
    return MasterIdentity(key, pair.public, sign_key)


def pub_signature_of(config: MasterConfig, public: bytes) -> tuple[bytes, bytes]:
    """
    The signature that C{salt-key --gen-signature} has made, and the form of the public key that
    it is for.

    @raises ConfigError: there is none, or it is another key's.
    """
    name = config.master_pubkey_signature or f"{config.id}_pubkey_signature"
    path = os.path.join(config.pki_dir, name)
    signature = read_file(path, 65536)
    if not signature:
        raise ConfigError(
            f"master_use_pubkey_signature is set, but {path} does not exist: make it with "
            "salt-key --gen-signature where the signing key is, and copy it"
        )
    signer = read_file(os.path.join(config.pki_dir, f"{config.master_sign_key_name}.pub"), 65536)
    try:
        shown = signed_form_of(public, signature, PublicKey.from_pem(signer) if signer else None)
    except WireError as error:
        raise ConfigError(
            f"{path} is not a signature of this master's key ({error.reason})"
        ) from error
    return signature.strip(), shown


class KeyWrites:
    """The keys are read before anything starts; at the end what was written is made durable."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """Make the last changes durable."""
        self._keys.flush()


class ZeroMqPorts:
    """
    The two ports that minions know: requests and publications.

    @ivar open: whether minions are answered on both.
    """

    def __init__(self, reactor: Any, config: MasterConfig, requests: Requests) -> None:
        self.open = False
        self._zeromq = ZeroMQ(reactor)
        self._requests = requests
        keepalive = Keepalive(
            enabled=bool(config.tcp_keepalive),
            idle=int(config.tcp_keepalive_idle),
            count=int(config.tcp_keepalive_cnt),
            interval=int(config.tcp_keepalive_intvl),
        )
        self.requests = RouterServer(
            self._zeromq,
            config.interface,
            int(config.ret_port),
            backlog=int(config.zmq_backlog),
            heartbeat=int(config.extra.get("zmq_heartbeat_ivl", 30_000)),
            heartbeat_timeout=int(config.extra.get("zmq_heartbeat_timeout", 60_000)),
            ipv6=bool(config.ipv6),
        )
        self.publications = PubServer(
            self._zeromq,
            config.interface,
            int(config.publish_port),
            backlog=int(config.zmq_backlog),
            keepalive=keepalive,
            hwm=int(config.pub_hwm),
            heartbeat=int(config.extra.get("zmq_heartbeat_ivl", 10_000)),
            heartbeat_timeout=int(config.extra.get("zmq_heartbeat_timeout", 30_000)),
            filtering=bool(config.zmq_filtering),
            ipv6=bool(config.ipv6),
        )
        self._interface = config.interface

    def startService(self) -> None:
        """
        Bind both.

        @raises PortError: naming the port that is taken.
        """
        for server, start in (
            (self.publications, self.publications.listen),
            (self.requests, lambda: self.requests.listen(self._requests.handle)),
        ):
            try:
                start()
            except ZMQError as error:
                raise PortError(
                    f"cannot listen on {self._interface}:{server.port}: {error.strerror}; "
                    "is another master running?"
                ) from error
        self.open = True

    def stopService(self) -> None:
        """Answer nobody any more, and close."""
        self.open = False
        self._requests.closed = True
        self.requests.stop()
        self.publications.stop()
        self._zeromq.shutdown()


class Master:
    """
    Builds the parts of one master around one context; C{parts} start in order.

    @ivar stores: by name, what has a C{problem} while the disk refuses it.
    """

    def __init__(self, reactor: Any, config: MasterConfig) -> None:
        self.reactor = reactor
        self.config = config
        self.began = time.monotonic()
        now = time.time
        entropy = os.urandom
        counters: Counter[str] = Counter()
        for path in (config.pki_dir, config.cachedir):
            make_dir(path)
            sweep_temporary(path)
        self.files_threads = Threads(reactor, 4, "files")
        self.reserve = Reserve(
            reactor, (config.cachedir, config.pki_dir), lambda *work: self.files_threads.run(*work)
        )
        self.reserve.open()
        identity = identity_of(config)
        self.crypto_threads = Threads(reactor, 2, "crypto")
        common = shared_pki(config)
        keys = KeyStore(common or config.pki_dir, background=self.files_threads.start)
        keys.open()
        shared = SharedPublishKey(common, entropy) if common else None
        if shared is not None:
            shared.open()
        bus = EventBus(now)
        self.cache = cache = MinionCache(config.cachedir, self.files_threads.start, clock=reactor)
        self.jobs = jobs = JobStore(
            reactor,
            os.path.join(config.cachedir, "saltwisted", "jobs.sqlite"),
            now,
            float(config.keep_jobs_seconds),
            (int(config.job_claims_max), int(config.job_claims_size_max)),
        )
        self.store = store = SessionStore(
            config.cachedir,
            SecretFile(
                os.path.join(common or config.cachedir, "saltwisted", "session_secret"),
                entropy,
                now,
                float(config.publish_session) / 2,
            ),
            now,
            float(config.publish_session),
            keys.acceptance,
            keys.accepted_at,
        )
        sessions = Sessions(keys, store, now)
        publish_key = shared.key if shared else SessionKey.generate(entropy)
        publisher = Publisher(config, identity.key, entropy, publish_key, reactor.seconds)
        presence = Presence(
            sessions,
            cache,
            lambda: self.ports.publications.addresses,
            now,
            float(config.loop_interval or 60),
            lambda minion_id: topic_of(minion_id) in self.ports.publications.topics,
        )
        self.roots = Roots(config.file_roots, self.files_threads.run, config)
        self.ctx = Context(
            config=config,
            node=config.id,
            clock=reactor,
            now=now,
            entropy=entropy,
            identity=identity.key,
            bus=bus,
            keys=keys,
            jobs=jobs,
            cache=cache,
            sessions=sessions,
            publisher=publisher,
            presence=presence,
            users=UserKeys(
                config.cachedir,
                config.user,
                [user for user in config.publisher_acl if isinstance(user, str)],
                entropy,
                bool(config.client_acl_verify),
            ),
            autosign=Autosign(config, keys),
            files=FileServer(self.roots, config),
            pool=self.crypto_threads.run,
            counters=counters,
            started=now(),
        )
        self.warm = WarmPool(
            reactor,
            # Forked from here it would hold a second copy of Twisted: 34 MiB instead of 9, and 18
            # when it has made its first pillar, before which it imports nothing for that
            exec_warm_parent,
            exec_warm_parent,
            pools={
                PILLAR_ENTRY: PoolLimits(keep=0),
                # One process, which the pool of the roots keeps busy, and which goes soon after
                ROOTS_ENTRY: PoolLimits(size=1, idle=1.0, calls=100_000),
                # PAM waits for seconds after a wrong password
                LOGIN_ENTRY: PoolLimits(size=4, queue=256),
                NEAR_ENTRY: PoolLimits(size=4, queue=256),
            },
        )
        tokens = TokenFiles(os.path.join(config.cachedir, "tokens"), self.files_threads.run, now)
        self.ctx.logins = Logins(reactor, config, now, entropy, self.warm, tokens, counters)
        self.tokens = tokens
        self.jids = JidMaker()
        jobs.on_open.append(lambda: self.jids.resume(jid_mark(jobs.newest_jid(self.jids.slot))))
        self.ctx.dispatcher = Dispatcher(self.ctx, self.jids, self.warm)
        self.ctx.pillars = Pillars(self.ctx, self.warm)
        self.ctx.signins = SignIns(self.ctx, identity, self.crypto_threads)
        self.ctx.rotation = Rotation(
            reactor,
            publisher,
            self.ctx.signins.settled,
            self.ctx.dispatcher.announce_next_key,
            self.rotated,
        )
        self.meter = LatencyMeter(reactor)
        self.requests = Requests(self.ctx, sealed_commands(), clear_commands())
        check_transport(config)
        self.ports: TcpPorts | ZeroMqPorts
        if config.transport == "tcp":
            announced = Announced(sessions, publisher.readable)
            self.ports = TcpPorts(reactor, config, self.requests, announced)
        else:
            self.ports = ZeroMqPorts(reactor, config, self.requests)
        publisher.add_server(self.ports.publications)
        self.operations = table_of(Control(self.ctx, self.status), counters)
        self.stores: dict[str, Any] = {"disk": self.reserve, "jobs": jobs, "cache": cache}
        self._prune_alone(now)
        self.control = ControlServer(
            reactor,
            LocalDoor(self.operations).handle,
            os.path.join(config.sock_dir, SOCKET),
            counters=counters,
        )
        self.parts: list[Any] = [
            self.warm,
            KeyWrites(keys),
            self.files_threads,
            self.crypto_threads,
            self.reserve,
            jobs,
            JobHistory(
                reactor,
                jobs,
                os.path.dirname(jobs.path),
                self.files_threads.run,
                stock_history(reactor, config.cachedir, jobs.path),
            ),
            cache,
            store,
            tokens,
            self.roots,
            self.ctx.pillars,
            self.ctx.signins,
            self.control,
            self.ports,
            self.meter,
            Maintenance(self.ctx, [cache.retry]),
            Trimmer(reactor, self.files_threads.start),
            Collector(reactor),
        ]
        self.sharing: PublishKeyFile | None = None
        if shared is not None:
            self.sharing = PublishKeyFile(
                reactor, shared, publisher, self.files_threads.run, self.key_is_new
            )
            self.parts.append(self.sharing)

    def rotated(self) -> None:
        """After a switch to a new publish key of our own."""
        if self.sharing is not None:
            self.sharing.rotated()
        self.key_is_new()

    def key_is_new(self) -> None:
        """Tell the bus, and perhaps wake everybody."""
        self.ctx.bus.fire("key", {"rotate_aes_key": True})
        if self.config.ping_on_rotate:
            self.ctx.dispatcher.ping_all()

    def started(self) -> None:
        """All parts are up: the master can serve."""
        log.info(
            "serving on ports {publish} and {ret}, ready after {seconds:.2f} s",
            publish=self.config.publish_port,
            ret=self.config.ret_port,
            seconds=time.monotonic() - self.began,
        )

    def _prune_alone(self, now: Callable[[], float]) -> None:
        """A master without peers goes by its own clock, unless that jumps."""
        rules = PruneClock()

        def at() -> float | None:
            wall, runtime = now(), time.clock_gettime(time.CLOCK_BOOTTIME)
            rules.compare(wall, runtime, (), {})
            return rules.time(wall, runtime)

        self.jobs.prune_time = at
        self.stores["pruning"] = rules

    def status(self) -> dict[str, Any]:
        """What C{status} on the control socket answers."""
        ctx = self.ctx
        keys = ctx.keys.list_keys()
        return {
            "role": "master",
            "id": ctx.node,
            "version": __version__,
            "pid": os.getpid(),
            "uptime": ctx.now() - ctx.started,
            "publish_port": self.config.publish_port,
            "ret_port": self.config.ret_port,
            "config_dir": self.config.config_dir,
            "keys": {state: len(ids) for state, ids in keys.items()},
            "sessions": len(ctx.sessions.live()),
            "published": ctx.publisher.published,
            "rotations": ctx.rotation.count,
            "counters": dict(ctx.counters),
            "latency": self.meter.figures(),
            "jobs_queued": ctx.jobs.queued,
            "serving": self.ports.open,
            "problems": self.problems(),
        }

    def summary(self) -> str:
        """How it is, for the service manager's status line."""
        if not self.ports.open:
            return "not serving yet"
        problems = [f"{name}: {why}" for name, why in self.problems().items()]
        return "; ".join(["serving, with something missing", *problems]) if problems else "serving"

    def problems(self) -> dict[str, str]:
        """Which stores cannot write, and why."""
        return {name: str(store.problem) for name, store in self.stores.items() if store.problem}
