"""
File systems: mounted or not, now and at boot; swap.

What counts as mounted with the options wanted is decided in C{_mount_options}.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from saltwisted.states._mount_options import Rules, escaped, fuse_device, mapper_device

__salt__: Any
__opts__: Any


class _Finished(Exception):
    """The return is complete."""


def _new(name: Any) -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": True, "comment": ""}


_PERSISTED = {
    "present": (None, ". Entry already exists in the fstab."),
    "new": ("new", ". Added new entry to the fstab."),
    "change": ("update", ". Updated the entry in the fstab."),
}


def _persisted(ret: dict[str, Any], did: str) -> None:
    """Tell what became of the fstab."""
    if did in _PERSISTED:
        change, text = _PERSISTED[did]
        if change:
            ret["changes"]["persist"] = change
        ret["comment"] += text
    elif did == "bad config":
        ret["result"] = False
        ret["comment"] += ". However, the fstab was not found."


@define(kw_only=True)
class _Mounted:
    """C{mounted}, from what is mounted now to the return."""

    ret: dict[str, Any]
    name: str
    device: str
    fstype: str
    mkmnt: bool
    opts: list[str]
    mount: bool
    user: str | None
    rules: Rules
    ignore_devices: Iterable[str]
    copy_bind_opts: bool
    active: dict[str, Any] = field(factory=dict)
    devices: list[str] = field(factory=list)
    real_device: str = ""
    remember: bool = False

    @property
    def real_name(self) -> str:
        return os.path.realpath(self.name)

    @property
    def _current(self) -> dict[str, Any]:
        found: dict[str, Any] = self.active[escaped(self.real_name)]
        return found

    @property
    def _is_mounted(self) -> bool:
        return escaped(self.real_name) in self.active

    def _look(self) -> None:
        self.active = __salt__["mount.active"](extended=True)

    def finish(self, comment: str, result: bool | None = False) -> None:
        self.ret["comment"] = comment
        self.ret["result"] = result
        raise _Finished

    def run(self) -> None:
        """Mount what is to be mounted."""
        self._look()
        self._find_device()
        if self._is_mounted:
            self._current.setdefault("superopts", [])
            if self.mount:
                self._check()
        if not self._is_mounted:
            if self.mount:
                self._mount()
            else:
                self._leave()

    # -- the device

    def _find_device(self) -> None:
        device = self.device
        if device.startswith("/"):
            bound = "bind" in self.opts and self._is_mounted
            self.real_device = self._bound_device() if bound else os.path.realpath(device)
        elif device.upper().startswith("UUID="):
            self.real_device = device.split("=")[1].strip('"').lower()
        elif device.upper().startswith("LABEL="):
            self.real_device = self._labelled(device.split("=")[1])
        else:
            self.real_device = device
        mapped = mapper_device(device)
        if mapped and os.path.exists(mapped):
            self.real_device = mapped
        self.real_device = fuse_device(device) or self.real_device

    def _bound_device(self) -> str:
        """What the directory bound here is itself mounted from."""
        current = self._current
        path = escaped(self.device)
        if not current["device"].startswith("/"):
            if path in self.active:
                self._copy_options(path)
            return str(current["device"])
        while path not in self.active and path != "/":
            path = escaped(os.path.dirname(path.replace("\\040", " ")))
        if path not in self.active:
            return str(current["device"])
        self._copy_options(path)
        return str(self.active[path]["device"])

    def _copy_options(self, path: str) -> None:
        source = self.active[path]
        if self.copy_bind_opts:
            self.opts = sorted({*self.opts, *source["opts"], *source["superopts"]})
        self._current["opts"].append("bind")

    def _labelled(self, label: str) -> str:
        found = __salt__["cmd.run_all"](["blkid", "-t", f"LABEL={label}"], python_shell=False)
        if found["retcode"] > 0:
            self.finish(f"Unable to find device with label {label}.")
        self.devices = [line.split(":")[0] for line in found["stdout"].splitlines()]
        return self.devices[0]

    # -- what is mounted already

    def _check(self) -> None:
        current = self._current
        device = current["device"]
        others = (current.get(key) for key in ("alt_device", "device_uuid", "device_label"))
        known = [*self.devices, device, os.path.realpath(device), *filter(None, others)]
        self.devices = list(dict.fromkeys(known[:2])) + [
            one for place, one in enumerate(known[2:]) if one not in known[: place + 2]
        ]
        if self.opts:
            self._check_options()
        if self.real_device in self.devices:
            self.ret["comment"] = "Target was already mounted"
        else:
            self._change_device()

    def _number_of(self, kind: str, name: str) -> str:
        if re.match("[0-9]+$", name):
            return name
        found = __salt__["user.info" if kind == "uid" else "group.info"](name)
        return str(found[kind]) if found and kind in found else name

    def _check_options(self) -> None:
        lacking, last = self.rules.missing(self.opts, self.fstype, self._current, self._number_of)
        if lacking:
            names = ",".join(sorted(lacking))
            if __opts__["test"]:
                self.finish(f"Remount would be forced because options ({names}) changed", None)
            self._remount(names, lazily=True)
        cached = __salt__["mount.read_mount_cache"](self.real_name)
        if "opts" not in cached:
            self.remember = True
            return
        gone = [option for option in cached["opts"] if option not in self.opts]
        if gone:
            if __opts__["test"]:
                names = ",".join(gone)
                self.finish(f"Remount would be forced because options ({names})changed", None)
            self._remount(last, lazily=False)

    def _remount(self, names: str, lazily: bool) -> None:
        """
        Mount again with other options.

        @param lazily: say so where a file system had to be unmounted lazily.
        """
        words = {"mkmnt": self.mkmnt, "fstype": self.fstype, "opts": self.opts}
        real = self.real_name
        self.remember = True
        if self.fstype not in ("nfs", "cvfs") and not self.fstype.startswith("fuse"):
            self.ret["changes"]["umount"] = f"Forced remount because options ({names}) changed"
            self.ret["result"] = __salt__["mount.remount"](real, self.device, **words)
            if "remount" in self.opts:
                self.opts.remove("remount")
            return
        self.ret["changes"]["umount"] = (
            f"Forced unmount and mount because options ({names}) changed"
        )
        did = __salt__["mount.umount"](real)
        if did is not True:
            if lazily:
                self.ret["changes"]["umount"] = (
                    "Forced a lazy unmount and mount because the previous unmount failed and"
                    f" because the options ({names}) changed"
                )
            did = __salt__["mount.umount"](real, lazy=True)
        if did is not True:
            self.finish(f"Unable to unmount {real}: {did}.")
        self.ret["result"] = __salt__["mount.mount"](real, self.device, **words)

    def _change_device(self) -> None:
        ignored = ""
        for pattern in self.ignore_devices:
            ignored = next((one for one in self.devices if re.match(pattern, one)), ignored)
        if ignored:
            self.ret["result"] = True
            self.ret["comment"] = (
                f"An umount will not be forced because device matched device_name_regex: {ignored}"
            )
            return
        if __opts__["test"]:
            self.ret["result"] = None
            self.ret["comment"] = (
                "An umount would have been forced because devices do not match.  Watched: "
                f"{self.device}"
            )
            return
        real = f" ({self.real_device})" if self.real_device != self.device else ""
        self.ret["changes"]["umount"] = (
            f"Forced unmount because devices don't match. Wanted: {self.device}{real}, current: "
            + ", ".join(self.devices)
        )
        __salt__["mount.umount"](self.real_name, user=self.user)
        self._look()
        if self._is_mounted:
            self.finish("Unable to unmount")
        self.remember = True

    # -- what is not

    def _mount(self) -> None:
        there = os.path.exists(self.name)
        if __opts__["test"]:
            if there:
                text = f"{self.name} would be mounted"
            elif self.mkmnt:
                text = f"{self.name} would be created and mounted"
            else:
                text = f"{self.name} does not exist and would not be created"
            self.finish(text, None)
        if not there and not self.mkmnt:
            self.finish("Mount directory is not present")
        did = __salt__["mount.mount"](
            self.name, self.device, self.mkmnt, self.fstype, self.opts, user=self.user
        )
        self._look()
        self.remember = True
        if isinstance(did, str):
            self.finish(did)
        if self._is_mounted:
            self.ret["comment"] = "Target was successfully mounted"
            self.ret["changes"]["mount"] = True

    def _leave(self) -> None:
        there, name = os.path.exists(self.name), self.name
        test = __opts__["test"]
        if there:
            text = f"{name} would not be mounted" if test else f"{name} not mounted"
        elif test:
            self.ret["result"] = None
            text = (
                f"{name} would be created, but not mounted"
                if self.mkmnt
                else f"{name} does not exist and would neither be created nor mounted"
            )
        elif self.mkmnt:
            __salt__["file.mkdir"](name, user=self.user)
            text = f"{name} was created, not mounted"
        else:
            text = f"{name} not present and not mounted"
        self.ret["comment"] = text

    # -- at boot

    def persist(self, config: str, dump: Any, pass_num: Any, match_on: Any) -> None:
        """Write the fstab."""
        test = bool(__opts__["test"])
        words = {"test": True} if test else {}
        did = __salt__["mount.set_fstab"](
            self.name,
            self.device,
            self.fstype,
            self.opts,
            dump,
            pass_num,
            config,
            match_on=match_on,
            **words,
        )
        if test and did != "present":
            self._forecast_fstab(did)
            return
        if self.remember:
            __salt__["mount.write_mount_cache"](
                self.real_name,
                self.device,
                mkmnt=self.mkmnt,
                fstype=self.fstype,
                mount_opts=self.opts,
            )
        _persisted(self.ret, did)

    def _forecast_fstab(self, did: str) -> None:
        self.ret["result"] = None
        name = self.name
        if did == "new":
            mounted = "is mounted, but needs" if self.mount else "needs"
            text = f"{name} {mounted} to be written to the fstab in order to be made persistent."
        elif did == "change" and self.mount:
            text = f"{name} is mounted, but its fstab entry must be updated."
        elif did == "change":
            text = f"The {name} fstab entry must be updated."
        else:
            self.ret["result"] = False
            text = (
                f"Unable to detect fstab status for mount point {name} due to unexpected output"
                f" '{did}' from call to mount.set_fstab. This is most likely a bug."
            )
        self.ret["comment"] = f"{self.ret['comment']}. {text}"


def mounted(
    name: str,
    device: str,
    fstype: str,
    mkmnt: bool = False,
    opts: Any = "defaults",
    dump: Any = 0,
    pass_num: Any = 0,
    config: str = "/etc/fstab",
    persist: bool = True,
    mount: bool = True,
    user: str | None = None,
    match_on: Any = "auto",
    device_name_regex: Any = None,
    extra_mount_invisible_options: Any = None,
    extra_mount_invisible_keys: Any = None,
    extra_mount_ignore_fs_keys: Any = None,
    extra_mount_translate_options: Any = None,
    hidden_opts: Any = None,
    bind_mount_copy_active_opts: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    A file system is mounted, and at boot.

    device, fstype, opts, dump, pass_num
        As in the fstab; the device also as C{UUID=} or C{LABEL=}.
    mkmnt
        Make the directory.
    persist, config, match_on
        Write it to the fstab, or another file; by what to find its line there.
    mount
        Mount it now.
    device_name_regex
        Devices with which nothing is wrong though they are not the one named.
    hidden_opts, extra_mount_...
        Options that a mounted file system does not show, or in another way.
    """
    ret = _new(name)
    for word, value in (("name", name), ("device", device), ("fstype", fstype)):
        if not value:
            ret["result"] = False
            ret["comment"] = f"Must provide {word} to mount.mounted"
            return ret
    work = _Mounted(
        ret=ret,
        name=name if name == "/" else name.rstrip("/"),
        device=device,
        fstype=fstype,
        mkmnt=mkmnt,
        opts=opts.split(",") if isinstance(opts, str) else opts,
        mount=mount,
        user=user,
        rules=Rules.make(
            extra_mount_invisible_options,
            extra_mount_invisible_keys,
            extra_mount_ignore_fs_keys,
            extra_mount_translate_options,
            hidden_opts.split(",") if isinstance(hidden_opts, str) else hidden_opts,
        ),
        ignore_devices=device_name_regex or [],
        copy_bind_opts=bind_mount_copy_active_opts,
    )
    try:
        work.run()
    except _Finished:
        return ret
    if persist:
        work.persist(config, dump, pass_num, match_on)
    return ret


def swap(name: str, persist: bool = True, config: str = "/etc/fstab") -> dict[str, Any]:
    """
    A device or file is used for swapping, and at boot.
    """
    ret = _new(name)
    device = name
    if __salt__["file.is_link"](name):
        device = __salt__["file.readlink"](name)
        if not device.startswith("/"):
            device = f"/dev/{os.path.basename(device)}"
    active = __salt__["mount.swaps"]()
    if device in active:
        ret["comment"] = f"Swap {name} already active"
    elif __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Swap {name} is set to be activated"
    else:
        __salt__["mount.swapon"](device)
        active = __salt__["mount.swaps"]()
        if device in active:
            ret["comment"] = f"Swap {name} activated"
            ret["changes"] = active[device]
        else:
            ret["comment"] = f"Swap {name} failed to activate"
            ret["result"] = False
    if not persist:
        return ret
    fstab = __salt__["mount.fstab"](config)
    if __opts__["test"]:
        if name not in fstab and name not in [entry["device"] for entry in fstab.values()]:
            ret["result"] = None
            if name in active:
                ret["comment"] = f"Swap {name} is set to be added to the fstab and to be activated"
        return ret
    entry = fstab.get("none")
    if entry and entry["device"] == name and entry["fstype"] != "swap":
        return ret
    did = __salt__["mount.set_fstab"]("none", name, "swap", ["defaults"], 0, 0, config)
    if did != "present":
        _persisted(ret, did)
    return ret


def unmounted(
    name: str,
    device: str | None = None,
    config: str = "/etc/fstab",
    persist: bool = False,
    user: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Nothing is mounted at a directory.

    device
        Only if it comes from here.
    persist, config
        Nor at boot.
    """
    ret = _new(name)
    if not name:
        ret["result"] = False
        ret["comment"] = "Must provide name to mount.unmounted"
        return ret
    if escaped(name) not in __salt__["mount.active"](extended=True):
        ret["comment"] = "Target was already unmounted"
    elif __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Mount point {name} is mounted but should not be"
        return ret
    else:
        args = (name, device) if device else (name,)
        did = __salt__["mount.umount"](*args, user=user)
        if isinstance(did, str):
            ret["result"] = False
            ret["comment"] = did
        elif did is True:
            ret["comment"] = "Target was successfully unmounted"
            ret["changes"]["umount"] = True
        else:
            ret["comment"] = "Execute set to False, Target was not unmounted"
        __salt__["mount.delete_mount_cache"](name)
    if not persist:
        return ret
    fstab = __salt__["mount.fstab"](config)
    if name not in fstab:
        ret["comment"] += ". fstab entry not found"
    elif device and fstab[name]["device"] != device:
        ret["comment"] += f". fstab entry for device {device} not found"
    elif __opts__["test"]:
        ret["result"] = None
        ret["comment"] = (
            f"Mount point {name} is unmounted but needs to be purged from {config} to be made"
            " persistent"
        )
    elif __salt__["mount.rm_fstab"](name, device, config) is True:
        ret["comment"] += ". Removed target from fstab"
        ret["changes"]["persist"] = "purged"
    else:
        ret["result"] = False
        ret["comment"] += ". Failed to persist purge"
    return ret


def mod_watch(name: str, user: str | None = None, **kwargs: Any) -> dict[str, Any]:
    """
    Mount a file system again: something that it watches has changed.
    """
    ret = _new(name)
    if kwargs["sfun"] != "mounted":
        ret["comment"] = f"Watch not supported in {kwargs['sfun']} at this time"
        return ret
    did = __salt__["mount.remount"](
        name, kwargs["device"], False, kwargs["fstype"], kwargs["opts"], user=user
    )
    if did:
        ret["comment"] = f"{name} remounted"
    else:
        ret["result"] = False
        ret["comment"] = f"{name} failed to remount: {did}"
    return ret


# -- the fstab alone


def _converted(device: str, form: str | None) -> str | None:
    """A device by C{device}, C{label}, C{uuid} ..., or as it is."""
    if (
        not form
        or (form == "device" and device.startswith("/"))
        or device.startswith(f"{form.upper()}=")
    ):
        return device
    words = {} if device.startswith("/") else {"token": device}
    args = (device,) if device.startswith("/") else ()
    found = __salt__["disk.blkid"](*args, **words)
    if len(found) != 1:
        return None
    if form == "device":
        return str(next(iter(found)))
    key = form.upper()
    return f"{key}={next(iter(found.values()))[key]}"


def fstab_present(
    name: str,
    fs_file: str,
    fs_vfstype: str,
    fs_mntops: Any = "defaults",
    fs_freq: Any = 0,
    fs_passno: Any = 0,
    mount_by: str | None = None,
    config: str = "/etc/fstab",
    mount: bool = True,
    match_on: Any = "auto",
    not_change: bool = False,
    fs_mount: bool = True,
) -> dict[str, Any]:
    """
    The fstab has an entry for a device.

    fs_file, fs_vfstype, fs_mntops, fs_freq, fs_passno
        Its fields.
    mount_by
        How it names the device: C{device}, C{label}, C{uuid}, C{partlabel} or C{partuuid}.
    mount
        Mount it when the entry is new.
    not_change
        Leave an entry that differs.
    """
    said: list[str] = []
    ret: dict[str, Any] = {"name": name, "result": False, "changes": {}, "comment": said}
    fs_file = fs_file if fs_file == "/" else fs_file.rstrip("/")
    device = _converted(name, mount_by)
    if not device:
        said.append(f"Device {name} cannot be converted to {mount_by}")
        return ret
    test = bool(__opts__["test"])
    words = {"test": True} if test else {}
    did = __salt__["mount.set_fstab"](
        name=fs_file,
        device=device,
        fstype=fs_vfstype,
        opts=fs_mntops,
        dump=fs_freq,
        pass_num=fs_passno,
        config=config,
        match_on=match_on,
        not_change=not_change,
        **words,
    )
    if did not in ("present", "new", "change"):
        said.append(
            f"{fs_file} entry cannot be {'created' if test else 'changed'} in {config}: {did}."
        )
        return ret
    ret["result"] = True if did == "present" or not test else None
    if did == "present":
        said.append(f"{fs_file} entry {'is' if test else 'was'} already in {config}.")
        return ret
    if test:
        said.append(
            f"{fs_file} entry will be {'written' if did == 'new' else 'updated'} in {config}."
        )
        if mount and did == "new":
            said.append(f"Will mount {name} on {fs_file}")
        return ret
    ret["changes"]["persist"] = did
    said.append(f"{fs_file} entry {'added' if did == 'new' else 'updated'} in {config}.")
    if mount and did == "new":
        _mount_new(ret, fs_file)
    return ret


def _mount_new(ret: dict[str, Any], fs_file: str) -> None:
    """Mount what the fstab has a new entry for."""
    mounting = __salt__["mount.mount"](fs_file)
    if isinstance(mounting, str):
        ret["result"] = False
        ret["comment"].append(f"Error while mounting {mounting.split(':', maxsplit=1)[-1]}")
    else:
        ret["comment"].append(f"Mounted {ret['name']} on {fs_file}")


def fstab_absent(
    name: str, fs_file: str, mount_by: str | None = None, config: str = "/etc/fstab"
) -> dict[str, Any]:
    """
    The fstab has no entry for a device. The arguments are those of C{fstab_present}.
    """
    said: list[str] = []
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": said}
    fs_file = fs_file if fs_file == "/" else fs_file.rstrip("/")
    device = _converted(name, mount_by)
    there = fs_file in __salt__["mount.fstab"](config)
    if __opts__["test"]:
        ret["result"] = None
    if not there:
        said.append(f"{fs_file} entry is already missing in {config}.")
    elif __opts__["test"]:
        said.append(f"{fs_file} entry will be removed from {config}.")
    elif __salt__["mount.rm_fstab"](name=fs_file, device=device, config=config) is True:
        ret["changes"]["persist"] = "removed"
        said.append(f"{fs_file} entry removed from {config}.")
    else:
        ret["result"] = False
        said.append(f"{fs_file} entry failed when removing from {config}.")
    return ret
