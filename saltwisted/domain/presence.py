"""
Who is connected: from authenticated requests, addresses and connections.

A minion that subscribes does not say who it is, so a master knows it by its earlier requests. It is
present if it made an authenticated request a moment ago, or if there is a connection to the publish
port from one of its addresses. L{saltwisted.master.presence} knows who is connected, and sends the
events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import frozen

MOST_ADDRESSES = 1024
"""Addresses in the grains of one minion that are looked at."""
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
