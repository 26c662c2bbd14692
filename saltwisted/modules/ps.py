"""
Processes and the machine's use, by python3-psutil, which must be installed.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    CommandNotFoundError,
    SaltInvocationError,
)

try:
    psutil: Any = importlib.import_module("psutil")
except ImportError:
    psutil = None

__salt__: dict[str, Any]


def __virtual__() -> Any:
    if psutil is None:
        return False, "The ps module cannot be loaded: python module psutil not installed."
    return True


def _asked(ask: Callable[[], Any], default: Any = None) -> Any:
    """What a process says; the default if it is gone, or may not be asked."""
    try:
        return ask()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, KeyError):
        return default


def _line(proc: Any, full: bool) -> Any:
    """A process' command line, or its name."""
    return " ".join(_asked(proc.cmdline, [])) if full else _asked(proc.name, "")


def _used(proc: Any) -> float:
    user, system = proc.cpu_times()[:2]
    return float(user + system)


def _starts() -> Iterator[tuple[Any, float]]:
    """All processes, and how much time each has used."""
    for pid in psutil.pids():
        try:
            proc = psutil.Process(pid)
        except psutil.NoSuchProcess:
            continue
        try:
            yield proc, _used(proc)
        except psutil.ZombieProcess:
            yield proc, 0.0
        except psutil.NoSuchProcess:
            continue


def top(num_processes: int = 5, interval: float = 3) -> list[dict[str, Any]]:
    """
    The processes that used most of the processor for some seconds.

    CLI Example::

        salt '*' ps.top
        salt '*' ps.top 5 10
    """
    starts = list(_starts())
    time.sleep(interval)
    usage = []
    for proc, start in starts:
        try:
            usage.append((_used(proc) - start, proc))
        except psutil.NoSuchProcess:
            continue
    found: list[dict[str, Any]] = []
    for _used_now, proc in sorted(usage, key=lambda pair: pair[0], reverse=True):
        info = {
            "cmd": _asked(proc.cmdline, []) or _asked(proc.name, []),
            "user": _asked(proc.username),
            "status": _asked(proc.status),
            "pid": proc.pid,
            "create_time": _asked(proc.create_time),
        }
        try:
            info["cpu"] = dict(proc.cpu_times()._asdict())
            info["mem"] = dict(proc.memory_info()._asdict())
        except psutil.NoSuchProcess:
            continue
        found.append(info)
        if len(found) >= num_processes:
            break
    return found


def get_pid_list() -> list[int]:
    """
    The numbers of all processes.

    CLI Example::

        salt '*' ps.get_pid_list
    """
    return list(psutil.pids())


def proc_info(pid: int, attrs: list[str] | None = None) -> dict[str, Any]:
    """
    Facts about a process.

    @param attrs: which ones, by psutil's names.

    CLI Example::

        salt '*' ps.proc_info 2322 attrs='["pid", "name"]'
    """
    try:
        return dict(psutil.Process(pid).as_dict(attrs))
    except (psutil.NoSuchProcess, psutil.AccessDenied, AttributeError) as error:
        raise CommandExecutionError(error) from error


def kill_pid(pid: int, signal: int = 15) -> bool:
    """
    Send a signal to a process; whether it is there.

    CLI Example::

        salt 'minion' ps.kill_pid 2000 signal=9
    """
    try:
        psutil.Process(pid).send_signal(signal)
    except psutil.NoSuchProcess:
        return False
    return True


def _matching(is_match: Callable[[Any], Any], user: str | None, full: bool) -> Iterable[Any]:
    for proc in psutil.process_iter():
        if is_match(_line(proc, full)) and user in (None, _asked(proc.username)):
            yield proc


def pkill(
    pattern: str, user: str | None = None, signal: int = 15, full: bool = False
) -> dict[str, list[int]] | None:
    """
    Send a signal to all processes whose name has a text in it.

    @param full: look at the whole command line.

    CLI Example::

        salt '*' ps.pkill httpd signal=15
    """
    killed = []
    for proc in _matching(lambda line: pattern in line, user, full):
        try:
            proc.send_signal(signal)
            killed.append(proc.pid)
        except psutil.NoSuchProcess:
            continue
    return {"killed": killed} if killed else None


def pgrep(
    pattern: str, user: str | None = None, full: bool = False, pattern_is_regex: bool = False
) -> list[int] | None:
    """
    The numbers of all processes whose name has a text in it.

    @param full: look at the whole command line.
    @param pattern_is_regex: the text is a regular expression.

    CLI Example::

        salt '*' ps.pgrep httpd
    """
    is_match: Callable[[Any], Any] = lambda line: pattern in line  # noqa: E731
    if pattern_is_regex:
        is_match = re.compile(str(pattern)).search
    return [proc.pid for proc in _matching(is_match, user, full)] or None


def cpu_percent(interval: float = 0.1, per_cpu: bool = False) -> Any:
    """
    How busy the processors are.

    CLI Example::

        salt '*' ps.cpu_percent
    """
    return list(psutil.cpu_percent(interval, True)) if per_cpu else psutil.cpu_percent(interval)


def cpu_times(per_cpu: bool = False) -> Any:
    """
    What the processors did, in seconds.

    CLI Example::

        salt '*' ps.cpu_times
    """
    if per_cpu:
        return [dict(times._asdict()) for times in psutil.cpu_times(True)]
    return dict(psutil.cpu_times(per_cpu)._asdict())


def virtual_memory() -> dict[str, Any]:
    """
    Use of the memory, in bytes.

    CLI Example::

        salt '*' ps.virtual_memory
    """
    return dict(psutil.virtual_memory()._asdict())


def swap_memory() -> dict[str, Any]:
    """
    Use of the swap space, in bytes.

    CLI Example::

        salt '*' ps.swap_memory
    """
    return dict(psutil.swap_memory()._asdict())


def disk_partitions(all: bool = False) -> list[dict[str, Any]]:
    """
    What is mounted.

    @param all: also what is no disk.

    CLI Example::

        salt '*' ps.disk_partitions
    """
    return [dict(each._asdict()) for each in psutil.disk_partitions(all)]


def disk_usage(path: str) -> dict[str, Any]:
    """
    Use of the file system of a path, in bytes.

    CLI Example::

        salt '*' ps.disk_usage /home
    """
    return dict(psutil.disk_usage(path)._asdict())


def disk_partition_usage(all: bool = False) -> list[dict[str, Any]]:
    """
    What is mounted, and its use.

    CLI Example::

        salt '*' ps.disk_partition_usage
    """
    return [{**each, **disk_usage(each["mountpoint"])} for each in disk_partitions(all)]


def total_physical_memory() -> int:
    """
    The memory, in bytes.

    CLI Example::

        salt '*' ps.total_physical_memory
    """
    return int(psutil.virtual_memory().total)


def num_cpus() -> int:
    """
    How many processors there are.

    CLI Example::

        salt '*' ps.num_cpus
    """
    return int(psutil.cpu_count())


def boot_time(time_format: str | None = None) -> Any:
    """
    When the machine started, as a time stamp or in a format.

    CLI Example::

        salt '*' ps.boot_time "%Y-%m-%d %H:%M"
    """
    started = int(psutil.boot_time())
    if not time_format:
        return started
    try:
        return datetime.datetime.fromtimestamp(started).strftime(time_format)
    except TypeError as error:
        raise SaltInvocationError(f"Invalid format string: {error}") from error


def _counters(all_of: Callable[..., Any], one: str | None, **words: bool) -> Any:
    if not one:
        return dict(all_of()._asdict())
    each = all_of(**words)
    return dict(each[one]._asdict()) if one in each else False


def network_io_counters(interface: str | None = None) -> Any:
    """
    What the network, or one interface, has carried.

    CLI Example::

        salt '*' ps.network_io_counters interface=eth0
    """
    return _counters(psutil.net_io_counters, interface, pernic=True)


def disk_io_counters(device: str | None = None) -> Any:
    """
    What the disks, or one of them, have read and written.

    CLI Example::

        salt '*' ps.disk_io_counters device=sda1
    """
    return _counters(psutil.disk_io_counters, device, perdisk=True)


def get_users() -> list[dict[str, Any]]:
    """
    Who is logged in.

    CLI Example::

        salt '*' ps.get_users
    """
    return [dict(each._asdict()) for each in psutil.users()]


def lsof(name: str) -> list[Any]:
    """
    The open files of the processes of this name.

    CLI Example::

        salt '*' ps.lsof apache2
    """
    return [str(name), __salt__["cmd.run"](["lsof", "-c", str(name)], python_shell=False)]


def _lines_with(program: str, options: str, text: str) -> list[str]:
    if systools.which(program) is None:
        raise CommandNotFoundError(f"The '{program}' binary was not found in $PATH.")
    lines = __salt__["cmd.run"]([program, options], python_shell=False).splitlines()
    return [line for line in lines if text in line]


def netstat(name: str) -> list[Any]:
    """
    The lines of netstat with a text in them.

    CLI Example::

        salt '*' ps.netstat apache2
    """
    return [str(name), _lines_with("netstat", "-nap", str(name))]


def ss(name: str) -> list[Any]:
    """
    The lines of ss with a text in them.

    CLI Example::

        salt '*' ps.ss apache2
    """
    return [str(name), _lines_with("ss", "-neap", str(name))]


def psaux(name: str) -> list[Any]:
    """
    The lines of C{ps aux} that match, and how many they are.

    CLI Example::

        salt '*' ps.psaux www-data.+apache2
    """
    own = re.compile("salt.+ps.psaux.+")
    lines = __salt__["cmd.run"]("ps aux").splitlines()
    found = [line for line in lines if re.search(str(name), line) and not own.search(line)]
    return [str(name), found, f"{len(found)} occurrence(s)."]


def status(status: str) -> list[dict[str, Any]]:
    """
    The processes of a status, such as C{sleeping} or C{zombie}.

    CLI Example::

        salt '*' ps.status STATUS
    """
    if not status:
        raise SaltInvocationError("Filter is required for ps.status")
    found = []
    try:
        for proc in psutil.process_iter(["pid", "name", "status"]):
            if proc.info["status"] == status:
                info = _asked(functools.partial(proc.as_dict, ("pid", "name")))
                found += [] if info is None else [info]
    except (psutil.AccessDenied, psutil.NoSuchProcess) as error:
        raise CommandExecutionError("Psutil did not return a list of processes") from error
    return found
