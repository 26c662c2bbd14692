"""
What a request handler may use: one record of the master's parts.

A handler that needs something takes it from here, and builds nothing itself. A test fills in
fakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.config.options import MasterConfig
from saltwisted.interfaces import Entropy
from saltwisted.master.chunks import Chunks

if TYPE_CHECKING:
    from saltwisted.domain.targeting.selection import Selection
    from saltwisted.master.autosign import Autosign
    from saltwisted.master.dispatch import Dispatcher
    from saltwisted.master.fileserver import FileServer
    from saltwisted.master.logins import Logins
    from saltwisted.master.pillars import Pillars
    from saltwisted.master.presence import Presence
    from saltwisted.master.publisher import Publisher
    from saltwisted.master.rotation import Rotation
    from saltwisted.master.sessions import Sessions
    from saltwisted.master.signins import SignIns
    from saltwisted.master.userkeys import UserKeys
    from saltwisted.stores.cache import MinionCache
    from saltwisted.stores.jobs.store import JobStore
    from saltwisted.stores.keys import KeyStore
    from saltwisted.transports.bus import EventBus
    from saltwisted.wire.rsa import PrivateKey


class RunInPool(Protocol):
    """Run a blocking call that releases the GIL in the bounded thread pool."""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]: ...


async def nobody() -> Sequence[str]:
    """A lone master has no members that could lag."""
    return ()


async def nobody_of(jid: str) -> Sequence[str]:
    """On a lone master no return waits for another copy."""
    return ()


@define(kw_only=True)
class Context:
    """
    Everything that the master's handlers, runners and wheel functions share.

    @ivar node: this master's id (C{id} option), named in events and drop files.
    @ivar now: seconds since the epoch.
    @ivar masters: the addresses (C{host} or C{host:port}) at which minions find the masters of
        this one's cluster; our minions are told. Nothing for a lone master.
    @ivar own_address: which of them is this one.
    @ivar counters: what was refused, dropped or served, by a short name each.
    @ivar keys_together: entered while an operator changes several keys: for a cluster one act.
    @ivar keys_settled: awaited after an operator has changed keys; the members of the cluster that
        have not confirmed the change by then.
    @ivar job_published: told of each job (its map, the minions) that is published here.
    @ivar return_stored: asked with jid and minion id when a return is on disk here; what it gives
        back is awaited before the return is acknowledged.
    @ivar repeated: asked with minion id and load of a return that brings no jid: the jid that
        it has on another node, or C{None}.
    @ivar unreached: the minions that a job of the last minutes could not be sent to.
    @ivar one_copy: asked with a jid: the minions whose return is on this node alone, of several.
    @ivar job_facts: asked with jid and function what else the record of a new job says.
    @ivar job_notes: asked with a jid what became known of the job since it was recorded.
    @ivar chunks: the places for large pieces of files in memory.
    @ivar pinned: the file server for one minion, while a job of its is pinned to a generation;
        or a Deferred of it.
    @ivar pillar_elsewhere: on a master without pillars, asks one that has them: with minion id,
        command, and how its request wants the answer; the bytes of Salt's private reply.
    @ivar pillar_generation: changes when what pillars are compiled from is replaced as a whole.
    """

    config: MasterConfig
    node: str
    clock: Any
    now: Callable[[], float]
    entropy: Entropy = field(repr=False)
    identity: PrivateKey
    bus: EventBus
    keys: KeyStore
    jobs: JobStore
    cache: MinionCache
    sessions: Sessions
    publisher: Publisher
    presence: Presence
    users: UserKeys
    autosign: Autosign
    files: FileServer
    pool: RunInPool
    counters: Counter[str]
    dispatcher: Dispatcher = field(init=False)
    logins: Logins = field(init=False)
    pillars: Pillars = field(init=False)
    rotation: Rotation = field(init=False)
    signins: SignIns = field(init=False)
    chunks: Chunks = field(factory=Chunks)
    started: float = 0.0
    masters: Callable[[], Sequence[str]] = lambda: ()
    own_address: str = ""
    facts: dict[str, Any] = field(factory=dict)
    keys_together: Callable[[], AbstractContextManager[None]] = nullcontext
    keys_settled: Callable[[], Awaitable[Sequence[str]]] = field(default=nobody)
    job_published: Callable[[Mapping[str, Any], Sequence[str]], None] = lambda job, minions: None
    return_stored: Callable[[str, str], Deferred[None] | None] = lambda jid, minion_id: None
    repeated: Callable[[str, Mapping[str, Any]], str | None] = lambda minion_id, load: None
    unreached: Callable[[str], Sequence[str]] = lambda jid: ()
    one_copy: Callable[[str], Awaitable[Sequence[str]]] = nobody_of
    job_facts: Callable[[str, Any], Mapping[str, str]] = lambda jid, fun: {}
    job_notes: Callable[[str], Mapping[str, Any]] = lambda jid: {}
    pinned: Callable[[str], FileServer | Deferred[FileServer] | None] = lambda minion_id: None
    pillar_elsewhere: Callable[[str, Any, str, str, str], Awaitable[bytes]] | None = None
    pillar_generation: Callable[[], int] = lambda: 0
    log: Logger = field(factory=Logger)

    async def find(self, tgt: Any, tgt_type: str, delimiter: str = ":") -> Selection:
        """The accepted minions that a target means, by the master's cached data."""
        return await self.dispatcher.targets.find(tgt, tgt_type, delimiter)
