"""
Where and when keys were seen, accepted and rejected, and which of them conflict: the same on all
nodes.

Salt's own lists have no room for this, so it has a command of its own (C{saltwisted keys}).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from itertools import islice
from typing import Any

from saltwisted.domain.replica.keyset import KeySet, Shown
from saltwisted.errors import WireError
from saltwisted.wire.rsa import fingerprint

MOST = 50_000
"""Rows in one answer."""


class KeyView:
    """Reads the registers; changes nothing."""

    def __init__(self, keyset: KeySet, hash_type: str) -> None:
        self._keyset = keyset
        self._hash_type = hash_type

    def rows(self, match: str = "*") -> Iterator[dict[str, Any]]:
        """
        One row for each key that is shown, by minion id.

        C{state} is Salt's word, C{at} when that came about (seconds since 1970), C{node} where,
        C{by} who did it or from where the minion came; C{conflict}, whether the key is denied
        because another one of the id holds.
        """
        for minion_id in sorted(self._keyset.ids()):
            if not fnmatch.fnmatchcase(minion_id, match):
                continue
            view = self._keyset.view(minion_id)
            for shown in (view.holder, *view.denied):
                if shown is not None:
                    yield self._row(minion_id, shown)

    def _row(self, minion_id: str, shown: Shown) -> dict[str, Any]:
        since = shown.since
        try:
            finger = fingerprint(shown.pub, self._hash_type) if shown.pub else ""
        except WireError:
            finger = ""
        return {
            "id": minion_id,
            "state": shown.state,
            "fingerprint": finger,
            "at": since.seconds if since is not None else None,
            "node": since.node if since is not None else "",
            "by": since.by if since is not None else "",
            "conflict": shown.conflict,
        }

    def shown(
        self, match: str = "*", pending: bool = False, conflicts: bool = False
    ) -> list[dict[str, Any]]:
        """The first L{MOST} rows; of these kinds alone, if asked for."""
        rows = (
            row
            for row in self.rows(match)
            if (row["conflict"] or not conflicts) and (row["state"] == "pending" or not pending)
        )
        return list(islice(rows, MOST))
