"""
What an accepted minion, or a user who publishes, may cost a master (T-COST-3).

Each command of the table is driven with values of every shape. Costs are the CPU of this thread:
the longest turn, and ratios between sizes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from inspect import isawaitable
from time import thread_time
from typing import Any

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.api.packing import packing
from saltwisted.domain.events import WALK, rough_weight, weight
from saltwisted.domain.nested import TEXT, Unreadable, nested
from saltwisted.domain.reactions.keeping import Kept, Shelf
from saltwisted.domain.secrecy import told
from saltwisted.doors import DOORS, MINIONS_ASK, MINIONS_DATA, PUBLISH
from saltwisted.errors import RemoteError, StoreError
from saltwisted.master.handlers import events as event_handlers
from saltwisted.master.handlers import mine as mine_handlers
from saltwisted.master.handlers import pillar as pillar_handlers
from saltwisted.master.loads import check_size
from saltwisted.master.table import sealed_commands
from saltwisted.transports import turns
from saltwisted.wire.commands import Command, commands, parse_command
from saltwisted.wire.msgpack import pack_bin
from tests.doors.measure import STEEPEST, Turned, assert_linear, exponent, least
from tests.master.reacting import Reacting
from tests.master.rig import Rig, RigMinion

LONGEST = 0.05
"""Seconds of one turn at which a test fails; the rows say less, for a machine without others."""
JID = "20260101000000000000"
Make = Callable[[int], Any]


def values() -> Iterator[tuple[str, Make]]:
    """Values of about so many packed bytes, of every shape that a field can have."""
    for name, one in (("nothing", None), ("maps", {}), ("lists", []), ("numbers", 7)):
        yield f"a list of {name}", lambda size, one=one: [one] * size
        yield f"a map to {name}", lambda size, one=one: {f"{n:06x}": one for n in range(size // 8)}
    yield "a list of texts", lambda size: ["a=[1,2]"] * (size // 8)
    yield "a list of slots", lambda size: ["__slot__:salt:test.arg(1)"] * (size // 26)
    yield "a list of tags", lambda size: [{"tag": "site/a"}] * (size // 12)
    yield "a list of wrong tags", lambda size: [{"tag": "salt/key"}] * (size // 14)
    yield "a text", lambda size: "a" * size
    yield "a path", lambda size: "a/" * (size // 2)
    yield "a text of commas", lambda size: "a," * (size // 2)
    yield "a text of words", lambda size: "a or " * (size // 5)
    yield "a text of colons", lambda size: "*:" * (size // 2)
    yield (
        "results of states",
        lambda size: {f"a_|-b_|-{n}_|-c": {"result": False} for n in range(size // 25)},
    )
    for depth in (100, 250):

        def deep(size: int, depth: int = depth) -> Any:
            made = []
            for _ in range(max(1, size // depth)):
                one: Any = 1
                for _ in range(depth):
                    one = [one]
                made.append(one)
            return made

        yield f"lists within each other, {depth} deep", deep


FIXED: dict[str, dict[str, Any]] = {
    "_return": {"jid": JID, "fun": "state.apply", "return": None, "retcode": 1},
    "_pillar": {"grains": {}},
    "_mine": {"data": {}},
    "_mine_get": {"tgt": "*", "fun": "a"},
    "_mine_delete": {"fun": "a"},
    "_file_recv": {"path": ["a"], "data": b"x"},
    "minion_pub": {"fun": "saltutil.cmd", "tgt": "*"},
    "minion_publish": {"fun": "saltutil.cmd", "tgt": "nobody"},
    "minion_runner": {"fun": "test.arg"},
    "pub_ret": {"jid": JID},
    **{f"_{name}": {"path": "a"} for name in ("file_hash", "file_hash_and_stat", "file_find")},
    "_serve_file": {"path": "a"},
}
"""Fields that a request needs in any case."""
MORE = {"_return": ("return", "metadata", "out", "user"), "_minion_event": ("other",)}
"""Fields that are not declared, and are looked at."""


class CommandTests(SynchronousTestCase):
    """All sealed commands of one master, with few minions."""

    def setUp(self) -> None:
        self.clock = Turned()
        self.rig = Rig(
            self,
            clock=self.clock,
            peer={".*": [".*"]},
            peer_run={".*": [".*"]},
            mine_get={".*": ["a.*"]},
            minion_events={"*": ["site/*"]},
            file_recv=True,
            master_tops={},
        )
        self.patch(turns, "PORTION", 0.002)
        for name in ("m1", "m2", "m3"):
            self.rig.ctx.keys.put("accepted", name, name.encode())
        self.rows = sealed_commands()
        # A daemon's collector looks at what is new alone (roles/memory.py)
        gc.disable()
        self.addCleanup(gc.enable)

    def serve(self, cmd: str, load: dict[str, Any]) -> float:
        """Have a request served to its end; the longest turn that it took."""
        self.clock.longest = 0.0
        command = parse_command({**load, "cmd": cmd, "id": "m1"})
        kept: list[Any] = [command]

        def begin() -> None:
            try:
                value = self.rows[cmd].handler(self.rig.ctx, "m1", command)
            except Exception as error:
                kept.append(error)
                return
            if isawaitable(value):
                value = value if isinstance(value, Deferred) else Deferred.fromCoroutine(value)
                value.addBoth(kept.append)

        self.clock.measure(begin)
        self.clock.settle()
        self.rig.events.clear()
        return self.clock.longest

    def requests(self) -> Iterator[tuple[str, str, Callable[[int], dict[str, Any]]]]:
        """Each command, each of its fields, each shape that the field takes."""
        classes: dict[str, type[Command]] = commands()
        for cmd in self.rows:
            fields = [one for one in attrs.fields(classes[cmd]) if one.name != "load"]
            wanted = [(one.name, one.metadata["types"]) for one in fields]
            wanted += [(name, None) for name in MORE.get(cmd, ())]
            for field, types in wanted:
                for shape, make in values():
                    if types is None or type(make(64)) in types:
                        yield (
                            f"{cmd}, {field}: {shape}",
                            cmd,
                            lambda size, field=field, make=make, cmd=cmd: {
                                **FIXED.get(cmd, {}),
                                field: make(size),
                            },
                        )

    def test_T_COST_3_every_command(self) -> None:
        """
        T-COST-3: no request of a minion takes a long turn of the reactor, whichever of its fields
        has what in it; and sixteen times as much costs about sixteen times as much.
        """
        slow, steep = [], []
        for name, cmd, make in self.requests():
            loads = [make(size) for size in (8 * 1024, 128 * 1024)]
            for _ in range(3):
                costs = [self.cost(cmd, load) for load in loads]
                longest, found = self.clock.longest, exponent(*costs)
                if longest <= LONGEST and found <= STEEPEST:
                    break
            if longest > LONGEST:
                slow.append(f"{name}: {longest * 1000:.0f} ms")
            if found > STEEPEST:
                steep.append(f"{name}: exponent {found:.2f}")
        self.assertEqual((slow, steep), ([], []))

    def cost(self, cmd: str, load: dict[str, Any]) -> float:
        """All CPU that a request takes, in seconds."""
        began = thread_time()
        self.serve(cmd, load)
        return thread_time() - began

    def test_T_COST_3_events(self) -> None:
        """
        T-COST-3: while one minion's 100 000 events of one request are shared out in turns, another
        minion's event is fired and answered at once, and none of either is lost.
        """
        heard: list[str] = []
        self.rig.bus.subscribe_events("", lambda event: heard.append(event.sender))
        many = {"events": [{"tag": f"site/{n}"} for n in range(100_000)]}
        command = parse_command({**many, "cmd": "_minion_event", "id": "m1"})
        answer: list[Any] = []
        handler = self.rows["_minion_event"].handler
        value = self.clock.measure(lambda: handler(self.rig.ctx, "m1", command))
        self.clock.measure(lambda: Deferred.fromCoroutine(value).addCallback(answer.append))

        one = parse_command({"cmd": "_minion_event", "id": "m2", "tag": "site/x"})
        self.assertIsNone(self.clock.measure(lambda: handler(self.rig.ctx, "m2", one)))
        self.assertEqual((heard[-1], answer), ("m2", []))
        self.clock.settle()

        self.assertEqual(answer, [None])
        self.assertEqual(heard.count("m1"), 100_000)
        self.assertGreater(self.clock.turns, 10)
        self.assertLess(self.clock.longest, LONGEST)

    def test_T_COST_3_one_place(self) -> None:
        """
        T-COST-3: a thousand long requests of one minion have one place among those who wait for a
        turn: another minion's long request is answered before them.
        """
        handler = self.rows["_minion_event"].handler
        answered: list[str] = []
        for who in (*["m1"] * 100, "m2"):
            load = {"cmd": "_minion_event", "id": who, "events": [{"tag": "site/a"}] * 2000}
            value = handler(self.rig.ctx, who, parse_command(load))
            d = Deferred.fromCoroutine(value)
            d.addCallback(lambda _, who=who: answered.append(who))
        self.clock.settle(lambda: "m2" in answered)

        self.assertIn("m2", answered)
        self.assertLess(len(answered), 6)
        self.clock.settle()
        self.assertEqual(len(answered), 101)
        self.assertEqual(len(self.rig.ctx.long_work), 0)

    def test_T_COST_3_targets(self) -> None:
        """
        T-COST-3: a target with many stars looks through what other minions have in turns, and what
        is too much to look through is left to a worker; grains that have too many values are not
        kept, which is said and counted.
        """
        grains = {f"g{n}": {"a": {"b": n}} for n in range(100)}
        for name in ("m1", "m2", "m3"):
            self.rig.ctx.cache.put("grains", name, {**grains, "z": {"w": "x"}})
        heavy = {"g": [None] * pillar_handlers.VALUES}
        stars = {"tgt": "*:" * 40 + "nothing", "tgt_type": "grain", "fun": "a"}
        self.assertLess(self.serve("_pillar", {"grains": heavy}), LONGEST)
        self.assertEqual(self.rig.counters["refused:grains"], 1)
        self.assertNotIn("g", self.rig.ctx.cache.get("grains", "m1") or {})
        self.assertLess(self.serve("_mine_get", stars), LONGEST)
        one = {"tgt": "z:*:x", "tgt_type": "grain", "fun": "a"}
        self.rig.ctx.cache.put("mine", "m2", {"a": 1})
        found = self.rows["_mine_get"].handler(
            self.rig.ctx, "m1", parse_command({**one, "cmd": "_mine_get", "id": "m1"})
        )
        d = Deferred.fromCoroutine(found)
        self.clock.settle()
        self.assertEqual(self.successResultOf(d), {"m2": 1})

    def test_T_COST_3_mine(self) -> None:
        """T-COST-3: a mine of too many values is refused, and the old one stays."""
        self.rig.ctx.cache.put("mine", "m1", {"a": 1})
        self.serve("_mine", {"data": {"b": [None] * mine_handlers.VALUES}})
        self.assertEqual(self.rig.ctx.cache.get("mine", "m1"), {"a": 1})
        self.assertEqual(self.rig.counters["refused:mine"], 1)
        self.assertLess(self.serve("_mine", {"data": {"b": [None] * 20_000}}), LONGEST)
        self.assertEqual(self.rig.ctx.cache.get("mine", "m1"), {"a": 1, "b": [None] * 20_000})


class SizeTests(SynchronousTestCase):
    """How much of it anybody looks at."""

    def test_T_COST_3_most(self) -> None:
        """
        T-COST-3: a request that asks for something is refused if it is as long as none is; one that
        brings something is not.
        """
        rig = Rig(self)
        minion = RigMinion(rig, "m1").accepted()
        long = "a" * (MINIONS_ASK.request + 1)

        self.assertEqual(minion.ask("_file_find", path="a", other=long), "bad load")
        self.assertEqual(rig.counters["refused:too-large"], 1)
        self.assertIsNone(minion.ask("_return", jid=JID, fun="test.ping", **{"return": long}))
        self.assertEqual(len(rig.events[-1][1]["return"]), len(long))
        for row in (MINIONS_DATA, MINIONS_ASK, PUBLISH):
            self.assertIs(DOORS[row.name], row)

    def test_T_COST_3_secret(self) -> None:
        """T-COST-3: results of states with one ID cost no more than others when they are hidden."""

        def load(size: int) -> dict[str, Any]:
            found = {f"cmd_|-a_|-{n}_|-run": {"result": True} for n in range(size // 20)}
            return {"metadata": {"no_log": True}, "return": found}

        assert_linear(self, "hidden states", load, told, (8 * 1024, 128 * 1024))
        names = list(told(load(100))["return"])
        self.assertEqual(
            names[:3], ["cmd_|-a_|-a_|-run", "cmd_|-a_|-a 2_|-run", "cmd_|-a_|-a 3_|-run"]
        )

    def test_T_COST_3_packing(self) -> None:
        """
        T-COST-3: a return of containers within each other, of which the innermost is large, is
        packed at a few times the cost of one that is flat, and to the same bytes.
        """

        def within(depth: int) -> Any:
            one: Any = [None] * (840 - depth)
            for _ in range(depth):
                one = [one]
            return one

        flat, deep = ([within(depth) for _ in range(64)] for depth in (0, 240))
        self.assertEqual(b"".join(packing(deep, pack_bin)), pack_bin(deep))
        costs = [
            least(lambda value=value: list(packing(value, pack_bin))) for value in (flat, deep)
        ]
        self.assertLess(costs[1], 40 * costs[0])

    def test_T_COST_3_pretag(self) -> None:
        """T-COST-3: what stands before each tag of a list is not copied for each."""
        command = parse_command(
            {"cmd": "_minion_event", "id": "m1", "pretag": "p" * 1_000_000}
            | {"events": [{"tag": "a"}] * 100}
        )
        tags = [tag for tag, _ in event_handlers._events(command)]  # type: ignore[arg-type]
        self.assertLess(max(map(len, tags)), 5000)

    def test_T_COST_3_weight(self) -> None:
        """
        T-COST-3: to weigh an event costs the same however much is in it, and what has too much in
        it weighs megabytes; others weigh what they do.
        """
        for value in ({"a": "b", "c": [1, None, {"d": b"xy"}]}, {}, ["a"] * (WALK - 1), {"x": {}}):
            self.assertEqual(rough_weight(value), weight(value))
        self.assertGreater(rough_weight({"a": [None] * 1_000_000}), 1024 * 1024)
        self.assertGreater(rough_weight([[[]] * 10] * WALK), 1024 * 1024)

    def test_T_COST_3_arguments(self) -> None:
        """T-COST-3: YAML of a call within a call is bounded, wherever among the arguments it is."""
        text = "[" + "1," * TEXT + "]"
        for fun in ("publish.publish", "publish.full_data"):
            self.assertRaises(Unreadable, nested, fun, ["*", "test.arg", text])
        self.assertRaises(Unreadable, nested, "saltutil.cmd", ["*", ",".join(["a.b"] * 2000)])
        load = {"tgt": ["m"] * 100_000, "tgt_type": "list", "fun": "test.arg"}
        check_size({**load, "arg": ["x"]}, PUBLISH.request)
        for arg in (["x" * (PUBLISH.request + 1)], [[None] * 1_000_000]):
            self.assertRaises(RemoteError, check_size, {**load, "arg": arg}, PUBLISH.request)
            check_size({**load, "arg": arg})
        self.assertRaises(RemoteError, check_size, {**load, "arg": [None] * 1_000_000})


SLS = {"run": "r:\n  runner.test.arg:\n    - args: []\n", "none": "{}\n"}


class ReactionTests(SynchronousTestCase):
    """The queue of reactions, of which each minion has a share."""

    def reacting(self, sls: str = "@none", **options: Any) -> Reacting:
        """A master whose worker has not answered yet, so that all events wait."""
        made = Reacting(self, [{"site/*": [sls]}], SLS, **options)
        made.workers.holding = True
        return made

    def lost(self, made: Reacting) -> list[str]:
        """The tags of lost events."""
        return [each["tag"] for each in made.said("lost")]

    def test_T_COST_3_queue(self) -> None:
        """
        T-COST-3: one minion may fill the queue; then each event of another makes it lose its own
        newest one, which is counted, said once with its name, and ends what is kept of it. Nothing
        of the other is lost, and it is served by turns.
        """
        made = self.reacting(reactor_worker_hwm=100)
        for number in range(300):
            made.rig.bus.fire(f"site/m1/{number}", {}, sender="m1")
        self.assertEqual(len(self.lost(made)), 200)
        for number in range(30):
            made.rig.bus.fire(f"site/m2/{number}", {}, sender="m2")
        lost = self.lost(made)
        self.assertEqual((len(lost), [tag for tag in lost if "m2" in tag]), (230, []))
        self.assertEqual(made.reactor.status()["figures"]["lost:hwm"], 230)

        made.turn()
        (call,) = (each for each in made.workers.calls if each["do"] == "react")
        batch = [one["tag"] for one in call["events"]]
        self.assertEqual(len([tag for tag in batch if "m2" in tag]), len(batch) // 2)
        made.workers.holding = False
        made.workers.release()
        made.turn()
        self.assertEqual(made.reactor.status()["depth"], 0)

    def test_T_COST_3_own(self) -> None:
        """
        T-COST-3: where two have the same share, and the queue is full, whoever brings one more
        loses it; strangers who sign in have one share together.
        """
        made = self.reacting(reactor_worker_hwm=4)
        made.rig.ctx.reactions.configure(made.placed([{"*": ["@none"]}]))
        for tag, sender in (("a", "m1"), ("b", "m1"), ("c", "m2"), ("d", "m2"), ("e", "m2")):
            made.rig.bus.fire(f"site/{tag}", {}, sender=sender)
        self.assertEqual(self.lost(made), ["site/e"])
        made.rig.bus.fire("salt/auth", {"id": "x1", "act": "pend"})
        made.rig.bus.fire("salt/auth", {"id": "x2", "act": "pend"})
        self.assertEqual(self.lost(made)[1:], ["site/b", "site/d"])
        made.rig.bus.fire("salt/auth", {"id": "x3", "act": "pend"})
        self.assertEqual(self.lost(made)[3:], ["salt/auth"])

    def test_T_COST_3_calls(self) -> None:
        """T-COST-3: the same holds for runners that wait for a place."""
        made = Reacting(
            self, [{"site/*": ["@run"]}], SLS, reactor_worker_hwm=10, reactor_worker_threads=1
        )
        places = made.reactor._places
        places.running = 1
        for number in range(10):
            made.fire(f"site/m1/{number}", sender="m1")
        for number in range(3):
            made.fire(f"site/m2/{number}", sender="m2")
        self.assertEqual(self.lost(made), [f"site/m1/{number}" for number in (9, 8, 7)])
        places.running = 0
        places._begin()
        made.turn()
        self.assertEqual(len(made.runs()), 10)

    def test_T_COST_3_held(self) -> None:
        """T-COST-3: and for events that come while the entries are read again."""
        made = self.reacting(reactor_worker_hwm=5)
        made.reactor._intake.hold()
        for sender, count in (("m1", 9), ("m2", 2)):
            for number in range(count):
                made.rig.bus.fire(f"site/{sender}/{number}", {}, sender=sender)
        lost = self.lost(made)
        self.assertEqual(lost, [f"site/m1/{number}" for number in (5, 6, 7, 8, 4, 3)])

    def test_T_COST_3_quiet(self) -> None:
        """T-COST-3: and for those that wait until it is quiet, or for others of their entry."""
        entry = {"site/*": {"sls": "@none", "debounce": {"seconds": 5, "by": ["tag"]}}}
        made = self.reacting(reactor_worker_hwm=5)
        made.rig.ctx.reactions.configure(
            made.placed([entry, {"own/*": {"sls": "@none", "batch": 1}}])
        )
        for number in range(5):
            made.rig.bus.fire(f"site/m1/{number}", {}, sender="m1")
        made.rig.bus.fire("site/m2", {}, sender="m2")
        for number in range(3):
            made.rig.bus.fire(f"own/m3/{number}", {}, sender="m3")
        self.assertEqual(self.lost(made), ["site/m1/4", "site/m1/3", "site/m1/2", "own/m3/2"])
        self.assertEqual(made.reactor.status()["depth"], 5)
        made.workers.holding = False
        made.workers.release()
        made.turn(6)
        self.assertEqual(made.reactor.status()["depth"], 0)


class KeptTests(SynchronousTestCase):
    """What is owed, of which each minion has a share as well."""

    def row(self, minion: str, number: int) -> Kept:
        """An event."""
        return Kept(
            source="a#1", number=number, part=0, minion=minion, tag="t", key="", at=0.0, data=b"x"
        )

    def test_T_COST_3_shelf(self) -> None:
        """
        T-COST-3: a minion gets as much room as it leaves to others, and another one always has
        some; what is done is room again.
        """
        shelf = Shelf("a", "1", most=100)
        rows = [self.row("m1", number) for number in range(51)]
        self.assertFalse(shelf.has_room_of("m1", rows))
        self.assertTrue(shelf.has_room_of("m1", rows[:50]))
        shelf.put(rows[:50], 0.0)
        self.assertFalse(shelf.has_room_of("m1", rows[50:]))
        others = [self.row("m2", 100 + number) for number in range(25)]
        self.assertTrue(shelf.has_room_of("m2", others))
        self.assertTrue(shelf.has_room_of("m3", others))
        shelf.done([row.id for row in rows[:50]])
        self.assertTrue(shelf.has_room_of("m1", rows[:50]))

    def test_T_COST_3_request(self) -> None:
        """
        T-COST-3: a request whose events do not all fit is not acknowledged, nothing of it is fired
        and nothing of it is owed; another minion's event is kept and acknowledged.
        """
        made = Reacting(self, [{"site/*": ["@none"]}], SLS)
        ctx, owed = made.rig.ctx, []
        full = StoreError("it is full")
        keep = ctx.seams.kept.keep

        def kept(wanted: Any) -> Any:
            owed.append(len(wanted))
            if sum(owed) > 200 and wanted[0][0] == "m1":
                return fail(full)
            return keep(wanted)

        done: list[Any] = []
        self.patch(type(ctx.seams.kept), "keep", lambda _, wanted: kept(wanted))
        self.patch(type(ctx.seams.kept), "done", lambda _, row: done.append(row))
        handler = sealed_commands()["_minion_event"].handler
        many = {"cmd": "_minion_event", "id": "m1", "events": [{"tag": "site/a"}] * 1000}
        value = handler(ctx, "m1", parse_command(many))
        self.failureResultOf(Deferred.fromCoroutine(value), StoreError)
        self.assertEqual([tag for tag, _ in made.rig.events if tag == "site/a"], [])

        one = {"cmd": "_minion_event", "id": "m2", "tag": "site/b"}
        handler(ctx, "m2", parse_command(one))
        self.assertIn("site/b", made.rig.tags())
