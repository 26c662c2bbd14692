"""
Clusters of Debian's PostgreSQL: several servers on one machine, each of a version.
"""

from __future__ import annotations

import logging
from typing import Any

from saltwisted.worker import systools

log = logging.getLogger(__name__)

__virtualname__ = "postgres"
__salt__: Any


def __virtual__() -> Any:
    if systools.which("pg_createcluster"):
        return __virtualname__
    return False, "postgres execution module not loaded: pg_createcluste command not found."


def _run(cmd: list[Any]) -> dict[str, Any]:
    words = [str(word) for word in cmd]
    return dict(__salt__["cmd.run_all"](words, python_shell=False))


def cluster_create(
    version: Any,
    name: str = "main",
    port: Any = None,
    locale: str | None = None,
    encoding: str | None = None,
    datadir: str | None = None,
    allow_group_access: bool | None = None,
    data_checksums: bool | None = None,
    wal_segsize: Any = None,
) -> Any:
    """
    Make a cluster. C{False} if that fails.

    version, name
        The version of PostgreSQL, and what it is called.
    port
        Where it listens.
    locale, encoding
        Those of new databases.
    datadir
        Its data directory.
    allow_group_access
        The owner's group may read it.
    data_checksums
        Pages of data have checksums.
    wal_segsize
        The size of a file of the write-ahead log, in megabytes.

    CLI Example::

        salt '*' postgres.cluster_create '15' 'main' locale='fr_FR'
        salt '*' postgres.cluster_create '15' data_checksums=True wal_segsize='32'
    """
    cmd: list[Any] = [systools.which("pg_createcluster")]
    given = {"port": port, "locale": locale, "encoding": encoding, "datadir": datadir}
    for word, value in given.items():
        cmd += [f"--{word}", value] if value else []
    cmd += [version, name]
    more = ["--allow-group-access"] if allow_group_access is True else []
    more += ["--data-checksums"] if data_checksums is True else []
    more += ["--wal-segsize", wal_segsize] if wal_segsize else []
    ret = _run([*cmd, "--", *more] if more else cmd)
    if ret.get("retcode", 0) != 0:
        log.error("Error creating a Postgresql cluster %s/%s", version, name)
        return False
    return ret


def cluster_list(verbose: bool = False) -> Any:
    """
    All clusters, C{version/name}.

    verbose
        With port, status, user, data directory and log of each.

    CLI Example::

        salt '*' postgres.cluster_list verbose=True
    """
    ret = _run([systools.which("pg_lsclusters"), "--no-header"])
    if ret.get("retcode", 0) != 0:
        log.error("Error listing clusters")
    found = {}
    for line in ret["stdout"].splitlines():
        version, name, port, status, user, datadir, logfile = line.split(None, 6)
        found[f"{version}/{name}"] = {
            "port": int(port),
            "status": status,
            "user": user,
            "datadir": datadir,
            "log": logfile,
        }
    return found if verbose else list(found)


def cluster_exists(version: Any, name: str = "main") -> bool:
    """
    Whether there is a cluster.

    version, name
        Which.

    CLI Example::

        salt '*' postgres.cluster_exists '15' 'main'
    """
    return f"{version}/{name}" in cluster_list()


def cluster_remove(version: Any, name: str = "main", stop: bool = False) -> dict[str, Any]:
    """
    Remove a cluster with all that is in it.

    version, name
        Which.
    stop
        Stop it first; without, a running one stays.

    @return: what the program answered, with C{changes} if it did so.

    CLI Example::

        salt '*' postgres.cluster_remove '15' 'main' stop=True
    """
    ret = _run([systools.which("pg_dropcluster"), *(["--stop"] if stop else []), version, name])
    if ret.get("retcode", 0) != 0:
        log.error("Error removing a Postgresql cluster %s/%s", version, name)
    else:
        ret["changes"] = f"Successfully removed cluster {version}/{name}"
    return ret
