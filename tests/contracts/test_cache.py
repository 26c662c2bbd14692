"""
The minion caches keep their contract: the files, the files with hardly any memory, and the fake.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.errors import ConfigError
from saltwisted.kinds import MINION_CACHE
from saltwisted.parts import IMinionCache
from saltwisted.stores.cache import CACHES, MinionCache
from saltwisted.testing.cache import MemoryCache
from tests.contracts.cache import MinionCacheContract
from tests.stores.support import FolderTestCase


class FakeTests(MinionCacheContract, SynchronousTestCase):
    """The one for tests."""

    def setUp(self) -> None:
        """What it keeps."""
        self.kept: dict[tuple[str, str], bytes] = {}

    def opened(self) -> IMinionCache:
        """A fake."""
        return MemoryCache(self.kept)


class LocalTests(MinionCacheContract, FolderTestCase):
    """C{localfs}, as a master makes it; its thread is this one, at once."""

    def opened(self) -> IMinionCache:
        """The real one."""
        config = MasterConfig(cachedir=self.folder)
        cache = CACHES.take("localfs")(config, lambda work: work(), Clock())
        cache.startService()
        self.addCleanup(cache.stopService)
        return cache


class SmallTests(MinionCacheContract, FolderTestCase):
    """C{localfs} that can keep next to nothing in memory."""

    def opened(self) -> IMinionCache:
        """The real one."""
        cache = MinionCache(self.folder, objects=1, packed=1)
        cache.startService()
        return cache


class BehindTests(MinionCacheContract, FolderTestCase):
    """C{localfs} whose thread has no time before the cache stops."""

    def opened(self) -> IMinionCache:
        """The real one."""
        waiting: list[Callable[[], None]] = []
        cache = MinionCache(self.folder, waiting.append)
        cache.startService()
        return cache

    def test_deleted(self) -> None:
        """What waits to be written and is deleted meanwhile is not there after a crash either."""
        cache = self.opened()
        cache.put("pillar", "web1", {"a": 1})
        cache.delete("pillar", "web1")

        self.assertEqual(list(self.opened().ids("pillar")), [])


class RegistryTests(SynchronousTestCase):
    """The names that C{cache} knows."""

    def test_unknown(self) -> None:
        """A name that is not there is an error with the right one."""
        with self.assertRaisesRegex(ConfigError, "cache: unknown minion cache .*mean 'localfs'"):
            CACHES.take("localfs2")
        self.assertEqual(list(CACHES), list(MINION_CACHE.here))
