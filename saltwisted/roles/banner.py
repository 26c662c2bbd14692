"""
The first lines of a daemon's log: version, configuration, and what is odd about it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from twisted.logger import Logger

from saltwisted import __version__
from saltwisted.domain.takeover import not_here

log = Logger()


WITHOUT_EFFECT = "{option} is set, and is not part of saltwisted: {reason}"


def without_effect(config: Any) -> dict[str, str]:
    """The options that ask for something that is not here, each with what that means."""
    missing = not_here(config.role, config.value, config.defaults)
    # What of the logins does not work has been said with file and line
    missing.pop("external_auth", None)
    return missing


class Banner:
    """Logs what starts, and from which files; at every log level but C{quiet}."""

    def __init__(
        self, config: Any, sources: Sequence[str], warnings: Sequence[str], role: str = ""
    ) -> None:
        self._config = config
        self._role = role or config.role
        self._sources = list(sources)
        self._warnings = list(warnings)

    def startService(self) -> None:
        """Say it."""
        log.info(
            "saltwisted {version} {role} {id} with {config_dir} ({sources})",
            version=__version__,
            role=self._role,
            id=self._config.id,
            config_dir=self._config.config_dir,
            sources=", ".join(self._sources) or "no files, all defaults",
            always=True,
        )
        directory = self._config.config_dir
        if not os.path.isdir(directory):
            what = "is no directory" if os.path.exists(directory) else "does not exist"
            log.warn(
                "the configuration directory {path} {what}: every option has its default",
                path=directory,
                what=what,
            )
        for warning in self._warnings:
            log.warn("{warning}", warning=warning)
        for option, reason in without_effect(self._config).items():
            log.warn(WITHOUT_EFFECT, option=option, reason=reason)

    def stopService(self) -> None:
        """Nothing to stop."""
