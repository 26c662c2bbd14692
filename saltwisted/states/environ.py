"""
Variables in the environment of the minion's process.
"""

from __future__ import annotations

import os
from typing import Any

__salt__: Any
__opts__: Any


def setenv(
    name: str,
    value: Any,
    false_unsets: bool = False,
    clear_all: bool = False,
    update_minion: bool = False,
    permanent: Any = False,
) -> dict[str, Any]:
    """
    Variables have their values.

    value
        The value of the variable, or a map of several. C{False} empties one, or takes it out
        of the environment with C{false_unsets}.
    clear_all
        All others go.
    update_minion
        The minion's own process sees it, not only the job.
    """
    ret: dict[str, Any] = {"name": name, "changes": {}, "result": True, "comment": ""}
    if isinstance(value, str) or value is False:
        wanted = {name: value}
    elif isinstance(value, dict):
        wanted = value
    else:
        ret["result"] = False
        ret["comment"] = "Environ value must be string, dict or False"
        return ret
    gone = None if false_unsets is True else ""
    changes: dict[str, Any] = {}
    if clear_all is True:
        changes = {key: gone for key in os.environ if key not in wanted}
    for key, new in wanted.items():
        have = os.environ.get(key)
        if new is not False:
            if (have or "") != new:
                changes[key] = new
        elif have is None:
            if gone == "":
                changes[key] = ""
        elif gone is None or have != "":
            changes[key] = gone
    ret["changes"] = changes
    if __opts__["test"]:
        ret["comment"] = (
            "Environ values will be changed"
            if changes
            else "Environ values are already set with the correct values"
        )
        return ret
    if not changes:
        ret["comment"] = "Environ values were already set with the correct values"
        return ret
    did = __salt__["environ.setenv"](wanted, false_unsets, clear_all, update_minion, permanent)
    if not did:
        ret["result"] = False
        ret["comment"] = "Failed to set environ variables"
        return ret
    ret["changes"] = did
    ret["comment"] = "Environ values were set"
    return ret
