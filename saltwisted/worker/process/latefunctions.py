"""
A dictionary of functions that is filled as its keys are requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class LateFunctions(dict[str, Any]):
    """
    C{"module.function"} to function. Reading all of it loads all of it.

    The subclass loads them: C{_find} and L{load_all} insert functions by C{dict.__setitem__}.
    """

    def _find(self, module: str, key: str | None) -> bool:
        """Load what may provide a module until the key is there; whether it is."""
        raise NotImplementedError

    def load_all(self) -> None:
        """Load everything."""
        raise NotImplementedError

    def __missing__(self, key: str) -> Any:
        if not isinstance(key, str):
            raise KeyError("The key must be a string.")
        module, dot, _ = key.partition(".")
        if not dot:
            raise KeyError(f"The key '{key}' should contain a '.'")
        if self._find(module, key):
            return dict.__getitem__(self, key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        if not isinstance(key, str):
            return False
        module, dot, _ = key.partition(".")
        return bool(dot) and self._find(module, key)

    def get(self, key: str, default: Any = None) -> Any:
        """As C{dict.get}, loading what is needed."""
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        self.load_all()
        return super().__iter__()

    def __len__(self) -> int:
        self.load_all()
        return super().__len__()

    def __bool__(self) -> bool:
        return True

    def keys(self) -> Any:
        """All names; loads every module."""
        self.load_all()
        return super().keys()

    def values(self) -> Any:
        """All functions; loads every module."""
        self.load_all()
        return super().values()

    def items(self) -> Any:
        """All names and functions; loads every module."""
        self.load_all()
        return super().items()


class LoadedFunctions:
    """The functions loaded so far, for stock's C{depends} decorators, which look and remove."""

    def __init__(self, loader: LateFunctions) -> None:
        self._loader = loader

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self._loader, key)

    def __getitem__(self, key: str) -> Any:
        if key in self:
            return dict.__getitem__(self._loader, key)
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        dict.__setitem__(self._loader, key, value)

    def __delitem__(self, key: str) -> None:
        dict.__delitem__(self._loader, key)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._loader)

    def get(self, key: str, default: Any = None) -> Any:
        """As C{dict.get}."""
        return dict.get(self._loader, key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """As C{dict.pop}."""
        return dict.pop(self._loader, key, *default)

    def items(self) -> Any:
        """As C{dict.items}."""
        return dict.items(self._loader)


class LoadedModule:
    """C{__salt__.test}: the functions of one module as attributes."""

    __slots__ = ("_loader", "_name")

    def __init__(self, loader: LateFunctions, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, name: str) -> Any:
        try:
            return self._loader[f"{self._name}.{name}"]
        except KeyError:
            raise AttributeError(
                f"No attribute by the name of {name} was found on {self._name}"
            ) from None

    def __repr__(self) -> str:
        return f"<LoadedModule {self._name}>"
