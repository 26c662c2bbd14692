"""Maps, lists and sets that cannot change, with the names of C{salt.utils.immutabletypes}."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any


class _Held:
    """What the three have in common: the value that they hold."""

    def __init__(self, obj: Any) -> None:
        self._held = obj

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._held!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _copy(self._held, memo)

    def copy(self) -> Any:
        """An ordinary value of its kind, with copies of all in it."""
        return _copy(self._held)


class ImmutableDict(_Held, Mapping[Any, Any]):
    """A map that cannot change, nor what is in it."""

    def __getitem__(self, key: Any) -> Any:
        return freeze(self._held[key])


class ImmutableList(_Held, Sequence[Any]):
    """A list that cannot change, nor what is in it."""

    def __add__(self, other: Any) -> list[Any]:
        return [*self._held, *other]

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self._held]

    def __getitem__(self, key: Any) -> Any:
        return freeze(self._held[key])


class ImmutableSet(_Held, Set[Any]):
    """A set that cannot change."""

    def __init__(self, obj: Iterable[Any]) -> None:
        super().__init__(obj if isinstance(obj, Set) else set(obj))

    def __contains__(self, key: object) -> bool:
        return key in self._held


def freeze(obj: Any) -> Any:
    """The same value in a form that cannot change; a text or a number is itself."""
    if isinstance(obj, dict):
        return ImmutableDict(obj)
    if isinstance(obj, list):
        return ImmutableList(obj)
    if isinstance(obj, set):
        return ImmutableSet(obj)
    return obj


def _copy(value: Any, memo: dict[int, Any] | None = None) -> Any:
    import copy

    return copy.deepcopy(value, memo)
