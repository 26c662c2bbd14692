"""
Plugins of RabbitMQ.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _rabbitmq

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _rabbitmq.loadable()


def _switched(name: str, runas: str | None, word: str) -> dict[str, Any]:
    """C{enable} or C{disable}."""
    is_on = word == "enable"

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f"Plugin '{name}' is already {word}d.")
        if __salt__["rabbitmq.plugin_is_enabled"](name, runas=runas) == is_on:
            return ret
        ret["changes"] = {"old": "", "new": name} if is_on else {"old": name, "new": ""}
        if __opts__["test"]:
            return {**ret, "result": None, "comment": f"Plugin '{name}' is set to be {word}d."}
        if is_on:
            __salt__["rabbitmq.enable_plugin"](name, runas=runas)
        else:
            __salt__["rabbitmq.disable_plugin"](name, runas=runas)
        return {**ret, "comment": f"Plugin '{name}' was {word}d."}

    return _rabbitmq.tried(name, work)


def enabled(name: str, runas: str | None = None) -> dict[str, Any]:
    """
    A plugin is enabled.

    name
        The plugin.
    runas
        The system user who runs C{rabbitmq-plugins}.
    """
    return _switched(name, runas, "enable")


def disabled(name: str, runas: str | None = None) -> dict[str, Any]:
    """
    A plugin is not enabled.

    name
        The plugin.
    runas
        The system user who runs C{rabbitmq-plugins}.
    """
    return _switched(name, runas, "disable")
