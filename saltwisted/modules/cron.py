"""
Users' tables of C{cron}.

Salt's own lines stand below a mark (L{TAG}); what is above it is kept as it is. A comment above
a job may hold an identifier, by which the job is found again when its command changes.
"""

from __future__ import annotations

import logging
import os
import pwd
import random
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import systools

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

TAG = "# Lines below here are managed by Salt, do not edit\n"
SALT_CRON_IDENTIFIER = "SALT_CRON_IDENTIFIER"
SALT_CRON_NO_IDENTIFIER = "NO ID SET"
_OFF = "#DISABLED#"
_TIMES = ("minute", "hour", "daymonth", "month", "dayweek")


def __virtual__() -> Any:
    if systools.which("crontab"):
        return True
    return (False, "Cannot load cron module: crontab command not found")


def _id_of(job: dict[str, Any]) -> str:
    return str(job["identifier"] or SALT_CRON_NO_IDENTIFIER)


def _matches(job: dict[str, Any], cmd: str, identifier: Any = None) -> bool:
    """Whether a job is the one meant: by identifier, or by command if neither side has one."""
    own = _id_of(job)
    wanted = str(identifier or SALT_CRON_NO_IDENTIFIER)
    same = job.get("cmd") == cmd
    if own == SALT_CRON_NO_IDENTIFIER:
        # A job without identifier is adopted by its command.
        return same
    return wanted == own


def _differs(old: Any, new: Any) -> bool:
    """Whether the new value asks for a change; C{None} never, C{random} only of a C{*}."""
    if old == new:
        return False
    return old == "*" if new == "random" else new is not None


def _comment_lines(job: dict[str, Any], text: str | None) -> list[str]:
    if job["comment"] is None and job["identifier"] is None:
        return []
    line = "#"
    if text:
        line += " " + text.replace("\n", "\n# ")
    if job["identifier"]:
        line += f" {SALT_CRON_IDENTIFIER}:{job['identifier']}"
    return [line + "\n"]


def _render_tab(tab: dict[str, list[Any]]) -> list[str]:
    lines = [f"{line}\n" for line in tab["pre"]]
    if not lines or lines[-1] != TAG:
        lines.append(TAG)
    for env in tab["env"]:
        value = env["value"]
        lines.append(f"{env['name']}=" + ('""' if value in (None, "") else f"{value}") + "\n")
    for job in tab["crons"]:
        lines += _comment_lines(job, job["comment"])
        off = _OFF if job["commented"] is True else ""
        lines.append(f"{off}{' '.join(str(job[key]) for key in _TIMES)} {job['cmd']}\n")
    for job in tab["special"]:
        lines += _comment_lines(job, job["comment"].rstrip() if job["comment"] else job["comment"])
        off = _OFF if job["commented"] is True else ""
        lines.append(f"{off}{job['spec']} {job['cmd']}\n")
    return lines


def _crontab(user: str, argument: str) -> tuple[list[str], dict[str, Any]]:
    """The command on a user's table, and how to run it: as ourselves if we may, else as they."""
    uid = os.geteuid()
    try:
        same = pwd.getpwnam(str(user)).pw_uid == uid
    except KeyError:
        same = False
    if same:
        return ["crontab", argument], {"python_shell": False}
    if uid == 0:
        return ["crontab", "-u", f"{user}", argument], {"python_shell": False}
    return ["crontab", argument], {"python_shell": False, "runas": user}


def write_cron_file(user: str, path: str) -> bool:
    """
    Make a file a user's table.

    CLI Example::

        salt '*' cron.write_cron_file root /tmp/new_cron
    """
    command, kwargs = _crontab(user, path)
    return bool(__salt__["cmd.retcode"](command, **kwargs) == 0)


def write_cron_file_verbose(user: str, path: str) -> dict[str, Any]:
    """
    Make a file a user's table; gives what C{cmd.run_all} gives.

    CLI Example::

        salt '*' cron.write_cron_file_verbose root /tmp/new_cron
    """
    command, kwargs = _crontab(user, path)
    return dict(__salt__["cmd.run_all"](command, **kwargs))


def _write_cron_lines(user: str, lines: list[str]) -> dict[str, Any]:
    path = _files.mkstemp()
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(lines)
        command, kwargs = _crontab(user, path)
        if "runas" in kwargs:
            os.chown(path, pwd.getpwnam(user).pw_uid, -1)
        return dict(__salt__["cmd.run_all"](command, **kwargs))
    finally:
        _files.safe_remove(path)


def _save(user: str, tab: dict[str, list[Any]], answer: str) -> Any:
    """Write the table; C{answer}, or the error of C{crontab}."""
    done = _write_cron_lines(user, _render_tab(tab))
    return done["stderr"] if done["retcode"] else answer


def raw_cron(user: str) -> str:
    """
    A user's table as text.

    CLI Example::

        salt '*' cron.raw_cron root
    """
    command, kwargs = _crontab(user, "-l")
    output = __salt__["cmd.run_stdout"](command, ignore_retcode=True, rstrip=False, **kwargs)
    lines = output.splitlines(True)
    # Some versions of crontab show what they put in front of the file.
    if lines and lines[0].startswith("# DO NOT EDIT THIS FILE - edit the master and reinstall."):
        del lines[:3]
    return "".join(lines)


def list_tab(user: str) -> dict[str, list[Any]]:
    """
    A user's table: lines above the mark (C{pre}), jobs (C{crons}, C{special}) and variables.

    CLI Example::

        salt '*' cron.list_tab root
    """
    tab: dict[str, list[Any]] = {"pre": [], "crons": [], "special": [], "env": []}
    below = False
    comment: str | None = None
    identifier: str | None = None
    for line in raw_cron(user).splitlines():
        if line == TAG.rstrip("\n"):
            below = True
            continue
        if not below:
            tab["pre"].append(line)
            continue
        off = line.startswith(_OFF)
        if off:
            line = line[len(_OFF) :]
        if line.startswith("#"):
            comment, identifier = _read_comment(line, comment, identifier)
            continue
        words = line.split(" ")
        if line.startswith("@"):
            parts = line.split()
            if len(parts) < 2:
                continue
            job: dict[str, Any] = {"spec": parts[0], "cmd": " ".join(parts[1:])}
            kind = "special"
        elif line.find("=") > 0 and "=" in words[0]:
            name, _equals, value = line.partition("=")
            tab["env"].append({"name": name, "value": value})
            continue
        elif len(words) > 5:
            job = {**dict(zip(_TIMES, words, strict=False)), "cmd": " ".join(words[5:])}
            kind = "crons"
        else:
            continue
        job.update(identifier=identifier, comment=comment, commented=off)
        tab[kind].append(job)
        comment = identifier = None
    return tab


def _read_comment(line: str, comment: str | None, identifier: str | None) -> tuple[str, str | None]:
    text = line.lstrip("# ")
    if SALT_CRON_IDENTIFIER in text:
        text, rest = text.split(SALT_CRON_IDENTIFIER)[:2]
        text = text.rstrip()
        if len(rest) > 1:
            identifier = rest[1:]
    return (text if comment is None else f"{comment}\n{text}"), identifier


ls = list_tab


def get_entry(user: str, identifier: Any = None, cmd: str | None = None) -> Any:
    """
    The job with an identifier or with a command; false if there is none.

    CLI Example::

        salt '*' cron.get_entry root identifier=task1
    """
    if identifier and cmd:
        log.warning("Both identifier and cmd are specified. Only using identifier.")
        cmd = None
    tab = list_tab(user)
    for job in tab["crons"] + tab["special"]:
        if (identifier and job["identifier"] == identifier) or (cmd and job["cmd"] == cmd):
            return job
    return False


def set_special(
    user: str,
    special: str,
    cmd: str,
    commented: bool = False,
    comment: str | None = None,
    identifier: Any = None,
) -> Any:
    """
    A job at C{@reboot}, C{@daily} and so on: C{new}, C{updated}, C{present}, or an error.

    CLI Example::

        salt '*' cron.set_special root @hourly 'echo foobar'
    """
    return _set(user, {"spec": special}, cmd, commented, comment, identifier)


def set_job(
    user: str,
    minute: Any,
    hour: Any,
    daymonth: Any,
    month: Any,
    dayweek: Any,
    cmd: str,
    commented: bool = False,
    comment: str | None = None,
    identifier: Any = None,
) -> Any:
    """
    A job at a time: C{new}, C{updated}, C{present}, or an error. Parts may be C{random}.

    CLI Example::

        salt '*' cron.set_job root '*' '*' '*' '*' 1 /usr/local/weekly
    """
    times = dict(zip(_TIMES, (minute, hour, daymonth, month, dayweek), strict=True))
    when = {key: str(value).lower() for key, value in times.items()}
    return _set(user, when, cmd, commented, comment, identifier)


def _set(
    user: str,
    when: dict[str, Any],
    cmd: str,
    commented: bool,
    comment: str | None,
    identifier: Any,
) -> Any:
    tab = list_tab(user)
    for job in tab["crons"] + tab["special"]:
        if not _matches(job, cmd, identifier):
            continue
        wanted = {key: when.get(key) for key in (*_TIMES, "spec")}
        changed = (
            _differs(job["comment"], comment)
            or _differs(job["commented"], commented)
            or _differs(identifier, _id_of(job))
            or _differs(job["cmd"], cmd)
            or any(_differs(job.get(key), value) for key, value in wanted.items())
        )
        if not changed:
            return "present"
        own: Any = _id_of(job)
        (rm_special if "spec" in job else rm_job)(user, cmd, identifier=own)
        for key in when:
            if not _differs(job.get(key), when[key]):
                when[key] = job.get(key)
        if not _differs(job["commented"], commented):
            commented = job["commented"]
        if not _differs(job["comment"], comment):
            comment = job["comment"]
        if not _differs(job["cmd"], cmd) and own == SALT_CRON_NO_IDENTIFIER:
            own = identifier or None
        if not own or not _differs(own, identifier):
            identifier = own
        answer = _set(user, when, cmd, commented, comment, identifier)
        return "updated" if answer == "new" else answer
    job = {"cmd": cmd, "identifier": identifier, "comment": comment, "commented": commented}
    if "spec" in when:
        tab["special"].append({**when, **job})
    else:
        tab["crons"].append({**job, **_get_cron_date_time(**when)})
    return _save(user, tab, "new")


def _get_cron_date_time(**kwargs: Any) -> dict[str, str]:
    """The parts of a time with C{random} and C{a:b} (random in a range) drawn."""
    ranges = {"minute": (0, 59), "hour": (0, 23), "month": (1, 12), "dayweek": (0, 6)}
    found: dict[str, str] = {}
    for key, (low, high) in ranges.items():
        value = str(kwargs.get(key, "1")).lower()
        if value == "random":
            value = str(random.randint(low, high))
        elif value.count(":") == 1:
            first, last = sorted(value.split(":"))
            value = str(random.randint(int(first), int(last)))
        found[key] = value
    days = 28
    if found["month"] in ("1", "3", "5", "7", "8", "10", "12"):
        days = 31
    elif found["month"] in ("4", "6", "9", "11"):
        days = 30
    daymonth = str(kwargs.get("daymonth", "1")).lower()
    found["daymonth"] = str(random.randint(1, days)) if daymonth == "random" else daymonth
    return found


def rm_special(user: str, cmd: str, special: str | None = None, identifier: Any = None) -> Any:
    """
    Remove a job of C{@daily} and its kin: C{removed}, C{absent}, or an error.

    CLI Example::

        salt '*' cron.rm_special root /usr/bin/foo
    """
    tab = list_tab(user)
    for job in tab["special"]:
        if _matches(job, cmd, identifier) and (special is None or job["spec"] == special):
            tab["special"].remove(job)
            return _save(user, tab, "removed")
    return _save(user, tab, "absent")


def rm_job(
    user: str,
    cmd: str,
    minute: Any = None,
    hour: Any = None,
    daymonth: Any = None,
    month: Any = None,
    dayweek: Any = None,
    identifier: Any = None,
) -> Any:
    """
    Remove a job, if times are given only with these: C{removed}, C{absent}, or an error.

    CLI Example::

        salt '*' cron.rm_job root /usr/local/weekly
        salt '*' cron.rm_job root /usr/bin/foo dayweek=1
    """
    times = dict(zip(_TIMES, (minute, hour, daymonth, month, dayweek), strict=True))
    tab = list_tab(user)
    for job in tab["crons"]:
        if _matches(job, cmd, identifier) and _at(job, times):
            tab["crons"].remove(job)
            return _save(user, tab, "removed")
    return "absent"


def _at(job: dict[str, Any], times: dict[str, Any]) -> bool:
    return all(
        value is None
        or job[key] == str(value)
        or (str(value).lower() == "random" and job[key] != "*")
        for key, value in times.items()
    )


rm = rm_job


def set_env(user: str, name: str, value: Any = None) -> Any:
    """
    Set a variable of a user's table: C{new}, C{updated}, C{present}, or an error.

    CLI Example::

        salt '*' cron.set_env root MAILTO user@example.com
    """
    tab = list_tab(user)
    for env in tab["env"]:
        if env["name"] == name:
            if env["value"] == value:
                return "present"
            rm_env(user, name)
            answer = set_env(user, name, value)
            return "updated" if answer == "new" else answer
    tab["env"].append({"name": name, "value": value})
    return _save(user, tab, "new")


def rm_env(user: str, name: str) -> Any:
    """
    Remove a variable from a user's table: C{removed}, C{absent}, or an error.

    CLI Example::

        salt '*' cron.rm_env root MAILTO
    """
    tab = list_tab(user)
    found = [at for at, env in enumerate(tab["env"]) if env["name"] == name]
    if found:
        del tab["env"][found[-1]]
    return _save(user, tab, "removed" if found else "absent")
