"""
The texts in which Debian keeps its network: they are read here, and written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.modules import _debian_ip_rules as rules

Adapters = dict[str, dict[str, Any]]
FAMILIES = ("inet", "inet6")
_COMMANDS = ("up", "pre-up", "post-up", "down", "pre-down", "post-down")
_ETHTOOL = frozenset(rules.ETHTOOL.values())
_WRITTEN = (
    *("autoconf", "privext", "dhcp", "hwaddress", "hwaddr", "vlan_raw_device", "address"),
    *("addresses", "netmask", "metric", "gateway", "pointopoint", "scope", "hostname", "media"),
    *("leasehours", "leasetime", "vendor", "client", "bootfile", "server", "mode", "endpoint"),
    *("dstaddr", "local", "ttl", "mtu", "provider", "unit", "options", "master"),
    *("dns_nameservers", "wireless_mode", "wpa_ap_scan", "wpa_conf", "wpa_driver", "wpa_group"),
    *("wpa_key_mgmt", "wpa_pairwise", "wpa_proto", "wpa_psk", "wpa_roam", "wpa_ssid"),
    *("accept_ra", "up_cmds", "down_cmds", "pre_up_cmds", "post_up_cmds", "pre_down_cmds"),
    "post_down_cmds",
)
_WORDS = {
    "addresses": "address",
    "hwaddr": "hwaddress",
    "master": "bond-master",
    "accept_ra": "accept_ra",
    **{f"{name.replace('-', '_')}_cmds": name for name in _COMMANDS},
}


def read_interfaces(texts: Iterable[tuple[str, str]]) -> Adapters:
    """
    The interfaces that files define.

    @param texts: the path and the content of each.
    @raise AttributeError: a definition is none.
    """
    adapters: Adapters = {}
    for path, text in texts:
        data: dict[str, Any] = {}
        for line in text.splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if line.startswith("iface"):
                if len(words) != 4:
                    raise AttributeError(f"Interface file malformed: {words}.")
                families = adapters.setdefault(words[1], {}).setdefault("data", {})
                data = families.setdefault(words[2], {})
                data.update(addrfam=words[2], proto=words[3], filename=path)
            elif line[0].isspace():
                _read_option(data, words[0], line.strip()[len(words[0]) :].strip())
            elif line.startswith(("auto", "allow-hotplug")):
                key = "enabled" if line.startswith("auto") else "hotplug"
                for word in words[1:]:
                    adapters.setdefault(word, {})[key] = True
            elif line.startswith("source") and len(words) > 1:
                sources = adapters.setdefault("source", {}).setdefault("data", {})
                sources.setdefault("sources", []).append(words[1])
    return {name: one for name, one in adapters.items() if "data" in one}


def _read_option(data: dict[str, Any], option: str, value: str) -> None:
    if rules.is_known(option):
        _valid, found = rules.judged(option, value, str(data.get("addrfam", "inet")))
        name = option.replace("-", "_")
        if name == "address" and name in data:
            data.setdefault("addresses", []).append(found)
        else:
            data[name] = found
    elif option in _ETHTOOL:
        data.setdefault("ethtool", {})[option] = value
    elif option.startswith(("bond", "bridge")):
        rest = re.split("[_-]", option, maxsplit=1)[1:]
        if rest:
            kind = "bonding" if option.startswith("bond") else "bridging"
            data.setdefault(kind, {})[rest[0]] = value
    elif option in _COMMANDS:
        data.setdefault(f"{option.replace('-', '_')}_cmds", []).append(value)


def _lines(word: str, value: Any, *, is_joined: bool) -> list[str]:
    if isinstance(value, str | int | float):
        return [f"    {word} {value}"]
    if not isinstance(value, Iterable):
        return []
    if is_joined:
        return [f"    {word} {' '.join(str(one) for one in value)}"]
    return [f"    {word} {one}" for one in value]


def write_interface(name: str, adapter: Mapping[str, Any]) -> str:
    """The definition of an interface."""
    if adapter.get("type") == "source":
        return "\n".join(f"\nsource {path}\n" for path in adapter["data"]["sources"])
    lines = [f"auto {name}"] if adapter.get("enabled") else []
    lines += [f"allow-hotplug {name}"] if adapter.get("hotplug") else []
    for family in FAMILIES:
        data = adapter["data"].get(family) or {}
        if data.get("addrfam") == family and data.get("proto"):
            lines += [f"iface {name} {family} {data['proto']}", *_options(data)]
    return "".join(f"{line}\n" for line in lines)


def _options(data: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for option in _WRITTEN:
        value = data.get(option)
        if value:
            word = _WORDS.get(option, option.replace("_", "-"))
            lines += _lines(word, value, is_joined=option == "dns_nameservers")
    for kind, prefix in (("ethtool", ""), ("bonding", "bond-"), ("bridging", "bridge_")):
        for option, value in sorted((data.get(kind) or {}).items()):
            # As in stock, a number is left out: it has to be written as a text.
            if not isinstance(value, int | float):
                lines += _lines(f"{prefix}{option}", value, is_joined=True)
    return lines


def settings(opts: dict[str, Any], kind: str, iface: str, *, on: bool, carrier: bool) -> Any:
    """
    An interface as a state describes it.

    @param on: whether it comes up by itself.
    @raise AttributeError: something in it cannot be.
    """
    data: dict[str, dict[str, Any]] = {family: {} for family in FAMILIES}
    adapter: dict[str, Any] = {"type": kind, "data": data}
    if on:
        adapter["enabled"] = True
    if opts.get("hotplug"):
        adapter["hotplug"] = True
    for family in FAMILIES:
        data[family].update(_of_kind(opts, kind, iface, family, carrier))
    if kind == "slave":
        opts["proto"] = "manual"
    for option, value in opts.items():
        if option != "mode":
            _take(data, option, value)
    for name in _COMMANDS:
        key = f"{name.replace('-', '_')}_cmds"
        if key in opts:
            for family in FAMILIES:
                data[family][key] = opts[key]
    for family, switch in zip(FAMILIES, ("enable_ipv4", "enable_ipv6"), strict=True):
        if opts.get(switch) is False or data[family].get("addrfam") != family:
            del data[family]
    return adapter


def _of_kind(
    opts: dict[str, Any], kind: str, iface: str, family: str, carrier: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if kind != "bridge":
        ethtool = rules.ethtool(opts, iface)
        if ethtool:
            found["ethtool"] = ethtool
    if kind == "bridge":
        bridging = rules.bridging(opts, iface)
        if bridging:
            found.update(bridging=bridging, addrfam=family)
    elif kind == "bond":
        bonding = rules.bonding(opts, iface, has_carrier=carrier)
        found.update(bonding={**bonding, "slaves": opts["slaves"]}, addrfam=family)
    elif kind == "slave":
        found.update(master=opts["master"], addrfam=family)
    elif kind == "vlan":
        found.update(vlan_raw_device=re.sub(r"\.\d*", "", iface), addrfam=family)
    elif kind == "pppoe":
        found.update(rules.pppoe(opts, iface), addrfam=family)
    return found


_NAMES = {
    "dns": "dns-nameservers",
    "search": "dns-search",
    "hwaddr": "hwaddress",
    "ipaddr": "address",
    "ipaddrs": "addresses",
    "addr": "address",
    "addrs": "addresses",
}
_FOR_IPV4 = ("ipaddr", "address", "ipaddresses", "addresses", "gateway", "proto")


def _take(data: dict[str, dict[str, Any]], option: str, value: Any) -> None:
    """Take an option for the families that have it."""
    only = ""
    if option.startswith(("ipv4", "ipv6")):
        only = "inet" if option.startswith("ipv4") else "inet6"
        option = option[4:]
    elif option in _FOR_IPV4:
        only = "inet"
    if only:
        data[only]["addrfam"] = only
    word = _NAMES.get(option, option)
    key = word.replace("-", "_")
    for family in FAMILIES:
        is_valid, found = rules.judged(word, value, family)
        if is_valid and (only == family or (not only and key not in data[family])):
            data[family][key] = found


def routes(iface: str, kind: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """The script that adds or deletes routes when an interface comes or goes."""
    lines = ["#!/bin/sh", f"# {kind}", f'test "${{IFACE}}" = "{iface}" || exit 0']
    for entry in entries:
        if entry.get("name"):
            lines.append(f"# {entry['name']}")
        to = str(entry.get("ipaddr") or "")
        to += f"/{entry['netmask']}" if entry.get("netmask") else ""
        by = f"via {entry['gateway']}" if entry.get("gateway") else ""
        metric = f" metric {entry['metric']}" if entry.get("metric") else ""
        lines.append(f"ip route {kind} {to} {by} dev {iface}{metric}")
    return "".join(f"{line}\n" for line in lines)


def shown(found: Mapping[str, Any]) -> list[str]:
    """The settings of the whole network, as states compare them."""
    words = ("networking", "hostname", "domainname", "searchdomain")
    names = ("NETWORKING", "HOSTNAME", "DOMAIN", "SEARCH")
    pairs = zip(words, names, strict=True)
    return [f"{name}={found[word]}\n" for word, name in pairs if found.get(word)]


def networking(switch: str) -> str:
    """C{/etc/default/networking}."""
    return (
        "# Configuration for networking init script being run during\n"
        "# the boot sequence\n\n"
        "# Set to 'no' to skip interfaces configuration on boot\n"
        f"CONFIGURE_INTERFACES={switch}\n\n"
        "# Don't configure these interfaces. Shell wildcards supported/\n"
        "#EXCLUDE_INTERFACES=\n\n"
        "# Set to 'yes' to enable additional verbosity\n"
        "#VERBOSE=no"
    )


_PPP_TAKEN = "plugin rp-pppoe.so"


def provider(data: Mapping[str, Any]) -> str:
    """The file of a provider for C{pppd}."""
    if not data.get("user"):
        return ""
    lines = [f"user {data['user']}"]
    if data.get("password"):
        lines.append(f"password {data['password']}")
    lines.append(f"{_PPP_TAKEN} {data.get('pppoe_iface', 'eth0')}")
    switches = ("noipdefault", "usepeerdns", "defaultroute", "hide-password", "noauth", "persist")
    lines += [name for name in (*switches, "noaccomp") if data.get(name) != "False"]
    defaults = {"holdoff": 15, "maxfail": 0, "lcp-echo-interval": 20, "lcp-echo-failure": 3}
    for name, value in {**defaults, "mtu": 1492}.items():
        lines.append(f"{name} {data.get(name, value)}")
    if "linkname" in data:
        lines.append(f"linkname {data['linkname']}")
    return "".join(f"{line}\n" for line in lines)


def resolver(text: str) -> dict[str, str]:
    """The domain and the domains to search, of C{/etc/resolv.conf}."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = re.split(r"[#;]", line)[0].split()
        if len(words) > 1 and words[0] in ("domain", "search"):
            found[words[0]] = words[1] if words[0] == "domain" else " ".join(words[1:])
    return found


def resolving(text: str, domain: str, search: str) -> str:
    """C{/etc/resolv.conf} with another domain, and other domains to search."""
    lines = [line for line in text.splitlines() if not re.match(r"(domain|search)\s", line)]
    wanted = {"domain": domain, "search": search}
    return "".join(f"{line}\n" for line in (*(f"{k} {v}" for k, v in wanted.items() if v), *lines))
