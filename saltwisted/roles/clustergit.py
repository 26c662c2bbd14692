"""
The parts of C{--role cluster} that keep git the same on all nodes.

Introduces L{saltwisted.cluster.git} to the stores and the facts; nothing is decided here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.claiming import IClaims
from saltwisted.cluster.git.backing import Backing
from saltwisted.cluster.git.exchange import Exchange
from saltwisted.cluster.git.ground import Ground
from saltwisted.cluster.git.sharing import GitSharing
from saltwisted.cluster.git.views import GitViews
from saltwisted.cluster.roots.nothing import NoCommits
from saltwisted.commits import IEarlierCommits
from saltwisted.domain.replica.membership import PILLAR, WRITE
from saltwisted.master.commitviews import CommitViews
from saltwisted.master.earliercommits import EarlierCommits
from saltwisted.master.gitupdates import SHARE_ENTRY
from saltwisted.roles.clusterfacts import ClusterFacts
from saltwisted.roles.master import Master
from saltwisted.roles.stores import Stores


class ClusterGit:
    """
    Builds the parts.

    @ivar sharing: what the master asks, and a part that is started after claims.
    @ivar views: the commits of jobs.
    """

    def __init__(
        self, stores: Stores, facts: ClusterFacts, claims: IClaims, master: Callable[[], Master]
    ) -> None:
        self._stores, self._facts = stores, facts
        config = stores.config
        exchange = Exchange(
            facts.peers,
            self._may_have,
            self._work,
            stores.files_threads.run,
            lambda: master().git,
            stores.now,
            lambda: int(config.gitfs_max_size) << 20,
        )
        ground = Ground(
            clock=stores.reactor,
            node=facts.node,
            peers=facts.peers,
            exchange=exchange,
            updates=lambda: master().git,
            may_write=self._may_write,
            may_have=self._may_have,
        )
        self.sharing = GitSharing(ground, claims, lambda: float(config.gitfs_timeout))
        self.views: IEarlierCommits = NoCommits()
        if (source := stores.git()) is not None:
            path = os.path.join(config.cachedir, "saltwisted", "git", "generations")
            earlier = EarlierCommits(path, source, stores.files_threads.run, stores.now)
            known = CommitViews(source, earlier, lambda: master().git.copies)
            self.views = GitViews(ground, known, Backing(ground, self.sharing))

    def _may_write(self, node: str) -> bool:
        facts = self._facts
        return facts.membership.may_as_seen_by(facts.key, facts.node, node, WRITE)

    def _may_have(self, node: str, pillar: bool) -> bool:
        facts = self._facts
        if not pillar:
            return True
        return facts.holds if node == facts.node else facts.membership.may(node, PILLAR)

    def _work(self, request: Mapping[str, Any], seconds: float) -> Deferred[Any]:
        return self._stores.warm.call(SHARE_ENTRY, request, seconds)
