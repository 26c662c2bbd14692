"""
C{/livez} and C{/readyz}: for HAProxy, Kubernetes and other programs that send minions and users
here.

C{/livez} answers as long as the reactor runs: restarting a master that waits for others would not
help. C{/readyz} is 200 while minions are served, and 503 otherwise; the text says why. A master
that serves with a problem (a disk that refuses) is ready: its minions have nowhere better to go,
unless another node takes them, and an alert should report the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.web.resource import Resource
from twisted.web.server import Request

Ready = Callable[[], tuple[bool, str]]
"""Whether minions are served, and how the master is in words."""


class _Plain(Resource):
    def _say(self, request: Request, text: str) -> bytes:
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")
        # A proxy that keeps an old answer would send users to a master that is gone
        request.setHeader(b"cache-control", b"no-store")
        return text.encode("utf-8", "replace") + b"\n"


class Live(_Plain):
    """C{GET /livez}."""

    def render_GET(self, request: Request) -> Any:
        """It lives, or nobody would answer."""
        return self._say(request, "live")


class ReadyPage(_Plain):
    """C{GET /readyz}."""

    def __init__(self, ready: Ready) -> None:
        Resource.__init__(self)
        self._ready = ready

    def render_GET(self, request: Request) -> Any:
        """Whether minions are served."""
        is_ready, text = self._ready()
        if not is_ready:
            request.setResponseCode(503)
        return self._say(request, text)
