"""
Links, addresses and routes of this machine, asked from the kernel by netlink.

The answers have the shape that Salt makes from the output of C{ip link}, C{ip addr}
and C{ip route}; no program is started for them. Where Salt copies a peculiarity of
that output (a peer address has mask 32, C{via inet6}) it is copied here too, with
the reason beside it. RFC 3549 describes the protocol, C{rtnetlink(7)} the messages.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

_RTM_NEWLINK, _RTM_GETLINK = 16, 18
_RTM_NEWADDR, _RTM_GETADDR = 20, 22
_RTM_NEWROUTE, _RTM_GETROUTE = 24, 26
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x001 | 0x300

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDR = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")
_ATTR = struct.Struct("=HH")

_IFF_UP = 0x1
_IFA_F_SECONDARY = 0x01
_RT_TABLE_MAIN = 254
_RTN_UNICAST = 1
_RTM_F_CLONED = 0x200

_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
_TUNNELS_V4 = frozenset({768, 776, 778})
_TUNNELS_V6 = frozenset({769, 823})

_NAME = re.compile(r"[\w.\-]+\Z")


@frozen(kw_only=True)
class Route:
    """
    One unicast route of the main table.

    @ivar destination: C{"default"} or C{"address/bits"}.
    @ivar gateway: what follows C{via}, or C{""}.
    @ivar via6: the gateway of an IPv4 route is an IPv6 address.
    @ivar multipath: the gateways are next hops, C{ip} prints them on lines of their own.
    """

    family: int
    destination: str
    gateway: str
    via6: bool
    multipath: bool
    interface: int
    metric: int


def interfaces() -> dict[str, dict[str, Any]]:
    """
    Name to C{{up, parent?, hwaddr?, inet?, inet6?, secondary?}}, in the kernel's order.

    @return: empty where netlink is not to be had (some sandboxes).
    """
    try:
        links = list(_dump(_RTM_GETLINK, _RTM_NEWLINK, socket.AF_UNSPEC))
        addresses = list(_dump(_RTM_GETADDR, _RTM_NEWADDR, socket.AF_UNSPEC))
    except OSError:
        return {}
    names: dict[int, str] = {}
    for body in links:
        _family, _kind, index, _flags, _change = _LINK.unpack_from(body)
        names[index] = _text(_attributes(body, _LINK.size).get(3, b""))
    by_index: dict[int, dict[str, Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for body in links:
        _family, kind, index, flags, _change = _LINK.unpack_from(body)
        attributes = _attributes(body, _LINK.size)
        data: dict[str, Any] = {"up": bool(flags & _IFF_UP)}
        parent = _parent(attributes, names)
        if parent:
            data["parent"] = parent
        hardware = attributes.get(1)
        if hardware:
            data["hwaddr"] = _hardware(kind, hardware)
        by_index[index] = data
        # Salt's expression for the name knows no other characters, and loses such links.
        if _NAME.match(names[index]):
            found[names[index]] = data
    for body in addresses:
        _add_address(body, by_index)
    return found


def _parent(attributes: Mapping[int, bytes], names: Mapping[int, str]) -> str:
    raw = attributes.get(5)
    if raw is None:
        return ""
    lower: int = struct.unpack("=i", raw)[0]
    if lower == 0:
        return "NONE"
    # IFLA_LINK_NETNSID: the other end is in another name space, and has no name here.
    return f"if{lower}" if 37 in attributes else names.get(lower, f"if{lower}")


def _hardware(kind: int, raw: bytes) -> str:
    if kind in _TUNNELS_V4 and len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    if kind in _TUNNELS_V6 and len(raw) == 16:
        return socket.inet_ntop(socket.AF_INET6, raw)
    return raw.hex(":")


def _add_address(body: bytes, by_index: Mapping[int, dict[str, Any]]) -> None:
    family, bits, flags, scope, index = _ADDR.unpack_from(body)
    data = by_index.get(index)
    if data is None or family not in (socket.AF_INET, socket.AF_INET6):
        return
    attributes = _attributes(body, _ADDR.size)
    if 8 in attributes:
        flags = struct.unpack("=I", attributes[8])[0]
    far = attributes.get(1)
    near = attributes.get(2, far)
    if near is None:
        return
    text = socket.inet_ntop(family, near)
    # With a peer `ip` prints the length behind the peer, and Salt takes 32 for the near end.
    peer = far is not None and far != near
    if family == socket.AF_INET6:
        data.setdefault("inet6", []).append(
            {
                "address": text,
                "prefixlen": 32 if peer else str(bits),
                "scope": _SCOPES.get(scope, str(scope)),
            }
        )
        return
    broadcast = attributes.get(4)
    entry = {
        "address": text,
        "netmask": netmask(32 if peer else bits),
        "broadcast": None if broadcast is None else socket.inet_ntop(family, broadcast),
        "label": _text(attributes.get(3, b"")),
    }
    if flags & _IFA_F_SECONDARY:
        data.setdefault("secondary", []).append({"type": "inet", **entry})
    else:
        data.setdefault("inet", []).append(entry)


def netmask(bits: int) -> str:
    """C{24} to C{255.255.255.0}."""
    return socket.inet_ntoa(struct.pack("!I", (0xFFFFFFFF << (32 - bits)) & 0xFFFFFFFF))


def routes(family: int) -> list[Route]:
    """
    The unicast routes of the main table, in the order of C{ip route show}.

    @param family: C{socket.AF_INET} or C{AF_INET6}.
    @raises OSError: no netlink.
    """
    found: list[Route] = []
    for body in _dump(_RTM_GETROUTE, _RTM_NEWROUTE, family):
        of, bits, _src, _tos, table, _proto, _scope, kind, flags = _ROUTE.unpack_from(body)
        if of != family:
            continue
        attributes = _attributes(body, _ROUTE.size)
        if 15 in attributes:
            table = struct.unpack("=I", attributes[15])[0]
        if table != _RT_TABLE_MAIN or kind != _RTN_UNICAST or flags & _RTM_F_CLONED:
            continue
        gateway, via6 = "", False
        if 5 in attributes:
            gateway = socket.inet_ntop(family, attributes[5])
        elif 18 in attributes:
            via_family = struct.unpack_from("=H", attributes[18])[0]
            gateway = socket.inet_ntop(via_family, attributes[18][2:])
            via6 = via_family == socket.AF_INET6
        address = attributes.get(1, b"\0" * (4 if family == socket.AF_INET else 16))
        found.append(
            Route(
                family=family,
                destination=f"{socket.inet_ntop(family, address)}/{bits}" if bits else "default",
                gateway=gateway,
                via6=via6,
                multipath=9 in attributes,
                interface=struct.unpack("=i", attributes[4])[0] if 4 in attributes else 0,
                metric=struct.unpack("=I", attributes[6])[0] if 6 in attributes else 0,
            )
        )
    return found


def _dump(request: int, reply: int, family: int) -> Iterator[bytes]:
    """The bodies of all C{reply} messages to one dump request."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as sock:
        # struct ifinfomsg is the longest request header of the three; the rest is zero.
        body = struct.pack("=B15x", family)
        sock.send(_HEADER.pack(_HEADER.size + len(body), request, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data = sock.recv(262144)
            at = 0
            while at + _HEADER.size <= len(data):
                length, kind, _flags, _seq, _pid = _HEADER.unpack_from(data, at)
                if kind == _NLMSG_DONE or length < _HEADER.size:
                    return
                if kind == _NLMSG_ERROR:
                    code = struct.unpack_from("=i", data, at + _HEADER.size)[0]
                    raise OSError(-code, "netlink")
                if kind == reply:
                    yield data[at + _HEADER.size : at + length]
                at += (length + 3) & ~3


def _attributes(body: bytes, at: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    end = len(body)
    while at + 4 <= end:
        length, kind = _ATTR.unpack_from(body, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = body[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", "replace")


def family_entries(data: Mapping[str, Any], proto: str) -> list[dict[str, Any]]:
    """The addresses of one interface: first the primary ones of C{proto}, then its secondaries."""
    second = [item for item in data.get("secondary", ()) if item.get("type") == proto]
    return [*data.get(proto, ()), *second]


def pick(ifaces: Mapping[str, Any], interface: Any = None) -> dict[str, Any]:
    """The interfaces whose name matches one of the globs (a list, or text with commas)."""
    if interface is None:
        return dict(ifaces)
    globs = interface
    if isinstance(interface, str):
        globs = [part.strip() for part in interface.split(",")]
    elif not isinstance(interface, (list, tuple)):
        globs = [str(interface)]
    return {
        name: data
        for name, data in ifaces.items()
        if any(fnmatch.fnmatch(name, str(glob)) for glob in globs)
    }


def addresses(
    ifaces: Mapping[str, Any], proto: str = "inet", include_loopback: bool = False
) -> list[str]:
    """All different addresses of C{proto} (C{inet}, C{inet6}), sorted as numbers."""
    found = set()
    for data in ifaces.values():
        for item in family_entries(data, proto):
            address = ipaddress.ip_address(item["address"])
            if include_loopback or not address.is_loopback:
                found.add(address)
    return [str(address) for address in sorted(found)]


def subnets(ifaces: Mapping[str, Any], proto: str = "inet") -> list[str]:
    """The networks to which the interfaces belong, without loopback, sorted."""
    field = "netmask" if proto == "inet" else "prefixlen"
    found = set()
    for data in ifaces.values():
        for item in family_entries(data, proto):
            size = item.get(field, 32 if proto == "inet" else 128)
            own = ipaddress.ip_interface(f"{item['address']}/{size}")
            if not own.is_loopback:
                found.add(own.network)
    return [str(network) for network in sorted(found)]


def networks(
    ifaces: Mapping[str, Any],
    proto: str = "inet",
    include_loopback: bool = False,
    verbose: bool = False,
) -> Any:
    """As L{subnets}, or with C{verbose} a map of each network to its figures."""
    field = "netmask" if proto == "inet" else "prefixlen"
    found = set()
    for data in ifaces.values():
        for item in family_entries(data, proto):
            try:
                network = ipaddress.ip_network(f"{item['address']}/{item[field]}", strict=False)
            except (ValueError, KeyError):
                continue
            if include_loopback or not network.is_loopback:
                found.add(network)
    ordered = sorted(found)
    if not verbose:
        return [str(network) for network in ordered]
    return {
        str(network): {
            "address": str(network.network_address),
            "netmask": str(network.netmask),
            "num_addresses": network.num_addresses,
            "prefixlen": network.prefixlen,
        }
        for network in ordered
    }


def in_subnet(cidr: Any, address: Any = None) -> bool:
    """Whether any of the addresses (one, a list, or all of this machine) is in a network."""
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError:
        return False
    if address is None:
        ifaces = interfaces()
        candidates: Any = [*addresses(ifaces), *addresses(ifaces, "inet6")]
    elif isinstance(address, (list, tuple)):
        candidates = address
    else:
        candidates = (address,)
    return any(ipaddress.ip_address(item) in network for item in candidates)


def hex2ip(text: str, invert: bool = False) -> str:
    """
    An address as C{/proc/net/tcp} writes it.

    @param invert: the bytes of each 32-bit word are in the order of this machine.
    @return: an IPv4 address for a mapped one; C{text} itself if it is none.
    """
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return text
    if invert:
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    if len(raw) != 16:
        return text
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)


def tcp_connections() -> Iterator[dict[str, Any]]:
    """C{{local_addr, local_port, remote_addr, remote_port}} of each established connection."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) < 4 or words[3] != "01":
                continue
            found: dict[str, Any] = {}
            for side, word in (("local", words[1]), ("remote", words[2])):
                address, _colon, port = word.partition(":")
                found[f"{side}_addr"] = hex2ip(address, invert=sys.byteorder == "little")
                found[f"{side}_port"] = int(port, 16)
            yield found


def remotes(port: int, side: str = "remote_port") -> set[str]:
    """Addresses at the far end of connections with this port on one side."""
    return {item["remote_addr"] for item in tcp_connections() if item[side] == port}


def host_to_ips(host: str) -> list[str] | None:
    """All addresses of a name, or C{None}; may wait for the name servers."""
    try:
        answers = socket.getaddrinfo(host, 0, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return [str(answer[4][0]) for answer in answers] or None
