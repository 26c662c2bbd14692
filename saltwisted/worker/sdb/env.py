"""
C{sdb://profile/NAME}: variables of the environment of the process that asks.
"""

from __future__ import annotations

import os
from typing import Any

__func_alias__ = {"set_": "set"}


def set_(key: str, value: str, profile: Any = None) -> str:
    """Set a variable that is not there yet; its value, whoever has set it."""
    return os.environ.setdefault(key, value)


def get(key: str, profile: Any = None) -> str | None:
    """A variable's value."""
    return os.environ.get(key)
