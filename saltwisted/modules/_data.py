"""
Rules on plain data that several modules share, under Salt's meanings.

Nothing here touches the machine. Names starting with an underscore are no
modules to the loader.
"""

from __future__ import annotations

import copy
import fnmatch
import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.domain.targeting.traverse import traverse
from saltwisted.worker.exceptions import SaltException, SaltInvocationError

log = logging.getLogger(__name__)


def update(target: Any, changes: Any, recursive: bool = True, merge_lists: bool = False) -> Any:
    """
    Merge C{changes} into C{target} in place, map by map; returns C{target}.

    @param merge_lists: append what a list has not yet, instead of replacing the list.
    @raises TypeError: one of the two is not a map.
    """
    if not isinstance(target, Mapping) or not isinstance(changes, Mapping):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    merged: Any = target
    for key, value in list(changes.items()):
        old = merged.get(key) if recursive else None
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = update(old, value, merge_lists=merge_lists)
        elif merge_lists and isinstance(old, list) and isinstance(value, list):
            joined = copy.deepcopy(old)
            joined.extend(item for item in value if item not in joined)
            merged[key] = joined
        else:
            merged[key] = value
    return merged


def merge(first: Any, second: Any, strategy: str = "recurse", merge_lists: bool = False) -> Any:
    """A new map of both, by C{recurse} or C{overwrite}; C{second} wins."""
    result = copy.deepcopy(dict(first))
    if strategy == "overwrite":
        for key in second:
            if key in result:
                result[key] = second[key]
    return update(result, second, merge_lists=merge_lists)


def filter_by(
    lookup_dict: Any,
    lookup: Any,
    traversed: Any,
    merge: Any = None,
    default: Any = "default",
    base: Any = None,
) -> Any:
    """
    The entry of C{lookup_dict} whose key, a glob, fits the looked-up value.

    C{grains.filter_by} and C{pillar.filter_by}: C{base} names the entry to begin
    from, C{merge} is laid over the result.
    """
    found = None
    value = traverse(traversed, lookup, [])
    for each in value if isinstance(value, list) else [value]:
        for key in lookup_dict:
            if fnmatch.fnmatchcase(str(each), str(key)):
                found = lookup_dict[key]
                break
        if found is not None:
            break
    if found is None:
        found = lookup_dict.get(default, None)
    if base and base in lookup_dict:
        beneath = lookup_dict[base]
        if found is None:
            found = beneath
        elif isinstance(beneath, Mapping):
            if not isinstance(found, Mapping):
                raise SaltException(
                    "filter_by default and look-up values must both be dictionaries."
                )
            found = update(copy.deepcopy(beneath), found)
    if merge:
        if not isinstance(merge, Mapping):
            raise SaltException("filter_by merge argument must be a dictionary.")
        if found is None:
            found = merge
        else:
            update(found, copy.deepcopy(merge))
    return found


def repack_dictlist(data: Any) -> dict[Any, Any]:
    """
    C{[{a: 1}, {b: 2}, c]} as C{{a: 1, b: 2, c: None}}: the lists of maps of SLS files.

    Anything else is logged and gives an empty map.

    @raises yaml.YAMLError: a text is wrong in other ways than its grammar; twice the same key.
    """
    if isinstance(data, str):
        from yaml.parser import ParserError

        from saltwisted.domain.render.yaml import safe_load

        try:
            data = safe_load(data)
        except ParserError:
            log.error("This is not YAML, so it is not a list of pairs either")
            return {}
    if not isinstance(data, list):
        log.error("Expected a list of pairs, not a %s", type(data).__name__)
        return {}
    result: dict[Any, Any] = {}
    for item in data:
        if isinstance(item, (str, int, float)):
            result[item] = None
        elif isinstance(item, dict) and len(item) == 1:
            result.update(item)
        else:
            log.error("The list of pairs contains something else (a %s)", type(item).__name__)
            return {}
    return result


def split_input(value: Any, mapper: Callable[[Any], Any] | None = None) -> list[Any]:
    """A list as it is, anything else as text split at its commas; each item through C{mapper}."""
    if not isinstance(value, list):
        value = [item.strip() for item in str(value).split(",")]
    return [mapper(item) for item in value] if mapper else list(value)


def clean_kwargs(**kwargs: Any) -> dict[str, Any]:
    """Without the C{__pub_*} words that a publication adds to the arguments."""
    return {key: value for key, value in kwargs.items() if not key.startswith("__")}


def invalid_kwargs(kwargs: Any) -> None:
    """
    Refuse arguments that a function does not know.

    @raises SaltInvocationError: there are some.
    """
    if not kwargs:
        return
    names = (
        [f"{key}={value}" for key, value in kwargs.items()] if isinstance(kwargs, dict) else kwargs
    )
    raise SaltInvocationError(f"The following keyword arguments are not valid: {', '.join(names)}")


def argspec(function: Any) -> Any:
    """
    The arguments of a function as C{args varargs keywords defaults}, of what it wraps if any.

    @raises TypeError: not a callable, or one that cannot be looked into.
    """
    from saltwisted.worker.process.call import argspec as look

    if not callable(function):
        raise TypeError(f"{function} is not a callable")
    return look(function)


def argspec_report(functions: Mapping[str, Any], module: str = "") -> dict[str, Any]:
    """
    The arguments of functions, by their names.

    @param module: a module, or a glob or a whole name.
    """
    if "*" in module or "." in module:
        names = fnmatch.filter(functions, module)
    else:
        names = [name for name in functions if name.startswith(f"{module}.")]
    report = {}
    for name in names:
        try:
            spec = argspec(functions[name])
        except TypeError:
            continue
        report[name] = {
            "args": spec.args or None,
            "defaults": spec.defaults or None,
            "varargs": True if spec.varargs else None,
            "kwargs": True if spec.keywords else None,
        }
    return report
