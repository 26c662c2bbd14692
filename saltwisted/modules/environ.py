"""
The environment variables of this process and what it starts.

A job has a process of its own, so what is set here lasts for the job; C{update_minion}
tells the daemon to set them too.
"""

from __future__ import annotations

import logging
import os
from typing import Any

log = logging.getLogger(__name__)

__salt__: Any


def setval(key: Any, val: Any, false_unsets: bool = False, permanent: Any = False) -> Any:
    """
    Set one variable and answer with its value; false is the empty text, or removes it.

    CLI Example::

        salt '*' environ.setval foo bar
        salt '*' environ.setval baz val=False false_unsets=True
    """
    if val is False and false_unsets is True:
        try:
            os.environ.pop(key, None)
        except (TypeError, ValueError):
            return False
        return None
    value = "" if val is False else val
    if not isinstance(value, str):
        log.debug("The value of a variable must be a string or False, not a %s", type(val).__name__)
        return False
    try:
        os.environ[key] = value
    except (TypeError, ValueError, OSError):
        log.error("The variable '%s' could not be set", key)
        return False
    return value


def setenv(
    environ: Any,
    false_unsets: bool = False,
    clear_all: bool = False,
    update_minion: bool = False,
    permanent: Any = False,
) -> Any:
    """
    Set several variables and answer with their values.

    clear_all
        Clear all others first.
    update_minion
        Set them for the daemon too, and so for all jobs to come.

    CLI Example::

        salt '*' environ.setenv '{"foo": "bar", "baz": "quux"}'
        salt '*' environ.setenv '{"a": "b", "c": False}' false_unsets=True
    """
    if not isinstance(environ, dict):
        return False
    result = {}
    if clear_all is True:
        for key in [name for name in os.environ if name not in environ]:
            result[key] = setval(key, False, false_unsets)
    for key, value in environ.items():
        if value is not False and not isinstance(value, str):
            return False
        result[key] = setval(key, value, false_unsets)
    if update_minion is True:
        __salt__["event.fire"](
            {
                "environ": environ,
                "false_unsets": false_unsets,
                "clear_all": clear_all,
                "permanent": permanent,
            },
            "environ_setenv",
        )
    return result


def get(key: Any, default: Any = "") -> Any:
    """
    One variable.

    CLI Example::

        salt '*' environ.get foo
        salt '*' environ.get baz default=False
    """
    return os.environ.get(key, default) if isinstance(key, str) else False


def has_value(key: Any, value: Any = None) -> bool:
    """
    Whether a variable is there, and has this value if one is given.

    CLI Example::

        salt '*' environ.has_value foo
    """
    if not isinstance(key, str) or key not in os.environ:
        return False
    return value is None or os.environ[key] == value


def item(keys: Any, default: Any = "") -> dict[str, Any]:
    """
    Some variables: a name or a list.

    CLI Example::

        salt '*' environ.item foo
        salt '*' environ.item '[foo, baz]' default=None
    """
    names = [keys] if isinstance(keys, str) else keys if isinstance(keys, list) else []
    return {name: os.environ.get(name, default) for name in names}


def items() -> dict[str, str]:
    """
    All variables.

    CLI Example::

        salt '*' environ.items
    """
    return dict(os.environ)
