"""
Read the minion's grains, and set those of its own grains file.

Grains that are set here are written to the file C{grains} beside the minion's
configuration, by an atomic replacement, and the daemon is told to look again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from saltwisted.domain.targeting.traverse import DELIMITER, traverse
from saltwisted.domain.yamltext import load_yaml
from saltwisted.modules import _data, _files, _yaml
from saltwisted.worker import systools
from saltwisted.worker.exceptions import SaltException

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]
__outputter__ = {"items": "nested", "item": "nested", "setval": "nested"}

__salt__: Any
__opts__: Any
__grains__: Any

_DELIMITER = DELIMITER


def _masked_serial(text: str) -> str:
    keep = int(len(text) * 0.75)
    return text[:keep] + "X" * (len(text) - keep)


_SANITIZERS: dict[str, Any] = {
    "serialnumber": _masked_serial,
    "domain": lambda _: "DOMAINNAME",
    "fqdn": lambda _: "MINION.DOMAINNAME",
    "id": lambda _: "MINION.DOMAINNAME",
    "host": lambda _: "MINION",
    "localhost": lambda _: "MINION",
    "nodename": lambda _: "MINION",
}


def get(key: Any, default: Any = "", delimiter: str = _DELIMITER, ordered: bool = True) -> Any:
    """
    One grain, or a value inside it by C{a:b:c}; C{default} if there is none.

    CLI Example::

        salt '*' grains.get pkg:apache
        salt '*' grains.get abc::def|ghi delimiter='|'
    """
    grains = __grains__ if ordered is True else json.loads(json.dumps(dict(__grains__)))
    return traverse(grains, key, default, delimiter)


def fetch(key: Any, default: Any = "", delimiter: str = _DELIMITER, ordered: bool = True) -> Any:
    """
    Another name of C{grains.get}.

    CLI Example::

        salt '*' grains.fetch os
    """
    return get(key, default, delimiter, ordered)


def has_value(key: Any) -> bool:
    """
    Whether there is such a grain, whatever its value.

    CLI Example::

        salt '*' grains.has_value pkg:apache
    """
    return traverse(__grains__, key, KeyError) is not KeyError


def items(sanitize: Any = False) -> dict[str, Any]:
    """
    All grains; with C{sanitize} names and serial numbers are replaced.

    CLI Example::

        salt '*' grains.items
        salt '*' grains.items sanitize=True
    """
    found = dict(__grains__)
    if systools.is_true(sanitize):
        _sanitize(found)
    return found


def item(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Some grains by name; C{default} for those that are not there.

    CLI Example::

        salt '*' grains.item os osrelease oscodename
        salt '*' grains.item host sanitize=True
    """
    default = kwargs.get("default", "")
    delimiter = kwargs.get("delimiter", _DELIMITER)
    found = {arg: traverse(__grains__, arg, default, delimiter) for arg in args}
    if systools.is_true(kwargs.get("sanitize")):
        _sanitize(found)
    return found


def _sanitize(grains: dict[str, Any]) -> None:
    for key, mask in _SANITIZERS.items():
        if key in grains:
            grains[key] = mask(grains[key])


def ls() -> list[str]:
    """
    The names of all grains.

    CLI Example::

        salt '*' grains.ls
    """
    return sorted(__grains__)


def _grains_file() -> str:
    place = __opts__["conf_file"]
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    return os.path.join(folder, "grains")


def setvals(grains: Any, destructive: bool = False, refresh_pillar: bool = True) -> Any:
    """
    Set several grains in the grains file; a value of nothing with C{destructive} removes one.

    @return: the given grains, or a text when the file cannot be read.

    CLI Example::

        salt '*' grains.setvals "{'key1': 'val1', 'key2': 'val2'}"
    """
    if not isinstance(grains, Mapping):
        raise SaltException("setvals grains must be a dictionary.")
    path = _grains_file()
    stored: Any = {}
    mode = 0o600
    if os.path.isfile(path):
        mode = os.stat(path).st_mode & 0o777
        try:
            with open(path, "rb") as file:
                # Not by Salt's rules: the minion reads the file without them as well
                stored = load_yaml(file)
        except Exception as error:
            return f"Unable to read existing grains file: {error}"
        if not isinstance(stored, dict):
            stored = {}
    for key, value in grains.items():
        if value is None and destructive is True:
            stored.pop(key, None)
            if key in __grains__:
                del __grains__[key]
        else:
            stored[key] = value
            __grains__[key] = value
    try:
        _files.write_atomically(path, _yaml.dump(stored).encode(), mode)
    except OSError:
        log.error("Unable to write to grains file at %s. Check permissions.", path)
    mark = os.path.join(__opts__["cachedir"], "module_refresh")
    try:
        _files.mark(mark)
    except OSError:
        log.error("Unable to write to cache file %s. Check permissions.", mark)
    if not __opts__.get("local", False):
        __salt__["saltutil.refresh_grains"](refresh_pillar=refresh_pillar)
    return grains


def setval(key: Any, val: Any, destructive: bool = False, refresh_pillar: bool = True) -> Any:
    """
    Set one grain in the grains file.

    CLI Example::

        salt '*' grains.setval key val
        salt '*' grains.setval key "{'sub-key': 'val', 'sub-key2': 'val2'}"
    """
    return setvals({key: val}, destructive, refresh_pillar=refresh_pillar)


def append(key: Any, val: Any, convert: bool = False, delimiter: str = _DELIMITER) -> Any:
    """
    Add a value (or each of a list) to a grain that is a list.

    With C{convert} a grain that is not a list becomes one.

    CLI Example::

        salt '*' grains.append key val
    """
    grains = get(key, [], delimiter)
    if convert and not isinstance(grains, list):
        grains = [] if grains is None else [grains]
    if not isinstance(grains, list):
        return f"The key {key} is not a valid list"
    if val in grains:
        return f"The val {val} was already in the list {key}"
    grains.extend(val if isinstance(val, list) else [val])
    return _store(key, grains, delimiter)


def remove(key: Any, val: Any, delimiter: str = _DELIMITER) -> Any:
    """
    Take a value out of a grain that is a list.

    CLI Example::

        salt '*' grains.remove key val
    """
    grains = get(key, [], delimiter)
    if not isinstance(grains, list):
        return f"The key {key} is not a valid list"
    if val not in grains:
        return f"The val {val} was not in the list {key}"
    grains.remove(val)
    return _store(key, grains, delimiter)


def _store(key: str, value: Any, delimiter: str) -> Any:
    """Write a value at C{a:b:c}: the whole grain C{a} with the change inside."""
    while delimiter in key:
        key, rest = key.rsplit(delimiter, 1)
        outer = get(key, {}, delimiter)
        if isinstance(outer, dict):
            outer[rest] = value
        value = outer
    return setval(key, value)


def delkey(key: Any, force: bool = False) -> dict[str, Any]:
    """
    Remove a grain from the grains file.

    CLI Example::

        salt '*' grains.delkey key
    """
    return delval(key, destructive=True, force=force)


def delval(key: Any, destructive: bool = False, force: bool = False) -> dict[str, Any]:
    """
    Set a grain to nothing; with C{destructive} remove it.

    CLI Example::

        salt '*' grains.delval key
    """
    return set(key, None, destructive=destructive, force=force)


def set(
    key: str,
    val: Any = "",
    force: bool = False,
    destructive: bool = False,
    delimiter: str = _DELIMITER,
) -> dict[str, Any]:
    """
    Set a grain, or a value inside one by C{a:b:c}, and say what changed as a state does.

    A map or list is only replaced, or put in place of a simple value, with C{force}.

    CLI Example::

        salt '*' grains.set 'apps:myApp:port' 2209
        salt '*' grains.set 'apps:myApp' '{port: 2209}'
    """
    ret: dict[str, Any] = {"comment": "", "changes": {}, "result": True}
    absent = object()
    old = get(key, absent, delimiter)
    if old is not absent and old == val and (val is not None or destructive is not True):
        ret["comment"] = "Grain is already set"
        return ret
    if old is not None and not force:
        if isinstance(old, (dict, list)):
            ret["comment"] = (
                f"The key '{key}' exists but is a dict or a list. Use 'force=True' to overwrite."
            )
            ret["result"] = False
            return ret
        if isinstance(val, (dict, list)) and old is not absent:
            ret["comment"] = (
                f"The key '{key}' exists and the given value is a dict or a list. "
                "Use 'force=True' to overwrite."
            )
            ret["result"] = False
            return ret
    value = val
    while delimiter in key:
        key, rest = key.rsplit(delimiter, 1)
        outer = get(key, {}, delimiter)
        if isinstance(outer, dict):
            if value is None and destructive:
                outer.pop(rest, None)
            else:
                outer[rest] = value
        elif isinstance(outer, list):
            _set_in_list(outer, rest, value)
        elif outer == rest or force:
            outer = {rest: value}
        else:
            ret["comment"] = (
                f"The key '{key}' value is '{outer}', which is different from the provided "
                f"key '{rest}'. Use 'force=True' to overwrite."
            )
            ret["result"] = False
            return ret
        value = outer
    answer = setval(key, value, destructive=destructive)
    if isinstance(answer, dict):
        ret["changes"] = answer
    else:
        ret["comment"] = answer
        ret["result"] = False
    return ret


def _set_in_list(items: list[Any], name: str, value: Any) -> None:
    """Where the list has this word, or a map with this key, put the value there; else add it."""
    found = False
    for index, entry in enumerate(items):
        if entry == name:
            items[index] = {name: value}
            found = True
        elif isinstance(entry, dict) and name in entry:
            entry[name] = value
            found = True
    if not found:
        items.append({name: value})


def filter_by(
    lookup_dict: Any,
    grain: str = "os_family",
    merge: Any = None,
    default: Any = "default",
    base: Any = None,
) -> Any:
    """
    The entry of a map that fits this minion's grain: keys are globs.

    C{base} names an entry to begin from, C{merge} is laid over the result, C{default} is
    used when nothing fits.

    CLI Example::

        salt '*' grains.filter_by '{Debian: Debheads rule, RedHat: I love my hat}'
    """
    return _data.filter_by(lookup_dict, grain, __grains__, merge, default, base)


def equals(key: Any, value: Any) -> bool:
    """
    Whether a grain has this value, compared as text.

    CLI Example::

        salt '*' grains.equals fqdn <expected_fqdn>
    """
    return str(value) == str(get(key))
