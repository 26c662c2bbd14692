"""
What the states of PostgreSQL have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Ret = dict[str, Any]

LACKING = "Unable to load postgres module.  Make sure `postgres.bins_dir` is set."


def loadable(salt: Mapping[str, Any], function: str) -> Any:
    """C{__virtual__} of a state that needs this function."""
    return True if f"postgres.{function}" in salt else (False, LACKING)


def new(name: str, comment: str = "", **more: Any) -> Ret:
    """A state that found nothing to do."""
    return {"name": name, "changes": {}, "result": True, "comment": comment, **more}


def planned(ret: Ret, comment: str) -> Ret:
    """What would be done."""
    return {**ret, "result": None, "comment": comment}


def failed(ret: Ret, comment: str) -> Ret:
    """What could not be done."""
    return {**ret, "result": False, "comment": comment}


def done(ret: Ret, comment: str, changes: Any) -> Ret:
    """What was done with the thing that the state names."""
    return {**ret, "comment": comment, "changes": {ret["name"]: changes}}


def removed(ret: Ret, thing: str, is_there: bool, is_test: bool, remove: Callable[[], Any]) -> Ret:
    """Something is not there any more."""
    if not is_there:
        return {**ret, "comment": f"{thing} is not present, so it cannot be removed"}
    if is_test:
        return planned(ret, f"{thing} is set to be removed")
    if remove():
        return done(ret, f"{thing} has been removed", "Absent")
    return failed(ret, f"{thing} failed to be removed")


def server(given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a state's arguments, which server is meant, under the names of the module."""
    return {
        "maintenance_db": given["maintenance_db"],
        "runas": given["user"],
        "host": given["db_host"],
        "user": given["db_user"],
        "port": given["db_port"],
        "password": given["db_password"],
    }
