"""
Clusters of Debian's PostgreSQL.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.states import _postgres

__salt__: Any
__opts__: Any

_NEW = (
    *("version", "name", "port", "locale", "encoding", "datadir"),
    *("allow_group_access", "data_checksums", "wal_segsize"),
)


def __virtual__() -> Any:
    return _postgres.loadable(__salt__, "cluster_exists")


def present(
    version: Any,
    name: str,
    port: Any = None,
    encoding: str | None = None,
    locale: str | None = None,
    datadir: str | None = None,
    allow_group_access: bool | None = None,
    data_checksums: bool | None = None,
    wal_segsize: Any = None,
) -> dict[str, Any]:
    """
    There is a cluster.

    version, name
        The version of PostgreSQL, and what it is called.
    port, datadir
        Where it listens, and its data directory. These cannot be changed.
    encoding, locale
        Those of new databases.
    allow_group_access
        The owner's group may read it.
    data_checksums
        Pages of data have checksums.
    wal_segsize
        The size of a file of the write-ahead log, in megabytes.
    """
    given = picked(locals(), _NEW)
    shown = f"{version}/{name}"
    ret = _postgres.new(name, f"Cluster {shown} is already present")
    if __salt__["postgres.cluster_exists"](version, name):
        there = __salt__["postgres.cluster_list"](verbose=True)[shown]
        if (port and int(port) != there["port"]) or (datadir and datadir != there["datadir"]):
            comment = "wrong parameters which couldn't be changed on fly."
            return _postgres.failed(ret, f"Cluster {shown} has {comment}")
        return ret
    if __opts__.get("test"):
        return _postgres.planned(ret, f"Cluster {shown} is set to be created")
    if __salt__["postgres.cluster_create"](**given):
        comment = f"The cluster {shown} has been created"
        return {**ret, "comment": comment, "changes": {shown: "Present"}}
    return _postgres.failed(ret, f"Failed to create cluster {shown}")


def absent(version: Any, name: str) -> dict[str, Any]:
    """
    There is no such cluster. A running one is stopped.

    version, name
        Which.
    """
    return _postgres.removed(
        _postgres.new(name),
        f"Cluster {version}/{name}",
        __salt__["postgres.cluster_exists"](version, name),
        __opts__.get("test"),
        lambda: __salt__["postgres.cluster_remove"](version, name, True).get("changes"),
    )
