"""
Whether automation is paused, by whom and since when; on disk, so that it outlives a restart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger

from saltwisted.stores.files import write_atomic

NAME = "automation.json"


class Pause:
    """
    One switch for all that a master does by itself.

    @param path: the file that keeps it.
    @ivar since: time of day; 0 while it is not paused.
    """

    log = Logger()

    def __init__(self, path: str, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self.by = ""
        self.since = 0.0
        self._receivers: list[Callable[[bool], None]] = []

    def startService(self) -> None:
        """Take up what the file says."""
        try:
            with open(self._path, encoding="utf-8") as stream:
                kept = json.load(stream)
            self.by, self.since = str(kept["by"]), float(kept["since"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.log.error(
                "{path} cannot be read, so automation is not paused: {error}",
                path=self._path,
                error=str(error),
            )

    def stopService(self) -> None:
        """It is on disk."""

    @property
    def paused(self) -> bool:
        """Whether it is."""
        return self.since > 0

    def shown(self) -> dict[str, Any] | None:
        """Who paused it and when; C{None} while it is not."""
        return {"by": self.by, "since": self.since} if self.paused else None

    def on_change(self, receiver: Callable[[bool], None]) -> None:
        """Call C{receiver(paused)} when it changes."""
        self._receivers.append(receiver)

    def set(self, by: str) -> bool:
        """Pause; false if it was."""
        if self.paused:
            return False
        self._change({"by": by, "since": self._now()})
        self.log.info("automation is paused by {by}", by=by, always=True)
        return True

    def clear(self, by: str) -> bool:
        """Go on; false if it was not paused."""
        if not self.paused:
            return False
        self._change(None)
        self.log.info("automation goes on, by {by}", by=by, always=True)
        return True

    def _change(self, value: Mapping[str, Any] | None) -> None:
        if value is None:
            os.unlink(self._path)
        else:
            write_atomic(self._path, json.dumps(value).encode(), 0o600)
        self.by = str(value["by"]) if value else ""
        self.since = float(value["since"]) if value else 0.0
        for receiver in self._receivers:
            receiver(self.paused)
