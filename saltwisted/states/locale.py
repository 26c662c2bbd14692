"""
Locales: which are there, and the system's own.
"""

from __future__ import annotations

from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "locale.get_locale" in __salt__:
        return True
    return False, "'locale.get_locale' is not available."


def system(name: str) -> dict[str, Any]:
    """
    The system's locale.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}
    try:
        if __salt__["locale.get_locale"]() == name:
            ret["result"] = True
            ret["comment"] = f"System locale {name} already set"
        elif __opts__["test"]:
            ret["comment"] = f"System locale {name} needs to be set"
        elif __salt__["locale.set_locale"](name):
            ret["changes"] = {"locale": name}
            ret["result"] = True
            ret["comment"] = f"Set system locale {name}"
        else:
            ret["result"] = False
            ret["comment"] = f"Failed to set system locale to {name}"
    except CommandExecutionError as error:
        ret["result"] = False
        ret["comment"] = f"Failed to set system locale: {error}"
    return ret


def present(name: str) -> dict[str, Any]:
    """
    A locale is generated.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}
    if __salt__["locale.avail"](name):
        ret["result"] = True
        ret["comment"] = f"Locale {name} is already present"
    elif __opts__["test"]:
        ret["comment"] = f"Locale {name} needs to be generated"
    elif __salt__["locale.gen_locale"](name):
        ret["changes"] = {"locale": name}
        ret["result"] = True
        ret["comment"] = f"Generated locale {name}"
    else:
        ret["result"] = False
        ret["comment"] = f"Failed to generate locale {name}"
    return ret
