"""Networks, with the names of C{salt.utils.network}."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import Any

from saltwisted.domain.render import netfilters
from saltwisted.modules import _net_addresses as _addresses
from saltwisted.utils._own import own
from saltwisted.worker import renderfilters

calc_net = own(__name__, _addresses.calc_net)
dns_check = own(__name__, renderfilters.dns_check)
filter_by_networks = own(__name__, netfilters.filter_by_networks)
gen_mac = own(__name__, renderfilters.gen_mac)
hw_addr = own(__name__, _addresses.hw_addr)
interface = own(__name__, _addresses.interface)
interface_ip = own(__name__, _addresses.interface_ip)
interfaces = own(__name__, _addresses.interfaces)
ip_addrs6 = own(__name__, _addresses.ip_addrs6)
ip_host = own(__name__, netfilters.ip_host)
ip_networks = own(__name__, _addresses.ip_networks)
ip_networks6 = own(__name__, _addresses.ip_networks6)
ipaddr = own(__name__, netfilters.ipaddr)
ipv4 = own(__name__, netfilters.ipv4)
ipv6 = own(__name__, netfilters.ipv6)
ipwrap = own(__name__, netfilters.ipwrap)
network_hosts = own(__name__, netfilters.network_hosts)
network_size = own(__name__, netfilters.network_size)
subnets = own(__name__, _addresses.subnets)
subnets6 = own(__name__, _addresses.subnets6)


def is_ip(ip_addr: Any) -> bool:
    """Whether it is an address."""
    return is_ipv4(ip_addr) or is_ipv6(ip_addr)


def is_ipv4(ip_addr: Any) -> bool:
    """Whether it is an IPv4 address."""
    try:
        return ipaddress.ip_address(ip_addr).version == 4
    except ValueError:
        return False


def is_ipv6(ip_addr: Any) -> bool:
    """Whether it is an IPv6 address."""
    try:
        return ipaddress.ip_address(ip_addr).version == 6
    except ValueError:
        return False


def is_loopback(ip_addr: Any) -> bool:
    """Whether it is an address that means this machine alone."""
    try:
        return ipaddress.ip_address(ip_addr).is_loopback
    except ValueError:
        return False


def is_subnet(cidr: Any) -> bool:
    """Whether it is an address with a prefix."""
    return is_ipv4_subnet(cidr) or is_ipv6_subnet(cidr)


def is_ipv4_subnet(cidr: Any) -> bool:
    """Whether it is an IPv4 address with a prefix."""
    try:
        return "/" in cidr and bool(ipaddress.IPv4Network(cidr))
    except (ValueError, TypeError):
        return False


def is_ipv6_subnet(cidr: Any) -> bool:
    """Whether it is an IPv6 address with a prefix."""
    try:
        return "/" in cidr and bool(ipaddress.IPv6Network(cidr))
    except (ValueError, TypeError):
        return False


def ip_addrs(
    interface: Any = None, include_loopback: bool = False, interface_data: Any = None
) -> list[str]:
    """The IPv4 addresses of this machine, or of one interface."""
    return _addresses.ip_addrs(interface, include_loopback)


def in_subnet(cidr: Any, addr: Any = None) -> bool:
    """Whether one of our addresses, or of those given, is in a network."""
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError:
        return False
    if addr is None:
        addr = [*ip_addrs(), "127.0.0.1"]
    elif not isinstance(addr, list | tuple):
        addr = (addr,)
    return any(ipaddress.ip_address(each) in network for each in addr)


def cidr_to_ipv4_netmask(cidr_bits: Any) -> str:
    """C{24} to C{255.255.255.0}; empty for what is no length of a prefix."""
    try:
        bits = int(cidr_bits)
    except ValueError:
        return ""
    if not 1 <= bits <= 32:
        return ""
    return socket.inet_ntoa(struct.pack(">I", 0xFFFFFFFF << (32 - bits) & 0xFFFFFFFF))


def get_net_size(mask: str) -> int:
    """C{255.255.255.0} to C{24}."""
    bits = "".join(f"{int(part):08b}" for part in mask.split("."))
    return len(bits.rstrip("0"))


def get_net_start(ipaddr: str, netmask: str) -> str:
    """The first address of a network."""
    return str(ipaddress.ip_network(f"{ipaddr}/{netmask}", strict=False).network_address)


def calculate_subnet(ipaddr: str, netmask: str) -> str:
    """The network of an address and a mask."""
    return str(ipaddress.ip_network(f"{ipaddr}/{netmask}", strict=False))


def get_fqhostname() -> str:
    """This machine's name, with its domain if it has one."""
    return socket.getfqdn()


def host_to_ips(host: str) -> list[str] | None:
    """The addresses of a name; C{None} when it has none."""
    try:
        found = socket.getaddrinfo(host, 0, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except OSError:
        return None
    return list(dict.fromkeys(str(each[4][0]) for each in found)) or None


def ip_to_host(ip: str) -> str | None:
    """The name of an address; C{None} when it has none."""
    try:
        return socket.gethostbyaddr(ip)[0]
    except OSError:
        return None


def isportopen(host: str, port: Any) -> Any:
    """C{0} when something listens, else the number of the error; C{False} for no port at all."""
    if not 1 <= int(port) <= 65535:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        return sock.connect_ex((sanitize_host(host), int(port)))


def sanitize_host(host: str) -> str:
    """Only the signs that a host's name may have; an address stays as it is."""
    if is_ip(host):
        return host
    import re

    return re.sub(r"[^0-9A-Za-z._-]", "", host)


def ip_bracket(addr: Any, strip: bool = False) -> str:
    """
    An IPv6 address in brackets; with C{strip}, without them.

    @raises ValueError: no address.
    """
    address = ipaddress.ip_address(str(addr).strip("[]"))
    return str(address) if strip or address.version == 4 else f"[{address}]"


def mac_str_to_bytes(mac_str: str) -> bytes:
    """
    The six bytes of a hardware address.

    @raises ValueError: it is none.
    """
    if len(mac_str) == 17:
        separator = mac_str[2]
        if separator not in ":-":
            raise ValueError("Invalid MAC address")
        mac_str = mac_str.replace(separator, "")
    elif len(mac_str) != 12:
        raise ValueError("Invalid MAC address")
    return bytes.fromhex(mac_str)


def parse_host_port(host_port: str) -> tuple[str, int | None]:
    """
    The host and port of C{host:port}; an IPv6 address stands in brackets before one.

    @raises ValueError: it is none.
    """
    host, port = host_port, ""
    if host_port.startswith("["):
        host, closed, rest = host_port[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError(f"invalid host_port: {host_port}")
        port = rest[1:]
    elif host_port.count(":") == 1:
        host, _, port = host_port.partition(":")
    if not is_ip(host) and sanitize_host(host) != host:
        raise ValueError(f'bad hostname: "{host}"')
    if not port:
        return host, None
    try:
        return host, int(port)
    except ValueError:
        raise ValueError(
            f'host_port "{host_port}" port value "{port}" is not an integer.'
        ) from None


def refresh_dns() -> None:
    """Nothing to do: the system reads its servers anew by itself."""
