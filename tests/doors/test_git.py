"""
What a repository may cost who serves it (T-COST-2).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import deferLater

from saltwisted.config.options import MasterConfig
from saltwisted.domain.git import sizes, trees
from saltwisted.doors import FILES, GIT
from saltwisted.errors import RemoteError, TooMuch
from saltwisted.master.fileserver import FileServer
from saltwisted.stores.git import lists, objects, source
from saltwisted.stores.git.source import GitFile, GitFiles, GitView
from saltwisted.worker.git import lists as listing
from saltwisted.worker.git import repository, unpacking, work
from tests.contracts.test_gitfiles import GitSourceTestCase
from tests.doors.measure import Turned, assert_linear, exponent, least, slack
from tests.gitrepos import Pack, Repo, fetch_request


class CostTestCase(GitSourceTestCase):
    """A source that says what is too much, and whose worker is asked as the test sees."""

    def setUp(self) -> None:
        """Nothing is said yet."""
        super().setUp()
        self.said: list[str] = []
        self.asked: list[str] = []

    def files(self) -> GitFiles:
        """A source that serves nothing yet."""
        found = super().files()
        real = found._work

        def asked(request: Any) -> Deferred[Any]:
            self.asked.append(request["do"])
            return real(request)

        found._work = found._lists._work = asked
        found.on_excess(lambda folder, text: self.said.append(text))
        return found

    def later(self, waiting: list[Any], request: Any) -> Deferred[Any]:
        """An answer that the test gives."""
        answer: Deferred[Any] = Deferred()
        waiting.extend((request, answer))
        return answer

    def reads(self, files: GitFiles) -> int:
        """How many directories were read in the thread of the reactor."""
        return sum(each.repository.reads for each in files.view.served)


class WayTests(CostTestCase):
    """Where a path leads, through directories and links that somebody has pushed."""

    def bomb(self, hops: int, links: int, names: int) -> Repo:
        """Links that lead each other through directories of so many names, each another one."""
        repo = self.repo()
        blob = repo.blob(b"1")
        rows = [("100644", b"end", blob), ("100644", b"beside", blob)]
        below = repo.tree(("100644", b"f", blob))
        for link in range(links):
            way = []
            for hop in range(hops):
                name = f"{link}.{hop}"
                more = (("100644", b"n%05d" % number, blob) for number in range(names))
                rows.append(
                    ("40000", name.encode(), repo.tree(
                        ("40000", b"d", below), ("100644", b"own" + name.encode(), blob), *more
                    ))
                )  # fmt: skip
                way += [name, "d", "..", ".."]
            way.append(f"link{link + 1}" if link + 1 < links else "end")
            rows.append(("120000", f"link{link}".encode(), repo.blob("/".join(way).encode())))
        repo.branch("master", repo.tree(*rows))
        return repo

    def test_hops(self) -> None:
        """
        T-COST-2: a way of more than so many hops leads nowhere. That is said once; whatever begins
        with the same link is not looked up again, and its neighbours are served.
        """
        self.patch(trees, "MOST_HOPS", 50)
        files = self.serving(self.bomb(5, 3, 0))

        self.assertIsNone(self.value(files.find("base", "link0")))
        repository: Any = files.view.served[0].repository
        look = repository.look
        repository.look = lambda tree, name: self.fail(f"{name} is looked up")
        for path in ("link0", "link0/x", "link0/y/z"):
            self.assertIsNone(files.find("base", path))
        repository.look = look
        self.assertEqual(len(self.said), 1)
        self.assertIn("link0 is not served", self.said[0])
        for path in ("link2", "beside", "link1"):
            self.assertIsNotNone(files.find("base", path), path)

    def test_names(self) -> None:
        """T-COST-2: so does one through directories of more than so many names together."""
        self.patch(trees, "MOST_SEEN", 400)
        files = self.serving(self.bomb(5, 2, 50))

        self.assertIsNone(self.value(files.find("base", "link0")))
        self.assertLess(self.reads(files), 12)
        self.assertEqual(len(self.said), 1)
        self.assertIsNotNone(files.find("base", "link1"))

    def test_same_everywhere(self) -> None:
        """Whether a way is too long depends on the tree, and not on what is in memory."""
        self.patch(trees, "MOST_SEEN", 400)
        files = self.serving(self.bomb(5, 2, 50))
        for hop in range(5):
            for link in range(2):
                self.assertIsNotNone(files.find("base", f"{link}.{hop}/d/f"))

        self.assertIsNone(self.value(files.find("base", "link0")))

    def test_turns(self) -> None:
        """T-COST-2: a look-up that reads much gives way to others after each portion."""
        self.patch(source, "PORTION", -1.0)
        files = self.serving(self.bomb(5, 1, 0))
        waiting: list[Deferred[None]] = []

        def run(function: Any, *args: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            return waiting[-1].addCallback(lambda _: function(*args))

        files._run = run
        answer = files.find("base", "link0")
        reads = []
        while waiting:
            reads.append(self.reads(files))
            waiting.pop().callback(None)

        self.assertEqual(reads, list(range(1, len(reads) + 1)))
        self.assertGreater(len(reads), 5)
        self.assertIsNotNone(self.value(answer))

    def test_large_directory(self) -> None:
        """
        T-COST-2: a large directory is read by a worker, once for all who ask meanwhile, and then
        searched at once.
        """
        self.patch(objects, "AT_ONCE", 1000)
        self.patch(unpacking, "LARGE", 1000)
        repo = self.repo()
        names = [f"{number:03}" for number in range(300)]
        repo.commit({f"large/{name}": name.encode() for name in names} | {"large/d/x": b"below"})
        files = self.serving(repo)
        waiting: list[Any] = []
        real = files._work
        self.patch(files, "_work", lambda request: self.later(waiting, request))
        asked = [files.find("base", path) for path in ("large/005", "large/d/x", "large/none")]
        self.assertEqual([each["do"] for each in waiting[::2]], ["table"])
        waiting[1].callback(self.value(real(waiting[0])))

        five, below, none = map(self.value, asked)
        self.assertEqual((five.info.st_size, below.info.st_size, none), (3, 5, None))
        for name in names:
            found: Any = files.find("base", f"large/{name}")
            self.assertEqual(self.value(files.read(found, 0, 9)), name.encode())
        for name in ("", "0", "0055", "1000", "\u00fc", "\ud800", "d"):
            self.assertIsNone(files.find("base", f"large/{name}"), name)
        self.assertEqual(len(waiting), 2)

    def test_too_large_directory(self) -> None:
        """T-COST-2: in a directory of too many names nothing is found; a worker reads it once."""
        self.patch(objects, "AT_ONCE", 1000)
        self.patch(source, "MOST_TREE", 5000)
        self.patch(unpacking, "LARGE", 1000)
        repo = self.repo()
        repo.commit({f"large/{number:03}": b"" for number in range(300)} | {"a": b"1"})
        files = self.serving(repo)

        for _ in range(3):
            self.assertIsNone(self.value(files.find("base", "large/005")))
        self.assertIsNotNone(files.find("base", "a"))
        self.assertEqual(self.asked, ["table"])
        self.assertEqual(len(self.said), 1)


class DifferenceTests(CostTestCase):
    """Small objects that are differences to gigantic ones, as whoever pushes has packed them."""

    SIZE = 3 << 20

    def serve(self) -> GitFiles:
        """Ten bytes, and a directory, each of which takes three mebibytes to read."""
        repo, pack = self.repo(), Pack()
        huge = bytes(self.SIZE)
        base = pack.whole("blob", huge)
        small = pack.to(base, self.SIZE, "blob", b"ten bytes.")
        row = b"100644 f\0" + bytes.fromhex(small)
        big_tree = b"".join(b"160000 %06d\0" % n + b"1" * 20 for n in range(self.SIZE // 34))
        big = pack.whole("tree", big_tree)
        tree = pack.to(big, len(big_tree), "tree", row)
        rows = (b"40000 b", big), (b"40000 d", tree), (b"100644 g", small), (b"100644 h", base)
        top = b"".join(name + b"\0" + bytes.fromhex(oid) for name, oid in rows)
        pack.into(repo)
        repo.branch("master", pack_tree(repo, top))
        self.small, self.huge = small, base
        return self.serving(repo)

    def test_small_ones(self) -> None:
        """T-COST-2: who asks for ten bytes has not a gigabyte unpacked in the reactor's thread."""
        files = self.serve()
        repository = files.view.served[0].repository
        read: list[str] = []
        real = repository._object

        def reading(oid: str) -> Any:
            read.append(oid)
            return real(oid)

        self.patch(repository, "_object", reading)

        for path in ("g", "d/f"):
            found = self.value(files.find("base", path))
            self.assertEqual(found.info.st_size, 10)
            self.assertEqual(self.value(files.read(found, 0, 99)), b"ten bytes.")

        self.assertEqual(len(read), 1, "the top, and nothing else")
        self.assertEqual(sorted(self.asked), ["spool", "table"])

    def test_by_name(self) -> None:
        """
        T-COST-2: an environment may be the beginning of a commit's name. A large object of that
        name is none, and is not read.
        """
        files = self.serve()
        repository = files.view.served[0].repository
        opened: Any = repository._repo
        read: list[str] = []

        class Reads:
            """Remembers what is read."""

            def __getitem__(self, name: str) -> Any:
                read.append(name)
                return opened[name]

            def expand_id(self, name: str) -> Any:
                return opened.expand_id(name)

            def free(self) -> None:
                opened.free()

        repository._opened = Reads()
        for env in (self.huge, self.huge[:12], self.small):
            self.assertIsNone(self.value(files.find(env, "g")))

        self.assertEqual(read, [])

    def test_chains(self) -> None:
        """What each object of a chain takes is the sum of those before it, in whatever order."""
        taken = unpacking._taken(array("Q", [10, 20, 30, 40]), array("q", [2, -1, 3, 1]))
        own = unpacking.STEP

        self.assertEqual(list(taken), [100 + 4 * own, 20 + own, 90 + 3 * own, 60 + 2 * own])


def pack_tree(repo: Repo, raw: bytes) -> str:
    """A tree of this raw form."""
    args = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
    return repo.git(*args, data=raw)


class ListedTests(CostTestCase):
    """Lists of files of several remotes, one of which is a bomb."""

    def serve(self) -> GitFiles:
        """Two remotes; the first has too many files."""
        self.patch(listing, "MOST_ENTRIES", 100)
        bomb, other = self.repo("bomb"), self.repo("other")
        bomb.commit({f"d/{number}": b"" for number in range(101)})
        other.commit({"a": b"1", "d/b": b"2"}, {"l": "a"})
        files = self.files()
        files.show(GitView([self.fetched(bomb), self.fetched(other)]))
        return files

    def test_others(self) -> None:
        """
        T-COST-2: the files of the others are listed, the bomb is named, and no worker is asked for
        it again before some time has gone.
        """
        files = self.serve()
        now = 0.0
        self.patch(files._lists, "_monotonic", lambda: now)
        for _ in range(3):
            found = self.value(files.listing("base"))
            self.assertEqual((found.files, found.dirs), (("a", "d/b", "l"), ("d",)))
            self.assertEqual(found.links, {"l": "a"})
        self.assertEqual(self.asked, ["list"] * 2)
        self.assertIn("its files are missing in lists", self.said[0])
        self.assertIsNotNone(self.value(files.find("base", "d/5")), "of the bomb itself")

        now = lists.AGAIN
        self.value(files.listing("base"))
        self.assertEqual(self.asked, ["list"] * 3)

    def test_dead_worker(self) -> None:
        """A worker that dies over one remote leaves the lists of the others."""
        files = self.serve()
        real = files._lists._work

        def work_or_die(request: Any) -> Any:
            if "bomb" in request["repo"]:
                return maybeDeferred(self.die, RemoteError("WorkerDied", "killed"))
            return real(request)

        files._lists._work = work_or_die

        self.assertEqual(self.value(files.listing("base")).files, ("a", "d/b", "l"))

    def die(self, error: Exception) -> None:
        """Raise it."""
        raise error

    def test_slow(self) -> None:
        """T-COST-2: what cannot be read in time is not listed: others wait for the worker."""
        files = self.serve()
        self.patch(listing, "MOST_ENTRIES", 1000)
        self.patch(listing, "SECONDS", -1.0)

        self.failureResultOf(maybeDeferred(files.listing, "base"), TooMuch)
        self.assertEqual(len(self.said), 2)

    def test_long_paths(self) -> None:
        """
        T-COST-2: a few long names, each below the other, are the beginning of half a million paths:
        what a list may have is counted in characters, of paths and of what links lead to.
        """
        blob, raw = "1" * 40, trees.FILE
        self.patch(trees, "MOST_TEXT", 5000)
        below = b"".join(b"%o %03d\0" % (raw, number) + bytes.fromhex(blob) for number in range(50))
        long = b"40000 " + b"d" * 100 + b"\0" + bytes.fromhex("2" * 40)
        links = b"".join(b"120000 %03d\0" % n + bytes.fromhex("3" * 40) for n in range(50))
        wide = b"".join(b"40000 " + b"%0200d" % n + long[-21:] for n in range(30))
        made = {
            "2" * 40: below, "3" * 40: b"t" * 100, "4" * 40: long, "5" * 40: links, "6" * 40: wide
        }  # fmt: skip
        seen: list[str] = []

        def read(oids: Sequence[str], kind: str, most: int) -> list[bytes]:
            seen.extend(oids)
            return [made[oid] for oid in oids]

        def everything(top: str) -> trees.Everything:
            return trees.everything(top, read, 1000)

        for top in ("4" * 40, "5" * 40, "6" * 40):
            seen.clear()
            self.assertRaisesRegex(ValueError, "more than", everything, top)
        self.assertEqual(seen, ["6" * 40], "what is below is not even read")
        self.patch(trees, "MOST_TEXT", 5400)
        self.assertEqual([len(everything(top * 40).files) for top in "245"], [50, 50, 50])

    def test_aside(self) -> None:
        """
        T-COST-2: a long list, and a large directory, come in a file that a thread reads: no message
        to the reactor is long. Nothing is left over.
        """
        self.patch(listing, "SMALL", 500)
        self.patch(objects, "AT_ONCE", 2000)
        self.patch(unpacking, "LARGE", 2000)
        repo = self.repo()
        paths = [f"{place}/{number:03}" for place in "ab" for number in range(100)]
        repo.commit(
            dict.fromkeys(paths, b"1"), {f"l{number}": "a/" + "x" * number for number in range(9)}
        )
        files = self.files()
        answers: list[Any] = []
        real = files._work

        def work(request: Any) -> Any:
            answers.append(self.value(real(request)))
            return succeed(answers[-1])

        files._work = files._lists._work = work
        served = self.fetched(repo)
        files.show(GitView([served]))

        found = self.value(files.listing("base"))
        self.assertIsNotNone(self.value(files.find("base", "a/050")))

        self.assertEqual(found.files, tuple(sorted([*paths, *found.links])))
        self.assertEqual(found.links["l3"], "a/xxx")
        self.assertLess(max(len(repr(answer)) for answer in answers), 400)
        self.assertEqual(os.listdir(os.path.join(served.folder, "files")), [])


class SizesTests(CostTestCase):
    """Very many large objects."""

    def test_told(self) -> None:
        """A text of sizes is looked up as the map that it was."""
        made = {hashlib.sha1(b"%d" % n).hexdigest(): n << 20 for n in range(300)}
        self.assertIs(sizes.told(made), made)
        self.patch(sizes, "MANY", 100)
        text = sizes.told(made)
        heard = sizes.heard(text)

        self.assertIsInstance(text, bytes)
        self.assertEqual(dict(heard), made)
        self.assertEqual(len(heard), 300)
        for name in ("0" * 40, "f" * 40, "", "0", "x" * 40, "0" * 64):
            self.assertNotIn(name, heard)
            self.assertEqual(heard.get(name, 7), 7)
        longer = {"1" * 64: 1, **made}
        self.assertIs(sizes.told(longer), longer)

    def test_served(self) -> None:
        """
        T-COST-2: however many large objects a repository has, no message to the reactor is a map of
        them. What is served is the same, and a fetch that brings nothing is known for one.
        """
        self.patch(sizes, "MANY", 1)
        repo = self.repo()
        repo.commit({f"large{n}": b"%d" % n * 70_000 for n in range(3)} | {"a": b"1"})
        served = self.fetched(repo)
        files = self.files()
        files.show(GitView([served]))

        self.assertIsInstance(served.repository.large, sizes.Sizes)
        for n in range(3):
            found = files.find("base", f"large{n}")
            assert isinstance(found, GitFile)
            self.assertEqual(found.info.st_size, 70_000)
            self.assertEqual(self.value(files.read(found, 69_999, 9)), b"%d" % n)
        repo.commit({"more": b"7" * 70_000})
        self.assertEqual(len(self.fetched(repo).repository.large), 4)
        state = repository.state_of(served.folder)
        again = work.fetch(fetch_request(served.folder, repo.url, had=[state["at"], 4]))
        self.assertTrue(again["same"])

    def test_linear(self) -> None:
        """T-COST-2: to hear of them costs no more than to receive them."""

        def make(size: int) -> bytes:
            rows = (n.to_bytes(20, "big") + bytes(8) for n in range(size // 28))
            return bytes(msgpack.packb({"large": b"".join(rows)}))

        def act(data: bytes) -> None:
            large = sizes.heard(msgpack.unpackb(data)["large"])
            self.assertIn("0" * 39 + "1", large)

        assert_linear(
            self, "large objects", make, act, (4096, 65_536, 1 << 20, 16 << 20), GIT.per_kib
        )


def rows(size: int, name: bytes = b"%07d", mode: bytes = b"100644") -> bytes:
    """The raw form of a tree of about so many bytes."""
    row = len(mode) + 2 + len(name % 0) + 20
    return b"".join(mode + b" " + name % n + b"\0" + b"\1" * 20 for n in range(size // row))


def backwards(raw: bytes, row: int = 35) -> bytes:
    """The same rows, the last one first."""
    return b"".join(reversed([raw[at : at + row] for at in range(0, len(raw), row)]))


SHAPES: dict[str, Callable[[int], bytes]] = {
    "names": rows,
    "one letter": lambda size: (b"100644 a\0" + b"\1" * 20) * (size // 29),
    "no names": lambda size: (b"100644 \0" + b"\1" * 20) * (size // 28),
    "dots": lambda size: (b"40000 ..\0" + b"\1" * 20) * (size // 29),
    "backwards": lambda size: backwards(rows(size)),
    "no ends": lambda size: b"1 " * (size // 2),
    "modes alone": lambda size: b"1" * size,
    "one name": lambda size: b"100644 " + b"n" * (size - 28) + b"\0" + b"\1" * 20,
    "truncated": lambda size: rows(size)[:-3],
}
SIZES = (16 * 1024, 256 * 1024)


class LinearTests(CostTestCase):
    """Whatever a repository, or a request, has: what it costs is proportional to its length."""

    def test_trees(self) -> None:
        """T-COST-2: to parse a directory, and to make a table of it."""
        for name, make in SHAPES.items():

            def act(data: bytes) -> None:
                for parse in (trees.names_of, trees.table_of):
                    with contextlib.suppress(ValueError):
                        parse(data)

            assert_linear(self, name, make, act, SIZES)

    def test_search(self) -> None:
        """T-COST-2: to find a hundred names in a table takes no time that depends on its size."""
        for name in ("names", "one letter", "backwards"):
            costs = []
            for size in (1024, 1 << 20):
                data = SHAPES[name](size)
                table = trees.Table(data, trees.table_of(data))
                wanted = [f"{n:07}" for n in range(100)]
                costs.append(least(lambda table=table, wanted=wanted: [*map(table.get, wanted)]))  # type: ignore[misc]
            self.assertLess(exponent(costs[0], costs[1], 1024), 0.4, name)

    def test_chains(self) -> None:
        """T-COST-2: to sum up chains of differences, whichever way they run."""

        def forth(size: int) -> array[int]:
            return array("q", [n - 1 for n in range(size // 8)])

        def back(size: int) -> array[int]:
            return array("q", [*range(1, size // 8), -1])

        def act(bases: array[int]) -> None:
            unpacking._taken(array("Q", [1] * len(bases)), bases)

        for make in (forth, back):
            assert_linear(self, make.__name__, make, act, (1024, 16_384, 262_144, 1 << 20))

    def test_requests(self) -> None:
        """T-COST-1: to look a path up, up to the longest that is looked at, and beyond."""
        repo = self.repo()
        repo.commit({"a/b": b"1"}, {"l": "a"})
        server = FileServer([self.serving(repo)], self.config(), maybeDeferred)
        shapes: dict[str, Callable[[int], str]] = {
            "deep": lambda size: "a/" * (size // 2),
            "slashes": lambda size: "a" + "/" * size,
            "one name": lambda size: "x" * size,
            "words": lambda size: "a?" + "a=b&" * (size // 4),
            "environment": lambda size: "a/b?saltenv=" + "f" * size,
            "number": lambda size: "a/b?index=" + "9" * size,
            "through links": lambda size: "l/" * (size // 2),
            "wide": lambda size: "\U0001f600" * (size // 4),
            "halves": lambda size: "\ud800/" * (size // 4),
        }
        for name, make in shapes.items():
            assert_linear(self, name, make, server.file_find, (1000, 16_000), FILES.per_kib)

    def config(self) -> MasterConfig:
        """Of a master."""
        return MasterConfig(cachedir=self.path("cache"), hash_type="md5")

    def test_rows(self) -> None:
        """What the table of doors says of options is what they are."""
        config = self.config()

        self.assertEqual(config.gitfs_max_size, GIT.request >> 20)
        self.assertEqual(config.gitfs_timeout, GIT.holds)


class TurnTests(CostTestCase):
    """A repository with large directories, one behind the other."""

    def longest(self, size: int) -> tuple[bool, float, int]:
        """
        Whether a link through 24 directories of this size leads anywhere, the longest turn on the
        way in milliseconds, and how many turns there were.
        """
        repo = self.repo(f"of{size}")
        blob, below = repo.blob(b"1"), rows(size, mode=b"160000")
        inside = repo.tree(("100644", b"f", blob))
        names = [f"d{number:02}" for number in range(24)]
        ends = (
            b"40000 z\0" + bytes.fromhex(inside) + b"100644 zz%d\0" % n + bytes.fromhex(blob)
            for n in range(24)
        )
        made = zip(names, [pack_tree(repo, below + end) for end in ends], strict=True)
        way = "/".join(f"{name}/z/../.." for name in names)
        link = repo.blob(f"{way}/end".encode())
        own = (("40000", name.encode(), oid) for name, oid in made)
        repo.branch("master", repo.tree(("100644", b"end", blob), ("120000", b"link", link), *own))
        files, clock = self.serving(repo), Turned()
        files._run = lambda function, *args: deferLater(clock, 0, function, *args)
        work, waiting = files._work, list[Any]()
        files._work = lambda request: self.later(waiting, request)
        files.find("base", "end")

        answer: Any = clock.measure(lambda: files.find("base", "link"))
        clock.settle()
        while waiting:
            request, asked = waiting.pop(0), waiting.pop(0)
            told = self.value(work(request))
            clock.measure(lambda asked=asked, told=told: asked.callback(told))  # type: ignore[misc]
            clock.settle()

        self.assertLess(self.reads(files), 60)
        return self.value(answer) is not None, clock.longest * 1000, clock.turns

    def test_turns(self) -> None:
        """
        T-COST-2: no turn of the reactor is longer than it may be, whether directories are read
        there or elsewhere.
        """
        # What runs beside takes the caches of the processor
        found = [
            min((self.longest(size + again) for again in range(2)), key=lambda each: each[1])
            for size in (objects.AT_ONCE // 8, objects.AT_ONCE)
        ]

        self.assertEqual([each[0] for each in found], [True, False])
        for _, longest, turns in found:
            self.assertLess(longest, GIT.turn * slack())
            self.assertGreater(turns, 3)
