"""
A module of runners, or of the wheel, that says what it is told to say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from saltwisted.parts import IFunctionModule


class FakeFunctions:
    """
    Functions that take any arguments, and answer with one value each.

    @ivar called: name, positional and named arguments of each call so far.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        """
        @param answers: function to its value, or to an exception that it raises.
        """
        self._answers = dict(answers)
        self.called: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    @property
    def FUNCTIONS(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Function by name."""
        return {name: self._function(name) for name in self._answers}

    def _function(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def function(run: Any, *args: Any, **kwargs: Any) -> Any:
            """Answer as a test has said."""
            self.called.append((name, args, kwargs))
            answer = self._answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return function


_FakeFunctions: type[IFunctionModule] = FakeFunctions  # mypy compares them
