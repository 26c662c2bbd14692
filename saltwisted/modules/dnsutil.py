"""
Names: the file of hosts, files of zones, and what a server of names says.

What asks a server needs the program C{dig}, and a module C{dig} that calls it.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from saltwisted.worker import systools

__salt__: dict[str, Any]

_WEEK = 604800
_NO_DIG = "This function requires dig, which is not currently available"


def __virtual__() -> bool:
    return True


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def parse_hosts(hostsfile: str = "/etc/hosts", hosts: str | None = None) -> Any:
    """
    The names of each address.

    CLI Example::

        salt '*' dnsutil.parse_hosts
    """
    if not hosts:
        try:
            hosts = _text(hostsfile)
        except OSError:
            return "Error: hosts data was not found"
    found: dict[str, list[str]] = {}
    for line in hosts.splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            found.setdefault(words[0], []).extend(words[1:])
    return found


def hosts_append(
    hostsfile: str = "/etc/hosts", ip_addr: str | None = None, entries: str = ""
) -> str:
    """
    Give an address names, where it has not got them.

    @param entries: the names, with commas between them.

    CLI Example::

        salt '*' dnsutil.hosts_append /etc/hosts 127.0.0.1 ad1.yuk.co,ad2.yuk.co
    """
    hosts = parse_hosts(hostsfile=hostsfile)
    have = hosts.get(ip_addr, ()) if isinstance(hosts, dict) else ()
    new = [name for name in entries.split(",") if name not in have]
    if not new:
        return f"No additional hosts were added to {hostsfile}"
    line = f"\n{ip_addr} {' '.join(new)}"
    with open(hostsfile, "a", encoding="utf-8") as file:
        file.write(line)
    return f"The following line was added to {hostsfile}:{line}"


def hosts_remove(hostsfile: str = "/etc/hosts", entries: str = "") -> None:
    """
    Take names away from whatever address has them.

    @param entries: the names, with commas between them.

    CLI Example::

        salt '*' dnsutil.hosts_remove /etc/hosts ad1.yuk.co,ad2.yuk.co
    """
    gone = entries.split(",")
    kept = []
    for line in _text(hostsfile).splitlines():
        if not line or line.strip().startswith("#"):
            kept.append(line)
            continue
        address, *names = line.split()
        names = [name for name in names if name not in gone]
        if names:
            kept.append(" ".join([address, *names]))
    with open(hostsfile, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{line}\n" for line in kept)


def _seconds(text: str) -> int:
    """A time of a zone, of a week at most."""
    upper = text.upper()
    for unit, size in (("H", 3600), ("D", 86400)):
        if unit in upper:
            return min(int(upper.replace(unit, "")) * size, _WEEK)
    return min(int(upper), _WEEK) if upper.isdigit() else _WEEK


def _records(zone: str) -> list[str]:
    """The lines of a zone without comments; what is in brackets is one line."""
    found = []
    open_one: str | None = None
    for raw in zone.splitlines():
        line = raw.split(";")[0].strip()
        if not line:
            continue
        if open_one is None and "(" in line and ")" not in line and not line.startswith("$"):
            open_one = ""
        if open_one is not None and not line.startswith("$"):
            open_one += f" {line}"
            if ")" not in line:
                continue
            line = open_one.replace("(", "").replace(")", "")
            open_one = None
        found.append(line)
    return found


def _start(words: list[str]) -> dict[str, Any]:
    """What the record C{SOA} says."""
    if words[1] != "IN":
        words.pop(1)
    origin, network, _kind, source, contact, serial, *times = words
    names = ("REFRESH", "RETRY", "EXPIRE", "MINTTL")
    return {
        "ORIGIN": origin,
        "NETWORK": network,
        "SOURCE": source,
        "CONTACT": contact.replace(".", "@", 1),
        "SERIAL": serial,
        **{name: _seconds(each) for name, each in zip(names, times, strict=False)},
    }


def parse_zone(zonefile: str | None = None, zone: str | None = None) -> Any:
    """
    The records of a zone's file.

    CLI Example::

        salt ns1 dnsutil.parse_zone /var/lib/named/example.com.zone
    """
    if zonefile:
        try:
            zone = _text(zonefile)
        except OSError:
            pass
    if not zone:
        return "Error: Zone data was not found"
    found: dict[str, Any] = {}
    for line in _records(zone):
        words = line.split()
        if line.startswith("$"):
            found[words[0].replace("$", "")] = words[1]
            continue
        if "ORIGIN" in found:
            words = line.replace("@", found["ORIGIN"]).split()
        if "SOA" in line:
            found.update(_start(words))
            continue
        if words[0] == "IN":
            words.insert(0, found["ORIGIN"])
        if not words[0].endswith(".") and "NS" not in line:
            words[0] = f"{words[0]}.{found['ORIGIN']}"
        if words[2] == "NS":
            found.setdefault("NS", []).append(words[3])
        elif words[2] == "MX":
            found.setdefault("MX", [{"priority": words[3], "host": words[4]}])
        elif words[3] in ("A", "AAAA"):
            facts = {"TARGET": words[4], "TTL": words[1]}
            found.setdefault(words[3], {})[words[0]] = facts
        else:
            found.setdefault(words[2], {})[words[0]] = words[3]
    return found


def _asked(function: str, *args: Any) -> Any:
    if systools.which("dig") is None:
        return _NO_DIG
    return __salt__[f"dig.{function}"](*args)


def _resolved(function: str, family: int, host: str, nameserver: str | None) -> Any:
    if systools.which("dig") is not None or nameserver is not None:
        return _asked(function, host, nameserver)
    try:
        found = socket.getaddrinfo(host, None, family, 0, socket.SOCK_RAW)
    except socket.gaierror:
        return f"Unable to resolve {host}"
    return [each[4][0] for each in found]


def check_ip(ip_addr: str) -> Any:
    """
    Whether this is an address.

    CLI Example::

        salt ns1 dnsutil.check_ip 127.0.0.1
    """
    return _asked("check_ip", ip_addr)


def A(host: str, nameserver: str | None = None) -> Any:
    """
    The addresses of a name.

    CLI Example::

        salt ns1 dnsutil.A www.google.com
    """
    return _resolved("A", socket.AF_INET, host, nameserver)


def AAAA(host: str, nameserver: str | None = None) -> Any:
    """
    The IPv6 addresses of a name.

    CLI Example::

        salt ns1 dnsutil.AAAA www.google.com
    """
    return _resolved("AAAA", socket.AF_INET6, host, nameserver)


def NS(domain: str, resolve: bool = True, nameserver: str | None = None) -> Any:
    """
    The servers of names of a domain.

    CLI Example::

        salt ns1 dnsutil.NS google.com
    """
    return _asked("NS", domain, resolve, nameserver)


def SPF(domain: str, record: str = "SPF", nameserver: str | None = None) -> Any:
    """
    Who may send mail for a domain.

    CLI Example::

        salt ns1 dnsutil.SPF google.com
    """
    return _asked("SPF", domain, record, nameserver)


def MX(domain: str, resolve: bool = False, nameserver: str | None = None) -> Any:
    """
    Who takes mail for a domain.

    CLI Example::

        salt ns1 dnsutil.MX google.com
    """
    return _asked("MX", domain, resolve, nameserver)


def serial(zone: str = "", update: bool = False) -> str:
    """
    A serial number for a zone: of today, kept in the grains, and counted on with C{update}.

    CLI Example::

        salt ns1 dnsutil.serial example.com update=True
    """
    key = f"dnsserial_{zone}" if zone else "dnsserial"
    stored = __salt__["grains.get"](key=key)
    today = time.strftime("%Y%m%d01")
    if not update:
        return stored or today
    current = str(int(stored) + 1) if stored and stored >= today else today
    __salt__["grains.setval"](key=key, val=current)
    return current
