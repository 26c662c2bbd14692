"""
The parts of C{--role cluster} that carry jobs, returns, events, presence and the publish key.

Introduces L{saltwisted.cluster} to the master's context; nothing is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

from saltwisted.cluster.facts.rotation import ClusterRotation
from saltwisted.cluster.jobs.care import JobCare
from saltwisted.cluster.jobs.events import Events
from saltwisted.cluster.jobs.forward import Forward
from saltwisted.cluster.jobs.presence import ClusterPresence
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.replica.secrets import PUBLISH, Secrets
from saltwisted.interfaces import IPeers
from saltwisted.roles.master import Master
from saltwisted.wire.crypticle import SessionKey

GATHER = 0.005
"""Seconds for which returns are collected under load before they go to the other nodes."""


class ClusterJobs:
    """
    Builds the parts; C{parts} start when this node has caught up, before the ports are open.

    @ivar shipping: of jobs and returns; to be started before the links.

    @param append: C{append(kind, body)} of the fact log.
    @param listen: C{listen(kind, receiver)}: of changes of facts.
    @param others: the other members.
    """

    def __init__(
        self,
        master: Master,
        node: str,
        peers: IPeers,
        secrets: Secrets,
        append: Callable[[str, Mapping[str, Any]], Awaitable[Any]],
        listen: Callable[[str, Callable[[Sequence[Any]], None]], None],
        others: Callable[[], Sequence[str]],
    ) -> None:
        reactor = master.reactor
        ctx = master.ctx
        config = ctx.config
        master.jobs.node = node
        master.jobs.replica.gather = GATHER
        self.shipping = Shipping(node, master.jobs.replica, peers, reactor)
        self.presence = ClusterPresence(
            reactor,
            ctx.now,
            node,
            peers,
            lambda: ctx.presence.perhaps(ctx.keys.accepted_ids()),
            ctx.presence.here,
        )
        self.forward = Forward(
            clock=reactor,
            node=node,
            bus=ctx.bus,
            peers=peers,
            jobs=master.jobs,
            holders=self.presence,
            publish=ctx.publisher.publish,
            counters=ctx.counters,
            window=float(config.publish_window),
            copies=int(config.return_copies),
        )
        self.care = JobCare(
            reactor,
            master.jobs,
            peers,
            others,
            self.shipping.machine.has_all_of,
            Random(),  # noqa: S311 - spreads load
        )
        master.jobs.on_anew += [self.forward.begun_anew, self.shipping.begun_anew]
        self.events = Events(
            reactor, node, os.urandom(8).hex(), ctx.bus, peers, self._is_kept, ctx.counters
        )

        def make() -> Awaitable[Any]:
            value = SessionKey.generate(ctx.entropy).text.encode()
            return append("secret", secrets.next_body(PUBLISH, value, ctx.now()))

        self.rotation = ClusterRotation(
            reactor,
            peers,
            ctx.publisher,
            lambda: secrets.versions(PUBLISH),
            make,
            ctx.signins.settled,
            ctx.dispatcher.announce_next_key,
            master.key_is_new,
        )
        listen("secret", lambda changes: self.rotation.changed())
        self._job_cache = bool(config.job_cache)
        self.presence.arrived = self.forward.arrived
        ctx.sessions.on_arrival.append(self.presence.came)
        ctx.presence.elsewhere = self.presence.elsewhere
        ctx.presence.refresh = self.presence.refresh
        ctx.job_published = self.forward.job_published
        ctx.return_stored = self.forward.return_stored
        ctx.repeated = self.forward.repeated
        ctx.unreached = self.forward.unreached
        ctx.rotation.agree = self.rotation.request
        self.parts: list[Any] = [
            self.rotation,
            self.presence,
            self.forward,
            self.events,
            self.care,
        ]

    def _is_kept(self, data: Mapping[str, Any]) -> bool:
        """Whether a return comes to the others as a row of the job cache."""
        return self._job_cache and data.get("jid") != "nocache" and not data.get("nocache")
