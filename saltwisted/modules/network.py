"""
Interfaces, addresses, routes, connections, names, and tools that try the network out.

Links and addresses come from the kernel by netlink (L{saltwisted.worker.grains.netinfo}); C{ping},
C{netstat}, C{traceroute} and the like are run as Salt runs them, their output in Salt's shapes.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from typing import Any

from saltwisted.modules import _net_addresses
from saltwisted.modules._system import needs, sanitize_host
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.grains import netinfo

log = logging.getLogger(__name__)

__parts__ = (_net_addresses,)

__salt__: dict[str, Any]
__grains__: dict[str, Any]


def wol(mac: str, bcast: str = "255.255.255.255", destport: int = 9) -> bool:
    """
    Send a Wake On LAN packet.

    CLI Example::

        salt '*' network.wol 08-00-27-13-69-77
        salt '*' network.wol 080027136977 255.255.255.255 7
    """
    digits = mac.replace(mac[2], "") if len(mac) == 17 else mac
    if len(digits) != 12:
        raise ValueError("Invalid MAC address")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sock.sendto(b"\xff" * 6 + bytes.fromhex(digits) * 16, (bcast, int(destport)))
    return True


def ping(host: str, timeout: Any = False, return_boolean: bool = False) -> Any:
    """
    Ping four times; gives the output, or with C{return_boolean} whether there was an answer.

    @param timeout: seconds to wait for each answer.

    CLI Example::

        salt '*' network.ping archlinux.org
        salt '*' network.ping archlinux.org timeout=3 return_boolean=True
    """
    wait = ["-W", f"{timeout}"] if timeout else []
    command = ["ping", *wait, "-c", "4", sanitize_host(host)]
    if return_boolean:
        return __salt__["cmd.run_all"](command, python_shell=False)["retcode"] == 0
    return __salt__["cmd.run"](command, python_shell=False)


def netstat() -> list[dict[str, Any]]:
    """
    Open ports and connections with their programs, from C{netstat} or C{ss}.

    CLI Example::

        salt '*' network.netstat
    """
    if systools.which("netstat"):
        return _netstat(__salt__["cmd.run"]("netstat -tulpnea"))
    return _ss(__salt__["cmd.run"]("ss -tulpnea"))


_ENDS = ("proto", "recv-q", "send-q", "local-address", "remote-address")


def _netstat(output: str) -> list[dict[str, Any]]:
    rows = []
    for line in output.splitlines():
        words = line.split()
        if line.startswith("tcp"):
            fields: tuple[str, ...] = (*_ENDS, "state", "user", "inode", "program")
        elif line.startswith("udp"):
            fields = (*_ENDS, "user", "inode", "program")
        else:
            continue
        rows.append(dict(zip(fields, words, strict=False)))
    return rows


def _ss(output: str) -> list[dict[str, Any]]:
    rows = []
    for line in output.splitlines():
        if not line.startswith(("tcp", "udp")):
            continue
        words = line.split()
        user: Any = 0
        inode: Any = 0
        program = ""
        # Like Salt, the last word of the line is not looked at.
        for word in words[6:-1]:
            name, _colon, value = word.partition(":")
            value = value.partition(":")[0]
            if name == "users":
                program = value.split(",")[0].split('"')[1]
            elif name == "uid":
                user = value
            elif name == "ino":
                inode = value
        row: dict[str, Any] = dict(zip(_ENDS, (words[0], *words[2:6]), strict=False))
        if line.startswith("tcp"):
            row["state"] = "ESTABLISHED" if words[1] == "ESTAB" else words[1]
        row.update(user=user, inode=inode, program=program)
        rows.append(row)
    return rows


def active_tcp() -> dict[int, dict[str, Any]]:
    """
    All established TCP connections, numbered from 0.

    CLI Example::

        salt '*' network.active_tcp
    """
    return dict(enumerate(netinfo.tcp_connections()))


@needs("traceroute")
def traceroute(host: str) -> list[dict[str, Any]]:
    """
    The way to a host, one entry per hop.

    CLI Example::

        salt '*' network.traceroute archlinux.org
    """
    command = ["traceroute", sanitize_host(host)]
    output = __salt__["cmd.run"](command, timeout=120, python_shell=False)
    if "Timed out after" in output:
        return []
    version = _traceroute_version(__salt__["cmd.run"]("traceroute --version"))
    modern = version[0] >= 2 and (
        (isinstance(version[1], int) and version[1] > 0)
        or (isinstance(version[2], int) and version[2] >= 14)
    )
    hops = []
    for line in output.splitlines():
        if " " not in line or line.startswith("traceroute"):
            continue
        hop = _hop(line) if modern else _old_hop(line)
        if not hop:
            log.warning("Cannot parse traceroute output line: %s", line)
        hops.append(hop)
    return hops


def _traceroute_version(text: str) -> list[Any]:
    match = re.search(r"[Vv]ersion (\d+)\.([\w+]+)\.*(\w*)", text)
    if not match:
        return [0, 0, 0]
    return [int(part) if part.isdigit() else part for part in match.groups()]


def _hop(line: str) -> dict[str, Any]:
    parts = line.split("  ")
    if len(parts) >= 2 and parts[1] == "* * *":
        return {"count": int(parts[0]), "hostname": "*"}
    if len(parts) < 5:
        return {}
    name, address = parts[1].split()[:2]
    times = {f"ms{n}": float(parts[n + 1].split()[0]) for n in (1, 2, 3)}
    return {"count": int(parts[0]), "hostname": name, "ip": address.strip("()"), **times}


def _old_hop(line: str) -> dict[str, Any]:
    words = line.split()
    if len(words) < 9:
        return {}
    return {
        "count": words[0],
        "hostname": words[1],
        "ip": words[2],
        "ms1": words[4],
        "ms2": words[6],
        "ms3": words[8],
        "ping1": words[3],
        "ping2": words[5],
        "ping3": words[7],
    }


@needs("dig")
def dig(host: str) -> str:
    """
    What C{dig} says of a name.

    CLI Example::

        salt '*' network.dig archlinux.org
    """
    return str(__salt__["cmd.run"](["dig", sanitize_host(host)], python_shell=False))


@needs("arp")
def arp() -> dict[str, str]:
    """
    Hardware address to IP address, from C{arp}.

    CLI Example::

        salt '*' network.arp
    """
    found = {}
    for line in __salt__["cmd.run"]("arp -an").splitlines():
        words = line.split()
        if len(words) >= 4:
            found[words[3]] = words[1].strip("(").strip(")")
    return found


hwaddr = _net_addresses.hw_addr


ipaddrs = _net_addresses.ip_addrs


ipaddrs6 = _net_addresses.ip_addrs6


def _neighbours(mark: str) -> dict[str, str]:
    found = {}
    for line in __salt__["cmd.run"]("ip neigh show").splitlines():
        words = line.split()
        if len(words) >= 5 and mark in words[0]:
            found[words[4]] = words[0]
    return found


def ip_neighs() -> dict[str, str]:
    """
    Hardware address to IPv4 address of the neighbours.

    CLI Example::

        salt '*' network.ip_neighs
    """
    return _neighbours(".")


def ip_neighs6() -> dict[str, str]:
    """
    Hardware address to IPv6 address of the neighbours.

    CLI Example::

        salt '*' network.ip_neighs6
    """
    return _neighbours(":")


ipneighs = ip_neighs
ipneighs6 = ip_neighs6


def mod_hostname(hostname: str | None) -> bool:
    """
    Change the host name: now, in C{/etc/hosts}, and for the next start.

    CLI Example::

        salt '*' network.mod_hostname master.saltstack.com
    """
    if hostname is None:
        return False
    program = systools.which("hostnamectl") or systools.which("hostname") or "hostname"
    if program.endswith("hostnamectl"):
        old = _net_addresses.get_hostname()
        status = __salt__["cmd.run_all"]([program, "status"], python_shell=False)
        if status["retcode"] == 0:
            for line in status["stdout"].splitlines():
                label, _colon, value = line.partition(":")
                if "Static hostname" in label:
                    old = value.partition(":")[0].strip()
        done = __salt__["cmd.run_all"]([program, "set-hostname", hostname], python_shell=False)
        if done["retcode"] != 0:
            log.debug("%s was unable to set hostname. Error: %s", program, done["stderr"])
            return False
    else:
        old = socket.getfqdn()
        __salt__["cmd.run"]([program, hostname], python_shell=False)
    _rename_in_hosts(old, hostname)
    family = __grains__["os_family"]
    if family == "RedHat":
        _rename_in_sysconfig(hostname)
    elif family in ("Debian", "NILinuxRT"):
        with open("/etc/hostname", "w", encoding="utf-8") as file:
            file.write(hostname + "\n")
    return True


def _rename_in_hosts(old: str, new: str, path: str = "/etc/hosts") -> None:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.readlines()
    out = []
    for line in lines:
        words = line.split()
        if old in words:
            words[words.index(old)] = new
        out.append("\t".join(words) + "\n")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(out)


def _rename_in_sysconfig(new: str, path: str = "/etc/sysconfig/network") -> None:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.readlines()
    for number, line in enumerate(lines):
        if line.startswith("HOSTNAME"):
            value = line.partition("=")[2].rstrip()
            quote = value[0] if len(value) > 1 and value[0] == value[-1] in "'\"" else ""
            lines[number] = f"HOSTNAME={quote}{new}{quote}\n"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)


def connect(host: str, port: Any = None, **kwargs: Any) -> dict[str, Any]:
    """
    Try to connect to a port of a host; C{result} says whether that worked.

    @keyword proto: C{tcp} (default) or C{udp} (sends a datagram and waits for an answer).
    @keyword timeout: seconds, 5 by default.
    @keyword family: C{ipv4} or C{ipv6}.

    CLI Example::

        salt '*' network.connect archlinux.org 80 timeout=3
    """
    for name, value in (("host", host), ("port", port)):
        if not value:
            return {"result": False, "comment": f"Required argument, {name}, is missing."}
    proto = kwargs.get("proto", "tcp")
    number = socket.IPPROTO_UDP if proto == "udp" else socket.IPPROTO_TCP
    proto = "udp" if proto == "udp" else "tcp"
    wanted = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}.get(kwargs.get("family") or "", 0)
    try:
        answers = socket.getaddrinfo(sanitize_host(host), port, wanted, 0, number)
    except (socket.gaierror, UnicodeError):
        text = f"Unable to resolve host {host} on {proto} port {port}"
        return {"result": False, "comment": text}
    family, kind, number, _name, address = answers[0]
    where = f"{host} ({address[0]}) on {proto} port {port}"
    try:
        with socket.socket(family, kind, number) as sock:
            sock.settimeout(kwargs.get("timeout", 5))
            if proto == "udp":
                sock.sendto(os.urandom(16).hex().encode(), address)
                sock.recvfrom(255)
            else:
                sock.connect(address)
                sock.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError):
        return {"result": False, "comment": f"Unable to connect to {where}"}
    return {"result": True, "comment": f"Successfully connected to {where}"}


def get_bufsize(iface: str) -> dict[str, Any]:
    """
    The ring buffer sizes of an interface, from C{ethtool}; empty without it.

    CLI Example::

        salt '*' network.get_bufsize eth0
    """
    if not os.path.exists("/sbin/ethtool"):
        return {}
    output = __salt__["cmd.run"](["/sbin/ethtool", "-g", iface], python_shell=False)
    found: dict[str, Any] = {"result": False}
    suffix = "max-"
    for line in output.splitlines():
        match = re.match(r"^(.+):\s+(\d+)$", line)
        if match:
            found[match.group(1).lower().replace(" ", "-") + suffix] = int(match.group(2))
            found["result"] = True
        elif line.endswith("maximums:"):
            suffix = "-max"
        elif line.endswith("settings:"):
            suffix = ""
    if not found["result"]:
        words = output.split()
        # A shell puts its own name before the error.
        shell = bool(words) and words[0].endswith("sh:")
        found["comment"] = " ".join(words[1:]) if shell else output
    return found


def mod_bufsize(iface: str, *args: Any, **kwargs: Any) -> Any:
    """
    Set ring buffer sizes: C{rx= tx= rx-mini= rx-jumbo=}; false without C{ethtool}.

    CLI Example::

        salt '*' network.mod_bufsize eth0 rx=2048 tx=2048
    """
    if not os.path.exists("/sbin/ethtool"):
        return False
    found: dict[str, Any] = {
        "result": False,
        "comment": "Requires rx=<val> tx==<val> rx-mini=<val> and/or rx-jumbo=<val>",
    }
    if not kwargs:
        return found
    if args:
        found["comment"] = "Unknown arguments: " + " ".join(str(item) for item in args)
        return found
    words = [
        word
        for name in ("rx", "tx", "rx-mini", "rx-jumbo")
        if kwargs.get(name) is not None
        for word in (name, f"{kwargs[name]}")
    ]
    if not words:
        return found
    output = __salt__["cmd.run"](["/sbin/ethtool", "-G", iface, *words], python_shell=False)
    return {"result": not output, "comment": output or " ".join(words)}


def _check_family(family: Any) -> None:
    if family not in ("inet", "inet6", None):
        raise CommandExecutionError(f"Invalid address family {family}")


def routes(family: str | None = None) -> list[dict[str, str]]:
    """
    The routes of this machine.

    @param family: C{inet} or C{inet6}; both by default.

    CLI Example::

        salt '*' network.routes
    """
    _check_family(family)
    if systools.which("netstat"):
        found = _netstat_routes("inet") + _netstat_routes("inet6")
    else:
        found = _ip_routes()
    return [route for route in found if not family or route["addr_family"] == family]


def _route(family: str, destination: str, gateway: str, mask: str, flags: str, iface: str) -> Any:
    return {
        "addr_family": family,
        "destination": destination,
        "gateway": gateway,
        "netmask": mask,
        "flags": flags,
        "interface": iface,
    }


def _netstat_routes(family: str) -> list[dict[str, str]]:
    found = []
    output = __salt__["cmd.run"](["netstat", "-A", family, "-rn"], python_shell=False)
    for line in output.splitlines()[2:]:
        words = line.split()
        if family == "inet":
            found.append(_route(family, words[0], words[1], words[2], words[3], words[7]))
        elif len(words) in (6, 7):
            found.append(_route(family, words[0], words[1], "", words[2], words[-1]))
    return found


_ROUTE_KINDS = (
    "unicast",
    "broadcast",
    "throw",
    "unreachable",
    "prohibit",
    "blackhole",
    "nat",
    "anycast",
    "multicast",
)


def _ip_routes() -> list[dict[str, str]]:
    def device(words: list[str], at: int) -> str:
        return words[at + 1] if len(words) > at + 1 and words[at] == "dev" else ""

    found = []
    for line in __salt__["cmd.run"]("ip -4 route show table main", python_shell=False).splitlines():
        words = line.split()
        if words[0] == "unreachable":
            continue
        if words[0] == "default":
            iface = device(words, 3)
            found.append(_route("inet", "0.0.0.0", words[2], "0.0.0.0", "UG", iface))
        else:
            net = _net_addresses.convert_cidr(words[0])
            iface = device(words, 1)
            found.append(_route("inet", net["network"], "0.0.0.0", net["netmask"], "U", iface))
    for line in __salt__["cmd.run"]("ip -6 route show table all", python_shell=False).splitlines():
        words = line.split()
        if words[0] in _ROUTE_KINDS:
            continue
        if words[0] == "default":
            found.append(_route("inet6", "::/0", words[2], "", "UG", device(words, 3)))
        elif words[0] == "local":
            found.append(_route("inet6", f"{words[1]}/128", "::", "", "U", device(words, 2)))
        else:
            _net_addresses.convert_cidr(words[0])
            found.append(_route("inet6", words[0], "::", "", "U", device(words, 1)))
    return found


def default_route(family: str | None = None) -> list[dict[str, str]]:
    """
    The default routes.

    @param family: C{inet} or C{inet6}; both by default.

    CLI Example::

        salt '*' network.default_route
    """
    _check_family(family)
    names = {"inet": ("0.0.0.0", "default"), "inet6": ("::/0", "default")}
    wanted = names[family] if family else (*names["inet"], *names["inet6"])
    return [route for route in routes(family) if route["destination"] in wanted]


def get_route(ip: str) -> dict[str, str | None]:
    """
    By which gateway, interface and source address an address is reached.

    CLI Example::

        salt '*' network.get_route 10.10.10.10
    """
    output = __salt__["cmd.run"](["ip", "route", "get", ip], python_shell=False)
    match = re.search(
        r"(via\s+(?P<gateway>[\w.:]+))?\s+dev\s+(?P<interface>[\w.:\-]+)\s+.*src\s+(?P<source>[\w.:]+)",
        output.splitlines()[0] if output else "",
    )
    if match is None:
        raise CommandExecutionError(f"Cannot find a route to {ip}: {output}")
    return {"destination": ip, **match.groupdict()}
