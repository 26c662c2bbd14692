"""
Words of Salt about PostgreSQL: extensions and privileges.
"""

from __future__ import annotations

NOT_INSTALLED = "EXTENSION NOT INSTALLED"
INSTALLED = "EXTENSION INSTALLED"
TO_UPGRADE = "EXTENSION TO UPGRADE"
TO_MOVE = "EXTENSION TO MOVE"

PRIVILEGES = {
    "table": (
        *("INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"),
        "MAINTAIN",
    ),
    "tablespace": ("CREATE",),
    "language": ("USAGE",),
    "sequence": ("SELECT", "UPDATE", "USAGE"),
    "schema": ("USAGE", "CREATE"),
    "database": ("CREATE", "TEMPORARY", "CONNECT"),
    "function": ("EXECUTE",),
}
"""What there may be on an object of each kind."""
