"""
The jobs of this minion, for C{saltutil}.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import shutil
import signal
import time
from typing import Any

from saltwisted.modules import _process

log = logging.getLogger(__name__)

__opts__: Any


_ENDS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)


def running() -> list[dict[str, Any]]:
    """
    The jobs that run now, but for the one that asks.

    CLI Example::

        salt '*' saltutil.running
    """
    from saltwisted.worker import jobfiles

    found = []
    for path, data in jobfiles.read_procs(__opts__["cachedir"]):
        if data["pid"] == os.getpid():
            continue
        if jobfiles.is_job_process(data["pid"], str(data.get("jid", ""))):
            found.append(data)
        else:
            # Its process is gone, or the number belongs to a stranger now.
            jobfiles.remove_quietly(path)
    return found


def is_running(fun: str) -> list[dict[str, Any]]:
    """
    The running jobs whose function fits a glob.

    CLI Example::

        salt '*' saltutil.is_running state.highstate
    """
    return [
        data
        for data in running()
        if any(
            fnmatch.fnmatch(name, fun)
            for name in (
                data["fun"] if isinstance(data.get("fun"), list) else [data.get("fun", "")]
            )
        )
    ]


def find_job(jid: Any) -> dict[str, Any]:
    """
    A running job, or an empty map.

    CLI Example::

        salt '*' saltutil.find_job <job id>
    """
    wanted = str(jid)
    for data in running():
        if data.get("jid") == wanted:
            return data
    return {}


def find_cached_job(jid: Any) -> Any:
    """
    The return of an earlier job, if the option C{cache_jobs} keeps them.

    CLI Example::

        salt '*' saltutil.find_cached_job <job id>
    """
    from saltwisted.wire.msgpack import unpack
    from saltwisted.worker import jobfiles

    jid = str(jid)
    folder = os.path.join(__opts__["cachedir"], "minion_jobs", jid)
    if not jobfiles.valid_jid(jid) or not os.path.isdir(folder):
        if not __opts__.get("cache_jobs"):
            return (
                "Local jobs cache directory not found; you may need to enable cache_jobs "
                "on this minion"
            )
        return f"Local jobs cache directory {folder} not found"
    with open(os.path.join(folder, "return.p"), "rb") as file:
        data = unpack(file.read())
    return data if isinstance(data, dict) else None


def signal_job(jid: Any, sig: Any) -> str:
    """
    Send a signal to the process of a job and to all that it started.

    CLI Example::

        salt '*' saltutil.signal_job <job id> 15
    """
    from saltwisted.worker import jobfiles

    wanted, number = str(jid), int(sig)
    for data in running():
        if data.get("jid") != wanted:
            continue
        pid = data["pid"]
        try:
            if number in _ENDS:
                jobfiles.note_signal(__opts__["cachedir"], data, number)
            for child in _process.descendants(pid):
                try:
                    os.kill(child, number)
                except ProcessLookupError:
                    pass
            os.kill(pid, number)
        except OSError:
            path = os.path.join(__opts__["cachedir"], "proc", wanted)
            if os.path.isfile(path):
                os.remove(path)
            return f"Job {wanted} was not running and job data has been cleaned up"
        return f"Signal {number} sent to job {wanted} at pid {pid}"
    return ""


def term_job(jid: Any) -> str:
    """
    Ask a job to end (SIGTERM).

    CLI Example::

        salt '*' saltutil.term_job <job id>
    """
    return signal_job(jid, signal.SIGTERM)


def term_all_jobs() -> list[str]:
    """
    Ask all jobs to end.

    CLI Example::

        salt '*' saltutil.term_all_jobs
    """
    return [signal_job(data["jid"], signal.SIGTERM) for data in running()]


def kill_job(jid: Any) -> str:
    """
    End a job at once (SIGKILL).

    CLI Example::

        salt '*' saltutil.kill_job <job id>
    """
    return signal_job(jid, signal.SIGKILL)


def kill_all_jobs() -> list[str]:
    """
    End all jobs at once.

    CLI Example::

        salt '*' saltutil.kill_all_jobs
    """
    return [signal_job(data["jid"], signal.SIGKILL) for data in running()]


def clear_job_cache(hours: Any = 24) -> bool:
    """
    Remove kept returns (C{cache_jobs}) older than some hours.

    CLI Example::

        salt '*' saltutil.clear_job_cache hours=12
    """
    limit = time.time() - float(hours) * 3600
    base = os.path.join(__opts__["cachedir"], "minion_jobs")
    try:
        names = os.listdir(base)
    except FileNotFoundError:
        return True
    for name in names:
        path = os.path.join(base, name)
        try:
            if os.path.isdir(path) and os.path.getmtime(path) < limit:
                shutil.rmtree(path)
        except OSError as error:
            log.error("Attempt to clear cache with saltutil.clear_job_cache FAILED with: %s", error)
            return False
    return True
