"""
Which commits this cluster node serves and has served, by names that are the same on all nodes.

A view of git (L{saltwisted.stores.git.source.GitView}) is sent from node to node as the refs of
each repository. The receiver makes its own view of them, with its configuration, and keeps it under
the digest of the node that it came from. See L{saltwisted.commits.ICommitViews}.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from saltwisted.domain.git.mapping import Tip
from saltwisted.domain.roots.manifest import name_of
from saltwisted.errors import DeniedError, NotKept
from saltwisted.master.commitpins import commits, keep
from saltwisted.master.earliercommits import EarlierCommits, with_base
from saltwisted.master.gitcopies import Copies
from saltwisted.stores.git.source import GitFiles, GitView, Served, kept_by


class CommitViews:
    """
    Reactor thread only.

    @param earlier: what was served here before.
    @param copies: the repositories of this node.
    """

    def __init__(
        self, source: GitFiles, earlier: EarlierCommits, copies: Callable[[], Copies[Any]]
    ) -> None:
        self._source, self._earlier, self._copies = source, earlier, copies
        self._views: OrderedDict[bytes, GitView] = OrderedDict()
        self._used: Callable[[], Iterable[bytes]] = tuple
        source.on_keep(lambda folder: kept_by(self._views.values(), folder))

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """Generations in use are kept in memory, and in the list of those that were served."""
        self._used = user
        self._earlier.on_use(user)

    def read(self) -> set[bytes]:
        """What runs of this node still read."""
        views = self._source.views_read()
        ours = {id(view) for view in views}
        told = {digest for digest, view in self._views.items() if id(view) in ours}
        return told | {view.digest for view in views}

    @property
    def digest(self) -> bytes:
        """The digest of what is served now."""
        return self._source.view.digest if self._source.view.served else b""

    def has(self, digest: bytes) -> bool:
        """Whether it is known here, with all of its objects."""
        return self._view(digest) is not None

    def find(self, wanted: str) -> bytes:
        """By the name of a generation, or a commit."""
        view = self._earlier.find(wanted)
        self._keep(view.digest, view)
        return view.digest

    def written(self) -> Deferred[None]:
        """What is known is on the disk."""
        return self._earlier.written()

    def was_served(self, digest: bytes) -> bool:
        """Whether it has only commits that were fetched and served as they are."""
        view = self._view(digest)
        now = [each.remote for each in self._source.view.served]
        return view is not None and all(each.remote in now for each in view.served)

    def over(self, digest: bytes) -> Any:
        """The source of its files."""
        view = self._view(digest)
        return None if view is None else self._source.over(view)

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Environment to the commit of each remote."""
        view = self._view(digest)
        return {} if view is None else commits(view)

    def content(self, digest: bytes) -> dict[str, Any] | None:
        """As another node may have it."""
        view = self._view(digest)
        if view is None:
            return None
        found: dict[str, Any] = {}
        now = {each.remote.id: each.remote.base for each in self._source.view.served}
        names = self._names()
        for each in view.served:
            shared = names.get(each.folder)
            if shared is None:
                continue
            refs = {ref: [tip.id, tip.commit, tip.tree] for ref, tip in each.refs.items()}
            found[shared] = {"refs": refs, "base": found.get(shared, {}).get("base", "")}
            if each.remote.base != now.get(each.remote.id, each.remote.base):
                found[shared]["base"] = each.remote.base
        return found or None

    def learn(self, digest: bytes, content: Mapping[str, Any]) -> None:
        """
        Another node has it, and all of its objects are here.

        @raises NotKept: its environment C{base} is a commit that is not here.
        """
        served: list[Served] = []
        then_served: list[Served] = []
        bases: dict[str, str] = {}
        names = self._names()
        for each in self._copies().view().served:
            then = content.get(names.get(each.folder, ""))
            if then is None:
                continue
            refs = {ref: Tip(*tip) for ref, tip in then["refs"].items()}
            mine = evolve(each, refs=refs)
            then_served.append(mine)
            if base := then["base"]:
                if each.repository.commit(base) is None:
                    raise NotKept(f"{each.remote.shown} does not have commit {base}")
                mine = with_base(mine, base)
                bases[each.remote.key] = base
            served.append(mine)
        if served:
            self._keep(digest, GitView(served))
        if bases:
            self._earlier.learn(name_of(digest), then_served, bases)

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations of git that are kept, the newest first."""
        back = [each.shown for each in self._copies().all().values() if each.rolled_back]
        return self._earlier.rows(most, back)

    def _names(self) -> dict[str, str]:
        """Folder to the name for all nodes."""
        copies = self._copies().all().items()
        return {each.folder: shared for shared, each in copies if not each.is_pillar}

    def _keep(self, digest: bytes, view: GitView) -> None:
        keep(self._views, view, self._used, digest)

    def _view(self, digest: bytes) -> GitView | None:
        if digest == self._source.view.digest:
            return self._source.view
        known = self._views.get(digest)
        if known is not None:
            self._views.move_to_end(digest)
            return known
        try:
            view = self._earlier.find(name_of(digest))
        except DeniedError:
            return None
        self._keep(digest, view)
        return view
