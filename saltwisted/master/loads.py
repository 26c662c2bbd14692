"""
Reads the contents of a load that asks for a job or a function, before anybody checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.domain.acl import command_fault
from saltwisted.domain.brief import brief
from saltwisted.domain.events import rough_weight
from saltwisted.domain.nested import ITEMS
from saltwisted.domain.targeting.bounds import fault
from saltwisted.domain.targeting.traverse import DELIMITER
from saltwisted.errors import RemoteError


def delimiter_of(load: Mapping[str, Any]) -> str:
    """What stands between the keys of a target into grains or pillar."""
    kwargs = load.get("kwargs")
    return str((kwargs.get("delimiter") if isinstance(kwargs, Mapping) else None) or DELIMITER)


def check_size(load: Mapping[str, Any], most: int = 0) -> None:
    """
    Check the form and the size of a publish load, before anybody reads its contents.

    @param most: bytes of all but its target, about, for one whom rules have to allow it; 0 for no
        limit.
    @raises RemoteError: it has another form, or is too large.
    """
    tgt_type = str(load.get("tgt_type") or "glob")
    reason = command_fault(load.get("fun")) or fault(load.get("tgt"), tgt_type, delimiter_of(load))
    if not isinstance(load.get("arg") or [], (list, tuple)):
        reason = "The arguments of a command are a list"
    elif not isinstance(load.get("kwargs") or {}, Mapping):
        reason = "What else a command carries is a map"
    elif len(load.get("arg") or []) > ITEMS:
        reason = f"The command has more than {ITEMS} arguments"
    elif most and (size := rough_weight({**load, "tgt": ""})) > most:
        reason = f"The command is about {size} bytes long; at most {most} are allowed"
    if reason:
        raise RemoteError("SaltInvocationError", reason)


def arguments_of(load: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """
    C{arg} and C{kwarg} of a call of a runner or wheel function.

    @raises RemoteError: they are neither a list nor a map with text for keys.
    """
    arg, kwarg = load.get("arg") or [], load.get("kwarg") or {}
    if not isinstance(arg, (list, tuple)):
        raise RemoteError("SaltInvocationError", "The arguments of a command are a list")
    if not isinstance(kwarg, Mapping) or not all(isinstance(key, str) for key in kwarg):
        raise RemoteError("SaltInvocationError", "Keyword arguments are a map")
    return list(arg), dict(kwarg)


def seconds_of(value: Any, default: float) -> float:
    """
    How long a caller wants to wait.

    @raises RemoteError: it is not a valid time.
    """
    try:
        seconds = float(value or default)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise RemoteError("SaltInvocationError", f"{brief(value, 50)!r} is not a number of seconds")
    return seconds
