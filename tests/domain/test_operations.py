"""
The table of operations: who may, with what, and what is said of mistakes.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.operations.arguments import (
    ANYTHING,
    FLAG,
    LIST,
    LONGEST_NAME,
    MAP,
    NUMBER,
    SECONDS,
    TEXT,
    TEXTS,
    WHOLE,
    WORDS,
    Argument,
    Kind,
    checked,
    one_of,
)
from saltwisted.domain.operations.table import (
    ACCOUNT,
    ANYBODY,
    Call,
    Caller,
    Operation,
    Operations,
    owner_only,
)
from saltwisted.errors import DeniedError, RemoteError
from tests.fakes.operations import ROOT, nobody_listens

FRED = Caller(name="fred", source="uid 1000", door="a test")
STRANGER = Caller(source="192.0.2.7", door="a test")


class ArgumentTests(SynchronousTestCase):
    """What an operation takes."""

    def refused(self, takes: tuple[Argument, ...], given: dict[str, Any]) -> str:
        """Why these are refused."""
        error = self.assertRaises(RemoteError, checked, "do", takes, False, given)
        self.assertEqual(error.name, "SaltInvocationError")
        return str(error)

    def test_kinds(self) -> None:
        """Each kind takes its own values and no others."""
        cases: list[tuple[Kind, list[Any], list[Any]]] = [
            (ANYTHING, [0, "", [], {}, b"x"], []),
            (TEXT, ["", "x"], [1, b"x", ["x"], True]),
            (FLAG, [True, False], [0, 1, "yes", ""]),
            (WHOLE, [0, -3], [1.5, "1", True]),
            (NUMBER, [0, 1.5], ["1", False]),
            (SECONDS, [0, 1.5, "5", ""], [-1, "x", float("nan"), float("inf"), [1], 1e10]),
            (LIST, [[], (1,)], ["", {}, 0]),
            (TEXTS, [[], ["a"]], ["a", [1], ["a", None]]),
            (WORDS, ["a", ["a", "b"]], [1, [1], {}]),
            (MAP, [{}, {"a": 1}], [[], "", {1: 2}]),
            (one_of("a", "b"), ["a"], ["c", "", 1, []]),
        ]
        for kind, good, bad in cases:
            takes = (Argument("x", kind),)
            for value in good:
                self.assertEqual(checked("do", takes, False, {"x": value}), {"x": value})
            for value in bad:
                self.assertIn(f"x must be {kind.words}, not", self.refused(takes, {"x": value}))

    def test_needed(self) -> None:
        """A needed one must be there, and have a value unless nothing is a value."""
        takes = (Argument("fun", TEXT, needed=True),)
        for given in ({}, {"fun": None}, {"fun": ""}):
            self.assertEqual(self.refused(takes, given), "do needs 'fun'")
        target = (Argument("tgt", ANYTHING, needed=True, may_be_empty=True),)
        self.assertEqual(self.refused(target, {}), "do needs 'tgt'")
        for value in ("", None, []):
            self.assertEqual(checked("do", target, False, {"tgt": value}), {"tgt": value})
        load = (Argument("load", MAP, needed=True, may_be_empty=True),)
        self.assertEqual(checked("do", load, False, {"load": {}}), {"load": {}})
        self.assertIn("must be a map", self.refused(load, {"load": None}))

    def test_nothing_is_not_given(self) -> None:
        """An optional one that is nothing is left out; where others are taken, those are not."""
        takes = (Argument("a", TEXT),)

        self.assertEqual(checked("do", takes, False, {"a": None}), {})
        self.assertEqual(checked("do", takes, True, {"a": None, "b": None}), {"b": None})

    def test_unknown(self) -> None:
        """An unknown one is named, with the one that was perhaps meant; a huge one is cut."""
        takes = (Argument("timeout", SECONDS), Argument("tgt", ANYTHING))

        self.assertEqual(
            self.refused(takes, {"tiemout": 5}), "do takes no 'tiemout'; did you mean 'timeout'?"
        )
        self.assertEqual(self.refused(takes, {"zz": 5}), "do takes no 'zz'")
        huge = self.refused(takes, {"timeout" * 100_000: 5})
        self.assertLess(len(huge), 200)
        # Comparing long names takes long: it is left out even where one is near
        long = "x" * (LONGEST_NAME + 1)
        self.assertNotIn("did you mean", self.refused((Argument(f"{long}y", TEXT),), {long: ""}))

    def test_wrong_values_are_named(self) -> None:
        """The value is repeated where it may be a slip, never a whole map."""
        takes = (Argument("n", WHOLE),)
        for value, named in (
            ("5", "not '5'"),
            (True, "not true"),
            ({"secret": 1}, "not a map"),
            ([1], "not a list"),
            (b"x", "not bytes"),
            ("x" * 1000, "x..."),
        ):
            text = self.refused(takes, {"n": value})
            self.assertIn(named, text)
            self.assertLess(len(text), 200)


class TableTests(SynchronousTestCase):
    """Rows, and who calls them."""

    def setUp(self) -> None:
        self.calls: list[Call] = []
        self.denied = 0

        async def handler(call: Call) -> Any:
            """Remember the call."""
            self.calls.append(call)
            return "done"

        async def streams(call: Call) -> Any:
            """Give two items."""
            call.stream(1)
            call.stream(2)

        async def refuses(call: Call) -> Any:
            """Refuse."""
            raise DeniedError("not today")

        def count() -> None:
            self.denied += 1

        def row(name: str, does: Any = handler, right: Any = ANYBODY, **more: Any) -> Operation:
            return Operation(name=name, handler=does, right=right, **more)

        self.table = Operations(
            "this master",
            [
                row("status", right=ACCOUNT),
                row("stop", right=owner_only("only root may stop it")),
                row("say", takes=(Argument("text", TEXT, needed=True),)),
                row("tell", streams, streams=True),
                row("lies", streams),
                row("refuses", refuses),
            ],
            denied=count,
        )
        self.row = row

    def call(
        self, name: str, caller: Caller = ROOT, stream: Any = nobody_listens, **args: Any
    ) -> Any:
        """One call."""
        return Deferred.fromCoroutine(self.table.call(name, args, caller, stream))

    def refused(self, *call: Any, **args: Any) -> RemoteError:
        """Why a call is refused."""
        error = self.failureResultOf(self.call(*call, **args), RemoteError).value
        assert isinstance(error, RemoteError)
        return error

    def test_rights(self) -> None:
        """Root may all; an account what is for accounts; a stranger what is for everybody."""
        for name, may in (("status", (ROOT, FRED)), ("stop", (ROOT,))):
            for caller in (ROOT, FRED, STRANGER):
                if caller in may:
                    self.assertEqual(self.successResultOf(self.call(name, caller)), "done")
                    self.assertEqual(self.calls[-1].user, caller.name)
                else:
                    self.assertEqual(self.refused(name, caller).name, "AuthorizationError")
        self.assertEqual(self.denied, 3)
        self.assertEqual(self.successResultOf(self.call("say", STRANGER, text="x")), "done")

    def test_T_ACL_proof_outranks_account(self) -> None:
        """T-ACL: who shows a login has no more than that, even if root's process carries it."""
        carrier = Caller(name="root", owner=True, source="uid 0", proof={"token": "x"})

        for name in ("status", "stop"):
            self.assertEqual(self.refused(name, carrier).name, "AuthorizationError")
        self.assertEqual(self.calls, [])
        self.assertNotIn("token", repr(carrier))

    def test_denied_by_the_operation(self) -> None:
        """A refusal of the operation itself has the same form, and is counted as well."""
        error = self.refused("refuses")

        self.assertEqual((error.name, str(error)), ("AuthorizationError", "not today"))
        self.assertEqual(self.denied, 1)

    def test_unknown(self) -> None:
        """An unknown name is answered with the nearest right one; attributes are not names."""
        error = self.refused("statsu")
        self.assertEqual(error.name, "UnknownOperation")
        self.assertEqual(str(error), "this master does not know 'statsu'; did you mean 'status'?")
        for name in ("call", "add", "_rows", "__init__", "", "op_say"):
            self.assertEqual(self.refused(name).name, "UnknownOperation", name)
        huge = str(self.refused("status" * 200_000))
        self.assertLess(len(huge), 200)
        self.assertGreater(LONGEST_NAME, max(len(row.name) for row in self.table))

    def test_arguments_are_checked(self) -> None:
        """Wrong ones never reach the operation."""
        for args in ({}, {"text": 5}, {"text": "x", "loud": True}):
            self.assertEqual(self.refused("say", **args).name, "SaltInvocationError")
        self.assertEqual(self.calls, [])

    def test_streams(self) -> None:
        """Only a row that says so streams: a door relies on it."""
        items: list[int] = []
        self.successResultOf(self.call("tell", stream=items.append))
        self.assertEqual(items, [1, 2])

        self.failureResultOf(self.call("lies", stream=items.append), TypeError)
        self.assertEqual(items, [1, 2])

    def test_joined(self) -> None:
        """Parts add rows, and never replace one; a word can stand for several."""
        self.table.add(
            [self.row("roots.log"), self.row("roots.status")], {"roots": ("do", "status")}
        )
        self.assertRaises(ValueError, self.table.add, [self.row("say")])

        for args in ({}, {"do": "log"}):
            self.assertEqual(self.successResultOf(self.call("roots", **args)), "done")
        self.assertEqual(self.calls[-1].args, {})
        self.assertIn("did you mean 'roots.log'", str(self.refused("roots", do="lg")))
        for odd in ([1], {"a": 1}, None, b"log"):
            self.assertEqual(self.refused("roots", do=odd).name, "UnknownOperation")

    def test_otherwise(self) -> None:
        """A daemon that is not ready says so for what it does not know."""

        async def not_ready(caller: Caller) -> None:
            raise RemoteError("NotReady", f"not for {caller.name} yet")

        self.table = Operations("this node", [self.row("status")], otherwise=not_ready)

        self.assertEqual(self.refused("publish").name, "NotReady")
        self.assertEqual(self.successResultOf(self.call("status")), "done")
