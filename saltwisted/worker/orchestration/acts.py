"""
What an orchestration requests from its master.

Each thread has its own connection to the master's control socket, and so has each forked process
(C{parallel}), so that they may send requests at the same time. The master knows who started the
run, and does everything in that user's name. If the master is gone, the process ends too: otherwise
its steps could not be told from those that another master continues.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import frozen

from saltwisted.domain.secrecy import hide
from saltwisted.errors import TransportClosed
from saltwisted.worker.control import ControlClient

GONE = 75
"""The exit status of a process whose master is gone; C{EX_TEMPFAIL}."""
TOLD = ("run", "runner", "wheel")
"""What tells others of what it was given, unless it hears that this is secret."""
GIVEN = ("args", "kwargs")
"""In events before a step acts: what it was given."""


@frozen
class Publishing:
    """
    How a step publishes.

    @ivar jid: the jid of its job; C{""} if it has none yet.
    @ivar step: its number; C{None} if it belongs to no step.
    @ivar parts: the parts that a dead node had decided on: C{turns} and C{lost}.
    @ivar secret: whether nobody may see its arguments (C{no_log}).
    """

    jid: str = ""
    step: int | None = None
    parts: Mapping[str, Any] | None = None
    secret: bool = False


class Acts:
    """
    @param path: the master's control socket.
    @param run: the jid of the run.
    @ivar was_killed: whether it was ended early.
    @ivar secret: whether nobody may see the arguments of the present step.
    """

    def __init__(self, path: str, run: str) -> None:
        self._path = path
        self._mine = threading.local()
        self.run = run
        self.was_killed = self.secret = False
        self._next = Publishing()

    def __enter__(self) -> Acts:
        return self

    def __exit__(self, *args: object) -> None:
        """Connections end with their threads."""

    def stream(self, op: str, /, **args: Any) -> Generator[Any, None, Any]:
        """As L{ControlClient.stream}, in the name of who has started the run."""
        if self.secret and op in TOLD:
            args["no_log"] = True
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
        """An event on the master's bus; what a secret step was given is stars in it."""
        if self.secret:
            data = {word: hide(data[word]) if word in GIVEN else data[word] for word in data}
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

    def publish_as(self, how: Publishing) -> None:
        """The next job is published so."""
        self._next, self.secret = how, how.secret

    def take(self) -> Publishing:
        """How the job is published that a step publishes now; a further one has no jid."""
        how, self._next = self._next, Publishing()
        return how

    def in_parts(
        self, how: Publishing, turns: Sequence[Sequence[str]], lost: Mapping[str, Any]
    ) -> None:
        """
        The job goes out in parts. Returns when whoever takes over knows that.

        @param turns: the minions of each, and C{lost}: those that did not answer before.
        """
        if how.step is not None:
            self.call("parts", step=how.step, turns=turns, lost=lost)
