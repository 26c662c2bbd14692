"""
The file server: Salt's file commands over the sources of files.

The formats of the answers are Salt's (salt:// paths with their C{?saltenv=} and C{|}, maps and
lists as stock masters send them). Each source decides where its files come from and what may be
served. Answers that are at hand are values, others are Deferreds: on the hot path nobody waits for
a turn of the reactor.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger

from saltwisted.doors import FILES
from saltwisted.errors import StoreError, TooMuch
from saltwisted.master.chunks import LARGE, Place
from saltwisted.master.lists import AT_ONCE, Lists, beginning_with, packed_links
from saltwisted.master.replies import Packed
from saltwisted.parts import IFileSource, IServedFile
from saltwisted.stores.roots.joined import Joined
from saltwisted.stores.roots.tree import Listing, both

T = TypeVar("T")

MOST_PATH = FILES.request
"""
Characters of a path with its environment, as it is asked for. No file has one of more than 4096
bytes.
"""

PARTS, PATH = 64, 4096
"""Components of the path of a pushed file, and characters of each item that is sent of it."""


def parse_path(path: str, saltenv: str) -> tuple[str, str, int | None]:
    """
    The meaning of a requested path: path, environment, and the number of one root.

    C{?saltenv=dev} names another environment. A path that begins with C{|} is taken literally,
    including question marks.
    """
    if path.startswith("salt://"):
        path = path[len("salt://") :]
    if path.startswith("|"):
        return path.lstrip("|"), saltenv, None
    index = None
    if "?" in path:
        path, _, query = path.partition("?")
        for word in query.partition("?")[0].split("&"):
            name, equals, value = word.partition("=")
            if not equals:
                continue
            if name == "saltenv":
                saltenv = value
            elif name == "index":
                # Very many digits are no number for Python
                is_number = value.isascii() and value.isdecimal() and len(value) < 10
                index = int(value) if is_number else -1
    return path, saltenv, index


class FileServer:
    """
    Answers about files and their contents.

    @param sources: where files come from. The first source that has a file serves it; lists and
        environments are the union of all sources.
    @param run: runs a blocking call in the pool.
    """

    log = Logger()

    def __init__(
        self, sources: Sequence[IFileSource], config: Any, run: Callable[..., Deferred[Any]]
    ) -> None:
        self._sources = {source.name: source for source in sources}
        self._hash_type = str(config.hash_type)
        self._run = run
        self._lists, self._joined = Lists(run), Joined(both, run)
        self._chunk = max(int(config.file_buffer_size), 1)
        self._recv = bool(config.file_recv)
        self._recv_most = int(config.file_recv_max_size) * 1024 * 1024
        self._recv_dir = os.path.join(config.cachedir, "minions")
        self._complained: set[str] = set()

    # -- environments and lists

    @property
    def backends(self) -> tuple[str, ...]:
        """The names of the sources, the first one first."""
        return tuple(self._sources)

    def _of(self, backends: Collection[str] | None) -> list[IFileSource]:
        """All sources, or those of some names."""
        return [
            source for name, source in self._sources.items() if backends is None or name in backends
        ]

    def envs(self, backends: Collection[str] | None = None) -> list[str]:
        """Names of the environments, sorted."""
        return sorted({env for source in self._of(backends) for env in source.envs()})

    def refresh(self, backends: Collection[str] | None = None) -> None:
        """Forget cached listings."""
        for source in self._of(backends):
            source.refresh()

    def list_now(
        self, form: str, saltenv: Any, prefix: str, backends: Collection[str] | None = None
    ) -> list[str] | Deferred[list[str]]:
        """
        C{files}, C{dirs} or C{empty_dirs} of an environment: a value, or later.

        A prefix is cut of slashes and compared as text, as in Salt.
        """
        prefix = prefix.strip("/")

        def shape(listing: Listing) -> list[str]:
            return list(beginning_with(prefix, getattr(listing, form)))

        return self._listed(saltenv, shape, backends)

    def list_packed(
        self, form: str, saltenv: Any, prefix: str
    ) -> list[str] | Packed | Deferred[list[str] | Packed]:
        """The same, for whoever sends it: packed if it is long, and once for all who ask."""
        prefix, env = prefix.strip("/"), str(saltenv)

        def shape(listing: Listing) -> Any:
            names = beginning_with(prefix, getattr(listing, form))
            return self._lists.packed((env, form), names, not prefix)

        return self._listed(env, shape, None)

    def links_now(
        self, saltenv: Any, prefix: str, backends: Collection[str] | None = None
    ) -> dict[str, str] | Deferred[dict[str, str]]:
        """Links of an environment: a value, or later."""
        prefix = prefix.strip("/")

        def shape(listing: Listing) -> Any:
            if len(listing.links) > AT_ONCE:
                return self._run(_beginning_with, prefix, listing.links)
            return _beginning_with(prefix, listing.links)

        return self._listed(saltenv, shape, backends)

    def links_packed(self, saltenv: Any, prefix: str) -> Any:
        """The same, for whoever sends it: very many are packed in a thread."""
        prefix = prefix.strip("/")

        def shape(listing: Listing) -> Any:
            if len(listing.links) > AT_ONCE:
                return self._run(packed_links, prefix, listing.links).addCallback(Packed)
            return _beginning_with(prefix, listing.links)

        return self._listed(saltenv, shape, None)

    def _listed(
        self, saltenv: Any, shape: Callable[[Listing], T], backends: Collection[str] | None
    ) -> T | Deferred[T]:
        some = self._of(backends) if len(str(saltenv)) <= MOST_PATH else []
        listings = [_listing(source, str(saltenv)) for source in some]
        joined = partial(self._together, (str(saltenv), tuple(backends or ())))
        if not any(isinstance(each, Deferred) for each in listings):
            at_hand = joined(listings)
            return at_hand.addCallback(shape) if isinstance(at_hand, Deferred) else shape(at_hand)
        later = [each if isinstance(each, Deferred) else succeed(each) for each in listings]
        whole = gatherResults(later, consumeErrors=True)
        d: Deferred[Any] = whole.addCallbacks(joined, _first_error)
        return d.addCallback(shape)

    def _together(
        self, name: Hashable, listings: Sequence[Listing | TooMuch]
    ) -> Listing | Deferred[Listing]:
        """
        The lists of all sources as one, without those that are too much.

        @raises TooMuch: nobody else has anything.
        """
        there = [each for each in listings if isinstance(each, Listing)]
        errors = [each for each in listings if isinstance(each, TooMuch)]
        if errors and not any(each != Listing() for each in there):
            raise errors[0]
        return self._joined.of(name, there)

    # -- one file

    def find(
        self, path: str, saltenv: Any = "base"
    ) -> IServedFile | None | Deferred[IServedFile | None]:
        """The file that a requested path means, if there is one to serve."""
        if len(path) > MOST_PATH or len(str(saltenv)) > MOST_PATH:
            return None
        clean, env, index = parse_path(path, str(saltenv))
        return _first(tuple(self._sources.values()), env, clean, index)

    def file_find(
        self, path: str, saltenv: Any = "base"
    ) -> dict[str, Any] | Deferred[dict[str, Any]]:
        """Salt's description of a file: C{path rel stat back}; empty texts when there is none."""
        found = self.find(path, saltenv)
        return found.addCallback(_described) if isinstance(found, Deferred) else _described(found)

    def file_hash(
        self, path: str, saltenv: Any = "base"
    ) -> Mapping[str, str] | str | Deferred[Any]:
        """C{{hash_type, hsum}}, or C{""} if the file does not exist."""
        found = self.find(path, saltenv)
        if isinstance(found, Deferred):
            return found.addCallback(self._hash_of)
        return self._hash_of(found)

    def _hash_of(self, found: IServedFile | None) -> Mapping[str, str] | str | Deferred[Any]:
        if found is None:
            return ""
        try:
            value = self._sources[found.back].hash(found)
        except StoreError as error:
            return self._unreadable(error)
        if isinstance(value, Deferred):
            later: Deferred[Any] = value
            return later.addCallbacks(self._hash_map, self._hash_failed)
        return self._hash_map(value)

    def file_hash_and_stat(self, path: str, saltenv: Any = "base") -> list[Any] | Deferred[Any]:
        """The hash and the ten numbers of C{stat}; C{["", None]} if the file does not exist."""
        found = self.find(path, saltenv)
        if isinstance(found, Deferred):
            return found.addCallback(self._hash_and_stat_of)
        return self._hash_and_stat_of(found)

    def _hash_and_stat_of(self, found: IServedFile | None) -> list[Any] | Deferred[Any]:
        if found is None:
            return ["", None]
        numbers = list(found.info)
        value = self._hash_of(found)
        if isinstance(value, Deferred):
            return value.addCallback(lambda hashed: [hashed, numbers if hashed else None])
        return [value, numbers if value else None]

    def _hash_map(self, hsum: str) -> dict[str, str]:
        return {"hash_type": self._hash_type, "hsum": hsum}

    def _hash_failed(self, failure: Any) -> str:
        failure.trap(StoreError)
        return self._unreadable(failure.value)

    def _unreadable(self, error: StoreError) -> str:
        """A file that is there and cannot be read is not there, but an operator should know."""
        if error.path not in self._complained and len(self._complained) < 1000:
            self._complained.add(error.path)
            self.log.warn("cannot be served: {error}", error=str(error))
        return ""

    def serve_file(
        self, path: str, saltenv: Any, loc: int, level: int | None, place: Place
    ) -> dict[str, Any] | str | Deferred[Any]:
        """
        One chunk of C{file_buffer_size} bytes from C{loc}: C{data}, C{dest}, and possibly C{gzip}.

        Empty data means the end of the file; an empty C{dest} means that it does not exist. A file
        that cannot be read any further must not seem to end: C{""} makes minions ask again, and
        finally give up. A large chunk waits for its slot, and is then looked up again.
        """
        found = self.find(path, saltenv)
        how = partial(self._serve, path, saltenv, loc, level, place)
        return found.addCallback(how) if isinstance(found, Deferred) else how(found)

    def _serve(
        self,
        path: str,
        saltenv: Any,
        loc: int,
        level: int | None,
        place: Place,
        found: IServedFile | None,
        attempt: int = 1,
    ) -> dict[str, Any] | str | Deferred[Any]:
        nothing: dict[str, Any] | str = "" if loc else {"data": b"", "dest": ""}
        if found is None:
            return {"data": b"", "dest": ""}
        if min(self._chunk, found.info.st_size - loc) >= LARGE and not place.take():
            return place.wait().addCallback(
                lambda _: self.serve_file(path, saltenv, loc, level, place)
            )
        try:
            data = self._sources[found.back].read(found, loc, self._chunk)
        except StoreError as error:
            if attempt == 2:
                self._unreadable(error)
                return nothing
            # A file that was replaced between the two looks is looked up again
            again = self.find(path, saltenv)
            how = partial(self._serve, path, saltenv, loc, level, place, attempt=2)
            return again.addCallback(how) if isinstance(again, Deferred) else how(again)
        if isinstance(data, Deferred):
            later: Deferred[Any] = data
            return later.addErrback(self._chunk_failed).addCallback(
                partial(self._chunk_or, nothing, found, level)
            )
        return self._chunk_of(found, level, data)

    def _chunk_failed(self, failure: Any) -> None:
        failure.trap(StoreError)
        self._unreadable(failure.value)

    def _chunk_or(
        self,
        nothing: dict[str, Any] | str,
        found: IServedFile,
        level: int | None,
        data: bytes | None,
    ) -> dict[str, Any] | str | Deferred[Any]:
        return nothing if data is None else self._chunk_of(found, level, data)

    def _chunk_of(
        self, found: IServedFile, level: int | None, data: bytes
    ) -> dict[str, Any] | Deferred[dict[str, Any]]:
        reply: dict[str, Any] = {"data": data, "dest": found.rel}
        if not level or not data:
            return reply
        reply["gzip"] = level

        def packed(compressed: bytes) -> dict[str, Any]:
            reply["data"] = compressed
            return reply

        strength = min(max(level, 1), 9)
        return self._run(_compress, data, strength).addCallback(packed)

    # -- pushed files

    def receive(
        self, minion_id: str, path: list[Any], loc: int, data: str | bytes
    ) -> bool | Deferred[bool]:
        """
        Take a chunk of a file that a minion pushes; false when that is off, or refused.

        It goes below C{cachedir/minions/<id>/files}, by names that are each a
        plain component (T-PATH-5); no link is followed on the way. A minion may
        fill no more than C{file_recv_max_size} per file.
        """
        if not self._recv or loc < 0 or loc + len(data) > self._recv_most:
            return False
        if not 0 < len(path) <= PARTS or not all(_is_short(item) for item in path):
            return False
        if path[0][:1] == "/":
            return False
        parts = [part for item in path for part in item.split("/")]
        parts = [part for part in parts if part not in ("", ".")]
        if not parts or len(parts) > PARTS or not all(_is_component(part) for part in parts):
            return False
        folders = [self._recv_dir, minion_id, "files", *parts[:-1]]
        most = self._recv_most
        done: Deferred[bool] = self._run(_store_chunk, folders, parts[-1], loc, data, most)
        return done.addErrback(self._refused)

    def _refused(self, failure: Any) -> bool:
        failure.trap(OSError)
        self.log.warn("a pushed file was refused: {error}", error=str(failure.value))
        return False


def _beginning_with(prefix: str, links: Mapping[str, str]) -> dict[str, str]:
    return {name: target for name, target in links.items() if name.startswith(prefix)}


def _listing(source: IFileSource, env: str) -> Any:
    """What a source has, or the error if that is too much, or a Deferred of one of them."""
    try:
        listing = source.listing(env)
    except TooMuch as error:
        return error
    return listing.addErrback(_too_much) if isinstance(listing, Deferred) else listing


def _too_much(failure: Any) -> Any:
    failure.trap(TooMuch)
    return failure.value


def _first(
    sources: Sequence[IFileSource], env: str, path: str, index: int | None
) -> IServedFile | None | Deferred[IServedFile | None]:
    """The file of the first source that has it."""
    for number, source in enumerate(sources):
        found: Any = source.find(env, path, index)
        if isinstance(found, Deferred):
            after = partial(_or_of, sources[number + 1 :], env, path, index)
            whole: Deferred[Any] = found.addCallback(after)
            return whole
        if found is not None:
            file: IServedFile = found
            return file
    return None


def _or_of(
    sources: Sequence[IFileSource], env: str, path: str, index: int | None, found: Any
) -> Any:
    return found if found is not None else _first(sources, env, path, index)


def _described(found: IServedFile | None) -> dict[str, Any]:
    if found is None:
        return {"path": "", "rel": ""}
    return {
        "path": found.full,
        "rel": found.rel,
        "stat": list(found.info),
        "back": found.back,
    }


def _first_error(failure: Any) -> Any:
    return failure.value.subFailure


def _is_short(item: Any) -> bool:
    return isinstance(item, str) and len(item) <= PATH


def _is_component(name: str) -> bool:
    return name != ".." and "\0" not in name and len(name.encode("utf-8", "replace")) <= 255


def _compress(data: bytes, level: int) -> bytes:
    return gzip.compress(data, level, mtime=0)


def _store_chunk(folders: list[str], name: str, loc: int, data: str | bytes, most: int) -> bool:
    """
    In the pool: walk down by descriptors without following links, then write at C{loc}.

    @param data: text where the bytes happened to be UTF-8.
    @param most: bytes of the file; false if it had more.
    @raises OSError: a link or something else in the way, or the disk refuses.
    """
    if isinstance(data, str):
        data = data.encode()
    if loc + len(data) > most:
        return False
    os.makedirs(folders[0], mode=0o700, exist_ok=True)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(folders[0], flags)
    try:
        for folder in folders[1:]:
            try:
                os.mkdir(folder, 0o700, dir_fd=at)
            except FileExistsError:
                pass
            below = os.open(folder, flags, dir_fd=at)
            os.close(at)
            at = below
        how = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(name, how if loc else how | os.O_TRUNC, 0o600, dir_fd=at)
        try:
            os.fchmod(fd, 0o600)
            rest = memoryview(data)
            while rest:
                count = os.pwrite(fd, rest, loc)
                loc += count
                rest = rest[count:]
        finally:
            os.close(fd)
    finally:
        os.close(at)
    return True
