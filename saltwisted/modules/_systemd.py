"""
Is systemd process 1 here, and how old is it.

The answers are kept in C{__context__} under the names that Salt uses, so that stock modules
beside ours share them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import MutableMapping
from typing import Any

from saltwisted.worker import systools


def booted(context: MutableMapping[str, Any]) -> bool:
    """Whether the system was started with systemd: the test of C{sd_booted(3)}."""
    key = "salt.utils.systemd.booted"
    if key not in context:
        context[key] = os.path.isdir("/run/systemd/system")
    return bool(context[key])


def offline(context: MutableMapping[str, Any]) -> Any:
    """
    Whether C{systemctl} is there without a systemd to talk to, as in a chroot.

    @return: as in Salt the path of C{systemctl}, C{None} without it, false if systemd runs.
    """
    key = "salt.utils.systemd.offline"
    if key not in context:
        context[key] = not booted(context) and systools.which("systemctl")
    return context[key]


def version(context: MutableMapping[str, Any]) -> int | None:
    """The number that C{systemctl --version} shows, or C{None}."""
    key = "salt.utils.systemd.version"
    if key not in context:
        from saltwisted.worker.grains.collect import systemd_info
        from saltwisted.worker.grains.machine import Machine

        text = systemd_info(Machine())["version"] if systools.which("systemctl") else ""
        context[key] = int(text) if text.isdigit() else None
    number = context[key]
    return None if number is None else int(number)


def has_scope(context: MutableMapping[str, Any]) -> bool:
    """
    Whether C{systemd-run --scope} works: then what a service manager starts is not one of our
    own children and survives us.
    """
    if not booted(context):
        return False
    number = version(context)
    if number is None or number < 205:
        return False
    key = "salt.utils.systemd.status"
    if key not in context:
        done = subprocess.run(["systemctl", "status"], check=False, capture_output=True)
        absent = b"Failed to get D-Bus connection: No such file or directory"
        context[key] = absent not in done.stderr
    return bool(context[key])


UNIT_TYPES = (
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
)


def under(path: str, root: str | None) -> str:
    """A path below another root, if one is given."""
    return os.path.join(root, path.lstrip("/")) if root else path


def unit_name(name: Any) -> str:
    """The name of the unit; a bare name means a service."""
    text = str(name)
    return text if text.endswith(UNIT_TYPES) else f"{text}.service"


def short_name(full: str) -> str | None:
    """A unit as the C{get_*} functions list it: services without their suffix; C{None} if none."""
    name, dot, kind = full.rpartition(".")
    if not dot or kind not in UNIT_TYPES:
        return None
    return name if kind == "service" else full


def default_runlevel() -> str:
    """The runlevel of a machine whose program C{runlevel} does not tell."""
    level = ""
    for line in systools.read_text("/etc/init/rc-sysinit.conf").splitlines():
        if line.startswith("env DEFAULT_RUNLEVEL"):
            level = line.split("=")[-1].strip()
    if not level:
        return "2"
    for line in systools.read_text("/etc/inittab").splitlines():
        if not line.startswith("#") and "initdefault" in line:
            level = line.split(":")[1]
    for word in systools.read_text("/proc/cmdline").split():
        if word in {"0", "1", "2", "3", "4", "5", "6", "s", "S", "-s", "single"}:
            return word
    return level
