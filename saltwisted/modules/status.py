"""
How the machine is: load, memory, processors, disks, network counters, processes.

Everything comes from C{/proc}; C{ps}, C{w} and C{who} are run where Salt's answer is their text.
"""

from __future__ import annotations

import datetime
import fnmatch
import logging
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.grains import netinfo

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__opts__: dict[str, Any]
__daemon__: Any

__virtualname__ = "status"
__func_alias__ = {"time_": "time"}


def __virtual__() -> str:
    return __virtualname__


def _number(text: str) -> Any:
    """An integer, else a float, else the text."""
    if text.isdigit():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _lines(path: str) -> Iterator[list[str]]:
    """The words of each line that is not empty; nothing if there is no such file."""
    for line in systools.read_text(path).splitlines():
        if line:
            yield line.split()


def procs() -> dict[str, dict[str, str]]:
    """
    Process id to C{user} and C{cmd}, from the command of the C{ps} grain.

    CLI Example::

        salt '*' status.procs
    """
    lines = __salt__["cmd.run"](__grains__["ps"], python_shell=True).splitlines()
    head = lines.pop(0).split()

    def column(*names: str) -> int:
        return next((head.index(name) for name in names if name in head), 0)

    user, number, command = column("USER", "UID"), column("PID"), column("COMMAND", "CMD")
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        words = line.split()
        if words:
            found[words[number]] = {"user": words[user], "cmd": " ".join(words[command:])}
    return found


def custom() -> dict[str, Any]:
    """
    What the options C{status.FUNCTION.custom} ask for: some fields of other functions.

    CLI Example::

        salt '*' status.custom
    """
    found: dict[str, Any] = {}
    for key, fields in __salt__["config.dot_vals"]("status").items():
        name = key.rpartition(".")[0]
        if name == "status.custom":
            continue
        if name not in __salt__:
            log.warning("custom status %s isn't loaded", name)
            continue
        values = __salt__[name]()
        for field in fields:
            if field not in values:
                log.warning("val %s not in return of %s", field, name)
            found[field] = values.get(field, "UNKNOWN")
    return found


def uptime() -> dict[str, Any]:
    """
    Since when the system runs, in several spellings, and how many users are logged in.

    CLI Example::

        salt '*' status.uptime
    """
    now = time.time()
    path = "/proc/uptime"
    if not os.path.exists(path):
        raise CommandExecutionError(f"File {path} was not found.")
    seconds = int(float(systools.read_text(path).split()[0]))
    start = datetime.datetime.fromtimestamp(now - seconds, datetime.UTC).replace(tzinfo=None)
    span = datetime.datetime.fromtimestamp(now, datetime.UTC).replace(tzinfo=None) - start
    found = {
        "seconds": seconds,
        "since_iso": start.isoformat(),
        "since_t": int(now - seconds),
        "days": span.days,
        "time": f"{span.seconds // 3600}:{span.seconds % 3600 // 60}",
    }
    if systools.which("who"):
        found["users"] = len(__salt__["cmd.run"]("who -s").split(os.linesep))
    return found


def loadavg() -> dict[str, float]:
    """
    The load averages of one, five and fifteen minutes.

    CLI Example::

        salt '*' status.loadavg
    """
    one, five, fifteen = os.getloadavg()
    return {"1-min": one, "5-min": five, "15-min": fifteen}


def cpustats() -> dict[str, Any]:
    """
    The counters of C{/proc/stat}.

    CLI Example::

        salt '*' status.cpustats
    """
    order = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    found: dict[str, Any] = {}
    for name, *rest in _lines("/proc/stat"):
        numbers = [_number(word) for word in rest]
        if name == "cpu":
            found[name] = dict(sorted(zip(order, numbers, strict=False)))
        elif name == "intr":
            found[name] = {"total": numbers[0], "irqs": numbers[1:]}
        elif name == "softirq":
            found[name] = {"total": numbers[0], "softirqs": numbers[1:]}
        else:
            found[name] = numbers[0]
    return found


def meminfo() -> dict[str, dict[str, str]]:
    """
    The fields of C{/proc/meminfo} with C{value} and, where there is one, C{unit}.

    CLI Example::

        salt '*' status.meminfo
    """
    found: dict[str, dict[str, str]] = {}
    for name, value, *unit in _lines("/proc/meminfo"):
        entry = {"value": value}
        if unit:
            entry["unit"] = unit[0]
        found[name.replace(":", "")] = entry
    return found


def cpuinfo() -> dict[str, Any]:
    """
    The fields of C{/proc/cpuinfo}, of the last processor.

    CLI Example::

        salt '*' status.cpuinfo
    """
    found: dict[str, Any] = {}
    for line in systools.read_text("/proc/cpuinfo").splitlines():
        if not line:
            continue
        parts = line.split(":")
        name = parts[0].strip()
        found[name] = parts[1].split() if name == "flags" else parts[1].strip()
    return found


_DISK_FIELDS = (
    "major",
    "minor",
    "device",
    "reads_issued",
    "reads_merged",
    "sectors_read",
    "ms_spent_reading",
    "writes_completed",
    "writes_merged",
    "sectors_written",
    "ms_spent_writing",
    "io_in_progress",
    "ms_spent_in_io",
    "weighted_ms_spent_in_io",
)


def diskstats() -> dict[str, dict[str, Any]]:
    """
    The counters of C{/proc/diskstats} by device.

    CLI Example::

        salt '*' status.diskstats
    """
    return {
        words[2]: {field: _number(word) for field, word in zip(_DISK_FIELDS, words, strict=False)}
        for words in _lines("/proc/diskstats")
    }


def diskusage(*args: str) -> dict[str, dict[str, int | None]]:
    """
    C{total} and C{available} bytes of mounted file systems.

    Arguments are paths (from C{/}) or types of file systems, which may have wildcards; without
    any, all that are mounted.

    CLI Example::

        salt '*' status.diskusage
        salt '*' status.diskusage / ext4 'xfs*'
    """
    selected = {arg for arg in args if arg.startswith("/")}
    kinds = [arg for arg in args if not arg.startswith("/")] or ([] if args else ["*"])
    if kinds:
        pattern = re.compile("|".join(fnmatch.translate(kind) for kind in kinds))
        for words in _lines("/proc/mounts"):
            if len(words) >= 3 and pattern.match(words[2]):
                selected.add(words[1])
    found: dict[str, dict[str, int | None]] = {}
    for path in selected:
        if not os.path.exists(path):
            continue
        try:
            numbers = os.statvfs(path)
        except OSError as error:
            log.warning("Cannot get stats from '%s': %s", path, error)
            found[path] = {"available": None, "total": None}
            continue
        block = numbers.f_bsize
        found[path] = {"available": numbers.f_bavail * block, "total": numbers.f_blocks * block}
    return found


def vmstats() -> dict[str, Any]:
    """
    The counters of C{/proc/vmstat}.

    CLI Example::

        salt '*' status.vmstats
    """
    return {words[0]: _number(words[1]) for words in _lines("/proc/vmstat")}


def nproc() -> int:
    """
    How many processors this process may use.

    CLI Example::

        salt '*' status.nproc
    """
    return len(os.sched_getaffinity(0))


def netstats() -> dict[str, dict[str, Any]]:
    """
    The counters of C{/proc/net/netstat} by group; like Salt, without the last of each group.

    CLI Example::

        salt '*' status.netstats
    """
    found: dict[str, dict[str, Any]] = {}
    head = [""]
    for words in _lines("/proc/net/netstat"):
        if words[0] != head[0]:
            head = words
            continue
        found[words[0].replace(":", "")] = {
            name: _number(value) for name, value in zip(head[1:-1], words[1:-1], strict=False)
        }
    return found


_NETDEV_FIELDS = (
    "rx_bytes",
    "rx_packets",
    "rx_errs",
    "rx_drop",
    "rx_fifo",
    "rx_frame",
    "rx_compressed",
    "rx_multicast",
    "tx_bytes",
    "tx_packets",
    "tx_errs",
    "tx_drop",
    "tx_fifo",
    "tx_colls",
    "tx_carrier",
    "tx_compressed",
)


def netdev() -> dict[str, dict[str, Any]]:
    """
    The counters of C{/proc/net/dev} by interface.

    CLI Example::

        salt '*' status.netdev
    """
    found: dict[str, dict[str, Any]] = {}
    for line in systools.read_text("/proc/net/dev").splitlines():
        name, colon, rest = line.partition(":")
        if colon:
            numbers = (_number(word) for word in rest.split())
            entry = dict(zip(_NETDEV_FIELDS, numbers, strict=False))
            found[name.strip()] = {"iface": name.strip(), **dict(sorted(entry.items()))}
    return found


def w() -> list[dict[str, str]]:
    """
    Who is logged in, and what they do.

    CLI Example::

        salt '*' status.w
    """
    fields = ("user", "tty", "login", "idle", "jcpu", "pcpu")
    rows = []
    for line in __salt__["cmd.run"]("w -fh").splitlines():
        words = line.split()
        if words:
            row = dict(zip(fields, words, strict=False))
            rows.append({**row, "what": " ".join(words[6:])})
    return rows


def all_status() -> dict[str, Any]:
    """
    All of the above at once.

    CLI Example::

        salt '*' status.all_status
    """
    return {
        "cpuinfo": cpuinfo(),
        "cpustats": cpustats(),
        "diskstats": diskstats(),
        "diskusage": diskusage(),
        "loadavg": loadavg(),
        "meminfo": meminfo(),
        "netdev": netdev(),
        "netstats": netstats(),
        "uptime": uptime(),
        "vmstats": vmstats(),
        "w": w(),
    }


def pid(sig: str) -> str:
    """
    Process ids whose line in C{ps} matches a regular expression, one per line.

    CLI Example::

        salt '*' status.pid 'nginx: master'
    """
    own = str(os.getpid())
    output = __salt__["cmd.run_stdout"](__grains__["ps"], python_shell=True)
    return "\n".join(
        line.split()[1] for line in output.splitlines() if own not in line and re.search(sig, line)
    )


def version() -> Any:
    """
    The text of C{/proc/version}.

    CLI Example::

        salt '*' status.version
    """
    text = systools.read_text("/proc/version", default="\0")
    return {} if text == "\0" else text.strip()


def master(master: str | None = None, connected: bool = True) -> bool | None:
    """
    Whether there is a connection to this master's publish port.

    If that is not what C{connected} says, C{__master_connected} or C{__master_disconnected} is
    fired on the minion's bus. Without a master, or one whose name is unknown: C{None}.

    CLI Example::

        salt '*' status.master master=salt.example.org
    """
    addresses = netinfo.host_to_ips(master) if master else None
    if not addresses:
        return None
    port = int(__salt__["config.get"]("publish_port", default=4505))
    there = netinfo.remotes(port)
    up = any(address in there for address in addresses)
    if up is not connected and __daemon__ is not None:
        tag = "__master_connected" if up else "__master_disconnected"
        __daemon__.call("fire_event", tag=tag, data={"master": master})
    return up


def ping_master(master: str | None) -> bool:
    """
    Whether this master answers a ping within C{auth_timeout}.

    If so, C{__master_failback} is fired on the minion's bus.

    @param master: a name or address, with a port behind a colon if it is not C{master_port}.

    CLI Example::

        salt '*' status.ping_master salt.example.org
    """
    from saltwisted.modules import _ping

    if not master:
        return False
    host, port = _host_and_port(str(master))
    timeout = float(__opts__.get("auth_timeout") or 60)
    transport = str(__opts__.get("transport") or "zeromq")
    if not host or not _ping.answers(host, port, transport, timeout):
        return False
    if __daemon__ is not None:
        __daemon__.call("fire_event", tag="__master_failback", data={"master": master})
    return True


def _host_and_port(master: str) -> tuple[str, int]:
    """C{host}, C{host:port}, C{[::1]:port} or an address; no host if it is none of them."""
    usual = int(__opts__.get("master_port") or 4506)
    match = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]*)(?::(\d+))?|([0-9A-Fa-f:.]+)", master)
    if match is None:
        return "", usual
    port = int(match[2] or match[4] or usual)
    return match[1] or match[3] or match[5] or "", port if 0 < port < 65536 else usual


def proxy_reconnect(proxy_name: str, opts: Any = None) -> bool:
    """
    Always false: this minion drives no proxies.

    CLI Example::

        salt '*' status.proxy_reconnect rest_sample
    """
    return False


def time_(format: str = "%A, %d. %B %Y %I:%M%p") -> str:
    """
    The local time in a format of C{strftime}.

    CLI Example::

        salt '*' status.time
        salt '*' status.time '%s'
    """
    return datetime.datetime.now().strftime(format)
