"""C{salt.utils.decorators}: what stands above functions of modules."""

from __future__ import annotations

import functools
import logging
import shlex
import subprocess
import time
from typing import Any, ClassVar

from saltwisted.utils.versions import version_cmp
from saltwisted.worker.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

__all__ = [
    "Depends",
    "allow_one_of",
    "depends",
    "ensure_unicode_args",
    "ignores_kwargs",
    "memoize",
    "require_one_of",
    "timing",
]


class Depends:
    """
    Offer a function only where what it needs is there: names of its module that are true.

    Where one is missing, the loader takes the function away, or puts another in its place.

    @param dependencies: names, or C{True}; with C{retcode} or C{nonzero_retcode} commands that
        are run, without a shell.
    @param kwargs: C{fallback_function}; C{version}: the least C{__version__} of what a name
        means; C{retcode}: with which the command has to end; C{nonzero_retcode}: whether it has
        to fail.
    """

    found: ClassVar[list[tuple[Depends, Any]]] = []
    """Each decorator of this process with its function."""

    def __init__(self, *dependencies: Any, **kwargs: Any) -> None:
        self.dependencies = dependencies
        self.params = kwargs

    def __call__(self, function: Any) -> Any:
        self.found.append((self, function))
        return function

    @classmethod
    def enforce_dependencies(cls, functions: Any, kind: str, tgt_mod: str) -> None:
        """Take away what a module that was just loaded may not offer (the loader calls it)."""
        for each, function in cls.found:
            module = function.__globals__.get("__name__", "").rsplit(".", 2)
            if module[-2:] != [kind, tgt_mod] or each._met(function.__globals__):
                continue
            name = function.__name__
            name = (function.__globals__.get("__func_alias__") or {}).get(name, name)
            key = f"{tgt_mod}.{name}"
            if key not in functions:
                continue
            fallback = each.params.get("fallback_function")
            if fallback is not None:
                functions[key] = fallback
            else:
                del functions[key]

    def _met(self, space: dict[str, Any]) -> bool:
        return all(self._one_met(space, each) for each in self.dependencies)

    def _one_met(self, space: dict[str, Any], dependency: Any) -> bool:
        if "retcode" in self.params:
            return bool(_ended(dependency) == self.params["retcode"])
        if "nonzero_retcode" in self.params:
            return (_ended(dependency) != 0) is bool(self.params["nonzero_retcode"])
        if dependency is True:
            return True
        found = space.get(dependency) if isinstance(dependency, str) else None
        if not found or "version" not in self.params:
            return bool(found)
        version = getattr(found, "__version__", None)
        return (version_cmp(version, self.params["version"]) or 0) >= 0


depends = Depends


def _ended(command: str) -> int:
    """How a command ends; -1: it could not be started."""
    try:
        return subprocess.run(
            shlex.split(command), capture_output=True, stdin=subprocess.DEVNULL, check=False
        ).returncode
    except OSError:
        return -1


def timing(function: Any) -> Any:
    """Log how long each call took."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        result = function(*args, **kwargs)
        log.debug(
            "Function %s took %.20f seconds to execute", function.__name__, time.monotonic() - start
        )
        return result

    return called


def memoize(func: Any) -> Any:
    """Call once for each set of arguments."""
    kept: dict[str, Any] = {}

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        key = "\0".join(str(each) for each in (*args, *sorted(kwargs.items())))
        if key not in kept:
            kept[key] = func(*args, **kwargs)
        return kept[key]

    return called


def ignores_kwargs(*kwarg_names: str) -> Any:
    """Take arguments of these names, and leave them out."""

    def above(function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{k: v for k, v in kwargs.items() if k not in kwarg_names})

        return called

    return above


def require_one_of(*kwarg_names: str) -> Any:
    """Refuse a call with none, or with several, of some arguments."""
    return _one_of(kwarg_names, needed=True)


def allow_one_of(*kwarg_names: str) -> Any:
    """Refuse a call with several of some arguments."""
    return _one_of(kwarg_names, needed=False)


def _one_of(names: tuple[str, ...], *, needed: bool) -> Any:
    def above(function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            given = [name for name in names if kwargs.get(name)]
            if len(given) > 1:
                raise SaltInvocationError(
                    f"Only one of the following is allowed: {', '.join(names)}"
                )
            if needed and not given:
                raise SaltInvocationError(
                    f"One of the following must be provided: {', '.join(names)}"
                )
            return function(*args, **kwargs)

        return called

    return above


def ensure_unicode_args(function: Any) -> Any:
    """The function itself: all texts are text nowadays."""
    return function
