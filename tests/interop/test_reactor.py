"""
The reactor beside stock's: the same configuration, the same events, the same jobs and calls; and
ours with stock minions that fire the events.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import cluster, let_all_vote
from tests.harness import (
    OurMaster,
    StockMaster,
    StockMinion,
    needs_peers,
    scratch,
    until,
)

SLS = {
    "local": """
a_ping:
  local.test.arg:
    - tgt: '*'
    - tgt_type: glob
    - args:
      - one: {{ data['data']['n'] }}
      - two: "{{ tag }}"
""",
    "cmd": """
a_cmd:
  cmd.test.arg:
    - tgt: 'stock-*'
    - arg:
      - first
      - {{ data['data']['n'] }}
    - kwarg:
        named: yes
""",
    "argsmap": """
a_map:
  local.test.kwarg:
    - tgt: [stock-3008]
    - tgt_type: list
    - args:
        deep: {a: [1, 2]}
        text: 'x'
""",
    "runner": """
a_run:
  runner.test.arg:
    - args:
      - i: {{ data['data']['n'] }}
""",
    "oldrunner": """
old_run:
  runner.test.arg:
    - arg: [1, b]
    - kwarg: {c: d}
""",
    "wheel": """
a_wheel:
  wheel.key.list:
    - match: accepted
""",
    "order": """
last:
  local.test.echo:
    - tgt: 'stock-*'
    - arg: [last]
    - order: last
second:
  local.test.echo:
    - tgt: 'stock-*'
    - arg: [second]
    - require:
      - local: first
first:
  local.test.echo:
    - tgt: 'stock-*'
    - arg: [first]
""",
    "names": """
many:
  local.test.echo:
    - tgt: 'stock-*'
    - names: [x, y]
    - arg: [named]
""",
    "short": "quick: wheel.key.list_all\n",
    "blocks": """
{% if data['data']['n'] > 5 %}
never:
  local.test.ping:
    - tgt: '*'
{% else %}
small:
  local.test.echo:
    - tgt: 'stock-*'
    - arg: ["{{ data['data']['n'] + 1 }}"]
{% endif %}
""",
    "notgt": """
without:
  local.test.ping: []
""",
    "nofun": """
nothing:
  runner.test.there_is_no_such: []
""",
    "list": "- a\n- b\n",
    "broken": "{% if %}",
    "pyfile": """#!py
def run():
    return {"from_py": {"local.test.echo": [{"tgt": "stock-*"}, {"arg": [data["data"]["n"]]}]}}
""",
}
"""Name to SLS; the event C{probe/NAME} is reacted to by it."""
QUIET = ("notgt", "nofun", "list", "broken")
"""These set off nothing, with either."""


EFFECTS = 16
"""Jobs and calls that the others set off, together with those of the entry with a glob."""


def reactor_of(folder: str) -> list[Any]:
    """One entry for each SLS, and one of two by a glob and salt://."""
    entries: list[Any] = [{f"probe/{name}": [f"{folder}/{name}.sls"]} for name in SLS]
    entries.append({"probe/two*": [f"{folder}/runne?.sls", "salt://reactor/wheel.sls"]})
    return entries


def fill(*folders: str) -> None:
    """Write all SLS into each."""
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
        for name, text in SLS.items():
            with open(os.path.join(folder, f"{name}.sls"), "w") as stream:
                stream.write(text)


WATCH = """
import json, sys
import salt.config, salt.utils.event
opts = salt.config.master_config(sys.argv[1])
with salt.utils.event.get_event("master", opts["sock_dir"], opts=opts, listen=True) as bus:
    bus.get_event(wait=1)
    with salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=False) as out:
        for tag, data in json.loads(sys.stdin.read()):
            out.fire_event(data, tag)
    while True:
        event = bus.get_event(wait=1, full=True)
        if event:
            print(json.dumps([event["tag"], event["data"]], default=str), flush=True)
"""
"""Fires events on a stock master's bus, and prints all that come from then on."""


@contextlib.contextmanager
def of_stock(
    master: StockMaster, events: list[tuple[str, dict[str, Any]]]
) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Fire these on a stock master; what comes on its bus."""
    argv = [os.path.join(master.venv, "bin/python"), "-c", WATCH, f"{master.conf}/master"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=master.env)
    came: list[tuple[str, dict[str, Any]]] = []
    assert process.stdin is not None
    process.stdin.write(json.dumps(events))
    process.stdin.close()
    thread = threading.Thread(target=_read, args=(process.stdout, came), daemon=True)
    thread.start()
    try:
        yield came
    finally:
        process.terminate()
        process.wait()
        thread.join()
        assert process.stdout is not None
        process.stdout.close()


def _read(stream: Any, came: list[tuple[str, dict[str, Any]]]) -> None:
    for line in stream:
        tag, data = json.loads(line)
        came.append((tag, data))


@contextlib.contextmanager
def of_ours(
    master: OurMaster, events: list[tuple[str, dict[str, Any]]]
) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The same on a master of ours."""
    came: list[tuple[str, dict[str, Any]]] = []
    with master.events("") as stream:

        def read() -> None:
            with contextlib.suppress(Exception):
                for item in stream:
                    came.append((item["tag"], item["data"]))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        client = master.control()
        for tag, data in events:
            client.call("fire_event", tag=tag, data=data)
        client.close()
        yield came


def effects(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """What jobs were published and what was called, without what differs by nature."""
    found: list[Any] = []
    for tag, data in list(events):
        words = tag.split("/")
        if tag.startswith("salt/job/") and words[-1] == "new" and data["fun"].startswith("test."):
            found.append(["job", data["fun"], data["tgt"], data["tgt_type"], data["arg"]])
        if tag.startswith(("salt/run/", "salt/wheel/")) and words[-1] == "ret":
            if data.get("user") != "Reactor":
                continue
            value = data["return"]
            if words[1] == "wheel" and isinstance(value, dict):
                value = value.get("data", {}).get("return", value)
                # The names of the master's own key files follow its id
                value.pop("local", None)
            found.append([words[1], data["fun"], value])
    return [json.dumps(one, sort_keys=True) for one in found]


def failures(events: list[tuple[str, dict[str, Any]]]) -> set[str]:
    """The tags of events to which a reaction failed."""
    return {data["tag"] for tag, data in list(events) if tag == "saltwisted/reaction/failed"}


@needs_peers
class BesideStockTests(SynchronousTestCase):
    """One minion of 3008 under a master of either kind."""

    def test_same_effects(self) -> None:
        """Every form of a reaction has the same job published, or the same function called."""
        home = scratch(self)
        masters: list[Any] = []
        for kind in ("stock", "ours"):
            place = os.path.join(home, kind)
            os.makedirs(place)
            folder = os.path.join(place, "reactor")
            fill(folder)
            options = {"reactor": reactor_of(folder), "auto_accept": True}
            master: Any = (
                StockMaster(place, "3008", **options)
                if kind == "stock"
                else OurMaster(place, **options)
            )
            shutil.copytree(folder, os.path.join(master.file_root, "reactor"))
            self.addCleanup(master.kill)
            master.up()
            minion = StockMinion(place, "3008", master)
            self.addCleanup(minion.kill)
            minion.up()
            masters.append(master)
        stock, ours = masters
        for master in masters:
            key = os.path.join(master.pki, "minions/stock-3008")
            until("the minion's key", lambda key=key: os.path.exists(key))  # type: ignore[misc]
        ours.ping_until("stock-3008")
        names = [*SLS, "two-of-them"]
        events = [(f"probe/{n}", {"id": "stock-3008", "data": {"n": 3}}) for n in names]

        with of_stock(stock, events) as theirs, of_ours(ours, events) as mine:
            try:
                until(
                    "the same effects",
                    lambda: (
                        len(effects(mine)) == len(effects(theirs)) == EFFECTS
                        and len(failures(mine)) == len(QUIET)
                    ),
                    40,
                )
            except AssertionError:
                # What follows says which are not
                self.assertNotEqual(mine, [])

        self.maxDiff = None
        self.assertEqual(sorted(effects(mine)), sorted(effects(theirs)))
        self.assertEqual(failures(mine), {f"probe/{name}" for name in QUIET})
        # The calls of one event; those of several events go on beside one another here
        for each in (mine, theirs):
            words = [json.loads(one)[-1] for one in effects(each) if '"test.echo"' in one]
            told = [word[0] for word in words if word[0] in ("first", "second", "last")]
            self.assertEqual(told, ["first", "second", "last"])


@needs_peers
class MinionsTests(SynchronousTestCase):
    """Stock minions that fire events under our master."""

    def test_minion_to_minion(self) -> None:
        """
        An event that C{salt-call event.send} fires on a stock minion has a job run on another,
        once, though stock sends the event to its master twice.
        """
        home = scratch(self)
        folder = os.path.join(home, "reactor")
        os.makedirs(folder)
        with open(os.path.join(folder, "mark.sls"), "w") as stream:
            stream.write(
                "mark:\n  local.cmd.run:\n    - tgt: stock-3006\n    - args:\n"
                "        cmd: echo {{ data['id'] }} {{ data['data']['n'] }} "
                f">> {home}/marks\n"
            )
        master = OurMaster(home, reactor=[{"site/mark": [f"{folder}/mark.sls"]}], auto_accept=True)
        self.addCleanup(master.kill)
        master.up()
        minions = [StockMinion(home, version, master) for version in ("3006", "3008")]
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
        for minion in minions:
            master.ping_until(minion.id)

        with master.events("salt/job/") as stream:
            for number, minion in enumerate(minions):
                minion.call("event.send", "site/mark", json.dumps({"n": number}))
                for item in stream:
                    if "/ret/" in item["tag"] and item["data"]["fun"] == "cmd.run":
                        break

        with open(os.path.join(home, "marks")) as marks:
            self.assertEqual(sorted(marks.read().splitlines()), ["stock-3006 0", "stock-3008 1"])
        client = master.control()
        self.addCleanup(client.close)
        status = client.call("status")["reactor"]
        self.assertEqual(status["figures"].get("failed", 0), 0)
        self.assertEqual(status["figures"]["reacted"], 2)

    def test_from_states(self) -> None:
        """
        An event that a state sends is reacted to once, whether a job or C{salt-call} has run the
        state, with each release of stock minions.
        """
        home = scratch(self)
        with open(os.path.join(home, "say.sls"), "w") as stream:
            stream.write("say:\n  runner.test.arg:\n    - args: {n: {{ data['data']['n'] }}}\n")
        master = OurMaster(home, reactor=[{"site/state": [f"{home}/say.sls"]}], auto_accept=True)
        self.addCleanup(master.kill)
        master.up()
        minions = [StockMinion(home, version, master) for version in ("3006", "3007", "3008")]
        for minion in minions:
            self.addCleanup(minion.kill)
            minion.up()
        for minion in minions:
            master.ping_until(minion.id)

        sends = ("state.single", "event.send", "site/state")
        for number, minion in enumerate(minions):
            # Both answer when the state has ended, and with it all that it sends
            master.salt(minion.id, *sends, f"data={{n: {number}}}")
            minion.call(*sends, f"data={{n: {number + 10}}}")
        with master.control() as client:
            until(
                "the reactions",
                lambda: client.call("automation.status")["figures"].get("reacted", 0) >= 6,
            )
            figures = client.call("automation.status")["figures"]
            receipts = client.call("receipts", event="site/state")

        self.assertEqual(figures["reacted"], 6)
        self.assertEqual(len(receipts), 6)


@needs_peers
class HotMinionTests(SynchronousTestCase):
    """A stock minion that is at all nodes of a cluster at once."""

    def test_once_with_three_nodes(self) -> None:
        """
        Each event comes to every node, twice from C{salt-call}, and is reacted to once; two
        events that are alike are two.
        """
        folder = scratch(self)
        with open(os.path.join(folder, "mark.sls"), "w") as stream:
            stream.write(
                "mark:\n  local.cmd.run:\n    - tgt: {{ sender }}\n    - args:\n"
                f"        cmd: echo {{{{ data['data']['n'] }}}} >> {folder}/marks\n"
                "say:\n  runner.test.arg:\n    - args:\n        n: {{ data['data']['n'] }}\n"
            )
        nodes = cluster(self, "a b c", reactor=[{"site/mark": [f"{folder}/mark.sls"]}])
        let_all_vote(nodes)
        minion = StockMinion(folder, "3008", nodes[0])
        addresses = json.dumps([node.address for node in nodes])
        conf = os.path.join(minion.conf, "minion")
        with open(conf) as stream:
            lines = [line for line in stream if not line.startswith("master:")]
        with open(conf, "w") as stream:
            stream.writelines([*lines, f"master: {addresses}\n"])
        self.addCleanup(minion.kill)
        minion.up()
        nodes[0].accept(minion.id)
        for node in nodes:
            node.ping_until(minion.id)

        for number in (0, 1, 1):
            minion.call("event.send", "site/mark", json.dumps({"n": number}))
        nodes[1].salt(minion.id, "state.single", "event.send", "site/mark", "data={n: 2}")
        marks = os.path.join(folder, "marks")
        until("four marks", lambda: len(self.lines(marks)) >= 4)
        until("four calls", lambda: self.figures(nodes)["reacted"] == 4)

        self.assertEqual(sorted(self.lines(marks)), ["0", "1", "1", "2"])
        figures = self.figures(nodes)
        self.assertEqual(figures["failed"], 0)
        self.assertGreaterEqual(figures["taken"], 6)

    def lines(self, path: str) -> list[str]:
        """The lines of a file, if it is there."""
        if not os.path.exists(path):
            return []
        with open(path) as stream:
            return stream.read().split()

    def figures(self, nodes: list[Any]) -> Counter[str]:
        """The sums of all nodes' figures."""
        total: Counter[str] = Counter()
        for node in nodes:
            client = node.control()
            total.update(client.call("automation.status")["figures"])
            client.close()
        return total
