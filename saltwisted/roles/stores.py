"""
What a master stands on: its disk, its threads and its worker processes.

A cluster beside the master uses the same. Opened before anything else; nothing is decided here.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.claiming import IClaims
from saltwisted.config.options import MasterConfig
from saltwisted.domain.jid import JidMaker, jid_mark, jid_seconds
from saltwisted.domain.orchestration.sealing import Seals
from saltwisted.domain.orchestration.takeover import Known, known_of
from saltwisted.domain.orchestration.words import AS_JOB, Step
from saltwisted.errors import ConfigError
from saltwisted.interfaces import IPeers, IPins, IPruneTime, ISecrets
from saltwisted.kinds import FILES, JOB_STORE, MINION_CACHE
from saltwisted.master.automation.acts import CALLER_ENTRY
from saltwisted.master.automation.kept import KeptEvents
from saltwisted.master.automation.rendering import ENTRY as REACTOR_ENTRY
from saltwisted.master.commitpins import CommitPins
from saltwisted.master.doctoring import ENTRY as DOCTOR_ENTRY
from saltwisted.master.earliercommits import EarlierCommits
from saltwisted.master.fileserver import FileServer
from saltwisted.master.gitupdates import FETCH_ENTRY, LIST_ENTRY, SHARE_ENTRY
from saltwisted.master.gitupdates import READ_ENTRY as GIT_READ_ENTRY
from saltwisted.master.logins import ENTRY as LOGIN_ENTRY
from saltwisted.master.logins import NEAR_ENTRY
from saltwisted.master.loneclaims import LoneClaims
from saltwisted.master.orchestration.keepers import Electors, alone
from saltwisted.master.orchestration.kept import KeptOrchestrations
from saltwisted.master.orchestration.records import RunRecords
from saltwisted.master.pillars import ENTRY as PILLAR_ENTRY
from saltwisted.master.publisher import Publisher
from saltwisted.master.receipts import ReceiptBook
from saltwisted.master.reserve import Reserve
from saltwisted.master.seams import LonePins, LonePruneTime, LoneSecrets, Seams
from saltwisted.parts import IFileSource, IJobStore
from saltwisted.stores.cache import CACHES
from saltwisted.stores.claims import MOST_RECEIPTS, ClaimStore
from saltwisted.stores.files import make_dir, sweep_temporary
from saltwisted.stores.git.source import SECONDS as GIT_PATIENCE
from saltwisted.stores.git.source import GitFiles
from saltwisted.stores.identity import identity_of, shared_pki
from saltwisted.stores.jobs.choice import JOB_STORES
from saltwisted.stores.jobs.store import JobStore
from saltwisted.stores.keptevents import KeptEventStore
from saltwisted.stores.keys import KeyStore
from saltwisted.stores.runs import RunStore
from saltwisted.stores.schedule import ScheduleFile
from saltwisted.stores.secrets import SecretFile
from saltwisted.stores.sessions import SessionStore
from saltwisted.stores.shared import SharedPublishKey
from saltwisted.stores.sources.table import FILE_SOURCES
from saltwisted.stores.telling import Later, at_once
from saltwisted.stores.tokens import TokenFiles
from saltwisted.transports.bus import EventBus
from saltwisted.transports.callpool import PoolLimits
from saltwisted.transports.threads import Threads
from saltwisted.transports.workers import WarmPool
from saltwisted.turns import turns_of
from saltwisted.wire.crypticle import SessionKey
from saltwisted.worker.process.warm import exec_warm_parent

ROOTS_ENTRY = "saltwisted.stores.roots.filework:serve"
WEB_ENTRY = "saltwisted.worker.process.webwork:serve"
REST, PILLAR_REST = 120.0, 2.0
"""
Seconds after which the warm parent ends, when something that it has imported is not needed any
more; the second are for what compiles pillars, which is 12 MiB and imported again in 0.1 s. The
first are twice the default of C{gitfs_update_interval}, so that fetches do not each start their
own.
"""


class Stores:
    """
    Opened when made; the parts that run are started by the role.

    @ivar life: tells this life of this node from all others.
    @ivar shared: the publish key that masters with a common C{cluster_pki_dir} have; or C{None}.
    """

    def __init__(
        self,
        reactor: Any,
        config: MasterConfig,
        node: str = "",
        all_told: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        @param node: this node's id, if it has peers.
        @param all_told: whether all other members have said in this life what jobs they know.
        @raises ConfigError: what the configuration says of the keys cannot work.
        @raises StoreError: the keys cannot be read or made.
        """
        self.reactor, self.config = reactor, config
        self.now, self.entropy = time.time, os.urandom
        self.life = self.entropy(8).hex()
        self.counters: Counter[str] = Counter()
        self.bus = EventBus(self.now)
        for path in (config.pki_dir, config.cachedir):
            make_dir(path)
            sweep_temporary(path)
        self.files_threads = Threads(reactor, 4, "files")
        self.crypto_threads = Threads(reactor, 2, "crypto")
        folders = (config.cachedir, config.pki_dir)
        self.reserve = Reserve(reactor, folders, lambda *work: self.files_threads.run(*work))
        self.reserve.open()
        self.identity = identity_of(config)
        common = shared_pki(config)
        self.keys = KeyStore(common or config.pki_dir, background=self.files_threads.start)
        self.keys.open()
        self.shared = SharedPublishKey(common, self.entropy) if common else None
        if self.shared is not None:
            self.shared.open()
        publish_key = self.shared.key if self.shared else SessionKey.generate(self.entropy)
        self.publisher = Publisher(
            config, self.identity.key, self.entropy, publish_key, reactor.seconds
        )
        (cache,) = MINION_CACHE.chosen(config.cache)
        self.cache = CACHES.take(cache)(config, self.files_threads.start, reactor)
        self.jids = JidMaker()
        self.runs: KeptOrchestrations | None = None
        self.jobs = self._job_store(node, all_told)
        self.secrets = SecretFile(
            os.path.join(common or config.cachedir, "saltwisted", "session_secret"),
            self.entropy,
            self.now,
            float(config.publish_session) / 2,
        )
        tokens = os.path.join(config.cachedir, "tokens")
        self.tokens = TokenFiles(tokens, self.files_threads.run, self.now)
        self.schedule = ScheduleFile(
            os.path.join(config.cachedir, "saltwisted", "schedule"), self.files_threads.run
        )
        self.warm = warm_pool(reactor)
        self.sources = [
            FILE_SOURCES.take(name)(config, self.files_threads.run, self._git_work)
            for name in dict.fromkeys(FILES.chosen(config.fileserver_backend))
        ]

    def _git_work(self, request: Mapping[str, Any]) -> Deferred[Any]:
        """Have a worker process read what is in a repository."""
        entry = LIST_ENTRY if request["do"] == "list" else GIT_READ_ENTRY
        return self.warm.call(entry, request, GIT_PATIENCE)

    def source(self, name: str) -> IFileSource:
        """The chosen source of files with this name."""
        return next(each for each in self.sources if each.name == name)

    def git(self) -> GitFiles | None:
        """The source of commits, if one is chosen."""
        return next((each for each in self.sources if isinstance(each, GitFiles)), None)

    def _job_store(self, node: str, all_told: Callable[[], bool]) -> IJobStore:
        (name,) = JOB_STORE.chosen(self.config.master_job_cache)
        jobs = JOB_STORES.take(name)(self.reactor, self.config, self.now, node, all_told)
        jobs.on_open.append(lambda: self.jids.resume(jid_mark(jobs.newest_jid(self.jids.slot))))
        return jobs

    def job_log(self) -> JobStore:
        """
        The job store, as a log that other nodes have.

        @raises ConfigError: it is one that keeps the jobs of one master alone.
        """
        if not isinstance(self.jobs, JobStore):
            raise ConfigError("a node of a cluster needs master_job_cache: local_cache")
        return self.jobs

    def sessions(self, secrets: ISecrets) -> SessionStore:
        """The session keys of minions, from these secrets."""
        return SessionStore(
            self.config.cachedir,
            secrets.versions,
            self.now,
            float(self.config.publish_session),
            secrets.acceptance,
            self.keys.accepted_at,
        )

    def seams(self) -> Seams:
        """The seams of a lone master."""
        book, prune_time = self._book()
        claims = LoneClaims(
            self.config.id, self.now, self.reactor.seconds, self.counters, self.life, book
        )
        pins = self._pins()
        return Seams(
            pins=pins,
            secrets=LoneSecrets(self.secrets, self.keys.acceptance),
            tokens=self.tokens,
            schedule=self.schedule,
            prune_time=prune_time,
            claims=claims,
            # Before it is known what had begun, nothing is taken up
            kept=self.kept(
                self.config.id, None, claims, lambda: book.is_open and claims.would_claim()
            ),
            book=book,
            orchestrations=self.orchestrations(
                self.config.id, claims, None, alone(self.config.id), prune_time, pins
            ),
        )

    def _file_server(self, git: GitFiles | None = None) -> FileServer:
        """Over the newest files, or over other commits."""
        sources = [
            git if git is not None and isinstance(each, GitFiles) else each for each in self.sources
        ]
        return FileServer(sources, self.config, self.files_threads.run)

    def _pins(self) -> IPins:
        """Those of a master alone: only commits can be pinned."""
        newest, git = self._file_server(), self.git()
        if git is None:
            return LonePins(newest)
        path = os.path.join(self.config.cachedir, "saltwisted", "git", "generations")
        earlier = EarlierCommits(path, git, self.files_threads.run, self.now)
        return CommitPins(
            newest,
            git,
            self._file_server,
            self.reactor.seconds,
            earlier,
            self.now,
            # After a start, jobs in a store of another kind get the newest commits
            self.jobs if isinstance(self.jobs, JobStore) else None,
            self.reads,
        )

    def claim_store(
        self, cluster: str, key: str, damaged: str, most: int = 0, later: Later | None = None
    ) -> ClaimStore:
        """The claim store: the votes of a member, or the receipts of a lone master."""
        path = os.path.join(self.config.cachedir, "saltwisted", "claims.sqlite")
        run = self.files_threads.run
        return ClaimStore(path, run, cluster, key, damaged, most, later or self._after_turn)

    def _after_turn(self, call: Callable[[], None]) -> None:
        turns_of(self.reactor).later(call)

    def _book(self) -> tuple[ReceiptBook, LonePruneTime]:
        """The receipts of a master alone, and what time it is for who forgets old ones."""
        prune_time = LonePruneTime(self.now, lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
        keep = float(self.config.keep_jobs_seconds)

        def before() -> float | None:
            now = prune_time.time()
            return now - keep if now is not None and keep > 0 else None

        # The book itself waits for the end of a turn
        lost = "its receipts are lost"
        store = self.claim_store("", "alone", lost, MOST_RECEIPTS, at_once)
        return ReceiptBook(self.reactor, store, before), prune_time

    def kept(
        self, node: str, peers: IPeers | None, claims: IClaims, may: Callable[[], bool]
    ) -> KeptEvents:
        """
        What minions were promised a reaction to; for a master alone without peers.

        @param may: whether this node takes up what it finds.
        """
        path = os.path.join(self.config.cachedir, "saltwisted", "events.sqlite")
        return KeptEvents(
            self.reactor,
            node,
            self.life,
            KeptEventStore(path, self.files_threads.run, self._after_turn),
            self.now,
            self.counters,
            peers,
            int(self.config.return_copies),
            may,
            claims.keys.given,
        )

    def orchestrations(
        self,
        node: str,
        claims: IClaims,
        peers: IPeers | None,
        electors: Electors,
        times: IPruneTime,
        pins: IPins,
    ) -> KeptOrchestrations:
        """The record of orchestrations; for a lone master, without peers."""
        config = self.config
        path = os.path.join(config.cachedir, "saltwisted", "runs.sqlite")
        store = RunStore(path, self.files_threads.run, self._after_turn)

        async def known(step: Step) -> Known:
            job = await self.jobs.job(step.jid) if step.jid else None
            out = None if job is None or job.get("claimed") else job.get("minions") or ()
            return known_of(step, out, jid_seconds(step.jid) or 0.0, self.now())

        def before() -> float | None:
            now, keep = times.time(), float(config.keep_jobs_seconds)
            return now - keep if now is not None and keep > 0 else None

        self.runs = KeptOrchestrations(
            self.reactor,
            node,
            claims,
            RunRecords(self.reactor, node, peers, electors, store),
            self.now,
            known,
            lambda: str(config.orchestrate_takeover),
            lambda: float(config.publish_window),
            self.bus.fire,
            before,
            Seals(lambda: self.identity.key, self.entropy),
            lambda jid: pins.facts(jid, AS_JOB),
        )
        return self.runs

    def reads(self) -> Mapping[str, Mapping[str, str]]:
        """Generation to trees of the orchestrations that have not ended."""
        return {} if self.runs is None else self.runs.reads()


def warm_pool(reactor: Any) -> WarmPool:
    """The worker processes."""
    return WarmPool(
        reactor,
        # Forked from here it would hold a second copy of Twisted: 34 MiB instead of 9, and 18
        # when it has made its first pillar, before which it imports nothing for that
        exec_warm_parent,
        exec_warm_parent,
        rest=REST,
        pools={
            # What they have compiled is kept here; a new one costs some 50 ms, an idle one 12 MiB
            PILLAR_ENTRY: PoolLimits(idle=2.0, rest=PILLAR_REST),
            # One, so that reactions begin in the order of events; it stays, once it was needed
            REACTOR_ENTRY: PoolLimits(size=1, keep=1, calls=20_000),
            CALLER_ENTRY: PoolLimits(size=2, queue=256),
            # One process, which the pool of the roots keeps busy, and which goes soon after
            ROOTS_ENTRY: PoolLimits(size=1, idle=1.0, calls=100_000),
            # PAM waits for seconds after a wrong password
            LOGIN_ENTRY: PoolLimits(size=4, queue=256),
            NEAR_ENTRY: PoolLimits(size=4, queue=256),
            DOCTOR_ENTRY: PoolLimits(size=1, idle=1.0, queue=8),
            WEB_ENTRY: PoolLimits(size=1, queue=64),
            # Each remote that is far away keeps one, so that they hold up nobody else
            FETCH_ENTRY: PoolLimits(size=8, idle=2.0),
            SHARE_ENTRY: PoolLimits(size=3, idle=10.0),
            # What they have read is kept here: they are asked for each commit, once
            GIT_READ_ENTRY: PoolLimits(size=2, idle=1.0),
            LIST_ENTRY: PoolLimits(size=2, idle=1.0),
        },
    )
