"""
The daemon of this minion, told by its modules that something is to be looked at again.
"""

from __future__ import annotations

import logging
from typing import Any

from attrs import frozen

from saltwisted.errors import SaltwistedError
from saltwisted.modules._injected import Injected

log = logging.getLogger(__name__)


@frozen(eq=False)
class Daemon(Injected):
    """C{__daemon__}, where there is one."""

    def refresh(self, what: str, **options: Any) -> bool:
        """Tell the daemon to look again; false when there is none."""
        daemon = self.space["__daemon__"]
        if daemon is None:
            return False
        try:
            daemon.call("refresh", what=what, **options)
        except (SaltwistedError, OSError) as error:
            log.error("The daemon could not refresh its %s: %s", what, error)
            return False
        return True
