"""
A peer that breaks the rules: nothing outside the root changes, and the stream closes with a reason.

The peer is scripted, over real sockets, against a real node with a real tree.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import resource
import threading
import zlib
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import ClientFactory, Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.roots import inbox as rootinbox
from saltwisted.cluster.roots.link import LINGER, TURN, RootLink
from saltwisted.cluster.roots.parcels import SLICE_HEAD
from saltwisted.cluster.roots.work import wants_of
from saltwisted.domain.roots import codec, frames
from saltwisted.domain.roots.entry import DIR, FILE, GONE, LINK, TreeEntry, lanes
from saltwisted.domain.roots.guards import Forbidden
from saltwisted.stores.roots.treefs import TreeFs
from tests.roots.nodes import SHARE, Node, NodesCase, clock, until

MAIN, _ = lanes("evil", b"evilevil")


class Evil(Protocol):
    """Says what it is told to say; keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, bytes]] = []
        self.frames = frames.Frames()
        self.lost = False

    def connectionMade(self) -> None:
        """Introduce ourselves properly."""
        self.say(frames.HELLO, frames.NO_SHARE, codec.pack([1, 0, [[SHARE, [], b""]]]))

    def say(self, kind: int, share: int, body: bytes) -> None:
        """One message."""
        for frame in frames.pack_frames(kind, share, body):
            self.transport.write(frame)  # type: ignore[union-attr]

    def batch(self, *entries: tuple[bytes, TreeEntry], lo: int = 1, **inline: Any) -> bytes:
        """A batch of these, in the order that is given."""
        data = codec.squeeze(
            codec.pack(
                [
                    MAIN.master,
                    MAIN.incarnation,
                    lo,
                    lo + len(entries) - 1,
                    (1 << 40) + inline.get("stamp", 0),
                    [],
                    codec.pack_entries(entries),
                    [],
                    "",
                    [],
                ]
            )
        )
        return codec.pack([data, inline.get("inline", [])])

    def dataReceived(self, data: bytes) -> None:
        """Remember."""
        self.heard += list(self.frames.feed(data))

    def connectionLost(self, reason: Any = None) -> None:
        """The node had enough."""
        self.lost = True

    @property
    def reason(self) -> str:
        """What the node said at the end."""
        for kind, _, body in self.heard:
            if kind == frames.ERR:
                return str(codec.unpack(body)[0])
        return ""


def file(data: bytes, mode: int = 0o644) -> TreeEntry:
    """A file with this content."""
    return TreeEntry(FILE, mode, len(data), 1, hashlib.sha256(data).digest())


def inline(data: bytes) -> list[Any]:
    """The content beside its batch."""
    return [hashlib.sha256(data).digest(), b"", codec.squeeze(data)]


def _content(path: str) -> bytes:
    """What is in a file."""
    with open(path, "rb") as stream:
        return stream.read()


class Swapper(threading.Thread):
    """A local user who has two names change places, as fast as he can."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(daemon=True)
        self._names = (os.fsencode(one), os.fsencode(other))
        self._over = threading.Event()
        self.count = 0

    def run(self) -> None:
        """Until it is over; a directory stands there in the end."""
        exchange = ctypes.CDLL(None).renameat2
        one, other = self._names
        while not (self._over.is_set() and self.count % 2 == 0):
            if exchange(-100, one, -100, other, 2) == 0:
                self.count += 1
            elif self._over.is_set():
                return
            # Both are wanted: a directory half of the time
            self._over.wait(0.0005)

    def end(self) -> None:
        """It is over."""
        self._over.set()
        self.join()


class HostilePeer(NodesCase):
    """A node, and a peer that has the run of one stream to it."""

    async def victim(self, **options: Any) -> Node:
        """A node with one file, and nothing else to do."""
        (node,) = await self.make("v", **options)
        node.write("mine", "mine\n")
        await self.start()
        await until(lambda: node.share.ready and node.share.is_settled)
        self.outside = f"{self.folder}/v/outside"
        os.makedirs(self.outside)
        return node

    async def attack(self, node: Node) -> Evil:
        """A stream to it."""
        evil = Evil()
        listening = Factory()
        listening.buildProtocol = lambda _: node.sync.streams.stream("evil", False)  # type: ignore
        port = clock.listenTCP(0, listening, interface="127.0.0.1")
        node.ports.append(port)
        dialling = ClientFactory()
        dialling.noisy = False
        dialling.buildProtocol = lambda _: evil  # type: ignore
        clock.connectTCP("127.0.0.1", port.getHost().port, dialling)
        await until(lambda: "evil" in node.sync.streams.links)
        return evil

    async def refused(
        self, node: Node, say: Callable[[Evil], None], reason: str, hears: bool = True
    ) -> None:
        """
        The stream closes with this reason, the peer is flagged, and nothing has changed.

        @param hears: who goes on sending may be reset before it has read the reason.
        """
        before = (node.digest, sorted(os.listdir(node.tree)), os.listdir(f"{self.folder}/v"))
        evil = await self.attack(node)
        say(evil)
        await until(lambda: evil.lost, what=reason)
        self.assertIn(reason if hears or evil.reason else "", evil.reason)
        self.assertIn(reason, node.sync.streams.flags["evil"])
        now = (node.digest, sorted(os.listdir(node.tree)), os.listdir(f"{self.folder}/v"))
        self.assertEqual(now, before)
        self.assertEqual(node.read("mine"), b"mine\n")
        self.assertEqual(os.listdir(self.outside), [])
        await until(lambda: "evil" not in node.sync.streams.links)


class HostilePeerTests(HostilePeer):
    """T-ROOT-1 to T-ROOT-6."""

    def test_T_ROOT_1_paths(self) -> Deferred[None]:
        """A path that leads outside refuses the whole batch; odd names that Linux has are taken."""

        async def story() -> None:
            node = await self.victim()
            good = (b"good", file(b"x"))
            for path, reason in (
                (b"../x", "path-escape"),
                (b"/x", "path-escape"),
                (b"a/../../x", "path-escape"),
                (b"a//x", "path-escape"),
                (b"nul\0", "path-nul"),
                (b"n" * 256, "path-name-length"),
                (b"/".join([b"d"] * 65), "path-depth"),
                (b".saltwisted-root", "path-reserved"),
                (b".saltwisted-trash/x", "path-reserved"),
            ):
                pairs = sorted([good, (path, file(b"x"))])
                await self.refused(
                    node,
                    lambda evil, pairs=pairs: evil.say(  # type: ignore[misc]
                        frames.BATCH, 0, evil.batch(*pairs, inline=[inline(b"x")])
                    ),
                    reason,
                )
            evil = await self.attack(node)
            odd = sorted((name, file(b"x")) for name in (b"C:\\x", b"TWIN", b"twin", b"\xff"))
            evil.say(frames.BATCH, 0, evil.batch(*odd, inline=[inline(b"x")]))
            await until(lambda: node.read("twin") == b"x" and node.read("TWIN") == b"x")

        return self.run_coroutine(story)

    def test_T_ROOT_2_links(self) -> Deferred[None]:
        """A link out of the root is refused; one in the way is never followed."""

        async def story() -> None:
            node = await self.victim()
            for target in (b"/etc/passwd", b"../outside", b"d/../../outside"):
                await self.refused(
                    node,
                    lambda evil, target=target: evil.say(  # type: ignore[misc]
                        frames.BATCH, 0, evil.batch((b"link", TreeEntry(LINK, 0, 0, 1, target)))
                    ),
                    "link-outside",
                )
            evil = await self.attack(node)
            first = [(b"d", TreeEntry(DIR, 0o755)), (b"d/x", file(b"one"))]
            evil.say(frames.BATCH, 0, evil.batch(*first, inline=[inline(b"one")]))
            await until(lambda: node.read("d/x") == b"one")
            await until(lambda: node.share.is_settled)
            # A local user swaps the directory for a link while the peer writes into it
            os.rename(node.path("d"), node.path("d.was"))
            os.symlink("../outside", node.path("d"))
            second = [(b"d/x", file(b"two")), (b"d/y", file(b"two"))]
            evil.say(frames.BATCH, 0, evil.batch(*second, lo=3, inline=[inline(b"two")]))
            await until(lambda: node.share.store.index.visible(b"d/y"))  # type: ignore
            await until(lambda: node.share.is_settled)
            self.assertEqual(os.listdir(self.outside), [])

        return self.run_coroutine(story)

    def test_T_ROOT_2_swapped_while_writing(self) -> Deferred[None]:
        """No call below a root goes through a link, whichever way it is resolved."""

        async def story() -> None:
            node = await self.victim()
            os.makedirs(node.path("real/deep"))
            os.symlink("../outside", node.path("swapped"))
            os.symlink("real", node.path("within"))
            for has_openat2 in (True, False):
                fs = TreeFs(node.tree)
                fs._has_openat2 = has_openat2
                for path in (b"swapped/x", b"within/x", b"within/deep/x", b"../outside/x"):
                    self.assertRaises(OSError, fs.create, path)
                    self.assertRaises(OSError, fs.mkdir, path, 0o755)
                    self.assertRaises(OSError, fs.unlink, path)
                self.assertRaises(OSError, fs.open, b"swapped")
                os.close(fs.create(b"real/deep/%d" % has_openat2))
                fs.close()
            self.assertEqual(os.listdir(self.outside), [])

        return self.run_coroutine(story)

    def test_T_ROOT_2_race(self) -> Deferred[None]:
        """
        T-ROOT-2: a local user who swaps a directory for a link thousands of times a second gets
        nothing written, changed or removed behind it, and nothing read into the index: also where
        the node is root.
        """

        async def story() -> None:
            node = await self.victim()
            secrets = {"secret": b"for root alone\n", "x": b"not yours\n"}
            for name, data in secrets.items():
                fd = os.open(f"{self.outside}/{name}", os.O_WRONLY | os.O_CREAT, 0o600)
                os.write(fd, data)
                os.close(fd)
            evil = await self.attack(node)
            first = [(b"d", TreeEntry(DIR, 0o755)), (b"d/x", file(b"0"))]
            evil.say(frames.BATCH, 0, evil.batch(*first, inline=[inline(b"0")]))
            await until(lambda: node.read("d/x") == b"0")
            link = f"{self.folder}/v/link"
            os.symlink(self.outside, link)
            swapper = Swapper(node.path("d"), link)
            swapper.start()
            self.addCleanup(swapper.end)
            lo = 3
            for number in range(1, 40):
                data = b"%d" % number
                entries = [(b"d/x", file(data)), (b"d/y%d" % number, file(data, 0o666))]
                if number > 3:
                    entries.insert(0, (b"d/new%d" % number, TreeEntry(DIR, 0o777)))
                    entries.append((b"d/y%d" % (number - 3), GONE))
                entries = sorted([*entries, (b"m%d" % number, file(data))])
                evil.say(frames.BATCH, 0, evil.batch(*entries, lo=lo, inline=[inline(data)]))
                lo += len(entries)
                mark = b"m%d" % number
                await until(lambda mark=mark: node.share.store.index.visible(mark))  # type: ignore
            swapper.end()
            await until(lambda: node.share.is_settled)

            # Thousands on a machine that does nothing else; what counts is that it was under way
            self.assertGreater(swapper.count, 50)
            left = {name: _content(f"{self.outside}/{name}") for name in os.listdir(self.outside)}
            self.assertEqual(left, secrets)
            modes = {os.stat(f"{self.outside}/{name}").st_mode & 0o777 for name in secrets}
            self.assertEqual(modes, {0o600})
            known = {v.entry.content for row in node.share.store.index.rows.values() for v in row}  # type: ignore
            for data in secrets.values():
                self.assertNotIn(hashlib.sha256(data).digest(), known)

        return self.run_coroutine(story)

    def test_T_ROOT_3_modes(self) -> Deferred[None]:
        """Set-id and sticky bits never arrive; the owner is the service's user."""

        async def story() -> None:
            node = await self.victim()
            evil = await self.attack(node)
            pairs = [(b"d", TreeEntry(DIR, 0o7777)), (b"d/x", file(b"x", 0o6755))]
            evil.say(frames.BATCH, 0, evil.batch(*pairs, inline=[inline(b"x")]))
            await until(lambda: node.read("d/x"))
            info = os.stat(node.path("d/x"))
            self.assertEqual(info.st_mode & 0o7777, 0o755)
            self.assertEqual(info.st_uid, os.geteuid())
            self.assertEqual(os.stat(node.path("d")).st_mode & 0o7777, 0o777)

        return self.run_coroutine(story)

    def test_T_ROOT_4_kinds(self) -> Deferred[None]:
        """Devices, sockets and pipes cannot be said; a hard link to outside is never written to."""

        async def story() -> None:
            node = await self.victim()
            for kind in "bcps":
                pair = (b"x", TreeEntry(kind, 0o644))
                await self.refused(
                    node,
                    lambda evil, pair=pair: evil.say(  # type: ignore[misc]
                        frames.BATCH, 0, evil.batch(pair)
                    ),
                    "kind",
                )
            node.write("../secret", "secret\n")
            os.link(node.path("../secret"), node.path("linked"))
            await until(lambda: node.share.generation.get(b"linked"))  # type: ignore
            evil = await self.attack(node)
            evil.say(
                frames.BATCH, 0, evil.batch((b"linked", file(b"evil")), inline=[inline(b"evil")])
            )
            await until(lambda: node.share.store.conflicts.open or node.read("linked") == b"evil")  # type: ignore
            await until(lambda: node.share.is_settled)
            self.assertEqual(node.read("../secret"), b"secret\n")

        return self.run_coroutine(story)

    def test_T_ROOT_5_bombs(self) -> Deferred[None]:
        """Bombs, ten million entries, a terabyte, endless wants: refused before memory is taken."""

        async def story() -> None:
            node = await self.victim()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            bomb = b"z" + zlib.compress(b"\0" * (codec.MAX_BODY + 1), 9)
            huge = codec.squeeze(
                codec.pack(
                    [
                        "evil",
                        b"evilevil",
                        1,
                        10**7,
                        1,
                        [],
                        ["-" * 10**7, [], [], b"", [], [], [], b"", []],
                        [],
                        "",
                        [],
                    ]
                )
            )
            terabyte = TreeEntry(FILE, 0o644, 1 << 40, 1, b"h" * 32)
            many = codec.pack([[b"h" * 32, b"", 0]] * 60_000)
            for kind, body, reason in (
                (frames.BATCH, codec.pack([bomb, []]), "too-large"),
                (frames.STATE, bomb, "too-large"),
                (frames.DATA, b"z" + zlib.compress(b"\0" * 5_000_000), "too-large"),
                (frames.BATCH, codec.pack([huge, []]), "too-many-entries"),
                (frames.WANT, many, "too-many-wanted"),
                (frames.ACK, b"\xc1", "encoding"),
                (frames.BATCH, codec.pack([b"-" + b"\x91" * 5000, []]), ""),
            ):
                await self.refused(
                    node,
                    lambda evil, kind=kind, body=body: evil.say(kind, 0, body),  # type: ignore
                    reason,
                )
            await self.refused(
                node,
                lambda evil: evil.say(frames.BATCH, 0, evil.batch((b"x", terabyte))),
                "file-size",
            )
            raw = frames.HEAD.pack(1 << 31, frames.BATCH, 0, 0)
            await self.refused(
                node,
                lambda evil: evil.transport.write(raw),  # type: ignore[union-attr]
                "frame-length",
            )
            endless = b"x" * 2_000_000
            await self.refused(
                node, lambda evil: evil.say(frames.PING, 9, endless), "message-length", hears=False
            )
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            self.assertLess(grown, 300 * 1024, "KiB")

        return self.run_coroutine(story)

    def test_T_ROOT_6_hashes(self) -> Deferred[None]:
        """A content that is not what its digest says is never published; the old tree is served."""

        async def story() -> None:
            node = await self.victim()
            wrong = [hashlib.sha256(b"right").digest(), b"", codec.squeeze(b"wrong")]
            await self.refused(
                node,
                lambda evil: evil.say(
                    frames.BATCH, 0, evil.batch((b"mine", file(b"right")), inline=[wrong])
                ),
                "object-digest",
            )
            large = os.urandom(200_000)

            def offer(evil: Evil) -> None:
                evil.say(frames.BATCH, 0, evil.batch((b"mine", file(large))))

                def answer(data: bytes) -> None:
                    Evil.dataReceived(evil, data)
                    if any(kind == frames.WANT for kind, _, _ in evil.heard):
                        evil.dataReceived = lambda data: Evil.dataReceived(evil, data)  # type: ignore
                        digest = hashlib.sha256(large).digest()
                        bad = large[:100_000] + b"!" + large[100_001:]
                        head = SLICE_HEAD.pack(b"s", digest, 0, len(bad))
                        evil.say(frames.DATA, 0, head + bad)

                evil.dataReceived = answer  # type: ignore[method-assign]

            await self.refused(node, offer, "object-digest")

        return self.run_coroutine(story)

    def test_T_REPLAY_5(self) -> Deferred[None]:
        """
        T-REPLAY-5: what a tree was before, said again on the same stream or another, in any order,
        brings neither an old content back nor what was removed.
        """

        async def story() -> None:
            node = await self.victim()
            evil = await self.attack(node)
            said: list[bytes] = []

            async def say(path: bytes, data: bytes | None) -> None:
                """One generation more, until it is there."""
                lo, name = len(said) + 1, path.decode()
                # The older, the later its clock: no order of time could tell them apart
                more: dict[str, Any] = {"lo": lo, "stamp": 1000 - lo}
                if data is None:
                    said.append(evil.batch((path, GONE), **more))
                else:
                    said.append(evil.batch((path, file(data)), inline=[inline(data)], **more))
                evil.say(frames.BATCH, 0, said[-1])
                full = os.path.join(node.tree, name)
                there = (lambda: not os.path.exists(full)) if data is None else None
                await until(there or (lambda: os.path.exists(full) and node.read(name) == data))

            await say(b"doc", b"old\n")
            await say(b"doc", b"new\n")
            await say(b"doc", b"newest\n")
            for old in (*said, *reversed(said)):
                evil.say(frames.BATCH, 0, old)
            await say(b"mark", b"1")
            self.assertEqual(node.read("doc"), b"newest\n")

            again = await self.attack_anew(node, evil)
            for old in (*reversed(said), *said):
                again.say(frames.BATCH, 0, old)
            evil = again
            await say(b"mark", b"2")
            self.assertEqual(node.read("doc"), b"newest\n")

            await say(b"doc", None)
            before = node.digest
            for old in said[:-1]:
                evil.say(frames.BATCH, 0, old)
            evil.say(frames.BATCH, 0, said[-1])
            await say(b"mark", b"3")
            self.assertNotIn("doc", os.listdir(node.tree))
            self.assertNotEqual(node.digest, before, "the mark is another generation")
            self.assertEqual(node.read("mine"), b"mine\n")

        return self.run_coroutine(story)

    async def attack_anew(self, node: Node, evil: Evil) -> Evil:
        """Another stream to it, when the first is closed."""
        evil.transport.loseConnection()  # type: ignore[union-attr]
        await until(lambda: "evil" not in node.sync.streams.links)
        return await self.attack(node)

    def test_mass_deletion_by_a_peer(self) -> Deferred[None]:
        """The receiver's own brake: deletions without an approval change nothing."""

        async def story() -> None:
            (node,) = await self.make("v")
            for number in range(200):
                node.write(f"f{number:03}", "x")
            await self.start()
            await until(lambda: node.share.ready and node.share.is_settled)
            evil = await self.attack(node)
            gone = sorted((b"f%03d" % number, GONE) for number in range(200))
            evil.say(frames.BATCH, 0, evil.batch(*gone))
            await until(lambda: node.share.inbox.held_remote)
            self.assertEqual(len(os.listdir(node.tree)), 201)
            self.assertIn("409", node.share.inbox.held_remote["evil"])

        return self.run_coroutine(story)

    def test_foreign_dots(self) -> Deferred[None]:
        """A batch that depends on what nobody has waits, and takes bounded room."""

        tried: list[Any] = []

        def counted(*finding: Any) -> Any:
            tried.append(finding)
            return wants_of(*finding)

        self.patch(rootinbox, "wants_of", counted)

        async def story() -> None:
            node = await self.victim()
            evil = await self.attack(node)
            for lo in range(10, 3000):
                evil.say(frames.BATCH, 0, evil.batch((b"x", GONE), lo=lo))
            await until(lambda: len(node.share.inbox) >= 2000)
            self.assertLessEqual(len(node.share.inbox), 2000)
            self.assertEqual(node.read("mine"), b"mine\n")
            # What waits is not looked at again for each that comes
            self.assertLessEqual(len(tried), 20_000)

        return self.run_coroutine(story)

    def test_mistake(self) -> Deferred[None]:
        """If a batch could not be looked at, the next is, without waiting for anything else."""
        tried: list[int] = []

        def mistaken(db: Any, batch: Any, coming: Any) -> Any:
            tried.append(batch.lo)
            if len(tried) == 1:
                raise ZeroDivisionError("a mistake")
            return wants_of(db, batch, coming)

        self.patch(rootinbox, "wants_of", mistaken)

        async def story() -> None:
            node = await self.victim()
            evil = await self.attack(node)
            self.patch(node.share.catchup, "consider", lambda: None)
            for lo, name in enumerate((b"one", b"two"), 1):
                more = {"lo": lo, "inline": [inline(name)]}
                evil.say(frames.BATCH, 0, evil.batch((name, file(name)), **more))
            await until(lambda: tried == [1, 2])
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

        return self.run_coroutine(story)


class Busy:
    """Owner of a stream, to whom each message is a millisecond's work."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.taken: list[int] = []
        self.flags: list[str] = []

    def hello(self, node: str) -> list[Any]:
        """What is said first."""
        return []

    def pool(self, function: Any, *args: Any) -> Any:
        """Nothing of this needs a thread."""
        raise NotImplementedError

    def link_down(self, link: RootLink) -> None:
        """It is over."""

    def flagged(self, link: RootLink, error: Forbidden) -> None:
        """Something was against the rules."""
        self.flags.append(error.reason)

    def serves(self, link: RootLink, share: str) -> bool:
        """Everything is taken."""
        return True

    def received(self, link: RootLink, kind: int, share: str, body: bytes) -> None:
        """A message."""
        self.taken.append(body[0])
        self.clock.rightNow += 0.001


class TurnTests(SynchronousTestCase):
    """One piece of a stream can hold a thousand messages."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.owner = Busy(self.clock)
        self.link = RootLink(self.owner, "peer", True, self.clock)
        self.wire = StringTransport()
        self.wire.setTcpNoDelay = lambda on: None  # type: ignore[method-assign]
        self.link.makeConnection(self.wire)
        self.link.peer.greeted = True
        self.link.peer.shares.append("share")

    def say(self, *numbers: int) -> None:
        """Messages in one piece."""
        pieces = [frames.pack_head(frames.BATCH, 0, 1) + bytes([number]) for number in numbers]
        self.link.dataReceived(b"".join(pieces))

    def test_closed_with_a_peer_that_stands_still(self) -> None:
        """A stream that is closed is gone in seconds, though the peer takes no goodbye."""
        self.link.close("out of patience")

        self.clock.advance(LINGER)

        self.assertTrue(self.wire.disconnected)
        self.link.connectionLost()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_in_turns(self) -> None:
        """They are taken some at a time and in order; meanwhile nothing more is read."""
        self.say(*range(10))
        first = len(self.owner.taken)
        self.assertLessEqual(first, TURN / 0.001 + 1)
        self.assertEqual(self.wire.producerState, "paused")
        self.say(10)
        self.assertEqual(len(self.owner.taken), first)
        for _ in range(10):
            self.clock.advance(0)

        self.assertEqual(self.owner.taken, list(range(11)))
        self.assertEqual(self.wire.producerState, "producing")

    def test_closed_while_it_waits(self) -> None:
        """What is against the rules closes the stream in any turn; then it is read to its end."""
        self.say(*range(10))
        self.assertEqual(self.wire.producerState, "paused")
        self.link.dataReceived(b"\xff" * 64)
        for _ in range(10):
            self.clock.advance(0)

        self.assertEqual(self.owner.taken, list(range(10)))
        self.assertEqual(self.owner.flags, ["frame-type"])
        self.assertTrue(self.wire.disconnecting)
        self.assertEqual(self.wire.producerState, "producing")

    def test_lost_in_between(self) -> None:
        """Whatever a stream still held when it was lost is not taken."""
        self.say(*range(10))
        first = len(self.owner.taken)
        self.link.connectionLost()
        self.clock.advance(1)
        self.assertEqual(len(self.owner.taken), first)
        self.assertEqual(self.clock.getDelayedCalls(), [])
