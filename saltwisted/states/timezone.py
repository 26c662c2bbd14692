"""
The time zone, and what the hardware clock keeps.
"""

from __future__ import annotations

from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    if "timezone.get_zone" in __salt__:
        return True
    return False, "timezone module could not be loaded"


def system(name: str, utc: bool = True) -> dict[str, Any]:
    """
    The machine is in this time zone.

    utc
        Its hardware clock keeps UTC.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": None, "comment": ""}
    try:
        same_zone = __salt__["timezone.zone_compare"](name)
    except (SaltInvocationError, CommandExecutionError) as error:
        ret["result"] = False
        ret["comment"] = f"Unable to compare desired timezone '{name}' to system timezone: {error}"
        return ret
    keeps_utc = __salt__["timezone.get_hwclock"]() != "localtime"
    set_clock = bool(utc) and not keeps_utc
    if same_zone is True and not set_clock:
        said = [f"Timezone {name} already set"]
        if utc:
            said.append(f"UTC already set to {name}")
        ret["result"] = True
        ret["comment"] = ", ".join(said)
        return ret
    said = []
    if __opts__["test"]:
        if same_zone is not True:
            said.append(f"Timezone {name} needs to be set")
        if set_clock:
            said.append(f"UTC needs to be set to {utc}")
        ret["comment"] = ", ".join(said)
        return ret
    if same_zone is not True:
        ret["result"] = bool(__salt__["timezone.set_zone"](name))
        if ret["result"]:
            ret["changes"]["timezone"] = name
        said.append(f"Set timezone {name}" if ret["result"] else "Failed to set timezone")
    if set_clock:
        # The clock's answer is the whole result, as in stock.
        ret["result"] = bool(__salt__["timezone.set_hwclock"]("UTC"))
        if ret["result"]:
            ret["changes"]["utc"] = utc
        verb = "Set" if ret["result"] else "Failed to set"
        said.append(f"{verb} UTC to {utc}")
    ret["comment"] = ", ".join(said)
    return ret
