"""
C{__opts__}, which has the same shape in all of saltwisted: Salt's.

C{config.as_opts()} gives the values; this module adds what a process has in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Opts(dict[str, Any]):
    """
    The only Salt-shaped C{__opts__}: a dictionary whose C{grains} and C{pillar} are created at
    first use, because most jobs need neither.

    @ivar static_grains: the C{grains} of the configuration, whose place all grains have taken.
    @ivar static_pillar: likewise its C{pillar}.
    """

    _late: dict[str, Callable[[], Any]]
    static_grains: Any
    static_pillar: Any

    def __init__(self, values: Mapping[str, Any], late: dict[str, Callable[[], Any]]) -> None:
        super().__init__(values)
        if isinstance(values, Opts):
            self.static_grains = values.static_grains
            self.static_pillar = values.static_pillar
        else:
            self.static_grains = super().get("grains")
            self.static_pillar = super().get("pillar")
        self._late = late
        for key in late:
            super().pop(key, None)

    def _settle(self) -> None:
        for key in list(self._late):
            self.__missing__(key)

    def __missing__(self, key: str) -> Any:
        make = self._late.pop(key, None)
        if make is None:
            raise KeyError(key)
        value = make()
        dict.__setitem__(self, key, value)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._late.pop(key, None)
        super().__setitem__(key, value)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._late

    def get(self, key: str, default: Any = None) -> Any:
        """As C{dict.get}."""
        try:
            return self[key]
        except KeyError:
            return default

    # dict(opts) and {**opts} take CPython's short cut past keys() unless __iter__ is ours.
    def __iter__(self) -> Iterator[str]:
        self._settle()
        return super().__iter__()

    def __len__(self) -> int:
        return super().__len__() + len(self._late)

    def keys(self) -> Any:
        """As C{dict.keys}."""
        self._settle()
        return super().keys()

    def values(self) -> Any:
        """As C{dict.values}."""
        self._settle()
        return super().values()

    def items(self) -> Any:
        """As C{dict.items}."""
        self._settle()
        return super().items()

    def pop(self, key: str, *default: Any) -> Any:
        """As C{dict.pop}."""
        if key in self._late:
            self.__missing__(key)
        return super().pop(key, *default)

    def copy(self) -> dict[str, Any]:
        """A shallow copy as a plain dictionary."""
        self._settle()
        return dict(super().items())

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        from copy import deepcopy

        return {key: deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> Any:
        return (dict, (self.copy(),))
