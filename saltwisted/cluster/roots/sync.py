"""
The roots service of a node: its shares, its streams to the peers, and what both report.

A share is one entry of one environment's C{file_roots}, or of C{pillar_roots}, known by the same
name on every master. How one share works is in L{saltwisted.cluster.roots.share}, how one
stream does in L{saltwisted.cluster.roots.link}; here they are introduced to one another.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from saltwisted.cluster.roots.core import STARTING, Settings
from saltwisted.cluster.roots.link import RootLink
from saltwisted.cluster.roots.share import RootShare
from saltwisted.domain.causality.clock import skewed
from saltwisted.domain.causality.knowledge import count_missing
from saltwisted.domain.replica.membership import PILLAR, WRITE
from saltwisted.domain.roots.entry import Batch, Conflict
from saltwisted.domain.roots.frames import BATCH, OFFER, STATE
from saltwisted.domain.roots.greeting import greeting
from saltwisted.domain.roots.guards import MIB, Forbidden, Limits
from saltwisted.domain.roots.index import Outcome, Policy
from saltwisted.domain.roots.manifest import name_of
from saltwisted.errors import ConfigError, SaltwistedError, StoreError
from saltwisted.stores.roots.filework import Helper
from saltwisted.stores.roots.housekeeping import DAY, clean
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.served import Shared
from saltwisted.stores.roots.store import RootStore
from saltwisted.stores.roots.worktree import WorkTree
from saltwisted.transports.deferreds import let_go
from saltwisted.words import counted

FOUND_AFTER = 10.0
"""Seconds that a node without a tree waits for members that it does not reach."""
CLEAN_EVERY = 3600.0
READ_ONLY = "403: read-only: its changes are refused"
TELL_AGAIN = 30.0
STEP = 0.02
MOST_LINES = 20
"""Conflicts of one commit that get a line of the log each."""
KINDS = ("file", "pillar")
NO_PILLAR = "this node has no right to pillars (saltwisted members rights)"


@frozen
class Root:
    """A directory to be kept in step: C{file/base/0} and where it is."""

    name: str
    path: str


def roots_of(config: Any) -> tuple[list[Root], dict[str, str]]:
    """
    The shares that a configuration means, and what does not take part, with the reason.
    """
    found: list[Root] = []
    left: dict[str, str] = {}
    seen: dict[str, str] = {}
    pillar = bool(config.cluster_pillar)
    for kind, roots in (("file", config.file_roots), ("pillar", config.pillar_roots)):
        for env, paths in (roots or {}).items():
            for number, path in enumerate([paths] if isinstance(paths, str) else paths or []):
                name = f"{kind}/{env}/{number}"
                path = str(path)
                if kind == "pillar" and not pillar:
                    left[name] = "this node has no right to pillars"
                elif env == "__env__" or "__env__" in path:
                    left[name] = "roots of __env__ are not replicated"
                elif any(char in path for char in "*?["):
                    left[name] = "roots named by a pattern are not replicated"
                elif not os.path.isabs(path):
                    left[name] = "it is not an absolute path"
                elif os.path.realpath(path) in seen:
                    left[name] = f"it is the same directory as {seen[os.path.realpath(path)]}"
                else:
                    seen[os.path.realpath(path)] = name
                    found.append(Root(name, path.rstrip("/") or "/"))
    return found, left


class RootSync:
    """
    Reactor thread only.

    @param node: this node's id.
    @param pool: runs a blocking call, C{pool(function, *args) -> Deferred}.
    @param members: the ids of the other members, reachable or not.
    @param fire: C{fire(tag, data)} on the bus.
    @param options: the C{cluster_roots} map of the configuration.
    @param cluster: which cluster this node belongs to; an index of another one does not count.
    @param may: C{may(node, right)}: what the membership says that a member may do, this node too.
    @param helper: reads and makes many small files in another process; see
        L{saltwisted.stores.roots.filework}.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        node: str,
        roots: Sequence[Root],
        folder: str,
        pool: Callable[..., Deferred[Any]],
        fire: Callable[[str, Mapping[str, Any]], None],
        members: Callable[[], Sequence[str]] = lambda: (),
        options: Mapping[str, Any] | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
        now: Callable[[], float] = time.time,
        now_ns: Callable[[], int] = time.time_ns,
        jitter: Callable[[], float] = lambda: 1.0,
        left_out: Mapping[str, str] | None = None,
        cluster: str = "",
        may: Callable[[str, str], bool] = lambda node, right: True,
        helper: Helper | None = None,
    ) -> None:
        self.node = node
        self.may = may
        self.pool = pool
        self.members = members
        self.now = now
        self.jitter = jitter
        self.left_out = dict(left_out or {})
        self.cluster = cluster
        self.approvals: set[tuple[str, str, int]] = set()
        self.counters: Counter[str] = Counter()
        self.clock_problem = ""
        self.flags: dict[str, str] = {}
        self.alarms: dict[str, str] = {}
        self._mending: dict[bytes, Shared] = {}
        self.on_generation: list[Callable[[str], None]] = []
        self.pinned: Callable[[], set[bytes]] = set
        self.waits: list[Callable[[], bool]] = []
        self.on_stranded: list[Callable[[str], None]] = []
        self.on_damaged: list[Callable[[str], None]] = []
        self.on_left_out: list[Callable[[str], None]] = []
        self._reactor = reactor
        self._fire = fire
        self._links: dict[str, RootLink] = {}
        self._offsets: dict[str, float] = {}
        self._totals: dict[str, list[int]] = {}
        self._running = False
        self._timers: list[Any] = []
        self._waiting: list[Deferred[None]] = []
        self._unfounded: dict[str, float] = {}
        options = dict(options or {})
        self.settings, self.limits, self.policy = settings_of(options)
        extra = tuple(str(rule).encode() for rule in options.get("ignore") or ())
        self._free = int(options.get("free_mib", 512)) * MIB
        self._quota = int(options.get("quota_mib", 0)) * MIB
        keep = float(options.get("keep_base_days", 7)) * DAY
        self.shares: dict[str, RootShare] = {}
        self._withdrawn: list[str] = []
        for root in roots:
            if not self.may_have(node, root.name):
                self.left_out[root.name] = NO_PILLAR
                self._withdrawn.append(f"{folder}/{root.name.replace('/', '-')}")
                continue
            self.shares[root.name] = RootShare(
                self,
                root.name,
                root.path,
                f"{folder}/{root.name.replace('/', '-')}",
                reactor,
                self.settings,
                lambda where: RootStore(
                    where, node, entropy, now, self.policy, self.limits, keep=keep
                ),
                WorkTree(
                    root.path,
                    root.name,
                    self.limits,
                    now_ns,
                    extra,
                    f"{folder}/{root.name.replace('/', '-')}/trash",
                    helper,
                ),
            )

    # -- start and stop

    async def startService(self) -> None:
        """Open every share; one that cannot be opened is named and left out."""
        self._running = True
        for store in self._withdrawn:
            # It had them once: what the cluster gave it goes with the right to it
            await self.pool(shutil.rmtree, store, True)
        for name, share in list(self.shares.items()):
            try:
                await share.start()
            except (StoreError, OSError) as error:
                self.log.error("roots: {share}: {error}", share=name, error=str(error))
                self.left_out[name] = str(error)
                del self.shares[name]
                for receiver in self.on_left_out:
                    receiver(share.root)
        self._later(CLEAN_EVERY, self._clean)

    async def stopService(self) -> None:
        """Close streams and shares."""
        self._running = False
        for timer in self._timers:
            if timer.active():
                timer.cancel()
        for link in list(self._links.values()):
            if link.transport is not None:
                link.transport.loseConnection()
        for share in self.shares.values():
            await share.stop()
        self.stir()

    def _later(self, delay: float, act: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.active()]
        if self._running:
            self._timers.append(self._reactor.callLater(delay, act))

    def stir(self) -> None:
        """Something was done or reported: those who wait for a state look at it again."""
        waiting, self._waiting = self._waiting, []
        for d in waiting:
            d.callback(None)

    def stirs(self, most: float) -> Deferred[None]:
        """Fires at the next L{stir}, or after that many seconds."""
        d: Deferred[None] = Deferred()

        def late() -> None:
            self._waiting.remove(d)
            d.callback(None)

        timer = self._reactor.callLater(most, late)
        self._waiting.append(d)
        return d.addCallback(lambda _: timer.cancel() if timer.active() else None)

    def _clean(self) -> None:
        self._later(CLEAN_EVERY * self.jitter(), self._clean)
        d = Deferred.fromCoroutine(self.clean())
        let_go(d, self.log, "roots: housekeeping failed")

    async def clean(self) -> None:
        """Forget what nobody needs any more."""
        for share in self.shares.values():
            store = share.store
            if store is None:
                continue
            members = [
                store.confirmed.peers.get(node, {})
                for node in self.members()
                if self.may_have(node, share.name)
            ]
            await share.core.locked(self._clean_one, store, members)

    async def _clean_one(self, store: RootStore, members: list[Any]) -> None:
        await self.pool(clean, store, members)

    # -- streams

    def stream(self, node: str, dialled: bool) -> RootLink:
        """The protocol for a new stream with a member."""
        return RootLink(self, node, dialled, self._reactor)

    def hello(self, node: str) -> list[Any]:
        """What a peer is told first, and every half minute."""
        shares = []
        for name, share in self.shares.items():
            shown = share.generation if self.may_have(node, name) else None
            shares.append((name, shown.knowledge, shown.digest) if shown else (name, {}, b""))
        return greeting(int(self.now() * 1000), shares)

    def link_up(self, link: RootLink) -> None:
        """A peer has introduced itself."""
        old = self._links.get(link.node)
        if old is not None and old is not link and not old.closed:
            old.close("replaced")
        self._links[link.node] = link
        self.flags.pop(link.node, None)
        self._take_clock(link)
        for name in link.peer.knowledge:
            self.heard(link, name)
            share = self.shares.get(name)
            if share is not None:
                share.greeted(link)
        self._found_blank()

    def link_down(self, link: RootLink) -> None:
        """A stream has ended."""
        totals = self._totals.setdefault(link.node, [0, 0])
        totals[0] += link.bytes_in
        totals[1] += link.bytes_out
        if self._links.get(link.node) is link:
            del self._links[link.node]
            for share in self.shares.values():
                share.work()

    def heard(self, link: RootLink, name: str) -> None:
        """A peer said what it knows of a share."""
        self._take_clock(link)
        share = self.shares.get(name)
        if share is not None:
            share.heard(link)
            if name in self._unfounded:
                self._found_blank()
        self.stir()

    def received(self, link: RootLink, kind: int, name: str, body: bytes) -> None:
        """@raises Forbidden: the message is against the rules."""
        if kind in (BATCH, STATE, OFFER) and not self.may(link.node, WRITE):
            self._refuse_writes(link)
            return
        share = self.shares.get(name)
        if share is not None:
            share.received(link, kind, body)

    def _refuse_writes(self, link: RootLink) -> None:
        """A member that may not write sends changes; also those of others come by others."""
        if self.flags.get(link.node) != READ_ONLY:
            self.flags[link.node] = READ_ONLY
            self.counters["roots:refused:403"] += 1
            self.log.warn("roots: {node}: {reason}", node=link.node, reason=READ_ONLY)
            self.event("refused", {"peer": link.node, "reason": READ_ONLY})
            link.refuse(READ_ONLY)

    def serves(self, link: RootLink, name: str) -> bool:
        """Whether a share is here, and this peer may have it."""
        return name in self.shares and self.may_have(link.node, name)

    def may_have(self, node: str, name: str) -> bool:
        """Whether a node may have a share: pillars are for those with the right to them."""
        return not name.startswith("pillar/") or self.may(node, PILLAR)

    def store(self, name: str) -> ContentStore | None:
        """Where the contents of a share are."""
        share = self.shares.get(name)
        return share.store.objects if share is not None and share.store is not None else None

    def number(self, name: str) -> int | None:
        """How we call a share in our frames: its place in our greeting."""
        for number, each in enumerate(self.shares):
            if each == name:
                return number
        return None

    def writers_of(self, name: str) -> list[RootLink]:
        """Streams to peers that have this share, and whose changes count."""
        return [link for link in self.links_of(name) if self.may(link.node, WRITE)]

    def work(self, shares: Iterable[RootShare] = ()) -> list[dict[str, Any]]:
        """
        What is being done for these shares (all), as far as it can be counted: the share,
        C{doing}, C{done} C{of} how many, and of contents that are fetched C{bytes} and C{of_bytes}.
        """
        rows: list[dict[str, Any]] = []
        for share in shares or self.shares.values():
            tree = share.core.tree.progress
            if tree.doing:
                row = {"doing": tree.doing, "done": tree.done, "of": tree.total}
                rows.append({"share": share.name, **row})
            for link in self.links_of(share.name):
                if (coming := link.objects.coming(share.name)) is not None:
                    rows.append(
                        {
                            "share": share.name,
                            "doing": f"files fetched from {link.node}",
                            "done": coming.done,
                            "of": coming.of,
                            "bytes": coming.bytes_done,
                            "of_bytes": coming.bytes_of,
                        }
                    )
        return rows

    def links_of(self, name: str) -> list[RootLink]:
        """Streams to peers that have this share."""
        return [
            link
            for link in self._links.values()
            if link.peer.greeted
            and not link.closed
            and name in link.peer.knowledge
            and self.may_have(link.node, name)
        ]

    def flagged(self, link: RootLink, error: Forbidden) -> None:
        """A peer broke the rules."""
        self.counters[f"roots:refused:{error.reason}"] += 1
        self.flags[link.node] = str(error)
        self.event("refused", {"peer": link.node, "reason": str(error)})

    def _take_clock(self, link: RootLink) -> None:
        if link.peer.clock_ms:
            self._offsets[link.node] = link.peer.clock_ms / 1000 - self.now()
            link.peer.clock_ms = 0
        self._judge_clock()

    def clocks_compared(self, ahead: Mapping[str, float]) -> None:
        """
        The clocks of those that are linked were compared again: what was said at the greeting is
        old, and a clock that was set since is right now, or wrong.

        @param ahead: seconds by which each is ahead of this node's.
        """
        self._offsets = dict(ahead)
        self._judge_clock()

    def _judge_clock(self) -> None:
        live = [offset for node, offset in self._offsets.items() if node in self._links]
        problem = ""
        if skewed(0, live):
            problem = "clock: this node's clock is over ten minutes off its peers'"
        if problem != self.clock_problem:
            self.clock_problem = problem
            if problem:
                self.log.error("roots: {problem}; its changes wait", problem=problem)
                self.event("suspended", {"reason": problem})

    # -- the first tree

    def blank(self, name: str) -> None:
        """A share that has never had a tree: a member's comes first, if one has any."""
        self._unfounded[name] = self._reactor.seconds()
        self._later(FOUND_AFTER, self._found_blank)
        self._found_blank()

    def _found_blank(self) -> None:
        """The smallest of the reachable nodes founds, once all members were heard or waited for."""
        for name, since in list(self._unfounded.items()):
            share = self.shares.get(name)
            if share is None or share.ready or (share.store and share.store.knowledge):
                del self._unfounded[name]
                continue
            links = self.writers_of(name)
            if any(link.peer.knowledge[name] for link in links) or not self.may(self.node, WRITE):
                continue
            members = set(self.members())
            missing = members - self._links.keys()
            if missing and self._reactor.seconds() - since < FOUND_AFTER:
                continue
            if any(link.node < self.node for link in links):
                continue
            del self._unfounded[name]
            d = Deferred.fromCoroutine(share.found())
            let_go(d, self.log, "roots: founding {share} failed", share=name)

    # -- what is told to others here

    def event(self, what: str, data: Mapping[str, Any]) -> None:
        """On the bus, as C{salt/roots/<what>}."""
        self._fire(f"salt/roots/{what}", {"node": self.node, **data})

    def stranded(self, name: str) -> None:
        """A share has to start again, with all that uses it."""
        for receiver in self.on_stranded:
            receiver(name)

    def damaged(self, name: str) -> None:
        """The index of a share is damaged: it is put aside when it is opened again."""
        for receiver in self.on_damaged:
            receiver(name)

    def mend(self, objects: Any, digest: bytes, size: int) -> Deferred[None]:
        """A content that was about to be served is damaged; fires when something was done."""
        mending = self._mending.get(digest)
        if mending is None:
            share = next((s for s in self.shares.values() if _has(s, objects)), None)
            if share is None:
                return succeed(None)
            mending = self._mending[digest] = Shared()
            d = Deferred.fromCoroutine(share.care.found({digest: size}))
            mending.follow(d.addErrback(self._not_mended).addBoth(self._mended, digest))
        joined: Deferred[None] = mending.join()
        return joined

    def _not_mended(self, failure: Failure) -> None:
        failure.trap(SaltwistedError)
        self.log.error("roots: a damaged content is not mended: {error}", error=failure.value)

    def _mended(self, result: Any, digest: bytes) -> Any:
        del self._mending[digest]
        return result

    def loaded(self, name: str) -> None:
        """A generation was committed before this process began."""
        for receiver in self.on_generation:
            receiver(name)

    def committed(self, name: str, batch: Batch | None, outcome: Outcome, local: bool) -> None:
        """A generation is committed."""
        share = self.shares[name]
        generation = share.generation
        if generation is None:
            return
        self.alarms.pop(name, None)
        share.keep_recent(self.pinned())
        if outcome.shown:
            for receiver in self.on_generation:
                receiver(name)
            self.event(
                "committed" if local else "applied",
                {
                    "share": name,
                    "generation": generation.name,
                    "number": generation.number,
                    "origin": batch.replica.master if batch is not None else "",
                    "changed": len(outcome.shown),
                },
            )
        if outcome.conflicts:
            self._tell_conflicts(name, outcome.conflicts)
            self.event(
                "conflict",
                {
                    "share": name,
                    "paths": sorted({os.fsdecode(one.path) for one in outcome.conflicts})[:100],
                },
            )

    def _tell_conflicts(self, name: str, conflicts: Sequence[Conflict]) -> None:
        """A line for each path, and a count where there are very many."""
        for path, version in conflicts[:MOST_LINES]:
            self.log.warn(
                "roots: {share}: {path}: changed on two masters at once; the change of {master} "
                "is not served, and is kept: saltwisted roots conflicts",
                share=name,
                path=os.fsdecode(path),
                master=version.dot.source.master,
            )
        if len(conflicts) > MOST_LINES:
            self.log.warn(
                "roots: {share}: {more}",
                share=name,
                more=counted(len(conflicts) - MOST_LINES, "more conflict"),
            )

    def room_problem(self, objects: ContentStore | None, folder: str, size: int) -> str:
        """Why this many bytes cannot be taken in; empty if they can."""
        kept = objects.total() if self._quota and objects is not None else 0
        if self._quota and kept + size > self._quota:
            return (
                f"quota: {size // MIB} MiB to come, {kept // MIB} of {self._quota // MIB} MiB are "
                "in use (quota_mib)"
            )
        info = os.statvfs(folder)
        free = info.f_bavail * info.f_frsize
        floor = min(max(self._free, info.f_blocks * info.f_frsize // 20), 20 * self._free)
        if free - size < floor:
            return (
                f"no room: {size // MIB} MiB to come, {free // MIB} MiB free, "
                f"{floor // MIB} MiB are kept free"
            )
        return ""

    # -- readiness and reports

    @property
    def name(self) -> str:
        """The generation of all file roots together: what a job is pinned to."""
        return generation_name(self.digests())

    @property
    def pillar_name(self) -> str:
        """The generation of all pillar roots together; empty where this node has none."""
        found = self.digests("pillar")
        return generation_name(found) if found else ""

    def digests(self, kind: str = "file") -> dict[str, bytes]:
        """Share of file roots, or of pillar roots, to the digest of its tree."""
        return {
            name: share.generation.digest
            for name, share in self.shares.items()
            if name.startswith(f"{kind}/") and share.generation is not None
        }

    @property
    def ready(self) -> bool:
        """Whether this node has at least one whole generation of every share."""
        return all(share.ready for share in self.shares.values())

    @property
    def complete(self) -> bool:
        """Whether what it has is also where minions and workers are given it from."""
        return self.ready and all(done() for done in self.waits)

    def waiting(self) -> str:
        """Which shares are not whole here yet, and why; empty if all are."""
        found = []
        for name, share in self.shares.items():
            if not share.ready:
                why = share.core.suspended
                if why in ("", STARTING):
                    why = "the cluster's tree is not whole here yet"
                found.append(f"{name} ({why})")
        if found:
            return "it waits for roots: " + ", ".join(found)
        return "" if self.complete else "it lays out the pillar roots"

    def lag(self, link: RootLink, share: RootShare) -> tuple[int, int]:
        """Changes that the peer lacks, and that we lack of what it knows."""
        theirs = link.peer.knowledge.get(share.name, {})
        ours = share.store.knowledge if share.store is not None else {}
        return count_missing(theirs, ours), count_missing(ours, theirs)

    def peers(self) -> dict[str, dict[str, Any]]:
        """What is known of each peer's roots."""
        found: dict[str, dict[str, Any]] = {}
        for node in sorted({*self.members(), *self._links}):
            link = self._links.get(node)
            was = self._totals.get(node, [0, 0])
            entry: dict[str, Any] = {
                "connected": link is not None,
                "bytes_in": was[0] + (link.bytes_in if link else 0),
                "bytes_out": was[1] + (link.bytes_out if link else 0),
                "error": self.flags.get(node, "") or (link.error if link else ""),
            }
            if link is not None:
                lags = {name: self.lag(link, share) for name, share in self.shares.items()}
                both = {
                    name: lag
                    for name, lag in lags.items()
                    if name in link.peer.knowledge and self.may_have(node, name)
                }
                entry["lag"] = sum(lag[0] for lag in both.values())
                entry["shares"] = {
                    name: {"lacks": lag[0], "ahead": lag[1]} for name, lag in both.items()
                }
            found[node] = entry
        return found

    def members_state(self) -> str:
        """One word for the list of members."""
        if not self.ready:
            return "waiting for a generation"
        if any(share.core.suspended for share in self.shares.values()):
            return "suspended"
        behind = sum(
            count_missing(share.store.knowledge, link.peer.knowledge.get(name, {}))
            for name, share in self.shares.items()
            if share.store is not None
            for link in self.writers_of(name)
        )
        return f"{behind} behind" if behind else "in step"


def generation_name(digests: Mapping[str, bytes]) -> str:
    """The name of several shares' trees together; of one share, that of its own tree."""
    if len(digests) == 1:
        return name_of(next(iter(digests.values())))
    whole = hashlib.sha256()
    for name in sorted(digests):
        whole.update(name.encode() + b"\0" + digests[name])
    return name_of(whole.digest())


def settings_of(options: Mapping[str, Any]) -> tuple[Settings, Limits, Policy]:
    """
    The C{cluster_roots} map as values.

    @raises ConfigError: a value that makes no sense.
    """
    try:
        settings = Settings(
            quiet=float(options.get("quiet_ms", 50)) / 1000,
            quiet_most=float(options.get("quiet_max_ms", 2000)) / 1000,
            scan=max(float(options.get("scan_s", 60)), 1.0),
            rejoin=str(options.get("rejoin", "adopt")),
            keep_both=options.get("conflict") == "keep-both",
        )
        limits = Limits(
            max_file=int(options.get("max_file_mib", 1024)) * MIB,
            guard_files=int(options.get("guard_files", 100)),
            guard_part=float(options.get("guard_pct", 25)) / 100,
            links=str(options.get("links", "inside")),
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(f"cluster_roots: {error}") from error
    if "pillar_nodes" in options:
        raise ConfigError(
            "cluster_roots: pillar_nodes is no longer an option: say once for all nodes "
            "which members get pillars, with 'saltwisted members rights NODE read,write'"
        )
    conflict = options.get("conflict", "newest")
    primary = ""
    if isinstance(conflict, Mapping) and set(conflict) == {"primary"}:
        primary = str(conflict["primary"])
    elif conflict not in ("newest", "keep-both"):
        raise ConfigError(
            "cluster_roots: conflict is newest, keep-both, or a map of primary to a node id"
        )
    if settings.rejoin not in ("adopt", "merge"):
        raise ConfigError("cluster_roots: rejoin is adopt or merge")
    if limits.links not in ("inside", "all", "none"):
        raise ConfigError("cluster_roots: links is inside, all or none")
    return settings, limits, Policy(primary)


class RootsGate:
    """
    The last part before minions are served: a joiner waits until it has the cluster's roots.

    A node that has served before does not wait: what it has committed is a whole generation.
    """

    log = Logger()

    def __init__(self, sync: RootSync, clock: Any) -> None:
        self._sync = sync
        self._clock = clock
        self._stopped = False

    async def startService(self) -> None:
        """Wait until every share has a generation."""
        told = self._clock.seconds()
        while not self._stopped and not self._sync.complete:
            if self._clock.seconds() > told + TELL_AGAIN:
                told = self._clock.seconds()
                waiting = [n for n, share in self._sync.shares.items() if not share.ready]
                self.log.warn(
                    "not serving yet: waiting for the cluster's tree of {shares}",
                    shares=", ".join(waiting),
                )
            await deferLater(self._clock, STEP, lambda: None)

    def stopService(self) -> None:
        """Wait no more."""
        self._stopped = True


def _has(share: RootShare, objects: Any) -> bool:
    return share.store is not None and share.store.objects is objects
