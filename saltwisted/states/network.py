"""
Interfaces, routes and settings of the network, by the module C{ip}.
"""

from __future__ import annotations

import difflib
import logging
from typing import Any

from saltwisted.worker.grains import netinfo

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any
__grains__: Any


def __virtual__() -> bool | tuple[bool, str]:
    if "ip.get_interface" in __salt__:
        return True
    return (False, "ip module could not be loaded")


def _differing(old: Any, new: Any) -> str:
    def lines(value: Any) -> Any:
        if value is None or value is False:
            return []
        return value.splitlines() if isinstance(value, str) else value

    return "\n".join(difflib.unified_diff(lines(old), lines(new), lineterm=""))


def _warned(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The hardware address under its own name."""
    if "addr" not in kwargs:
        return {}
    address = kwargs.pop("addr")
    said = "'addr' is not a valid argument name, "
    if "hwaddr" in kwargs:
        said += "it has been ignored in favor of 'hwaddr'."
    else:
        said += "its value has been assigned to 'hwaddr' instead."
        kwargs["hwaddr"] = address
    return {"warnings": [f"{said} Update your SLS file to get rid of this warning."]}


def _built(ret: dict[str, Any], what: str, old: Any, new: Any, added: str, test: Any) -> None:
    """
    Say what has been built, or would be.

    @param what: what it is called in comments: an interface or a bond.
    """
    key = what.split()[0].lower()
    if old == new or not (old or new):
        return
    if test:
        said = f"updated:\n{_differing(old, new)}" if old else "added."
        ret.update(result=None, comment=f"{what} is set to be {said}")
        return
    ret["comment"] = f"{what} {'updated' if old else 'added'}."
    ret["changes"][key] = _differing(old, new) if old else added


def _is_up(name: str) -> bool:
    """Whether an interface, or one of the further names that an interface has, is there and up."""
    found = netinfo.interfaces()
    if name in found:
        return bool(found[name].get("up"))
    more = [second for one in found.values() for second in one.get("secondary", [])]
    own = found.get("lo", {})
    for family in ("inet", "inet6"):
        addresses = own.get(family, [])
        more += addresses if len(addresses) > 1 else []
    return any(one.get("label", "") == name for one in more)


def _switch(ret: dict[str, Any], name: str, kind: str, *, is_on: bool, was_up: bool) -> None:
    """Bring it up or down, or take up what has changed."""
    if is_on and not was_up:
        __salt__["ip.up"](name, kind)
        ret["changes"]["status"] = f"Interface {name} is up"
    elif is_on and ret["changes"]:
        __salt__["ip.down"](name, kind)
        __salt__["ip.up"](name, kind)
        ret["changes"]["status"] = f"Interface {name} restart to validate"
    elif not is_on and was_up:
        __salt__["ip.down"](name, kind)
        ret["changes"]["status"] = f"Interface {name} down"


def _enslave(ret: dict[str, Any], name: str, slaves: Any) -> None:
    """Give a bond the interfaces that it lacks."""
    wanted = slaves if isinstance(slaves, list) else slaves.split()
    have = __salt__["cmd.run"](["cat", f"/sys/class/net/{name}/bonding/slaves"]).split()
    missing = [one for one in wanted if one not in have]
    if not missing:
        return
    program = __salt__["cmd.run"](["which", "ifenslave"]).strip()
    if program:
        __salt__["cmd.run"]([program, name, *missing], python_shell=False)
    else:
        log.error("Command 'ifenslave' not found")
    ret["changes"]["enslave"] = f"Added slaves '{' '.join(missing)}' to master '{name}'"


def managed(name: str, enabled: Any = True, **kwargs: Any) -> dict[str, Any]:
    """
    An interface is configured, and up.

    name
        The interface.
    enabled
        Whether it is to be up.
    type
        C{eth}, C{bond}, C{bridge}, C{slave}, C{vlan}, C{pppoe} or C{source}.
    noifupdown
        Only configure it.
    """
    said = f"Interface {name} is up to date."
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": said}
    kwargs.setdefault("test", __opts__.get("test", False))
    kind = str(kwargs.pop("type", "eth"))
    ret.update(_warned(kwargs))
    try:
        old = __salt__["ip.get_interface"](name)
        new = __salt__["ip.build_interface"](name, kind, enabled, **kwargs)
        _built(ret, f"Interface {name}", old, new, "Added network interface.", kwargs["test"])
        if kind == "source":
            return ret
        if kind == "bond" and "ip.get_bond" in __salt__:
            old = __salt__["ip.get_bond"](name)
            new = __salt__["ip.build_bond"](name, **kwargs)
            _built(ret, f"Bond interface {name}", old, new, f"Added bond {name}.", kwargs["test"])
    except AttributeError as error:
        return {**ret, "result": False, "comment": str(error)}
    if kwargs["test"]:
        return ret
    was_up = _is_up(name)
    if "noifupdown" not in kwargs:
        try:
            _switch(ret, name, kind, is_on=bool(enabled), was_up=was_up)
        except Exception as error:
            log.exception("interface %s", name)
            return {**ret, "result": False, "comment": str(error)}
        if kind == "bond" and kwargs.get("slaves"):
            _enslave(ret, name, kwargs["slaves"])
    if not (enabled and was_up):
        __salt__["saltutil.refresh_grains"]()
    return ret


def routes(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    An interface has these routes.

    name
        The interface.
    routes
        Maps of C{name}, C{ipaddr}, C{netmask}, C{gateway} and C{metric}.
    """
    said = f"Interface {name} routes are up to date."
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": said}
    kwargs.setdefault("test", __opts__.get("test", False))
    try:
        old = __salt__["ip.get_routes"](name)
        new = __salt__["ip.build_routes"](name, **kwargs)
        what = f"Interface {name} routes"
        if old == new:
            return ret
        if kwargs["test"]:
            said = "updated:\n" + _differing(old, new) if old else "added."
            return {**ret, "result": None, "comment": f"{what} are set to be {said}"}
        change = _differing(old, new) if old else f"Added interface {name} routes."
        ret["comment"] = f"{what} {'updated' if old else 'added'}."
        ret["changes"]["network_routes"] = change
        __salt__["ip.apply_network_settings"](**kwargs)
    except AttributeError as error:
        return {**ret, "result": False, "comment": str(error)}
    return ret


def system(name: str, **kwargs: Any) -> dict[str, Any]:
    """
    The settings of the whole network.

    enabled
        Whether there is a network at all.
    hostname, search
        The name of the machine, and domains to search.
    apply_hostname, require_reboot
        Set the name at once; leave the network as it is until the system is rebooted.
    """
    said = "Global network settings are up to date."
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": said}
    kwargs["test"] = __opts__["test"]
    try:
        old = __salt__["ip.get_network_settings"]()
        new = __salt__["ip.build_network_settings"](**kwargs)
        if old == new:
            return ret
        if kwargs["test"]:
            said = "updated:\n" + _differing(old, new) if old else "added."
            said = f"Global network settings are set to be {said}"
            return {**ret, "result": None, "comment": said}
        change = _differing(old, new) if old else "Added global network settings."
        ret["changes"]["network_settings"] = change
        __salt__["ip.apply_network_settings"](**kwargs)
    except (AttributeError, KeyError) as error:
        return {**ret, "result": False, "comment": str(error)}
    return ret
