"""
SELinux: its mode, booleans, modules, and which files and ports have which type.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

__virtualname__ = "selinux"
__salt__: Any
__grains__: Any

_CONFIG = "/etc/selinux/config"
_MOUNTED = ("/sys/fs/selinux", "/selinux")
_KINDS = {
    "a": "all files",
    "f": "regular file",
    "d": "directory",
    "c": "character device",
    "b": "block device",
    "s": "socket",
    "l": "symbolic link",
    "p": "named pipe",
}
_PARTS = ("sel_user", "sel_role", "sel_type", "sel_level")
_PORT = re.compile(r"(tcp|udp)/(\d+(?:-\d+)?)")


def __virtual__() -> str | tuple[bool, str]:
    for program in ("semanage", "setsebool", "semodule"):
        if not systools.which(program):
            return (False, f"{program} is not in the path")
    if __grains__["kernel"] == "Linux":
        return __virtualname__
    return (False, "Module only works on Linux with selinux installed")


def selinux_fs_path() -> str | None:
    """
    Where the kernel shows SELinux; C{None} if it does not.

    CLI Example::

        salt '*' selinux.selinux_fs_path
    """
    for folder in _MOUNTED:
        if os.path.isfile(os.path.join(folder, "enforce")):
            return folder
    return None


def getenforce() -> str:
    """
    C{Enforcing}, C{Permissive} or C{Disabled}: what holds now.

    CLI Example::

        salt '*' selinux.getenforce
    """
    folder = selinux_fs_path()
    if folder is None:
        return "Disabled"
    try:
        with open(os.path.join(folder, "enforce"), encoding="utf-8") as file:
            return "Permissive" if file.readline().strip() == "0" else "Enforcing"
    except OSError:
        return "Disabled"


def getconfig() -> str | None:
    """
    The mode that holds after a reboot.

    CLI Example::

        salt '*' selinux.getconfig
    """
    try:
        with open(_CONFIG, encoding="utf-8") as file:
            for line in file:
                if line.strip().startswith("SELINUX="):
                    return line.strip().partition("=")[2].capitalize().lstrip()
    except OSError:
        pass
    return None


def setenforce(mode: str) -> str:
    """
    Set the mode, now and after a reboot.

    mode
        C{enforcing}, C{permissive} or C{disabled}.

    CLI Example::

        salt '*' selinux.setenforce enforcing
    """
    word = mode.lower() if isinstance(mode, str) else ""
    if word not in ("enforcing", "permissive", "disabled"):
        raise SaltInvocationError(f"Invalid mode {mode}")
    folder = selinux_fs_path()
    if folder and getenforce() != "Disabled":
        try:
            with open(os.path.join(folder, "enforce"), "w", encoding="utf-8") as file:
                file.write("1" if word == "enforcing" else "0")
        except OSError as error:
            raise CommandExecutionError(f"Could not write SELinux enforce file: {error}") from error
    try:
        with open(_CONFIG, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise CommandExecutionError(f"Could not read SELinux config file: {error}") from error
    try:
        text = re.sub(r"(?m)^SELINUX=.*$", f"SELINUX={word}", text)
        _files.write_atomically(_CONFIG, text.encode())
    except OSError as error:
        raise CommandExecutionError(f"Could not write SELinux config file: {error}") from error
    return getenforce()


def getsebool(boolean: str) -> dict[str, str]:
    """
    A boolean: its state, its default and what it is for.

    CLI Example::

        salt '*' selinux.getsebool virt_use_usb
    """
    return list_sebool().get(boolean, {})


def setsebool(boolean: Any, value: Any, persist: bool = False) -> bool:
    """
    Set a boolean.

    persist
        Also after a reboot.

    CLI Example::

        salt '*' selinux.setsebool virt_use_usb off
    """
    command = ["setsebool", *(["-P"] if persist else []), str(boolean), str(value)]
    return not __salt__["cmd.retcode"](command, python_shell=False)


def setsebools(pairs: Mapping[Any, Any], persist: bool = False) -> bool:
    """
    Set several booleans.

    CLI Example::

        salt '*' selinux.setsebools '{virt_use_usb: on, squid_use_tproxy: off}'
    """
    words = [f"{name}={value}" for name, value in pairs.items()]
    command = ["setsebool", *(["-P"] if persist else []), *words]
    return not __salt__["cmd.retcode"](command, python_shell=False)


def list_sebool() -> dict[str, dict[str, str]]:
    """
    All booleans: their states, their defaults and what they are for.

    CLI Example::

        salt '*' selinux.list_sebool
    """
    found = {}
    for line in __salt__["cmd.run"]("semanage boolean --list").splitlines()[1:]:
        words = line.split()
        if len(words) > 3:
            about = " ".join(words[4:])
            found[words[0]] = {
                "State": words[1][1:],
                "Default": words[3][:-1],
                "Description": about,
            }
    return found


def getsemod(module: str) -> dict[str, Any]:
    """
    A module of the policy: whether it is enabled.

    CLI Example::

        salt '*' selinux.getsemod mysql
    """
    return list_semod().get(module, {})


def setsemod(module: Any, state: str) -> bool:
    """
    Enable or disable a module of the policy.

    CLI Example::

        salt '*' selinux.setsemod nagios Enabled
    """
    word = state.lower()
    if word not in ("enabled", "disabled"):
        raise SaltInvocationError(f"Invalid state {state}")
    option = "--enable" if word == "enabled" else "--disable"
    return not __salt__["cmd.retcode"](["semodule", option, str(module)])


def install_semod(module_path: str) -> bool:
    """
    Install a module of the policy from a file.

    CLI Example::

        salt '*' selinux.install_semod salt://module.pp
    """
    if module_path.startswith("salt://"):
        module_path = __salt__["cp.cache_file"](module_path)
    return not __salt__["cmd.retcode"](["semodule", "--install", str(module_path)])


def remove_semod(module: Any) -> bool:
    """
    Remove a module of the policy.

    CLI Example::

        salt '*' selinux.remove_semod module_name
    """
    return not __salt__["cmd.retcode"](["semodule", "--remove", str(module)])


def list_semod() -> dict[str, dict[str, Any]]:
    """
    All modules of the policy, and whether they are enabled.

    CLI Example::

        salt '*' selinux.list_semod
    """
    found = {}
    for line in __salt__["cmd.run"]("semodule --list-modules=full").splitlines():
        words = line.split()
        if len(words) > 1:
            found[words[1]] = {"Enabled": len(words) != 4, "Version": None}
    return found


def _kind(code: str) -> str:
    if code not in _KINDS:
        valid = ", ".join(_KINDS)
        raise SaltInvocationError(f"Invalid file type code {code!r}; expected one of: {valid}")
    return _KINDS[code]


def filetype_id_to_string(filetype: str = "a") -> str:
    """
    What a letter of C{semanage fcontext} means.

    CLI Example::

        salt '*' selinux.filetype_id_to_string f
    """
    return _kind(filetype)


def _context(text: str) -> dict[str, str]:
    parts = text.split(":", 3)
    if len(parts) != 4 or not all(parts):
        raise SaltInvocationError(
            f"Invalid SELinux context string: {text}. "
            'Expected "sel_user:sel_role:sel_type:sel_level"'
        )
    return dict(zip(_PARTS, parts, strict=True))


def fcontext_get_policy(
    name: str,
    filetype: str | None = None,
    sel_type: str | None = None,
    sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, str] | None:
    """
    The rule for files, C{None} if there is no such rule.

    name
        Its pattern of paths, as it is written there.

    CLI Example::

        salt '*' selinux.fcontext_get_policy my-policy
    """
    kind = _kind(filetype) if filetype else None
    wanted = {"sel_type": sel_type, "sel_user": sel_user, "sel_level": sel_level}
    line_of = re.compile(rf"({re.escape(name)}) +([a-z ]+?) +(\S+)\s*")
    for line in __salt__["cmd.run"]("semanage fcontext --list").splitlines():
        parts = line_of.fullmatch(line)
        if parts is None or (kind and parts[2] != kind) or parts[3].count(":") < 3:
            continue
        context = _context(parts[3])
        if all(value is None or context[key] == value for key, value in wanted.items()):
            return {"filespec": parts[1], "filetype": parts[2], **context}
    return None


def fcontext_add_policy(
    name: str,
    filetype: str | None = None,
    sel_type: str | None = None,
    sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, Any]:
    """
    Add a rule for files, or change it.

    CLI Example::

        salt '*' selinux.fcontext_add_policy '/srv/www(/.*)?' sel_type=httpd_sys_content_t
    """
    lines = __salt__["cmd.run"]("semanage fcontext --list").splitlines()
    action = "modify" if any(line.startswith(f"{name} ") for line in lines) else "add"
    return _fcontext(action, name, filetype, sel_type, sel_user, sel_level)


def fcontext_delete_policy(
    name: str,
    filetype: str | None = None,
    sel_type: str | None = None,
    sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, Any]:
    """
    Delete a rule for files.

    CLI Example::

        salt '*' selinux.fcontext_delete_policy '/srv/www(/.*)?'
    """
    return _fcontext("delete", name, filetype, sel_type, sel_user, sel_level)


def _fcontext(
    action: str, name: str, filetype: Any, sel_type: Any, sel_user: Any, sel_level: Any
) -> dict[str, Any]:
    command = ["semanage", "fcontext", f"--{action}"]
    if filetype is not None and filetype != "a":
        _kind(filetype)
        command += ["--ftype", filetype]
    options = {"--type": sel_type, "--seuser": sel_user, "--range": sel_level}
    for option, value in options.items():
        command += [] if value is None else [option, str(value)]
    done: dict[str, Any] = __salt__["cmd.run_all"]([*command, name], python_shell=False)
    return done


def fcontext_policy_is_applied(name: str, recursive: bool = False) -> Any:
    """
    What would be relabelled; C{""} if files have what the policy says.

    CLI Example::

        salt '*' selinux.fcontext_policy_is_applied my-policy
    """
    words = ["restorecon", "-n", "-v", *(["-R"] if recursive else []), name]
    return __salt__["cmd.run_all"](words, python_shell=False).get("stdout")


_RELABELLED = {
    "Would relabel": r"(?m)Would relabel (.*) from (.*) to (.*)$",
    "restorecon reset": r"(?m)restorecon reset (.*) context (.*)->(.*)$",
}


def fcontext_apply_policy(name: str, recursive: bool = False) -> dict[str, Any]:
    """
    Give files what the policy says.

    CLI Example::

        salt '*' selinux.fcontext_apply_policy my-policy
    """
    forecast = fcontext_policy_is_applied(name, recursive)
    words = ["restorecon", "-v", "-F", *(["-R"] if recursive else []), name]
    ret: dict[str, Any] = {**__salt__["cmd.run_all"](words, python_shell=False)}
    if ret["retcode"] != 0:
        return ret
    for start, pattern in _RELABELLED.items():
        if forecast.startswith(start):
            items = re.findall(pattern, forecast)
            break
    else:
        return {**ret, "retcode": 1, "error": "Unrecognized response from restorecon command."}
    if items:
        ret["changes"] = {path: _relabelled(old, new) for path, old, new in items}
    return ret


def _relabelled(old_text: str, new_text: str) -> dict[str, dict[str, str]]:
    old, new = _context(old_text), _context(new_text)
    keys = [key for key in _PARTS if old[key] != new[key]]
    return {"old": {key: old[key] for key in keys}, "new": {key: new[key] for key in keys}}


def _protocol_port(name: str, protocol: Any, port: Any) -> tuple[str, str]:
    found = _PORT.fullmatch(name) or _PORT.fullmatch(f"{protocol}/{port}")
    if found is None:
        raise SaltInvocationError(
            f'Invalid name "{name}" format and protocol and port not provided or invalid:'
            f' "{protocol}" "{port}".'
        )
    return found[1], found[2]


def port_get_policy(
    name: str, sel_type: str | None = None, protocol: Any = None, port: Any = None
) -> dict[str, str] | None:
    """
    The rule for a port, C{None} if there is none.

    name
        C{tcp/80}, or anything if C{protocol} and C{port} are given.

    CLI Example::

        salt '*' selinux.port_get_policy tcp/80
    """
    wanted, number = _protocol_port(name, protocol, port)
    for line in __salt__["cmd.run"]("semanage port --list").splitlines():
        parts = re.fullmatch(r"(\w+) +(\w+) +([\d\-, ]+)", line)
        if parts is None or parts[2] != wanted or (sel_type and parts[1] != sel_type):
            continue
        if number in re.split(r", *", parts[3].strip()):
            return {"sel_type": parts[1], "protocol": wanted, "port": parts[3].strip()}
    return None


def port_add_policy(
    name: str,
    sel_type: str | None = None,
    protocol: Any = None,
    port: Any = None,
    sel_range: str | None = None,
) -> dict[str, Any]:
    """
    Add a rule for a port.

    CLI Example::

        salt '*' selinux.port_add_policy tcp/8080 http_port_t
    """
    if not sel_type:
        raise SaltInvocationError("SELinux Type is required to add a policy")
    return _port("add", name, sel_type, protocol, port, sel_range)


def port_modify_policy(
    name: str,
    sel_type: str | None = None,
    protocol: Any = None,
    port: Any = None,
    sel_range: str | None = None,
) -> dict[str, Any]:
    """
    Change the rule for a port.

    CLI Example::

        salt '*' selinux.port_modify_policy tcp/8080 http_port_t
    """
    return _port("modify", name, sel_type, protocol, port, sel_range)


def port_delete_policy(name: str, protocol: Any = None, port: Any = None) -> dict[str, Any]:
    """
    Delete the rule for a port.

    CLI Example::

        salt '*' selinux.port_delete_policy tcp/8080
    """
    return _port("delete", name, None, protocol, port, None)


def _port(
    action: str, name: str, sel_type: Any, protocol: Any, port: Any, sel_range: Any
) -> dict[str, Any]:
    wanted, number = _protocol_port(name, protocol, port)
    command = ["semanage", "port", f"--{action}", "--proto", wanted]
    command += ["--type", str(sel_type)] if sel_type else []
    command += ["--range", str(sel_range)] if sel_range else []
    done: dict[str, Any] = __salt__["cmd.run_all"]([*command, number], python_shell=False)
    return done
