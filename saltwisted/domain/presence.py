"""
Who is connected: from authenticated requests, addresses and connections.

A minion that subscribes does not say who it is, so a master knows it by its earlier requests. It is
present if it made an authenticated request a moment ago, or if there is a connection to the publish
port from one of its addresses. L{saltwisted.master.presence} knows who is connected, and sends the
events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from attrs import frozen

MOST_ADDRESSES = 1024
"""Addresses in the grains of one minion that are looked at."""
MOST_REMEMBERED = 200_000
"""Minions whose addresses outlive a restart."""
LONGEST_ADDRESS = 64
"""Characters."""
_LOOPBACK = frozenset(("127.0.0.1", "::1"))


def known_addresses(peer: str, grains: Mapping[str, Any]) -> tuple[str, ...]:
    """
    Addresses at which a minion may be found.

    Loopback addresses of the grains say nothing (every host has them); the
    address of its last request counts whatever it is.

    @param peer: address of the last authenticated request, or C{""}.
    """
    found = [peer] if peer else []
    for name in ("ipv4", "ipv6"):
        values = grains.get(name)
        if isinstance(values, (list, tuple)):
            found += [
                value
                for value in values[:MOST_ADDRESSES]
                if isinstance(value, str) and value not in _LOOPBACK
            ]
    return tuple(found)


@frozen
class Whereabouts:
    """
    What a master remembers of a minion over a restart.

    @ivar address: of its last request, or C{""}.
    @ivar present: whether it was present when that was written.
    """

    address: str
    present: bool


def remembered(rows: Any) -> dict[str, Whereabouts]:
    """
    What was written by L{rows_of}: rows C{[id, address, present]}. Rows that are malformed are left
    out.
    """
    found = {}
    for row in rows[:MOST_REMEMBERED] if isinstance(rows, list) else ():
        if not isinstance(row, list) or len(row) != 3:
            continue
        minion_id, address, present = row
        if isinstance(minion_id, str) and isinstance(address, str) and isinstance(present, bool):
            found[minion_id] = Whereabouts(address[:LONGEST_ADDRESS], present)
    return found


def rows_of(known: Mapping[str, Whereabouts]) -> list[list[Any]]:
    """The same as plain data, of at most L{MOST_REMEMBERED} minions."""
    return [
        [minion_id, each.address[:LONGEST_ADDRESS], each.present]
        for minion_id, each in islice(known.items(), MOST_REMEMBERED)
    ]


def present_ids(
    ids: Iterable[str],
    recently: Callable[[str], bool],
    addresses_of: Callable[[str], Iterable[str]],
    connected: Collection[str],
) -> set[str]:
    """
    Those of C{ids} that are present.

    @param recently: whether it made an authenticated request a moment ago.
    @param connected: addresses that have a connection to the publish port.
    """
    return {
        minion_id
        for minion_id in ids
        if recently(minion_id)
        or (connected and any(address in connected for address in addresses_of(minion_id)))
    }


@frozen
class PresenceChange:
    """The contents of C{salt/presence/present} and C{salt/presence/change}, sorted."""

    present: tuple[str, ...]
    new: tuple[str, ...]
    lost: tuple[str, ...]


def change(before: Collection[str], after: Collection[str]) -> PresenceChange:
    """Compare two sweeps."""
    old, here = set(before), set(after)
    return PresenceChange(tuple(sorted(here)), tuple(sorted(here - old)), tuple(sorted(old - here)))
