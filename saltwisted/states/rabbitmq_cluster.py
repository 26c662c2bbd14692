"""
Clusters of RabbitMQ.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _rabbitmq

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _rabbitmq.loadable()


def joined(
    name: str, host: str, user: str = "rabbit", ram_node: Any = None, runas: str | None = "root"
) -> dict[str, Any]:
    """
    The node is in a cluster with another one.

    name
        What the state is called.
    host, user
        The other node is C{USER@HOST}.
    ram_node
        The node keeps what it knows of the cluster in memory only.
    runas
        The system user who runs C{rabbitmqctl}.
    """
    node = f"{user}@{host}"

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, "Already in cluster")
        if node in __salt__["rabbitmq.cluster_status"]():
            return ret
        ret["changes"] = {"old": "", "new": node}
        if __opts__["test"]:
            return {**ret, "result": None, "comment": f"Node is set to join cluster {node}"}
        said = __salt__["rabbitmq.join_cluster"](host, user, ram_node, runas=runas)
        return {**ret, "comment": said["Join"]}

    return _rabbitmq.tried(name, work)


def join(
    name: str, host: str, user: str = "rabbit", ram_node: Any = None, runas: str | None = "root"
) -> dict[str, Any]:
    """
    An older name of C{rabbitmq_cluster.joined}.
    """
    return joined(name, host, user, ram_node, runas)
