"""Who is looked for at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.master.presence import Presence
from saltwisted.master.seams import LoneWhereabouts

IDS = [f"m{number}" for number in range(100)]


class Cache:
    """Grains that are counted."""

    def __init__(self) -> None:
        self.read = 0

    def get(self, kind: str, minion_id: str) -> dict[str, Any]:
        """Nothing is known of anybody."""
        self.read += 1
        return {}


class PerhapsTests(SynchronousTestCase):
    """A look at all keys costs only where minions can be."""

    def setUp(self) -> None:
        """A master with a hundred keys."""
        self.live: dict[str, Any] = {}
        self.connected: set[str] = set()
        sessions: Any = SimpleNamespace(live=lambda: self.live)
        cache: Any = Cache()
        self.presence = Presence(
            sessions, cache, lambda: self.connected, lambda: 100.0, LoneWhereabouts()
        )

    def test_nobody(self) -> None:
        """Without a connection, and without a request in this life, nobody is looked for."""
        self.assertEqual(list(self.presence.perhaps(IDS)), [])

    def test_requests(self) -> None:
        """Who has made a request is looked for, and here if that is not long ago."""
        self.live["m7"] = SimpleNamespace(seen=99.0, address="127.0.0.1")
        self.live["m8"] = SimpleNamespace(seen=1.0, address="127.0.0.1")
        self.live["other"] = SimpleNamespace(seen=99.0, address="127.0.0.1")

        perhaps = self.presence.perhaps(IDS)

        self.assertEqual(list(perhaps), ["m7", "m8"])
        self.assertEqual(self.presence.here(perhaps), self.presence.here(IDS))
        self.assertEqual(self.presence.here(perhaps), {"m7"})

    def test_connections(self) -> None:
        """While anybody is connected, it may be each of them."""
        self.connected = {"192.0.2.1"}

        self.assertEqual(list(self.presence.perhaps(IDS)), IDS)
