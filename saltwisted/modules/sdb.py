"""
Values behind C{sdb://profile/key}, in stores that drivers of the kind C{sdb} ask.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules import _sdb

__salt__: Any
__opts__: dict[str, Any]
__pillar__: dict[str, Any]

CHARS = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)"


def __virtual__() -> str:
    return "sdb"


def get(uri: str, strict: bool = False) -> Any:
    """
    A value; what is no address of one is told as it is.

    With C{strict} that is an error.

    CLI Example::

        salt '*' sdb.get sdb://mymemcached/foo
    """
    place = _sdb.place_of(uri, __opts__, __pillar__, strict)
    return uri if place is None else _sdb.ask(place, "get", __salt__.loaders["sdb"])


def set_(uri: str, value: Any) -> Any:
    """
    Store a value.

    CLI Example::

        salt '*' sdb.set sdb://mymemcached/foo bar
    """
    place = _sdb.place_of(uri, __opts__, __pillar__)
    return False if place is None else _sdb.ask(place, "set", __salt__.loaders["sdb"], value)


def delete(uri: str) -> Any:
    """
    Forget a value.

    CLI Example::

        salt '*' sdb.delete sdb://mymemcached/foo
    """
    place = _sdb.place_of(uri, __opts__, __pillar__)
    return False if place is None else _sdb.ask(place, "delete", __salt__.loaders["sdb"])


def get_or_set_hash(uri: str, length: int = 8, chars: str = CHARS) -> Any:
    """
    A value; if there is none, a random one is made and stored first.

    CLI Example::

        salt '*' sdb.get_or_set_hash sdb://sqlite/mypassword 32
    """
    place = _sdb.place_of(uri, __opts__, __pillar__)
    if place is None:
        return uri if str(uri).startswith(_sdb.SCHEME) else False
    drivers = __salt__.loaders["sdb"]
    found = _sdb.ask(place, "get", drivers)
    if found is None:
        found = _sdb.made_up(int(length), chars)
        _sdb.ask(place, "set", drivers, found)
    return found


__func_alias__ = {"set_": "set"}
