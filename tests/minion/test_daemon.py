"""
The facts of a minion: how they come, to whom they are told, how they are made again.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.config.options import MinionConfig
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.minion.daemon import Minion
from tests.minion.fakes import Bus, FakeLink, FakeWorkers


class MinionTests(SynchronousTestCase):
    """Grains and pillar on a clock."""

    def setUp(self) -> None:
        """A minion with one master."""
        self.clock = Clock()
        self.workers = FakeWorkers()
        self.bus = Bus()
        self.link: FakeLink | None = FakeLink("red")
        self.grains: Any = {"os": "X"}
        self.calls: list[Any] = []
        self.marks = 0
        self.told: list[Any] = []
        self.master: list[bool] = []
        self.build()

    def build(self, **options: Any) -> None:
        """A minion with these options."""
        config = MinionConfig(id="m1", **options)

        async def call(fun: str, arg: Any, without: Any) -> dict[str, Any]:
            self.calls.append((fun, arg, without))
            if isinstance(self.grains, Exception):
                raise self.grains
            answer: Any = await succeed({"return": self.grains})
            return dict(answer)

        self.minion = Minion(
            self.clock,
            config,
            self.workers,
            call,
            self.bus,
            lambda: self.link,  # type: ignore[arg-type, return-value]
            lambda: self.marks,
            lambda pillar, grains: self.told.append((pillar, grains)),
            self.master.append,
        )
        if self.link is not None:
            self.link.on_pillar = self.minion.take_pillar

    def tearDown(self) -> None:
        """Stopping leaves no timers."""
        self.minion.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def start(self) -> None:
        """Start; done when the grains are there."""
        self.successResultOf(self.minion.startService())

    def refresh(self, what: str, **how: Any) -> Deferred[Any]:
        """Somebody asks for a refresh."""
        return Deferred.fromCoroutine(self.minion.refresh(what, **how))

    def test_start(self) -> None:
        """At the start the options are told and the grains collected, by the worker itself."""
        self.start()

        self.assertEqual(self.calls, [("grains.items", [], ("grains",))])
        self.assertEqual(self.workers.facts["opts"]["id"], "m1")
        self.assertEqual(self.workers.facts["grains"], {"os": "X"})
        self.assertEqual(self.minion.targeting().grains, {"os": "X"})
        self.assertEqual(self.told, [({}, {"os": "X"})])

    def test_no_grains(self) -> None:
        """A minion whose grains cannot be collected starts all the same, and says so."""
        self.grains = RemoteError("WorkerDied", "it died")

        self.start()

        self.assertEqual(self.minion.grains, {})

    def test_pillar(self) -> None:
        """A pillar that comes is told to workers, targeting and schedule."""
        self.start()

        self.minion.take_pillar({"a": 1, "_errors": ["broken sls"]})

        self.assertEqual(self.workers.facts["pillar"]["a"], 1)
        self.assertEqual(self.minion.targeting().pillar["a"], 1)
        self.assertEqual(self.told[-1][0]["a"], 1)

    def test_blackout(self) -> None:
        """A blackout in pillar or grains is known with its white list, and ends with them."""
        self.grains = {"minion_blackout": True}
        self.start()
        self.minion.take_pillar(
            {"minion_blackout": True, "minion_blackout_whitelist": ["test.ping"]}
        )
        self.assertEqual(self.minion.blackouts, [["test.ping"], []])

        self.grains = {}
        self.successResultOf(self.refresh("grains", wait=True))

        self.assertEqual(self.minion.blackouts, [])

    def test_masters(self) -> None:
        """The first master that is up and the last that goes are told; options name its address."""
        self.start()

        self.minion.master_up("red", "10.0.0.1", 4506, True)
        self.minion.master_up("blue", "::1", 4506, True)
        self.minion.master_down("red")
        self.assertEqual(self.master, [True, True])
        self.minion.master_down("blue")

        self.assertEqual(self.master, [True, True, False])
        self.assertEqual(self.workers.facts["opts"]["master_uri"], "tcp://[::1]:4506")

    def test_refresh_pillar(self) -> None:
        """A refresh fetches the pillar and says on the bus when it is done."""
        self.start()
        assert self.link is not None

        self.assertTrue(self.successResultOf(self.refresh("pillar", wait=True)))
        self.assertTrue(self.successResultOf(self.refresh("pillar", wait=True, clean_cache=True)))

        self.assertEqual(self.link.fetched, [{}, {"clean_cache": True}])
        self.assertEqual(self.minion.pillar, {"from": "red"})
        self.assertEqual(
            [tag for tag, _ in self.bus.fired],
            ["salt/minion/minion_pillar_refresh_complete"] * 2,
        )

    def test_refresh_brings_grains(self) -> None:
        """
        Refreshing modules shows new grains too, and so does a pillar when a file of grains has
        changed; grains that fail stop neither.
        """
        self.start()
        for what, grains in (("pillar", {"os": "A"}), ("modules", {"os": "B"})):
            self.marks += 1
            self.grains = grains
            self.successResultOf(self.refresh(what, wait=True))
            self.assertEqual(self.minion.grains, grains)

        self.marks += 1
        self.grains = RemoteError("WorkerDied", "it died")
        self.assertTrue(self.successResultOf(self.refresh("pillar", wait=True)))
        self.failureResultOf(self.refresh("grains", wait=True), RemoteError)

    def test_refresh_pillar_alone(self) -> None:
        """A refresh of the pillar computes no grains where no file of grains has changed."""
        self.start()
        self.grains = {"os": "New"}

        for _ in range(3):
            self.successResultOf(self.refresh("pillar", wait=True))

        self.assertNotEqual(self.minion.grains, {"os": "New"})
        self.assertEqual(len(self.calls), 1)

    def test_refresh_by_event(self) -> None:
        """Salt's own events for a refresh do the same, until the minion stops."""
        self.start()
        assert self.link is not None

        self.bus.fire("pillar_refresh", {"clean_cache": True})
        self.grains = {"os": "N"}
        self.bus.fire("module_refresh", {})
        self.assertEqual(
            (self.link.fetched, self.minion.grains), ([{"clean_cache": True}, {}], {"os": "N"})
        )
        self.minion.stopService()
        self.bus.fire("grains_refresh", {})

        self.assertEqual(len(self.link.fetched), 2)
        self.assertEqual(self.bus.receivers, [])

    def test_environment(self) -> None:
        """C{environ.setenv} with C{update_minion} reaches the jobs to come."""
        self.start()

        self.bus.fire("environ_setenv", {"environ": {"A": "1", "B": False}})
        self.bus.fire("environ_setenv", {"environ": {"B": False, "C": 2}, "false_unsets": True})
        self.bus.fire("environ_setenv", {"environ": "nonsense"})
        self.assertEqual(
            self.workers.facts["environ"],
            {"clear": False, "values": {"A": "1", "B": None, "C": "2"}},
        )
        self.bus.fire("environ_setenv", {"environ": {"D": "4"}, "clear_all": True})

        self.assertEqual(self.workers.facts["environ"], {"clear": True, "values": {"D": "4"}})

    def test_refresh_fails(self) -> None:
        """Who waits for a refresh hears that it failed; who does not is not stopped by it."""
        self.start()
        assert self.link is not None
        self.link.pillar = TransportClosed("gone")

        self.assertTrue(self.successResultOf(self.refresh("pillar")))
        waiting = self.refresh("pillar", wait=True)

        self.assertEqual(self.failureResultOf(waiting, RemoteError).value.message, "gone")
        self.link = None
        waiting = self.refresh("pillar", wait=True)
        self.failureResultOf(waiting, RemoteError)

    def test_refresh_in_time(self) -> None:
        """Who waits for a refresh waits no longer than it wants."""
        self.start()
        never: Deferred[Any] = Deferred()
        assert self.link is not None

        async def fetch(**fields: Any) -> Any:
            return await never

        self.link.fetch_pillar = fetch  # type: ignore[method-assign]
        waiting = self.refresh("pillar", wait=True, timeout=5)
        self.assertNoResult(waiting)

        self.clock.advance(5)

        self.assertEqual(
            self.failureResultOf(waiting, RemoteError).value.name, "SaltReqTimeoutError"
        )

    def test_refresh_grains(self) -> None:
        """Grains that have changed bring a new pillar, those that have not do not."""
        self.start()
        assert self.link is not None

        self.successResultOf(self.refresh("grains", wait=True))
        self.assertEqual(self.link.fetched, [])
        self.grains = {"os": "Y"}
        self.successResultOf(self.refresh("grains", wait=True))

        self.assertEqual(self.link.fetched, [{}])
        self.assertEqual(self.workers.facts["grains"], {"os": "Y"})

    def later(self) -> list[Deferred[Any]]:
        """From now on, each collection of grains waits until it is answered."""
        waiting: list[Deferred[Any]] = []

        async def call(fun: str, arg: Any, without: Any) -> dict[str, Any]:
            self.calls.append((fun, arg, without))
            waiting.append(Deferred())
            return {"return": await waiting[-1]}

        self.minion._call = call
        return waiting

    def test_refresh_of_a_sync(self) -> None:
        """
        Modules, then pillar, as C{saltutil.sync_all} asks: the master is told the grains of the
        new modules, once, and compiles the pillar by them.
        """
        self.start()
        assert self.link is not None
        for first, second in (("modules", "pillar"), ("grains", "pillar"), ("pillar", "modules")):
            self.link.fetched.clear()
            seen: list[Any] = []

            def on_pillar(pillar: Any, seen: list[Any] = seen) -> None:
                seen.append(self.minion.grains)

            self.link.on_pillar = on_pillar
            waiting = self.later()
            self.marks += 1
            new = {"zone": f"z{self.marks}"}
            for what in (first, second):
                self.successResultOf(self.refresh(what))
            self.assertEqual(self.link.fetched, [], "compiled by the grains from before")
            for _ in range(2):
                while waiting:
                    waiting.pop(0).callback(new)

            self.assertEqual(self.minion.grains, new)
            self.assertEqual((seen, self.link.fetched), ([new], [{}]))

    def test_refresh_modules_alone(self) -> None:
        """New grains that only a refresh of the modules has found are told to the master."""
        self.start()
        assert self.link is not None
        self.grains = {"zone": "z1"}

        self.successResultOf(self.refresh("modules", wait=True))
        self.assertEqual(self.link.fetched, [{}])
        self.successResultOf(self.refresh("modules", wait=True))

        self.assertEqual(self.link.fetched, [{}])

    def test_refresh_together(self) -> None:
        """
        However many ask while grains are being collected, they are collected once more for all of
        them; a collection that fails is tried again by the next pillar.
        """
        self.start()
        waiting = self.later()
        asked = [self.refresh("grains", wait=True) for _ in range(5)]
        self.assertEqual(len(waiting), 1)
        waiting[0].callback({"n": 1})
        self.assertEqual(len(waiting), 2)
        waiting[1].callback({"n": 2})
        for each in asked:
            self.successResultOf(each)
        self.assertEqual(len(waiting), 2)

        self.marks += 1
        for _ in range(2):
            pillar = self.refresh("pillar", wait=True)
            waiting[-1].errback(RemoteError("WorkerDied", "it died"))
            self.successResultOf(pillar)
        self.assertEqual(len(waiting), 4)

    def test_refresh_beside_endless_grains(self) -> None:
        """Grains that are collected without end do not keep the pillar from being refreshed."""
        self.start()
        assert self.link is not None
        self.later()
        self.successResultOf(self.refresh("grains"))
        pillar = self.refresh("pillar", wait=True, timeout=300)
        self.assertNoResult(pillar)

        self.clock.advance(60)

        self.assertTrue(self.successResultOf(pillar))
        self.assertEqual(self.link.fetched, [{}])

    def test_refresh_others(self) -> None:
        """Modules are news for the bus; what is never kept is always fresh; the rest is unknown."""
        self.start()

        for what in ("modules", "beacons", "matchers", "resources"):
            self.assertTrue(self.successResultOf(self.refresh(what, wait=True)))
        self.failureResultOf(self.refresh("everything"), RemoteError)

        self.assertEqual(
            [tag for tag, _ in self.bus.fired], ["salt/minion/minion_mod_refresh_complete"]
        )

    def test_regularly(self) -> None:
        """C{grains_refresh_every} minutes the grains are collected again, also after a failure."""
        self.build(grains_refresh_every=2)
        self.start()
        self.grains = RemoteError("WorkerDied", "it died")
        self.clock.advance(120)
        self.grains = {"os": "Z"}
        self.clock.advance(120)

        self.assertEqual((len(self.calls), self.minion.grains), (3, {"os": "Z"}))

    def test_startup_states(self) -> None:
        """C{startup_states} names what is run at the first connection."""
        for options, job in (
            ({}, None),
            ({"startup_states": "highstate"}, ("state.highstate", [])),
            ({"startup_states": "sls", "sls_list": ["a", "b"]}, ("state.sls", [["a", "b"]])),
            ({"startup_states": "top", "top_file": "t.sls"}, ("state.top", ["t.sls"])),
        ):
            self.build(**options)  # type: ignore[arg-type]
            self.assertEqual(self.minion.startup_job(), job)
