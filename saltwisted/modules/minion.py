"""
The minion's own process: end it, restart it; and the keys of a master on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

__func_alias__ = {"list_": "list"}

__salt__: Any
__opts__: Any
__grains__: Any

_SOFTWARE = 70
_TEMPFAIL = 75


def list_() -> dict[str, list[str]]:
    """
    The keys in the directories of a master on this machine, by state.

    CLI Example::

        salt 'master' minion.list
    """
    base = __salt__["config.get"]("pki_dir", "").replace("minion", "master")
    result: dict[str, list[str]] = {}
    for state in ("minions", "minions_pre", "minions_rejected", "minions_denied"):
        result[state] = []
        folder = os.path.join(base, state)
        try:
            names = sorted(os.listdir(folder), key=str.lower)
        except OSError:
            continue
        result[state] = [
            name
            for name in names
            if not name.startswith(".") and os.path.isfile(os.path.join(folder, name))
        ]
    return result


def _signal(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError:
        return False
    return True


def kill(timeout: int = 15) -> dict[str, Any]:
    """
    End the minion; wait at most C{timeout} seconds for it.

    CLI Example::

        salt minion[12] minion.kill
    """
    ret: dict[str, Any] = {"killed": None, "retcode": 1}
    pid = __grains__.get("pid")
    if not pid:
        ret.update(retcode=_SOFTWARE, comment=['Unable to find "pid" in grains'])
        return ret
    if not _signal(int(pid)):
        ret["comment"] = ["ps.kill_pid failed"]
        return ret
    ret["retcode"] = 0
    for _ in range(timeout):
        time.sleep(1)
        if not _signal(int(pid)):
            ret["killed"] = pid
            return ret
    ret.update(retcode=_TEMPFAIL, comment=["Timed out waiting for minion to exit"])
    return ret


def _unit() -> str:
    """The systemd unit that the daemon runs in; Salt's name where it is in none."""
    text = systools.read_text(f"/proc/{__grains__.get('pid', 'self')}/cgroup")
    found = re.search(r"/([^/\n]+)\.service(?:/|$)", text, re.M)
    return found.group(1) if found else "salt-minion"


def _booted() -> bool:
    return os.path.isdir("/run/systemd/system")


def restart(
    systemd: bool = True,
    win_service: bool = True,
    schedule_retry: bool = False,
    retry_delay: Any = 180,
) -> dict[str, Any]:
    """
    Restart the minion: by C{minion_restart_command}, or as a service; else only end it.

    schedule_retry, retry_delay
        Have systemd look after so many seconds whether it runs, and start it if not.

    CLI Example::

        salt minion[12] minion.restart
    """
    comment: list[str] = []
    ret: dict[str, Any] = {"killed": None, "restart": {}, "service_restart": {}, "retcode": 0}
    command = __salt__["config.get"]("minion_restart_command")
    by_systemd = systemd and not command and _booted()
    if by_systemd:
        unit = _unit()
        comment.append(f"Using systemctl to restart {unit}")
        ret.update(_restart_service(unit, schedule_retry, retry_delay, comment))
        ret["comment"] = comment
        return ret
    if command:
        comment.append("Using configuration minion_restart_command:")
        comment += [f"    {word}" for word in command]
    else:
        comment.append("Not running in daemon mode - will not restart process after killing")
    killed = kill()
    comment += killed.pop("comment", [])
    ret.update(killed)
    if ret["retcode"]:
        comment.append("Kill failed - not restarting")
    elif command:
        ret["restart"] = __salt__["cmd.run_all"](command, env=dict(os.environ), python_shell=False)
        ret["restart"].pop("pid", None)
        code = ret["restart"].pop("retcode", 0)
        if code:
            comment.append("Restart failed")
            ret["retcode"] = code
    ret["comment"] = comment
    return ret


def _restart_service(
    unit: str, schedule_retry: bool, retry_delay: Any, comment: list[str]
) -> dict[str, Any]:
    service: dict[str, Any] = {}
    ret: dict[str, Any] = {"service_restart": service}
    scheduling = False
    try:
        if schedule_retry:
            service["schedule_retry"] = {}
            scheduling = True
            service["schedule_retry"]["detail"] = _schedule_retry(unit, retry_delay)
            scheduling = False
            service["schedule_retry"]["delay"] = retry_delay
            comment.append(f"Scheduled retry for minion restart in {retry_delay} seconds")
        service["result"] = __salt__["service.restart"](unit, no_block=True)
        comment.append("Service restart successful")
        ret["retcode"] = 0
    except CommandExecutionError as error:
        comment.append("Adding scheduled retry failed" if scheduling else "Service restart failed")
        service["result"] = False
        service["stderr"] = str(error)
        ret["retcode"] = _SOFTWARE
    return ret


def _schedule_retry(unit: str, delay: Any) -> str:
    try:
        seconds = int(delay)
    except (TypeError, ValueError) as error:
        raise CommandExecutionError(
            f"Invalid retry_delay value: {delay}. Must be a number of seconds."
        ) from error
    program = shutil.which("systemd-run")
    if program is None:
        raise CommandExecutionError("systemd-run is not installed")
    # Starting a unit that is active is nothing to do for systemd.
    words = [program, f"--on-active={seconds}", "systemctl", "start", unit]
    done = __salt__["cmd.run_all"](words, python_shell=False)
    if done["retcode"] != 0:
        raise CommandExecutionError(done["stderr"])
    return str(done.get("stderr", ""))
