"""
The modules of runners and of the wheel keep their contract: each of ours, and the fake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.who import local
from saltwisted.errors import SaltwistedError
from saltwisted.master import runner_table, wheel_table
from saltwisted.master.calls import Calls
from saltwisted.master.function_table import FunctionTable
from saltwisted.parts import IFunctionModule
from saltwisted.testing.functions import FakeFunctions
from tests.contracts.functions import FunctionModuleContract
from tests.master.rig import Rig


class FakeTests(FunctionModuleContract, SynchronousTestCase):
    """The one for tests."""

    def module(self) -> IFunctionModule:
        """A fake."""
        return FakeFunctions({"world": "Hello", "nobody": ValueError("nobody is here")})


def _cases() -> dict[str, type]:
    """A test case for each module of ours."""

    def given(module: IFunctionModule) -> Callable[[Any], IFunctionModule]:
        return lambda self: module

    found = {}
    for kind, modules in (("Runner", runner_table.ours()), ("Wheel", wheel_table.ours())):
        for name, module in modules.items():
            case = f"{kind}{name.title()}Tests"
            words = {"__doc__": f"{kind} {name}.", "module": given(module), "__module__": __name__}
            found[case] = type(case, (FunctionModuleContract, SynchronousTestCase), words)
    return found


globals().update(_cases())


class TableTests(SynchronousTestCase):
    """Modules from several places."""

    def test_whole_modules(self) -> None:
        """A later place replaces a module as a whole, and leaves the others."""
        ours = {
            "jobs": FakeFunctions({"active": 1, "list_jobs": 2}),
            "test": FakeFunctions({"arg": 1}),
        }
        site = {"jobs": FakeFunctions({"mine": 3}), "deploy": FakeFunctions({"web": 4})}

        table = FunctionTable(ours, site)

        self.assertEqual(list(table.all()), ["deploy.web", "jobs.mine", "test.arg"])
        self.assertIsNone(table.get("jobs.active"))
        for name in table.all():
            self.assertIsNotNone(table.get(name), name)

    def test_unknown(self) -> None:
        """What is no function is none, however it is written."""
        table = FunctionTable({"jobs": FakeFunctions({"active": 1})})

        for name in (
            "",
            ".",
            "jobs",
            "jobs.",
            ".active",
            "jobs.active.x",
            "Jobs.active",
            "x.active",
        ):
            self.assertIsNone(table.get(name), name)

    def test_learns(self) -> None:
        """A module that comes or goes while the master runs counts at the next call."""
        site: dict[str, IFunctionModule] = {}
        table = FunctionTable(site)

        site["deploy"] = FakeFunctions({"web": 4})
        self.assertIsNotNone(table.get("deploy.web"))
        del site["deploy"]
        self.assertIsNone(table.get("deploy.web"))

    def test_ours(self) -> None:
        """All of ours are found under their names, and have a case of the contract here."""
        count = 0
        for kind, modules in (("Runner", runner_table.ours()), ("Wheel", wheel_table.ours())):
            table = FunctionTable(modules)
            for name, module in modules.items():
                self.assertIn(f"{kind}{name.title()}Tests", globals())
                for function, found in module.FUNCTIONS.items():
                    self.assertIs(table.get(f"{name}.{function}"), found)
                    count += 1
            self.assertEqual(len(table.all()), sum(len(m.FUNCTIONS) for m in modules.values()))
        self.assertGreater(count, 100)


class CallTests(SynchronousTestCase):
    """Modules of a site's own, called as ours are."""

    def setUp(self) -> None:
        """A master with a module of its site's."""
        self.rig = Rig(self)
        self.site = FakeFunctions({"web": "done", "full": SaltwistedError("the disk is full")})
        dispatcher = self.rig.ctx.dispatcher
        calls = Calls(
            self.rig.ctx,
            dispatcher.new_jid,
            dispatcher.chosen,
            runner_places=[{"deploy": self.site}],
            wheel_places=[{"deploy": self.site}],
        )
        self.ctx = evolve(self.rig.ctx, calls=calls)

    def call(self, kind: str, fun: str, *arg: Any, **kwarg: Any) -> dict[str, Any]:
        """Call one of its functions."""
        call: Any = getattr(self.ctx, kind)(fun, arg, kwarg, local("root"))
        return self.successResultOf(Deferred.fromCoroutine(call))  # type: ignore[no-any-return]

    def test_called(self) -> None:
        """A function of the site's has its arguments, its value, and Salt's events."""
        for kind in ("runner", "wheel"):
            found = self.call(kind, "deploy.web", "a", to="b")
            self.assertEqual((found["return"], found["success"]), ("done", True))
        self.assertEqual(self.site.called, [("web", ("a",), {"to": "b"})] * 2)
        tags = [tag.rsplit("/", 1)[-1] for tag in self.rig.tags() if "/run/" in tag]
        self.assertEqual(tags, ["new", "ret"])

    def test_fails(self) -> None:
        """One that fails says why in its own words; one that is not there, that it is not."""
        found = self.call("runner", "deploy.full")
        self.assertEqual((found["return"], found["success"]), ("the disk is full", False))
        found = self.call("runner", "deploy.gone")
        self.assertEqual(found["return"], "'deploy.gone' is not available.")

    def test_shown(self) -> None:
        """C{salt-run -d} shows it, with its own words."""
        for kind in ("runner", "wheel"):
            shown = self.call("runner", f"doc.{kind}")["return"]
            self.assertIn("Answer as a test has said.", shown["deploy.web"])
            self.assertIn({"runner": "jobs.active", "wheel": "key.accept"}[kind], shown)
