"""
Functions that call others by name: all of ours are known to whoever judges a call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import saltwisted
from saltwisted.domain.nested import (
    CALLERS,
    FUNCTIONS,
    Unreadable,
    calls,
    nested,
    nested_functions,
)

SOURCES = Path(saltwisted.__file__).parent
MAPS = frozenset(("__salt__", "called", "__states__", "__ret__", "functions", "modules", "salt"))
"""Names under which functions are looked up."""

WORD = {"__kwarg__": True}

JUDGED: dict[tuple[str, str], list[tuple[str, list[Any]]]] = {
    ("modules/mine", "_call"): [
        ("mine.send", ["cmd.run", "id"]),
        ("mine.send", ["name=cmd.run"]),
        ("mine.send", ["x", {**WORD, "mine_function": "cmd.run"}]),
        ("mine.update", [{**WORD, "mine_functions": {"cmd.run": []}}]),
        ("mine.update", [False, ["cmd.run"]]),
        ("mine.update", ["mine_functions={x: [{mine_function: cmd.run}]}"]),
    ],
    ("modules/publish", "_publish"): [
        ("publish.publish", ["*", "cmd.run", "id"]),
        ("publish.full_data", ["tgt=*", "fun=cmd.run"]),
    ],
    ("modules/_saltutil_master", "cmd_iter"): [
        ("saltutil.cmd", ["*", "cmd.run"]),
        ("saltutil.cmd_iter", ["*", {**WORD, "fun": "cmd.run"}]),
    ],
    ("modules/saltcheck", "_answer"): [
        ("saltcheck.run_test", [{**WORD, "test": {"module_and_function": "cmd.run"}}]),
        ("saltcheck.run_test", ["test={module_and_function: cmd.run, args: [id]}"]),
    ],
    ("modules/saltutil", "mmodule"): [
        ("saltutil.mmodule", ["base", "cmd.run", "id"]),
        ("saltutil.mmodule", ["base", "fun=cmd.run"]),
    ],
    ("modules/_schedule_items", "build"): [
        ("schedule.add", ["job", {**WORD, "function": "cmd.run"}]),
        ("schedule.modify", ["job", "function=cmd.run"]),
        ("schedule.build_schedule_item", ["job", "function=cmd.run"]),
    ],
    ("modules/state", "single"): [
        ("state.single", ["module.run", "cmd.run"]),
        ("state.low", [{"state": "module", "fun": "run", "name": "cmd.run"}]),
        ("state.high", [{"x": {"module": ["run", {"name": "cmd.run"}]}}]),
        ("state.high", [{"x": {"module.run": [{"cmd.run": ["id"]}]}}]),
        ("state.high", [{"cmd.run": "module.run"}]),
        ("state.high", [{"x": {"module.run": [{"names": ["test.ping", "cmd.run"]}]}}]),
    ],
    ("modules/test", "cross_test"): [("test.cross_test", ["cmd.run", ["id"]])],
    ("modules/test", "try_"): [
        ("test.try", ["cmd.run"]),
        ("test.try_", ["module=cmd.run"]),
    ],
    ("states/module", "_called"): [
        ("state.single", ["module.run", "x", {**WORD, "cmd.run": ["id"]}]),
        ("state.single", ["module.wait", "x", "cmd.run=[id]"]),
    ],
    ("states/module", "_old_form"): [("state.single", ["module.run", "name=cmd.run"])],
    ("states/saltmod", "_commanded"): [("state.single", ["salt.function", "cmd.run", "tgt=*"])],
    ("states/saltmod", "_judged"): [
        ("state.single", ["salt.function", "test.ping", "tgt=*", "fail_function=cmd.run"]),
    ],
    ("states/schedule", "present"): [
        ("state.single", ["schedule.present", "job", "function=cmd.run"])
    ],
}
"""Where a name decides what is called, and calls by which somebody would run C{cmd.run} there."""

HARMLESS = {
    ("modules/_packages", "module_environment"): "options of modules, no functions",
    ("modules/_file_source", "Signing"): "functions called verify",
    ("modules/dnsutil", "_asked"): "functions of dig",
    ("modules/mine", "delete"): "a name in the mine",
    ("modules/mine", "get"): "functions of match; a name in the mine",
    ("modules/mount", "_options"): "two fixed functions",
    ("modules/publish", "runner"): "a runner, which the master judges by peer_run",
    ("modules/_saltutil_master", "runner"): "a runner, which the master judges by who asks",
    ("modules/_saltutil_master", "wheel"): "a wheel function, which the master judges by who asks",
    ("modules/schedule", "_give"): "hands on what is in the schedule",
    ("modules/state", "_sync"): "fixed functions",
    ("modules/status", "custom"): "functions that the configuration names",
    ("modules/_data", "argspec_report"): "looks, and does not call",
    ("modules/sysmod", "_docs"): "looks, and does not call",
    ("modules/sysmod", "state_doc"): "looks, and does not call",
    ("modules/test", "module_report"): "looks, and does not call",
    ("modules/test", "provider"): "looks, and does not call",
    ("modules/x509", "_ask"): "one fixed function of a minion, judged by peer",
    ("states/_apache_switch", "switched"): "functions of apache",
    ("states/_git_work", "Work"): "functions of git",
    ("states/_pkg_holds", "hold_or_not"): "hold and unhold of pkg",
    ("states/_postgres_role", "present"): "functions of postgres for users and groups",
    ("states/archive", "_Extraction"): "functions called verify; two fixed ones",
    ("states/cmd", "mod_watch"): "states of its own",
    ("states/cmd", "run"): "two fixed functions",
    ("states/_file_paths", "mknod"): "fixed functions",
    ("states/firewalld", "_Zone"): "functions of firewalld",
    ("states/firewalld", "service"): "functions of firewalld",
    ("states/group", "present"): "functions of group",
    ("states/host", "_Lines"): "fixed functions",
    ("states/ini_manage", "_Present"): "functions of ini",
    ("states/module", "_hand_on"): "a returner, judged by @returner",
    ("states/mount", "_Mounted"): "two fixed functions",
    ("states/pkg", "_uninstall"): "functions of pkg",
    ("states/saltmod", "state"): "functions of state",
    ("states/saltutil", "_synced"): "functions called sync",
    ("states/schedule", "_change"): "functions of schedule",
    ("states/service", "_at_boot"): "functions of service",
    ("states/service", "_mask"): "functions of service",
    ("states/service", "mod_watch"): "functions of service",
    ("states/user", "_change"): "functions of shadow and user",
    ("states/user", "_set_shadow"): "functions of shadow",
}
"""Where a name is put together, or is not a function's."""


def by_name(tree: ast.Module) -> Iterator[str]:
    """The functions and classes of a file in which a function is chosen by a name that varies."""
    for top in tree.body:
        if isinstance(top, (ast.FunctionDef, ast.ClassDef)) and any(
            _chooses(node) for node in ast.walk(top)
        ):
            yield top.name


def _named(node: ast.AST) -> str:
    """What a map of functions is called; C{called(...)} makes a view on the usual one."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "called":
        return "__salt__"
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _chooses(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        mapping = _named(node.value)
        if not isinstance(node.slice, ast.Constant):
            return mapping in MAPS
        return mapping in MAPS and node.slice.value in CALLERS
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            mapping = _named(node.func.value)
            if mapping in MAPS and not isinstance(node.args[0], ast.Constant):
                return True
        return any(
            word.arg in ("fun", "function") and not isinstance(word.value, ast.Constant)
            for word in node.keywords
        )
    if isinstance(node, ast.Dict):
        return any(
            isinstance(key, ast.Constant)
            and key.value in ("fun", "function")
            and not isinstance(value, ast.Constant)
            for key, value in zip(node.keys, node.values, strict=True)
        )
    return False


class OursTests(SynchronousTestCase):
    """The table of what calls by name."""

    def test_T_ACL_1_all_are_known(self) -> None:
        """T-ACL-1: every place of ours where a name decides what is called is in the table."""
        found = {
            (f"{path.parent.name}/{path.stem}", name)
            for folder in ("modules", "states")
            for path in (SOURCES / folder).glob("*.py")
            for name in by_name(ast.parse(path.read_text()))
        }

        self.assertEqual(found, set(JUDGED) | set(HARMLESS))
        self.assertEqual(set(JUDGED) & set(HARMLESS), set())

    def test_T_ACL_1_all_are_judged(self) -> None:
        """T-ACL-1: what a name leads to is seen in each of them, by position, keyword and text."""
        for place, examples in JUDGED.items():
            for fun, arg in examples:
                self.assertIn("cmd.run", nested_functions(fun, arg), (place, fun, arg))

    def test_new_ones_are_found(self) -> None:
        """A new function that calls another by name would be missing in the table."""
        for source in (
            "def f(name):\n    return __salt__[name]()",
            "def f(name):\n    return __salt__.get(name)()",
            "def f(name):\n    return __salt__['saltutil.cmd']('*', name)",
            "def f(name):\n    return loaders.modules[name]()",
            "class C:\n    def f(self, name):\n        return master.call('run', fun=name)",
            "def f(name):\n    return request({'cmd': 'x', 'fun': name})",
        ):
            self.assertEqual(len(list(by_name(ast.parse(source)))), 1, source)
        self.assertEqual(list(by_name(ast.parse("def f(x):\n    return __salt__['a.b'](x)"))), [])


class NestedTests(SynchronousTestCase):
    """What a call leads to."""

    def test_names(self) -> None:
        """The functions that a call names are found in their order, and nothing else is."""
        for fun, arg, expected in (
            ("saltutil.cmd", ["*", "cmd.run"], ["cmd.run"]),
            (
                "saltutil.cmd",
                ["*", {**WORD, "fun": "cmd.run,test.ping"}],
                ["cmd.run", "test.ping"],
            ),
            ("saltutil.cmd", ["*", ["cmd.run", "a.b"]], ["cmd.run", "a.b"]),
            ("saltutil.cmd", ["*"], []),
            ("mine.send", ["users", {**WORD, "mine_function": "cmd.run"}], ["cmd.run"]),
            (
                "mine.update",
                [{"ips": [{"mine_function": "network.ip_addrs"}], "x": {"mine_function": "a.b"}}],
                ["ips", "network.ip_addrs", "x", "a.b"],
            ),
            ("mine.update", [True], []),
            ("state.single", ["module.run", "a.b=1", "text", 5], ["a.b"]),
            ("state.single", ["pkg.installed", "vim"], []),
            ("state.low", ["text"], []),
            ("state.high", [{"vim": {"pkg": ["installed"]}}], []),
            ("test.ping", [], []),
            ("test.echo", ["module=cmd.run"], []),
        ):
            self.assertEqual(nested_functions(fun, arg), expected, (fun, arg))

    def test_arguments_of_nested_calls(self) -> None:
        """The arguments of a nested call are followed as well."""
        deep: list[Any] = ["cmd.run"]
        for _ in range(5):
            deep = ["test.cross_test", deep]

        self.assertEqual(nested_functions("test.cross_test", deep)[-1], "cmd.run")
        self.assertEqual(
            nested("saltutil.cmd", ["*", "saltutil.cmd", ["*", "a.b", {**WORD, "ret": "log"}]]),
            nested("saltutil.cmd", ["*", "saltutil.cmd", ["*", "a.b", [], 5, "glob", "log"]]),
        )

    def test_unreadable(self) -> None:
        """What is deeper, longer or odder than anybody writes is not guessed at."""
        deep: list[Any] = ["cmd.run"]
        for _ in range(9):
            deep = ["test.cross_test", deep]
        two = [{"mine_function": "a.b"}, {"mine_function": "c.d"}]
        for fun, arg in (
            ("test.cross_test", deep),
            ("saltutil.cmd", ["*", "x" * 256]),
            ("saltutil.cmd", ["*", ",".join(["a.b"] * (FUNCTIONS + 1))]),
            # What a slot calls is known, and not with which arguments
            ("test.cross_test", ["test.ping", ["__slot__:salt:saltutil.cmd('*', 'cmd.run')"]]),
            ("publish.publish", ["*", "test.ping", "x" * 20_000]),
            ("saltutil.cmd", ["*", "test.ping", "x=" + "y" * 20_000]),
            ("saltutil.cmd", ["*", "test.ping", [0] * 70_000]),
            ("saltutil.cmd", ["*", "test.ping", {**WORD, "ret_kwargs": {"a": 1}}]),
            ("mine.update", [{"x": two}]),
            ("state.high", [{"x": {"module": ["run", "wait"]}}]),
            ("state.high", [{"x": {"module.run": [{"names": [{"a": []}]}]}}]),
            ("test.echo", ["__slot__:odd"]),
        ):
            with self.assertRaises(Unreadable, msg=str((fun, arg))[:80]):
                nested(fun, arg)

    def test_calls(self) -> None:
        """A compound command is taken apart with each function's own arguments."""
        self.assertEqual(calls("test.ping", ["a"]), [("test.ping", ["a"])])
        self.assertEqual(
            calls("test.ping, test.echo", [[], ["x"]]), [("test.ping", []), ("test.echo", ["x"])]
        )
        self.assertEqual(calls(["a.b", "c.d"], ["x"]), [("a.b", ["x"]), ("c.d", [])])
