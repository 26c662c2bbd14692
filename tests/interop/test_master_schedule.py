"""
The schedule of a master beside stock's: the same entries, the same runs, the same events.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.harness import OurMaster, StockMaster, needs_peers, scratch, until

LISTENER = """
import json, sys, salt.config, salt.utils.event
opts = salt.config.master_config(sys.argv[1])
bus = salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=True)
print("listening", flush=True)
while True:
    event = bus.get_event(full=True, wait=1, tag="__schedule_return")
    if event:
        print(json.dumps(event["data"], default=repr), flush=True)
"""
SCHEDULE: dict[str, Any] = {
    "plain": {
        "function": "test.arg",
        "seconds": 3,
        "args": [1, "two"],
        "kwargs": {"k": "v"},
        "metadata": {"a": "b"},
    },
    "quiet": {"function": "test.arg", "seconds": 2, "return_job": False},
    "off": {"function": "test.arg", "seconds": 2, "enabled": False},
    "dry": {"function": "test.arg", "seconds": 2, "dry_run": True},
    "nocache": {"function": "manage.present", "seconds": 3, "return_job": "nocache"},
    "named": {"name": "other", "function": "test.arg", "seconds": 3, "args": ["n"]},
    "later": {"function": "test.arg", "seconds": 4, "run_on_start": False, "args": ["l"]},
    "cron": {"function": "test.arg", "cron": "0 0 1 1 *"},
    "over": {"function": "test.arg", "seconds": 2, "until": "2020-01-01T00:00:00",
             "run_on_start": False},
    "early": {"function": "test.arg", "seconds": 2, "after": "2199-01-01T00:00:00",
              "run_on_start": False},
    "inside": {"function": "test.arg", "seconds": 3, "args": ["in"], "run_on_start": False,
               "range": {"start": "2020-01-01T00:00:00", "end": "2199-01-01T00:00:00"}},
    "outside": {"function": "test.arg", "seconds": 3, "args": ["out"], "run_on_start": False,
                "range": {"start": "2020-01-01T00:00:00", "end": "2020-01-02T00:00:00"}},
    "skipped": {"function": "test.arg", "seconds": 3, "args": ["skip"], "run_on_start": False,
                "skip_during_range": {"start": "2020-01-01T00:00:00",
                                      "end": "2199-01-01T00:00:00"}},
    "fun": {"fun": "test.arg", "seconds": 3, "args": ["fun"]},
}  # fmt: skip
RUN = {"plain", "nocache", "other", "later", "inside", "fun"}


def shape(data: dict[str, Any]) -> dict[str, Any]:
    """An event without what depends on the moment and the master."""
    kept = {key: value for key, value in data.items() if key not in ("pid", "_stamp")}
    if "metadata" in kept:
        kept["metadata"] = {
            key: value if not key.startswith("_") else "..."
            for key, value in kept["metadata"].items()
        }
    return kept


@needs_peers
class StockTests(SynchronousTestCase):
    """3008.2 and ours."""

    def collect(self, seen: list[dict[str, Any]], alive: Callable[[], bool]) -> dict[str, Any]:
        """The first event of each entry, when all that should have run have."""

        def all_there() -> bool:
            self.assertTrue(alive())
            # `plain` several times: what should not run has had its time
            names = [data["schedule"] for data in seen]
            return set(names) >= RUN and names.count("plain") >= 3

        until("all runs", all_there)
        return {data["schedule"]: shape(data) for data in reversed(seen)}

    def of_stock(self) -> dict[str, Any]:
        """What stock's schedule tells the bus."""
        master = StockMaster(scratch(self), "3008", id="m", loop_interval=1, schedule=SCHEDULE)
        self.addCleanup(master.kill)
        master.up()
        seen = os.path.join(master.root, "events")
        with open(seen, "wb") as out:
            listener = subprocess.Popen(
                [f"{master.venv}/bin/python", "-c", LISTENER, os.path.join(master.conf, "master")],
                stdout=out,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": ""},
            )
        self.addCleanup(listener.wait)
        self.addCleanup(listener.kill)
        found: list[dict[str, Any]] = []

        def alive() -> bool:
            with open(seen, encoding="utf-8") as handle:
                lines = [line for line in handle.read().split("\n")[:-1] if line[:1] == "{"]
            found[:] = [json.loads(line) for line in lines]
            return listener.poll() is None and master.running

        return self.collect(found, alive)

    def of_ours(self) -> dict[str, Any]:
        """What ours tells it."""
        master = OurMaster(scratch(self), id="m", loop_interval=1, schedule=SCHEDULE)
        self.addCleanup(master.kill)
        master.up()
        found: list[dict[str, Any]] = []
        with master.events("__schedule_return") as events:

            def alive() -> bool:
                found.append(next(events)["data"])
                return master.running

            return self.collect(found, alive)

    def test_same(self) -> None:
        """The same entries run, and each says the same of its run as under stock."""
        stock, ours = self.of_stock(), self.of_ours()

        self.assertEqual(set(stock), RUN)
        self.assertEqual(ours, stock)
