"""
How much of the disk a node's roots may use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.roots.guards import MIB
from saltwisted.stores.roots.objects import ContentStore


class Room:
    """
    The configured limits, compared with the space that is there.

    @param options: the C{cluster_roots} map of the configuration.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._free = int(options.get("free_mib", 512)) * MIB
        self._quota = int(options.get("quota_mib", 0)) * MIB

    def problem(self, objects: ContentStore | None, folder: str, size: int) -> str:
        """Why this many bytes cannot be stored; empty if they can."""
        kept = objects.total() if self._quota and objects is not None else 0
        if self._quota and kept + size > self._quota:
            return (
                f"quota: {size // MIB} MiB to come, {kept // MIB} of {self._quota // MIB} MiB are "
                "in use (quota_mib)"
            )
        info = os.statvfs(folder)
        free = info.f_bavail * info.f_frsize
        floor = min(max(self._free, info.f_blocks * info.f_frsize // 20), 20 * self._free)
        if free - size < floor:
            return (
                f"no room: {size // MIB} MiB to come, {free // MIB} MiB free, "
                f"{floor // MIB} MiB are kept free"
            )
        return ""
