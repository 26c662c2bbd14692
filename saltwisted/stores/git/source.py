"""
C{gitfs}: files of commits.

The source serves a L{GitView}: all remotes at one commit for each of their refs. A new view
replaces the old one at once, so lists and contents belong together. Trees are looked up in the
repository itself; nothing is ever checked out. A worker process writes a large file to disk when it
is requested for the first time.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from time import thread_time
from typing import Any
from weakref import WeakSet

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.python.failure import Failure

from saltwisted.config.git import GitRemote
from saltwisted.domain.git import mapping, trees
from saltwisted.domain.git.mapping import Refs, Tip
from saltwisted.domain.roots.manifest import name_of
from saltwisted.doors import FILES
from saltwisted.errors import SaltwistedError, StoreError, TooMuch
from saltwisted.stores.files import store_error
from saltwisted.stores.git.lists import TreeLists, Work, aside
from saltwisted.stores.git.objects import MOST_TREE, Damaged, Elsewhere, Repository
from saltwisted.stores.roots.joined import Joined
from saltwisted.stores.roots.served import Found, RunInPool, Shared
from saltwisted.stores.roots.tree import OPEN, Listing, both, either_link, read_file, read_now

SPOOL = 512 * 1024 * 1024
"""Bytes of large files of one remote that stay laid out."""
SECONDS = FILES.holds
JUST_LAID = SECONDS + 30.0
"""
Seconds for which a laid-out file stays although nobody seems to know it: it is being made, which
may take L{SECONDS}.
"""
REACH = frozenset(
    (
        *("insecure_auth", "passphrase", "password", "privkey", "proxy", "pubkey"),
        *("ssl_verify", "update_interval", "user"),
    )
)
"""How a remote is reached, and how often: no matter of what is served."""
_MOST_HASHES = 200_000
_MOST_PLACES = 1000
_MOST_WAYS = 4096
_MOST_ENDLESS = 100
_MOST_UNSEARCHED = 1000
PORTION = 0.002
"""Seconds of CPU after which a look-up that reads directories waits for another turn."""


@frozen
class Served:
    """
    One remote as it is served: its repository, and its refs at one moment.

    @ivar folder: the directory of its repository.
    @ivar signed: commits that may be environments by their own names; C{None} for all.
    """

    remote: GitRemote
    folder: str
    repository: Repository = field(repr=False)
    refs: Refs = field(repr=False)
    signed: frozenset[str] | None = field(default=None, repr=False)


@frozen
class Place:
    """
    Where the files of an environment are in one remote.

    @ivar tree: of the commit; links lead no higher than this.
    @ivar root: below it, in parts.
    @ivar mountpoint: where they are in the environment, in parts.
    """

    served: Served = field(repr=False)
    commit: str
    tree: str
    root: tuple[str, ...]
    mountpoint: tuple[str, ...]


class GitView:
    """All remotes at one moment. A view never changes."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = tuple(served)
        self.envs = sorted(
            {env for each in served for env in mapping.environments(each.remote, each.refs)}
        )
        self._known = set(self.envs)
        self._places: OrderedDict[str, tuple[Place, ...]] = OrderedDict()

    @cached_property
    def digest(self) -> bytes:
        """
        What distinguishes it from every other view: the commit of each ref of each remote, and
        mappings.
        """
        whole = hashlib.sha256()
        for each in self.served:
            tips = sorted((ref, tip.commit) for ref, tip in each.refs.items())
            known = {k: v for k, v in vars(each.remote).items() if k not in REACH}
            whole.update(repr((sorted(known.items(), key=str), tips)).encode())
        return whole.digest()

    @property
    def name(self) -> str:
        """Its name for people: twelve hex digits."""
        return name_of(self.digest)

    def places(self, env: str) -> tuple[Place, ...]:
        """Where the files of an environment are, the first one first."""
        known = self._places.get(env)
        if known is None:
            known = self._places[env] = tuple(self._find(env))
            if len(self._places) > _MOST_PLACES:
                self._places.popitem(last=False)
        return known

    def _find(self, env: str) -> list[Place]:
        found = []
        for each in self.served:
            if not mapping.listed_in(each.remote, env, self._known):
                continue
            tip = mapping.tip_of(each.remote, each.refs, env)
            if isinstance(tip, str):
                commit = each.repository.commit(tip)
                if commit is not None and each.signed is not None and commit[0] not in each.signed:
                    commit = None
                tip = Tip(commit[0], *commit) if commit is not None else None
            if tip is None:
                continue
            root = tuple(mapping.root_of(each.remote, env).split("/"))
            mountpoint = tuple(mapping.mountpoint_of(each.remote, env).split("/"))
            found.append(
                Place(each, tip.commit, tip.tree, tuple(filter(None, root)),
                      tuple(filter(None, mountpoint)))
            )  # fmt: skip
        return found


def kept_by(views: Iterable[GitView], folder: str) -> set[str]:
    """The objects of a repository that some views need."""
    found: set[str] = set()
    for view in views:
        for each in view.served:
            if each.folder == folder:
                found.update(tip.id for tip in each.refs.values())
                if mapping.is_hex(each.remote.base):
                    found.add(each.remote.base)
    return {oid for oid in found if len(oid) in (40, 64)}


@frozen
class GitFile(Found):
    """A file of a commit. C{full} is not a path on this machine; no such file exists."""

    oid: str
    place: Place = field(repr=False)


class GitFiles:
    """
    Reactor thread only.

    @param folder: C{cachedir}, for the paths in answers.
    @param run: runs a blocking call in the pool.
    @param work: has a worker process do something.
    """

    name = "gitfs"

    def __init__(self, folder: str, hash_type: str, run: RunInPool, work: Work) -> None:
        self._folder, self._hash_type = folder, hash_type
        self._run, self._work = run, work
        self.view = GitView(())
        self._hashes: OrderedDict[str, str] = OrderedDict()
        self._laying: dict[str, Shared] = {}
        self._laid: OrderedDict[str, str] = OrderedDict()
        self._lately: set[str] = set()
        self._lists = TreeLists(run, work)
        self._joined = Joined(_one_list, run)
        self._uid, self._gid = os.geteuid(), os.getegid()
        self._tables: dict[str, Shared] = {}
        self._ways: OrderedDict[tuple[str, tuple[str, ...]], trees.Entry] = OrderedDict()
        # By the tree and the first part of a path, which most paths do not share with any of these
        self._endless: OrderedDict[tuple[str, tuple[str, ...]], OrderedDict[Any, None]] = (
            OrderedDict()
        )
        self._unsearched: OrderedDict[str, None] = OrderedDict()
        self._tell: Callable[[str], None] = lambda folder: None
        self._exceeded: Callable[[str, str], None] = lambda folder, text: None
        self._through: Callable[[GitView], GitView] = lambda view: view
        self._shown: list[Callable[[GitView], None]] = []
        self._keepers: list[Callable[[str], Iterable[str]]] = []
        self._readers: WeakSet[GitFiles] = WeakSet()

    def startService(self) -> None:
        """
        Check that the hash type exists.

        @raises StoreError: when it does not.
        """
        try:
            hashlib.new(self._hash_type)
        except ValueError as error:
            raise StoreError(f"hash_type {self._hash_type!r} is unknown to this Python") from error

    def stopService(self) -> None:
        """Let the repositories go."""
        for each in self.view.served:
            each.repository.close()

    def on_damage(self, receiver: Callable[[str], None]) -> None:
        """Call C{receiver(folder)} when something of a repository cannot be read."""
        self._tell = receiver

    def on_excess(self, receiver: Callable[[str, str], None]) -> None:
        """Call C{receiver(folder, text)} when something of a repository exceeds what may be."""
        self._exceeded = receiver

    def on_show(self, receiver: Callable[[GitView], None]) -> None:
        """Call C{receiver(view)} when another one is served."""
        self._shown.append(receiver)

    def on_keep(self, keeper: Callable[[str], Iterable[str]]) -> None:
        """Ask C{keeper(folder)} which objects of a repository are wanted, though not served."""
        self._keepers.append(keeper)

    def kept(self, folder: str) -> list[str]:
        """The objects of a repository that are to stay, though nothing may lead to them now."""
        # An orchestration may read the commits of its beginning for hours
        read = kept_by(self.views_read(), folder)
        return sorted({*read, *(oid for keeper in self._keepers for oid in keeper(folder))})

    def views_read(self) -> list[GitView]:
        """What somebody still reads (L{over})."""
        return [other.view for other in self._readers]

    def through(self, change: Callable[[GitView], GitView]) -> None:
        """What is to be served from now on is what C{change} makes of it."""
        self._through = change

    def show(self, view: GitView) -> None:
        """From now on this is served."""
        view = self.view = self._through(view)
        for receiver in self._shown:
            receiver(view)

    def over(self, view: GitView) -> GitFiles:
        """The same over another view, for callers that must not see the newest."""
        other = GitFiles(self._folder, self._hash_type, self._run, self._work)
        other._hashes, other._laid, other._lists = self._hashes, self._laid, self._lists
        other._laying, other._lately = self._laying, self._lately
        other._tables, other._endless = self._tables, self._endless
        other._ways, other._unsearched = self._ways, self._unsearched
        other._tell = lambda folder: self._tell(folder)
        other._exceeded = lambda folder, text: self._exceeded(folder, text)
        other.show(view)
        self._readers.add(other)
        return other

    def envs(self) -> list[str]:
        """Names of the environments, sorted."""
        return list(self.view.envs)

    def refresh(self) -> None:
        """A commit is never old; who wants a newer one has it fetched."""

    # -- one file

    def find(
        self, saltenv: str, path: str, index: int | None = None
    ) -> GitFile | None | Deferred[GitFile | None]:
        """Look a file up in the trees of the environment's commits."""
        parts = trees.clean(path)
        if parts is None:
            return None
        places = [
            place
            for number, place in enumerate(self.view.places(saltenv))
            if index in (None, number) and parts[: len(place.mountpoint)] == place.mountpoint
        ]
        return self._first(places, saltenv, parts)

    def _first(
        self, places: Sequence[Place], saltenv: str, parts: tuple[str, ...]
    ) -> GitFile | None | Deferred[GitFile | None]:
        """The file of the first of some places that has it."""
        for number, place in enumerate(places):
            wanted = (*place.root, *parts[len(place.mountpoint) :])
            found = self._ways.get((place.tree, wanted))
            if found is None:
                walk = self._walk(place, wanted)
                later = self._go(place, walk)
                if later is not None:
                    after = partial(self._after, places[number:], saltenv, parts, walk)
                    whole: Deferred[Any] = later.addCallback(after)
                    return whole
                found = self._led(place, walk)
            file = self._file(place, found, saltenv, parts)
            if file is not None:
                return file
        return None

    def _after(
        self,
        places: Sequence[Place],
        saltenv: str,
        parts: tuple[str, ...],
        walk: trees.Walk,
        _: Any,
    ) -> Any:
        """The way in the first of these places has come to its end."""
        found = self._file(places[0], self._led(places[0], walk), saltenv, parts)
        return found or self._first(places[1:], saltenv, parts)

    def _led(self, place: Place, walk: trees.Walk) -> trees.Entry | None:
        """Where a way has led, which is remembered if it is a file: it is asked for in pieces."""
        found = walk.found
        if found is None or found[0] == trees.FOLDER:
            return None
        self._ways[place.tree, walk.parts] = found
        if len(self._ways) > _MOST_WAYS:
            self._ways.popitem(last=False)
        return found

    def _walk(self, place: Place, parts: tuple[str, ...]) -> trees.Walk:
        """The way of a path, at its end already if it is known to be too long."""
        walk = trees.Walk(place.tree, parts)
        endless = self._endless.get((place.tree, parts[:1]), ())
        if any(parts[: len(each)] == each for each in endless):
            walk.lead_nowhere()
        return walk

    def _go(
        self, place: Place, walk: trees.Walk, target: trees.Target | None = None
    ) -> Deferred[None] | None:
        """Go on to the end of a way; a Deferred if that takes more than this turn."""
        repository = place.served.repository
        target = target or repository.target
        reads, end = repository.reads, thread_time() + PORTION

        def is_enough() -> bool:
            nonlocal reads
            if repository.reads == reads:
                return False
            # Only what reads is measured: to look at a clock takes as long as to find a name
            reads = repository.reads
            return thread_time() > end

        try:
            if not walk.go(repository.look, target, is_enough):
                return self._run(_others_turn).addCallback(lambda _: self._go(place, walk, target))
        except Elsewhere as missing:
            return self._table(place, missing.oid).addCallback(
                lambda has: self._go(place, walk, target) if has else walk.lead_nowhere()
            )
        except Damaged:
            # Of a repository that is damaged the others shall not suffer
            self._tell(place.served.folder)
            walk.lead_nowhere()
        if walk.too_long:
            self._is_endless(place, walk.too_long)
        return None

    def _is_endless(self, place: Place, parts: tuple[str, ...]) -> None:
        """Whatever begins so is not looked up again, and this is said once."""
        key = (place.tree, parts[:1])
        known = self._endless.setdefault(key, OrderedDict())
        if parts in known:
            return
        known[parts] = None
        for some in (known, self._endless):
            if len(some) > _MOST_ENDLESS:
                some.popitem(last=False)
        path = "/".join(parts)
        path = path if len(path) <= 200 else f"{path[:200]}..."
        self._exceeded(
            place.served.folder,
            f"{path} is not served: its way is longer than {trees.MOST_HOPS} names, or leads"
            f" through directories of more than {trees.MOST_SEEN} names together",
        )

    def _table(self, place: Place, oid: str) -> Deferred[bool]:
        """Have a large directory read, once for all who want it; whether that is possible."""
        if oid in self._unsearched:
            return succeed(False)
        running = self._tables.get(oid)
        if running is None:
            repository, folder = place.served.repository, place.served.folder

            def came(answer: Mapping[str, Any]) -> bool | Deferred[bool]:
                if "error" in answer:
                    if answer.get("damaged"):
                        self._tell(folder)
                        return False
                    self._unsearched[oid] = None
                    if len(self._unsearched) > _MOST_UNSEARCHED:
                        self._unsearched.popitem(last=False)
                    self._exceeded(folder, f"nothing is found in {oid}: {answer['error']}")
                    return False
                if "at" in answer:
                    read: Deferred[dict[str, list[bytes]]] = self._run(aside, answer)
                    return read.addCallback(
                        lambda parts: keep(parts["data"][0], parts["starts"][0])
                    )
                return keep(answer["data"], answer["starts"])

            def keep(data: bytes, starts: bytes) -> bool:
                repository.keep(oid, trees.Table(data, starts, len(oid) // 2))
                return True

            def failed(failure: Failure) -> bool:
                failure.trap(SaltwistedError)
                self._exceeded(folder, f"{oid} cannot be read: {failure.value}")
                return False

            def finished(outcome: Any) -> Any:
                self._tables.pop(oid, None)
                return outcome

            running = self._tables[oid] = Shared()
            answer = self._work(
                {
                    "do": "table",
                    "folder": folder,
                    "repo": repository.path,
                    "tree": oid,
                    "most": MOST_TREE,
                }
            )
            running.follow(answer.addCallback(came).addErrback(failed).addBoth(finished))
        return running.join()

    def _file(
        self,
        place: Place,
        found: trees.Entry | None,
        saltenv: str,
        parts: tuple[str, ...],
    ) -> GitFile | None:
        """The file that a way has led to."""
        if found is None:
            return None
        try:
            size = place.served.repository.size(found[1])
        except Damaged:
            self._tell(place.served.folder)
            return None
        rel = "/".join(parts)
        full = f"{self._folder}/gitfs/refs/{saltenv}/{rel}"
        inode = int(found[1][:12], 16)
        numbers = (found[0], inode, 0, 1, self._uid, self._gid, size, 0, 0, 0)
        return GitFile(full, rel, os.stat_result(numbers), self.name, found[1], place)

    def hash(self, found: GitFile) -> str | Deferred[str]:
        """The hash of a file: from memory, at once if it is small, else from a worker."""
        known = self._hashes.get(found.oid)
        if known is not None:
            return known
        repository = found.place.served.repository
        if found.oid not in repository.large:
            content = self._content(found)
            digest = hashlib.new(self._hash_type, content, usedforsecurity=False)
            return self._remember(found.oid, digest.hexdigest())
        return self._lay(found).addCallback(lambda _: self._hashes[found.oid])

    def _content(self, found: GitFile) -> bytes:
        """
        A small file.

        @raises StoreError: it cannot be read.
        """
        try:
            return found.place.served.repository.content(found.oid)
        except Damaged:
            self._tell(found.place.served.folder)
            raise

    def _remember(self, oid: str, value: str) -> str:
        self._hashes[oid] = value
        if len(self._hashes) > _MOST_HASHES:
            self._hashes.popitem(last=False)
        return value

    def read(self, found: GitFile, start: int, size: int) -> bytes | Deferred[bytes]:
        """A range of a file: at once if the file is small, otherwise from its copy on disk."""
        whole = found.info.st_size
        length = min(size, whole - start)
        if start < 0 or length <= 0:
            return b""
        if found.oid not in found.place.served.repository.large:
            return self._content(found)[start : start + length]
        self._lately.add(found.oid)
        path = self._laid.get(found.oid)
        if path is not None:
            data: bytes | Deferred[bytes] | None = self._read(path, whole, start, length)
            if data is not None:
                return data
            self._laid.pop(found.oid, None)

        def laid(path: str) -> Any:
            data = self._read(path, whole, start, length)
            if data is None:
                raise StoreError("has been deleted again", path)
            return data

        return self._lay(found).addCallback(laid)

    def _read(self, path: str, whole: int, start: int, length: int) -> Any:
        """A range of a laid-out file, or a Deferred of it; C{None} where it is gone."""
        try:
            fd = os.open(path, OPEN)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise store_error(error, path) from error
        try:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_size != whole:
                return None
            data = read_now(fd, start, length)
        except OSError as error:
            raise store_error(error, path) from error
        finally:
            os.close(fd)
        if data is not None:
            return data
        return self._run(read_file, path, (info.st_dev, info.st_ino), start, length)

    def _lay(self, found: GitFile) -> Deferred[str]:
        """Have a large file laid out; fires with its path. Asked once for all who want it."""
        running = self._laying.get(found.oid)
        if running is None:
            served = found.place.served

            def finished(outcome: Any) -> Any:
                self._laying.pop(found.oid, None)
                return outcome

            running = self._laying[found.oid] = Shared()
            answer = self._work(
                {
                    "do": "spool",
                    "folder": served.folder,
                    "repo": served.repository.path,
                    "id": found.oid,
                    "size": found.info.st_size,
                    "hash_type": self._hash_type,
                    "seconds": SECONDS,
                    "keep": SPOOL,
                }
            )
            running.follow(answer.addCallback(partial(self._is_laid, found)).addBoth(finished))
        return running.join()

    def _is_laid(self, found: GitFile, answer: Mapping[str, Any]) -> str:
        if "error" in answer:
            if answer.get("damaged"):
                self._tell(found.place.served.folder)
            raise StoreError(str(answer["error"]), found.full)
        self._remember(found.oid, str(answer["hash"]))
        self._laid[found.oid] = str(answer["path"])
        if len(self._laid) > _MOST_HASHES:
            self._laid.popitem(last=False)
        return self._laid[found.oid]

    def tidy(self) -> Deferred[None]:
        """
        Remove the copies of large files that nobody has read since the last call.

        An earlier process of this master may have left some: they go as well. They are laid out
        again when somebody asks for them.
        """
        for oid in self._laid.keys() - self._lately:
            del self._laid[oid]
        wanted = {*self._laid, *self._laying, *self._lately}
        self._lately.clear()
        folders = sorted({os.path.join(each.folder, "files") for each in self.view.served})
        return self._run(remove_others, folders, wanted, time.time() - JUST_LAID)

    # -- lists

    def listing(self, saltenv: str) -> Listing | Deferred[Listing]:
        """
        Everything in an environment; each tree is listed once.

        A remote that cannot be listed is left out, and L{on_excess} says so. If there is no other,
        the list fails.
        """
        places = self.view.places(saltenv)
        found = [self._listed(place) for place in places]
        if any(isinstance(each, Deferred) for each in found):
            later = [each if isinstance(each, Deferred) else succeed(each) for each in found]
            whole: Deferred[Any] = gatherResults(later)
            return whole.addCallback(self._together, saltenv)
        return self._together(found, saltenv)

    def _together(
        self, found: Sequence[Listing | StoreError], saltenv: str
    ) -> Listing | Deferred[Listing]:
        """
        The lists of all remotes as one.

        @raises StoreError: there are none.
        """
        there = [each for each in found if isinstance(each, Listing)]
        errors = [each for each in found if isinstance(each, StoreError)]
        if errors and not there:
            raise errors[0]
        whole = self._joined.of(saltenv, there)
        if saltenv in self.view.envs or mapping.is_hex(saltenv):
            return whole
        # As in Salt: an environment that is there by way of C{fallback} alone lists no links
        if isinstance(whole, Deferred):
            return whole.addCallback(evolve, links={})
        return evolve(whole, links={})

    def _listed(self, place: Place) -> Any:
        """What one remote has, or why it cannot be listed."""
        walk = trees.Walk(place.tree, place.root)
        # As in Salt a link is no root
        later = self._go(place, walk, lambda oid: None)
        if later is None:
            return self._list(place, walk)
        return later.addCallback(lambda _: self._list(place, walk))

    def _list(self, place: Place, walk: trees.Walk) -> Any:
        repository, folder = place.served.repository, place.served.folder
        if walk.found is None or walk.found[0] != trees.FOLDER:
            return Listing()

        def failed(failure: Failure) -> StoreError:
            if failure.check(Damaged):
                self._tell(folder)
                return Damaged(str(failure.value))
            failure.trap(SaltwistedError)
            self._exceeded(folder, f"its files are missing in lists: {failure.value}")
            return TooMuch(str(failure.value))

        key = (repository.path, walk.found[1], "/".join(place.mountpoint))
        listing = self._lists.of(key)
        return listing.addErrback(failed) if isinstance(listing, Deferred) else listing


def _others_turn() -> None:
    """In the pool: what comes from there comes in a later turn of the reactor."""


def remove_others(folders: Iterable[str], wanted: Container[str], before: float) -> None:
    """Blocking: remove what these folders have had since before a time, except what is wanted."""
    for folder in folders:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    is_old = entry.stat(follow_symlinks=False).st_mtime < before
                    if is_old and entry.name.partition(".")[0] not in wanted:
                        os.unlink(entry.path)


def _one_list(one: Listing, other: Listing) -> Listing:
    # As in Salt a link of two remotes is that of the last
    joined = both(one, other)
    return Listing(joined.files, joined.dirs, (), either_link(other.links, one.links))
