"""
Which parts a master is built with: those that its configuration names, whatever they are.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.domain.who import local
from saltwisted.errors import ConfigError
from saltwisted.kinds import FILES, JOB_STORE, MINION_CACHE, Kind, Parts
from saltwisted.master.site import SiteFunctions
from saltwisted.roles import stores as roles_stores
from saltwisted.roles.clusterjobs import ClusterJobs
from saltwisted.roles.master import Master
from saltwisted.roles.stores import Stores
from saltwisted.stores.jobs.store import JobStore
from saltwisted.testing.cache import MemoryCache
from saltwisted.testing.files import MemoryFiles
from saltwisted.testing.jobs import MemoryJobs
from tests.harness import reserve_ports, scratch


class ChosenPartsTests(SynchronousTestCase):
    """A lone master that is not started."""

    def stores(self, **options: Any) -> Stores:
        """What it stands on."""
        home = scratch(self)
        publish, requests = reserve_ports(2)
        folders = {name: os.path.join(home, name) for name in ("pki_dir", "cachedir", "sock_dir")}
        return Stores(
            MemoryReactorClock(),
            MasterConfig(
                **{
                    "id": "m",
                    "root_dir": home,
                    "publish_port": publish,
                    "ret_port": requests,
                    "interface": "127.0.0.1",
                    **folders,
                    **options,
                }
            ),
        )

    def have(self, table: str, kind: Kind, **made: Any) -> None:
        """Have other parts of a kind as well, each made by what a name stands for."""
        real = getattr(roles_stores, table)
        wider = Kind(
            option=kind.option,
            noun=kind.noun,
            here=(*kind.here, *made),
            elsewhere=kind.elsewhere,
            usual=kind.usual,
        )
        parts = {name: real.take(name) for name in kind.here}
        self.patch(roles_stores, table, Parts(wider, {**parts, **made}))
        for name in ("FILES", "JOB_STORE", "MINION_CACHE"):
            if getattr(roles_stores, name) is kind:
                self.patch(roles_stores, name, wider)

    def test_usual(self) -> None:
        """Without a choice, and with one that is not here, it is built with what it always had."""
        for options in (
            {},
            {"cache": "redis", "master_job_cache": "mysql", "fileserver_backend": ["hgfs"]},
        ):
            stores = self.stores(**options)
            self.assertEqual(
                [type(stores.cache).__name__, type(stores.jobs).__name__],
                ["MinionCache", "JobStore"],
            )
            self.assertEqual([source.name for source in stores.sources], ["roots"])
            self.assertIs(stores.job_log(), stores.jobs)

    def test_others(self) -> None:
        """
        Other parts by other names serve as well: a whole master is built of them, runs a runner,
        lists their files in their order, and keeps its jobs there.
        """
        cache, jobs = MemoryCache(), MemoryJobs()
        files = MemoryFiles({"base": {"top.sls": b"base: {}\n"}}, name="memory")
        self.have("CACHES", MINION_CACHE, memory=lambda *_: cache)
        self.have("JOB_STORES", JOB_STORE, memory=lambda *_: jobs)
        self.have("FILE_SOURCES", FILES, memory=lambda *_: files)
        stores = self.stores(
            cache="memory", master_job_cache="memory", fileserver_backend=["memory", "roots"]
        )
        master = Master(stores, stores.seams())
        cache.put("grains", "web1", {"os": "Debian"})
        # Modules of the site's own are looked for in a thread
        self.patch(SiteFunctions, "learn", lambda functions: succeed(None))

        def run(fun: str, *arg: Any) -> Any:
            call = master.ctx.runner(fun, list(arg), {}, local("root"))
            return self.successResultOf(Deferred.fromCoroutine(call))

        self.assertIs(master.ctx.jobs, jobs)
        self.assertEqual(master.ctx.files.backends, ("memory", "roots"))
        self.assertEqual(master.ctx.files.file_find("top.sls")["back"], "memory")
        self.assertEqual(run("cache.list", "grains")["return"], ["web1"])
        done = run("fileserver.envs")
        self.assertEqual(done["return"], ["base"])
        self.assertEqual(jobs.loads[done["jid"]]["fun"], "runner.fileserver.envs")
        self.assertEqual(master.problems(), {})
        jobs.full = True
        self.assertIn("no space left", master.problems()["jobs"])

    def test_no_log(self) -> None:
        """A node of a cluster is not built with jobs that other nodes cannot have."""
        self.have("JOB_STORES", JOB_STORE, memory=lambda *_: MemoryJobs())
        stores = self.stores(master_job_cache="memory")

        with self.assertRaisesRegex(ConfigError, "master_job_cache: local_cache"):
            stores.job_log()
        with self.assertRaises(ConfigError):
            ClusterJobs(stores, None, lambda: None)  # type: ignore[arg-type,return-value]
        self.assertIsInstance(self.stores().job_log(), JobStore)
