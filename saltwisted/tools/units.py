"""
Which systemd unit belongs to which daemon, how a daemon is started here, and which ones run.

With the package that is C{systemctl start}; in a checkout, where no unit is installed, C{twistd}.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from saltwisted import advice
from saltwisted.advice import Said
from saltwisted.config.load import OWN_DIR, SALT_DIR

FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")
WANTED = "/etc/systemd/system/multi-user.target.wants"
PACKAGED = OWN_DIR
"""The configuration that the package's units name."""
SOCKET = "saltwisted.sock"


def unit(role: str) -> str:
    """The package's name for a role's unit."""
    return f"saltwisted-{role}"


def is_installed(role: str, folders: tuple[str, ...] = FOLDERS) -> bool:
    """Whether there is such a unit."""
    return any(os.path.exists(f"{folder}/{unit(role)}.service") for folder in folders)


def is_enabled(role: str, wanted: str = WANTED) -> bool:
    """Whether its unit starts with the machine."""
    return os.path.lexists(f"{wanted}/{unit(role)}.service")


def user_of(role: str, folders: tuple[str, ...] = FOLDERS) -> str:
    """The user of a role's unit: C{root} if it names none, C{""} if there is no unit."""
    if not is_installed(role, folders):
        return ""
    name = f"{unit(role)}.service"
    # The first folder that has the unit counts; what is dropped in from any of them comes later
    texts = [next(text for folder in folders if (text := _text(f"{folder}/{name}")) is not None)]
    dropped: dict[str, str] = {}
    for folder in reversed(folders):
        with suppress(OSError):
            for one in os.listdir(f"{folder}/{name}.d"):
                if one.endswith(".conf"):
                    dropped[one] = _text(f"{folder}/{name}.d/{one}") or ""
    texts += [dropped[one] for one in sorted(dropped)]
    found = re.findall(r"^\s*User\s*=\s*(\S*)\s*$", "\n".join(texts), re.M)
    return str(found[-1]) if found and found[-1] else "root"


def _text(path: str) -> str | None:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
    return None


def unit_of(pid: int, proc: str = "/proc") -> str:
    """The unit that a process of ours belongs to; empty if it was started by hand."""
    with suppress(OSError), open(f"{proc}/{pid}/cgroup", encoding="utf-8") as stream:
        for line in stream:
            name = line.strip().rpartition("/")[2]
            # A daemon that was started by hand belongs to a session, or to sshd's unit
            if name.endswith(".service") and "salt" in name:
                return name.removesuffix(".service")
    return ""


def node_file(pki_dir: str) -> str:
    """Where a node of a cluster has its state."""
    return os.path.join(pki_dir, "cluster", "node.json")


def node_state(pki_dir: str) -> dict[str, Any]:
    """What a node's file says (C{node}, C{cluster}, C{phase}); empty where it cannot be read."""
    with suppress(OSError, ValueError), open(node_file(pki_dir), encoding="utf-8") as stream:
        found = json.load(stream)
        return found if isinstance(found, dict) else {}
    return {}


def is_node(pki_dir: str) -> bool:
    """Whether this machine is, or was, a node of a cluster, as far as this user may see."""
    return os.path.exists(node_file(pki_dir))


def master_role(pki_dir: str, wanted: str = WANTED) -> str:
    """C{cluster} where this master is a node of a cluster, or is to be one; else C{master}."""
    if is_node(pki_dir) or is_enabled("cluster", wanted):
        return "cluster"
    return "master"


def is_lone(pki_dir: str, wanted: str = WANTED) -> bool:
    """Whether this machine has a master that is no node of a cluster, and is not to be one."""
    if master_role(pki_dir, wanted) == "cluster":
        return False
    return is_enabled("master", wanted) or os.path.exists(os.path.join(pki_dir, "master.pem"))


def is_used(
    pki_dir: str,
    sock_dir: str,
    role: str,
    config_dir: str = "",
    wanted: str = WANTED,
    folders: tuple[str, ...] = FOLDERS,
) -> bool:
    """
    Whether a role is meant to run on this machine, or runs.

    With our package: whether it is enabled. Files say nothing there: configuration of all roles
    is on every such machine, and one C{salt-call} makes a minion's key. Where daemons are
    started by hand, a role was meant to run if it has ever made the directory of its socket.

    @param role: C{master}, which may be a node of a cluster, or C{minion}.
    """
    if runs(sock_dir):
        return True
    units = ("master", "cluster") if role == "master" else (role,)
    if config_dir in ("", PACKAGED) and any(is_installed(one, folders) for one in units):
        return any(is_enabled(one, wanted) for one in units)
    key = role == "master" and os.path.exists(os.path.join(pki_dir, "master.pem"))
    return key or os.path.isdir(sock_dir)


def runs(sock_dir: str) -> bool:
    """Whether a daemon listens on the control socket there."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(1.0)
        try:
            one.connect(os.path.join(sock_dir, SOCKET))
        except PermissionError:
            return True
        except OSError:
            return False
    return True


class Daemon(NamedTuple):
    """
    A daemon of ours that runs, as its command line has it.

    @ivar directory: of its configuration; C{""} for the usual one.
    """

    pid: int
    role: str
    directory: str


def daemons(proc: str = "/proc") -> list[Daemon]:
    """All that run on this machine, the oldest process of each."""
    found: dict[tuple[str, str], Daemon] = {}
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        with suppress(OSError, ValueError):
            with open(f"{proc}/{pid}/cmdline", "rb") as stream:
                words = os.fsdecode(stream.read()).split("\0")
            if "saltwisted" not in words:
                continue
            rest = words[words.index("saltwisted") + 1 :]
            role, directory = _option(rest, "--role", "-r"), _option(rest, "--config", "-c")
            if role not in ("master", "minion", "cluster"):
                continue
            if directory and not os.path.isabs(directory):
                directory = os.path.join(os.readlink(f"{proc}/{pid}/cwd"), directory)
            directory = os.path.normpath(directory) if directory else ""
            found.setdefault((role, directory), Daemon(pid, role, directory))
    return sorted(found.values(), key=lambda one: one.pid)


def _option(words: list[str], long: str, short: str) -> str:
    for number, word in enumerate(words):
        if word in (long, short) and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(f"{long}="):
            return word.partition("=")[2]
    return ""


def usual_dir(role: str) -> str:
    """The directory of a configuration that our programs find by themselves."""
    return OWN_DIR if os.path.exists(os.path.join(OWN_DIR, role)) else SALT_DIR


def here(said: Said, directory: str, role: str = "master") -> Said:
    """
    Advice as it can be run on this machine.

    @param directory: of the configuration of who gives it, C{""} for the usual one.
    """
    return said.at("" if directory in ("", usual_dir(role)) else directory, programs())


def programs(name: str = "saltwisted") -> str:
    """Where a program of ours is, C{""} if a shell finds it: a directory with a slash."""
    if shutil.which(name) is None:
        beside = os.path.dirname(os.path.abspath(sys.executable))
        if os.access(os.path.join(beside, name), os.X_OK):
            return f"{beside}/"
    return ""


def start(role: str, opts: Mapping[str, Any], is_here: bool | None = None) -> Said:
    """
    What starts a role with a configuration.

    @param opts: for C{conf_file}.
    @param is_here: whether the unit is installed, if somebody knows.
    """
    directory = os.path.dirname(str(opts.get("conf_file") or ""))
    installed = is_installed(role) if is_here is None else is_here
    if installed and directory in ("", PACKAGED):
        return advice.of("start.unit", unit=unit(role))
    # Debian's Twisted, on which the package depends, calls its program so
    name = "twistd3" if installed else "twistd"
    program = programs(name) + name
    directory = directory or usual_dir("minion" if role == "minion" else "master")
    return advice.of("start.hand", program=program, role=role, directory=directory)


def log_of(unit_name: str) -> Said:
    """Where a daemon says what is wrong; C{unit_name} is empty if it was started by hand."""
    return advice.of("log.unit", unit=unit_name) if unit_name else advice.of("log.hand")


def numbers(user: str) -> tuple[int, int, frozenset[int]] | None:
    """A user's id, its group, and all its groups; C{None} for nobody of this machine."""
    try:
        entry = pwd.getpwnam(user) if not user.isdigit() else pwd.getpwuid(int(user))
    except KeyError:
        return None
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return entry.pw_uid, entry.pw_gid, frozenset(groups)
