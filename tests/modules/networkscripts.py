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


BOOLEANS = """SELinux boolean                State  Default Description

privoxy_connect_any            (on   ,   on)  Allow privoxy to connect any
smartmon_3ware                 (off  ,  off)  Allow smartmon to 3ware
mixed_up                       (on   ,  off)  Is on now
"""
MODULES = "100 accountsd         pp\n100 acct              pp\n400 mysql             pp disabled\n"


def selinux(p: Play) -> None:
    """Modes, booleans and modules of a machine whose programs are played."""
    p.call("selinux.__virtual__")
    p.let("programs", semanage="/x/semanage", setsebool="/x/setsebool")
    p.call("selinux.__virtual__")
    p.let("programs", semodule="/x/semodule")
    p.call("selinux.__virtual__")
    for function in ("selinux_fs_path", "getenforce", "getconfig"):
        p.call(f"selinux.{function}")
    for mode in ("enforcing", "Permissive", "odd", 5):
        p.call("selinux.setenforce", mode)
    p.answer("semanage boolean --list", BOOLEANS)
    p.answer("semodule --list-modules=full", MODULES)
    p.call("selinux.list_sebool")
    p.call("selinux.list_semod")
    for name in ("mysql", "nope"):
        p.call("selinux.getsemod", name)
        p.call("selinux.remove_semod", name)
        for state in ("Enabled", "disabled", "odd"):
            p.call("selinux.setsemod", name, state)
    for name in ("mixed_up", "nope"):
        p.call("selinux.getsebool", name)
        for persist in (True, False):
            p.call("selinux.setsebool", name, "on", persist)
            p.call("selinux.setsebools", {name: "on", "b": False}, persist)
    p.let("functions", **{"cp.cache_file": "/cached/x.pp"})
    for path in ("/tmp/x.pp", "salt://x.pp"):
        p.call("selinux.install_semod", path)
    for kind in ("a", "f", "p", "z"):
        p.call("selinux.filetype_id_to_string", kind)
    p.call("selinux.port_add_policy", "tcp/8080")
    for name, more in (("tcp/8080", {}), ("x", {"protocol": "udp", "port": "53-60"}), ("x", {})):
        p.call("selinux.port_add_policy", name, "http_port_t", **more)
        p.call("selinux.port_modify_policy", name, "http_port_t", sel_range="s0", **more)
        p.call("selinux.port_delete_policy", name, **more)
    for words in ({}, {"filetype": "f", "sel_type": "t", "sel_user": "u", "sel_level": "s0"}):
        p.call("selinux.fcontext_delete_policy", "/srv(/.*)?", **words)
    p.call("selinux.fcontext_delete_policy", "/srv(/.*)?", filetype="z")
    p.answer("restorecon", "Would relabel /srv/a from u:r:old_t:s0 to u:r:new_t:s0")
    for recursive in (True, False):
        p.call("selinux.fcontext_policy_is_applied", "/srv", recursive)
        p.call("selinux.fcontext_apply_policy", "/srv", recursive)
    for answer in ("restorecon reset /srv/a context u:r:old_t:s0->x:r:new_t:s1", "odd", "", 1):
        p.answer("restorecon", answer)
        p.call("selinux.fcontext_apply_policy", "/srv")


def selinux_states(p: Play) -> None:
    """Modes, booleans, modules and rules that are there, are not, or cannot be set."""

    def both(function: str, *args: Any, **words: Any) -> None:
        for is_test in (True, False):
            p.let("opts", test=is_test)
            p.call(f"states/selinux.{function}", *args, **words)

    for now, later in (("Enforcing", "Enforcing"), ("Permissive", "Enforcing"), ("Disabled", None)):
        p.let("functions", **{"selinux.getenforce": now, "selinux.getconfig": later})
        for new in ("Enforcing", "Disabled"):
            p.let("functions", **{"selinux.setenforce": new})
            for name in ("enforcing", "permissive", "disabled", "on", "0", "odd"):
                both("mode", name)
    have = {
        "up": {"State": "on", "Default": "on", "Description": ""},
        "half": {"State": "on", "Default": "off", "Description": ""},
        "down": {"State": "off", "Default": "off", "Description": ""},
    }
    p.let("functions", **{"selinux.list_sebool": have})
    for did in (True, False):
        p.let("functions", **{"selinux.setsebools": did})
        for persist in (True, False):
            for name in (*have, "nope"):
                for value in (True, "off", "odd"):
                    both("boolean", name, value, persist=persist)
            both("boolean", "x", True, booleans=["up", "down", {"half": False}], persist=persist)
            both("boolean", "x", booleans={"up": 1, "down": 0}, persist=persist)
    modules = {n: {"Enabled": n == "on", "Version": None} for n in ("on", "off")}
    p.let("functions", **{"selinux.list_semod": modules})
    for did in (True, False):
        fakes = ("setsemod", "install_semod", "remove_semod")
        p.let("functions", **{f"selinux.{name}": did for name in fakes})
        for name in ("on", "off", "nope"):
            for state in ("Enabled", "disabled", True):
                both("module", name, state)
            both("module", name, version="1")
            both("module", name, install=True, remove=True)
            p.call("states/selinux.module", name, install=True, source="/x.pp")
            p.call("states/selinux.module", name, remove=True)
            p.call("states/selinux.module_install", name)
            p.call("states/selinux.module_remove", name)
    rule = {"sel_type": "t", "filetype": "all files", "sel_user": "u", "sel_level": "s0"}
    for code in (0, 1):
        done = {"retcode": code, "stderr": "no"}
        rules = ("fcontext_add", "fcontext_delete", "port_add", "port_modify", "port_delete")
        p.let("functions", **{f"selinux.{name}_policy": done for name in rules})
        for now_there in (rule, None):
            p.let("functions", **{"selinux.fcontext_get_policy": now_there})
            p.let("functions", **{"selinux.port_get_policy": now_there})
            p.let("functions", **{"selinux.filetype_id_to_string": "all files"})
            both("fcontext_policy_present", "/srv", "t")
            if not (now_there and code):
                both("fcontext_policy_absent", "/srv")
            both("port_policy_present", "tcp/80", "t")
            both("port_policy_absent", "tcp/80")
    for text in ("", "Would"):
        p.let("functions", **{"selinux.fcontext_policy_is_applied": text})
        applied = {"retcode": 0, "changes": {"/srv": {"old": {}, "new": {}}}}
        p.let("functions", **{"selinux.fcontext_apply_policy": applied})
        both("fcontext_policy_applied", "/srv")
