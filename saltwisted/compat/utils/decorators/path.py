"""C{salt.utils.decorators.path}: functions that need a program."""

from __future__ import annotations

import functools
from typing import Any

from saltwisted.utils import path as _path
from saltwisted.worker.exceptions import CommandNotFoundError


def which(exe: str) -> Any:
    """Refuse a call where a program is not installed."""

    def above(function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if _path.which(exe) is None:
                raise CommandNotFoundError(f"The '{exe}' binary was not found in $PATH.")
            return function(*args, **kwargs)

        return called

    return above


def which_bin(exes: Any) -> Any:
    """Refuse a call where none of several programs is installed."""

    def above(function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if _path.which_bin(exes) is None:
                raise CommandNotFoundError(
                    f"None of provided binaries({exes}) was not found in $PATH."
                )
            return function(*args, **kwargs)

        return called

    return above
