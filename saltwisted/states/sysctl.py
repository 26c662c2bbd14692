"""
Parameters of the kernel.
"""

from __future__ import annotations

from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "sysctl.show" in __salt__:
        return True
    return False, "sysctl module could not be loaded"


def present(name: str, value: Any, config: str | None = None) -> dict[str, Any]:
    """
    A parameter has a value, now and after the next boot.

    config
        The file that keeps it.
    """
    ret: dict[str, Any] = {"name": name, "result": True, "changes": {}, "comment": ""}
    if config is None:
        config = (
            __salt__["sysctl.default_config"]()
            if "sysctl.default_config" in __salt__
            else "/etc/sysctl.conf"
        )
    if __opts__["test"]:
        ret["result"], ret["comment"] = _forecast(name, value, config)
        return ret
    try:
        did = __salt__["sysctl.persist"](name, value, config)
    except CommandExecutionError as error:
        ret["result"] = False
        ret["comment"] = f"Failed to set {name} to {value}: {error}"
        return ret
    if did == "Updated":
        ret["changes"] = {name: value}
        ret["comment"] = f"Updated sysctl value {name} = {value}"
    elif did == "Already set":
        ret["comment"] = f"Sysctl value {name} = {value} is already set"
    return ret


def _forecast(name: str, value: Any, config: str) -> tuple[bool | None, str]:
    configured = __salt__["sysctl.show"](config_file=config)
    if configured is None:
        return None, (
            f"Sysctl option {name} might be changed, we failed to check config file at {config}."
            " The file is either unreadable, or missing."
        )
    current = __salt__["sysctl.get"](name)
    if current and name not in configured:
        change = f"Sysctl option {name} set to be changed to {value}"
        if current.split() != str(value).split():
            return None, change
        return None, (
            "Sysctl value is currently set on the running system but not in a config file."
            f" {change} in config file."
        )
    if current and str(value).split() == current.split():
        return True, f"Sysctl value {name} = {value} is already set"
    if not current and name in configured:
        return None, (
            f"Sysctl value {name} is present in configuration file but is not present in the"
            f" running config. The value {name} is set to be changed to {value}"
        )
    return None, f"Sysctl option {name} would be changed to {value}"
