"""
The words of low data: requisite names, keywords that are not arguments, and tags.

The lists are those of C{salt/state.py} in 3008.2. High data is what an SLS means (C{id} to
C{state module} to a list of arguments), low data is one call (a flat map, here C{Chunk}).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

High = dict[Any, Any]
Chunk = dict[str, Any]
Running = dict[str, dict[str, Any]]
"""Tag to result, in the order of execution."""

REQUISITES: dict[str, int] = {
    name: weight
    for weight, name in enumerate(
        (
            "onfail",
            "onfail_any",
            "onfail_all",
            "require",
            "require_any",
            "onchanges",
            "onchanges_any",
            "watch",
            "watch_any",
            "prereq",
            "prerequired",
            "listen",
        )
    )
}
"""Direct requisites, with the weight that decides which of them pull a state forward."""

ORDERING = (
    "require",
    "require_any",
    "watch",
    "watch_any",
    "prereq",
    "onfail",
    "onfail_any",
    "onfail_all",
    "onchanges",
    "onchanges_any",
)
"""The requisites that become edges of the graph, in the order in which they are read."""

REQUISITE_KEYWORDS = frozenset(REQUISITES) | {"onfail_stop"}
IN_KEYWORDS = frozenset(
    f"{name}_in" for name in ("onchanges", "onfail", "prereq", "watch", "require", "listen")
)
RUNTIME_KEYWORDS = frozenset(
    [
        "fun",
        "state",
        "check_cmd",
        "cmd_opts_exclude",
        "failhard",
        "onlyif",
        "unless",
        "creates",
        "retry",
        # Ours: whether a step of an orchestration may be done again after its master died in it
        "retry_on_takeover",
        "order",
        "parallel",
        "prereq",
        "prereq_in",
        "reload_modules",
        "reload_grains",
        "reload_pillar",
        "runas",
        "runas_password",
        "no_log",
        "fire_event",
        "saltenv",
        "umask",
        "use",
        "use_in",
        "__env__",
        "__sls__",
        "__id__",
        "__sls_included_from__",
        "__orchestration_jid__",
        "__pub_user",
        "__pub_arg",
        "__pub_jid",
        "__pub_fun",
        "__pub_tgt",
        "__pub_ret",
        "__pub_pid",
        "__pub_tgt_type",
        "__pub_resource_targets",
        "__pub_minion_is_target",
        "__pub_resource_target",
        "__pub_resource_job",
        "__pub_pure_resource_target",
        "__prereq__",
        "__prerequiring__",
        "__umask__",
    ]
)
INTERNAL_KEYWORDS = REQUISITE_KEYWORDS | IN_KEYWORDS | RUNTIME_KEYWORDS
"""What a state function is not given, unless it names it."""

_MARK = "_|-"


def tag_of(low: Mapping[str, Any]) -> str:
    """The name of a call among the results: module, id, name and function."""
    return f"{low['state']}_|-{low['__id__']}_|-{low['name']}_|-{low['fun']}"


def split_tag(tag: str) -> dict[str, str]:
    """
    The parts of a tag.

    @raises ValueError: there are not four parts.
    """
    state, id_, name, fun = tag.split(_MARK)
    return {"state": state, "__id__": id_, "name": name, "fun": fun}


def as_list(value: Any) -> list[Any]:
    """The value itself if it is a list, else a list of it alone; nothing for C{None}."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def split_names(value: Any) -> list[Any]:
    """C{"a, b"} as a list; a list stays one."""
    if isinstance(value, list):
        return list(value)
    return [part.strip() for part in str(value).split(",")]


def copied(value: Any) -> Any:
    """A deep copy of plain data, several times faster than C{copy.deepcopy}."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is list:
        return [copied(item) for item in value]
    if isinstance(value, dict):
        if kind is dict:
            return {key: copied(item) for key, item in value.items()}
        fresh = kind()
        for key, item in value.items():
            fresh[key] = copied(item)
        return fresh
    if isinstance(value, (float, bytes, tuple)):
        return value
    from copy import deepcopy

    return deepcopy(value)


def first_key(value: Mapping[Any, Any]) -> Any:
    """The first key of a map; C{None} of an empty one."""
    return next(iter(value), None)


def is_pattern(text: str) -> bool:
    """Whether a text has shell wild cards."""
    return any(sign in text for sign in "*?[]")


def unique(items: Iterable[Any]) -> list[Any]:
    """The items without repetitions, maps and lists among them."""
    seen: set[Any] = set()
    found: list[Any] = []
    for item in items:
        try:
            if item in seen:
                continue
            seen.add(item)
        except TypeError:
            if item in found:
                continue
        found.append(item)
    return found
