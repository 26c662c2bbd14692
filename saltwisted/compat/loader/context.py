"""
C{salt.loader.context}: names such as C{__salt__} that mean those of the loader that works now.

With stock, a thread that a module starts has no loader unless the module hands over its context.
Here the loader belongs to the process, so that the names hold in every thread.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from saltwisted.worker.exceptions import LoaderError


class _Current:
    """Which loader works now in this process; the methods are those of a C{ContextVar}."""

    def __init__(self) -> None:
        self._loader: Any = None

    def get(self, default: Any = None) -> Any:
        """The loader, or the default."""
        return default if self._loader is None else self._loader

    def set(self, loader: Any) -> Any:
        """Another loader; what was before it, for L{reset}."""
        before, self._loader = self._loader, loader
        return before

    def reset(self, before: Any) -> None:
        """The loader that was there before."""
        self._loader = before


loader_ctxvar = _Current()


@contextmanager
def loader_context(loader: Any) -> Iterator[None]:
    """Another loader for a while."""
    before = loader_ctxvar.set(loader)
    try:
        yield
    finally:
        loader_ctxvar.reset(before)


class NamedLoaderContext(MutableMapping[Any, Any]):
    """
    One of the loader's names, as a map that is found anew at each use.

    @param default: what it is while no loader works.
    @raises LoaderError: the loader has no such name.
    """

    def __init__(self, name: str, loader_context: LoaderContext, default: Any = None) -> None:
        self.name = name
        self.loader_context = loader_context
        self.default = default

    def with_default(self, default: Any) -> NamedLoaderContext:
        """The same name with another default."""
        return NamedLoaderContext(self.name, self.loader_context, default)

    def loader(self) -> Any:
        """The loader that works now, or C{None}."""
        return self.loader_context.loader()

    def value(self) -> Any:
        """What the name means now."""
        loader = self.loader()
        if loader is None:
            return self.default
        if self.name == loader.pack_self:
            return loader
        try:
            return loader.pack[self.name]
        except KeyError:
            raise LoaderError(f"LazyLoader does not have a packed value for: {self.name}") from None

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self.value().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return self.value()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.value()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.value()[key]

    def __bool__(self) -> bool:
        return bool(self.value())

    def __len__(self) -> int:
        return len(self.value())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedLoaderContext):
            return self.name == other.name
        return bool(self.value() == other)

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value(), name)


class LoaderContext:
    """Makes the names."""

    def __init__(self, loader_ctxvar: _Current = loader_ctxvar) -> None:
        self.loader_ctxvar = loader_ctxvar

    def __getitem__(self, item: str) -> Any:
        return self.loader()[item]

    def loader(self) -> Any:
        """The loader that works now, or C{None}."""
        return self.loader_ctxvar.get()

    def named_context(self, name: str, default: Any = None, ctx_class: Any = None) -> Any:
        """One of the loader's names."""
        return (ctx_class or NamedLoaderContext)(name, self, default)
