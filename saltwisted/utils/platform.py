"""
What system this is, with the names of C{salt.utils.platform}.

Custom modules ask it in C{__virtual__}. We run on Linux alone, so most answers are known.
"""

from __future__ import annotations

import platform as _platform
import sys
from collections.abc import Callable


def _never(name: str) -> Callable[[], bool]:
    def asked() -> bool:
        return False

    asked.__name__ = name
    asked.__doc__ = "We do not run there."
    asked.__module__ = __name__
    return asked


is_windows = _never("is_windows")
is_darwin = _never("is_darwin")
is_sunos = _never("is_sunos")
is_smartos = _never("is_smartos")
is_smartos_globalzone = _never("is_smartos_globalzone")
is_smartos_zone = _never("is_smartos_zone")
is_junos = _never("is_junos")
is_freebsd = _never("is_freebsd")
is_netbsd = _never("is_netbsd")
is_openbsd = _never("is_openbsd")
is_aix = _never("is_aix")
is_proxy = _never("is_proxy")
spawning_platform = _never("spawning_platform")


def is_linux() -> bool:
    """Whether this is Linux."""
    return sys.platform.startswith("linux")


def _release(word: str) -> str:
    try:
        return _platform.freedesktop_os_release().get(word, "")
    except OSError:
        return ""


def is_fedora() -> bool:
    """Whether this is Fedora."""
    return _release("NAME").split(" ")[0] == "Fedora"


def is_photonos() -> bool:
    """Whether this is Photon OS."""
    return _release("NAME").startswith("VMware Photon")


def is_aarch64() -> bool:
    """Whether the processor is a 64 bit ARM."""
    return _platform.machine().startswith("aarch64")


def get_machine_identifier() -> str:
    """The C{machine-id} of this system; empty where it has none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            continue
    return ""


def linux_distribution(full_distribution_name: bool = True) -> tuple[str, str, str]:
    """Name, version and code name of the distribution."""
    name = _release("NAME") if full_distribution_name else _release("ID")
    return name, _release("VERSION_ID"), _release("VERSION_CODENAME")
