"""
Loggers as site modules expect them: Salt's levels below C{debug}, and its wording of a message.
"""

from __future__ import annotations

import logging
from typing import Any

LEVELS = {"QUIET": 1000, "PROFILE": 15, "TRACE": 5, "GARBAGE": 1}


class SiteLogger(logging.Logger):
    """A logger with C{trace}, C{profile} and C{garbage}."""

    _said: set[str] = set()

    def profile(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """How long something took."""
        self.log(LEVELS["PROFILE"], msg, *args, **kwargs)

    def trace(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """More than C{debug} says."""
        self.log(LEVELS["TRACE"], msg, *args, **kwargs)

    def garbage(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """All there is to say."""
        self.log(LEVELS["GARBAGE"], msg, *args, **kwargs)

    def _log(
        self,
        level: int,
        msg: object,
        args: Any,
        exc_info: Any = None,
        extra: Any = None,
        stack_info: bool = False,
        stacklevel: int = 1,
        exc_info_on_loglevel: int | str | None = None,
        once: bool = False,
    ) -> None:
        """
        @param exc_info_on_loglevel: show the exception where messages of this level are shown.
        @param once: not if a message with these values was said before.
        """
        if once:
            if str(args) in self._said:
                return
            self._said.add(str(args))
        if isinstance(exc_info_on_loglevel, str):
            exc_info_on_loglevel = logging.getLevelName(exc_info_on_loglevel.upper())
        if isinstance(exc_info_on_loglevel, int) and not exc_info:
            exc_info = self.isEnabledFor(exc_info_on_loglevel)
        super()._log(level, msg, args, exc_info, extra, stack_info, stacklevel + 1)


def install() -> None:
    """Loggers that are made from now on have them; C{logging.TRACE} and the others are there."""
    for name, level in LEVELS.items():
        logging.addLevelName(level, name)
        setattr(logging, name, level)
    logging.setLoggerClass(SiteLogger)
