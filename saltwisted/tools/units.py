"""
Which systemd unit belongs to which daemon, and how a daemon is started here.

With the package that is C{systemctl start}; in a checkout, where no unit is installed, C{twistd}.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")
WANTED = "/etc/systemd/system/multi-user.target.wants"
PACKAGED = "/etc/saltwisted"
"""The configuration that the package's units name."""


def unit(role: str) -> str:
    """The package's name for a role's unit."""
    return f"saltwisted-{role}"


def is_installed(role: str, folders: tuple[str, ...] = FOLDERS) -> bool:
    """Whether there is such a unit."""
    return any(os.path.exists(f"{folder}/{unit(role)}.service") for folder in folders)


def unit_of(pid: int, proc: str = "/proc") -> str:
    """The unit that a process of ours belongs to; empty if it was started by hand."""
    with suppress(OSError), open(f"{proc}/{pid}/cgroup", encoding="utf-8") as stream:
        for line in stream:
            name = line.strip().rpartition("/")[2]
            # A daemon that was started by hand belongs to a session, or to sshd's unit
            if name.endswith(".service") and "salt" in name:
                return name.removesuffix(".service")
    return ""


def master_role(pki_dir: str, wanted: str = WANTED) -> str:
    """C{cluster} where this master is a node of a cluster, or is to be one; else C{master}."""
    if os.path.exists(os.path.join(pki_dir, "cluster", "node.json")):
        return "cluster"
    if os.path.lexists(f"{wanted}/{unit('cluster')}.service"):
        return "cluster"
    return "master"


def is_used(pki_dir: str, sock_dir: str, role: str) -> bool:
    """
    Whether a role has ever run on this machine.

    Every machine with our package has configuration files of all roles: they say nothing.
    """
    return os.path.isdir(sock_dir) or os.path.exists(os.path.join(pki_dir, f"{role}.pem"))


def start_command(role: str, opts: Mapping[str, Any], is_here: bool | None = None) -> str:
    """
    What starts a role with a configuration.

    @param opts: for C{conf_file}.
    @param is_here: whether the unit is installed, if somebody knows.
    """
    directory = os.path.dirname(str(opts.get("conf_file") or ""))
    here = is_installed(role) if is_here is None else is_here
    if here and directory in ("", PACKAGED):
        return f"systemctl start {unit(role)}"
    # Debian's Twisted, on which the package depends, calls its program so
    program = "twistd3" if here else "twistd"
    return f"{program} --nodaemon --pidfile= saltwisted --role {role} --config {directory or 'DIR'}"
