"""
Policies of RabbitMQ.
"""

from __future__ import annotations

import json
from typing import Any

from saltwisted.states import _rabbitmq

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _rabbitmq.loadable()


def _read(definition: Any) -> Any:
    return json.loads(definition) if isinstance(definition, str) and definition else definition


def present(
    name: str,
    pattern: str,
    definition: Any,
    priority: Any = 0,
    vhost: str = "/",
    runas: str | None = None,
    apply_to: str | None = None,
) -> dict[str, Any]:
    """
    There is a policy, and it is as these say.

    name
        The policy.
    pattern
        The names that it is for.
    definition
        What it says: a map, or JSON.
    priority
        Which of several holds.
    vhost
        The virtual host.
    runas
        The system user who runs C{rabbitmqctl}.
    apply_to
        C{queues}, C{exchanges} or C{all}.
    """

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f"Policy {vhost} {name} is already present")
        found = __salt__["rabbitmq.list_policies"](vhost=vhost, runas=runas)
        there = found.get(vhost, {}).get(name)
        if there is None:
            word, ret["changes"] = "created", {"old": {}, "new": name}
        else:
            different = {
                "Pattern": there["pattern"] != pattern,
                "Definition": _read(there["definition"]) != _read(definition),
                "Applyto": apply_to and there["apply_to"] != apply_to,
                "Priority": int(there["priority"]) != int(priority),
            }
            updates = [key for key, is_other in different.items() if is_other]
            if not updates:
                return ret
            word, ret["changes"] = "updated", {"old": there, "new": updates}
        if __opts__["test"]:
            comment = f"Policy {vhost} {name} is set to be {word}"
            return {**ret, "result": None, "comment": comment}
        said = __salt__["rabbitmq.set_policy"](
            vhost, name, pattern, definition, priority=priority, runas=runas, apply_to=apply_to
        )
        return {**ret, "comment": said["Set"]}

    return _rabbitmq.tried(name, work)


def absent(name: str, vhost: str = "/", runas: str | None = None) -> dict[str, Any]:
    """
    There is no such policy.

    name
        The policy.
    vhost
        The virtual host.
    runas
        The system user who runs C{rabbitmqctl}.
    """

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f"Policy '{vhost} {name}' is not present.")
        if not __salt__["rabbitmq.policy_exists"](vhost, name, runas=runas):
            return ret
        ret["changes"] = {"new": "", "old": name}
        if __opts__["test"]:
            comment = f"Policy '{vhost} {name}' will be removed."
            return {**ret, "result": None, "comment": comment}
        __salt__["rabbitmq.delete_policy"](vhost, name, runas=runas)
        return {**ret, "comment": "Deleted"}

    return _rabbitmq.tried(name, work)
