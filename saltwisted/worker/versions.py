"""
What runs here: versions of this software, its libraries and the system.

Used by C{test.versions_report} and by C{saltwisted --versions-report}. Versions of
libraries are read from their metadata; none is imported.
"""

from __future__ import annotations

import locale
import platform
import sys
from importlib import metadata
from typing import Any

from saltwisted import __version__
from saltwisted.config.compat import COMPAT_VERSION_TEXT

_LIBRARIES = (
    ("attrs", "attrs"),
    ("cffi", "cffi"),
    ("cryptography", "cryptography"),
    ("Jinja2", "jinja2"),
    ("Mako", "mako"),
    ("msgpack", "msgpack"),
    ("pycparser", "pycparser"),
    ("pyOpenSSL", "pyopenssl"),
    ("PyYAML", "pyyaml"),
    ("PyZMQ", "pyzmq"),
    ("service_identity", "service-identity"),
    ("Twisted", "twisted"),
    ("txZMQ", "txzmq"),
    ("zope.interface", "zope.interface"),
)


def versions_information() -> dict[str, dict[str, Any]]:
    """The versions in Salt's shape; C{None} is a library that is not installed."""
    release = _os_release()
    name = release.get("NAME", platform.system())
    number = release.get("VERSION_ID", "")
    codename = release.get("VERSION_CODENAME", "")
    exact = _debian_version() if release.get("ID") == "debian" else number
    dist = " ".join(part for part in (release.get("ID", ""), exact or number, codename) if part)
    return {
        "Salt Version": {"Salt": COMPAT_VERSION_TEXT, "saltwisted": __version__},
        "Python Version": {"Python": sys.version.replace("\n", "").strip()},
        "Dependency Versions": {label: _installed(dist) for label, dist in _LIBRARIES},
        "System Versions": {
            "system": platform.system(),
            "dist": dist,
            "release": platform.release(),
            "machine": platform.machine(),
            "version": " ".join(part for part in (name, exact or number, codename) if part),
            "locale": locale.getpreferredencoding().lower(),
        },
        "Salt Package Information": {"Package Type": None},
    }


def versions_report() -> list[str]:
    """The same as lines to read, right-aligned at the colons as Salt prints them."""
    information = versions_information()
    missing = "Not Installed"
    names = [
        name for group in ("Dependency Versions", "System Versions") for name in information[group]
    ]
    width = max(len(missing), *map(len, names)) + 1
    lines = []
    for group in (
        "Salt Version",
        "Python Version",
        "Dependency Versions",
        "Salt Package Information",
        "System Versions",
    ):
        lines.append(f"{group}:")
        for name, value in sorted(information[group].items(), key=lambda item: item[0].lower()):
            lines.append(f"{name:>{width}}: {value or missing}")
        lines.append(" ")
    return lines


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _debian_version() -> str:
    try:
        with open("/etc/debian_version", encoding="ascii", errors="replace") as file:
            text = file.read(64).strip()
    except OSError:
        return ""
    return text if text[:1].isdigit() else ""
