"""
C{master_tops} through a program that classifies nodes.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgpack
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.pillars import Pillars
from saltwisted.worker.pillar import work
from saltwisted.worker.pillar.tops import master_tops


class ExtNodesTests(SynchronousTestCase):
    """What a program's output assigns."""

    def program(self, prints: str) -> dict[str, dict[str, str]]:
        """Options that name a program which prints this."""
        path = os.path.abspath(self.mktemp())
        with open(path, "w") as handle:
            handle.write(f"#!/bin/sh\ncat <<EOF\n{prints}\nEOF\n")
        os.chmod(path, stat.S_IRWXU)
        return {"master_tops": {"ext_nodes": path}}

    def test_classes(self) -> None:
        """A list or a map of classes is assigned in the environment that is named."""
        listed = self.program("environment: dev\nclasses: [one, $1]")
        mapped = self.program("classes: {two: {a: 1}}")

        self.assertEqual(master_tops(listed, "web1"), {"dev": ["one", "web1"]})
        self.assertEqual(master_tops(mapped, "web1"), {"base": ["two"]})

    def test_failures(self) -> None:
        """A program that is missing, or prints no classes, assigns nothing."""
        for opts in (
            {"master_tops": {"ext_nodes": "/does/not/exist"}},
            self.program("- a list"),
            self.program("key: value"),
            self.program("bad: [yaml"),
            {"master_tops": {"cobbler": {}}},
            {},
        ):
            self.assertEqual(master_tops(opts, "web1"), {})


class SiteTopsTests(SynchronousTestCase):
    """Top modules of the site's own, from C{_tops}."""

    def assigned(self, settings: dict[str, Any], **modules: str) -> dict[Any, Any]:
        """What these modules assign to C{web1}."""
        folder = self.mktemp()
        os.makedirs(os.path.join(folder, "tops"))
        for name, text in modules.items():
            with open(os.path.join(folder, "tops", f"{name}.py"), "w") as stream:
                stream.write(text)
        opts = {"master_tops": settings, "extension_modules": folder, "id": "master"}
        theirs = {"id": "another", "grains": {"role": "db"}, "x": 1}
        return master_tops(opts, "web1", theirs)

    def test_called(self) -> None:
        """
        C{top} gets the minion's options and grains, with the id that it has proven; the answers
        of several are merged in their order.
        """
        mine = (
            "def top(**kwargs):\n"
            "    return {'base': [kwargs['opts']['id'], kwargs['grains']['role'],"
            " __opts__['master_tops']['mine']['y'], __opts__['id']]}\n"
        )
        more = "def top(opts, grains):\n    return {'base': ['db', 'more'], 'dev': ['one']}\n"

        found = self.assigned({"mine": {"y": "z"}, "more": True}, mine=mine, more=more)
        self.assertEqual(found, {"base": ["web1", "db", "z", "master", "more"], "dev": ["one"]})

    def test_bad(self) -> None:
        """One that raises, exits, answers nonsense or cannot be executed costs only its own."""
        found = self.assigned(
            dict.fromkeys(("raises", "leaves", "odd", "broken", "absent", "good")),
            raises="def top(**kwargs):\n    return {}['gone']\n",
            leaves="import sys\ndef top(**kwargs):\n    sys.exit()\n",
            odd="def top(**kwargs):\n    return ['x']\n",
            broken="import nosuchthing\n",
            good="def top(**kwargs):\n    return {'base': ['good']}\n",
        )

        self.assertEqual(found, {"base": ["good"]})

    def test_replaced(self) -> None:
        """A module called C{ext_nodes} takes the place of ours."""
        text = "def top(**kwargs):\n    return {'base': ['mine']}\n"
        self.assertEqual(self.assigned({"ext_nodes": "false"}, ext_nodes=text), {"base": ["mine"]})

    def test_stock_options(self) -> None:
        """Options of a stock minion, with dates in them, arrive as they were sent."""
        folder = self.mktemp()
        os.makedirs(os.path.join(folder, "tops"))
        with open(os.path.join(folder, "tops", "mine.py"), "w") as stream:
            stream.write("def top(opts, grains):\n    return {'base': [str(opts['began'])]}\n")
        opts = {"master_tops": {"mine": 1}, "extension_modules": folder}
        sent = []

        def call(entry: str, payload: Any, timeout: float) -> Deferred[Any]:
            sent.append(msgpack.unpackb(msgpack.packb(payload)))
            return succeed(work.serve(sent[0], None, {"opts": opts}))

        workers = SimpleNamespace(call=call)
        keys = SimpleNamespace(accepted_ids=list)
        ground = SimpleNamespace(now=float, keys=keys)
        pillars = Pillars(cast(Any, ground), cast(Any, workers))
        asked = pillars.tops("web1", {"began": datetime(2026, 1, 2, tzinfo=UTC), "id": "x"})
        found = self.successResultOf(Deferred.fromCoroutine(asked))

        self.assertEqual(list(found), ["base"])
        self.assertIn("2026-01-02", found["base"][0])
