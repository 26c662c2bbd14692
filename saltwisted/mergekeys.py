"""
Merge keys (C{<<}) as Salt resolves them, the same with every PyYAML.

PyYAML 6.0.4 has changed which of two merged maps wins, and what it takes for the same key depends
on how its strings are stored. Salt has never left this to PyYAML: where the map itself has a key
the merged one is dropped, and of several merged maps all pairs stay, the last map's first, so that
a loader which refuses repeated keys can do so.

Nothing of PyYAML is imported here: nodes are told apart by their C{id}.
"""

from __future__ import annotations

from typing import Any

_MERGE = "tag:yaml.org,2002:merge"
_VALUE = "tag:yaml.org,2002:value"
_STR = "tag:yaml.org,2002:str"
_SPECIAL = frozenset({_MERGE, _VALUE})


def flatten(node: Any) -> None:
    """
    Put the pairs of merged maps in front of those of the map itself.

    @param node: a mapping node; it is changed in place.
    @raises yaml.constructor.ConstructorError: something is merged that is no map.
    """
    pairs = node.value
    if not any(key.tag in _SPECIAL for key, _ in pairs):
        return
    merged: list[tuple[Any, Any]] = []
    own: list[tuple[Any, Any]] = []
    for key, value in pairs:
        if key.tag == _MERGE:
            merged.extend(_merged_pairs(node, value))
            continue
        if key.tag == _VALUE:
            key.tag = _STR
        own.append((key, value))
    taken = [key.value for key, _ in own]
    node.value = [pair for pair in merged if pair[0].value not in taken] + own


def _merged_pairs(node: Any, value: Any) -> list[tuple[Any, Any]]:
    if value.id == "mapping":
        flatten(value)
        return list(value.value)
    if value.id != "sequence":
        raise _no_map(node, "a mapping or list of mappings", value)
    parts = []
    for item in value.value:
        if item.id != "mapping":
            raise _no_map(node, "a mapping", item)
        flatten(item)
        parts.append(item.value)
    return [pair for part in reversed(parts) for pair in part]


def _no_map(node: Any, wanted: str, found: Any) -> Exception:
    from yaml.constructor import ConstructorError

    return ConstructorError(
        "while constructing a mapping",
        node.start_mark,
        f"expected {wanted} for merging, but found {found.id}",
        found.start_mark,
    )
