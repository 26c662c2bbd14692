"""
Packs of git between nodes, slice by slice: who gets what, and what a lying node can send.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from itertools import cycle
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.git import exchange as module
from saltwisted.cluster.git.exchange import PACK, REFS, SLICE, Exchange, checked
from saltwisted.cluster.links.commands import PeerRefused
from saltwisted.domain.git.agreement import NONE
from saltwisted.errors import RemoteError, StoreError
from saltwisted.transports.deferreds import as_deferred
from saltwisted.wire.msgpack import pack_bin, unpack_bin

OLD, NEW = "1" * 40, "2" * 40
REF = "refs/remotes/origin/master"
MOST = 1000


class Link:
    """A link to a node that says what the test wants."""

    node = "liar"

    def __init__(self, answers: Mapping[str, Callable[[Any], Any]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, word: str, body: bytes, timeout: float = 10.0) -> Deferred[bytes]:
        """Answered at once."""
        self.asked.append(word)
        return succeed(self.answers[word](unpack_bin(body)))


class ExchangeTestCase(SynchronousTestCase):
    """One node, whose worker remembers what it was asked."""

    def setUp(self) -> None:
        """Make it."""
        self.folder = self.mktemp()
        os.mkdir(self.folder)
        self.worked: list[dict[str, Any]] = []
        self.problem = ""
        self.contents: list[bytes] = []
        self.handlers: dict[str, Any] = {}
        self.made = {"path": os.path.join(self.folder, "made"), "size": 10}
        self.copy: Any = SimpleNamespace(
            shared="states",
            shown="states",
            folder=self.folder,
            is_pillar=False,
            state={"repo": "r", "refs": {REF: [OLD] * 3}, "version": [1, 1, 1]},
        )
        copies = SimpleNamespace(
            all=lambda: {"states": self.copy},
            learn=lambda shared, state: None,
            took=lambda shared, state: None,
        )
        peers: Any = SimpleNamespace(answer=self.handlers.__setitem__)
        updates: Any = SimpleNamespace(copies=copies)
        self.exchange = Exchange(
            peers,
            lambda node, is_pillar: node != "poor" or not is_pillar,
            self.work,
            maybeDeferred,
            lambda: updates,
            lambda: 0.0,
            lambda: MOST,
        )

    def work(self, request: Mapping[str, Any], seconds: float) -> Deferred[Any]:
        """What a worker does."""
        self.worked.append(dict(request))
        if request["do"] == "pack":
            with open(self.made["path"], "wb") as file:
                file.write(b"0123456789")
            return succeed(dict(self.made))
        if self.problem:
            return succeed({"error": self.problem})
        if request["pack"]:
            with open(os.path.join(self.folder, request["pack"]), "rb") as file:
                self.contents.append(file.read())
        refs = {ref: [oid] * 3 for ref, oid in request["refs"].items()}
        return succeed({"state": {"repo": "r", "refs": refs, "version": request["version"]}})

    def answer(self, word: str, node: str, **question: Any) -> Deferred[Any]:
        """What this node answers another one."""

        def ask() -> Any:
            found = self.handlers[word](node, pack_bin({"key": "states", **question}))
            return as_deferred(found) if hasattr(found, "__await__") else found

        return maybeDeferred(ask)

    def refused(self, word: str, node: str, **question: Any) -> str:
        """Why it answers nothing."""
        return str(self.failureResultOf(self.answer(word, node, **question), PeerRefused).value)


class BringTests(ExchangeTestCase):
    """What comes from another node."""

    def bring(self, size: Any, slice_of: Callable[[int], bytes], **more: Any) -> Deferred[Any]:
        """Get the new commit from a node that announces this size and sends these slices."""
        self.link = Link(
            {
                REFS: lambda question: pack_bin({"refs": {REF: NEW}}),
                PACK: lambda question: pack_bin({"token": "t", "size": size, **more}),
                SLICE: lambda question: slice_of(question["at"]),
            }
        )
        link: Any = self.link
        return Deferred.fromCoroutine(self.exchange.bring(self.copy, link))

    def incoming(self) -> list[str]:
        """What is left of what came."""
        return [name for name in os.listdir(self.folder) if name.startswith("incoming")]

    def test_whole(self) -> None:
        """A pack in slices is put together in their order, in a file that nobody else reads."""
        seen: list[int] = []

        def slice_of(at: int) -> bytes:
            seen.append(at)
            (name,) = self.incoming()
            mode = os.stat(os.path.join(self.folder, name)).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o600)
            return b"0123456789"[at : at + 4]

        self.addCleanup(os.umask, os.umask(0))
        found = self.successResultOf(self.bring(10, slice_of))

        self.assertEqual(found["refs"][REF][0], NEW)
        self.assertEqual((seen, self.contents), ([0, 4, 8], [b"0123456789"]))

    def test_T_GIT_5_more_than_announced(self) -> None:
        """
        T-GIT-5: a node that sends more than it has announced is hung up on at the slice that is too
        much; no worker sees the pack, and nothing of it stays.
        """
        for pieces in ([b"x" * 11], [b"x" * 10 + b"y"], [b"x" * 9, b"xy"], [b"x" * MOST * 10]):
            # It is asked once more for all of it
            said = cycle(pieces)
            bringing = self.bring(10, lambda at, said=said: next(said))
            failure = self.failureResultOf(bringing, RemoteError)
            self.assertIn("incomplete", str(failure.value))
            self.assertEqual((self.worked, self.incoming()), ([], []))

    def test_T_GIT_5_announced(self) -> None:
        """T-GIT-5: a size over the limit, or none, is refused before a byte is asked for."""
        for size in (MOST + 1, 1 << 62, -1, None, "10", 10.0, [10]):
            failure = self.failureResultOf(self.bring(size, lambda at: b"x"), RemoteError)
            self.assertIn("too large", str(failure.value))
            self.assertEqual((self.worked, self.incoming()), ([], []))
            self.assertNotIn(SLICE, self.link.asked)

    def test_too_short(self) -> None:
        """A node that has nothing more to send before the end is not asked for ever."""
        failure = self.failureResultOf(self.bring(10, lambda at: b"x" * 5 if not at else b""))
        self.assertIn("incomplete", str(failure.value))
        self.assertEqual((self.worked, self.incoming()), ([], []))

    def test_no_answer(self) -> None:
        """What is no map is no answer, to any question; a worker that fails is an error."""
        for value in (None, [], 5, b"x", [["token", "t"], ["size", 1]]):
            bring = self.bring(10, lambda at: b"x" * 10)
            self.successResultOf(bring)
            for word in (REFS, PACK):
                answers = {**self.link.answers, word: lambda question, value=value: pack_bin(value)}
                link: Any = Link(answers)
                bring = Deferred.fromCoroutine(self.exchange.bring(self.copy, link))
                failure = self.failureResultOf(bring, RemoteError)
                self.assertIn("invalid", str(failure.value))

        self.problem = "no space left"
        failure = self.failureResultOf(self.bring(10, lambda at: b"x" * 10), RemoteError)
        self.assertIn("no space left", str(failure.value))

    def test_full_disk(self) -> None:
        """A slice that the disk takes in part is no slice, and nothing of it stays."""
        self.patch(os, "pwrite", lambda fd, data, at: len(data) - 1)
        failure = self.failureResultOf(self.bring(10, lambda at: b"x" * 10), StoreError)
        self.assertIn("cut short", str(failure.value))
        self.assertEqual((self.worked, self.incoming()), ([], []))

    def test_answers(self) -> None:
        """An answer that is none, or that names what is no object, has nothing fetched."""
        for said in (
            None, [], {}, {"refs": None}, {"refs": {REF: "--upload-pack=x"}}, {"refs": {REF: "1"}},
            {"refs": {"HEAD": NEW}}, {"refs": {"--refs/tags/a": NEW}}, {"refs": {f"{REF} x": NEW}},
            {"refs": {f"{REF}\n": NEW}}, {"refs": {REF: NEW.upper() + "G"}},
            {"refs": {"refs/tags/" + "x" * 4100: NEW}}, {"refs": {1: NEW}}, {"refs": {REF: 1}},
        ):  # fmt: skip
            self.assertRaises(RemoteError, checked, said)
            link: Any = Link({REFS: lambda question, said=said: pack_bin(said)})
            bring = Deferred.fromCoroutine(self.exchange.bring(self.copy, link))
            self.failureResultOf(bring, RemoteError)
        self.assertEqual(self.worked, [])
        self.patch(module, "MOST_REFS", 2)
        many = {f"refs/tags/{number}": NEW for number in range(3)}
        self.assertRaises(RemoteError, checked, {"refs": many})


class GiveTests(ExchangeTestCase):
    """What other nodes get."""

    def pack(self, node: str) -> str:
        """Its token."""
        answer = self.successResultOf(self.answer(PACK, node, wants=[OLD], haves=[]))
        return str(unpack_bin(answer)["token"])

    def test_T_GIT_10_token(self) -> None:
        """T-GIT-10: a pack is for the member that asked for it: another's token opens nothing."""
        token = self.pack("b")

        self.assertEqual(
            self.successResultOf(self.answer(SLICE, "b", token=token, at=4)), b"456789"
        )
        for node in ("c", "poor", ""):
            self.assertIn("no longer", self.refused(SLICE, node, token=token, at=0))
        for other in ("", token[:-1], token.upper() + "x", None, "made"):
            self.assertIn("no longer", self.refused(SLICE, "b", token=other, at=0))
        for at in (None, "0", 0.0, [0]):
            self.assertIn("no longer", self.refused(SLICE, "b", token=token, at=at))

    def test_tokens_are_bounded(self) -> None:
        """Who asks for packs without end makes older tokens worth nothing."""
        self.patch(module, "MOST_TOKENS", 3)
        tokens = [self.pack("b") for _ in range(4)]
        self.assertEqual(len(set(tokens)), 4)
        self.assertIn("no longer", self.refused(SLICE, "b", token=tokens[0], at=0))
        self.assertEqual(self.successResultOf(self.answer(SLICE, "b", token=tokens[1], at=9)), b"9")

    def test_T_GIT_10_pillars(self) -> None:
        """T-GIT-10: who may not have pillars gets neither their refs nor a pack of them."""
        self.copy = SimpleNamespace(**{**vars(self.copy), "is_pillar": True})
        self.exchange.keep("states", (1, 1, 1), self.copy.state)

        for word, more in ((REFS, {"version": [1, 1, 1]}), (PACK, {"wants": [OLD], "haves": []})):
            self.assertIn("may not have pillars", self.refused(word, "poor", **more))
        self.assertEqual(self.worked, [])
        self.pack("b")
        told = self.successResultOf(self.answer(REFS, "b", version=[1, 1, 1]))
        self.assertEqual(unpack_bin(told)["refs"], {REF: OLD})

    def test_questions(self) -> None:
        """A question that is none, or is about what is not here, is refused in words."""
        self.assertIn("not configured", self.refused(REFS, "b", key="other", version=[1, 1, 1]))
        self.assertIn("does not have", self.refused(REFS, "b", version=[1, 1, 1]))
        self.refused(REFS, "b", version="1")
        for word in (REFS, PACK, SLICE):
            handler = self.handlers[word]
            asked = maybeDeferred(
                lambda handler=handler: as_deferred(maybe(handler("b", pack_bin([]))))
            )
            self.assertIn("invalid", str(self.failureResultOf(asked, PeerRefused).value))
        for oids in (None, 1, ["--all"], ["-x" * 20], [None], ["0" * 39], ["A" * 40], ["z" * 40]):
            self.assertIn("invalid", self.refused(PACK, "b", wants=oids, haves=[]))
            self.assertIn("invalid", self.refused(PACK, "b", wants=[], haves=oids))
        self.assertEqual(self.worked, [])

    def test_held(self) -> None:
        """Of a repository only so many versions are remembered, and none that is not one."""
        self.patch(module, "MOST_HELD", 2)
        self.exchange.keep("states", NONE, self.copy.state)
        for number in (1, 2, 3):
            self.exchange.keep("states", (number, 1, 1), self.copy.state)
        self.assertEqual(list(self.exchange.held("states")), [(2, 1, 1), (3, 1, 1)])


def maybe(found: Any) -> Any:
    """What can be awaited."""

    async def same() -> Any:
        return found

    return found if hasattr(found, "__await__") else same()
