"""
The interface between a master that has git remotes fetched, and the other masters that serve the
same.

The rules of L{saltwisted.interfaces} apply here too. A repository has one name on all nodes of a
cluster (C{shared}): it depends on what is fetched, and not on how this node would reach it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol


class IGitCopy(Protocol):
    """One repository of this node, as it is served."""

    @property
    def shared(self) -> str:
        """Its name on all nodes."""

    @property
    def shown(self) -> str:
        """Its name for people."""

    @property
    def folder(self) -> str:
        """Its directory."""

    @property
    def is_pillar(self) -> bool:
        """Whether it is one of C{git_pillar}."""

    @property
    def state(self) -> Mapping[str, Any]:
        """What is served: C{refs}, and C{version} if the nodes agreed on it."""

    @property
    def error(self) -> str:
        """Why the last fetch failed."""


class IGitCopies(Protocol):
    """The repositories of this node, for the code that shares them. Reactor thread only."""

    def all(self) -> Mapping[str, IGitCopy]:
        """By their names on all nodes."""

    def took(self, shared: str, state: Mapping[str, Any]) -> None:
        """Serve this state of a repository from now on."""

    def learn(self, shared: str, state: Mapping[str, Any]) -> None:
        """More objects have arrived, to which nothing that is served leads yet."""

    def said(self, shared: str, error: str) -> None:
        """What the fetching node has reported about its last fetch."""

    @property
    def generation(self) -> str:
        """The name of the generation that C{gitfs} serves."""

    def told(self, pillars: bool = True) -> dict[str, Any]:
        """What is served of each remote, for display on any node."""

    def lacks(self, shared: str, tips: Mapping[str, Sequence[str]]) -> list[str]:
        """Which commits of these refs are missing in a repository."""


class IGitUpdates(Protocol):
    """Who has remotes fetched on this node. Reactor thread only."""

    @property
    def copies(self) -> IGitCopies:
        """The repositories."""

    def ask(self, shared: str) -> Awaitable[Mapping[str, Any]]:
        """
        Have a remote fetched here, and nothing more: returns C{state} with the refs that it has, or
        C{error}.

        @raises KeyError: the name does not exist.
        """

    def request(self, shared: str) -> dict[str, Any]:
        """
        The request for a worker to fetch a repository.

        @raises KeyError: the name does not exist.
        """

    def update_now(self, shared: str) -> Awaitable[dict[str, Any]]:
        """
        Fetch one at once: C{changed} (ref to the commits before and after), C{refs}, and possibly
        C{error}.

        @raises KeyError: the name does not exist.
        """

    def begin(self, pillar: bool) -> None:
        """This node begins or ceases to ask the remotes."""


class IGitSharing(Protocol):
    """Who fetches, and which nodes have the result. Reactor thread only."""

    @property
    def holds(self) -> bool:
        """Whether the result of a fetch is served only when others have it."""

    def fetches(self, pillar: bool) -> bool:
        """Whether this node asks the remotes by itself."""

    def fetch(
        self, shared: str, damaged: bool, ask: Callable[[], Awaitable[Any]]
    ) -> Awaitable[Mapping[str, Any]]:
        """
        Have a repository fetched by the node that fetches: returns C{state} of what is served then,
        or C{error}; C{elsewhere} names the node, if it was not this one.

        @param damaged: whether it must be recreated.
        @param ask: fetches it here, only for this node.
        """

    def problems(self) -> Sequence[str]:
        """Why this node does not serve what the others do."""

    def status(self) -> Mapping[str, Any]:
        """Who fetches, and which generation each node serves."""

    def everywhere(self) -> Awaitable[Mapping[str, Any]]:
        """What each other node serves, or C{error}, as the node itself says."""


class ICommitViews(Protocol):
    """
    The commits that this node serves and has served. One set of them, for all repositories, is
    named by its digest: that of the node that served it first. Reactor thread only.
    """

    @property
    def digest(self) -> bytes:
        """The digest of what is served now; empty for nothing."""

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Ask C{user()} which ones jobs and runs of all nodes need: these are not forgotten."""

    def read(self) -> set[bytes]:
        """Which ones something on this node still uses."""

    def has(self, digest: bytes) -> bool:
        """Whether it is known here, with all of its objects."""

    def find(self, wanted: str) -> bytes:
        """
        The one with this name, or the newest with this commit.

        @raises NotKept: it is unknown here.
        @raises DeniedError: it matches several, or may not be served.
        """

    def written(self) -> Awaitable[None]:
        """Wait until what is known now is on the disk: another life knows it, too."""

    def was_served(self, digest: bytes) -> bool:
        """Whether it has only commits that were fetched and served as they are."""

    def over(self, digest: bytes) -> Any:
        """The source of its files (C{IFileSource}); C{None} if it is unknown."""

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Environment to the commit of each remote, for display."""

    def content(self, digest: bytes) -> dict[str, Any] | None:
        """Repository, by its name on all nodes, to C{refs} and C{base}; plain data."""

    def learn(self, digest: bytes, content: Mapping[str, Any]) -> None:
        """
        Another node has described it, and all of its objects are here now.

        @raises NotKept: a commit that it names is not here.
        """

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations that are kept, the newest first, for display."""


class IEarlierCommits(Protocol):
    """The same, but unknown commits are requested from other nodes. Reactor thread only."""

    @property
    def digest(self) -> bytes:
        """The digest of what is served now; empty for nothing."""

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Ask C{user()} which ones jobs and runs of all nodes need: these are not forgotten."""

    def read(self) -> set[bytes]:
        """Which ones something on this node still uses."""

    def has(self, digest: bytes) -> bool:
        """Whether it is known here, with all of its objects."""

    def over(self, digest: bytes) -> Any:
        """The source of its files; C{None} if it is unknown."""

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Environment to the commit of each remote, for display."""

    def bring(self, digest: bytes, node: str) -> Awaitable[bool]:
        """
        Get it with its objects within some seconds; returns whether that succeeded.

        @param node: a node that has it, C{""} for any.
        """

    def find(self, wanted: str) -> Awaitable[bytes]:
        """
        By a name or commit.

        @raises NotKept: no connected node knows it.
        @raises DeniedError: it matches several, or may not be served.
        """

    def roll_back(self, wanted: str, dry_run: bool = False) -> Awaitable[list[dict[str, Any]]]:
        """
        Make all nodes serve it; returns a row for each repository.

        @param dry_run: only return the rows.
        @raises DeniedError: as for L{find}.
        @raises RemoteError: no node has the duty now.
        """

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations that are kept, the newest first, for display."""
