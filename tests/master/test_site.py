"""
Runners and wheel functions of a site's own, as the master deals with their processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from saltwisted.master import runner_table, wheel_table
from saltwisted.master.calls import HIDDEN, Calls
from saltwisted.master.site import EXECUTING, MOST, SiteFunctions
from tests.master.rig import FakeChild, FakeChildren, Rig


def listed(path: str, **functions: list[Any]) -> dict[str, Any]:
    """What a process says of a module."""
    return {
        "path": path,
        "functions": {
            name: {"doc": f"Does {name}.", "parameters": parameters}
            for name, parameters in functions.items()
        },
    }


class SiteTests(SynchronousTestCase):
    """A master with a directory of runners."""

    def setUp(self) -> None:
        """The processes are played by the test."""
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.rig = Rig(
            self,
            runner_dirs=[str(self.folder)],
            wheel_dirs=[str(self.folder)],
            site_function_timeout=60,
        )
        self.children = FakeChildren()
        self.site = SiteFunctions(self.rig.ctx, self.children, "runners", runner_table.ours())
        dispatcher = self.rig.ctx.dispatcher
        calls = Calls(self.rig.ctx, dispatcher.new_jid, dispatcher.chosen, [self.site])
        self.ctx = evolve(self.rig.ctx, calls=calls)
        self.told: list[Any] = []

    def write(self, name: str) -> str:
        """Write a module; its path."""
        path = self.folder / f"{name}.py"
        path.write_text(f"# {len(list(self.folder.iterdir()))}\n")
        return str(path)

    def call(self, fun: str, *arg: Any, **kwarg: Any) -> Deferred[dict[str, Any]]:
        """Call a runner."""

        async def stream(item: Any) -> None:
            self.told.append(item)

        return Deferred.fromCoroutine(
            self.ctx.runner(fun, list(arg), kwarg, local("carol"), stream)
        )

    def child(self, do: str) -> FakeChild:
        """The process that was begun last."""
        child = self.children.all[-1]
        self.assertEqual(child.payload["do"], do)
        return child

    def answer_list(self, *problems: list[str], **modules: Any) -> None:
        """The process that lists has an answer."""
        _ = self.child("list").ask("answer", modules=modules, problems=list(problems))

    def known(self, fun: str = "deploy.web", **modules: Any) -> Deferred[dict[str, Any]]:
        """A call of C{deploy.web} that has its process."""
        path = self.write("deploy")
        call = self.call(fun)
        self.answer_list(deploy=listed(path, web=[]), **modules)
        return call

    def result(self, call: Deferred[dict[str, Any]]) -> tuple[Any, bool]:
        """Value and success of a call that has ended."""
        found = self.successResultOf(call)
        return found["return"], found["success"]

    def test_none(self) -> None:
        """A site without modules of its own has no process for that."""
        self.assertEqual(self.result(self.call("test.arg", 1))[1], True)
        self.assertEqual(self.children.all, [])

    def test_called(self) -> None:
        """A function has its arguments, who called it and its jid; its value is the run's."""
        call = self.known()
        child = self.child("call")

        self.assertEqual(child.payload["fun"], "deploy.web")
        self.assertEqual(child.payload["user"], "carol")
        self.assertIn("jobs.active", child.payload["ours"])
        _ = child.ask("answer", value={"a": 1}, retcode=0)
        found = self.successResultOf(call)
        self.assertEqual((found["return"], found["success"]), ({"a": 1}, True))
        self.assertEqual(child.payload["jid"], found["jid"])
        self.assertEqual(self.rig.clock.getDelayedCalls(), [])

    def test_return_code(self) -> None:
        """A return code that a function of either kind leaves means that it failed."""
        wheels = SiteFunctions(self.rig.ctx, self.children, "wheel", wheel_table.ours())
        dispatcher = self.rig.ctx.dispatcher
        calls = Calls(self.rig.ctx, dispatcher.new_jid, dispatcher.chosen, [self.site], [wheels])
        ctx = evolve(self.rig.ctx, calls=calls)
        path = self.write("deploy")
        for start in (ctx.runner, ctx.wheel):
            for code, success in ((0, True), (1, False)):
                before = len(self.children.all)
                call = Deferred.fromCoroutine(start("deploy.web", [], {}, local("carol")))
                if self.children.all[before].payload["do"] == "list":
                    self.answer_list(deploy=listed(path, web=[]))
                _ = self.child("call").ask("answer", value="text", retcode=code)
                self.assertEqual(self.result(call), ("text", success), (start, code))

    def test_looked_at_once(self) -> None:
        """What there is is listed anew when a file has changed, and not before."""
        _ = self.known()
        _ = self.call("deploy.web")
        self.assertEqual([each.payload["do"] for each in self.children.all][1:], ["call"] * 2)

        path = self.write("other")
        call = self.call("other.go")
        self.answer_list(other=listed(path, go=[]))
        _ = self.child("call").ask("answer", value=1, retcode=0)
        self.assertEqual(self.result(call), (1, True))
        os.unlink(path)
        call = self.call("other.go")
        self.answer_list()
        self.assertEqual(self.result(call), ("'other.go' is not available.", False))

    def test_arguments(self) -> None:
        """What it does not take is said before there is a process, with its usage and words."""
        path = self.write("deploy")
        call = self.call("deploy.web", "a", nosuch=1)
        self.answer_list(deploy=listed(path, web=[["host", 1, None], ["wait", 1, "timedelta(1)"]]))

        text, success = self.result(call)
        self.assertFalse(success)
        self.assertIn("got an unexpected keyword argument 'nosuch'", text)
        self.assertIn("deploy.web host wait=timedelta(1)", text)
        self.assertIn("Does web.", text)
        self.assertEqual(len(self.children.all), 1)

    def test_words(self) -> None:
        """What it prints, complains of, logs and fires is told to its caller as it comes."""
        call = self.known()
        child = self.child("call")
        _ = child.ask("say", text="a line")
        _ = child.ask("complain", text="oh")
        _ = child.ask("log", level=30, name="x", message="careful")
        _ = child.ask("log", level=20, name="x", message="by the way")
        _ = child.ask("progress", data={"half": True}, end="progress")
        _ = child.ask("progress", data=[1], end="event")

        events = [item for item in self.told if "tag" in item]
        self.assertEqual(
            [item for item in self.told if "tag" not in item],
            [{"say": "a line"}, {"err": "oh"}, {"log": "warning", "text": "careful"}],
        )
        self.assertEqual([item["tag"].rsplit("/", 1)[-1] for item in events], ["progress"])
        self.assertTrue(any(tag.endswith("/event") for tag in self.rig.tags()))
        _ = child.ask("answer", value=None, retcode=7)
        self.assertEqual(self.result(call), (None, False))

    def test_T_LOG_1_secret(self) -> None:
        """
        T-LOG-1: what a function of a secret step logs, writes, fires and raises is in no log and
        in no event; whoever called it has it.
        """
        canary, logged = "canary-9b", []
        observer = logged.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

        for secret in (True, False):
            HIDDEN.set(secret)
            call = self.known() if secret else self.call("deploy.web")
            HIDDEN.set(False)
            child = self.child("call")
            _ = child.ask("complain", text=canary)
            _ = child.ask("log", level=40, message=canary)
            _ = child.ask("progress", data={"pw": canary}, end="x")
            _ = child.ask("answer", error=f"Traceback: {canary}")
            found = self.successResultOf(call)
            self.assertIn(canary, found["return"])
            texts = [formatEvent(event) for event in logged]
            for where in (texts, self.rig.events):
                self.assertEqual(canary not in repr(where), secret, where)
            self.assertIn(canary, repr(self.told))

    def test_T_LOG_1_ours_fails(self) -> None:
        """T-LOG-1: of an error in our runner that a secret step calls no words are logged."""
        HIDDEN.set(True)
        self.addCleanup(HIDDEN.set, False)
        logged: list[Any] = []
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)

        async def broken(run: Any, word: str) -> None:
            raise KeyError(word)

        table = {"broken": MagicMock(FUNCTIONS={"it": broken})}
        calls = Calls(self.rig.ctx, self.rig.ctx.dispatcher.new_jid, MagicMock(), [table])
        self.ctx = evolve(self.rig.ctx, calls=calls)
        found = self.successResultOf(self.call("broken.it", "canary-4f"))

        self.assertIn("canary-4f", found["return"])
        self.assertIn("secret", " ".join(str(formatEvent(event)) for event in logged))
        self.assertNotIn("canary-4f", repr(logged))

    def test_foreign_question(self) -> None:
        """A process may not ask the master for anything else on its socket."""
        _ = self.known()

        self.failureResultOf(self.child("call").ask("runner", fun="test.arg"))

    def test_fails(self) -> None:
        """Its error is the answer; a process that ends without one is named with its file."""
        call = self.known()
        _ = self.child("call").ask("answer", error="Exception occurred in runner deploy.web: x")
        self.assertEqual(self.result(call), ("Exception occurred in runner deploy.web: x", False))
        call = self.call("deploy.web")
        self.child("call").end("was ended by SIGKILL")
        text, success = self.result(call)
        self.assertIn(str(self.folder / "deploy.py"), text)
        self.assertIn("its process was ended by SIGKILL", text)
        self.assertFalse(success)

    def test_hangs(self) -> None:
        """One that takes longer than C{site_function_timeout} is ended; the next call works."""
        call = self.known()
        self.rig.clock.advance(60)

        text, success = self.result(call)
        self.assertIn("took longer than 60 seconds", text)
        self.assertFalse(success)
        self.assertTrue(self.child("call").exited.called)
        call = self.call("deploy.web")
        _ = self.child("call").ask("answer", value=1, retcode=0)
        self.assertEqual(self.result(call), (1, True))

    def test_caller_gone(self) -> None:
        """When whoever waits has gone (Ctrl-C), the process is ended."""
        call = self.known()
        call.cancel()

        self.failureResultOf(call, CancelledError)
        self.assertTrue(self.child("call").exited.called)
        self.assertEqual(self.rig.clock.getDelayedCalls(), [])

    def test_crowd(self) -> None:
        """More than C{MOST} at once are refused, and one may begin when one has ended."""
        calls = [self.known(), *(self.call("deploy.web") for _ in range(MOST - 1))]
        text, _ = self.result(self.call("deploy.web"))
        self.assertIn("was not started", text)

        _ = self.child("call").ask("answer", value=1, retcode=0)
        self.successResultOf(calls[-1])
        self.assertNoResult(self.call("deploy.web"))

    def test_unusable(self) -> None:
        """A module that cannot be executed is named, with its file, to whoever calls it."""
        good, bad = self.write("deploy"), self.write("bad")
        call = self.call("bad.go")
        self.answer_list([bad, "NameError: x"], deploy=listed(good, web=[]))

        text, success = self.result(call)
        self.assertEqual(text, f"runner module {bad} cannot be used: NameError: x")
        self.assertFalse(success)
        self.assertNotIn("bad.go", self.ctx.calls.runners.all())

    def ends_the_process(self, how: Callable[[FakeChild], Any], says: str) -> None:
        """A file that ends the process that lists costs nobody but itself."""
        good, bad = self.write("deploy"), self.write("bad")
        call = self.call("deploy.web")
        first = self.child("list")
        _ = first.ask("begins", path=bad)
        how(first)
        self.assertEqual(self.child("list").payload["without"], [bad])
        self.answer_list(deploy=listed(good, web=[]))
        _ = self.child("call").ask("answer", value=1, retcode=0)
        self.assertEqual(self.result(call), (1, True))
        text, _ = self.result(self.call("bad.go"))
        self.assertEqual(
            text, f"runner module {bad} cannot be used: it was executed, and its process {says}"
        )

    def test_exits_at_import(self) -> None:
        """A file that ends the process when it is executed is left out, and named."""
        self.ends_the_process(
            lambda child: child.end("exited with status 9"), "exited with status 9"
        )

    def test_hangs_at_import(self) -> None:
        """A file that never ends its execution likewise; the others have their time anew."""

        def wait(child: FakeChild) -> None:
            self.rig.clock.advance(EXECUTING / 2)
            _ = child.ask("begins", path=str(self.folder / "bad.py"))
            self.rig.clock.advance(EXECUTING - 1)
            self.assertFalse(child.exited.called)
            self.rig.clock.advance(1)

        self.ends_the_process(wait, "took longer than 10 seconds and was ended")

    def test_whole_module(self) -> None:
        """A module of the site's replaces ours of that name as a whole; that is said once."""
        path = self.write("test")
        call = self.call("test.arg")
        self.answer_list(test=listed(path, mine=[]))

        self.assertEqual(self.result(call), ("'test.arg' is not available.", False))
        self.assertIn("test.mine", self.ctx.calls.runners.all())
        self.assertNotIn("test.arg", self.ctx.calls.runners.all())

    def test_listing_fails(self) -> None:
        """If nothing can be listed, our own runners go on, and the next call looks again."""
        path = self.write("deploy")
        call = self.call("test.arg", 1)
        self.child("list").end("could not be started")

        self.assertEqual(self.result(call)[1], True)
        call = self.call("deploy.web")
        self.answer_list(deploy=listed(path, web=[]))
        _ = self.child("call").ask("answer", value=1, retcode=0)
        self.assertEqual(self.result(call), (1, True))
