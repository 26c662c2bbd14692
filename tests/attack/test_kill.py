"""
C{kill -9} of a real master at any moment under load: nothing that it acknowledged is lost.

Threads of this process play minions and an operator. Each notes what the master
acknowledged, and only that; after each kill the master must start by itself and
still know all of it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import msgpack
import zmq
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import RemoteError, TransportClosed, WireError
from saltwisted.wire.crypticle import SessionKey
from saltwisted.wire.handshake import NotYet
from saltwisted.wire.rsa import PublicKey
from tests.attack.fleet import Refused, Silence, WireMinion, put_key
from tests.harness import OurMaster, scratch, until

LONG = os.environ.get("SALTWISTED_LONG") == "1"
ROUNDS = 50 if LONG else 5
SENDERS = 3
PATIENCE = 1.0
"""Seconds that a sender waits for an answer, since a killed master gives none."""
STATES = ("minions", "minions_pre", "minions_rejected", "minions_denied")


class Noted:
    """What the master acknowledged. Each kind is written by one thread alone."""

    def __init__(self) -> None:
        self.returns: dict[tuple[str, str], Any] = {}
        self.fresh: list[tuple[str, str]] = []
        self.jobs: dict[str, str] = {}
        self.keys: dict[str, set[str]] = {}

    def key(self, minion_id: str, *states: str) -> None:
        """The key is in one of these states; in more than one while an answer is out."""
        self.keys[minion_id] = set(states)


class Load:
    """Minions and an operator that keep a master busy until told to stop."""

    def __init__(self, master: OurMaster, noted: Noted, dice: random.Random) -> None:
        self._master = master
        self._noted = noted
        self._dice = dice
        self._stop = threading.Event()
        self._context = zmq.Context()
        self._lock = threading.Lock()
        self.failures: list[BaseException] = []
        bodies: list[Callable[[], None]] = [
            *(lambda n=n: self._returns(n) for n in range(SENDERS)),  # type: ignore[misc]
            self._mine,
            self._keys,
            self._jobs,
        ]
        self._threads = [threading.Thread(target=self._guard, args=(b,)) for b in bodies]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._context.destroy(0)

    def _guard(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            self.failures.append(error)

    def _minion(self, name: str) -> WireMinion:
        return WireMinion(self._context, self._master.ret_port, name)

    def _ask(self, minion: WireMinion, cmd: str, **fields: Any) -> bool:
        """Whether the master acknowledged."""
        try:
            if minion.session is None:
                minion.sign_in(PATIENCE)
            if minion.session is None:
                return False
            return minion.ask(cmd, PATIENCE, **fields) is not False
        except Silence:
            return False
        except Refused:
            minion.session = None
            return False

    def _returns(self, number: int) -> None:
        minion = self._minion(f"sender{number}")
        dice = random.Random(self._dice.random() + number)
        while not self._stop.is_set():
            jid = f"20261121{dice.randrange(10**12):012d}"
            value = {"n": dice.random(), "text": "x" * dice.choice((1, 100, 30_000))}
            if self._ask(
                minion, "_return", jid=jid, fun="test.arg", retcode=0, success=True,
                **{"return": value},
            ):  # fmt: skip
                with self._lock:
                    self._noted.returns[jid, minion.id] = value
                    self._noted.fresh.append((jid, minion.id))
        minion.asker.close()

    def _mine(self) -> None:
        minion = self._minion("miner")
        while not self._stop.is_set():
            self._ask(minion, "_mine", data={"blob": "m" * self._dice.randrange(20_000)})
        minion.asker.close()

    def _keys(self) -> None:
        """An operator that accepts, rejects and deletes, and minions that come for it."""
        noted, dice = self._noted, random.Random(self._dice.random())
        control = self._master.control()
        while not self._stop.is_set():
            try:
                name = f"k{dice.randrange(10**9)}"
                noted.key(name, "", "minions_pre")
                stranger = self._minion(name)
                outcome = stranger.sign_in(PATIENCE)
                stranger.asker.close()
                assert isinstance(outcome, NotYet), outcome
                noted.key(name, "minions_pre")
                for fun, before, after in (
                    ("key.accept", "minions_pre", "minions"),
                    ("key.reject", "minions_pre", "minions_rejected"),
                    ("key.delete", None, ""),
                ):
                    if dice.random() < 0.5:
                        continue
                    state = next(iter(noted.keys[name]))
                    if before is not None and state != before:
                        continue
                    noted.key(name, state, after)
                    control.call_within(PATIENCE, "wheel", fun=fun, arg=[name])
                    noted.key(name, after)
            except (Silence, TransportClosed, TimeoutError, RemoteError):
                control.close()
                self._stop.wait(0.02)
        control.close()

    def _jobs(self) -> None:
        control = self._master.control()
        while not self._stop.is_set():
            with contextlib.suppress(TransportClosed, TimeoutError, RemoteError):
                tag = f"{self._dice.random()}"
                answer = control.call_within(
                    PATIENCE, "publish", tgt="sender*", fun="test.echo", arg=[tag]
                )
                self._noted.jobs[answer["jid"]] = tag
            self._stop.wait(0.005)
        control.close()


class Kill(SynchronousTestCase):
    """The whole of it takes about two seconds a round."""

    def setUp(self) -> None:
        """A master that has never run, and minions that it will accept."""
        self.dice = random.Random()
        self.master = OurMaster(scratch(self), log_level="warning", state_events=False)
        self.addCleanup(self.master.kill)
        for name in [f"sender{n}" for n in range(SENDERS)] + ["miner"]:
            put_key(self.master.pki, name)
        self.noted = Noted()

    def kill(self) -> None:
        """Kill the daemon alone, by its own id; what it started has to notice."""
        process = self.master.process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
        self.group = process.pid
        self.master.process = None

    def start(self) -> None:
        """Start, and wait until the control socket answers: logs are told nothing here."""
        self.master.start()

        def answers() -> bool:
            if not self.master.running:
                raise AssertionError(f"the master does not start:\n{self.master.tail()}")
            with contextlib.suppress(TransportClosed, TimeoutError), self.master.control() as c:
                return bool(c.call_within(2, "status"))
            return False

        until("the master", answers, every=0.02)

    def test_kill_under_load(self) -> None:
        """Acknowledged returns, jobs and key changes are all there after each kill -9."""
        self.start()
        counts = []
        for _ in range(ROUNDS):
            self.noted.fresh.clear()
            with Load(self.master, self.noted, self.dice) as load:
                until("some returns", lambda: len(self.noted.fresh) > 20)
                threading.Event().wait(self.dice.random() * 0.6)
                self.kill()
            self.assertEqual(load.failures, [])
            self.assertTrue(self.noted.returns)
            counts.append(len(self.noted.fresh))
            before = list(self.noted.keys)
            self.start()
            self._check_whole()
            self._check_answers()
            self._check_keys(before)
            until("children to notice", lambda: not _alive(self.group))
        self._check_all()
        self.assertGreater(len(self.noted.jobs), ROUNDS)
        print(
            f"\n{ROUNDS} kills: {len(self.noted.returns)} returns, {len(self.noted.jobs)} jobs,"
            f" {len(self.noted.keys)} keys; returns per round {min(counts)}..{max(counts)}"
        )

    def test_kill_while_starting(self) -> None:
        """Killed at any moment of its first starts, a master still starts, and keeps its key."""
        pem = os.path.join(self.master.pki, "master.pem")
        identity = b""
        for _ in range(ROUNDS):
            self.master.start()
            threading.Event().wait(self.dice.random() * 0.8)
            self.kill()
            with contextlib.suppress(FileNotFoundError), open(pem, "rb") as handle:
                found = handle.read()
                self.assertIn(identity, (b"", found))
                identity = found
        self.start()
        with open(pem, "rb") as handle:
            self.assertIn(identity, (b"", handle.read()))
        with zmq.Context() as context:
            minion = WireMinion(context, self.master.ret_port, "miner")
            minion.sign_in()
            self.assertEqual(minion.ask("_file_envs"), ["base"])
            minion.asker.close()
        self._check_whole()

    def _check_answers(self) -> None:
        """Every return of this round is found by its jid, with its value; so is every job."""
        with self.master.control() as control:
            for jid, minion_id in self.noted.fresh:
                found = control.call("runner", fun="jobs.lookup_jid", arg=[jid])["return"]
                self.assertEqual(found[minion_id], self.noted.returns[jid, minion_id])
            for jid, tag in list(self.noted.jobs.items())[-50:]:
                found = control.call("runner", fun="jobs.list_job", arg=[jid])["return"]
                self.assertEqual(found["Arguments"], [tag], jid)

    def _check_keys(self, names: list[str]) -> None:
        """Every key is where the last acknowledged change put it, for the master and on disk."""
        with self.master.control() as control:
            groups = control.call("wheel", fun="key.list_all")["return"]
        for name in names:
            states = [state for state in STATES if name in groups[state]] or [""]
            self.assertEqual(len(states), 1, (name, states))
            self.assertIn(states[0], self.noted.keys[name], name)
            on_disk = [
                state for state in STATES
                if os.path.exists(os.path.join(self.master.pki, state, name))
            ]  # fmt: skip
            self.assertEqual(on_disk or [""], states, name)
            # What the kill left open is now decided
            self.noted.keys[name] = set(states)

    def _check_whole(self) -> None:
        """Every file below the master's directories can be read as what it is."""
        count = 0
        databases = []
        cache = os.path.join(self.master.root, "var/cache/salt/master")
        for top in (self.master.pki, cache):
            for folder, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(folder, name)
                    if ".sqlite" in name:
                        databases += [path] * name.endswith(".sqlite")
                        continue
                    with contextlib.suppress(FileNotFoundError), open(path, "rb") as handle:
                        self._check_file(path, handle.read())
                        count += 1
        self.assertGreater(count, SENDERS)
        self.assertIn(self._database(), databases)
        for path in databases:
            with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:
                self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], path)

    def _check_file(self, path: str, data: bytes) -> None:
        kind = os.path.basename(os.path.dirname(path))
        try:
            if kind in STATES or path.endswith(".pub"):
                PublicKey.from_pem(data)
            elif path.endswith(".pem"):
                self.assertTrue(data.rstrip().endswith(b"PRIVATE KEY-----"), path)
            elif kind == "sessions":
                SessionKey(data.decode().split()[0])
            elif kind in ("mine", "grains", "pillar"):
                self.assertIsInstance(msgpack.unpackb(data, raw=False), dict)
            elif path.endswith("/session_secret"):
                self.assertTrue(all(len(row) == 3 for row in msgpack.unpackb(data, raw=False)))
            elif path.endswith("/saltwisted-reserve"):
                pass  # room for a start on a full disk, whatever is in it
            elif path.endswith(".lock"):
                self.assertEqual(data, b"")
            else:
                self.assertIn(os.path.basename(path), (".root_key",))
                self.assertGreater(len(data), 20)
        except (WireError, ValueError, IndexError) as error:
            self.fail(f"{path} is half written ({error}): {data[:80]!r}")

    def _database(self) -> str:
        return os.path.join(self.master.root, "var/cache/salt/master/saltwisted/jobs.sqlite")

    def _check_all(self) -> None:
        """No return of any round was lost by a later kill."""
        with contextlib.closing(sqlite3.connect(self._database())) as db:
            rows = db.execute("SELECT jid, id, load FROM returns").fetchall()
            jobs = {jid for (jid,) in db.execute("SELECT jid FROM jobs")}
        stored = {
            (jid, name): msgpack.unpackb(load, raw=False)["return"] for jid, name, load in rows
        }
        self.assertEqual({k: stored.get(k) for k in self.noted.returns}, self.noted.returns)
        self.assertLessEqual(set(self.noted.jobs), jobs)


def _alive(group: int) -> list[int]:
    """Processes of a process group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as handle:
                fields = handle.read().rsplit(b")", 1)[1].split()
                if int(fields[2]) == group and fields[0] != b"Z":
                    found.append(int(name))
    return found
