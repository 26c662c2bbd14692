"""
A job's process, piece by piece; as a whole it runs in C{tests.transports.test_workers}.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import stat
import struct
import tempfile
from typing import Any

import msgpack
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.secrecy import STARS
from saltwisted.wire.msgpack import unpack
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError, SaltReqTimeoutError
from saltwisted.worker.jobfiles import (
    Outbox,
    OutboxReturn,
    command_name,
    failed,
    is_job_process,
    read_kept,
    read_procs,
    valid_jid,
    write_proc,
    write_whole,
)
from saltwisted.worker.process import daemonlog, main
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.unlogged import unlogged
from tests.worker.test_control import framed

JID = "20260101000000000001"


class SecretEventTests(SynchronousTestCase):
    """What a job of which nobody may see anything fires through its daemon."""

    def test_T_LOG_1_tag(self) -> None:
        """T-LOG-1: the name of a state goes from the tag of its result, as its texts do."""
        called: list[tuple[str, dict[str, Any]]] = []

        class Client:
            def call(self, op: str, **args: Any) -> None:
                called.append((op, args))

        client: Any = Client()
        link = main.DaemonLink(client)
        tag = "salt/state_result/20260701120000000000/m1/"
        event = {"tag": f"{tag}echo word", "data": {"ret": {"name": "echo word"}}}
        link.call("fire_event", **event)
        with unlogged("a job"):
            link.call("fire_event", **event)
            link.call("fire_event", tag="site/own", data={"pw": "word"})
        (_, plain), (_, state), (_, own) = called
        self.assertEqual(plain, event)
        self.assertEqual(state, {"tag": tag + STARS, "data": {"ret": {"name": STARS}}})
        self.assertEqual(own, {"tag": "site/own", "data": {"pw": STARS}})


class Case(SynchronousTestCase):
    """A directory, a client, and the daemon's end of its socket."""

    def setUp(self) -> None:
        """Make them."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.daemon, sock = socket.socketpair()
        self.addCleanup(self.daemon.close)
        self.client = ControlClient(sock=sock)
        self.addCleanup(self.client.close)
        self.outbox = Outbox(os.path.join(self.base, "outbox"))
        self.opts = {"id": "m1", "cachedir": self.base}

    def answer(self, number: int, **message: Any) -> None:
        """Prepare the daemon's answer to the client's question of this number."""
        self.daemon.sendall(framed({"id": number, **message}))

    def said(self) -> dict[str, Any]:
        """The next message of the client."""
        (size,) = struct.unpack(">I", self.daemon.recv(4))
        message: dict[str, Any] = msgpack.unpackb(self.daemon.recv(size, socket.MSG_WAITALL))
        return message


class HandInTests(Case):
    """A return's way to the disk and to the daemon."""

    RET = {"return": True, "jid": JID, "fun": "test.ping", "retcode": 0, "success": True}

    def test_disk_first(self) -> None:
        """The return is on disk, and the job off the list, when the daemon hears of it."""
        proc = write_proc(self.base, {"jid": JID, "fun": "test.ping", "arg": []}, os.getpid())
        self.answer(1, ok=None)

        main.hand_in(self.client, self.outbox, self.opts, dict(self.RET), proc, "red")

        (name,) = self.outbox.names()
        kept = self.outbox.read(name)
        self.assertEqual(kept, OutboxReturn({"cmd": "_return", "id": "m1", **self.RET}, "red"))
        self.assertFalse(os.path.exists(proc))
        said = self.said()
        self.assertEqual((said["op"], said["args"]["name"]), ("return", name))

    def test_T_TEXT_1_halves(self) -> None:
        """
        T-TEXT-1: a return with halves of characters is kept and handed in with backslashes in their
        place, and so it is where the disk refuses.
        """
        ret = {**self.RET, "return": {"a\ud800": ["\udcff", "\u00fc"]}}
        told = {"a\\ud800": ["\\udcff", "\u00fc"]}
        self.answer(1, ok=None)
        main.hand_in(self.client, self.outbox, self.opts, dict(ret), None)

        (name,) = self.outbox.names()
        kept = self.outbox.read(name)
        assert kept is not None
        self.assertEqual(kept.load["return"], told)
        self.assertEqual(read_kept(self.said()["args"]["packed"]), kept)
        shutil.rmtree(self.outbox.path)
        with open(self.outbox.path, "w"):
            pass
        self.answer(2, ok=None)
        main.hand_in(self.client, self.outbox, self.opts, dict(ret), None)
        self.assertEqual(self.said()["args"]["load"]["return"], told)

    def test_daemon_gone(self) -> None:
        """Without a daemon the return stays on disk for the next one."""
        self.daemon.close()

        main.hand_in(self.client, self.outbox, self.opts, dict(self.RET), None)

        self.assertEqual(len(self.outbox.names()), 1)

    def test_disk_refuses(self) -> None:
        """A return that the disk refuses goes to the daemon whole."""
        with open(self.outbox.path, "w"):
            pass
        self.answer(1, ok=None)

        main.hand_in(self.client, self.outbox, self.opts, dict(self.RET), None)

        load = {"cmd": "_return", "id": "m1", **self.RET}
        self.assertEqual(self.said()["args"], {"load": load, "via": ""})

    def test_unsendable(self) -> None:
        """A return that cannot be serialised becomes a failed one which says so."""
        self.answer(1, ok=None)
        ret = {**self.RET, "return": object()}

        main.hand_in(self.client, self.outbox, self.opts, ret, None)

        kept = self.outbox.read(self.outbox.names()[0])
        assert kept is not None
        load = kept.load
        self.assertEqual((load["success"], load["retcode"], load["jid"]), (False, 1, JID))
        self.assertIn("cannot be sent", load["return"])

    def test_exit_in_function(self) -> None:
        """A function that calls exit makes a failed return and not silence."""

        def run() -> dict[str, Any]:
            raise SystemExit(3)

        ret = main.guarded(run, {"jid": JID, "fun": "x.y", "arg": [1], "user": "joe"})

        self.assertEqual(ret["return"], "The function terminated its process: SystemExit: 3")
        self.assertEqual((ret["success"], ret["user"], ret["fun_args"]), (False, "joe", [1]))

    def test_failed_several(self) -> None:
        """The failed return of several functions has every one of them."""
        ret = failed({"jid": JID, "fun": ["a.b", "c.d"], "arg": [[], []]}, "gone")

        self.assertEqual(ret["return"], {"a.b": "gone", "c.d": "gone"})
        self.assertEqual(ret["success"], {"a.b": False, "c.d": False})

    def test_cache_jobs(self) -> None:
        """C{cache_jobs} keeps a copy where stock keeps it."""
        main.cache_job(self.opts, self.RET)

        with open(os.path.join(self.base, "minion_jobs", JID, "return.p"), "rb") as stream:
            self.assertEqual(unpack(stream.read()), self.RET)

    def test_T_LOG_1_listed(self) -> None:
        """T-LOG-1: while a secret job runs, its process file does not say what it was given."""
        job = {"jid": JID, "fun": "cmd.run", "arg": ["word"], "metadata": {"no_log": True}}
        path = main.listed(self.base, job)
        ((_, shown),) = read_procs(self.base)
        self.assertEqual(shown, {**job, "arg": ["**********"], "pid": os.getpid()})
        self.assertEqual(path, os.path.join(self.base, "proc", JID))

    def test_returners(self) -> None:
        """Each returner of the job and of the options gets the return once; one may fail."""
        given: list[Any] = []
        loaders = Loaders({**self.opts, "return": "two,bad"}, stock=False)
        returners = loaders["returners"]

        def bad(ret: Any) -> None:
            raise ValueError("no")

        dict.__setitem__(returners, "one.returner", lambda ret: given.append(("one", ret["id"])))
        dict.__setitem__(returners, "two.returner", lambda ret: given.append(("two", ret["jid"])))
        dict.__setitem__(returners, "bad.returner", bad)

        main.run_returners(loaders, {"jid": JID, "ret": "one,two,none"}, dict(self.RET))

        self.assertEqual(given, [("one", "m1"), ("two", JID)])


class EnvironmentTests(SynchronousTestCase):
    """The environment that a job starts with."""

    def test_changes(self) -> None:
        """Variables are set, unset, and all others forgotten if asked for."""
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        self.addCleanup(os.environ.clear)
        os.environ["SALTWISTED_OLD"] = "x"

        main.set_environment({"values": {"SALTWISTED_A": "1", "SALTWISTED_OLD": None}})
        self.assertEqual(os.environ["SALTWISTED_A"], "1")
        self.assertNotIn("SALTWISTED_OLD", os.environ)
        main.set_environment({"clear": True, "values": {"B": "2"}})

        self.assertEqual(dict(os.environ), {"B": "2"})


class LinkTests(Case):
    """C{__master__} and the log."""

    def test_request(self) -> None:
        """A request goes to the daemon as it is, and its answer comes back."""
        self.answer(1, ok=["base"])

        answer = main.MasterLink(self.client).request({"cmd": "_file_envs"})

        self.assertEqual(answer, ["base"])
        self.assertEqual(
            self.said(), {"id": 1, "op": "request", "args": {"load": {"cmd": "_file_envs"}}}
        )

    def test_errors(self) -> None:
        """What the daemon reports becomes the errors that modules know."""
        link = main.MasterLink(self.client)
        self.answer(1, error={"name": "SaltReqTimeoutError", "message": "late"})
        self.answer(2, error={"name": "SaltException", "message": "bad"})

        self.assertRaises(SaltReqTimeoutError, link.request, {"cmd": "_mine"})
        self.assertRaises(SaltClientError, link.pillar, {"cmd": "_pillar"})
        self.daemon.close()
        self.assertRaises(SaltClientError, link.request, {"cmd": "_mine"})

    def test_no_master(self) -> None:
        """Without a master each request says so."""
        error = self.assertRaises(SaltClientError, main.NoMaster().request, {"cmd": "_mine"})

        self.assertIn("there is no master", str(error))

    def test_log(self) -> None:
        """Records of modules go to the daemon, from the configured level on."""
        logging.disable(logging.NOTSET)
        root = logging.getLogger()
        before = (list(root.handlers), root.level)
        self.addCleanup(root.setLevel, before[1])
        self.addCleanup(setattr, root, "handlers", before[0])

        daemonlog.log_to(
            daemonlog.DaemonLog(self.client), {"log_level": "error", "log_level_logfile": "info"}
        )
        logging.getLogger("x.y").debug("silent")
        logging.getLogger("x.y").info("loud %s", "and clear")

        self.assertEqual(
            self.said()["args"], {"level": 20, "name": "x.y", "message": "loud and clear"}
        )


class FileTests(Case):
    """Process files and the outbox."""

    def test_proc(self) -> None:
        """A process file is Salt's: the publication and the pid, for nobody else to read."""
        old = os.umask(0)
        self.addCleanup(os.umask, old)

        path = write_proc(self.base, {"jid": JID, "fun": "test.sleep", "arg": [5]}, 77)

        with open(path, "rb") as stream:
            self.assertEqual(
                unpack(stream.read()), {"pid": 77, "jid": JID, "fun": "test.sleep", "arg": [5]}
            )
        self.assertEqual(path, os.path.join(self.base, "proc", JID))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        self.assertEqual([found["pid"] for _, found in read_procs(self.base)], [77])

    def test_outbox_is_private(self) -> None:
        """T-FS-1: returns are for nobody else to read, whatever the umask."""
        old = os.umask(0)
        self.addCleanup(os.umask, old)

        name, _ = self.outbox.put({"jid": JID, "return": "secret"})

        path = os.path.join(self.outbox.path, name)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.outbox.path).st_mode), 0o700)

    def test_outbox_order(self) -> None:
        """Returns are listed in the order in which they were put, without half-written ones."""
        names = [self.outbox.put({"jid": f"j{n}", "return": n})[0] for n in range(3)]
        with open(os.path.join(self.outbox.path, ".half.1234"), "wb") as stream:
            stream.write(b"\x81")

        self.assertEqual(self.outbox.names(), names)
        self.outbox.remove(names[0])
        self.assertEqual(self.outbox.names(), names[1:])
        self.assertIsNone(self.outbox.read(names[0]))

    def test_outbox_damaged(self) -> None:
        """A damaged return is put aside and not offered again."""
        name, _ = self.outbox.put({"jid": JID, "return": 1})
        with open(os.path.join(self.outbox.path, name), "wb") as stream:
            stream.write(b"\xc1garbage")

        self.assertIsNone(self.outbox.read(name))
        self.assertEqual(self.outbox.names(), [])

    def test_outbox_names(self) -> None:
        """A name that would lead elsewhere is refused."""
        self.assertRaises(ValueError, self.outbox.read, "../proc/x")

    def test_whole_or_nothing(self) -> None:
        """A write that fails leaves neither the file nor a temporary one."""
        path = os.path.join(self.base, "gone", "file")

        self.assertRaises(OSError, write_whole, path, b"data", True)
        os.mkdir(os.path.join(self.base, "dir"))
        self.assertRaises(OSError, write_whole, os.path.join(self.base, "dir"), b"data", True)

        self.assertEqual(os.listdir(self.base), ["dir"])

    def test_jids(self) -> None:
        """Only what can be a file's name is a job id."""
        for good in (JID, "req", "20260101000000000001_4321"):
            self.assertTrue(valid_jid(good), good)
        for bad in ("", ".", "..", "../x", "a/b", ".hidden", "a\n", "x" * 201, 5, None, b"x"):
            self.assertFalse(valid_jid(bad), bad)

    def test_other_process(self) -> None:
        """A process that has a job's old pid by chance is not taken for the job."""
        self.assertFalse(is_job_process(os.getpid(), JID))
        self.assertFalse(is_job_process(2**22 + 1, JID))
        self.assertLessEqual(len(command_name(JID)), 15)
