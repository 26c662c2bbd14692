"""
Functions by their public names, C{module.function}: runners, and wheel functions.

They come in modules, and modules from several places: ours, and a site's own. A later place
replaces a module of the same name as a whole, as in Salt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from saltwisted.parts import IFunctionModule

Function = Callable[..., Awaitable[Any]]
Place = Mapping[str, IFunctionModule]
"""Name to module. It is asked at each call, so that what a place learns counts at once."""


class FunctionTable:
    """All functions of one kind."""

    def __init__(self, *places: Place) -> None:
        self._places = places[::-1]

    async def learn(self) -> None:
        """Have the places that change look at what there is now."""
        for place in self._places:
            look = getattr(place, "learn", None)
            if look is not None:
                await look()

    def get(self, name: str) -> Function | None:
        """The function of this name, or C{None}."""
        module, _, function = name.partition(".")
        for place in self._places:
            if module in place:
                return place[module].FUNCTIONS.get(function)
        return None

    def all(self) -> dict[str, Function]:
        """All of them, sorted by name."""
        modules: dict[str, IFunctionModule] = {}
        for place in reversed(self._places):
            modules.update(place)
        return {
            f"{name}.{function}": modules[name].FUNCTIONS[function]
            for name in sorted(modules)
            for function in sorted(modules[name].FUNCTIONS)
        }


def imported(package: str, names: tuple[str, ...]) -> dict[str, IFunctionModule]:
    """Modules of ours, by name."""
    found: dict[str, Any] = {name: import_module(f"{package}.{name}") for name in names}
    return found
