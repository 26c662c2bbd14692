"""
Kernel parameters (virtual module C{sysctl}): now, and at every start.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from saltwisted.modules import _systemd
from saltwisted.modules._accounts import program
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "sysctl"


def __virtual__() -> Any:
    if __grains__["kernel"] == "Linux":
        return __virtualname__
    return (
        False,
        "The linux_sysctl execution module cannot be loaded: only available on Linux systems.",
    )


def default_config() -> str:
    """
    The file that C{persist} writes by default.

    CLI Example::

        salt -G 'kernel:Linux' sysctl.default_config
    """
    if _systemd.booted(__context__) and (_systemd.version(__context__) or 0) >= 207:
        return "/etc/sysctl.d/99-salt.conf"
    return "/etc/sysctl.conf"


def show(config_file: Any = False) -> Any:
    """
    All parameters, or those of a file.

    An absent file gives an empty list, one that cannot be read C{None}.

    CLI Example::

        salt '*' sysctl.show
    """
    found: dict[str, str] = {}
    if config_file:
        if not os.path.exists(config_file):
            return []
        try:
            with open(config_file, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.readlines()
        except OSError:
            log.error("Could not open sysctl file")
            return None
        for line in lines:
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith("#"):
                found[key.rstrip()] = value.lstrip()
        return found
    output = __salt__["cmd.run_stdout"]([program("sysctl"), "-a"], output_loglevel="trace")
    for line in output.splitlines():
        key, equals, value = line.partition(" = ")
        if equals:
            found[key] = value
    return found


def get(name: str) -> str:
    """
    One parameter.

    CLI Example::

        salt '*' sysctl.get net.ipv4.ip_forward
    """
    return str(__salt__["cmd.run"]([program("sysctl"), "-n", name], python_shell=False))


def assign(name: str, value: Any) -> dict[str, str]:
    """
    Set a parameter now.

    CLI Example::

        salt '*' sysctl.assign net.ipv4.ip_forward 1
    """
    text = str(value)
    path = f"/proc/sys/{name.translate(str.maketrans('./', '/.'))}"
    if not os.path.exists(path):
        raise CommandExecutionError(f"sysctl {name} does not exist")
    done = __salt__["cmd.run_all"]([program("sysctl"), "-w", f"{name}={text}"], python_shell=False)
    output, errors = done["stdout"], done["stderr"]
    as_told = re.match(rf"^{re.escape(name)}\s+=\s+{re.escape(text)}$", output)
    # sysctl may end with 0 after an error.
    if not as_told or "Invalid argument" in str(errors):
        reason = errors if done["retcode"] != 0 and errors else output
        raise CommandExecutionError(f"sysctl -w failed: {reason}")
    key, _equals, now = output.partition(" = ")
    return {key: now}


def _same(value: Any) -> str:
    """A value with its blanks as the kernel prints them."""
    return re.sub(r"\s+", "\t", str(value))


def persist(name: str, value: Any, config: str | None = None) -> str:
    """
    Set a parameter now and at every start: C{Updated} or C{Already set}.

    @param config: the file to write.

    CLI Example::

        salt '*' sysctl.persist net.ipv4.ip_forward 1
    """
    path = default_config() if config is None else config
    if not os.path.isfile(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, ["#\n# Kernel sysctl configuration\n#\n"])
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError as error:
        raise CommandExecutionError(f"Could not read from file: {path}") from error
    edited = False
    for number, line in enumerate(lines):
        key, equals, old = line.partition("=")
        if not equals or key.strip() != name:
            continue
        if _same(old.strip()) == _same(value):
            if _same(get(name)) == _same(value):
                return "Already set"
            assign(name, value)
            return "Updated"
        lines[number] = f"{name} = {value}\n"
        edited = True
    if not edited:
        lines.append(f"{name} = {value}\n")
    _write(path, lines)
    assign(name, value)
    return "Updated"


def _write(path: str, lines: list[str]) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(lines)
    except OSError as error:
        raise CommandExecutionError(f"Could not write to file: {path}") from error
