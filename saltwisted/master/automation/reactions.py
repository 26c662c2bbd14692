"""
The events to which this master reacts: the present value of the C{reactor} option.

C{reactor.add} and C{reactor.delete} change it until the next start, as in stock. If the option is a
path, the file is read again when it changes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from saltwisted.domain.reactions.entries import Entry, Matcher, parse, reading
from saltwisted.domain.reactions.keeping import part_of
from saltwisted.errors import RemoteError
from saltwisted.transports.turns import in_turns

T = TypeVar("T")

NOT_RUNNING = "Reactor system is not running."
Stamp = tuple[int, int, int] | None


class Reactions:
    """
    The entries. Reactor thread only.

    @ivar path: the file with the entries, or C{""}.
    @ivar value: the list as it is written.
    @ivar problems: a sentence for each invalid entry.
    """

    log = Logger()

    def __init__(self, option: Any = None) -> None:
        self.path = ""
        self.value: list[Any] = []
        self.problems: list[str] = []
        self.entries: Sequence[Entry] = ()
        self._matcher = Matcher(())
        self._stamp: Stamp = None
        # Thousands are taken in several turns
        self._lock = DeferredLock()
        self._unread: list[Deferred[None]] | None = None
        self.configure(option)

    def configure(self, option: Any) -> None:
        """Take the option's value at once: a list of entries, or the path of a file with one."""
        self._set_path(option)
        if not self.path:
            for _ in self._taking(option):
                pass
            self.was_read()

    async def reconfigure(self, clock: Any, option: Any) -> None:
        """The same while events come."""
        self._set_path(option)
        if not self.path:
            await self.take(clock, option)
            self.was_read()

    def _set_path(self, option: Any) -> None:
        self.path = option if isinstance(option, str) else ""
        self._stamp = None
        if self.path and not self.entries and self._unread is None:
            self._unread = []

    def until_read(self) -> Deferred[None] | None:
        """
        What to wait for before it is known which events match; C{None}: nothing. While a file is
        read again, its previous entries apply.
        """
        if self._unread is None:
            return None
        self._unread.append(Deferred())
        return self._unread[-1]

    def was_read(self) -> None:
        """The file was read, for good or bad."""
        waiting, self._unread = self._unread or [], None
        for each in waiting:
            each.callback(None)

    @property
    def configured(self) -> bool:
        """Whether there is a reactor at all."""
        return bool(self.path or self.value)

    async def take(self, clock: Any, value: Any) -> None:
        """Replace the entries. The previous ones apply until all are read; errors are reported."""
        await self._alone(lambda: self._take(clock, value))

    async def _alone(self, change: Callable[[], Awaitable[T]]) -> T:
        """One change after the other."""
        await self._lock.acquire()
        try:
            return await change()
        finally:
            self._lock.release()

    async def _take(self, clock: Any, value: Any) -> None:
        async for _ in in_turns(clock, self._taking(value)):
            pass

    def _taking(self, value: Any) -> Iterator[None]:
        entries: list[Entry] = []
        problems: list[str] = []
        matcher = Matcher()
        for found in reading(value):
            if isinstance(found, Entry):
                entries.append(found)
                matcher.add(found)
            else:
                problems.append(found)
            yield
        self.entries, self.problems, self._matcher = entries, problems, matcher
        self.value = list(value) if isinstance(value, (list, tuple)) else []
        for problem in problems:
            where = f"{self.path}: " if self.path else ""
            self.log.error("{where}{problem}; it is left out", where=where, problem=problem)
            yield

    def parts(self, tag: str) -> set[int]:
        """Into which parts the reaction to an event of this tag falls; none: nobody reacts."""
        return {part_of(entry) for entry in self._matcher.matching(tag)} if self.entries else set()

    def matching(self, tag: str) -> list[Entry]:
        """The entries for an event's tag."""
        return self._matcher.matching(tag)

    def has_changed(self) -> bool:
        """Whether the file is another than when this was last asked."""
        if not self.path:
            return False
        try:
            about = os.stat(self.path)
            stamp: Stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
        except OSError:
            stamp = (0, 0, 0)
        changed = stamp != self._stamp
        self._stamp = stamp
        return changed

    # -- what the runners say, in stock's words --------------------------------------------

    def list_all(self) -> list[Any]:
        """
        The entries as they are written.

        @raises RemoteError: there is no reactor.
        """
        if not self.configured:
            raise RemoteError("CommandExecutionError", NOT_RUNNING)
        return list(self.value)

    async def add(self, clock: Any, event: str, reactors: Any) -> dict[str, Any]:
        """
        React to one more tag.

        @raises RemoteError: there is no reactor, its entries are in a file, or this is not an
            entry.
        """
        return await self._alone(lambda: self._add(clock, event, reactors))

    async def _add(self, clock: Any, event: str, reactors: Any) -> dict[str, Any]:
        known = self._changeable()
        if any(isinstance(item, Mapping) and event in item for item in known):
            return {"status": False, "comment": "Reactor already exists."}
        found = [reactors] if isinstance(reactors, str) else reactors
        _, problems = parse([{event: found}])
        if problems:
            raise RemoteError("SaltInvocationError", problems[0])
        await self._take(clock, [*known, {event: found}])
        return {"status": True, "comment": "Reactor added."}

    async def delete(self, clock: Any, event: str) -> dict[str, Any]:
        """
        No longer react to a tag.

        @raises RemoteError: there is no reactor, or its entries are in a file.
        """
        return await self._alone(lambda: self._delete(clock, event))

    async def _delete(self, clock: Any, event: str) -> dict[str, Any]:
        known = self._changeable()
        for place, item in enumerate(known):
            if isinstance(item, Mapping) and event in item:
                await self._take(clock, [*known[:place], *known[place + 1 :]])
                return {"status": True, "comment": "Reactor deleted."}
        return {"status": False, "comment": "Reactor does not exists."}

    def _changeable(self) -> list[Any]:
        known = self.list_all()
        if self.path:
            raise RemoteError(
                "CommandExecutionError",
                f"the reactor's entries are in {self.path}: change them there",
            )
        return known
