"""
Git objects from node to node. A node gets the objects that it lacks from another one as a pack, in
slices over the bulk connection; a worker puts the pack into the repository.

This module does not decide what is served; see L{saltwisted.cluster.git.sharing}.
"""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.commits import IGitCopy, IGitUpdates
from saltwisted.domain.git.agreement import (
    ASIDE,
    BACK,
    NONE,
    Version,
    aside_of,
    content,
    lacking,
    objects_in,
    objects_of,
    version_of,
)
from saltwisted.errors import RemoteError, StoreError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.wire.msgpack import pack_bin, unpack_bin

REFS, PACK, SLICE = "git-refs", "git-pack", "git-slice"
SLICE_SIZE = 2 * 1024 * 1024
"""Bytes of one slice, so that what is small gets between them."""
ANSWER_TIME = 60.0
WORK_TIME = 600.0
"""Seconds that a worker has for a pack."""
PATIENCE = 30.0
MOST_REFS = 20_000
MOST_TOKENS = 64
MOST_HELD = 8
"""Versions of one repository whose refs are remembered, until one of them is served."""

Content = Mapping[str, Any]
"""C{refs}: ref to its object, the commit that this leads to, and that one's tree; and what is
beside them (L{saltwisted.domain.git.agreement.ASIDE})."""
Allowed = Callable[[str, bool], bool]
"""Whether a member may have a repository, by its id and whether that is one of pillar."""


@frozen
class Parcel:
    """A pack that a node has asked for."""

    node: str
    path: str
    size: int


class Exchange:
    """
    Reactor thread only.

    @param may_have: whether a member may have a repository.
    @param work: has a worker process a request within some seconds: C{work(request, seconds)}.
    @param run: runs a blocking call in the pool.
    """

    def __init__(
        self,
        peers: IPeers,
        may_have: Allowed,
        work: Callable[[Mapping[str, Any], float], Deferred[Any]],
        run: Callable[..., Deferred[Any]],
        updates: Callable[[], IGitUpdates],
        now: Callable[[], float],
        most: Callable[[], int],
    ) -> None:
        """
        @param most: bytes that one pack may have.
        """
        self._may_have, self._work, self._run = may_have, work, run
        self._updates, self._now, self._most = updates, now, most
        self._held: dict[str, OrderedDict[Version, Content]] = {}
        self._parcels: OrderedDict[str, Parcel] = OrderedDict()
        peers.answer(REFS, self._asked_for_refs)
        peers.answer(PACK, self._asked_for_pack)
        peers.answer(SLICE, self._asked_for_slice)

    # -- what is on this disk

    def held(self, shared: str) -> Mapping[Version, Content]:
        """Versions of a repository whose objects are here."""
        return self._held.get(shared, {})

    def objects(self, shared: str) -> set[str]:
        """What they need, though nothing that is served may lead to it yet."""
        return {oid for state in self.held(shared).values() for oid in objects_in(state).values()}

    def lost(self, shared: str, version: Version) -> None:
        """Their objects are missing after all."""
        self._held.get(shared, OrderedDict()).pop(version, None)

    def keep(self, shared: str, version: Version, state: Content) -> None:
        """The objects of this version are here."""
        if version == NONE:
            return
        mine = self._held.setdefault(shared, OrderedDict())
        mine[version] = content(state)
        mine.move_to_end(version)
        if len(mine) > MOST_HELD:
            mine.popitem(last=False)

    # -- getting

    async def bring(
        self,
        copy: IGitCopy,
        link: IPeerLink,
        version: Version = NONE,
        said: Mapping[str, Any] | None = None,
        anew: bool = False,
    ) -> Content:
        """
        Get the objects of a version from a node; returns its content.

        @param said: as L{told} makes it, if it is known already.
        @param anew: whether the repository here is damaged: then all of it is fetched, and served.
        @raises SaltwistedError: it could not be fetched; nothing here has changed.
        """
        if said is None:
            said = await self._ask(link, REFS, {"key": copy.shared, "version": list(version)})
        refs, aside = checked(said)
        ours = objects_in(copy.state)
        try:
            state = await self._take(copy, link, version, refs, aside, {} if anew else ours, anew)
        except RemoteError:
            if anew or not ours:
                raise
            # What is served may be damaged: then the pack has to have all
            state = await self._take(copy, link, version, refs, aside, {}, anew)
        if anew:
            self._updates().copies.took(copy.shared, state)
        else:
            self._updates().copies.learn(copy.shared, state)
        self.keep(copy.shared, version, state)
        return content(state)

    async def _take(
        self,
        copy: IGitCopy,
        link: IPeerLink,
        version: Version,
        refs: Mapping[str, str],
        aside: Mapping[str, Any],
        ours: Mapping[str, str],
        anew: bool,
    ) -> Mapping[str, Any]:
        back = {f"{BACK} {ref}": tip[0] for ref, tip in aside.get(BACK, {}).items()}
        wants = lacking({**refs, **back}, ours)
        name = await self._fetch(copy, link, wants, sorted(set(ours.values()))) if wants else ""
        answer = await self.work(
            {
                "do": "take",
                "folder": copy.folder,
                "pack": name,
                "refs": dict(refs),
                "aside": dict(aside),
                "hold": not anew,
                "fresh": anew,
                "version": list(version),
                "most": self._most(),
            }
        )
        state: Mapping[str, Any] = answer["state"]
        return state

    async def _fetch(
        self, copy: IGitCopy, link: IPeerLink, wants: list[str], haves: list[str]
    ) -> str:
        """Have a pack sent; the name of its file in the folder of the repository."""
        lacked = {"key": copy.shared, "wants": wants, "haves": haves}
        answer = await self._ask(link, PACK, lacked, WORK_TIME + PATIENCE)
        token, size = str(answer.get("token")), answer.get("size")
        if not isinstance(size, int) or not 0 <= size <= self._most():
            raise RemoteError("GitError", f"a pack from {link.node} is too large")
        name = f"incoming-{secrets.token_hex(8)}"
        path = os.path.join(copy.folder, name)
        at = 0
        try:
            await self._run(_begin, path)
            while at < size:
                question = {"token": token, "at": at}
                data = await link.ask(SLICE, pack_bin(question), ANSWER_TIME)
                if not data or at + len(data) > size:
                    raise RemoteError("GitError", f"a pack from {link.node} is incomplete")
                await self._run(_append, path, at, bytes(data))
                at += len(data)
        except BaseException:
            await self._run(_forget, path)
            raise
        return name

    async def _ask(
        self, link: IPeerLink, word: str, question: Mapping[str, Any], seconds: float = ANSWER_TIME
    ) -> Mapping[str, Any]:
        value = unpack_bin(await link.ask(word, pack_bin(dict(question)), seconds))
        if not isinstance(value, dict):
            raise RemoteError("GitError", f"{link.node} sent an invalid answer")
        return value

    async def work(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Have a worker do something with a repository.

        @raises RemoteError: it could not.
        """
        full = {"seconds": WORK_TIME, "most": self._most(), "now": self._now(), **request}
        answer: Mapping[str, Any] = await self._work(full, WORK_TIME + PATIENCE)
        if "error" in answer:
            raise RemoteError("GitError", str(answer["error"]))
        return answer

    # -- giving

    def _copy(self, node: str, question: Mapping[str, Any]) -> IGitCopy:
        copy = self._updates().copies.all().get(str(question.get("key")))
        if copy is None:
            raise PeerRefused("this remote is not configured here")
        if not self._may_have(node, copy.is_pillar):
            raise PeerRefused("403: this member may not have pillars")
        return copy

    def _asked_for_refs(self, node: str, body: bytes) -> bytes:
        question = _map(body)
        copy = self._copy(node, question)
        state = self.held(copy.shared).get(_version(question.get("version")))
        if state is None:
            raise PeerRefused("this node does not have this version")
        return pack_bin(told(state))

    async def _asked_for_pack(self, node: str, body: bytes) -> bytes:
        question = _map(body)
        copy = self._copy(node, question)
        wants, haves = _ids(question.get("wants")), _ids(question.get("haves"))
        request = {"do": "pack", "folder": copy.folder, "wants": wants, "haves": haves}
        answer = await self.work(request)
        token = secrets.token_hex(16)
        self._parcels[token] = Parcel(node, str(answer["path"]), int(answer["size"]))
        if len(self._parcels) > MOST_TOKENS:
            self._parcels.popitem(last=False)
        return pack_bin({"token": token, "size": int(answer["size"])})

    async def _asked_for_slice(self, node: str, body: bytes) -> bytes:
        question = _map(body)
        parcel = self._parcels.get(str(question.get("token")))
        at = question.get("at")
        if parcel is None or parcel.node != node or not isinstance(at, int):
            raise PeerRefused("this pack no longer exists")
        data: bytes = await self._run(_slice, parcel.path, at)
        return data


def _map(body: bytes) -> Mapping[str, Any]:
    value = unpack_bin(body)
    if not isinstance(value, dict):
        raise PeerRefused("the request is invalid")
    return value


def told(state: Content) -> dict[str, Any]:
    """A content in the form in which peers receive it."""
    refs = {ref: tip[0] for ref, tip in state["refs"].items()}
    return {**content(state), "refs": refs}


def checked(said: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """
    Ref to object, and the other data, from a peer's message.

    @raises RemoteError: they are invalid.
    """
    if not isinstance(said, Mapping):
        raise RemoteError("GitError", "a peer sent an invalid message")
    try:
        beside = {name: said[name] for name in ASIDE if name in said}
        return objects_of(said.get("refs"), MOST_REFS), aside_of(beside, MOST_REFS)
    except ValueError as error:
        raise RemoteError("GitError", f"a peer sent {error}") from None


def _version(value: Any) -> Version:
    try:
        return version_of(value)
    except ValueError as error:
        raise PeerRefused(str(error)) from None


def _ids(value: Any) -> list[str]:
    """Names of objects, and nothing that git could take for something else."""
    try:
        pairs = {f"refs/tags/{number}": oid for number, oid in enumerate(value)}
        return list(objects_of(pairs, 2 * MOST_REFS).values())
    except (TypeError, ValueError):
        raise PeerRefused("invalid object names") from None


# -- in the pool


def _begin(path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _append(path: str, at: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if os.pwrite(fd, data, at) != len(data):
            raise StoreError("a write was cut short", path)
    except OSError as error:
        raise StoreError(error.strerror or str(error), path) from error
    finally:
        os.close(fd)


def _forget(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def _slice(path: str, at: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise PeerRefused("this pack no longer exists") from error
    try:
        os.utime(fd)
        return os.pread(fd, SLICE_SIZE, at)
    finally:
        os.close(fd)
