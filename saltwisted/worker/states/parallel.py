"""
Calls in processes of their own (C{parallel}): started, waited for, their results collected.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from saltwisted.domain.highstate.words import Chunk, Running, tag_of
from saltwisted.worker.masking import masked
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.states.cache import read_cache, write_cache
from saltwisted.worker.states.retry import attempt as attempt_text
from saltwisted.worker.states.retry import crashed, retry_settings, span, would_retry
from saltwisted.worker.states.retry import interval as interval_of
from saltwisted.worker.states.slots import fill_slots
from saltwisted.worker.unlogged import unlogged_state

log = logging.getLogger(__name__)


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


class ParallelCalls:
    """
    The calls of a run that are in processes of their own.

    @param invocation: names the directory of their results.
    """

    def __init__(self, loaders: Loaders, invocation: str) -> None:
        self._functions = loaders.called
        self._states = loaders.states
        self._opts = loaders.opts
        self._invocation = invocation
        self._calls: dict[str, Parallel] = {}
        self._results_dir = ""

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def tags(self) -> set[str]:
        """Of the calls whose results were not collected yet."""
        return set(self._calls)

    def start(
        self, low: Chunk, full: str, args: list[Any], keywords: dict[str, Any]
    ) -> dict[str, Any]:
        """Begin a call, now or when there is room; answers with its result until then."""
        tag = tag_of(low)
        name = (args or [None])[0] or keywords.get("name") or low.get("name", low.get("__id__"))
        folder = os.path.join(self._opts["cachedir"], self._invocation)
        os.makedirs(folder, exist_ok=True)
        self._results_dir = folder
        path = os.path.join(folder, hashlib.sha1(tag.encode(), usedforsecurity=False).hexdigest())

        def work() -> dict[str, Any]:
            with unlogged_state(low):
                result = self._work(low, full, args, keywords, name)
            # Before it is written, even for the moment until it is read
            return masked(low, result)

        told = low.get("__id__") if low.get("no_log") else name
        parallel = self._calls[tag] = Parallel(told, path, work)
        if self._may_start():
            parallel.start()
            comment = "Started in a separate process"
        else:
            comment = "Waiting to be started in a separate process, max_parallel hit"
        return {"name": told, "result": None, "changes": {}, "comment": comment}

    def _work(
        self, low: Chunk, full: str, args: list[Any], keywords: dict[str, Any], name: Any
    ) -> dict[str, Any]:
        """What the process of a parallel call does."""
        began = datetime.now(tz=UTC)
        fill_slots(self._functions, args, keywords)
        try:
            result: dict[str, Any] = self._states[full](*args, **keywords)
        except Exception:
            result = {
                "result": False,
                "name": name,
                "changes": {},
                "comment": f"An exception occurred in this state: {crashed()}",
            }
        result["start_time"], result["duration"] = span(began)
        result["__parallel__"] = True
        if "retry" not in low:
            return result
        retry = retry_settings(low["retry"])
        if self._opts.get("test"):
            result["comment"] = would_retry(result, retry)
            return result
        for attempt in range(1, retry["attempts"] + 1):
            if retry["until"] == result["result"]:
                break
            interval = interval_of(retry)
            time.sleep(interval)
            again = self._states[full](*args, **keywords)
            told = attempt_text(attempt, again) if again["comment"] else ""
            again["comment"] = f"{result['comment']}\n{told}"
            again["duration"] = result["duration"] + interval * 1000
            if attempt == 1:
                again["start_time"] = result["start_time"]
            result = again
        return result

    def _may_start(self) -> bool:
        limit = self._opts.get("state_max_parallel")
        return not limit or sum(one.alive() for one in self._calls.values()) < limit

    def collect(self, running: Running, among: set[str] | None = None) -> bool:
        """Take the results of processes that ended; true if there are no others."""
        done = True
        for tag, parallel in list(self._calls.items()):
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
                del self._calls[tag]
        if done and not self._calls and self._results_dir:
            try:
                os.rmdir(self._results_dir)
            except OSError:
                log.debug("%s stays", self._results_dir)
            self._results_dir = ""
        return done
