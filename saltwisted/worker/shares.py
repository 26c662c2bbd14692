"""
The same work on many things, divided among processes.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from saltwisted.worker.exceptions import CommandExecutionError


def shared(work: Callable[[Any], Any], items: Sequence[Any], processes: int) -> list[Any]:
    """
    What C{work} makes of each item, in their order.

    @param work: its answers can be written as JSON. What else it changes in a process is lost.
    @param processes: 1: it is all done here.
    @raises CommandExecutionError: it has failed in a process, or that has been killed.
    """
    if processes <= 1:
        return [work(item) for item in items]
    shares = [items[start::processes] for start in range(processes)]
    begun = [_begin(work, share) for share in shares]
    # All are waited for, whatever became of the first
    told = [_end(*one) for one in begun]
    found: list[Any] = [None] * len(items)
    for start, answer in enumerate(told):
        if "failed" in answer:
            raise CommandExecutionError(answer["failed"])
        found[start::processes] = answer["made"]
    return found


def _begin(work: Callable[[Any], Any], share: Sequence[Any]) -> tuple[int, int]:
    """Fork: the child's id, and where its answer can be read."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writable)
        return pid, readable
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(readable)
        try:
            answer: dict[str, Any] = {"made": [work(item) for item in share]}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        with open(writable, "wb") as file:
            file.write(json.dumps(answer).encode())
    finally:
        os._exit(0)


def _end(pid: int, readable: int) -> dict[str, Any]:
    """Wait for a child's answer, and for its end."""
    with open(readable, "rb") as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    if not text:
        return {"failed": f"a process has ended without an answer ({status})"}
    return json.loads(text)  # type: ignore[no-any-return]
