"""
A node that dies by itself at one exact moment of a reaction: C{twistd} with two methods wrapped.

C{DYING} names a directory. The first node that comes to a moment for which there is a file in it
takes the file away, and is gone in the same instant.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

GRANTED = "granted"
"""The claim is granted, nothing is begun."""
DONE = "done"
"""All is done, nobody was told of the end."""


def die_at(moment: str) -> None:
    """Unless nobody is to die now."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(os.environ["DYING"], moment))
        os.kill(os.getpid(), signal.SIGKILL)


def run() -> None:
    """As C{twistd}."""
    from twisted.scripts import twistd

    from saltwisted.cluster.claims.claims import ClusterClaims
    from saltwisted.master.automation.reactor import Reactor

    begin, end = Reactor._begin, ClusterClaims.end

    def begins(self: Reactor, *args: Any) -> Any:
        die_at(GRANTED)
        return begin(self, *args)

    def ends(self: ClusterClaims, *args: Any) -> Any:
        die_at(DONE)
        return end(self, *args)

    Reactor._begin = begins  # type: ignore[method-assign]
    ClusterClaims.end = ends  # type: ignore[method-assign]
    twistd.run()


if __name__ == "__main__":
    run()
