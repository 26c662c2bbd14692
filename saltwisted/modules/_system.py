"""
What the modules that look at and change the machine have in common.

Refusing when a program is missing, cleaning host names for a command line, and
telling what changed between two states.
"""

from __future__ import annotations

import functools
import ipaddress
import string
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandNotFoundError

F = TypeVar("F", bound=Callable[..., Any])

_HOST_LETTERS = frozenset(string.ascii_letters + string.digits + ".-_")


def needs(*programs: str) -> Callable[[F], F]:
    """
    A function that works only if one of these programs is installed.

    @raises CommandNotFoundError: by the decorated function, in Salt's words.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if systools.which_bin(programs) is None:
                if len(programs) == 1:
                    text = f"The '{programs[0]}' binary was not found in $PATH."
                else:
                    quoted = [f"'{name}'" for name in programs]
                    text = f"None of provided binaries({quoted}) were found in $PATH."
                raise CommandNotFoundError(text)
            return function(*args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def sanitize_host(host: Any) -> str:
    """A host name without any character that a shell could mind; an address as it is."""
    if isinstance(host, str):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            return host
    return "".join(letter for letter in host[:255] if letter in _HOST_LETTERS)


def compare_lists(old: Iterable[Any], new: Iterable[Any]) -> dict[str, list[Any]]:
    """What a list gained (C{new}) and lost (C{old}); sides without change are left out."""
    before, after = list(old), list(new)
    changes: dict[str, list[Any]] = {}
    gained = [item for item in after if item not in before]
    lost = [item for item in before if item not in after]
    if gained:
        changes["new"] = gained
    if lost:
        changes["old"] = lost
    return changes
