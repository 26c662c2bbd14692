"""
The parts of C{--role cluster} that claim work that must happen once.

Introduces L{saltwisted.cluster.claims} to the stores and the facts; nothing is decided here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saltwisted.cluster.claims.claims import ClusterClaims
from saltwisted.cluster.claims.etcd import EtcdCourt
from saltwisted.cluster.claims.seats import Seats
from saltwisted.cluster.claims.votes import Votes
from saltwisted.cluster.life.settings import etcd_of
from saltwisted.domain.claims.electorate import BOTH, ETCD, PAIR
from saltwisted.domain.claims.etcd import Names
from saltwisted.master.orchestration.keepers import Electors
from saltwisted.roles.clusterfacts import ClusterFacts
from saltwisted.roles.stores import Stores
from saltwisted.roles.uptime import LookFirst
from saltwisted.transports.etcd import Gateway
from saltwisted.transports.etcdtls import tls_policy

ABSTAINS = "this member abstains from votes until what it voted has run out"


class ClusterClaimParts:
    """
    Builds the parts; C{parts} start when this node has caught up.

    @ivar claims: what the master claims with.
    @ivar electors: on whose disks lines of orchestrations count.
    """

    def __init__(
        self, stores: Stores, facts: ClusterFacts, elsewhere: Callable[[str], bool]
    ) -> None:
        """
        @param elsewhere: whether a minion is connected to another node now.
        """
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
        self.electors = Electors(
            key=facts.key,
            members=self.seats.members,
            gone=self.seats.gone,
            key_of=key_of,
            two=str(config.claims) if config.claims in (PAIR, BOTH) else PAIR,
        )
        is_etcd = config.claims == ETCD
        court = self._etcd(stores, facts) if is_etcd else self._votes(stores, facts)
        self.claims = ClusterClaims(
            stores.reactor,
            facts.node,
            court,
            random.SystemRandom().random,
            window,
            stores.counters,
            settled=lambda: facts.catch_up.done and not facts.standstill.closed,
            each_second=self.seats.came_back,
            elsewhere=elsewhere,
        )
        self.parts: list[Any] = [
            court,
            self.claims,
            LookFirst(stores.reactor, self.claims.look),
        ]

    def _votes(self, stores: Stores, facts: ClusterFacts) -> Votes:
        config = stores.config
        return Votes(
            stores.reactor,
            facts.node,
            facts.key,
            facts.peers,
            self.seats.members,
            self.seats.gone,
            key_of,
            stores.claim_store(facts.cluster, facts.key, ABSTAINS),
            stores.life,
            stores.now,
            str(config.claims),
            float(config.publish_window),
            self._before(facts, float(config.keep_jobs_seconds)),
        )

    @staticmethod
    def _etcd(stores: Stores, facts: ClusterFacts) -> EtcdCourt:
        settings = etcd_of(stores.config)
        is_tls = any(each.startswith("https:") for each in settings.endpoints)
        policy = tls_policy(settings, lambda path: Path(path).read_bytes()) if is_tls else None
        return EtcdCourt(
            stores.reactor,
            facts.node,
            stores.entropy(8).hex(),
            Gateway(stores.reactor, settings, policy),
            Names(settings.prefix),
            stores.now,
            float(stores.config.keep_jobs_seconds),
        )

    @staticmethod
    def _before(facts: ClusterFacts, keep: float) -> Callable[[], float | None]:
        """Receipts of what ended before that moment are deleted."""

        def before() -> float | None:
            now = facts.clocks.time()
            return now - keep if now is not None and keep > 0 else None

        return before


def key_of(link: Any) -> str:
    """The key by which the member at the other end of a link is known."""
    return str(link.session.key)
