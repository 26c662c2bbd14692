"""
Settings of logrotate.
"""

from __future__ import annotations

from typing import Any

__virtualname__ = "logrotate"
__func_alias__ = {"set_": "set"}
__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "logrotate.show_conf" in __salt__:
        return __virtualname__
    return False, "logrotate module could not be loaded"


def _number(value: Any) -> Any:
    try:
        return int(str(value))
    except ValueError:
        return value


def set_(
    name: str, key: str, value: Any, setting: Any = None, conf_file: str = "/etc/logrotate.conf"
) -> dict[str, Any]:
    """
    A setting, or one of a block, has a value.

    key
        The setting, or the block.
    value
        The value; of a block, the name of the setting.
    setting
        The value of the block's setting.
    conf_file
        The file of the configuration.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "comment": "", "result": None}
    ask = {"key": key, "conf_file": conf_file}
    about, small = f"Command '{key}'", f"command '{key}'"
    if setting is None:
        wanted = value = _number(value)
        change = {**ask, "value": value}
    else:
        wanted = _number(setting)
        ask["value"] = value
        change = {**ask, "setting": wanted}
        about, small = f"Block '{key}' command '{value}'", f"block '{key}' command '{value}'"
    try:
        current = __salt__["logrotate.get"](**ask)
    except (AttributeError, KeyError):
        current = False
    if current == wanted:
        return {**ret, "result": True, "comment": f"{about} already has value: {wanted}"}
    ret["changes"] = {"old": current, "new": wanted}
    if __opts__["test"]:
        return {**ret, "comment": f"{about} will be set to value: {wanted}"}
    ret["result"] = __salt__["logrotate.set"](**change)
    word = "Set" if ret["result"] else "Unable to set"
    return {**ret, "comment": f"{word} {small} value: {wanted}"}
