"""
The job stores by their names in C{master_job_cache}.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from saltwisted.kinds import JOB_STORE, Parts
from saltwisted.parts import IJobStore
from saltwisted.stores.jobs.store import JobStore

GATHER = 0.005
"""Seconds for which returns are collected under load before they go to other nodes."""


def place(cachedir: str) -> str:
    """The database file of the jobs that are kept here."""
    return os.path.join(cachedir, "saltwisted", "jobs.sqlite")


def _local(
    reactor: Any, config: Any, now: Callable[[], float], node: str, all_told: Callable[[], bool]
) -> JobStore:
    return JobStore(
        reactor,
        place(config.cachedir),
        now,
        float(config.keep_jobs_seconds),
        (int(config.job_claims_max), int(config.job_claims_size_max)),
        node,
        GATHER if node else 0.0,
        all_told,
    )


JOB_STORES = Parts[Callable[[Any, Any, Callable[[], float], str, Callable[[], bool]], IJobStore]](
    JOB_STORE,
    {
        "local_cache": _local,
    },
)
"""
Each is made of the reactor, the master's configuration, a clock, this node's id if it has peers,
and whether all other members have said in this life what jobs they know.
"""
