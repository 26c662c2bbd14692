"""
Firewalls by firewalld.

What C{permanent} is asked of is the configuration on disk, which a reload brings into force;
otherwise it is the firewall that runs. A C{zone} of C{None} is the default one.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]

_FORWARD = ("Source port", "Protocol", "Destination port", "Destination address")


def __virtual__() -> Any:
    if systools.which("firewall-cmd"):
        return True
    why = "the firewall-cmd binary is not in the path."
    return False, f"The firewalld execution module cannot be loaded: {why}"


def _ask(*words: str, zone: Any = None, permanent: bool = False) -> str:
    """
    What firewall-cmd says.

    @param words: its options; each is one word, whatever is in it.
    @raise CommandExecutionError: with what it says, if it fails.
    """
    chosen = [f"--zone={zone}"] if zone else []
    kept = ["--permanent"] if permanent else []
    cmd = [str(systools.which("firewall-cmd")), *chosen, *words, *kept]
    done = __salt__["cmd.run_all"](cmd, python_shell=False)
    if done["retcode"]:
        raise CommandExecutionError(f"firewall-cmd failed: {done['stderr'] or done['stdout']}")
    return str(done["stdout"])


def _zones(text: str) -> dict[str, dict[str, list[str]]]:
    """What zones are said to have: a line with a name, and then lines C{what: value}."""
    found: dict[str, dict[str, list[str]]] = {}
    zone: dict[str, list[str]] = {}
    what = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        if line[0].isascii() and line[0].isalnum():
            zone = found.setdefault(line.rstrip(), {})
        elif line.startswith("\t"):
            # A further value, such as a rule, of the line that came before.
            zone.setdefault(what, []).append(line.strip())
        else:
            what, _, value = line.partition(":")
            what = what.strip()
            zone[what] = [value.strip()]
    return {name: facts for name, facts in found.items() if facts}


def _made(word: str, name: str, restart: bool) -> str:
    """Make or delete something that firewalld has by name."""
    said = _ask(f"--{word}={name}", permanent=True)
    return reload_rules() if restart and said == "success" else said


def _forward(src: Any, dest: Any, proto: Any, dstaddr: Any) -> str:
    """A forwarded port, in firewalld's words."""
    return f"port={src}:proto={proto}:toport={dest}:toaddr={dstaddr}"


def version() -> str:
    """
    The version of firewalld.

    CLI Example::

        salt '*' firewalld.version
    """
    return _ask("--version")


def reload_rules() -> str:
    """
    What is on disk comes into force; what only runs is lost.

    CLI Example::

        salt '*' firewalld.reload_rules
    """
    return _ask("--reload")


def default_zone() -> str:
    """
    The zone of what no other zone is for.

    CLI Example::

        salt '*' firewalld.default_zone
    """
    return _ask("--get-default-zone")


def list_zones(permanent: bool = True) -> dict[str, dict[str, list[str]]]:
    """
    Everything of every zone.

    CLI Example::

        salt '*' firewalld.list_zones
    """
    return _zones(_ask("--list-all-zones", permanent=permanent))


def get_zones(permanent: bool = True) -> list[str]:
    """
    The names of the zones.

    CLI Example::

        salt '*' firewalld.get_zones
    """
    return _ask("--get-zones", permanent=permanent).split()


def get_services(permanent: bool = True) -> list[str]:
    """
    The names of the services that firewalld knows.

    CLI Example::

        salt '*' firewalld.get_services
    """
    return _ask("--get-services", permanent=permanent).split()


def get_icmp_types(permanent: bool = True) -> list[str]:
    """
    The types of ICMP that firewalld knows.

    CLI Example::

        salt '*' firewalld.get_icmp_types
    """
    return _ask("--get-icmptypes", permanent=permanent).split()


def new_zone(zone: str, restart: bool = True) -> str:
    """
    Make a zone.

    restart
        Reload what is on disk, so that it counts at once.

    CLI Example::

        salt '*' firewalld.new_zone my_zone
    """
    return _made("new-zone", zone, restart)


def delete_zone(zone: str, restart: bool = True) -> str:
    """
    Delete a zone.

    restart
        Reload what is on disk, so that it counts at once.

    CLI Example::

        salt '*' firewalld.delete_zone my_zone
    """
    return _made("delete-zone", zone, restart)


def new_service(name: str, restart: bool = True) -> str:
    """
    Make a service.

    restart
        Reload what is on disk, so that it counts at once.

    CLI Example::

        salt '*' firewalld.new_service my_service
    """
    return _made("new-service", name, restart)


def delete_service(name: str, restart: bool = True) -> str:
    """
    Delete a service.

    restart
        Reload what is on disk, so that it counts at once.

    CLI Example::

        salt '*' firewalld.delete_service my_service
    """
    return _made("delete-service", name, restart)


def set_default_zone(zone: str) -> str:
    """
    Choose the zone of what no other zone is for.

    CLI Example::

        salt '*' firewalld.set_default_zone internal
    """
    return _ask(f"--set-default-zone={zone}")


def list_all(zone: str | None = None, permanent: bool = True) -> dict[str, dict[str, list[str]]]:
    """
    Everything of a zone.

    CLI Example::

        salt '*' firewalld.list_all my_zone
    """
    return _zones(_ask("--list-all", zone=zone, permanent=permanent))


def list_services(zone: str | None = None, permanent: bool = True) -> list[str]:
    """
    The services that a zone lets in.

    CLI Example::

        salt '*' firewalld.list_services my_zone
    """
    return _ask("--list-services", zone=zone, permanent=permanent).split()


def add_service(service: str, zone: str | None = None, permanent: bool = True) -> str:
    """
    Let a service in.

    CLI Example::

        salt '*' firewalld.add_service ssh my_zone
    """
    return _ask(f"--add-service={service}", zone=zone, permanent=permanent)


def remove_service(service: str, zone: str | None = None, permanent: bool = True) -> str:
    """
    Let a service in no longer.

    CLI Example::

        salt '*' firewalld.remove_service ssh my_zone
    """
    return _ask(f"--remove-service={service}", zone=zone, permanent=permanent)


def add_service_port(service: str, port: str) -> str:
    """
    Add a port, such as C{22/tcp}, to a service.

    An unknown service is an error.

    CLI Example::

        salt '*' firewalld.add_service_port zabbix 10050/tcp
    """
    if service not in get_services(permanent=True):
        raise CommandExecutionError("The service does not exist.")
    return _ask("--permanent", f"--service={service}", f"--add-port={port}")


def remove_service_port(service: str, port: str) -> str:
    """
    Take a port from a service.

    An unknown service is an error.

    CLI Example::

        salt '*' firewalld.remove_service_port zabbix 10050/tcp
    """
    if service not in get_services(permanent=True):
        raise CommandExecutionError("The service does not exist.")
    return _ask("--permanent", f"--service={service}", f"--remove-port={port}")


def get_service_ports(service: str) -> list[str]:
    """
    The ports of a service.

    CLI Example::

        salt '*' firewalld.get_service_ports zabbix
    """
    return _ask("--permanent", f"--service={service}", "--get-ports").split()


def add_service_protocol(service: str, protocol: str) -> str:
    """
    Add a protocol, such as C{ospf}, to a service.

    CLI Example::

        salt '*' firewalld.add_service_protocol zabbix ospf
    """
    return _ask("--permanent", f"--service={service}", f"--add-protocol={protocol}")


def remove_service_protocol(service: str, protocol: str) -> str:
    """
    Take a protocol from a service.

    CLI Example::

        salt '*' firewalld.remove_service_protocol zabbix ospf
    """
    return _ask("--permanent", f"--service={service}", f"--remove-protocol={protocol}")


def get_service_protocols(service: str) -> list[str]:
    """
    The protocols of a service.

    CLI Example::

        salt '*' firewalld.get_service_protocols zabbix
    """
    return _ask("--permanent", f"--service={service}", "--get-protocols").split()


def get_masquerade(zone: str | None = None, permanent: bool = True) -> bool:
    """
    Whether a zone hides the addresses of what it forwards.

    CLI Example::

        salt '*' firewalld.get_masquerade my_zone
    """
    zones = list_all(zone, permanent)
    return all(facts["masquerade"][0] != "no" for facts in zones.values())


def add_masquerade(zone: str | None = None, permanent: bool = True) -> str:
    """
    Hide the addresses of what a zone forwards.

    CLI Example::

        salt '*' firewalld.add_masquerade my_zone
    """
    return _ask("--add-masquerade", zone=zone, permanent=permanent)


def remove_masquerade(zone: str | None = None, permanent: bool = True) -> str:
    """
    Hide the addresses of what a zone forwards no longer.

    CLI Example::

        salt '*' firewalld.remove_masquerade my_zone
    """
    return _ask("--remove-masquerade", zone=zone, permanent=permanent)


def add_port(zone: str, port: str, permanent: bool = True, force_masquerade: bool = False) -> str:
    """
    Let a port, such as C{443/tcp}, in.

    force_masquerade
        Hide addresses in this zone, too.

    CLI Example::

        salt '*' firewalld.add_port internal 443/tcp
    """
    if force_masquerade and not get_masquerade(zone):
        add_masquerade(zone)
    return _ask(f"--add-port={port}", zone=zone, permanent=permanent)


def remove_port(zone: str, port: str, permanent: bool = True) -> str:
    """
    Let a port in no longer.

    CLI Example::

        salt '*' firewalld.remove_port internal 443/tcp
    """
    return _ask(f"--remove-port={port}", zone=zone, permanent=permanent)


def list_ports(zone: str, permanent: bool = True) -> list[str]:
    """
    The ports that a zone lets in.

    CLI Example::

        salt '*' firewalld.list_ports internal
    """
    return _ask("--list-ports", zone=zone, permanent=permanent).split()


def add_port_fwd(
    zone: str,
    src: Any,
    dest: Any,
    proto: str = "tcp",
    dstaddr: str = "",
    permanent: bool = True,
    force_masquerade: bool = False,
) -> str:
    """
    Forward a port to another one.

    src
        The port.
    dest
        The port that it leads to.
    proto
        The protocol.
    dstaddr
        The address that it leads to, if it is another machine.
    force_masquerade
        Hide addresses in this zone, too.

    CLI Example::

        salt '*' firewalld.add_port_fwd public 80 443 tcp
    """
    if force_masquerade and not get_masquerade(zone):
        add_masquerade(zone)
    forward = _forward(src, dest, proto, dstaddr)
    return _ask(f"--add-forward-port={forward}", zone=zone, permanent=permanent)


def remove_port_fwd(
    zone: str,
    src: Any,
    dest: Any,
    proto: str = "tcp",
    dstaddr: str = "",
    permanent: bool = True,
) -> str:
    """
    Forward a port no longer; the arguments are those of C{add_port_fwd}.

    CLI Example::

        salt '*' firewalld.remove_port_fwd public 80 443 tcp
    """
    forward = _forward(src, dest, proto, dstaddr)
    return _ask(f"--remove-forward-port={forward}", zone=zone, permanent=permanent)


def list_port_fwd(zone: str, permanent: bool = True) -> list[dict[str, str]]:
    """
    The ports that a zone forwards, and where they lead.

    CLI Example::

        salt '*' firewalld.list_port_fwd public
    """
    found = []
    for line in _ask("--list-forward-ports", zone=zone, permanent=permanent).splitlines():
        # An address may have colons of its own.
        values = [part.partition("=")[2] for part in line.split(":", 3)]
        found.append(dict(zip(_FORWARD, values, strict=True)))
    return found


def block_icmp(zone: str, icmp: str, permanent: bool = True) -> Any:
    """
    Refuse a type of ICMP. An unknown one is false, and is logged.

    CLI Example::

        salt '*' firewalld.block_icmp zone echo-reply
    """
    if icmp not in get_icmp_types(permanent):
        log.error("Invalid ICMP type")
        return False
    if icmp in list_icmp_block(zone, permanent):
        log.info("ICMP block already exists")
        return "success"
    return _ask(f"--add-icmp-block={icmp}", zone=zone, permanent=permanent)


def allow_icmp(zone: str, icmp: str, permanent: bool = True) -> Any:
    """
    Refuse a type of ICMP no longer. An unknown one is false, and is logged.

    CLI Example::

        salt '*' firewalld.allow_icmp zone echo-reply
    """
    if icmp not in get_icmp_types(permanent):
        log.error("Invalid ICMP type")
        return False
    if icmp not in list_icmp_block(zone, permanent):
        log.info("ICMP Type is already permitted")
        return "success"
    return _ask(f"--remove-icmp-block={icmp}", zone=zone, permanent=permanent)


def list_icmp_block(zone: str, permanent: bool = True) -> list[str]:
    """
    The types of ICMP that a zone refuses.

    CLI Example::

        salt '*' firewalld.list_icmp_block zone
    """
    return _ask("--list-icmp-blocks", zone=zone, permanent=permanent).split()


def make_permanent() -> str:
    """
    What runs is written to disk.

    CLI Example::

        salt '*' firewalld.make_permanent
    """
    return _ask("--runtime-to-permanent")


def get_interfaces(zone: str, permanent: bool = True) -> list[str]:
    """
    The interfaces that a zone is for.

    CLI Example::

        salt '*' firewalld.get_interfaces zone
    """
    return _ask("--list-interfaces", zone=zone, permanent=permanent).split()


def add_interface(zone: str, interface: str, permanent: bool = True) -> str:
    """
    A zone is for this interface.

    CLI Example::

        salt '*' firewalld.add_interface zone eth0
    """
    if interface in get_interfaces(zone, permanent):
        log.info("Interface is already bound to zone.")
    return _ask(f"--add-interface={interface}", zone=zone, permanent=permanent)


def remove_interface(zone: str, interface: str, permanent: bool = True) -> str:
    """
    A zone is for this interface no longer.

    CLI Example::

        salt '*' firewalld.remove_interface zone eth0
    """
    if interface not in get_interfaces(zone, permanent):
        log.info("Interface is not bound to zone.")
    return _ask(f"--remove-interface={interface}", zone=zone, permanent=permanent)


def get_sources(zone: str, permanent: bool = True) -> list[str]:
    """
    The sources that a zone is for.

    CLI Example::

        salt '*' firewalld.get_sources zone
    """
    return _ask("--list-sources", zone=zone, permanent=permanent).split()


def add_source(zone: str, source: str, permanent: bool = True) -> str:
    """
    A zone is for this source.

    CLI Example::

        salt '*' firewalld.add_source zone 192.168.1.0/24
    """
    if source in get_sources(zone, permanent):
        log.info("Source is already bound to zone.")
    return _ask(f"--add-source={source}", zone=zone, permanent=permanent)


def remove_source(zone: str, source: str, permanent: bool = True) -> str:
    """
    A zone is for this source no longer.

    CLI Example::

        salt '*' firewalld.remove_source zone 192.168.1.0/24
    """
    if source not in get_sources(zone, permanent):
        log.info("Source is not bound to zone.")
    return _ask(f"--remove-source={source}", zone=zone, permanent=permanent)


def get_rich_rules(zone: str, permanent: bool = True) -> list[str]:
    """
    The rules of a zone in the rich language.

    CLI Example::

        salt '*' firewalld.get_rich_rules zone
    """
    return _ask("--list-rich-rules", zone=zone, permanent=permanent).splitlines()


def add_rich_rule(zone: str, rule: str, permanent: bool = True) -> str:
    """
    Add a rule in the rich language.

    CLI Example::

        salt '*' firewalld.add_rich_rule zone 'rule service name="ssh" accept'
    """
    return _ask(f"--add-rich-rule={rule}", zone=zone, permanent=permanent)


def remove_rich_rule(zone: str, rule: str, permanent: bool = True) -> str:
    """
    Remove a rule in the rich language.

    CLI Example::

        salt '*' firewalld.remove_rich_rule zone 'rule service name="ssh" accept'
    """
    return _ask(f"--remove-rich-rule={rule}", zone=zone, permanent=permanent)
