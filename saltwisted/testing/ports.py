"""
Ports of this machine for tests that run side by side.
"""

from __future__ import annotations

import fcntl
import functools
import os
import random
import socket
import tempfile

PORTS = range(10_240, 32_000)
"""Below those that the kernel gives to whoever connects."""
_taken: set[int] = set()


@functools.cache
def _port_locks() -> int:
    """A file of which each byte is the lock of a port, common to all test processes."""
    path = os.path.join(tempfile.gettempdir(), f"saltwisted-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def reserve_ports(count: int) -> list[int]:
    """
    Ports that are free at every address, and that no other test gets before this process ends.

    Test processes run side by side: the reservation is a record lock, which the kernel ends
    with the process that holds it.
    """
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(ports) == count:
            break
        if port in _taken:
            continue
        try:
            fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", port))
        except OSError:
            continue
        _taken.add(port)
        ports.append(port)
    if len(ports) < count:
        raise OSError(f"no {count} ports are free between {PORTS[0]} and {PORTS[-1]}")
    return ports
