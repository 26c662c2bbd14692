"""
A module of ours with hand-made dunders, and commands that are written down, not run.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
import types
from collections.abc import Callable, Mapping
from typing import Any

import saltwisted.modules
from saltwisted.worker.process.modulefiles import adopt_parts, path_of_part

FOLDER = os.path.dirname(os.path.abspath(saltwisted.modules.__file__))

# What a module logs belongs to no test's output.
for _name in ("saltwisted", "tests.modules.under_test"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

GRAINS: dict[str, Any] = {
    "kernel": "Linux",
    "os": "Debian",
    "os_family": "Debian",
    "osarch": "amd64",
    "cpuarch": "x86_64",
    "osrelease": "12",
    "oscodename": "bookworm",
    "ps": "ps -efHww",
}


def _words(line: str) -> list[str]:
    """The words of a command line, as a shell finds them; a line that none can read is one."""
    try:
        return shlex.split(line)
    except ValueError:
        return [line]


class Commands:
    """
    What C{cmd.*} would run: each call is kept, and answered from a table.

    The table maps a command, or the start of one, to its output or to C{run_all} fields; the
    longest key that fits wins. Commands are compared as text, words joined by blanks: one text
    and a list of its words are the same.

    @ivar ran: the commands in order, as text.
    @ivar calls: the same with their keyword arguments.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers: dict[str, Any] = dict(answers or {})
        self.ran: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def _answer(self, cmd: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        text = cmd
        if not isinstance(cmd, str) or not kwargs.get("python_shell"):
            text = " ".join(str(word) for word in (_words(cmd) if isinstance(cmd, str) else cmd))
        self.ran.append(text)
        self.calls.append((text, kwargs))
        fitting = [key for key in self.answers if text.startswith((key, " ".join(_words(key))))]
        answer = self.answers[max(fitting, key=len)] if fitting else ""
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(text, kwargs)
        if isinstance(answer, int):
            answer = {"retcode": answer}
        if isinstance(answer, str):
            answer = {"stdout": answer}
        return {"pid": 1, "retcode": 0, "stdout": "", "stderr": "", **answer}

    def run_all(self, cmd: Any, **kwargs: Any) -> dict[str, Any]:
        return self._answer(cmd, kwargs)

    def run(self, cmd: Any, **kwargs: Any) -> str:
        return str(self._answer(cmd, kwargs)["stdout"])

    def retcode(self, cmd: Any, **kwargs: Any) -> int:
        return int(self._answer(cmd, kwargs)["retcode"])

    def salt(self) -> dict[str, Callable[..., Any]]:
        """C{__salt__} entries."""
        return {
            "cmd.run": self.run,
            "cmd.run_stdout": self.run,
            "cmd.run_all": self.run_all,
            "cmd.retcode": self.retcode,
            "config.get": lambda name, default="", **_: default,
            "config.option": lambda name, default="", **_: default,
        }


def load(name: str, **dunders: Any) -> types.ModuleType:
    """
    A fresh copy of a module, not shared with any other test.

    @param dunders: C{salt}, C{grains}, C{opts}, ... without their underscores.
    """
    path = os.path.join(FOLDER, f"{name}.py")
    given: dict[str, Any] = {
        "salt": {},
        "grains": dict(GRAINS),
        "opts": {"test": False, "cachedir": "/nonexistent"},
        "pillar": {},
        "context": {},
        "daemon": None,
        "master": None,
        **dunders,
    }

    def execute(path: str) -> types.ModuleType:
        spec = importlib.util.spec_from_file_location(f"tests.modules.under_test.{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        for key, value in given.items():
            setattr(module, f"__{key}__", value)
        spec.loader.exec_module(module)
        return module

    module = execute(path)
    adopt_parts(module.__dict__, lambda part: execute(path_of_part(path, part)))
    return module


def connect(*modules: types.ModuleType) -> None:
    """Let modules call one another: the functions of each appear in the C{__salt__} of all."""
    functions: dict[str, Any] = {}
    for module in modules:
        name = getattr(module, "__virtualname__", module.__name__.rpartition(".")[2])
        aliases = getattr(module, "__func_alias__", {})
        for key, value in vars(module).items():
            if not key.startswith("_") and isinstance(value, types.FunctionType):
                functions[f"{name}.{aliases.get(key, key)}"] = value
    for module in modules:
        module.__dict__["__salt__"].update(functions)
