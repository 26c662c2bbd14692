"""
Stores parts of objects in the order of their arrival. While too much waits, nothing more is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from twisted.logger import Logger

from saltwisted.domain.roots.guards import Forbidden
from saltwisted.errors import StoreError
from saltwisted.transports.deferreds import OneByOne

WINDOW = 8 * 1024 * 1024
"""Bytes of objects asked for and not received yet; also of received ones not stored yet."""


class Reading(Protocol):
    """What a stream provides to the code that stores its objects."""

    closed: bool

    def broke(self, error: Forbidden) -> None:
        """The peer broke the rules: close."""

    def close(self, reason: str) -> None:
        """Tell the peer why, and close."""

    def room_changed(self) -> None:
        """It is too much now that waits, or no longer."""


class Intake:
    """
    The only writer of a stream's objects, so that slices stay in order. Reactor thread only.

    @ivar is_full: whether too much waits to be stored; false again when half of it is stored.
    """

    log = Logger()

    def __init__(self, stream: Reading) -> None:
        self.is_full = False
        self._stream = stream
        self._unwritten = 0
        self._waiting = OneByOne(self._store, self.log, "roots: an object was not stored")

    def add(
        self, size: int, work: Callable[[], Awaitable[Any]], done: Callable[[Any], None]
    ) -> None:
        """
        Store something after what arrived before it.

        @param work: does it, in the pool.
        @param done: gets the result, if the stream is still open.
        """
        self._unwritten += size
        if self._unwritten > WINDOW and not self.is_full:
            self.is_full = True
            self._stream.room_changed()

        async def one() -> None:
            try:
                try:
                    result = await work()
                finally:
                    self._unwritten -= size
                if not self._stream.closed:
                    done(result)
            except Forbidden as error:
                self._stream.broke(error)

        self._waiting.put(one)

    async def _store(self, one: Callable[[], Awaitable[None]]) -> None:
        try:
            await one()
        except StoreError as error:
            self.log.error("roots: an object was not stored: {error}", error=str(error))
            self._stream.close("disk")
        except Exception:
            # The peer believes that we have it: on another stream it is asked for again
            self._stream.close("not stored")
            raise
        finally:
            if self.is_full and self._unwritten < WINDOW // 2 and not self._stream.closed:
                self.is_full = False
                self._stream.room_changed()
