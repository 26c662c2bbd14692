"""
Values behind C{sdb://profile/key}, with the names of C{salt.utils.sdb}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _sdb
from saltwisted.worker.process.loader import Loaders

CHARS = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)"


def _ask(
    uri: Any, what: str, opts: Mapping[str, Any], otherwise: Any, strict: bool, *args: Any
) -> Any:
    place = _sdb.place_of(uri, opts, opts.get("pillar") or {}, strict)
    if place is None:
        return otherwise
    return _sdb.ask(place, what, Loaders(opts)["sdb"], *args)


def sdb_get(uri: Any, opts: Mapping[str, Any], utils: Any = None, strict: bool = False) -> Any:
    """A value; what is no address of one is told as it is."""
    return _ask(uri, "get", opts, uri, strict)


def sdb_set(uri: Any, value: Any, opts: Mapping[str, Any], utils: Any = None) -> Any:
    """Store a value; C{False}: this is no address."""
    return _ask(uri, "set", opts, False, False, value)


def sdb_delete(uri: Any, opts: Mapping[str, Any], utils: Any = None) -> Any:
    """Forget a value; C{False}: this is no address."""
    return _ask(uri, "delete", opts, False, False)


def sdb_get_or_set_hash(
    uri: Any, opts: Mapping[str, Any], length: int = 8, chars: str = CHARS, utils: Any = None
) -> Any:
    """A value; if there is none, a random one is made and stored first."""
    otherwise = uri if str(uri).startswith(_sdb.SCHEME) else False
    found = _ask(uri, "get", opts, otherwise, False)
    if found is None:
        found = _sdb.made_up(int(length), chars)
        sdb_set(uri, found, opts)
    return found
