"""
The mine: values of this minion that others may ask the master for.

Without a master (C{file_client: local}) the values are kept in the minion's own data store.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

from saltwisted.domain.targeting.matchers import is_kind
from saltwisted.modules import _data
from saltwisted.worker.called import called
from saltwisted.worker.exceptions import SaltClientError, SaltInvocationError, SaltReqTimeoutError
from saltwisted.worker.masking import answering
from saltwisted.worker.unlogged import silent

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__master__: Any

_ACL_MARK = "__saltmine_acl__"
_ACL_DATA = "__data__"


def _local() -> bool:
    return bool(__opts__.get("file_client") == "local")


def _acl(value: Any, tgt: Any, tgt_type: Any) -> Any:
    """A value with the target of those who may ask for it, if there is one."""
    if not tgt:
        return value
    wrapped = {_ACL_DATA: value, _ACL_MARK: 1, "allow_tgt": tgt}
    if tgt_type:
        wrapped["allow_tgt_type"] = tgt_type
    return wrapped


def _definition(given: Any) -> tuple[str | None, list[Any], dict[str, Any], tuple[Any, Any]]:
    """An entry of C{mine_functions} as function, arguments, keywords and who may ask."""
    args: list[Any] = []
    words: dict[str, Any] = {}
    if isinstance(given, dict):
        words.update(given)
    elif isinstance(given, list):
        for item in given:
            if isinstance(item, dict):
                words.update(item)
            else:
                args.append(item)
    name = words.pop("mine_function", None)
    allowed = (words.pop("allow_tgt", None), words.pop("allow_tgt_type", None))
    return name, args, words, allowed


def _call(name: str, args: Any, words: dict[str, Any]) -> Any:
    """Call a function with what a configuration gave: maps among C{args} are keywords."""
    function = called(__salt__)[name]
    spec = _data.argspec(function)
    positional = [arg for arg in args if not isinstance(arg, dict)]
    keywords: dict[str, Any] = {}
    for arg in args:
        if isinstance(arg, dict):
            keywords.update(arg)
    keywords.update(words)
    required = spec.args[: len(spec.args) - len(spec.defaults or ())]
    missing = [arg for arg in required[len(positional) :] if arg not in keywords]
    if missing:
        raise SaltInvocationError(f"Missing arguments: {', '.join(missing)}")
    with answering(name):
        return function(*positional, **keywords)


def _store(values: dict[str, Any], clear: bool = False) -> Any:
    if _local():
        if not clear:
            old = __salt__["data.get"]("mine_cache")
            if isinstance(old, dict):
                values = {**old, **values}
        return __salt__["data.update"]("mine_cache", values)
    return _tell({"cmd": "_mine", "data": values, "id": __opts__["id"], "clear": clear})


def _tell(load: dict[str, Any]) -> bool:
    """Send something to the master's mine; answers whether it took it."""
    try:
        __master__.request(load)
    except (SaltClientError, SaltReqTimeoutError) as error:
        log.error("The mine could not be sent to the master: %s", error)
        return False
    return True


def _is_secret(what: str) -> bool:
    """
    Whether a value comes from what nobody may see, and may not be where others read it.

    Stars instead of it would get into what others make of the mine.
    """
    if silent():
        log.error("%s is part of secret data: the mine stays unchanged", what)
        return True
    return False


def update(clear: bool = False, mine_functions: Any = None) -> Any:
    """
    Call the C{mine_functions} of configuration and pillar and send what they answer.

    clear
        Have the master forget what it had.
    mine_functions
        Call these instead: a list, or a map as in the configuration.

    CLI Example::

        salt '*' mine.update
    """
    if mine_functions and _is_secret("mine.update"):
        return False
    if not mine_functions:
        mine_functions = __salt__["config.merge"]("mine_functions", {})
        if not mine_functions:
            return None
    elif isinstance(mine_functions, list):
        mine_functions = {name: {} for name in mine_functions}
    if not isinstance(mine_functions, dict):
        return None
    values: dict[str, Any] = {}
    for alias, given in mine_functions.items():
        name, args, words, allowed = _definition(given)
        function = name or alias
        if function not in called(__salt__):
            log.error("Function %s in mine_functions not available", function)
            continue
        try:
            values[alias] = _acl(_call(function, args, words), *allowed)
        except Exception:
            log.error("Function %s in mine.update failed to execute", function)
            log.debug("Error: %s", traceback.format_exc())
    return _store(values, clear)


def send(name: str, *args: Any, **kwargs: Any) -> Any:
    """
    Call one function and send what it answers.

    mine_function
        The function, if C{name} is another name for it.
    allow_tgt, allow_tgt_type
        Who may ask for it.

    CLI Example::

        salt '*' mine.send network.ip_addrs interface=eth0
        salt '*' mine.send eth0_ip_addrs mine_function=network.ip_addrs interface=eth0
    """
    if _is_secret("mine.send"):
        return False
    words = _data.clean_kwargs(**kwargs)
    function = words.pop("mine_function", None) or name
    allowed = (words.pop("allow_tgt", None), words.pop("allow_tgt_type", None))
    try:
        value = _call(function, args, words)
    except Exception:
        log.error("Function %s in mine.send failed to execute", function)
        log.debug("Error: %s", traceback.format_exc())
        return False
    return _store({name: _acl(value, *allowed)})


def get(tgt: Any, fun: Any, tgt_type: str = "glob", exclude_minion: bool = False) -> Any:
    """
    What the minions of a target have in the mine, for one function or several.

    CLI Example::

        salt '*' mine.get '*' network.interfaces
        salt '*' mine.get 'os:Fedora' network.interfaces grain
        salt '*' mine.get 'G@os:Fedora and S@192.168.5.0/24' network.ipaddrs compound
    """
    if not is_kind(tgt_type):
        raise SaltInvocationError(f"There is no kind of target {str(tgt_type)[:100]!r}")
    if not _local():
        found = __master__.request(
            {"cmd": "_mine_get", "id": __opts__["id"], "tgt": tgt, "fun": fun, "tgt_type": tgt_type}
        )
        if exclude_minion and isinstance(found, dict):
            found.pop(__opts__["id"], None)
        return found
    result: dict[str, Any] = {}
    if not __salt__[f"match.{tgt_type}"](tgt):
        return result
    stored = __salt__["data.get"]("mine_cache")
    if not isinstance(stored, dict) or not isinstance(fun, (str, list)):
        return result
    names = list(dict.fromkeys(fun.split(","))) if isinstance(fun, str) else fun
    several = isinstance(fun, list) or len(names) > 1
    for name in names:
        if name not in stored:
            continue
        value = stored[name]
        if isinstance(value, dict) and _ACL_MARK in value:
            value = value[_ACL_DATA]
        if several:
            result.setdefault(name, {})[__opts__["id"]] = value
        else:
            result[__opts__["id"]] = value
    return result


def delete(fun: str) -> Any:
    """
    Take what one function of this minion answered out of the mine.

    CLI Example::

        salt '*' mine.delete 'network.interfaces'
    """
    if _local():
        stored = __salt__["data.get"]("mine_cache")
        if isinstance(stored, dict):
            stored.pop(fun, None)
        return __salt__["data.update"]("mine_cache", stored)
    return _tell({"cmd": "_mine_delete", "id": __opts__["id"], "fun": fun})


def flush() -> Any:
    """
    Take everything of this minion out of the mine.

    CLI Example::

        salt '*' mine.flush
    """
    if _local():
        return __salt__["data.update"]("mine_cache", {})
    return _tell({"cmd": "_mine_flush", "id": __opts__["id"]})


def valid() -> Any:
    """
    The entries of C{mine_functions} whose functions are available here.

    CLI Example::

        salt '*' mine.valid
    """
    configured = __salt__["config.merge"]("mine_functions", {})
    if not configured:
        return None
    found = {}
    for alias, given in configured.items():
        name, args, words, _ = _definition(given)
        function = name or alias
        if function not in called(__salt__):
            log.error("Function %s in mine_functions not available", function)
        elif name:
            found[alias] = {name: [*args, *({key: value} for key, value in words.items())]}
        else:
            found[alias] = given
    return found


def get_docker(interfaces: Any = None, cidrs: Any = None, with_container_id: bool = False) -> Any:
    """
    Where the containers of all Docker hosts listen, by image, from C{docker.ps} in the mine.

    interfaces, cidrs
        Count only addresses of these interfaces, in these networks.
    with_container_id
        Pairs with the container's id.

    CLI Example::

        salt '*' mine.get_docker
        salt '*' mine.get_docker interfaces='eth0'
    """
    wanted = interfaces if isinstance(interfaces, list) else [interfaces] if interfaces else []
    networks = cidrs if isinstance(cidrs, list) else [cidrs] if cidrs else []
    found: dict[str, Any] = {}
    for containers in get("*", "docker.ps").values():
        host = containers.pop("host")
        addresses = [
            entry["address"]
            for name, info in host["interfaces"].items()
            if not wanted or name in wanted
            for entry in info.get("inet", ())
        ]
        if networks:
            addresses = [one for one in addresses if _in_any(one, networks)]
        for container in containers.values():
            image = found.setdefault(container["Image"], {})
            for port in container["Ports"]:
                ip = port.get("IP")
                if not ip:
                    continue
                listed = image.setdefault("ipv4", {}).setdefault(port["PrivatePort"], [])
                for address in dict.fromkeys(addresses) if ip == "0.0.0.0" else [ip]:
                    value: Any = f"{address}:{port['PublicPort']}"
                    if with_container_id:
                        value = (value, container["Info"]["Id"])
                    if value not in listed:
                        listed.append(value)
    return found


def _in_any(address: str, networks: list[str]) -> bool:
    import ipaddress

    here = ipaddress.ip_address(address)
    return any(here in ipaddress.ip_network(network, strict=False) for network in networks)
