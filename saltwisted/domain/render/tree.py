"""
Merging and walking trees of plain data: pillar merges, C{traverse}, key paths.

The merge functions never change their arguments and share untouched branches
with them, so a caller that keeps a result must not edit its inputs afterwards.
Results are those of Salt's C{dictupdate}; only the copying is left out, which
makes a merge cost what changed and not what was there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.render.aggregate import merge_aggregated

DELIMITER = ":"

STRATEGIES = ("smart", "recurse", "aggregate", "overwrite", "list", "none")


def merge(
    older: Any, newer: Any, strategy: str = "smart", renderer: str = "yaml", lists: bool = False
) -> Any:
    """
    C{newer} over C{older} by one of Salt's strategies.

    C{smart} is C{aggregate} for a pipe that ends in yamlex, else C{recurse}. An
    unknown strategy acts as C{recurse} without list merging, as in Salt.

    @param lists: C{pillar_merge_lists}: append what is new in a list instead of replacing it.
    @raises TypeError: one side is not a map.
    """
    if strategy == "smart":
        yamlex = renderer.split("|")[-1] == "yamlex" or renderer.startswith("yamlex_")
        strategy = "aggregate" if yamlex else "recurse"
    if strategy in ("recurse", "overwrite"):
        # Overwrite replaces the keys that both have and then recurses, where replaced keys
        # are equal: what remains of it is that nothing below the first level is merged.
        if strategy == "overwrite":
            return _overwrite(older, newer, lists)
        return merge_recurse(older, newer, lists)
    if strategy == "aggregate":
        return merge_aggregated(older, newer, level=1)
    if strategy == "list":
        return {k: [v, newer[k]] if k in newer else v for k, v in older.items()}
    return merge_recurse(older, newer)


def merge_recurse(older: Any, newer: Any, lists: bool = False) -> Any:
    """Maps are merged, everything else is replaced; returns a new map of C{older}'s kind."""
    if not isinstance(older, Mapping) or not isinstance(newer, Mapping):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    merged = _like(older)
    for key, value in newer.items():
        old = merged.get(key)
        if old is None:
            merged[key] = value
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge_recurse(old, value, lists)
        elif lists and isinstance(old, list) and isinstance(value, list):
            merged[key] = old + [item for item in value if item not in old]
        else:
            merged[key] = value
    return merged


def _overwrite(older: Any, newer: Any, lists: bool) -> Any:
    if not isinstance(older, Mapping) or not isinstance(newer, Mapping):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    merged = _like(older)
    merged.update(newer)
    return merged


def _like(tree: Mapping[Any, Any]) -> Any:
    """A shallow copy that keeps an ordered map ordered."""
    return OrderedDict(tree) if isinstance(tree, OrderedDict) else dict(tree)


def update(target: Any, newer: Any, recursive: bool = True, lists: bool = False) -> Any:
    """
    Merge into C{target} itself, for callers that own it (C{filter_by}, modules).

    @raises TypeError: one side is not a map.
    """
    if not isinstance(target, Mapping) or not isinstance(newer, Mapping):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    into: Any = target
    for key, value in newer.items():
        old = into.get(key) if recursive and key in into else None
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            into[key] = update(old, value, lists=lists)
        elif lists and isinstance(old, list) and isinstance(value, list):
            into[key] = old + [item for item in value if item not in old]
        else:
            into[key] = value
    return into


def traverse(data: Any, key: Any, default: Any = None, delimiter: str = DELIMITER) -> Any:
    """
    The value at C{a:b:0} in nested maps and lists, or C{default}.

    A word meets a list: it is looked up in the maps inside the list; a number is
    looked up there too, before it is taken as an index. A word that is not a key of
    a map is tried again as YAML reads it (C{80} finds the integer).
    """
    words = key.split(delimiter) if isinstance(key, str) else [key] if isinstance(key, int) else key
    here = data
    for word in words:
        if isinstance(here, list):
            found = _in_list(here, word)
        else:
            found = _in_map(here, word)
        if found is _ABSENT:
            return default
        here = found
    return here


_ABSENT = object()


def _in_list(items: list[Any], word: Any) -> Any:
    try:
        index = int(word)
    except ValueError:
        index = None
    wanted = word if index is None else index
    for item in items:
        if isinstance(item, dict) and wanted in item:
            return item[wanted]
    if index is None:
        return _ABSENT
    try:
        return items[index]
    except IndexError:
        return _ABSENT


def _in_map(here: Any, word: Any) -> Any:
    try:
        return here[word]
    except TypeError:
        return _ABSENT
    except KeyError:
        pass
    from saltwisted.domain.render.yaml import plain_argument

    again = plain_argument(word)
    if again == word:
        return _ABSENT
    try:
        return here[again]
    except (KeyError, TypeError):
        return _ABSENT


def traverse_maps(data: Any, key: str, default: Any = None, delimiter: str = DELIMITER) -> Any:
    """As L{traverse} without lists and second readings: what C{decrypt_pillar} uses."""
    here = data
    try:
        for word in key.split(delimiter):
            here = here[word]
    except (KeyError, IndexError, TypeError):
        return default
    return here
