"""
C{salt.utils.dns}: questions to name servers, and records taken apart.

Addresses are asked for by the system's resolver, all else by C{dig}.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from saltwisted.worker.exceptions import CommandNotFoundError

log = logging.getLogger(__name__)

_FAMILIES = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}


def _of_resolver(name: str, rdtype: str) -> Any:
    try:
        found = socket.getaddrinfo(name, None, _FAMILIES[rdtype], socket.SOCK_RAW)
    except socket.gaierror:
        return False
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _of_dig(name: str, rdtype: str, timeout: Any, servers: Iterable[str], secure: Any) -> Any:
    dig = shutil.which("dig")
    if dig is None:
        raise CommandNotFoundError("Cannot look up DNS records without the command dig")
    words = [dig, "+search", "+fail", "+noall", "+answer", "+nocl", "+nottl"]
    words += [f"+time={int(timeout)}"] if timeout else []
    words += ["+dnssec", "+adflag"] if secure else []
    for server in servers:
        done = subprocess.run(
            [*words, f"@{server}", "-t", rdtype, "-q", name], capture_output=True, text=True
        )
        if done.returncode == 0:
            return _answers(done.stdout, rdtype)
    return False


def _answers(text: str, rdtype: str) -> list[str]:
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith(";"):
            continue
        _name, kind, data = line.split(None, 2)
        if kind == "CNAME" and rdtype != "CNAME":
            continue
        if kind == rdtype:
            found.append(data.strip())
    return found


def lookup(
    name: str,
    rdtype: str,
    method: str | None = None,
    servers: Any = None,
    timeout: Any = None,
    walk: bool = False,
    walk_tld: bool = False,
    secure: Any = None,
) -> Any:
    """
    The data of all records of a name and type; C{False}: nobody could be asked.

    @param method: C{gai} or C{dig}; else what suits the question.
    @param walk: look at the domains above as well, until one has such a record.
    @raises CommandNotFoundError: C{dig} is needed and not installed.
    """
    rdtype = str(rdtype).upper()
    asked = [servers] if isinstance(servers, str) else list(servers or ())
    by_resolver = method == "gai" or (
        method is None and rdtype in _FAMILIES and not asked and not secure
    )
    names = [name, *_above(name, walk_tld)] if walk else [name]
    found: Any = False
    for each in names:
        if by_resolver:
            found = _of_resolver(each, rdtype)
        else:
            known = asked or parse_resolv().get("nameservers") or ["127.0.0.1"]
            found = _of_dig(each, rdtype, timeout, [str(one) for one in known], secure)
        if found:
            break
    return found


def _above(name: str, with_tld: bool) -> list[str]:
    parts = name.rstrip(".").split(".")
    found = [".".join(parts[number:]) for number in range(1, len(parts))]
    return found if with_tld else found[:-1]


def query(name: str, rdtype: str, **kwargs: Any) -> Any:
    """As L{lookup}, with the records taken apart where that is known."""
    rdtype = str(rdtype).upper()
    if rdtype == "PTR" and not name.endswith("arpa"):
        name = ptr_name(name)
    found = lookup(name, rdtype, **kwargs)
    apart = _APART.get(rdtype)
    return apart(found) if found and apart else found


def host(name: str, ip4: bool = True, ip6: bool = True, **kwargs: Any) -> dict[str, Any]:
    """The addresses of a name: C{{"ip4": [...], "ip6": [...]}}."""
    found: dict[str, Any] = {}
    for key, rdtype, wanted in (("ip6", "AAAA", ip6), ("ip4", "A", ip4)):
        answer = lookup(name, rdtype, **kwargs) if wanted else None
        if answer:
            found[key] = answer
    return found


def ptr_name(rdata: Any) -> Any:
    """The name under which an address has its name; C{False}: it is no address."""
    try:
        return ipaddress.ip_address(rdata).reverse_pointer
    except ValueError:
        log.error("Unable to generate PTR record; %s is not a valid IP address", rdata)
        return False


def _by_preference(records: list[dict[str, Any]], key: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for record in records:
        rest = {name: value for name, value in record.items() if name != key}
        found.setdefault(record[key], []).append(
            rest if len(rest) > 1 else next(iter(rest.values()))
        )
    return found


def mx_rec(rdatas: Iterable[str]) -> dict[int, list[Any]]:
    """MX records by preference."""
    words = [data.split() for data in rdatas]
    return _by_preference([{"preference": int(a), "name": b} for a, b in words], "preference")


def srv_name(svc: Any, proto: str = "tcp", domain: str | None = None) -> str:
    """The name of a service's SRV records."""
    return f"_{svc}._{proto}" + (f".{domain}" if domain else "")


def srv_rec(rdatas: Iterable[str]) -> dict[int, list[Any]]:
    """SRV records by priority."""
    names = ("prio", "weight", "port", "name")
    records = [
        {
            name: int(word) if name != "name" else word
            for name, word in zip(names, data.split(), strict=True)
        }
        for data in rdatas
    ]
    return _by_preference(records, "prio")


def soa_rec(rdata: str) -> dict[str, Any]:
    """An SOA record by its parts."""
    names = ("mname", "rname", "serial", "refresh", "retry", "expire", "minimum")
    return {
        name: word if number < 2 else int(word)
        for number, (name, word) in enumerate(zip(names, rdata.split(), strict=True))
    }


def _soa(found: Any) -> Any:
    return soa_rec(found[0])


_APART: Mapping[str, Callable[[Any], Any]] = {"MX": mx_rec, "SRV": srv_rec, "SOA": _soa}


def parse_resolv(src: str = "/etc/resolv.conf") -> dict[str, Any]:
    """What a resolver's configuration says: C{nameservers}, C{domain}, C{search}, C{options}."""
    found: dict[str, Any] = {
        **{"nameservers": [], "ip4_nameservers": [], "ip6_nameservers": []},
        **{"sortlist": [], "domain": "", "search": [], "options": []},
    }
    try:
        with open(os.fspath(src), encoding="utf-8", errors="replace") as file:
            lines = [re.split(r"\s[#;]", line)[0].split() for line in file]
    except OSError:
        return {}
    for words in lines:
        if len(words) < 2:
            continue
        word, first = words[0].lower(), words[1]
        if word == "nameserver":
            _take_server(found, first, src)
        elif word == "domain":
            found["domain"] = first
        elif word == "search":
            found["search"] = words[1:]
        elif word == "options" and first not in found["options"]:
            found["options"].append(first)
    return found


def _take_server(found: dict[str, Any], text: str, src: str) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        log.error("%s: %s", src, error)
        return
    for name in ("nameservers", f"ip{address.version}_nameservers"):
        if str(address) not in found[name]:
            found[name].append(str(address))
