"""
Who has requested the current work, and through which interface. The records of jobs contain it.

A request is processed in one context (L{contextvars}). Work that it begins inherits the context,
even when it continues without the caller. Work that others do because of it has a user of its own,
and then the context is empty, except for reactions: the event that triggers one names who fired it.
"""

from __future__ import annotations

from typing import Any

from saltwisted.transports import bus

ASKED = "asked"
"""Where a job's record has it: C{{"by": the way and from where, "node": who was asked}}."""
LONGEST = 300
"""Characters of a way: those of reactions to reactions name one another."""


def asks(user: str, source: str) -> None:
    """From here on this user has asked, by this way and from there."""
    bus.ASKED.set((user, source))


def origin(user: str, node: str) -> dict[str, Any]:
    """What the record of a job of this user says of that; nothing where nobody has asked."""
    name, source = bus.ASKED.get()
    return {ASKED: {"by": source, "node": node}} if source and name == user else {}


def named(asked: tuple[str, str]) -> str:
    """Who has asked, by which way and from where, for people; C{""} if nobody has."""
    user, source = asked
    return f"{user[:100]} ({source[:LONGEST]})" if user else ""


def reacts(user: str, tag: str, asked: str) -> None:
    """From here on it is the reactor, as this user, to an event that somebody has fired."""
    if asked:
        asks(user, f"a reaction to {tag[:100]} by {asked}"[:LONGEST])
