"""
The sources of files that a master alone may serve, by the names of C{fileserver_backend}.

What a node of a cluster serves in their place is in L{saltwisted.roles.clusterroots}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.kinds import FILES, Parts
from saltwisted.parts import IFileSource
from saltwisted.stores.roots.served import Roots, RunInPool


def _directories(config: Any, run: RunInPool) -> Roots:
    return Roots(config.file_roots, run, config)


FILE_SOURCES = Parts[Callable[[Any, RunInPool], IFileSource]](
    FILES,
    {
        "roots": _directories,
    },
)
"""Each is made of the master's configuration and its pool."""
