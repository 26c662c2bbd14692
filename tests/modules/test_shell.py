"""
What a caller passes in reaches no shell.

A command is a list of words, so that an argument is one word whatever is in it: no shell reads it,
and nothing splits it. The law is read from the source; the places that hand a line to a shell are
listed here, each with the reason why that is safe. Some functions are then called for real.
"""

from __future__ import annotations

import ast
import contextlib
import os
import pathlib
import types
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

import saltwisted
from saltwisted.domain.keys import valid_minion_id
from saltwisted.worker import systools
from saltwisted.worker.pillar import sources as extsources
from tests.modules.harness import load

ROOT = pathlib.Path(saltwisted.__file__).parent
HERE = ("modules", "states", "worker")

LINES = {
    "modules/debian_service.py enable": "names are quoted",
    "modules/minion.py restart": "the line is the machine's own configuration",
    "modules/status.py procs": "the line is a grain of the machine itself",
    "modules/status.py pid": "the line is a grain of the machine itself",
    "states/_archive_unpack.py _xz": "the path is quoted",
    "states/cmd.py run": "the line is what the caller asks to run",
    "states/cmd.py script": "the line is what the caller asks to run",
    "states/_file_managed.py run_check_cmd": "the command is the caller's, the name is quoted",
    "worker/states/conditions.py _retcode": "the line is what the caller asks to run",
    "worker/pillar/sources.py ext_pillar": "the line is the operator's; odd ids are refused",
}
"""Functions that may hand over a line that is put together, and why."""


def _names(target: ast.expr, name: str) -> bool:
    """Whether an assignment is to this name, alone or among others."""
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))


class Reader:
    """Finds the calls of C{cmd.*} in one file whose command is not surely a list of words."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.lists = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            and node.returns is not None
            and ast.unparse(node.returns).startswith(("list[", "tuple[list["))
        }

    def offences(self) -> list[tuple[str, int, str]]:
        """Function, line and text of each such call."""
        found: list[tuple[str, int, str]] = []

        def look(node: ast.AST, around: ast.FunctionDef | None) -> None:
            if isinstance(node, ast.FunctionDef):
                around = node
            elif isinstance(node, ast.Call) and around and not self._good(node, around):
                found.append((around.name, node.lineno, ast.unparse(node)[:120]))
            for child in ast.iter_child_nodes(node):
                look(child, around)

        look(self.tree, None)
        return found

    def _good(self, call: ast.Call, function: ast.FunctionDef) -> bool:
        words = {word.arg: word.value for word in call.keywords}
        shell = words.get("shell")
        if isinstance(shell, ast.Constant) and shell.value is True:
            return False
        name = call.func.slice if isinstance(call.func, ast.Subscript) else None
        if not isinstance(name, ast.Constant) or not str(name.value).startswith("cmd."):
            shell = words.get("python_shell")
            return not (isinstance(shell, ast.Constant) and shell.value is True)
        if name.value.startswith("cmd.exec_code"):
            # The first argument is a program, and the code goes into a file.
            return True
        command = call.args[0] if call.args else words.get("cmd")
        return command is None or self._plain(command, function)

    def _plain(self, value: ast.expr, function: ast.FunctionDef) -> bool:
        """Whether a command is a text that stands in the source, or a list of words."""
        if isinstance(value, (ast.Constant, ast.List, ast.ListComp)):
            return True
        if isinstance(value, ast.IfExp):
            return self._plain(value.body, function) and self._plain(value.orelse, function)
        if isinstance(value, ast.BinOp):
            return self._plain(value.left, function) and self._plain(value.right, function)
        if isinstance(value, ast.Call):
            return isinstance(value.func, ast.Name) and value.func.id in {"list", *self.lists}
        return isinstance(value, ast.Name) and self._named(value.id, function)

    def _named(self, name: str, function: ast.FunctionDef) -> bool:
        for argument in (*function.args.args, *function.args.kwonlyargs):
            if argument.arg == name and argument.annotation is not None:
                return ast.unparse(argument.annotation).startswith(("list[", "Iterable[str"))
        values: list[ast.expr] = []
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                values += [node.value for target in node.targets if _names(target, name)]
            elif isinstance(node, ast.AnnAssign) and _names(node.target, name):
                if ast.unparse(node.annotation).startswith("list["):
                    return True
                values += [node.value] if node.value is not None else []
            elif isinstance(node, (ast.For, ast.comprehension)) and _names(node.target, name):
                values += node.iter.elts if isinstance(node.iter, ast.Tuple) else [node.iter]
        return bool(values) and all(self._plain(value, function) for value in values)


class ShellTests(SynchronousTestCase):
    """No argument of a module is read by a shell."""

    def test_law(self) -> None:
        """T-ARG-1: every command is a list of words, or stands in the table with a reason."""
        offences: dict[str, list[str]] = {}
        for folder in HERE:
            for path in sorted((ROOT / folder).rglob("*.py")):
                where = path.relative_to(ROOT).as_posix()
                if where in ("modules/cmdmod.py", "modules/_process.py"):
                    # What these run is what the caller asks for.
                    continue
                for name, line, text in Reader(ast.parse(path.read_text())).offences():
                    offences.setdefault(f"{where} {name}", []).append(f"{line}: {text}")

        new = {key: value for key, value in offences.items() if key not in LINES}

        self.assertEqual(new, {}, repr(new))
        self.assertEqual(set(LINES) - set(offences), set(), "no longer there")

    def test_T_ARG_1_hostile(self) -> None:
        """T-ARG-1: whatever is in an argument, it is one word of one program, also for real."""
        marks = os.path.join(self.mktemp(), "marks")
        os.makedirs(marks)
        mark = os.path.join(os.path.abspath(marks), "made")
        arguments = [
            f"127.0.0.1; touch {mark}",
            f"$(touch {mark})",
            f"`touch {mark}`",
            f"x' ; touch {mark} ; '",
            f"x\ntouch {mark}",
            f"x | touch {mark}",
        ]
        # With cmd_safe off, what says nothing about a shell gets one.
        opts = {"test": False, "cachedir": "/nonexistent", "cmd_safe": False}
        commands = load("cmdmod", opts=opts)
        salt = {
            f"cmd.{name}": getattr(commands, name)
            for name in ("run", "run_all", "run_stdout", "run_stderr", "retcode")
        }
        calls: list[tuple[str, str]] = [
            ("network", "get_route"), ("network", "ping"), ("network", "dig"),
            ("network", "traceroute"), ("disk", "dump"), ("disk", "resize2fs"),
            ("disk", "fstype"), ("mount", "swapon"), ("mount", "mount"), ("kmod", "load"),
            ("debian_service", "status"), ("debian_service", "disable"),
            ("debian_service", "enable"), ("linux_service", "run"), ("timezone", "set_zone"),
            ("cron", "raw_cron"),
        ]  # fmt: skip
        self.patch(systools, "which", lambda name: f"/usr/bin/{name}")
        for module, function in calls:
            loaded = load(module, salt=salt, opts=opts)
            for argument in arguments:
                words = [argument, argument] if function in ("run", "mount") else [argument]
                with contextlib.suppress(Exception):
                    getattr(loaded, function)(*words)

                self.assertEqual(os.listdir(marks), [], (module, function, argument))

    def test_T_ARG_1_ids(self) -> None:
        """T-ARG-1: a minion's id in an operator's command is a plain word, or nothing is run."""
        ran: list[str] = []

        def run(line: str, **_: Any) -> dict[str, Any]:
            ran.append(line)
            return {"retcode": 0, "stdout": "{}", "stderr": ""}

        sources = types.SimpleNamespace(
            host=types.SimpleNamespace(volatile=set()),
            functions=lambda: {"cmd.run_all": run},
            failing=[],
        )
        for kind in (extsources.cmd_json, extsources.cmd_yaml, extsources.cmd_yamlex):
            pillar = kind(cast(Any, sources))
            for bad in ("$(reboot)", "a;b", "a'b", 'a"b', "a b", "`a`", "a|b", "-rf", "a&b", "a<b"):
                self.assertTrue(valid_minion_id(bad), "Salt and we take such ids")
                self.assertEqual(pillar(bad, {}, "printf '%s'"), {})
                self.assertEqual(ran, [], bad)
            pillar("web-1.example.com", {}, "printf %s")
            pillar("büro_1", {}, "printf %s")
            pillar("a;b", {}, "printf x")
            self.assertEqual(ran, ["printf web-1.example.com", "printf büro_1", "printf x"])
            del ran[:]
