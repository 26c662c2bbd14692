"""
C{--role cluster}: a master with peers, from the parts of L{saltwisted.roles.master} and C{cluster}.

A node goes through phases (L{saltwisted.cluster.life.lifecycle}); as a member it is built here.
Nothing is decided here.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from saltwisted import __version__
from saltwisted.cluster.control import ClusterControl, views, waiting_room
from saltwisted.cluster.facts.identity import IdentityChange
from saltwisted.cluster.facts.keyview import KeyView
from saltwisted.cluster.facts.logins import ClusterTokens
from saltwisted.cluster.facts.minions import MinionData
from saltwisted.cluster.facts.replicate import KeyReplica
from saltwisted.cluster.facts.upkeep import AwayTooLong, Upkeep
from saltwisted.cluster.life.catchup import CatchUp
from saltwisted.cluster.life.drain import drained, returned
from saltwisted.cluster.life.drift import Drift, option_of
from saltwisted.cluster.life.join import Admission
from saltwisted.cluster.life.lifecycle import Lifecycle, MemberCard, Settings
from saltwisted.cluster.life.member import ClusterMember
from saltwisted.cluster.life.standstill import Standstill, boottime
from saltwisted.cluster.links.census import CensusTaker
from saltwisted.cluster.links.clocks import Clocks
from saltwisted.cluster.links.peers import Peers, join_address
from saltwisted.cluster.links.ring import Ring, reaches
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.config.options import MasterConfig
from saltwisted.domain.replica.acceptance import acceptance_number
from saltwisted.domain.replica.fold import Folds
from saltwisted.domain.replica.joining import Attempts, weak_secret
from saltwisted.domain.replica.keyset import KeySet
from saltwisted.domain.replica.logins import LoginTokens
from saltwisted.domain.replica.membership import PILLAR, RIGHTS, Membership
from saltwisted.domain.replica.minions import Minions
from saltwisted.domain.replica.secrets import Secrets
from saltwisted.domain.replica.tokens import Tokens
from saltwisted.domain.roots.manifest import Generation
from saltwisted.errors import ConfigError, StoreError
from saltwisted.roles.banner import Banner
from saltwisted.roles.base import OrderedService
from saltwisted.roles.clusterjobs import ClusterJobs
from saltwisted.roles.clusterpillar import PillarRelay
from saltwisted.roles.clusterroots import ClusterRoots
from saltwisted.roles.ending import giving_up
from saltwisted.roles.logs import observer
from saltwisted.roles.master import SOCKET, Master
from saltwisted.roles.memory import tune_malloc
from saltwisted.roles.notify import StatusLine, tell_status
from saltwisted.roles.privileges import become, check_owner, keep_memory, restrict_umask
from saltwisted.roles.reload import MASTER_BUILT_IN, Reload
from saltwisted.stores.facts.log import ReplicaLog
from saltwisted.stores.facts.node import NodeFiles
from saltwisted.stores.files import make_dir
from saltwisted.stores.keys import KeyStore
from saltwisted.transports.deferreds import as_deferred
from saltwisted.transports.ipc import ControlServer
from saltwisted.transports.localdoor import LocalDoor
from saltwisted.wire.rsa import PrivateKey, fingerprint
from saltwisted.worker.grains.netinfo import interfaces
from saltwisted.worker.process.configio import load_from_disk

SETTLE_TIME = 2.0
"""Seconds that a change waits for the members that are reachable to confirm it."""
DRAIN_TIME = 10.0
"""Seconds that a node which leaves waits until others have its jobs and returns."""
RETURN_TIME = 30.0
"""Seconds that it waits for returns of minions that run a job."""
AGAIN_WAIT = 2.0
"""Seconds that a member waits for those that were away already when it began again."""
MOST_ADDRESSES = 8
CONTAINERS = ("docker", "br-", "veth", "virbr", "cni", "lxc", "lxdbr", "podman")
"""Beginnings of names of interfaces that lead to guests of this machine alone."""
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def build(reactor: Any, config_dir: str | None, log_level: str | None) -> OrderedService:
    """
    A node, ready to be started by twistd.

    @raises ConfigError: when the configuration cannot work.
    @raises StoreError: when the node's files cannot be read or made.
    """
    loaded = load_from_disk("master", config_dir)
    config = loaded.master
    check(config)
    restrict_umask()
    become(config.user)
    keep_memory()
    check_owner(config)
    tune_malloc()
    logs = observer(config, log_level, os.environ)
    node = Node(reactor, config)
    return OrderedService(
        reactor,
        [
            Banner(config, loaded.sources, loaded.warnings, "cluster node"),
            node,
            StatusLine(reactor, node.lifecycle.summary),
        ],
        failed=giving_up(reactor),
        observer=logs,
        reload=Reload(
            node.config,
            lambda: load_from_disk("master", config_dir),
            deferToThread,
            MASTER_BUILT_IN,
            node.reconfigure,
            logs,
            log_level,
        ),
    )


def check(config: MasterConfig) -> None:
    """
    Refuse what cannot work as a cluster.

    @raises ConfigError: with what to write instead.
    """
    if config.cluster_secret is not None:
        reason = weak_secret(str(config.cluster_secret))
        if reason:
            raise ConfigError(
                f"{reason}; make one by: head -c 32 /dev/urandom | base64, or leave it out and "
                "let nodes join by 'saltwisted token create'"
            )
    if config.cluster_key_pass and config.cluster_key_pass != config.key_pass:
        raise ConfigError(
            "cluster_key_pass: the cluster's identity key is pki_dir/master.pem here; set key_pass "
            "to the same"
        )
    if config.return_copies not in (1, 2):
        raise ConfigError(
            f"return_copies: {config.return_copies}: use 1 or 2: a return is acknowledged when "
            "so many nodes have it. All nodes get it afterwards in any case"
        )
    if config.cluster_peers and config.cluster_secret is None:
        raise ConfigError(
            "cluster_peers without cluster_secret: nodes could not prove who they are. Set "
            "cluster_secret on all of them, or leave both out and let nodes join with "
            "'saltwisted token create' and 'saltwisted join'"
        )


def settings_of(config: MasterConfig) -> Settings:
    """What the configuration says of the cluster."""
    return Settings(
        node=config.id,
        interface=config.interface,
        port=int(config.cluster_pool_port),
        peers=tuple(str(peer) for peer in config.cluster_peers if str(peer) != config.id),
        cluster_secret=str(config.cluster_secret or ""),
        pinned=str(config.cluster_pub_fingerprint or ""),
        **where_of(config),
    )


def where_of(config: MasterConfig) -> dict[str, Any]:
    """Where others and minions reach this node, as its network is now."""
    if config.interface in EVERYWHERE:
        hosts = own_hosts(primary_address(), interfaces(), bool(config.ipv6))
    else:
        hosts = [config.interface]
    port = int(config.cluster_pool_port)
    return {
        "addresses": tuple(join_address(host, port) for host in hosts[:1]),
        "also": tuple(join_address(host, port) for host in hosts[1:]),
        "serves": join_address(hosts[0], int(config.ret_port)) if hosts else "",
    }


def own_hosts(primary: str, links: Mapping[str, Mapping[str, Any]], ipv6: bool) -> list[str]:
    """
    The addresses of this machine, best first: that of its default route, then those of its
    interfaces that are up. What is only good on this machine or this cable is none.
    """
    found = [primary] if primary else []
    for name, link in links.items():
        if link.get("up") and not name.startswith(CONTAINERS):
            for family in ("inet", "inet6") if ipv6 else ("inet",):
                found += [str(one["address"]) for one in link.get(family, ())]
    usable = (one for one in dict.fromkeys(found) if _is_reachable(one))
    return list(usable)[:MOST_ADDRESSES]


def _is_reachable(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def primary_address() -> str:
    """The address of this machine by which it reaches others; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return ""


class Node:
    """What twistd starts: the lifecycle, and a control socket while no member has one."""

    name = "cluster node"

    def __init__(self, reactor: Any, config: MasterConfig) -> None:
        make_dir(config.pki_dir)
        node_files = NodeFiles(config.pki_dir)
        if config.cluster_id and config.cluster_pki_dir:
            node_files.take_over(config.cluster_pki_dir)
        self.config = own_config(config)
        self._reactor = reactor
        self._room: ControlServer | None = None
        self.lifecycle = Lifecycle(
            reactor=reactor,
            settings=settings_of(config),
            where=partial(where_of, config),
            files=node_files,
            build=self._build,
            local=self._local,
            room=self._open_room,
            entropy=os.urandom,
            now=time.time,
            dice=random.SystemRandom().random,
            fingerprint_of=lambda pem: fingerprint(pem, self.config.hash_type),
            fatal=giving_up(reactor),
            still_starting=partial(tell_status, still_starting=True),
        )
        self._control = ClusterControl(self.lifecycle)

    def startService(self) -> Any:
        """Go into the phase that the disk says."""
        return Deferred.fromCoroutine(self.lifecycle.startService())

    def stopService(self) -> Any:
        """Leave it."""
        return Deferred.fromCoroutine(self.lifecycle.stopService())

    def reconfigure(self, names: Iterable[str]) -> None:
        """Options have new values; a member's pillars are compiled again."""
        master = getattr(self.lifecycle.member, "master", None)
        if isinstance(master, Master):
            master.ctx.pillars.reconfigure()

    def _build(self, card: MemberCard) -> MemberService:
        return MemberService(self._reactor, self.config, card, self.lifecycle, self._control)

    def _local(self) -> dict[str, Any]:
        """The identity and the accepted minions in this master's own directories."""
        public = os.path.join(self.config.pki_dir, "master.pub")
        try:
            with open(public, "rb") as file:
                own = fingerprint(file.read(), self.config.hash_type)
        except FileNotFoundError:
            own = ""
        except OSError as error:
            raise StoreError(error.strerror or str(error), public) from error
        keys = KeyStore(self.config.pki_dir)
        keys.open()
        return {"fingerprint": own, "minions": len(keys.accepted_ids())}

    async def _open_room(self, is_open: bool) -> None:
        room, self._room = self._room, None
        if room is not None:
            await room.stopService()
        if is_open:
            path = os.path.join(self.config.sock_dir, SOCKET)
            table = waiting_room(self._control, self._status)
            self._room = ControlServer(self._reactor, LocalDoor(table).handle, path)
            self._room.startService()

    def _status(self) -> dict[str, Any]:
        return {
            "role": "cluster",
            "id": self.config.id,
            "version": __version__,
            "pid": os.getpid(),
            "serving": False,
        }


def own_config(config: MasterConfig) -> MasterConfig:
    """The configuration of the master in the node: what its own peers are is the node's matter."""
    changed: MasterConfig = config.evolve(cluster_id=None, cluster_pki_dir=None)
    return changed


def new_pair(config: MasterConfig) -> tuple[bytes, bytes]:
    """A new key pair for the master, as files; takes up to seconds."""
    key = PrivateKey.generate(max(int(config.keysize), 2048))
    return key.pem(config.key_pass or None).encode(), (key.public.pem + "\n").encode()


class MemberService:
    """
    A member: a master, the logs, the links, and what they carry.

    @ivar cluster: its membership, for questions.
    """

    def __init__(
        self,
        reactor: Any,
        config: MasterConfig,
        card: MemberCard,
        lifecycle: Lifecycle,
        control: ClusterControl,
    ) -> None:
        node, now, entropy = card.state.node, time.time, os.urandom
        self.reactor = reactor
        self.lifecycle = lifecycle
        self.master = master = Master(reactor, config)
        ctx = master.ctx
        self.membership, self.tokens, self.secrets = Membership(), Tokens(), Secrets()
        self.keyset, minions = KeySet(), Minions()
        logins = LoginTokens()
        self.folds = Folds(
            [self.membership, self.tokens, self.secrets, self.keyset, minions, logins]
        )
        self.folds.apply_facts(card.facts)
        own = self.membership.find(card.badge.key.id)
        rights = own.rights if own is not None else RIGHTS
        holds = bool(config.cluster_pillar) and PILLAR in rights
        self.log = ReplicaLog(reactor, lifecycle.files.log_path, node, self.folds, entropy, now)
        self.peers = Peers(
            reactor,
            node,
            card.state.cluster,
            card.badge,
            self.membership,
            random.SystemRandom().random,
            entropy,
            lifecycle.settings.port,
            ctx.counters,
            now,
        )
        self.shipping = Shipping(node, self.log, self.peers, reactor)
        self._last: Any = None
        self.admission = Admission(
            node=node,
            cluster=card.state.cluster,
            key=card.badge.key.id,
            clock=reactor,
            now=now,
            entropy=entropy,
            membership=self.membership,
            tokens=self.tokens,
            secrets=self.secrets,
            log_append=self.append,
            identity=self._identity,
            fingerprint=lambda: fingerprint(self._identity()[1], config.hash_type),
            minions=lambda: len(ctx.keys.accepted_ids()),
            cluster_secret=lifecycle.settings.cluster_secret,
            alarm=ctx.bus.fire,
            ask_peers=lambda word, body, seconds: self.cluster.ask_peers(word, body, seconds),
            census=CensusTaker(
                reactor, ctx.keys, self._generations, partial(option_of, config)
            ).take,
            attempts=Attempts(),
        )
        identity = IdentityChange(
            files=lifecycle.files,
            secrets=self.secrets,
            own=self._identity,
            key=ctx.identity,
            generate=partial(new_pair, config),
            in_thread=master.crypto_threads.run,
            append=self.append,
            settled=self.settled,
            void_tokens=self.tokens.void_body,
            adopt=lifecycle.change_identity,
            show=ctx.signins.hand_over,
            minions=self._minions,
            now=now,
            entropy=entropy,
            hash_type=config.hash_type,
        )
        self.cluster = ClusterMember(
            reactor=reactor,
            card=card,
            lifecycle=lifecycle,
            membership=self.membership,
            tokens=self.tokens,
            secrets=self.secrets,
            peers=self.peers,
            admission=self.admission,
            identity=identity,
            append=self.append,
            listen=self.folds.listen,
            settled=self.settled,
            unwritten=lambda: self.log.problem,
            status=self.status,
            lags=self._lags,
            holders=self._holders,
            set_slot=self._set_slot,
            fire=ctx.bus.fire,
            in_thread=master.files_threads.start,
            is_revoked=self._is_revoked,
            end_sessions=ctx.sessions.end_all,
            drain=self._drain,
            deny_minion=self._deny_minion,
            session_period=float(config.publish_session) / 2,
            rights=rights,
            now=now,
            entropy=entropy,
        )
        heard = self.shipping.machine.caught_up
        self.log.heard = lambda: heard.issuperset(self.cluster.others())
        self.catch_up = CatchUp(
            clock=reactor,
            peers=self.peers,
            others=self.cluster.others,
            caught_up_with=self.shipping.machine.caught_up_with,
            digests=self.log.digests,
            verified=card.state.verified,
            now_verified=lifecycle.verified,
            wait=min(AGAIN_WAIT, config.catchup_wait) if card.again else float(config.catchup_wait),
            alone=bool(config.serve_alone),
        )
        self.keys = KeyReplica(
            clock=reactor,
            node=node,
            cluster=card.state.cluster,
            marker=os.path.join(os.path.dirname(self.log.path), "keys-replicated"),
            keys=ctx.keys,
            keyset=self.keyset,
            append=self.append,
            listen=self.folds.listen,
            alarm=ctx.bus.fire,
            confirmed=self.settled,
            problem=lambda: self.log.problem,
        )
        self.minions = MinionData(
            reactor, master.cache, minions, self.append, holds, self._pillars_travel
        )
        self.logins = ClusterTokens(
            reactor,
            logins,
            self.append,
            self.log.latest,
            lambda: self.tokens.epoch,
            self.settled,
            lambda: self.catch_up.done,
            lambda: self.standstill.look(),
            self.cluster.others,
            node,
            master.tokens,
            lambda: self.log.problem,
        )
        ctx.logins.tokens = self.logins
        self.standstill = Standstill(
            reactor,
            self.peers,
            self.log.knowledge,
            lambda: not self.keys.waiting,
            master.requests.handle,
            float(config.catchup_wait),
        )
        master.requests.keeps = self.standstill.keeps
        self.drift = Drift(node, self.peers, config, self.others)
        self.clocks = Clocks(reactor, node, self.peers, self.cluster.others, now, boottime)
        master.jobs.prune_time = self.clocks.time
        master.stores["pruning"] = self.clocks
        ports = (config.publish_port, config.ret_port, config.cluster_pool_port)
        self.ring = Ring(
            node,
            self.peers,
            self.membership,
            [int(each) for each in ports],
            partial(reaches, reactor),
        )
        self.shipping.on_refused = AwayTooLong(reactor, lifecycle.removed, ctx.bus.fire)
        ctx.keys_settled = self.keys.settled
        ctx.keys_together = self.keys.together
        ctx.autosign.by_token = self.cluster.pre_accepted
        ctx.masters = self.cluster.masters
        ctx.one_copy = self._one_copy
        ctx.own_address = self.cluster.serves
        master.store.secrets = self.cluster.session_secrets
        master.store.acceptance = partial(acceptance_number, self.keyset)
        self.jobs = ClusterJobs(
            master,
            node,
            self.peers,
            self.secrets,
            self.append,
            self.folds.listen,
            self.cluster.others,
        )
        met = self.jobs.shipping.machine.greeted
        master.jobs.replica.heard = lambda: met.issuperset(self.cluster.others())
        self.roots = ClusterRoots(
            reactor, master, node, self.peers, self.cluster.others, card.state.cluster, self._may
        )
        sync = self.roots.sync
        self.clocks.on_compared.append(sync.clocks_compared)
        sync.on_stranded.append(
            lambda name: lifecycle.build_anew(f"{name} is ahead of all nodes that may write")
        )
        sync.on_damaged.append(
            lambda name: lifecycle.build_anew(f"the index of {name} is damaged on disk")
        )
        PillarRelay(ctx, self.peers, self.membership, holds, lambda: sync.complete)
        master.stores["facts"] = self.log
        master.operations.add(control.operations())
        key_view = KeyView(self.keyset, config.hash_type)
        master.operations.add(views(self.drift, self.ring, key_view))
        # A node that is stopped closes its doors before it closes its links
        at = master.parts.index(master.ports)
        parts = [
            *master.parts[:at],
            self.log,
            Upkeep(reactor, self.log),
            self.minions,
            self.logins,
            self.shipping,
            self.jobs.shipping,
            self.cluster,
            # Before the start has ended: it may be stopped meanwhile, and then knows too little
            self.standstill,
            self.catch_up,
            self.keys,
            *self.jobs.parts,
            *self.roots.parts,
            self.clocks,
            *master.parts[at:],
        ]
        self._service = OrderedService(
            reactor, parts, failed=self._failed, started=master.started, inner=True
        )
        self._error: BaseException | None = None

    def _may(self, node: str, right: str) -> bool:
        """What the membership says that a member may do with roots."""
        card = self.cluster.card
        return self.membership.may_as_seen_by(card.badge.key.id, card.state.node, node, right)

    def _pillars_travel(self) -> bool:
        """Whether every member has pillars: what is in the log is on all of them."""
        return all(PILLAR in member.rights for member in self.membership.live())

    def _generations(self) -> dict[str, Generation]:
        """Which tree each share serves."""
        shares = self.roots.sync.shares.items()
        return {name: share.generation for name, share in shares if share.generation is not None}

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

    def others(self) -> list[str]:
        """The other members."""
        return self.cluster.others()

    def _failed(self, error: BaseException) -> None:
        self._error = error

    # What the parts ask

    async def append(self, kind: str, body: Mapping[str, Any]) -> Any:
        """
        Add a fact, and remember the last for L{settled}.

        @raises StoreError: the disk refuses, or this node has told the others that it leaves.
        """
        if self.cluster.closed:
            raise StoreError(self.cluster.closed)
        self._last = await self.log.append(kind, body)
        return self._last

    async def settled(self) -> Sequence[str]:
        """
        The members that have not confirmed, after some seconds, what was added here last.

        For those alone whose own entries are on this node's disk: before, it would be an older one.
        """
        linked = {link.node for link in self.peers.links()}
        late = set(self.cluster.others()) - linked
        if self._last is not None:
            late |= set(await self.shipping.settled(self._last, SETTLE_TIME))
        return sorted(late)

    def _minions(self) -> tuple[Sequence[str], Sequence[str]]:
        """Those that are accepted, and those of them that are here or at another member."""
        ctx = self.master.ctx
        accepted = ctx.keys.accepted_ids()
        return sorted(accepted), sorted(ctx.presence.present(accepted))

    def _identity(self) -> tuple[bytes, bytes]:
        found = []
        for name in ("master.pem", "master.pub"):
            path = os.path.join(self.master.config.pki_dir, name)
            try:
                with open(path, "rb") as file:
                    found.append(file.read())
            except OSError as error:
                raise StoreError(error.strerror or str(error), path) from error
        return found[0], found[1]

    async def _holders(self) -> Mapping[str, str]:
        await self.jobs.presence.refresh()
        return self.jobs.presence.holders()

    def _lags(self, node: str) -> dict[str, Any]:
        return {
            "keys": self.shipping.machine.lacks(node),
            "returns": self.jobs.shipping.machine.lacks(node),
        }

    async def _one_copy(self, jid: str) -> Sequence[str]:
        """A node without peers has one copy of everything: that is no news."""
        return await self.master.jobs.one_copy(jid) if self.cluster.others() else ()

    def _deny_minion(self, minion_id: str, start: str) -> Mapping[str, Any] | None:
        """The act that ends what a token should not have begun; none when somebody has decided."""
        for register in self.keyset.of_id(minion_id):
            if register.finger.startswith(start) and register.word == "accepted":
                undecided = not register.seen
                act = self.keyset.act_on("deny", minion_id, register.finger, "a token used up")
                return act if undecided else None
        return None

    async def _drain(self) -> tuple[int, list[str]]:
        """Minions go elsewhere, and what they have brought here goes to the others."""
        jobs, sessions = self.jobs, self.master.ctx.sessions
        # What was said to be done would be on nobody's disk but ours
        self.master.ctx.dispatcher.closed = (
            "this node leaves its cluster and takes no more jobs: give it to another member"
        )
        # Who listens here, and who has another master besides, but may bring a return here alone
        here = {*jobs.presence.own(), *(set(sessions.live()) & set(jobs.presence.holders()))}
        # As long as they may bring it here: a stock minion that turns to another master while it
        # runs a job can lose what comes of it
        late = await returned(self.reactor, lambda: jobs.forward.under_way(here), RETURN_TIME)
        self.master.requests.closed = True
        replica = self.master.jobs.replica
        alone = await drained(
            self.reactor,
            lambda: replica.stored_number,
            lambda: replica.confirmed_number,
            lambda: bool(self.peers.links()),
            DRAIN_TIME,
        )
        return alone, late

    def _is_revoked(self, minion_id: str, finger: str) -> bool:
        known = self.keyset.register(minion_id, finger)
        return known is not None and bool(known.seen)

    def _set_slot(self, slot: int) -> None:
        self.master.jids.slot = slot if slot >= 0 else None

    def status(self) -> dict[str, Any]:
        """What this node says of itself to the others."""
        ctx = self.master.ctx
        waiting, problems = self.waiting(), self.problems()
        return {
            "version": __version__,
            "uptime": ctx.now() - ctx.started,
            "minions": len(ctx.presence.here(ctx.keys.accepted_ids())),
            "serving": not waiting,
            "degraded": self.catch_up.degraded or problems,
            "problem": waiting or "; ".join(problems),
            "roots": self.roots.state(),
            "received": self.roots.received(),
        }

    def waiting(self) -> str:
        """Why minions are not answered on both ports; empty if they are."""
        if self.master.ports.open:
            return ""
        if not self.catch_up.done:
            late = ", ".join(self.catch_up.late_members())
            return f"it takes in what it missed{f' from {late}' if late else ''}"
        if not self.keys.written:
            return "it writes the keys that it took in"
        return self.roots.waiting() or "it opens its ports"

    def problems(self) -> list[str]:
        """Which stores cannot write, and why."""
        return [f"{name}: {why}" for name, why in self.master.problems().items()]

    def work(self) -> list[dict[str, Any]]:
        """What is being done that takes long, for people who wait."""
        return self.roots.sync.work()

    def progress(self) -> Any:
        """Something that changes for as long as a start gets on."""
        return self.waiting(), self.log.knowledge(), self.roots.received()
