"""
Runs the calls of a state run, one after another, in the job's own process.

L{saltwisted.domain.highstate} decides order and requisites. L{saltwisted.worker.states.calls} does
one call, L{saltwisted.worker.states.parallel} those in processes of their own,
L{saltwisted.worker.states.retry} repetition. Texts and their oddities are those of C{salt/state.py}
in 3008.2.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from saltwisted.domain.highstate import extend, verify
from saltwisted.domain.highstate.chunks import compile_chunks, disabled_by, disabled_result
from saltwisted.domain.highstate.graph import Graph, order_chunks
from saltwisted.domain.highstate.listen import listeners
from saltwisted.domain.highstate.verdicts import (
    NOT_RUN,
    Required,
    failed_requisites,
    grouped,
    status_of,
)
from saltwisted.domain.highstate.words import (
    Chunk,
    High,
    Running,
    as_list,
    tag_of,
)
from saltwisted.worker.masking import name_of, unnamed
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.states.around import Around
from saltwisted.worker.states.calls import StateCalls
from saltwisted.worker.states.parallel import ParallelCalls
from saltwisted.worker.states.retry import instant
from saltwisted.worker.states.steps import STEPS, Numbered
from saltwisted.worker.unlogged import unlogged_state

log = logging.getLogger(__name__)

MOMENT = 0.01
"""Seconds between looks at parallel processes."""
DEEPEST = 20
"""So often a call is tried again because a requisite has no result."""


class StateRun:
    """
    One run of states.

    @param jid: the job, for events, pauses and parallel results.
    @param mocked: call no state function, and report that all succeeded.
    @param gather_pillar: compiles the pillar again, for C{reload_pillar}.
    @ivar processed: the SLS files that were rendered.
    @ivar calls: does one call.
    """

    def __init__(
        self,
        loaders: Loaders,
        *,
        jid: str | None = None,
        mocked: bool = False,
        gather_pillar: Callable[[], Any] | None = None,
    ) -> None:
        self.loaders = loaders
        self.opts = loaders.opts
        self.functions = loaders.modules
        self.states = loaders.states
        self.jid = jid
        self.graph = Graph()
        self.processed: set[str] = set()
        self.trials: Running = {}
        self.instance = f"{os.getpid()}-{id(self)}"
        self.parallel = ParallelCalls(loaders, jid or f"{time.time_ns()}")
        self.around = Around(loaders, jid)
        self.steps = Numbered(dict.get(loaders.pack, STEPS))
        self.calls = StateCalls(
            loaders,
            self.parallel,
            self.instance,
            mocked=mocked,
            gather_pillar=gather_pillar,
            again=lambda low: self.steps.begin(tag_of(low), low),
        )
        self._numbers = self.calls.numbers
        self._initialised: set[str] = set()

    @property
    def disabled_requisites(self) -> list[str]:
        """The option of this name, as a list."""
        return as_list(self.opts.get("disabled_requisites"))

    # -- compiling

    def compile_high(
        self, high: High, orchestration_jid: Any = None
    ) -> tuple[list[Chunk], list[str]]:
        """High data, verified, as calls in their order; or errors."""
        self.graph = Graph()
        chunks = []
        aggregate = self.functions["config.option"]("state_aggregate")
        patterns = _disabled_patterns(self.loaders)
        for chunk in compile_chunks(high, orchestration_jid):
            if patterns and disabled_by(chunk, patterns) is not None:
                self._numbers.take()
                continue
            self.graph.add(chunk, self._may_aggregate(chunk, aggregate))
            chunks.append(chunk)
        return self.order(chunks)

    def order(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[str]]:
        """The order of execution, or errors. Calls that are new to the graph are added."""
        if not self.graph:
            aggregate = self.functions["config.option"]("state_aggregate")
            for chunk in chunks:
                self.graph.add(chunk, self._may_aggregate(chunk, aggregate))
        for chunk in chunks:
            for watch, require in (("watch", "require"), ("watch_any", "require_any")):
                # To watch is to require where there is no mod_watch.
                if watch in chunk and not self.calls.offers(chunk, "mod_watch"):
                    chunk.setdefault(require, []).extend(chunk.pop(watch))
        return order_chunks(self.graph, chunks, self.disabled_requisites)

    def _may_aggregate(self, low: Chunk, option: Any) -> bool:
        option = low.get("aggregate", option)
        try:
            wanted = option is True or (
                not isinstance(option, str) and option and low["state"] in option
            )
        except TypeError:
            return False
        return bool(wanted) and self.calls.offers(low, "mod_aggregate")

    # -- the run

    def call_high(self, high: Any, orchestration_jid: Any = None) -> Any:
        """Run high data: the results, or a list of errors."""
        errors = extend.reconcile_extend(high) if isinstance(high, dict) else []
        errors += verify.mistakes(high)
        if errors:
            return errors
        errors = extend.apply_requisites_in(high, self.disabled_requisites)
        extend.apply_exclude(high)
        if errors:
            return errors
        chunks, errors = self.compile_high(high, orchestration_jid)
        if errors:
            return errors
        return self.call_ordered(chunks)

    def call_ordered(self, chunks: Sequence[Chunk], done: Running | None = None) -> Running:
        """
        Run calls that are in order, and what follows from them.

        @param done: results of calls that are not to be made again.
        """
        self.steps.compiled([tag_of(low) for low in chunks], chunks, self.loaders.pillar)
        if done:
            self._numbers.next = 1 + max(one.get("__run_num__", 0) for one in done.values())
        running = self.call_chunks(chunks, done)
        self.call_listen(chunks, running)
        self._call_beacons(chunks, running)
        cachedir = self.opts["cachedir"]
        _remove(os.path.join(cachedir, "accumulator", self.instance))
        self.around.forget_wishes()
        return unnamed(running, chunks)

    def call_chunks(self, chunks: Sequence[Chunk], done: Running | None = None) -> Running:
        """
        Run calls that are in order.

        @param done: results that there are already.
        """
        disabled: Running = {}
        patterns = _disabled_patterns(self.loaders)
        for chunk in chunks if patterns else ():
            pattern = disabled_by(chunk, patterns)
            if pattern is not None:
                tag, result = disabled_result(chunk, pattern, self._numbers.take())
                disabled[tag] = result
        running: Running = dict(done or {})
        waiting: dict[str, Chunk] = {}
        try:
            for low in chunks:
                waiting = self._call_waiting(waiting, running, chunks)
                self._collect(running)
                tag = tag_of(low)
                if tag in running:
                    continue
                if self.around.paused(low) == "kill":
                    break
                if self.call_chunk(low, running, chunks):
                    waiting[tag] = low
                self._stop_if_hard(low, running)
            while waiting:
                waiting = self._call_waiting(waiting, running, chunks)
                time.sleep(MOMENT)
        except HardFailure:
            return running
        self._collect(running, wait=True)
        return {**disabled, **running}

    def call_alone(self, low: Chunk, chunks: Sequence[Chunk]) -> Running:
        """Run one call and what it requires, without the others."""
        running: Running = {}
        try:
            self.call_chunk(low, running, chunks)
        except HardFailure:
            log.debug("A requisite of %s failed hard", low["__id__"])
        self._collect(running, wait=True)
        return running

    def _collect(self, running: Running, among: set[str] | None = None, wait: bool = False) -> bool:
        """
        Take the results of calls in processes of their own; true if no others are awaited.

        @param wait: until that is so.
        """
        while True:
            done = self.parallel.collect(running, among)
            self.steps.collected(running, self.parallel.tags)
            if done or not wait:
                return done
            time.sleep(MOMENT)

    def _call_waiting(
        self, waiting: dict[str, Chunk], running: Running, chunks: Sequence[Chunk]
    ) -> dict[str, Chunk]:
        still = {}
        for tag, low in waiting.items():
            if tag not in running:
                if self.call_chunk(low, running, chunks):
                    still[tag] = low
                self._stop_if_hard(low, running)
        return still

    def _stop_if_hard(self, low: Chunk, running: Running) -> None:
        if self._fails_hard(low, running):
            raise HardFailure

    def _fails_hard(self, low: Chunk, running: Running) -> bool:
        """C{failhard}: whether this failure ends the run."""
        if self.opts.get("test", False):
            return False
        result = running.get(tag_of(low))
        if result is not None and low.get("failhard", self.opts.get("failhard")):
            return result["result"] is not None and not result["result"]
        return False

    def call_chunk(
        self, low: Chunk, running: Running, chunks: Sequence[Chunk], depth: int = 0
    ) -> bool:
        """
        Run one call if its requisites let it, and put its result into C{running}.

        @return: true if it has to wait for parallel processes.
        @raises HardFailure: a requisite failed that ends the run.
        """
        low = self._aggregate(low, running)
        self.initialise(low)
        tag = tag_of(low)
        required = grouped(self.graph.requirements(low))
        status = self._status(low, required, running)
        trial = low.get("__prereq__")
        if status == "pending":
            return True
        if status == "unmet":
            if self._call_unmet(low, running, chunks, tag, depth):
                return True
        elif status == "fail":
            self._failed(low, tag, required, running)
        elif status in NOT_RUN:
            self._not_run(low, tag, True, NOT_RUN[status], running)
        elif status == "skip_watch" and not trial:
            result = self._called(low, tag, chunks, running)
            result["comment"] += (
                " mod_watch was not run because requisites were skipped by another state"
            )
            running[tag] = result
        elif status == "change" and not trial:
            result = self._called(low, tag, chunks, running)
            if not result["changes"] and not result.get("skip_watch", False):
                low = low.copy()
                low["sfun"] = low["fun"]
                low["fun"] = "mod_watch"
                low["__reqs__"] = {
                    kind: [chunk for _, chunk in items] for kind, items in required.items()
                }
                result = self._called(low, tag, chunks, running)
            running[tag] = result
        elif trial:
            self.trials[tag] = self.calls.call(low, chunks, running)
        else:
            running[tag] = self._called(low, tag, chunks, running)
        if tag in running:
            self._finished(low, running, tag, len(chunks))
        return False

    def _called(self, low: Chunk, tag: str, chunks: Sequence[Chunk], running: Running) -> Any:
        """The result of a call in earnest: one that there is already, or a new one."""
        known = self.steps.begin(tag, low)
        return self.calls.call(low, chunks, running) if known is None else known

    def _status(self, low: Chunk, required: Required, running: Running) -> str:
        pending = False
        if self.parallel and required:
            mine = {tag for items in required.values() for tag, _ in items}
            if low.get("parallel"):
                pending = not self._collect(running, mine)
            else:
                self._collect(running, mine, wait=True)
        return status_of(required, running, self.trials, pending)

    def _failed(self, low: Chunk, tag: str, required: Required, running: Running) -> None:
        trial = self.trials.get(tag)
        if trial is None:
            comment = failed_requisites(required, running, self.trials)
            self._not_run(low, tag, False, comment, running)
            return
        # The trial failed, or who asked for it did: its changes were not made.
        if trial.get("changes"):
            trial["changes"] = {}
        running[tag] = trial
        trial["__run_num__"] = self._numbers.take()
        for key in ("__sls__", "__id__"):
            trial[key] = low.get(key)
        trial["name"] = name_of(low)

    def _finished(self, low: Chunk, running: Running, tag: str, count: int) -> None:
        result = running[tag]
        self.around.fire(result, count, low.get("fire_event", False))
        for part in result.pop("sub_state_run", ()):
            start, duration = instant()
            self._numbers.take()
            running[tag_of(part["low"])] = {
                "name": name_of(low),
                "changes": part["changes"],
                "result": part["result"],
                "duration": part.get("duration", duration),
                "start_time": part.get("start_time", start),
                "comment": part.get("comment", ""),
                "__state_ran__": True,
                "__run_num__": self._numbers.next,
                "__sls__": low.get("__sls__"),
                "__id__": low.get("__id__"),
            }
        if tag in self.parallel.tags:
            self.steps.left(tag)
        else:
            self.steps.end(tag, result)

    def _not_run(self, low: Chunk, tag: str, outcome: bool, comment: str, running: Running) -> None:
        result = self._plain_result(low, outcome, comment)
        running[tag] = result
        if low.get("__prereq__"):
            self.trials[tag] = result

    def _plain_result(self, low: Chunk, outcome: bool, comment: str) -> dict[str, Any]:
        start, duration = instant()
        number = self._numbers.take()
        return {
            "changes": {},
            "result": outcome,
            "duration": duration,
            "start_time": start,
            "comment": comment,
            "__state_ran__": False,
            "__run_num__": number,
            "__sls__": low.get("__sls__"),
            "__id__": low.get("__id__"),
            "name": name_of(low),
        }

    def _call_unmet(
        self, low: Chunk, running: Running, chunks: Sequence[Chunk], tag: str, depth: int
    ) -> bool:
        """Run what a call waits for, then the call itself; true if it has to wait longer."""
        for _, other, chunk in list(self.graph.requirements(low)):
            if other not in running:
                if self.call_chunk(chunk, running, chunks):
                    return True
                self._stop_if_hard(chunk, running)
        pending = False
        if low.get("__prereq__"):
            required = grouped(self.graph.requirements(low))
            status = self._status(low, required, running)
            if status == "pre":
                self.trials[tag] = self._plain_result(low, True, NOT_RUN["pre"])
            else:
                trial = self.trials[tag] = self.calls.call(low, chunks, running)
                if not trial["changes"] and status == "change":
                    trial["changes"] = {"watch": "watch"}
                    trial["result"] = None
        elif depth + 1 >= DEEPEST:
            log.error("Recursive requisite found")
            running[tag] = {
                "changes": {},
                "result": False,
                "comment": "Recursive requisite found",
                "__run_num__": self._numbers.next,
                "name": name_of(low),
                **{key: low.get(key) for key in ("__sls__", "__id__")},
            }
        else:
            pending = self.call_chunk(low, running, chunks, depth + 1)
        self._stop_if_hard(low, running)
        return pending

    def call_listen(self, chunks: Sequence[Chunk], running: Running) -> None:
        """Call those who listened to what has changed."""
        calls, errors = listeners(chunks, running)
        for low in calls:
            self.graph.add(low, self._may_aggregate(low, {}))
        if calls:
            running.update(self.call_chunks(calls))
        for result in errors.values():
            result["__run_num__"] = self._numbers.take()
        running.update(errors)

    def _call_beacons(self, chunks: Sequence[Chunk], running: Running) -> None:
        calls = []
        for chunk in chunks:
            if "beacon" in chunk:
                low = chunk.copy()
                low["sfun"] = chunk["fun"]
                low["fun"] = "mod_beacon"
                low["__id__"] = f"beacon_{low['__id__']}"
                self.graph.add(low, self._may_aggregate(low, {}))
                calls.append(low)
        if calls:
            running.update(self.call_chunks(calls))

    def _aggregate(self, low: Chunk, running: Running) -> Chunk:
        if low.get("__agg__"):
            return low
        others = self.graph.aggregated(low)
        if not others:
            return low
        low["__agg__"] = True
        try:
            with unlogged_state(low, *others):
                changed: Chunk = self.states[f"{low['state']}.mod_aggregate"](low, others, running)
        except TypeError:
            log.error("Failed to execute aggregate for state %s", low["state"])
            return low
        return changed

    def initialise(self, low: Chunk) -> None:
        """C{mod_init}, called until it says that it is done."""
        state = low["state"]
        if state in self._initialised or not self.calls.offers(low, "mod_init"):
            return
        with unlogged_state(low):
            done = self.states[f"{state}.mod_init"](low)
        if done:
            self._initialised.add(state)


def _disabled_patterns(loaders: Loaders) -> Sequence[str]:
    patterns = loaders.grains.get("state_runs_disabled")
    return patterns if isinstance(patterns, list) else ()


class HardFailure(Exception):
    """A state with C{failhard} failed: the run is over."""


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        log.debug("%s does not exist", path)
