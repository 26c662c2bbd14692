"""
Files of state runs in the minion's cache: high data, results of parallel states, requests, pauses.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.wire.msgpack import pack, unpack
from saltwisted.worker.jobfiles import write_whole

log = logging.getLogger(__name__)


def read_cache(path: str) -> Any:
    """High data of an earlier run."""
    with open(path, "rb") as stream:
        return unpack(stream.read())


def write_cache(path: str, data: Any) -> None:
    """Keep high data or results, readable by nobody else; what cannot be kept is not."""
    try:
        packed = pack(data)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return
    try:
        write_whole(path, packed, sync=False)
    except OSError as error:
        log.error("Unable to write to state cache file %s: %s", path, error)
