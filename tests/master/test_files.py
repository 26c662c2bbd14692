"""
The file server's commands: judged by what stock masters answered, and at their edges.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from types import SimpleNamespace
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, maybeDeferred

from saltwisted.errors import StoreError, TooMuch
from saltwisted.master import fileserver
from saltwisted.master.chunks import Chunks
from saltwisted.master.fileserver import FileServer, parse_path
from saltwisted.master.handlers import files as handlers
from saltwisted.master.replies import Chunk
from saltwisted.master.seams import LonePins
from saltwisted.stores.roots.served import Roots
from saltwisted.wire.commands import parse_command
from saltwisted.wire.msgpack import pack, unpack
from tests.stores.support import FolderTestCase
from tests.wire.recorded import VERSIONS, plain, recorded


@define
class Config:
    """Salt's defaults, as far as files go."""

    cachedir: str
    pki_dir: str = ""
    cluster_pki_dir: str | None = None
    file_buffer_size: int = 1048576
    file_recv: bool = False
    file_recv_max_size: int = 100
    fileserver_followsymlinks: bool = True
    fileserver_ignoresymlinks: bool = False
    file_ignore_regex: Any = ()
    file_ignore_glob: Any = ()
    fileserver_list_cache_time: int = 20
    hash_type: str = "sha256"


class FilesTestCase(FolderTestCase):
    """A file server over the folder C{srv}, and its commands by name."""

    def serve(self, file_roots: dict[str, Any] | None = None, **options: Any) -> FileServer:
        """A file server; also what the commands of this test talk to."""
        config = Config(self.path("cache"), self.path("pki"), **options)
        self.chunks = Chunks(2)
        roots = Roots(file_roots or {"base": [self.path("srv")]}, maybeDeferred, config)
        self.server = FileServer([roots], config, maybeDeferred)
        return self.server

    def ask(self, cmd: str, who: str = "web1", **fields: Any) -> Any:
        """A command, as it would be answered on the wire."""
        command = parse_command({"cmd": cmd, "id": who, **fields})
        handler = getattr(handlers, {"_file_envs": "envs"}.get(cmd, cmd.lstrip("_")))
        value = handler(self.context(), who, command)
        if isinstance(value, Deferred):
            value = self.successResultOf(value)
        if isinstance(value, Chunk):
            value.sealed()
            value = {**value.rest, "data": value.data}
        return unpack(pack(value))

    def context(self) -> Any:
        """What the commands work with."""
        seams = SimpleNamespace(pins=LonePins(self.server))
        return SimpleNamespace(files=self.server, seams=seams, chunks=self.chunks)


class RecordedTests(FilesTestCase):
    """The answers of stock masters to recorded requests."""

    def test_recorded(self) -> None:
        """For each recorded request of a file command our answer is that of the stock master."""
        commands = {
            "_file_envs",
            "_file_list",
            "_file_list_emptydirs",
            "_dir_list",
            "_symlink_list",
            "_file_hash",
            "_serve_file",
        }
        big = "".join(f"line {number:04} of the big sample file\n" for number in range(160))
        self.write("srv/hello.txt", "hello from the file server\n")
        self.write("srv/big.txt", big)
        self.write("srv/sub/a.txt")
        self.write("srv/top.sls")
        self.write("srv/demo.sls")
        os.symlink("hello.txt", self.path("srv/link.txt"))
        self.serve(file_buffer_size=4096)
        seen = set()
        for version in VERSIONS:
            for name in ("serve_file", "requests"):
                for case in recorded(f"{name}_{version}")["cases"]:
                    load = case.get("expect_request_load", {})
                    if load.get("cmd") not in commands or "expect_reply" not in case:
                        continue
                    fields = {k: v for k, v in load.items() if k not in ("cmd", "id", "nonce")}
                    answer = plain(self.ask(load["cmd"], **fields))
                    expected = case["expect_reply"]
                    if isinstance(expected, dict) and "gzip" in expected:
                        # Another compressor's bytes may differ, what is in them may not
                        for each in (answer, expected):
                            packed = bytes.fromhex(each["data"]["$hex"])
                            each["data"] = gzip.decompress(packed).decode()
                    self.assertEqual(answer, expected, (version, case["name"]))
                    seen.add(load["cmd"])
        self.assertEqual(seen, commands)


class Later:
    """A source whose answers the test gives."""

    name = "later"

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []

    def find(self, saltenv: str, path: str = "", index: int | None = None) -> Deferred[Any]:
        """Asked."""
        self.waiting.append(Deferred())
        return self.waiting[-1]

    listing: Any = find

    def hash(self, found: Any) -> str:
        """Of anything."""
        return "hashed"

    def read(self, found: Any, start: int, size: int) -> bytes:
        """Of anything."""
        return b"content"[start : start + size]


class LaterTests(FilesTestCase):
    """A source that does not know at once whether it has a file (T-COST-2)."""

    def setUp(self) -> None:
        """It comes first, and others have files of their own."""
        super().setUp()
        self.write("srv/own", "other")
        server = self.serve()
        self.source = Later()
        server._sources = {"later": self.source, **server._sources}  # type: ignore[dict-item]

    def answers(self, path: str, found: Any) -> list[Any]:
        """To each command about a file, when the source has answered; before, it has none."""
        server, place = self.server, self.chunks.place()
        asked: list[Any] = [
            server.file_find(path),
            server.file_hash(path),
            server.file_hash_and_stat(path),
            server.serve_file(path, "base", 0, None, place),
        ]
        for each in asked:
            self.assertNoResult(each)
        while self.source.waiting:
            self.source.waiting.pop(0).callback(found)
        return [self.successResultOf(each) for each in asked]

    def test_has(self) -> None:
        """Who asks is answered when it is known."""
        numbers = os.stat_result(range(10))
        found = SimpleNamespace(full="/x", rel="x", info=numbers, back="later")
        hashed = {"hash_type": "sha256", "hsum": "hashed"}

        self.assertEqual(
            self.answers("x", found),
            [
                {"path": "/x", "rel": "x", "stat": list(range(10)), "back": "later"},
                hashed,
                [hashed, list(range(10))],
                {"data": b"content", "dest": "x"},
            ],
        )

    def test_has_not(self) -> None:
        """If it is not there, the next source is asked; the last one has nothing either."""
        described, hashed, both, chunk = self.answers("own", None)
        self.assertEqual((described["rel"], described["back"]), ("own", "roots"))
        self.assertEqual(hashed["hsum"], hashlib.sha256(b"other").hexdigest())
        self.assertEqual((both[0], len(both[1])), (hashed, 10))
        self.assertEqual(chunk, {"data": b"other", "dest": "own"})

        nothing = [{"path": "", "rel": ""}, "", ["", None], {"data": b"", "dest": ""}]
        self.assertEqual(self.answers("none", None), nothing)

    def test_too_much(self) -> None:
        """T-COST-2: if it has too much to be listed, the others are listed, if there are any."""
        answers: list[Any] = [self.server.list_now("files", env, "") for env in ("base", "dev")]
        for each in self.source.waiting:
            each.errback(TooMuch("bomb"))

        self.assertEqual(self.successResultOf(answers[0]), ["own"])
        self.failureResultOf(answers[1], TooMuch)
        other: Any = self.server.list_now("files", "base", "")
        self.source.waiting[-1].errback(StoreError("the disk"))
        self.failureResultOf(other, StoreError)

    def test_too_much_at_once(self) -> None:
        """The same if it knows that already."""

        def bomb(env: str) -> Any:
            raise TooMuch("bomb")

        self.source.listing = bomb

        answer: Any = self.server.list_now("files", "base", "")

        self.assertEqual(self.successResultOf(answer), ["own"])
        self.assertRaises(TooMuch, self.server.list_now, "files", "dev", "")


class FileTests(FilesTestCase):
    """One file."""

    def test_chunks(self) -> None:
        """Chunks have C{file_buffer_size} bytes; the empty one at the end still names the file."""
        content = os.urandom(250_000)
        self.write("srv/dir/x", content)
        self.serve(file_buffer_size=100_000)

        received = b""
        while True:
            reply = self.ask("_serve_file", path="dir/x", saltenv="base", loc=len(received))
            self.assertEqual(reply["dest"], "dir/x")
            if not reply["data"]:
                break
            received += reply["data"]
        self.assertEqual(received, content)

    def later(self, path: str) -> Deferred[Any]:
        """The answer to a request for the beginning of a file, when there is a place for it."""
        command = parse_command({"cmd": "_serve_file", "id": "web1", "path": path, "loc": 0})
        return maybeDeferred(handlers.serve_file, self.context(), "web1", command)

    def test_places(self) -> None:
        """
        No more large chunks are in memory than there are places; the other requests wait in their
        order, and small files are served meanwhile. A chunk that is sealed makes room for the next.
        """
        self.write("srv/big", os.urandom(100_000))
        self.write("srv/small", "x")
        self.serve()

        one, two, three, four, five = (self.later("big") for _ in range(5))

        first, second = self.successResultOf(one), self.successResultOf(two)
        self.assertNoResult(three)
        self.assertEqual(self.ask("_serve_file", path="small", loc=0)["data"], "x")
        first.sealed()
        first.sealed()
        third = self.successResultOf(three)
        self.assertNoResult(four)
        for each in (second, third):
            each.sealed()
        for waiting in (four, five):
            self.successResultOf(waiting).sealed()
        self.assertEqual(self.chunks.held, 0)

    def test_places_of_failures(self) -> None:
        """Who waited for a file that is gone, or cannot be read, holds no place; be they many."""
        self.write("srv/big", os.urandom(100_000))
        self.serve()
        held = [self.successResultOf(self.later("big")) for _ in range(2)]
        waiting = [self.later("big") for _ in range(3000)]
        os.unlink(self.path("srv/big"))

        for each in held:
            each.sealed()

        for each in waiting:
            self.assertEqual(self.successResultOf(each), {"data": b"", "dest": ""})
        self.assertEqual(self.chunks.held, 0)

    def test_empty_and_missing(self) -> None:
        """An empty file has a C{dest}, a missing one has none."""
        self.write("srv/empty")
        self.serve()

        self.assertEqual(
            self.ask("_serve_file", path="empty", loc=0), {"data": "", "dest": "empty"}
        )
        self.assertEqual(self.ask("_serve_file", path="none", loc=0), {"data": "", "dest": ""})
        self.assertEqual(self.ask("_serve_file", path="empty", loc=-5)["data"], "")

    def test_gzip(self) -> None:
        """A chunk is compressed when asked for, also by levels that do not exist; an end is not."""
        self.write("srv/x", b"a" * 5000)
        self.serve()

        for level in (1, 9, 99, -1):
            reply = self.ask("_serve_file", path="x", loc=0, gzip=level)
            self.assertEqual(gzip.decompress(reply["data"]), b"a" * 5000)
            self.assertEqual(reply["gzip"], level)
        self.assertNotIn("gzip", self.ask("_serve_file", path="x", loc=5000, gzip=5))
        self.assertNotIn("gzip", self.ask("_serve_file", path="x", loc=0, gzip=0))

    def test_hash_and_stat(self) -> None:
        """The hash with its type, and the ten numbers of stat."""
        path = self.write("srv/x", b"1", mode=0o640)
        self.serve(hash_type="sha512")
        hashed = {"hash_type": "sha512", "hsum": hashlib.sha512(b"1").hexdigest()}

        self.assertEqual(self.ask("_file_hash", path="x"), hashed)
        self.assertEqual(self.ask("_file_hash_and_stat", path="x"), [hashed, list(os.stat(path))])
        self.assertEqual(self.ask("_file_hash_and_stat", path="y"), ["", None])
        self.assertEqual(self.ask("_file_hash", path="y"), "")

    def test_find(self) -> None:
        """Where a file is, as Salt describes it."""
        path = self.write("srv/x")
        self.serve()

        self.assertEqual(
            self.ask("_file_find", path="./x"),
            {"path": path, "rel": "x", "stat": list(os.stat(path)), "back": "roots"},
        )
        self.assertEqual(self.ask("_file_find", path="y"), {"path": "", "rel": ""})

    def test_paths(self) -> None:
        """A path may name its environment, and C{|} in front takes it as it stands."""
        for path, expected in (
            ("a/b", ("a/b", "base", None)),
            ("salt://a/b", ("a/b", "base", None)),
            ("a?saltenv=dev", ("a", "dev", None)),
            ("a?x&saltenv=dev&index=1", ("a", "dev", 1)),
            ("a?index=one", ("a", "base", -1)),
            ("a?env=dev", ("a", "base", None)),
            ("|a?saltenv=dev", ("a?saltenv=dev", "base", None)),
        ):
            self.assertEqual(parse_path(path, "base"), expected, path)

    def test_T_PATH_4(self) -> None:
        """T-PATH-4: by no command does a crafted path or environment read outside the roots."""
        self.write("srv/x", b"public")
        self.write("secret", b"secret")
        self.write("envs/prod/y", b"public")
        self.serve({"base": [self.path("srv")], "__env__": [self.path("envs/__env__")]})
        absolute = self.path("secret")
        for path in (
            "../secret",
            "x/../../secret",
            "|../secret",
            "||../secret",
            "|" + absolute,
            "salt://../secret",
            "salt://|../secret",
            absolute,
            "/" + absolute,
            "file://" + absolute,
            "../secret?saltenv=base",
            "secret?saltenv=..",
            "secret?saltenv=../",
            "secret?saltenv=.",
            "y?saltenv=../envs/prod",
            "secret?saltenv=/",
            "x\0/../../secret",
            "..\\secret",
            "%2e%2e/secret",
            "",
        ):
            for cmd, missing in (
                ("_file_hash", ""),
                ("_file_hash_and_stat", ["", None]),
                ("_file_find", {"path": "", "rel": ""}),
                ("_serve_file", {"data": "", "dest": ""}),
            ):
                self.assertEqual(self.ask(cmd, path=path, loc=0), missing, (cmd, path))
        for env in ("..", "../", "/", "a/../..", "\0", "", None):
            self.assertEqual(self.ask("_file_list", saltenv=env, prefix=""), [], env)
            self.assertEqual(self.ask("_serve_file", path="secret", saltenv=env, loc=0)["dest"], "")

    def test_unreadable(self) -> None:
        """A file that vanishes between two looks is not there; nothing escapes."""
        self.write("srv/x", b"1")
        server = self.serve()
        found = server.find("x")
        os.unlink(self.path("srv/x"))
        server.find = lambda path, saltenv="base": found  # type: ignore[method-assign]

        self.assertEqual(self.ask("_serve_file", path="x", loc=0), {"data": "", "dest": ""})
        self.assertEqual(self.ask("_file_hash", path="x"), "")


class ListTests(FilesTestCase):
    """Lists."""

    def test_prefix(self) -> None:
        """A prefix is text at the beginning of the path, without slashes around it."""
        for name in ("web/a", "web/b/c", "webs", "db/x"):
            self.write("srv/" + name)
        os.makedirs(self.path("srv/web/empty"))
        self.serve()

        self.assertEqual(self.ask("_file_list", prefix="/web/"), ["web/a", "web/b/c", "webs"])
        self.assertEqual(self.ask("_dir_list", prefix="web"), ["web", "web/b", "web/empty"])
        self.assertEqual(self.ask("_file_list_emptydirs"), ["web/empty"])
        self.assertEqual(self.ask("_symlink_list", prefix="x"), {})
        self.assertEqual(self.ask("_file_list", saltenv="none"), [])

    def test_many_links(self) -> None:
        """T-COST-2: very many links are looked at and packed in the pool, and are the same."""
        self.write("srv/there")
        for number in range(9):
            os.symlink("there", self.path(f"srv/{number // 5}{number}"))
        server = self.serve()
        few = self.successResultOf(maybeDeferred(server.links_now, "base", "1"))
        used: list[Any] = []

        def run(function: Any, *args: Any) -> Any:
            used.append(function)
            return maybeDeferred(function, *args)

        self.patch(fileserver, "AT_ONCE", 8)
        self.patch(server, "_run", run)
        many = self.successResultOf(maybeDeferred(server.links_now, "base", "1"))
        packed = self.successResultOf(maybeDeferred(server.links_packed, "base", "1"))

        self.assertEqual([*few], ["15", "16", "17", "18"])
        self.assertEqual((many, unpack(packed.packed)), (few, few))
        self.assertEqual(len(used), 2)

    def test_runners(self) -> None:
        """The same lists for runners, not packed."""
        self.write("srv/a/x")
        server = self.serve()
        found = [
            self.successResultOf(maybeDeferred(server.list_now, form, "base", ""))
            for form in ("files", "dirs", "empty_dirs")
        ]

        self.assertEqual(found, [["a/x"], ["a"], []])
        self.assertEqual(self.successResultOf(maybeDeferred(server.links_now, "base", "")), {})


class ReceiveTests(FilesTestCase):
    """_file_recv."""

    def push(self, path: Any, data: bytes = b"data", loc: int = 0) -> Any:
        """Push a chunk as web1."""
        return self.ask("_file_recv", path=path, data=data, loc=loc)

    def test_T_PATH_5_off(self) -> None:
        """T-PATH-5: pushing is refused unless the site turned it on."""
        self.serve()

        self.assertFalse(self.push(["x"]))
        self.assertFalse(os.path.exists(self.path("cache")))

    def test_chunks(self) -> None:
        """Chunks make the file, a first chunk begins it again, and nobody else may read it."""
        self.umask(0)
        self.serve(file_recv=True)

        self.assertTrue(self.push(["dir", "x"], b"older and longer"))
        self.assertTrue(self.push(["dir", "x"], b"one "))
        self.assertTrue(self.push(["dir", "x"], b"two", loc=4))

        with open(self.path("cache/minions/web1/files/dir/x"), "rb") as file:
            self.assertEqual(file.read(), b"one two")
        modes = self.modes()
        self.assertEqual(modes["cache/minions/web1/files/dir/x"], 0o600)
        self.assertEqual(modes["cache/minions/web1/files"], 0o700)

    def test_T_PATH_5_paths(self) -> None:
        """T-PATH-5: nothing is written outside the minion's own directory."""
        self.serve(file_recv=True)
        self.push(["x"])
        before = self.modes()

        for path in (
            ["..", "x"],
            ["../../web2/files/x"],
            ["a", "..", "..", "..", "x"],
            ["/etc/x"],
            ["", "..", "x"],
            ["a\0b"],
            ["x" * 300],
            ["a"] * 100,
            [],
            [""],
            ["."],
            [5],
            [["x"]],
        ):
            self.assertFalse(self.push(path), path)
        self.assertEqual(self.modes(), before)

    def test_T_PATH_5_links(self) -> None:
        """T-PATH-5: no link on the way is followed, neither a directory's nor the file's."""
        self.serve(file_recv=True)
        self.push(["dir", "x"])
        top = self.path("cache/minions/web1/files")
        os.symlink(self.folder, os.path.join(top, "out"))
        os.symlink(self.path("victim"), os.path.join(top, "file"))

        self.assertFalse(self.push(["out", "x"]))
        self.assertFalse(self.push(["file"]))
        self.assertEqual(sorted(os.listdir(self.folder)), ["cache"])

    def test_T_PATH_5_size(self) -> None:
        """T-PATH-5: a file larger than C{file_recv_max_size} MB is refused, wherever it starts."""
        self.serve(file_recv=True, file_recv_max_size=1)

        self.assertTrue(self.push(["x"], b"x" * 10, loc=(1 << 20) - 10))
        self.assertFalse(self.push(["x"], b"x" * 10, loc=(1 << 20) - 9))
        self.assertFalse(self.push(["x"], b"x", loc=-1))
