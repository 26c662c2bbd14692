"""
Calls of operations without a socket.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.operations.table import Call, Caller, Stream
from saltwisted.domain.who import local

ROOT = Caller(name="root", owner=True, source="uid 0", door="a test")


def nobody_listens(item: Any) -> None:
    """Items go nowhere."""


def call_of(user: str = "root", stream: Stream = nobody_listens, /, **args: Any) -> Call:
    """A call as an operation sees it, after its rights and arguments were judged."""
    return Call(args=args, caller=ROOT, who=local(user), stream=stream)
