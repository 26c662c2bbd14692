"""
RabbitMQ: nodes, clusters of them, and their plugins.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules import _rabbitmq

__salt__: Any


def _ctl(runas: str | None, *words: str, values: Any = ()) -> str:
    return _rabbitmq.checked(_rabbitmq.run(__salt__, "rabbitmqctl", words, values, runas))


def _plugins(runas: str | None, *words: str, values: Any = ()) -> str:
    return _rabbitmq.checked(_rabbitmq.run(__salt__, "rabbitmq-plugins", words, values, runas))


def status(runas: str | None = None) -> str:
    """
    The state of the node.

    CLI Example::

        salt '*' rabbitmq.status
    """
    return _ctl(runas, "status")


def cluster_status(runas: str | None = None) -> str:
    """
    The state of the cluster.

    CLI Example::

        salt '*' rabbitmq.cluster_status
    """
    return _ctl(runas, "cluster_status")


def join_cluster(
    host: str, user: str = "rabbit", ram_node: Any = None, runas: str | None = None
) -> dict[str, str]:
    """
    Join the cluster of another node. The node serves again, whatever came of it.

    CLI Example::

        salt '*' rabbitmq.join_cluster rabbit.example.com rabbit
    """
    stop_app(runas)
    words = ["join_cluster", *(["--ram"] if ram_node else [])]
    try:
        said = _ctl(runas, *words, values=[f"{user}@{host}"])
    finally:
        start_app(runas)
    return {"Join": said}


def stop_app(runas: str | None = None) -> str:
    """
    Stop the server; its Erlang stays.

    CLI Example::

        salt '*' rabbitmq.stop_app
    """
    return _ctl(runas, "stop_app")


def start_app(runas: str | None = None) -> str:
    """
    Start the server.

    CLI Example::

        salt '*' rabbitmq.start_app
    """
    return _ctl(runas, "start_app")


def reset(runas: str | None = None) -> str:
    """
    Make the node as if it was new.

    CLI Example::

        salt '*' rabbitmq.reset
    """
    return _ctl(runas, "reset")


def force_reset(runas: str | None = None) -> str:
    """
    The same, also when its cluster does not know of it.

    CLI Example::

        salt '*' rabbitmq.force_reset
    """
    return _ctl(runas, "force_reset")


def list_available_plugins(runas: str | None = None) -> list[str]:
    """
    All plugins.

    CLI Example::

        salt '*' rabbitmq.list_available_plugins
    """
    return _rabbitmq.lines(_plugins(runas, "list", "-m"))


def list_enabled_plugins(runas: str | None = None) -> list[str]:
    """
    Those that are enabled.

    CLI Example::

        salt '*' rabbitmq.list_enabled_plugins
    """
    return _rabbitmq.lines(_plugins(runas, "list", "-m", "-e"))


def plugin_is_enabled(name: str, runas: str | None = None) -> bool:
    """
    Whether a plugin is enabled.

    CLI Example::

        salt '*' rabbitmq.plugin_is_enabled rabbitmq_plugin_name
    """
    return name in list_enabled_plugins(runas)


def enable_plugin(name: str, runas: str | None = None) -> dict[str, str]:
    """
    Enable a plugin.

    CLI Example::

        salt '*' rabbitmq.enable_plugin foo
    """
    return {"Enabled": _plugins(runas, "enable", values=[name])}


def disable_plugin(name: str, runas: str | None = None) -> dict[str, str]:
    """
    Disable a plugin.

    CLI Example::

        salt '*' rabbitmq.disable_plugin foo
    """
    return {"Disabled": _plugins(runas, "disable", values=[name])}
