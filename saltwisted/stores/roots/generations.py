"""
C{file_roots} as a cluster node serves them: from committed generations, never from files that are
being edited.

Replicated roots are looked up in the manifest of the present generation, or of the generation to
which a job is pinned; links are resolved inside it. Roots that are not replicated (patterns,
C{__env__}) are served from their directories, as on a lone master. Lists and hashes need no disk;
contents come from the content store.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, fail, gatherResults, succeed
from twisted.python.failure import Failure

from saltwisted.domain.git.trees import MOST_HOPS
from saltwisted.domain.roots.entry import DIR, FILE, LINK, TreeEntry
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import StoreError
from saltwisted.stores.roots import sound
from saltwisted.stores.roots.joined import Joined
from saltwisted.stores.roots.objects import ContentStore
from saltwisted.stores.roots.served import Found, Roots, RootsOptions, RunInPool, Shared, clean_path
from saltwisted.stores.roots.tree import INLINE, Listing, both, in_order, read_now

MOST_LINKS = 40
MOST_BY_LINKS = 100_000
"""Paths that lead through links to directories, so that links among a few directories end."""
FEW = 500
"""Files and directories that are listed in the reactor thread, in a millisecond or two."""
_MAX_HASHES = 50_000
_MAX_LISTINGS = 32

Mend = Callable[[ContentStore, bytes, int], Deferred[Any]]
Source = Callable[[], tuple[Generation, ContentStore] | None]
"""The generation to serve now, with its contents; C{None} before there is one."""


@frozen
class GenerationFile(Found):
    """A file of a generation; C{full} is where it is in the working tree."""

    entry: TreeEntry
    store: ContentStore


class GenerationRoots(Roots):
    """
    Reactor thread only.

    A damaged content is never served: it is repaired first, or cannot be read.

    @param sources: root directory to what it serves.
    @param mend: fetches a damaged content of a store again, by digest and size; fires when that is
        done or has failed.
    """

    def __init__(
        self,
        file_roots: Mapping[str, Any],
        run: RunInPool,
        options: RootsOptions,
        sources: Mapping[str, Source],
        mend: Mend = lambda store, digest, size: succeed(None),
    ) -> None:
        self._sources = dict(sources)
        self._mend = mend
        self._sound = sound.Sound()
        self._learning: dict[bytes, Shared] = {}
        self._kept_hashes: OrderedDict[bytes, str] = OrderedDict()
        self._kept_listings: OrderedDict[tuple[Any, ...], Listing] = OrderedDict()
        self._coming: dict[tuple[Any, ...], Shared] = {}
        self._joined = Joined(both, run)
        self._uid, self._gid = os.geteuid(), os.getegid()
        super().__init__(file_roots, run, options)
        self._options = options
        self._direct = self._others()

    def _others(self) -> Roots:
        direct = {
            env: [root for root in self.roots_of(env) if root not in self._sources]
            for env in self._configured
            if env != "__env__"
        }
        return Roots({e: r for e, r in direct.items() if r}, self.run, self._options)

    def serve_directly(self, root: str) -> None:
        """This root has no generations after all: serve its directory."""
        if self._sources.pop(root, None) is not None:
            self._direct = self._others()

    def refresh(self) -> None:
        """Forget listings of roots that are served directly; generations need no refreshing."""
        super().refresh()
        if hasattr(self, "_direct"):
            self._direct.refresh()

    def find(self, saltenv: str, path: str, index: int | None = None) -> Found | None:
        """Look a file up in the manifests, or on disk if there are none."""
        rel = clean_path(path)
        if rel is None:
            return None
        roots = self.roots_of(saltenv)
        for number, root in enumerate(roots):
            if index is not None and number != index:
                continue
            source = self._sources.get(root)
            if source is None:
                found = super().find(saltenv, path, number)
            else:
                found = self._find_kept(root, rel, source())
            if found is not None:
                return found
        return None

    def _find_kept(
        self, root: str, rel: str, served: tuple[Generation, ContentStore] | None
    ) -> GenerationFile | None:
        full = f"{root}/{rel}"
        if served is None or self._ignored(full):
            return None
        generation, store = served
        name = resolve(generation, os.fsencode(rel), self._follow)
        entry = generation.get(name) if name is not None else None
        if entry is None or entry.kind != FILE:
            return None
        seconds = entry.mtime // 10**9
        numbers = (
            stat.S_IFREG | entry.mode,
            int.from_bytes(entry.content[:6], "big"),
            0,
            1,
            self._uid,
            self._gid,
            entry.size,
            seconds,
            seconds,
            seconds,
        )
        return GenerationFile(full, rel, os.stat_result(numbers), self.name, entry, store)

    def hash(self, found: Found) -> str | Deferred[str]:
        """The hash of a file: of a generation's, known without a look at the disk."""
        if not isinstance(found, GenerationFile):
            return super().hash(found)
        digest = found.entry.content
        if self.hash_type == "sha256":
            return digest.hex()
        known = self._kept_hashes.get(digest)
        if known is not None:
            return known

        def remember(value: str) -> str:
            self._kept_hashes[digest] = value
            if len(self._kept_hashes) > _MAX_HASHES:
                self._kept_hashes.popitem(last=False)
            return value

        if found.entry.size <= INLINE:
            try:
                return remember(_hash(found.store, found.entry, self.hash_type))
            except sound.Damaged:
                # The second one is a StoreError for the caller
                d = self._mend(found.store, digest, found.entry.size)
                return d.addCallback(
                    lambda _: remember(_hash(found.store, found.entry, self.hash_type))
                )
        hashed = self.run(_hash, found.store, found.entry, self.hash_type)
        return self._or_mended(
            hashed, found, lambda: self.run(_hash, found.store, found.entry, self.hash_type)
        ).addCallback(remember)

    def _or_mended(
        self, d: Deferred[Any], found: GenerationFile, again: Callable[[], Any]
    ) -> Deferred[Any]:
        """Once more after the content was mended, if it was damaged."""

        def failed(failure: Failure) -> Any:
            failure.trap(sound.Damaged)
            mended = self._mend(found.store, found.entry.content, found.entry.size)
            return mended.addCallback(lambda _: again())

        return d.addErrback(failed)

    def read(self, found: Found, start: int, size: int) -> bytes | Deferred[bytes]:
        """A range of a file."""
        if not isinstance(found, GenerationFile):
            return super().read(found, start, size)
        entry = found.entry
        length = min(size, entry.size - start)
        if start < 0 or length <= 0:
            return b""
        try:
            data = self._read_sound(found, start, length)
        except sound.Damaged:
            data = fail()
        if isinstance(data, bytes):
            return data
        return self._or_mended(data, found, lambda: self._read_sound(found, start, length))

    def _read_sound(
        self, found: GenerationFile, start: int, length: int
    ) -> bytes | Deferred[bytes]:
        """
        A range that is what it should be.

        @raises sound.Damaged: it is not; also through the Deferred.
        """
        digest, whole = found.entry.content, found.entry.size
        if not self._sound.needs(digest, whole):
            return self._read_known(found, start, length)
        # Many minions begin with a large file at once, and it is read whole once for all
        learning = self._learning.get(digest)
        if learning is None:

            def learnt(sums: Any) -> Any:
                self._learning.pop(digest, None)
                if not isinstance(sums, Failure):
                    self._sound.keep(digest, sums)
                return sums

            learning = self._learning[digest] = Shared()
            learning.follow(self.run(sound.learn, found.store, digest, whole).addBoth(learnt))
        joined: Deferred[Any] = learning.join()
        return joined.addCallback(lambda _: self._read_known(found, start, length))

    def _read_known(
        self, found: GenerationFile, start: int, length: int
    ) -> bytes | Deferred[bytes]:
        digest, whole = found.entry.content, found.entry.size
        sums = self._sound.of(digest)
        low, most = sound.span(whole, start, length)
        path, offset, _ = found.store.locate(digest)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(error.strerror or str(error), found.full) from error
        try:
            data = read_now(fd, offset + low, most)
        finally:
            os.close(fd)
        if data is None:
            return self.run(sound.read, found.store, digest, whole, start, length, sums)
        sound.check(digest, whole, low, data, sums)
        return data[start - low : start - low + length]

    def listing(self, saltenv: str) -> Listing | Deferred[Listing]:
        """Everything in an environment."""
        roots = self.roots_of(saltenv)
        generations = []
        for root in roots:
            source = self._sources.get(root)
            served = source() if source is not None else None
            if served is not None:
                generations.append((root, served[0]))
        if not generations:
            return (
                super().listing(saltenv)
                if not any(r in self._sources for r in roots)
                else (Listing())
            )
        key = (saltenv, *(generation.digest for _, generation in generations))
        whole = self._kept_listings.get(key) or self._list(key, generations)
        if len(generations) == len(roots):
            return whole
        more = self._direct.listing(saltenv)
        if isinstance(whole, Listing) and isinstance(more, Listing):
            return self._joined.of(saltenv, (whole, more))
        each = [d if isinstance(d, Deferred) else succeed(d) for d in (whole, more)]
        found: Deferred[Any] = gatherResults(each, consumeErrors=True)
        return found.addCallbacks(partial(self._joined.of, saltenv), _first_error)

    def _list(
        self, key: tuple[Any, ...], generations: list[tuple[str, Generation]]
    ) -> Listing | Deferred[Listing]:
        """A list that is not kept yet: made at once where that is short, else in the pool."""
        coming = self._coming.get(key)
        if coming is None:
            lister = _Lister(self._follow, self._ignore_links, self._ignored)
            if sum(len(each.folders) + each.files for _, each in generations) <= FEW:
                return self._keep_listing(key, lister, lister.made_of(generations))
            coming = self._coming[key] = Shared()
            made: Deferred[Any] = self.run(lister.made_of, generations)
            made = made.addCallback(partial(self._keep_listing, key, lister))
            coming.follow(made.addBoth(self._listed, key))
        return coming.join()

    def _listed(self, outcome: Any, key: tuple[Any, ...]) -> Any:
        self._coming.pop(key, None)
        return outcome

    def _keep_listing(self, key: tuple[Any, ...], lister: _Lister, listing: Listing) -> Listing:
        for root, error in lister.wrong:
            self.log.error(
                "{root}: {why} at {path}: lists of files leave out what links point to",
                root=root,
                why=error.reason,
                path=error.path,
            )
        self._kept_listings[key] = listing
        if len(self._kept_listings) > _MAX_LISTINGS:
            self._kept_listings.popitem(last=False)
        return listing


class _Lister:
    """
    Makes a list of generations, which never change; a thread may do this. On the way it keeps lists
    of texts alone: when a set of very many grows, and when the garbage collector looks at very many
    other objects, the whole process stands still.

    @ivar wrong: the roots that have too many paths through links.
    """

    def __init__(self, follow: bool, ignore_links: bool, ignored: Callable[[str], bool]) -> None:
        """@param ignored: whether a path is left out."""
        self._follow, self._ignore_links, self._ignored = follow, ignore_links, ignored
        self.wrong: list[tuple[str, StoreError]] = []
        self._files: list[str] = []
        self._folders: list[str] = []
        self._empty: list[str] = []
        self._links: dict[str, str] = {}

    def made_of(self, generations: Sequence[tuple[str, Generation]]) -> Listing:
        """The list."""
        for root, generation in generations:
            follow = self._follow and self._ends(root, generation)
            for path, entry, folder in ways(generation, follow):
                self._add(root, generation, os.fsdecode(path), entry, folder)
        return Listing(
            in_order(self._files),
            in_order(self._folders),
            in_order(self._empty),
            dict(sorted(self._links.items())),
        )

    def _ends(self, root: str, generation: Generation) -> bool:
        """Whether links can be followed everywhere."""
        folders = generation.folders.values()
        if not any(entry.kind == LINK for folder in folders for entry in folder.values()):
            return True
        try:
            for _ in ways(generation, True):
                pass
        except StoreError as error:
            self.wrong.append((root, error))
            return False
        return True

    def _add(
        self, root: str, generation: Generation, rel: str, entry: TreeEntry, folder: bytes | None
    ) -> None:
        if self._ignored(f"{root}/{rel}"):
            return
        if entry.kind == LINK:
            if self._ignore_links:
                return
            self._links[rel] = os.fsdecode(entry.content)
        if folder is None:
            self._files.append(rel)
            return
        self._folders.append(rel)
        if not generation.folders.get(folder):
            self._empty.append(rel)


def _first_error(failure: Any) -> Any:
    return failure.value.subFailure


def ways(generation: Generation, follow: bool) -> Iterator[tuple[bytes, TreeEntry, bytes | None]]:
    """
    Every path that leads to something in a generation, also through links to directories.

    A directory is not entered below itself. If two ways lead to one, it is entered through both, as
    in L{saltwisted.stores.roots.tree}, so that a list of files contains everything that can be
    fetched.

    @return: the path, what is at it, and the directory that it leads to, if any.
    @raises StoreError: links among directories make an unreasonable number of paths.
    """
    by_links = 0
    # Each with the directories above it: a link to one of those would never end
    waiting: list[tuple[bytes, bytes, tuple[bytes, ...]]] = [(b"", b"", ())]
    while waiting:
        shown, folder, above = waiting.pop()
        here = (*above, folder)
        if shown != folder:
            by_links += 1 + len(generation.folders.get(folder, ()))
            if by_links > MOST_BY_LINKS:
                raise StoreError("too many paths through links to directories", os.fsdecode(shown))
        for name, entry in generation.folders.get(folder, {}).items():
            path = shown + b"/" + name if shown else name
            real: bytes | None = folder + b"/" + name if folder else name
            if entry.kind == LINK:
                real = resolve(generation, real or b"", True)
                # The root itself is not an entry
                there = generation.get(real) if real else None
                if real != b"" and (there is None or there.kind != DIR):
                    real = None
            elif entry.kind != DIR:
                real = None
            yield path, entry, real
            if real is not None and real not in here and (follow or entry.kind != LINK):
                waiting.append((path, real, here))


def resolve(generation: Generation, path: bytes, follow: bool) -> bytes | None:
    """
    The path of the file or directory that a path leads to inside a generation.

    C{None} where a link leads out of it, in a circle, to nothing, or may not be followed, and where
    the way has more than L{MOST_HOPS} parts.
    """
    waiting = path.split(b"/")[::-1]
    at: list[bytes] = []
    followed = hops = 0
    while waiting:
        part = waiting.pop()
        hops += 1
        if hops > MOST_HOPS:
            return None
        if part in (b"", b"."):
            continue
        if part == b"..":
            if not at:
                return None
            at.pop()
            continue
        at.append(part)
        entry = generation.get(b"/".join(at))
        if entry is None:
            return None
        if entry.kind == LINK:
            followed += 1
            if not follow or followed > MOST_LINKS or entry.content.startswith(b"/"):
                return None
            at.pop()
            waiting.extend(entry.content.split(b"/")[::-1])
        elif entry.kind == FILE and waiting:
            return None
    return b"/".join(at)


def _hash(store: ContentStore, entry: TreeEntry, hash_type: str) -> str:
    digest, whole = hashlib.new(hash_type, usedforsecurity=False), hashlib.sha256()
    at = 0
    while at < entry.size:
        piece = store.read(entry.content, at, 1 << 20)
        digest.update(piece)
        whole.update(piece)
        at += len(piece)
    if whole.digest() != entry.content:
        raise sound.Damaged(entry.content)
    return digest.hexdigest()
