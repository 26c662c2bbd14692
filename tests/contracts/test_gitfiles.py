"""
C{gitfs} keeps the contract of the sources of files, where git can: it has no empty directories, and
lists links as Salt does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zlib
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, maybeDeferred

from saltwisted.config.git import GitRemote
from saltwisted.config.options import MasterConfig
from saltwisted.domain.git import trees
from saltwisted.domain.git.mapping import Tip
from saltwisted.errors import ConfigError, StoreError
from saltwisted.parts import IFileSource
from saltwisted.stores.git import lists, objects
from saltwisted.stores.git.objects import Repository, library
from saltwisted.stores.git.source import GitFiles, GitView, Served
from saltwisted.stores.roots import joined
from saltwisted.stores.roots.tree import Listing
from saltwisted.stores.sources.table import FILE_SOURCES
from saltwisted.worker.git import lists as listing
from saltwisted.worker.git import work
from tests.contracts.files import THROUGH_LINKS, TREES, FileSourceContract
from tests.gitrepos import Repo, fetch_request
from tests.harness import ROOT
from tests.stores.support import FolderTestCase


class GitSourceTestCase(FolderTestCase):
    """A source over repositories that were fetched by the real worker."""

    hash_type = "md5"

    def repo(self, name: str = "source") -> Repo:
        """A repository."""
        return Repo(self.path(name))

    def files(self) -> GitFiles:
        """A source that serves nothing yet; its worker is this process."""
        config = MasterConfig(cachedir=self.path("cache"), hash_type=self.hash_type)
        source: Any = FILE_SOURCES.take("gitfs")(
            config, maybeDeferred, lambda request: maybeDeferred(work.serve, request)
        )
        source.startService()
        self.addCleanup(source.stopService)
        return source  # type: ignore[no-any-return]

    def fetched(self, repo: Repo, **parameters: Any) -> Served:
        """A remote, as it is now."""
        folder = self.path("cache", os.path.basename(repo.path))
        answer = work.fetch(fetch_request(folder, repo.url))
        self.assertNotIn("error", answer)
        state = answer["state"]
        refs = {ref: Tip(*tip) for ref, tip in state["refs"].items()}
        repository = Repository(os.path.join(folder, state["repo"]), state["large"])
        return Served(GitRemote(id=repo.url, url=repo.url, **parameters), folder, repository, refs)

    def serving(self, repo: Repo, **parameters: Any) -> GitFiles:
        """A source of one remote."""
        source = self.files()
        source.show(GitView([self.fetched(repo, **parameters)]))
        return source

    def value(self, answer: Any) -> Any:
        """What is at hand, or comes."""
        return self.successResultOf(maybeDeferred(lambda: answer))


class GitContractTests(FileSourceContract, GitSourceTestCase):
    """The source of commits."""

    def source(self) -> IFileSource:
        """Environments are branches."""
        repo = self.repo()
        repo.commit(TREES["base"].files, TREES["base"].links)
        repo.git("checkout", "--quiet", "--orphan", "dev")
        repo.git("rm", "--quiet", "-rf", ".")
        repo.commit(TREES["dev"].files)
        return self.serving(repo)

    def test_listed(self) -> None:
        """As in Salt, links are listed as files, whatever they lead to."""
        listing = self.value(self.source().listing("base"))

        self.assertEqual(listing.files, tuple(sorted({*TREES["base"].files, *TREES["base"].links})))
        self.assertEqual(listing.dirs, ("odd", "web", "web/files"))
        self.assertEqual(listing.empty_dirs, ())

    def test_listed_is_served(self) -> None:
        """Each listed file can be fetched, but for links to directories and to nothing."""
        source = self.source()
        for env in TREES:
            for path in self.value(source.listing(env)).files:
                found = source.find(env, path)
                self.assertEqual(found is None, path in ("lost", "round", "www"), path)

    def test_through_links(self) -> None:
        """
        What a link to a directory leads to is served by its path, though it is not listed
        (pains-next 3.14).
        """
        source = self.source()
        for path in THROUGH_LINKS:
            self.assertIsNotNone(source.find("base", path), path)


class OddTests(GitSourceTestCase):
    """What somebody pushes."""

    def test_names(self) -> None:
        """T-GIT-6: names that mean another place, or the inside of a repository, are not there."""
        repo = self.repo()
        blob = repo.blob(b"evil")
        inner = repo.tree(("100644", b"config", blob), ("100644", b"ok", blob))
        odd = (b"..", b".", b".git", b".GIT", b".git.", b"a/b", b"../x")
        top = repo.tree(
            ("100644", b"good", blob),
            *(("40000", name, inner) for name in odd),
            ("100644", b"\xff\xfe", blob),
        )
        repo.branch("master", top)
        source = self.serving(repo)

        listing = self.value(source.listing("base"))

        self.assertEqual((listing.files, listing.dirs), (("good",), ()))
        for path in (".git/config", "../config", "a/b/ok", "../x/ok", "..", ".git./ok", ".GIT/ok"):
            self.assertIsNone(source.find("base", path), path)
        self.assertIsNotNone(source.find("base", "good"))

    def test_links_out(self) -> None:
        """T-GIT-6: no link leads out of its tree, wherever it points and however it is asked."""
        repo = self.repo()
        repo.commit(
            {"top.sls": b"x", "dir/a": b"a"},
            {
                "abs": "/etc/passwd",
                "out": "../../../../../../etc/passwd",
                "dir/out": "../../top.sls",
                "up": "..",
                "git": ".git/config",
                "circle": "dir/circle",
                "dir/circle": "../circle",
                "empty": "./.",
                "good": "dir/../top.sls",
            },
        )
        source = self.serving(repo)

        for path in ("abs", "out", "dir/out", "up/etc/passwd", "git", "circle", "empty", "abs/x"):
            self.assertIsNone(source.find("base", path), path)
        self.assertEqual(self.value(source.read(source.find("base", "good"), 0, 9)), b"x")
        self.assertEqual(self.value(source.listing("base")).links["abs"], "/etc/passwd")

    def test_module(self) -> None:
        """A submodule is not there, as in Salt, and is no traceback (pains-next 3.14)."""
        repo = self.repo()
        tree = repo.tree(("100644", b"a", repo.blob(b"a")), ("160000", b"mod", "1" * 40))
        repo.branch("master", tree)
        source = self.serving(repo)

        self.assertEqual(self.value(source.listing("base")), Listing(("a",), (), (), {}))
        self.assertIsNone(source.find("base", "mod"))
        self.assertIsNone(source.find("base", "mod/x"))

    def test_mode(self) -> None:
        """A program is one, and any other file is none."""
        repo = self.repo()
        repo.write({"run": b"#!", "text": b"t"})
        os.chmod(os.path.join(repo.path, "run"), 0o755)
        repo.commit({})
        source = self.serving(repo)
        modes = {path: source.find("base", path) for path in ("run", "text")}

        self.assertEqual(
            {path: found and found.info.st_mode for path, found in modes.items()},
            {"run": 0o100755, "text": 0o100644},
        )

    def test_case(self) -> None:
        """Names that differ in their case alone are two files."""
        repo = self.repo()
        repo.commit({"Case": b"1", "case": b"2"})
        source = self.serving(repo)
        found = [
            self.value(source.read(source.find("base", path), 0, 9)) for path in ("Case", "case")
        ]

        self.assertEqual(found, [b"1", b"2"])

    def test_sorted(self) -> None:
        """Git sorts a directory as if its name ended with a slash: each is found all the same."""
        repo = self.repo()
        ends = ("", " ", "!", "-", "-b", ".", ".b", "0", "b", "~", "ä")
        names = [first + end for first in ("a", "aa", "ab", "b", "ä") for end in ends]
        files = dict.fromkeys(names[::2], b"f")
        below = {f"{name}/{name}": b"d" for name in names[1::2]}
        repo.commit({**files, **below})
        source = self.serving(repo)

        found = {path for path in [*files, *below] if source.find("base", path)}
        missing = [path for name in names for path in (f"{name}x", f"{name}/x", f"{name[:-1]}#")]

        self.assertEqual(found, {*files, *below})
        self.assertEqual([path for path in missing if source.find("base", path)], [])
        self.assertIsNone(source.find("base", names[1]), "a directory is no file")

    def test_names_are_let_go(self) -> None:
        """A name that a minion asks for is not kept; some versions of pygit2 would."""
        repo = self.repo()
        repo.commit({"dir/file": b"x"})
        source = self.serving(repo)
        place = next(iter(source.view.places("base")))
        look = place.served.repository.look
        for name in ("".join(("di", "r")), "".join(("no", "ne"))):
            before = sys.getrefcount(name)
            for _ in range(100):
                look(place.tree, name)
            self.assertLess(sys.getrefcount(name), before + 10, name)

    def test_directories_are_let_go(self) -> None:
        """With each commit come directories; those that nobody asks for do not stay in memory."""
        repo = self.repo()
        repo.commit({f"{place}/{name}": b"%d" % place for place in range(60) for name in range(20)})
        source = self.serving(repo)
        self.patch(objects, "_MOST_NAMES", 200)
        repository = next(iter(source.view.places("base"))).served.repository
        names = []

        for path in [f"{place}/19" for place in range(60)] * 2:
            found = source.find("base", path)
            assert found is not None
            self.assertEqual(self.value(source.read(found, 0, 9)), path[:-3].encode())
            names.append(sum(map(len, repository._trees.values())))

        self.assertLessEqual(max(names), 220)
        self.assertGreater(min(names[20:]), 150)

    def test_deep(self) -> None:
        """A tree without end, or of very many names, is told and does no harm."""
        repo = self.repo()
        self.patch(listing, "MOST_ENTRIES", 100)
        repo.commit({f"d/{number}": b"" for number in range(101)})
        source = self.serving(repo)

        self.failureResultOf(source.listing("base"), StoreError)  # type: ignore[arg-type]
        self.assertIsNotNone(source.find("base", "d/5"))


class DamageTests(GitSourceTestCase):
    """A repository that is broken on disk."""

    def test_told(self) -> None:
        """What is damaged is never served, is told, and hurts no other remote."""
        bad, good = self.repo("bad"), self.repo("good")
        bad.commit({"a": b"a" * 1000, "b": b"b"})
        good.commit({"a": b"good"})
        source, told = self.files(), list[str]()
        source.on_damage(told.append)
        served = self.fetched(bad)
        packs = os.path.join(served.repository.path, "objects/pack")
        for name in os.listdir(packs):
            path = os.path.join(packs, name)
            if name.endswith(".pack"):
                size = os.path.getsize(path)
                os.chmod(path, 0o600)
                with open(path, "r+b") as file:
                    file.write(b"\x00" * size)
        source.show(GitView([served, self.fetched(good)]))

        found = source.find("base", "a")

        self.assertEqual(self.value(source.read(found, 0, 9)), b"good")
        self.assertEqual(told, [served.folder])

    def test_lists(self) -> None:
        """A list of what is damaged, or not there, is none, and is told."""
        repo = self.repo()
        repo.commit({"a": b"a", "d/b": b"b"})
        served = self.fetched(repo)
        source, told = self.files(), list[str]()
        source.on_damage(told.append)
        source.show(GitView([served]))
        (tip,) = served.refs.values()
        objects = os.path.join(served.repository.path, "objects")
        for name in os.listdir(os.path.join(objects, "pack")):
            os.unlink(os.path.join(objects, "pack", name))
        request = {"do": "list", "repo": served.repository.path, "tree": tip.tree, "mountpoint": ""}
        gone = work.serve(request)
        # Written over by one that is none of its own
        os.makedirs(os.path.join(objects, tip.tree[:2]))
        with open(os.path.join(objects, tip.tree[:2], tip.tree[2:]), "wb") as file:
            file.write(zlib.compress(b"tree 0\0"))
        other = work.serve(request)

        self.assertEqual((gone.get("damaged"), other.get("damaged")), (True, True))
        self.failureResultOf(maybeDeferred(source.listing, "base"), StoreError)
        self.assertEqual(told, [served.folder])

    def test_lists_without_library(self) -> None:
        """
        A worker that lists does not import pygit2: that takes longer than a list of 10 000 files,
        and as much memory again.
        """
        repo = self.repo()
        repo.commit({"a": b"a", "d/b": b"b"}, {"l": "a"})
        served = self.fetched(repo)
        (tip,) = served.refs.values()
        request = {"do": "list", "repo": served.repository.path, "tree": tip.tree, "mountpoint": ""}
        script = (
            "import sys\n"
            "from saltwisted.worker.git import work\n"
            "work.prepare()\n"
            "answer = work.serve(eval(sys.argv[1]))\n"
            "print(answer, [name for name in sys.modules if 'pygit2' in name])\n"
        )
        argv = [sys.executable, "-c", script, repr(request)]

        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)

        files, dirs = trees.in_runs(["a", "d/b", "l"]), trees.in_runs(["d"])
        expected = {"files": files, "dirs": dirs, "links": {"l": "a"}, "left_out": 0, "text": 10}
        self.assertEqual(done.stdout.strip(), f"{expected} []")

    def test_long_lists(self) -> None:
        """
        A list of very many names is read in the pool, once for all who ask meanwhile, and so are
        several of them put together: no turn of the reactor is as long as the list.
        """
        one, two = self.repo("one"), self.repo("two")
        for number, repo in enumerate((one, two)):
            repo.commit({f"{number}/{n:04}": b"" for n in range(25)})
        source = self.serving(one)
        source.show(GitView([self.fetched(one), self.fetched(two)]))
        self.patch(lists, "AT_ONCE", 20)
        self.patch(joined, "AT_ONCE", 20)
        self.patch(trees, "RUN", 4)
        began: list[tuple[Any, ...]] = []
        ended: list[Deferred[Any]] = []

        def run(function: Any, *args: Any) -> Any:
            began.append((function, *args))
            ended.append(Deferred())
            return ended[-1].addCallback(lambda _: function(*args))

        source._lists._run = source._joined._run = run
        asked: list[Any] = [source.listing("base") for _ in range(3)]
        self.assertEqual(len(began), 2)
        for number in range(2):
            ended[number].callback(None)
        self.assertEqual(len(began), 3)
        for each in asked:
            self.assertNoResult(each)
        ended[2].callback(None)

        names = tuple(f"{number}/{n:04}" for number in range(2) for n in range(25))
        for each in asked:
            self.assertEqual(self.successResultOf(each).files, names)
        self.assertEqual(self.value(source.listing("base")).dirs, ("0", "1"))
        self.assertEqual(len(began), 3)

    def test_laid_out_again(self) -> None:
        """A large file that has gone from where it was laid out is laid out again."""
        repo, content = self.repo(), os.urandom(200_000)
        repo.commit({"large": content})
        source = self.serving(repo)
        found = source.find("base", "large")
        assert found is not None
        first = self.value(source.read(found, 0, 100))
        os.unlink(self.path("cache", "source", "files", found.oid))

        self.assertEqual(first, content[:100])
        self.assertEqual(self.value(source.read(found, 100, 100)), content[100:200])
        self.assertEqual(self.value(source.hash(found)), hashlib.md5(content).hexdigest())

    def test_unread_copies(self) -> None:
        """
        The copy of a large file goes once nobody has read it for a whole round; what an earlier
        process has left goes too, and a copy that is being made stays.
        """
        repo, contents = self.repo(), [os.urandom(200_000) for _ in range(2)]
        repo.commit({"a": contents[0], "b": contents[1]})
        source = self.serving(repo)
        files = [source.find("base", name) for name in ("a", "b")]
        folder = self.path("cache", "source", "files")

        def read(number: int) -> None:
            found = files[number]
            assert found is not None
            self.assertEqual(self.value(source.read(found, 7, 9)), contents[number][7:16])

        def left() -> list[str]:
            self.value(source.tidy())
            return sorted(os.listdir(folder))

        a, b = (found.oid for found in files if found is not None)
        read(0)
        read(1)
        for name in (a, b, "earlier", f"{'c' * 40}.temporary"):
            with open(os.path.join(folder, name), "ab"):
                os.utime(os.path.join(folder, name), (1, 1))
        with open(os.path.join(folder, f"{'d' * 40}.temporary"), "xb"):
            pass

        self.assertEqual(left(), sorted([a, b, f"{'d' * 40}.temporary"]))
        read(1)
        self.assertEqual(left(), sorted([b, f"{'d' * 40}.temporary"]))
        read(0)
        self.assertEqual(left(), sorted([a, f"{'d' * 40}.temporary"]))

    def test_made_for_an_earlier_view(self) -> None:
        """What is being laid out for a reader of an earlier view is no rest that nobody wants."""
        repo, content = self.repo(), os.urandom(200_000)
        repo.commit({"large": content})
        source = self.serving(repo)
        earlier = source.over(source.view)
        source.show(GitView([]))
        source.show(GitView(earlier.view.served))
        asked: list[Deferred[Any]] = []
        requests: list[Any] = []

        def later(request: Any) -> Deferred[Any]:
            requests.append(request)
            asked.append(Deferred())
            return asked[-1]

        earlier._work = source._work = later
        found = earlier.find("base", "large")
        assert found is not None
        reads = [maybeDeferred(each.read, found, 0, 9) for each in (earlier, source)]
        folder = self.path("cache", "source", "files")
        os.mkdir(folder)
        temporary = os.path.join(folder, f"{found.oid}.temporary")
        with open(temporary, "xb"):
            os.utime(temporary, (1, 1))
        self.value(source.tidy())
        self.assertTrue(os.path.exists(temporary))
        self.assertEqual(len(asked), 1)
        asked[0].callback(work.serve(requests[0]))

        self.assertEqual([self.successResultOf(each) for each in reads], [content[:9]] * 2)

    def test_wrong_content(self) -> None:
        """An object whose content is not what its name says is no file."""
        repo = self.repo()
        repo.commit({"large": os.urandom(100_000)})
        served = self.fetched(repo)
        (oid,) = served.repository.large
        request = {
            "do": "spool", "folder": served.folder, "repo": served.repository.path, "id": oid,
            "size": 99_999, "hash_type": "sha256", "seconds": 30.0, "keep": 1 << 30,
        }  # fmt: skip

        self.assertTrue(work.serve(request)["damaged"])
        self.assertEqual(os.listdir(self.path("cache", "source", "files")), [])


class KeptListTests(GitSourceTestCase):
    """What lists that were made take in memory."""

    def branches(self, *names: str) -> GitFiles:
        """A source with a branch of each name, each with a file that no other has."""
        repo = self.repo()
        repo.commit({"a": b"1", "d/b": b"2"})
        for name in names:
            repo.git("checkout", "--quiet", "-b", name, "master")
            repo.commit({f"{name}.txt": b"3"})
        return self.serving(repo)

    def test_alike(self) -> None:
        """What two commits have in common is kept once, the whole list if nothing differs."""
        repo = self.repo()
        repo.commit({"a": b"1", "d/b": b"2"})
        repo.git("checkout", "--quiet", "-b", "dev")
        repo.commit({"a": b"other"})
        repo.git("checkout", "--quiet", "-b", "more")
        repo.commit({"c": b"3"})
        source = self.serving(repo)

        base, dev, more = (self.value(source.listing(env)) for env in ("base", "dev", "more"))

        self.assertEqual((base.files, more.files), (("a", "d/b"), ("a", "c", "d/b")))
        self.assertIs(dev.files, base.files)
        self.assertIs(more.files[2], base.files[1])
        self.assertIs(more.dirs, base.dirs)

    def test_bounded_text(self) -> None:
        """T-COST-2: so they are when their names are too long together."""
        self.patch(lists, "MOST_TEXT", 40)
        envs = [f"b{number}" for number in range(9)]
        source = self.branches(*envs)

        for env in envs:
            self.assertEqual(len(self.value(source.listing(env)).files), 3)

        kept = source._lists._kept.values()
        self.assertLessEqual(sum(len("".join(each.files + each.dirs)) for each in kept), 40)
        self.assertGreater(len(kept), 1)
        self.assertEqual(len(source._lists._texts), len(kept))

    def test_bounded(self) -> None:
        """Lists are forgotten when they have too many names together; who asks gets his."""
        self.patch(lists, "MOST_NAMES", 10)
        envs = [f"b{number}" for number in range(9)]
        source = self.branches(*envs)

        for _ in range(2):
            for env in envs:
                names = self.value(source.listing(env)).files
                self.assertEqual(set(names), {"a", "d/b", f"{env}.txt"})

        kept = source._lists._kept.values()
        self.assertLessEqual(sum(len(each.files) + len(each.dirs) for each in kept), 10)


class ColdTests(GitSourceTestCase):
    """What was never asked for."""

    def test_first_request(self) -> None:
        """The first request of each file finds it, before anything was listed (pains-next 3.1)."""
        repo = self.repo()
        files = {"a": b"1", "d/b": b"2", "large": b"3" * 100_000}
        repo.commit(files)
        for path, content in files.items():
            shutil.rmtree(self.path("cache"), ignore_errors=True)
            source = self.serving(repo)
            found = source.find("base", path)
            assert found is not None
            self.assertEqual(self.value(source.hash(found)), hashlib.md5(content).hexdigest())
            self.assertEqual(self.value(source.read(found, 0, 1 << 20)), content)

    def test_too_old(self) -> None:
        """A library that is too old is refused at the start, by name (pains-next 3.2)."""
        import pygit2

        self.patch(pygit2, "__version__", "1.10.1")
        with self.assertRaisesRegex(ConfigError, "needs pygit2 1.11 or newer, and this is 1.10.1"):
            library()


class SwitchTests(GitSourceTestCase):
    """From one commit to the next."""

    def test_together(self) -> None:
        """What was found before is read as it was; what is found later is the new commit's."""
        repo = self.repo()
        repo.commit({"a": b"1", "large": b"1" * 100_000})
        source = self.serving(repo)
        before = [source.find("base", path) for path in ("a", "large")]
        repo.commit({"a": b"22", "large": b"2" * 100_000, "b": b""})

        source.show(GitView([self.fetched(repo)]))

        self.assertEqual([self.value(source.read(each, 0, 1)) for each in before], [b"1", b"1"])
        after = [source.find("base", path) for path in ("a", "large")]
        self.assertEqual([self.value(source.read(each, 0, 1)) for each in after], [b"2", b"2"])
        self.assertEqual(self.value(source.listing("base")).files, ("a", "b", "large"))

    def test_commit_as_environment(self) -> None:
        """A commit's name is an environment, whole or in part; what is no commit is none."""
        repo = self.repo()
        first = repo.commit({"a": b"1"})
        repo.commit({"a": b"2"})
        source = self.serving(repo)

        for env in (first, first[:8], first.upper()):
            self.assertEqual(self.value(source.read(source.find(env, "a"), 0, 1)), b"1", env)
        tree = repo.git("rev-parse", f"{first}^{{tree}}")
        for env in (tree, first[:3], "0" * 40, "HEAD", "master", "HEAD~1", f"{first}:a"):
            self.assertIsNone(source.find(env, "a"), env)

    def test_signed_commit_as_environment(self) -> None:
        """T-GIT-7: where commits have to be signed, one is an environment only if it was good."""
        repo = self.repo()
        first = repo.commit({"a": b"1"})
        second = repo.commit({"a": b"2"})
        source = self.files()
        source.show(GitView([evolve(self.fetched(repo), signed=frozenset([first]))]))

        self.assertIsNotNone(source.find(first[:8], "a"))
        self.assertIsNone(source.find(second, "a"))

    def test_precedence(self) -> None:
        """The first remote that has a file serves it, each below its mount point."""
        one, two = self.repo("one"), self.repo("two")
        one.commit({"a": b"1", "states/x": b"root"})
        two.commit({"a": b"2", "b": b"2"})
        source = self.files()
        source.show(
            GitView([
                self.fetched(one),
                self.fetched(two),
                self.fetched(one, root="states", mountpoint="deep/er"),
            ])
        )  # fmt: skip
        found = {path: source.find("base", path) for path in ("a", "b", "deep/er/x")}

        self.assertEqual(
            {path: self.value(source.read(each, 0, 9)) for path, each in found.items()},
            {"a": b"1", "b": b"2", "deep/er/x": b"root"},
        )
        self.assertIsNone(source.find("base", "deep/x"))
        listing = self.value(source.listing("base"))
        self.assertEqual(listing.files, ("a", "b", "deep/er/x", "states/x"))
        self.assertEqual(listing.dirs, ("deep/er", "states"))
