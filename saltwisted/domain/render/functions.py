"""
The C{salt} variable of a template: C{salt['cmd.run']()} and C{salt.cmd.run()}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class AliasedLoader:
    """
    Salt's functions as a template sees them.

    The class has stock's name because Jinja quotes it when a function is missing.
    """

    __slots__ = ("_functions",)

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions

    def __getitem__(self, name: str) -> Any:
        return self._functions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __getattr__(self, name: str) -> Any:
        functions = self._functions
        if type(functions) is not dict or hasattr(dict, name):
            return getattr(functions, name)
        if any(known.startswith(name + ".") for known in functions):
            return LoadedMod(functions, name)
        raise AttributeError(name)


AliasedLoader.__module__ = "salt.utils.templates"


class LoadedMod:
    """The functions of one module of a plain table, as attributes."""

    __slots__ = ("_functions", "_name")

    def __init__(self, functions: Mapping[str, Any], name: str) -> None:
        self._functions = functions
        self._name = name

    def __getattr__(self, name: str) -> Any:
        try:
            return self._functions[f"{self._name}.{name}"]
        except KeyError:
            raise AttributeError(name) from None


LoadedMod.__module__ = "salt.loader.lazy"
