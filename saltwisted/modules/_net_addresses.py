"""
Addresses, networks and interfaces of this machine, and names of hosts.

A part of the module C{network}: it needs nothing of the loader.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from typing import Any

from saltwisted.worker.grains import netinfo

log = logging.getLogger(__name__)


def interfaces() -> dict[str, dict[str, Any]]:
    """
    All interfaces with their state, hardware address and addresses.

    CLI Example::

        salt '*' network.interfaces
    """
    return netinfo.interfaces()


def _one(iface: str) -> tuple[dict[str, Any] | None, str]:
    """The interface, or C{None} and why not."""
    found = netinfo.interfaces()
    if iface in found:
        return found[iface], ""
    names = '", "'.join(found)
    text = f'Interface "{iface}" not in available interfaces: "{names}"'
    log.error(text)
    return None, text


def hw_addr(iface: str) -> str:
    """
    The hardware address of an interface.

    CLI Example::

        salt '*' network.hw_addr eth0
    """
    data, error = _one(iface)
    return error if data is None else str(data.get("hwaddr", ""))


def interface(iface: str) -> Any:
    """
    The IPv4 addresses of an interface with their masks.

    CLI Example::

        salt '*' network.interface eth0
    """
    data, error = _one(iface)
    return error if data is None else data.get("inet", "")


def interface_ip(iface: str) -> str:
    """
    The first IPv4 address of an interface.

    CLI Example::

        salt '*' network.interface_ip eth0
    """
    data, error = _one(iface)
    if data is None:
        return error
    own = data.get("inet") or [{}]
    return str(own[0].get("address", ""))


def subnets(interfaces: Any = None) -> list[str]:
    """
    The IPv4 networks of this machine, or of one interface or a list of them.

    CLI Example::

        salt '*' network.subnets
        salt '*' network.subnets interfaces=eth1
    """
    ifaces: dict[str, Any] = netinfo.interfaces()
    if interfaces is not None:
        wanted = interfaces if isinstance(interfaces, list) else [interfaces]
        ifaces = {name: data for name, data in ifaces.items() if name in wanted}
    return netinfo.subnets(ifaces)


def subnets6() -> list[str]:
    """
    The IPv6 networks of this machine.

    CLI Example::

        salt '*' network.subnets6
    """
    return netinfo.subnets(netinfo.interfaces(), "inet6")


def in_subnet(cidr: Any) -> bool:
    """
    Whether this machine has an address in a network.

    CLI Example::

        salt '*' network.in_subnet 10.0.0.0/16
    """
    return netinfo.in_subnet(cidr)


def ip_in_subnet(ip_addr: Any, cidr: Any) -> bool:
    """
    Whether an address is in a network.

    CLI Example::

        salt '*' network.ip_in_subnet 172.17.0.4 172.16.0.0/12
    """
    return netinfo.in_subnet(cidr, ip_addr)


def convert_cidr(cidr: str) -> dict[str, str]:
    """
    Network, mask and broadcast address of C{address/bits}.

    CLI Example::

        salt '*' network.convert_cidr 172.31.0.0/16
    """
    network = ipaddress.ip_network(cidr, strict=False)
    return {
        "network": str(network.network_address),
        "netmask": str(network.netmask),
        "broadcast": str(network.broadcast_address),
    }


def calc_net(ip_addr: str, netmask: str | None = None) -> str:
    """
    The network of an address.

    CLI Example::

        salt '*' network.calc_net 172.17.0.5 255.255.255.240
        salt '*' network.calc_net 2a02:f6e:a000:80:84d8:8332:7866:4e07/64
    """
    text = ip_addr if netmask is None else f"{ip_addr}/{netmask}"
    return str(ipaddress.ip_network(text, strict=False))


def ip_addrs(
    interface: Any = None, include_loopback: bool = False, cidr: Any = None, type: Any = None
) -> list[str]:
    """
    The IPv4 addresses of this machine, of some interfaces, in a network, or of a type.

    @param type: C{public} or C{private}.

    CLI Example::

        salt '*' network.ip_addrs
        salt '*' network.ip_addrs cidr=10.0.0.0/8
    """
    found = netinfo.addresses(
        netinfo.pick(netinfo.interfaces(), interface), "inet", include_loopback
    )
    if cidr:
        return [item for item in found if netinfo.in_subnet(cidr, item)]
    if type == "public":
        return [item for item in found if not is_private(item)]
    if type == "private":
        return [item for item in found if is_private(item)]
    return found


def ip_addrs6(interface: Any = None, include_loopback: bool = False, cidr: Any = None) -> list[str]:
    """
    The IPv6 addresses of this machine, of some interfaces, or in a network.

    CLI Example::

        salt '*' network.ip_addrs6
    """
    found = netinfo.addresses(
        netinfo.pick(netinfo.interfaces(), interface), "inet6", include_loopback
    )
    return [item for item in found if netinfo.in_subnet(cidr, item)] if cidr else found


def ip_networks(
    interface: Any = None, include_loopback: bool = False, verbose: bool = False
) -> Any:
    """
    The IPv4 networks of this machine; with C{verbose} a map with their figures.

    CLI Example::

        salt '*' network.list_networks
    """
    ifaces = netinfo.pick(netinfo.interfaces(), interface)
    return netinfo.networks(ifaces, "inet", include_loopback, verbose)


def ip_networks6(
    interface: Any = None, include_loopback: bool = False, verbose: bool = False
) -> Any:
    """
    The IPv6 networks of this machine; with C{verbose} a map with their figures.

    CLI Example::

        salt '*' network.list_networks6
    """
    ifaces = netinfo.pick(netinfo.interfaces(), interface)
    return netinfo.networks(ifaces, "inet6", include_loopback, verbose)


def get_hostname() -> str:
    """
    The host name.

    CLI Example::

        salt '*' network.get_hostname
    """
    return socket.gethostname()


def get_fqdn() -> str:
    """
    The full host name.

    CLI Example::

        salt '*' network.get_fqdn
    """
    return socket.getfqdn()


def is_private(ip_addr: str) -> bool:
    """
    Whether an address is of a private network.

    CLI Example::

        salt '*' network.is_private 10.0.0.3
    """
    return ipaddress.ip_address(ip_addr).is_private


def is_loopback(ip_addr: str) -> bool:
    """
    Whether an address is a loopback address.

    CLI Example::

        salt '*' network.is_loopback 127.0.0.1
    """
    return ipaddress.ip_address(ip_addr).is_loopback


def reverse_ip(ip_addr: str) -> str:
    """
    The name under which an address is looked up in reverse.

    CLI Example::

        salt '*' network.reverse_ip 127.0.0.1
    """
    return ipaddress.ip_address(ip_addr).reverse_pointer


def ifacestartswith(cidr: Any) -> list[str]:
    """
    The interfaces that have an IPv4 address that begins with this text.

    CLI Example::

        salt '*' network.ifacestartswith 10.0
    """
    start = str(cidr)
    return [
        item.get("label", name)
        for name, data in netinfo.interfaces().items()
        for item in data.get("inet", ())
        if item["address"].startswith(start)
    ]


def iphexval(ip: str) -> str:
    """
    An IPv4 address as eight hexadecimal digits.

    CLI Example::

        salt '*' network.iphexval 10.0.0.1
    """
    return "".join(f"{int(part):02X}" for part in ip.split("."))


def fqdns() -> dict[str, list[str]]:
    """
    The names that reverse look-ups give for the addresses of this machine.

    CLI Example::

        salt '*' network.fqdns
    """
    from saltwisted.worker.grains import collect as grains

    return {"fqdns": grains.fqdns(netinfo.interfaces())}
