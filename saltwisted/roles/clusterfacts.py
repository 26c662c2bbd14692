"""
The parts of C{--role cluster} that carry facts: members, keys, tokens, secrets, minion data.

Introduces L{saltwisted.cluster} to the stores; nothing is decided here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial

from saltwisted.cluster.facts.logins import ClusterTokens
from saltwisted.cluster.facts.minions import MinionData
from saltwisted.cluster.facts.own import OwnFacts
from saltwisted.cluster.facts.replicate import KeyReplica
from saltwisted.cluster.facts.schedule import ClusterSchedule
from saltwisted.cluster.facts.sessionsecrets import SessionSecrets
from saltwisted.cluster.facts.upkeep import AwayTooLong
from saltwisted.cluster.life.catchup import CatchUp
from saltwisted.cluster.life.drift import Drift
from saltwisted.cluster.life.lifecycle import Lifecycle, MemberCard
from saltwisted.cluster.life.standstill import Standstill, boottime
from saltwisted.cluster.links.clocks import Clocks
from saltwisted.cluster.links.peers import Peers
from saltwisted.cluster.links.ring import Ring, reaches
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.replica.declared import Declared
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.domain.replica.logins import LoginTokens
from saltwisted.domain.replica.membership import PILLAR, RIGHTS, Membership
from saltwisted.domain.replica.minions import Minions
from saltwisted.domain.replica.schedule import ScheduleFacts
from saltwisted.domain.replica.secrets import Secrets
from saltwisted.domain.replica.tokens import Tokens
from saltwisted.roles.master import Master
from saltwisted.roles.stores import Stores
from saltwisted.stores.facts.log import ReplicaLog

AGAIN_WAIT = 2.0
"""Seconds that a member waits for those that were away already when it began again."""


class ClusterFacts:
    """
    The log, its folds, the links, and what keeps the master's directories and the log the same.

    @ivar own: the way of all that is said here into the log.
    @ivar holds: whether this node has pillars.
    @ivar rights: what this node was built to do with the roots.
    @ivar session_secrets: what session keys are derived from (C{ISecrets}).
    """

    def __init__(
        self,
        stores: Stores,
        card: MemberCard,
        lifecycle: Lifecycle,
        master: Callable[[], Master],
        closed: Callable[[], str],
    ) -> None:
        """
        @param closed: why nothing more is appended, if this node leaves.
        """
        self._stores, self._card, self._lifecycle, self._master = stores, card, lifecycle, master
        self.node, self.cluster = card.state.node, card.state.cluster
        self.key = card.badge.key.id
        self.declared = Declared()
        self._fold()
        own = self.membership.find(self.key)
        self.rights = own.rights if own is not None else RIGHTS
        self.holds = bool(stores.config.cluster_pillar) and PILLAR in self.rights
        self.log = self._log()
        self.peers = self._peers()
        self.shipping = Shipping(
            self.node,
            self.log,
            self.peers,
            stores.reactor,
            on_refused=AwayTooLong(stores.reactor, lifecycle.removed, stores.bus.fire),
        )
        self.own = OwnFacts(self.log, self.shipping, self.peers, self.others, closed)
        self.session_secrets = SessionSecrets(self.secrets, self.keyset)
        self.catch_up = self._catch_up()
        self.keys = self._keys()
        self.minions = MinionData(
            stores.reactor,
            stores.cache,
            self._minions,
            self.own.append,
            self.holds,
            lambda: self.membership.all_may(PILLAR),
        )
        self.logins = self._logins()
        self.schedule = ClusterSchedule(
            self._scheduled,
            self.own.append,
            self.folds.listen,
            self.own.settled,
            lambda: self.log.problem,
            stores.schedule,
        )
        self.standstill = self._standstill()
        self.drift = Drift(stores.reactor, self.node, self.peers, stores.config, self.others)
        self.clocks = Clocks(
            stores.reactor, self.node, self.peers, self.others, stores.now, boottime
        )
        self.ring = self._ring()

    def others(self) -> list[str]:
        """The other members, linked or not."""
        return self.membership.others(self.key)

    def _fold(self) -> None:
        """What the facts add up to, with those that came with the join."""
        self.membership, self.tokens, self.secrets = Membership(), Tokens(), Secrets()
        self.keyset, self._minions, self._login_tokens = KeySet(), Minions(), LoginTokens()
        self._scheduled = ScheduleFacts()
        self.folds = Folds(
            [
                self.membership,
                self.tokens,
                self.secrets,
                self.keyset,
                self._minions,
                self._login_tokens,
                self._scheduled,
                self.declared,
            ]
        )
        self.folds.apply_facts(self._card.facts)

    def _log(self) -> ReplicaLog:
        stores = self._stores
        return ReplicaLog(
            stores.reactor,
            self._lifecycle.files.log_path,
            self.node,
            self.folds,
            stores.entropy,
            stores.now,
            lambda: self.shipping.machine.caught_up.issuperset(self.others()),
        )

    def _peers(self) -> Peers:
        stores = self._stores
        return Peers(
            stores.reactor,
            self.node,
            self.cluster,
            self._card.badge,
            self.membership,
            random.SystemRandom().random,
            stores.entropy,
            self._lifecycle.settings.port,
            stores.counters,
            stores.now,
        )

    def _catch_up(self) -> CatchUp:
        config, card = self._stores.config, self._card
        wait = float(config.catchup_wait)
        return CatchUp(
            clock=self._stores.reactor,
            peers=self.peers,
            others=self.others,
            caught_up_with=self.shipping.machine.peers.caught_up_with,
            digests=self.log.digests,
            verified=card.state.verified,
            now_verified=self._lifecycle.verified,
            wait=min(AGAIN_WAIT, wait) if card.again else wait,
            alone=bool(config.serve_alone),
        )

    def _keys(self) -> KeyReplica:
        stores = self._stores
        return KeyReplica(
            clock=stores.reactor,
            node=self.node,
            cluster=self.cluster,
            marker=os.path.join(os.path.dirname(self.log.path), "keys-replicated"),
            keys=stores.keys,
            keyset=self.keyset,
            append=self.own.append,
            listen=self.folds.listen,
            alarm=stores.bus.fire,
            confirmed=self.own.settled,
            problem=lambda: self.log.problem,
        )

    def _logins(self) -> ClusterTokens:
        stores = self._stores
        return ClusterTokens(
            stores.reactor,
            self._login_tokens,
            self.own.append,
            self.log.latest,
            lambda: self.tokens.epoch,
            self.own.settled,
            lambda: self.catch_up.done,
            lambda: self.standstill.look(),
            self.others,
            self.node,
            stores.tokens,
            lambda: self.log.problem,
        )

    def _standstill(self) -> Standstill:
        return Standstill(
            self._stores.reactor,
            self.peers,
            self.log.knowledge,
            lambda: not self.keys.waiting,
            lambda frame, peer, reply: self._master().requests.handle(frame, peer, reply),
            float(self._stores.config.catchup_wait),
        )

    def _ring(self) -> Ring:
        config = self._stores.config
        ports = (config.publish_port, config.ret_port, config.cluster_pool_port)
        return Ring(
            self.node,
            self.peers,
            self.membership,
            [int(each) for each in ports],
            partial(reaches, self._stores.reactor),
        )
