"""
Paths and programs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from saltwisted.domain.render import textfilters
from saltwisted.utils._own import own
from saltwisted.worker import renderfilters
from saltwisted.worker.exceptions import CommandNotFoundError

join = own(__name__, textfilters.path_join)
which = own(__name__, renderfilters.which)


def islink(path: str) -> bool:
    """Whether this is a symbolic link."""
    return os.path.islink(path)


def readlink(path: str) -> str:
    """Where a symbolic link points to."""
    return os.readlink(path)


def which_bin(exes: Any) -> str | None:
    """The path of the first of some programs that is there."""
    names = [exes] if isinstance(exes, str) else exes
    if not isinstance(names, Iterable):
        return None
    for name in names:
        path = which(name)
        if path:
            return str(path)
    return None


def check_or_die(command: Any) -> None:
    """
    See that a program is there.

    @raises CommandNotFoundError: it is not.
    """
    if command is None:
        raise CommandNotFoundError("'None' is not a valid command.")
    if not which(command):
        raise CommandNotFoundError(f"'{command}' is not in the path")


def sanitize_win_path(winpath: Any) -> Any:
    """A path without the signs that Windows forbids."""
    return winpath.translate({ord(sign): "_" for sign in "<>:|?*"})


def os_walk(top: str, *args: Any, **kwargs: Any) -> Iterator[tuple[str, list[str], list[str]]]:
    """As C{os.walk}."""
    yield from os.walk(textfilters.to_text(top), *args, **kwargs)


def expand(path: str) -> str:
    """A path with users and variables put in, without links."""
    return os.path.realpath(os.path.expandvars(os.path.expanduser(path)))


def safe_path(path: str, allow_path: str | list[str] | None = None) -> bool:
    r"""
    Whether something may be changed below a path: not at a root of Windows, nor in its directory.

    @param allow_path: one or several directories in there where it may.
    """
    allowed = [allow_path] if isinstance(allow_path, str) else allow_path or []
    system = re.escape(os.environ.get("SystemRoot", r"C:\Windows"))  # noqa: SIM112

    def begins(pattern: str) -> bool:
        return re.match(pattern, path, re.IGNORECASE) is not None

    if not begins(rf"[a-z]:\\$|\\$|{system}"):
        return True
    return any(begins(re.escape(each)) for each in allowed)
