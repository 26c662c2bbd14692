"""
C{--role minion}: which parts make a minion, and in which order they start.

The warm parent is started before anything else; the disk is looked at before jobs can come;
the schedule and the mine start when a master has been reached. Nothing is decided here.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import yaml
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted import __version__
from saltwisted.config.options import MinionConfig
from saltwisted.domain.jid import JidMaker
from saltwisted.domain.replica.tokens import MINION, parse
from saltwisted.doors import CONTROL_MINION
from saltwisted.errors import ConfigError, TransportClosed, WireError
from saltwisted.minion.channel import Identity
from saltwisted.minion.connection import Hooks, MasterLink
from saltwisted.minion.control import Control
from saltwisted.minion.daemon import Minion
from saltwisted.minion.directory import srv_lookup
from saltwisted.minion.executor import Executor
from saltwisted.minion.jobs import Jobs
from saltwisted.minion.links import Links
from saltwisted.minion.mine import Mine
from saltwisted.minion.outside import Dialer, Outside, ZeroMQDialer, resolver
from saltwisted.minion.returns import Returns
from saltwisted.minion.schedule import ScheduledJob, Scheduler
from saltwisted.minion.subscriber import Seen, Subscriber
from saltwisted.minion.tcp import TcpDialer, check_tls
from saltwisted.roles.banner import Banner
from saltwisted.roles.base import OrderedService
from saltwisted.roles.ending import giving_up
from saltwisted.roles.logs import observer
from saltwisted.roles.memory import Collector, Trimmer, tune_malloc
from saltwisted.roles.ports import check_transport
from saltwisted.roles.privileges import keep_memory, restrict_umask
from saltwisted.roles.readings import CONTROL, FIRST, SOCKET, Reading, refuse
from saltwisted.roles.reload import MINION_BUILT_IN, Reload
from saltwisted.stores.files import make_dir, read_file, sweep_temporary, write_atomic
from saltwisted.stores.keys import kept_keys, master_keys
from saltwisted.stores.minion import MasterKeyFile, MastersFile, SeenFile, TokenFile
from saltwisted.transports.bus import EventBus
from saltwisted.transports.ipc import ControlServer, judge_of_minion
from saltwisted.transports.latency import LatencyMeter
from saltwisted.transports.lookups import LookUps
from saltwisted.transports.reasons import why
from saltwisted.transports.silence import AlarmWatch
from saltwisted.transports.threads import Threads
from saltwisted.transports.workers import WarmPool
from saltwisted.transports.zeromq.fairness import ZeroMQ
from saltwisted.wire.publication import Job
from saltwisted.wire.rsa import PrivateKey, PublicKey
from saltwisted.worker.grains.marks import grain_marks
from saltwisted.worker.jobfiles import Outbox
from saltwisted.worker.process.configio import load_from_disk
from saltwisted.worker.process.warm import exec_warm_parent

log = Logger()
PRELOAD = (
    "saltwisted.worker.process.main",
    "saltwisted.worker.process.saltname",
    "modules/test",
    "modules/cmdmod",
    "modules/saltutil",
)
"""What the warm parent has at hand for the jobs that come most often."""


def build(reactor: Any, config_dir: str | None, log_level: str | None) -> OrderedService:
    """
    A minion, ready to be started by twistd.

    @raises ConfigError: when the configuration cannot work.
    @raises StoreError: when the key cannot be read or made.
    """
    loaded = load_from_disk("minion", config_dir)
    config = loaded.minion
    restrict_umask()
    refuse(READINGS, loaded)
    keep_memory()
    tune_malloc()
    logs = observer(config, log_level, os.environ)
    minion = MinionRole(reactor, config)
    return OrderedService(
        reactor,
        [Banner(config, loaded.sources, loaded.warnings), *minion.parts],
        failed=giving_up(reactor),
        started=minion.started,
        observer=logs,
        reload=Reload(
            config,
            lambda: load_from_disk("minion", config_dir),
            minion.threads.run,
            MINION_BUILT_IN,
            minion.minion.reconfigure,
            logs,
            log_level,
        ),
    )


def trim() -> None:
    """Give memory that the start no longer needs back to the system: a few mebibytes, once."""
    linecache.clearcache()  # attrs keeps the source of every method that it has made
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


def identity_of(config: MinionConfig) -> Identity:
    """
    The minion's key pair, made when there is none, and what is derived from it.

    @raises StoreError: when a file is missing, unreadable or refused.
    @raises ConfigError: it is no key.
    """

    def generate() -> tuple[bytes, bytes]:
        key = PrivateKey.generate(max(int(config.keysize), 2048))
        return key.pem().encode(), (key.public.pem + "\n").encode()

    def public_of(private: bytes) -> bytes:
        return (PrivateKey.from_pem(private).public.pem + "\n").encode()

    pair = master_keys(config.pki_dir, generate, public_of, name="minion")
    key = _opened(pair.private, config)
    return Identity(
        id=config.id,
        key=key,
        tok=key.sign_x931(b"salt"),
        enc_algo=config.encryption_algorithm,
        sig_algo=config.signing_algorithm,
        sign_messages=config.minion_sign_messages,
    )


def sign_key_of(config: MinionConfig) -> PublicKey | None:
    """
    The key that signs the master's key, where an administrator has placed it.

    @raises ConfigError: it is demanded and not there.
    """
    path = os.path.join(config.pki_dir, f"{config.master_sign_key_name}.pub")
    data = read_file(path, 65536)
    if data is None:
        if config.verify_master_pubkey_sign:
            raise ConfigError(f"verify_master_pubkey_sign is set, but {path} does not exist")
        return None
    try:
        return PublicKey.from_pem(data)
    except WireError as error:
        raise ConfigError(f"is not a usable public key ({error.reason})", path) from error


def check_identity(config: MinionConfig) -> None:
    """
    Whether the minion's key can be used, if it has one; nothing is made.

    @raises StoreError: a file is missing, unreadable or refused.
    @raises ConfigError: it is no key.
    """
    pair = kept_keys(config.pki_dir, "minion")
    if pair is not None:
        _opened(pair.private, config)


def _opened(pem: bytes, config: MinionConfig) -> PrivateKey:
    try:
        return PrivateKey.from_pem(pem)
    except WireError as error:
        path = os.path.join(config.pki_dir, "minion.pem")
        raise ConfigError(f"is not a usable private key ({error.reason})", path) from error


def keys_of(config: MinionConfig) -> Callable[[str], MasterKeyFile] | None:
    """
    Key files for each master by name, where a signing key allows masters to have keys of their
    own; C{minion_master.pub}, which stock rewrites at every sign-in then, is left as it is.
    """
    if not config.verify_master_pubkey_sign:
        return None

    def one(name: str) -> MasterKeyFile:
        known = quote(name, safe=":")
        return MasterKeyFile(os.path.join(config.pki_dir, "minion_masters", f"{known}.pub"))

    return one


def led_by(config: MinionConfig, found: Any) -> MinionConfig:
    """
    The configuration with the masters that the function of C{master_type: func} has named: one
    of them at a time, as in Salt.

    @raises ConfigError: these are not names.
    """
    names = [found] if isinstance(found, str) else found
    if not names or not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        raise ConfigError(
            f"{config.master} returned {str(found)[:200]!r}, which are not names of masters"
        )
    led: MinionConfig = config.evolve(master=names, master_type="failover")
    return led


def dialer_of(reactor: Any, zeromq: ZeroMQ, config: MinionConfig) -> Dialer:
    """
    The dialer of masters, by C{transport}.

    @raises ConfigError: a transport that there is not, or C{ssl} that does not work.
    """
    check_transport(config)
    if config.transport == "tcp":
        return TcpDialer(reactor, config, random.SystemRandom())
    return ZeroMQDialer(zeromq, config, random.SystemRandom())


READINGS = (
    *FIRST,
    Reading("transport", check_transport),
    Reading("ssl", check_tls),
    Reading("verify_master_pubkey_sign", sign_key_of),
    CONTROL,
    Reading("pki_dir", check_identity),
)


class Network:
    """The masters: ZeroMQ and the links, made when the reactor runs and nothing forks any more."""

    name = "network"

    def __init__(
        self,
        reactor: Any,
        config: MinionConfig,
        threads: Threads,
        hooks: Hooks,
        facts: Any,
        on_job: Any,
        call: Callable[[str, Any, Any], Coroutine[Any, Any, dict[str, Any]]],
    ) -> None:
        """
        @param call: runs a function in a worker, for C{master_type: func}; its return fields.
        """
        self._reactor = reactor
        self._call = call
        self._delayed: IDelayedCall | None = None
        self._config = config
        self._zeromq: ZeroMQ | None = None
        self._seen_file = SeenFile(os.path.join(config.cachedir, "saltwisted", "seen"))
        self._outside: dict[str, Any] = {
            "reactor": reactor,
            "resolve": resolver(LookUps(reactor).run, bool(config.ipv6)),
            "run": threads.run,
            "keys": MasterKeyFile(os.path.join(config.pki_dir, "minion_master.pub")),
            "identity": identity_of(config),
            "entropy": os.urandom,
            "sign_key": sign_key_of(config),
            "keys_of": keys_of(config),
            "services": srv_lookup(reactor),
            "kept": MastersFile(os.path.join(config.cachedir, "saltwisted", "masters")),
            "join": TokenFile(os.path.join(config.pki_dir, "join.token")),
        }
        self.seen = Seen(self._seen_file, time.time, remember=int(config.minion_jid_queue_hwm) * 10)
        insist = config.extra.get("saltwisted_unsigned_publications") is not True
        self.subscriber = Subscriber(facts, on_job, self.seen, insist)
        self._hooks = hooks
        self._facts = facts
        self.links = Absent()

    def startService(self) -> None:
        """Connect to the masters; with C{master_type: func}, when the function has named them."""
        self.seen.load()
        self._zeromq = ZeroMQ(self._reactor)
        if self._config.master_type == "func":
            self._ask_who(1.0)
        else:
            self._begin(self._config)

    def join(self, line: str) -> None:
        """
        Take a join token: from now on it is shown at sign-ins, and its masters are asked too.

        @raises WireError: it is not a token for a minion.
        @raises StoreError: it could not be kept.
        """
        token = parse(line)
        if token.role != MINION:
            raise WireError("this token is for a master: create one with --role minion")
        self._outside["join"].keep(line)
        if self.links.there is not None:
            self.links.there.told(token.peers)
        else:
            self._outside["kept"].save(token.peers)

    def _ask_who(self, wait: float) -> None:
        self._delayed = None

        def asked(ret: dict[str, Any]) -> None:
            if ret.get("retcode"):
                raise ConfigError(str(ret.get("return"))[:500])
            config = led_by(self._config, ret.get("return"))
            if self._zeromq is not None:
                self._begin(config)

        def failed(failure: Any) -> None:
            log.error(
                "master_type func: {function} named no masters: {error}; trying again",
                function=str(self._config.master),
                error=why(failure).rstrip("."),
            )
            if self._zeromq is not None:
                self._delayed = self._reactor.callLater(wait, self._ask_who, min(wait * 2, 30.0))

        asking: Deferred[Any] = Deferred.fromCoroutine(self._call(str(self._config.master), [], ()))
        _ = asking.addCallback(asked).addErrback(failed)

    def _begin(self, config: MinionConfig) -> None:
        assert self._zeromq is not None
        dialer = dialer_of(self._reactor, self._zeromq, config)
        outside = Outside(dialer=dialer, **self._outside)
        links = Links(config, outside, self.subscriber, self._facts, self._hooks)
        self.links.become(links)
        links.startService()

    def stopService(self) -> None:
        """Disconnect from the masters, then stop ZeroMQ."""
        if self._delayed is not None:
            self._delayed.cancel()
            self._delayed = None
        if self.links.there is not None:
            self.links.there.stopService()
        zeromq, self._zeromq = self._zeromq, None
        if zeromq is not None:
            zeromq.shutdown()
        self._seen_file.close()


class Absent:
    """Stands for the links before they are made: no master yet, so callers go on waiting."""

    def __init__(self) -> None:
        self.there: Links | None = None
        self._waiting: list[Deferred[Any]] = []

    def become(self, links: Links) -> None:
        """Use these links from now on."""
        self.there = links
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            _ = links.when_up().addCallbacks(one.callback, one.errback)

    @property
    def best(self) -> MasterLink | None:
        """As L{Links.best}."""
        return self.there.best if self.there is not None else None

    def named(self, name: str) -> MasterLink | None:
        """As L{Links.named}."""
        return self.there.named(name) if self.there is not None else None

    def when_up(self) -> Deferred[Any]:
        """As L{Links.when_up}."""
        if self.there is not None:
            return self.there.when_up()
        waiting: Deferred[Any] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting

    async def request(self, load: dict[str, Any], link: Any = None, **how: Any) -> Any:
        """As L{Links.request}."""
        if self.there is None:
            raise TransportClosed("no master is connected")
        return await self.there.request(load, link, **how)

    async def deliver(self, load: dict[str, Any], via: str) -> Any:
        """As L{Links.deliver}."""
        if self.there is None:
            raise TransportClosed("no master is connected")
        return await self.there.deliver(load, via)

    def status(self) -> list[dict[str, Any]]:
        """As L{Links.status}."""
        return self.there.status() if self.there is not None else []


class Later(Service):
    """
    Parts that start at the first word that they may, and stop with us if they did.

    @param at_once: they may from the beginning.
    """

    name = "later"

    def __init__(self, parts: list[Any], at_once: bool) -> None:
        self._parts = parts
        self._at_once = at_once
        self._up: list[Any] = []

    def startService(self) -> None:
        """Wait for the word."""
        super().startService()
        if self._at_once:
            self.now()

    def now(self) -> bool:
        """Start them, at the first call only; returns whether it was the first."""
        if self._up or not self.running:
            return False
        for part in self._parts:
            part.startService()
            self._up.append(part)
        return True

    def stopService(self) -> None:
        """Stop those that were started."""
        super().stopService()
        while self._up:
            self._up.pop().stopService()


class MinionRole:
    """Builds the parts of one minion; C{parts} start in order."""

    def __init__(self, reactor: Any, config: MinionConfig) -> None:
        self.reactor = reactor
        self.config = config
        self.began = time.monotonic()
        check_transport(config)
        for path in (config.pki_dir, config.cachedir):
            make_dir(path)
            sweep_temporary(path)
        self.socket = os.path.join(config.sock_dir, SOCKET)
        self.threads = Threads(reactor, 4, "minion")
        self.bus = EventBus(time.time)
        self.jids = JidMaker(f"{os.getpid()}" if config.unique_jid else "")
        # Forked from here it would hold a second copy of Twisted: measured, 29 MiB instead of 12.
        self.warm = WarmPool(reactor, exec_warm_parent, exec_warm_parent, PRELOAD)
        self.outbox = Outbox(os.path.join(config.cachedir, "outbox"))
        self.returns = self._returns()
        self.executor = self._executor()
        self.minion = self._minion()
        self.jobs = self._jobs()
        self.network = self._network()
        self.scheduler = self._scheduler()
        before_connect = bool(config.scheduler_before_connect)
        self.later = Later([self.scheduler, self._mine()], before_connect)
        self.control = self._control()
        self.server = ControlServer(
            reactor,
            self.control.handle,
            self.socket,
            judge_of_minion,
            kept=CONTROL_MINION.memory_all,
        )
        self.meter = LatencyMeter(reactor, AlarmWatch())
        self.startup = self.minion.startup_job()
        self.parts: list[Any] = [
            self.warm,
            self.threads,
            self.server,
            self.returns,
            self.jobs,
            self.minion,
            self.later,
            self.network,
            self.meter,
            Trimmer(reactor, self.threads.start),
            Collector(reactor),
        ]

    # -- parts

    def _returns(self) -> Returns:
        return Returns(
            self.reactor,
            self.outbox,
            self.send_return,
            self.threads.run,
            random.SystemRandom(),
            (float(self.config.return_retry_timer), float(self.config.return_retry_timer_max)),
        )

    def _executor(self) -> Executor:
        return Executor(
            self.warm,
            time.time,
            int(self.config.process_count_max),
            {"outbox": self.outbox.path, "socket": self.socket},
        )

    def _minion(self) -> Minion:
        return Minion(
            self.reactor,
            self.config,
            self.warm,
            self.call,
            self.bus,
            self.pick,
            partial(grain_marks, self.config.config_dir, self.config.extension_modules),
            self.facts,
            lambda there: self.returns.connected() if there else self.returns.disconnected(),
        )

    def _jobs(self) -> Jobs:
        return Jobs(
            self.reactor,
            self.executor,
            self.returns,
            self.outbox,
            self.threads.run,
            self.config.cachedir,
            self.config.id,
            self.ask,
        )

    def _network(self) -> Network:
        return Network(
            self.reactor,
            self.config,
            self.threads,
            Hooks(on_up=self.up, on_down=self.down, on_pillar=self.pillar),
            self.minion.targeting,
            self.job,
            self.call,
        )

    def _scheduler(self) -> Scheduler:
        return Scheduler(
            self.reactor,
            time.time,
            self.scheduled,
            self.new_jid,
            random.SystemRandom().randint,
            self.config.schedule,
            running=self.jobs.named,
            save=self.save_schedule,
            fire_event=self.bus.fire,
            returner=self.config.extra.get("schedule_returner"),
            offset=time.strftime("%z"),
            runtime=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        )

    def _mine(self) -> Mine:
        return Mine(
            self.scheduler.call,
            lambda load: Deferred.fromCoroutine(self.network.links.request(dict(load))),
            self.config.id,
            bool(self.config.mine_enabled),
            float(self.config.mine_interval),
            bool(self.config.mine_return_job),
        )

    def _control(self) -> Control:
        return Control(
            self.reactor,
            self.network.links,
            self.bus,
            self.config.id,
            float(self.config.request_channel_timeout),
            self.jobs.returned,
            self.jobs.keep,
            self.jobs.listed,
            self.jobs.kill,
            self.minion.refresh,
            self.scheduler.call,
            self.status,
            self.network.join,
        )

    # -- introductions

    def new_jid(self) -> str:
        """A job id of our own."""
        return self.jids.make(time.time())

    def pick(self) -> MasterLink | None:
        """The master to ask about ourselves."""
        return self.network.links.best

    def send_return(self, load: dict[str, Any], via: str) -> Deferred[Any]:
        """Send a return to the master that it is for, or to another one."""
        return Deferred.fromCoroutine(self.network.links.deliver(load, via))

    async def call(self, fun: str, arg: Any, without: Any) -> dict[str, Any]:
        """Run a function on this minion itself."""
        return await self.jobs.call(fun, arg, self.new_jid(), without)

    async def ask(self, op: str, args: dict[str, Any], stream: Any, via: str) -> Any:
        """Answer a request of a job."""
        return await self.control.ask(op, args, stream, via)

    def job(self, job: Job, link: MasterLink) -> None:
        """A master has published a job for us."""
        self.jobs.take(job.load, link.name)

    def scheduled(self, due: ScheduledJob) -> None:
        """The schedule says that a job is due."""
        self.jobs.schedule(due.publication, due.listed, due.return_jid)

    def up(self, link: MasterLink, first: bool) -> None:
        """A master has proved itself."""
        status = link.status()
        self.minion.master_up(link.name, str(status["address"]), int(status["port"]), first)
        self.later.now()
        startup, self.startup = self.startup, None
        if startup is not None:
            fun, arg = startup
            job = {"fun": fun, "arg": arg, "jid": self.new_jid(), "ret": ""}
            self.jobs.schedule(job, True, "req")

    def down(self, link: MasterLink, reason: str) -> None:
        """A master has gone."""
        self.minion.master_down(link.name)

    def pillar(self, link: MasterLink, pillar: dict[str, Any]) -> None:
        """A pillar has come."""
        self.minion.take_pillar(pillar)

    def facts(self, pillar: Mapping[str, Any], grains: Mapping[str, Any]) -> None:
        """Pillar or grains have changed."""
        self.executor.black_out(self.minion.blackouts)
        self.scheduler.set_facts(pillar, grains)

    def save_schedule(self, schedule: Mapping[str, Any]) -> None:
        """Save the schedule where Salt does."""
        folder = os.path.dirname(self.config.default_include) or "minion.d"
        path = os.path.join(self.config.config_dir, folder, "_schedule.conf")

        def write() -> None:
            text = yaml.dump({"schedule": dict(schedule)}, Dumper=yaml.CSafeDumper)
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            write_atomic(path, text.encode(), 0o600)

        _ = self.threads.run(write).addErrback(
            lambda failure: log.error("the schedule cannot be saved: {error}", error=why(failure))
        )

    def started(self) -> None:
        """All parts are up; masters are looked for."""
        gc.collect()
        gc.freeze()
        trim()
        log.info("ready after {seconds:.2f} s", seconds=time.monotonic() - self.began)

    def status(self) -> dict[str, Any]:
        """What C{status} on the control socket answers."""
        return {
            "role": "minion",
            "version": __version__,
            "pid": os.getpid(),
            "config_dir": self.config.config_dir,
            **self.minion.status(),
            "master_type": str(self.config.master_type),
            "masters": self.network.links.status(),
            "publications": dict(self.network.subscriber.counters),
            "jobs": {
                "taken": self.jobs.taken,
                "running": len(self.executor.running),
                "waiting": len(self.executor.waiting),
                "limit": self.executor.limit,
            },
            "returns": {"waiting": len(self.returns), "acknowledged": self.returns.acknowledged},
            "workers": self.warm.status(),
            "latency": self.meter.figures(),
        }
