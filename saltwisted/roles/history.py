"""
A stock master's job history, where ours is started on the stock master's own directories.

A takeover copies it (L{saltwisted.tools.takeover}); who just starts our daemon with the directory
of a stock master has it beside ours, in C{cachedir/jobs}. At the first start it is read by a
process of its own, and comes in while we serve.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.utils import getProcessValue


def stock_history(reactor: Any, cachedir: str, jobs: str) -> Callable[[str], Deferred[Any]] | None:
    """
    A function that writes the history to a path, or C{None} if there is none or it was read before.

    @param jobs: where our job cache is, or will be.
    """
    folder = os.path.join(cachedir, "jobs")
    unfinished = unfinished_file(os.path.dirname(jobs))
    if not os.path.isdir(folder) or (os.path.exists(jobs) and not os.path.exists(unfinished)):
        return None

    def write_file(path: str) -> Deferred[Any]:
        # Who stops us from here on finds it at the next start, and begins again
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        ended: Deferred[Any] = getProcessValue(
            sys.executable,
            ["-m", "saltwisted.tools.jobhistory", folder, unfinished, path],
            env=dict(os.environ),
            reactor=reactor,
        )
        return ended

    return write_file


def unfinished_file(folder: str) -> str:
    """The path of the history while it is incomplete."""
    return os.path.join(folder, "history.part")
