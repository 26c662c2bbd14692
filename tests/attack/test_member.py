"""
A member of the cluster that means ill: what it can do, it can do (C{docs/security.md} says what);
but it takes no other member down, and nothing that it says leaves a trace where it must not.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.links.arrivals import MAX_EXPECTED
from saltwisted.cluster.links.commands import MAX_WAITING, Tell
from saltwisted.errors import SaltwistedError
from saltwisted.wire.msgpack import pack_bin
from tests.cluster.memory import Nodes
from tests.cluster.rig import run, until
from tests.cluster.test_link import Pair

NOISE: list[bytes] = [
    b"",
    b"\0",
    b"\xc1",
    b"\xff" * 100,
    os.urandom(1000),
    *(
        pack_bin(value)
        for value in (
            None,
            True,
            -1,
            1 << 63,
            1.5,
            float("inf"),
            "x",
            b"x",
            [],
            [None],
            [[]],
            {},
            {"x": None},
            {1: 2},
            [None] * 9,
            ["a", "0" * 16, 1, [], []],
            [["a", "0" * 16, 1, [[0, "k", b""]]]],
            ["../x", "/etc/passwd", ["../../x"], {"jid": "../../x"}],
            {"jid": "../../../etc/x", "fun": [[]], "tgt": {}, "minions": "x"},
            [{"jid": None}, ["m"] * 10],
        )
    ),
    *(pack_bin([value] * length) for length in range(1, 7) for value in ("x", 1, b"x", [], {})),
]


class LinkTests(Pair):
    """What a link takes from its peer."""

    def test_words_that_wait(self) -> Deferred[Any]:
        """
        A word whose body never comes holds up those of its name. How many bytes wait behind it is
        bounded; then the link closes, and the memory is given back.
        """

        async def play() -> None:
            ours, theirs = await self.linked()
            self.a.peers.answer("x", lambda node, body: None)
            theirs.wire.callRemote(Tell, word=b"x", body=b"", bulk=99)
            piece = bytes(32 * 1024)
            for _ in range(MAX_WAITING // len(piece) + 100):
                if theirs.closed:
                    break
                theirs.wire.callRemote(Tell, word=b"x", body=piece, bulk=0)
                while theirs.paused and not theirs.closed:
                    await until(lambda: not theirs.paused or theirs.closed, "it reads", 30)
            await until(lambda: ours.closed, "the link to close", 30)

            self.assertIn("without a body", ours.closed)
            self.assertLessEqual(ours.arrivals.held_bytes, MAX_WAITING + 64 * 1024)

        return run(play())

    def test_bodies_that_wait(self) -> Deferred[Any]:
        """The same with bodies that came, behind one that does not."""

        async def play() -> None:
            link, _ = await self.linked()
            for number in range(1, 10):
                link.told("x", b"", number)
            for number in range(2, 10):
                link.arrivals.body(number, bytes(MAX_WAITING // 6))
                if link.closed:
                    break
            self.assertIn("without a body", link.closed)
            self.assertLess(number, 9)

        return run(play())

    def test_given_back(self) -> Deferred[Any]:
        """What waited and was delivered counts no more: a busy link is not a hostile one."""

        async def play() -> None:
            link, _ = await self.linked()
            heard: list[int] = []
            self.a.peers.answer("x", lambda node, body: heard.append(len(body)))
            for round_ in range(20):
                link.told("x", b"", 2 * round_ + 1)
                link.told("x", b"y", 0)
                link.told("x", b"", 2 * round_ + 2)
                link.arrivals.body(2 * round_ + 2, bytes(MAX_WAITING // 5))
                link.arrivals.body(2 * round_ + 1, bytes(10))
                # Large bodies are looked at in turns; meanwhile no more is read
                count = 3 * (round_ + 1)
                await until(lambda: link.closed or len(heard) == count, "the words")  # noqa: B023
            self.assertEqual(link.closed, "")
            self.assertEqual(link.arrivals.held_bytes, 0)
            self.assertEqual(heard, [10, 1, MAX_WAITING // 5] * 20)
            self.assertLess(len(link.arrivals.expected), MAX_EXPECTED)

        return run(play())


class WordTests(SynchronousTestCase):
    """Every word of the cluster, with bodies that no node of ours sends."""

    def test_noise(self) -> None:
        """Nothing but our own errors come of it, nothing is stored, and jobs run as before."""
        nodes = Nodes(self, "ab")
        node = nodes.one["a"]
        wrong: list[str] = []
        for word, handler in sorted(node.peers._answers.items()):
            for body in NOISE:
                try:
                    got = handler("b", body)
                    if hasattr(got, "__await__"):
                        d = got if isinstance(got, Deferred) else Deferred.fromCoroutine(got)
                        d.addErrback(lambda failure: failure.trap(SaltwistedError))
                except SaltwistedError:
                    continue
                except Exception as error:
                    wrong.append(f"{word} {body[:40]!r}: {type(error).__name__}: {error}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

        # What the log's own words cannot be ends the link; an honest node dials again
        self.assertIsNone(node.peers.link("b"))
        node.peers.join(nodes.one["b"].peers)
        minion = nodes.accept("web1", "a")
        nodes.turn(6)
        published = nodes.publish("a", tgt="web1")
        self.assertEqual(published["minions"], [minion.id])
        nodes.settle()
        self.assertEqual(len(nodes.one["b"].published_jobs()), 1)
