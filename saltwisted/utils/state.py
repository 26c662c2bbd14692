"""
Results of states: their names, and those of parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def gen_tag(low: Mapping[str, Any]) -> str:
    """The key of a low chunk's result."""
    return "_|-".join(str(low[key]) for key in ("state", "__id__", "name", "fun"))


def merge_subreturn(
    original_return: dict[str, Any], sub_return: Mapping[str, Any], subkey: Any = None
) -> dict[str, Any]:
    """
    Put the result of a state's part into that of the state, which is changed and given back.

    @param subkey: what the changes are named after; the name of the part by default.
    """
    key = subkey or sub_return["name"]
    if sub_return["result"] is False:
        original_return["result"] = False
    comments = sub_return["comment"]
    if not isinstance(comments, list):
        comments = [comments]
    told = original_return.setdefault("comment", [])
    if isinstance(told, list):
        told.extend(comments)
    else:
        before = f"{told}\n" if told else told
        original_return["comment"] = before + "\n".join(comments)
    if sub_return["changes"]:
        original_return.setdefault("changes", {})[key] = sub_return["changes"]
    return original_return
