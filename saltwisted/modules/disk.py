"""
How full file systems are, and what block devices say of themselves.
"""

from __future__ import annotations

import logging
import os
import re
from decimal import Decimal
from typing import Any

from saltwisted.modules._system import needs
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

__func_alias__ = {"format_": "format"}

_DF_FLAGS = frozenset("aBhHiklPtTxv")


def _flags(args: Any, caller: str) -> str:
    if args is None:
        return ""
    for flag in args:
        if flag not in _DF_FLAGS:
            raise CommandExecutionError(f"Invalid flag passed to {caller}")
    return "".join(args)


def _df(output: str) -> list[list[str]]:
    """The rows of C{df}, names with blanks put together again."""
    rows = []
    begun = ""
    for line in output.splitlines():
        if not line or line.startswith("Filesystem"):
            continue
        words = f"{begun} {line}".split()
        if len(words) == 1:
            begun = line
            continue
        begun = ""
        while len(words) >= 2 and not words[1].isdigit():
            words[0:2] = [f"{words[0]} {words[1]}"]
        if len(words) >= 2:
            rows.append(words)
    return rows


def usage(args: Any = None) -> dict[str, dict[str, str]]:
    """
    Mount point to C{filesystem}, C{1K-blocks}, C{used}, C{available}, C{capacity}.

    @param args: flags for C{df}.

    CLI Example::

        salt '*' disk.usage
    """
    flags = _flags(args, "disk.usage")
    if not os.path.isfile("/etc/mtab") and not os.path.exists("/proc/self/mounts"):
        log.error("df cannot run without /etc/mtab")
        return {}
    command = ["df", "-P", *([f"-{flags}"] if flags else [])]
    fields = ("filesystem", "1K-blocks", "used", "available", "capacity")
    found: dict[str, dict[str, str]] = {}
    for words in _df(__salt__["cmd.run"](command, python_shell=False)):
        if len(words) < 6:
            log.error("Problem parsing disk usage information")
            found = {}
            continue
        found[words[5]] = dict(zip(fields, words, strict=False))
    return found


def inodeusage(args: Any = None) -> dict[str, dict[str, str]]:
    """
    Mount point to C{inodes}, C{used}, C{free}, C{use}, C{filesystem}.

    CLI Example::

        salt '*' disk.inodeusage
    """
    flags = _flags(args, "disk.inodeusage")
    command = ["df", "-iP", *([f"-{flags}"] if flags else [])]
    fields = ("filesystem", "inodes", "used", "free", "use")
    found: dict[str, dict[str, str]] = {}
    for line in __salt__["cmd.run"](command, python_shell=False).splitlines():
        words = line.split()
        if not words or line.startswith("Filesystem"):
            continue
        if len(words) < 6:
            log.error("Problem parsing inode usage information")
            found = {}
            continue
        found[words[5]] = dict(zip(fields, words, strict=False))
    return found


def percent(args: Any = None) -> Any:
    """
    Mount point to its use in percent, or the one of a single mount point.

    CLI Example::

        salt '*' disk.percent
        salt '*' disk.percent /var
    """
    found: dict[str, str] = {}
    for words in _df(__salt__["cmd.run"]("df -P", python_shell=False)):
        if len(words) < 6:
            log.error("Problem parsing disk usage information")
            found = {}
            continue
        found[words[5]] = words[4]
    if not args:
        return found
    if args not in found:
        log.error("Problem parsing disk usage information: Partition '%s' does not exist!", args)
        return {}
    return found[args]


@needs("blkid")
def blkid(device: str | None = None, token: str | None = None) -> dict[str, dict[str, str]]:
    """
    The attributes of block devices: of all, of one, or of those with C{NAME=value}.

    CLI Example::

        salt '*' disk.blkid
        salt '*' disk.blkid /dev/sda
        salt '*' disk.blkid token='UUID=6a38ee5-7235-44e7-8b22-816a403bad5d'
    """
    command = ["blkid"]
    if device:
        command.append(device)
    elif token:
        command += ["-t", token]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] > 0:
        return {}
    found = {}
    for line in done["stdout"].splitlines():
        if line:
            name, _blank, rest = line.partition(" ")
            found[name[:-1]] = dict(re.findall(r'([^\s="]+)="([^"]*)"', rest))
    return found


_BLOCKDEV = {
    "read-ahead": "setra",
    "filesystem-read-ahead": "setfra",
    "read-only": "setro",
    "read-write": "setrw",
}


def tune(device: str, **kwargs: Any) -> Any:
    """
    Set C{read-ahead}, C{filesystem-read-ahead}, C{read-only}, C{read-write} of a device.

    CLI Example::

        salt '*' disk.tune /dev/sda1 read-ahead=1024 read-write=True
    """
    options: list[str] = []
    asked: list[str] = []
    wrong: dict[str, Any] = {}
    for key, value in kwargs.items():
        switch = _BLOCKDEV.get(key)
        if switch is None:
            if not key.startswith("__"):
                wrong[key] = value
            continue
        flag = key in ("read-only", "read-write")
        if flag and not (value == "True" or value is True):
            wrong[key] = value
            continue
        asked.append("getro" if key == "read-write" else switch.replace("set", "get"))
        options += [f"--{switch}"] if flag else [f"--{switch}", f"{value}"]
    if wrong:
        shown = ", ".join(f"{key}={value}" for key, value in wrong.items())
        raise SaltInvocationError(f"Invalid keyword arguments: {shown}")
    done = __salt__["cmd.run_all"](["blockdev", *options, device], python_shell=False)
    if done["retcode"] != 0:
        raise CommandExecutionError(f"{done['stderr']}")
    return dump(device, asked)


def wipe(device: str) -> bool:
    """
    Remove the signatures of file systems from a device.

    CLI Example::

        salt '*' disk.wipe /dev/sda1
    """
    done = __salt__["cmd.run_all"](["wipefs", "-a", device], python_shell=False)
    if done["retcode"] == 0:
        return True
    log.error("Error wiping device %s: %s", device, done["stderr"])
    return False


_DUMP = (
    "getro getsz getss getpbsz getiomin getioopt getalignoff getmaxsect getsize getsize64"
    " getra getfra"
)


def dump(device: str, args: Any = None) -> Any:
    """
    What C{blockdev} reports of a device; false if it fails.

    CLI Example::

        salt '*' disk.dump /dev/sda1
    """
    names = _DUMP.split()
    command = ["blockdev", *(f"--{name}" for name in names), device]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0:
        return False
    lines = [line for line in done["stdout"].splitlines() if line]
    found = dict(zip(names, lines, strict=False))
    return {name: found[name] for name in args} if args else found


def resize2fs(device: str) -> bool | None:
    """
    Make the file system as large as its device.

    CLI Example::

        salt '*' disk.resize2fs /dev/sda1
    """
    done = __salt__["cmd.run_all"](["resize2fs", device], python_shell=False)
    return True if done["retcode"] == 0 else None


@needs("sync")
@needs("mkfs")
def format_(
    device: str,
    fs_type: str = "ext4",
    inode_size: Any = None,
    lazy_itable_init: Any = None,
    fat: Any = None,
    force: bool = False,
) -> bool:
    """
    Make a file system on a device.

    @param inode_size: for ext and xfs.
    @param lazy_itable_init: for ext.
    @param fat: 12, 16 or 32, for fat.
    @param force: even if there is one already; for ext and xfs.

    CLI Example::

        salt '*' disk.format /dev/sdX1
    """
    kind = str(fs_type)
    command = ["mkfs", "-t", kind]
    extended = kind[:3] == "ext"
    if inode_size is not None:
        if extended:
            command += ["-i", str(inode_size)]
        elif kind == "xfs":
            command += ["-i", f"size={inode_size}"]
    if lazy_itable_init is not None and extended:
        command += ["-E", f"lazy_itable_init={lazy_itable_init}"]
    if fat in (12, 16, 32) and kind[-3:] == "fat":
        command += ["-F", str(fat)]
    if force:
        if extended:
            command.append("-F")
        elif kind == "xfs":
            command.append("-f")
    command.append(str(device))
    made = __salt__["cmd.retcode"](command, ignore_retcode=True, python_shell=False) == 0
    synced = __salt__["cmd.retcode"]("sync", ignore_retcode=True) == 0
    return bool(made and synced)


@needs("lsblk", "df")
def fstype(device: str) -> str:
    """
    The type of the file system on a device, or the empty string.

    CLI Example::

        salt '*' disk.fstype /dev/sdX1
    """
    for command in (["lsblk", "-o", "fstype"], ["df", "-T"]):
        if not systools.which(command[0]):
            continue
        lines = __salt__["cmd.run"]([*command, device], python_shell=False).splitlines()
        if len(lines) > 1:
            # Of df Salt gives the whole second line.
            kind = lines[1].strip() if command[0] == "lsblk" else lines[1]
            if kind:
                return str(kind)
    return ""


def get_fstype_from_path(path: str) -> str:
    """
    The type of the file system that a path is on.

    CLI Example::

        salt '*' disk.get_fstype_from_path /root
    """
    return str(fstype(__salt__["mount.get_device_from_path"](path)))


@needs("hdparm")
def _hdparm(*args: str, failhard: bool = True) -> str:
    command = ["hdparm", *args]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0:
        text = f"{' '.join(command)}: {done['stderr']}"
        if failhard:
            raise CommandExecutionError(text)
        log.warning(text)
    return str(done["stdout"])


@needs("hdparm")
def hdparms(disks: Any, args: Any = "aAbBcCdgHiJkMmNnQrRuW") -> dict[str, dict[str, Any]]:
    """
    The parameters of disks that C{hdparm} shows.

    CLI Example::

        salt '*' disk.hdparms /dev/sda
    """
    letters = "".join(args) if isinstance(args, (list, tuple)) else args
    names = list(disks) if isinstance(disks, (list, tuple)) else [disks]
    found = {}
    for name in names:
        disk = name if name.startswith("/dev") else f"/dev/{name}"
        data = {}
        for line in _hdparm(f"-{letters}", disk, failhard=False).splitlines():
            key, value = _hdparm_line(line.strip(), disk)
            if key:
                data[key] = value
        found[disk] = data
    return found


def _hdparm_line(line: str, disk: str) -> tuple[str, Any]:
    if not line or line == disk + ":":
        return "", None
    if ":" in line:
        key, text = line.split(":", 1)
        key = re.sub(r" is$", "", key)
    elif "=" in line:
        key, text = line.split("=", 1)
    else:
        return "", None
    key = key.strip().lower().replace(" ", "_")
    text = text.strip()
    values: list[Any] = []
    if re.match(r"[0-9]+ \(.*\)", text):
        words = text.split(" ")
        return key, [int(words[0]), words[1].strip("()")]
    named: dict[str, Any] = {}
    for part in re.split(r"[/,]", text):
        word = part.strip()
        try:
            values.append(int(word))
            continue
        except ValueError:
            pass
        if "=" in word:
            name, value = word.split("=", 1)
            if value.strip():
                named[name.strip()] = value.strip()
        elif word:
            values.append(word)
    if named:
        values.append(named)
    if not values:
        return "", None
    return key, values[0] if len(values) == 1 else values


@needs("hdparm")
def hpa(disks: Any, size: Any = None) -> Any:
    """
    The host protected area of disks; with C{size} (sectors, or C{N%}) it is set.

    CLI Example::

        salt '*' disk.hpa /dev/sda
        salt '*' disk.hpa /dev/sda 5%
    """
    found: dict[str, dict[str, Any]] = {}
    for disk, data in hdparms(disks, "N").items():
        visible, total, status = next(iter(data.values()))
        found[disk] = {"total": total}
        if visible != total and "disabled" not in status:
            found[disk].update(visible=visible, hidden=total - visible)
    if size is None:
        return found
    for disk, numbers in found.items():
        total = numbers["total"]
        if isinstance(size, str) and "%" in size:
            wanted = (100 - int(size.strip("%"))) * total // 100
        else:
            wanted = total - int(size)
        sectors = wanted if wanted > 0 else total
        _hdparm("--yes-i-know-what-i-am-doing", f"-Np{sectors}", disk)
    return None


def smart_attributes(
    dev: str, attributes: Any = None, values: Any = None
) -> dict[int, dict[str, Any]]:
    """
    The SMART attributes of a disk by number.

    @param attributes: only these numbers.
    @param values: only these columns.

    CLI Example::

        salt '*' disk.smart_attributes /dev/sda
        salt '*' disk.smart_attributes /dev/sda attributes=(5,198)
    """
    disk = dev if dev.startswith("/dev/") else f"/dev/{dev}"
    done = __salt__["cmd.run_all"](
        ["smartctl", "--attributes", disk], output_loglevel="quiet", python_shell=False
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(done["stderr"])
    lines = iter(done["stdout"].splitlines())
    fields: list[str] = []
    for line in lines:
        if line.startswith("ID#"):
            fields = [word.lower() for word in line.split()[1:]]
            break
    found: dict[int, dict[str, Any]] = {}
    for line in lines:
        if not re.match(r"\s*\d", line):
            break
        words = line.strip().split(None, len(fields))
        number = int(words[0])
        if attributes is not None and number not in attributes:
            continue
        found[number] = {
            field: _smart_value(word)
            for field, word in zip(fields, words[1:], strict=False)
            if values is None or field in values
        }
    return found


def _smart_value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return [int(word) for word in text.split(" ")]
    except ValueError:
        return text


@needs("iostat")
def iostat(interval: int = 1, count: int = 5, disks: Any = None) -> dict[str, dict[str, float]]:
    """
    The mean of C{count} samples of C{iostat} at C{interval} seconds, by disk and of the system.

    CLI Example::

        salt '*' disk.iostat 1 5 disks=sda
    """
    if disks is None:
        command = ["iostat", "-x", f"{interval}", f"{count}"]
    else:
        names = disks.split() if isinstance(disks, str) else disks
        command = ["iostat", "-xd", f"{interval}", f"{count}", *names]
    output = __salt__["cmd.run_stdout"](command, output_loglevel="quiet", python_shell=False)
    lines = iter(output.splitlines())
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[list[Decimal]]] = {}
    for line in lines:
        if line.startswith("avg-cpu:"):
            heads.setdefault("sys", line.split()[1:])
            numbers = [Decimal(word) for word in next(lines).split()]
            samples.setdefault("sys", []).append(numbers)
        elif line.startswith("Device:"):
            heads.setdefault("disk", line.split()[1:])
            for row in lines:
                if not row or not row[0].isalnum():
                    break
                name, *words = row.split()
                samples.setdefault(name, []).append([Decimal(word) for word in words])
    return {
        name: {
            field: float((sum(column, Decimal()) / len(column)).quantize(Decimal(".01")))
            for field, column in zip(
                heads["sys" if name == "sys" else "disk"], zip(*rows, strict=False), strict=False
            )
        }
        for name, rows in samples.items()
    }
