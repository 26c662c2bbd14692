"""
Metrics and health of a daemon, where its configuration has a block C{metrics}.

The libraries for it are imported then, and not by a master that has none. Nothing is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from saltwisted.config.options import MasterConfig
from saltwisted.domain.metrics.jobs import JobFigures
from saltwisted.domain.metrics.settings import PORT, MetricsSettings, settings_of
from saltwisted.errors import ConfigError
from saltwisted.transports.bus import EventBus
from saltwisted.transports.listening import no_address

if TYPE_CHECKING:
    from saltwisted.web.metrics import Telemetry

Figures = Callable[[], Mapping[str, Any]]
MISSING = (
    "metrics: the package {name} is missing: install python3-prometheus-client "
    "(or 'pip install saltwisted[api]')"
)


class Measures:
    """
    The port of metrics and health checks.

    @ivar parts: what to start first and stop last; nothing where nothing is to be served.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        config: MasterConfig,
        waiting: Callable[[], str],
        summary: Callable[[], str],
        figures: Figures,
    ) -> None:
        """
        @param waiting: why minions are not served; empty if they are.
        @param summary: how the daemon is, in words.
        @param figures: what there is to tell while no master is shown.
        @raises ConfigError: the block cannot be, or the library for it is missing.
        """
        self.parts: list[Any] = []
        self._telemetry: Telemetry | None = None
        self._table: Any = None
        settings = settings_of(config.metrics)
        if settings is not None:
            self._telemetry, port, table = _made(
                reactor, settings, lambda: (not waiting(), summary()), figures
            )
            self.parts.append(port)
            if settings.api:
                self._table = table

    def serve_on(self, api: Any) -> None:
        """
        Tell it on the port of the HTTP API as well, where the block says so.

        @param api: C{None} where there is none.
        """
        if self._table is None:
            return
        if api is None:
            self.log.warn("metrics: api is true, but there is no HTTP API to serve them")
        else:
            api.offer(self._table)

    def show(self, figures: Figures, accepted: Callable[[], Any], bus: EventBus) -> None:
        """
        Serve the figures of this master from now on.

        @param accepted: the ids of its minions.
        """
        if self._telemetry is not None:
            self._telemetry.show(figures, accepted, bus)


def check(config: MasterConfig) -> None:
    """
    @raises ConfigError: the block cannot be, the library for it is missing, or its host is not
        here.
    """
    settings = settings_of(config.metrics)
    if settings is not None:
        _library()
        why = no_address(settings.host)
        if why:
            raise ConfigError(f"metrics: host: {why}")


def _library() -> tuple[Any, Any, Any]:
    """
    What measures and tells.

    @raises ConfigError: the library for it is missing.
    """
    try:
        from saltwisted.web.apimeasures import ApiMeasures
        from saltwisted.web.measures import MeasuresPort
        from saltwisted.web.metrics import Telemetry
    except ModuleNotFoundError as error:
        raise ConfigError(MISSING.format(name=error.name)) from None
    return ApiMeasures, MeasuresPort, Telemetry


def _made(
    reactor: Any,
    settings: MetricsSettings,
    ready: Callable[[], tuple[bool, str]],
    figures: Figures,
) -> tuple[Telemetry, Any, Any]:
    """What is told, and where: on its port, and by which endpoints of the API."""
    api_measures, measures_port, telemetry_class = _library()

    def in_thread(function: Callable[..., Any], *args: Any) -> Any:
        return deferToThreadPool(reactor, reactor.getThreadPool(), function, *args)

    jobs = JobFigures(settings.minions, settings.functions)
    telemetry = telemetry_class(reactor, jobs, time.time, in_thread, figures)
    port = PORT if settings.port is None else settings.port
    own = measures_port(reactor, settings.host, port, telemetry, ready)
    return telemetry, own, api_measures(telemetry, ready).table
