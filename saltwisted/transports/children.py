"""
One child of a warm parent, as a daemon sees it: its requests, and how it ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from saltwisted.transports.ipc import ControlProtocol, Handler


@frozen
class Exit:
    """
    How a child ended.

    @ivar pid: 0 if it never started.
    @ivar status: as C{waitpid} returns it; C{None} if it is unknown.
    """

    pid: int
    status: int | None

    @property
    def clean(self) -> bool:
        """It ended by itself, with status 0."""
        return self.status == 0

    def __str__(self) -> str:
        if self.pid == 0:
            return "could not be started"
        if self.status is None:
            return "ended"
        if os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            try:
                name = signal.Signals(number).name
            except ValueError:
                name = f"signal {number}"
            return f"was ended by {name}"
        return f"exited with status {os.waitstatus_to_exitcode(self.status)}"


@define(eq=False)
class Child:
    """
    One child.

    @ivar pid: 0 until it has started.
    @ivar exited: fires once with its L{Exit}, after everything that it sent has been received.
    """

    number: int
    entry: str
    pid: int = 0
    exited: Deferred[Exit] = field(factory=Deferred)
    _kill: Callable[[Child, int, bool], None] = field(kw_only=True, repr=False)
    _message: dict[str, Any] = field(kw_only=True, repr=False)
    _handler: Handler = field(kw_only=True, repr=False)
    _protocol: ControlProtocol | None = field(default=None, repr=False)
    _status: int | None = None
    _parent: Any = field(default=None, repr=False)
    _reported: bool = False
    _silent: bool = False
    _spoke: bool = False
    _retried: bool = False
    _timer: Any = field(default=None, repr=False)

    def kill(self, number: int = signal.SIGKILL, group: bool = True) -> None:
        """Send a signal to the child; with C{group} also to the programs that it started."""
        self._kill(self, number, group)


def plain(value: Any) -> Any:
    """For msgpack: converts types that it does not know, so that a child can be sent them."""
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"cannot be sent to a worker: {type(value).__name__}")
