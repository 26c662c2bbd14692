"""
Values that are created when somebody needs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class LateClient:
    """A file client that is created when an attribute of it is first used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._client is None:
            self._client = self._make()
        return getattr(self._client, name)


def late_client(value: Any) -> Callable[[], Any]:
    """A call that gives a file client, or one that makes it when it is first used."""
    client = LateClient(value) if inspect.isroutine(value) else value
    return lambda: client


def late(value: Any) -> Callable[[], Any]:
    """A call that makes the value once."""
    if not callable(value):
        settled = {} if value is None else value
        return lambda: settled
    made: list[Any] = []

    def once() -> Any:
        if not made:
            made.append(value())
        return made[0]

    return once
