"""
The remotes of C{gitfs} and C{git_pillar}: who fetches them, how often, and what is reported.

Remotes are independent: one that cannot be reached delays no other, keeps its last good commits,
and is tried again after longer and longer pauses. Processes do the fetching. When a fetch has
brought something, this module changes what is served, all at once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults, succeed
from twisted.logger import Logger

from saltwisted.commits import IGitSharing
from saltwisted.config.git import GitRemote, remotes_of, shown
from saltwisted.config.gitpillar import PillarRemote, all_pillar_remotes
from saltwisted.domain.git import agreement, mapping
from saltwisted.domain.git.mapping import Tip
from saltwisted.domain.git.pacing import NEVER, pause
from saltwisted.domain.git.signing import called, sentence
from saltwisted.domain.git.sizes import heard
from saltwisted.domain.git.trees import changed
from saltwisted.errors import RemoteError
from saltwisted.master.gitcopies import Copies, key_of
from saltwisted.master.gitfirst import BESIDE
from saltwisted.stores.git.objects import Repository
from saltwisted.stores.git.source import GitFiles
from saltwisted.transports.deferreds import let_go
from saltwisted.words import listed

FETCH_ENTRY = "saltwisted.worker.git.work:fetch"
READ_ENTRY = "saltwisted.worker.git.work:serve"
LIST_ENTRY = "saltwisted.worker.git.work:list_all"
SHARE_ENTRY = "saltwisted.worker.git.work:share"
EVENT = "salt/fileserver/gitfs/update"
PILLAR_EVENT = "salt/fileserver/git_pillar/update"
REFUSED_EVENT = "salt/fileserver/git/refused"
SAID = 5
"""Refs of which one sentence speaks; of more it gives the number."""
MOST_EXCESS = 20
"""Sentences about what is too much in one state of a repository that are kept, and said."""
PATIENCE = 30.0
"""Seconds for what is no fetch, and beyond those of a fetch."""
AGAIN = 600.0
"""Seconds before a repository is made anew once more."""
DOUBTFUL = 4
"""How many remotes that failed before are asked at once."""


class Worker(Protocol):
    """Worker processes; see L{saltwisted.transports.workers.WarmPool}."""

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        """Have a request answered."""
        ...


@define(eq=False)
class Watched:
    """
    One repository, with the remotes that use it.

    @ivar shared: its name on all nodes of a cluster.
    @ivar state: what the worker has reported about it.
    @ivar mark: the mark of the last fetch, by which the worker knows that there is nothing new;
        C{b""} if the worker has to compare everything.
    @ivar many: whether the worker may make one pack of many.
    @ivar fetched: when a fetch last succeeded, in seconds since 1970; 0 if none has since the
        start.
    @ivar asked: when it was first asked, in the same seconds; 0 if it was not.
    @ivar told: what was already reported about refs that are not served: ref to its object.
    @ivar excess: what of its present commits is more than may be, in sentences.
    @ivar after: callers that want a fetch that begins after the one that runs.
    """

    key: str
    folder: str
    remotes: list[GitRemote]
    state: Mapping[str, Any] = field(factory=dict, repr=False)
    repository: Repository | None = None
    mark: bytes = field(default=b"", repr=False)
    many: bool = True
    tips: dict[str, Tip] = field(factory=dict, repr=False)
    error: str = ""
    failures: int = 0
    fetched: float = 0.0
    since: float = 0.0
    told: dict[str, str] = field(factory=dict, repr=False)
    excess: dict[str, None] = field(factory=dict, repr=False)
    damaged: bool = False
    damaged_at: float = 0.0
    asked: float = 0.0
    timer: Any = None
    next_at: float = 0.0
    running: bool = False
    now: list[Deferred[dict[str, Any]]] = field(factory=list)
    after: list[Deferred[dict[str, Any]]] = field(factory=list)
    shared: str = ""

    @property
    def shown(self) -> str:
        """How people know it."""
        return self.remotes[0].shown

    @property
    def is_pillar(self) -> bool:
        """Whether it is one of C{git_pillar}."""
        return isinstance(self.remotes[0], PillarRemote)

    @property
    def called(self) -> set[str]:
        """The names by which it can be addressed."""
        return {
            name for each in self.remotes for name in (each.id, each.name, each.url, each.shown)
        }

    @property
    def pins(self) -> set[str]:
        """The commits that the configuration names."""
        found = {pin for each in self.remotes for pin in mapping.pins(each)}
        branches = {each.branch for each in self.remotes if isinstance(each, PillarRemote)}
        return found | {name for name in branches if mapping.is_hex(name)}

    @property
    def refused(self) -> dict[str, dict[str, str]]:
        """
        The refs that would be environments, or pillar, and are not served as they are: the
        C{commit}, C{why}, and which one it C{serves} instead.
        """
        found = {}
        for ref, (oid, why) in self.state.get("refused", {}).items():
            if any(_is_wanted(remote, ref) for remote in self.remotes):
                tip = self.tips.get(ref)
                serves = tip.commit if tip is not None else ""
                found[ref] = {"commit": oid, "why": why, "serves": serves}
        return found

    @property
    def rolled_back(self) -> dict[str, str]:
        """The commits that were fetched, of refs of which earlier ones are served."""
        fetched = self.state.get("refs", {}) if self.state.get(agreement.BACK) else {}
        return {
            ref: tip[1]
            for ref, tip in fetched.items()
            if ref not in self.tips or self.tips[ref].commit != tip[1]
        }

    @property
    def interval(self) -> float:
        """Seconds between two fetches, the shortest that is wanted; 0 for none."""
        wanted = [each.update_interval for each in self.remotes if each.update_interval > 0]
        return min(wanted, default=0.0)

    def take(self, state: Mapping[str, Any]) -> None:
        """Replace its state."""
        path = os.path.join(self.folder, state["repo"])
        self.state = state
        self.tips = {ref: Tip(*tip) for ref, tip in agreement.shown(state).items()}
        self.excess.clear()
        if self.is_pillar:
            return
        if self.repository is not None:
            self.repository.move(path, state["large"])
        else:
            self.repository = Repository(path, state["large"])

    def quiet(self) -> None:
        """Cancel the next fetch."""
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def call(self, shared: str) -> None:
        """This is its name for all nodes."""
        self.shared = shared

    def blame(self, error: str, now: float) -> None:
        """What the fetching node reports about its last fetch."""
        self.error, self.since = error, now


class GitUpdates:
    """
    Reactor thread only.

    @param source: the source that serves them; C{None} if C{gitfs} is not a backend.
    @param fire: puts an event on the bus.
    @param dice: a random number from 0 to 1.
    @param sharing: decides who fetches, if several masters serve the same.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        config: Any,
        source: GitFiles | None,
        worker: Worker,
        fire: Callable[[str, Mapping[str, Any]], Any],
        counters: Counter[str],
        now: Callable[[], float],
        dice: Callable[[], float],
        sharing: IGitSharing,
    ) -> None:
        self._sharing = sharing
        self._clock, self._config, self._source = clock, config, source
        self._worker, self._fire, self._counters = worker, fire, counters
        self._now, self._dice = now, dice
        self._top = os.path.join(config.cachedir, "saltwisted", "git")
        self._pillar_top = os.path.join(config.cachedir, "git_pillar")
        self.copies: Copies[Watched] = Copies(source, now)
        self._wrong: list[str] = []
        self._doubtful = DeferredSemaphore(DOUBTFUL)
        self._is_running = False
        self.begun: list[tuple[Watched, bool, Deferred[dict[str, Any]]]] = []
        if source is not None:
            source.on_damage(self._damaged)
            source.on_excess(self._exceeds)

    # -- life

    async def startService(self) -> None:
        """Serve the earlier state, and ask the remotes."""
        self._is_running = True
        await self._read_config()
        self.begun = [
            (watched, bool(watched.state), self._soon(watched))
            for watched in self.copies.watched.values()
            if self._sharing.fetches(watched.is_pillar)
        ]

    def stopService(self) -> None:
        """Ask no more remotes. A fetch that runs ends with its process."""
        self._is_running = False
        for watched in self.copies.watched.values():
            watched.quiet()

    def reconfigure(self) -> None:
        """Remotes and mappings may have changed: the new ones apply at once."""
        if self._is_running:
            let_go(self._reread(), self.log, "gitfs: the new remotes cannot be used")

    async def _reread(self) -> None:
        before = set(self.copies.watched)
        await self._read_config()
        for key, watched in self.copies.watched.items():
            if key not in before and self._sharing.fetches(watched.is_pillar):
                _ = self._soon(watched)
            elif not watched.running:
                self._wait(watched)

    async def _read_config(self) -> None:
        remotes: list[GitRemote] = []
        self._wrong = []
        if self._source is not None:
            remotes, self._wrong = remotes_of(self._config.value)
        pillars, wrong = all_pillar_remotes(self._config.value)
        self._wrong += wrong
        order = [(remote, key_of(remote)) for remote in remotes]
        wanted = [(remote, key, os.path.join(self._top, key)) for remote, key in order]
        for pillar in pillars:
            folder = os.path.join(self._pillar_top, pillar.directory())
            wanted.append((pillar, f"pillar {pillar.directory()}", folder))
        new: dict[str, Watched] = {}
        for remote, key, folder in wanted:
            if key in new:
                new[key].remotes.append(remote)
                continue
            known = self.copies.watched.get(key)
            if known is not None:
                known.remotes = [remote]
            new[key] = known or Watched(key, folder, [remote])
        fresh = [watched for key, watched in new.items() if key not in self.copies.watched]
        if fresh:
            request = {"do": "states", "folders": [watched.folder for watched in fresh]}
            answer = await self._worker.call(READ_ENTRY, request, PATIENCE)
            for watched in fresh:
                state = answer["states"][watched.folder]
                if state:
                    watched.take(state)
                    self._tell_refused(watched)
        for key in self.copies.watched.keys() - new.keys():
            self.copies.watched[key].quiet()
        self.copies.replace(new, order)

    # -- fetches

    def update(self, names: Iterable[str] | None = None) -> Awaitable[dict[str, dict[str, Any]]]:
        """
        Fetch at once, and wait for it: remote to C{changed} (ref to its commits before and after),
        C{refs} (ref to commit) and possibly C{error}.

        @param names: URLs or names of remotes; C{None} for all.
        """
        wanted = None if names is None else set(names)
        chosen = [
            watched
            for watched in self.copies.watched.values()
            if not watched.is_pillar and (wanted is None or watched.called & wanted)
        ]
        whole: Deferred[Any] = gatherResults([self._soon(watched) for watched in chosen])
        shown = [watched.shown for watched in chosen]
        return whole.addCallback(lambda found: dict(zip(shown, found, strict=True)))

    async def update_pillars(
        self, branch: str | None = None, repo: str | None = None
    ) -> dict[str, bool | None]:
        """
        Fetch remotes of C{git_pillar} at once: Salt's answer for each, true if something is new,
        C{None} if nothing is, false if it could not be fetched.
        """
        chosen: dict[str, Watched] = {}
        for watched in self.copies.watched.values():
            for remote in watched.remotes:
                if (
                    isinstance(remote, PillarRemote)
                    and branch in (None, remote.branch)
                    and repo in (None, remote.url, remote.name)
                ):
                    chosen[remote.id] = watched
        each = {id(watched): watched for watched in chosen.values()}
        found = await gatherResults([self._soon(watched) for watched in each.values()])
        outcome = dict(zip(each, found, strict=True))
        answer: dict[str, bool | None] = {}
        for entry, watched in chosen.items():
            told = outcome[id(watched)]
            # As in Salt by its entry, but who asks may not know the password in it
            answer[shown(entry)] = False if "error" in told else bool(told["changed"]) or None
        return answer

    def _soon(self, watched: Watched) -> Deferred[dict[str, Any]]:
        """A fetch that begins now, or after the one that runs: that may have come too early."""
        mine: Deferred[dict[str, Any]] = Deferred()
        if watched.running:
            watched.after.append(mine)
            return mine
        watched.now.append(mine)
        self._begin(watched)
        return mine

    def _begin(self, watched: Watched) -> None:
        watched.quiet()
        watched.asked = watched.asked or self._now()
        watched.running = True
        let_go(self._fetch(watched), self.log, "gitfs: a fetch has failed")

    async def _fetch(self, watched: Watched) -> None:
        before = watched.tips
        try:
            answer = await self._sharing.fetch(
                watched.shared, watched.damaged, lambda: self._ask(watched)
            )
        except RemoteError as error:
            answer = {"error": str(error)}
        known = self.copies.watched.get(watched.key) is watched
        if "elsewhere" in answer:
            watched.damaged = watched.damaged and "error" in answer
        elif "error" in answer:
            self._failed(watched, str(answer["error"]))
            if known and answer.get("state"):
                # Who may sign has changed: what he had signed is served no more, remote or not
                self._serve(watched, answer["state"])
        elif known:
            self._came(watched, answer)
        # As long as nothing changes, it is no matter how many refs there are
        is_same = watched.tips is before
        refs = _commits(watched.tips) if watched.now or not is_same else {}
        outcome: dict[str, Any] = {
            "changed": {} if is_same else changed(_commits(before), refs),
            "refs": refs,
        }
        outcome |= {name: answer[name] for name in ("error", "nodes") if name in answer}
        if watched.refused:
            outcome["refused"] = watched.refused
        if answer.get("elsewhere"):
            outcome["fetched_by"] = answer["elsewhere"]
        elif outcome["changed"]:
            event = {
                "changed": True,
                "backend": "git_pillar" if watched.is_pillar else "gitfs",
                "remote": watched.shown,
                "refs": outcome["changed"],
            }
            event |= {"nodes": answer["nodes"]} if "nodes" in answer else {}
            self._fire(PILLAR_EVENT if watched.is_pillar else EVENT, event)
        watched.running = False
        waiting, watched.now, watched.after = watched.now, watched.after, []
        for each in waiting:
            each.callback(outcome)
        if not self._is_running or self.copies.watched.get(watched.key) is not watched:
            rest, watched.now = watched.now, []
            for each in rest:
                each.callback(outcome)
        elif watched.now:
            self._begin(watched)
        else:
            self._wait(watched)

    async def _ask(self, watched: Watched) -> Any:
        request = self.request(watched.shared, watched.many)
        looking = request["seconds"] if watched.remotes[0].verify else 0.0
        had = watched.state
        request["had"] = [had["at"], len(heard(had["large"]))] if "at" in had else []
        request |= {"repo": had.get("repo", ""), "mark": watched.mark, "one": watched.many}
        watched.mark = b""
        call = (FETCH_ENTRY, request, request["seconds"] + looking + PATIENCE)
        self._counters["git:fetches"] += 1
        if watched.failures:
            answer = await self._doubtful.run(self._worker.call, *call)
        else:
            answer = await self._worker.call(*call)
        watched.mark, watched.many = answer.get("mark", b""), answer.get("many", True)
        return {**answer, "state": had} if answer.get("same") else answer

    def _failed(self, watched: Watched, text: str) -> None:
        self._counters["git:failed"] += 1
        watched.failures += 1
        if watched.error != text:
            watched.since = self._now() if not watched.error else watched.since
            watched.error = text
            serves = (
                "its last commits are still served"
                if watched.state
                else "none of its commits are served"
            )
            self.log.error(
                "git: {remote} cannot be fetched, {serves}: {error}",
                remote=watched.shown,
                serves=serves,
                error=text,
            )

    def _came(self, watched: Watched, answer: Mapping[str, Any]) -> None:
        if answer.get("locks"):
            self.log.info(
                "git: {remote}: removed the locks of a killed git process: {locks}",
                remote=watched.shown,
                locks=listed(answer["locks"]),
            )
        if watched.error:
            self.log.info("git: {remote} can be fetched again", remote=watched.shown, always=True)
        watched.error, watched.failures, watched.damaged = "", 0, False
        watched.fetched = self._now()
        self._serve(watched, answer["state"])

    def _serve(self, watched: Watched, state: Mapping[str, Any]) -> None:
        if state != watched.state:
            watched.take(state)
            self.copies.show()
        self._tell_refused(watched)

    def _tell_refused(self, watched: Watched) -> None:
        """Tell everyone of refs that are not served as they are, once of each commit."""
        refused = watched.refused
        new = {
            ref: each for ref, each in refused.items() if watched.told.get(ref) != each["commit"]
        }
        for ref in watched.told.keys() - refused.keys():
            self.log.info(
                "git: {remote}: {ref} is in order again",
                remote=watched.shown,
                ref=called(ref),
                always=True,
            )
        watched.told = {ref: each["commit"] for ref, each in refused.items()}
        if not new:
            return
        self._counters["git:refused"] += len(new)
        self.log.error(
            "git: {remote}: {refs}",
            remote=watched.shown,
            refs=_together(sentence(ref, each) for ref, each in new.items()),
        )
        self._fire(
            REFUSED_EVENT,
            {
                "backend": "git_pillar" if watched.is_pillar else "gitfs",
                "remote": watched.shown,
                "refs": new,
            },
        )

    # -- what other nodes have to do with it (L{saltwisted.commits.IGitUpdates})

    def request(self, shared: str, keep: bool = True) -> dict[str, Any]:
        """
        How a worker is asked to fetch one.

        @param keep: whether it has to know what is to be in a repository that it makes anew.
        """
        watched = self.copies.named(shared)
        return {
            "do": "fetch",
            "folder": watched.folder,
            **watched.remotes[0].reached(),
            "pins": sorted(watched.pins),
            "seconds": float(self._config.gitfs_timeout),
            "most": int(self._config.gitfs_max_size) << 20,
            "now": self._now(),
            "fresh": watched.damaged,
            "hold": self._sharing.holds,
            "keep": self._source.kept(watched.folder) if self._source is not None and keep else [],
        }

    def ask(self, shared: str) -> Awaitable[Any]:
        """Have a remote fetched, and nothing more."""
        return self._ask(self.copies.named(shared))

    def update_now(self, shared: str) -> Deferred[dict[str, Any]]:
        """Fetch one at once, and wait until it is served."""
        return self._soon(self.copies.named(shared))

    def begin(self, pillar: bool) -> None:
        """From now on this node asks the remotes, or no longer does."""
        for watched in self.copies.watched.values():
            if watched.is_pillar is not pillar:
                continue
            if not self._sharing.fetches(pillar):
                watched.quiet()
            elif self._is_running and not watched.running:
                _ = self._soon(watched)

    def _damaged(self, folder: str) -> None:
        """An object cannot be read: have the repository made anew, once for all who say so."""
        for watched in self.copies.watched.values():
            recent = watched.damaged_at and self._now() - watched.damaged_at < AGAIN
            if watched.folder == folder and not recent:
                watched.damaged_at = self._now()
                self.log.error("gitfs: {remote} is damaged on disk", remote=watched.shown)
                watched.damaged = True
                _ = self._soon(watched)

    def _exceeds(self, folder: str, text: str) -> None:
        """Something of a repository is more than may be: say it once of each state."""
        for watched in self.copies.watched.values():
            if watched.folder != folder or text in watched.excess:
                continue
            if len(watched.excess) < MOST_EXCESS:
                watched.excess[text] = None
                self.log.error("gitfs: {remote}: {text}", remote=watched.shown, text=text)

    # -- time

    def _wait(self, watched: Watched) -> None:
        watched.quiet()
        if not self._is_running or not self._sharing.fetches(watched.is_pillar):
            return
        seconds = pause(watched.interval, watched.failures, self._dice())
        watched.next_at = self._now() + seconds
        if seconds < NEVER:
            watched.timer = self._clock.callLater(seconds, self._begin, watched)

    # -- what is told

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration has anything of git at all."""
        return self._source is not None or bool(all_pillar_remotes(self._config.value)[0])

    def status(self) -> dict[str, Any]:
        """Each remote with its commits, and what is wrong with it."""
        return {
            "remotes": {
                watched.shown: {
                    "refs": _commits(watched.tips),
                    "fetched": watched.fetched,
                    "error": watched.error,
                    "since": watched.since if watched.error else 0.0,
                    "failures": watched.failures,
                    "pillar": watched.is_pillar,
                    "verify": watched.remotes[0].verify,
                    "refused": watched.refused,
                    "rolled_back": watched.rolled_back,
                    "excess": list(watched.excess),
                }
                for watched in self.copies.watched.values()
            },
            "envs": list(self._source.envs()) if self._source is not None else [],
            "generation": self._source.view.name if self._source is not None else "",
            "wrong": list(self._wrong),
            **self._sharing.status(),
        }

    @property
    def problem(self) -> str:
        """Why something is outdated or missing; C{""} if there is no problem."""
        texts = [*self._wrong, *self._sharing.problems()]
        for watched in self.copies.watched.values():
            if watched.error:
                had = "its last good commits are served" if watched.state else "not served"
                texts.append(f"{watched.shown}: {watched.error} ({had})")
            elif watched.running and not watched.state:
                # A remote that accepts a connection and says nothing fails after minutes only
                seconds = self._now() - watched.asked
                if seconds >= BESIDE:
                    texts.append(f"{watched.shown}: not fetched yet, after {seconds:.0f} s")
            if refused := watched.refused:
                told = _together(sentence(ref, each) for ref, each in refused.items())
                texts.append(f"{watched.shown}: {told}")
            if watched.excess:
                texts.append(f"{watched.shown}: {_together(watched.excess)}")
        return "; ".join(texts)


def _is_wanted(remote: GitRemote, ref: str) -> bool:
    """Whether a ref would be an environment, or the pillar of one."""
    if isinstance(remote, PillarRemote):
        wanted = {remote.branch, remote.fallback, remote.all_saltenvs}
        return "__env__" in wanted or ref.partition("/")[2].partition("/")[2] in {
            name for each in wanted if each for name in (each, f"origin/{each}")
        }
    return bool(mapping.environments(remote, {ref: Tip("", "", "")}))


def _commits(tips: Mapping[str, Tip]) -> dict[str, str]:
    return {ref: tip.commit for ref, tip in tips.items() if tip.commit}


def _together(sentences: Iterable[str]) -> str:
    """The first of them, and how many there are beside."""
    every = list(sentences)
    more = f"; and {len(every) - SAID} more" if len(every) > SAID else ""
    return "; ".join(every[:SAID]) + more


class NoGit:
    """There are no remotes here."""

    def update(self, names: Iterable[str] | None = None) -> Awaitable[dict[str, dict[str, Any]]]:
        """There is nothing to fetch."""
        return succeed({})

    async def update_pillars(
        self, branch: str | None = None, repo: str | None = None
    ) -> dict[str, bool | None]:
        """There is nothing to fetch."""
        return {}

    def status(self) -> dict[str, Any]:
        """Nothing."""
        return {}
