"""
A whole minion in this process, without a master: what it starts, answers, writes and leaves.

It uses the reactor and one worker process, since the parts meet nowhere else.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from typing import Any, ClassVar

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from saltwisted.errors import ConfigError, RemoteError
from saltwisted.roles.base import OrderedService
from saltwisted.roles.minion import MinionRole, identity_of, sign_key_of
from saltwisted.worker.control import ControlClient
from saltwisted.worker.jobfiles import read_procs
from saltwisted.worker.process.configio import load_from_disk
from tests.transports.test_ipc import awaited


def configuration(base: str, **options: Any) -> Any:
    """A minion's configuration in a directory of its own."""
    lines = {
        "id": "m1",
        "root_dir": base,
        "master": "127.0.0.1",
        "master_port": 1,
        "sock_dir": os.path.join(base, "run"),
        **options,
    }
    with open(os.path.join(base, "minion"), "w") as stream:
        stream.writelines(f"{name}: {value!r}\n" for name, value in lines.items())
    return load_from_disk("minion", base).minion


class RoleCase(TestCase):
    """One minion for each test, with these options."""

    timeout = 30
    options: ClassVar[dict[str, Any]] = {}

    def setUp(self) -> None:
        """Build and start it, with the most careless umask there is."""
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        self.config = configuration(self.base, **self.options)
        self.role = MinionRole(reactor, self.config)
        self.failed: list[BaseException] = []
        self.service = OrderedService(reactor, self.role.parts, self.failed.append)
        self.service.privilegedStartService()
        self.addCleanup(self.service.stopService)

    async def start(self) -> None:
        """Wait until it has started."""
        await self.service.startService()
        self.assertEqual(self.failed, [])

    async def ask(self, op: str, **args: Any) -> Any:
        """Ask over the socket, as a command line does."""

        def call() -> Any:
            with ControlClient(os.path.join(self.config.sock_dir, "saltwisted.sock")) as client:
                return client.call_within(10, op, **args)

        return await deferToThread(call)

    async def until(self, condition: Any) -> Any:
        """Wait, in small steps, for what another process does."""
        while not (value := condition()):
            await deferLater(reactor, 0.01, lambda: None)
        return value


class ListedTests(RoleCase):
    """A minion that may be told to do nearly nothing."""

    options: ClassVar[dict[str, Any]] = {"whitelist_modules": ["test"]}

    @awaited
    async def test_own_jobs(self) -> None:
        """Its daemon collects its grains all the same."""
        await self.start()
        status = await self.ask("status")

        self.assertGreater(status["grains"], 10)


class RoleTests(RoleCase):
    """One minion that may do everything."""

    @awaited
    async def test_life(self) -> None:
        """It answers on its socket, runs a job, keeps the return for a master, and stops clean."""
        await self.start()
        status = await self.ask("status")
        self.assertEqual((status["id"], status["role"], status["masters_up"]), ("m1", "minion", []))
        self.assertGreater(status["grains"], 10)
        self.assertEqual([link["master"] for link in status["masters"]], ["127.0.0.1"])

        job = {"jid": "20260101000000000001", "fun": "test.echo", "arg": ["hi"]}
        self.role.jobs.take(job, "127.0.0.1")
        (name,) = await self.until(self.role.returns._outbox.names)
        kept = self.role.returns._outbox.read(name)
        assert kept is not None
        self.assertEqual((kept.load["return"], kept.via), ("hi", "127.0.0.1"))
        parent = self.role.warm.parent_pid

        await self.service.stopService()

        self.assertRaises(ProcessLookupError, os.kill, parent, 0)
        self.assertEqual(os.listdir(self.config.sock_dir), ["saltwisted.sock.lock"])

    @awaited
    async def test_running(self) -> None:
        """A running job is listed, and ended by a signal; grains are there for it."""
        await self.start()
        self.role.jobs.schedule(
            {"jid": "20260101000000000002", "fun": "test.sleep", "arg": [60], "schedule": "s"}
        )
        await self.until(lambda: list(read_procs(self.config.cachedir)))
        (listed,) = await self.ask("running")
        self.assertEqual((listed["fun"], listed["schedule"]), ("test.sleep", "s"))

        self.assertTrue(await self.ask("signal", jid=listed["jid"], signal=int(signal.SIGTERM)))
        (name,) = await self.until(self.role.returns._outbox.names)

        kept = self.role.returns._outbox.read(name)
        assert kept is not None
        self.assertIn("was ended by SIGTERM", kept.load["return"])
        ret = await self.role.jobs.call("grains.get", ["id"], "20260101000000000003")
        self.assertEqual(ret["return"], "m1")

    @awaited
    async def test_t_fs_1(self) -> None:
        """T-FS-1: nothing that it writes is readable by others, whatever the umask."""
        await self.start()
        self.role.jobs.take({"jid": "20260101000000000004", "fun": "test.ping", "arg": []}, "")
        await self.until(self.role.returns._outbox.names)
        self.role.save_schedule({"a": {"function": "test.ping", "seconds": 9}})
        saved = os.path.join(self.base, "minion.d", "_schedule.conf")
        await self.until(lambda: os.path.exists(saved))

        public = {
            os.path.join(self.config.sock_dir, "saltwisted.sock"),
            os.path.join(self.base, "minion"),
        }
        for folder, folders, names in os.walk(self.base):
            for name in names:
                path = os.path.join(folder, name)
                if path not in public:
                    self.assertEqual(os.lstat(path).st_mode & 0o077, 0, path)
            for name in folders:
                path = os.path.join(folder, name)
                if any(part in path for part in ("/pki/", "/cache/", "/outbox", "/proc")):
                    self.assertEqual(os.lstat(path).st_mode & 0o077, 0, path)

    @awaited
    async def test_refused_without_master(self) -> None:
        """A pillar refresh without a master is an error for who waits for it."""
        await self.start()

        error = await self.assertFailure(self.refresh(), RemoteError)

        self.assertIn("no master", error.message)

    def refresh(self) -> Any:
        """Ask for a pillar refresh."""
        from twisted.internet.defer import Deferred

        return Deferred.fromCoroutine(self.ask("refresh", what="pillar", wait=True))


class KeyTests(SynchronousTestCase):
    """The minion's keys."""

    def setUp(self) -> None:
        """A directory."""
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)

    def test_kept(self) -> None:
        """A key is made once, in Salt's place, readable by its owner alone, and found again."""
        config = configuration(self.base)
        first = identity_of(config)

        second = identity_of(config)

        self.assertEqual(first.tok, second.tok)
        path = os.path.join(config.pki_dir, "minion.pem")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o400)

    def test_secret(self) -> None:
        """T-LOG-1: no key shows in the text form of an identity."""
        identity = identity_of(configuration(self.base))

        self.assertNotIn("PRIVATE", repr(identity))
        self.assertNotIn(repr(identity.tok), repr(identity))

    def test_sign_key(self) -> None:
        """A signing key that is demanded must be there, and must be one."""
        self.assertIsNone(sign_key_of(configuration(self.base)))
        config = configuration(self.base, verify_master_pubkey_sign=True)
        self.assertRaises(ConfigError, sign_key_of, config)
        os.makedirs(config.pki_dir, exist_ok=True)
        with open(os.path.join(config.pki_dir, "master_sign.pub"), "w") as stream:
            stream.write("no key")
        self.assertRaises(ConfigError, sign_key_of, config)
