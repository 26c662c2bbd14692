"""
One call of a state function: its arguments, conditions, context, result, and consequences.

A state function finds in its module what Salt's modules expect: C{__low__}, C{__running__},
C{__lowstate__}, C{__env__}, C{__instance_id__}.
"""

from __future__ import annotations

import importlib
import logging
import os
import site
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from attrs import define

from saltwisted.domain.highstate.verdicts import unified
from saltwisted.domain.highstate.words import INTERNAL_KEYWORDS, Chunk, Running, as_list
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.masking import masked
from saltwisted.worker.process.call import ArgSpec, argspec
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.states.conditions import Conditions
from saltwisted.worker.states.parallel import ParallelCalls
from saltwisted.worker.states.retry import attempt as attempt_text
from saltwisted.worker.states.retry import crashed, instant, retry_settings, span, would_retry
from saltwisted.worker.states.retry import interval as interval_of
from saltwisted.worker.states.slots import fill_slots
from saltwisted.worker.unlogged import unlogged_state

log = logging.getLogger(__name__)

COMMANDS = ("cmd", "cron")
"""States whose names are commands."""
_TEXT_FILES = (".py", ".pyx", ".pyo", ".pyc", ".so")
_SURROUNDINGS = (
    "__low__",
    "__running__",
    "__instance_id__",
    "__lowstate__",
    "__user__",
    "__env__",
    "__orchestration_jid__",
)
"""What C{StateCalls._surround} puts into the state modules."""


@define
class Numbers:
    """The numbers of the results of a run, C{__run_num__}: C{next} is that of the next one."""

    next: int = 0

    def take(self) -> int:
        """The next number, which is then used."""
        self.next += 1
        return self.next - 1


class StateCalls:
    """
    The calls of one run, each by itself.

    @param instance: C{__instance_id__}.
    @param mocked: call no state function, and report that all succeeded.
    @param gather_pillar: compiles the pillar again, for C{reload_pillar}.
    @param again: called with a chunk before it is repeated (C{retry}).
    """

    def __init__(
        self,
        loaders: Loaders,
        parallel: ParallelCalls,
        instance: str,
        *,
        mocked: bool = False,
        gather_pillar: Callable[[], Any] | None = None,
        again: Callable[[Chunk], Any] = lambda low: None,
    ) -> None:
        self.loaders = loaders
        self.opts = loaders.opts
        self.functions = loaders.modules
        self.states = loaders.states
        self.context = loaders.context
        self.numbers = Numbers()
        self.instance = instance
        self.mocked = mocked
        self._parallel = parallel
        self._gather_pillar = gather_pillar
        self._again = again
        self._specs: dict[Any, ArgSpec] = {}
        self._has: dict[str, bool] = {}
        self._global_conditions: Any = None
        self._conditions = Conditions(self)

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
                "__run_num__": self.numbers.take(),
            }
            masked(low, result)
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
            with unlogged_state(low):
                result = self._executed(low, full, args, keywords, chunks, running)
        if not isinstance(result, dict):
            return result
        masked(low, result)
        if low.get("__prereq__"):
            low["__prereq__"] = False
            return result
        result["__sls__"] = low.get("__sls__")
        result["__run_num__"] = self.numbers.take()
        _log(name, result)
        self._check_refresh(low, result)
        result["start_time"], result["duration"] = span(began)
        result["__id__"] = low["__id__"]
        log.info(
            "Completed state [%s] at time %s (duration_in_ms=%s)",
            name,
            instant()[0],
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
            if any(word in low for word in ("unless", "onlyif", "creates")) and not self.offers(
                low, "mod_run_check"
            ):
                result.update(self._conditions.check(low))
            if result["result"] is False:
                self._surround(low, keywords, chunks, running)
                result = self._invoke(low, full, args, keywords)
            if "check_cmd" in low and (
                not self.offers(low, "mod_run_check_cmd")
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
                "comment": f"An exception occurred in this state: {crashed()}",
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
            return self._parallel.start(low, full, args, keywords)
        fill_slots(self.loaders.called, args, keywords)
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
        """
        C{provider}: execution modules under other names while one state runs.

        @raises SaltInvocationError: C{whitelist_modules} allows the name, and the module is none
            that has it of its own; it would be a way to all others.
        """
        given = low.get("provider")
        if not given:
            yield
            return
        pairs: dict[str, Any] = {}
        for one in [{low["state"]: given}] if isinstance(given, str) else as_list(given):
            pairs.update(one)
        if self.loaders.called is not self.functions:
            for name, source in pairs.items():
                if not self.functions.is_claimed(str(name), str(source)):
                    raise SaltInvocationError(
                        f"whitelist_modules does not allow '{source}' to provide '{name}'"
                    )
        before = self.opts.get("providers")
        self.opts["providers"] = {**(before or {}), **pairs}
        self.functions.clear()
        try:
            yield
        finally:
            self.opts["providers"] = before
            self.functions.clear()

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
            result["comment"] = would_retry(result, retry)
            return result
        if retry["until"] == result["result"] or retry["attempts"] <= attempt:
            return result
        interval = interval_of(retry)
        log.info(
            "State result does not match retry until value, state will be re-run in %s seconds",
            interval,
        )
        self.functions["test.sleep"](interval)
        self._again(low)
        again = self.call(low, chunks, running, attempt + 1)
        told = attempt_text(attempt, result)
        again["comment"] = f"{told}\n{again['comment'] or ''}"
        again["duration"] = again["duration"] + result["duration"] + interval * 1000
        if attempt == 1:
            again["start_time"] = result["start_time"]
        return again  # type: ignore[no-any-return]

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

    def offers(self, low: Chunk, function: str) -> bool:
        """Whether the module of a state has such a function; its file is loaded for that."""
        key = f"{low['state']}.{function}"
        found = self._has.get(key)
        if found is None:
            _ = f"{low['state']}.{low['fun']}" in self.states
            found = self._has[key] = dict.__contains__(self.states, key)
        return found


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
