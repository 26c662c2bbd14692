"""
What a start reads of its configuration before it writes, makes or opens anything.

A start refuses with the first thing that cannot work; C{saltwisted check} tells all of them
(L{saltwisted.roles.check}). Both go through the same rows, which each role has as C{READINGS}, so
that a start has nothing to complain of that the check has passed. A row calls the reader that a
part of the daemon calls later.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from saltwisted.config.api import BLOCKS
from saltwisted.config.load import Loaded
from saltwisted.errors import ConfigError, SaltwistedError, StoreError
from saltwisted.roles.privileges import become, check_owner
from saltwisted.transports.ipc import check_socket

SOCKET = "saltwisted.sock"
"""The name of the control socket in C{sock_dir}."""


@frozen
class Reading:
    """
    One thing that has to work.

    @ivar option: the option whose place in the files is told.
    @ivar read: C{read(config)}; raises a C{ConfigError} or C{StoreError} if it does not work.
    """

    option: str
    read: Callable[[Any], Any]


FIRST = (
    Reading("user", lambda config: become(str(config.user))),
    Reading("pki_dir", check_owner),
)
"""Everything else is read as that user. The first changes the process."""
CONTROL = Reading("sock_dir", lambda config: check_socket(os.path.join(config.sock_dir, SOCKET)))


def problems(readings: Sequence[Reading], loaded: Loaded) -> Iterator[SaltwistedError]:
    """What cannot work, each with its place in the files as far as that is known."""
    for reading in readings:
        try:
            reading.read(loaded.config)
        except ConfigError as error:
            yield placed(error, loaded, reading.option)
        except StoreError as error:
            yield error


def refuse(readings: Sequence[Reading], loaded: Loaded) -> None:
    """
    Become the user that the configuration names, and read everything that can stop a start.

    @raises SaltwistedError: the first that cannot work; nothing is written then.
    """
    for error in problems(readings, loaded):
        raise error


def placed(error: ConfigError, loaded: Loaded, option: str) -> ConfigError:
    """The same with file and line, where it has none: those of the option that it is about."""
    if error.path is not None:
        return error
    named = error.reason.partition(":")[0].partition(" ")[0]
    path, line = None, None
    for name in (named, option, *(BLOCKS if option in BLOCKS else ())):
        path, line = loaded.where(name)
        if path is not None:
            break
    else:
        return error
    return type(error)(error.reason, path, line)
