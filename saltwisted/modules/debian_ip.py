"""
The network of Debian: C{/etc/network}, as the states of C{network} want it.

What cannot be is an C{AttributeError}, as in Salt: the states show its text.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

from saltwisted.modules import _debian_ip_rules as rules
from saltwisted.modules import _debian_ip_text as texts
from saltwisted.modules import _files
from saltwisted.worker import systools

log = logging.getLogger(__name__)

__virtualname__ = "ip"
__salt__: Any
__grains__: Any

_ROOT = "/"
_PAUSE = 2


def __virtual__() -> str | tuple[bool, str]:
    if __grains__.get("os_family") != "Debian":
        return (False, "The debian_ip module could not be loaded: unsupported OS family")
    if systools.which("netplan") and os.path.isdir(_place("etc/netplan")):
        return (
            False,
            "The debian_ip module is not loaded: netplan rules the network, and does not read"
            " /etc/network/interfaces; manage the files in /etc/netplan",
        )
    return __virtualname__


def _place(path: str) -> str:
    return os.path.join(_ROOT, path)


def _read(path: str) -> str:
    """The content of a file; C{""} if there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str, mode: int | None = None) -> str:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise AttributeError(f"{path} cannot be written. {folder} does not exist")
    if mode is None and not os.path.exists(path):
        mode = 0o644
    _files.write_atomically(path, text.encode("utf-8", "surrogateescape"), mode)
    return text


def _adapters() -> texts.Adapters:
    """The interfaces of all files."""
    folder = _place("etc/network/interfaces.d")
    paths = [_place("etc/network/interfaces")]
    if os.path.isdir(folder):
        paths += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return texts.read_interfaces((path, _read(path)) for path in paths if os.path.isfile(path))


def _shown(text: str) -> list[str]:
    """A definition, as states compare it."""
    return [f"{line}\n" for line in text.split("\n")]


def _has_carrier() -> bool:
    release = __grains__.get("osrelease_info") or (0,)
    return not (__grains__.get("os") == "Ubuntu" and release[0] >= 16)


def build_bond(iface: str, **settings: Any) -> list[str]:
    """
    Write the options of a bond for the kernel.

    CLI Example::

        salt '*' ip.build_bond bond0 mode=balance-alb
    """
    opts = rules.bonding(settings, iface, has_carrier=_has_carrier())
    words = "".join(f"{name}={value} " for name, value in opts.items())
    text = f"alias {iface} bonding\noptions {iface} {words}"
    if not settings.get("test"):
        _write(_place(f"etc/modprobe.d/{iface}.conf"), text)
        __salt__["kmod.load"]("bonding")
        __salt__["pkg.install"]("ifenslave")
    return text.splitlines(keepends=True)


def _prepare(iface: str, kind: str, settings: dict[str, Any]) -> None:
    """Look for what an interface of this kind needs, and install its programs."""
    if kind == "slave" and "master" not in settings:
        raise AttributeError("master is a required setting for slave interfaces")
    if kind == "bond" and "slaves" not in settings:
        raise AttributeError("slaves is a required setting for bond interfaces")
    if kind == "bridge" and "ports" not in settings:
        raise AttributeError(
            "ports is a required setting for bridge interfaces on Debian or Ubuntu based systems"
        )
    package = {"vlan": "vlan", "bridge": "bridge-utils", "pppoe": "ppp"}.get(kind)
    has = kind == "pppoe" and package and __salt__["pkg.version"](package)
    if package and not has and not settings.get("test"):
        __salt__["pkg.install"](package)


def build_interface(iface: str, iface_type: str, enabled: Any, **settings: Any) -> list[str]:
    """
    Write the definition of an interface, and answer with it.

    iface_type
        C{eth}, C{bond}, C{bridge}, C{slave}, C{vlan}, C{pppoe} or C{source}.
    filename
        A file of its own, below C{/etc/network/interfaces.d}.

    CLI Example::

        salt '*' ip.build_interface eth0 eth True proto=dhcp
    """
    kind = iface_type.lower()
    if kind not in rules.TYPES:
        rules.wrong(iface, kind, rules.TYPES)
    _prepare(iface, kind, settings)
    if kind == "source":
        adapter: dict[str, Any] = {"type": kind, "data": {"sources": [settings["source"]]}}
    else:
        given = {key: value for key, value in settings.items() if key != "filename"}
        adapter = texts.settings(given, kind, iface, on=bool(enabled), carrier=_has_carrier())
    text = texts.write_interface(iface, adapter)
    if settings.get("test"):
        return _shown(text)
    if "filename" in settings:
        _write(os.path.join(_place("etc/network/interfaces.d"), settings["filename"]), text)
    else:
        adapters = {**_adapters(), iface: adapter}
        whole = "".join(texts.write_interface(name, one) for name, one in adapters.items())
        _write(_place("etc/network/interfaces"), whole)
    if kind == "pppoe":
        lines = adapter["data"]["inet"]
        path = os.path.join(_place("etc/ppp/peers"), lines["provider"])
        _write(path, texts.provider(lines), 0o600)
    return _shown(text)


def build_routes(iface: str, **settings: Any) -> list[str]:
    """
    Write the scripts that set the routes of an interface.

    CLI Example::

        salt '*' ip.build_routes eth0 routes='[{"ipaddr": "10.1.0.0", "netmask": 16}]'
    """
    given = {key.lower(): value for key, value in settings.items()}
    if "routes" not in given:
        raise AttributeError(
            f"Invalid option -- Route interface: {iface}, Option: routes, "
            "Expected: [List of routes]"
        )
    made = {kind: texts.routes(iface, kind, given["routes"]) for kind in ("add", "del")}
    if not settings.get("test"):
        for kind, text in made.items():
            _write(_route(iface, kind), text)
            __salt__["file.set_mode"](_route(iface, kind), "0755")
    return [line for text in made.values() for line in text.splitlines(keepends=True)]


def _route(iface: str, kind: str) -> str:
    """Where the script is that adds or deletes routes."""
    folder = {"add": "if-up.d", "del": "if-down.d"}[kind]
    return _place(f"etc/network/{folder}/route-{iface.replace('.', '_')}")


def get_routes(iface: str) -> list[str] | str:
    """
    The scripts that set the routes of an interface.

    CLI Example::

        salt '*' ip.get_routes eth0
    """
    found = [_read(_route(iface, kind)) for kind in ("add", "del")]
    return [line for text in found for line in text.splitlines(keepends=True)] or ""


def down(iface: str, iface_type: str) -> Any:
    """
    Take an interface down.

    CLI Example::

        salt '*' ip.down eth0 eth
    """
    if iface_type in ("slave", "source"):
        return None
    return __salt__["cmd.run"](["ifdown", iface])


def up(iface: str, iface_type: str) -> Any:
    """
    Bring an interface up.

    CLI Example::

        salt '*' ip.up eth0 eth
    """
    if iface_type in ("slave", "source"):
        return None
    return __salt__["cmd.run"](["ifup", iface])


def get_bond(iface: str) -> list[str] | str:
    """
    The options of a bond for the kernel.

    CLI Example::

        salt '*' ip.get_bond bond0
    """
    return _read(_place(f"etc/modprobe.d/{iface}.conf")).splitlines(keepends=True) or ""


def get_interface(iface: str) -> list[str]:
    """
    The definition of an interface.

    CLI Example::

        salt '*' ip.get_interface eth0
    """
    adapters = _adapters()
    if iface not in adapters:
        return []
    kind = {"type": "source"} if iface == "source" else {}
    return _shown(texts.write_interface(iface, {**kind, **adapters[iface]}))


def _is_upstart() -> bool:
    """Whether C{/etc/default/networking} means nothing here."""
    if __grains__.get("osfullname") != "Ubuntu":
        return False
    return int(str(__grains__["osrelease"]).split(".")[0]) >= 12


def _current() -> dict[str, str]:
    """What is set now."""
    found = {"networking": ""}
    for line in _read(_place("etc/default/networking")).splitlines():
        if line.startswith("CONFIGURE_INTERFACES"):
            found["networking"] = line.partition("=")[2].strip()
    resolver = texts.resolver(_read(_place("etc/resolv.conf")))
    hostname = _read(_place("etc/hostname")).split("\n")[0]
    names = {"domainname": resolver.get("domain", ""), "searchdomain": resolver.get("search", "")}
    return {**found, "hostname": hostname, **names}


def get_network_settings() -> list[str]:
    """
    The settings of the whole network.

    CLI Example::

        salt '*' ip.get_network_settings
    """
    found = _current()
    if _is_upstart():
        is_on = __salt__["service.available"]("networking") and __salt__["service.status"](
            "networking"
        )
        found.update(networking="yes" if is_on else "no", searchdomain="")
    return texts.shown(found)


def apply_network_settings(**settings: Any) -> bool:
    """
    Start the network anew, unless C{require_reboot} is set.

    CLI Example::

        salt '*' ip.apply_network_settings
    """
    named = True
    if settings.get("apply_hostname", False) in rules.YES:
        if "hostname" in settings:
            named = __salt__["network.mod_hostname"](settings["hostname"])
        else:
            log.warning("Changes of the hostname are to be applied, but none is defined.")
            named = False
    if settings.get("require_reboot", False) in rules.YES:
        log.warning("The system has to be rebooted for the network to be as it is configured.")
        return bool(named)
    stopped = __salt__["service.stop"]("networking")
    time.sleep(_PAUSE)
    started = stopped and __salt__["service.start"]("networking")
    return bool(named and started)


def _wanted(settings: dict[str, Any], now: dict[str, str]) -> dict[str, Any]:
    given = {key.lower(): value for key, value in settings.items()}
    switch = given.get("enabled", now["networking"])
    known = rules.YES + rules.NO
    if switch not in known:
        words = "|".join(str(word) for word in known)
        raise AttributeError(f"Invalid network setting -- Setting: networking, Expected: [{words}]")
    hostname = given.get("hostname", now["hostname"])
    if not hostname:
        raise AttributeError(
            "Invalid network setting -- Setting: hostname, Expected: [server1.example.com]"
        )
    found = {"networking": "yes" if switch in rules.YES else "no", "hostname": hostname}
    return {**found, "search": given["search"]} if "search" in given else found


def build_network_settings(**settings: Any) -> list[str]:
    """
    Write the settings of the whole network.

    CLI Example::

        salt '*' ip.build_network_settings enabled=yes hostname=server1.example.com
    """
    now = _current()
    wanted = _wanted(settings, now)
    is_test = bool(settings.get("test"))
    if not _is_upstart():
        text = texts.networking(wanted["networking"])
        if is_test:
            return text.splitlines(keepends=True)
        _write(_place("etc/default/networking"), text)
    elif not is_test:
        for service in ("NetworkManager", "networking"):
            if __salt__["service.available"](service):
                if wanted["networking"] == "yes":
                    __salt__["service.enable"](service)
                else:
                    __salt__["service.disable"](service)
    wanted["hostname"], _, domain = wanted["hostname"].partition(".")
    wanted["domainname"] = domain or now["domainname"]
    wanted["searchdomain"] = wanted.get("search", now["searchdomain"])
    changed = [wanted[name] != now[name] for name in ("domainname", "searchdomain")]
    if any(changed) and not is_test:
        path = _place("etc/resolv.conf")
        if not os.path.exists(path):
            raise AttributeError(
                f"{path} cannot be written. {path} does not exist and create is setto False"
            )
        _write(path, texts.resolving(_read(path), wanted["domainname"], wanted["searchdomain"]))
    return texts.shown(wanted)
