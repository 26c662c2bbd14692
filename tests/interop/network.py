"""
Hosts of their own for masters: network namespaces, each with one link to ours.

Needs root and C{iproute2}; cutting a connection needs C{iptables}. Addresses are of
10.77.0.0/16 and exist only inside of these namespaces.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import unittest
from itertools import count

_numbers = count(1)


def run(*argv: str, check: bool = True) -> str:
    """A command; its output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def needs_namespaces(test: type) -> type:
    """Skip a test class where nobody may make hosts; as root it must work."""
    if os.geteuid() == 0:
        return test
    return unittest.skip("network namespaces need root")(test)


class Host:
    """
    One host. C{wire} is the end of its link in the hub.

    @ivar address: where the hub reaches it.
    @ivar near: the hub's own address on the link.
    """

    def __init__(self, hub: Hub, number: int) -> None:
        self.hub = hub
        self.name = f"{hub.name}h{number}"
        self.net = f"10.77.{number}"
        self.address, self.near = f"{self.net}.2", f"{self.net}.1"
        self.wire, self.far = f"w{number}", f"v{number}"
        run("ip", "netns", "add", self.name)
        run(
            "ip", "-n", hub.name, "link", "add", self.wire, "type", "veth", "peer", "name", self.far
        )
        run("ip", "-n", hub.name, "link", "set", self.far, "netns", self.name)
        run("ip", "-n", hub.name, "addr", "add", f"{self.near}/24", "dev", self.wire)
        run("ip", "-n", self.name, "addr", "add", f"{self.address}/24", "dev", self.far)
        run("ip", "-n", hub.name, "link", "set", self.wire, "up")
        for device in (self.far, "lo"):
            run("ip", "-n", self.name, "link", "set", device, "up")

    def inside(self, argv: list[str]) -> list[str]:
        """The same command, on this host."""
        return ["ip", "netns", "exec", self.name, *argv]

    def drop(self) -> None:
        """Nothing arrives any more, either way, and nobody is told."""
        for chain, side in (("INPUT", "-i"), ("OUTPUT", "-o")):
            run(*self.inside(["iptables", "-A", chain, "!", side, "lo", "-j", "DROP"]))

    def cut(self, other: Host) -> None:
        """Nothing goes between these two any more; all else does."""
        for one, two in ((self, other), (other, self)):
            run(
                *self.hub.inside(["iptables", "-A", "FORWARD", "-s", f"{one.net}.0/24"]),
                *("-d", f"{two.net}.0/24", "-j", "DROP"),
            )

    def forget(self, port: int) -> None:
        """The connections that there are to this port are dead on the way; new ones work."""
        listing = run(
            *self.inside(["ss", "-Htn", "state", "established", "sport", "=", f":{port}"])
        )
        for line in listing.splitlines():
            peer = line.split()[-1].rpartition(":")[2]
            for chain, side in (("INPUT", "--sport"), ("OUTPUT", "--dport")):
                run(*self.inside(["iptables", "-A", chain, "-p", "tcp", side, peer, "-j", "DROP"]))

    def heal(self) -> None:
        """All arrives again."""
        run(*self.inside(["iptables", "-F"]))

    def move(self) -> None:
        """It has another address; what was connected hears nothing."""
        new = f"{self.net}.{int(self.address.rpartition('.')[2]) + 1}"
        run("ip", "-n", self.name, "addr", "del", f"{self.address}/24", "dev", self.far)
        run("ip", "-n", self.name, "addr", "add", f"{new}/24", "dev", self.far)
        self.address = new

    def remove(self) -> None:
        """Gone; the link as well."""
        run("ip", "netns", "del", self.name, check=False)


class Hub(Host):
    """Where the minions are, linked to every host."""

    def __init__(self, hosts: int) -> None:
        self.name = f"swt{os.getpid()}n{next(_numbers)}"
        self.etc = f"/etc/netns/{self.name}"
        self.hosts: list[Host] = []
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        self.hosts = [Host(self, number) for number in range(1, hosts + 1)]

    def route(self) -> None:
        """The hosts reach one another by way of the hub."""
        run(*self.inside(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]))
        for host in self.hosts:
            run("ip", "-n", host.name, "route", "add", "default", "via", host.near)

    def names(self, **addresses: str) -> None:
        """What the names of hosts mean to the minions from now on."""
        os.makedirs(self.etc, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{a} {n}" for n, a in addresses.items())]
        # In place: `ip netns exec` has mounted this very file
        with open(os.path.join(self.etc, "hosts"), "a+") as handle:
            handle.seek(0)
            handle.truncate()
            handle.write("\n".join(lines) + "\n")

    def remove(self) -> None:
        """All gone."""
        for host in self.hosts:
            host.remove()
        run("ip", "netns", "del", self.name, check=False)
        shutil.rmtree(self.etc, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")
