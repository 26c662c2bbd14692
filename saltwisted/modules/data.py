"""
A small store of values on this minion, which outlives jobs and restarts.

One file in the cache directory, as Salt has it; changes are made under a lock, so that two
jobs do not lose each other's.
"""

from __future__ import annotations

import ast
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saltwisted.errors import WireError
from saltwisted.modules import _files
from saltwisted.wire.msgpack import pack, unpack

log = logging.getLogger(__name__)

__opts__: Any


def _place() -> str:
    return os.path.join(__opts__["cachedir"], "datastore")


def _writable() -> str:
    """The same, with its directory there."""
    _files.private_directories(__opts__["cachedir"])
    return _place()


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of the store."""
    descriptor = os.open(_writable() + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def clear() -> bool:
    """
    Forget all values.

    CLI Example::

        salt '*' data.clear
    """
    _files.safe_remove(_place())
    return True


def load() -> dict[str, Any]:
    """
    All values.

    CLI Example::

        salt '*' data.load
    """
    try:
        with open(_place(), "rb") as file:
            found = unpack(file.read())
    except (OSError, WireError):
        return {}
    return found if isinstance(found, dict) else {}


def dump(new_data: Any) -> bool:
    """
    Replace all values.

    CLI Example::

        salt '*' data.dump '{'eggs': 'spam'}'
    """
    if not isinstance(new_data, dict):
        new_data = ast.literal_eval(new_data)
        if not isinstance(new_data, dict):
            return False
    try:
        _files.write_atomically(_writable(), pack(new_data), 0o600)
    except OSError as error:
        log.error("The data store cannot be written: %s", error.strerror)
        return False
    return True


def update(key: str, value: Any) -> bool:
    """
    Set one value.

    CLI Example::

        salt '*' data.update <key> <value>
    """
    with _alone():
        dump({**load(), key: value})
    return True


def cas(key: str, value: Any, old_value: Any) -> bool:
    """
    Set one value if it is this one now; answers whether it was.

    CLI Example::

        salt '*' data.cas <key> <value> <old_value>
    """
    with _alone():
        store = load()
        if key not in store or store[key] != old_value:
            return False
        dump({**store, key: value})
    return True


def pop(key: str, default: Any = None) -> Any:
    """
    Take one value out.

    CLI Example::

        salt '*' data.pop <key> "there was no val"
    """
    with _alone():
        store = load()
        value = store.pop(key, default)
        dump(store)
    return value


def get(key: Any, default: Any = None) -> Any:
    """
    One value, or several by a list of keys.

    CLI Example::

        salt '*' data.get key
        salt '*' data.get '["key1", "key2"]'
    """
    store = load()
    if isinstance(key, str):
        return store.get(key, default)
    if default is None:
        return [store[one] for one in key if one in store]
    return [store.get(one, default) for one in key]


def keys() -> list[str]:
    """
    The names of all values.

    CLI Example::

        salt '*' data.keys
    """
    return list(load())


def values() -> list[Any]:
    """
    All values without their names.

    CLI Example::

        salt '*' data.values
    """
    return list(load().values())


def items() -> dict[str, Any]:
    """
    All names with their values.

    CLI Example::

        salt '*' data.items
    """
    return load()


def has_key(key: str) -> bool:
    """
    Whether there is a value of this name.

    CLI Example::

        salt '*' data.has_key <mykey>
    """
    return key in load()
