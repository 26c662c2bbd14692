"""
Virtual hosts of RabbitMQ.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _rabbitmq

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _rabbitmq.loadable()


def present(name: str) -> dict[str, Any]:
    """
    There is a virtual host.

    name
        Its name.
    """

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f"Virtual Host '{name}' already exists.")
        if __salt__["rabbitmq.vhost_exists"](name):
            return ret
        ret["changes"] = {"old": "", "new": name}
        if __opts__["test"]:
            return {**ret, "result": None, "comment": f"Virtual Host '{name}' will be created."}
        return {**ret, "comment": __salt__["rabbitmq.add_vhost"](name)["Added"]}

    return _rabbitmq.tried(name, work)


def absent(name: str) -> dict[str, Any]:
    """
    There is no such virtual host.

    name
        Its name.
    """

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f"Virtual Host '{name}' is not present.")
        if not __salt__["rabbitmq.vhost_exists"](name):
            return ret
        ret["changes"] = {"new": "", "old": name}
        if __opts__["test"]:
            return {**ret, "result": None, "comment": f"Virtual Host '{name}' will be removed."}
        return {**ret, "comment": __salt__["rabbitmq.delete_vhost"](name)["Deleted"]}

    return _rabbitmq.tried(name, work)
