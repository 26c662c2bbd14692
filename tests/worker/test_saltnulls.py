"""
What databases and configurations give to the pillars and returners of sites.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.compat.pillar.sql_base import SqlBaseExtPillar
from saltwisted.compat.returners import get_returner_options


class Rows(SqlBaseExtPillar):
    """A pillar whose rows are given."""

    @classmethod
    def _db_name(cls) -> str:
        return "rows"

    def _get_cursor(self) -> Any:
        raise NotImplementedError

    def extract_queries(self, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError


class DocumentTests(SynchronousTestCase):
    """A column of JSON, C{as_json}."""

    def _pillar(self, *values: Any) -> dict[str, Any]:
        rows = Rows()
        rows.as_json = True
        rows.enter_root("")
        rows.process_fields(["document"], 0)
        rows.process_results([(value,) for value in values])
        return dict(rows.result)

    def test_forms(self) -> None:
        """A driver may give a map, text or bytes; all mean the same."""
        found = self._pillar({"a": 1}, '{"b": {"c": 2}}', b'{"b": {"d": "\xc3\xbc"}}')

        self.assertEqual(found, {"a": 1, "b": {"c": 2, "d": "\u00fc"}})

    def test_noMap(self) -> None:
        """What is no map, or no JSON, is an error that says so."""
        self.assertRaises(TypeError, self._pillar, "[1]")
        self.assertRaises(TypeError, self._pillar, 5)
        self.assertRaises(ValueError, self._pillar, "{broken")


class NullTests(SynchronousTestCase):
    """Options of returners."""

    def test_null(self) -> None:
        """An option that is null is as one that is not there: its default holds."""
        opts = {"db.host": None, "db.port": 0}
        options = get_returner_options(
            "db",
            {},
            {"host": "host", "port": "port", "user": "user"},
            __opts__=opts,
            defaults={"host": "localhost", "port": 5432},
        )

        self.assertEqual(options, {"host": "localhost", "port": 0})
