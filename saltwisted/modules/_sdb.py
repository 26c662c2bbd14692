"""
Values behind C{sdb://profile/key}: which driver has them, and what it is asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

SCHEME = "sdb://"


@frozen
class Place:
    """
    Where a value is.

    @ivar driver: the module of the kind C{sdb}.
    @ivar profile: its options.
    """

    driver: str
    profile: Mapping[str, Any]
    key: str


def place_of(
    uri: Any, opts: Mapping[str, Any], pillar: Mapping[str, Any], strict: bool = False
) -> Place | None:
    """
    What an address means; C{None}: it is none, or nobody knows its profile.

    @raises SaltInvocationError: the same, if C{strict}.
    """
    if not isinstance(uri, str) or not uri.startswith(SCHEME):
        return _none('SDB uri must start with "sdb://"', strict)
    name, slash, key = uri[len(SCHEME) :].partition("/")
    if not slash or not key:
        words = "SDB uri must have a profile name as a first part of the uri before the /"
        return _none(words, strict)
    profile = opts.get(name) or pillar.get(name) or {}
    if not isinstance(profile, Mapping) or "driver" not in profile:
        return _none(f'SDB profile "{name}" wasnt found in the minion configuration', strict)
    return Place(str(profile["driver"]), profile, key)


def _none(why: str, strict: bool) -> Place | None:
    if strict:
        raise SaltInvocationError(why)
    return None


def ask(place: Place, what: str, drivers: Any, *args: Any) -> Any:
    """
    Ask the driver: C{get}, C{set} or C{delete}.

    @param drivers: the functions of the kind C{sdb}.
    @raises CommandExecutionError: there is no such driver, or it cannot do this.
    """
    function = f"{place.driver}.{what}"
    if function not in drivers:
        raise CommandExecutionError(
            f"sdb driver '{place.driver}' is not available: {drivers.missing_fun_string(function)}"
        )
    return drivers[function](place.key, *args, profile=place.profile)


def made_up(length: int, chars: str) -> str:
    """A new secret."""
    return "".join(secrets.choice(chars) for _ in range(length))
