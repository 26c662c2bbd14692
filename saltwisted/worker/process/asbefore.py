"""
What a site's code may change in its process, and how it is restored before the next call.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from saltwisted.errors import TransportClosed

_KINDS = (types.FunctionType, types.BuiltinFunctionType, type)
_ABSENT = object()
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
"""Where our own code is."""


class AsBefore:
    """
    Environment, import paths and directory as they are now.

    @ivar pid: the process; a fork of it has another.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._environ = dict(os.environ)
        self._paths = list(sys.path)
        self._folder = _folder()
        self._known: dict[str, dict[str, Any]] = {}
        self._files: list[str] = []

    def begins(self, path: str) -> None:
        """A file of the site's is executed now: what there is before it is ours."""
        if path not in self._files:
            self._files.append(path)
        for name, module in list(sys.modules.items()):
            if name not in self._known and not name.startswith(LOADED):
                self._known[name] = dict(_functions(module))

    def harm(self) -> str:
        """
        What code of the site's has put in the place of functions and classes that were there
        before, in a sentence that names its files; C{""}: nothing.
        """
        changed = [
            (f"{name}.{key}", now)
            for name, known in self._known.items()
            if (module := sys.modules.get(name)) is not None
            for key, value in known.items()
            if (now := _value(module, key)) is not value
        ]
        if not changed:
            return ""
        whole = {name for name, _ in changed}
        # Of a class that is another one, its methods need no word
        changed = [each for each in changed if each[0].rpartition(".")[0] not in whole]
        files = {
            now.__code__.co_filename for _, now in changed if isinstance(now, types.FunctionType)
        }
        named = sorted(files & set(self._files)) or self._files
        return f"{', '.join(named)} has replaced {', '.join(name for name, _ in changed[:10])}"

    def put_back(self) -> None:
        """Undo what was changed. A process that was forked meanwhile ends here."""
        if os.getpid() != self.pid:
            os._exit(0)
        if os.environ != self._environ:
            os.environ.clear()
            os.environ.update(self._environ)
        if sys.path != self._paths:
            sys.path[:] = self._paths
        if self._folder and _folder() != self._folder:
            with suppress(OSError):  # it may be gone
                os.chdir(self._folder)


LOADED = "saltwisted.loaded."
"""Modules that belong to a loader: each is made anew."""


class Watching(Protocol):
    """Is informed of a site's files."""

    def begins(self, path: str) -> None:
        """One is executed now."""


class Told:
    """
    Tells the daemon which site file is executed, including those that grains execute.

    @param client: the daemon.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def begins(self, path: str) -> None:
        """It is executed now, or a function of it is called."""
        with suppress(TransportClosed):
            self._client.notify("begins", path=path)


watching: list[Watching] = []
"""Those of this process."""


def begins(path: str) -> None:
    """A file of the site's is executed now."""
    for each in watching:
        each.begins(path)


def calls(function: Any) -> None:
    """A function is called next: if it is the site's, the daemon hears of its file."""
    path = getattr(getattr(function, "__code__", None), "co_filename", HERE)
    if not path.startswith(HERE):
        for each in watching:
            if isinstance(each, Told):
                each.begins(path)


def _functions(module: Any) -> Iterator[tuple[str, Any]]:
    """Public functions and classes of a module, and of classes of ours the methods."""
    space = getattr(module, "__dict__", {})
    for key, value in list(space.items()):
        if key.startswith("_") or not isinstance(value, _KINDS):
            continue
        yield key, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            if not module.__name__.startswith("saltwisted."):
                continue
            for name, member in list(vars(value).items()):
                if isinstance(member, types.FunctionType):
                    yield f"{key}.{name}", member


def _value(module: Any, key: str) -> Any:
    """What is there now under a name that L{_functions} has told."""
    first, _, rest = key.partition(".")
    value = module.__dict__.get(first, _ABSENT)
    if rest:
        return vars(value).get(rest, _ABSENT) if isinstance(value, type) else _ABSENT
    return value


def _folder() -> str:
    """The working directory; C{""} when it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""
