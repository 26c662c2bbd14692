"""
C{unless}, C{onlyif}, C{creates} and C{check_cmd}: whether a state is called, and whether it has
succeeded.

The words of the comments are stock's.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Protocol

from saltwisted.domain.highstate.words import Chunk, as_list
from saltwisted.domain.render.tree import traverse
from saltwisted.worker.exceptions import CommandExecutionError
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.states.slots import fill_slots

log = logging.getLogger(__name__)

_COMMAND_ARGUMENTS = (
    "cwd",
    "root",
    "runas",
    "env",
    "prepend_path",
    "umask",
    "timeout",
    "success_retcodes",
)
"""Arguments of the state with which the commands of its conditions run."""


class _Run(Protocol):
    loaders: Loaders
    context: dict[str, Any]


class Conditions:
    """
    The conditions of one run.

    @param run: provides functions and context.
    """

    def __init__(self, run: _Run) -> None:
        self._run = run

    @property
    def _functions(self) -> Any:
        # A condition is what a site has written
        return self._run.loaders.called

    def check(self, low: Chunk) -> dict[str, Any]:
        """
        What the conditions of a state say.

        @return: C{result}: true if the state is not to be called; C{comment}, a list.
        """
        answer: dict[str, Any] = {"result": False, "comment": []}
        answer.update(_identity(low))
        excluded = as_list(low.get("cmd_opts_exclude"))
        options = {key: low.get(key) for key in _COMMAND_ARGUMENTS if key not in excluded}
        if "shell" in low and "shell" not in excluded:
            options["shell"] = low["shell"]
        else:
            options.update(self._shell())
        for key, check in (
            ("onlyif", self._onlyif),
            ("unless", self._unless),
            ("creates", self._creates),
        ):
            if key in low:
                found = check(low[key], options)
                answer["result"] = found["result"] or answer["result"]
                answer["comment"].append(found["comment"])
                if "skip_watch" in found:
                    answer["skip_watch"] = True
        return answer

    def check_cmd(self, low: Chunk) -> dict[str, Any]:
        """Whether the commands of C{check_cmd} say that the state succeeded."""
        answer = _identity(low)
        answer["result"] = False
        if isinstance(low["check_cmd"], str):
            low["check_cmd"] = [low["check_cmd"]]
        for entry in low["check_cmd"]:
            code = self._retcode(entry, self._shell())
            if code != 0:
                answer.update(comment="check_cmd determined the state failed", result=False)
                return answer
            if answer["result"] is False:
                answer.update(comment="check_cmd determined the state succeeded", result=True)
        return answer

    def _shell(self) -> dict[str, Any]:
        shell = self._run.loaders.grains.get("shell")
        return {} if shell is None else {"shell": shell}

    def _retcode(self, command: Any, options: dict[str, Any]) -> int:
        code: int = self._functions["cmd.retcode"](
            command, ignore_retcode=True, python_shell=True, **options
        )
        return code

    def _function(self, entry: dict[str, Any]) -> Any:
        """
        The value of C{{fun: ..., args: [...], ...}}; the entry is used up.
        """
        wanted = entry.pop("get_return", None)
        name = entry.pop("fun")
        args = entry.pop("args", [])
        fill_slots(self._functions, args, entry)
        value = self._functions[name](*args, **entry)
        return traverse(value, wanted) if wanted else value

    def _onlyif(self, given: Any, options: dict[str, Any]) -> dict[str, Any]:
        """All have to be true."""
        answer: dict[str, Any] = {"result": False}
        for entry in given if isinstance(given, list) else [given]:
            if isinstance(entry, str):
                try:
                    good = self._retcode(entry, options) == 0
                except CommandExecutionError:
                    good = False
            elif isinstance(entry, dict):
                if "fun" not in entry:
                    answer["comment"] = f"no `fun` argument in onlyif: {entry}"
                    return answer
                value = self._function(entry)
                code = self._run.context.get("retcode", 0)
                good = False if code else bool(value)
            else:
                return {"result": False, "comment": "onlyif execution failed, bad type passed"}
            if not good:
                return {"result": True, "comment": "onlyif condition is false", "skip_watch": True}
            answer.update(comment="onlyif condition is true", result=False)
        return answer

    def _unless(self, given: Any, options: dict[str, Any]) -> dict[str, Any]:
        """One that is false is enough."""
        answer: dict[str, Any] = {"result": False}
        for entry in given if isinstance(given, list) else [given]:
            if isinstance(entry, str):
                try:
                    holds = self._retcode(entry, options) == 0
                except CommandExecutionError:
                    holds = True
            elif isinstance(entry, dict):
                if "fun" not in entry:
                    answer["comment"] = f"no `fun` argument in unless: {entry}"
                    return answer
                value = self._function(entry)
                code = self._run.context.get("retcode", 0)
                holds = False if code else bool(value)
                if not code and not holds:
                    answer.update(comment="unless condition is false", result=False)
                    return answer
            else:
                answer.update(comment="unless condition is false, bad type passed", result=False)
                continue
            if not holds:
                return {"result": False, "comment": "unless condition is false"}
            answer.update(comment="unless condition is true", skip_watch=True, result=True)
        return answer

    def _creates(self, given: Any, options: dict[str, Any]) -> dict[str, Any]:
        """All files are there."""
        if isinstance(given, str) and os.path.exists(given):
            return {"result": True, "comment": f"{given} exists", "skip_watch": True}
        if isinstance(given, list) and all(os.path.exists(path) for path in given):
            return {"result": True, "comment": "All files in creates exist", "skip_watch": True}
        return {"result": False, "comment": "Creates files not found"}


def _identity(low: Chunk) -> dict[str, Any]:
    return {key: low.get(key) for key in ("__sls__", "__id__", "name")}
