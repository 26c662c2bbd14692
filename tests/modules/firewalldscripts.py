"""
The scripts of L{tests.modules.machineplays} about firewalld.

This file is read with stock's Python too, so it imports nothing of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.modules.plays import Play

_ZONES = """public (active)
  target: default
  icmp-block-inversion: no
  interfaces: eth0
  sources:
  services: dhcpv6-client ssh
  ports:
  masquerade: no
  forward-ports:
\tport=22:proto=tcp:toport=2222:toaddr=
  rich rules:
\trule family="ipv4" source address="10.0.0.0/8" accept
\trule service name="ssh" accept

work
  target: default
  masquerade: yes

empty
""".replace(":\n", ": \n")
_FORWARDS = "port=22:proto=tcp:toport=2222:toaddr=\nport=80:proto=tcp:toport=443:toaddr=10.0.0.1\n"
_RULES = 'rule service name="ssh" accept\nrule protocol value="icmp" accept\n'


def _program(p: Play) -> None:
    """A firewall-cmd that knows two zones and two services."""
    p.programs["firewall-cmd"] = "/usr/bin/firewall-cmd"
    answers = {
        "": "success",
        "--version": "1.3.3",
        "--list-all-zones": _ZONES,
        "--get-zones": "public work",
        "--get-services": "http ssh",
        "--get-icmptypes": "echo-reply echo-request",
        "--get-default-zone": "public",
        "--list-all": _ZONES.partition("\n\n")[0],
        "--zone=work --list-all": "work\n  target: default\n  masquerade: yes\n",
        "--zone=public --list-all": "public\n  masquerade: no\n",
        "--zone=home --list-all": "home\n  masquerade: no\n",
        "--zone=public --list-services": "ssh dhcpv6-client",
        "--zone=public --list-ports": "22/tcp 25/tcp",
        "--zone=public --list-icmp-blocks": "echo-reply",
        "--zone=public --list-interfaces": "eth0",
        "--zone=public --list-sources": "10.0.0.0/8",
        "--zone=public --list-rich-rules": _RULES,
        "--zone=public --list-forward-ports": _FORWARDS,
        "--permanent --service=ssh --get-ports": "22/tcp",
        "--permanent --service=ssh --get-protocols": "ospf",
    }
    for zone in ("work", "home"):
        for what in ("services", "ports", "interfaces", "sources", "rich-rules", "forward-ports"):
            answers[f"--zone={zone} --list-{what}"] = ""
        answers[f"--zone={zone} --list-icmp-blocks"] = ""
    for service in ("mine", "http"):
        answers[f"--permanent --service={service} --get-ports"] = ""
        answers[f"--permanent --service={service} --get-protocols"] = ""
    for words, answer in answers.items():
        p.answers[f"/usr/bin/firewall-cmd {words}".strip()] = answer


def _modules_calls(p: Play) -> None:
    for is_kept in ({}, {"permanent": False}):
        for name in ("list_zones", "get_zones", "get_services", "get_icmp_types"):
            p.call(f"firewalld.{name}", **is_kept)
        for name in ("list_all", "list_services", "add_masquerade", "remove_masquerade"):
            p.call(f"firewalld.{name}", **is_kept)
            p.call(f"firewalld.{name}", "public", **is_kept)
        for zone in ((), ("public",), ("work",)):
            p.call("firewalld.get_masquerade", *zone, **is_kept)
        for name in ("add_service", "remove_service"):
            p.call(f"firewalld.{name}", "ssh", **is_kept)
            p.call(f"firewalld.{name}", "ssh", "public", **is_kept)
        for name in ("list_ports", "list_port_fwd", "list_icmp_block", "get_rich_rules"):
            p.call(f"firewalld.{name}", "public", **is_kept)
        for name in ("get_interfaces", "get_sources"):
            p.call(f"firewalld.{name}", "public", **is_kept)
        for what, known, other in (
            ("interface", "eth0", "eth1"),
            ("source", "10.0.0.0/8", "192.168.0.0/16"),
            ("port", "22/tcp", "443/tcp"),
            ("rich_rule", 'rule service name="ssh" accept', "rule family=ipv6 drop"),
        ):
            for word in ("add", "remove"):
                p.call(f"firewalld.{word}_{what}", "public", known, **is_kept)
                p.call(f"firewalld.{word}_{what}", "public", other, **is_kept)
        for kind in ("echo-reply", "echo-request", "nope"):
            p.call("firewalld.block_icmp", "public", kind, **is_kept)
            p.call("firewalld.allow_icmp", "public", kind, **is_kept)
        for more in ((), ("udp",), ("tcp", "10.0.0.1")):
            p.call("firewalld.add_port_fwd", "public", 80, 443, *more, **is_kept)
            p.call("firewalld.remove_port_fwd", "public", 80, 443, *more, **is_kept)


def firewalld(p: Play) -> None:
    """Zones, services, ports and rules are asked for and changed, on disk and in force."""
    p.call("firewalld.__virtual__")
    _program(p)
    p.call("firewalld.__virtual__")
    for name in ("version", "reload_rules", "default_zone", "make_permanent"):
        p.call(f"firewalld.{name}")
    _modules_calls(p)
    for zone in ("public", "work"):
        p.call("firewalld.add_port", zone, "443/tcp", force_masquerade=True)
        p.call("firewalld.add_port_fwd", zone, 80, 443, force_masquerade=True)
    p.call("firewalld.set_default_zone", "work")
    for what in ("zone", "service"):
        for word in ("new", "delete"):
            p.call(f"firewalld.{word}_{what}", "mine")
            p.call(f"firewalld.{word}_{what}", "mine", restart=False)
    for word in ("add", "remove"):
        p.call(f"firewalld.{word}_service_port", "ssh", "2222/tcp")
        p.call(f"firewalld.{word}_service_port", "nope", "2222/tcp")
        p.call(f"firewalld.{word}_service_protocol", "ssh", "ospf")
    p.call("firewalld.get_service_ports", "ssh")
    p.call("firewalld.get_service_protocols", "ssh")
    p.answer("/usr/bin/firewall-cmd --zone=public", {"retcode": 112, "stderr": "INVALID_ZONE"})
    p.call("firewalld.add_service", "nope", "public")
    p.answer("/usr/bin/firewall-cmd --zone=public", {"retcode": 1, "stdout": "no"})
    p.call("firewalld.add_service", "nope", "public")
    p.answer("/usr/bin/firewall-cmd --new-zone", "already")
    p.call("firewalld.new_zone", "public")


def _both(p: Play, function: str, *args: Any, **kwargs: Any) -> None:
    for is_test in (True, False):
        p.let("opts", test=is_test)
        p.call(f"states/firewalld.{function}", *args, **kwargs)


_CASES: list[dict[str, Any]] = [
    {},
    {"masquerade": True},
    {"masquerade": False},
    {"default": True},
    {"default": False},
    {"block_icmp": ["echo-reply"]},
    {"block_icmp": ["echo-request", "nope"]},
    {"block_icmp": ["nope"]},
    {"block_icmp": ["echo-request"], "prune_block_icmp": True},
    {"prune_block_icmp": True},
    {"ports": ["22/tcp"]},
    {"ports": ["22/tcp", "25/tcp"], "prune_ports": True},
    {"ports": ["443/tcp", "22/tcp"], "prune_ports": True},
    {"port_fwd": ["22:2222:tcp"]},
    {"port_fwd": ["8:9:udp:10.0.0.2"], "prune_port_fwd": True},
    {"services": ["http", "ssh"], "prune_services": True},
    {"services": ["ssh"]},
    {"interfaces": ["eth0"], "prune_interfaces": True},
    {"interfaces": ["eth1"], "prune_interfaces": True},
    {"prune_interfaces": True},
    {"sources": ["10.0.0.0/8"]},
    {"sources": ["10.9.0.0/16"], "prune_sources": True},
    {"rich_rules": ["rule service name=ssh accept"]},
    {"rich_rules": ["rule service name='ssh' accept", 'rule protocol value="icmp" accept']},
    {"rich_rules": ["rule service name=http accept"]},
    {"rich_rules": [" rule family=ipv6  drop"], "prune_rich_rules": False},
    {
        "masquerade": True,
        "ports": ["22/tcp", "80/tcp", "25/tcp"],
        "prune_ports": True,
        "default": True,
        "services": ["ssh", "dhcpv6-client"],
    },
]
"""Never more than one new value where stock goes through a set, whose order is chance."""


def firewalld_states(p: Play) -> None:
    """Zones and services are forecast, set, left alone and refused."""
    p.call("states/firewalld.__virtual__")
    _program(p)
    p.call("states/firewalld.__virtual__")
    for case in _CASES:
        is_one = not any(len(value) > 1 for value in case.values() if isinstance(value, list))
        if is_one and ("port_fwd" in case or "rich_rules" in case):
            _both(p, "present", "work", **case)
        if is_one and not any(key.startswith("prune") for key in case):
            p.let("opts", test=False)
            p.call("states/firewalld.present", "home", **case)
        if case.get("rich_rules") == ["rule service name=http accept"]:
            continue  # it adds one to two, and stock shows the three in any order
        if case.get("rich_rules", [""])[0].startswith(" rule"):
            continue
        if case in ({"block_icmp": ["echo-request", "nope"]}, {"prune_block_icmp": True}):
            continue
        _both(p, "present", "public", **case)
    for ports in (None, [], ["22/tcp"], ["2222/tcp"]):
        for protocols in (None, ["ospf"], ["icmp"]):
            # Under test stock brings into force what is on disk.
            p.call("states/firewalld.service", "ssh", ports=ports, protocols=protocols)
    _both(p, "service", "ssh", ports=["22/tcp"], protocols=["ospf"])
    p.call("states/firewalld.service", "mine", ports=["1/tcp"])
    refusal = {"retcode": 1, "stderr": "Error: refused"}
    for words, kwargs in (
        ("--zone=public --add-port", {"ports": ["1/tcp"]}),
        ("--zone=public --add-service", {"services": ["http"], "masquerade": True}),
        ("--zone=public --list-all", {}),
        ("--get-default-zone", {"default": True}),
        ("--get-zones", {}),
    ):
        p.answer(f"/usr/bin/firewall-cmd {words}", refusal)
        p.call("states/firewalld.present", "public", **kwargs)
    p.answer("/usr/bin/firewall-cmd --permanent --service=ssh --add-port", refusal)
    p.call("states/firewalld.service", "ssh", ports=["2222/tcp"])
    p.answer("/usr/bin/firewall-cmd --permanent --service=ssh --get-ports", refusal)
    p.call("states/firewalld.service", "ssh", ports=["2222/tcp"])
