"""
Several masters in one process, linked without sockets: what C{cluster/} does with jobs.

Each has its own keys, caches and job file; time is one L{Clock} for all; threads of the job
stores are waited for by L{Nodes.until}.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.jobs.acknowledging import Acknowledging
from saltwisted.cluster.jobs.care import JobCare
from saltwisted.cluster.jobs.events import Events, is_row
from saltwisted.cluster.jobs.forward import Forward
from saltwisted.cluster.jobs.presence import ClusterPresence
from saltwisted.cluster.links.shipping import Shipping
from saltwisted.domain.who import local
from saltwisted.errors import RemoteError, RequestTimeout, SaltwistedError, TransportClosed
from saltwisted.master.seams import LoneSecrets, Seams
from saltwisted.stores.jobs.store import JobStore
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.sessionkey import SessionSecret
from tests.master.rig import Rig, RigMinion

PATIENCE = 20.0
SECRET = SessionSecret(1, b"s" * 32, 1_800_000_000.0)


class MemoryLink:
    """
    One end of a link; words arrive in the next turn, in order.

    @ivar held: when a list, words to the other end lie in it, as in the socket of a stopped node.
    """

    def __init__(self, own: MemoryPeers, other: MemoryPeers) -> None:
        self.own = own
        self.other = other
        self.node = other.node
        self.queued = 0
        self.up = True
        self.held: list[Callable[[], None]] | None = None

    def _send(self, deliver: Callable[[], None]) -> None:
        def arrive() -> None:
            if self.up:
                deliver()

        if self.held is not None:
            self.held.append(arrive)
        else:
            self.own.clock.callLater(0, arrive)

    def tell(self, word: str, body: bytes, tail: bytes | memoryview = b"") -> None:
        """One way."""
        assert isinstance(body, bytes), body
        body += tail
        self.own.told.append((self.node, word, body))
        if self.up:
            self._send(lambda: self.other.hear(self.own.node, word, body))

    def ask(self, word: str, body: bytes, timeout: float = 10.0) -> Deferred[bytes]:
        """With an answer."""
        if not self.up:
            return fail(TransportClosed("closed"))
        answer: Deferred[bytes] = Deferred()

        def give(value: bytes) -> None:
            back = self.other.link(self.own.node)
            if back is not None:
                back._send(lambda: answer.called or answer.callback(value or b""))

        def refuse(failure: Failure) -> None:
            failure.trap(SaltwistedError)
            back = self.other.link(self.own.node)
            if back is not None:
                error = RemoteError(failure.type.__name__, failure.getErrorMessage())
                back._send(lambda: answer.called or answer.errback(error))

        def hear() -> None:
            heard = as_deferred_value(self.other.hear(self.own.node, word, body))
            heard.addCallbacks(give, refuse)

        self._send(hear)
        return answer.addTimeout(
            timeout, self.own.clock, onTimeoutCancel=lambda *_: fail(RequestTimeout("late"))
        )

    def close(self, reason: str) -> None:
        """Cut both ends."""
        self.own.cut(self.node)


def as_deferred_value(value: Any) -> Deferred[Any]:
    """A handler's answer, however it comes."""
    if isinstance(value, bytes) or value is None:
        done: Deferred[Any] = Deferred()
        done.callback(value)
        return done
    return as_deferred(value)


class MemoryPeers:
    """C{IPeers} of one node."""

    def __init__(self, node: str, clock: Clock) -> None:
        self.node = node
        self.clock = clock
        self.told: list[tuple[str, str, bytes]] = []
        self._links: dict[str, MemoryLink] = {}
        self._answers: dict[str, Callable[[str, bytes], Any]] = {}
        self._receivers: list[Callable[[Any, bool], None]] = []

    def links(self) -> Sequence[MemoryLink]:
        """By node."""
        return [self._links[node] for node in sorted(self._links)]

    def link(self, node: str) -> MemoryLink | None:
        """To one node."""
        return self._links.get(node)

    def on_link(self, receiver: Callable[[Any, bool], None]) -> None:
        """Tell of links."""
        self._receivers.append(receiver)

    def answer(self, word: str, handler: Callable[[str, bytes], Any]) -> None:
        """One handler per word."""
        assert word not in self._answers, word
        self._answers[word] = handler

    def stream(self, purpose: str, factory: Any) -> None:
        """Not needed."""
        raise NotImplementedError

    def hear(self, node: str, word: str, body: bytes) -> Any:
        """A word has come."""
        return self._answers[word](node, body)

    def join(self, other: MemoryPeers) -> None:
        """Link two nodes."""
        for own, theirs in ((self, other), (other, self)):
            own._links[theirs.node] = MemoryLink(own, theirs)
        for own, theirs in ((self, other), (other, self)):
            for receiver in own._receivers:
                receiver(own._links[theirs.node], True)

    def cut(self, node: str) -> None:
        """End a link; what was on the way is lost."""
        link = self._links.pop(node, None)
        if link is None:
            return
        link.up = False
        for receiver in self._receivers:
            receiver(link, False)
        link.other.cut(self.node)


class Node(Rig):
    """A master with its parts of a cluster."""

    def __init__(self, nodes: Nodes, name: str, **options: Any) -> None:
        self.nodes = nodes
        self.name = name
        super().__init__(nodes.test, jobs=self._job_store, clock=nodes.clock, id=name, **options)
        self.services = [self.shipping, self.where, self.forward, self.relay, self.care]
        for service in self.services:
            service.startService()
        self.running = True

    def beside(self, alone: Seams) -> Seams:
        """The parts of a cluster."""
        nodes, name = self.nodes, self.name
        self.peers = MemoryPeers(name, nodes.clock)
        self.shipping = Shipping(name, self.jobs.replica, self.peers, nodes.clock, Random(1))
        self.where = ClusterPresence(
            nodes.clock,
            nodes.clock.seconds,
            name,
            self.peers,
            self.keys.accepted_ids,
            lambda ids: self.ctx.presence.here(ids),
            lambda minion_id: self.forward.arrived(minion_id),
        )
        self.acknowledging = Acknowledging(
            nodes.clock,
            name,
            self.jobs,
            lambda: len(self.peers.links()),
            self.counters,
            int(self.config.return_copies),
        )
        self.forward = Forward(
            clock=nodes.clock,
            node=name,
            bus=self.bus,
            peers=self.peers,
            jobs=self.jobs,
            holders=self.where,
            returns=self.acknowledging,
            publish=self.publisher.publish,
            counters=self.counters,
            window=float(self.config.publish_window),
        )
        self.forward.rows.portion = math.inf
        self.relay = Events(
            nodes.clock,
            name,
            name + "1",
            self.bus,
            self.peers,
            partial(is_row, True),
            self.counters,
        )
        self.care = JobCare(
            nodes.clock,
            self.jobs,
            self.peers,
            lambda: [each for each in nodes.one if each != name],
            self.shipping.machine.peers.has_all_of,
            Random(1),
        )
        self.jobs.health.on_anew += [self.acknowledging.begun_anew, self.shipping.begun_anew]
        return evolve(
            alone,
            secrets=LoneSecrets(lambda: (SECRET,), lambda minion_id: 1),
            hearer=self.forward,
            acknowledging=self.acknowledging,
            whereabouts=self.where,
        )

    def _job_store(self, home: str) -> JobStore:
        store = JobStore(
            self.nodes.threads,
            os.path.join(home, "jobs.sqlite"),
            self.nodes.clock.seconds,
            0,
            node=self.name,
        )
        store.startService()
        return store

    def stop(self) -> None:
        """End as a killed process does: links are cut, nothing more is said."""
        if not self.running:
            return
        self.running = False
        for link in self.peers.links():
            self.peers.cut(link.node)
        for service in reversed(self.services):
            service.stopService()
        self.nodes.get(self.jobs.stopService())


class _Threads:
    """The reactor as threads of job stores see it."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[..., Any], Any, Any]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Hand over."""
        self.calls.put((function, args, kwargs))

    def callLater(self, delay: float, function: Callable[..., Any], *args: Any) -> None:
        """The next turn."""
        self.calls.put((function, args, {}))

    def seconds(self) -> float:
        """No time passes for a store."""
        return 0.0


class Nodes:
    """
    A cluster.

    @ivar one: nodes by name.
    """

    def __init__(self, test: SynchronousTestCase, names: str = "ab", **options: Any) -> None:
        self.test = test
        self.clock = Clock()
        self.clock.advance(1_800_000_000)
        self.threads = _Threads()
        self.one: dict[str, Node] = {}
        for name in names:
            self.one[name] = Node(self, name, **options)
            test.addCleanup(self.one[name].stop)
        for index, name in enumerate(names):
            for other in names[:index]:
                self.one[other].peers.join(self.one[name].peers)
        self.turn()

    def accept(self, minion_id: str, at: str) -> RigMinion:
        """A minion whose key all nodes have accepted, signed in at one."""
        minion = RigMinion(self.one[at], minion_id)
        for node in self.one.values():
            node.ctx.keys.put("accepted", minion_id, minion.key.public.pem.encode() + b"\n")
        minion.sign_in()
        return minion

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and do all that can be done now."""
        self.clock.advance(seconds)
        for _ in range(50):
            self.clock.advance(0)
            while True:
                try:
                    function, args, kwargs = self.threads.calls.get(block=False)
                except Empty:
                    break
                function(*args, **kwargs)

    def until(self, condition: Callable[[], Any], what: str = "it", step: float = 0.0) -> Any:
        """
        Turn until something is so; threads may take their time.

        @param step: seconds that pass at each turn, for what timers do.
        """
        end = time.monotonic() + PATIENCE
        while True:
            self.turn(step)
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                self.test.fail(f"{what} did not happen")
            time.sleep(0.001)

    def get(self, d: Deferred[Any]) -> Any:
        """What a Deferred fires with."""
        found: list[Any] = []
        d.addBoth(found.append)
        self.until(lambda: found, "an answer")
        if hasattr(found[0], "raiseException"):
            found[0].raiseException()
        return found[0]

    def publish(self, at: str, **load: Any) -> Mapping[str, Any]:
        """Give a job to a node."""
        full = {"tgt": "*", "fun": "test.ping", "arg": [], **load}
        work = self.one[at].ctx.dispatcher.publish(full, local("root"))
        found: Mapping[str, Any] = self.get(Deferred.fromCoroutine(work))
        return found

    def settle(self) -> None:
        """Until all running nodes know the same of jobs."""

        def same() -> bool:
            known = [n.jobs.replica.knowledge() for n in self.one.values() if n.running]
            return all(each == known[0] for each in known)

        self.until(same, "equal knowledge", 0.05)
