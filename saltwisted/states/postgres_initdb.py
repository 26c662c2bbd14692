"""
Data directories of PostgreSQL servers.
"""

from __future__ import annotations

from typing import Any

from saltwisted.states import _postgres

__salt__: Any
__opts__: Any


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "datadir_init")


def present(
    name: str,
    user: str | None = None,
    password: Any = None,
    auth: str = "password",
    encoding: str = "UTF8",
    locale: str | None = None,
    runas: str | None = None,
    waldir: str | None = None,
    checksums: bool = False,
) -> dict[str, Any]:
    """
    A directory is the data directory of a server.

    name
        The directory.
    user, password
        The superuser's name and password.
    auth
        How local connections prove who they are.
    encoding, locale
        Those of new databases.
    runas
        The system user who owns it.
    waldir
        Where the write-ahead log goes, if not into the directory.
    checksums
        Pages of data have checksums.
    """
    ret = _postgres.new(name, f"Postgres data directory {name} is already present")
    if __salt__["postgres.datadir_exists"](name=name):
        return ret
    if __opts__["test"]:
        return _postgres.planned(ret, f"Postgres data directory {name} is set to be initialized")
    if __salt__["postgres.datadir_init"](
        name,
        user=user,
        password=password,
        auth=auth,
        encoding=encoding,
        locale=locale,
        waldir=waldir,
        checksums=checksums,
        runas=runas,
    ):
        comment = f"Postgres data directory {name} has been initialized"
        return _postgres.done(ret, comment, "Present")
    return _postgres.failed(ret, f"Postgres data directory {name} initialization failed")
