"""
Plays of the network of Debian: which interfaces are asked for, and what is there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.modules.plays import Play

INTERFACES = """# The loopback
auto lo
iface lo inet loopback

allow-hotplug eth0
iface eth0 inet static
    address 10.0.0.5/24
    address 10.0.0.6/24
    gateway 10.0.0.1
    dns-nameservers 10.0.0.1 10.0.0.2
    mtu 1400
    hwaddress 00:11:22:33:44:55
    offload-gso off
    up ip route add 1.2.3.0/24 via 10.0.0.9
    up true
    pre-down false
    unheard-of yes

auto eth1
iface eth1 inet dhcp
iface eth1 inet6 static
    address fe80::5
    netmask 64
    accept_ra 0

auto bond7
iface bond7 inet manual
    bond-mode 1
    bond_miimon 100
    bridge_ports eth8
auto nothing
"""


def _machine(p: Play) -> None:
    """A machine below the directory of the play: stock's paths, and our root."""
    etc = p.path("root/etc")
    p.constants = {
        "_ROOT": p.path("root"),
        "_PAUSE": 0,
        "_DEB_NETWORK_FILE": f"{etc}/network/interfaces",
        "_DEB_NETWORK_DIR": f"{etc}/network/interfaces.d/",
        "_DEB_NETWORK_UP_DIR": f"{etc}/network/if-up.d/",
        "_DEB_NETWORK_DOWN_DIR": f"{etc}/network/if-down.d/",
        "_DEB_NETWORK_CONF_FILES": f"{etc}/modprobe.d/",
        "_DEB_NETWORKING_FILE": f"{etc}/default/networking",
        "_DEB_HOSTNAME_FILE": f"{etc}/hostname",
        "_DEB_RESOLV_FILE": f"{etc}/resolv.conf",
        "_DEB_PPP_DIR": f"{etc}/ppp/peers/",
    }
    p.let("programs", ip="/usr/sbin/ip")
    p.let("grains", osfullname="Debian GNU/Linux", osrelease_info=[12])
    p.let("functions", **{"pkg.version": "", "file.set_mode": True})
    p.write("root/etc/network/interfaces", INTERFACES)
    p.write("root/etc/network/interfaces.d/more", "auto eth9\niface eth9 inet dhcp\n")
    p.write("root/etc/hostname", "machine\n")
    p.write("root/etc/resolv.conf", "domain example.com\nnameserver 10.0.0.1\n")
    p.write("root/etc/default/networking", "# x\nCONFIGURE_INTERFACES=yes\n")
    for folder in ("network/if-up.d", "network/if-down.d", "modprobe.d"):
        p.write(f"root/etc/{folder}/.keep", "")


def _interfaces() -> list[tuple[str, str, dict[str, Any]]]:
    static = {"proto": "static", "ipaddr": "10.1.0.2", "netmask": "255.255.255.0"}
    options: list[dict[str, Any]] = [
        {"gateway": "10.1.0.1", "dns": ["10.1.0.1", "10.1.0.3"], "mtu": 1400},
        {"gateway": "nowhere", "dns": "10.1.0.1 10.1.0.3", "mtu": "many", "metric": 5},
        {"netmask": 24, "hotplug": True, "hwaddr": "00:11:22:33:44:55", "hostname": "x"},
        {"hwaddr": "00:11", "netmask": 64, "ttl": "7", "scope": "link", "dns": []},
        {"addresses": ["10.1.0.3/24", "10.1.0.4/24"], "search": "example.com"},
        {"ipv6proto": "static", "ipv6ipaddr": "2001:db8::5", "ipv6netmask": 64},
        {"ipv6ipaddr": "2001:db8::5/64", "ipv6proto": "static", "ipv6gateway": "2001:db8::1"},
        {"ipv6proto": "auto", "enable_ipv4": False, "privext": 2, "accept_ra": "1"},
        {"ipv4proto": "dhcp", "enable_ipv6": False, "ipv6proto": "auto"},
        {"up_cmds": ["true", "ip link"], "pre_down_cmds": ["x"], "post_up_cmds": "one"},
        {"autoneg": "on", "duplex": "full", "speed": "1000", "gso": False, "tx": True},
        {"speed": 1000, "wpa-ssid": "home", "wpa-psk": "word", "wireless-mode": "x"},
        {"pointopoint": "10.1.0.9", "endpoint": "10.1.0.8", "local": "x", "leasetime": 5},
        *({key: "odd"} for key in ("autoneg", "duplex", "speed", "rx", "lro")),
    ]
    bond = {"proto": "static", "ipaddr": "10.2.0.2/24", "slaves": "eth4 eth5"}
    arp = {"arp_ip_target": ["1.2.3.4", "1.2.3.5"]}
    bonds: list[dict[str, Any]] = [
        *({"mode": mode} for mode in ("1", "3", "4", "5", "6", "802.3ad", "balance-alb")),
        *({"mode": mode, **arp} for mode in ("0", "2", "balance-rr", "balance-xor")),
        {"mode": "0"},
        {"mode": "0", "arp_ip_target": "1.2.3.4"},
        {"mode": "2", "arp_ip_target": [], "hashing-algorithm": "layer2"},
        {"mode": "2", **arp, "hashing-algorithm": "layer3+4", "arp_interval": "7"},
        {"mode": "2", **arp, "hashing-algorithm": "layer9"},
        {"mode": "2", **arp, "arp_interval": "x"},
        {"mode": "1", "miimon": "50", "downdelay": 7, "primary": "eth4", "use_carrier": True},
        {"mode": "1", "miimon": "x"},
        {"mode": "1", "use_carrier": "perhaps"},
        {"mode": "4", "lacp_rate": "fast", "ad_select": "1", "use_carrier": "off"},
        {"mode": "4", "lacp_rate": "lame"},
        {"mode": "5", "primary": "eth4", "slaves": ["eth4", "eth5"]},
        {"mode": "9"},
    ]
    bridge = {"proto": "dhcp", "ports": "eth0 eth1"}
    bridges: list[dict[str, Any]] = [
        {},
        {"ports": ["a", "b"], "stp": "on", "fd": "0", "maxwait": 0, "hello": 2},
        {"stp": "maybe"},
        {"fd": "x"},
        {"bridgeprio": "x"},
        {"hw": "00:11:22:33:44:55", "pathcost": "eth0 5", "waitport": "5 eth0"},
        {"hw": "00"},
        {"pathcost": "5"},
    ]
    return [
        ("eth2", "eth", {"proto": "dhcp"}),
        ("eth2", "eth", {}),
        ("eth2", "eth", {"proto": "odd"}),
        ("eth2", "ETH", {"proto": "manual"}),
        *(("eth2", "eth", {**static, **more}) for more in options),
        *(("bond0", "bond", {**bond, **more}) for more in bonds),
        *(("br0", "bridge", {**bridge, **more}) for more in bridges),
        ("eth2", "slave", {"master": "bond0"}),
        ("eth2.5", "vlan", dict(static)),
        ("eth2", "slave", {}),
        ("bond0", "bond", {"mode": "1"}),
        ("br0", "bridge", {}),
        ("eth2", "token-ring", {}),
        ("source", "source", {"source": "interfaces.d/x"}),
    ]


def debian_ip(p: Play) -> None:
    """All that an interface may be made of."""
    _machine(p)
    for name in ("lo", "eth0", "eth1", "eth9", "bond7", "nothing", "eth77"):
        p.call("ip.get_interface", name)
    for name, kind, settings in _interfaces():
        # Stock installs packages under test, too, and shows nothing of a source.
        packages = kind in ("vlan", "bridge", "source")
        for on in (True, False) if kind == "eth" else (True,):
            if not packages:
                p.call("ip.build_interface", name, kind, on, test=True, **settings)
        p.call("ip.build_interface", name, kind, True, **settings)
        p.call("ip.get_interface", name)
        p.write("root/etc/network/interfaces", INTERFACES)
        if kind == "bond":
            p.call("ip.build_bond", name, test=True, **settings)
            p.call("ip.build_bond", name, **settings)
            p.call("ip.get_bond", name)
    p.call("ip.build_interface", "eth2", "eth", True, proto="dhcp", filename="eth2")
    p.read("root/etc/network/interfaces.d/eth2")
    p.call("ip.build_interface", "eth2", "eth", True, proto="dhcp")
    p.read("root/etc/network/interfaces")
    p.write("root/etc/network/interfaces", "iface eth0 inet\n")
    p.call("ip.get_interface", "eth0")
    p.write("root/etc/network/interfaces", INTERFACES)
    for kind in ("eth", "slave", "source"):
        p.call("ip.up", "eth0", kind)
        p.call("ip.down", "eth0", kind)
    routes: list[dict[str, Any]] = [
        {"name": "one", "ipaddr": "10.0.0.0", "netmask": "255.0.0.0", "gateway": "10.1.1.1"},
        {"ipaddr": "1.2.3.0/24", "metric": 5},
        {"gateway": "10.1.1.1"},
    ]
    p.call("ip.get_routes", "eth0")
    for test in (True, False):
        p.call("ip.build_routes", "eth0", routes=routes, test=test)
        p.call("ip.build_routes", "eth0", test=test)
    p.call("ip.get_routes", "eth0")
    p.tree("root/etc/network/if-up.d")
    p.call("ip.get_network_settings")
    for more in ({}, {"hostname": "a.example.com"}, {"hostname": ""}, {"enabled": "perhaps"}):
        for test in (True, False):
            p.call("ip.build_network_settings", test=test, **{"enabled": False, **more})
    p.call("ip.get_network_settings")
    p.read("root/etc/default/networking")
    applied: list[dict[str, Any]] = [{}, {"require_reboot": True}, {"apply_hostname": True}]
    for more in applied:
        p.call("ip.apply_network_settings", **more)
    p.call("ip.apply_network_settings", apply_hostname="yes", hostname="x", require_reboot="no")


def network_states(p: Play) -> None:
    """Interfaces that are there and that are not, up and down."""
    _machine(p)

    def both(function: str, name: str, **words: Any) -> None:
        for is_test in (True, False, False):
            p.let("opts", test=is_test)
            p.call(f"states/network.{function}", name, **words)

    static = {"type": "eth", "proto": "static", "ipaddr": "10.1.0.2", "netmask": 24}
    for name in ("lo", "nosuch0"):
        both("managed", name, **static)
        both("managed", name, enabled=False, **static)
        both("managed", name, **static, gateway="10.1.0.1", noifupdown=True)
        both("managed", name, addr="00:11:22:33:44:55", **static)
        both("managed", name, addr="00:11:22:33:44:55", hwaddr="00:11:22:33:44:56", **static)
    both("managed", "nosuch0", speed="fast")
    both("managed", "nosuch0", type="slave")
    bond = {"type": "bond", "mode": "1", "slaves": "a b", "proto": "dhcp"}
    p.answer("cat", "a\n")
    p.answer("which", "/sbin/ifenslave\n")
    both("managed", "bond3", **bond)
    both("managed", "bond3", **bond, primary="a")
    p.let("opts", test=False)
    both("routes", "nosuch0")
    both("routes", "nosuch0", routes=[{"ipaddr": "10.0.0.0", "netmask": 8, "gateway": "1.2.3.4"}])
    both("routes", "nosuch0", routes=[{"ipaddr": "10.0.0.0", "netmask": 16, "gateway": "1.2.3.4"}])
    both("system", "system", enabled=True, hostname="machine", require_reboot=True)
    both("system", "system", enabled=False, hostname="other", require_reboot=True)
    both("system", "system", enabled=False, hostname="other.example.org")
    both("system", "system", enabled="perhaps", hostname="other.example.org")


def dig(p: Play) -> None:
    """Answers of name servers, empty and failed ones among them."""
    p.call("dig.__virtual__")
    p.let("programs", dig="/usr/bin/dig")
    p.call("dig.__virtual__")
    addresses = ("1.2.3.4", "1.2.3.4/8", "1.2.3.4/33", "1.2.3", "::1", "::1/7", "::1/64", 5, "x/y")
    for address in addresses:
        p.call("dig.check_ip", address)
    p.answer("dig +short a.org A", "b.org.\n1.2.3.4\n1.2.3.5")
    p.answer("dig +short a.org AAAA", "b.org.\n::5")
    p.answer("dig +short a.org NS", "ns.a.org\nns.b.org")
    p.answer("dig +short ns.a.org A", "1.2.3.6")
    p.answer("dig +short a.org MX", "10 ns.a.org\n20 ns.a.org")
    p.answer("dig +short -x 1.2.3.4", "a.org.\nb.org.")
    p.answer("dig +short a.org CNAME", "b.org.")
    p.answer("dig +short a.org TXT", '"v=spf1 ip4:1.2.3.0/24 ~ip6:::/16 include:b.org ip4:x -all"')
    p.answer("dig +short b.org SPF", '"v=spf1 redirect=c.org"')
    p.answer("dig +short c.org SPF", '"v=spf1 ip4:9.9.9.9"')
    p.answer("dig +short d.org", {"retcode": 9, "stdout": "no"})
    for host in ("a.org", "d.org"):
        for kind in ("A", "AAAA", "NS", "MX", "TXT", "CNAME", "SPF", "a", "ns", "cname"):
            p.call(f"dig.{kind}", host)
            p.call(f"dig.{kind}", host, nameserver="8.8.8.8")
    for resolve in (True, False):
        p.call("dig.NS", "a.org", resolve)
        p.call("dig.MX", "a.org", resolve)
    p.call("dig.PTR", "1.2.3.4")
    p.call("dig.SPF", "a.org", "TXT")
