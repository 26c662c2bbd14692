"""Salt's C{network} functions: tools' output in Salt's shapes, and plain arithmetic."""

from __future__ import annotations

import os
import socket

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError
from saltwisted.worker.grains import netinfo
from tests.modules.harness import Commands, load

IFACES = {
    "lo": {"up": True, "hwaddr": "00:00:00:00:00:00", "inet": [{"address": "127.0.0.1"}]},
    "eth0": {
        "up": True,
        "hwaddr": "02:00:00:00:00:01",
        "inet": [
            {
                "address": "10.1.2.3",
                "netmask": "255.255.255.0",
                "broadcast": "10.1.2.255",
                "label": "eth0",
            }
        ],
        "inet6": [{"address": "fd00::2", "prefixlen": "64", "scope": "global"}],
        "secondary": [
            {"type": "inet", "address": "93.184.216.34", "netmask": "255.255.0.0", "label": "x"}
        ],
    },
    "tun0": {"up": False},
}


class NetworkCase(SynchronousTestCase):
    """A network module over described interfaces, with all tools or none."""

    def setUp(self) -> None:
        self.commands = Commands()
        self.module = load("network", salt=self.commands.salt())
        self.patch(netinfo, "interfaces", lambda: IFACES)
        self.tools = {"netstat", "ss", "traceroute", "dig", "arp", "ip"}
        self.patch(systools, "which", lambda name: name if name in self.tools else None)


class InterfaceTests(NetworkCase):
    """Addresses and networks."""

    def test_one_interface(self) -> None:
        """Hardware address and addresses of an interface; an unknown one is named in the answer."""
        self.assertEqual(self.module.hw_addr("eth0"), "02:00:00:00:00:01")
        self.assertEqual(self.module.interface_ip("eth0"), "10.1.2.3")
        self.assertEqual(self.module.interface_ip("tun0"), "")
        self.assertEqual(self.module.interface("tun0"), "")
        self.assertEqual(
            self.module.hwaddr("eth9"),
            'Interface "eth9" not in available interfaces: "lo", "eth0", "tun0"',
        )

    def test_addresses_by_kind(self) -> None:
        """Addresses can be asked by network and by being private or public."""
        self.assertEqual(self.module.ip_addrs(), ["10.1.2.3", "93.184.216.34"])
        self.assertEqual(self.module.ip_addrs(type="public"), ["93.184.216.34"])
        self.assertEqual(self.module.ip_addrs(type="private"), ["10.1.2.3"])
        self.assertEqual(self.module.ip_addrs(cidr="10.0.0.0/8"), ["10.1.2.3"])
        self.assertEqual(self.module.ip_addrs("lo", include_loopback=True), ["127.0.0.1"])
        self.assertEqual(self.module.ip_addrs6(), ["fd00::2"])

    def test_networks(self) -> None:
        """Networks come sorted, verbosely with their size."""
        self.assertEqual(self.module.subnets(), ["10.1.2.0/24", "93.184.0.0/16"])
        self.assertEqual(self.module.subnets6(), ["fd00::/64"])
        self.assertEqual(self.module.subnets("tun0"), [])
        self.assertEqual(
            self.module.ip_networks(verbose=True)["10.1.2.0/24"],
            {
                "address": "10.1.2.0",
                "netmask": "255.255.255.0",
                "num_addresses": 256,
                "prefixlen": 24,
            },
        )

    def test_membership(self) -> None:
        """An invalid network contains nothing."""
        self.assertTrue(self.module.in_subnet("10.1.0.0/16"))
        self.assertTrue(self.module.in_subnet("fd00::/16"))
        self.assertFalse(self.module.in_subnet("10.1.2.3/16"))
        self.assertTrue(self.module.ip_in_subnet("1.2.3.4", "1.0.0.0/8"))

    def test_by_prefix_of_text(self) -> None:
        """C{ifacestartswith} compares text."""
        self.assertEqual(self.module.ifacestartswith("10.1"), ["eth0"])
        self.assertEqual(self.module.ifacestartswith("127"), ["lo"])

    def test_arithmetic(self) -> None:
        """Masks, networks, reverse names and hexadecimal."""
        self.assertEqual(
            self.module.convert_cidr("172.31.0.5/16"),
            {"network": "172.31.0.0", "netmask": "255.255.0.0", "broadcast": "172.31.255.255"},
        )
        self.assertEqual(self.module.calc_net("172.17.0.5", "255.255.255.240"), "172.17.0.0/28")
        self.assertEqual(self.module.reverse_ip("1.2.3.4"), "4.3.2.1.in-addr.arpa")
        self.assertEqual(self.module.iphexval("10.0.0.255"), "0A0000FF")

    def test_proc_net_tcp_addresses(self) -> None:
        """Addresses of C{/proc/net/tcp}: IPv4, IPv6, and IPv4 within IPv6."""
        self.assertEqual(netinfo.hex2ip("0100007F", invert=True), "127.0.0.1")
        self.assertEqual(netinfo.hex2ip("7F000001"), "127.0.0.1")
        self.assertEqual(
            netinfo.hex2ip("0000000000000000FFFF00000100007F", invert=True), "127.0.0.1"
        )
        self.assertEqual(netinfo.hex2ip("00000000000000000000000001000000", invert=True), "::1")
        self.assertEqual(netinfo.hex2ip("zz"), "zz")


class ToolTests(NetworkCase):
    """Programs, their command lines and their output."""

    def test_ping(self) -> None:
        """Host names are cleaned before they come near a command line."""
        self.commands.answers["ping -c 4 a.b"] = "4 received"

        self.assertEqual(self.module.ping("a.b"), "4 received")
        self.module.ping("evil; reboot", timeout=3, return_boolean=True)

        self.assertEqual(self.commands.ran[-1], "ping -W 3 -c 4 evilreboot")

    def test_netstat(self) -> None:
        """netstat's rows have a state for tcp only."""
        self.commands.answers["netstat -tulpnea"] = (
            "Proto ...\n"
            "tcp 0 0 0.0.0.0:22 0.0.0.0:* LISTEN 0 111 7/sshd\n"
            "udp 0 0 0.0.0.0:68 0.0.0.0:* 0 222 8/dhclient\n"
        )

        tcp, udp = self.module.netstat()

        self.assertEqual((tcp["state"], tcp["program"]), ("LISTEN", "7/sshd"))
        self.assertEqual((udp["inode"], udp["program"]), ("222", "8/dhclient"))
        self.assertNotIn("state", udp)

    def test_ss_in_its_place(self) -> None:
        """Without netstat the output of ss is brought into the same shape."""
        self.tools.discard("netstat")
        self.commands.answers["ss -tulpnea"] = (
            "Netid State ...\n"
            'tcp ESTAB 0 0 1.1.1.1:22 2.2.2.2:5 users:(("sshd",pid=7,fd=3)) uid:5 ino:99 sk:1 <->\n'
        )

        (row,) = self.module.netstat()

        self.assertEqual(
            row,
            {
                "proto": "tcp",
                "recv-q": "0",
                "send-q": "0",
                "local-address": "1.1.1.1:22",
                "remote-address": "2.2.2.2:5",
                "state": "ESTABLISHED",
                "user": "5",
                "inode": "99",
                "program": "sshd",
            },
        )

    def test_routes_of_ip(self) -> None:
        """Without netstat routes come from ip, defaults with their gateway."""
        self.tools.discard("netstat")
        self.commands.answers["ip -4"] = (
            "default via 10.1.2.1 dev eth0\n10.1.2.0/24 dev eth0 src 10.1.2.3\n"
            "unreachable 9.0.0.0/8\n"
        )
        self.commands.answers["ip -6"] = (
            "default via fe80::1 dev eth0\nlocal ::1 dev lo\nfd00::/64 dev eth0\n"
            "multicast ff00::/8\n"
        )

        routes = self.module.routes()

        self.assertEqual(
            [(r["destination"], r["gateway"], r["netmask"], r["interface"]) for r in routes],
            [
                ("0.0.0.0", "10.1.2.1", "0.0.0.0", "eth0"),
                ("10.1.2.0", "0.0.0.0", "255.255.255.0", "eth0"),
                ("::/0", "fe80::1", "", "eth0"),
                ("::1/128", "::", "", "lo"),
                ("fd00::/64", "::", "", "eth0"),
            ],
        )
        self.assertEqual(
            [r["gateway"] for r in self.module.default_route()], ["10.1.2.1", "fe80::1"]
        )
        self.assertRaises(CommandExecutionError, self.module.routes, "ipx")

    def test_get_route(self) -> None:
        """The gateway of a direct route is C{None}."""
        self.commands.answers["ip route get 10.1.2.9"] = "10.1.2.9 dev eth0 src 10.1.2.3 uid 0\n"

        self.assertEqual(
            self.module.get_route("10.1.2.9"),
            {
                "destination": "10.1.2.9",
                "gateway": None,
                "interface": "eth0",
                "source": "10.1.2.3",
            },
        )

    def test_traceroute(self) -> None:
        """Hops of a modern traceroute have three times, silent ones a star."""
        self.commands.answers["traceroute x"] = (
            "traceroute to x (1.1.1.1), 30 hops max\n"
            " 1  gw (10.0.0.1)  0.5 ms  0.6 ms  0.7 ms\n"
            " 2  * * *\n"
        )
        self.commands.answers["traceroute --version"] = "Modern traceroute, version 2.1.2"

        self.assertEqual(
            self.module.traceroute("x"),
            [
                {
                    "count": 1,
                    "hostname": "gw",
                    "ip": "10.0.0.1",
                    "ms1": 0.5,
                    "ms2": 0.6,
                    "ms3": 0.7,
                },
                {"count": 2, "hostname": "*"},
            ],
        )

    def test_missing_program(self) -> None:
        """A tool that is not installed is named in Salt's words."""
        self.tools.discard("dig")

        error = self.assertRaises(CommandNotFoundError, self.module.dig, "x")

        self.assertEqual(str(error), "The 'dig' binary was not found in $PATH.")

    def test_neighbours(self) -> None:
        """Neighbours are told by the family of their address."""
        self.commands.answers["ip neigh"] = (
            "10.0.0.1 dev e lladdr aa:bb REACHABLE\nfe80::1 dev e lladdr cc:dd STALE\n"
            "10.0.0.7 FAILED\n"
        )

        self.assertEqual(self.module.ip_neighs(), {"aa:bb": "10.0.0.1"})
        self.assertEqual(self.module.ip_neighs6(), {"cc:dd": "fe80::1"})


class ConnectTests(NetworkCase):
    """C{network.connect} on loopback."""

    def test_connects(self) -> None:
        """A listening port is reported with the address that was used."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            found = self.module.connect("127.0.0.1", port)

        self.assertEqual(
            found,
            {
                "result": True,
                "comment": f"Successfully connected to 127.0.0.1 (127.0.0.1) on tcp port {port}",
            },
        )

    def test_refused(self) -> None:
        """A port nobody listens on is reported."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

        found = self.module.connect("127.0.0.1", port, timeout=1)

        self.assertEqual(
            found,
            {
                "result": False,
                "comment": f"Unable to connect to 127.0.0.1 (127.0.0.1) on tcp port {port}",
            },
        )

    def test_missing_arguments(self) -> None:
        """Without host or port nothing is tried."""
        self.assertEqual(
            self.module.connect(""),
            {"result": False, "comment": "Required argument, host, is missing."},
        )
        self.assertEqual(
            self.module.connect("x"),
            {"result": False, "comment": "Required argument, port, is missing."},
        )


class HostnameTests(NetworkCase):
    """Changing the host name."""

    def test_hosts_file(self) -> None:
        """The old name is replaced where it stands as a word."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write("127.0.1.1 old.example old\n# old stays in no comment\n\n1.1.1.1 other\n")

        self.module._rename_in_hosts("old", "new", path)

        with open(path, encoding="utf-8") as file:
            self.assertEqual(
                file.read(),
                "127.0.1.1\told.example\tnew\n#\tnew\tstays\tin\tno\tcomment\n\n1.1.1.1\tother\n",
            )

    def test_sysconfig(self) -> None:
        """The quotes of the old value are kept."""
        path = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            file.write('NETWORKING=yes\nHOSTNAME="old"\n')

        self.module._rename_in_sysconfig("new", path)

        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), 'NETWORKING=yes\nHOSTNAME="new"\n')
        os.unlink(path)

    def test_refusal_of_hostnamectl(self) -> None:
        """If hostnamectl refuses, nothing else is touched."""
        self.tools.add("hostnamectl")
        self.commands.answers["hostnamectl set-hostname"] = 1

        self.assertFalse(self.module.mod_hostname("new"))
        self.assertFalse(self.module.mod_hostname(None))
