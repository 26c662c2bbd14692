"""
How much a decoder takes: the bounds, by their numbers.

Each decoder is tried at its bounds elsewhere, some of them made smaller for that. Here the real
ones are written down once more: a bound that grows is a decision, and no slip.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from twisted.trial.unittest import SynchronousTestCase

from tests.mutants.generated import generated

BOUNDS: Mapping[str, Mapping[str, float]] = {
    "wire.decoding": {
        "MOST_ODD": 65536,
        "MOST_ENTRIES": 1000000,
    },
    "wire.envelope": {
        "MAX_CLEAR": 4194304,
        "MAX_ID": 1024,
        "LONGEST_KEY": 4096,
    },
    "wire.handshake": {
        "MOST_HANDOVERS": 16,
    },
    "wire.msgpack": {
        "MAX_DEPTH": 256,
        "LONGEST_CONSTANT": 1024,
    },
    "wire.publication": {
        "MAX_JID": 64,
    },
    "wire.rsa": {
        "MAX_BITS": 16384,
        "MAX_EXPONENT": 8589934592,
        "MAX_PEM": 32768,
    },
    "wire.frames": {
        "MAX_FRAME": 67108864,
        "_HEAD_MOST": 1024,
    },
    "domain.roots.codec": {
        "MAX_BODY": 67108864,
        "MAX_REPLICAS": 4096,
        "MOST_CONTAINERS": 408192,
        "MOST_PATHS": 268435456,
    },
    "domain.roots.guards": {
        "MAX_PATH": 4096,
        "MAX_NAME": 255,
        "MAX_DEPTH": 64,
        "MAX_ENTRIES": 200000,
    },
    "domain.roots.frames": {
        "MAX_FRAME": 1048576,
        "MAX_MESSAGE": 16777216,
        "MAX_UNFINISHED": 67108864,
        "MAX_SHARES": 255,
    },
    "domain.roots.delta": {
        "MOST_MISSES": 2048,
        "MOST_OPERATIONS": 20000,
    },
    "domain.replica.joining": {
        "MAX_SOURCES": 1024,
    },
    "domain.replica.words": {
        "LONGEST_HEAD": 1024,
    },
    "domain.replica.tokens": {
        "MAX_USES": 10000,
    },
    "domain.replica.entry": {
        "MAX_KIND": 32,
        "MAX_NODE": 255,
        "MAX_NUMBER": 4611686018427387903,
        "MAX_STEP": 8589934592,
    },
    "domain.replica.logins": {
        "MAX_GROUPS": 4096,
    },
    "domain.replica.keyset": {
        "MAX_ACTS": 2000,
        "MAX_SEEN": 4096,
        "MAX_PUB": 65536,
    },
    "domain.replica.secrets": {
        "MAX_VALUE": 16384,
    },
    "domain.replica.minions": {
        "MAX_DATA": 4194304,
    },
    "domain.claims.messages": {
        "MAX_KEY": 1024,
        "MAX_PLAN": 1048576,
        "MAX_TEXT": 4096,
        "MAX_ASKED": 10000,
        "MOST_TERM": 4611686018427387904,
    },
    "domain.git.agreement": {
        "MOST_REF": 4096,
    },
    "domain.bearer": {
        "MOST_KEYS": 64,
        "MAX_GROUPS": 4096,
    },
    "domain.operations.arguments": {
        "LONGEST_NAME": 64,
        "MOST": 1.8446744073709552e19,
    },
    "cluster.git.exchange": {
        "MOST_REFS": 20000,
        "MOST_TOKENS": 64,
        "MOST_HELD": 8,
    },
    "domain.events": {
        "MAX_TAG": 4096,
    },
    "domain.minionevents": {
        "LONGEST": 200,
        "MOST": 20,
    },
    "domain.jid": {
        "LONGEST": 40,
    },
    "domain.eauth": {
        "MAX_RULES": 4096,
        "LONGEST": 3153600000.0,
    },
}
"""Module to the names of its bounds and their values."""


class BoundTests(SynchronousTestCase):
    """Constants that are called limits."""

    def test_values(self) -> None:
        """T-MEM-1, T-COST-1: no bound of a decoder has grown, or is gone."""
        for name, bounds in BOUNDS.items():
            module = import_module(f"saltwisted.{name}")
            found = {each: getattr(module, each) for each in bounds}
            self.assertEqual(found, dict(bounds), name)

    def test_all(self) -> None:
        """Each limit of a decoder is in the table."""
        known = {f"{name}: bound {each}" for name, bounds in BOUNDS.items() for each in bounds}
        made = {each.name for each in generated() if ": bound " in each.name}
        self.assertEqual(made - known, set())
