"""
C{salt.utils.event} and C{salt.pillar}, for modules and scripts of a site.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from saltwisted.compat.client import LocalClient
from saltwisted.compat.pillar import get_pillar
from saltwisted.compat.utils.event import SaltEvent, get_event, get_master_event
from saltwisted.config.options import MasterConfig
from saltwisted.worker.control import ControlClient
from saltwisted.worker.exceptions import SaltClientError
from tests.cli.support import CommandTestCase, FakeDaemon, Refusal


class EventTests(CommandTestCase):
    """A daemon that tells four events."""

    def setUp(self) -> None:
        """Their tags are a/1, b/1, a/2 and c."""
        super().setUp()
        self.opts = {"sock_dir": f"{self.root}/run"}

        def events(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"ready": True}
            for number, tag in enumerate(("a/1", "b/1", "a/2", "c")):
                yield {"tag": tag, "data": {"number": number}}

        self.asked = self.daemon(events=events, fire_event=lambda args: True).asked

    def test_in_order(self) -> None:
        """Events come in order; those whose tags do not fit are passed over."""
        with get_master_event(self.opts, None) as event:
            self.assertEqual(event.get_event(tag="a"), {"number": 0})
            self.assertEqual(
                event.get_event(tag="a", full=True), {"tag": "a/2", "data": {"number": 2}}
            )
            self.assertEqual(event.get_event(tag=""), {"number": 3})

    def test_matches(self) -> None:
        """A tag fits as C{match_type} says."""
        for how, wanted, number in (
            ("startswith", "b", 1),
            ("endswith", "/2", 2),
            ("find", "b/", 1),
            ("regex", "^[bc]$", 3),
            ("fnmatch", "?/2", 2),
        ):
            with get_event("master", sock_dir=self.opts["sock_dir"]) as event:
                found = event.get_event(tag=wanted, match_type=how)
                self.assertEqual(found, {"number": number}, how)

    def test_nothing(self) -> None:
        """Who does not wait, or waits in vain, gets nothing."""
        quiet = f"{self.root}/quiet"
        os.mkdir(quiet)
        over = threading.Event()

        def silent(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"ready": True}
            yield {"tag": "other", "data": {}}
            over.wait()

        daemon = FakeDaemon(f"{quiet}/saltwisted.sock", {"events": silent})
        self.addCleanup(daemon.close)
        self.addCleanup(over.set)
        with SaltEvent("master", quiet) as event:
            self.assertIsNone(event.get_event(wait=0.1, tag="mine"))
            self.assertIsNone(event.get_event_noblock())

    def test_fired(self) -> None:
        """Events are fired by a connection of their own; a minion's also on its master."""
        event = get_event("minion", opts=self.opts, listen=False)

        self.assertTrue(event.fire_event({"a": 1}, "my/tag"))
        self.assertTrue(event.fire_master({"a": 2}, "my/tag"))
        self.assertEqual(
            self.asked,
            [
                ("fire_event", {"tag": "my/tag", "data": {"a": 1}}),
                ("fire_event", {"tag": "my/tag", "data": {"a": 2}, "to_master": True}),
            ],
        )

    def test_refused(self) -> None:
        """Who may not listen, or finds no daemon, is told so in words that scripts know."""
        other = f"{self.root}/other"
        os.mkdir(other)

        def refuse(args: dict[str, Any]) -> Any:
            raise Refusal("AuthorizationError", "not you")

        daemon = FakeDaemon(f"{other}/saltwisted.sock", {"events": refuse})
        self.addCleanup(daemon.close)
        with self.assertRaisesRegex(Exception, "not you"):
            SaltEvent("master", other)
        with self.assertRaises(SaltClientError):
            SaltEvent("master", f"{self.root}/nowhere")


class PillarTests(CommandTestCase):
    """A master's roots."""

    def test_compiled(self) -> None:
        """A pillar is compiled for a minion of these grains, with what overrides it."""
        os.mkdir(f"{self.root}/pillar")
        for name, text in (("top", "base: {'*': [a]}"), ("a", "x: {{ grains.os }}\ny: 1")):
            with open(f"{self.root}/pillar/{name}.sls", "w") as file:
                file.write(text)
        opts = {
            **MasterConfig(pillar_roots={"base": [f"{self.root}/pillar"]}).as_opts(),
            "cachedir": self.root,
            "extension_modules": f"{self.root}/ext",
        }

        pillar = get_pillar(opts, {"os": "Debian"}, "m1", "base", pillar_override={"y": 2})
        self.assertEqual(pillar.compile_pillar(), {"x": "Debian", "y": 2})

    def test_of_master(self) -> None:
        """On a minion it is the one that its master compiles."""
        asked = []

        def items(**kwargs: Any) -> dict[str, Any]:
            asked.append(kwargs)
            return {"x": 1}

        opts = {"file_client": "remote"}
        pillar = get_pillar(
            opts, None, "m1", funcs={"pillar.items": items}, pillar_override={"y": 2}
        )
        self.assertEqual(pillar.compile_pillar(), {"x": 1})
        self.assertEqual(asked, [{"pillar": {"y": 2}}])


class ClientTests(CommandTestCase):
    """C{LocalClient} inside of a runner."""

    def test_threads(self) -> None:
        """A hundred threads with ten calls each have their answers, and leave nothing open."""

        def run(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"kind": "published", "jid": "1", "minions": ["m1"]}
            yield {"kind": "return", "id": "m1", "data": {"return": args["arg"][0]}}

        self.daemon(run=run)
        opts = {"sock_dir": f"{self.root}/run", "timeout": 5, "gather_job_timeout": 5}
        client = LocalClient(mopts=opts)
        made: list[ControlClient] = []
        connect = ControlClient._connected

        def connected(self: ControlClient) -> Any:
            made.append(self)
            return connect(self)

        self.patch(ControlClient, "_connected", connected)

        def work(number: int) -> list[Any]:
            found = [client.cmd("*", "test.echo", [f"{number}.{call}"]) for call in range(10)]
            return [each["m1"] for each in found]

        with ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(work, range(100)))

        expected = [[f"{number}.{call}" for call in range(10)] for number in range(100)]
        self.assertEqual(answers, expected)
        self.assertGreaterEqual(len(made), 1000)
        self.assertEqual([each for each in made if each._sock is not None], [])
