"""
Questions to name servers by the program C{dig}.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from typing import Any

from saltwisted.worker import systools

log = logging.getLogger(__name__)

__salt__: Any

_SPF = re.compile(r"(?:\+|~)?(ip[46]|include):(.+)")
_DEEPEST = 10
"""How many records may lead to others, as RFC 7208 has it."""


def __virtual__() -> str | tuple[bool, str]:
    if systools.which("dig"):
        return "dig"
    return (
        False,
        "The dig execution module cannot be loaded: the dig binary is not in the path.",
    )


def check_ip(addr: Any) -> bool:
    """
    Whether this is an address, or a network.

    CLI Example::

        salt ns1 dig.check_ip 127.0.0.1
        salt ns1 dig.check_ip 1111:2222:3333:4444:5555:6666:7777:8888
    """
    if not isinstance(addr, str):
        return False
    address, slash, mask = addr.rpartition("/")
    try:
        found = ipaddress.ip_address(address if slash else addr)
        lowest, highest = (1, 32) if found.version == 4 else (8, 128)
        return not slash or lowest <= int(mask) <= highest
    except ValueError:
        return False


def _asked(nameserver: str | None, *words: str) -> str | None:
    """What C{dig} answers; C{None} when it fails."""
    command = ["dig", "+short", *words]
    if nameserver is not None:
        command.append(f"@{nameserver}")
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0:
        log.warning("dig returned exit code '%s'", done["retcode"])
        return None
    return str(done["stdout"])


def _lines(answer: str | None) -> list[str]:
    return [] if answer is None else answer.split("\n")


def A(host: str, nameserver: str | None = None) -> list[str]:
    """
    The IPv4 addresses of a name.

    CLI Example::

        salt ns1 dig.A www.google.com
    """
    return [line for line in _lines(_asked(nameserver, str(host), "A")) if check_ip(line)]


def PTR(host: str, nameserver: str | None = None) -> list[str]:
    """
    The names of an address.

    CLI Example::

        salt ns1 dig.PTR 1.2.3.4
    """
    return _lines(_asked(nameserver, "-x", str(host)))


def AAAA(host: str, nameserver: str | None = None) -> list[str]:
    """
    The IPv6 addresses of a name.

    CLI Example::

        salt ns1 dig.AAAA www.google.com
    """
    return [line for line in _lines(_asked(nameserver, str(host), "AAAA")) if check_ip(line)]


def CNAME(host: str, nameserver: str | None = None) -> str | list[str]:
    """
    The name that a name stands for.

    CLI Example::

        salt ns1 dig.CNAME mail.google.com
    """
    answer = _asked(nameserver, str(host), "CNAME")
    return [] if answer is None else answer


def NS(domain: str, resolve: bool = True, nameserver: str | None = None) -> list[str]:
    """
    The name servers of a domain, by their addresses or by their names.

    CLI Example::

        salt ns1 dig.NS google.com
    """
    found = _lines(_asked(nameserver, str(domain), "NS"))
    if not resolve:
        return found
    return [address for name in found for address in A(name, nameserver)]


def SPF(domain: str, record: str = "SPF", nameserver: str | None = None) -> list[str]:
    """
    The networks that may send mail for a domain.

    CLI Example::

        salt ns1 dig.SPF google.com
    """
    return _senders(domain, record, nameserver, _DEEPEST)


def _senders(domain: str, record: str, nameserver: str | None, deeper: int) -> list[str]:
    answer = _asked(nameserver, str(domain), record)
    if answer == "" and record == "SPF":
        return _senders(domain, "TXT", nameserver, deeper)
    words = (answer or "").replace('"', "").split()
    if not words or words[0] != "v=spf1":
        return []
    if deeper == 0:
        log.warning("The SPF records of %s lead too far", domain)
        return []
    if len(words) > 1 and words[1].startswith("redirect="):
        return _senders(words[1].removeprefix("redirect="), "SPF", nameserver, deeper - 1)
    found: list[str] = []
    for word in words[1:]:
        part = _SPF.match(word)
        if part is None:
            continue
        kind, address = part.groups()
        if kind == "include":
            found += _senders(address, "SPF", nameserver, deeper - 1)
        elif check_ip(address):
            found.append(address)
    return found


def MX(domain: str, resolve: bool = False, nameserver: str | None = None) -> list[list[str]]:
    """
    The mail servers of a domain with their priorities, by their names or by their addresses.

    CLI Example::

        salt ns1 dig.MX google.com
    """
    found = [line.split() for line in _lines(_asked(nameserver, str(domain), "MX"))]
    if resolve:
        return [[line[0], A(line[1], nameserver)[0]] for line in found]
    return found


def TXT(host: str, nameserver: str | None = None) -> list[str]:
    """
    The texts of a name.

    CLI Example::

        salt ns1 dig.TXT google.com
    """
    return _lines(_asked(nameserver, str(host), "TXT"))


a = A
aaaa = AAAA
cname = CNAME
ns = NS
ptr = PTR
spf = SPF
mx = MX
