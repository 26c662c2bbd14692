"""
Earlier commits on every node: if this node does not know the commits of a job, it gets them from
another node.

A node that was away while something was served, or is a moment behind, asks the node that told it
of the job, and then all others. It accepts answers only from members with the right to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.cluster.git.backing import Backing
from saltwisted.cluster.git.exchange import MOST_REFS
from saltwisted.cluster.git.ground import Ground
from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.commits import ICommitViews
from saltwisted.domain.git.agreement import tips_of
from saltwisted.errors import DeniedError, NotKept, RemoteError, SaltwistedError
from saltwisted.interfaces import IPeerLink
from saltwisted.transports.deferreds import all_within
from saltwisted.wire.msgpack import pack_bin, unpack_bin

VIEW = "git-view"
PATIENCE = 5.0
LIMIT = 10.0
"""Seconds that a minion waits for commits that are not here."""


class GitViews:
    """
    See L{saltwisted.commits.IEarlierCommits}.

    @param views: what this node knows.
    """

    log = Logger()

    def __init__(self, ground: Ground, views: ICommitViews, backing: Backing) -> None:
        self._ground, self._views, self._backing = ground, views, backing
        self._coming: dict[bytes, Deferred[Any]] = {}
        ground.peers.answer(VIEW, self._asked)

    @property
    def digest(self) -> bytes:
        """The digest of what is served now."""
        return self._views.digest

    def on_use(self, user: Callable[[], Iterable[bytes]]) -> None:
        """What is used is not forgotten."""
        self._views.on_use(user)

    def read(self) -> set[bytes]:
        """What something on this node still reads."""
        return self._views.read()

    def has(self, digest: bytes) -> bool:
        """Whether it is known here."""
        return self._views.has(digest)

    def over(self, digest: bytes) -> Any:
        """The source of its files."""
        return self._views.over(digest)

    def told(self, digest: bytes) -> Mapping[str, Mapping[str, str]]:
        """Environment to commits."""
        return self._views.told(digest)

    def log_rows(self, most: int) -> list[dict[str, Any]]:
        """The generations that are kept."""
        return self._views.log_rows(most)

    async def bring(self, digest: bytes, node: str) -> bool:
        """Have it here; asked for once for all who want it."""
        if self.has(digest):
            return True
        running = self._coming.get(digest)
        if running is None:
            running = Deferred.fromCoroutine(self._bring({"digest": digest}, node))
            self._coming[digest] = running
            _ = running.addBoth(self._came, digest)
        await all_within(self._ground.clock, LIMIT, [running], look=0.02)
        return self.has(digest)

    def _came(self, outcome: Any, digest: bytes) -> None:
        self._coming.pop(digest, None)
        if hasattr(outcome, "value") and not outcome.check(NotKept):
            self.log.warn(
                "git: this node does not have the commits of a job: {why}", why=str(outcome.value)
            )

    async def find(self, wanted: str) -> bytes:
        """Known here, or by another node; and by the next life of this one."""
        try:
            digest = self._views.find(wanted)
        except NotKept as error:
            try:
                digest = await self._bring({"name": wanted}, "")
            except NotKept:
                raise error from None
        await self._views.written()
        return digest

    async def roll_back(self, wanted: str, dry_run: bool = False) -> list[dict[str, Any]]:
        """Of each repository that it has; with C{dry_run} only what would follow."""
        digest = await self.find(wanted)
        if not self._views.was_served(digest):
            raise DeniedError(f"generation {wanted!r}: this node has never served it")
        copies, rows = self._ground.copies(), []
        for shared, then in (self._views.content(digest) or {}).items():
            if shared in copies:
                refs = then["refs"]
                done = (
                    self._backing.plan(shared, refs)
                    if dry_run
                    else await self._backing.roll_back(shared, refs)
                )
                late = sorted(node for node, serves in done["nodes"].items() if not serves)
                row = {"share": copies[shared].shown, "to": wanted, "changed": done["changed"]}
                rows.append({**row, "late": late})
        return rows

    async def _bring(self, question: Mapping[str, Any], node: str) -> bytes:
        """
        Ask for one that is unknown here.

        @raises NotKept: nobody has it.
        """
        links = [each for each in self._ground.peers.links() if self._ground.may_write(each.node)]
        links.sort(key=lambda link: link.node != node)
        why: SaltwistedError = NotKept("no connected node has it")
        for link in links:
            try:
                said = unpack_bin(await link.ask(VIEW, pack_bin(dict(question)), PATIENCE))
                return await self._take(link, said)
            except SaltwistedError as error:
                why = error
        raise NotKept(str(why))

    async def _take(self, link: IPeerLink, said: Any) -> bytes:
        try:
            digest, content = bytes(said["digest"]), _checked(said["repositories"])
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteError("GitError", f"{link.node} sent an invalid answer") from error
        copies = self._ground.copies()
        for shared, then in content.items():
            copy = copies.get(shared)
            if copy is None:
                continue
            await self._have(copy, link, then["refs"])
        if not self._views.has(digest):
            self._views.learn(digest, content)
        if not self._views.has(digest):
            raise NotKept(f"{link.node} has none of the repositories that are here")
        return digest

    async def _have(self, copy: Any, link: IPeerLink, refs: Mapping[str, Any]) -> None:
        """Get the objects that some refs lead to."""
        lacks = self._ground.updates().copies.lacks
        if not lacks(copy.shared, refs):
            return
        lock = self._ground.lock(copy.shared)
        await lock.acquire()
        try:
            if not lacks(copy.shared, refs):
                # What is fetched or served meanwhile has brought them
                return
            said = {"refs": {ref: tip[0] for ref, tip in refs.items()}}
            await self._ground.exchange.bring(copy, link, said=said)
        finally:
            lock.release()
        if lacking := lacks(copy.shared, refs):
            raise NotKept(f"{copy.shown} no longer has commit {lacking[0]}")

    def _asked(self, node: str, body: bytes) -> bytes:
        question = unpack_bin(body)
        if not isinstance(question, dict):
            raise PeerRefused("the request is invalid")
        digest = question.get("digest")
        try:
            if not isinstance(digest, bytes):
                digest = self._views.find(str(question.get("name")))
        except DeniedError as error:
            raise PeerRefused(str(error)[:1000]) from None
        content = self._views.content(digest)
        if content is None:
            raise PeerRefused("this node does not have these commits")
        return pack_bin({"digest": digest, "repositories": content})


def _checked(said: Any) -> dict[str, dict[str, Any]]:
    """
    Repository to what it has, as a peer says it.

    @raises ValueError: it is something else.
    """
    found = {}
    for shared, then in dict(said).items():
        base = then["base"]
        if not isinstance(base, str) or len(base) > 64:
            raise ValueError("no commit")
        found[str(shared)] = {"refs": tips_of(then["refs"], MOST_REFS), "base": base}
    return found
