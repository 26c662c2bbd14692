"""
Runs the calls of a state run, one after the other, in the job's own process.

Order and requisites are judged by L{saltwisted.domain.highstate}; here are the calls
themselves with their conditions (C{unless} ...), repetition, parallel processes, results
and events. What a state function finds in its module is what Salt's modules expect:
C{__low__}, C{__running__}, C{__lowstate__}, C{__env__}, C{__instance_id__}. Texts and
their oddities are those of C{salt/state.py} in 3008.2.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import random
import signal
import site
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
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
    unified,
)
from saltwisted.domain.highstate.words import (
    INTERNAL_KEYWORDS,
    Chunk,
    High,
    Running,
    as_list,
    tag_of,
)
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.masking import redact
from saltwisted.worker.process.call import ArgSpec, argspec
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.states.cache import read_cache, write_cache
from saltwisted.worker.states.conditions import Conditions
from saltwisted.worker.states.slots import fill_slots

log = logging.getLogger(__name__)

MOMENT = 0.01
"""Seconds between looks at parallel processes."""
COMMANDS = ("cmd", "cron")
"""States whose names are commands."""
DEEPEST = 20
"""So often a call is tried again because a requisite has no result."""

_TEXT_FILES = (".py", ".pyx", ".pyo", ".pyc", ".so")
_RETRY: dict[str, Any] = {"until": True, "attempts": 2, "splay": 0, "interval": 30}
_RETRY_TYPES = {"until": bool, "attempts": int, "interval": int, "splay": int}


class Parallel:
    """
    A call in a process of its own.

    @ivar pid: C{None} until there is a process, C{0} when it is done.
    """

    def __init__(self, name: Any, path: str, work: Callable[[], dict[str, Any]]) -> None:
        self.name = name
        self.path = path
        self.pid: int | None = None
        self._work = work

    def start(self) -> None:
        """Fork; the child writes its result to C{path} and ends."""
        pid = os.fork()
        if pid:
            self.pid = pid
            return
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            write_cache(self.path, self._work())
            status = 0
        finally:
            os._exit(status)

    def alive(self) -> bool:
        """Whether the process still runs."""
        if not self.pid:
            return False
        try:
            done, _ = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            done = self.pid
        if done:
            self.pid = 0
        return not done

    def result(self) -> dict[str, Any]:
        """What the process left."""
        try:
            answer = read_cache(self.path)
            os.remove(self.path)
        except (OSError, ValueError):
            return {
                "result": False,
                "comment": "Parallel cache failure",
                "name": self.name,
                "changes": {},
            }
        return answer  # type: ignore[no-any-return]


class StateRun:
    """
    One run of states.

    @param jid: the job, for events, pauses and parallel results.
    @param mocked: call no state function, say that all went well.
    @param gather_pillar: compiles the pillar again, for C{reload_pillar}.
    @ivar processed: the SLS that were rendered.
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
        self.context = loaders.context
        self.jid = jid
        self.mocked = mocked
        self.graph = Graph()
        self.processed: set[str] = set()
        self.trials: Running = {}
        self.instance = f"{os.getpid()}-{id(self)}"
        self._gather_pillar = gather_pillar
        self._number = 0
        self._initialised: set[str] = set()
        self._parallel: dict[str, Parallel] = {}
        self._specs: dict[Any, ArgSpec] = {}
        self._has: dict[str, bool] = {}
        self._global_conditions: Any = None
        self._invocation = jid or f"{time.time_ns()}"
        self._results_dir = ""
        self._conditions = Conditions(self)

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
        patterns = self._disabled_patterns()
        for chunk in compile_chunks(high, orchestration_jid):
            if patterns and disabled_by(chunk, patterns) is not None:
                self._number += 1
                continue
            self.graph.add(chunk, self._may_aggregate(chunk, aggregate))
            chunks.append(chunk)
        return self.order(chunks)

    def _disabled_patterns(self) -> Sequence[str]:
        patterns = self.loaders.grains.get("state_runs_disabled")
        return patterns if isinstance(patterns, list) else ()

    def order(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[str]]:
        """The order of execution, or errors. Calls that are new to the graph are added."""
        if not self.graph:
            aggregate = self.functions["config.option"]("state_aggregate")
            for chunk in chunks:
                self.graph.add(chunk, self._may_aggregate(chunk, aggregate))
        for chunk in chunks:
            for watch, require in (("watch", "require"), ("watch_any", "require_any")):
                # To watch is to require where there is no mod_watch.
                if watch in chunk and not self._offers(chunk, "mod_watch"):
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
        return bool(wanted) and self._offers(low, "mod_aggregate")

    def _offers(self, low: Chunk, function: str) -> bool:
        """Whether the module of a state has such a function; its file is loaded for that."""
        key = f"{low['state']}.{function}"
        found = self._has.get(key)
        if found is None:
            _ = f"{low['state']}.{low['fun']}" in self.states
            found = self._has[key] = dict.__contains__(self.states, key)
        return found

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
        running = self.call_chunks(chunks)
        self.call_listen(chunks, running)
        self._call_beacons(chunks, running)
        cachedir = self.opts["cachedir"]
        _remove(os.path.join(cachedir, "accumulator", self.instance))
        if self.jid is not None:
            _remove(os.path.join(cachedir, "state_pause", self.jid))
        return running

    def call_chunks(self, chunks: Sequence[Chunk]) -> Running:
        """Run calls that are in order."""
        disabled: Running = {}
        patterns = self._disabled_patterns()
        for chunk in chunks if patterns else ():
            pattern = disabled_by(chunk, patterns)
            if pattern is not None:
                tag, result = disabled_result(chunk, pattern, self._number)
                disabled[tag] = result
                self._number += 1
        running: Running = {}
        waiting: dict[str, Chunk] = {}
        try:
            for low in chunks:
                waiting = self._call_waiting(waiting, running, chunks)
                self._collect(running)
                tag = tag_of(low)
                if tag in running:
                    continue
                if self._paused(low) == "kill":
                    break
                if self.call_chunk(low, running, chunks):
                    waiting[tag] = low
                self._stop_if_hard(low, running)
            while waiting:
                waiting = self._call_waiting(waiting, running, chunks)
                time.sleep(MOMENT)
        except HardFailure:
            return running
        while not self._collect(running):
            time.sleep(MOMENT)
        return {**disabled, **running}

    def call_alone(self, low: Chunk, chunks: Sequence[Chunk]) -> Running:
        """Run one call and what it requires, without the others."""
        running: Running = {}
        try:
            self.call_chunk(low, running, chunks)
        except HardFailure:
            log.debug("A requisite of %s failed hard", low["__id__"])
        while not self._collect(running):
            time.sleep(MOMENT)
        return running

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
        self._initialise(low)
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
            result = self.call(low, chunks, running)
            result["comment"] += (
                " mod_watch was not run because requisites were skipped by another state"
            )
            running[tag] = result
        elif status == "change" and not trial:
            result = self.call(low, chunks, running)
            if not result["changes"] and not result.get("skip_watch", False):
                low = low.copy()
                low["sfun"] = low["fun"]
                low["fun"] = "mod_watch"
                low["__reqs__"] = {
                    kind: [chunk for _, chunk in items] for kind, items in required.items()
                }
                result = self.call(low, chunks, running)
            running[tag] = result
        elif trial:
            self.trials[tag] = self.call(low, chunks, running)
        else:
            running[tag] = self.call(low, chunks, running)
        if tag in running:
            self._finished(low, running, tag, len(chunks))
        return False

    def _status(self, low: Chunk, required: Required, running: Running) -> str:
        pending = False
        if self._parallel and required:
            mine = {tag for items in required.values() for tag, _ in items}
            if low.get("parallel"):
                pending = not self._collect(running, mine)
            else:
                while not self._collect(running, mine):
                    time.sleep(MOMENT)
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
        trial["__run_num__"] = self._number
        for key in ("__sls__", "__id__", "name"):
            trial[key] = low.get(key)
        self._number += 1

    def _finished(self, low: Chunk, running: Running, tag: str, count: int) -> None:
        result = running[tag]
        self._fire(result, count, low.get("fire_event", False))
        for part in result.pop("sub_state_run", ()):
            start, duration = _instant()
            self._number += 1
            running[tag_of(part["low"])] = {
                "name": low.get("name"),
                "changes": part["changes"],
                "result": part["result"],
                "duration": part.get("duration", duration),
                "start_time": part.get("start_time", start),
                "comment": part.get("comment", ""),
                "__state_ran__": True,
                "__run_num__": self._number,
                "__sls__": low.get("__sls__"),
                "__id__": low.get("__id__"),
            }

    def _not_run(self, low: Chunk, tag: str, outcome: bool, comment: str, running: Running) -> None:
        result = self._plain_result(low, outcome, comment)
        running[tag] = result
        if low.get("__prereq__"):
            self.trials[tag] = result

    def _plain_result(self, low: Chunk, outcome: bool, comment: str) -> dict[str, Any]:
        start, duration = _instant()
        number = self._number
        self._number += 1
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
            "name": low.get("name"),
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
                trial = self.trials[tag] = self.call(low, chunks, running)
                if not trial["changes"] and status == "change":
                    trial["changes"] = {"watch": "watch"}
                    trial["result"] = None
        elif depth + 1 >= DEEPEST:
            log.error("Recursive requisite found")
            running[tag] = {
                "changes": {},
                "result": False,
                "comment": "Recursive requisite found",
                "__run_num__": self._number,
                **{key: low.get(key) for key in ("__sls__", "__id__", "name")},
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
            result["__run_num__"] = self._number
            self._number += 1
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
            changed: Chunk = self.states[f"{low['state']}.mod_aggregate"](low, others, running)
        except TypeError:
            log.error("Failed to execute aggregate for state %s", low["state"])
            return low
        return changed

    def _initialise(self, low: Chunk) -> None:
        """C{mod_init}, called until it says that it is done."""
        state = low["state"]
        if state in self._initialised or not self._offers(low, "mod_init"):
            return
        if self.states[f"{state}.mod_init"](low):
            self._initialised.add(state)

    initialise = _initialise

    # -- one call

    def verify(self, low: Chunk) -> list[str]:
        """What is missing in low data for a call."""
        errors = [f'Missing "{key}" data' for key in ("state", "fun", "name") if key not in low]
        name = low.get("name")
        if name and not isinstance(name, str):
            where = f"in SLS '{low['__sls__']}' " if "__sls__" in low else ""
            errors.append(
                f"ID '{name}' {where}is not formed as a string, but is a {type(name).__name__}"
            )
        if "umask" in low:
            umask = low.pop("umask")
            try:
                low["__umask__"] = int(str(umask), 8)
            except (TypeError, ValueError):
                errors.append(f"Invalid umask: {umask}")
        if errors:
            return errors
        full = f"{low['state']}.{low['fun']}"
        if full not in self.states:
            if "__sls__" not in low:
                return [f"Specified state '{full}' was not found"]
            errors.append(f"State '{full}' was not found in SLS '{low['__sls__']}'")
            reason = self.states.missing_fun_string(full)
            if reason:
                errors.append(f"Reason: {reason}")
            return errors
        spec = self._spec(self.states[full])
        required = spec.args[: len(spec.args) - len(spec.defaults or ())]
        return [f"Missing parameter {arg} for state {full}" for arg in required if arg not in low]

    def _spec(self, function: Any) -> ArgSpec:
        spec = self._specs.get(function)
        if spec is None:
            spec = self._specs[function] = argspec(function)
        return spec

    def _arguments(self, function: Any, full: str, low: Chunk) -> tuple[list[Any], dict[str, Any]]:
        """
        The arguments of a state function out of low data.

        @raises SaltInvocationError: it does not take one of them.
        """
        spec = self._spec(function)
        split = len(spec.args) - len(spec.defaults or ())
        rest = dict(low)
        keywords = dict(zip(spec.args[split:], spec.defaults or (), strict=True))
        for name in keywords:
            if name in rest:
                keywords[name] = rest.pop(name)
        args = [rest.pop(name) for name in spec.args[:split]]
        extra = {key: value for key, value in rest.items() if key not in INTERNAL_KEYWORDS}
        if spec.keywords is not None:
            keywords.update(extra)
        elif extra:
            quoted = [f"'{key}'" for key in extra]
            if len(quoted) == 1:
                raise SaltInvocationError(
                    f"{quoted[0]} is an invalid keyword argument for '{full}'"
                )
            raise SaltInvocationError(
                f"{', '.join(quoted[:-1])} and {quoted[-1]} are invalid keyword arguments "
                f"for '{full}'"
            )
        return args, keywords

    def call(
        self,
        low: Chunk,
        chunks: Sequence[Chunk] = (),
        running: Running | None = None,
        attempt: int = 1,
    ) -> Any:
        """
        One call whose requisites are met: conditions, the state function, repetition.

        @raises SaltInvocationError: the function does not take one of the arguments.
        """
        return unified(self._call(low, chunks, running, attempt))

    def _call(
        self, low: Chunk, chunks: Sequence[Chunk], running: Running | None, attempt: int
    ) -> Any:
        began = datetime.now(tz=UTC)
        name = _logged_name(low)
        log.info("Running state [%s] at time %s", name, began.astimezone().time().isoformat())
        errors = self.verify(low)
        if errors:
            result: Any = {
                "result": False,
                "name": low.get("name"),
                "changes": {},
                "comment": "".join(f"{error}\n" for error in errors),
                "__run_num__": self._number,
            }
            self._number += 1
            _log(name, result)
            self._check_refresh(low, result)
            return result
        full = f"{low['state']}.{low['fun']}"
        if not low.get("__prereq__"):
            log.info("Executing state %s for [%s]", full, name)
        self.context["runas"] = low.get("runas")
        password = "password" if low["state"] == "cmd" and "password" in low else "runas_password"
        self.context["runas_password"] = low.get(password)
        with self._provider(low):
            args, keywords = self._arguments(self.states[full], full, low)
            result = self._executed(low, full, args, keywords, chunks, running)
        if not isinstance(result, dict):
            return result
        if low.get("__prereq__"):
            low["__prereq__"] = False
            return result
        result["__sls__"] = low.get("__sls__")
        result["__run_num__"] = self._number
        self._number += 1
        if low.get("no_log"):
            result["comment"] = redact(result["comment"])
            result["changes"] = redact(result["changes"])
        _log(name, result)
        self._check_refresh(low, result)
        result["start_time"], result["duration"] = _span(began)
        result["__id__"] = low["__id__"]
        log.info(
            "Completed state [%s] at time %s (duration_in_ms=%s)",
            name,
            _instant()[0],
            result["duration"],
        )
        if "retry" in low and "parallel" not in low:
            result = self._retried(low, chunks, running, attempt, result)
        return result

    def _executed(
        self,
        low: Chunk,
        full: str,
        args: list[Any],
        keywords: dict[str, Any],
        chunks: Sequence[Chunk],
        running: Running | None,
    ) -> Any:
        """The state function's answer, or why it was not called, or how it crashed."""
        result: Any = {"result": False, "name": low["name"], "changes": {}}
        test = self.opts.get("test")
        if low.get("__prereq__"):
            self.opts["test"] = True
        try:
            if any(word in low for word in ("unless", "onlyif", "creates")) and not self._offers(
                low, "mod_run_check"
            ):
                result.update(self._conditions.check(low))
            if result["result"] is False:
                self._surround(low, keywords, chunks, running)
                result = self._invoke(low, full, args, keywords)
            if "check_cmd" in low and (
                not self._offers(low, "mod_run_check_cmd")
                or "check_cmd" not in self._spec(self.states[full]).args
            ):
                result.update(self._conditions.check_cmd(low))
        except Exception:
            log.debug("An exception occurred in this state:", exc_info=True)
            name = (args or [None])[0] or keywords.get("name")
            return {
                "result": False,
                "name": name or low.get("name", low.get("__id__")),
                "changes": {},
                "comment": f"An exception occurred in this state: {_traceback()}",
            }
        finally:
            if low.get("__prereq__"):
                self.opts["test"] = test
            self.context.pop("runas", None)
            self.context.pop("runas_password", None)
        return result

    def _invoke(self, low: Chunk, full: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        if self.mocked:
            return {
                "name": args[0] if args else keywords["name"],
                "comment": "Not called, mocked",
                "changes": {},
                "result": True,
            }
        refused = self._globally_refused(full, low)
        if refused is not None:
            return refused
        if not low.get("__prereq__") and low.get("parallel"):
            return self._call_parallel(low, full, args, keywords)
        fill_slots(self.functions, args, keywords)
        with _umask(low.get("__umask__")):
            return self.states[full](*args, **keywords)

    def _surround(
        self,
        low: Chunk,
        keywords: dict[str, Any],
        chunks: Sequence[Chunk],
        running: Running | None,
    ) -> None:
        """Put the names of this call into the state modules."""
        saltenv = str(low.get("__env__", "base"))
        if not self.opts.get("lock_saltenv", False):
            if "saltenv" in low:
                saltenv = str(low["saltenv"])
            elif isinstance(keywords.get("env"), str):
                saltenv = keywords["env"]
        names: dict[str, Any] = {
            "__low__": dict(low),
            "__running__": MappingProxyType(running) if running is not None else {},
            "__instance_id__": self.instance,
            "__lowstate__": chunks,
            "__user__": self.opts.get("user", "UNKNOWN"),
            "__env__": saltenv,
        }
        if "__orchestration_jid__" in low:
            names["__orchestration_jid__"] = low["__orchestration_jid__"]
        dict.update(self.loaders.pack, names)
        for module in self.states.executed:
            module.__dict__.update(names)

    def _globally_refused(self, full: str, low: Chunk) -> dict[str, Any] | None:
        """C{global_state_conditions}: a result, if none of those that fit lets the state run."""
        if self._global_conditions is None:
            self._global_conditions = (
                self.functions["config.option"]("global_state_conditions") or {}
            )
        answers: list[Any] = []
        for name, conditions in self._global_conditions.items():
            if name in ("*", full, low["state"]):
                wanted = [conditions] if isinstance(conditions, str) else conditions
                if isinstance(wanted, list):
                    answers += [self.functions["match.compound"](one) for one in wanted]
        if not answers or any(answers):
            return None
        return {
            "name": low["name"],
            "comment": "Failed to meet global state conditions. State not called.",
            "changes": {},
            "result": None,
        }

    @contextmanager
    def _provider(self, low: Chunk) -> Iterator[None]:
        """C{provider}: execution modules under other names while one state runs."""
        given = low.get("provider")
        if not given:
            yield
            return
        pairs: dict[str, Any] = {}
        for one in [{low["state"]: given}] if isinstance(given, str) else as_list(given):
            pairs.update(one)
        before = self.opts.get("providers")
        self.opts["providers"] = {**(before or {}), **pairs}
        self.functions.clear()
        try:
            yield
        finally:
            self.opts["providers"] = before
            self.functions.clear()

    # -- repetition

    def _retried(
        self,
        low: Chunk,
        chunks: Sequence[Chunk],
        running: Running | None,
        attempt: int,
        result: dict[str, Any],
    ) -> dict[str, Any]:
        retry = low["retry"] = retry_settings(low["retry"])
        if self.opts.get("test"):
            result["comment"] = _would_retry(result, retry)
            return result
        if retry["until"] == result["result"] or retry["attempts"] <= attempt:
            return result
        interval = _interval(retry)
        log.info(
            "State result does not match retry until value, state will be re-run in %s seconds",
            interval,
        )
        self.functions["test.sleep"](interval)
        again = self.call(low, chunks, running, attempt + 1)
        told = _attempt(attempt, result)
        again["comment"] = f"{told}\n{again['comment'] or ''}"
        again["duration"] = again["duration"] + result["duration"] + interval * 1000
        if attempt == 1:
            again["start_time"] = result["start_time"]
        return again  # type: ignore[no-any-return]

    # -- parallel

    def _call_parallel(
        self, low: Chunk, full: str, args: list[Any], keywords: dict[str, Any]
    ) -> dict[str, Any]:
        tag = tag_of(low)
        name = (args or [None])[0] or keywords.get("name") or low.get("name", low.get("__id__"))
        folder = os.path.join(self.opts["cachedir"], self._invocation)
        os.makedirs(folder, exist_ok=True)
        self._results_dir = folder
        path = os.path.join(folder, hashlib.sha1(tag.encode(), usedforsecurity=False).hexdigest())

        def work() -> dict[str, Any]:
            return self._parallel_work(low, full, args, keywords, name)

        parallel = self._parallel[tag] = Parallel(name, path, work)
        if self._may_start():
            parallel.start()
            comment = "Started in a separate process"
        else:
            comment = "Waiting to be started in a separate process, max_parallel hit"
        return {"name": name, "result": None, "changes": {}, "comment": comment}

    def _parallel_work(
        self, low: Chunk, full: str, args: list[Any], keywords: dict[str, Any], name: Any
    ) -> dict[str, Any]:
        """What the process of a parallel call does."""
        began = datetime.now(tz=UTC)
        fill_slots(self.functions, args, keywords)
        try:
            result: dict[str, Any] = self.states[full](*args, **keywords)
        except Exception:
            result = {
                "result": False,
                "name": name,
                "changes": {},
                "comment": f"An exception occurred in this state: {_traceback()}",
            }
        result["start_time"], result["duration"] = _span(began)
        result["__parallel__"] = True
        if "retry" not in low:
            return result
        retry = retry_settings(low["retry"])
        if self.opts.get("test"):
            result["comment"] = _would_retry(result, retry)
            return result
        for attempt in range(1, retry["attempts"] + 1):
            if retry["until"] == result["result"]:
                break
            interval = _interval(retry)
            time.sleep(interval)
            again = self.states[full](*args, **keywords)
            told = _attempt(attempt, again) if again["comment"] else ""
            again["comment"] = f"{result['comment']}\n{told}"
            again["duration"] = result["duration"] + interval * 1000
            if attempt == 1:
                again["start_time"] = result["start_time"]
            result = again
        return result

    def _may_start(self) -> bool:
        limit = self.opts.get("state_max_parallel")
        return not limit or sum(one.alive() for one in self._parallel.values()) < limit

    def _collect(self, running: Running, among: set[str] | None = None) -> bool:
        """Take the results of processes that ended; true if there are no others."""
        done = True
        for tag, parallel in list(self._parallel.items()):
            if tag not in running or (among is not None and tag not in among):
                continue
            if parallel.pid is None:
                if self._may_start():
                    parallel.start()
                    running[tag]["comment"] = "Started in a separate process"
                done = False
            elif parallel.alive():
                done = False
            else:
                running[tag].update(parallel.result())
                del self._parallel[tag]
        if done and not self._parallel and self._results_dir:
            try:
                os.rmdir(self._results_dir)
            except OSError:
                log.debug("%s stays", self._results_dir)
            self._results_dir = ""
        return done

    # -- around

    def refresh_modules(self) -> None:
        """Look at all modules again; also at Python packages that came since."""
        try:
            importlib.reload(site)
        except (RuntimeError, TypeError):
            log.error("Error encountered during module reload. Modules were not reloaded.")
        self.loaders.clear()
        self._specs.clear()
        self._has.clear()
        if not self.opts.get("local") and self.opts.get("file_client") != "local":
            self.functions["saltutil.refresh_modules"]()

    def _check_refresh(self, low: Chunk, result: dict[str, Any]) -> None:
        """Read modules, grains and pillar again if the state asks for that or changed them."""
        reload = False
        if low.get("reload_grains", False):
            self.loaders.replace(grains=make_grains(self.opts))
            reload = True
        if low.get("reload_pillar", False) and self._gather_pillar is not None:
            self.loaders.replace(pillar=self._gather_pillar())
            reload = True
        if not result.get("changes"):
            if low.get("force_reload_modules", False):
                self.refresh_modules()
            return
        state, function = low["state"], low["fun"]
        if (
            reload
            or low.get("reload_modules", False)
            or state in ("pkg", "ports", "pip")
            or (state == "file" and function == "recurse")
            or (state == "file" and function == "managed" and low["name"].endswith(_TEXT_FILES))
            or (state == "file" and function == "symlink" and "bin" in low["name"])
        ):
            self.refresh_modules()

    def _fire(self, result: dict[str, Any], count: int, fire_event: Any) -> None:
        """Tell the master of a result, if the options or the state ask for it."""
        opts = self.opts
        if opts.get("local") or opts.get("file_client") == "local":
            return
        if not fire_event and not opts.get("state_events", True):
            return
        data: dict[str, Any] = {"ret": result}
        jid = self.jid or "req"
        if fire_event is True or isinstance(fire_event, str):
            name = result["name"] if fire_event is True else fire_event
            tag = f"salt/state_result/{jid}/{opts['id']}/{name}"
        else:
            tag = f"salt/job/{jid}/prog/{opts['id']}/{result['__run_num__']}"
            data["len"] = count
        self.functions["event.fire_master"](data, tag)

    def _paused(self, low: Chunk) -> str:
        """Wait as long as C{state.pause} says; C{kill} if C{state.soft_kill} did."""
        if not self.jid:
            return "run"
        path = os.path.join(self.opts["cachedir"], "state_pause", str(self.jid))
        began = time.time()
        while os.path.isfile(path):
            try:
                wishes = read_cache(path)
            except (OSError, ValueError):
                wishes = {}
            wish = wishes.get(low["__id__"], wishes.get("__all__"))
            if wish is None:
                return "run"
            if "duration" in wish and time.time() - began > wish["duration"]:
                return "run"
            if "kill" in wish:
                return "kill"
            time.sleep(1)
        return "run"


_SURROUNDINGS = (
    "__low__",
    "__running__",
    "__instance_id__",
    "__lowstate__",
    "__user__",
    "__env__",
    "__orchestration_jid__",
)
"""What C{StateRun._surround} puts into the state modules."""


class HardFailure(Exception):
    """A state with C{failhard} failed: the run is over."""


def retry_settings(given: Any) -> dict[str, Any]:
    """C{retry} in full: C{until attempts interval splay}, with defaults for what is wrong."""
    if isinstance(given, Mapping):
        return {
            key: given[key] if isinstance(given.get(key), kind) else _RETRY[key]
            for key, kind in _RETRY_TYPES.items()
        }
    if given is False:
        return {**_RETRY, "attempts": 0}
    return dict(_RETRY)


def _interval(retry: Mapping[str, Any]) -> int:
    splay = random.randint(0, retry["splay"]) if retry["splay"] else 0  # noqa: S311 - no secret
    return int(retry["interval"]) + splay


def _attempt(number: int, result: Mapping[str, Any]) -> str:
    return (
        f'Attempt {number}: Returned a result of "{result["result"]}", '
        f'with the following comment: "{result["comment"]}"'
    )


def _would_retry(result: Mapping[str, Any], retry: Mapping[str, Any]) -> str:
    return (
        f"{result['comment'] or ''}  "
        "The state would be retried every {interval} seconds (with a splay of up to {splay} "
        "seconds) a maximum of {attempts} times or until a result of {until} is returned"
    ).format(**retry)


def _span(began: datetime) -> tuple[str, float]:
    """Local time of day when something began, and the milliseconds since."""
    passed = datetime.now(tz=UTC) - began
    milliseconds = (passed.seconds * 1000000 + passed.microseconds) / 1000.0
    return began.astimezone().time().isoformat(), milliseconds


def _instant() -> tuple[str, float]:
    return _span(datetime.now(tz=UTC))


@contextmanager
def kept_surroundings(loaders: Loaders) -> Iterator[None]:
    """
    Put back what state modules know of their own call when another run within it has ended.

    A state function that calls C{state.single} finds its C{__low__} again afterwards.
    """
    before = {key: dict.get(loaders.pack, key) for key in _SURROUNDINGS if key in loaders.pack}
    try:
        yield
    finally:
        if before:
            dict.update(loaders.pack, before)
            for module in loaders.states.executed:
                module.__dict__.update(before)


@contextmanager
def _umask(mask: int | None) -> Iterator[None]:
    if mask is None:
        yield
        return
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        log.debug("%s does not exist", path)


def _logged_name(low: Chunk) -> Any:
    """
    The name of a state as it may be logged.

    Of a command that is its first word, as C{cmd} does itself: its arguments may be secrets, and so
    may be the login in an address, and all of a state with C{no_log}.
    """
    name = low.get("name")
    if low.get("no_log"):
        return low.get("__id__")
    if not isinstance(name, str):
        return name
    name = name.strip()
    if low.get("state") in COMMANDS:
        return name.split(None, 1)[0] if name else name
    if "://" in name:
        from saltwisted.worker.fetch import redact as without_login  # heavy, and seldom needed

        return without_login(name)
    return name


def _log(name: Any, result: Mapping[str, Any]) -> None:
    """A result in a few words; comments and changes may hold secrets and are not logged."""
    if result.get("result") is False:
        log.error("The state %s failed", name)
    elif result.get("changes"):
        log.info("The state %s made changes", name)
    else:
        log.info("No changes made for %s", name)


def _traceback() -> str:
    """The exception that is handled, in Salt's words: nothing there is raised C{from} another."""
    return traceback.format_exc().replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    )
