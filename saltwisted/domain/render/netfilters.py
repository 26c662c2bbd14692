"""
Filters on addresses and networks, with Salt's names and results.

A wrong address is not an error but C{None} or C{False}; lists are filtered. The filters that ask a
name server or roll dice are the host's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from types import GeneratorType
from typing import Any

_LISTS = (list, tuple, GeneratorType)

_KINDS: dict[str, Callable[[Any], bool]] = {
    "global": lambda ip: not ip.is_private,
    "public": lambda ip: not ip.is_private,
    "link-local": lambda ip: bool(ip.is_link_local),
    "linklocal": lambda ip: bool(ip.is_link_local),
    "link_local": lambda ip: bool(ip.is_link_local),
    "ll": lambda ip: bool(ip.is_link_local),
    "loopback": lambda ip: bool(ip.is_loopback),
    "lo": lambda ip: bool(ip.is_loopback),
    "multicast": lambda ip: bool(ip.is_multicast),
    "private": lambda ip: bool(ip.is_private),
    "reserved": lambda ip: bool(ip.is_reserved),
    "site-local": lambda ip: ip.version == 6 and bool(ip.is_site_local),
    "site_local": lambda ip: ip.version == 6 and bool(ip.is_site_local),
    "sl": lambda ip: ip.version == 6 and bool(ip.is_site_local),
    "unspecified": lambda ip: bool(ip.is_unspecified),
}


def address_of(value: Any, version: int, options: str | None = None) -> str | None:
    """
    An address, or an interface with its prefix, in canonical form.

    @param options: kinds that it must be of, with commas.
    @return: C{None} for anything else.
    """
    ip: Any
    try:
        ip = ipaddress.ip_address(value)
    except ValueError:
        try:
            ip = ipaddress.ip_interface(value)
        except ValueError:
            return None
    if ip.version != version:
        return None
    if options:
        asked = {word.strip() for word in options.split(",")}
        if not all(holds(ip) for kind, holds in _KINDS.items() if kind in asked):
            return None
    return str(ip)


def is_ipv4(ip_addr: Any, options: str | None = None) -> bool:
    """Whether it is an IPv4 address."""
    return address_of(ip_addr, 4, options) is not None


def is_ipv6(ip_addr: Any, options: str | None = None) -> bool:
    """Whether it is an IPv6 address."""
    return address_of(ip_addr, 6, options) is not None


def is_ip(ip_addr: Any, options: str | None = None) -> bool:
    """Whether it is an address."""
    return is_ipv4(ip_addr, options) or is_ipv6(ip_addr, options)


def _only(value: Any, version: int, options: str | None) -> Any:
    if isinstance(value, (str, bytes)):
        return address_of(value, version, options)
    if isinstance(value, _LISTS):
        found = (address_of(one, version, options) for one in value)
        return [one for one in found if one is not None]
    return None


def ipv4(value: Any, options: str | None = None) -> Any:
    """The value, or those values of a list, that are IPv4 addresses."""
    return _only(value, 4, options)


def ipv6(value: Any, options: str | None = None) -> Any:
    """The value, or those values of a list, that are IPv6 addresses."""
    return _only(value, 6, options)


def ipaddr(value: Any, options: str | None = None) -> Any:
    """The value, or those of a list, that are addresses: IPv4 first."""
    old, new = ipv4(value, options), ipv6(value, options)
    return old or new if old is None or new is None else old + new


def _each(value: Any, options: str | None, version: int | None, make: Callable[[Any], Any]) -> Any:
    """Apply to the address, or to each address of a list."""
    if not version:
        found = ipaddr(value, options)
    else:
        found = _only(value, version, options) if version in (4, 6) else None
    if not found:
        return None
    many: Any = found if isinstance(found, _LISTS) else [found]
    return [make(one) for one in many] if isinstance(value, _LISTS) else make(many[0])


def ip_host(value: Any, options: str | None = None, version: int | None = None) -> Any:
    """The address with its prefix length."""
    return _each(value, options, version, lambda one: str(ipaddress.ip_interface(one)))


def network_hosts(value: Any, options: str | None = None, version: int | None = None) -> Any:
    """Every host of the network."""
    return _each(
        value,
        options,
        version,
        lambda one: [str(ip) for ip in ipaddress.ip_network(one, strict=False).hosts()],
    )


def network_size(value: Any, options: str | None = None, version: int | None = None) -> Any:
    """How many addresses the network has."""
    return _each(
        value, options, version, lambda one: ipaddress.ip_network(one, strict=False).num_addresses
    )


def filter_by_networks(values: Any, networks: Any) -> Any:
    """
    Those addresses that are in one of the networks; C{None} for networks keeps all.

    @param values: a list, or a map of lists.
    @raises ValueError: anything else.
    """
    if networks is None:
        return values
    known = [ipaddress.ip_network(network) for network in networks]

    def inside(addresses: Any) -> list[Any]:
        return [ip for ip in addresses for net in known if ipaddress.ip_address(ip) in net]

    if isinstance(values, Mapping):
        return {name: inside(addresses) for name, addresses in values.items()}
    if isinstance(values, Sequence):
        return inside(values)
    raise ValueError(f"Do not know how to filter a {type(values)}")


def bracketed(address: Any) -> str:
    """
    An address as a URL wants it: IPv6 in square brackets.

    @raises ValueError: it is not a bare address.
    """
    ip = ipaddress.ip_address(str(address).lstrip("[").rstrip("]"))
    return f"[{ip}]" if ip.version == 6 else str(ip)


def ipwrap(data: Any) -> Any:
    """IPv6 addresses, alone or in a list, in square brackets; all else untouched."""
    if isinstance(data, (list, tuple)):
        return [ipwrap(one) if not isinstance(one, (list, tuple)) else one for one in data]
    return bracketed(data) if address_of(data, 6) else data


FILTERS: dict[str, Callable[..., Any]] = {
    "filter_by_networks": filter_by_networks,
    "ip_host": ip_host,
    "ipaddr": ipaddr,
    "ipv4": ipv4,
    "ipv6": ipv6,
    "ipwrap": ipwrap,
    "is_ip": is_ip,
    "is_ipv4": is_ipv4,
    "is_ipv6": is_ipv6,
    "network_hosts": network_hosts,
    "network_size": network_size,
}
