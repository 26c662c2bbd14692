"""
Whether automation is paused, by whom and since when: one switch for all masters of a cluster, which
outlives their restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted.domain.masterschedule import AUTOMATION, IScheduleFacts


class Pause:
    """
    Reactor thread only.

    @param kept: what all these masters know besides their configuration.
    @param now: time of day.
    """

    log = Logger()

    def __init__(self, kept: IScheduleFacts, now: Callable[[], float]) -> None:
        self._kept = kept
        self._now = now
        self._receivers: list[Callable[[bool], None]] = []

    def startService(self) -> None:
        """Hear of it when another node pauses."""
        self._kept.listen(self._heard)

    def stopService(self) -> None:
        """It is on disk."""

    @property
    def paused(self) -> bool:
        """Whether it is."""
        return AUTOMATION in self._kept.items()

    def shown(self) -> dict[str, Any] | None:
        """Who paused it and when; C{None} while it is not."""
        known = self._kept.items().get(AUTOMATION)
        if known is None:
            return None
        return {"by": str(known.get("by", "")), "since": float(known.get("since", 0))}

    def on_change(self, receiver: Callable[[bool], None]) -> None:
        """Call C{receiver(paused)} when it changes."""
        self._receivers.append(receiver)

    async def set(self, by: str) -> bool:
        """
        Pause; false if it was.

        @raises StoreError: it is not on disk.
        """
        if self.paused:
            return False
        await self._change({"by": by, "since": self._now()})
        self.log.info("automation is paused by {by}", by=by, always=True)
        return True

    async def clear(self, by: str) -> bool:
        """
        Go on; false if it was not paused.

        @raises StoreError: it is not on disk.
        """
        if not self.paused:
            return False
        await self._change(None)
        self.log.info("automation was resumed by {by}", by=by, always=True)
        return True

    async def unreached(self) -> list[str]:
        """The members that have not confirmed the last change, after some seconds."""
        return list(await self._kept.settled())

    async def _change(self, value: Mapping[str, Any] | None) -> None:
        kept = self._kept.put(AUTOMATION, value)
        # It holds at once, whatever the disk says later
        self._tell()
        await kept

    def _heard(self, keys: Sequence[str]) -> None:
        if AUTOMATION in keys:
            shown = self.shown()
            words = f"is paused by {shown['by']}" if shown else "goes on"
            self.log.info("automation {words} (set on another node)", words=words, always=True)
            self._tell()

    def _tell(self) -> None:
        for receiver in self._receivers:
            receiver(self.paused)
