"""
How many minions a batch means, by the rules of Salt.
"""

from __future__ import annotations

import math
from typing import Any


def batch_size(size: Any, minions: int) -> int:
    """
    How many run at once: a number, or a share of C{minions} in percent; at least one.

    @raises ValueError: it is neither.
    """
    if isinstance(size, str) and "%" in size:
        share = float(size.strip("%")) / 100 * minions
        if not math.isfinite(share):
            raise ValueError("a share has an end")
        return max(1, math.ceil(share)) if share < 1 else int(share)
    return max(1, whole(size))


def whole(value: Any) -> int:
    """
    A whole number of what somebody has sent; fractions are cut.

    JSON has C{1e400}, YAML C{.inf}, and Python makes infinity of them.

    @raises ValueError: it is none, or has no end.
    """
    try:
        return int(value)
    except (TypeError, OverflowError):
        raise ValueError(f"{str(value)[:50]!r} is no whole number") from None
