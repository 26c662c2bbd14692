"""
What processes of this master request from its file server.

An orchestration, or a call of a site's own function, gets a file server for as long as it runs.
Whatever is fetched meanwhile, it reads the same commits from its beginning to its end, and never
from the network. Copies of what it reads are in a folder of its own, because another process may
run on other commits at the same time. Pillars and reactions get the newest files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from saltwisted.errors import RemoteError, StoreError
from saltwisted.master.chunks import Chunks
from saltwisted.master.fileserver import FileServer
from saltwisted.master.ground import Ground
from saltwisted.transports.deferreds import let_go

ROOTS = ("roots",)


@frozen
class Lent:
    """
    What one process reads.

    @ivar files: the file server that answers it.
    @ivar folder: the folder of its copies.
    """

    files: FileServer
    folder: str


class ProcessFiles:
    """
    Reactor thread only.

    @param kind: the kind of these processes: a name for their folders.
    """

    def __init__(self, ground: Ground, kind: str) -> None:
        self._ground = ground
        self._top = os.path.join(ground.config.cachedir, "saltwisted", "read", kind)
        self._chunks = Chunks()

    def lend(self, name: str, above: Lent | None = None) -> Lent | None:
        """
        For a process that begins now; C{None} if it reads the directories by itself.

        @param above: the files of the process that began it: both read the same.
        """
        pins = self._ground.seams.pins
        if tuple(pins.newest.backends) == ROOTS:
            return None
        return self._lent(name, above.files if above is not None else pins.still())

    async def lend_again(self, name: str, generation: str) -> Lent | None:
        """
        For a process that continues the work of another one, on this generation.

        @raises DeniedError: its commits are not available.
        """
        pins = self._ground.seams.pins
        if tuple(pins.newest.backends) == ROOTS:
            return None
        return self._lent(name, await pins.again(generation))

    def _lent(self, name: str, files: FileServer) -> Lent:
        return Lent(files, os.path.join(self._top, os.path.basename(name)))

    def take_back(self, lent: Lent | None) -> None:
        """The process has ended."""
        if lent is not None:
            self._remove(lent.folder)

    def sweep(self) -> Awaitable[Any]:
        """Remove what processes of an earlier life have left."""
        return self._ground.pool(shutil.rmtree, self._top, True)

    def _remove(self, folder: str) -> None:
        let_go(self._ground.pool(shutil.rmtree, folder, True), self._ground.log, "copies were left")

    async def answer(self, load: Any, lent: Lent | None = None) -> Any:
        """
        The answer to one file request, in Salt's words.

        @raises RemoteError: that is none.
        """
        files = lent.files if lent is not None else self._ground.seams.pins.newest
        ask = _ASK.get(load.get("cmd")) if isinstance(load, dict) else None
        if ask is None:
            raise RemoteError("SaltInvocationError", "that is no question about files")
        place = self._chunks.place()
        try:
            answer = ask(files, load, place)
            return await answer if isinstance(answer, Deferred) else answer
        finally:
            place.give_back()


async def content(files: FileServer, path: str, saltenv: str, most: int) -> bytes | None:
    """
    A whole file, for the master itself; C{None} if it does not exist, or is larger.

    @raises StoreError: it cannot be read.
    """
    known = files.find("|" + path, saltenv)
    found = await known if isinstance(known, Deferred) else known
    if found is None or found.info.st_size > most:
        return None
    place, data = Chunks().place(), b""
    while len(data) <= most:
        answer: Any = files.serve_file("|" + path, saltenv, len(data), None, place)
        reply = await answer if isinstance(answer, Deferred) else answer
        if not isinstance(reply, dict):
            raise StoreError("cannot be read", found.full)
        if not reply["data"]:
            break
        data += reply["data"]
    return data


def _words(load: Mapping[str, Any]) -> tuple[str, str]:
    return str(load.get("path") or ""), str(load.get("saltenv") or "base")


def _listing(form: str) -> Callable[..., Any]:
    def ask(files: FileServer, load: Mapping[str, Any], place: Any) -> Any:
        prefix = str(load.get("prefix") or "")
        if form == "links":
            return files.links_now(_words(load)[1], prefix)
        return files.list_now(form, _words(load)[1], prefix)

    return ask


def _serve(files: FileServer, load: Mapping[str, Any], place: Any) -> Any:
    level = int(load["gzip"]) if load.get("gzip") else None
    return files.serve_file(*_words(load), int(load.get("loc") or 0), level, place)


_ASK: dict[Any, Callable[[FileServer, Mapping[str, Any], Any], Any]] = {
    "_file_envs": lambda files, load, place: files.envs(),
    "_file_list": _listing("files"),
    "_dir_list": _listing("dirs"),
    "_file_list_emptydirs": _listing("empty_dirs"),
    "_symlink_list": _listing("links"),
    "_file_hash": lambda files, load, place: files.file_hash(*_words(load)),
    "_file_find": lambda files, load, place: files.file_find(*_words(load)),
    "_serve_file": _serve,
}
