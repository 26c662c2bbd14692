"""
The block C{rest_cherrypy} or C{rest_twisted}: the options of the HTTP API.

The names are those of Salt's rest_cherrypy; some are ours. Invalid values are reported when the
configuration is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any

from saltwisted.config.secrets import shown_value

BLOCKS = ("rest_twisted", "rest_cherrypy")
"""The first that is there counts."""
DEFAULTS: Mapping[str, Any] = {
    "port": 8000,
    "host": "0.0.0.0",  # noqa: S104 - Salt's default
    "ssl_crt": "",
    "ssl_key": "",
    "ssl_chain": "",
    "ssl_names": [],
    "disable_ssl": False,
    "debug": False,
    "log_access_file": "",
    "log_error_file": "",
    "webhook_url": "/hook",
    "webhook_disable_auth": False,
    "stats_disable_auth": False,
    "collect_stats": False,
    "static": "",
    "static_path": "/static",
    "favicon": "",
    "app": "",
    "app_path": "/app",
    "root_prefix": "/",
    "cors_origin": "",
    "max_request_body_size": 1048576,
    "session_timeout": 0,
    "enable_sessions": True,
    "authorized_ips": [],
    "api_acl": {},
    "events_for_all": False,
    "webhook_signatures": {},
}
"""Option to its default, whose type is that of the option."""
UNUSED = frozenset(("thread_pool", "queue_size", "socket_queue_size", "expire_responses"))
"""
What a block for Salt may say and nothing here needs: there are no threads and no queue of sockets
to be measured. CherryPy has not looked at the last one for years.
"""
LISTS = ("cors_origin",)
"""Options that may also be a list of texts."""
NOBODY: Mapping[str, Any] = {"authorized_ips": ("nobody",), "api_acl": {"users": {}}}
"""What stands for a guard that cannot be read: a mistake in it opens nothing."""
_NAMES = {bool: "true or false", int: "a whole number", str: "text", list: "a list", dict: "a map"}


class ApiOptions:
    """
    The options of the API, each an attribute of its name.

    @ivar block: the block that they come from.
    """

    def __init__(self, block: str, given: Mapping[str, Any]) -> None:
        self.block = block
        self._values = dict(DEFAULTS)
        for name, usual in DEFAULTS.items():
            if name == "authorized_ips" and given.get(name) and isinstance(given[name], str):
                self._values[name] = [given[name]]
            elif given.get(name) is not None and not _wrong(name, given[name]):
                self._values[name] = given[name]
            elif given.get(name) is not None and name in NOBODY:
                self._values[name] = NOBODY[name]
            elif isinstance(usual, (list, dict)):
                self._values[name] = type(usual)(usual)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None


def options_of(blocks: Mapping[str, Any]) -> ApiOptions | None:
    """
    The options, or C{None} where no API is wanted.

    @param blocks: what the master's configuration says of each of L{BLOCKS}.
    """
    for name in BLOCKS:
        block = blocks.get(name)
        if not isinstance(block, Mapping):
            continue
        if name == "rest_twisted" or "port" in block:
            return ApiOptions(name, block)
    return None


def problems(blocks: Mapping[str, Any]) -> list[str]:
    """What in the blocks cannot work, a sentence each, for the person who starts the master."""
    found = []
    there = [name for name in BLOCKS if blocks.get(name) is not None and blocks[name] != {}]
    if len(there) > 1:
        found.append(f"{there[1]} is not looked at where {there[0]} is")
    for name in there:
        block = blocks[name]
        if not isinstance(block, Mapping):
            found.append(f"{name}: a map of options is needed, not {shown_value(name, block)!r}")
            continue
        if name == "rest_cherrypy" and "port" not in block:
            found.append("Not loading 'rest_cherrypy'. 'port' not specified in config")
        for key, value in block.items():
            if key in DEFAULTS:
                wrong = _wrong(key, value) if value is not None else ""
                if wrong:
                    found.append(f"{name}: {key} must be {wrong}, not {shown_value(key, value)!r}")
                found += [f"{name}: {key}: {text}" for text in _unguarded(key, value)]
            elif key not in UNUSED:
                # Nearly nobody misspells: the command line is not to wait for this
                from difflib import get_close_matches

                near = get_close_matches(str(key)[:64], list(DEFAULTS), 1)
                hint = f", did you mean {near[0]!r}?" if near else ""
                found.append(f"{name}: unknown option {key!r}{hint}")
    return found


def _unguarded(name: str, value: Any) -> Iterable[str]:
    """What in the options that say from where one may come lets nobody in, a sentence each."""
    if name == "authorized_ips" and isinstance(value, (str, list)):
        yield from _no_addresses([value] if isinstance(value, str) else value)
    elif name == "api_acl" and value not in (None, {}):
        users = value.get("users") if isinstance(value, Mapping) else None
        if not isinstance(users, Mapping) or not users:
            yield "there are no users in it, so nobody may log in"
            return
        for user, places in users.items():
            for text in _no_addresses([places] if isinstance(places, str) else places, "*"):
                yield f"{user}: {text}"


def _no_addresses(places: Any, *words: str) -> Iterable[str]:
    """Of a list of addresses, what is none; each is compared as it is written."""
    if not isinstance(places, (list, tuple)):
        yield f"a list of addresses is needed, not {str(places)[:64]!r}"
        return
    for place in places:
        try:
            good = place in words or str(ip_address(place)) == place
        except ValueError:
            good = False
        if not good:
            yield f"{str(place)[:64]!r} is not a client address, so it lets nobody in"


def _wrong(name: str, value: Any) -> str:
    """What a value should be and is not; C{""} if it fits."""
    usual = DEFAULTS[name]
    if name == "authorized_ips" and isinstance(value, str):
        return ""
    if name in LISTS and isinstance(value, (list, tuple)):
        return "" if all(isinstance(each, str) for each in value) else "text or a list of texts"
    if isinstance(usual, bool) or not isinstance(usual, int):
        return "" if isinstance(value, type(usual)) else _NAMES[type(usual)]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return _NAMES[int]
    return "a port" if name == "port" and value > 65535 else ""


def closed_api(value: Callable[[str], Any], clients: Any) -> str:
    """
    What is said of an API that does nothing for anybody: since 3006 no client is on by itself.

    @param value: of an option, by its name.
    @param clients: C{netapi_enable_clients}.
    """
    block = next((name for name in BLOCKS if value(name)), "")
    if not block or clients:
        return ""
    return (
        f"{block} is set, but netapi_enable_clients names no client: the API will refuse every "
        "job, runner and wheel function, as stock does since 3006. List those that you want: "
        "[local, local_async, runner, wheel]"
    )
