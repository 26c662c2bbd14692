"""
A master with a hundred thousand jobs answers by its API as one with a hundred.
"""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.testing.ports import reserve_ports
from saltwisted.wire.msgpack import pack
from tests.harness import OurMaster, scratch, until

JOBS = 100_000
BEST = 0.2
"""Seconds for the first page, of the best of five: the machine may be busy."""


def rows() -> Iterator[tuple[Any, ...]]:
    """Jobs of the last hours, as the store has them."""
    now = datetime.now(UTC) - timedelta(hours=6)
    for number in range(1, JOBS + 1):
        at = now + timedelta(seconds=number / 10)
        job = {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "user": "root"}
        jid = at.strftime("%Y%m%d%H%M%S%f")
        load = pack({**job, "jid": jid, "ret": "", "kwargs": {}})
        yield number, jid, at.timestamp(), "test.ping", 1, load, pack(["m1"]), None


class ManyJobsTests(SynchronousTestCase):
    """A real master, whose store is filled while it is down."""

    def listens(self) -> bool:
        """Whether the API takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path: str, low: Any = None, **headers: str) -> Any:
        """One request: what it says, and how long that took."""
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        body = None if low is None else json.dumps(low)
        headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        connection.request("GET" if low is None else "POST", path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.assertEqual(answer.status, 200, content[:300])
        return json.loads(content), time.monotonic() - began

    def test_first_page(self) -> None:
        """
        The first page comes within 200 milliseconds (pains-next 2.6), by C{/jobs} and by
        C{jobs.list_jobs}, and the pages lead on from one another.
        """
        home = scratch(self)
        (self.port,) = reserve_ports(1)
        master = OurMaster(
            home,
            external_auth={"auto": {"admin": ["@runner"]}},
            rest_twisted={"port": self.port, "host": "127.0.0.1", "disable_ssl": True},
            netapi_enable_clients=["runner"],
        )
        self.addCleanup(master.kill)
        master.up().stop()
        (path,) = Path(home).rglob("jobs.sqlite")
        with sqlite3.connect(path) as db:
            db.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows())
        db.close()
        master.up()
        until("the API", self.listens)

        login = {"username": "admin", "password": "x", "eauth": "auto"}
        token = self.get("/login", login)[0]["return"][0]["token"]
        listing = {"client": "runner", "fun": "jobs.list_jobs", "kwarg": {"limit": 100}}
        for asked in (("/jobs?limit=100", None), ("/", [listing])):
            took = []
            for _ in range(5):
                found, seconds = self.get(*asked, **{"X-Auth-Token": token})
                self.assertEqual(len(found["return"][0]), 100)
                took.append(seconds)
            self.assertLess(min(took), BEST, took)
        after = self.get("/jobs?limit=100", **{"X-Auth-Token": token})[0]["after"]
        more = self.get(f"/jobs?limit=100&after={after}", **{"X-Auth-Token": token})[0]["return"][0]
        self.assertLess(max(more), after)
        self.assertEqual(len(more), 100)
