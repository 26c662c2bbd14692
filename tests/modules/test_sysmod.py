"""
C{sys.*}: documentation and arguments, from tables of functions.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.modules.harness import load


def one(name: Any, *more: Any, key: Any = 5, **rest: Any) -> None:
    """
    Does one thing.

    .. note::
        Only one.

    CLI Example::

        salt '*' a.one
    """


def two() -> None:
    """Does two things.

    .. code-block:: bash

        salt '*' a.two
    """


class Kinds:
    """Functions of other kinds."""

    table = {
        "renderers": {"mine.render": one},
        "returners": {"local.returner": one},
        "runners": {"jobs.list": two, "jobs.last": one, "cache.all": one},
    }

    def __getitem__(self, kind: str) -> dict[str, Any]:
        return self.table[kind]


class Functions(dict[str, Any]):
    """A loader: functions by name, and the loaders of other kinds."""

    loaders = Kinds()


class Asking(SynchronousTestCase):
    """One table."""

    def setUp(self) -> None:
        functions = Functions({"a.one": one, "a.two": two, "ab.one": one})
        self.module = load("sysmod", salt=functions, states={"st.one": one, "st.two": two})

    def test_doc(self) -> None:
        """Documentation comes without the marks of its markup, for a module or a glob."""
        docs = self.module.doc("a")

        self.assertEqual(sorted(docs), ["a.one", "a.two"])
        self.assertIn("Note:\n", docs["a.one"])
        self.assertIn("CLI Example:\n", docs["a.one"])
        self.assertNotIn("code-block", docs["a.two"])
        self.assertEqual(sorted(self.module.doc("*.one")), ["a.one", "ab.one"])
        self.assertEqual(sorted(self.module.doc("a.two")), ["a.two"])
        self.assertEqual(len(self.module.doc()), 3)

    def test_lists(self) -> None:
        """A module's name is not taken for the start of another's."""
        self.assertEqual(self.module.list_functions("a"), ["a.one", "a.two"])
        self.assertEqual(self.module.list_functions("a*"), ["a.one", "a.two", "ab.one"])
        self.assertEqual(self.module.list_modules("a"), ["a"])
        self.assertEqual(self.module.list_modules(), ["a", "ab"])

    def test_argspec(self) -> None:
        """Arguments are told in the shape of Python 2."""
        self.assertEqual(
            self.module.argspec("a.one"),
            {
                "a.one": {
                    "args": ["name", "key"],
                    "defaults": (5,),
                    "varargs": True,
                    "kwargs": True,
                }
            },
        )

    def test_others(self) -> None:
        """States, renderers, returners and runners are asked in the same ways."""
        self.assertEqual(self.module.list_state_functions(), ["st.one", "st.two"])
        self.assertIn("st", self.module.state_doc("st.one"))
        self.assertEqual(self.module.list_renderers("y*", "m*e"), ["mine", "yaml", "yamlex"])
        self.assertEqual(self.module.list_returners(), ["local"])
        self.assertEqual(self.module.list_runners("jobs"), ["jobs"])
        self.assertEqual(self.module.list_runner_functions("jobs"), ["jobs.last", "jobs.list"])
        self.assertEqual(sorted(self.module.runner_doc("jobs.last")), ["jobs.last"])

    def test_schema(self) -> None:
        """Arguments of a state as a JSON schema, with their defaults."""
        (schema,) = self.module.state_schema("st.one")

        self.assertEqual(schema["x-ordering"], ["name", "key"])
        self.assertEqual(
            [kind["default"] for kind in schema["properties"]["key"]["oneOf"]], [5] * 4
        )
