"""
C{salt-run}: what is asked of the master, and what is printed of its answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from saltwisted.cli import steps
from tests.cli.support import CommandTestCase

TAG = "salt/run/20261121071013794335"


def runner(value: Any, *progress: tuple[str, Any], **more: Any) -> Any:
    """A C{runner} operation with this value and these progress events."""

    def answer(_args: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for suffix, data in progress:
            yield {"tag": f"{TAG}/{suffix}", "data": data}
        return {"return": value, "success": True, "jid": TAG[9:], "tag": TAG, **more}

    return answer


class RunTests(CommandTestCase):
    """Values, progress and statuses."""

    def test_value(self) -> None:
        """A value is printed nested; words become values and keywords."""
        daemon = self.daemon(runner=runner({"args": ["a"], "kwargs": {"b": 1}}))

        result = self.command("salt-run", "test.arg", "a", "b=1")

        self.assertEqual(result.out, "args:\n    - a\nkwargs:\n    ----------\n    b:\n        1\n")
        self.assertEqual(
            daemon.asked, [("runner", {"fun": "test.arg", "arg": ["a"], "kwarg": {"b": 1}})]
        )
        self.assertEqual(result.status, 0)

    def test_progress(self) -> None:
        """Progress events come before the value; the framing events are not shown."""
        self.daemon(
            runner=runner(True, ("new", {}), ("progress", {"message": "10% done"}), ("ret", {}))
        )

        result = self.command("salt-run", "test.stream")

        self.assertEqual(
            result.out,
            "event:\n    ----------\n    message:\n        10% done\nsuffix:\n    progress\nTrue\n",
        )

    def test_lines(self) -> None:
        """What a runner prints is printed as it is, what it complains of is logged."""

        def answer(_args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield {"say": "foo"}
            yield {"log": "error", "text": "no such backend"}
            return {"return": "bar", "success": True}

        self.daemon(runner=answer)

        result = self.command("salt-run", "test.stdout_print")

        self.assertEqual(result.out, "foo\nbar\n")
        self.assertEqual(result.err, "[ERROR   ] no such backend\n")
        self.assertEqual(result.status, 0)

    def test_steps(self) -> None:
        """
        At a terminal each step of an orchestration has a line on standard error as it begins and
        as it ends; elsewhere none is asked for, and C{--quiet} wants none.
        """
        one = {"step": 1, "steps": 2, "id": "web", "function": "salt.state", "job": TAG[9:]}
        two = {"step": 2, "steps": 2, "id": "dns", "function": "salt.runner", "job": "x"}
        done = {"seconds": 2.04, "comment": "fine"}

        def answer(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            for told in (
                {"what": "step", **one},
                {"what": "result", "result": True, **done, **one},
                {"what": "step", **two},
                {"what": "result", **two, "result": False, "seconds": 0.1, "comment": "a\n b"},
            ):
                if args.get("steps"):
                    yield {"step": told}
            return {"return": True, "success": True}

        daemon = self.daemon(runner=answer)
        self.assertEqual(self.command("salt-run", "state.orch", "x").err, "")
        self.patch(steps, "are_shown", lambda: True)
        self.assertEqual(self.command("salt-run", "state.orch", "x", "--quiet").err, "")
        result = self.command("salt-run", "state.orch", "x")

        self.assertEqual(
            result.err,
            f"Step 1 of 2, web (salt.state): begins, job {TAG[9:]}\n"
            "Step 1 of 2, web (salt.state): done after 2.0 s\n"
            "Step 2 of 2, dns (salt.runner): begins\n"
            "Step 2 of 2, dns (salt.runner): failed after 0.1 s: a b\n",
        )
        self.assertEqual(result.out, "True\n")
        wanted = [args.get("steps", False) for _, args in daemon.asked]
        self.assertEqual(wanted, [False, False, True])

    def test_documentation_is_no_job(self) -> None:
        """Asking for documentation leaves nothing in the job cache."""
        daemon = self.daemon(runner=runner({"x.y": "words"}))

        self.command("salt-run", "-d", "x.y")

        self.assertIs(daemon.asked[0][1]["keep"], False)

    def test_outputter(self) -> None:
        """A value with data and outputter is printed by that outputter, unless --out says so."""
        value = {"data": {"a": 1}, "outputter": "txt"}
        self.daemon(runner=runner(value))

        self.assertEqual(self.command("salt-run", "x.y").out, "a: 1\n")
        self.assertEqual(json.loads(self.command("salt-run", "x.y", "--out=json").out), {"a": 1})

    def test_highstate(self) -> None:
        """C{--out=highstate} counts where the value names no outputter, as in Salt."""
        state = {"name": "a", "result": True, "changes": {}, "comment": "fine", "__run_num__": 0}
        found = {"m1": {"test_|-a_|-a_|-nop": {**state, "__id__": "a", "__sls__": "x"}}}
        self.daemon(runner=runner(found))

        shown = self.command("salt-run", "x.y", "--out=highstate").out
        self.assertIn("Function: test.nop", shown)
        self.assertNotIn("Function: test.nop", self.command("salt-run", "x.y").out)

    def test_return_code(self) -> None:
        """The status is the runner's return code, wherever orchestration puts it."""
        self.daemon(runner=runner({"data": {"x_master": {}}, "outputter": "raw", "retcode": 3}))

        self.assertEqual(self.command("salt-run", "state.orchestrate", "x").status, 3)

    def test_exception(self) -> None:
        """A runner that raised ends with status 1, its text printed."""
        text = "Exception occurred in runner x.y: boom"
        self.daemon(runner=runner(text, success=False))

        result = self.command("salt-run", "x.y")

        self.assertEqual((result.status, result.out), (1, text + "\n"))

    def test_unknown_function(self) -> None:
        """
        A name that functions begin with shows their documentation; any other is an error.
        """

        def answer(args: dict[str, Any]) -> Iterator[Any]:
            if args["fun"] == "doc.runner":
                return runner({"jobs.active": "Active.", "test.arg": "Arguments."})(args)
            return runner(f"'{args['fun']}' is not available.", success=False)(args)

        self.daemon(runner=answer)

        self.assertEqual(self.command("salt-run", "jobs").out, "jobs.active:\n    Active.\n")
        self.assertEqual(self.command("salt-run", "nope.x").out, "'nope.x' is not available.\n")
        known = self.command("salt-run", "survey.diff")
        self.assertEqual((known.status, known.out), (1, ""))
        self.assertEqual(known.err, "The runner survey.diff is not part of saltwisted.\n")
        self.assertEqual(self.command("salt-run", "nope.x").status, 1)
        self.assertEqual(self.command("salt-run", "jobs").status, 0)

    def test_documentation(self) -> None:
        """-d prints one function, or all of a module."""
        self.daemon(runner=runner({"jobs.a": "A", "jobs.b": "B", "jobsx.c": "C"}))

        self.assertEqual(self.command("salt-run", "-d", "jobs").out, "jobs.a:\nA\njobs.b:\nB\n")
        self.assertEqual(self.command("salt-run", "-d", "jobs.b").out, "jobs.b:\nB\n")

    def test_asynchronous(self) -> None:
        """--async prints nothing on stdout; the tag to look for is on stderr."""
        daemon = self.daemon(runner=lambda args: {"jid": TAG[9:], "tag": TAG})

        result = self.command("salt-run", "--async", "x.y")

        self.assertEqual((result.status, result.out), (0, ""))
        self.assertTrue(result.err.endswith(f"This execution is running under tag {TAG}\n"))
        self.assertIs(daemon.asked[0][1]["async"], True)

    def test_quiet(self) -> None:
        """--quiet prints neither progress nor value."""
        self.daemon(runner=runner(1, ("progress", {"message": "x"})))

        self.assertEqual(self.command("salt-run", "--quiet", "x.y").out, "")

    def test_no_master(self) -> None:
        """Without a master the way to start one is told; status 2."""
        result = self.command("salt-run", "jobs.active")

        self.assertEqual((result.status, result.out), (2, ""))
        self.assertIn("saltwisted --role master --config", result.err)


class EventTests(CommandTestCase):
    """C{state.event}."""

    def events(self, _args: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Some events, and no end by itself."""
        yield {"tag": "", "data": {}, "ready": True}
        for number in range(3):
            yield {"tag": f"salt/job/{number}/new", "data": {"b": number, "a": "ü"}}
            yield {"tag": "salt/auth", "data": {}}

    def test_one_line_each(self) -> None:
        """Without pretty an event is a line: the tag, a tab and JSON; count ends it."""
        self.daemon(events=self.events)

        result = self.command("salt-run", "state.event", "salt/job/*", "count=2")

        self.assertEqual(
            result.out,
            'salt/job/0/new\t{"b": 0, "a": "ü"}\nsalt/job/1/new\t{"b": 1, "a": "ü"}\n',
        )
        self.assertEqual(result.status, 0)

    def test_pretty(self) -> None:
        """pretty=True indents and sorts; a regular expression may be given."""
        self.daemon(events=self.events)

        result = self.command(
            "salt-run", "state.event", "salt/job/[12].+", "pretty=True", "count=1"
        )

        self.assertEqual(result.out, 'salt/job/1/new\t{\n    "a": "ü",\n    "b": 1\n}\n')

    def test_quiet(self) -> None:
        """quiet=True waits and prints nothing."""
        self.daemon(events=self.events)

        result = self.command("salt-run", "state.event", "salt/auth", "quiet=True", "count=1")

        self.assertEqual((result.status, result.out), (0, ""))
