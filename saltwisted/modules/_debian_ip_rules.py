"""
Which settings an interface of Debian may have, and which values they take.

What is wrong is an C{AttributeError}, as in Salt: the states of C{network} show its text.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Collection, Mapping, MutableMapping
from typing import Any, NoReturn

YES = ("yes", "on", "true", "1", True)
NO = ("no", "off", "false", "0", False)
TYPES = (
    *("eth", "bond", "alias", "clone", "ipsec", "dialup", "bridge", "slave", "vlan", "pppoe"),
    "source",
)
ETHTOOL: Mapping[str, str] = {
    "speed": "link-speed",
    "duplex": "link-duplex",
    "autoneg": "ethernet-autoneg",
    "ethernet-port": "ethernet-port",
    "wol": "ethernet-wol",
    "driver-message-level": "driver-message-level",
    "ethernet-pause-rx": "ethernet-pause-rx",
    "ethernet-pause-tx": "ethernet-pause-tx",
    "ethernet-pause-autoneg": "ethernet-pause-autoneg",
    **{name: f"offload-{name}" for name in ("rx", "tx", "sg", "tso", "ufo", "gso", "gro", "lro")},
    "hardware-irq-coalesce-adaptive-rx": "hardware-irq-coalesce-adaptive-rx",
    "hardware-irq-coalesce-adaptive-tx": "hardware-irq-coalesce-adaptive-tx",
    "hardware-irq-coalesce-rx-usecs": "hardware-irq-coalesce-rx-usecs",
    "hardware-irq-coalesce-rx-frames": "hardware-irq-coalesce-rx-frames",
    "hardware-dma-ring-rx": "hardware-dma-ring-rx",
    "hardware-dma-ring-rx-mini": "hardware-dma-ring-rx-mini",
    "hardware-dma-ring-rx-jumbo": "hardware-dma-ring-rx-jumbo",
    "hardware-dma-ring-tx": "hardware-dma-ring-tx",
}
"""Salt's names of what ethtool sets, and those of ifupdown."""

_SWITCHES = ("rx", "tx", "sg", "tso", "ufo", "gso", "gro", "lro")
_PPPOE_SWITCHES = (
    *("noipdefault", "usepeerdns", "defaultroute", "hide-password", "noauth", "persist"),
    "noaccomp",
)
_PPPOE = (
    *("user", "password", "provider", "pppoe_iface", "holdoff", "maxfail", "lcp-echo-interval"),
    *("lcp-echo-failure", "connect", "mtu", "linkname", *_PPPOE_SWITCHES),
)
_MAC = re.compile(
    r"([0-9a-f]{1,2}-){5}[0-9a-f]{1,2}|([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}"
    r"|([0-9a-f]{1,2}\.){5}[0-9a-f]{1,2}",
    re.IGNORECASE,
)
_BRIDGE_MAC = re.compile(r"[0-9a-f]{2}([-:])[0-9a-f]{2}(\1[0-9a-f]{2}){4}", re.IGNORECASE)

Judged = tuple[bool, Any]
Judge = Callable[[Any], Judged]
"""Says whether a value will do, and what it is then."""


def wrong(iface: str, option: Any, expected: Collection[Any]) -> NoReturn:
    """Refuse the option of an interface."""
    words = "|".join(str(word) for word in expected)
    raise AttributeError(
        f"Invalid option -- Interface: {iface}, Option: {option}, Expected: [{words}]"
    )


def _anything(value: Any) -> Judged:
    return True, value


def _number(kind: type) -> Judge:
    def judge(value: Any) -> Judged:
        try:
            return True, kind(value)
        except (TypeError, ValueError):
            return False, value

    return judge


_int = _number(int)


def _address(family: int, most: int) -> Judge:
    def judge(value: Any) -> Judged:
        if not isinstance(value, str):
            return False, value
        address, slash, mask = value.rpartition("/")
        try:
            socket.inet_pton(family, address if slash else value)
            return not slash or 1 <= int(mask) <= most, value
        except (OSError, ValueError):
            return False, value

    return judge


def _mask4(value: Any) -> Judged:
    is_number, number = _int(value)
    if is_number:
        return 0 <= number <= 32, number
    try:
        ipaddress.IPv4Network(f"0.0.0.0/{value}")
    except ValueError:
        return False, value
    return isinstance(value, str), value


def _mask6(value: Any) -> Judged:
    is_number, number = _int(value)
    return is_number and 0 <= number <= 128, number


def _mac(value: Any) -> Judged:
    return isinstance(value, str) and _MAC.fullmatch(value) is not None, value


def _one_of(*words: Any, kind: type | None = None) -> Judge:
    def judge(value: Any) -> Judged:
        try:
            value = kind(value) if kind else value
        except (TypeError, ValueError):
            return False, value
        return value in words, value

    return judge


def _words(value: Any) -> Judged:
    if isinstance(value, str):
        value = value.split()
    return hasattr(value, "__iter__") and value != [], value


_IP4, _IP6 = _address(socket.AF_INET, 32), _address(socket.AF_INET6, 128)
_MODE = _one_of("gre", "GRE", "ipip", "IPIP", "802.3ad", kind=str)
_FOR_BOTH: Mapping[str, Judge] = {
    "addresses": _anything,
    "hwaddress": _mac,
    "mtu": _int,
    "slaves": _anything,
    "mode": _MODE,
    "endpoint": _IP4,
    "local": _IP4,
    "ttl": _int,
    "dns-nameservers": _words,
    "dns-search": _words,
    "vlan-raw-device": _anything,
    "test": _anything,
    "enable_ipv4": _anything,
    "enable_ipv6": _anything,
    **{
        f"wireless-{name}" if name in ("essid", "mode") else f"wpa-{name}": _anything
        for name in (
            *("essid", "mode", "conf", "driver", "group", "key-mgmt", "pairwise", "psk"),
            *("proto", "roam", "ssid"),
        )
    },
    "wpa-ap-scan": _one_of(0, 1, 2, kind=int),
}
OPTIONS: Mapping[str, Mapping[str, Judge]] = {
    "inet": {
        **_FOR_BOTH,
        "proto": _one_of("bootp", "dhcp", "static", "manual", "loopback", "ppp", kind=str),
        "address": _IP4,
        "netmask": _mask4,
        "broadcast": _IP4,
        "metric": _int,
        "gateway": _IP4,
        "pointopoint": _IP4,
        "scope": _one_of("global", "link", "host", kind=str),
        "hostname": _anything,
        "leasehours": _int,
        "leasetime": _int,
        "vendor": _anything,
        "client": _anything,
        "bootfile": _anything,
        "server": _IP4,
        "hwaddr": _mac,
        "dstaddr": _IP4,
        "provider": _anything,
        "unit": _int,
        "options": _anything,
        "network": _anything,
    },
    "inet6": {
        **_FOR_BOTH,
        "proto": _one_of("auto", "loopback", "static", "manual", "dhcp", "v4tunnel", "6to4"),
        "address": _IP6,
        "netmask": _mask6,
        "broadcast": _IP6,
        "gateway": _IP6,
        "scope": _one_of("global", "site", "link", "host", kind=str),
        "privext": _one_of(0, 1, 2, kind=int),
        "dhcp": _one_of(0, 1, kind=int),
        "media": _anything,
        "accept_ra": _one_of(0, 1, 2, kind=int),
        "autoconf": _one_of(0, 1, kind=int),
        "preferred-lifetime": _int,
        "dad-attempts": _int,
        "dad-interval": _number(float),
    },
}
"""The options of both families of addresses, by ifupdown's names."""


def is_known(option: str) -> bool:
    """Whether any family has this option."""
    return any(option in options for options in OPTIONS.values())


def judged(option: str, value: Any, family: str) -> Judged:
    """Whether the family has this option with this value, and what the value is then."""
    judge = OPTIONS.get(family, {}).get(option)
    return (False, value) if judge is None else judge(value)


def _switch(opts: Mapping[str, Any], name: str, iface: str, on: str, off: str) -> str:
    if opts[name] in YES:
        return on
    if opts[name] in NO:
        return off
    wrong(iface, name, YES + NO)


def ethtool(opts: Mapping[str, Any], iface: str) -> dict[str, Any]:
    """What is set by ethtool, by ifupdown's names."""
    found: dict[str, Any] = {}
    if "autoneg" in opts:
        found["autoneg"] = _switch(opts, "autoneg", iface, "on", "off")
    if "duplex" in opts:
        if opts["duplex"] not in ("full", "half"):
            wrong(iface, "duplex", ("full", "half"))
        found["duplex"] = opts["duplex"]
    if "speed" in opts:
        speeds = ("10", "100", "1000", "10000")
        if str(opts["speed"]) not in speeds:
            wrong(iface, opts["speed"], speeds)
        found["speed"] = opts["speed"]
    for name in _SWITCHES:
        if name in opts:
            found[name] = _switch(opts, name, iface, "on", "off")
    return {ETHTOOL[name]: value for name, value in found.items()}


def pppoe(opts: Mapping[str, Any], iface: str) -> dict[str, Any]:
    """What a provider's line is set up with."""
    found = {name: opts[name] for name in _PPPOE if name in opts}
    if "provider" in opts and not opts["provider"]:
        wrong(iface, "provider", YES + NO)
    for name in _PPPOE_SWITCHES:
        if name in opts:
            found[name] = _switch(opts, name, iface, "True", "False")
    return found


_MODES = (
    *("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb"),
    "balance-alb",
)
_BY_DEFAULT: Mapping[str, str] = {
    "ad_select": "0",
    "miimon": "100",
    "arp_interval": "250",
    "downdelay": "200",
    "lacp_rate": "0",
    "updelay": "0",
    "use_carrier": "on",
}
_MII = ("miimon", "downdelay", "updelay")
_BONDS: Mapping[int, tuple[str, ...]] = {
    0: ("arp",),
    1: (*_MII, "primary", "use_carrier"),
    2: ("arp", "hash"),
    3: (*_MII, "use_carrier"),
    4: (*_MII, "lacp_rate", "ad_select", "use_carrier", "hash"),
    5: (*_MII, "use_carrier", "primary"),
    6: (*_MII, "use_carrier", "primary"),
}
"""What bonds of each mode are set up with."""


def bonding(opts: MutableMapping[str, Any], iface: str, *, has_carrier: bool) -> dict[str, Any]:
    """
    How interfaces are bound to one.

    @param has_carrier: whether C{use_carrier} is set for C{active-backup}.
    """
    numbers = [str(number) for number in _BONDS]
    mode = str(opts.get("mode"))
    if mode not in (*numbers, *_MODES):
        wrong(iface, "mode", [*numbers, *_MODES])
    number = int(mode) if mode in numbers else _MODES.index(mode)
    bond: dict[str, Any] = {"mode": str(number)}
    for name in _BONDS[number]:
        if name == "arp":
            bond.update(_arp(opts, iface))
        elif name == "hash":
            if "hashing-algorithm" in opts:
                known = ("layer2", "layer2+3", "layer3+4")
                if opts["hashing-algorithm"] not in known:
                    wrong(iface, "hashing-algorithm", known)
                bond["xmit_hash_policy"] = opts["hashing-algorithm"]
        elif name == "primary":
            if name in opts:
                bond[name] = opts[name]
        elif name == "use_carrier":
            if number != 1 or has_carrier:
                is_set = name in opts
                bond[name] = _switch(opts, name, iface, "1", "0") if is_set else _BY_DEFAULT[name]
        else:
            bond[name] = _bond_number(opts, name, iface)
    return bond


def _bond_number(opts: Mapping[str, Any], name: str, iface: str) -> Any:
    if name not in opts:
        return _BY_DEFAULT[name]
    value, expected = opts[name], ["integer"]
    if name == "lacp_rate":
        expected = ["fast", "1", "slow", "0"]
        value = {"fast": "1", "slow": "0"}.get(value, value)
    if not _int(value)[0]:
        wrong(iface, name, expected)
    return value


def _arp(opts: Mapping[str, Any], iface: str) -> dict[str, Any]:
    targets = opts.get("arp_ip_target")
    if not isinstance(targets, list) or not 1 <= len(targets) <= 16:
        wrong(iface, "arp_ip_target", ["list of ips (up to 16)"])
    return {
        "arp_ip_target": ",".join(targets),
        "arp_interval": _bond_number(opts, "arp_interval", iface),
    }


def bridging(opts: Mapping[str, Any], iface: str) -> dict[str, Any]:
    """How interfaces are put behind a bridge."""
    found: dict[str, Any] = {}
    if "ports" in opts:
        ports = opts["ports"]
        found["ports"] = " ".join(ports) if isinstance(ports, list) else ports
    for name in ("ageing", "fd", "gcint", "hello", "maxage"):
        if name in opts:
            if not _number(float)(opts[name])[0]:
                wrong(iface, name, ["float"])
            found[name] = opts[name]
    for name in ("bridgeprio", "maxwait"):
        if name in opts:
            if not isinstance(opts[name], int):
                wrong(iface, name, ["integer"])
            found[name] = opts[name]
    if "hw" in opts:
        if not _BRIDGE_MAC.fullmatch(str(opts["hw"])):
            wrong(iface, "hw", ["valid MAC address"])
        found["hw"] = opts["hw"]
    for name in ("pathcost", "portprio"):
        if name in opts:
            words = str(opts[name]).split()
            if len(words) != 2 or not _int(words[1])[0]:
                wrong(iface, name, ["interface integer"])
            found[name] = " ".join(words)
    if "stp" in opts:
        found["stp"] = _switch(opts, "stp", iface, "on", "off")
    if "waitport" in opts:
        words = str(opts["waitport"]).split()
        if isinstance(opts["waitport"], int):
            found["waitport"] = opts["waitport"]
        elif len(words) < 2 or not words[0].isdigit():
            wrong(iface, "waitport", ["integer [interfaces]"])
        else:
            found["waitport"] = " ".join(words)
    return found
