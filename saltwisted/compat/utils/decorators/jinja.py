"""
C{salt.utils.decorators.jinja}: filters, tests and globals that a module adds to templates.

@ivar jinja_filters: names to functions; likewise C{jinja_tests} and C{jinja_globals}.
"""

from __future__ import annotations

from typing import Any

jinja_filters: dict[str, Any] = {}
jinja_tests: dict[str, Any] = {}
jinja_globals: dict[str, Any] = {}


def _taking(table: dict[str, Any]) -> Any:
    def named(name: str | None = None) -> Any:
        def above(function: Any) -> Any:
            table[name or function.__name__] = function
            return function

        return above

    return named


jinja_filter = JinjaFilter = _taking(jinja_filters)
jinja_test = JinjaTest = _taking(jinja_tests)
jinja_global = JinjaGlobal = _taking(jinja_globals)
