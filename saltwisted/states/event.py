"""
Events to the master, out of a run of states.
"""

from __future__ import annotations

from typing import Any

__salt__: Any
__opts__: Any


def send(
    name: str,
    data: Any = None,
    preload: Any = None,
    with_env: Any = False,
    with_grains: Any = False,
    with_pillar: Any = False,
    show_changed: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Send an event.

    name
        The tag.
    data
        What it says; C{with_env}, C{with_grains}, C{with_pillar} add all of those, or a list
        of them.
    show_changed
        Whether the return counts it as a change.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": False, "comment": ""}
    if show_changed:
        ret["changes"] = {"tag": name, "data": data}
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = "Event would have been fired"
        return ret
    ret["result"] = __salt__["event.send"](
        name,
        data=data,
        preload=preload,
        with_env=with_env,
        with_grains=with_grains,
        with_pillar=with_pillar,
        **kwargs,
    )
    ret["comment"] = "Event fired"
    return ret


def wait(name: str, sfun: Any = None, data: Any = None) -> dict[str, Any]:
    """
    Send an event only when a watched state changed something.
    """
    return {"name": name, "changes": {}, "result": True, "comment": ""}


def mod_watch(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    Send the event: something that is watched has changed.
    """
    return send(name, **kwargs)


def fire_master(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    The former name of L{send}.
    """
    return send(name, **kwargs)
