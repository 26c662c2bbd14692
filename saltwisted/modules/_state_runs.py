"""
What the functions of C{state} do around a run: one at a time, its options, its return code.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import frozen

from saltwisted.domain.highstate.verdicts import succeeded
from saltwisted.domain.pillar.settings import asked_environment
from saltwisted.modules._injected import Injected
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from saltwisted.worker.states import queue as statequeue
from saltwisted.worker.states.calls import kept_surroundings
from saltwisted.worker.states.highstate import (
    HighState,
    changed_options,
    master_options,
)

log = logging.getLogger(__name__)

EX_COMPILER = 1
EX_FAILED = 2
EX_PILLAR = 5
PILLAR_FAILED = "Pillar failed to render with the following messages:"
KEEP = object()
"""For C{test}: as it is."""


def override(kwargs: dict[str, Any]) -> Any:
    """What is laid over the pillar."""
    given = kwargs.get("pillar")
    if kwargs.get("pillar_enc") is None and given is not None and not isinstance(given, dict):
        raise SaltInvocationError(
            "Pillar data must be formatted as a dictionary, unless pillar_enc is specified."
        )
    return given


def pillar_errors(compiler: HighState, kwargs: dict[str, Any]) -> list[Any]:
    """Why the pillar cannot be used; empty if it can, or must."""
    return compiler.errors_of_pillar(bool(kwargs.get("force")))


def _is_true(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return value > 0
    if isinstance(value, str):
        return value.lower() == "true"
    return bool(value)


@frozen(eq=False)
class StateRuns(Injected):
    """The surroundings of one module's calls of states."""

    def _options(self, kwargs: dict[str, Any], test: Any = None) -> dict[str, Any]:
        """The options that the arguments of a call change."""
        changes: dict[str, Any] = {}
        if "localconfig" in kwargs:
            from saltwisted.worker.process.configio import load_from_disk

            loaded = load_from_disk("minion", None, overrides={"conf_file": kwargs["localconfig"]})
            changes.update(loaded.config.as_opts())
        saltenv = kwargs.get("saltenv")
        if saltenv is not None:
            saltenv = str(saltenv)
            if self.opts.get("lock_saltenv") and saltenv != self.opts.get("saltenv"):
                raise CommandExecutionError("lock_saltenv is enabled, saltenv cannot be changed")
            changes["saltenv"] = saltenv
        changes.update(asked_environment(self.opts, kwargs))
        if kwargs.get("state_events") is not None:
            changes["state_events"] = kwargs["state_events"]
        if test is not KEEP:
            changes["test"] = self._test_mode(test, kwargs)
        return changes

    def _test_mode(self, test: Any, kwargs: dict[str, Any]) -> Any:
        if test is None:
            for name, value in kwargs.items():
                if name.lower() == "test" and _is_true(value):
                    return True
            if self.salt["config.get"]("test", omit_opts=True) is True:
                return True
            return self.opts.get("test")
        return test is not False

    @contextmanager
    def compiler(
        self,
        kwargs: dict[str, Any],
        test: Any = None,
        base: bool = False,
        jid: bool = False,
        **more: Any,
    ) -> Iterator[HighState]:
        """
        A compiler with the options of this call; all is as it was when it is done with.

        @param base: without an environment the base is meant.
        @param jid: the run is this job, with events and pauses.
        """
        laid = override(kwargs)
        loaders = self.salt.loaders
        changes = {**self._options(kwargs, test), **more}
        if base and changes.get("saltenv", self.opts.get("saltenv")) is None:
            changes["saltenv"] = "base"
        same_pillar = changes.get("pillarenv", self.opts.get("pillarenv")) == self.opts.get(
            "pillarenv"
        )
        fresh = not (self.opts.get("__cli") == "salt-call" and same_pillar)
        context = loaders.context
        relaid = self.opts.get("file_client") == "local" and not same_pillar
        if relaid:
            changes["__pillarenv_before"] = self.opts.get("pillarenv")
        pillar = loaders.pillar if relaid or not fresh else None
        with ExitStack() as stack:
            stack.enter_context(changed_options(loaders, changes))
            stack.enter_context(master_options(loaders))
            stack.enter_context(kept_surroundings(loaders))
            loaders.replace(context={})
            try:
                yield HighState(
                    loaders,
                    pillar_override=laid,
                    pillar_enc=kwargs.get("pillar_enc"),
                    jid=str(kwargs["__pub_jid"]) if jid and kwargs.get("__pub_jid") else None,
                    mocked=bool(kwargs.get("mock", False)),
                    fresh_pillar=fresh,
                )
            finally:
                loaders.replace(context=context)
                if pillar is not None and (laid or relaid):
                    loaders.replace(pillar=pillar)

    def set_retcode(self, answer: Any, high: Any = None) -> None:
        """The return code that an answer means."""
        code = 0
        if isinstance(answer, list):
            code = EX_COMPILER
        elif not succeeded(answer, high):
            code = EX_FAILED
        self.salt.loaders.context["retcode"] = code

    def refuse(self, code: int) -> None:
        """A return code other than that of the answer."""
        self.salt.loaders.context["retcode"] = code

    def check_pillar(self, compiler: HighState, kwargs: dict[str, Any]) -> None:
        """@raises CommandExecutionError: the pillar has errors."""
        errors = pillar_errors(compiler, kwargs)
        if errors:
            self.refuse(EX_PILLAR)
            raise CommandExecutionError("Pillar failed to render", info=errors)

    def cache_path(self, kwargs: dict[str, Any]) -> str:
        """Where the high data of a run is kept."""
        name = kwargs.get("cache_name", "highstate")
        return os.path.join(self.opts["cachedir"], f"{name}.cache.p")

    def is_terse(self, kwargs: dict[str, Any]) -> bool:
        """Whether what did not change anything is left out of the answer."""
        return self.salt["config.option"]("state_data", "") == "terse" or bool(kwargs.get("terse"))

    def conflict(self, queue: Any, kwargs: dict[str, Any]) -> Any:
        """
        What to answer instead of running; C{None} to go ahead.

        C{queue=True} hands the job over to the daemon's queue, or waits where there is none.
        """
        if queue is None:
            queue = self.salt["config.option"]("state_queue", False)
        if queue is True or (isinstance(queue, int) and not isinstance(queue, bool) and queue):
            limit = 0 if queue is True else queue
            jid = kwargs.get("__pub_jid") or self.opts.get("jid")
            if statequeue.wait(self.opts, jid, limit, self.salt["saltutil.is_running"]):
                return None
        found = self.running(concurrent=bool(kwargs.get("concurrent", False)))
        if found:
            self.refuse(EX_COMPILER)
            return found
        return None

    @contextmanager
    def snapshots(self, kwargs: dict[str, Any]) -> Iterator[None]:
        """C{snapper_states}: snapshots before and after the run."""
        before = None
        wanted = bool(self.opts.get("snapper_states")) and not self.opts.get("test")
        jid = kwargs.get("__pub_jid", "called localy")
        options = {
            "config": self.opts.get("snapper_states_config", "root"),
            "description": f"Salt State run for jid {jid}",
            "__pub_jid": jid,
        }
        if wanted:
            try:
                before = self.salt["snapper.create_snapshot"](snapshot_type="pre", **options)
            except Exception:
                log.exception("Failed to create snapper pre snapshot for jid: %s", jid)
        yield
        if before:
            try:
                self.salt["snapper.create_snapshot"](
                    snapshot_type="post", pre_number=before, **options
                )
            except Exception:
                log.exception("Failed to create snapper post snapshot for jid: %s", jid)

    def disabled_names(self) -> list[str]:
        """What is disabled, as it was named."""
        found = self.salt["grains.get"]("state_runs_disabled")
        return list(found) if isinstance(found, list) else []

    def disabled(self, names: list[Any]) -> list[str]:
        """Sentences about those of the names that are disabled."""
        found = []
        for name in names:
            for pattern in self.disabled_names():
                if ".*" in pattern:
                    if str(name).startswith(pattern.split(".")[0] + "."):
                        found.append(
                            f'The state file "{name}" is currently disabled by "{pattern}", '
                            f"to re-enable, run state.enable {pattern}."
                        )
                elif pattern == name:
                    found.append(
                        f'The state file "{name}" is currently disabled, '
                        f"to re-enable, run state.enable {name}."
                    )
        return found

    def running(self, concurrent: bool = False) -> list[str]:
        """As C{state.running}."""
        if concurrent:
            return []
        mine = str(self.opts.get("jid") or "")
        return [
            f'The function "{job["fun"]}" is running as PID {job["pid"]} and was started at '
            f"{statequeue.started(job['jid'])} with jid {job['jid']}"
            for job in self.salt["saltutil.is_running"]("state.*")
            if str(job.get("jid")) != mine
        ]
