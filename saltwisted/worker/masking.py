"""
When a pillar value may be shown.

Since Salt 3008 the C{pillar} functions answer a person with every text replaced
by stars, and a template with the plain value. Which of the two is asking is a
property of the call chain, so it is a context variable: code that renders a
template does so under L{plain_pillar}.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

PLACEHOLDER = "**********"

_masked: ContextVar[bool] = ContextVar("masked", default=True)


@contextmanager
def plain_pillar() -> Iterator[None]:
    """Within this block C{pillar.get} and its family answer with plain values."""
    token = _masked.set(False)
    try:
        yield
    finally:
        _masked.reset(token)


def redact(value: Any) -> Any:
    """A copy with every text that is not empty replaced; numbers and shapes stay, as in Salt."""
    if isinstance(value, str):
        return PLACEHOLDER if value else value
    if isinstance(value, dict):
        return {key: redact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def shown(value: Any, unmask: bool | None = None) -> Any:
    """What the caller gets to see; C{unmask} of C{None} means by the place of the call."""
    plain = not _masked.get() if unmask is None else unmask
    return value if plain else redact(value)
