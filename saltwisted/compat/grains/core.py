"""
C{salt.grains.core}: grains of this machine, a group of them for each function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.compat.loader.context import loader_ctxvar

_GROUPS = {
    "append_domain": ("append_domain",),
    "default_gateway": ("gateways",),
    "dns": ("dns",),
    "fqdns": ("fqdns",),
    "get_machine_id": ("machine_id",),
    "get_master": ("master",),
    "get_server_id": ("server_id",),
    "hostname": ("hostname",),
    "hwaddr_interfaces": ("hwaddr_interfaces",),
    "id_": ("id",),
    "ip4": ("addresses",),
    "ip4_interfaces": ("ip4_interfaces",),
    "ip6_interfaces": ("ip6_interfaces",),
    "ip_fqdn": ("addresses", "fqdn_ips"),
    "ip_interfaces": ("ip_interfaces",),
    "kernelparams": ("kernel_params",),
    "locale_info": ("locale_info",),
    "os_data": (
        *("kernel", "selinux", "systemd", "init", "distribution", "cpu", "osarch", "memory"),
        *("gpus", "hardware", "virtual", "ps", "release"),
    ),
    "path": ("path",),
    "pythonexecutable": ("python",),
    "pythonpath": ("python",),
    "pythonversion": ("python",),
    "saltpath": ("versions",),
    "saltversion": ("versions",),
    "saltversioninfo": ("versions",),
    "zmqversion": ("zmq",),
}
"""Salt's functions, and what of ours each gives."""
_ONE = frozenset(
    [
        "ip4",
        "pythonexecutable",
        "pythonpath",
        "pythonversion",
        "saltpath",
        "saltversion",
        "saltversioninfo",
    ]
)
"""Functions that give one grain, by their own name, of a group that has more."""


def _options() -> Any:
    loader = loader_ctxvar.get()
    return {} if loader is None else loader.opts


def __getattr__(name: str) -> Callable[[], dict[str, Any]]:
    if name not in _GROUPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def function() -> dict[str, Any]:
        from saltwisted.worker.grains.collect import Grains

        grains = Grains(_options())
        found: dict[str, Any] = {}
        for group in _GROUPS[name]:
            found.update(grains.group(group))
        wanted = {"ip4": "ipv4"}.get(name, name)
        return {wanted: found[wanted]} if name in _ONE else found

    function.__name__ = name
    return function
