"""Reading and making many small files of roots; a call is a request of C{stores.filework}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.stores import filework


def serve(payload: Mapping[str, Any], daemon: Any, facts: Mapping[str, Any]) -> list[Any]:
    """The entry of a pooled worker process."""
    return filework.serve(payload)
