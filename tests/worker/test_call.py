"""
One function call of a job, with stock's fields and wordings.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.arguments import yamlify
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    CommandNotFoundError,
    SaltInvocationError,
)
from saltwisted.worker.process.call import argspec, execute, split_arguments
from saltwisted.worker.process.loader import Loaders


class ExecuteTests(SynchronousTestCase):
    """Jobs on functions put into a loader by hand."""

    def setUp(self) -> None:
        """Loaders with our own modules alone, and a quiet log."""
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.loaders = Loaders({"id": "m1", "cachedir": "/nowhere"}, stock=False)

    def add(self, name: str, function: Any) -> None:
        """Make a function callable under a name."""
        dict.__setitem__(self.loaders.modules, name, function)

    def run_job(self, fun: Any, arg: Any = (), **more: Any) -> dict[str, Any]:
        """Execute one job."""
        job = {"fun": fun, "arg": list(arg), "jid": "20260101000000000001"}
        kept = {key: more.pop(key) for key in ("blackouts", "progress") if key in more}
        return execute(self.loaders, {**job, **more}, **kept)

    def raising(self, error: Exception) -> dict[str, Any]:
        """The return of a function that raises."""

        def bad() -> None:
            "Its documentation."
            raise error

        self.add("x.bad", bad)
        return self.run_job("x.bad")

    def test_success(self) -> None:
        """A plain return has Salt's fields, and what the publication carried goes back with it."""
        ret = self.run_job("test.ping", user="joe", metadata={"a": 1}, master_id="mm")

        self.assertEqual(
            ret,
            {
                "return": True,
                "retcode": 0,
                "success": True,
                "jid": "20260101000000000001",
                "fun": "test.ping",
                "fun_args": [],
                "user": "joe",
                "metadata": {"a": 1},
                "master_id": "mm",
            },
        )

    def test_retcode(self) -> None:
        """C{__context__["retcode"]} is the retcode, and does not stay for the next function."""

        def fails() -> str:
            self.loaders.context["retcode"] = 7
            return "no"

        self.add("x.fails", fails)

        ret = self.run_job("x.fails")
        self.assertEqual((ret["return"], ret["retcode"], ret["success"]), ("no", 7, False))
        self.assertEqual(self.run_job("test.ping")["retcode"], 0)

    def test_retcode_of_maps(self) -> None:
        """A map whose C{result} or C{success} is false has retcode 1."""
        for value, code in (
            ({"result": False}, 1),
            ({"success": False}, 1),
            ({"result": None}, 1),
            ({"result": True}, 0),
            ({"a": False}, 0),
        ):
            self.add("x.state", lambda value=value: value)
            self.assertEqual(self.run_job("x.state")["retcode"], code, value)

    def test_outputter(self) -> None:
        """A function's outputter is named in the return."""

        def shown() -> dict[str, Any]:
            return {}

        shown.__outputter__ = "highstate"  # type: ignore[attr-defined]
        self.add("x.shown", shown)

        self.assertEqual(self.run_job("x.shown")["out"], "highstate")

    def test_missing(self) -> None:
        """A function that is not there is a failed return with stock's text."""
        ret = self.run_job("nosuchmodule.f")

        self.assertEqual(ret["return"], "'nosuchmodule.f' is not available.")
        self.assertEqual((ret["success"], ret["retcode"], ret["out"]), (False, 1, "nested"))

    def test_errors(self) -> None:
        """Each kind of error has stock's wording, retcode 1 and the nested outputter."""
        cases: list[tuple[Exception, str]] = [
            (CommandNotFoundError("git"), "Command required for 'x.bad' not found: git"),
            (CommandExecutionError("broken"), "ERROR: broken"),
            (SaltInvocationError("which?"), "ERROR executing 'x.bad': which?"),
            (TypeError("oops"), "Passed invalid arguments to x.bad: oops\nIts documentation."),
        ]
        for error, text in cases:
            ret = self.raising(error)
            self.assertEqual((ret["return"], ret["out"], ret["retcode"]), (text, "nested", 1))
            self.assertFalse(ret["success"])

    def test_any_error(self) -> None:
        """Any other error is told with its traceback."""
        ret = self.raising(ValueError("deep"))

        self.assertTrue(ret["return"].startswith("The minion function caused an exception: Trace"))
        self.assertIn("ValueError: deep", ret["return"])

    def test_information(self) -> None:
        """Details of an error follow its message as the nested outputter shows them."""
        error = CommandExecutionError("It failed", info={"errors": ["a", "b"], "changes": {"x": 1}})

        self.assertEqual(
            str(error),
            "It failed. Additional info follows:\n\n"
            "changes:\n    ----------\n    x:\n        1\nerrors:\n    - a\n    - b",
        )
        self.assertNotIn("changes", error.strerror_without_changes)

    def test_arguments(self) -> None:
        """Wrong arguments name the function, the mistake and the documentation."""
        ret = self.run_job("test.ping", [1])

        self.assertTrue(
            ret["return"].startswith(
                "Passed invalid arguments to test.ping: ping() takes 0 positional arguments"
            )
        )
        self.assertIn("CLI Example", ret["return"])

    def test_invalid_keyword(self) -> None:
        """A keyword that the function does not take is refused by name."""
        ret = self.run_job("test.ping", [{"__kwarg__": True, "color": "red"}])

        self.assertEqual(
            ret["return"],
            "ERROR executing 'test.ping': The following keyword arguments are not valid: color=red",
        )

    def test_publication_fields(self) -> None:
        """A function that takes any keyword gets the job's fields, as C{__pub_...}."""
        self.add("x.kw", lambda **kwargs: kwargs)

        value = self.run_job("x.kw", ["a=1"], user="joe")["return"]

        self.assertEqual((value["a"], value["__pub_user"], value["__pub_fun"]), (1, "joe", "x.kw"))

    def test_generator(self) -> None:
        """Items of a generator are told as they come and returned together."""
        told: list[Any] = []

        def parts() -> Any:
            yield {"a": 1}
            yield {"b": 2}

        def words() -> Any:
            yield "x"
            yield "y"

        self.add("x.parts", parts)
        self.add("x.words", words)
        ret = self.run_job("x.parts", progress=lambda number, value: told.append((number, value)))

        self.assertEqual(ret["return"], {"a": 1, "b": 2})
        self.assertEqual(told, [(0, {"a": 1}), (1, {"b": 2})])
        self.assertEqual(self.run_job("x.words")["return"], ["x", "y"])

    def test_several(self) -> None:
        """Several functions return maps by function; one that fails does not stop the others."""
        ret = self.run_job(["test.ping", "gone.f", "test.echo"], [[], [], ["hi"]])

        self.assertEqual((ret["return"]["test.ping"], ret["return"]["test.echo"]), (True, "hi"))
        self.assertIn("'gone.f' is not available.", ret["return"]["gone.f"])
        self.assertEqual(ret["success"], {"test.ping": True, "gone.f": False, "test.echo": True})
        self.assertEqual(ret["retcode"]["test.ping"], 0)

    def test_several_ordered(self) -> None:
        """With C{multifunc_ordered} the same come as lists, so that a function may come twice."""
        self.loaders.opts["multifunc_ordered"] = True

        ret = self.run_job(["test.echo", "test.echo"], [["a"], ["b"]])

        self.assertEqual(
            (ret["return"], ret["success"], ret["retcode"]), (["a", "b"], [True, True], [0, 0])
        )

    def test_blackout(self) -> None:
        """In a blackout only the white list and C{saltutil.refresh_pillar} run."""
        self.add("saltutil.refresh_pillar", lambda: "refreshed")

        refused = self.run_job("test.ping", blackouts=[["test.echo"]])
        allowed = self.run_job("test.echo", ["x"], blackouts=[["test.echo"]])
        refresh = self.run_job("saltutil.refresh_pillar", blackouts=[[]])

        self.assertIn("Minion in blackout mode", refused["return"])
        self.assertEqual((allowed["return"], refresh["return"]), ("x", "refreshed"))

    def test_own(self) -> None:
        """
        What the minion calls for itself, grains and mine, passes through no executor: not through
        those of the configuration, one that is not there yet, or C{sudo_user}.
        """
        for opts in (
            {"module_executors": ["splay", "direct_call"], "splaytime": 0},
            {"module_executors": ["warp"]},
            {"module_executors": {}},
            {"sudo_user": "nobody-at-all"},
        ):
            loaders = Loaders({**self.loaders.opts.copy(), **opts}, grains={}, pillar={})
            job = {"fun": "test.echo", "arg": ["x"], "jid": "1"}
            self.assertEqual(execute(loaders, job, own=True)["return"], "x", opts)
            others = execute(loaders, job)["retcode"]
            self.assertEqual(others, 0 if opts.get("module_executors") == {} else 1, opts)

    def test_unknown_executor(self) -> None:
        """An executor that is not there is named."""
        ret = self.run_job("test.ping", module_executors=["warp"])

        self.assertEqual(
            ret["return"], "ERROR executing 'test.ping': Executor 'warp' is not available"
        )


class ArgumentTests(SynchronousTestCase):
    """Arguments, as they come and as functions want them."""

    def test_split(self) -> None:
        """Keywords come as a marked map or as text; everything else is positional."""

        def function(a: Any, b: Any = None, c: Any = None) -> None:
            pass

        args, kwargs = split_arguments(
            function, ["x y", 3, {"__kwarg__": True, "b": [1]}, "c={z: 1}", "p==q"]
        )

        self.assertEqual((args, kwargs), (["x y", 3, "p==q"], {"b": [1], "c": {"z": 1}}))

    def test_wrapped(self) -> None:
        """A wrapper accepts what the function inside accepts."""

        def inner(name: str) -> None:
            pass

        @functools.wraps(inner)
        def outer(*args: Any, **kwargs: Any) -> None:
            pass

        self.assertEqual(argspec(outer).args, ["name"])
        self.assertRaises(
            SaltInvocationError, split_arguments, outer, [{"__kwarg__": True, "other": 1}]
        )

    def test_yamlify(self) -> None:
        """Words become values by Salt's rules; what YAML would mangle stays text."""
        for text, value in {
            "1": 1, "1.5": 1.5, "true": True, "None": None, "[1, a]": [1, "a"], "{a: 1}": {"a": 1},
            "a: 1": "a: 1", "- a": "- a", "12_34": "12_34", "# no": "# no", "a\tb": "a\tb",
            "": "", "|": "|", "!": "!", "{broken": "{broken", "2026-01-01": "2026-01-01",
            "0644": 644, "[010]": [10], "0x1f": 31, "{a: 1, a: 2}": "{a: 1, a: 2}",
        }.items():  # fmt: skip
            self.assertEqual(yamlify(text), value, text)
