"""
C{/metrics}: the measurements, in the format of Prometheus.

The text is written in pieces, one per turn of the reactor, and once for all clients within a
second. So however many clients and series there are, nothing else is delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from saltwisted.domain.metrics.families import (
    COUNTER,
    GAUGE,
    Family,
    families_of,
    parts,
)
from saltwisted.domain.metrics.jobs import JobFigures, minions_total
from saltwisted.transports.bus import EventBus, Fired
from saltwisted.transports.deferreds import let_go
from saltwisted.web.sending import CHUNK, Sending

PIECE = 100
"""Samples that are written in one turn of the reactor: about a millisecond."""
FRESH = 1.0
"""Seconds for which a text is good enough for whoever asks."""
Figures = Callable[[], Mapping[str, Any]]


class _One:
    """A registry of one metric, for the library."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """It."""
        return [self._metric]


def written(family: Family, with_head: bool) -> bytes:
    """A family's text; only its first piece begins with the lines that describe it."""
    name = family.name
    bare = name.removesuffix("_total") if family.kind == COUNTER else name
    metric = Metric(bare, family.says, family.kind)
    for labels, value in family.samples.items():
        metric.add_sample(name, dict(labels), value)
    registry: Any = _One(metric)
    text: bytes = generate_latest(registry)
    if with_head:
        return text
    return b"".join(line for line in text.splitlines(True) if not line.startswith(b"# "))


def of_the_process() -> list[Family]:
    """
    Memory, open files and CPU of this process, under the names that all exporters use. Reads
    C{/proc}: with thousands of connections that takes a while, so it is called in a thread.
    """
    found = []
    for metric in ProcessCollector(registry=None).collect():
        samples = {tuple(sorted(s.labels.items())): float(s.value) for s in metric.samples}
        name = metric.samples[0].name if metric.samples else metric.name
        kind = COUNTER if metric.type == COUNTER else GAUGE
        found.append(Family(name, kind, metric.documentation, samples))
    return found


class Telemetry:
    """
    What a master measures about itself. It lives as long as the daemon, while the cluster members
    that appear in it come and go.

    @param in_thread: calls a function in a thread, and returns a Deferred.
    @ivar counted: what the port that serves it has counted.
    """

    log = Logger()

    def __init__(
        self,
        clock: Any,
        jobs: JobFigures,
        now: Callable[[], float],
        in_thread: Callable[..., Deferred[Any]],
        figures: Figures,
    ) -> None:
        """
        @param figures: what there is to tell while nothing is shown.
        """
        self._clock = clock
        self._jobs = jobs
        self._now = now
        self._in_thread = in_thread
        self._between = figures
        self._figures = figures
        self._accepted: Callable[[], Any] = tuple
        self._unsubscribe: Callable[[], None] = lambda: None
        self._waiting: list[Deferred[bytes]] = []
        self._text: tuple[float, bytes] = (-FRESH, b"")

    def show(self, figures: Figures, accepted: Callable[[], Any], bus: EventBus) -> None:
        """
        Tell of this master from now on.

        @param accepted: the ids of its minions.
        """
        self.hide()
        self._figures, self._accepted = figures, accepted
        self._unsubscribe = bus.subscribe_events("salt/", self._heard)

    def hide(self) -> None:
        """That master has ended."""
        self._unsubscribe()
        self._unsubscribe = lambda: None
        self._figures, self._accepted = self._between, tuple

    def _heard(self, event: Fired) -> None:
        self._jobs.heard(event.tag, event.data, not event.origin, self._now())

    def text(self) -> Deferred[bytes]:
        """All of it, at most L{FRESH} seconds old."""
        d: Deferred[bytes] = Deferred()
        made, text = self._text
        if text and self._clock.seconds() - made < FRESH:
            d.callback(text)
            return d
        self._waiting.append(d)
        if len(self._waiting) == 1:
            let_go(self._make(), self.log, "the metrics could not be served")
        return d

    async def _make(self) -> None:
        pieces: list[bytes] = []
        try:
            process = await self._in_thread(of_the_process)
            for family, first in parts(self._families(process), PIECE):
                pieces.append(written(family, first))
                await deferLater(self._clock, 0)
        except Exception:
            failure = Failure()
            self.log.failure("the metrics could not be served", failure=failure)
            for d in self._waited():
                d.errback(failure)
            return
        self._text = self._clock.seconds(), b"".join(pieces)
        for d in self._waited():
            d.callback(self._text[1])

    def _waited(self) -> list[Deferred[bytes]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _families(self, process: list[Family]) -> Iterator[Family]:
        figures, accepted = self._figures(), self._accepted()
        self._jobs.forget_others(accepted)
        yield from families_of(figures)
        yield from self._jobs.families()
        yield minions_total(len(accepted))
        yield from process


class MetricsPage(Resource):
    """C{GET /metrics}."""

    log = Logger()

    def __init__(self, telemetry: Telemetry, clock: Any) -> None:
        Resource.__init__(self)
        self._telemetry = telemetry
        self._clock = clock

    def render_GET(self, request: Request) -> Any:
        """The text, when it is written."""
        gone: list[Failure] = []
        # Whoever asked may hang up meanwhile
        request.notifyFinish().addErrback(gone.append)  # type: ignore[unused-awaitable]

        def answer(text: bytes) -> None:
            if not gone:
                request.setHeader(b"content-type", CONTENT_TYPE_LATEST.encode())
                request.setHeader(b"content-length", b"%d" % len(text))
                if len(text) <= CHUNK:
                    request.write(text)
                    request.finish()
                else:
                    # Its client may not read: the text is in memory once for all
                    Sending(self._clock, request, [text]).start()

        def failed(failure: Failure) -> None:
            if not gone:
                request.setResponseCode(500)
                request.setHeader(b"content-type", b"text/plain; charset=utf-8")
                request.write(b"the metrics could not be told; the master's log says why\n")
                request.finish()

        d = self._telemetry.text().addCallbacks(answer, failed)
        let_go(d, self.log, "no answer to a question for metrics")
        return NOT_DONE_YET
