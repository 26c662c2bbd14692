"""
What L{saltwisted.stores.batches} and a disk are to a simulated node: a moment at which what was
written has reached the disk, and a node that is killed at that moment, or before.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from saltwisted.errors import StoreError

T = TypeVar("T")


class World(Protocol):
    """What this asks of a world."""

    clock: Clock
    dice: Random
    deadly: float

    @property
    def is_well(self) -> bool: ...


class Node(Protocol):
    """What this asks of a node; C{life} is another one after each start."""

    life: int

    @property
    def world(self) -> World: ...
    def kill(self) -> None: ...
    def awake(self, call: Callable[[], object]) -> None: ...


class SimBatches(Generic[T]):
    """
    Writes of one life of a node.

    @param write: one transaction, on the disk when it returns.
    @param refusals: how often the disk refuses while things break.
    @param deaths: how much more often than elsewhere the node is killed at a write.
    @ivar hangs: whether nothing reaches the disk any more.
    """

    def __init__(
        self,
        node: Node,
        write: Callable[[list[T]], object],
        refusals: float = 0.0,
        deaths: float = 1.0,
    ) -> None:
        self.node, self.life = node, node.life
        self._commit, self._refusals, self._deaths = write, refusals, deaths
        self.hangs = False
        self.queue: list[tuple[T, Deferred[None]]] = []
        self.committing: list[tuple[T, Deferred[None]]] = []

    def add(self, work: T) -> Deferred[None]:
        """Fires when it is on the disk, if the node lives to hear of it."""
        world = self.node.world
        if self.node.life != self.life:
            return fail(StoreError("closed"))
        if self._refusals and not world.is_well and world.dice.random() < self._refusals:
            return fail(StoreError("full"))
        done: Deferred[None] = Deferred()
        self.queue.append((work, done))
        if not self.committing and not self.hangs:
            self._begin()
        return done

    def sync(self) -> None:
        """What is being written reaches the disk; nobody is told."""
        if self.committing:
            self._commit([work for work, _ in self.committing])

    def _begin(self) -> None:
        self.committing, self.queue = self.queue, []
        world = self.node.world
        world.clock.callLater(world.dice.choice((0.001, 0.004, 0.02, 0.3)), self._synced)

    def _synced(self) -> None:
        if self.node.life != self.life:
            return
        world = self.node.world
        if world.dice.random() < self._deaths * world.deadly:
            # Killed as it is told that it is written, or was about to be
            self.node.kill()
            return
        self.sync()
        batch, self.committing = self.committing, []
        if self.queue:
            self._begin()
        for _, done in batch:
            self.node.awake(lambda done=done: done.callback(None))  # type: ignore[misc]
