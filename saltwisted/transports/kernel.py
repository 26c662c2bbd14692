"""
What the kernel knows of TCP connections, from C{/proc/net}.
"""

from __future__ import annotations

from saltwisted.domain.presence import established_peers


def connected_addresses(port: int) -> set[str]:
    """The remote addresses that have an established connection to our local TCP port."""
    found: set[str] = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as handle:
                found |= established_peers(handle.read(), port)
        except OSError:
            continue
    return found
