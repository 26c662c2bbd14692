"""
Which acceptance of a minion's key counts: a number from which all nodes derive session keys.

The number changes after each deletion or rejection that was followed by an acceptance, so that no
earlier session key is accepted again (T-KEY-1). It is the same on all nodes with the same
knowledge.
"""

from __future__ import annotations

import hashlib

from saltwisted.domain.replica.keyset import KeySet


def acceptance_number(keyset: KeySet, minion_id: str) -> int | None:
    """The number, or C{None} for a minion of which no key is accepted."""
    holder = keyset.view(minion_id).holder
    if holder is None or holder.state != "accepted" or holder.since is None:
        return None
    mark = f"{holder.finger}/{holder.since.stamp}/{holder.since.node}"
    return int.from_bytes(hashlib.sha256(mark.encode()).digest()[:8], "big")
