"""
Debian's clusters of PostgreSQL: several servers of one machine, each with a version and a name.
"""

from __future__ import annotations

import glob
import os
import subprocess

from tests.servers.postgres import Postgres
from tests.servers.script import Script, Server

_ROOT = "PG_CLUSTER_CONF_ROOT"
"""Where the programs of C{postgresql-common} keep configurations instead of in C{/etc}."""


class Clusters(Server):
    """
    Configurations and data in a directory of its own. Only the empty log of a cluster is where
    Debian has it, until the cluster is removed.
    """

    user = "postgres"

    @classmethod
    def lacking(cls) -> str:
        there = os.path.exists("/usr/bin/pg_createcluster") and not Postgres.lacking()
        return "" if there else "postgresql"

    @property
    def version(self) -> str:
        """The version of PostgreSQL that is installed."""
        return os.path.basename(os.path.dirname(Postgres.programs()))

    def start(self) -> None:
        self._before = os.environ.get(_ROOT)
        os.environ[_ROOT] = self.owned("etc")
        self.owned("data")

    def stop(self) -> None:
        env = {**os.environ, _ROOT: self.path("etc")}
        for place in glob.glob(self.path("etc/*/*")):
            version, name = place.split("/")[-2:]
            words = ["pg_dropcluster", "--stop", version, name]
            subprocess.run(words, env=env, capture_output=True, check=False)
        if self._before is None:
            os.environ.pop(_ROOT, None)
        else:
            os.environ[_ROOT] = self._before
        super().stop()


def clusters(script: Script) -> None:
    """Clusters are made, looked at, refused and removed."""
    server = script.server
    assert isinstance(server, Clusters)
    call, twice, state, version = script.call, script.twice, script.state, server.version
    one, two = (server.path(f"data/{name}") for name in ("one", "two"))
    call("postgres.cluster_list")
    call("postgres.cluster_exists", version, "swone")
    call("postgres.cluster_remove", version, "swone")
    call("postgres.cluster_create", version, "swone", port=57341, datadir=one, encoding="UTF8")
    call("postgres.cluster_create", version, "swone", datadir=one)
    call("postgres.cluster_create", "1.0", "swnone", datadir=one)
    call("postgres.cluster_list")
    call("postgres.cluster_list", verbose=True)
    call("postgres.cluster_exists", version, "swone")
    call("postgres.cluster_exists", int(version), "swone")
    new = {"name": "swtwo", "version": version, "datadir": two, "port": 57342, "locale": "C.UTF-8"}
    twice("postgres_cluster.present", **new, data_checksums=True)
    state("postgres_cluster.present", **{**new, "port": 57343})
    state("postgres_cluster.present", **{**new, "datadir": one})
    state("postgres_cluster.present", name="sw'; echo x", version=version, datadir=two)
    state("postgres_cluster.present", name="swbad", version="1.0", datadir=two)
    state(
        "postgres_cluster.present", name="swbad", version=version, datadir=two, encoding="KLINGON"
    )
    call("postgres.cluster_list")
    twice("postgres_cluster.absent", name="swtwo", version=version)
    call("postgres.cluster_remove", version, "swone", stop=True)
    call("postgres.cluster_list", verbose=True)


SCRIPTS = {"postgres_clusters": clusters}
