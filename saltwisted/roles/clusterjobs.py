"""
The parts of C{--role cluster} that carry jobs, returns, events, presence and the publish key.

Introduces L{saltwisted.cluster} to the stores and the master; nothing is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

from saltwisted.cluster.facts.rotation import ClusterRotation
from saltwisted.cluster.jobs.acknowledging import Acknowledging
from saltwisted.cluster.jobs.care import JobCare
from saltwisted.cluster.jobs.events import Events, is_row
from saltwisted.cluster.jobs.forward import Forward
from saltwisted.cluster.jobs.presence import ClusterPresence
from saltwisted.cluster.life.drain import Drain
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.replica.secrets import PUBLISH
from saltwisted.roles.clusterfacts import ClusterFacts
from saltwisted.roles.master import Master
from saltwisted.roles.stores import Stores
from saltwisted.wire.crypticle import SessionKey


class ClusterJobs:
    """
    Builds the parts; C{parts} start when this node has caught up, before the ports are open.

    @ivar shipping: of jobs and returns; to be started before the links.

    @param master: C{master()}: the master beside it, which is asked when it has been built.
    """

    def __init__(self, stores: Stores, facts: ClusterFacts, master: Callable[[], Master]) -> None:
        self._stores, self._facts, self._master = stores, facts, master
        self._jobs = stores.job_log()
        self.shipping = Shipping(facts.node, self._jobs.replica, facts.peers, stores.reactor)
        self.presence = ClusterPresence(
            stores.reactor,
            stores.now,
            facts.node,
            facts.peers,
            lambda: master().ctx.presence.perhaps(stores.keys.accepted_ids()),
            lambda ids: master().ctx.presence.here(ids),
            lambda minion_id: self.forward.arrived(minion_id),
        )
        self.acknowledging = self._acknowledging()
        self.forward = self._forward()
        self.care = JobCare(
            stores.reactor,
            self._jobs,
            facts.peers,
            facts.others,
            self.shipping.machine.peers.has_all_of,
            Random(),  # noqa: S311 - spreads load
        )
        self._jobs.health.on_anew.extend((self.acknowledging.begun_anew, self.shipping.begun_anew))
        self.events = Events(
            stores.reactor,
            facts.node,
            os.urandom(8).hex(),
            stores.bus,
            facts.peers,
            partial(is_row, bool(stores.config.job_cache)),
            stores.counters,
            in_thread=stores.crypto_threads.run,
        )
        self.rotation = self._rotation()
        facts.folds.listen("secret", lambda changes: self.rotation.changed())
        self.parts: list[Any] = [
            self.rotation,
            self.presence,
            self.forward,
            self.events,
            self.care,
        ]

    def _acknowledging(self) -> Acknowledging:
        stores, facts = self._stores, self._facts
        return Acknowledging(
            stores.reactor,
            facts.node,
            self._jobs,
            lambda: len(facts.peers.links()),
            stores.counters,
            int(stores.config.return_copies),
            facts.others,
            stores.crypto_threads.run,
        )

    def _forward(self) -> Forward:
        stores, facts = self._stores, self._facts
        return Forward(
            clock=stores.reactor,
            node=facts.node,
            bus=stores.bus,
            peers=facts.peers,
            jobs=self._jobs,
            holders=self.presence,
            returns=self.acknowledging,
            publish=stores.publisher.publish,
            counters=stores.counters,
            window=float(stores.config.publish_window),
            in_thread=stores.crypto_threads.run,
        )

    def _rotation(self) -> ClusterRotation:
        stores, facts, master = self._stores, self._facts, self._master

        def make() -> Awaitable[Any]:
            value = SessionKey.generate(stores.entropy).text.encode()
            return facts.own.append("secret", facts.secrets.next_body(PUBLISH, value, stores.now()))

        return ClusterRotation(
            stores.reactor,
            facts.peers,
            stores.publisher,
            lambda: facts.secrets.versions(PUBLISH),
            make,
            lambda: master().ctx.signins.settled(),
            lambda: master().ctx.dispatcher.announce_next_key(),
            lambda: master().key_is_new(),
        )

    def drain(self) -> Drain:
        """What this node does with its minions and their returns before it leaves."""
        master = self._master
        return Drain(
            clock=self._stores.reactor,
            peers=self._facts.peers,
            where=self.presence,
            rows=self._jobs.replica.told,
            live=lambda: master().ctx.sessions.live(),
            under_way=self.forward.under_way,
            running=lambda *asked: master().ctx.dispatcher.ask_running(*asked),
            take_no_jobs=lambda why: master().ctx.dispatcher.close(why),
            answer_nobody=lambda: master().requests.close(),
        )
