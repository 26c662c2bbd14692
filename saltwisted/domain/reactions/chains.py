"""
Reactions that cause one another: to which chain an event belongs, and how long that is.

Stock reacts to no event of C{user: Reactor}, so that nothing goes in circles for ever. Here an
event that a reaction has caused may trigger another reaction, until a chain has
C{reactor_chain_limit} reactions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from attrs import frozen

KEPT = 20_000
"""Calls of which the chain is remembered; the oldest are forgotten."""


@frozen
class Link:
    """
    A place in a chain.

    @ivar trace: the name of the chain: the number of its first event.
    @ivar generation: the number of reactions before this event; 0 if no reaction caused it.
    @ivar cause: the jid that caused it, or C{""}.
    """

    trace: str
    generation: int = 0
    cause: str = ""


class Chains:
    """The results of recent reactions, by their jids."""

    def __init__(self, keep: int = KEPT) -> None:
        self._keep = keep
        self._links: OrderedDict[str, Link] = OrderedDict()

    def __len__(self) -> int:
        return len(self._links)

    def began(self, jid: str, link: Link) -> None:
        """A reaction to an event of this place runs under this jid."""
        self.learn(jid, Link(link.trace, link.generation + 1, jid))

    def learn(self, jid: str, link: Link) -> None:
        """What this jid causes stands here."""
        self._links[jid] = link
        while len(self._links) > self._keep:
            self._links.popitem(last=False)

    def link(self, tag: str, data: Mapping[str, Any]) -> Link | None:
        """The place of an event that a reaction has caused; C{None} for any other."""
        if not self._links:
            return None
        for jid in jids_of(tag, data):
            found = self._links.get(jid)
            if found is not None:
                return found
        return None


def jids_of(tag: str, data: Mapping[str, Any]) -> list[str]:
    """The calls that an event says it comes from, the likeliest first."""
    found = []
    words = tag.split("/", 3)
    if len(words) > 2 and words[0] == "salt" and words[1] in ("job", "run", "wheel"):
        found.append(words[2])
    inner = data.get("data")
    for place in (data, inner if isinstance(inner, Mapping) else {}):
        for name in ("__pub_jid", "jid"):
            jid = place.get(name)
            if isinstance(jid, str) and jid not in found:
                found.append(jid)
    return found
