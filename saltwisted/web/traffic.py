"""
Counts of requests and answers, by CherryPy's names (C{collect_stats}).
"""

from __future__ import annotations

from typing import Any


class Traffic:
    """The counts of one API since its start."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._requests = self._read = self._written = 0
        self._time = 0.0

    def count(self, request: Any, seconds: float) -> None:
        """
        A request has been answered.

        @param seconds: the present time, by the clock of C{request.began}.
        """
        self._requests += 1
        self._read += request.came
        self._written += request.sentLength
        self._time += seconds - request.began

    def figures(self, now: float, current: int) -> dict[str, Any]:
        """
        All of it.

        @param current: requests that are being answered.
        """
        uptime = max(now - self._began, 0.001)
        requests = self._requests or 1
        return {
            "Enabled": True,
            "Bytes Read/Request": self._read / requests,
            "Bytes Read/Second": self._read / uptime,
            "Bytes Written/Request": self._written / requests,
            "Bytes Written/Second": self._written / uptime,
            "Current Time": now,
            "Current Requests": current,
            "Requests/Second": self._requests / uptime,
            "Start Time": self._began,
            "Total Bytes Read": self._read,
            "Total Bytes Written": self._written,
            "Total Requests": self._requests,
            "Total Time": self._time,
            "Uptime": uptime,
        }
