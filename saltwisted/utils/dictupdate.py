"""
Maps laid over one another, and values put deep into them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.render import datafilters, tree
from saltwisted.utils._own import own

append_dict_key_value = own(__name__, datafilters.append_dict_key_value)
extend_dict_key_value = own(__name__, datafilters.extend_dict_key_value)
set_dict_key_value = own(__name__, datafilters.set_dict_key_value)
update_dict_key_value = own(__name__, datafilters.update_dict_key_value)


def update(
    dest: Any,
    upd: Any,
    recursive_update: bool = True,
    merge_lists: bool = False,
    strict: bool = False,
) -> Any:
    """
    Merge one map into another, which is changed.

    @param strict: refuse to put a map in the place of a list, with C{merge_lists}.
    """
    if strict and merge_lists and recursive_update and isinstance(dest, Mapping):
        for key, value in upd.items():
            if isinstance(dest.get(key), list) and isinstance(value, Mapping):
                raise TypeError(
                    f"With {merge_lists=} we cannot update list under {key=} with mapping "
                    f"containing keys val.keys()={value.keys()!r} in dictupdate.update()"
                )
    return tree.update(dest, upd, recursive_update, merge_lists)


def merge_list(obj_a: Any, obj_b: Any) -> Any:
    """Both values of a key that both maps have, as a list."""
    return tree.merge(obj_a, obj_b, "list")


def merge_recurse(obj_a: Any, obj_b: Any, merge_lists: bool = False) -> Any:
    """A new map of both, level by level."""
    return tree.merge(obj_a, obj_b, "recurse", lists=merge_lists)


def merge_aggregate(obj_a: Any, obj_b: Any) -> Any:
    """A new map of both, as yamlex aggregates."""
    return tree.merge(obj_a, obj_b, "aggregate")


def merge_overwrite(obj_a: Any, obj_b: Any, merge_lists: bool = False) -> Any:
    """A new map of both, of which no level below the first is merged."""
    return tree.merge(obj_a, obj_b, "overwrite", lists=merge_lists)


def merge(
    obj_a: Any,
    obj_b: Any,
    strategy: str = "smart",
    renderer: str = "yaml",
    merge_lists: bool = False,
) -> Any:
    """One map over another, by a strategy: C{smart aggregate list none overwrite recurse}."""
    return tree.merge(obj_a, obj_b, strategy, renderer, merge_lists)


def ensure_dict_key(
    in_dict: dict[Any, Any], keys: str, delimiter: str = ":", ordered_dict: bool = False
) -> dict[Any, Any]:
    """A map in which all these keys lead to maps; it is changed."""
    here = in_dict
    for key in keys.split(delimiter):
        if not isinstance(here.get(key), dict):
            here[key] = OrderedDict() if ordered_dict else {}
        here = here[key]
    return in_dict
