"""
Batches: a job on a few minions at a time.

The rules are those of Salt: the target is pinged first, and a minion that does not answer is left
out; a place is free again when its minion has returned and C{--batch-wait} has
passed; all parts of a batch have one job id. L{Plan} decides, on a clock given
to it; L{run_batch} asks the daemon and prints.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

from saltwisted.cli import console, link, output
from saltwisted.cli.args import inquiry
from saltwisted.cli.returns import Return, as_return, retcode_of
from saltwisted.domain.batches import batch_size
from saltwisted.worker.control import ControlClient

NOBODY = "No minions matched the target."
NO_MINION = 2
"""The exit status then."""


class Plan:
    """
    Who runs, who waits, who is done.

    @ivar pending: ids that have not been sent the job, in order.
    @ivar active: ids that have it and did not return yet.
    @ivar halted: no more shall be started (C{--failhard}).
    """

    def __init__(self, minions: list[str], size: int, wait: float, failhard: bool) -> None:
        self.pending = list(minions)
        self.active: set[str] = set()
        self.halted = False
        self._size = size
        self._wait = wait
        self._failhard = failhard
        self._cooling: list[float] = []

    @property
    def done(self) -> bool:
        """Nothing is left to start or to wait for."""
        return self.halted or not (self.pending or self.active)

    def finish(self, minion: str, retcode: int, now: float) -> None:
        """A minion has returned, or will not."""
        self.active.discard(minion)
        if self._wait:
            self._cooling.append(now + self._wait)
        if self._failhard and retcode > 0:
            self.halted = True

    def start(self, now: float) -> list[str]:
        """The ids to start now; they are active from here on."""
        if self.halted:
            return []
        self._cooling = [end for end in self._cooling if end > now]
        free = max(0, self._size - len(self.active) - len(self._cooling))
        chosen, self.pending = self.pending[:free], self.pending[free:]
        self.active.update(chosen)
        return chosen

    def next_free(self) -> float | None:
        """When the next place becomes free without a return, or C{None}."""
        return min(self._cooling, default=None) if self.pending else None


class Publishing(Protocol):
    """What a batch needs of the C{salt} command; see L{saltwisted.cli.salt.Salt}."""

    options: Any
    opts: dict[str, Any]
    client: ControlClient
    jid: str | None

    def publication(self) -> dict[str, Any]:
        """The load of the job, but for its id."""

    def returns(self, publication: dict[str, Any]) -> Iterator[Return]:
        """Publish a load, and yield returns as they come."""

    def timeouts(self) -> dict[str, Any]:
        """How long the master waits."""

    def show(self, data: Any, out: str, retcode: int = 0) -> int:
        """Print; gives the exit status."""


def run_batch(command: Publishing) -> int:
    """
    Run the command's job in parts and print it; the result is the exit status.

    With C{--static} nothing is printed until the end, as one document.
    """
    chosen, opts = command.options, command.opts
    if opts.get("async") and chosen.batch:
        return _Batch(command, opts["batch"], True).run_in_background()
    quiet = bool(chosen.static)
    if quiet and not chosen.batch:
        opts["batch"] = "100%"
    collected: dict[str, Any] = {}
    batch = _Batch(command, opts["batch"], quiet)
    highest = 0
    for found, retcode in batch.run():
        collected.update(found)
        highest = max(highest, retcode)
    shown = command.show(collected, "") if quiet else 0
    return max(shown, highest, batch.status)


class _Batch:
    """
    One batch on its way.

    @ivar status: the exit status for those who gave no return, as without a batch: 2 if there is
        nobody, 1 if somebody does not answer.
    """

    def __init__(self, command: Publishing, size: Any, quiet: bool) -> None:
        self.command = command
        self.opts = command.opts
        self.size = size
        self.quiet = quiet
        self.status = 0
        self.publication = command.publication()

    def run(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield each return as C{{id: value}} and its return code, after printing it."""
        up, down = self._ping()
        self.status = 1 if down else 0 if up else NO_MINION
        if not up:
            if not self.quiet:
                _tell_nobody(down)
            return
        plan = self._plan(up)
        if not self.quiet:
            _tell_down(down)
        yield from self._drive(plan)

    def run_in_background(self) -> int:
        """Ping here, and go on in a process that outlives this one; prints the job id."""
        up, down = self._ping()
        if not up:
            _tell_nobody(down)
            return 1 if down else NO_MINION
        plan = self._plan(up)
        _tell_down(down)
        self.command.client.close()
        sys.stdout.flush()
        if os.fork() == 0:
            status = 1
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(null, stream)
                for _return in self._drive(plan):
                    pass
                status = 0
            finally:
                os._exit(status)
        console.say(f"Executed batch command with job ID: {self.command.jid}")
        return 0

    def _plan(self, minions: list[str]) -> Plan:
        """Whom to start when; also gives the job its id, which all parts share."""
        from saltwisted.domain.jid import jid_at

        try:
            size = batch_size(self.size, len(minions))
        except ValueError:
            console.write_error(
                f"Invalid batch specification {self.size!r}: must be an integer or percentage "
                "string like '10' or '25%'.\n"
            )
            raise SystemExit(1) from None
        self.command.jid = self.publication["jid"] = jid_at(time.time())
        wait = float(self.opts.get("batch_wait") or 0)
        return Plan(minions, size, wait, bool(self.opts.get("failhard")))

    def _ping(self) -> tuple[list[str], list[str]]:
        """Who answers, and who should have."""
        ask = inquiry(self.publication, "test.ping")
        up: list[str] = []
        down: list[str] = []
        for full in self.command.returns(ask):
            for name, item in full.items():
                (down if item.get("out") == "no_return" else up).append(name)
        return sorted(up), sorted(down)

    def _drive(self, plan: Plan) -> Iterator[tuple[dict[str, Any], int]]:
        channel = link.Channel(path=link.socket_path(self.opts))
        parts: dict[int, set[str]] = {}
        try:
            self._start(plan, channel, parts)
            while not plan.done:
                until = plan.next_free()
                left = None if until is None else max(0.0, until - time.time())
                message = channel.wait(left)
                returned = [] if message is None else self._finished(message, plan, parts)
                self._start(plan, channel, parts)
                for name, item, code in returned:
                    value = {} if item is None else item.get("ret")
                    if item is not None and not self.quiet:
                        self._print(name, item)
                    yield {name: value}, code
                if plan.halted:
                    console.log("error", "Batch run stopped due to failhard")
        finally:
            channel.close()

    def _start(self, plan: Plan, channel: link.Channel, parts: dict[int, set[str]]) -> None:
        names = plan.start(time.time())
        if not names:
            return
        if not self.quiet:
            console.say(f"\nExecuting run on {sorted(names)}\n")
        load = {**self.publication, "tgt": names, "tgt_type": "list"}
        number = channel.ask("run", **load, **self.command.timeouts(), full=True)
        parts[number] = set(names)

    def _finished(
        self, message: dict[str, Any], plan: Plan, parts: dict[int, set[str]]
    ) -> list[tuple[str, dict[str, Any] | None, int]]:
        """What a message says: returns, and those who will not return (no value, code 0)."""
        number = message["id"]
        waiting = parts.get(number)
        if waiting is None:
            return []
        now = time.time()
        if "item" in message:
            item = message["item"]
            if item["kind"] != "return" or item["id"] not in waiting:
                return []
            waiting.discard(item["id"])
            found = as_return(item["data"])
            code = retcode_of(found)
            plan.finish(item["id"], code, now)
            return [(item["id"], found, code)]
        del parts[number]
        if "error" in message:
            console.log("error", str(message["error"].get("message", "")))
        for name in waiting:
            self.status = 1
            plan.finish(name, 0, now)
        return [(name, None, 0) for name in sorted(waiting)]

    def _print(self, name: str, item: dict[str, Any]) -> None:
        shown = {key: value for key, value in item.items() if key not in ("ret", "out")}
        shown[name] = item.get("ret")
        output.display(shown, item.get("out"), self.opts)


def _tell_nobody(down: list[str]) -> None:
    """No minion is left for the job: because none matched, or because none answers."""
    if down:
        _tell_down(down)
    else:
        console.say(NOBODY)


def _tell_down(names: list[str]) -> None:
    for name in names:
        console.say(f"Minion {name} did not respond. No job will be sent.")
