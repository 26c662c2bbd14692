"""
What the parts of a master share, before there are parts.

L{saltwisted.master.context.Context} is this and the parts. Both are frozen: each part gets what it
needs when the master is built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.config.gitpillar import FETCHED
from saltwisted.config.options import MasterConfig
from saltwisted.interfaces import Entropy
from saltwisted.master.autosign import Autosign
from saltwisted.master.fileserver import FileServer
from saltwisted.master.oneeach import OneEach
from saltwisted.master.presence import Presence
from saltwisted.master.publisher import Publisher
from saltwisted.master.seams import Seams
from saltwisted.master.sessions import Sessions
from saltwisted.master.userkeys import UserKeys
from saltwisted.parts import IJobStore, IMinionCache
from saltwisted.stores.keys import KeyStore
from saltwisted.transports.bus import EventBus
from saltwisted.wire.rsa import PrivateKey


class RunInPool(Protocol):
    """Runs a blocking call that releases the GIL in the bounded thread pool."""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]: ...


@frozen(kw_only=True)
class Ground:
    """
    What all parts of a master share.

    @ivar node: this master's id (C{id} option), named in events and drop files.
    @ivar now: seconds since the epoch.
    @ivar counters: what was refused, dropped or served, by a short name each.
    @ivar seams: the surroundings of this master.
    @ivar long_work: requests of minions that take many turns of the reactor.
    """

    config: MasterConfig
    node: str
    clock: Any
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    identity: PrivateKey
    bus: EventBus
    keys: KeyStore
    jobs: IJobStore
    cache: IMinionCache
    sessions: Sessions
    publisher: Publisher
    presence: Presence
    users: UserKeys
    autosign: Autosign
    pool: RunInPool
    counters: Counter[str]
    seams: Seams
    started: float = 0.0
    long_work: OneEach = field(factory=OneEach)
    log: Logger = field(factory=Logger)

    @property
    def files(self) -> FileServer:
        """The file server of the newest files."""
        server: FileServer = self.seams.pins.newest
        return server

    def pillar_opts(self) -> dict[str, Any]:
        """The options that pillars are compiled by, as Salt names them."""
        opts = self.config.as_opts()
        opts["pillar_roots"] = self.seams.pillars.roots(opts["pillar_roots"])
        opts[FETCHED] = True
        return opts
