"""
Login tokens between the fact log and the logins of a master, on one node and between two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.facts.logins import LOOK, PATIENCE, STEP, ClusterTokens
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.eauth import Token
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.logins import LINGER, LoginTokens
from saltwisted.stores.tokens import TokenFiles

DIGEST = "a" * 64
ZERO = "0" * 16


class Wired:
    """
    Folds of several nodes that hear each other at once.

    @ivar epoch: of the join tokens.
    """

    def __init__(self, test: SynchronousTestCase, names: str) -> None:
        self.clock = Clock()
        self.epoch = 0
        self.ready, self.behind = True, False
        self.members = set(names)
        self.number = 0
        self.origin = "a"
        self.settled = 0
        self.folds = {name: LoginTokens() for name in names}
        self.files = {
            name: TokenFiles(test.mktemp(), self._at_once, self.clock.seconds) for name in names
        }
        self.nodes = {
            name: ClusterTokens(
                self.clock,
                self.folds[name],
                self._append,
                self.clock.seconds,
                lambda: self.epoch,
                self._settle,
                lambda: self.ready,
                lambda: self.behind,
                lambda: self.members,
                name,
                self.files[name],
            )
            for name in names
        }
        for name, node in self.nodes.items():
            self.files[name].startService()
            test.addCleanup(node.stopService)

    def start(self) -> None:
        """All nodes."""
        for node in self.nodes.values():
            node.startService()

    def _at_once(self, function: Any, *args: Any) -> Deferred[Any]:
        return succeed(function(*args))

    async def _settle(self) -> None:
        self.settled += 1

    async def _append(self, kind: str, body: Mapping[str, Any]) -> None:
        self.number += 1
        for fold in self.folds.values():
            fold.apply(dict(body), self.number, Dot(Stream(self.origin, ZERO), self.number))


class LoginTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.wired = Wired(self, "ab")
        self.a, self.b = self.wired.nodes["a"], self.wired.nodes["b"]
        self.token = Token(name="fred", eauth="pam", start=0.0, expire=1000.0)

    def done(self, work: Any) -> Any:
        """What a coroutine gave back."""
        return self.successResultOf(Deferred.fromCoroutine(work))

    def test_made_and_deleted(self) -> None:
        """Made on one node it is known on the other, and deleted there it is gone here."""
        self.wired.start()
        self.done(self.a.put(DIGEST, self.token))
        self.assertEqual(self.b.get(DIGEST), self.token)
        self.assertEqual(dict(self.b.items()), {DIGEST: self.token})

        self.assertTrue(self.done(self.b.drop(DIGEST)))
        self.assertFalse(self.done(self.a.drop(DIGEST)))
        self.assertIsNone(self.a.get(DIGEST))
        self.assertEqual(self.wired.settled, 2, "others were waited for")

    def test_before_it_has_caught_up(self) -> None:
        """A node that may not know of deletions yet honours no token."""
        self.done(self.a.put(DIGEST, self.token))
        self.wired.ready = False
        self.assertIsNone(self.b.get(DIGEST))
        self.wired.ready = True
        self.assertEqual(self.b.get(DIGEST), self.token)

    def test_waits_for_what_others_did(self) -> None:
        """A token waits until this node has heard the others again, and not for ever."""
        for name in ("ready", "behind"):
            setattr(self.wired, name, name == "behind")
            waiting = Deferred.fromCoroutine(self.b.fresh())
            self.wired.clock.pump([STEP] * 5)
            self.assertNoResult(waiting)
            setattr(self.wired, name, name == "ready")
            self.wired.clock.pump([STEP])
            self.successResultOf(waiting)
        self.wired.behind = True
        waiting = Deferred.fromCoroutine(self.b.fresh())
        self.wired.clock.pump([1.0] * int(PATIENCE + 2))
        self.successResultOf(waiting)

    def test_taken_along(self) -> None:
        """Tokens of a lone master hold in its cluster; what had ended is left behind."""
        files = self.wired.files["a"]
        self.done(files.put(DIGEST, self.token))
        self.done(files.put("b" * 64, Token(name="x", eauth="pam", start=0.0, expire=-1.0)))
        self.wired.epoch = 3

        self.wired.start()

        taken = self.b.get(DIGEST)
        assert taken is not None
        self.assertEqual((taken.name, taken.epoch), ("fred", 3))
        self.assertIsNone(self.b.get("b" * 64))
        self.assertEqual(list(files.items()), [])

    def test_ended(self) -> None:
        """What has ended, or is void by the removal of a node, is deleted by who made it."""
        self.wired.start()
        self.done(self.a.put(DIGEST, self.token))
        self.wired.clock.pump([LOOK] * int((1000 + LINGER) / LOOK))
        self.assertIsNotNone(self.b.get(DIGEST))
        self.wired.clock.pump([LOOK])
        self.assertIsNone(self.b.get(DIGEST))
        self.assertEqual(self.wired.number, 2, "one deletion is enough")

        self.done(self.a.put("b" * 64, Token(name="x", eauth="pam", start=0.0, expire=1e9)))
        self.wired.epoch = 1
        self.wired.clock.pump([LOOK])
        self.assertIsNone(self.a.get("b" * 64))

    def test_of_nodes_that_are_gone(self) -> None:
        """Tokens of who is a member no more are deleted by those that are."""
        self.wired.origin = "c"
        self.wired.members.add("c")
        self.wired.start()
        self.done(self.a.put(DIGEST, self.token))
        self.wired.clock.pump([LOOK] * 20)
        self.assertIsNotNone(self.a.get(DIGEST))

        self.wired.members.discard("c")
        self.wired.clock.pump([LOOK])
        self.assertIsNone(self.b.get(DIGEST))
