"""
The repositories of this node: what is known of each, and what is served from all of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from saltwisted.config.git import GitRemote
from saltwisted.domain.git.mapping import Tip
from saltwisted.stores.git.objects import Repository
from saltwisted.stores.git.source import GitFiles, GitView, Served


class Kept(Protocol):
    """One repository; see L{saltwisted.master.gitupdates.Watched}."""

    @property
    def remotes(self) -> list[GitRemote]:
        """Those that are in it."""

    @property
    def folder(self) -> str:
        """Where it is."""

    @property
    def shared(self) -> str:
        """Its name for all nodes."""

    @property
    def shown(self) -> str:
        """How people know it."""

    @property
    def is_pillar(self) -> bool:
        """Whether it is one of C{git_pillar}."""

    @property
    def error(self) -> str:
        """Why the last fetch failed."""

    @property
    def state(self) -> Mapping[str, Any]:
        """What a worker has reported about it."""

    @property
    def repository(self) -> Repository | None:
        """What reads it."""

    @property
    def rolled_back(self) -> Mapping[str, str]:
        """The commits that were fetched, of refs of which earlier ones are served."""

    @property
    def tips(self) -> Mapping[str, Tip]:
        """Its refs."""

    def take(self, state: Mapping[str, Any]) -> None:
        """Replace its state."""

    def call(self, shared: str) -> None:
        """This is its name for all nodes."""

    def blame(self, error: str, now: float) -> None:
        """This is why the last fetch failed."""


K = TypeVar("K", bound=Kept)


class Copies(Generic[K]):
    """
    All repositories, as other nodes use them, too (L{saltwisted.commits.IGitCopies}). Reactor
    thread only.

    @ivar watched: the repositories by their keys on this node.
    @param source: the source that serves them; C{None} if C{gitfs} is not a backend.
    """

    def __init__(self, source: GitFiles | None, now: Callable[[], float]) -> None:
        self._source, self._now = source, now
        self.watched: dict[str, K] = {}
        self._order: list[tuple[GitRemote, str]] = []

    def replace(self, watched: dict[str, K], order: list[tuple[GitRemote, str]]) -> None:
        """The configuration is another one."""
        self.watched, self._order = watched, order
        names_for_all(watched.values())
        self.show()

    def all(self) -> dict[str, K]:
        """By their names for all nodes."""
        return {watched.shared: watched for watched in self.watched.values()}

    def named(self, shared: str) -> K:
        """
        The one with a name.

        @raises KeyError: there is none.
        """
        return self.all()[shared]

    def show(self) -> None:
        """Serve the latest states from now on."""
        if self._source is not None:
            self._source.show(self.view())

    @property
    def generation(self) -> str:
        """The name of the generation that C{gitfs} serves."""
        return self._source.view.name if self._source is not None else ""

    def told(self, pillars: bool = True) -> dict[str, Any]:
        """
        What is served of each remote, for people on any node.

        @param pillars: of those of C{git_pillar}, too.
        """
        return {
            "generation": self.generation,
            "remotes": {
                each.shown: {
                    "refs": {ref: tip.commit for ref, tip in each.tips.items() if tip.commit},
                    "error": each.error,
                    "pillar": each.is_pillar,
                    "rolled_back": each.rolled_back,
                }
                for each in self.watched.values()
                if pillars or not each.is_pillar
            },
        }

    def view(self) -> GitView:
        """What has come."""
        served = []
        for remote, key in self._order:
            watched = self.watched[key]
            if watched.repository is None:
                continue
            signed = frozenset(watched.state.get("signed", ())) if remote.verify else None
            served.append(Served(remote, watched.folder, watched.repository, watched.tips, signed))
        return GitView(served)

    def lacks(self, shared: str, tips: Mapping[str, Sequence[str]]) -> list[str]:
        """Of these refs the commits that are not in a repository; all of one that is not read."""
        repository = self.named(shared).repository
        return [
            tip[1]
            for tip in tips.values()
            if tip[1]
            and (
                repository is None
                or repository.commit(tip[1]) != (tip[1], tip[2])
                or not repository.has(tip[0])
            )
        ]

    # -- what other nodes have to do with it

    def took(self, shared: str, state: Mapping[str, Any]) -> None:
        """Serve this state of a repository from now on, whoever fetched it."""
        watched = self.all().get(shared)
        if watched is not None and state != watched.state:
            watched.take(state)
            self.show()

    def learn(self, shared: str, state: Mapping[str, Any]) -> None:
        """More objects have come, which nothing that is served leads to yet."""
        watched = self.all().get(shared)
        if watched is None:
            return
        if watched.state.get("repo") == state["repo"]:
            if watched.repository is not None:
                watched.repository.learn(state["large"])
        elif "served" in state:
            # It was made anew; what was served is served from there
            self.took(shared, {**state, "refs": state["served"]})

    def said(self, shared: str, error: str) -> None:
        """What the fetching node reports about its last fetch."""
        watched = self.all().get(shared)
        if watched is not None and error != watched.error:
            watched.blame(error, self._now())


def names_for_all(watched: Iterable[Kept]) -> None:
    """
    Give repositories names that are the same on all nodes: they depend on what is fetched, and not
    how.

    Other nodes may have other keys for the same remote, or none: they get it from the node that
    fetches. If several repositories have the same URL, their order counts.
    """
    seen: Counter[Any] = Counter()
    for each in watched:
        remote = each.remotes[0]
        said = (each.is_pillar, remote.url, tuple(remote.refspecs), remote.verify)
        seen[said] += 1
        each.call(hashlib.sha256(repr((*said, seen[said])).encode()).hexdigest()[:32])


def key_of(remote: GitRemote) -> str:
    """
    The name of the folder of a remote's repository: it depends on its URL and on how it is reached.

    If a remote is reached in another way, it has a repository of its own (CVE-2023-20898).
    """
    reached = (remote.url, remote.user, remote.privkey, remote.refspecs)
    return hashlib.sha256(repr(reached + remote.judged).encode()).hexdigest()[:32]
