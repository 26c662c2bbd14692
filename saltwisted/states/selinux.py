"""
SELinux: its mode, booleans and modules, and which files and ports have which type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saltwisted.domain.highstate.words import tag_of

__salt__: Any
__opts__: Any


def __virtual__() -> str | tuple[bool, str]:
    if "selinux.getenforce" in __salt__:
        return "selinux"
    return (False, "selinux module could not be loaded")


def _new(name: str, *, result: bool | None = False) -> dict[str, Any]:
    return {"name": name, "result": result, "comment": "", "changes": {}}


def _switch(value: Any, more: tuple[str, str], words: tuple[str, str]) -> str | None:
    """One of two words for what somebody wrote for on and off."""
    text = str(value).lower()
    if text in ("1", "on", "yes", "true", more[0]):
        return words[0]
    if text in ("0", "off", "no", "false", more[1]):
        return words[1]
    return None


def _mode(name: Any) -> str:
    text = str(name).lower()
    if text.startswith("e") or text in ("1", "on"):
        return "Enforcing"
    if text.startswith("p") or text in ("0", "off"):
        return "Permissive"
    return "Disabled" if text.startswith("d") else "unknown"


def mode(name: str) -> dict[str, Any]:
    """
    The mode of SELinux, now and after a reboot.

    name
        C{enforcing}, C{permissive} or C{disabled}.
    """
    ret, wanted = _new(name), _mode(name)
    if wanted == "unknown":
        return {**ret, "comment": f"{name} is not an accepted mode"}
    now, later = __salt__["selinux.getenforce"](), __salt__["selinux.getconfig"]()
    if now == wanted and later not in (now, wanted):
        now = later
    if now == wanted:
        return {**ret, "result": True, "comment": f"SELinux is already in {wanted} mode"}
    if __opts__["test"]:
        said = f"SELinux mode is set to be changed to {wanted}"
        return {**ret, "result": None, "comment": said, "changes": {"old": now, "new": wanted}}
    new = __salt__["selinux.setenforce"](wanted)
    if new == wanted or (wanted == "Disabled" and __salt__["selinux.getconfig"]() == wanted):
        said = f"SELinux has been set to {wanted} mode"
        return {**ret, "result": True, "comment": said, "changes": {"old": now, "new": new}}
    return {**ret, "comment": f"Failed to set SELinux to {wanted} mode"}


def boolean(
    name: str, value: Any = None, booleans: Any = None, persist: bool = False
) -> dict[str, Any]:
    """
    Booleans have a value.

    name, value
        One boolean.
    booleans
        Several: a map, or a list of maps and of names for C{value}.
    persist
        Also after a reboot.
    """
    ret = _new(name)
    wanted = _booleans(value, booleans) if booleans else {name: value}
    have = __salt__["selinux.list_sebool"]()
    right, old, new = [], {}, {}
    for one, given in wanted.items():
        if one not in have:
            return {**ret, "comment": f"Boolean {one} is not available"}
        word = _switch(given, ("", ""), ("on", "off"))
        if word is None:
            return {**ret, "comment": f"{given} is not a valid value for the boolean {one}"}
        state, default = have[one]["State"], have[one]["Default"]
        if state == word and (default == word or not persist):
            right.append(one)
        else:
            old[one], new[one] = (state, default) if persist else state, word
    lines = []
    if right:
        names = ", ".join(sorted(right))
        lines.append(f"The following booleans were in the correct state: {names}")
    if not new:
        return {**ret, "result": True, "comment": "\n".join(lines)}
    names = ", ".join(sorted(new))
    changes = {
        one: {"old": old[one], "new": (word, word) if persist else word}
        for one, word in new.items()
    }
    if __opts__.get("test"):
        lines.append(f"The following booleans would be changed: {names}")
        return {**ret, "result": None, "comment": "\n".join(lines), "changes": changes}
    if not __salt__["selinux.setsebools"](new, persist):
        return {**ret, "comment": f"Failed to set the following booleans: {wanted}"}
    lines.append(f"The following booleans have been changed: {names}")
    return {**ret, "result": True, "comment": "\n".join(lines), "changes": changes}


def _booleans(value: Any, given: Any) -> dict[str, Any]:
    """Booleans as a map; C{value} is that of names alone."""
    if isinstance(given, dict):
        return dict(given)
    found: dict[str, Any] = {}
    for one in given:
        found.update(one if isinstance(one, dict) else {one: value})
    return found


def module(
    name: str, module_state: Any = "Enabled", version: Any = "any", **opts: Any
) -> dict[str, Any]:
    """
    A module of the policy is enabled or disabled.

    install, source
        Install it first, from this file.
    remove
        Remove it instead.
    """
    ret = _new(name, result=True)
    if opts.get("install") and opts.get("remove"):
        said = "Cannot install and remove at the same time"
        return {**ret, "result": False, "comment": said}
    if opts.get("install"):
        ret = module_install(opts.get("source", name))
        if not ret["result"]:
            return ret
    elif opts.get("remove"):
        return module_remove(name)
    found = __salt__["selinux.list_semod"]()
    if name not in found:
        return {**ret, "result": False, "comment": f"Module {name} is not available"}
    wanted = _switch(module_state, ("enabled", "disabled"), ("enabled", "disabled"))
    if wanted is None:
        said = f"{module_state} is not a valid state for the {name} module."
        return {**ret, "result": False, "comment": said}
    installed = found[name]["Version"]
    if version not in ("any", installed):
        said = (
            f"Module version is {installed} and does not match the desired version of {version} "
            "or you are using semodule >= 2.4"
        )
        return {**ret, "result": False, "comment": said}
    if wanted == _switch(found[name]["Enabled"], ("", ""), ("enabled", "disabled")):
        return {**ret, "comment": f"Module {name} is in the desired state"}
    if __opts__["test"]:
        said = f"Module {name} is set to be toggled to {module_state}"
        return {**ret, "result": None, "comment": said}
    if __salt__["selinux.setsemod"](name, wanted):
        return {**ret, "comment": f"Module {name} has been set to {module_state}"}
    said = f"Failed to set the Module {name} to {module_state}"
    return {**ret, "result": False, "comment": said}


def module_install(name: str) -> dict[str, Any]:
    """
    A module of the policy is installed.

    name
        Its file.
    """
    ret = _new(name, result=True)
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"Module {name} is set to be installed"}
    if __salt__["selinux.install_semod"](name):
        return {**ret, "comment": f"Module {name} has been installed"}
    return {**ret, "result": False, "comment": f"Failed to install module {name}"}


def module_remove(name: str) -> dict[str, Any]:
    """
    A module of the policy is not there.
    """
    ret = _new(name, result=True)
    if name not in __salt__["selinux.list_semod"]():
        return {**ret, "result": False, "comment": f"Module {name} is not available"}
    if __opts__["test"]:
        return {**ret, "result": None, "comment": f"Module {name} is set to be removed"}
    if __salt__["selinux.remove_semod"](name):
        return {**ret, "comment": f"Module {name} has been removed"}
    return {**ret, "result": False, "comment": f"Failed to remove module {name}"}


def fcontext_policy_present(
    name: str,
    sel_type: str,
    filetype: str = "a",
    sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, Any]:
    """
    Files that a pattern means have this type.

    name
        The pattern.
    filetype
        C{a} for all files, C{f}, C{d}, C{c}, C{b}, C{s}, C{l} or C{p} for a kind of them.
    """
    ret = _new(name)
    words = {"name": name, "filetype": filetype, "sel_type": sel_type}
    words |= {"sel_user": sel_user, "sel_level": sel_level}  # type: ignore[dict-item]
    shown = __salt__["selinux.filetype_id_to_string"](filetype)
    if __salt__["selinux.fcontext_get_policy"](**words):
        said = f'SELinux policy for "{name}" already present with specified filetype '
        return {**ret, "result": True, "comment": f'{said}"{shown}" and sel_type "{sel_type}".'}
    if not __opts__["test"]:
        done = __salt__["selinux.fcontext_add_policy"](**words)
        if done["retcode"] != 0:
            return {**ret, "comment": f"Error adding new rule: {done}"}
        ret["changes"] = {"old": {}, "new": {name: {"filetype": shown, "sel_type": sel_type}}}
    return {**ret, "result": None if __opts__["test"] else True}


def fcontext_policy_absent(
    name: str,
    filetype: str = "a",
    sel_type: str | None = None,
    sel_user: str | None = None,
    sel_level: str | None = None,
) -> dict[str, Any]:
    """
    There is no such rule for files.
    """
    ret = _new(name)
    words = {"name": name, "filetype": filetype, "sel_type": sel_type}
    words |= {"sel_user": sel_user, "sel_level": sel_level}
    now = __salt__["selinux.fcontext_get_policy"](**words)
    if not now:
        said = f'SELinux policy for "{name}" already absent with specified filetype '
        return {**ret, "result": True, "comment": f'{said}"{filetype}" and sel_type "{sel_type}".'}
    ret["changes"] = {"old": {name: now}, "new": {}}
    if __opts__["test"]:
        return {**ret, "result": None}
    words["sel_type"] = sel_type or now["sel_type"]
    done = __salt__["selinux.fcontext_delete_policy"](**words)
    if done["retcode"] != 0:
        return {**ret, "changes": {}, "comment": f"Error removing policy: {done}"}
    return {**ret, "result": True}


def fcontext_policy_applied(name: str, recursive: bool = False) -> dict[str, Any]:
    """
    Files have the type that the policy gives them.
    """
    ret = _new(name)
    if __salt__["selinux.fcontext_policy_is_applied"](name, recursive) == "":
        said = f'SElinux policies are already applied for filespec "{name}"'
        return {**ret, "result": True, "comment": said}
    if __opts__["test"]:
        return {**ret, "result": None}
    done = __salt__["selinux.fcontext_apply_policy"](name, recursive)
    if done["retcode"] != 0:
        return {**ret, "comment": str(done)}
    return {**ret, "result": True, "changes": done.get("changes") or {}}


def _port(name: str, sel_type: Any, protocol: Any, port: Any) -> Any:
    words = {"name": name, "sel_type": sel_type, "protocol": protocol, "port": port}
    return __salt__["selinux.port_get_policy"](**words)


def _port_said(name: str, word: str, sel_type: Any, protocol: Any, port: Any) -> str:
    return (
        f'SELinux policy for "{name}" already {word} with specified sel_type "{sel_type}", '
        f'protocol "{protocol}" and port "{port}".'
    )


def port_policy_present(
    name: str, sel_type: str, protocol: Any = None, port: Any = None, sel_range: Any = None
) -> dict[str, Any]:
    """
    A port has this type.

    name
        C{tcp/80}, or anything if C{protocol} and C{port} are given.
    """
    ret = _new(name)
    if _port(name, sel_type, protocol, port):
        said = _port_said(name, "present", sel_type, protocol, port)
        return {**ret, "result": True, "comment": said}
    if __opts__["test"]:
        return {**ret, "result": None}
    old = __salt__["selinux.port_get_policy"](name=name, protocol=protocol, port=port)
    words = {"name": name, "sel_type": sel_type, "protocol": protocol, "port": port}
    words["sel_range"] = sel_range
    if old:
        done = __salt__["selinux.port_modify_policy"](**words)
    else:
        done = __salt__["selinux.port_add_policy"](**words)
    if done["retcode"] != 0:
        return {**ret, "comment": f"Error adding new policy: {done}"}
    changes = {"old": old, "new": _port(name, sel_type, protocol, port)}
    return {**ret, "result": True, "changes": changes}


def port_policy_absent(
    name: str, sel_type: Any = None, protocol: Any = None, port: Any = None
) -> dict[str, Any]:
    """
    There is no rule for a port.
    """
    ret = _new(name)
    old = _port(name, sel_type, protocol, port)
    if not old:
        said = _port_said(name, "absent", sel_type, protocol, port)
        return {**ret, "result": True, "comment": said}
    if __opts__["test"]:
        return {**ret, "result": None}
    done = __salt__["selinux.port_delete_policy"](name=name, protocol=protocol, port=port)
    if done["retcode"] != 0:
        return {**ret, "comment": f"Error deleting policy: {done}"}
    changes = {"old": old, "new": _port(name, sel_type, protocol, port)}
    return {**ret, "result": True, "changes": changes}


def mod_aggregate(
    low: dict[str, Any], chunks: Iterable[dict[str, Any]], running: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Booleans of several states are set by one command: each costs many seconds.
    """
    if low.get("fun") != "boolean":
        return low
    more: dict[str, Any] = {}
    for chunk in chunks:
        same = all(chunk.get(key) == low.get(key) for key in ("fun", "persist"))
        if tag_of(chunk) in running or chunk.get("state") != "selinux" or not same:
            continue
        if "__agg__" in chunk:
            continue
        more |= _chunk(chunk)
        chunk["__agg__"] = True
    if more:
        low["booleans"] = {**_chunk(low), **more}
    return low


def _chunk(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """What a state of booleans asks for."""
    given = chunk.get("booleans")
    if not given:
        return {chunk["name"]: chunk.get("value")}
    return {
        one: value
        for one, value in _booleans(chunk.get("value"), given).items()
        if value is not None
    }
