"""Ordered maps for custom modules, with the names of C{salt.utils.odict}."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

__all__ = ["DefaultOrderedDict", "HashableOrderedDict", "OrderedDict"]


class DefaultOrderedDict(OrderedDict[Any, Any]):
    """An ordered map that makes what it lacks, as C{defaultdict} does."""

    def __init__(
        self, default_factory: Callable[[], Any] | None = None, *args: Any, **kwargs: Any
    ) -> None:
        if default_factory is not None and not callable(default_factory):
            raise TypeError("first argument must be callable")
        super().__init__(*args, **kwargs)
        self.default_factory = default_factory

    def __missing__(self, key: Any) -> Any:
        if self.default_factory is None:
            raise KeyError(key)
        value = self[key] = self.default_factory()
        return value

    def copy(self) -> DefaultOrderedDict:
        """Another map with the same values."""
        return type(self)(self.default_factory, self)

    def __copy__(self) -> DefaultOrderedDict:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> DefaultOrderedDict:
        import copy

        return type(self)(self.default_factory, copy.deepcopy(list(self.items()), memo))

    def __reduce__(self) -> Any:
        args = (self.default_factory,) if self.default_factory else ()
        return type(self), args, None, None, iter(self.items())

    def __repr__(self) -> str:
        return f"DefaultOrderedDict({self.default_factory}, {super().__repr__()})"


class HashableOrderedDict(OrderedDict[Any, Any]):
    """An ordered map that can be a key; each is equal to itself alone."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)
