"""
Services of a Linux that none of the other modules knows (virtual module C{service}).

The scripts of C{/etc/init.d} are run, and C{ps} says what runs.
"""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Any

from saltwisted.modules import _systemd

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "service"
__func_alias__ = {"reload_": "reload"}

_OTHERS = frozenset(
    (
        "RedHat",
        "CentOS",
        "Amazon",
        "ScientificLinux",
        "CloudLinux",
        "Fedora",
        "Gentoo",
        "Ubuntu",
        "Debian",
        "Devuan",
        "ALT",
        "OEL",
        "Linaro",
        "elementary OS",
        "McAfee  OS Server",
        "Raspbian",
        "SUSE",
        "Slackware",
    )
)
"""Systems that have a module of their own."""


def __virtual__() -> Any:
    if __grains__.get("os") in _OTHERS:
        return (False, "Your OS is on the disabled list")
    if __grains__["kernel"] != "Linux":
        return (False, "Non Linux OSes are not supported")
    init = __grains__.get("init")
    if init not in (None, "sysvinit", "unknown"):
        return (False, f"Minion is running {init}")
    if _systemd.booted(__context__):
        return (False, "Minion is running systemd")
    return __virtualname__


def _folder() -> str:
    return "/etc/rc.d" if __grains__.get("os") in ("Arch", "Arch ARM") else "/etc/init.d"


def run(name: str, action: str) -> bool:
    """
    Run the script of a service with any action.

    CLI Example::

        salt '*' service.run apache2 reload
    """
    command = [os.path.join(_folder(), name), action]
    return not __salt__["cmd.retcode"](command, python_shell=False)


def start(name: str) -> bool:
    """
    Start a service.

    CLI Example::

        salt '*' service.start <service name>
    """
    return run(name, "start")


def stop(name: str) -> bool:
    """
    Stop a service.

    CLI Example::

        salt '*' service.stop <service name>
    """
    return run(name, "stop")


def restart(name: str) -> bool:
    """
    Restart a service.

    CLI Example::

        salt '*' service.restart <service name>
    """
    return run(name, "restart")


def reload_(name: str) -> bool:
    """
    Let a service read its configuration again.

    CLI Example::

        salt '*' service.reload <service name>
    """
    return run(name, "reload")


def status(name: str, sig: Any = None) -> Any:
    """
    The process ids of a service, by its name in C{ps}; with wildcards a map.

    CLI Example::

        salt '*' service.status <service name>
    """
    if sig:
        return __salt__["status.pid"](sig)
    many = bool(re.search(r"\*|\?|\[.+\]", name))
    names = fnmatch.filter(get_all(), name) if many else [name]
    results = {item: __salt__["status.pid"](item) for item in names}
    return results if many else results[name]


def available(name: str) -> bool:
    """
    Whether there is such a script.

    CLI Example::

        salt '*' service.available sshd
    """
    return name in get_all()


def missing(name: str) -> bool:
    """
    Whether there is no such script.

    CLI Example::

        salt '*' service.missing sshd
    """
    return name not in get_all()


def get_all() -> list[str]:
    """
    All scripts.

    CLI Example::

        salt '*' service.get_all
    """
    folder = _folder()
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
