"""
Law of minion tokens: however nodes were cut off from each other while minions used one, when they
have met no more keys are accepted by it than it has uses, the same on all of them.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.life.miniontokens import MinionTokens
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.entry import Stream
from saltwisted.domain.replica.fold import Fact
from saltwisted.domain.replica.keyset import KeySet, finger_of
from saltwisted.domain.replica.tokens import MINION, Token, Tokens, minion_use

modest = settings(
    derandomize=True,
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TOKEN = "1" * 32
MINIONS = [(f"web{number}", b"key %d\n" % number) for number in range(4)]


class Node:
    """A node that lets minions in by the token, as far as it knows, and denies as members do."""

    def __init__(self, number: int) -> None:
        self.name, self.incarnation = f"n{number}", f"{number:016x}"
        self.folds: dict[str, Any] = {"token": Tokens(), "key": KeySet()}
        self.facts: list[tuple[str, Fact]] = []
        self.count = 0

    def write(self, kind: str, body: Any, stamp: int) -> None:
        """A fact of its own."""
        self.count += 1
        self.take(
            kind, Fact(body, stamp << 16, Dot(Stream(self.name, self.incarnation), self.count))
        )

    def take(self, kind: str, fact: Fact) -> None:
        """A fact of anybody."""
        if (kind, fact) not in self.facts:
            self.facts.append((kind, fact))
            self.folds[kind].apply(*fact)

    def create(self, uses: int) -> None:
        """The token."""
        token = Token(
            id=TOKEN,
            secret=b"s" * 16,
            pin="0" * 64,
            expiry=1e9,
            uses=uses,
            role=MINION,
            pattern="web*",
        )
        self.write("token", self.folds["token"].create_body(token, "root"), 0)

    def come(self, minion_id: str, pub: bytes, stamp: int) -> None:
        """A minion signs in, and is let in if the token says so."""
        finger = finger_of(pub)
        if self.folds["key"].register(minion_id, finger) is not None:
            return
        if self.folds["token"].for_minion(minion_id, finger, 0.0):
            use = {"op": "use", "id": TOKEN, "key": minion_use(minion_id, finger)}
            self.write("token", use, stamp)
            self.write("key", self.folds["key"].act("accept", minion_id, pub), stamp)

    def meet(self, other: Node) -> None:
        """Take in everything of another one, and do what follows from it."""
        for kind, fact in list(other.facts):
            self.take(kind, fact)
        self.follow()

    def follow(self) -> None:
        """The product's own rules, on these folds."""

        def append(kind: str, body: Any) -> Any:
            self.write("key", body, 9)
            return succeed(None)

        rules = MinionTokens(
            tokens=self.folds["token"],
            append=append,
            is_revoked=self.folds["key"].is_revoked,
            deny_minion=self.folds["key"].denial,
            now=lambda: 0.0,
        )
        with mock.patch.object(MinionTokens, "log"):
            rules.deny_overused()

    def accepted(self) -> list[str]:
        """Whose key counts."""
        keys = self.folds["key"]
        return [
            minion_id
            for minion_id, _ in MINIONS
            if any(each.word == "accepted" for each in keys.of_id(minion_id))
        ]


class UsesLaw(SynchronousTestCase):
    @modest
    @given(st.integers(1, 2), st.data())
    def test_uses(self, uses: int, data: Any) -> None:
        """
        Never more after the last meeting, nor later; and exactly as many if no minion came to two
        nodes that did not know of each other. (One that did may be denied by a node that has heard
        of the later sign-in alone: that errs to the safe side, and a person accepts it.)
        """
        nodes = [Node(number) for number in range(3)]
        nodes[0].create(uses)
        for node in nodes[1:]:
            node.meet(nodes[0])
        came: set[tuple[str, str]] = set()
        for step in range(data.draw(st.integers(1, 10))):
            node = data.draw(st.sampled_from(nodes))
            if data.draw(st.integers(0, 3)) == 0:
                node.meet(data.draw(st.sampled_from(nodes)))
            else:
                minion_id, pub = data.draw(st.sampled_from(MINIONS))
                node.come(minion_id, pub, step + 1)
                came.add((minion_id, node.name))

        for _ in range(3):
            for node in nodes:
                for other in nodes:
                    node.meet(other)

        for node in nodes:
            self.assertEqual(node.accepted(), nodes[0].accepted())
            self.assertEqual(node.folds["key"].digest(), nodes[0].folds["key"].digest())
            self.assertLessEqual(len(node.accepted()), uses)
            ids = {minion_id for minion_id, _ in came}
            if len(ids) == len(came):
                self.assertEqual(len(node.accepted()), min(uses, len(ids)))
        for node in nodes:
            for minion_id, pub in MINIONS:
                node.come(minion_id, pub, 99)
            self.assertLessEqual(len(node.accepted()), uses)

    def test_both_sides(self) -> None:
        """The last use on both sides of a cut: the later is denied, by whichever node sees it."""
        a, b = Node(0), Node(1)
        a.create(1)
        b.meet(a)
        a.come(*MINIONS[0], 5)
        b.come(*MINIONS[1], 4)
        self.assertEqual((a.accepted(), b.accepted()), (["web0"], ["web1"]))

        a.meet(b)
        b.meet(a)

        self.assertEqual((a.accepted(), b.accepted()), (["web1"], ["web1"]))
        (register,) = b.folds["key"].of_id("web0")
        self.assertEqual(register.word, "denied")
