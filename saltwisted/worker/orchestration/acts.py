"""
What an orchestration asks of its master.

Each thread has a connection of its own to the master's control socket, and so has each forked
process (C{parallel}), so that they may ask at the same time. Who has started the run is known
there: all is done in his name. When the master is gone, so is the process: its steps could not be
told from those that another master goes on with.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from typing import Any

from saltwisted.errors import TransportClosed
from saltwisted.worker.control import ControlClient

GONE = 75
"""The exit status of a process whose master is gone; C{EX_TEMPFAIL}."""


class Acts:
    """
    @param path: the master's control socket.
    @param run: the jid of the run.
    @ivar was_killed: whether it was ended early.
    """

    def __init__(self, path: str, run: str) -> None:
        self._path = path
        self._mine = threading.local()
        self.run = run
        self.was_killed = False
        self._jid = ""

    def __enter__(self) -> Acts:
        return self

    def __exit__(self, *args: object) -> None:
        """Connections end with their threads."""

    def stream(self, op: str, /, **args: Any) -> Generator[Any, None, Any]:
        """As L{ControlClient.stream}, in the name of who has started the run."""
        return self._stream(f"orchestration.{op}", {"orchestration": self.run, **args})

    def call(self, op: str, /, **args: Any) -> Any:
        """As L{ControlClient.call}, likewise."""
        flow = self.stream(op, **args)
        while True:
            try:
                next(flow)
            except StopIteration as done:
                return done.value

    def fire(self, tag: str, data: dict[str, Any]) -> None:
        """An event on the master's bus."""
        for _ in self._stream("fire_event", {"tag": tag, "data": data}):
            pass

    def _stream(self, op: str, args: dict[str, Any]) -> Generator[Any, None, Any]:
        try:
            return (yield from self._client().stream(op, **args))
        except TransportClosed as error:
            sys.stderr.write(f"orchestration {self.run}: {error}\n")
            sys.stderr.flush()
            os._exit(GONE)

    def _client(self) -> ControlClient:
        """That of this thread; in a process that was forked since it connects anew."""
        client: ControlClient | None = getattr(self._mine, "client", None)
        if client is None:
            client = self._mine.client = ControlClient(self._path)
        return client

    def killed(self) -> None:
        """The run ends early, since somebody wished it (C{state.soft_kill})."""
        self.was_killed = True

    def publish_under(self, jid: str) -> None:
        """The next job is published under this jid."""
        self._jid = jid

    def take_jid(self) -> str:
        """The jid for the job that a step publishes; C{""} for a further one."""
        jid, self._jid = self._jid, ""
        return jid
