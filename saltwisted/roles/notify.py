"""
Telling systemd that we are ready, or going (sd_notify(3)).
"""

from __future__ import annotations

import os
import socket


def notify(message: str) -> bool:
    """Send one message to the service manager, if there is one; never fails."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.connect(address)
            sock.sendall(message.encode())
    except OSError:
        return False
    return True
