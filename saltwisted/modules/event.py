"""
Fire events: on this minion's bus, or on the master's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from saltwisted.errors import SaltwistedError

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__opts__: Any
__grains__: Any
__pillar__: Any
__master__: Any
__daemon__: Any


def fire_master(data: Any, tag: str, preload: Any = None) -> bool:
    """
    Fire an event on the master's bus; answers whether it left.

    preload
        Fields to add to the request itself.

    CLI Example::

        salt '*' event.fire_master '{"data":"my event data"}' 'tag'
    """
    local = __opts__.get("local") or __opts__.get("file_client") == "local"
    if local and not __opts__.get("use_master_when_local"):
        log.warning("Local mode detected. Event with tag %s will NOT be sent.", tag)
        return False
    try:
        if preload or __daemon__ is None:
            load = {"id": __opts__["id"], "tag": tag, "data": data, "cmd": "_minion_event"}
            if isinstance(preload, dict):
                load.update(preload)
            __master__.request(load)
        else:
            __daemon__.call("fire_event", tag=tag, data=data, to_master=True)
    except (SaltwistedError, OSError, AttributeError) as error:
        log.debug("The event could not be sent: %s", type(error).__name__)
        return False
    return True


def fire(data: Any, tag: str) -> bool:
    """
    Fire an event on this minion's own bus; answers whether there was one.

    CLI Example::

        salt '*' event.fire '{"data":"my event data"}' 'tag'
    """
    if __daemon__ is None:
        return False
    try:
        __daemon__.call("fire_event", tag=tag, data=data)
    except (SaltwistedError, OSError) as error:
        log.debug("The event could not be fired: %s", type(error).__name__)
        return False
    return True


def send(
    tag: str,
    data: Any = None,
    preload: Any = None,
    with_env: Any = False,
    with_grains: Any = False,
    with_pillar: Any = False,
    with_env_opts: bool = False,
    **kwargs: Any,
) -> bool:
    """
    Fire an event on the master's bus (locally: on the minion's), with what belongs to it.

    with_env, with_grains, with_pillar
        Add the environment, grains or pillar: true for all, or a list of names.
    with_env_opts
        Add C{saltenv} and C{pillarenv}.
    kwargs
        Further fields of the data.

    CLI Example::

        salt-call event.send myco/mytag foo=Foo bar=Bar
        salt-call event.send 'myco/mytag' '{foo: Foo, bar: Bar}'
    """
    fields: dict[str, Any] = {}
    for name, wanted, source in (
        ("environ", with_env, lambda: dict(os.environ)),
        ("grains", with_grains, lambda: dict(__grains__)),
        ("pillar", with_pillar, lambda: dict(__pillar__)),
    ):
        if wanted:
            whole = source()
            if isinstance(wanted, list):
                whole = {key: value for key, value in whole.items() if key in wanted}
            fields[name] = whole
    if with_env_opts:
        fields["saltenv"] = __opts__.get("saltenv", "base")
        fields["pillarenv"] = __opts__.get("pillarenv")
    # The fields of the publication come along, as in Salt: reactors read them.
    fields.update(kwargs)
    if isinstance(data, Mapping):
        fields.update(data)
    local = (
        __opts__.get("local")
        or __opts__.get("file_client") == "local"
        or __opts__.get("master_type") == "disable"
    )
    if local and not __opts__.get("use_master_when_local"):
        return fire(fields, tag)
    return fire_master(fields, tag, preload=preload)
