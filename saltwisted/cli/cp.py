"""
The C{salt-cp} command: copy files of this machine to minions.

Small text files travel in one job (C{cp.recv}); with C{-C} anything travels in
pieces (C{cp.recv_chunked}), directories too. For many minions or big files the
file server is the better way: it sends each minion the file once, when it asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltwisted.cli import console, link, options, output
from saltwisted.cli.options import CommandLine, Parser
from saltwisted.cli.salt import Salt
from saltwisted.worker.control import ControlClient

EX_NO_FILE = 42


def _more(parser: Parser) -> None:
    group = parser.add_option_group("File Options")
    options._flag(
        group,
        "-C",
        "--chunked",
        dest="chunked",
        help="send in pieces: big files, binary files, whole directories",
    )
    group.add_option(
        "-n",
        "--no-compression",
        dest="gzip",
        action="store_false",
        default=True,
        help="do not compress the pieces",
    )


def build_parser() -> Parser:
    """The options of C{salt-cp}."""
    parser = Parser(
        "salt-cp",
        "%prog [options] '<target>' SOURCE... DEST",
        "Copies files of this machine to minions. For big files to many minions, let them "
        "fetch from the file server (cp.get_file) instead.",
    )
    for add in (
        options.saltfile,
        options.config_dir,
        options.timeout(5),
        options.hard_crash,
        options.outputs,
        options.targets(extended=False),
        _more,
        options.logs(),
    ):
        add(parser)
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run C{salt-cp} with these words; the result is the exit status."""
    parser = build_parser()
    line = options.read(parser, argv, "master", environ, needs_id=False)
    if len(line.args) <= 1:
        parser.print_help()
        parser.error("Insufficient arguments")
    line.opts["selected_target_option"] = options.target_type(parser, line.options)
    target = line.args[0]
    if line.options.list:
        line.opts["tgt"] = target.split(",") if "," in target else target.split()
    else:
        line.opts["tgt"] = target
    client = link.connect(line.opts)
    try:
        return SaltCopy(line, client).run()
    finally:
        client.close()


class SaltCopy(Salt):
    """One run of the command: several jobs, and one table of what became of each file."""

    def __init__(self, line: CommandLine, client: ControlClient) -> None:
        super().__init__(line, client)
        self.sources = [os.path.realpath(path) for path in line.args[1:-1]]
        self.dest = line.args[-1]

    def _choose(self, chosen: Any) -> int:
        found = self._in_pieces() if chosen.chunked else self._in_one()
        output.display(found, self.opts.get("output", "nested"), self.opts)
        return 0

    def _job(self, fun: str, arg: list[Any]) -> dict[str, Any]:
        """Run a function on the target; each minion's value, text for those who are silent."""
        load = {
            "tgt": self.opts["tgt"],
            "tgt_type": self.opts["selected_target_option"] or "glob",
            "fun": fun,
            "arg": arg,
            "ret": "",
            "jid": "",
            "kwargs": {"delimiter": self.options.delimiter},
            "user": self.sudo_user(),
        }
        found: dict[str, Any] = {}
        for full in self.returns(load):
            found.update({name: item["ret"] for name, item in full.items()})
        return found

    def _in_one(self) -> dict[str, Any]:
        files = {}
        for path in self.sources:
            if os.path.isdir(path):
                console.say(
                    f"{path} is a directory, only files are supported in non-chunked mode. "
                    'Use "--chunked" command line argument.'
                )
                raise SystemExit(1)
            if not os.path.isfile(path):
                _leave(f"The referenced file, {path} is not available.")
            try:
                with open(path, encoding="utf-8") as file:
                    files[path] = file.read()
            except UnicodeDecodeError:
                _leave(f'{path} is not text. Use "--chunked" command line argument.')
            except OSError as error:
                _leave(f"{path}: {error.strerror}")
        return self._job("cp.recv", [files, self.dest])

    def _in_pieces(self) -> dict[str, dict[str, Any]]:
        files, empty = self._find()
        into = bool(empty) or len(files) > 1 or self.dest.endswith(("/", "\\"))
        size = int(self.opts["salt_cp_chunk_size"])
        found: dict[str, dict[str, Any]] = {}
        for path, mode in files:
            remote = self._remote(path, into)
            for name, value in self._send(path, remote, mode, size).items():
                found.setdefault(name, {})[remote] = value
        for path in empty:
            remote = self._remote(path, into)
            for name, value in self._job("cp.recv_chunked", [remote, None]).items():
                found.setdefault(name, {})[remote] = value
        return found

    def _send(self, path: str, remote: str, mode: int, size: int) -> dict[str, Any]:
        """Send one file; the first answer of each minion that is not true is its answer."""
        import base64

        compress = bool(self.options.gzip)
        found: dict[str, Any] = {}
        first = True
        for piece in _pieces(path, size):
            if compress:
                import gzip

                piece = gzip.compress(piece, mtime=0)
            # A blank in front, or a minion takes what ends in "=" for a keyword argument.
            text = " " + base64.b64encode(piece).decode("ascii")
            arg = [remote, text, not first, compress, mode]
            answers = self._job("cp.recv_chunked", arg)
            if not answers:
                part = "" if first else " File partially transferred."
                text_of_failure = (
                    f"Publish failed.{part} It may be necessary to decrease salt_cp_chunk_size "
                    f"(current value: {size})"
                )
                return dict.fromkeys(self.matching(), text_of_failure)
            for name, value in answers.items():
                if found.get(name, True) is True:
                    found[name] = value
            first = False
        return found

    def _find(self) -> tuple[list[tuple[str, int]], list[str]]:
        """The files to send with their modes, and the directories that are empty."""
        files: list[tuple[str, int]] = []
        empty: list[str] = []
        for source in self.sources:
            if os.path.isdir(source):
                for directory, names, entries in os.walk(source, onerror=_unreadable):
                    names.sort()
                    files.extend((os.path.join(directory, name), 0) for name in sorted(entries))
                    if not names and not entries:
                        empty.append(directory)
            elif os.path.exists(source):
                files.append((source, 0))
            else:
                _leave(f"{source} does not exist")
        return [(path, os.stat(path).st_mode & 0o7777) for path, _ in files], sorted(empty)

    def _remote(self, path: str, into: bool) -> str:
        """Where a file goes: below DEST by its place in its source, or to DEST itself."""
        if path in self.sources and not os.path.isdir(path):
            return os.path.join(self.dest, os.path.basename(path)) if into else self.dest
        for source in self.sources:
            if path == source:
                return os.path.join(self.dest, os.path.basename(path))
            if path.startswith(source + os.sep):
                inside = os.path.relpath(path, source)
                return os.path.join(self.dest, os.path.basename(source), inside)
        return self.dest


def _pieces(path: str, size: int) -> Iterator[bytes]:
    """A file in pieces; an empty file is one empty piece."""
    with open(path, "rb") as file:
        piece = file.read(size)
        while True:
            yield piece
            piece = file.read(size)
            if not piece:
                return


def _unreadable(error: OSError) -> None:
    _leave(f"{error.filename}: {error.strerror}")


def _leave(text: str) -> None:
    sys.stdout.flush()
    console.write_error(text + "\n")
    raise SystemExit(EX_NO_FILE)
