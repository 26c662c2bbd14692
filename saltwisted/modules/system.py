"""
Stop and start the machine, its clock, its name.
"""

from __future__ import annotations

import logging
import os
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

__virtualname__ = "system"

_MACHINE_INFO = "/etc/machine-info"
_PRETTY = re.compile(r"^\s*PRETTY_HOSTNAME=(.*)$")


def __virtual__() -> str:
    if __grains__.get("os_family") != "NILinuxRT":
        # As in Salt these are functions of that system alone.
        for name in ("set_reboot_required_witnessed", "get_reboot_required_witnessed"):
            globals().pop(name, None)
    return __virtualname__


def halt() -> str:
    """
    Halt.

    CLI Example::

        salt '*' system.halt
    """
    return str(__salt__["cmd.run"](["halt"], python_shell=False))


def init(runlevel: Any) -> str:
    """
    Change the run level.

    CLI Example::

        salt '*' system.init 3
    """
    return str(__salt__["cmd.run"](["init", f"{runlevel}"], python_shell=False))


def poweroff() -> str:
    """
    Power off.

    CLI Example::

        salt '*' system.poweroff
    """
    return str(__salt__["cmd.run"](["poweroff"], python_shell=False))


def reboot(at_time: Any = None) -> str:
    """
    Reboot, now or at a time of C{shutdown(8)} (C{5} is in five minutes).

    CLI Example::

        salt '*' system.reboot
        salt '*' system.reboot 5
    """
    return _shutdown("-r", at_time)


def shutdown(at_time: Any = None) -> str:
    """
    Shut down, now or at a time of C{shutdown(8)}.

    CLI Example::

        salt '*' system.shutdown 5
    """
    return _shutdown("-h", at_time)


def _shutdown(flag: str, at_time: Any) -> str:
    command = ["shutdown", flag, f"{at_time}" if at_time else "now"]
    return str(__salt__["cmd.run"](command, python_shell=False))


def has_settable_hwclock() -> bool:
    """
    Whether there is a hardware clock that can be set.

    CLI Example::

        salt '*' system.has_settable_hwclock
    """
    if systools.which("hwclock") is None:
        return False
    done = __salt__["cmd.run_all"](
        ["hwclock", "--test", "--systohc"],
        python_shell=False,
        output_loglevel="quiet",
        ignore_retcode=True,
    )
    return bool(done["retcode"] == 0)


def _now(utc_offset: str | None) -> datetime:
    """Local time without a zone, or the time at an offset C{+0100}."""
    if utc_offset is None:
        return datetime.now()
    match = re.match(r"^([+-])?(\d\d)(\d\d)$", utc_offset)
    if not match:
        raise SaltInvocationError("Invalid UTC offset")
    minutes = int(match.group(2)) * 60 + int(match.group(3))
    if match.group(1) == "-":
        minutes = -minutes
    return datetime.now(timezone(timedelta(minutes=minutes)))


def _parsed(text: str, formats: tuple[str, ...]) -> datetime | None:
    for form in formats:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def get_system_time(utc_offset: str | None = None) -> str:
    """
    The time of day as C{HH:MM:SS AM/PM}.

    @param utc_offset: as C{+0100}; local time by default.

    CLI Example::

        salt '*' system.get_system_time
        salt '*' system.get_system_time "'-0500'"
    """
    return _now(utc_offset).strftime("%I:%M:%S %p")


def set_system_time(newtime: str, utc_offset: str | None = None) -> bool:
    """
    Set the time of day: C{HH:MM:SS AM/PM}, C{HH:MM AM/PM}, C{HH:MM:SS} or C{HH:MM}.

    CLI Example::

        salt '*' system.set_system_time "11:20"
    """
    moment = _parsed(newtime, ("%I:%M:%S %p", "%I:%M %p", "%H:%M:%S", "%H:%M"))
    if moment is None:
        return False
    return set_system_date_time(
        hours=moment.hour, minutes=moment.minute, seconds=moment.second, utc_offset=utc_offset
    )


def get_system_date_time(utc_offset: str | None = None) -> str:
    """
    Date and time as C{YYYY-MM-DD hh:mm:ss}.

    CLI Example::

        salt '*' system.get_system_date_time "'-0500'"
    """
    return _now(utc_offset).strftime("%Y-%m-%d %H:%M:%S")


def set_system_date_time(
    years: int | None = None,
    months: int | None = None,
    days: int | None = None,
    hours: int | None = None,
    minutes: int | None = None,
    seconds: int | None = None,
    utc_offset: str | None = None,
) -> bool:
    """
    Set date and time; what is not given stays as it is.

    CLI Example::

        salt '*' system.set_system_date_time 2015 5 12 11 37 53 "'-0500'"
    """
    now = _now(utc_offset)
    given = {
        "year": years,
        "month": months,
        "day": days,
        "hour": hours,
        "minute": minutes,
        "second": seconds,
    }
    parts: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    try:
        moment = now.replace(microsecond=0, **parts)
    except ValueError as error:
        raise SaltInvocationError(str(error)) from error
    _run_date(moment)
    if has_settable_hwclock():
        done = __salt__["cmd.run_all"](["hwclock", "--systohc"], python_shell=False)
        if done["retcode"] != 0:
            log.warning(
                "hwclock failed to set hardware clock from software clock: %s", done["stderr"]
            )
    return True


def _run_date(moment: datetime) -> None:
    command = ["date"]
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
        command.append("-u")
    first = __salt__["cmd.run_all"]([*command, f"{moment:%m%d%H%M%Y.%S}"], python_shell=False)
    if first["retcode"] == 0:
        return
    # POSIX knows no seconds.
    second = __salt__["cmd.run_all"]([*command, f" {moment:%m%d%H%M%Y}"], python_shell=False)
    if second["retcode"] != 0:
        raise CommandExecutionError(f"date failed: {first['stderr']}")


def get_system_date(utc_offset: str | None = None) -> str:
    """
    The date as C{Wed 05/13/2015}.

    CLI Example::

        salt '*' system.get_system_date
    """
    return _now(utc_offset).strftime("%a %m/%d/%Y")


def set_system_date(newdate: str, utc_offset: str | None = None) -> bool:
    """
    Set the date: C{YYYY-mm-dd}, C{mm-dd-YYYY}, C{mm/dd/YYYY}, C{YYYY/mm/dd}, or with two digits.

    CLI Example::

        salt '*' system.set_system_date '03-28-13'
    """
    forms = ("%Y-%m-%d", "%m-%d-%Y", "%m-%d-%y", "%m/%d/%Y", "%m/%d/%y", "%Y/%m/%d")
    moment = _parsed(newdate, forms)
    if moment is None:
        raise SaltInvocationError("Invalid date format")
    return set_system_date_time(
        years=moment.year, months=moment.month, days=moment.day, utc_offset=utc_offset
    )


def get_computer_desc() -> Any:
    """
    The "pretty" host name, or false if there is none and no C{hostnamectl}.

    CLI Example::

        salt '*' system.get_computer_desc
    """
    program = systools.which("hostnamectl")
    text: str | None = None
    if program:
        text = __salt__["cmd.run"]([program, "status", "--pretty"], python_shell=False)
    else:
        for line in systools.read_text(_MACHINE_INFO).splitlines():
            match = _PRETTY.match(line)
            if match:
                text = match.group(1).strip()
                if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
                    text = text[1:-1]
    if text is None:
        return False
    for escaped, plain in (("\\\\", "\\"), ('\\"', '"'), ("\\n", "\n"), ("\\t", "\t")):
        text = text.replace(escaped, plain)
    return text


def set_computer_desc(desc: Any) -> bool:
    """
    Set the "pretty" host name.

    CLI Example::

        salt '*' system.set_computer_desc "Michael's laptop"
    """
    text = str(desc).replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    program = systools.which("hostnamectl")
    if program:
        command = [program, "set-hostname", "--pretty", text]
        return bool(__salt__["cmd.retcode"](command, python_shell=False) == 0)
    lines = systools.read_text(_MACHINE_INFO).splitlines()
    wanted = f'PRETTY_HOSTNAME="{text}"'
    place = next((at for at, line in enumerate(lines) if _PRETTY.match(line)), None)
    if place is None:
        lines.append(wanted)
    else:
        lines[place] = wanted
    try:
        with open(_MACHINE_INFO, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join(lines) + "\n")
    except OSError:
        return False
    return True


def set_computer_name(hostname: str) -> bool:
    """
    Change the host name, as C{network.mod_hostname}.

    CLI Example::

        salt '*' system.set_computer_name master.saltstack.com
    """
    return bool(__salt__["network.mod_hostname"](hostname))


def get_computer_name() -> str:
    """
    The host name.

    CLI Example::

        salt '*' system.get_computer_name
    """
    return str(__salt__["network.get_hostname"]())


_WITNESS = "/var/volatile/tmp/salt/reboot_witnessed"


def set_reboot_required_witnessed() -> bool:
    """
    Remember until the next start that a required reboot was noticed (NI Linux RT).

    CLI Example::

        salt '*' system.set_reboot_required_witnessed
    """
    folder = os.path.dirname(_WITNESS)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise SaltInvocationError(
            f"Error creating {folder} (-{error.errno}): {error.strerror}"
        ) from error
    return bool(__salt__["cmd.run_all"](["touch", _WITNESS], python_shell=False)["retcode"] == 0)


def get_reboot_required_witnessed() -> bool:
    """
    Whether a required reboot was noticed since the last start (NI Linux RT).

    CLI Example::

        salt '*' system.get_reboot_required_witnessed
    """
    return os.path.exists(_WITNESS)
