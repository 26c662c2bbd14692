"""C{salt._compat}: what was needed for old Pythons."""

from __future__ import annotations

import ipaddress

__all__ = ["ipaddress"]
