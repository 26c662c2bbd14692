"""
C{--role cluster}: a master with peers, from the parts of L{saltwisted.roles.master} and C{cluster}.

A node goes through phases (L{saltwisted.cluster.life.lifecycle}); as a member it is built in
L{saltwisted.roles.member}. Nothing is decided here.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from saltwisted import __version__
from saltwisted.cluster.control import ClusterControl, waiting_room
from saltwisted.cluster.life.lifecycle import Lifecycle, MemberCard
from saltwisted.cluster.life.settings import check, etcd_of, settings_of, where_of
from saltwisted.cluster.roots.settings import settings_of as roots_settings
from saltwisted.config.options import MasterConfig
from saltwisted.domain.claims.electorate import ETCD
from saltwisted.roles.banner import Banner
from saltwisted.roles.base import OrderedService
from saltwisted.roles.ending import giving_up
from saltwisted.roles.logs import observer
from saltwisted.roles.master import EITHER
from saltwisted.roles.member import MemberService
from saltwisted.roles.memory import tune_malloc
from saltwisted.roles.metrics import Measures
from saltwisted.roles.notify import StatusLine, tell_status
from saltwisted.roles.privileges import keep_memory, restrict_umask
from saltwisted.roles.readings import SOCKET, Reading, refuse
from saltwisted.roles.reload import MASTER_BUILT_IN, Reload
from saltwisted.stores.facts.node import NodeFiles
from saltwisted.stores.files import make_dir
from saltwisted.stores.identity import check_identity, own_fingerprint
from saltwisted.stores.keys import KeyStore, kept_keys
from saltwisted.transports.etcdtls import tls_policy
from saltwisted.transports.localdoor import Doorway
from saltwisted.wire.rsa import fingerprint
from saltwisted.worker.process.configio import load_from_disk


def check_etcd(config: MasterConfig) -> None:
    """
    @raises ConfigError: a file that C{claims: etcd} needs cannot be used.
    """
    if config.claims == ETCD:
        tls_policy(etcd_of(config), lambda path: Path(path).read_bytes())


def check_node(config: MasterConfig) -> None:
    """
    @raises StoreError: what makes this node one cannot be read.
    @raises ConfigError: its identity key cannot be used.
    """
    files = NodeFiles(config.pki_dir)
    files.state()
    files.check_key()
    check_identity(own_config(config))
    if config.cluster_id and config.cluster_pki_dir:
        kept_keys(config.cluster_pki_dir, "cluster")


READINGS = (
    Reading("cluster_secret", check),
    *EITHER,
    Reading("cluster_roots", lambda config: roots_settings(config.cluster_roots)),
    Reading("claims_etcd", check_etcd),
    Reading("key_pass", check_node),
)


def build(reactor: Any, config_dir: str | None, log_level: str | None) -> OrderedService:
    """
    A node, ready to be started by twistd.

    @raises ConfigError: when the configuration cannot work.
    @raises StoreError: when the node's files cannot be read or made.
    """
    loaded = load_from_disk("master", config_dir)
    config = loaded.master
    restrict_umask()
    refuse(READINGS, loaded)
    keep_memory()
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


class Node:
    """
    What twistd starts: the lifecycle, and the control socket that is there in all phases.

    @param fatal: called with what keeps it from serving, when nobody waits for its start any more;
        without it the daemon ends.
    """

    name = "cluster node"

    def __init__(
        self,
        reactor: Any,
        config: MasterConfig,
        fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        make_dir(config.pki_dir)
        node_files = NodeFiles(config.pki_dir)
        if config.cluster_id and config.cluster_pki_dir:
            node_files.take_over(config.cluster_pki_dir)
        self.config = own_config(config)
        self._reactor = reactor
        self.lifecycle = Lifecycle(
            reactor=reactor,
            settings=settings_of(config),
            where=partial(where_of, config),
            files=node_files,
            build=self._build,
            local=self._local,
            entropy=os.urandom,
            now=time.time,
            dice=random.SystemRandom().random,
            fingerprint_of=lambda pem: fingerprint(pem, self.config.hash_type),
            fatal=fatal or giving_up(reactor),
            still_starting=partial(tell_status, still_starting=True),
        )
        self._control = ClusterControl(self.lifecycle)
        self._doorway = Doorway(
            reactor,
            os.path.join(self.config.sock_dir, SOCKET),
            waiting_room(self._control, self._status),
        )
        self._measures = Measures(
            reactor, self.config, self.lifecycle.why_not, self.lifecycle.summary, self._status
        )

    def startService(self) -> Any:
        """Enter the phase that is on the disk."""
        for part in self._measures.parts:
            part.startService()
        self._doorway.startService()
        return Deferred.fromCoroutine(self.lifecycle.startService())

    async def _stop(self) -> None:
        await self.lifecycle.stopService()
        await self._doorway.stopService()
        for part in self._measures.parts:
            await part.stopService()

    def stopService(self) -> Any:
        """Leave the phase."""
        return Deferred.fromCoroutine(self._stop())

    def reconfigure(self, names: Iterable[str]) -> None:
        """Options have new values; a member's pillars are compiled again."""
        if self.lifecycle.member is not None:
            self.lifecycle.member.reconfigure(names)

    def _build(self, card: MemberCard) -> MemberService:
        member = MemberService(
            self._reactor, self.config, card, self.lifecycle, self._control, self._doorway
        )
        ctx = member.master.ctx
        self._measures.show(member.figures, ctx.keys.accepted_ids, ctx.bus)
        self._measures.serve_on(member.master.api)
        return member

    def _local(self) -> dict[str, Any]:
        """The identity and the accepted minions in this master's own directories."""
        keys = KeyStore(self.config.pki_dir)
        keys.open()
        return {"fingerprint": own_fingerprint(self.config), "minions": len(keys.accepted_ids())}

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
