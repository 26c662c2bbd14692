"""
Who has asked for what is done now, and by which way: the records of jobs say so.

A request is worked on in one context (L{contextvars}); what it begins inherits that, also where it
goes on without whoever asked. What others do because of it, such as a reaction to its events, has a
user of its own, and then this says nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

ASKED = "asked"
"""Where a job's record has it: C{{"by": the way and from where, "node": who was asked}}."""
_asked: ContextVar[tuple[str, str]] = ContextVar("asked", default=("", ""))


def asks(user: str, source: str) -> None:
    """From here on this user has asked, by this way and from there."""
    _asked.set((user, source))


def origin(user: str, node: str) -> dict[str, Any]:
    """What the record of a job of this user says of that; nothing where nobody has asked."""
    name, source = _asked.get()
    return {ASKED: {"by": source, "node": node}} if source and name == user else {}
