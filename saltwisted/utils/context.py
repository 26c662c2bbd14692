"""Names of a module replaced for a while, as C{salt.utils.context} does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def func_globals_inject(func: Callable[..., Any], **overrides: Any) -> Iterator[None]:
    """
    Other values for some names of the module that a function is from, for a while.
    """
    space: dict[str, Any] = getattr(func, "__func__", func).__globals__
    before = {name: space.get(name, _ABSENT) for name in overrides}
    space.update(overrides)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                space.pop(name, None)
            else:
                space[name] = value
