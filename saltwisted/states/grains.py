"""
Grains that are set on the minion.
"""

from __future__ import annotations

import re
from typing import Any

__salt__: Any
__opts__: Any
__grains__: Any
__context__: Any

_MISSING = object()


def _start(name: str, delimiter: str) -> dict[str, Any]:
    name = re.sub(delimiter, ":", name)
    return {"name": name, "changes": {}, "result": True, "comment": ""}


def exists(name: str, delimiter: str = ":") -> dict[str, Any]:
    """
    A grain is there, whatever its value.
    """
    ret = _start(name, delimiter)
    ret["comment"] = "Grain exists"
    if __salt__["grains.get"](ret["name"], _MISSING) is _MISSING:
        ret["result"] = False
        ret["comment"] = "Grain does not exist"
    return ret


def present(name: str, value: Any, delimiter: str = ":", force: bool = False) -> dict[str, Any]:
    """
    A grain has a value.

    force
        Also where that replaces a list or a map by something else.
    """
    ret = _start(name, delimiter)
    name = ret["name"]
    have = __salt__["grains.get"](name, _MISSING)
    if have == value:
        ret["comment"] = "Grain is already set"
        return ret
    if __opts__["test"]:
        ret["result"] = None
        if have is _MISSING:
            ret["comment"] = f"Grain {name} is set to be added"
            ret["changes"] = {"new": name}
        else:
            ret["comment"] = f"Grain {name} is set to be changed"
            ret["changes"] = {"changed": {name: value}}
        return ret
    did: dict[str, Any] = __salt__["grains.set"](name, value, force=force)
    if did["result"] is True and did["changes"] != {}:
        did["comment"] = f"Set grain {name} to {value}"
    did["name"] = name
    return did


def list_present(name: str, value: Any, delimiter: str = ":") -> dict[str, Any]:
    """
    A value, or several, are in a grain that is a list.
    """
    ret = _start(name, delimiter)
    name = ret["name"]
    grain = __salt__["grains.get"](name)
    if grain and not isinstance(grain, list):
        ret["result"] = False
        ret["comment"] = f"Grain {name} is not a valid list"
        return ret
    # Values that earlier states of this run have added, which the grains do not show yet.
    pending = __context__.get("pending_grains", {}).get(name, [])
    if isinstance(value, list):
        known = [one for one in value if one in pending or (grain and one in grain)]
        fresh = [one for one in value if one not in known]
    else:
        known = [value] if value in pending or (grain and value in grain) else []
        fresh = [] if known else [value]
    if not fresh:
        where = f"already in grain {name} (or pending)"
        if not grain:
            where = f"already pending in grain {name}"
        ret["comment"] = f"Value {value} is {where}"
        return ret
    noted = __context__.setdefault("pending_grains", {}).setdefault(name, [])
    noted.extend(dict.fromkeys(fresh) if all(map(_hashable, fresh)) else fresh)
    if isinstance(value, list):
        value = fresh
        if known and grain:
            ret["comment"] = (
                f'Removed value {known} from update due to value found in "{name}" (or pending).\n'
            )
        elif known:
            ret["comment"] = (
                f'Removed value {known} from update due to value already pending in "{name}".\n'
            )
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Grain {name} is set to be added"
        if grain:
            ret["comment"] = f"Value {value} is set to be appended to grain {name}"
        ret["changes"] = {"new": grain}
        return ret
    new = __salt__["grains.append"](name, value)
    actual = __salt__["grains.get"](name, [])
    if any(one not in actual for one in fresh):
        ret["result"] = False
        ret["comment"] = f"Failed append value {value} to grain {name}"
        return ret
    ret["comment"] += f"Append value {value} to grain {name}"
    ret["changes"] = {"new": new}
    return ret


def _hashable(value: Any) -> bool:
    return not isinstance(value, (list, dict, set))


def list_absent(name: str, value: Any, delimiter: str = ":") -> dict[str, Any]:
    """
    A value, or several, are not in a grain that is a list.
    """
    ret = _start(name, delimiter)
    name = ret["name"]
    grain = __salt__["grains.get"](name, None)
    if not grain:
        ret["comment"] = f"Grain {name} does not exist"
        return ret
    if not isinstance(grain, list):
        ret["result"] = False
        ret["comment"] = f"Grain {name} is not a valid list"
        return ret
    said = []
    for one in value if isinstance(value, list) else [value]:
        if one not in grain:
            said.append(f"Value {one} is absent from grain {name}")
            continue
        if __opts__["test"]:
            ret["result"] = None
            said.append(f"Value {one} in grain {name} is set to be deleted")
        else:
            __salt__["grains.remove"](name, one)
            said.append(f"Value {one} was deleted from grain {name}")
        ret["changes"].setdefault("deleted", []).append(one)
    ret["comment"] = "\n".join(said)
    return ret


def absent(
    name: str, destructive: bool = False, delimiter: str = ":", force: bool = False
) -> dict[str, Any]:
    """
    A grain has no value; with C{destructive} it is not there at all.

    force
        Also a list or a map.
    """
    ret = _start(name, delimiter)
    name = ret["name"]
    grain = __salt__["grains.get"](name, _MISSING)
    if grain is _MISSING:
        ret["comment"] = f"Grain {name} does not exist"
        return ret
    deleted = {"deleted": name}
    emptied = {"grain": name, "value": None}
    if __opts__["test"]:
        ret["result"] = None
        if destructive is True:
            ret["comment"] = f"Grain {name} is set to be deleted"
            ret["changes"] = deleted
        elif grain is not None:
            ret["comment"] = f"Value for grain {name} is set to be deleted (None)"
            ret["changes"] = emptied
        return ret
    did: dict[str, Any] = __salt__["grains.set"](name, None, destructive=destructive, force=force)
    if did["result"] and destructive is True:
        did["comment"] = f"Grain {name} was deleted"
        did["changes"] = deleted
    elif did["result"] and grain is not None:
        did["comment"] = f"Value for grain {name} was set to None"
        did["changes"] = emptied
    did["name"] = name
    return did


def append(name: str, value: Any, convert: bool = False, delimiter: str = ":") -> dict[str, Any]:
    """
    A value is in a grain that is a list, or with C{convert} becomes one.
    """
    ret = _start(name, delimiter)
    name = ret["name"]
    grain = __salt__["grains.get"](name, None)
    if not grain and name not in __grains__:
        ret["result"] = False
        ret["comment"] = f"Grain {name} does not exist"
        return ret
    is_list = isinstance(grain, list)
    if not is_list and convert is not True:
        ret["result"] = False
        ret["comment"] = f"Grain {name} is not a valid list"
        return ret
    if is_list and value in grain:
        ret["comment"] = f"Value {value} is already in the list for grain {name}"
        return ret
    ret["changes"] = {"added": value}
    if __opts__["test"]:
        ret["result"] = None
        ret["comment"] = f"Value {value} in grain {name} is set to be added"
        if not is_list:
            ret["comment"] = (
                f"Grain {name} is set to be converted to list and value {value} will be added"
            )
        return ret
    if is_list:
        __salt__["grains.append"](name, value)
    else:
        __salt__["grains.setval"](name, [*([] if grain is None else [grain]), value])
    ret["comment"] = f"Value {value} was added to grain {name}"
    return ret
