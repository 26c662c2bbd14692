"""
C{salt-cp}: which jobs it makes of files, and what it prints of the answers.
"""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Iterator
from typing import Any

from tests.cli.support import CommandTestCase, FakeDaemon
from tests.cli.test_salt import job


class CopyTests(CommandTestCase):
    """Against a daemon whose minions store what they get."""

    config = "salt_cp_chunk_size: 10\n"

    def setUp(self) -> None:
        """Files to send."""
        super().setUp()
        self.source = f"{self.root}/src"
        os.makedirs(f"{self.source}/sub/empty")
        self.content = {"a": b"hello\n", "sub/b": bytes(range(256)), "sub/none": b""}
        for name, data in self.content.items():
            with open(f"{self.source}/{name}", "wb") as file:
                file.write(data)

    def minions(self, *names: str) -> tuple[FakeDaemon, dict[str, bytes]]:
        """A daemon with these minions, and the files that they have received."""
        stored: dict[str, bytes] = {}

        def answer(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            if args["fun"] == "cp.recv_chunked" and args["arg"][1] is not None:
                path, text, append, compressed, _mode = args["arg"]
                self.assertTrue(text.startswith(" "))
                piece = base64.b64decode(text)
                piece = gzip.decompress(piece) if compressed else piece
                stored[path] = stored[path] + piece if append else piece
            return job(*((name, True, 0) for name in names))(args)

        return self.daemon(run=answer, match=lambda args: list(names)), stored

    def test_one_job(self) -> None:
        """Without -C the files travel as texts in one C{cp.recv}."""
        daemon, _ = self.minions("m")

        result = self.command("salt-cp", "-L", "m,n", f"{self.source}/a", "/x")

        self.assertEqual(result.out, "m:\n    True\n")
        ((_, args),) = daemon.asked
        self.assertEqual((args["tgt"], args["tgt_type"]), (["m", "n"], "list"))
        self.assertEqual(
            (args["fun"], args["arg"]), ("cp.recv", [{f"{self.source}/a": "hello\n"}, "/x"])
        )

    def test_directory_in_one_job(self) -> None:
        """A directory needs -C; status 1."""
        result = self.command("salt-cp", "*", self.source, "/x")

        self.assertEqual(
            result.out,
            f"{self.source} is a directory, only files are supported in non-chunked mode. "
            'Use "--chunked" command line argument.\n',
        )
        self.assertEqual(result.status, 1)

    def test_pieces(self) -> None:
        """With -C a tree arrives whole, below DEST, empty files and directories as well."""
        daemon, stored = self.minions("m")

        result = self.command("salt-cp", "-C", "*", self.source, "/x")

        self.assertEqual(stored, {f"/x/src/{name}": data for name, data in self.content.items()})
        self.assertEqual(
            [args["arg"] for _, args in daemon.asked if args["arg"][1] is None],
            [["/x/src/sub/empty", None]],
        )
        self.assertEqual(
            result.out,
            "m:\n    ----------\n"
            + "".join(
                f"    /x/src/{name}:\n        True\n"
                for name in ("a", "sub/b", "sub/empty", "sub/none")
            ),
        )

    def test_one_file_in_pieces(self) -> None:
        """One file goes to DEST itself, and into DEST with a slash at its end; -n sends it raw."""
        _, stored = self.minions("m")

        self.command("salt-cp", "-C", "-n", "*", f"{self.source}/a", "/x")
        self.command("salt-cp", "-C", "-n", "*", f"{self.source}/a", "/y/")

        self.assertEqual(stored, {"/x": b"hello\n", "/y/a": b"hello\n"})

    def test_nobody(self) -> None:
        """Without minions nothing but that is said, and the status is 0, as in stock."""
        self.minions()

        result = self.command("salt-cp", "*", f"{self.source}/a", "/x")

        self.assertTrue(result.out.startswith("No minions matched the target."))
        self.assertEqual((result.status, result.err), (0, ""))

    def test_no_file(self) -> None:
        """A source that is not there: status 42, nothing is sent."""
        daemon, _ = self.minions("m")

        result = self.command("salt-cp", "-C", "*", f"{self.root}/nothing", "/x")

        self.assertEqual((result.status, result.err), (42, f"{self.root}/nothing does not exist\n"))
        self.assertEqual(daemon.asked, [])
