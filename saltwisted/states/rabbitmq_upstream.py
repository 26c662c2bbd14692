"""
Upstreams of RabbitMQ's federation.
"""

from __future__ import annotations

import json
from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.states import _rabbitmq
from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any
__opts__: Any

_WORDS = (
    *("uri", "prefetch_count", "reconnect_delay", "ack_mode", "trust_user_id", "exchange"),
    *("max_hops", "expires", "message_ttl", "ha_policy", "queue"),
)


def __virtual__() -> Any:
    if "rabbitmq.set_upstream" in __salt__:
        return True
    return False, "rabbitmq module could not be loaded"


def present(
    name: str,
    uri: str,
    prefetch_count: Any = None,
    reconnect_delay: Any = None,
    ack_mode: Any = None,
    trust_user_id: Any = None,
    exchange: Any = None,
    max_hops: Any = None,
    expires: Any = None,
    message_ttl: Any = None,
    ha_policy: Any = None,
    queue: Any = None,
    runas: str | None = None,
) -> dict[str, Any]:
    """
    There is an upstream, and it is as these say.

    name
        The upstream.
    uri
        Where it is; a list of several as JSON.
    prefetch_count, reconnect_delay, ack_mode, trust_user_id, exchange, max_hops, expires
        As in RabbitMQ's documentation of federation, where they have dashes.
    message_ttl, ha_policy, queue
        As there.
    runas
        The system user who runs C{rabbitmqctl}.
    """
    given = picked(locals(), _WORDS)
    wanted = {key.replace("_", "-"): value for key, value in given.items() if value}

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f'Upstream "{name}" already present as specified.')
        there = __salt__["rabbitmq.list_upstreams"](runas=runas)
        now = json.loads(there[name]) if name in there else None
        if now == wanted:
            return ret
        action, changes = "create", {"old": None, "new": wanted}
        if now is not None:
            keys = [key for key in {**now, **wanted} if now.get(key) != wanted.get(key)]
            old = {key: now[key] for key in keys if key in now}
            new = {key: wanted[key] for key in keys if key in wanted}
            action = "update"
            changes = {word: part for word, part in (("old", old), ("new", new)) if part}
        if __opts__["test"]:
            return {
                **ret,
                "result": None,
                "comment": f'Upstream "{name}" would have been {action}d.',
            }
        try:
            __salt__["rabbitmq.set_upstream"](name, **given, runas=runas)
        except CommandExecutionError as error:
            comment = f"Error trying to {action} upstream: {error}"
            return {**ret, "result": False, "comment": comment}
        return {**ret, "comment": f'Upstream "{name}" {action}d.', "changes": changes}

    return _rabbitmq.tried(name, work)


def absent(name: str, runas: str | None = None) -> dict[str, Any]:
    """
    There is no such upstream.

    name
        The upstream.
    runas
        The system user who runs C{rabbitmqctl}.
    """

    def work() -> _rabbitmq.Ret:
        ret = _rabbitmq.new(name, f'The upstream "{name}" is already absent.')
        if not __salt__["rabbitmq.upstream_exists"](name, runas=runas):
            return ret
        if __opts__["test"]:
            return {**ret, "result": None, "comment": f'Upstream "{name}" would have been deleted.'}
        __salt__["rabbitmq.delete_upstream"](name, runas=runas)
        changes = {"old": name, "new": None}
        return {**ret, "comment": f'Upstream "{name}" has been deleted.', "changes": changes}

    return _rabbitmq.tried(name, work)
