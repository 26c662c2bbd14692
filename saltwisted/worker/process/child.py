"""
What a forked child of the warm parent does: it calls its entry, once or for one call after another.

The parent is L{saltwisted.worker.process.warm}.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from saltwisted.errors import SaltwistedError, TransportClosed
from saltwisted.worker.control import ControlClient
from saltwisted.worker.process import asbefore
from saltwisted.worker.process.daemonlog import DaemonLog, log_to
from saltwisted.worker.process.warm import Facts, unpack

Entry = Callable[[Any, ControlClient, Facts], Any]


def run(message: Mapping[str, Any], sock: socket.socket, facts: Facts) -> int:
    """
    Do what the parent was asked for by C{spawn}.

    @param sock: connected to the daemon.
    @return: the exit status.
    """
    module, _, function = message["entry"].partition(":")
    entry: Entry = getattr(import_module(module), function)
    client = ControlClient(sock=sock)
    payload = unpack(message["payload"])
    if message.get("pooled"):
        return serve_calls(entry, client, facts)
    entry(payload, client, facts)
    return 0


def serve_calls(entry: Entry, client: ControlClient, facts: Facts) -> int:
    """
    A pooled child: ask for work, do it, hand in the result with the next question.

    The operation C{work} answers with a packed payload, or C{None} for the end. What is logged
    goes to the daemon, from the level of the configuration on (C{warning} if there is none).
    """
    result: dict[str, Any] = {}
    log_to(DaemonLog(client), facts.get("opts") or {})
    before = asbefore.AsBefore()
    asbefore.watching[:] = [before, asbefore.Told(client)]
    while True:
        try:
            payload = client.call_within(None, "work", **result)
        except TransportClosed:
            return 0
        if payload is None:
            return 0
        try:
            try:
                result = {"value": entry(unpack(payload), client, facts)}
            finally:
                before.put_back()
        except MemoryError:
            raise
        except Exception as error:
            import traceback

            known = isinstance(error, SaltwistedError) or hasattr(error, "strerror")
            result = {
                "error": {
                    "name": type(error).__name__,
                    "message": str(error),
                    "details": None if known else traceback.format_exc(),
                }
            }
        harm = before.harm()
        if harm:
            result["harm"] = harm
