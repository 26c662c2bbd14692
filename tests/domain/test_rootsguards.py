"""
Rules of the roots: what an entry, a link and a frame of a stream may be, each rule alone.
"""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.roots import frames
from saltwisted.domain.roots.entry import DIR, FILE, LINK, Batch, ReplicaId, TreeEntry
from saltwisted.domain.roots.frames import BATCH, DATA, HEAD, KINDS, PING, Frames, pack_frames
from saltwisted.domain.roots.guards import (
    MAX_DEPTH,
    MAX_NAME,
    MAX_PATH,
    Forbidden,
    Limits,
    check_batch,
    check_entry,
    check_link,
    check_path,
    is_path,
)

PLAIN = TreeEntry(FILE, 0o644, 3, 5, b"d" * 32)


class GuardTests(SynchronousTestCase):
    """Names, links and entries."""

    def test_T_ROOT_1_paths(self) -> None:
        """T-ROOT-1: a path is made of plain names, is not too long or too deep, and not ours."""
        longest = b"/".join([b"x" * 63] * 64)
        for path in (
            *(b"a", b"a/b", b"..a", b"a..", b".a", b"a\\b", b"\xff", b".saltwisted", longest),
            *(b"x" * MAX_NAME, b"/".join([b"x"] * MAX_DEPTH)),
        ):
            check_path(path)
            self.assertTrue(is_path(path))
        self.assertEqual(len(longest), MAX_PATH - 1)
        for path, reason in (
            (b"", "path-length"), (b"x" * (MAX_PATH + 1), "path-length"),
            (longest + b"xx", "path-length"),
            (b"a\0b", "path-nul"), (b"\0", "path-nul"),
            (b"..", "path-escape"), (b"a/..", "path-escape"), (b"a/../b", "path-escape"),
            (b".", "path-escape"), (b"a/./b", "path-escape"), (b"/a", "path-escape"),
            (b"a//b", "path-escape"), (b"a/", "path-escape"), (b"x" * 70 + b"/..", "path-escape"),
            (b"x" * (MAX_NAME + 1), "path-name-length"),
            (b"a/" + b"x" * (MAX_NAME + 1), "path-name-length"),
            (b"/".join([b"x"] * (MAX_DEPTH + 1)), "path-depth"),
            (b".saltwisted-root", "path-reserved"), (b"a/.saltwisted-trash", "path-reserved"),
            (b".saltwisted-tmp-1/a", "path-reserved"),
            (b"x" * 70 + b"/.saltwisted-root", "path-reserved"),
        ):  # fmt: skip
            error = self.assertRaises(Forbidden, check_path, path)
            self.assertEqual((error.reason, error.path), (reason, path))
            self.assertFalse(is_path(path), path)

    def test_T_ROOT_2_links(self) -> None:
        """T-ROOT-2: a link leads to a place in its root, by whatever detour; or all do, or none."""
        for path, target in (
            *((b"a", b"b"), (b"a", b"."), (b"d/a", b"../b"), (b"d/a", b"../d/./b//c")),
            *((b"d/e/a", b"../../b"), (b"a", b"b/.."), (b"d/a", b"x/../../b")),
        ):
            check_link(path, target)
        for path, target in (
            *((b"a", b".."), (b"a", b"../b"), (b"d/a", b"../../b"), (b"a", b"b/../../c")),
            *((b"d/a", b"./.././../b"), (b"a", b"/etc"), (b"a", b"/"), (b"d/a", b"..//../d/a")),
        ):
            error = self.assertRaises(Forbidden, check_link, path, target)
            self.assertEqual(error.reason, "link-outside", target)
            check_link(path, target, "all")
        for rule in ("inside", "all", "none"):
            for target in (b"", b"a\0b", b"x" * (MAX_PATH + 1)):
                error = self.assertRaises(Forbidden, check_link, b"a", target, rule)
                self.assertEqual(error.reason, "link-target")
        error = self.assertRaises(Forbidden, check_link, b"a", b"b", "none")
        self.assertEqual(error.reason, "link-not-allowed")

    def test_entries(self) -> None:
        """T-ROOT-3, T-ROOT-4, T-ROOT-5: an entry is of a kind, with what its kind has."""
        limits = Limits(max_file=10)
        check_entry(b"a", PLAIN, limits)
        for entry, reason in (
            (PLAIN._replace(kind="c"), "kind"), (PLAIN._replace(kind=""), "kind"),
            (PLAIN._replace(kind="fl"), "kind"), (PLAIN._replace(kind="fd"), "kind"),
            (PLAIN._replace(mode=0o4644), "mode"), (PLAIN._replace(mode=-1), "mode"),
            (PLAIN._replace(mtime=1 << 62), "mtime"), (PLAIN._replace(mtime=-(1 << 62)), "mtime"),
            (PLAIN._replace(content=b"d" * 31), "digest-length"),
            (PLAIN._replace(content=b""), "digest-length"),
            (PLAIN._replace(size=11), "file-size"), (PLAIN._replace(size=-1), "file-size"),
            (TreeEntry(LINK, 0, 0, 1, b"../b"), "link-outside"),
            (TreeEntry(DIR, 0o755, 1), "content"),
            (TreeEntry(DIR, 0o755, 0, 0, b"x"), "content"),
        ):  # fmt: skip
            error = self.assertRaises(Forbidden, check_entry, b"a", entry, limits)
            self.assertEqual(error.reason, reason, entry)
        self.assertRaises(Forbidden, check_entry, b"..", PLAIN, limits)

    def test_batches(self) -> None:
        """A batch has its entries in order, each path once, and no more than are allowed."""
        batch = Batch(
            replica=ReplicaId("a", b"1" * 8),
            lo=1,
            stamp=1,
            deps={},
            entries=((b"a", PLAIN), (b"b", PLAIN)),
        )
        check_batch(batch, Limits(max_entries=2))
        error = self.assertRaises(Forbidden, check_batch, batch, Limits(max_entries=1))
        self.assertEqual(error.reason, "too-many-entries")
        for paths in ((b"b", b"a"), (b"a", b"a")):
            bad = evolve(batch, entries=tuple((path, PLAIN) for path in paths))
            error = self.assertRaises(Forbidden, check_batch, bad, Limits())
            self.assertEqual(error.reason, "order")


class FrameTests(SynchronousTestCase):
    """Frames of a stream, judged by their heads."""

    def refused(self, *heads: bytes) -> str:
        """Why the last of these heads, with bodies that have all come, is refused."""
        stream = Frames()
        for head in heads[:-1]:
            size = HEAD.unpack(head)[0]
            self.assertEqual(list(stream.feed(head + bytes(size))), [])
        return self.assertRaises(Forbidden, list, stream.feed(heads[-1])).reason

    def test_whole(self) -> None:
        """A message in parts is put together; what is too large for one is not sent."""
        body = bytes(range(256)) * 3000
        found = list(Frames().feed(b"".join(pack_frames(BATCH, 1, body))))
        self.assertEqual(found, [(BATCH, 1, body)])
        self.patch(frames, "MAX_MESSAGE", 100)
        self.assertRaises(ValueError, list, pack_frames(BATCH, 1, bytes(101)))
        frames.pack_head(BATCH, 1, frames.MAX_FRAME)
        self.assertRaises(ValueError, frames.pack_head, BATCH, 1, frames.MAX_FRAME + 1)

    def test_T_ROOT_5_frames(self) -> None:
        """T-ROOT-5: a frame of no kind, or too long, is refused before its body has come."""
        self.assertEqual(self.refused(HEAD.pack(1, KINDS, 0, 0)), "frame-type")
        self.assertEqual(self.refused(HEAD.pack(frames.MAX_FRAME + 1, BATCH, 0, 0)), "frame-length")
        self.assertEqual(self.refused(HEAD.pack(1, BATCH, 0, 2)), "frame-length")

    def test_T_ROOT_5_messages(self) -> None:
        """T-ROOT-5: the parts of a message have a bound together: a small one if it is small."""
        self.assertEqual((frames.MAX_FRAME, frames._SMALL_MESSAGE), (1 << 20, 1 << 20))
        self.assertEqual((frames.MAX_MESSAGE, frames.MAX_UNFINISHED), (16 << 20, 64 << 20))
        self.patch(frames, "MAX_MESSAGE", 3000)
        self.patch(frames, "_SMALL_MESSAGE", 1000)
        part = HEAD.pack(900, PING, 0, 1)
        self.assertEqual(self.refused(part, HEAD.pack(101, PING, 0, 0)), "message-length")
        part = HEAD.pack(2900, DATA, 0, 1)
        self.assertEqual(self.refused(part, HEAD.pack(101, DATA, 0, 0)), "message-length")

    def test_T_ROOT_5_unfinished(self) -> None:
        """T-ROOT-5: so have all unfinished messages together, in bytes and in number."""
        self.patch(frames, "MAX_UNFINISHED", 2500)
        parts = [HEAD.pack(900, BATCH, share, 1) for share in range(3)]
        self.assertEqual(self.refused(*parts), "too-many-messages")
        parts = [HEAD.pack(1, BATCH, share, 1) for share in range(18)]
        self.assertEqual(self.refused(*parts), "too-many-messages")
