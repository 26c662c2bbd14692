"""C{salt.utils.job}: what returners ask of the job cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_keep_jobs_seconds(opts: Mapping[str, Any]) -> Any:
    """How long jobs are kept."""
    return opts.get("keep_jobs_seconds", 86400)
