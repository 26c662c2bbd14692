"""
What this master reacts to: the C{reactor} option as it is now.

C{reactor.add} and C{reactor.delete} change it until the next start, as in stock. Where the option
is a path, the file is read again when it changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.reactions.entries import Entry, Matcher, parse
from saltwisted.errors import RemoteError

NOT_RUNNING = "Reactor system is not running."
Stamp = tuple[int, int, int] | None


class Reactions:
    """
    The entries. Reactor thread only.

    @ivar path: the file that they are in, or C{""}.
    @ivar value: the list as it is written.
    @ivar problems: a sentence for each entry that means nothing.
    """

    log = Logger()

    def __init__(self, option: Any = None) -> None:
        self.path = ""
        self.value: list[Any] = []
        self.problems: list[str] = []
        self.entries: Sequence[Entry] = ()
        self._matcher = Matcher(())
        self._stamp: Stamp = None
        self.configure(option)

    def configure(self, option: Any) -> None:
        """Take the option's value: a list of entries, or the path of a file with one."""
        self.path = option if isinstance(option, str) else ""
        self._stamp = None
        if not self.path:
            self.take(option)

    @property
    def configured(self) -> bool:
        """Whether there is a reactor at all."""
        return bool(self.path or self.value)

    def take(self, value: Any) -> None:
        """Have these entries in the place of those before, and say what is wrong with them."""
        self.entries, self.problems = parse(value)
        self.value = list(value) if isinstance(value, (list, tuple)) else []
        self._matcher = Matcher(self.entries)
        for problem in self.problems:
            where = f"{self.path}: " if self.path else ""
            self.log.error("{where}{problem}; it is left out", where=where, problem=problem)

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

    def add(self, event: str, reactors: Any) -> dict[str, Any]:
        """
        React to one more tag.

        @raises RemoteError: there is no reactor, its entries are in a file, or this is none.
        """
        known = self._changeable()
        if any(isinstance(item, Mapping) and event in item for item in known):
            return {"status": False, "comment": "Reactor already exists."}
        found = [reactors] if isinstance(reactors, str) else reactors
        _, problems = parse([{event: found}])
        if problems:
            raise RemoteError("SaltInvocationError", problems[0])
        self.take([*known, {event: found}])
        return {"status": True, "comment": "Reactor added."}

    def delete(self, event: str) -> dict[str, Any]:
        """
        React to a tag no more.

        @raises RemoteError: there is no reactor, or its entries are in a file.
        """
        known = self._changeable()
        for place, item in enumerate(known):
            if isinstance(item, Mapping) and event in item:
                self.take([*known[:place], *known[place + 1 :]])
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
