"""
Firewalls by firewalld: zones and services, on disk and in force.

Forwarded ports are C{port:port:protocol} or C{port:port:protocol:address}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.domain.nestedtext import nested_text
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: Any
__opts__: Any

_FORWARD = ("Source port", "Destination port", "Protocol", "Destination address")


def __virtual__() -> Any:
    if "firewalld.version" in __salt__:
        return True
    return False, "firewall-cmd is not available, firewalld is probably not installed."


def _listed(what: str, wanted: Any) -> list[Any]:
    """What is wanted, as a list: anything else would be read letter by letter."""
    if wanted is None:
        return []
    if not isinstance(wanted, list | tuple) or not all(isinstance(each, str) for each in wanted):
        raise CommandExecutionError(f"'{what}' must be a list of strings, not {wanted!r}")
    return list(wanted)


class _Zone:
    """
    What one zone has, and what it is to have.

    @ivar is_new: under C{test=True} it is not there, so that nothing can be asked about it.
    """

    def __init__(self, name: str, is_new: bool) -> None:
        self.name = name
        self.is_new = is_new
        self.changes: dict[str, Any] = {}

    def work(
        self,
        wanted: Mapping[str, tuple[Any, bool]],
        default: bool | None,
        masquerade: bool | None,
    ) -> None:
        """
        Look at everything, in stock's order, and change it.

        @param wanted: by the arguments of C{present}: what is listed, and whether all else goes.
        @raise CommandExecutionError: firewalld refuses, or a list is none.
        """
        zones = __salt__["firewalld.get_zones"](permanent=True)
        lists = {what: (_listed(what, listed), prune) for what, (listed, prune) in wanted.items()}
        if self.name not in zones:
            if not __opts__["test"]:
                __salt__["firewalld.new_zone"](self.name)
            self.is_new = __opts__["test"]
            self.changes[self.name] = {"old": zones, "new": self.name}
        chosen = {what: both for what, both in lists.items() if any(both)}
        if "block_icmp" in chosen:
            self.icmp(*chosen.pop("block_icmp"))
        if default:
            self.default()
        self.masquerade(masquerade)
        for what, (listed, prune) in chosen.items():
            getattr(self, what)(listed, prune)

    def ask(self, function: str, nothing: Any) -> Any:
        """What the zone on disk has."""
        if self.is_new:
            return nothing
        return __salt__[f"firewalld.{function}"](self.name, permanent=True)

    def tell(self, function: str, *args: Any, **kwargs: Any) -> None:
        """Change something on disk, but not under C{test=True}."""
        if not __opts__["test"]:
            __salt__[f"firewalld.{function}"](*args, **kwargs, permanent=True)

    def set(
        self,
        what: str,
        current: list[Any],
        wanted: list[Any],
        prune: bool,
        *,
        add: Callable[[Any], Any],
        remove: Callable[[Any], Any],
        shown: Callable[[Any], Any] = str,
    ) -> None:
        """Add what lacks, and with C{prune} remove what is too much."""
        lacking = [each for each in dict.fromkeys(wanted) if each not in current]
        surplus = [each for each in current if each not in wanted] if prune else []
        if not lacking and not surplus:
            return
        for each in lacking:
            add(each)
        for each in surplus:
            remove(each)
        new = wanted if prune else [*current, *lacking]
        self.changes[what] = {
            "old": [shown(each) for each in current],
            "new": [shown(each) for each in new],
        }

    def icmp(self, wanted: list[str], prune: bool) -> None:
        current = self.ask("list_icmp_block", [])
        if wanted:
            known = __salt__["firewalld.get_icmp_types"](permanent=True)
            for odd in (each for each in wanted if each not in known):
                log.error("%s is an invalid ICMP type", odd)
            wanted = [each for each in wanted if each in known]
        self.set(
            "icmp_types",
            current,
            wanted,
            prune,
            add=lambda each: self.tell("block_icmp", self.name, each),
            remove=lambda each: self.tell("allow_icmp", self.name, each),
        )

    def default(self) -> None:
        old = __salt__["firewalld.default_zone"]()
        if old != self.name:
            if not __opts__["test"]:
                __salt__["firewalld.set_default_zone"](self.name)
            self.changes["default"] = {"old": old, "new": self.name}

    def masquerade(self, wanted: bool | None) -> None:
        current = self.ask("get_masquerade", False)
        if wanted is None or bool(wanted) == current:
            return
        self.tell("add_masquerade" if wanted else "remove_masquerade", self.name)
        did = "set" if wanted else "disabled"
        self.changes["masquerade"] = {"old": current, "new": f"Masquerading successfully {did}."}

    def ports(self, wanted: list[str], prune: bool) -> None:
        self.set(
            "ports",
            self.ask("list_ports", []),
            wanted,
            prune,
            add=lambda each: self.tell("add_port", self.name, each, force_masquerade=False),
            remove=lambda each: self.tell("remove_port", self.name, each),
        )

    def port_fwd(self, wanted: list[str], prune: bool) -> None:
        current = [tuple(map(each.get, _FORWARD)) for each in self.ask("list_port_fwd", [])]
        forwards = [_forward(text) for text in wanted]
        self.set(
            "port_fwd",
            current,
            forwards,
            prune,
            add=lambda each: self.tell("add_port_fwd", self.name, *each, force_masquerade=False),
            remove=lambda each: self.tell("remove_port_fwd", self.name, *each),
            shown=lambda each: dict(zip(_FORWARD, each, strict=True)),
        )

    def services(self, wanted: list[str], prune: bool) -> None:
        self.set(
            "services",
            self.ask("list_services", []),
            wanted,
            prune,
            add=lambda each: self.tell("add_service", each, self.name),
            remove=lambda each: self.tell("remove_service", each, self.name),
        )

    def interfaces(self, wanted: list[str], prune: bool) -> None:
        self._named("interfaces", wanted, prune)

    def sources(self, wanted: list[str], prune: bool) -> None:
        self._named("sources", wanted, prune)

    def rich_rules(self, wanted: list[str], prune: bool) -> None:
        self._named("rich_rules", [_rich(rule) for rule in wanted], prune)

    def _named(self, what: str, wanted: list[str], prune: bool) -> None:
        """What has functions of like names."""
        one = what[:-1]
        self.set(
            what,
            self.ask(f"get_{what}", []),
            wanted,
            prune,
            add=lambda each: self.tell(f"add_{one}", self.name, each),
            remove=lambda each: self.tell(f"remove_{one}", self.name, each),
        )


def _forward(text: str) -> tuple[str, str, str, str]:
    """A forwarded port; an address may have colons of its own."""
    parts = text.split(":", 3)
    if len(parts) < 3:
        form = "port:port:protocol or port:port:protocol:address"
        raise CommandExecutionError(f"'{text}' is not a forwarded port: {form}")
    source, dest, proto, address = (*parts, "")[:4]
    return source, dest, proto, address


def _rich(rule: str) -> str:
    """A rule as firewalld shows it: values in double quotes, one blank between words."""
    words = []
    for word in rule.split(" "):
        key, mark, value = word.partition("=")
        if mark and not value.startswith('"') and not value.endswith('"'):
            if value.startswith("'") and value.endswith("'"):
                value = value[1:-1]
            value = f'"{value}"'
        words.append(f"{key}{mark}{value}")
    return " ".join(words).lstrip()


def present(
    name: str,
    block_icmp: list[str] | None = None,
    prune_block_icmp: bool = False,
    default: bool | None = None,
    masquerade: bool | None = None,
    ports: list[str] | None = None,
    prune_ports: bool = False,
    port_fwd: list[str] | None = None,
    prune_port_fwd: bool = False,
    services: list[str] | None = None,
    prune_services: bool = False,
    interfaces: list[str] | None = None,
    prune_interfaces: bool = False,
    sources: list[str] | None = None,
    prune_sources: bool = False,
    rich_rules: list[str] | None = None,
    prune_rich_rules: bool = False,
) -> dict[str, Any]:
    """
    A zone is there, and has what is listed. Of what is pruned it has nothing else.

    name
        The zone.
    block_icmp
        Types of ICMP that it refuses.
    prune_block_icmp
        It refuses no others.
    default
        It is the default zone.
    masquerade
        Whether it hides the addresses of what it forwards; not looked at if it is not given.
    ports
        Ports that are let in, such as C{22/tcp}.
    prune_ports
        No others are.
    port_fwd
        Ports that are forwarded.
    prune_port_fwd
        No others are.
    services
        Services that are let in.
    prune_services
        No others are.
    interfaces
        Interfaces that the zone is for.
    prune_interfaces
        It is for no others.
    sources
        Addresses that the zone is for.
    prune_sources
        It is for no others.
    rich_rules
        Rules in the rich language.
    prune_rich_rules
        There are no others.
    """
    zone = _Zone(name, False)
    wanted = {
        "block_icmp": (block_icmp, prune_block_icmp),
        "ports": (ports, prune_ports),
        "port_fwd": (port_fwd, prune_port_fwd),
        "services": (services, prune_services),
        "interfaces": (interfaces, prune_interfaces),
        "sources": (sources, prune_sources),
        "rich_rules": (rich_rules, prune_rich_rules),
    }
    ret = _tried(name, zone.changes, lambda: zone.work(wanted, default, masquerade))
    if ret["result"] is None:
        shown = nested_text(zone.changes).rstrip()
        return {
            **ret,
            "changes": {},
            "comment": f"Configuration for '{name}' will change:\n{shown}",
        }
    return ret


def service(
    name: str, ports: list[str] | None = None, protocols: list[str] | None = None
) -> dict[str, Any]:
    """
    A service is known, and has these ports and protocols, and no others.

    name
        The service.
    ports
        Such as C{22/tcp}.
    protocols
        Such as C{ospf}.
    """
    changes: dict[str, Any] = {}

    def work() -> None:
        lists = {"ports": _listed("ports", ports), "protocols": _listed("protocols", protocols)}
        is_known = name in __salt__["firewalld.get_services"]()
        if not is_known and not __opts__["test"]:
            __salt__["firewalld.new_service"](name, restart=False)
            is_known = True
        for what, wanted in lists.items():
            current = __salt__[f"firewalld.get_service_{what}"](name) if is_known else []
            lacking = [each for each in dict.fromkeys(wanted) if each not in current]
            surplus = [each for each in current if each not in wanted]
            if not __opts__["test"]:
                for each in lacking:
                    __salt__[f"firewalld.add_service_{what[:-1]}"](name, each)
                for each in surplus:
                    __salt__[f"firewalld.remove_service_{what[:-1]}"](name, each)
            if lacking or surplus:
                changes[what] = {"old": current, "new": wanted}

    ret = _tried(name, changes, work)
    if ret["result"] is None:
        ret["comment"] = f"Configuration for '{name}' will change."
    return ret


def _tried(name: str, changes: dict[str, Any], work: Callable[[], None]) -> dict[str, Any]:
    """
    Do the work, which fills C{changes}, and bring what it changed into force.

    @return: a state's result, with C{None} and no comment under C{test=True}.
    """
    ret: dict[str, Any] = {"name": name, "result": False, "changes": changes, "comment": ""}
    try:
        work()
    except CommandExecutionError as error:
        ret["comment"] = f"Error: {error}"
    else:
        ret["result"] = True
        ret["comment"] = f"'{name}' was configured."
        if not changes:
            ret["comment"] = f"'{name}' is already in the desired state."
    if __opts__["test"]:
        # What was forecast before an error would not come to be.
        return {**ret, "result": None} if changes and ret["result"] else ret
    if changes:
        __salt__["firewalld.reload_rules"]()
    return ret
