"""
Who has requested the current work, and through which interface. The records of jobs contain it.

A request is processed in one context (L{contextvars}). Work that it begins inherits the context,
even when it continues without the caller. Work that others do because of it has a user of its own,
and then the context is empty, except for reactions: the event that triggers one names who fired it.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.who import Who
from saltwisted.transports import bus

ASKED = "asked"
"""Where a job's record has it: C{{"by": the way and from where, "node": who was asked}}."""
LONGEST = 300
"""Characters of a way: those of reactions to reactions name one another."""


def asks(who: Who, source: str) -> None:
    """From here on this user has asked, by this way and from there."""
    bus.ASKED.set((who, source))


def origin(who: Who, node: str) -> dict[str, Any]:
    """
    The facts about the caller for the record of a job of this user; nothing if there is no caller.
    """
    asked, source = bus.ASKED.get()
    return {ASKED: {"by": source, "node": node}} if source and asked == who else {}


def named(asked: bus.Asked) -> str:
    """The caller, the interface and the address, for display; C{""} if there is no caller."""
    who, source = asked
    return f"{str(who)[:100]} ({source[:LONGEST]})" if who is not None else ""


def reacts(who: Who, tag: str, asked: str) -> None:
    """From here on it is the reactor, as this user, to an event that somebody has fired."""
    if asked:
        asks(who, f"a reaction to {tag[:100]} by {asked}"[:LONGEST])
