"""
What of the execution modules a person or a site may call by name: C{whitelist_modules}.

Modules call each other freely, and so do states and this program itself; otherwise nothing would
work under a short list. What somebody else names is looked up here: a job's function, and those in
templates, slots, conditions, C{module.run}, the mine and wherever else a function is an argument.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

log = logging.getLogger(__name__)


class _Loader(Protocol):
    """The loader of the execution modules, as far as it is needed here."""

    def __getitem__(self, key: str) -> Any: ...

    def __contains__(self, key: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def find_module(self, name: str) -> Any:
        """The functions of a module as attributes; C{None}: there is none."""

    def loaded_names(self) -> list[str]:
        """The names of those that are loaded already."""

    def missing_fun_string(self, function_name: str) -> str:
        """Why a function is not there."""


def called(functions: Any) -> Any:
    """Of these functions, which may be C{__salt__}, those that somebody may call by name."""
    return getattr(functions, "called", functions)


class Called(Mapping[str, Any]):
    """
    The functions of some execution modules, by name.

    @param loader: has those of all.
    @param names: of the modules.
    """

    __slots__ = ("_loader", "_names")

    def __init__(self, loader: _Loader, names: frozenset[str]) -> None:
        self._loader = loader
        self._names = names

    @property
    def called(self) -> Called:
        """There is no way back to the others."""
        return self

    def _has(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        module = key.partition(".")[0]
        if module in self._names:
            return True
        log.error(
            "Failed to load function %s because its module (%s) is not in the whitelist: %s",
            key,
            module,
            sorted(self._names),
        )
        return False

    def __getitem__(self, key: str) -> Any:
        if not self._has(key):
            raise KeyError(key)
        return self._loader[key]

    def __contains__(self, key: object) -> bool:
        return self._has(key) and key in self._loader

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._loader if key.partition(".")[0] in self._names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._names:
            found = self._loader.find_module(name)
            if found is not None:
                return found
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"<Called {sorted(self._names)}>"

    def __copy__(self) -> Called:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Called:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a loader belongs to its process")

    def loaded_names(self) -> list[str]:
        """The names of those that are loaded already."""
        known = self._loader.loaded_names()
        return [key for key in known if key.partition(".")[0] in self._names]

    def missing_fun_string(self, function_name: str) -> str:
        """Why a function is not there, in stock's words."""
        if function_name.partition(".")[0] in self._names:
            return self._loader.missing_fun_string(function_name)
        return f"'{function_name}' is not available."
