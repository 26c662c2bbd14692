"""
Statements that MySQL and MariaDB servers run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from saltwisted.states import _mysql

__salt__: Any
__opts__: Any
__context__: Any
__env__: Any

_FROM_ELSEWHERE = ("http://", "https://", "salt://", "s3://", "swift://")


def __virtual__() -> Any:
    return _mysql.loadable(__salt__, "query")


def run_file(
    name: str,
    database: str,
    query_file: Any = None,
    output: str | None = None,
    grain: str | None = None,
    key: str | None = None,
    overwrite: bool = True,
    saltenv: str | None = None,
    check_db_exists: bool = True,
    client_flags: Any = None,
    **connection_args: Any,
) -> dict[str, Any]:
    """
    Run the statements of a file.

    query_file
        The file, also at an address such as C{salt://}.
    saltenv
        The environment of such an address.

    Other arguments are those of C{run}.
    """
    ret = _mysql.new(name, f"Database {database} is already present")
    flags = [] if client_flags is None else client_flags
    if not isinstance(flags, list):
        return _mysql.failed(ret, "Error: client_flags must be a list.")
    if str(query_file).startswith(_FROM_ELSEWHERE):
        query_file = __salt__["cp.cache_file"](query_file, saltenv=saltenv or __env__)
    if not query_file or not os.path.exists(query_file):
        return _mysql.failed(ret, f"File {query_file} does not exist")
    where = {**connection_args, "client_flags": flags}
    place = _Place(output, grain, key)
    if found := _before(ret, database, database, check_db_exists, where, place, overwrite):
        return found
    return _ran(ret, place, lambda: __salt__["mysql.file_query"](database, query_file, **where))


def run(
    name: str,
    database: str,
    query: str,
    output: str | None = None,
    grain: str | None = None,
    key: str | None = None,
    overwrite: bool = True,
    check_db_exists: bool = True,
    client_flags: Any = None,
    **connection_args: Any,
) -> dict[str, Any]:
    """
    Run a statement, each time that the state runs.

    name
        What the state is called.
    database
        The database.
    query
        The statement.
    output
        C{grain}, or a file into which the result goes.
    grain, key
        The grain, and perhaps the key below it.
    overwrite
        C{False}: only if the grain or the file is not there.
    check_db_exists
        Do nothing if the database is not there.
    client_flags
        A list of flags of the connection.

    The server is in C{connection_host}, C{connection_user}, C{connection_pass} and so on.
    """
    ret = _mysql.new(name, f"Database {database} is already present")
    flags = [] if client_flags is None else client_flags
    if not isinstance(flags, list):
        return _mysql.failed(ret, "Error: client_flags must be a list.")
    where = {**connection_args, "client_flags": flags}
    place = _Place(output, grain, key)
    if found := _before(ret, database, name, check_db_exists, where, place, overwrite):
        return found
    return _ran(ret, place, lambda: __salt__["mysql.query"](database, query, **where))


class _Place:
    """Where a result goes."""

    def __init__(self, output: str | None, grain: str | None, key: str | None) -> None:
        self.output, self.grain, self.key = output, grain, key

    @property
    def is_grain(self) -> bool:
        return self.output == "grain"

    @property
    def shown(self) -> str:
        if not self.is_grain:
            return f"file: {self.output}"
        return f"grain: {self.grain}" + ("" if self.key is None else f":{self.key}")

    def is_set(self) -> bool:
        """Whether something is there already."""
        if not self.is_grain:
            return os.path.isfile(str(self.output))
        if self.grain not in __salt__["grains.ls"]():
            return False
        return self.key is None or self.key in __salt__["grains.get"](self.grain)

    def write(self, found: Any) -> str:
        """Put the result there, and say where it is."""
        if self.output is None:
            return "Executed"
        if not self.is_grain:
            rows = found.get("results", [found])
            with open(self.output, "w", encoding="utf-8") as file:
                file.writelines(f"{key}:{value}\n" for row in rows for key, value in row.items())
            return f"Executed. Output into {self.output}"
        if self.key is not None:
            there = self.grain in __salt__["grains.ls"]()
            found = {**(__salt__["grains.get"](self.grain) if there else {}), self.key: found}
        __salt__["grains.setval"](self.grain, found)
        return f"Executed. Output into {self.shown}"


def _before(
    ret: _mysql.Ret,
    database: str,
    shown: str,
    is_checked: bool,
    where: dict[str, Any],
    place: _Place,
    overwrite: bool,
) -> _mysql.Ret | None:
    """The end of a state that does not run its statements."""
    if is_checked and not __salt__["mysql.db_exists"](database, **where):
        said = _mysql.error(__context__)
        if said is not None:
            return _mysql.failed(ret, said)
        return _mysql.planned(ret, f"Database {shown} is not present")
    if place.is_grain and place.grain is None:
        return _mysql.failed(ret, "Error: output type 'grain' needs the grain parameter\n")
    if place.output is not None and not overwrite and place.is_set():
        word = place.shown.replace("grain: ", "Grain ").replace("file: ", "File ")
        return {**ret, "comment": f"No execution needed. {word} already set"}
    if __opts__["test"]:
        storing = "not storing result"
        if place.output is not None:
            storing = f"storing result in {place.shown}"
        return _mysql.planned(ret, f"Query would execute, {storing}")
    return None


def _ran(ret: _mysql.Ret, place: _Place, ask: Callable[[], Any]) -> _mysql.Ret:
    """The end of a state that does."""
    found = ask()
    if found is False or not found:
        said = _mysql.error(__context__)
        return _mysql.failed(ret, ret["comment"] if said is None else said)
    if "results" in found:
        sets = list(zip(found["columns"], found["results"], strict=False))
        if found["columns"] and isinstance(found["columns"][0], str):
            sets = [(found["columns"], found["results"])]
        rows = [dict(zip(columns, row, strict=True)) for columns, rows in sets for row in rows]
        found = {**found, "results": rows}
    done = place.write(found)
    return {**ret, "comment": str(found), "changes": {"query": done}}
