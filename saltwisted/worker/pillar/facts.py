"""
What a template sees while its pillar is compiled: grains, options and functions that record their
use.

Afterwards they say on which grains the pillar depends, and whether it used anything whose answer
may differ next time. If Jinja's errors name a type, these have the names of stock's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saltwisted.domain.render.yamldump import register_map
from saltwisted.worker.process import asbefore

REPEATABLE = frozenset(
    {
        "config.get",
        "config.merge",
        "config.option",
        "defaults.deepcopy",
        "defaults.merge",
        "defaults.update",
        "grains.fetch",
        "grains.filter_by",
        "grains.get",
        "grains.has_value",
        "grains.item",
        "grains.items",
        "hashutil.base64_b64decode",
        "hashutil.base64_b64encode",
        "hashutil.digest",
        "hashutil.hmac_compute",
        "hashutil.hmac_signature",
        "hashutil.md5_digest",
        "hashutil.sha256_digest",
        "hashutil.sha512_digest",
        "match.compound",
        "match.filter_by",
        "match.glob",
        "match.grain",
        "match.grain_pcre",
        "match.ifelse",
        "match.ipcidr",
        "match.list",
        "match.pcre",
        "pillar.fetch",
        "pillar.filter_by",
        "pillar.get",
        "pillar.item",
        "pillar.items",
        "slsutil.deserialize",
        "slsutil.merge",
        "slsutil.merge_all",
        "slsutil.serialize",
        "slsutil.update",
        "test.echo",
        "test.false",
        "test.true",
    }
)
"""Functions that answer by their arguments, grains, pillar and options alone."""


class UsedGrains(dict[str, Any]):
    """
    Grains that record which of them were read.

    @ivar _used: names; C{None} once all of them were. Without the underscore, a template could
        reach this name instead of a grain of that name.
    """

    _used: set[str] | None

    def __init__(self, grains: Mapping[str, Any]) -> None:
        super().__init__(grains)
        self._used = set()

    def _one(self, key: Any) -> None:
        if self._used is not None:
            self._used.add(key)

    def _all(self) -> None:
        self._used = None

    def __getitem__(self, key: str) -> Any:
        self._one(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As C{dict.get}."""
        self._one(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._one(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._all()
        return super().__iter__()

    def __len__(self) -> int:
        self._all()
        return super().__len__()

    def __bool__(self) -> bool:
        return super().__len__() > 0

    def __eq__(self, other: object) -> bool:
        self._all()
        return super().__eq__(other)

    __hash__ = None

    def keys(self) -> Any:
        """As C{dict.keys}."""
        self._all()
        return super().keys()

    def values(self) -> Any:
        """As C{dict.values}."""
        self._all()
        return super().values()

    def items(self) -> Any:
        """As C{dict.items}."""
        self._all()
        return super().items()

    def copy(self) -> dict[str, Any]:
        """As C{dict.copy}; from then on all count as used."""
        self._all()
        return dict(super().items())

    def pop(self, key: str, *default: Any) -> Any:
        """As C{dict.pop}."""
        self._one(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As C{dict.setdefault}."""
        self._one(key)
        return super().setdefault(key, default)

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __copy__(self) -> dict[str, Any]:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy

        return {key: deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)


def looked_at(grains: Mapping[str, Any]) -> list[str] | None:
    """The names of the grains that were asked for, or C{None} for all."""
    if not isinstance(grains, UsedGrains) or grains._used is None:
        return None
    return sorted(map(str, grains._used))


# Templates see the type's name in Jinja's errors, where stock has a plain dictionary.
UsedGrains.__module__, UsedGrains.__qualname__, UsedGrains.__name__ = "builtins", "dict", "dict"
register_map(UsedGrains)


class OptsDict(dict[str, Any]):
    """The options as templates see them, under the name in Jinja's errors in stock."""


OptsDict.__module__ = "salt.utils.optsdict"
register_map(OptsDict)


class NotedFunctions(Mapping[str, Any]):
    """
    Salt's functions for templates, created when they are first needed.

    @param load: creates the table.
    @param note: called with the names of functions whose answer may differ next time.
    """

    def __init__(self, load: Callable[[], Any], note: Callable[[str], None]) -> None:
        self._load = load
        self._tell = note
        self._loaded: Any = None

    def _functions(self) -> Any:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _note(self, name: object) -> None:
        if name not in REPEATABLE:
            self._tell(str(name))

    def __getitem__(self, name: str) -> Any:
        try:
            found = self._functions()[name]
        finally:
            self._note(name)  # also one that is not there: it may come
        asbefore.calls(found)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._functions()

    def get(self, name: str, default: Any = None) -> Any:
        """As C{dict.get}."""
        found = self._functions().get(name)
        self._note(name)
        if found is None:
            return default
        asbefore.calls(found)
        return found

    def __iter__(self) -> Iterator[str]:
        self._note("sys")
        return iter(self._functions())

    def __len__(self) -> int:
        return len(self._functions())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _NotedModule(self, getattr(self._functions(), name), name)


class _NotedModule:
    """C{salt.grains} of C{salt.grains.get(...)}."""

    def __init__(self, functions: NotedFunctions, module: Any, name: str) -> None:
        self._functions = functions
        self._module = module
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        self._functions._note(f"{self._name}.{name}")
        asbefore.calls(found)
        return found


_NotedModule.__module__, _NotedModule.__qualname__ = "salt.loader.lazy", "LoadedMod"
_NotedModule.__name__ = "LoadedMod"
