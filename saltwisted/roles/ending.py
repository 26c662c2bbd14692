"""
How a daemon that cannot do its work ends: with a status that says whether trying again helps.

Twisted's C{twistd} leaves with 0 after every stop of the reactor; a service manager would take
that for a clean end. 78 (C{EX_CONFIG} of sysexits.h) means that a person has to mend something
first, and our units do not start again after it.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from saltwisted.errors import ConfigError, PortError

EX_ERROR = 1
EX_CONFIG = 78


def status_of(error: BaseException) -> int:
    """78 for an error that stays until somebody fixes it, 1 for one that may pass."""
    if isinstance(error, PortError):
        return EX_ERROR
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, (ConfigError, PermissionError)):
            return EX_CONFIG
        each = each.__cause__
    return EX_ERROR


def giving_up(reactor: Any) -> Callable[[BaseException], None]:
    """What a daemon does with the error that kept it from starting: stop, and leave with it."""

    def end(error: BaseException) -> None:
        end_with(reactor, status_of(error))

    return end


def end_with(reactor: Any, status: int) -> None:
    """Stop the reactor; the process leaves with this status when everything has been put away."""
    atexit.register(_leave, status)
    reactor.callWhenRunning(reactor.stop)


def _leave(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
