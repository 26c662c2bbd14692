"""
Long lists in pages: C{?limit=N&after=KEY}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from saltwisted.domain.api.problems import Problem

MOST = 10_000


@frozen
class Page:
    """
    Which part of a list a client wants: the largest keys first, which for job ids are the newest.

    @ivar limit: how many.
    @ivar after: the last key of the page before; C{""} for the first page.
    """

    limit: int
    after: str

    @property
    def asked(self) -> dict[str, Any]:
        """Arguments of C{jobs.list_jobs}: one more than is shown, to know whether there is one."""
        return {"limit": self.limit + 1, **({"after": self.after} if self.after else {})}

    def shown(self, found: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The page, and after which key the next one begins; C{""} when this is the last."""
        keys = sorted(found, reverse=True)
        more = len(keys) > self.limit
        keys = keys[: self.limit]
        return {key: found[key] for key in keys}, keys[-1] if more else ""


def page_of(query: Mapping[str, str]) -> Page | None:
    """
    The page that a query asks for; C{None}: everything.

    @raises Problem: C{400}, the limit is not a number.
    """
    after = query.get("after", "")
    limit = query.get("limit", "")
    if not limit and not after:
        return None
    if limit and (not limit.isascii() or not limit.isdigit() or not 0 < int(limit[:9]) <= MOST):
        raise Problem(400, f"limit must be a number from 1 to {MOST}")
    return Page(int(limit) if limit else MOST, after)
