"""C{salt.utils.validate.net}: whether a text is an address."""

from __future__ import annotations

import ipaddress
import re
from typing import Any


def mac(addr: Any) -> bool:
    """Whether it is a hardware address with colons or hyphens."""
    return bool(re.match(r"^(?:[0-9a-fA-F]{2}([:-]))(?:[0-9a-fA-F]{2}\1){4}[0-9a-fA-F]{2}$", addr))


def ipv4_addr(addr: Any) -> bool:
    """Whether it is an IPv4 address, or one with a prefix."""
    return _is(addr, ipaddress.IPv4Address, 32)


def ipv6_addr(addr: Any) -> bool:
    """Whether it is an IPv6 address, or one with a prefix."""
    return _is(addr, ipaddress.IPv6Address, 128)


def ip_addr(addr: Any) -> bool:
    """Whether it is an address, or one with a prefix."""
    return ipv4_addr(addr) or ipv6_addr(addr)


def _is(addr: Any, kind: type, longest: int) -> bool:
    address, slash, prefix = str(addr).partition("/")
    try:
        kind(address)
        return not slash or 0 <= int(prefix) <= longest
    except ValueError:
        return False


def netmask(mask: Any) -> bool:
    """Whether it is an IPv4 mask, as addresses or as a number of bits."""
    if not isinstance(mask, str):
        return False
    try:
        ipaddress.IPv4Network(f"0.0.0.0/{mask}")
    except ipaddress.NetmaskValueError:
        return False
    return True
