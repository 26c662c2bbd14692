"""
The time zone, and whether the hardware clock runs in it.

C{timedatectl} is asked where it is installed; else the files of the distribution.
"""

from __future__ import annotations

import errno
import filecmp
import logging
import os
import re
import string
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__opts__: dict[str, Any]

__virtualname__ = "timezone"

_ZONES = "/usr/share/zoneinfo/"


def __virtual__() -> str:
    return __virtualname__


def _timedatectl() -> str:
    done = __salt__["cmd.run_all"]("timedatectl", python_shell=False)
    if done["retcode"] != 0:
        raise CommandExecutionError(f"timedatectl failed: {done['stderr']}")
    return str(done["stdout"])


def _unparsed(output: str) -> CommandExecutionError:
    return CommandExecutionError(
        f"Failed to parse timedatectl output: {output}\nPlease file an issue with SaltStack"
    )


def _localtime() -> str:
    nilrt = "NILinuxRT" in __grains__["os_family"] and "nilrt" in __grains__["lsb_distrib_id"]
    return "/etc/natinst/share/localtime" if nilrt else "/etc/localtime"


def get_zone() -> str:
    """
    The name of the time zone.

    CLI Example::

        salt '*' timezone.get_zone
    """
    if systools.which("timedatectl"):
        output = _timedatectl()
        for line in output.split("\n"):
            match = re.match(r"Time ?zone:\s+(\S+)", line.strip())
            if match:
                return match.group(1)
        raise _unparsed(output)
    family = __grains__["os_family"]
    if family in ("RedHat", "Suse"):
        return _zone_of_sysconfig()
    if family in ("Debian", "Gentoo"):
        return _zone_of_etc_timezone()
    if family in ("NILinuxRT", "Slackware"):
        return _zone_of_localtime()
    raise CommandExecutionError("Unable to get timezone")


def _zone_of_sysconfig() -> str:
    path = "/etc/sysconfig/clock"
    with open(path, encoding="utf-8") as file:
        for line in file:
            if "ZONE" in line and "=" in line and not line.lstrip().startswith("#"):
                return line.rstrip("\n").split("=")[-1].strip("'\"") or "UTC"
    raise CommandExecutionError(f"Unable to get timezone from {path}")


def _zone_of_etc_timezone() -> str:
    path = "/etc/timezone"
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise CommandExecutionError(
            f"Problem reading timezone file {path}: {error.strerror}"
        ) from error


def _zone_of_localtime() -> str:
    path = _localtime()
    try:
        target = os.path.normpath(os.path.join("/etc", os.readlink(path)))
        if target.startswith(_ZONES):
            return target[len(_ZONES) :]
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise CommandExecutionError(f"{path} does not exist") from error
        if error.errno == errno.EINVAL:
            name = _zone_with_content(path)
            if name:
                return name
    raise CommandExecutionError("Unable to determine timezone")


def _zone_with_content(path: str) -> str:
    log.warning("%s is not a symbolic link. Attempting to match it to zoneinfo files.", path)
    wanted = _files.digest(path)
    for folder, _folders, names in os.walk(_ZONES):
        for name in names:
            full = os.path.join(folder, name)
            short = full[len(_ZONES) :]
            # posixrules and the like are not zones.
            if short[0] not in string.ascii_lowercase and _files.digest(full) == wanted:
                return short
    return ""


def get_zonecode() -> str:
    """
    The abbreviation of the time zone.

    CLI Example::

        salt '*' timezone.get_zonecode
    """
    return str(__salt__["cmd.run"](["date", "+%Z"], python_shell=False))


def get_offset() -> str:
    """
    The distance to UTC as C{+0100}.

    CLI Example::

        salt '*' timezone.get_offset
    """
    return str(__salt__["cmd.run"](["date", "+%z"], python_shell=False))


def set_zone(timezone: str) -> Any:
    """
    Set the time zone; gives true, or the text that there is none of this name.

    CLI Example::

        salt '*' timezone.set_zone 'America/Denver'
    """
    if systools.which("timedatectl"):
        try:
            __salt__["cmd.run"](["timedatectl", "set-timezone", timezone], python_shell=False)
        except CommandExecutionError:
            # Without a running systemd the files below do it.
            pass
    path = f"{_ZONES}{timezone}"
    if not os.path.exists(path):
        return f"Zone does not exist: {path}"
    _link(path)
    _tell_distribution(timezone)
    return True


def _link(path: str) -> None:
    local = _localtime()
    if os.path.lexists(local):
        os.unlink(local)
    os.symlink(path, local)


def _tell_distribution(timezone: str) -> None:
    family = __grains__["os_family"]
    if "RedHat" in family:
        __salt__["file.sed"]("/etc/sysconfig/clock", "^ZONE=.*", f'ZONE="{timezone}"')
    elif "Suse" in family:
        __salt__["file.sed"]("/etc/sysconfig/clock", "^TIMEZONE=.*", f'TIMEZONE="{timezone}"')
    elif "Debian" in family or "Gentoo" in family:
        with open("/etc/timezone", "w", encoding="utf-8") as file:
            file.write(f"{timezone.strip()}\n")


def zone_compare(timezone: str) -> bool:
    """
    Whether this is the time zone, or one with the same rules.

    CLI Example::

        salt '*' timezone.zone_compare 'America/Denver'
    """
    try:
        return timezone == get_zone()
    except CommandExecutionError:
        pass
    local, path = _localtime(), f"{_ZONES}{timezone}"
    try:
        return filecmp.cmp(local, path, shallow=False)
    except OSError as error:
        if error.filename == path:
            raise SaltInvocationError(f'Can\'t find a local timezone "{timezone}"') from error
        if error.filename == local:
            raise CommandExecutionError(
                f"Failed to read {local} to determine current timezone: {error.strerror}"
            ) from error
        raise


def get_hwclock() -> Any:
    """
    C{UTC} or C{localtime}: how the hardware clock runs.

    CLI Example::

        salt '*' timezone.get_hwclock
    """
    if systools.which("timedatectl"):
        output = _timedatectl()
        for line in output.splitlines():
            if "rtc in local tz" in line.lower():
                return "localtime" if line.split(":")[-1].strip().lower() == "yes" else "UTC"
        raise _unparsed(output)
    family = __grains__["os_family"]
    if "Debian" in family:
        for line in systools.read_text("/etc/default/rcS").splitlines():
            if "UTC=" in line and not line.lstrip().startswith("#"):
                return "UTC" if line.split("=")[-1].lower() == "yes" else "localtime"
        return _adjtime()
    if "Gentoo" in family and not os.path.exists("/etc/adjtime"):
        return _gentoo_clock()
    if "Slackware" in family and not os.path.exists("/etc/adjtime"):
        text = systools.read_text("/etc/hardwareclock", default="UTC")
        return "UTC" if re.search("^UTC", text, re.MULTILINE) else "localtime"
    if any(name in family for name in ("RedHat", "Suse", "NILinuxRT", "Gentoo", "Slackware")):
        return _adjtime()
    return None


def _adjtime() -> Any:
    path = "/etc/adjtime"
    if os.path.exists(path):
        return __salt__["cmd.run"](["tail", "-n", "1", path], python_shell=False)
    if os.path.exists("/dev/rtc"):
        raise CommandExecutionError(f"Unable to get hwclock timezone from {path}")
    return None


def _gentoo_clock() -> str:
    path = "/etc/conf.d/hwclock"
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except OSError as error:
        raise CommandExecutionError(
            f"Problem reading offset file {path}: {error.strerror}"
        ) from error
    for line in lines:
        if line.startswith("clock="):
            value = line.rstrip("\n").split("=")[-1].strip("'\"")
            if value in ("UTC", "local"):
                return "UTC" if value == "UTC" else "LOCAL"
    raise CommandExecutionError(f"Correct offset value not found in {path}")


def set_hwclock(clock: str) -> bool:
    """
    Let the hardware clock run in C{UTC} or C{localtime}.

    CLI Example::

        salt '*' timezone.set_hwclock UTC
    """
    local = "true" if clock == "localtime" else "false"
    if systools.which("timedatectl"):
        command = ["timedatectl", "set-local-rtc", local]
        return bool(__salt__["cmd.retcode"](command, python_shell=False) == 0)
    family = __grains__["os_family"]
    if family == "NILinuxRT":
        if clock.lower() != "utc":
            raise SaltInvocationError("UTC is the only permitted value")
        return True
    timezone = get_zone()
    path = f"{_ZONES}{timezone}"
    if not os.path.exists(path):
        raise CommandExecutionError(f"Zone '{path}' does not exist")
    _link(path)
    sed = __salt__.get("file.sed")
    if "Arch" in family:
        command = ["timezonectl", "set-local-rtc", local]
        return bool(__salt__["cmd.retcode"](command, python_shell=False) == 0)
    if sed is None:
        raise CommandExecutionError("'file.sed' is not available.")
    if "RedHat" in family or "Suse" in family:
        name = "ZONE" if "RedHat" in family else "TIMEZONE"
        sed("/etc/sysconfig/clock", f"^{name}=.*", f'{name}="{timezone}"')
    elif "Debian" in family and clock in ("UTC", "localtime"):
        sed("/etc/default/rcS", "^UTC=.*", "UTC=yes" if clock == "UTC" else "UTC=no")
    elif "Gentoo" in family or "Slackware" in family:
        if clock not in ("UTC", "localtime"):
            raise SaltInvocationError("Only 'UTC' and 'localtime' are allowed")
        if "Gentoo" in family:
            word = "local" if clock == "localtime" else clock
            sed("/etc/conf.d/hwclock", "^clock=.*", f'clock="{word}"')
        else:
            sed("/etc/hardwareclock", "^(UTC|localtime)", clock)
    return True
