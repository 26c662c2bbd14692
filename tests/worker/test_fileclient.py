"""
The file client, on local roots and on a pretended master, and its way to the web.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import logging
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.stores.roots.tree import list_roots
from saltwisted.worker import fileclient, filequestions
from saltwisted.worker.exceptions import CommandExecutionError, MinionError
from saltwisted.worker.fetch import redact
from saltwisted.worker.filecache import FileCache, Replacement
from saltwisted.worker.fileclient import FileClient, wanted
from saltwisted.worker.filequestions import create_url, download, parse_url
from saltwisted.worker.localroots import LocalRoots
from saltwisted.worker.renderfilters import list_files
from saltwisted.worker.renderhost import RootsHost


class PretendedMaster:
    """A master that serves files from memory, in small chunks."""

    def __init__(self, files: dict[str, bytes], chunk: int = 4) -> None:
        self.files = files
        self.chunk = chunk
        self.asked: list[dict[str, Any]] = []
        self.wrong = 0

    def request(self, load: dict[str, Any], timeout: float | None = None) -> Any:
        """Answer a file request."""
        self.asked.append(load)
        data = self.files.get(load.get("path", ""))
        match load["cmd"]:
            case "_file_list":
                return [name.encode() if "b" in name else name for name in sorted(self.files)]
            case "_file_list_emptydirs":
                return ["dir/empty"]
            case "_file_hash":
                if data is None:
                    return ""
                return {"hsum": hashlib.sha256(data).hexdigest(), "hash_type": "sha256"}
            case "_serve_file":
                if data is None:
                    return {"data": "", "dest": ""}
                part = data[load["loc"] : load["loc"] + self.chunk]
                if part and self.wrong:
                    self.wrong -= 1
                    part = b"!" * len(part)
                answer: dict[str, Any] = {"data": part, "dest": load["path"]}
                if load.get("gzip") and part:
                    answer.update(data=gzip.compress(part), gzip=load["gzip"])
                return answer
        return {}

    def count(self, cmd: str) -> int:
        """How often a command was asked."""
        return sum(1 for load in self.asked if load["cmd"] == cmd)


class Case(SynchronousTestCase):
    """A directory with a cache, roots and a target."""

    def setUp(self) -> None:
        """Make it, and keep the log quiet."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.base = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.root = os.path.join(self.base, "root")
        self.out = os.path.join(self.base, "out")
        os.makedirs(self.root)
        os.makedirs(self.out)
        self.cache = os.path.join(self.base, "cache")
        self.opts: dict[str, Any] = {
            "id": "m1",
            "cachedir": self.cache,
            "file_roots": {"base": [self.root], "dev": [os.path.join(self.base, "dev")]},
            "file_client": "local",
            "hash_type": "sha256",
        }

    def put(self, name: str, data: bytes) -> str:
        """A file in the root."""
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data)
        return path

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with open(path, "rb") as stream:
            return stream.read()

    def local(self, **opts: Any) -> FileClient:
        """A client on the roots."""
        return fileclient.file_client({**self.opts, **opts}, None)  # type: ignore[arg-type]

    def remote(self, files: dict[str, bytes], **how: Any) -> tuple[FileClient, PretendedMaster]:
        """A client of a pretended master."""
        master = PretendedMaster(files, **how)
        return FileClient({**self.opts, "file_client": "remote"}, master), master


class CopyTests(Case):
    """From the master to a path or the cache."""

    def test_to_cache(self) -> None:
        """A file goes to the cache in chunks, readable by nobody else, and is not fetched twice."""
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        client, master = self.remote({"a/b.txt": b"hello world"})

        path = client.cache_file("salt://a/b.txt")
        again = client.cache_file("salt://a/b.txt")

        self.assertEqual(path, os.path.join(self.cache, "files", "base", "a", "b.txt"))
        self.assertEqual((again, self.read(path)), (path, b"hello world"))
        self.assertEqual(master.count("_serve_file"), 4)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        folder = path
        while folder != self.cache:
            folder = os.path.dirname(folder)
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700, folder)
        self.assertEqual(os.listdir(os.path.dirname(path)), ["b.txt"])

    def test_changed(self) -> None:
        """A file that has changed on the master replaces the cached copy."""
        client, master = self.remote({"a": b"old"})
        path = client.cache_file("salt://a")
        master.files["a"] = b"new content"

        self.assertEqual(self.read(client.cache_file("salt://a")), b"new content")
        self.assertEqual(client.is_cached("salt://a"), path)

    def test_sizes(self) -> None:
        """Empty files, one byte, exact multiples of the chunk and gzip all arrive whole."""
        for size in (0, 1, 3, 4, 5, 8, 400):
            for level in (None, 5):
                data = os.urandom(size)
                client, _ = self.remote({"f": data})
                target = os.path.join(self.out, f"f{size}{level}")
                self.assertEqual(client.get_file("salt://f", target, gzip=level), target)
                self.assertEqual(self.read(target), data)

    def test_asks_ahead(self) -> None:
        """Of a large file several chunks are asked for at once, if the master's link can."""
        data = os.urandom(10)
        client, master = self.remote({"f": data})
        most: list[int] = []

        def requests(loads: Iterator[dict[str, Any]], window: int) -> Iterator[Any]:
            most.append(window)
            for load in loads:
                yield master.request(load)

        master.requests = requests  # type: ignore[attr-defined]
        self.patch(filequestions, "LARGE", 4)
        target = os.path.join(self.out, "f")

        client.get_file("salt://f", target)

        self.assertEqual((self.read(target), most), (data, [filequestions.WINDOW]))

    def test_missing(self) -> None:
        """A file that the master has not is false, and leaves nothing behind."""
        client, _ = self.remote({})

        self.assertIs(client.get_file("salt://no", os.path.join(self.out, "x")), False)
        self.assertIs(client.cache_file("salt://no"), False)
        self.assertEqual(os.listdir(self.out), [])

    def test_garbled(self) -> None:
        """What does not match the announced digest is fetched again, and never put in place."""
        client, master = self.remote({"f": b"abcdefgh"})
        target = os.path.join(self.out, "f")
        master.wrong = 1

        client.get_file("salt://f", target)
        self.assertEqual(self.read(target), b"abcdefgh")

        master.files["f"] = b"12345678"
        master.wrong = 1000
        self.assertRaises(MinionError, client.get_file, "salt://f", target)
        self.assertEqual(self.read(target), b"abcdefgh")
        self.assertEqual(os.listdir(self.out), ["f"])

    def test_target(self) -> None:
        """A directory as target gets the file's name; a missing one is made if asked for."""
        client, _ = self.remote({"d/f": b"x"})

        self.assertEqual(client.get_file("salt://d/f", self.out), os.path.join(self.out, "f"))
        deep = os.path.join(self.out, "p", "q")
        self.assertIs(client.get_file("salt://d/f", deep), False)
        self.assertEqual(client.get_file("salt://d/f", deep, makedirs=True), deep)

    def test_keeps_mode(self) -> None:
        """A file that is replaced keeps its mode, and a link to it stays a link."""
        client, _ = self.remote({"f": b"new"})
        target, link = os.path.join(self.out, "f"), os.path.join(self.out, "link")
        with open(target, "wb") as stream:
            stream.write(b"old")
        os.chmod(target, 0o640)
        os.symlink(target, link)

        client.get_file("salt://f", link)

        self.assertTrue(os.path.islink(link))
        self.assertEqual(self.read(target), b"new")
        self.assertEqual(stat.S_IMODE(os.stat(target).st_mode), 0o640)

    def test_environment(self) -> None:
        """The environment in an address wins over the argument."""
        client, master = self.remote({"f": b"x"})

        path = client.cache_file("salt://f?saltenv=dev", "base")

        self.assertEqual(path, os.path.join(self.cache, "files", "dev", "f"))
        self.assertEqual({load["saltenv"] for load in master.asked}, {"dev"})

    def test_directory(self) -> None:
        """A directory is copied with its empty directories, and nothing that only begins alike."""
        client, _ = self.remote({"top/dir/b": b"1", "top/dir/c/d": b"2", "top/dirx": b"3"})
        client._source.files["dir"] = b""  # type: ignore[attr-defined]

        made = client.get_dir("salt://top/dir", self.out)

        self.assertEqual(made, [os.path.join(self.out, "dir/b"), os.path.join(self.out, "dir/c/d")])
        self.assertEqual(client.get_dir("salt://dir", self.out), [f"{self.out}/dir/empty"])

    def test_patterns(self) -> None:
        """Patterns for what to cache are globs, or regular expressions after C{E@}."""
        client, _ = self.remote({"d/a.txt": b"", "d/b.conf": b"", "d/c.conf": b"", "e": b""})

        names = [os.path.basename(p) for p in client.cache_dir("salt://d", include_pat="*.conf")]
        self.assertEqual(names, ["b.conf", "c.conf"])
        self.assertTrue(wanted("x/y.txt", include="E@y\\.", exclude=["*.conf"]))
        self.assertFalse(wanted("x/y.txt", exclude=["*.conf", "E@txt$"]))

    def test_states(self) -> None:
        """An sls is found as a file or as a directory with init.sls."""
        client, _ = self.remote({"web/init.sls": b"a", "db.sls": b"b", "x.txt": b""})

        self.assertEqual(client.get_state("web", "base")["source"], "salt://web/init.sls")
        self.assertEqual(self.read(client.get_state("db", "base")["dest"]), b"b")
        self.assertEqual(client.get_state("no", "base"), {})
        self.assertEqual(client.list_states("base"), ["db", "web"])

    def test_nonsense(self) -> None:
        """An answer that makes no sense is an error and no file."""
        client, master = self.remote({"f": b"x"})
        honest = master.request
        master.request = lambda load, timeout=None: (  # type: ignore[method-assign]
            honest(load) if load["cmd"] == "_file_hash" else "what?"
        )

        self.assertRaises(MinionError, client.get_file, "salt://f", os.path.join(self.out, "f"))
        self.assertEqual(os.listdir(self.out), [])


class PathTests(Case):
    """T-PATH-3: names from outside stay inside the cache."""

    def test_t_path_3(self) -> None:
        """Paths, environments and addresses with traversal never leave the cache."""
        evil = {"../../../../evil": b"x", "/etc/evil": b"x", "a/../../../evil": b"x"}
        client, _ = self.remote(evil)
        for name in evil:
            for env in ("base", "../../..", "..", ".", "", "a/../../..", "\0"):
                path = client.get_file(create_url(name), "", saltenv=env)
                if path:
                    self.assertTrue(os.path.realpath(path).startswith(self.cache + "/files/"), path)
                client.is_cached(create_url(name), env)
        for url in (
            "http://h/../../../../../../etc/passwd",
            "http://h/%2e%2e/x",
            "http://../../x",
            "http://../x?q=../../../../y",
            "http://h/a/../../../../b",
        ):
            for env in ("base", "../.."):
                place = client.cache_dest(url, env)
                if place != "Invalid path":
                    self.assertTrue(place.startswith(self.cache + "/extrn_files/"), place)
        found = [
            os.path.join(folder, name) for folder, _, names in os.walk(self.base) for name in names
        ]
        self.assertEqual([path for path in found if not path.startswith(self.cache)], [])

    def test_directory_list_with_traversal(self) -> None:
        """A master's list of files cannot make get_dir write outside of its target."""
        client, _ = self.remote({"d/../../../evil": b"x", "d/fine": b"y"})

        made = client.get_dir("salt://d", self.out)

        self.assertEqual(made, [os.path.join(self.out, "d/fine")])

    def test_t_path_4(self) -> None:
        """Local roots give nothing outside of them: traversal, absolute paths, odd environments."""
        with open(os.path.join(self.base, "secret"), "w") as stream:
            stream.write("s")
        self.put("ok", b"fine")
        client = self.local()
        for path in (
            "../secret",
            "/../secret",
            "x/../../secret",
            "|../secret",
            self.base + "/secret",
            "ok/../../secret",
            "\0",
        ):
            self.assertEqual(client.hash_file(create_url(path)), "", path)
        for env in ("nope", "../..", "base/.."):
            self.assertEqual(client.hash_file("salt://ok", env), "", env)
        self.assertTrue(client.hash_file("salt://ok"))

    def test_links_out_of_roots(self) -> None:
        """Without C{fileserver_followsymlinks} a link out of the root is not found."""
        with open(os.path.join(self.base, "outside"), "w") as stream:
            stream.write("s")
        os.symlink(os.path.join(self.base, "outside"), os.path.join(self.root, "link"))

        self.assertEqual(self.local(fileserver_followsymlinks=False).hash_file("salt://link"), "")
        self.assertTrue(self.local().hash_file("salt://link"))


class LocalTests(Case):
    """C{file_client: local}."""

    def test_lists(self) -> None:
        """Files, directories, empty directories and links are listed as a master lists them."""
        self.put("a/b", b"1")
        self.put("c", b"2")
        os.makedirs(os.path.join(self.root, "a", "empty"))
        os.symlink("c", os.path.join(self.root, "link"))
        client = self.local()

        self.assertEqual(client.file_list(), ["a/b", "c", "link"])
        self.assertEqual(client.file_list(prefix="a"), ["a/b"])
        self.assertEqual(client.dir_list(), ["a", "a/empty"])
        self.assertEqual(client.file_list_emptydirs(), ["a/empty"])
        self.assertEqual(client.symlink_list(), {"link": "c"})
        self.assertEqual(client.envs(), ["base", "dev"])

    def test_ignored(self) -> None:
        """Ignored globs and regular expressions hide files; links can be hidden altogether."""
        for name in ("a.swp", "b.txt", "tmp/x"):
            self.put(name, b"1")
        os.symlink("b.txt", os.path.join(self.root, "l"))
        client = self.local(
            file_ignore_glob=["*.swp"], file_ignore_regex=["^tmp"], fileserver_ignoresymlinks=True
        )

        self.assertEqual(client.file_list(), ["b.txt"])
        self.assertIs(client.get_file("salt://a.swp", os.path.join(self.out, "x")), False)

    def test_first_root_wins(self) -> None:
        """Of several roots the first that has a file gives it."""
        second = os.path.join(self.base, "second")
        os.makedirs(second)
        self.put("f", b"first")
        for name in ("f", "g"):
            with open(os.path.join(second, name), "w") as stream:
                stream.write("second")
        client = self.local(file_roots={"base": [self.root, second]})

        self.assertEqual(self.read(client.cache_file("salt://f")), b"first")
        self.assertEqual(self.read(client.cache_file("salt://g")), b"second")

    def test_any_environment(self) -> None:
        """C{__env__} stands for environments that are not named."""
        os.makedirs(os.path.join(self.base, "envs", "qa"))
        with open(os.path.join(self.base, "envs", "qa", "f"), "w") as stream:
            stream.write("qa")
        roots = LocalRoots(self.opts, {"__env__": [os.path.join(self.base, "envs", "__env__")]})

        self.assertIsNotNone(roots.find("f", "qa"))
        self.assertIsNone(roots.find("f", "base"))

    def test_link_loop(self) -> None:
        """A link to its own directory does not make listing endless."""
        self.put("a/f", b"1")
        os.symlink("..", os.path.join(self.root, "a", "up"))

        self.assertEqual(self.local().file_list(), ["a/f"])

    def test_two_ways(self) -> None:
        """
        A directory that two links lead to is listed by every way, as by a master.

        Stock lists it so; only a link to a directory above it is not entered, where stock goes
        on until the system refuses, forty links deep (and has no end where two such links are).
        """
        self.put("a/f", b"1")
        self.put("deep/er/g", b"1")
        os.makedirs(os.path.join(self.root, "none"))
        for link, target in (
            ("aa", "a"),
            ("deep/to_a", "../a"),
            ("deep/er/round", "../../a"),
            ("a/back", "."),
            ("empty", "none"),
            ("broken", "gone"),
        ):
            os.symlink(target, os.path.join(self.root, link))
        local = LocalRoots({}, {"base": [self.root]})
        master, _ = list_roots((self.root,), True, False, lambda path: False, 0.0)

        listed = {
            cmd: local.request({"cmd": cmd})
            for cmd in ("_file_list", "_dir_list", "_file_list_emptydirs", "_symlink_list")
        }

        self.assertEqual(listed["_file_list"], list(master.files))
        self.assertEqual(listed["_dir_list"], list(master.dirs))
        self.assertEqual(listed["_file_list_emptydirs"], list(master.empty_dirs))
        self.assertEqual(listed["_symlink_list"], master.links)
        self.assertLessEqual({"a/f", "aa/f", "deep/to_a/f"}, set(listed["_file_list"]))
        stock = {
            os.path.relpath(os.path.join(here, name), self.root)
            for here, _, names in os.walk(self.root, followlinks=True)
            for name in names
        }
        mine = set(listed["_file_list"])
        self.assertLessEqual(mine, stock)
        self.assertEqual({one for one in stock - mine if "back/" not in one}, set())

    def test_other_walks(self) -> None:
        """The other walks that follow links end, and list by every way too."""
        self.put("a/f.sls", b"1")
        self.put("b/g.sls", b"1")
        for link, target in (("a/to_b", "../b"), ("b/to_a", "../a"), ("again", "a")):
            os.symlink(target, os.path.join(self.root, link))
        wanted = {"a/f", "b/g", "again/f", "a/to_b/g", "b/to_a/f", "again/to_b/g"}

        names = RootsHost({"base": [self.root]}, {}).names("base")
        found = {
            os.path.relpath(one, self.root)[:-4]
            for one in list_files(self.root)
            if one.endswith(".sls")
        }

        self.assertEqual({name.replace(".", "/") for name in names}, wanted)
        self.assertEqual(found, wanted)

    def test_local_cache(self) -> None:
        """A local file can be cached, and the caches are listed."""
        source = self.put("x", b"data")
        client = self.local()

        path = client.cache_local_file(source)
        client.cache_file("salt://x")

        self.assertEqual(path, os.path.join(self.cache, "localfiles", source.lstrip("/")))
        self.assertEqual(len(client.file_local_list()), 2)
        self.assertEqual(client.is_cached(source), path)

    def test_content(self) -> None:
        """Without a target the content is given; paths must be absolute."""
        path = self.put("x", b"data")
        client = self.local()

        self.assertEqual(client.get_url("salt://x", None), b"data")
        self.assertEqual(client.get_url(path, None), b"data")
        self.assertEqual(client.get_url("file://" + path, ""), path)
        self.assertRaises(CommandExecutionError, client.get_url, "relative/x", None)
        self.assertRaises(MinionError, client.get_url, "gopher://x/y", "")

    def test_template(self) -> None:
        """A template is fetched, rendered and put in place; a mistake leaves nothing."""
        self.put("t", b"{{ name }}")

        def render(text: str, engine: str, context: dict[str, Any]) -> str:
            if "name" not in context:
                raise ValueError("undefined")
            return text.replace("{{ name }}", context["name"]) + engine + context["saltenv"]

        client = fileclient.file_client(self.opts, None, render=render)  # type: ignore[arg-type]
        target = os.path.join(self.out, "t")

        self.assertEqual(client.get_template("salt://t", target, name="joe"), target)
        self.assertEqual(self.read(target), b"joejinjabase")
        self.assertEqual(client.get_template("salt://t", target + "2"), "")
        self.assertEqual(os.listdir(self.out), ["t"])

    def test_replacement_fails(self) -> None:
        """An error while writing leaves the old file and no temporary one."""
        path = self.put("f", b"old")

        def fail() -> None:
            with Replacement(path, private=False) as out:
                out.write(b"half")
                raise OSError("disk full")

        self.assertRaises(OSError, fail)
        self.assertEqual(self.read(path), b"old")
        self.assertEqual(os.listdir(self.root), ["f"])

    def test_addresses(self) -> None:
        """C{salt://} addresses carry an environment and may have an empty host."""
        self.assertEqual(parse_url("salt://a/b?saltenv=dev"), ("a/b", "dev"))
        self.assertEqual(parse_url("salt:///a"), ("a", None))
        self.assertEqual(parse_url("http://x"), ("http://x", None))
        self.assertEqual(create_url("a b?c", "dev"), "salt://a b?c?saltenv=dev")


class Web(http.server.BaseHTTPRequestHandler):
    """A small web server."""

    seen: list[tuple[str, str | None]] = []
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        """Answer by path."""
        self.seen.append((self.path, self.headers.get("Authorization")))
        if self.path == "/etag" and self.headers.get("If-None-Match") == '"v1"':
            self.send_response(304)
            self.end_headers()
            return
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/text")
            self.end_headers()
            return
        if self.path == "/no":
            self.send_error(404)
            return
        body = {"/text": "grün".encode("latin-1"), "/etag": b"one"}.get(self.path, b"\x00data")
        self.send_response(200)
        if self.path == "/text":
            self.send_header("Content-Type", "text/plain; charset=latin-1")
        self.send_header("ETag", '"v1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


class WebTests(Case):
    """C{http://}, on loopback."""

    def setUp(self) -> None:
        """Start the server, in a thread of its own."""
        super().setUp()
        Web.seen = []
        server = http.server.HTTPServer(("127.0.0.1", 0), Web)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.host = f"127.0.0.1:{server.server_port}"
        self.url = f"http://{self.host}"

    def test_cached(self) -> None:
        """A web file goes to its place in the cache, whole."""
        path = self.local().cache_file(self.url + "/a/bin?x=1")

        self.assertEqual(
            path,
            os.path.join(
                self.cache, "extrn_files", "base", self.host.replace(":", ""), "a/bin-x=1"
            ),
        )
        self.assertEqual(self.read(path), b"\x00data")
        self.assertEqual(self.local().is_cached(self.url + "/a/bin?x=1"), path)

    def test_content(self) -> None:
        """Text is decoded as the server says, anything else is bytes; redirects are followed."""
        client = self.local()

        self.assertEqual(client.get_url(self.url + "/moved", None, no_cache=True), "grün")
        self.assertEqual(client.get_url(self.url + "/bin", None, no_cache=True), b"\x00data")
        self.assertFalse(os.path.exists(self.cache))

    def test_password(self) -> None:
        """A password in an address goes into a header, and into no file name."""
        url = f"http://joe:s3cret@{self.host}/bin"

        path = self.local().cache_file(url)

        token = base64.b64encode(b"joe:s3cret").decode()
        self.assertEqual(Web.seen, [("/bin", f"Basic {token}")])
        self.assertNotIn("s3cret", path)
        self.assertEqual(redact(url), f"http://<redacted>@{self.host}/bin")

    def test_errors(self) -> None:
        """An error of the server is told, and leaves nothing; a redirect to a file is refused."""
        target = os.path.join(self.out, "x")
        client = self.local()

        error = self.assertRaises(MinionError, client.get_url, self.url + "/no", target)
        self.assertIn("404", str(error))
        self.assertRaises(MinionError, client.get_url, self.url + "/away", target)
        self.assertRaises(MinionError, client.get_url, "http://127.0.0.1:1/x", target)
        self.assertEqual(os.listdir(self.out), [])

    def test_etag(self) -> None:
        """With C{use_etag} an unchanged file is not fetched again."""
        client = self.local()
        path = client.cache_file(self.url + "/etag", use_etag=True)
        before = os.stat(path).st_ino

        again = client.cache_file(self.url + "/etag", use_etag=True)

        self.assertEqual((again, os.stat(path).st_ino), (path, before))

    def test_source_hash(self) -> None:
        """A cached copy that has the wanted hash is good enough."""
        client = self.local()
        path = client.cache_file(self.url + "/bin")
        wanted_hash = "sha256=" + hashlib.sha256(b"\x00data").hexdigest()

        client.cache_file(self.url + "/bin", source_hash=wanted_hash)
        self.assertEqual(len(Web.seen), 1)
        client.cache_file(self.url + "/bin", source_hash="md5=" + "0" * 32)

        self.assertEqual((len(Web.seen), self.read(path)), (2, b"\x00data"))


class PartsTests(SynchronousTestCase):
    """The parts of the client, each without the others."""

    def test_places(self) -> None:
        """A cache that is nowhere yet says where copies would be; none is there."""
        cache = FileCache({"cachedir": "/nowhere/cache"})

        self.assertEqual(cache.place("a/b", "base"), "/nowhere/cache/files/base/a/b")
        self.assertEqual(cache.place("a", "dev", "other"), "/nowhere/cache/other/files/dev/a")
        self.assertEqual(
            cache.web_place("http://u:p@h:80/x?y=1", "base"),
            "/nowhere/cache/extrn_files/base/h80/x-y=1",
        )
        self.assertEqual(cache.local_place("/etc/motd"), "/nowhere/cache/localfiles/etc/motd")
        self.assertEqual((cache.find("salt://a/b"), cache.copies()), ("", []))
        self.assertIsNone(cache.place("../../../x", "base"))
        self.assertIsNone(cache.place("x", "../../.."))

    def test_way(self) -> None:
        """A file comes in order, chunk by chunk, with its digest, and needs no cache."""
        master = PretendedMaster({"f": b"hello world"})
        came: list[bytes] = []

        found = download(master, "f", "base", None, came.append, "sha256")
        missing = download(master, "g", "base", None, came.append, "sha256")

        self.assertEqual(came[:3], [b"hell", b"o wo", b"rld"])
        self.assertEqual(b"".join(came), b"hello world")
        self.assertEqual(found, hashlib.sha256(b"hello world").hexdigest())
        self.assertIsNone(missing)
