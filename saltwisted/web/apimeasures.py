"""
C{/metrics}, C{/livez} and C{/readyz} on the port of the HTTP API, if C{metrics: {api: true}}.

Everybody may see the health, as on the separate port. The figures contain names of functions and
possibly minions, and this port is for many users: they need a session, unless C{stats_disable_auth}
is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST

from saltwisted.web.exchange import Answer, Endpoint, Exchange
from saltwisted.web.health import Ready
from saltwisted.web.metrics import Telemetry

PLAIN = "text/plain;charset=utf-8"


class ApiMeasures:
    """The endpoints."""

    def __init__(self, telemetry: Telemetry, ready: Ready) -> None:
        self._telemetry = telemetry
        self._ready = ready

    def table(self, for_all: bool) -> Mapping[str, Endpoint]:
        """
        By the first word of the path.

        @param for_all: whether figures are told without a session.
        """
        return {
            "metrics": self._endpoint(self.metrics, guarded=not for_all),
            "livez": self._endpoint(self.livez),
            "readyz": self._endpoint(self.readyz),
        }

    def _endpoint(self, handler: Any, guarded: bool = False) -> Endpoint:
        return Endpoint(methods={"GET": handler}, guarded=guarded, reads=False, plain=True)

    async def metrics(self, exchange: Exchange) -> Answer:
        """C{GET /metrics}."""
        text = await self._telemetry.text()
        return Answer(content=text, content_type=CONTENT_TYPE_LATEST)

    async def livez(self, exchange: Exchange) -> Answer:
        """C{GET /livez}: it lives, or nobody would answer."""
        return _said(exchange, "live")

    async def readyz(self, exchange: Exchange) -> Answer:
        """C{GET /readyz}: whether minions are served."""
        is_ready, text = self._ready()
        return _said(exchange, text, 200 if is_ready else 503)


def _said(exchange: Exchange, text: str, status: int = 200) -> Answer:
    exchange.answer_headers["Cache-Control"] = "no-store"
    content = text.encode("utf-8", "replace") + b"\n"
    return Answer(content=content, content_type=PLAIN, status=status)
