"""
Long lists in pages: C{?limit=N&after=KEY}.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from typing import Any

from saltwisted.domain.api.problems import Problem

MOST = 10_000


def page(value: Mapping[str, Any], query: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """
    One page of a map, the largest keys first: job ids, so the newest jobs.

    @param query: C{limit} and C{after}; without C{limit} all of it, in its own order.
    @return: the page, and after which key the next one begins; C{""} when this is the last.
    @raises Problem: C{400}, the limit is no number.
    """
    after = query.get("after", "")
    limit = query.get("limit", "")
    if not limit and not after:
        return dict(value), ""
    if limit and (not limit.isascii() or not limit.isdigit() or not 0 < int(limit[:9]) <= MOST):
        raise Problem(400, f"limit must be a number from 1 to {MOST}")
    size = int(limit) if limit else MOST
    left = [key for key in value if not after or key < after]
    keys = nlargest(size, left)
    return {key: value[key] for key in keys}, keys[-1] if len(left) > size else ""
