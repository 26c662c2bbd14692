"""
Kernel modules: what is there, what is loaded, what is loaded at every start.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from saltwisted.modules._accounts import program
from saltwisted.worker import systools

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]


def __virtual__() -> bool:
    return bool(__grains__["kernel"] == "Linux")


def _conf() -> str:
    """The file of modules that are loaded at every start."""
    if "systemd" in __grains__:
        return "/etc/modules-load.d/salt_managed.conf"
    return "/etc/modules"


def _plain(mod: str) -> str:
    """The name of a module without its parameters."""
    words = mod.split()
    return words[0] if words else ""


def available() -> list[str]:
    """
    The modules of the running kernel, built-in ones too.

    CLI Example::

        salt '*' kmod.available
    """
    release = os.uname().release
    folder = os.path.join("/lib/modules/", release)
    builtin = systools.read_text(os.path.join(folder, "modules.builtin")).splitlines()
    found = [os.path.basename(line)[:-3] for line in builtin]
    folders = [folder]
    if "Arch" in __grains__["os_family"]:
        folders.append(f"/lib/modules/extramodules-{release[:3]}-ARCH")
    for top in folders:
        for _place, _folders, files in os.walk(top):
            for name in files:
                base, dot, _rest = name.partition(".ko")
                if dot:
                    found.append(base.replace("-", "_"))
    return sorted(found)


def check_available(mod: str) -> bool:
    """
    Whether the running kernel has a module.

    CLI Example::

        salt '*' kmod.check_available kvm
    """
    return mod in available()


def lsmod() -> list[dict[str, Any]]:
    """
    The loaded modules with size and users.

    CLI Example::

        salt '*' kmod.lsmod
    """
    found = []
    for line in __salt__["cmd.run"]([program("lsmod")], python_shell=False).splitlines():
        words = line.split()
        if len(words) > 2 and words[0] != "Module":
            found.append(
                {
                    "size": words[1],
                    "module": words[0],
                    "depcount": words[2],
                    "deps": words[3].split(",") if len(words) > 3 else [],
                }
            )
    return found


def mod_list(only_persist: bool = False) -> list[str]:
    """
    The names of the loaded modules, or of those that are loaded at every start.

    CLI Example::

        salt '*' kmod.mod_list
    """
    if not only_persist:
        return sorted({item["module"] for item in lsmod()})
    names = set()
    for line in systools.read_text(_conf()).splitlines():
        name = _plain(line)
        if name and not line.strip().startswith("#"):
            names.add(name)
    return sorted(names)


def _persist(mod: str) -> set[str]:
    conf = _conf()
    if not os.path.exists(conf):
        __salt__["file.touch"](conf)
    name = _plain(mod)
    if not name or name in mod_list(True) or name not in available():
        return set()
    quoted = re.escape(mod)
    if __salt__["file.search"](conf, f"^#[\t ]*{quoted}[\t ]*$", multiline=True):
        __salt__["file.uncomment"](conf, quoted)
    else:
        __salt__["file.append"](conf, mod)
    return {name}


def _forget(mod: str, comment: bool) -> set[str]:
    conf = _conf()
    name = _plain(mod)
    if not name or name not in mod_list(True):
        return set()
    pattern = f"^[\t ]*{re.escape(mod)}[\t ]?"
    if comment:
        __salt__["file.comment"](conf, pattern)
    else:
        __salt__["file.sed"](conf, pattern, "")
    return {name}


def load(mod: str, persist: bool = False) -> Any:
    """
    Load a module; gives the modules that came with it, or an error text.

    @param persist: also at every start.

    CLI Example::

        salt '*' kmod.load kvm
    """
    before = set(mod_list())
    done = __salt__["cmd.run_all"]([program("modprobe"), mod], python_shell=False)
    if done["retcode"] != 0:
        return f"Error loading module {mod}: {done['stderr']}"
    new = set(mod_list()) - before
    return sorted(new | (_persist(mod) if persist else set()))


def is_loaded(mod: str) -> bool:
    """
    Whether a module is loaded.

    CLI Example::

        salt '*' kmod.is_loaded kvm
    """
    return mod in mod_list()


def remove(mod: str, persist: bool = False, comment: bool = True) -> Any:
    """
    Unload a module; gives the modules that went, or an error text.

    @param persist: do not load it at every start any more.
    @param comment: by a C{#} in front rather than by removing its line.

    CLI Example::

        salt '*' kmod.remove kvm
    """
    before = set(mod_list())
    done = __salt__["cmd.run_all"]([program("rmmod"), mod], python_shell=False)
    if done["retcode"] != 0:
        return f"Error removing module {mod}: {done['stderr']}"
    gone = before - set(mod_list())
    return sorted(gone | (_forget(mod, comment) if persist else set()))
