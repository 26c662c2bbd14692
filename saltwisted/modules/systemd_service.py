"""
Services under systemd (virtual module C{service}), through C{systemctl}.

What C{systemctl} starts is put into a scope of its own with C{systemd-run --scope}, so that a
restart of our own unit does not kill it (option C{systemd.scope}). Scripts in C{/etc/init.d}
without a unit are known too. Without a running systemd the functions that only look at or
change files still work ("offline").
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import logging
import os
import re
import shlex
from typing import Any

from saltwisted.modules import _systemd
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]
__context__: dict[str, Any]

__virtualname__ = "service"
__func_alias__ = {"reload_": "reload", "unmask_": "unmask"}

_SYSTEM_UNITS = ("/lib/systemd/system", "/usr/lib/systemd/system")
_LOCAL_UNITS = "/etc/systemd/system"
_INIT_SCRIPTS = "/etc/init.d"
_MINIONS = ("salt-minion.service", "saltwisted-minion.service")
"""Stopping or restarting these must not wait for the end of this very process."""


def __virtual__() -> Any:
    if __grains__.get("kernel") == "Linux" and (
        _systemd.booted(__context__) or _systemd.offline(__context__)
    ):
        return __virtualname__
    return (
        False,
        "The systemd execution module failed to load: only available on Linux systems which"
        " have been booted with systemd.",
    )


def _command(
    action: str,
    name: Any = None,
    *,
    scope: bool = False,
    no_block: bool = False,
    root: str | None = None,
    extra: tuple[str, ...] = (),
) -> list[str]:
    words: list[str] = []
    if scope and _wants_scope():
        run = systools.which("systemd-run")
        if not run:
            raise CommandExecutionError(
                "systemd-run is required for running systemctl with --scope, but it was not found"
                " on the system. Make sure systemd-run is installed and in the system's PATH or"
                " disable it using the 'systemd.scope' config option."
            )
        words += [run, "--scope"]
    words.append(systools.which("systemctl") or "systemctl")
    if no_block:
        words.append("--no-block")
    if root:
        words += ["--root", root]
    words += shlex.split(action)
    if name is not None:
        words.append(_systemd.unit_name(name))
    if "status" in words:
        words += ["-n", "0"]
    return [*words, *extra]


def _wants_scope() -> bool:
    return _systemd.has_scope(__context__) and bool(__salt__["config.get"]("systemd.scope", True))


def _status(name: Any) -> dict[str, Any]:
    done: dict[str, Any] = __salt__["cmd.run_all"](
        _command("status", name), python_shell=False, redirect_stderr=True, ignore_retcode=True
    )
    return done


def _check_available(name: Any) -> bool:
    if offline():
        raise CommandExecutionError(
            f"Cannot run in offline mode. Failed to get information on unit '{name}'"
        )
    done = _status(name)
    number = _systemd.version(__context__)
    if number is not None and number >= 231:
        return bool(0 <= done["retcode"] < 4)
    text = done["stdout"].lower()
    if "could not be found" in text:
        return False
    match = re.search(r"^\s+loaded:\s+(\S+)", text, re.MULTILINE)
    if match is None:
        raise CommandExecutionError(f"Failed to get information on unit '{name}'")
    return match.group(1) != "not-found"


def _notice_changes(name: Any) -> None:
    """Let systemd read its files again if a unit file is new or was changed."""
    local = os.path.join(_LOCAL_UNITS, _systemd.unit_name(name))
    if (os.access(local, os.R_OK) and not _check_available(name)) or (
        "'systemctl daemon-reload'" in _status(name)["stdout"].lower()
    ):
        systemctl_reload()


def _unmask_first(name: Any, unmask: bool, runtime: bool, root: str | None = None) -> None:
    if unmask:
        unmask_(name, runtime=False, root=root)
    if runtime:
        unmask_(name, runtime=True, root=root)


def _without_scope(text: str) -> str:
    """An error without the line in which C{systemd-run} names the scope."""
    return "\n".join(line for line in text.splitlines() if not line.endswith(".scope")).strip()


def _act(action: str, name: Any, no_block: bool) -> bool:
    done = __salt__["cmd.run_all"](
        _command(action, name, scope=True, no_block=no_block), python_shell=False
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(_without_scope(done["stderr"]))
    return True


def _no_block(name: Any, given: bool | None) -> bool:
    return _systemd.unit_name(name) in _MINIONS if given is None else given


def systemctl_reload() -> bool:
    """
    Let systemd read its unit files again.

    CLI Example::

        salt '*' service.systemctl_reload
    """
    done = __salt__["cmd.run_all"](
        _command("--system daemon-reload"), python_shell=False, redirect_stderr=True
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(f"Problem performing systemctl daemon-reload: {done['stdout']}")
    return True


def get_running() -> list[str]:
    """
    Units that are running.

    CLI Example::

        salt '*' service.get_running
    """
    output = __salt__["cmd.run"](
        _command("--full --no-legend --no-pager"), python_shell=False, ignore_retcode=True
    )
    found = set()
    for line in output.splitlines():
        # A failed unit has a bullet in front.
        words = line.strip().lstrip("\N{BLACK CIRCLE}*").split()
        if len(words) > 3 and words[3] == "running":
            found.add(_systemd.short_name(words[0]))
    return sorted(name for name in found if name)


def _unit_files(state: str, root: str | None) -> set[str]:
    output = __salt__["cmd.run"](
        _command("--full --no-legend --no-pager list-unit-files", root=root),
        python_shell=False,
        ignore_retcode=True,
    )
    found = set()
    for line in output.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1] == state:
            found.add(_systemd.short_name(words[0]))
    return {name for name in found if name}


def get_enabled(root: str | None = None) -> list[str]:
    """
    Units and init scripts that are enabled.

    @param root: look at the files below this directory.

    CLI Example::

        salt '*' service.get_enabled
    """
    scripts = {name for name in _init_scripts(root) if _script_enabled(name, root)}
    return sorted(_unit_files("enabled", root) | scripts)


def get_disabled(root: str | None = None) -> list[str]:
    """
    Units and init scripts that are disabled.

    CLI Example::

        salt '*' service.get_disabled
    """
    scripts = {name for name in _init_scripts(root) if not _script_enabled(name, root)}
    return sorted(_unit_files("disabled", root) | scripts)


def get_static(root: str | None = None) -> list[str]:
    """
    Units that can be neither enabled nor disabled.

    CLI Example::

        salt '*' service.get_static
    """
    return sorted(_unit_files("static", root))


def get_all(root: str | None = None) -> list[str]:
    """
    All units that have a file, and all init scripts.

    CLI Example::

        salt '*' service.get_all
    """
    return sorted(_units(root) | set(_init_scripts(root)))


def _units(root: str | None) -> set[str]:
    found: set[str | None] = set()
    for folder in (*_SYSTEM_UNITS, _LOCAL_UNITS):
        path = _systemd.under(folder, root)
        if os.access(path, os.R_OK) and not os.path.islink(path):
            found.update(_systemd.short_name(name) for name in os.listdir(path))
    return {name for name in found if name}


def _init_scripts(root: str | None) -> list[str]:
    """Scripts in C{/etc/init.d} that no unit stands for."""
    folder = _systemd.under(_INIT_SCRIPTS, root)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        log.error("Unable to check sysvinit scripts in %s: %s", folder, error.strerror)
        return []
    units = _units(root)
    return [
        name
        for name in names
        if name not in units and os.access(os.path.join(folder, name), os.X_OK)
    ]


def _runlevel() -> str:
    key = "systemd._runlevel"
    if key not in __context__:
        program = systools.which("runlevel")
        words: list[str] = []
        if program:
            output = __salt__["cmd.run"]([program], python_shell=False, ignore_retcode=True)
            words = output.split()
        __context__[key] = words[1] if len(words) > 1 else _systemd.default_runlevel()
    return str(__context__[key])


def _script_enabled(name: str, root: str | None) -> bool:
    links = glob.glob(_systemd.under(f"/etc/rc{_runlevel()}.d/S*{name}", root))
    return any(re.match(rf"S\d{{,2}}{name}", os.path.basename(link)) for link in links)


def available(name: Any) -> bool:
    """
    Whether there is such a unit.

    CLI Example::

        salt '*' service.available sshd
    """
    _notice_changes(name)
    return _check_available(name)


def missing(name: Any) -> bool:
    """
    Whether there is no such unit.

    CLI Example::

        salt '*' service.missing sshd
    """
    return not available(name)


def unmask_(name: Any, runtime: bool = False, root: str | None = None) -> bool:
    """
    Unmask a unit; true as well if it is not masked.

    @param runtime: the mask that lasts until the next start.

    CLI Example::

        salt '*' service.unmask foo
        salt '*' service.unmask foo runtime=True
    """
    _notice_changes(name)
    if not masked(name, runtime, root=root):
        log.debug("Service '%s' is not %smasked", name, "runtime-" if runtime else "")
        return True
    action = "unmask --runtime" if runtime else "unmask"
    done = __salt__["cmd.run_all"](
        _command(action, name, scope=True, root=root), python_shell=False, redirect_stderr=True
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(f"Failed to unmask service '{name}'")
    return True


def mask(name: Any, runtime: bool = False, root: str | None = None) -> bool:
    """
    Mask a unit, so that nothing can start it.

    @param runtime: until the next start only.

    CLI Example::

        salt '*' service.mask foo
    """
    _notice_changes(name)
    action = "mask --runtime" if runtime else "mask"
    done = __salt__["cmd.run_all"](
        _command(action, name, scope=True, root=root), python_shell=False, redirect_stderr=True
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(f"Failed to mask service '{name}'", info=done["stdout"])
    return True


def masked(name: Any, runtime: bool = False, root: str | None = None) -> bool:
    """
    Whether a unit is masked.

    @param runtime: whether it is masked until the next start.

    CLI Example::

        salt '*' service.masked foo
    """
    _notice_changes(name)
    link = os.path.join(
        _systemd.under("/run" if runtime else "/etc", root),
        "systemd/system",
        _systemd.unit_name(name),
    )
    try:
        return os.readlink(link) == "/dev/null"
    except OSError as error:
        if error.errno == errno.EINVAL:
            log.error(
                "Failed to check mask status for service %s: %s is a file, not a link", name, link
            )
        return False


def start(
    name: Any, no_block: bool = False, unmask: bool = False, unmask_runtime: bool = False
) -> bool:
    """
    Start a unit.

    @param no_block: do not wait until it is up.
    @param unmask: unmask it first; C{unmask_runtime} likewise.
    @raises CommandExecutionError: what C{systemctl} said.

    CLI Example::

        salt '*' service.start <service name>
    """
    _notice_changes(name)
    _unmask_first(name, unmask, unmask_runtime)
    return _act("start", name, no_block)


def stop(name: Any, no_block: bool | None = None) -> bool:
    """
    Stop a unit.

    CLI Example::

        salt '*' service.stop <service name>
    """
    wait_not = _no_block(name, no_block)
    _notice_changes(name)
    done = __salt__["cmd.run_all"](
        _command("stop", name, scope=True, no_block=wait_not), python_shell=False
    )
    return bool(done["retcode"] == 0)


def restart(
    name: Any, no_block: bool | None = None, unmask: bool = False, unmask_runtime: bool = False
) -> bool:
    """
    Restart a unit.

    @param no_block: do not wait; by default so for the minion's own unit.

    CLI Example::

        salt '*' service.restart <service name>
    """
    wait_not = _no_block(name, no_block)
    _notice_changes(name)
    _unmask_first(name, unmask, unmask_runtime)
    return _act("restart", name, wait_not)


def reload_(
    name: Any, no_block: bool = False, unmask: bool = False, unmask_runtime: bool = False
) -> bool:
    """
    Let a unit read its configuration again.

    CLI Example::

        salt '*' service.reload <service name>
    """
    _notice_changes(name)
    _unmask_first(name, unmask, unmask_runtime)
    return _act("reload", name, no_block)


def force_reload(
    name: Any, no_block: bool = True, unmask: bool = False, unmask_runtime: bool = False
) -> bool:
    """
    Reload a unit, or restart it if it cannot reload.

    CLI Example::

        salt '*' service.force_reload <service name>
    """
    _notice_changes(name)
    _unmask_first(name, unmask, unmask_runtime)
    return _act("force-reload", name, no_block)


def status(name: str, sig: Any = None) -> Any:
    """
    Whether a unit is active; with wildcards a map of all that match.

    CLI Example::

        salt '*' service.status <service name>
    """
    many = bool(re.search(r"\*|\?|\[.+\]", name))
    results: dict[str, bool] = {}
    for unit in fnmatch.filter(get_all(), name) if many else [name]:
        _notice_changes(unit)
        code = __salt__["cmd.retcode"](
            _command("is-active", unit), python_shell=False, ignore_retcode=True
        )
        results[unit] = code == 0
    return results if many else results[name]


def _sysv_manager() -> str:
    key = "systemd._get_service_exec"
    if key not in __context__:
        names = ("update-rc.d", "chkconfig")
        program = systools.which_bin(names)
        if program is None:
            raise CommandExecutionError(
                f"Unable to find sysv service manager (tried {', '.join(names)})"
            )
        __context__[key] = program
    return str(__context__[key])


def _set_script(name: str, enabled_: bool) -> bool:
    words = ["systemd-run", "--scope"] if _wants_scope() else []
    manager = _sysv_manager()
    if manager.endswith("/update-rc.d"):
        words += [manager, "-f", name, *(("defaults", "99") if enabled_ else ("remove",))]
    else:
        words += [manager, name, "on" if enabled_ else "off"]
    return bool(__salt__["cmd.retcode"](words, python_shell=False, ignore_retcode=True) == 0)


def enable(
    name: Any,
    no_block: bool = False,
    unmask: bool = False,
    unmask_runtime: bool = False,
    root: str | None = None,
    **kwargs: Any,
) -> bool:
    """
    Start a unit at every boot.

    @raises CommandExecutionError: what C{systemctl} said.

    CLI Example::

        salt '*' service.enable <service name>
    """
    _notice_changes(name)
    _unmask_first(name, unmask, unmask_runtime, root)
    if name in _init_scripts(root):
        return _set_script(name, True)
    done = __salt__["cmd.run_all"](
        _command("enable", name, scope=True, no_block=no_block, root=root),
        python_shell=False,
        ignore_retcode=True,
    )
    if done["retcode"] != 0:
        raise CommandExecutionError(_without_scope(done["stderr"]))
    return True


def disable(name: Any, no_block: bool = False, root: str | None = None, **kwargs: Any) -> bool:
    """
    Do not start a unit at boot.

    CLI Example::

        salt '*' service.disable <service name>
    """
    _notice_changes(name)
    if name in _init_scripts(root):
        return _set_script(name, False)
    done = __salt__["cmd.run_all"](
        _command("disable", name, scope=True, no_block=no_block, root=root),
        python_shell=False,
        ignore_retcode=True,
    )
    return bool(done["retcode"] == 0)


def enabled(name: Any, root: str | None = None, **kwargs: Any) -> bool:
    """
    Whether a unit is started at boot; of an alias, whether its unit is.

    CLI Example::

        salt '*' service.enabled <service name>
    """
    done = __salt__["cmd.run_all"](
        _command("is-enabled", name, root=root), python_shell=False, ignore_retcode=True
    )
    if done["stdout"] == "alias":
        real = __salt__["cmd.run_stdout"](
            _command("show", name, root=root, extra=("-P", "Id")), python_shell=False
        )
        code = __salt__["cmd.retcode"](
            _command("is-enabled", real, root=root), python_shell=False, ignore_retcode=True
        )
        return bool(code == 0)
    if done["retcode"] == 0:
        return True
    if "@" in str(name):
        # Older systemd does not know that an instance of a template is linked somewhere.
        find = ["find", _LOCAL_UNITS, "-name", name, "-type", "l", "-print", "-quit"]
        return bool(__salt__["cmd.run"](find, python_shell=False))
    if name in _init_scripts(root):
        return _script_enabled(name, root)
    return False


def disabled(name: Any, root: str | None = None) -> bool:
    """
    Whether a unit is not started at boot.

    CLI Example::

        salt '*' service.disabled <service name>
    """
    return not enabled(name, root=root)


def show(name: Any, root: str | None = None) -> dict[str, Any]:
    """
    The properties of a unit.

    CLI Example::

        salt '*' service.show <service name>
    """
    output = __salt__["cmd.run"](_command("show", name, root=root), python_shell=False)
    found: dict[str, Any] = {}
    for line in output.split("\n"):
        key, _equals, value = line.partition("=")
        if value.startswith("{"):
            parts = value.replace("{", "").replace("}", "").split(" ; ")
            found[key] = {
                field.strip(): text.partition("=")[0].strip()
                for field, _equals, text in (part.partition("=") for part in parts)
            }
        elif key in ("Before", "After", "Wants"):
            found[key] = value.split()
        else:
            found[key] = value
    return found


def execs(root: str | None = None) -> dict[str, str]:
    """
    Unit to the program that it starts.

    CLI Example::

        salt '*' service.execs
    """
    found = {}
    for name in get_all(root=root):
        data = show(name, root=root)
        if "ExecStart" in data:
            found[name] = data["ExecStart"]["path"]
    return found


def firstboot(
    locale: str | None = None,
    locale_message: str | None = None,
    keymap: str | None = None,
    timezone: str | None = None,
    hostname: str | None = None,
    machine_id: str | None = None,
    root: str | None = None,
) -> bool:
    """
    The basic settings of a system that was not started yet, by C{systemd-firstboot}.

    CLI Example::

        salt '*' service.firstboot keymap=jp locale=en_US.UTF-8 root=/mnt
    """
    command = [systools.which("systemd-firstboot") or "systemd-firstboot"]
    for option, value in (
        ("locale", locale),
        ("locale-message", locale_message),
        ("keymap", keymap),
        ("timezone", timezone),
        ("hostname", hostname),
        ("machine-ID", machine_id),
        ("root", root),
    ):
        if value:
            command += [f"--{option}", str(value)]
    done = __salt__["cmd.run_all"](command, python_shell=False)
    if done["retcode"] != 0:
        raise CommandExecutionError(f"systemd-firstboot error: {done['stderr']}")
    return True


def offline() -> Any:
    """
    Whether C{systemctl} is there without a systemd that answers: then its path.

    CLI Example::

        salt '*' service.offline
    """
    return _systemd.offline(__context__)
