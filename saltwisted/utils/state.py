"""
Names of states' results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def gen_tag(low: Mapping[str, Any]) -> str:
    """The key of a low chunk's result."""
    return "_|-".join(str(low[key]) for key in ("state", "__id__", "name", "fun"))
