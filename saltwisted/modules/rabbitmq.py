"""
RabbitMQ: users, virtual hosts, policies, plugins, clusters.

Each call runs C{rabbitmqctl} or C{rabbitmq-plugins} on the machine of the server. With C{runas},
as this system user.
"""

from __future__ import annotations

import json
import logging
import secrets
import string
from typing import Any

from saltwisted.modules import _rabbitmq
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: Any
__parts__ = ("_rabbitmq_nodes",)

_LISTING = ("-q", "--no-table-headers")


def __virtual__() -> Any:
    if systools.which("rabbitmqctl"):
        return True
    return False, "Module rabbitmq: module only works when RabbitMQ is installed"


def _ctl(runas: str | None, *words: Any, values: Any = (), secret: str | None = None) -> str:
    """
    @raises CommandExecutionError: the server refuses.
    """
    answer = _rabbitmq.run(__salt__, "rabbitmqctl", words, values, runas, secret)
    return _rabbitmq.checked(answer)


def list_users(runas: str | None = None) -> dict[str, list[str]]:
    """
    All users, with their tags.

    CLI Example::

        salt '*' rabbitmq.list_users
    """
    rows = _rabbitmq.table(_ctl(runas, "list_users", *_LISTING))
    return {
        name: (rest[0][1:-1] if rest else "").replace(", ", ",").replace(" ", ",").split(",")
        for name, rest in rows.items()
    }


def list_vhosts(runas: str | None = None) -> list[str]:
    """
    All virtual hosts.

    CLI Example::

        salt '*' rabbitmq.list_vhosts
    """
    return _rabbitmq.lines(_ctl(runas, "list_vhosts", *_LISTING))


def list_upstreams(runas: str | None = None) -> dict[str, str]:
    """
    The upstreams of federation, with their definitions.

    CLI Example::

        salt '*' rabbitmq.list_upstreams
    """
    rows = _rabbitmq.lines(_ctl(runas, "list_parameters", *_LISTING))
    parts = [row.split("\t", 2) for row in rows]
    return {part[1]: part[2] for part in parts if part[0] == "federation-upstream"}


def user_exists(name: str, runas: str | None = None) -> bool:
    """
    Whether there is a user.

    CLI Example::

        salt '*' rabbitmq.user_exists rabbit_user
    """
    return name in list_users(runas)


def vhost_exists(name: str, runas: str | None = None) -> bool:
    """
    Whether there is a virtual host.

    CLI Example::

        salt '*' rabbitmq.vhost_exists rabbit_host
    """
    return name in list_vhosts(runas)


def upstream_exists(name: str, runas: str | None = None) -> bool:
    """
    Whether there is an upstream.

    CLI Example::

        salt '*' rabbitmq.upstream_exists rabbit_upstream
    """
    return name in list_upstreams(runas)


def add_user(name: str, password: Any = None, runas: str | None = None) -> dict[str, str]:
    """
    Make a user; without a password it cannot log in by one.

    CLI Example::

        salt '*' rabbitmq.add_user rabbit_user password
    """
    letters = string.ascii_uppercase + string.digits
    word = (
        "".join(secrets.choice(letters) for _ in range(30)) if password is None else str(password)
    )
    said = _ctl(runas, "add_user", values=[name], secret=word)
    if password is None:
        try:
            clear_password(name, runas)
        except CommandExecutionError:
            delete_user(name, runas)
            raise
    return {"Added": said}


def delete_user(name: str, runas: str | None = None) -> dict[str, str]:
    """
    Remove a user.

    CLI Example::

        salt '*' rabbitmq.delete_user rabbit_user
    """
    return {"Deleted": _ctl(runas, "delete_user", values=[name])}


def change_password(name: str, password: Any, runas: str | None = None) -> dict[str, str]:
    """
    Change a user's password.

    CLI Example::

        salt '*' rabbitmq.change_password rabbit_user password
    """
    said = _ctl(runas, "change_password", values=[name], secret=str(password))
    return {"Password Changed": said}


def clear_password(name: str, runas: str | None = None) -> dict[str, str]:
    """
    A user cannot log in by a password any more.

    CLI Example::

        salt '*' rabbitmq.clear_password rabbit_user
    """
    return {"Password Cleared": _ctl(runas, "clear_password", values=[name])}


def check_password(name: str, password: Any, runas: str | None = None) -> bool:
    """
    Whether a user has this password.

    CLI Example::

        salt '*' rabbitmq.check_password rabbit_user password
    """
    try:
        _ctl(runas, "authenticate_user", values=[name], secret=str(password))
    except CommandExecutionError:
        return False
    return True


def add_vhost(vhost: str, runas: str | None = None) -> dict[str, str]:
    """
    Make a virtual host.

    CLI Example::

        salt '*' rabbitmq.add_vhost '<vhost_name>'
    """
    return {"Added": _ctl(runas, "add_vhost", values=[vhost])}


def delete_vhost(vhost: str, runas: str | None = None) -> dict[str, str]:
    """
    Remove a virtual host with all that is in it.

    CLI Example::

        salt '*' rabbitmq.delete_vhost '<vhost_name>'
    """
    return {"Deleted": _ctl(runas, "delete_vhost", values=[vhost])}


def set_permissions(
    vhost: str,
    user: str,
    conf: str = ".*",
    write: str = ".*",
    read: str = ".*",
    runas: str | None = None,
) -> dict[str, str]:
    """
    Say what a user may do in a virtual host: patterns of names.

    CLI Example::

        salt '*' rabbitmq.set_permissions myvhost myuser
    """
    values = [vhost, user, conf, write, read]
    return {"Permissions Set": _ctl(runas, "set_permissions", "-p", values=values)}


def _permissions(said: str, key: str) -> dict[str, dict[str, str]]:
    return {row.pop(key): row for row in json.loads(said)}


def list_permissions(vhost: str, runas: str | None = None) -> dict[str, Any]:
    """
    Who may do what in a virtual host.

    CLI Example::

        salt '*' rabbitmq.list_permissions /myvhost
    """
    said = _ctl(runas, "list_permissions", "--formatter=json", "-p", values=[vhost])
    return _permissions(said, "user")


def list_user_permissions(name: str, runas: str | None = None) -> dict[str, Any]:
    """
    What a user may do in each virtual host.

    CLI Example::

        salt '*' rabbitmq.list_user_permissions user
    """
    said = _ctl(runas, "list_user_permissions", "--formatter=json", values=[name])
    return _permissions(said, "vhost")


def set_user_tags(name: str, tags: Any, runas: str | None = None) -> dict[str, str]:
    """
    Give a user these tags, and no others.

    CLI Example::

        salt '*' rabbitmq.set_user_tags myadmin administrator
    """
    given = tags if isinstance(tags, list | tuple) else [tags]
    return {"Tag(s) set": _ctl(runas, "set_user_tags", values=[name, *given])}


def list_queues(runas: str | None = None, *args: str) -> dict[str, list[str]]:
    """
    The queues of the default virtual host, and what is asked of them.

    CLI Example::

        salt '*' rabbitmq.list_queues messages consumers
    """
    return _rabbitmq.table(_ctl(runas, "list_queues", *_LISTING, values=args))


def list_queues_vhost(vhost: str, runas: str | None = None, *args: str) -> dict[str, list[str]]:
    """
    The queues of a virtual host, and what is asked of them.

    CLI Example::

        salt '*' rabbitmq.list_queues_vhost '<vhost_name>' messages consumers
    """
    return _rabbitmq.table(_ctl(runas, "list_queues", *_LISTING, "-p", values=[vhost, *args]))


def list_policies(vhost: str = "/", runas: str | None = None) -> dict[str, Any]:
    """
    The policies of a virtual host.

    CLI Example::

        salt '*' rabbitmq.list_policies
    """
    found: dict[str, Any] = {}
    words = ("pattern", "apply_to", "definition", "priority")
    for line in _rabbitmq.lines(_ctl(runas, "list_policies", *_LISTING, "-p", values=[vhost])):
        parts = line.strip().split("\t")
        if len(parts) == 6:
            of_host = found.setdefault(parts[0], {})
            of_host[parts[1]] = dict(zip(words, parts[2:], strict=True))
    return found


def set_policy(
    vhost: str,
    name: str,
    pattern: str,
    definition: Any,
    priority: Any = None,
    runas: str | None = None,
    apply_to: str | None = None,
) -> dict[str, str]:
    """
    Make or change a policy.

    definition
        A map, or JSON.

    CLI Example::

        salt '*' rabbitmq.set_policy / HA '.*' '{"ha-mode":"all"}'
    """
    if isinstance(definition, dict):
        definition = json.dumps(definition)
    if not isinstance(definition, str):
        raise SaltInvocationError("The 'definition' argument must be a dictionary or JSON string")
    words = [f"--priority={int(priority)}"] if priority else []
    words += [f"--apply-to={apply_to}"] if apply_to else []
    said = _ctl(runas, "set_policy", *words, "-p", values=[vhost, name, pattern, definition])
    return {"Set": said}


def delete_policy(vhost: str, name: str, runas: str | None = None) -> dict[str, str]:
    """
    Remove a policy.

    CLI Example::

        salt '*' rabbitmq.delete_policy / HA
    """
    return {"Deleted": _ctl(runas, "clear_policy", "-p", values=[vhost, name])}


def policy_exists(vhost: str, name: str, runas: str | None = None) -> bool:
    """
    Whether a virtual host has a policy.

    CLI Example::

        salt '*' rabbitmq.policy_exists / HA
    """
    return name in list_policies(vhost, runas).get(vhost, {})


def set_upstream(
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
) -> bool:
    """
    Make or change an upstream of federation.

    CLI Example::

        salt '*' rabbitmq.set_upstream upstream_name ack_mode=on-confirm max_hops=1 \\
            trust_user_id=True uri=amqp://hostname
    """
    given = {
        "uri": uri,
        "prefetch-count": prefetch_count,
        "reconnect-delay": reconnect_delay,
        "ack-mode": ack_mode,
        "trust-user-id": trust_user_id,
        "exchange": exchange,
        "max-hops": max_hops,
        "expires": expires,
        "message-ttl": message_ttl,
        "ha-policy": ha_policy,
        "queue": queue,
    }
    text = json.dumps({key: value for key, value in given.items() if value})
    _ctl(runas, "set_parameter", "federation-upstream", values=[name, text])
    return True


def delete_upstream(name: str, runas: str | None = None) -> bool:
    """
    Remove an upstream.

    CLI Example::

        salt '*' rabbitmq.delete_upstream upstream_name
    """
    _ctl(runas, "clear_parameter", "federation-upstream", values=[name])
    return True
