"""
Git servers, and people who push, that mean no good.
"""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saltwisted.domain.git import trees
from saltwisted.errors import StoreError
from saltwisted.stores.git.source import GitView
from saltwisted.worker.git import lists, program, repository
from tests.contracts.test_gitfiles import GitSourceTestCase
from tests.gitrepos import fetch_request
from tests.worker.test_git import FetchTestCase

ENDLESS = 200 * 1024 * 1024
"""Bytes after which a server of these tests gives up: nobody should have read so many."""


def line(text: bytes) -> bytes:
    """A line of git's protocol."""
    return b"%04x" % (len(text) + 4) + text


class Server:
    """
    A git server of C{git://} on loopback, that serves one connection as it is told.

    @param answer: gets a function that sends, and is called again until that fails.
    """

    def __init__(self, test: Any, answer: Callable[[int], bytes]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.sent = 0
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        test.addCleanup(self._thread.join, 30)
        test.addCleanup(self._close)

    @property
    def url(self) -> str:
        """How it is reached."""
        return f"git://127.0.0.1:{self._listening.getsockname()[1]}/x"

    def _close(self) -> None:
        # A thread that waits for a connection is woken by this alone
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client:
                try:
                    client.recv(4096)
                    number = 0
                    while self.sent < ENDLESS:
                        data = self._answer(number)
                        if not data:
                            while client.recv(65536):
                                pass
                            break
                        client.sendall(data)
                        self.sent += len(data)
                        number += 1
                except OSError:
                    pass


class ServerTests(FetchTestCase):
    """T-GIT-5: what a server can do to the machine of a master."""

    def test_refs_for_ever(self) -> None:
        """A server that tells of refs for ever has git end, not the machine's memory."""
        self.patch(program, "MOST_MEMORY", 64 << 20)
        self.patch(program, "LEAST_MEMORY", 64 << 20)
        name = b"x" * 200

        def refs(number: int) -> bytes:
            rows = (b"%040x refs/heads/%b%d" % (i + 1, name, number * 100 + i) for i in range(100))
            told = [row + (b"\0 " if not number and not i else b"") for i, row in enumerate(rows)]
            return b"".join(line(row + b"\n") for row in told)

        server = Server(self, refs)
        self.error(server.url)

        self.assertLess(server.sent, ENDLESS)

    def test_silence(self) -> None:
        """A server that says nothing is given up in time, and what it had counts."""
        self.fetch()
        server = Server(self, lambda number: b"")

        self.assertIn("git did not finish within 1 s", self.error(server.url, seconds=1.0))

    def test_words_for_ever(self) -> None:
        """What a server says for people is not kept, however long it goes on."""
        head = b"1" * 40
        told = {0: line(head + b" refs/heads/master\0side-band-64k\n") + b"0000"}
        band = line(b"\x02" + b"remote: never mind\n" * 3000)

        def answer(number: int) -> bytes:
            if number == 1:
                return line(b"NAK\n")
            return told.get(number, band)

        text = self.error(Server(self, answer).url, seconds=2.0)

        self.assertLess(len(text), 2000)

    def test_credentials_in_arguments(self) -> None:
        """T-GIT-3: credentials of a URL are in no argument of any process, and in no error."""
        seen: list[bytes] = []
        asked: list[str | None] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            """Wants a login, and looks at who runs meanwhile."""

            def do_GET(self) -> None:
                seen.extend(arguments())
                asked.append(self.headers.get("Authorization"))
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 30)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        where = f"127.0.0.1:{server.server_address[1]}/x"

        text = self.error(f"http://fred:ge%20heim-word@{where}")
        self.assertNotIn("heim-word", text)
        self.error(f"http://t0ken-alone@{where}")

        # fred:ge heim-word
        self.assertEqual(asked[:2], [None, "Basic ZnJlZDpnZSBoZWltLXdvcmQ="])
        self.assertTrue(any(b"git" in each and where.encode() in each for each in seen))
        for word in (b"heim-word", b"t0ken-alone"):
            self.assertEqual([each for each in seen if word in each], [])
        for path in Path(self.folder).rglob("*"):
            if path.is_file() and "source" not in path.parts:
                self.assertNotIn(b"heim-word", path.read_bytes(), path)


def arguments() -> list[bytes]:
    """The arguments of each process of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found


class PushedTests(GitSourceTestCase):
    """T-GIT-6: what somebody can push."""

    def test_long_names(self) -> None:
        """A name of 4 KiB, and a path of more, hurt nobody: what is beside them is served."""
        repo = self.repo()
        blob = repo.blob(b"1")
        deep = blob
        mode = "100644"
        for _ in range(20):
            deep, mode = repo.tree((mode, b"d" * 250, deep)), "40000"
        top = repo.tree(
            ("100644", b"n" * 4096, blob), ("100644", b"m" * 4097, blob), ("100644", b"a", blob),
            (mode, b"deep", deep),
        )  # fmt: skip
        repo.branch("master", top)
        source = self.serving(repo)

        listing = self.value(source.listing("base"))

        self.assertEqual([path for path in listing.files if len(path) < 9], ["a"])
        self.assertEqual(max(map(len, listing.files)), 4096)
        self.assertIsNotNone(source.find("base", "a"))
        self.assertIsNotNone(source.find("base", "n" * 4096))
        self.assertIsNone(source.find("base", "m" * 4097))
        self.assertIsNone(source.find("base", "deep/" + "/".join(["d" * 250] * 20)))

    def test_a_million_files(self) -> None:
        """A tree of 10^6 files is not listed, in words; its files are served, and other lists."""
        repo, other = self.repo(), self.repo("other")
        other.commit({"b": b"1"})
        blob = repo.blob(b"1")
        below = repo.tree(*(("100644", b"f%04d" % number, blob) for number in range(1000)))
        top = repo.tree(*(("40000", b"d%04d" % number, below) for number in range(1000)))
        repo.branch("master", top)
        served = self.fetched(repo)
        source = self.files()
        source.show(GitView([served]))

        self.failureResultOf(source.listing("base"), StoreError)  # type: ignore[arg-type]
        found = source.find("base", "d0999/f0999")
        self.assertEqual(self.value(source.read(found, 0, 9)), b"1")
        source.show(GitView([self.fetched(other)]))
        self.assertEqual(self.value(source.listing("base")).files, ("b",))

    def test_too_large(self) -> None:
        """A blob above the limit is not served, and no room is taken for it."""
        self.patch(repository, "MOST_FILE", 100_000)
        repo = self.repo()
        repo.commit({"huge": b"\0" * 200_000, "a": b"1"})
        source = self.serving(repo)
        found = source.find("base", "huge")
        assert found is not None

        self.failureResultOf(source.read(found, 0, 10), StoreError)  # type: ignore[arg-type]
        self.assertFalse(os.path.exists(self.path("cache", "source", "files")))
        self.assertEqual(self.value(source.read(source.find("base", "a"), 0, 9)), b"1")

    def test_branches(self) -> None:
        """
        T-GIT-6: a branch may be called like an option, a command or a path: it is an environment of
        that name, and nothing is run, made, or read elsewhere.
        """
        repo = self.repo()
        first = repo.commit({"a": b"1"})
        mark = self.path("mark")
        names = [
            "-rf", "--upload-pack=touch", "$(touch${IFS}mark)", "a;b", "a|b", "`b`", "a/b/c", "a.b",
            "HEAD", "refs/heads/x", "refs/tags/v1", "origin/master", "\u00fc/\u6587", "x" * 200,
            "etc/passwd", "'; drop", "%2e%2e", "__env__", "{{ 7 }}",
        ]  # fmt: skip
        names = [name.replace(" ", "_") for name in names]
        for name in names:
            repo.git("update-ref", f"refs/heads/{name}", first)
        repo.git("update-ref", "refs/tags/a.b", first)
        before = sorted(os.listdir(self.folder))
        source = self.serving(repo)

        self.assertEqual(set(names) - set(source.envs()), set())
        for name in names:
            found = source.find(name, "a")
            self.assertEqual(self.value(source.read(found, 0, 9)), b"1", name)
            self.assertEqual(self.value(source.listing(name)).files, ("a",), name)
        self.assertFalse(os.path.exists(mark))
        self.assertEqual(sorted({*before, "cache"}), sorted(os.listdir(self.folder)))
        for env in ("..", "../master", "a/../master", "/etc", "", "."):
            self.assertIsNone(source.find(env, "a"), env)

    def test_damaged_blob(self) -> None:
        """
        Content that is not what its name says is never served, also where libgit2 does not look
        itself.
        """
        repo = self.repo()
        repo.commit({"a": b"the content", "b": b"other"})
        source = self.serving(repo)
        served = source.view.served[0].repository
        told: list[str] = []
        source.on_damage(told.append)
        real = served._object
        other = repo.git("rev-parse", "HEAD:b")
        wanted = repo.git("rev-parse", "HEAD:a")
        self.patch(served, "_object", lambda oid: real(other if oid == wanted else oid))

        self.assertIsNone(source.find("base", "a"))
        self.assertIsNotNone(source.find("base", "b"))
        self.assertEqual(len(told), 1)


class LimitTests(FetchTestCase):
    """What is decided before anything is asked."""

    def test_links(self) -> None:
        """T-GIT-6: the bounds of trees are those that the page says."""
        self.assertEqual((trees.MOST_NAME, lists.MOST_ENTRIES), (4096, 500_000))
        self.assertEqual(repository.MOST_FILE, 1 << 30)

    def test_request(self) -> None:
        """T-GIT-3: what a worker is asked is what it always was: credentials stay in requests."""
        request = fetch_request("/f", "https://u:p@h:1/x?y", password="")
        apart = program.apart(request)

        self.assertEqual(
            (apart["url"], apart["user"], apart["password"]), ("https://h:1/x?y", "u", "p")
        )
        own = program.apart({"url": "https://u:p@h/x", "user": "own", "password": "word"})
        self.assertEqual((own["url"], own["user"], own["password"]), ("https://h/x", "own", "word"))
        for url in ("ssh://git@h/x", "git@h:x", "/srv/a@b", "file:///a@b"):
            self.assertEqual(program.apart({"url": url})["url"], url)
