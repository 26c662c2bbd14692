"""
The seam between a master that has git remotes fetched, and the other masters that serve the same.

See L{saltwisted.interfaces}, whose rules hold here too. A repository has one name for all nodes of
a cluster (C{shared}): it says what is fetched, and not how this node would reach it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol


class IGitCopy(Protocol):
    """One repository of this node, as it is served."""

    @property
    def shared(self) -> str:
        """Its name for all nodes."""

    @property
    def shown(self) -> str:
        """How people know it."""

    @property
    def folder(self) -> str:
        """Where it is."""

    @property
    def is_pillar(self) -> bool:
        """Whether it is one of C{git_pillar}."""

    @property
    def state(self) -> Mapping[str, Any]:
        """What is served: C{refs}, and C{version} if that was agreed with others."""

    @property
    def error(self) -> str:
        """Why the last fetch failed."""


class IGitCopies(Protocol):
    """The repositories of this node, for whoever shares them. Reactor thread only."""

    def all(self) -> Mapping[str, IGitCopy]:
        """By their names for all nodes."""

    def took(self, shared: str, state: Mapping[str, Any]) -> None:
        """From now on this is served of a repository."""

    def learn(self, shared: str, state: Mapping[str, Any]) -> None:
        """More objects have come, which nothing that is served leads to yet."""

    def said(self, shared: str, error: str) -> None:
        """What the node that fetches has said of its last fetch."""

    @property
    def generation(self) -> str:
        """The name of what is served of C{gitfs}."""

    def told(self, pillars: bool = True) -> dict[str, Any]:
        """What is served of each remote, for people on any node."""

    def lacks(self, shared: str, tips: Mapping[str, Sequence[str]]) -> list[str]:
        """Of these refs the commits that are not in a repository."""


class IGitUpdates(Protocol):
    """Who has remotes fetched on this node. Reactor thread only."""

    @property
    def copies(self) -> IGitCopies:
        """What has come."""

    def ask(self, shared: str) -> Awaitable[Mapping[str, Any]]:
        """
        Have a remote fetched here, and nothing more: C{state} with the refs that it has, or
        C{error}.

        @raises KeyError: there is none of this name.
        """

    def request(self, shared: str) -> dict[str, Any]:
        """
        How a worker is asked to fetch a repository.

        @raises KeyError: there is none of this name.
        """

    def update_now(self, shared: str) -> Awaitable[dict[str, Any]]:
        """
        Fetch one at once: C{changed} (ref to the commits before and after), C{refs}, and perhaps
        C{error}.

        @raises KeyError: there is none of this name.
        """

    def begin(self, pillar: bool) -> None:
        """Whether this node asks the remotes has changed."""


class IGitSharing(Protocol):
    """Who fetches, and who else has what was fetched. Reactor thread only."""

    @property
    def holds(self) -> bool:
        """Whether what a fetch brings is not served before others have it."""

    def fetches(self, pillar: bool) -> bool:
        """Whether this node asks the remotes of its own accord."""

    def fetch(
        self, shared: str, damaged: bool, ask: Callable[[], Awaitable[Any]]
    ) -> Awaitable[Mapping[str, Any]]:
        """
        Have a repository fetched by whoever fetches: C{state} of what is served then, or C{error};
        C{elsewhere} names the node, if it was not this one.

        @param damaged: it is to be made anew.
        @param ask: fetches it here, for this node alone.
        """

    def problems(self) -> Sequence[str]:
        """What keeps this node from serving what the others do."""

    def status(self) -> Mapping[str, Any]:
        """Who fetches, and which generation each node serves."""

    def everywhere(self) -> Awaitable[Mapping[str, Any]]:
        """What each other node serves, or C{error}, asked of it."""


class ICommitViews(Protocol):
    """
    The commits that this node serves and has served. One set of them, for all repositories, is
    called by its digest: that of the node that has served it first. Reactor thread only.
    """

    @property
    def digest(self) -> bytes:
        """Of what is served now; empty for nothing."""

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Ask C{user()} which ones jobs and runs of all nodes need: these are not forgotten."""

    def read(self) -> set[bytes]:
        """Which ones something on this node still reads."""

    def has(self, digest: bytes) -> bool:
        """Whether it is known here, with all of its objects."""

    def find(self, wanted: str) -> bytes:
        """
        The one that has this name, or the newest with this commit.

        @raises NotKept: it is unknown here.
        @raises DeniedError: it names several, or may not be served.
        """

    def was_served(self, digest: bytes) -> bool:
        """Whether it has only what was fetched as it is, and no commit that was never served."""

    def over(self, digest: bytes) -> Any:
        """The source of its files (C{IFileSource}); C{None} where it is unknown."""

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Environment to the commit of each remote, for people."""

    def content(self, digest: bytes) -> dict[str, Any] | None:
        """Repository, by its name for all nodes, to C{refs} and C{base}; plain data."""

    def learn(self, digest: bytes, content: Mapping[str, Any]) -> None:
        """Another node has said what it is, and all of its objects are here now."""

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations that are kept, the newest first, for people."""


class IEarlierCommits(Protocol):
    """The same, where what is unknown here is asked of other nodes. Reactor thread only."""

    @property
    def digest(self) -> bytes:
        """Of what is served now; empty for nothing."""

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Ask C{user()} which ones jobs and runs of all nodes need: these are not forgotten."""

    def read(self) -> set[bytes]:
        """Which ones something on this node still reads."""

    def has(self, digest: bytes) -> bool:
        """Whether it is known here, with all of its objects."""

    def over(self, digest: bytes) -> Any:
        """The source of its files; C{None} where it is unknown."""

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Environment to the commit of each remote, for people."""

    def bring(self, digest: bytes, node: str) -> Awaitable[bool]:
        """
        Have it here, with its objects, within seconds; whether that went well.

        @param node: who has it, C{""} for whoever.
        """

    def find(self, wanted: str) -> Awaitable[bytes]:
        """
        By a name or commit.

        @raises NotKept: no node in reach knows it.
        @raises DeniedError: it names several, or may not be served.
        """

    def roll_back(self, wanted: str) -> Awaitable[list[dict[str, Any]]]:
        """
        Have all nodes serve it; a row for each repository.

        @raises DeniedError: as for L{find}.
        @raises RemoteError: nobody has the duty now.
        """

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations that are kept, the newest first, for people."""
