"""
Files of state runs in the minion's cache: high data, results of parallel states, requests, pauses.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import Any

from saltwisted.wire.msgpack import pack, unpack
from saltwisted.worker.jobfiles import write_whole
from saltwisted.worker.masking import is_marked

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


def write_high(path: str, high: Any, secret: bool = False) -> None:
    """
    Keep high data for C{cache=True}, unless a state in it has C{no_log}: it is compiled anew.

    @param secret: the whole job is.
    """
    if secret or (isinstance(high, dict) and is_marked(high)):
        with suppress(FileNotFoundError):
            os.remove(path)
    else:
        write_cache(path, high)
