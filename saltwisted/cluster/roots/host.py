"""
What a node provides to its roots, and the rights that apply.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from saltwisted.domain.replica.membership import PILLAR
from saltwisted.stores.roots.filework import Helper


@frozen(kw_only=True)
class Host:
    """
    The node's name, its threads, clocks and dice, and the other members.

    @ivar node: this node's id.
    @ivar pool: runs a blocking call, C{pool(function, *args) -> Deferred}.
    @ivar fire: C{fire(tag, data)} on the bus.
    @ivar members: the ids of the other members, reachable or not.
    @ivar cluster: the cluster of this node; an index of another cluster does not count.
    @ivar may: C{may(node, right)}: whether the membership allows a member, or this node, to do
        something.
    @ivar helper: reads and creates many small files in another process; see
        L{saltwisted.stores.roots.filework}.
    """

    reactor: Any
    node: str
    pool: Callable[..., Deferred[Any]]
    fire: Callable[[str, Mapping[str, Any]], None]
    members: Callable[[], Sequence[str]] = lambda: ()
    entropy: Callable[[int], bytes] = os.urandom
    now: Callable[[], float] = time.time
    now_ns: Callable[[], int] = time.time_ns
    jitter: Callable[[], float] = lambda: 1.0
    cluster: str = ""
    may: Callable[[str, str], bool] = lambda node, right: True
    helper: Helper | None = None

    def may_have(self, node: str, share: str) -> bool:
        """Whether a node may have a share: pillars are for those with the right to them."""
        return not share.startswith("pillar/") or self.may(node, PILLAR)
