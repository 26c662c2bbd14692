"""
Mounted file systems, C{fstab}, automounter maps, swap.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from saltwisted.modules import _yaml
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, CommandNotFoundError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__opts__: dict[str, Any]
__context__: dict[str, Any]

_FIELDS = ("device", "name", "fstype", "opts", "dump", "pass_num")
"""The columns of C{fstab(5)} under Salt's names."""

_BY_NAME = frozenset(
    (
        "none",
        "tmpfs",
        "sysfs",
        "proc",
        "fusectl",
        "debugfs",
        "securityfs",
        "devtmpfs",
        "cgroup",
        "nfs",
        "nfs4",
        "glusterfs",
        "btrfs",
        "ceph",
    )
)
"""Types whose device does not tell one entry from another."""


def __virtual__() -> bool:
    return True


def _read(path: str) -> list[str]:
    """
    @raises CommandExecutionError: the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readlines()
    except OSError as error:
        raise CommandExecutionError(f"Couldn't read from {path}: {error}") from error


def _write(path: str, lines: list[str], text: str) -> None:
    """
    @raises CommandExecutionError: with C{text} if the file cannot be written.
    """
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(lines)
    except OSError as error:
        raise CommandExecutionError(text.format(path=path, error=error)) from error


def _testing(test: Any, kwargs: dict[str, Any]) -> bool:
    """Whether C{test}, in any case of its letters, is true among the arguments."""
    given = {"test": test, **kwargs}
    return any(key.lower() == "test" and systools.is_true(value) for key, value in given.items())


# --- what is mounted


def _labelled() -> dict[str, str]:
    """Mount point to device, as C{mount -l} says."""
    found = {}
    for line in __salt__["cmd.run_stdout"]("mount -l").split("\n"):
        words = line.split()
        if len(words) >= 3:
            found[words[2]] = words[0]
    return found


def _options(text: str) -> list[str]:
    """Options as a list; names of users and groups as their numbers."""
    found = []
    for option in text.split(","):
        name, equals, value = option.partition("=")
        if equals and name in ("uid", "gid"):
            if not re.match(r"[0-9]+$", value):
                function = "user.info" if name == "uid" else "group.info"
                value = str((__salt__[function](value) or {}).get(name, value))
            option = f"{name}={value}"
        found.append(option.replace("\\040", "\\ "))
    return found


def active(extended: bool = False) -> dict[str, dict[str, Any]]:
    """
    All that is mounted, by mount point.

    @param extended: with the fields of C{/proc/self/mountinfo}, identifier and label of the device.

    CLI Example::

        salt '*' mount.active
    """
    if extended and os.access("/proc/self/mountinfo", os.R_OK):
        return _mountinfo()
    path = "/proc/self/mounts"
    if not os.access(path, os.R_OK):
        raise CommandExecutionError(f"File not readable {path}")
    labelled = _labelled()
    found = {}
    for line in _read(path):
        words = line.split()
        found[words[1]] = {
            "device": words[0],
            "alt_device": labelled.get(words[1]),
            "fstype": words[2],
            "opts": _options(words[3]),
        }
    return found


def _mountinfo() -> dict[str, dict[str, Any]]:
    labelled = _labelled()
    if "disk.blkid" not in __context__:
        __context__["disk.blkid"] = __salt__["disk.blkid"]()
    known = __context__["disk.blkid"]
    found = {}
    for line in _read("/proc/self/mountinfo"):
        words = line.split()
        end = words.index("-")
        device = words[end + 2]
        major, _colon, minor = words[2].partition(":")
        facts = known.get(device, {})
        uuid = facts.get("UUID")
        found[words[4]] = {
            "mountid": words[0],
            "parentid": words[1],
            "major": major,
            "minor": minor,
            "root": words[3],
            "opts": _options(words[5]),
            "fstype": words[end + 1],
            "device": device.replace("\\040", "\\ "),
            "alt_device": labelled.get(words[4]),
            "superopts": _options(words[end + 3]),
            "device_uuid": uuid.lower() if uuid else uuid,
            "device_label": facts.get("LABEL"),
        }
    return found


def is_mounted(name: str) -> bool:
    """
    Whether anything is mounted there.

    CLI Example::

        salt '*' mount.is_mounted /mnt/share
    """
    return name in active()


def get_mount_from_path(path: str) -> str:
    """
    The mount point that a path is below.

    CLI Example::

        salt '*' mount.get_mount_from_path /opt/some/nested/path
    """
    path = os.path.realpath(path)
    while path != os.path.sep and not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def get_device_from_path(path: str) -> str | None:
    """
    The device that a path is on.

    CLI Example::

        salt '*' mount.get_device_from_path /
    """
    device: str | None = active().get(get_mount_from_path(path), {}).get("device")
    return device


# --- fstab


def _entry(line: str) -> dict[str, str] | None:
    """The fields of a line, or C{None} if it is a comment or no entry."""
    words = line.split()
    if line.startswith("#") or not 4 <= len(words) <= 6:
        return None
    return dict(zip(_FIELDS, [*words, "0", "0"], strict=False))


def _fits(entry: dict[str, str], criteria: dict[str, str]) -> bool:
    """Whether all fields agree; options in any order."""
    return all(
        sorted(entry["opts"].split(",")) == sorted(value.split(","))
        if key == "opts"
        else entry[key] == value
        for key, value in criteria.items()
    )


def fstab(config: str = "/etc/fstab") -> dict[str, dict[str, Any]]:
    """
    The entries of C{fstab}, by mount point; a second one of the same name gets a C{_}.

    CLI Example::

        salt '*' mount.fstab
    """
    found: dict[str, dict[str, Any]] = {}
    if not os.path.isfile(config):
        return found
    for line in _read(config):
        entry = _entry(line)
        if entry is None:
            continue
        name = entry.pop("name")
        while name in found:
            name += "_"
        options = entry.pop("opts").split(",")
        number = entry.pop("pass_num")
        found[name] = {**entry, "opts": options, "pass": number}
    return found


def vfstab(config: str = "/etc/vfstab") -> dict[str, dict[str, Any]]:
    """
    As C{mount.fstab}, of the file that Solaris has.

    CLI Example::

        salt '*' mount.vfstab
    """
    return fstab(config)


def rm_fstab(name: str, device: str | None, config: str = "/etc/fstab") -> bool:
    """
    Remove the entries of a mount point with this device; C{None} is any.

    CLI Example::

        salt '*' mount.rm_fstab /mnt/foo /dev/sdg
    """
    given = {"name": name, "device": device}
    criteria = {key: str(value) for key, value in given.items() if value is not None}
    lines = _read(config)
    kept = []
    for line in lines:
        entry = _entry(line)
        if entry is None or not _fits(entry, criteria):
            kept.append(line)
    if len(kept) != len(lines):
        _write(config, kept, "Couldn't write to {path}: {error}")
    return True


def rm_vfstab(name: str, device: str | None, config: str = "/etc/vfstab") -> bool:
    """
    As C{mount.rm_fstab}, of the file that Solaris has.

    CLI Example::

        salt '*' mount.rm_vfstab /mnt/foo /device/c0t0d0p0
    """
    return rm_fstab(name, device, config)


def set_fstab(
    name: str,
    device: str,
    fstype: str,
    opts: Any = "defaults",
    dump: Any = 0,
    pass_num: Any = 0,
    config: str = "/etc/fstab",
    test: bool = False,
    match_on: Any = "auto",
    not_change: bool = False,
    **kwargs: Any,
) -> str:
    """
    Make sure of an entry: C{new}, C{change} or C{present}.

    @param match_on: the fields by which an entry is found; by default the device, or the mount
        point where devices say nothing.
    @param not_change: an entry that is found is good as it is.
    @param test: only tell.

    CLI Example::

        salt '*' mount.set_fstab /mnt/foo /dev/sdz1 ext4
    """
    options = ",".join(opts) if isinstance(opts, list) else opts
    entry = {
        "name": str(name),
        "device": device.replace("\\ ", "\\040"),
        "fstype": str(fstype),
        "opts": options.replace("\\ ", "\\040"),
        "dump": str(dump),
        "pass_num": str(pass_num),
    }
    if match_on == "auto":
        keys = ["name"] if fstype in _BY_NAME else ["device"]
    elif isinstance(match_on, (list, str)):
        keys = match_on if isinstance(match_on, list) else [match_on]
    else:
        raise CommandExecutionError("match_on must be a string or list of strings")
    unknown = [key for key in keys if key not in entry]
    if unknown:
        raise CommandExecutionError(f'Unrecognized keys in match_on: "{unknown}"')
    if not os.path.isfile(config):
        raise CommandExecutionError(f'Bad config file "{config}"')
    wanted = "{device}\t\t{name}\t{fstype}\t{opts}\t{dump} {pass_num}\n".format(**entry)
    answer = "new"
    lines = []
    for line in _read(config):
        current = _entry(line)
        if current is not None and _fits(current, {key: entry[key] for key in keys}):
            if _fits(current, entry) or not_change:
                answer = "present"
            else:
                answer, line = "change", wanted
        lines.append(line)
    if answer == "new":
        lines.append(wanted)
    if answer != "present" and not _testing(test, kwargs):
        _write(config, lines, "File not writable {path}")
    return answer


# --- the automounter's map


def automaster(config: str = "/etc/auto_salt") -> dict[str, dict[str, Any]]:
    """
    The entries of an automounter map.

    CLI Example::

        salt '*' mount.automaster
    """
    found = {}
    if os.path.isfile(config):
        for line in _read(config):
            words = _map_entry(line)
            if words:
                options = words[1].split(",")
                found[words[0].replace("/..", "")] = {
                    "device": words[2].split(":")[1],
                    "fstype": options[0],
                    "opts": options[1:],
                }
    return found


def _map_entry(line: str) -> list[str]:
    words = line.split()
    return [] if line.startswith("#") or len(words) != 3 else words


def rm_automaster(name: str, device: str | None, config: str = "/etc/auto_salt") -> bool:
    """
    Remove an entry from an automounter map.

    CLI Example::

        salt '*' mount.rm_automaster /mnt/foo /dev/sdg
    """
    if name not in automaster(config):
        return True
    kept = []
    for line in _read(config):
        words = _map_entry(line)
        if (
            words
            and words[0].replace("/..", "") == name
            and (not device or words[2].split(":")[1] == device)
        ):
            continue
        kept.append(line)
    _write(config, kept, "Couldn't write to {path}: {error}")
    __salt__["cmd.run"]("automount -cv")
    return True


def set_automaster(
    name: str,
    device: str,
    fstype: str,
    opts: Any = "",
    config: str = "/etc/auto_salt",
    test: bool = False,
    not_change: bool = False,
    **kwargs: Any,
) -> str:
    """
    Make sure of an entry in an automounter map: C{new}, C{change} or C{present}.

    CLI Example::

        salt '*' mount.set_automaster /mnt/foo /dev/sdz1 ext4
    """
    options = ",".join(opts) if isinstance(opts, list) else opts
    if not os.path.isfile(config):
        __salt__["file.touch"](config)
        __salt__["file.append"]("/etc/auto_master", f"/-\t\t\t{config}")
    place = f"{fstype}:{device}"
    if fstype == "smbfs":
        place = place.replace(fstype, "")
    wanted = [f"/..{name}", f"-fstype={fstype},{options}", place]
    row = "\t".join(wanted) + "\n"
    answer = "new"
    lines = []
    for line in _read(config):
        words = _map_entry(line)
        if words and (words[0] == wanted[0] or words[2] == place):
            if answer == "new":
                answer = "present"
            if words != wanted and not not_change:
                answer, line = "change", row
        lines.append(line)
    if answer == "new":
        lines.append(row)
    if answer != "present" and not _testing(test, kwargs):
        _write(config, lines, "File not writable {path}")
    return answer


# --- doing it


def _mount_arguments(opts: Any, fstype: str) -> list[str]:
    words = ["-o", ",".join(opts)] if opts is not None else []
    return [*words, "-t", fstype] if fstype else words


def mount(
    name: str,
    device: Any = False,
    mkmnt: bool = False,
    fstype: str = "",
    opts: Any = "defaults",
    user: str | None = None,
    util: str = "mount",
) -> Any:
    """
    Mount; gives true, or what C{mount} said.

    @param device: by default what C{fstab} says.
    @param mkmnt: make the mount point.
    @param user: as whom.
    @param util: C{guestfs} or C{qemu_nbd} for images, with the modules of these names.

    CLI Example::

        salt '*' mount.mount /mnt/foo /dev/sdz1 True
    """
    if util != "mount":
        return _mount_image(name, device, util)
    options = opts.split(",") if isinstance(opts, str) else opts
    if mkmnt and not os.path.exists(name):
        __salt__["file.mkdir"](name, user=user)
    command = ["mount", name]
    if device:
        command = ["mount", *_mount_arguments(options, fstype), device, name]
    done = __salt__["cmd.run_all"](command, runas=user, python_shell=False)
    return done["stderr"] if done["retcode"] else True


def _mount_image(name: str, device: Any, util: str) -> Any:
    if util == "guestfs":
        return __salt__["guestfs.mount"](name, root=device)
    if util != "qemu_nbd":
        return False
    mounted = __salt__["qemu_nbd.init"](name, device)
    if not mounted:
        return False
    first = next(iter(mounted))
    __context__[f"img.mnt_{first}"] = mounted
    return first


def remount(
    name: str,
    device: str,
    mkmnt: bool = False,
    fstype: str = "",
    opts: Any = "defaults",
    user: str | None = None,
) -> Any:
    """
    Change the options of what is mounted, or mount it; gives true, or what C{mount} said.

    CLI Example::

        salt '*' mount.remount /mnt/foo /dev/sdz1 True
    """
    options = opts.split(",") if isinstance(opts, str) else opts
    if name not in active():
        return mount(name, device, mkmnt, fstype, options, user=user)
    if "remount" not in options:
        options.append("remount")
    command = ["mount", *_mount_arguments(options, fstype), device, name]
    done = __salt__["cmd.run_all"](command, runas=user, python_shell=False)
    return done["stderr"] if done["retcode"] else True


def umount(
    name: str,
    device: str | None = None,
    user: str | None = None,
    util: str = "mount",
    lazy: bool = False,
) -> Any:
    """
    Unmount; gives true, or what C{umount} said.

    @param lazy: as soon as nobody uses it.

    CLI Example::

        salt '*' mount.umount /mnt/foo
    """
    if util == "guestfs":
        __salt__["guestfs.umount"](name, disk=device)
        return None
    key = f"img.mnt_{name}"
    if util == "qemu_nbd" and "qemu_nbd.clear" in __salt__ and key in __context__:
        __salt__["qemu_nbd.clear"](__context__[key])
        return None
    if name not in active():
        return f"{name} does not have anything mounted"
    command = ["umount", *(["-l"] if lazy else []), device or name]
    done = __salt__["cmd.run_all"](command, runas=user, python_shell=False)
    return done["stderr"] if done["retcode"] else True


def is_fuse_exec(cmd: str) -> bool:
    """
    Whether a program mounts by fuse.

    CLI Example::

        salt '*' mount.is_fuse_exec sshfs
    """
    path = systools.which(cmd)
    if not path:
        return False
    if not systools.which("ldd"):
        raise CommandNotFoundError("ldd")
    return "libfuse" in __salt__["cmd.run"](["ldd", path], python_shell=False)


# --- swap


def swaps() -> dict[str, dict[str, str]]:
    """
    Swap devices and files in use; sizes in KiB.

    CLI Example::

        salt '*' mount.swaps
    """
    found = {}
    for line in systools.read_text("/proc/swaps").splitlines():
        words = line.split()
        if words and words[0] != "Filename":
            fields = ("type", "size", "used", "priority")
            found[words[0]] = dict(zip(fields, words[1:], strict=False))
    return found


def swapon(name: str, priority: Any = None) -> dict[str, Any]:
    """
    Use a swap device or file; nothing if that does not work.

    CLI Example::

        salt '*' mount.swapon /root/swapfile
    """
    before = swaps()
    if name in before:
        return {"stats": before[name], "new": False}
    option = ["-p", f"{priority}"] if priority else []
    __salt__["cmd.run"](["swapon", name, *option], python_shell=False)
    after = swaps()
    return {"stats": after[name], "new": True} if name in after else {}


def swapoff(name: str) -> bool | None:
    """
    Stop using a swap device or file; C{None} if it is not in use.

    CLI Example::

        salt '*' mount.swapoff /root/swapfile
    """
    if name not in swaps():
        return None
    __salt__["cmd.run"](["swapoff", name], python_shell=False)
    return name not in swaps()


# --- what states remember about a mount


def _cache_path() -> str:
    return os.path.join(__opts__["cachedir"], "mounts")


def _read_cache() -> dict[str, Any]:
    try:
        with open(_cache_path(), "rb") as file:
            data = _yaml.load(file)
    except OSError:
        return {}
    return data if isinstance(data, dict) else {}


def _write_cache(cache: dict[str, Any]) -> None:
    try:
        with open(_cache_path(), "w", encoding="utf-8") as file:
            file.write(_yaml.dump(cache, default_flow_style=None))
    except OSError as error:
        log.error("Failed to cache mounts: %s", error)
        raise CommandExecutionError("Unable to write mount cache.") from error


def read_mount_cache(name: str) -> dict[str, Any]:
    """
    What is remembered of a mount point.

    CLI Example::

        salt '*' mount.read_mount_cache /mnt/share
    """
    return dict((_read_cache().get("mounts") or {}).get(name) or {})


def write_mount_cache(
    real_name: str, device: str, mkmnt: Any, fstype: str, mount_opts: Any
) -> bool:
    """
    Remember how something was mounted.

    CLI Example::

        salt '*' mount.write_mount_cache /mnt/share /dev/sda1 False ext4 defaults,nosuid
    """
    cache = _read_cache()
    mounts = cache.get("mounts") or {}
    mounts[real_name] = {
        "device": device,
        "fstype": fstype,
        "mkmnt": mkmnt,
        "opts": mount_opts,
    }
    _write_cache({**cache, "mounts": mounts})
    return True


def delete_mount_cache(real_name: str) -> bool:
    """
    Forget how something was mounted.

    CLI Example::

        salt '*' mount.delete_mount_cache /mnt/share
    """
    cache = _read_cache()
    if real_name in (cache.get("mounts") or {}):
        del cache["mounts"][real_name]
        _write_cache(cache)
    return True
