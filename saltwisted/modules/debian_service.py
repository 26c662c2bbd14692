"""
Services of a Debian that was not started by systemd (virtual module C{service}).

Scripts in C{/etc/init.d}, run by C{service}, enabled by C{update-rc.d}. Containers and chroots
are the usual place.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import shlex
from typing import Any

from saltwisted.modules import _systemd

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "service"
__func_alias__ = {"reload_": "reload"}

_SCRIPTS = "/etc/init.d"
_RUNLEVELS = "/etc"


def __virtual__() -> Any:
    known = ("Debian", "Raspbian", "Devuan", "NILinuxRT")
    if __grains__["os"] in known and not _systemd.booted(__context__):
        return __virtualname__
    return (
        False,
        "The debian_service module could not be loaded: unsupported OS family and/or systemd"
        " running.",
    )


def _service(name: str, action: str, **kwargs: Any) -> bool:
    """Run the script; true if it ended with 0."""
    return not __salt__["cmd.retcode"](["service", name, action], python_shell=False, **kwargs)


def _runlevel() -> str:
    output = __salt__["cmd.run"]("runlevel")
    return "2" if "unknown" in output else str(output.split()[1])


def get_enabled() -> list[str]:
    """
    Services that are started in the present run level.

    CLI Example::

        salt '*' service.get_enabled
    """
    links = glob.glob(os.path.join(_RUNLEVELS, f"rc[S{_runlevel()}].d", "S*"))
    return sorted({re.split(r"\d+", os.path.basename(link))[-1] for link in links})


def get_disabled() -> list[str]:
    """
    Services that are not started in the present run level.

    CLI Example::

        salt '*' service.get_disabled
    """
    return sorted(set(get_all()) - set(get_enabled()))


def available(name: str) -> bool:
    """
    Whether there is such a service.

    CLI Example::

        salt '*' service.available sshd
    """
    return name in get_all()


def missing(name: str) -> bool:
    """
    Whether there is no such service.

    CLI Example::

        salt '*' service.missing sshd
    """
    return name not in get_all()


def get_all() -> list[str]:
    """
    All services.

    CLI Example::

        salt '*' service.get_all
    """
    scripts = {os.path.basename(path) for path in glob.glob(os.path.join(_SCRIPTS, "*"))}
    return sorted((scripts - {"README"}) | set(get_enabled()))


def start(name: str) -> bool:
    """
    Start a service.

    CLI Example::

        salt '*' service.start <service name>
    """
    return _service(name, "start")


def stop(name: str) -> bool:
    """
    Stop a service.

    CLI Example::

        salt '*' service.stop <service name>
    """
    return _service(name, "stop")


def restart(name: str) -> bool:
    """
    Restart a service.

    CLI Example::

        salt '*' service.restart <service name>
    """
    return _service(name, "restart")


def reload_(name: str) -> bool:
    """
    Let a service read its configuration again.

    CLI Example::

        salt '*' service.reload <service name>
    """
    return _service(name, "reload")


def force_reload(name: str) -> bool:
    """
    Reload a service, or restart it if it cannot reload.

    CLI Example::

        salt '*' service.force_reload <service name>
    """
    return _service(name, "force-reload")


def status(name: str, sig: Any = None) -> Any:
    """
    Whether a service runs; with wildcards a map of all that match.

    @param sig: look for this expression in C{ps} instead.

    CLI Example::

        salt '*' service.status <service name>
    """
    if sig:
        return bool(__salt__["status.pid"](sig))
    many = bool(re.search(r"\*|\?|\[.+\]", name))
    names = fnmatch.filter(get_all(), name) if many else [name]
    results = {item: _service(item, "status", ignore_retcode=True) for item in names}
    return results if many else results[name]


def enable(name: str, **kwargs: Any) -> bool:
    """
    Start a service at boot.

    CLI Example::

        salt '*' service.enable <service name>
    """
    quoted = shlex.quote(name)
    command = f"insserv {quoted} && update-rc.d {quoted} enable"
    return not __salt__["cmd.retcode"](command, python_shell=True)


def disable(name: str, **kwargs: Any) -> bool:
    """
    Do not start a service at boot.

    CLI Example::

        salt '*' service.disable <service name>
    """
    return not __salt__["cmd.retcode"](["update-rc.d", name, "disable"], python_shell=False)


def enabled(name: str, **kwargs: Any) -> bool:
    """
    Whether a service is started at boot.

    CLI Example::

        salt '*' service.enabled <service name>
    """
    return name in get_enabled()


def disabled(name: str) -> bool:
    """
    Whether a service is not started at boot.

    CLI Example::

        salt '*' service.disabled <service name>
    """
    return name in get_disabled()
