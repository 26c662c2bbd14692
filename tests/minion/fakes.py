"""
Stand-ins for what surrounds the minion's jobs: worker processes, threads, masters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from saltwisted.errors import TransportClosed


@define(eq=False)
class FakeChild:
    """A worker process that does what the test says."""

    entry: str
    payload: dict[str, Any]
    handler: Any
    pid: int = 0
    exited: Deferred[Any] = field(factory=Deferred)
    signals: list[tuple[int, bool]] = field(factory=list)
    closed: bool = False

    def kill(self, number: int, group: bool) -> None:
        """Note a signal."""
        self.signals.append((number, group))

    def says(self, op: str, **args: Any) -> Deferred[Any]:
        """The process asks or tells something."""
        return Deferred.fromCoroutine(self.handler(op, args, None, None))

    def ends(self, how: Any = "exited with status 0") -> None:
        """The process is gone."""
        self.exited.callback(how)


class FakeWorkers:
    """Makes L{FakeChild}ren."""

    def __init__(self) -> None:
        self.children: list[FakeChild] = []
        self.facts: dict[str, Any] = {}

    def spawn(self, entry: str, payload: Any, handler: Any) -> FakeChild:
        """One more."""
        child = FakeChild(entry, payload, handler, pid=1000 + len(self.children))
        self.children.append(child)
        return child

    def set_fact(self, name: str, value: Any) -> None:
        """Note a fact."""
        self.facts[name] = value


def run_now(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
    """A thread that is done at once."""
    d: Deferred[Any] = succeed(None)
    return d.addCallback(lambda _: function(*args))


class Bus:
    """An event bus that remembers."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, Any]] = []
        self.receivers: list[tuple[str, Any]] = []

    def fire(self, tag: str, data: Any, origin: str = "") -> None:
        """Note, and give out."""
        self.fired.append((tag, data))
        for prefix, receiver in list(self.receivers):
            if tag.startswith(prefix):
                receiver(tag, data)

    def subscribe(self, prefix: str, receiver: Any) -> Callable[[], None]:
        """One more receiver."""
        self.receivers.append((prefix, receiver))
        return lambda: self.receivers.remove((prefix, receiver))


class FakeLink:
    """One master."""

    def __init__(self, name: str, up: bool = True) -> None:
        self.name = name
        self.up = up
        self.pillar: Any = {"from": name}
        self.fetched: list[dict[str, Any]] = []
        self.on_pillar: Callable[[Any], None] = lambda pillar: None

    async def fetch_pillar(self, **fields: Any) -> Any:
        """Its pillar, which goes to C{on_pillar} unless it is somebody's own; or an error."""
        self.fetched.append(fields)
        if isinstance(self.pillar, Exception):
            raise self.pillar
        if not fields:
            self.on_pillar(self.pillar)
        return self.pillar


class FakeLinks:
    """Masters; C{answer} decides what requests get."""

    def __init__(self, *links: FakeLink) -> None:
        self.links = list(links)
        self.asked: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda load: None
        self.waiting: list[Deferred[Any]] = []

    @property
    def best(self) -> FakeLink | None:
        """The first that is up."""
        return next((link for link in self.links if link.up), None)

    def named(self, name: str) -> FakeLink | None:
        """By name."""
        return next((link for link in self.links if link.name == name), None)

    def when_up(self) -> Deferred[Any]:
        """Later."""
        waiting: Deferred[Any] = Deferred()
        self.waiting.append(waiting)
        return waiting

    async def request(self, load: dict[str, Any], link: Any = None, **how: Any) -> Any:
        """Note, and answer."""
        chosen = link if link is not None and link.up else self.best
        if chosen is None:
            raise TransportClosed("no master is connected")
        self.asked.append((chosen.name, load, how))
        answer = self.answer(load)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Deferred):
            return await answer
        return answer

    def status(self) -> list[dict[str, Any]]:
        """Plain data."""
        return [{"master": link.name, "reason": "it is asleep"} for link in self.links]
