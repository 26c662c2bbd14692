"""
What every module of runners or of the wheel has to do (L{saltwisted.parts.IFunctionModule}).
"""

from __future__ import annotations

import re
from inspect import Parameter, getdoc, iscoroutinefunction, signature
from typing import Any

from saltwisted.master.calls import wrong_arguments
from saltwisted.master.runner_table import documentation
from saltwisted.parts import IFunctionModule
from saltwisted.wire.msgpack import pack_bin


class FunctionModuleContract:
    """The claims. A test case gives the module."""

    def module(self) -> IFunctionModule:
        """The module."""
        raise NotImplementedError

    def test_names(self: Any) -> None:
        """It has functions, whose names can be called: small plain words."""
        functions = self.module().FUNCTIONS

        self.assertNotEqual(len(functions), 0)
        for name in functions:
            self.assertRegex(name, re.compile(r"[a-z][a-z0-9_]*\Z"))

    def test_coroutines(self: Any) -> None:
        """Each is a coroutine function that takes the call first, by no name of the caller's."""
        for name, function in self.module().FUNCTIONS.items():
            self.assertTrue(iscoroutinefunction(function), name)
            first = next(iter(signature(function).parameters.values()))
            self.assertIn(
                first.kind, (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD), name
            )
            self.assertIs(first.default, Parameter.empty, name)

    def test_documented(self: Any) -> None:
        """Each says what it does, in words that can be printed as they are."""
        for name, function in self.module().FUNCTIONS.items():
            self.assertTrue((getdoc(function) or "").strip(), name)
            self.assertNotRegex(documentation(function), r"[CL]\{", name)

    def test_wrong_arguments(self: Any) -> None:
        """
        What it does not take is named before it is called, with its usage: too many arguments, one
        of no known name, and one in the place of the call itself.
        """
        for name, function in self.module().FUNCTIONS.items():
            parameters = list(signature(function).parameters.values())
            kinds = [parameter.kind for parameter in parameters]
            too_many = wrong_arguments(function, name, ["x"] * 40, {})
            unknown = wrong_arguments(function, name, [], {"no_such_name": 1})
            in_place = wrong_arguments(function, name, [], {parameters[0].name: 1})
            if Parameter.VAR_POSITIONAL not in kinds:
                self.assertIn(f"Usage:\n\n    {name}", too_many)
            if Parameter.VAR_KEYWORD not in kinds:
                self.assertIn(f"Usage:\n\n    {name}", unknown)
            self.assertIn("Passed invalid arguments", in_place, name)

    def test_defaults(self: Any) -> None:
        """What an argument is by default could have come from a caller: plain data."""
        for name, function in self.module().FUNCTIONS.items():
            for parameter in list(signature(function).parameters.values())[1:]:
                if parameter.default is not Parameter.empty:
                    self.assertTrue(pack_bin(parameter.default), f"{name} {parameter}")
