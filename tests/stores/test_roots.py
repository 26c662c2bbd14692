"""
Served directories: which files are found, what is remembered, and what is never served.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.errors import StoreError
from saltwisted.stores.roots.served import Roots, clean_path
from saltwisted.stores.roots.tree import INLINE
from tests.stores.support import FolderTestCase


@define
class Options:
    """Salt's defaults."""

    fileserver_followsymlinks: bool = True
    fileserver_ignoresymlinks: bool = False
    file_ignore_regex: Any = ()
    file_ignore_glob: Any = ()
    fileserver_list_cache_time: int = 20
    hash_type: str = "sha256"
    pki_dir: str = "/nonexistent/pki"
    cluster_pki_dir: str | None = None


class PathTests(SynchronousTestCase):
    """Relative paths."""

    def test_normalised(self) -> None:
        """Dots and doubled slashes go, nothing else changes."""
        self.assertEqual(clean_path("a/b"), "a/b")
        self.assertEqual(clean_path("./a//b/./c/"), "a/b/c")
        self.assertEqual(clean_path("a..b/...c"), "a..b/...c")

    def test_T_PATH_4_refused(self) -> None:
        """T-PATH-4: whatever could lead out of a root is not a path, also where it cancels out."""
        for bad in ("", ".", "/", "/etc/passwd", "//x", "..", "../x", "a/../x", "a/..", "a\0b"):
            self.assertIsNone(clean_path(bad), bad)

    @given(st.text(alphabet="ab./\0|?", max_size=20))
    def test_stays_inside(self, path: str) -> None:
        """Whatever passes is inside when it is joined to a root."""
        clean = clean_path(path)

        if clean is not None:
            joined = os.path.normpath("/root/" + clean)
            self.assertEqual(joined, "/root/" + clean)


class RootsTests(FolderTestCase):
    """Roots over real directories, the pool being this thread."""

    def setUp(self) -> None:
        """A clock for ages and one for files, both moved by hand."""
        super().setUp()
        self.clock = 0.0
        self.ahead = 100.0
        self.pooled: list[str] = []

    def pool(self, function: Any, *args: Any) -> Deferred[Any]:
        """Run at once, and note what was run."""
        self.pooled.append(function.__name__)
        return maybeDeferred(function, *args)

    def roots(self, file_roots: dict[str, Any] | None = None, **options: Any) -> Roots:
        """The folder C{a} as C{base}, unless said otherwise."""
        given = {"base": [self.path("a")]} if file_roots is None else file_roots
        return Roots(
            given,
            self.pool,
            Options(**options),
            monotonic=lambda: self.clock,
            now=lambda: os.stat(self.folder).st_mtime + self.ahead,
        )

    def value(self, found: Any) -> Any:
        """A value that may be a Deferred."""
        return self.successResultOf(found) if isinstance(found, Deferred) else found

    def found(self, roots: Roots, path: str, env: str = "base") -> str | None:
        """Where a path is served from, below the folder."""
        found = roots.find(env, path)
        return None if found is None else os.path.relpath(found.full, self.folder)

    def listed(self, roots: Roots, env: str = "base") -> Any:
        """The listing."""
        return self.value(roots.listing(env))

    # -- finding

    def test_first_root_wins(self) -> None:
        """The first root that has a file serves it, and a directory of that name is not a file."""
        self.write("a/one", "1")
        self.write("b/one", "2")
        self.write("b/two", "2")
        self.write("a/dir/x")
        self.write("b/dir")
        roots = self.roots({"base": [self.path("a"), self.path("b"), self.path("missing")]})

        self.assertEqual(self.found(roots, "one"), "a/one")
        self.assertEqual(self.found(roots, "two"), "b/two")
        self.assertEqual(self.found(roots, "dir"), "b/dir")
        self.assertIsNone(self.found(roots, "three"))
        self.assertIsNone(self.found(roots, "one/below"))
        second = roots.find("base", "one", index=1)
        assert second is not None
        self.assertEqual(second.full, self.path("b/one"))
        for index in (-1, 2, 99):
            self.assertIsNone(roots.find("base", "one", index))

    def test_environments(self) -> None:
        """Environments are apart; a dotted name is one like others; an unknown one has nothing."""
        self.write("a/x")
        self.write("d/x")
        roots = self.roots({"dev.2": [self.path("d")], "base": self.path("a")})

        self.assertEqual(roots.envs(), ["base", "dev.2"])
        self.assertEqual(self.found(roots, "x", "dev.2"), "d/x")
        self.assertEqual(self.found(roots, "x"), "a/x")
        self.assertIsNone(self.found(roots, "x", "prod"))
        self.assertEqual(self.listed(roots, "prod").files, ())

    def test_dynamic_environments(self) -> None:
        """C{__env__} serves every other environment from the directory of its name."""
        self.write("envs/prod/x")
        self.write("a/y")
        self.write("secret/x")
        roots = self.roots({"base": [self.path("a")], "__env__": [self.path("envs/__env__")]})

        self.assertEqual(roots.envs(), ["__env__", "base"])
        self.assertEqual(self.found(roots, "x", "prod"), "envs/prod/x")
        self.assertEqual(self.found(roots, "y"), "a/y")
        self.assertEqual(self.listed(roots, "prod").files, ("x",))

    def test_T_PATH_4_environment(self) -> None:
        """T-PATH-4: no environment name leads out of C{__env__}'s directory."""
        self.write("envs/prod/x")
        self.write("secret/x")
        roots = self.roots({"__env__": [self.path("envs/__env__")]})

        for env in ("..", ".", "../secret", "prod/../../secret", "/etc", "a\0", "", "__env__"):
            self.assertIsNone(self.found(roots, "x", env), env)
            self.assertEqual(self.listed(roots, env).files, (), env)

    def test_T_PATH_4_traversal(self) -> None:
        """T-PATH-4: nothing outside the roots is found by its path."""
        self.write("a/x")
        self.write("secret")
        roots = self.roots()

        for path in (
            "../secret",
            "x/../../secret",
            "./../secret",
            self.path("secret"),
            "/" + self.path("secret"),
            "a/../x",
            "\0",
            "x\0",
            "|../secret",
            "x/" * 5000,
            "x" * 300,
        ):
            self.assertIsNone(self.found(roots, path), path)

    def test_special_files(self) -> None:
        """A pipe or a device is not a file, and nobody waits for it."""
        os.mkdir(self.path("a"))
        os.mkfifo(self.path("a/pipe"))

        self.assertIsNone(self.found(self.roots(), "pipe"))

    def test_ignored(self) -> None:
        """What C{file_ignore_regex} or C{file_ignore_glob} name is neither found nor listed."""
        for name in ("keep.sls", ".git/config", "x.swp", "sub/y.swp"):
            self.write("a/" + name)
        roots = self.roots(
            file_ignore_regex=[r"/\.git($|/)", r"^\.git"], file_ignore_glob=["*.swp"]
        )

        for path in (".git/config", "x.swp", "sub/y.swp"):
            self.assertIsNone(self.found(roots, path), path)
        self.assertEqual(self.listed(roots).files, ("keep.sls",))
        self.assertEqual(self.listed(roots).dirs, ("sub",))
        self.assertRaises(StoreError, self.roots, file_ignore_regex=["("])

    def test_patterns(self) -> None:
        """A root may be a pattern; directories that appear later are seen after a refresh."""
        self.write("formulas/one/x")
        roots = self.roots({"base": [self.path("formulas/*")]})
        self.write("formulas/two/y")
        self.assertEqual(self.found(roots, "x"), "formulas/one/x")
        self.assertIsNone(self.found(roots, "y"))

        roots.refresh()

        self.assertEqual(self.found(roots, "y"), "formulas/two/y")

    # -- links

    def test_links_are_followed(self) -> None:
        """By default a link serves what it points to, out of the root too, as in stock Salt."""
        self.write("a/x")
        self.write("elsewhere/y")
        os.symlink("x", self.path("a/inner"))
        os.symlink(self.path("elsewhere"), self.path("a/outer"))

        self.assertEqual(self.found(self.roots(), "inner"), "a/inner")
        self.assertEqual(self.found(self.roots(), "outer/y"), "a/outer/y")

    def test_T_PATH_4_link_out_of_root(self) -> None:
        """T-PATH-4: with C{fileserver_followsymlinks: false} a link serves only its own root."""
        self.write("a/x")
        self.write("elsewhere/y")
        os.symlink("x", self.path("a/inner"))
        os.symlink(self.path("elsewhere"), self.path("a/outer"))
        os.symlink("../elsewhere/y", self.path("a/up"))
        roots = self.roots(fileserver_followsymlinks=False)

        self.assertEqual(self.found(roots, "inner"), "a/inner")
        self.assertIsNone(self.found(roots, "outer/y"))
        self.assertIsNone(self.found(roots, "up"))

    def test_keys_are_never_served(self) -> None:
        """What lies below the directories of keys is not found, by no link and in no root."""
        self.write("pki/master.pem", "secret")
        self.write("common/cluster.pem", "secret")
        os.mkdir(self.path("a"))
        os.symlink(self.path("pki"), self.path("a/pki"))
        os.symlink(self.path("pki/master.pem"), self.path("a/key"))
        roots = self.roots(
            {"base": [self.path("a"), self.path("pki"), self.folder]},
            pki_dir=self.path("pki"),
            cluster_pki_dir=self.path("common"),
        )

        for path in ("pki/master.pem", "key", "master.pem", "common/cluster.pem"):
            self.assertIsNone(self.found(roots, path), path)

    def test_link_that_changes(self) -> None:
        """A link that is turned to something else is judged again."""
        self.write("a/x")
        self.write("elsewhere/y")
        os.symlink("x", self.path("a/link"))
        roots = self.roots(fileserver_followsymlinks=False)
        self.assertEqual(self.found(roots, "link"), "a/link")

        os.unlink(self.path("a/link"))
        os.symlink(self.path("elsewhere/y"), self.path("a/link"))

        self.assertIsNone(self.found(roots, "link"))

    # -- hashes

    def test_hash(self) -> None:
        """A hash is right, computed once, and again when the file changes."""
        for size in (0, 10, INLINE, INLINE + 1, 3_000_000):
            path = self.write("a/x", b"x" * size)
            roots = self.roots()
            found = roots.find("base", "x")
            assert found is not None
            del self.pooled[:]
            self.assertEqual(self.value(roots.hash(found)), hashlib.sha256(b"x" * size).hexdigest())
            self.assertEqual(self.pooled, ["hash_file"] if size > INLINE else [])
            self.assertNotIsInstance(roots.hash(found), Deferred)

            with open(path, "ab") as file:
                file.write(b"more")
            changed = roots.find("base", "x")
            assert changed is not None
            self.assertEqual(
                self.value(roots.hash(changed)), hashlib.sha256(b"x" * size + b"more").hexdigest()
            )

    def test_young_file(self) -> None:
        """A file written this moment is read each time: another write may leave its times alone."""
        self.ahead = 0.0
        self.write("a/x", b"1" * (INLINE + 1))
        roots = self.roots()
        found = roots.find("base", "x")
        assert found is not None

        self.value(roots.hash(found))
        self.value(roots.hash(found))

        self.assertEqual(self.pooled, ["hash_file"] * 2)

    def test_asked_together(self) -> None:
        """Many who want the hash of one file wait for one computation."""
        self.write("a/x", b"1" * (INLINE + 1))
        waiting: list[Deferred[str]] = []

        def later(function: Any, *args: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            return waiting[-1]

        roots = Roots({"base": [self.path("a")]}, later, Options())
        found = roots.find("base", "x")
        assert found is not None
        asked = [roots.hash(found) for _ in range(5)]
        self.assertEqual(len(waiting), 1)
        cancelled = asked.pop()
        assert isinstance(cancelled, Deferred)
        cancelled.addErrback(lambda failure: None)
        cancelled.cancel()

        waiting[0].callback("abc")

        self.assertEqual([self.value(each) for each in asked], ["abc"] * 4)

    def test_hash_types(self) -> None:
        """Other hash types work, and one that does not exist stops the start."""
        self.write("a/x", b"1")
        roots = self.roots(hash_type="md5")
        found = roots.find("base", "x")
        assert found is not None

        self.assertEqual(self.value(roots.hash(found)), hashlib.md5(b"1").hexdigest())
        self.assertRaises(StoreError, self.roots(hash_type="nonsense").startService)

    # -- reading

    def test_read(self) -> None:
        """Pieces put together are the file; behind its end there is nothing."""
        content = os.urandom(200_000)
        self.write("a/x", content)
        roots = self.roots()
        found = roots.find("base", "x")
        assert found is not None

        pieces = []
        while piece := self.value(roots.read(found, sum(map(len, pieces)), 70_000)):
            pieces.append(piece)

        self.assertEqual(b"".join(pieces), content)
        self.assertEqual([len(piece) for piece in pieces], [70_000, 70_000, 60_000])
        for start in (-1, 200_000, 1 << 70):
            self.assertEqual(self.value(roots.read(found, start, 10)), b"")

    def test_replaced_while_read(self) -> None:
        """A file that was replaced after it was found is not read under its old judgement."""
        self.write("a/x", b"old")
        roots = self.roots()
        found = roots.find("base", "x")
        assert found is not None
        self.write("a/y", b"new")
        os.rename(self.path("a/y"), self.path("a/x"))

        self.assertRaises(StoreError, roots.read, found, 0, 10)

    # -- listings

    def test_listing(self) -> None:
        """Files, directories, empty ones and links, sorted, of all roots together."""
        self.write("a/top.sls")
        self.write("a/sub/x")
        self.write("b/sub/y")
        os.makedirs(self.path("a/empty/deep"))
        os.symlink("top.sls", self.path("a/link"))
        roots = self.roots({"base": [self.path("a"), self.path("b")]})

        listing = self.listed(roots)

        self.assertEqual(listing.files, ("link", "sub/x", "sub/y", "top.sls"))
        self.assertEqual(listing.dirs, ("empty", "empty/deep", "sub"))
        self.assertEqual(listing.empty_dirs, ("empty/deep",))
        self.assertEqual(listing.links, {"link": "top.sls"})

    def test_links_in_listings(self) -> None:
        """Links are listed as stock Salt does, by each of its two options."""
        self.write("a/dir/x")
        self.write("elsewhere/y")
        os.symlink("dir", self.path("a/inner"))
        os.symlink(self.path("elsewhere"), self.path("a/outer"))
        os.symlink("nowhere", self.path("a/broken"))

        default = self.listed(self.roots())
        self.assertEqual(default.files, ("broken", "dir/x", "inner/x", "outer/y"))
        self.assertEqual(default.dirs, ("dir", "inner", "outer"))
        self.assertEqual(default.links, {"inner": "dir", "broken": "nowhere"})

        still = self.listed(self.roots(fileserver_followsymlinks=False))
        self.assertEqual(still.files, ("broken", "dir/x"))
        self.assertEqual(still.dirs, ("dir", "inner", "outer"))
        self.assertEqual(
            still.links,
            {"inner": "dir", "broken": "nowhere", "outer": self.path("elsewhere")},
        )

        without = self.listed(self.roots(fileserver_ignoresymlinks=True))
        self.assertEqual(without.files, ("dir/x", "inner/x", "outer/y"))
        self.assertEqual(without.dirs, ("dir",))
        self.assertEqual(without.links, {})

    def test_endless_links(self) -> None:
        """A link to a directory above it is listed, and not walked for ever."""
        self.write("a/sub/x")
        os.symlink("..", self.path("a/sub/up"))

        self.assertEqual(self.listed(self.roots()).dirs, ("sub", "sub/up"))

    def test_remembered(self) -> None:
        """Within a second nothing is asked; later an unchanged tree is not walked again."""
        self.write("a/x")
        roots = self.roots()
        self.listed(roots)
        self.write("a/y")
        self.assertEqual(self.listed(roots).files, ("x",))

        self.clock += 1.0
        self.assertEqual(self.listed(roots).files, ("x", "y"))
        walks = len(self.pooled)
        for _ in range(3):
            self.clock += 1.0
            self.listed(roots)
        self.assertEqual(len(self.pooled), walks)

    def test_changes_deep_down(self) -> None:
        """A change in any directory of the tree is seen after a second."""
        self.write("a/one/two/x")
        roots = self.roots()
        self.listed(roots)
        os.rename(self.path("a/one/two/x"), self.path("a/one/two/y"))
        self.clock += 1.0

        self.assertEqual(self.listed(roots).files, ("one/two/y",))

    def test_root_that_appears(self) -> None:
        """A root that is made later is listed without a restart."""
        roots = self.roots()
        self.assertEqual(self.listed(roots).files, ())
        self.write("a/x")
        self.clock += 1.0

        self.assertEqual(self.listed(roots).files, ("x",))

    def test_listed_at_once(self) -> None:
        """
        With C{fileserver_list_cache_time: 0} a file is listed in the moment that it is there; any
        other value is a second, as without.
        """
        os.makedirs(self.path("a"))
        for number, seconds in enumerate((0, 1, 20)):
            roots = self.roots(fileserver_list_cache_time=seconds)
            before = self.listed(roots).files
            self.write(f"a/x{number}")
            at_once = self.listed(roots).files
            self.assertEqual(f"x{number}" in at_once, seconds == 0, seconds)
            self.assertEqual(len(at_once) - len(before), int(seconds == 0))
            self.clock += 1.0
            self.assertIn(f"x{number}", self.listed(roots).files)

    def test_listed_together(self) -> None:
        """Many who want one listing wait for one walk; a walk that fails is tried again."""
        self.write("a/x")
        waiting: list[Deferred[Any]] = []

        def later(function: Any, *args: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            waiting[-1].addCallback(lambda _: function(*args))
            return waiting[-1]

        roots = Roots({"base": [self.path("a")]}, later, Options())
        asked = [roots.listing("base") for _ in range(3)]
        self.assertEqual(len(waiting), 1)
        waiting[0].errback(ValueError("pool"))
        for each in asked:
            assert isinstance(each, Deferred)
            self.failureResultOf(each, ValueError)

        again = roots.listing("base")
        waiting[1].callback(None)
        self.assertEqual(self.value(again).files, ("x",))

    def test_odd_names(self) -> None:
        """A name that is not UTF-8 is listed and served under its bytes."""
        os.mkdir(self.path("a"))
        name = os.fsdecode(b"\xff\xfe")
        self.write("a/" + name, b"odd")
        roots = self.roots()

        self.assertEqual(self.listed(roots).files, (name,))
        self.assertEqual(self.found(roots, name), "a/" + name)
