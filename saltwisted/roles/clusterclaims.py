"""
The parts of C{--role cluster} that claim what is to be done once.

Introduces L{saltwisted.cluster.claims} to the stores and the facts; nothing is decided here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

from saltwisted.cluster.claims.claims import ClusterClaims
from saltwisted.cluster.claims.seats import Seats
from saltwisted.cluster.claims.votes import Votes
from saltwisted.roles.clusterfacts import ClusterFacts
from saltwisted.roles.stores import Stores
from saltwisted.roles.uptime import LookFirst
from saltwisted.stores.claims import ClaimStore


class ClusterClaimParts:
    """
    Builds the parts; C{parts} start when this node has caught up.

    @ivar claims: what the master claims with.
    """

    def __init__(self, stores: Stores, facts: ClusterFacts) -> None:
        config = stores.config
        window = float(config.publish_window)
        self.seats = Seats(
            key=facts.key,
            node=facts.node,
            membership=facts.membership,
            declared=facts.declared,
            linked=lambda: [link.node for link in facts.peers.links()],
            append=facts.own.append,
            settled=facts.own.settled,
            fire=stores.bus.fire,
        )
        self.votes = Votes(
            stores.reactor,
            facts.node,
            facts.key,
            facts.peers,
            self.seats.members,
            self.seats.gone,
            lambda link: str(link.session.key),
            ClaimStore(
                os.path.join(config.cachedir, "saltwisted", "claims.sqlite"),
                stores.files_threads.run,
                facts.key,
            ),
            stores.entropy(8).hex(),
            stores.now,
            str(config.claims),
            window,
            self._before(facts, float(config.keep_jobs_seconds)),
        )
        self.claims = ClusterClaims(
            stores.reactor,
            facts.node,
            self.votes,
            random.SystemRandom().random,
            window,
            stores.counters,
            settled=lambda: facts.catch_up.done and not facts.standstill.closed,
            each_second=self.seats.came_back,
        )
        self.parts: list[Any] = [
            self.votes,
            self.claims,
            LookFirst(stores.reactor, self.claims.look),
        ]

    @staticmethod
    def _before(facts: ClusterFacts, keep: float) -> Callable[[], float | None]:
        """Receipts of what ended before that moment are deleted."""

        def before() -> float | None:
            now = facts.clocks.time()
            return now - keep if now is not None and keep > 0 else None

        return before
