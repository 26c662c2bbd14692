"""
Pillars on the master: what is kept, for how long, and what a minion is answered.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MasterConfig
from saltwisted.errors import RemoteError
from saltwisted.master import pillarerrors
from saltwisted.master import pillars as module
from saltwisted.master.context import Context
from saltwisted.master.handlers.pillar import pillar as handler
from saltwisted.master.pillars import Pillars
from saltwisted.master.replies import Private
from saltwisted.master.seams import LonePillars
from saltwisted.wire.commands import Pillar, parse_command
from saltwisted.wire.msgpack import unpack
from saltwisted.worker.pillar.work import PillarWorker

TOP = "base:\n  '*': [a]\n"
LONG_AGO = 1_600_000_000


class InProcess:
    """A pool whose worker is here; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {}
        self.recycled: list[str] = []
        self.broken: Exception | None = None
        self._worker: PillarWorker | None = None

    def set_fact(self, name: str, value: Any) -> None:
        self.facts[name] = value

    def recycle(self, entry: str) -> None:
        self.recycled.append(entry)

    def call(self, entry: str, payload: Any, timeout: float) -> Deferred[Any]:
        self.calls.append(payload)
        if self.broken is not None:
            return fail(self.broken)
        if self._worker is None:
            self._worker = PillarWorker(self.facts["opts"])
        if payload["do"] == "top":
            return succeed(self._worker.top(payload))
        return succeed(self._worker.pillar(payload))


class Cache:
    """A minion cache in memory."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], Any] = {}

    def put(self, bank: str, minion_id: str, value: Mapping[str, Any]) -> None:
        self.values[bank, minion_id] = value


class PillarCase(SynchronousTestCase):
    """A master with pillar roots."""

    def setUp(self) -> None:
        self.where = tempfile.mkdtemp(prefix="pillars")
        self.addCleanup(shutil.rmtree, self.where)
        os.utime(self.where, (LONG_AGO, LONG_AGO))
        self.pool = InProcess()
        self.clock = Clock()
        self.now = 0.0
        self.known = [f"m{number}" for number in range(6)]
        self.cache = Cache()
        self.fired: list[tuple[str, Any]] = []
        self.pillars = self.master()

    def master(self, **options: Any) -> Pillars:
        """The part under test, with these options."""
        config = MasterConfig(
            pillar_roots={"base": [self.where]},
            config_dir=self.where,
            cachedir=self.where,
            extension_modules=self.where + "/ext",
            **options,
        )
        self.ctx = cast(
            Context,
            SimpleNamespace(
                seams=SimpleNamespace(pillars=LonePillars()),
                config=config,
                pillar_opts=config.as_opts,
                counters=Counter(),
                cache=self.cache,
                now=lambda: self.now,
                keys=SimpleNamespace(accepted_ids=lambda: self.known),
                bus=SimpleNamespace(fire=lambda tag, data: self.fired.append((tag, data))),
                clock=self.clock,
            ),
        )
        pillars = Pillars(self.ctx, self.pool)
        vars(self.ctx)["pillars"] = pillars
        pillars.startService()
        return pillars

    def write(self, path: str, text: str, when: int = LONG_AGO) -> None:
        """A pillar file."""
        full = os.path.join(self.where, path)
        with open(full, "w") as stream:
            stream.write(text)
        os.utime(full, (when, when))
        os.utime(self.where, (LONG_AGO, LONG_AGO))

    def ask(self, minion: str = "m1", grains: Any = None, **more: Any) -> Any:
        """What C{packed} gives, as a value."""
        asked = self.pillars.packed(minion, {"os": "Debian", **(grains or {})}, **more)
        d = Deferred.fromCoroutine(asked)
        while self.clock.getDelayedCalls():
            self.clock.advance(0)
        return unpack(self.successResultOf(d))


class LongTests(PillarCase):
    """Requests with much in them."""

    def test_T_COST_3_grains(self) -> None:
        """
        T-COST-3: a minion with twelve thousand grains gets the pillar that its grains make; they
        are packed in turns of the reactor, and the pillar is compiled each time.
        """
        self.write("top.sls", TOP)
        self.write("a.sls", "last: {{ grains.g11999 }}\nof: {{ grains.id }}\n")
        for number in (1, 2):
            grains = {f"g{each}": each * number for each in range(12_000)}
            self.assertEqual(self.ask(grains=grains), {"last": 11_999 * number, "of": "m1"})
        self.assertEqual([sorted(call) for call in self.pool.calls], [sorted(LONG_CALL)] * 2)
        self.assertEqual(self.ask(override={"x": list(range(12_000))})["x"][-1], 11_999)


LONG_CALL = ("do", "id", "saltenv", "pillarenv", "packed")
"""What a worker is given where much of it is packed already."""


class KeptTests(PillarCase):
    """A compiled pillar serves again exactly as long as nothing it depends on has changed."""

    def setUp(self) -> None:
        super().setUp()
        self.write("top.sls", TOP)
        self.write("a.sls", "x: {{ grains.os }}")

    def test_kept(self) -> None:
        """The second request is answered without a worker."""
        self.assertEqual([self.ask(), self.ask()], [{"x": "Debian"}] * 2)

        self.assertEqual(len(self.pool.calls), 1)
        self.assertEqual(self.ctx.counters, {"pillar:kept": 1, "pillar:compiled": 1})

    def test_value(self) -> None:
        """Who wants a value and not its packed form gets a map."""
        asked = self.pillars.pillar("m1", {"os": "X"}, None, None, None)
        self.assertEqual(self.successResultOf(Deferred.fromCoroutine(asked)), {"x": "X"})

    def test_changed_file(self) -> None:
        """A changed file is compiled again, by time, size or inode."""
        self.ask()
        self.write("a.sls", "x: {{ 1 + 1 }}      ", LONG_AGO)
        self.assertEqual(self.ask(), {"x": 2})
        self.write("a.sls", "x: {{ 1 + 2 }}      ", LONG_AGO + 1)
        self.assertEqual(self.ask(), {"x": 3})
        self.write("b.sls", "x: {{ 2 + 2 }}      ", LONG_AGO + 1)
        os.rename(self.where + "/b.sls", self.where + "/a.sls")
        self.assertEqual(self.ask(), {"x": 4})

        self.ask()
        self.assertEqual(len(self.pool.calls), 4)

    def test_new_file(self) -> None:
        """A file that was missing before counts when it appears, and when it goes."""
        self.write("top.sls", "base:\n  '*': [a, {ignore_missing: true}, b]\n", LONG_AGO + 5)
        self.assertEqual(self.ask(), {"x": "Debian"})
        self.write("b.sls", "y: 1")
        self.assertEqual(self.ask(), {"x": "Debian", "y": 1})
        os.unlink(self.where + "/b.sls")
        self.assertEqual(self.ask(), {"x": "Debian"})

    def test_grains(self) -> None:
        """A grain that no template looked at may change; one that was looked at may not."""
        self.ask(grains={"uptime": 1})
        self.ask(grains={"uptime": 2})
        self.assertEqual(len(self.pool.calls), 1)

        self.assertEqual(self.ask(grains={"os": "Arch"}), {"x": "Arch"})
        self.assertEqual(self.ask(grains={"os": True}), {"x": True})
        self.assertEqual(self.ask(grains={"os": 1}), {"x": 1})
        self.assertEqual(len(self.pool.calls), 4)

    def test_all_grains(self) -> None:
        """When a template prints all grains, every one of them counts."""
        self.write("a.sls", "x: {{ grains | json }}")
        self.ask(grains={"uptime": 1})
        answer = self.ask(grains={"uptime": 2})

        self.assertEqual(answer["x"]["uptime"], 2)

    def test_apart(self) -> None:
        """Minions, environments, overrides and extra data have pillars of their own."""
        self.ask()
        self.ask("m2")
        self.ask(saltenv="base")
        self.ask(pillarenv="base")
        self.assertEqual(self.ask(override={"x": 5}), {"x": 5})
        self.ask(extra={"y": 1})
        self.assertEqual(len(self.pool.calls), 6)

        self.assertEqual(self.ask(), {"x": "Debian"})
        self.assertEqual(len(self.pool.calls), 6)

    def test_volatile(self) -> None:
        """What asked the machine is compiled each time."""
        self.write("a.sls", "x: {{ 8 | random_str | length }}")
        self.ask()
        self.ask()

        self.assertEqual(len(self.pool.calls), 2)

    def test_fresh(self) -> None:
        """C{clean_cache} compiles again, and C{clear} forgets all and replaces the workers."""
        self.ask()
        self.ask(fresh=True)
        self.pillars.clear()
        self.ask()

        self.assertEqual(len(self.pool.calls), 3)
        self.assertEqual(self.pool.recycled, [module.ENTRY])

    def test_bounded(self) -> None:
        """Old pillars fall out when there are too many bytes of them."""
        self.patch(module, "KEEP_BYTES", 16 * module.ENTRY_COST)
        for number in range(100):
            self.ask(f"m{number}")

        self.assertLess(len(self.pillars._kept), 17)
        self.ask("m99")
        self.assertEqual(len(self.pool.calls), 100)

    def test_shared(self) -> None:
        """Minions that depend on the same files share one record of them."""
        self.ask("m1")
        self.ask("m2")

        one, two = self.pillars._kept.values()
        self.assertIs(one.files, two.files)

    def test_top(self) -> None:
        """C{top} names the SLS by environment."""
        asked = self.pillars.top("m1", {})

        self.assertEqual(
            self.successResultOf(Deferred.fromCoroutine(asked)), {"base": {"*": ["a"]}}
        )

    def test_worker_failed(self) -> None:
        """An error of the worker reaches the caller, and nothing is kept."""
        self.pool.broken = RemoteError("WorkerDied", "gone")
        self.failureResultOf(
            Deferred.fromCoroutine(self.pillars.packed("m1", {"os": "X"})), RemoteError
        )
        self.pool.broken = None

        self.assertEqual(self.ask(), {"x": "Debian"})


class ErrorTests(PillarCase):
    """A pillar with errors: who is told, and what its minion gets."""

    FAILED: ClassVar = ["Rendering SLS 'a' failed. Please see master log for details."]

    def setUp(self) -> None:
        super().setUp()
        self.write("top.sls", TOP)
        self.versions = 0
        self.breaks()

    def breaks(self, *minions: str) -> None:
        """Another version of the file, which fails for these minions."""
        self.versions += 1
        wrong = "{% if grains.id in " + repr(list(minions)) + " %}{{ no.no }}{% endif %}"
        self.write("a.sls", f"{wrong}\nx: {self.versions}\n", LONG_AGO + self.versions)

    def problem(self) -> str:
        """What C{status} says."""
        return self.pillars.errors.problem

    def test_failing_command(self) -> None:
        """
        A command of an external pillar that fails is named, though the pillar has no error of it:
        the minion gets it, also with C{pillar_last_good}; and it is forgotten when it works again.
        """
        for last_good in (False, True):
            path = os.path.join(self.where, "fails")
            command = f"echo 'y: 2'; test ! -e {path}"
            self.pool = InProcess()
            self.pillars = self.master(
                ext_pillar=[{"cmd_yaml": command}], pillar_last_good=last_good
            )
            self.assertEqual((self.ask()["y"], self.problem()), (2, ""))
            with open(path, "w"):
                pass

            self.assertEqual(self.ask()["y"], 2)
            self.assertIn("m1", self.problem())
            self.assertIn("ext_pillar cmd_yaml: the command ended with 1", self.problem())
            os.remove(path)
            self.ask()
            self.assertEqual(self.problem(), "")

    def test_named(self) -> None:
        """Of the minions whose pillars have errors some are named, with the error and no data."""
        self.ask()
        self.assertEqual(self.problem(), "")
        self.breaks("m1", "m2", "m3", "m4", "m5", "gone")
        for minion in ("m5", "m4", "m1", "m2", "gone"):
            self.ask(minion)
        said = self.problem()
        self.assertIn("the pillar of m1 has errors (Rendering SLS 'a' failed", said)
        self.assertIn("'no' is undefined", said)
        self.assertTrue(said.endswith("one more has"), said)
        self.assertNotIn("gone", said)
        self.ask("m3")
        self.assertIn("so have those of 2 more minions", self.problem())

        self.breaks("m2")
        for minion in ("m1", "m3", "m4", "m5"):
            self.ask(minion)
        self.assertTrue(self.problem().startswith("the pillar of m2"), self.problem())
        self.now += pillarerrors.LASTS
        self.assertEqual(self.problem(), "")

    def test_what_counts(self) -> None:
        """What somebody asks for besides is no pillar of a minion; an environment is one."""
        self.breaks("m1")
        self.ask(override={"y": 1})
        self.ask(extra={"y": 1})
        self.assertEqual(self.problem(), "")
        asked = self.pillars.pillar("m1", {"os": "Debian"}, None, None, None)
        self.successResultOf(Deferred.fromCoroutine(asked))
        self.assertEqual(self.problem(), "")
        self.ask(saltenv="base")
        self.assertIn("m1", self.problem())
        self.pillars.clear()
        self.assertEqual(self.problem(), "")

    def test_last_answer_counts(self) -> None:
        """What the minion has got last is told, also if it was compiled before."""
        self.write("a.sls", "{% if opts.pillarenv %}{{ no.no }}{% endif %}\nx: 1\n")
        self.assertEqual(self.ask(), {"x": 1})
        self.ask(pillarenv="base")
        self.assertIn("m1", self.problem())
        self.assertEqual(self.ask(), {"x": 1})

        self.assertEqual(self.problem(), "")
        self.ask(pillarenv="base")
        self.assertIn("m1", self.problem())
        self.assertEqual(len(self.pool.calls), 2)

    def test_bounded(self) -> None:
        """Very many minions are not all kept in mind."""
        self.patch(pillarerrors, "MOST", 2)
        self.breaks("m1", "m2", "m3")
        for minion in ("m1", "m2", "m3"):
            self.ask(minion)

        self.assertEqual(self.problem().count("the pillar of"), 2)

    def test_as_in_salt(self) -> None:
        """By default the minion gets what could be compiled, and the errors."""
        self.ask()
        self.breaks("m1")

        self.assertEqual(self.ask(), {"_errors": self.FAILED})
        self.assertNotIn("last good", self.problem())

    def test_last_good(self) -> None:
        """
        With C{pillar_last_good} a minion whose pillar has errors gets the last one that had none,
        also when it asks again, until that is mended; the others get the newest. A minion that had
        none before gets the errors, and an operator always does.
        """
        self.pillars = self.master(pillar_last_good=True)
        self.assertEqual(self.ask(), {"x": 1})
        self.breaks("m1", "m2")
        for _ in range(2):
            self.assertEqual(self.ask(), {"x": 1})
        self.assertEqual(self.ask("m3"), {"x": 2})
        self.assertEqual(self.ask("m2"), {"_errors": self.FAILED})
        self.assertEqual(self.cache.values["pillar", "m1"], {"x": 1})
        asked = self.pillars.pillar("m1", {"os": "Debian"}, None, None, None)
        shown = self.successResultOf(Deferred.fromCoroutine(asked))
        self.assertEqual(shown, {"_errors": self.FAILED})
        self.assertIn("; its last good pillar is served)", self.problem())
        self.assertEqual(self.problem().count("last good"), 1)

        self.breaks()
        self.assertEqual(self.ask(), {"x": 3})
        self.breaks("m1")
        self.assertEqual(self.ask(), {"x": 3})
        # What an operator has the master forget is not served
        self.pillars.clear()
        self.assertEqual(self.ask(), {"_errors": self.FAILED})

    def test_last_good_of_each(self) -> None:
        """It is that of the same environment, and none with what was asked for besides."""
        self.pillars = self.master(pillar_last_good=True)
        self.ask(saltenv="base")
        self.ask(override={"y": 1})
        self.breaks("m1")

        self.assertEqual(self.ask(), {"_errors": self.FAILED})
        self.assertEqual(self.ask(override={"y": 1}), {"_errors": self.FAILED, "y": 1})
        self.assertEqual(self.ask(saltenv="base"), {"x": 1})

    def test_last_good_is_bounded(self) -> None:
        """Too many bytes of them are not kept."""
        self.patch(module, "KEEP_BYTES", 3 * module.ENTRY_COST)
        self.pillars = self.master(pillar_last_good=True)
        for minion in ("m1", "m2", "m3", "m4"):
            self.ask(minion)
        self.breaks("m1", "m4")

        self.assertEqual(self.ask("m4"), {"x": 1})
        self.assertEqual(self.ask("m1"), {"_errors": self.FAILED})


class AnswerTests(PillarCase):
    """C{_pillar}, as a minion sends it."""

    def setUp(self) -> None:
        super().setUp()
        self.write("top.sls", TOP)
        self.write("a.sls", "i: {{ grains.id }}")

    def handle(self, **fields: Any) -> Any:
        """The handler's value for a request of m1."""
        load = {"cmd": "_pillar", "id": "m1", "grains": {"os": "Debian"}, "ver": "2", **fields}
        cmd = parse_command(load)
        assert isinstance(cmd, Pillar)
        return self.successResultOf(Deferred.fromCoroutine(handler(self.ctx, "m1", cmd)))

    def test_private(self) -> None:
        """T-PIL-1: the answer is for the private form, which is sealed for the asker's key."""
        answer = self.handle()

        self.assertIsInstance(answer, Private)
        self.assertEqual(unpack(answer.packed), {"i": "m1"})
        self.assertNotIn("m1", repr(answer))

    def test_identity(self) -> None:
        """T-ID-1: the id in the grains is the session's, whatever the minion says."""
        self.assertEqual(unpack(self.handle(grains={"id": "other"}).packed), {"i": "m1"})

    def test_remembered(self) -> None:
        """Grains and pillar go into the minion data cache; an override does not."""
        self.handle()
        self.handle(pillar_override={"secret": 1})

        self.assertEqual(self.cache.values["grains", "m1"], {"os": "Debian", "id": "m1"})
        self.assertEqual(self.cache.values["pillar", "m1"], {"i": "m1"})

    def test_not_remembered(self) -> None:
        """Without C{minion_data_cache} nothing is."""
        self.pillars = self.master(minion_data_cache=False)
        self.handle()

        self.assertEqual(self.cache.values, {})

    def test_event(self) -> None:
        """The refresh of the data cache is an event, unless switched off."""
        self.handle()
        self.pillars = self.master(minion_data_cache_events=False)
        self.handle()

        self.assertEqual(self.fired, [("minion/refresh/m1", {"Minion data cache refresh": "m1"})])

    def test_old_version(self) -> None:
        """C{pillar_version: 1} answers old minions with the bare value."""
        self.pillars = self.master(pillar_version=1)

        self.assertEqual(self.handle(ver="1"), {"i": "m1"})
        self.assertIsInstance(self.handle(ver="2"), Private)

    def test_t_log_1(self) -> None:
        """T-LOG-1: the master's log names what is broken and where, and quotes nothing."""
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        self.write("a.sls", "password: C4n4ry\nx: {{ nope }}\n")

        answer = unpack(self.handle().packed)

        text = "".join(e["log_format"].format(**e) for e in events if e.get("minion") == "m1")
        self.assertIn("SLS 'a'", text)
        self.assertIn("'nope' is undefined (line 2)", text)
        self.assertNotIn("C4n4ry", text)
        self.assertEqual(
            answer["_errors"],
            ["Rendering SLS 'a' failed. Please see master log for details."],
        )
