"""
The sources of files that a lone master may serve, by their names in C{fileserver_backend}.

L{saltwisted.roles.clusterroots} has what a cluster node serves in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, fail

from saltwisted.errors import StoreError
from saltwisted.kinds import FILES, Parts
from saltwisted.parts import IFileSource
from saltwisted.stores.git.lists import Work
from saltwisted.stores.git.objects import library
from saltwisted.stores.git.source import GitFiles
from saltwisted.stores.roots.pushed import PushedFiles
from saltwisted.stores.roots.served import Roots, RunInPool


def _nobody(request: Mapping[str, Any]) -> Deferred[Any]:
    return fail(StoreError("there are no worker processes here"))


def _directories(config: Any, run: RunInPool, work: Work = _nobody) -> Roots:
    return Roots(config.file_roots, run, config)


def _commits(config: Any, run: RunInPool, work: Work = _nobody) -> GitFiles:
    library()
    return GitFiles(str(config.cachedir), str(config.hash_type), run, work)


def _pushed(config: Any, run: RunInPool, work: Work = _nobody) -> PushedFiles:
    return PushedFiles(config, run)


FILE_SOURCES = Parts[Callable[..., IFileSource]](
    FILES,
    {
        "roots": _directories,
        "gitfs": _commits,
        "minionfs": _pushed,
    },
)
"""
Each is made of the master's configuration, its pool, and what has a worker process answer.

@raises ConfigError: when it is made: it lacks a library.
"""
