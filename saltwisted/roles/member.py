"""
A member of a cluster: stores, what stands beside a master, and the master.

L{Cluster} is made on the stores and gives the seams that the master is built with. What of the
cluster asks something of the master does so when it runs, by C{master()}. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from saltwisted.cluster.control import ClusterControl, views
from saltwisted.cluster.facts.identity import IdentityChange
from saltwisted.cluster.facts.keyview import KeyView
from saltwisted.cluster.facts.upkeep import Upkeep
from saltwisted.cluster.life.acts import MemberActs
from saltwisted.cluster.life.condition import Condition
from saltwisted.cluster.life.drift import option_of
from saltwisted.cluster.life.gate import MemberGate
from saltwisted.cluster.life.join import Admission
from saltwisted.cluster.life.keptmembership import KeptMembership
from saltwisted.cluster.life.lifecycle import Lifecycle, MemberCard
from saltwisted.cluster.life.member import ClusterMember
from saltwisted.cluster.life.miniontokens import MinionTokens
from saltwisted.cluster.life.roster import Roster
from saltwisted.cluster.life.secretscare import SecretsCare
from saltwisted.cluster.life.vouching import Vouching
from saltwisted.cluster.links.census import CensusTaker
from saltwisted.cluster.roots.control import BY_WORD
from saltwisted.config.options import MasterConfig
from saltwisted.domain.replica.joining import Attempts
from saltwisted.master.seams import Seams
from saltwisted.roles.base import OrderedService
from saltwisted.roles.clusterclaims import ClusterClaimParts
from saltwisted.roles.clusterfacts import ClusterFacts
from saltwisted.roles.clustergit import ClusterGit
from saltwisted.roles.clusterjobs import ClusterJobs
from saltwisted.roles.clusterroots import ClusterRoots
from saltwisted.roles.master import Master, Rows
from saltwisted.roles.stores import Stores
from saltwisted.stores.identity import is_pair, new_pair, own_pair
from saltwisted.transports.deferreds import as_deferred
from saltwisted.transports.localdoor import Doorway
from saltwisted.wire.rsa import fingerprint


class Cluster:
    """
    What stands beside the master of a member.

    @ivar seams: what the master is built with.
    @ivar member: its membership.
    """

    def __init__(
        self,
        stores: Stores,
        card: MemberCard,
        lifecycle: Lifecycle,
        master: Callable[[], Master],
    ) -> None:
        self._stores, self._card, self._lifecycle, self._master = stores, card, lifecycle, master
        self.facts = ClusterFacts(stores, card, lifecycle, master, lambda: self.acts.closed)
        self.jobs = ClusterJobs(stores, self.facts, master)
        self.roots = ClusterRoots(stores, self.facts, master, lambda: self.git.views)
        self.claims = ClusterClaimParts(stores, self.facts, self.jobs.presence.is_elsewhere)
        self.condition = self._condition()
        self.admission = self._admission()
        self.roster = self._roster()
        self.secrets_care = self._secrets_care()
        self.vouching = Vouching(
            self.facts.node, self.facts.secrets, lambda: lifecycle.settings.hosts, stores.now
        )
        self.minion_tokens = self._minion_tokens()
        self.acts = self._acts()
        self.member = self._member()
        self._introduce()
        self.git = ClusterGit(stores, self.facts, self.claims.claims, master)
        self.seams = self._seams()

    def _seams(self) -> Seams:
        facts, jobs = self.facts, self.jobs
        return Seams(
            key_changes=facts.keys,
            voucher=self.minion_tokens,
            secrets=facts.session_secrets,
            tokens=facts.logins,
            schedule=facts.schedule,
            agreement=jobs.rotation,
            hearer=jobs.forward,
            acknowledging=jobs.acknowledging,
            whereabouts=jobs.presence,
            pins=self.roots.pins,
            pillars=self.roots.relay,
            masters=self.member,
            vouching=self.vouching,
            gate=facts.standstill,
            git=self.git.sharing,
            prune_time=facts.clocks,
            claims=self.claims.claims,
            kept=self._stores.kept(
                facts.node, facts.peers, self.claims.claims, self.claims.claims.would_claim
            ),
            orchestrations=self._stores.orchestrations(
                facts.node,
                self.claims.claims,
                facts.peers,
                self.claims.electors,
                facts.clocks,
                self.roots.pins,
            ),
        )

    def _introduce(self) -> None:
        """Who hears of what."""
        sync, lifecycle = self.roots.sync, self._lifecycle
        self.jobs.forward.on_return.append(self.roots.pins.returned_elsewhere)
        self.facts.folds.listen("secret", lambda changes: self.vouching.changed())
        self.facts.clocks.on_compared.append(sync.streams.clocks_compared)
        sync.news.on_stranded.append(
            lambda name: lifecycle.build_anew(f"{name} is ahead of all nodes that may write")
        )
        sync.news.on_damaged.append(
            lambda name: lifecycle.build_anew(f"the index of {name} is damaged on disk")
        )

    def _condition(self) -> Condition:
        stores, master = self._stores, self._master
        return Condition(
            uptime=lambda: master().uptime(),
            is_open=lambda: master().ports.open,
            minions=lambda: len(master().ctx.presence.here(stores.keys.accepted_ids())),
            problems=lambda: master().problems(),
            knowledge=self.facts.log.knowledge,
            catch_up=self.facts.catch_up,
            keys=self.facts.keys,
            roots=self.roots,
        )

    def _admission(self) -> Admission:
        stores, facts, config = self._stores, self.facts, self._stores.config
        identity = partial(own_pair, config.pki_dir)
        return Admission(
            node=facts.node,
            cluster=facts.cluster,
            key=facts.key,
            clock=stores.reactor,
            now=stores.now,
            entropy=stores.entropy,
            membership=facts.membership,
            tokens=facts.tokens,
            secrets=facts.secrets,
            log_append=facts.own.append,
            identity=identity,
            fingerprint=lambda: fingerprint(identity()[1], config.hash_type),
            minions=lambda: len(stores.keys.accepted_ids()),
            cluster_secret=self._lifecycle.settings.cluster_secret,
            alarm=stores.bus.fire,
            ask_peers=lambda word, body, seconds: self.roster.ask_peers(word, body, seconds),
            census=CensusTaker(
                stores.reactor, stores.keys, self.roots.generations, partial(option_of, config)
            ).take,
            attempts=Attempts(),
            is_linked=lambda node: any(link.node == node for link in facts.peers.links()),
        )

    def _identity(self) -> IdentityChange:
        stores, facts, config = self._stores, self.facts, self._stores.config
        return IdentityChange(
            files=self._lifecycle.files,
            secrets=facts.secrets,
            own=partial(own_pair, config.pki_dir),
            key=stores.identity.key,
            generate=partial(new_pair, config),
            in_thread=stores.crypto_threads.run,
            append=facts.own.append,
            settled=facts.own.settled,
            void_tokens=partial(facts.tokens.void_body, stores.entropy),
            fits=partial(is_pair, config),
            adopt=self._lifecycle.change_identity,
            show=stores.identity.hand_over,
            minions=self._minions,
            now=stores.now,
            entropy=stores.entropy,
            hash_type=config.hash_type,
        )

    def _roster(self) -> Roster:
        facts = self.facts
        return Roster(
            key=facts.key,
            membership=facts.membership,
            peers=facts.peers,
            status=self.condition.status,
            lags=self.lags,
            holders=self._holders,
            now=self._stores.now,
        )

    def _secrets_care(self) -> SecretsCare:
        stores, facts, master = self._stores, self.facts, self._master
        return SecretsCare(
            card=self._card,
            secrets=facts.secrets,
            peers=facts.peers,
            port=self._lifecycle.port,
            append=facts.own.append,
            end_sessions=lambda: master().ctx.sessions.end_all(),
            session_period=float(stores.config.publish_session) / 2,
            now=stores.now,
            entropy=stores.entropy,
        )

    def _minion_tokens(self) -> MinionTokens:
        facts = self.facts
        return MinionTokens(
            tokens=facts.tokens,
            append=facts.own.append,
            is_revoked=facts.keyset.is_revoked,
            deny_minion=facts.keyset.denial,
            now=self._stores.now,
        )

    def _acts(self) -> MemberActs:
        stores, facts = self._stores, self.facts
        return MemberActs(
            reactor=stores.reactor,
            card=self._card,
            membership=facts.membership,
            tokens=facts.tokens,
            secrets=facts.secrets,
            secrets_care=self.secrets_care,
            peers=facts.peers,
            admission=self.admission,
            append=facts.own.append,
            settled=facts.own.settled,
            status=self.condition.status,
            drain=self.jobs.drain(),
            fire=stores.bus.fire,
        )

    def _member(self) -> ClusterMember:
        stores, facts = self._stores, self.facts
        return ClusterMember(
            reactor=stores.reactor,
            card=self._card,
            lifecycle=self._lifecycle,
            membership=facts.membership,
            tokens=facts.tokens,
            peers=facts.peers,
            admission=self.admission,
            identity=self._identity(),
            acts=self.acts,
            roster=self.roster,
            gate=self._gate(),
            kept=self._kept(),
            secrets_care=self.secrets_care,
            minion_tokens=self.minion_tokens,
            append=facts.own.append,
            listen=facts.folds.listen,
            settled=facts.own.settled,
            unwritten=lambda: facts.log.problem,
            set_slot=stores.jids.take_slot,
            fire=stores.bus.fire,
            rights=facts.rights,
            now=stores.now,
            entropy=stores.entropy,
        )

    def _gate(self) -> MemberGate:
        facts = self.facts
        return MemberGate(
            key=facts.key,
            membership=facts.membership,
            peers=facts.peers,
            admission=self.admission,
            now=self._stores.now,
        )

    def _kept(self) -> KeptMembership:
        facts, stores = self.facts, self._stores
        return KeptMembership(
            reactor=stores.reactor,
            membership=facts.membership,
            secrets=facts.secrets,
            tokens=facts.tokens,
            files=self._lifecycle.files,
            in_thread=stores.files_threads.start,
        )

    def _minions(self) -> tuple[Sequence[str], Sequence[str]]:
        """Those that are accepted, and those of them that are here or at another member."""
        accepted = self._stores.keys.accepted_ids()
        return sorted(accepted), sorted(self._master().ctx.presence.present(accepted))

    async def _holders(self) -> Mapping[str, str]:
        await self.jobs.presence.refresh()
        return self.jobs.presence.holders()

    def lags(self, node: str) -> dict[str, Any]:
        """Entries that a member has yet to have; C{None} where that is not known."""
        return {
            "keys": self.facts.shipping.machine.peers.lacks(node),
            "returns": self.jobs.shipping.machine.peers.lacks(node),
        }

    def jobs_heard(self) -> bool:
        """Whether all other members have said since this start what jobs they know."""
        return self.jobs.shipping.machine.greeted.issuperset(self.facts.others())

    def rows(self) -> list[Rows]:
        """The operations that the node has beside those of a master."""
        facts, control = self.facts, self.roots.control
        shown = KeyView(facts.keyset, self._stores.config.hash_type)
        return [
            (views(facts.drift, facts.ring, shown), {}),
            (control.operations(), BY_WORD),
        ]

    def parts(self) -> list[Any]:
        """In the order of their start: the ports come after them."""
        facts, jobs = self.facts, self.jobs
        return [
            facts.log,
            Upkeep(self._stores.reactor, facts.log),
            facts.minions,
            facts.logins,
            facts.schedule,
            facts.shipping,
            jobs.shipping,
            self.member,
            facts.drift,
            # Before the start has ended: it may be stopped meanwhile, and then knows too little
            facts.standstill,
            facts.catch_up,
            facts.keys,
            *jobs.parts,
            *self.roots.parts,
            facts.clocks,
            *self.claims.parts,
            self.git.sharing,
        ]


class MemberService:
    """
    A member, for the lifecycle.

    @ivar beside: what stands beside its master.
    @ivar cluster: its membership, for questions.
    """

    def __init__(
        self,
        reactor: Any,
        config: MasterConfig,
        card: MemberCard,
        lifecycle: Lifecycle,
        control: ClusterControl,
        doorway: Doorway,
    ) -> None:
        stores = Stores(reactor, config, card.state.node, lambda: self.beside.jobs_heard())
        self.beside = Cluster(stores, card, lifecycle, lambda: self.master)
        self.cluster = self.beside.member
        self.master = Master(
            stores,
            self.beside.seams,
            [(control.operations(), {}), *self.beside.rows()],
            {"facts": self.beside.facts.log},
            doorway,
        )
        # A node that is stopped closes its doors before it closes its links
        parts = [*self.master.below, *self.beside.parts(), *self.master.doors]
        self._service = OrderedService(
            reactor, parts, failed=self._failed, started=self.master.started, inner=True
        )
        self._error: BaseException | None = None

    # What the lifecycle asks

    async def startService(self) -> None:
        """
        Start all parts; returns when minions are served.

        @raises BaseException: whatever kept a part from starting.
        """
        await as_deferred(self._service.startService())
        if self._error is not None:
            raise self._error

    def stopService(self) -> Any:
        """Stop all parts."""
        return self._service.stopService()

    def _failed(self, error: BaseException) -> None:
        self._error = error

    def others(self) -> list[str]:
        """The other members."""
        return self.beside.facts.others()

    def waiting(self) -> str:
        """Why the node does not answer minions on both ports; empty if it does."""
        return self.beside.condition.waiting()

    def problems(self) -> list[str]:
        """Which stores cannot write, and why."""
        return self.beside.condition.said()

    def figures(self) -> dict[str, Any]:
        """This node's figures for metrics."""
        beside = self.beside
        linked = {link.node for link in beside.facts.peers.links()}
        others, report = sorted(self.others()), beside.roots.sync.report
        peers = report.peers()
        return {
            **self.master.figures(),
            "role": "cluster",
            "serving": not self.waiting(),
            "links": {node: float(node in linked) for node in others},
            "lag": {node: beside.lags(node) for node in others},
            "drift": {option: len(nodes) for option, nodes in self.drift().items()},
            **report.figures(),
            "roots_received": {node: row["bytes_in"] for node, row in peers.items()},
            "roots_sent": {node: row["bytes_out"] for node, row in peers.items()},
        }

    def work(self) -> list[dict[str, Any]]:
        """Long operations in progress, for people who wait."""
        return self.beside.roots.sync.report.work()

    def drift(self) -> dict[str, list[str]]:
        """Option to the members whose value differs, without the values."""
        return self.beside.facts.drift.differing()

    def claims(self) -> dict[str, Any]:
        """Who has which duty, and why nothing is claimed."""
        return self.master.claim_views.status()

    def plan_declare_dead(self, node: str) -> dict[str, Any]:
        """
        What L{declare_dead} will say.

        @raises DeniedError: no such member, or it lives.
        """
        return self.beside.claims.seats.plan_declare_dead(self.beside.member.acts.find(node))

    async def declare_dead(self, node: str, by: str) -> dict[str, Any]:
        """
        A member does not count for majorities.

        @raises DeniedError: no such member, or it lives.
        """
        return await self.beside.claims.seats.declare_dead(self.beside.member.acts.find(node), by)

    def progress(self) -> Any:
        """A value that changes as long as the start makes progress."""
        return self.beside.condition.progress()

    def reconfigure(self, names: Iterable[str]) -> None:
        """Options have new values: pillars are compiled again."""
        self.master.reconfigure(names)
