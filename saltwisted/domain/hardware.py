"""
Addresses of network hardware.
"""

from __future__ import annotations


def mac_str_to_bytes(mac_str: str) -> bytes:
    """
    A hardware address as six bytes.

    @raises ValueError: it has neither 12 nor 17 characters.
    """
    if len(mac_str) == 17:
        mac_str = mac_str.replace(mac_str[2], "")
    elif len(mac_str) != 12:
        raise ValueError("Invalid MAC address")
    return bytes(int(mac_str[at : at + 2], 16) for at in range(0, 12, 2))
