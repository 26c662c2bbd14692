"""
Tries risky regular expressions, in a process that may be killed.

A call has the shape C{{"tgt", "type", "delimiter", "ids": [names], "bank", "data": [maps]}}: one
target over some minions, with the cached data of each if C{bank} names one. The answer is the list
of names that match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.targeting.selection import Universe, check_minions


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> list[str]:
    """The entry of a pooled worker process."""
    ids = list(payload["ids"])
    bank = payload["bank"]
    known = dict(zip(ids, payload["data"], strict=True)) if bank else {}
    universe = Universe(
        accepted=ids,
        fetch=lambda asked, minion_id: known.get(minion_id) if asked == bank else None,
        cached=lambda asked: ids,
    )
    selection = check_minions(payload["tgt"], payload["type"], universe, payload["delimiter"])
    return list(selection.minions)
