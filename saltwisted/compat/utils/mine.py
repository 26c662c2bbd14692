"""C{salt.utils.mine}: functions of a mine as they are configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MINE_ITEM_ACL_ID = "__saltmine_acl__"
MINE_ITEM_ACL_VERSION = 1
MINE_ITEM_ACL_DATA = "__data__"


def minion_side_acl_denied(
    minion_acl_cache: Mapping[str, Any], mine_minion: str, mine_function: str, req_minion: str
) -> Any:
    """Whether a minion lets another one not have a function's value."""
    allowed = minion_acl_cache.get(mine_minion, {}).get(mine_function, [])
    return allowed and req_minion not in allowed


def wrap_acl_structure(
    function_data: Any, allow_tgt: Any = None, allow_tgt_type: Any = None
) -> dict[str, Any]:
    """A value with who may have it."""
    found = {MINE_ITEM_ACL_DATA: function_data, MINE_ITEM_ACL_ID: MINE_ITEM_ACL_VERSION}
    if allow_tgt:
        found["allow_tgt"] = allow_tgt
        if allow_tgt_type:
            found["allow_tgt_type"] = allow_tgt_type
    return found


def parse_function_definition(
    function_definition: Any,
) -> tuple[Any, list[Any], dict[str, Any], dict[str, Any]]:
    """The function, its arguments, its keywords, and who may have its value."""
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    if isinstance(function_definition, dict):
        keywords = function_definition
    elif isinstance(function_definition, list):
        for each in function_definition:
            if isinstance(each, dict):
                keywords.update(each)
            else:
                args.append(each)
    name = keywords.pop("mine_function", None)
    allowed = {key: keywords.pop(key, None) for key in ("allow_tgt", "allow_tgt_type")}
    return name, args, keywords, {key: value for key, value in allowed.items() if value}
