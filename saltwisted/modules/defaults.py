"""
Defaults of a formula: C{defaults.yaml} or C{defaults.json} beside its states, and maps laid over
one another.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from typing import Any

from saltwisted.domain.render import tree
from saltwisted.modules import _yaml

log = logging.getLogger(__name__)

__fileclient__: Any


def _load(formula: str) -> Any:
    """The first file of defaults that the formula has, as data; C{None} if it has none."""
    names = [f"salt://{formula}/defaults.{suffix}" for suffix in ("yaml", "json")]
    for path in __fileclient__.cache_files(names):
        if not path or not os.path.exists(path):
            continue
        log.debug("Reading defaults from '%s'", path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return (json.loads(text) if path.endswith(".json") else _yaml.load(text)) or {}
    return None


def get(key: str, default: Any = "") -> Any:
    """
    A value from the defaults of a formula.

    The first word of the key is the formula: C{core:users:root} is C{users:root} in
    C{salt://core/defaults.yaml} or C{salt://core/defaults.json}. A formula alone gives all of its
    defaults.

    CLI Example::

        salt '*' defaults.get core:users:root
    """
    formula, _, rest = key.partition(":")
    found = _load(formula)
    return tree.traverse(found, rest, default) if rest else found


def merge(
    dest: Any,
    src: Any,
    merge_lists: bool = False,
    in_place: bool = True,
    convert_none: bool = True,
) -> Any:
    """
    One map over another, level by level.

    merge_lists
        Lists are joined instead of replaced.
    in_place
        C{dest} itself is changed; otherwise a copy of it is.
    convert_none
        C{None} counts as an empty map, except for a C{dest} that is to be changed itself.

    CLI Example::

        salt '*' defaults.merge '{a: b}' '{d: e}'
    """
    if src is None and convert_none:
        src = {}
    if dest is None and convert_none:
        if in_place:
            raise TypeError("Can't perform in-place merge into NoneType")
        dest = {}
    merged = dest if in_place else copy.deepcopy(dest)
    return tree.update(merged, src, lists=merge_lists)


def deepcopy(source: Any) -> Any:
    """
    A copy that shares nothing with what it was made of.

    CLI Example::

        salt '*' defaults.deepcopy '{a: [b]}'
    """
    return copy.deepcopy(source)


def update(
    dest: Any,
    defaults: Any,
    merge_lists: bool = True,
    in_place: bool = True,
    convert_none: bool = True,
) -> Any:
    """
    Give each map in a map the same defaults, over which its own values stand.

    C{merge_lists}, C{in_place} and C{convert_none} mean what they mean in C{defaults.merge}.

    CLI Example::

        salt '*' defaults.update '{host01: {index: 1}}' '{enabled: true}'
    """
    if in_place:
        if dest is None:
            raise TypeError("Can't perform in-place update into NoneType")
        nodes = dest
    else:
        nodes = copy.deepcopy({} if dest is None and convert_none else dest)
    if defaults is None and convert_none:
        defaults = {}
    for name, own in nodes.items():
        nodes[name] = merge(copy.deepcopy(defaults), own, merge_lists, convert_none=convert_none)
    return nodes
