"""
Files for browsers: the page of C{app}, and everything below C{static}. SaltGUI is served in this
way.

A name from a path is looked up below one directory and nowhere else. Everything that is not served
gives the same C{404}, whether or not it exists.
"""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import Any

from attrs import evolve, field, frozen
from twisted.internet.defer import Deferred

from saltwisted.config.api import ApiOptions
from saltwisted.domain.api.compressing import compressed, is_compressed, takes_gzip
from saltwisted.domain.api.problems import Problem
from saltwisted.doors import STATIC
from saltwisted.web.exchange import Answer, Endpoint, Exchange
from saltwisted.web.sending import FileSource

LARGEST = STATIC.request
SMALL = 65_536
"""Bytes of a file that is read at once; a larger one is sent as fast as its client reads it."""
DEPTH = 20
PAGE = "text/html;charset=utf-8"
InThread = Callable[..., Awaitable[Any]]


class StaticFiles:
    """The files that the options name."""

    def __init__(self, options: ApiOptions, in_thread: InThread) -> None:
        """
        @param in_thread: C{in_thread(function, *args)} works where it may wait for a disk.
        """
        self._options = options
        self._in_thread = in_thread

    def table(self) -> dict[str, Endpoint]:
        """By the first words of the path."""
        found = {}
        if self._options.static:
            name = self._options.static_path.strip("/")
            found[name] = Endpoint(methods={"GET": self.file}, depth=DEPTH, plain=True)
        if self._options.app:
            name = self._options.app_path.strip("/")
            found[name] = Endpoint(methods={"GET": self.app}, depth=DEPTH, plain=True)
        if self._options.favicon:
            found["favicon.ico"] = Endpoint(methods={"GET": self.favicon}, plain=True)
        return found

    async def favicon(self, exchange: Exchange) -> Answer:
        """The little picture that browsers ask for."""
        return await self._give(exchange, self._options.favicon, ())

    async def app(self, exchange: Exchange) -> Answer:
        """The page, whatever follows in the path: it reads that itself."""
        answer = await self._give(exchange, self._options.app, ())
        return evolve(answer, content_type=PAGE) if answer.content_type == "text/html" else answer

    async def file(self, exchange: Exchange) -> Answer:
        """A file below C{static}."""
        if exchange.path.endswith("/"):
            # That would be a directory, and those are not listed
            raise Problem(404, f"The path {exchange.path[:200]!r} was not found.")
        return await self._give(exchange, self._options.static, exchange.parts)

    async def _give(self, exchange: Exchange, top: str, parts: Sequence[str]) -> Answer:
        found = await self._opened(top, parts)
        if found is None:
            raise Problem(404, f"The path {exchange.path[:200]!r} was not found.")
        stamp = formatdate(found.modified, usegmt=True)
        exchange.answer_headers["Last-Modified"] = stamp
        if exchange.headers.get("if-modified-since") == stamp:
            found.close()
            return Answer(status=304, content=b"")
        kind, encoding = mimetypes.guess_type(parts[-1] if parts else top)
        kind = kind if kind and not encoding else "application/octet-stream"
        gzip = is_compressed(kind) and takes_gzip(exchange.headers.get("accept-encoding"))
        if gzip:
            exchange.answer_headers["Content-Encoding"] = "gzip"
        if found.content is None:
            source = FileSource(self._in_thread, found.descriptor, found.size, gzip)
            return Answer(source=source, content_type=kind)
        content = found.content
        if gzip:
            content = await self._in_thread(compressed, content)
        return Answer(content=content, content_type=kind)

    async def _opened(self, top: str, parts: Sequence[str]) -> Opened | None:
        """What L{opened} gives; it is closed if nobody waits for it any more."""
        waiting: Deferred[Any] = Deferred()

        async def open_it() -> Any:
            return await self._in_thread(opened, top, tuple(parts))

        def pass_on(result: Any) -> None:
            if not waiting.called:
                waiting.callback(result)
            elif isinstance(result, Opened):
                result.close()

        Deferred.fromCoroutine(open_it()).addBoth(pass_on)  # type: ignore[unused-awaitable]
        found: Opened | None = await waiting
        return found


@frozen
class Opened:
    """
    A file that is served.

    @ivar modified: when it was written last.
    @ivar content: all of it, if it is small; else it is open.
    """

    modified: float
    size: int
    content: bytes | None = field(repr=False)
    descriptor: int = -1

    def close(self) -> None:
        """It is not wanted."""
        if self.content is None:
            os.close(self.descriptor)


def opened(top: str, parts: Sequence[str]) -> Opened | None:
    """
    A file, read if it is small; C{None} if it is not served. Blocks.

    @param top: the file itself, or a directory above it.
    """
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        return None
    descriptor = -1
    try:
        place = os.path.realpath(top)
        path = os.path.realpath(os.path.join(place, *parts))
        if parts and not path.startswith(place.rstrip("/") + "/"):
            return None
        # Without waiting for whoever writes into a pipe
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST:
            return None
        if state.st_size > SMALL:
            large, descriptor = descriptor, -1
            return Opened(state.st_mtime, state.st_size, None, large)
        content = os.read(descriptor, SMALL)
        return Opened(state.st_mtime, len(content), content)
    except (OSError, ValueError):
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
