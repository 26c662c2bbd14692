"""
The job stores keep their contract: SQLite, alone and as a node of a cluster has it, and the fake.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError, StoreError
from saltwisted.kinds import JOB_STORE
from saltwisted.parts import IJobStore
from saltwisted.stores.jobs.choice import JOB_STORES
from saltwisted.testing.jobs import MemoryJobs
from tests.contracts.jobs import JID, JOB, KEEP, JobStoreContract, load
from tests.stores.support import FolderTestCase, ThreadReactor


class FakeTests(JobStoreContract, SynchronousTestCase):
    """The one for tests."""

    last: MemoryJobs | None = None

    def made(self, keep: float = KEEP) -> IJobStore:
        """A fake."""
        self.last = MemoryJobs(lambda: self.now, keep, self.last)
        return self.last

    def get(self, waiting: Any) -> Any:
        """It has fired."""
        found: list[Any] = []
        waiting.addBoth(found.append)
        (value,) = found
        if hasattr(value, "raiseException"):
            value.raiseException()
        return value

    def test_full(self) -> None:
        """One that is told to be full takes nothing, says so, and is harmless again later."""
        store = MemoryJobs()
        store.full = True
        self.assertRaises(StoreError, self.get, store.save_job(JID, JOB, []))
        self.assertRaises(StoreError, self.get, store.save_return(load()))
        self.assertIn("no space", store.problem)
        store.full = False
        self.assertTrue(self.get(store.save_return(load())))

    def test_held(self) -> None:
        """A return is acknowledged when the test says so."""
        store = MemoryJobs()
        store.held = []
        waiting = store.save_return(load())
        self.assertNoResult(waiting)
        store.held[0].callback(True)
        self.assertTrue(self.get(waiting))


class LocalTests(JobStoreContract, FolderTestCase):
    """C{local_cache}, as a lone master makes it; threads and disk are real."""

    node = ""

    def setUp(self) -> None:
        """A reactor for its threads."""
        super().setUp()
        self.reactor = ThreadReactor()

    def made(self, keep: float = KEEP) -> IJobStore:
        """The real one."""
        config = MasterConfig(cachedir=self.folder, keep_jobs_seconds=int(keep))
        make = JOB_STORES.take("local_cache")
        return make(self.reactor, config, lambda: self.now, self.node, lambda: True)

    def get(self, waiting: Any) -> Any:
        """Wait for its threads."""
        return self.reactor.result(waiting)


class NodeTests(LocalTests):
    """C{local_cache} of a node of a cluster."""

    node = "n1"


class RegistryTests(SynchronousTestCase):
    """The names that C{master_job_cache} knows."""

    def test_unknown(self) -> None:
        """A name that is not there is an error with the right one."""
        with self.assertRaisesRegex(ConfigError, "unknown job store 'local': .*'local_cache'"):
            JOB_STORES.take("local")
        self.assertEqual(list(JOB_STORES), list(JOB_STORE.here))
