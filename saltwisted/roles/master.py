"""
C{--role master}: which parts make a master, and in which order they start.

L{Stores} are opened, then the L{Master} is built on them with its L{Seams}: those of a master
alone here, those of a node in L{saltwisted.roles.cluster}.

Stores before sockets: nobody is answered before the keys are read and the job
cache is open. Nothing is decided here.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from saltwisted import __version__
from saltwisted.config.api import BLOCKS, options_of
from saltwisted.config.options import MasterConfig
from saltwisted.domain.operations.table import Operation, Operations
from saltwisted.domain.standing import seconds_back
from saltwisted.kinds import FILES
from saltwisted.master import runner_table, wheel_table
from saltwisted.master.automation.claimviews import ClaimViews
from saltwisted.master.automation.operations import AutomationOperations
from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.reactions import Reactions
from saltwisted.master.automation.reactor import Reactor
from saltwisted.master.automation.schedule import MasterSchedule
from saltwisted.master.automation.schedulecontrol import ScheduleControl
from saltwisted.master.autosign import Autosign
from saltwisted.master.calls import Calls
from saltwisted.master.commitcontrol import BY_WORD, CommitControl
from saltwisted.master.commitpins import CommitPins
from saltwisted.master.context import Context
from saltwisted.master.control import Control, table_of
from saltwisted.master.dispatch import Dispatcher
from saltwisted.master.doctoring import DoctorOperations
from saltwisted.master.gitfirst import FirstFetches
from saltwisted.master.gitoperations import GitOperations
from saltwisted.master.gitupdates import GitUpdates
from saltwisted.master.ground import Ground
from saltwisted.master.logins import Logins
from saltwisted.master.maintenance import Maintenance
from saltwisted.master.orchestration.operations import OrchestrationOperations
from saltwisted.master.orchestration.running import Orchestrating
from saltwisted.master.orchestration.views import OrchestrationViews
from saltwisted.master.pillars import Pillars
from saltwisted.master.presence import Presence
from saltwisted.master.processfiles import ProcessFiles
from saltwisted.master.requests import Requests
from saltwisted.master.rotation import Rotation
from saltwisted.master.seams import Seams
from saltwisted.master.sessions import Sessions
from saltwisted.master.sharing import PublishKeyFile
from saltwisted.master.signins import SignIns
from saltwisted.master.site import SiteFunctions
from saltwisted.master.table import clear_commands, sealed_commands
from saltwisted.master.userkeys import UserKeys
from saltwisted.master.whereabouts import WhereaboutsNotes
from saltwisted.roles import metrics
from saltwisted.roles.banner import Banner
from saltwisted.roles.base import OrderedService
from saltwisted.roles.ending import giving_up
from saltwisted.roles.history import stock_history
from saltwisted.roles.logs import observer
from saltwisted.roles.lone import check_lone
from saltwisted.roles.memory import Collector, Trimmer, tune_malloc
from saltwisted.roles.metrics import Measures
from saltwisted.roles.notify import StatusLine
from saltwisted.roles.ports import check_interface, check_tls, check_transport, ports_of
from saltwisted.roles.privileges import keep_memory, restrict_umask
from saltwisted.roles.readings import CONTROL, FIRST, SOCKET, Reading, refuse
from saltwisted.roles.reload import MASTER_BUILT_IN, Reload
from saltwisted.roles.stores import Stores
from saltwisted.stores.git.objects import library
from saltwisted.stores.identity import check_identity
from saltwisted.stores.jobs.choice import place
from saltwisted.stores.jobs.history import JobHistory
from saltwisted.stores.keys import KeyStore
from saltwisted.stores.whereabouts import WhereaboutsFile
from saltwisted.transports.deferreds import let_go
from saltwisted.transports.ipc import ControlServer
from saltwisted.transports.latency import LatencyMeter
from saltwisted.transports.localdoor import Behind, Doorway, LocalDoor
from saltwisted.transports.silence import AlarmWatch
from saltwisted.wire.publication import topic_of
from saltwisted.worker.process.configio import load_from_disk

if TYPE_CHECKING:
    from saltwisted.web.service import Api

log = Logger()
Rows = tuple[Iterable[Operation], Mapping[str, tuple[str, str]]]
"""Rows of another part for the table of operations, and names that stand for several of them."""


def check_api(config: MasterConfig) -> None:
    """
    @raises ConfigError: the HTTP API cannot work as it is configured.
    """
    if options_of({name: config.value(name) for name in BLOCKS}) is not None:
        from saltwisted.roles.api import check

        check(config)


def check_git(config: MasterConfig) -> None:
    """
    @raises ConfigError: files are served from git, and its library is missing.
    """
    if "gitfs" in FILES.chosen(config.fileserver_backend):
        library()


EITHER = (
    *FIRST,
    Reading("transport", check_transport),
    Reading("interface", check_interface),
    Reading("ssl", check_tls),
    Reading("metrics", metrics.check),
    Reading("rest_cherrypy", check_api),
    Reading("fileserver_backend", check_git),
    CONTROL,
)
"""What a master reads, alone or as a node of a cluster."""
READINGS = (*EITHER, Reading("pki_dir", check_lone), Reading("key_pass", check_identity))


def build(reactor: Any, config_dir: str | None, log_level: str | None) -> OrderedService:
    """
    A master, ready to be started by twistd.

    @raises ConfigError: when the configuration cannot work.
    @raises StoreError: when the keys cannot be read or made.
    """
    loaded = load_from_disk("master", config_dir)
    config = loaded.master
    restrict_umask()
    refuse(READINGS, loaded)
    keep_memory()
    tune_malloc()
    logs = observer(config, log_level, os.environ)
    stores = Stores(reactor, config)
    seams = stores.seams()
    rows: list[Rows] = []
    if isinstance(seams.pins, CommitPins):
        rows.append((CommitControl(seams.pins.earlier).operations(), BY_WORD))
    master = Master(stores, seams, rows)
    measures = Measures(reactor, config, master.waiting, master.summary, master.figures)
    measures.show(master.figures, stores.keys.accepted_ids, stores.bus)
    measures.serve_on(master.api)
    return OrderedService(
        reactor,
        [
            Banner(config, loaded.sources, loaded.warnings),
            *measures.parts,
            *master.parts,
            StatusLine(reactor, master.summary),
        ],
        failed=giving_up(reactor),
        started=master.started,
        observer=logs,
        reload=Reload(
            config,
            lambda: load_from_disk("master", config_dir),
            stores.files_threads.run,
            MASTER_BUILT_IN,
            master.reconfigure,
            logs,
            log_level,
        ),
    )


class KeyWrites:
    """The keys are read before anything starts; at the end what was written is made durable."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """Make the last changes durable."""
        self._keys.flush()


class Master:
    """
    Builds the parts of one master around one context; C{parts} start in order.

    @ivar disks: by name, what has a C{problem} while the disk refuses it.
    @ivar below: the parts that start before minions are answered.
    @ivar doors: the ports, and what comes after them.
    """

    def __init__(
        self,
        stores: Stores,
        seams: Seams,
        rows: Sequence[Rows] = (),
        disks: Mapping[str, Any] | None = None,
        doorway: Doorway | None = None,
    ) -> None:
        """
        @param rows: what is offered besides.
        @param disks: what else has a C{problem} while the disk refuses it.
        @param doorway: the control socket, if the daemon has one already.
        """
        reactor, config = stores.reactor, stores.config
        self.reactor = reactor
        self.config = config
        self.stores = stores
        self.began = time.monotonic()
        self._since = reactor.seconds()
        self.session_store = stores.sessions(seams.secrets)
        self.git = self._git(seams)
        self.pause = Pause(seams.schedule, stores.now)
        self.ctx = self._context(seams)
        self.meter = LatencyMeter(reactor, AlarmWatch())
        self.reacting = Reactor(self.ctx, stores.warm, self.pause)
        self.requests = Requests(self.ctx, sealed_commands(), clear_commands())
        self.ports = ports_of(reactor, config, self.requests, self.ctx)
        stores.publisher.add_server(self.ports.publications)
        operations = table_of(Control(self.ctx, self.status), stores.counters)
        self.claim_views = ClaimViews(seams.claims, self.ctx.node, stores.counters)
        operations.add(self.claim_views.operations())
        operations.add(GitOperations(self.git, seams.git, self.ctx.node).operations())
        operations.add(AutomationOperations(self.reacting, self.pause).operations())
        operations.add(OrchestrationOperations(self.orchestrating).operations())
        operations.add(DoctorOperations(config, stores.warm).operations())
        operations.add(OrchestrationViews(seams.orchestrations).operations())
        for more, by_word in rows:
            operations.add(more, by_word)
        self.disks: dict[str, Any] = {
            "disk": stores.reserve,
            "jobs": stores.jobs,
            "cache": stores.cache,
            "pruning": seams.prune_time,
            "events": seams.kept,
            "pillar": self.ctx.pillars.errors,
            **({"git": self.git} if self.git.is_wanted else {}),
            **({"receipts": seams.book} if seams.book is not None else {}),
            **(disks or {}),
        }
        self.control: Any = (
            Behind(doorway, operations, stores.counters)
            if doorway is not None
            else ControlServer(
                reactor,
                LocalDoor(operations).handle,
                os.path.join(config.sock_dir, SOCKET),
                counters=stores.counters,
            )
        )
        self.api = self._api(operations)
        self.sharing = self._sharing()
        self.below = self._below()
        self.doors = self._doors()

    def _api(self, operations: Operations) -> Api | None:
        """The HTTP API. Only a master that has one loads what speaks HTTP, which takes 3 MiB."""
        value = self.stores.config.value
        if options_of({name: value(name) for name in BLOCKS}) is None:
            return None
        from saltwisted.roles.api import api_of

        return api_of(self.stores, self.ctx, operations)

    def _git(self, seams: Seams) -> GitUpdates:
        """Who has git remotes fetched."""
        stores, source = self.stores, self.stores.git()
        return GitUpdates(
            stores.reactor,
            stores.config,
            source,
            stores.warm,
            stores.bus.fire,
            stores.counters,
            stores.now,
            random.SystemRandom().random,
            seams.git,
        )

    def _calls(self, ground: Ground, dispatcher: Dispatcher) -> Calls:
        """Runner and wheel functions, ours and the site's."""
        warm = self.stores.warm
        return Calls(
            ground,
            dispatcher.new_jid,
            dispatcher.chosen,
            [SiteFunctions(ground, warm, "runners", runner_table.ours())],
            [SiteFunctions(ground, warm, "wheel", wheel_table.ours())],
        )

    def _context(self, seams: Seams) -> Context:
        """What the handlers may use: the ground, and the parts that stand on it."""
        stores = self.stores
        ground = self._ground(seams)
        dispatcher = Dispatcher(ground, stores.jids, stores.warm)
        signins = SignIns(ground, stores.identity, stores.crypto_threads)
        calls = self._calls(ground, dispatcher)
        self.schedule = MasterSchedule(
            ground,
            calls,
            dispatcher.new_jid,
            lambda: self.ctx,
            random.SystemRandom().randint,
            lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
            time.strftime("%z"),
            lambda: self.pause.paused,
        )
        self.pause.on_change(
            lambda paused: let_go(self.schedule.changed(), log, "the schedule could not be read")
        )
        self.schedule_control = ScheduleControl(ground, self.schedule)
        self.orchestrating = Orchestrating(
            ground, stores.warm, dispatcher.new_jid, lambda: self.ctx
        )
        seams.orchestrations.serve(self.orchestrating)
        read = ProcessFiles(ground, "workers")
        stores.warm.answer("files", lambda args: read.answer(args.get("load")))
        return Context.of(
            ground,
            dispatcher=dispatcher,
            calls=calls,
            execution=SiteFunctions(ground, stores.warm, "modules", {}),
            schedule=self.schedule_control,
            orchestrating=self.orchestrating,
            logins=Logins(
                stores.reactor,
                stores.config,
                stores.now,
                stores.entropy,
                stores.warm,
                seams.tokens,
                stores.counters,
            ),
            pillars=Pillars(ground, stores.warm),
            reactions=Reactions(stores.config.reactor),
            git=self.git,
            signins=signins,
            rotation=Rotation(
                stores.reactor,
                stores.publisher,
                signins.settled,
                dispatcher.announce_next_key,
                self.rotated,
                seams.agreement,
            ),
        )

    def _ground(self, seams: Seams) -> Ground:
        stores, config = self.stores, self.config
        sessions = Sessions(stores.keys, self.session_store, stores.now, seams.whereabouts.came)
        self.notes = WhereaboutsNotes(
            stores.reactor,
            WhereaboutsFile(config.cachedir),
            stores.keys,
            stores.files_threads.run,
            lambda: float(config.publish_window),
            lambda: presence,
        )
        presence = Presence(
            sessions,
            stores.cache,
            lambda: self.ports.publications.addresses,
            stores.now,
            seams.whereabouts,
            float(config.loop_interval or 60),
            lambda minion_id: topic_of(minion_id) in self.ports.publications.topics,
            self.notes.earlier,
        )
        return Ground(
            config=config,
            node=config.id,
            clock=stores.reactor,
            now=stores.now,
            entropy=stores.entropy,
            identity=stores.identity.key,
            bus=stores.bus,
            keys=stores.keys,
            jobs=stores.jobs,
            cache=stores.cache,
            sessions=sessions,
            publisher=stores.publisher,
            presence=presence,
            users=UserKeys(
                config.cachedir,
                config.user,
                [user for user in config.publisher_acl if isinstance(user, str)],
                stores.entropy,
                bool(config.client_acl_verify),
            ),
            autosign=Autosign(config, stores.keys, seams.voucher),
            pool=stores.crypto_threads.run,
            counters=stores.counters,
            seams=seams,
            started=stores.now(),
        )

    def _sharing(self) -> PublishKeyFile | None:
        """What keeps the publish key the same on masters with a common C{cluster_pki_dir}."""
        stores = self.stores
        if stores.shared is None:
            return None
        return PublishKeyFile(
            self.reactor,
            stores.shared,
            stores.publisher,
            stores.files_threads.run,
            self.key_is_new,
        )

    @property
    def parts(self) -> list[Any]:
        """All parts, in the order in which they start."""
        return [*self.below, *self.doors]

    def _below(self) -> list[Any]:
        stores, jobs = self.stores, self.stores.jobs
        file = place(self.config.cachedir)
        return [
            stores.warm,
            KeyWrites(stores.keys),
            stores.files_threads,
            stores.crypto_threads,
            stores.reserve,
            jobs,
            JobHistory(
                self.reactor,
                jobs,
                os.path.dirname(file),
                stores.files_threads.run,
                stock_history(self.reactor, self.config.cachedir, file),
            ),
            stores.cache,
            self.session_store,
            stores.tokens,
            stores.schedule,
            *stores.sources,
            self.git,
            # What had not returned is pinned to what is served then
            *([self.ctx.seams.pins] if isinstance(self.ctx.seams.pins, CommitPins) else []),
            self.ctx.pillars,
            self.ctx.signins,
            *([self.ctx.seams.book] if self.ctx.seams.book is not None else []),
            self.ctx.seams.kept,
            self.pause,
            self.reacting,
            self.control,
            FirstFetches(self.reactor, self.git),
            # They ask by the control socket, and shall not take its end for that of their callers
            self.orchestrating,
        ]

    def _doors(self) -> list[Any]:
        git = self.stores.git()
        return [
            # Stopped after the ports, and before claims are: others get what goes on here at once
            self.ctx.seams.orchestrations,
            self.ports,
            # Stopped before the ports: it looks who is connected
            self.notes,
            self.ctx.dispatcher.latecomers,
            *([self.api] if self.api is not None else []),
            self.meter,
            Maintenance(self.ctx, [self.stores.cache.retry], [] if git is None else [git.tidy]),
            self.schedule,
            Trimmer(self.reactor, self.stores.files_threads.start),
            Collector(self.reactor),
            *([self.sharing] if self.sharing is not None else []),
        ]

    def rotated(self) -> None:
        """After a switch to a new publish key of our own."""
        if self.sharing is not None:
            self.sharing.rotated()
        self.key_is_new()

    def key_is_new(self) -> None:
        """Fire the event of a new publish key, and ping all minions if C{ping_on_rotate}."""
        self.ctx.bus.fire("key", {"rotate_aes_key": True})
        if self.config.ping_on_rotate:
            self.ctx.dispatcher.ping_all()

    def reconfigure(self, names: Iterable[str]) -> None:
        """Options have new values."""
        names = set(names)
        self.ctx.pillars.reconfigure()
        if any(name.startswith(("gitfs_", "git_pillar_", "ext_pillar")) for name in names):
            self.git.reconfigure()
        self.reacting.reconfigure("reactor" in names)
        self.schedule.reconfigure()

    def started(self) -> None:
        """All parts are up: the master can serve."""
        log.info(
            "serving on ports {publish} and {ret}, ready after {seconds:.2f} s",
            publish=self.config.publish_port,
            ret=self.config.ret_port,
            seconds=time.monotonic() - self.began,
        )

    def status(self) -> dict[str, Any]:
        """What C{status} on the control socket answers."""
        ctx = self.ctx
        keys = ctx.keys.list_keys()
        return {
            "role": "master",
            "id": ctx.node,
            "version": __version__,
            "pid": os.getpid(),
            "uptime": self.uptime(),
            "clock_set_back": seconds_back(ctx.now() - ctx.started, self.uptime()),
            "publish_port": self.config.publish_port,
            "ret_port": self.config.ret_port,
            "config_dir": self.config.config_dir,
            "keys": {state: len(ids) for state, ids in keys.items()},
            "sessions": len(ctx.sessions.live()),
            "published": ctx.publisher.published,
            "rotations": ctx.rotation.count,
            "counters": dict(ctx.counters),
            "schedule": self.schedule_control.status(),
            "latency": self.meter.figures(),
            "jobs_queued": ctx.jobs.queued,
            "reactor": self.reacting.status(),
            "claims": self.claim_views.status(),
            "git": ctx.git.status(),
            "serving": self.ports.open,
            "problems": self.problems(),
            **({"api": self.api.status()} if self.api is not None else {}),
        }

    def uptime(self) -> float:
        """Seconds since the master was built, whatever has been done to the clock."""
        return float(self.reactor.seconds() - self._since)

    def figures(self) -> dict[str, Any]:
        """The master's figures for metrics; see L{saltwisted.domain.metrics.families}."""
        ctx, counters = self.ctx, dict(self.ctx.counters)
        for reason, count in self.ports.requests.dropped.items():
            counters[f"requests-dropped:{reason}"] = count
        counters["publications-dropped"] = self.ports.publications.dropped
        reactor = self.reacting.status()
        return {
            "role": "master",
            "id": ctx.node,
            "version": __version__,
            "started": ctx.started,
            "serving": self.ports.open,
            "disks": list(self.disks),
            "problems": self.problems(),
            "latency": self.meter.figures(),
            "counters": counters,
            "keys": {state: len(ids) for state, ids in ctx.keys.list_keys().items()},
            "queues": {
                "sign_ins": ctx.signins.waiting(),
                "job_store": ctx.jobs.queued,
                "reactions": reactor["depth"],
            },
            "sessions": len(ctx.sessions.live()),
            "published": ctx.publisher.published,
            "rotations": ctx.rotation.count,
            "events": ctx.bus.last,
            "reactor": reactor,
            "schedule_running": len(self.schedule.runs),
            "claims": self.claim_views.status(),
        }

    def summary(self) -> str:
        """The state of the master, for the service manager's status line."""
        if not self.ports.open:
            return "not serving yet"
        problems = [f"{name}: {why}" for name, why in self.problems().items()]
        return "; ".join(["serving, with something missing", *problems]) if problems else "serving"

    def waiting(self) -> str:
        """Why the master does not answer minions; empty if it does."""
        return "" if self.ports.open else "not serving yet"

    def problems(self) -> dict[str, str]:
        """Which stores cannot write, and why."""
        # Each is asked once: to say whose pillars have errors may take milliseconds
        asked = ((name, store.problem) for name, store in self.disks.items())
        return {name: str(why) for name, why in asked if why}
