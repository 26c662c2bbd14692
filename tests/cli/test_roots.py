"""What the command C{saltwisted roots} shows to who waits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import progress, roots
from saltwisted.cli.progress import Waiting
from saltwisted.errors import RemoteError


class WaitingTests(SynchronousTestCase):
    """The line on a terminal."""

    def setUp(self) -> None:
        self.now = 100.0
        self.written: list[str] = []
        self.columns = 100
        self.patch(
            progress.shutil, "get_terminal_size", lambda: os.terminal_size((self.columns, 24))
        )
        self.patch(progress.time, "monotonic", lambda: self.now)
        self.patch(progress.console, "write_error", self.written.append)
        self.line = Waiting("export", True)

    def test_how_far(self) -> None:
        """Numbers of what is being done and who lacks something, on one line that goes away."""
        work = {"share": "file/base/0", "doing": "paths written", "done": 5, "of": 9}
        self.now = 102.4
        self.line.show({"work": [work]})
        self.line.show({"waits": {"b": 3}})
        self.line.end()
        first = "\r\x1b[Kexport: file/base/0: 5 of 9 paths written; "
        second = "changes on their way: b: 3; 2 s"
        self.assertEqual(self.written, [f"{first}2 s", f"{first}{second}", "\r\x1b[K"])

    def test_bytes(self) -> None:
        """Files that are fetched count by number and size, and so does what is sent to others."""
        work = {"share": "s", "doing": "files fetched from a", "done": 5, "of": 9}
        self.now = 102.4
        self.line.show({"work": [{**work, "bytes": 3 << 20, "of_bytes": 1 << 30}]})
        self.line.show({"work": [], "waits": {"b": 3}, "sent": {"b": 5 << 20, "c": 7}})
        self.assertEqual(
            self.written,
            [
                "\r\x1b[Kexport: s: 5 of 9 files fetched from a, 3.0 MiB of 1.0 GiB; 2 s",
                "\r\x1b[Kexport: changes on their way: b: 3 (5.0 MiB sent); 2 s",
            ],
        )

    def test_narrow(self) -> None:
        """It is never longer than a line, since it could not be taken away."""
        self.columns = 20
        self.now = 103
        self.line.show({"waits": {"b": 3}})
        self.assertEqual(self.written, ["\r\x1b[Kexport: changes on "[: 4 + 19]])

    def test_unknown_total(self) -> None:
        """Of how many is not always known."""
        work = {"share": "s", "doing": "paths looked at", "done": 5, "of": 0}
        self.now = 103
        self.line.show({"work": [work]})
        self.assertEqual(self.written, ["\r\x1b[Kexport: s: 5 paths looked at; 3 s"])

    def test_soon_done(self) -> None:
        """What takes less than a second shows nothing."""
        self.now = 100.9
        self.line.show({"work": []})
        self.line.end()
        self.assertEqual(self.written, [])

    def test_no_terminal(self) -> None:
        """Scripts read what they always read."""
        line = Waiting("export", False)
        self.now = 110
        line.show({"work": []})
        line.end()
        self.assertEqual(self.written, [])


class OptionTests(SynchronousTestCase):
    """What the command asks for."""

    def test_not_the_masters_options(self) -> None:
        """C{peer} and C{timeout} of the configuration mean something else, and are not asked."""
        folder = self.mktemp()
        os.mkdir(folder)
        with open(f"{folder}/master", "w", encoding="utf-8") as file:
            file.write("id: m\ntimeout: 3\npeer:\n  .*: [test.ping]\n")
        asked: list[tuple[str, dict[str, Any]]] = []

        class Client:
            def stream(self, op: str, **args: Any) -> Iterator[Any]:
                asked.append((op, args))
                raise RemoteError("RootsError", "that is all")
                yield

            def close(self) -> None: ...

        self.patch(roots.link, "connect", lambda opts: Client())
        for words in (["sync"], ["diff"], ["diff", "--peer", "b"], ["sync", "--timeout", "7"]):
            roots.main([*words, "-c", folder], {})

        self.assertEqual([args.get("timeout") for _, args in asked], [60.0, None, None, 7.0])
        self.assertEqual([args.get("peer") for _, args in asked], [None, "", "b", None])


class AloneTests(SynchronousTestCase):
    """A master without peers, which knows nothing of C{roots}, but of git."""

    def run_words(self, *words: str) -> tuple[int, str]:
        """The exit status, and what was printed."""
        folder = self.mktemp()
        os.mkdir(folder)
        with open(f"{folder}/master", "w", encoding="utf-8") as file:
            file.write("id: m\n")
        commit = "0123456789abcdef" * 2
        refs = {"refs/remotes/origin/main": commit}
        remote = {"pillar": False, "refs": refs, "error": ""}
        told = {"generation": "g7", "remotes": {"https://git.example/states": remote}}

        class Client:
            def stream(self, op: str, **args: Any) -> Iterator[Any]:
                raise RemoteError("UnknownOperation", f"no such operation: {op}")
                yield

            def call(self, op: str, **args: Any) -> Any:
                return {"node": "m", "nodes": {"m": told}}

            def close(self) -> None: ...

        lines: list[str] = []
        self.patch(roots.link, "connect", lambda opts: Client())
        self.patch(roots.console, "say", lines.append)
        self.patch(roots.console, "write_error", lines.append)
        return roots.main([*words, "-c", folder], {}), "\n".join(lines)

    def test_status(self) -> None:
        """C{status} shows which commits of which repositories it serves."""
        status, said = self.run_words("status")

        self.assertEqual(status, 0)
        self.assertIn("node m runs alone: it serves its directories as they are", said)
        (line,) = (line for line in said.splitlines() if "git.example" in line)
        self.assertEqual(
            line.split(), ["m", "g7", "https://git.example/states", "main", "0123456789ab"]
        )
        status, said = self.run_words("status", "--json")
        self.assertEqual(json.loads(said)["nodes"]["m"]["generation"], "g7")

    def test_others(self) -> None:
        """What needs peers says that there are none."""
        status, said = self.run_words("conflicts")

        self.assertEqual(status, roots.EX_REFUSED)
        self.assertIn("There is no 'conflicts' on a master that runs alone; it serves", said)
