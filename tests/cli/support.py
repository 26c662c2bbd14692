"""
A daemon for the commands' tests: it answers on a real control socket, by a script.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any
from unittest import mock

import msgpack
from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli import console, main

Answer = Callable[[dict[str, Any]], Any]
"""
From arguments to the answer. A generator's values are sent as items, and its return value as
the answer; a L{Refusal} that is raised becomes the error.
"""


class Refusal(Exception):
    """An error to send: name and message."""


class Gone(Exception):
    """Hang up instead of answering."""


@define
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str


class FakeDaemon:
    """
    Answers each operation by its function, on a thread for each connection.

    @ivar asked: (operation, arguments) in the order of arrival.
    """

    def __init__(self, path: str, answers: dict[str, Answer]) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(16)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._sockets = [self._listener]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening and wait for every thread."""
        for sock in self._sockets:
            with mock.patch.object(sys, "stderr"):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            sock.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as stream:
            while True:
                try:
                    head = stream.read(4)
                except OSError:
                    return
                if len(head) < 4:
                    return
                message = msgpack.unpackb(
                    stream.read(struct.unpack(">I", head)[0]), raw=False, strict_map_key=False
                )
                if message["op"] == "cancel":
                    self.asked.append(("cancel", {}))
                    continue
                self.asked.append((message["op"], message["args"]))
                try:
                    self._answer(sock, message)
                except (Gone, OSError):
                    return

    def _answer(self, sock: socket.socket, message: dict[str, Any]) -> None:
        def send(**part: Any) -> None:
            body = msgpack.packb({"id": message["id"], **part}, use_bin_type=True)
            sock.sendall(struct.pack(">I", len(body)) + body)

        try:
            answer = self.answers[message["op"]](message["args"])
            if isinstance(answer, Iterator):
                while True:
                    try:
                        send(item=next(answer))
                    except StopIteration as end:
                        answer = end.value
                        break
            send(ok=answer)
        except Refusal as refusal:
            send(error={"name": refusal.args[0], "message": refusal.args[1], "details": None})


class CommandTestCase(SynchronousTestCase):
    """
    A configuration directory of its own, and maybe a daemon behind it.

    @ivar root: the installation's directory, with a short path (sockets).
    """

    config: str = ""
    """More lines for the master's file."""

    def setUp(self) -> None:
        """Write the configuration and keep the user's own files out."""
        self.root = tempfile.mkdtemp(prefix="swcli", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.root)
        os.mkdir(f"{self.root}/run")
        for role in ("master", "minion"):
            with open(f"{self.root}/{role}", "w", encoding="utf-8") as file:
                file.write(
                    f"root_dir: {self.root}\nsock_dir: {self.root}/run\n"
                    f"pki_dir: {self.root}/pki\ncachedir: {self.root}/cache\n"
                    f"log_file: {self.root}/log\nkey_logfile: {self.root}/log\nid: here\n"
                    f"user: {pwd.getpwuid(os.geteuid()).pw_name}\n"
                    f"{self.config}"
                )
        self.addCleanup(console.configure, "warning")

    def daemon(self, **answers: Answer) -> FakeDaemon:
        """Start the daemon."""
        daemon = FakeDaemon(f"{self.root}/run/saltwisted.sock", answers)
        self.addCleanup(daemon.close)
        return daemon

    def command(self, name: str, *words: str, stdin: str = "") -> Result:
        """Run a command in this process, with this configuration."""
        return run([f"/usr/bin/{name}", "-c", self.root, *words], stdin, home=self.root)


def run(argv: list[str], stdin: str = "", home: str = "/nonexistent") -> Result:
    """Run the executable with these words."""
    with captured(stdin) as (out, err), mock.patch.dict(os.environ, {"HOME": home}):
        for name in ("SALT_SALTFILE", "SALT_CLIENT_CONFIG", "SUDO_USER"):
            os.environ.pop(name, None)
        status = main.main(argv)
    return Result(status, out.getvalue(), err.getvalue())


@contextmanager
def captured(stdin: str) -> Iterator[tuple[StringIO, StringIO]]:
    """Take the standard streams."""
    out, err = StringIO(), StringIO()
    with (
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
        mock.patch.object(sys, "stdin", StringIO(stdin)),
    ):
        yield out, err
