"""
C{salt.pillar.sql_base}: rows of a database as a pillar.

Each row is a path of keys and a value: C{depth} columns make the path, the others are values by
the columns' names, or, if one alone is left, the value. Rows with one path overwrite, or make a
list with C{as_list}. The columns that C{with_lists} numbers become lists of what is below them.
"""

from __future__ import annotations

import abc
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from saltwisted.utils.dictupdate import update

log = logging.getLogger(__name__)

_DEFAULTS: dict[str, Any] = {
    "query": "",
    "depth": 0,
    "as_list": False,
    "as_json": False,
    "with_lists": None,
    "ignore_null": False,
}


def __virtual__() -> bool:
    return False


class SqlBaseExtPillar(metaclass=abc.ABCMeta):
    """
    What an external pillar of one database derives from.

    @ivar result: what all queries have given.
    @ivar focus: where rows of the present query go.
    """

    field_names: Sequence[str] | None = None
    num_fields = 0
    depth = 0
    as_list = False
    as_json = False
    with_lists: Sequence[int] | None = None
    ignore_null = False

    def __init__(self) -> None:
        self.result: dict[Any, Any] = {}
        self.focus: dict[Any, Any] = self.result

    @classmethod
    @abc.abstractmethod
    def _db_name(cls) -> str:
        """The database's name, for the log."""

    @abc.abstractmethod
    def _get_cursor(self) -> AbstractContextManager[Any]:
        """A cursor (PEP 249) as a context manager."""

    def extract_queries(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[list[Any]]:
        """Each query as C{[root, options]}: positional ones first, then those with a name."""
        found: list[list[Any]] = []
        named = [(name, kwargs[name]) for name in sorted(kwargs)]
        for root, given in [*((None, one) for one in args), *named]:
            options = _options(given)
            if options is not None:
                found.append([root, options])
        return found

    def enter_root(self, root: Any) -> None:
        """Rows go below this name; without one, to the top."""
        if root:
            self.result[root] = self.focus = {}
        else:
            self.focus = self.result

    def process_fields(self, field_names: Sequence[str], depth: int) -> None:
        """The columns of the answer, and how many of them are keys."""
        self.field_names = field_names
        self.num_fields = len(field_names)
        most = self.num_fields - 1
        self.depth = most if depth == 0 or depth > most else depth

    def process_results(self, rows: Iterable[Sequence[Any]]) -> None:
        """Put rows into the focus."""
        lists = _Lists(self.with_lists or ())
        for row in rows:
            if self.as_json and self.num_fields == 1:
                update(self.focus, _document(row[0]), merge_lists=self.as_list)
                continue
            place = self.focus
            for number in range(self.depth - 1):
                lists.note(number + 1, place, row[number])
                place = self._below(place, row[number])
            if self.depth == self.num_fields - 1:
                self._put(place, row[self.depth - 1], row[-1], self.depth in lists.columns)
                continue
            key = row[self.depth - 1]
            below = place.setdefault(key, {})
            lists.note(self.depth, place, key)
            for number in range(self.depth, self.num_fields):
                name = (self.field_names or ())[number]
                lists.note(number + 1, below, name)
                self._put(below, name, row[number], False)
        lists.make()

    def _below(self, place: dict[Any, Any], key: Any) -> dict[Any, Any]:
        """The map at a key; what is there and is none makes room, or becomes part of a list."""
        there = place.get(key)
        if isinstance(there, dict):
            return there
        made: dict[Any, Any] = {}
        if isinstance(there, list):
            there.append(made)
        elif self.as_list and key in place:
            place[key] = [there, made]
        else:
            place[key] = made
        return made

    def _put(self, place: dict[Any, Any], key: Any, value: Any, is_list: bool) -> None:
        if is_list or (self.as_list and key in place):
            there = place.setdefault(key, [])
            if not isinstance(there, list):
                there = place[key] = [there]
            there.append(value)
        elif not self.ignore_null or value is not None:
            place[key] = value

    def fetch(self, minion_id: str, pillar: Any, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """Ask all queries for a minion, and give what they make together."""
        log.info("Querying %s for information for %s", self._db_name(), minion_id)
        with self._get_cursor() as cursor:
            for root, options in self.extract_queries(args, kwargs):
                cursor.execute(options["query"], (minion_id,))
                self.process_fields([column[0] for column in cursor.description], options["depth"])
                self.enter_root(root)
                self.as_list, self.as_json = options["as_list"], options["as_json"]
                self.with_lists = options["with_lists"] or []
                self.ignore_null = options["ignore_null"]
                self.process_results(cursor.fetchall())
        return self.result


class _Lists:
    """Which maps become lists when all rows are there."""

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns = columns
        self._noted: dict[int, tuple[dict[Any, Any], list[Any]]] = {}

    def note(self, column: int, place: dict[Any, Any], key: Any) -> None:
        """The value of a key below which a column's rows are."""
        if column in self.columns:
            keys = self._noted.setdefault(id(place), (place, []))[1]
            if key not in keys:
                keys.append(key)

    def make(self) -> None:
        """Inner ones first: a map becomes the list of its values."""
        for place, keys in reversed(list(self._noted.values())):
            for key in keys:
                value = place[key]
                if isinstance(value, dict):
                    place[key] = list(value.values())
                elif isinstance(value, list):
                    place[key] = [value]


def _document(value: Any) -> Mapping[str, Any]:
    """
    A column of JSON. Some drivers decode it, and some give its text.

    @raises TypeError: it is no map.
    @raises ValueError: it is no JSON.
    """
    if isinstance(value, (bytes, bytearray, str)):
        value = json.loads(value)
    if not isinstance(value, dict):
        raise TypeError(f"as_json rows must decode to a dict, got {type(value).__name__}")
    return value


def _options(given: Any) -> dict[str, Any] | None:
    """What a configuration says of a query, in full; C{None}: it has no query."""
    if isinstance(given, str):
        options = {**_DEFAULTS, "query": given}
    elif isinstance(given, (list, tuple)) and given:
        options = {**_DEFAULTS, "query": given[0], "depth": given[1] if len(given) > 1 else 0}
    elif isinstance(given, dict):
        options = {**_DEFAULTS, **given}
    else:
        return None
    if isinstance(options["with_lists"], str):
        options["with_lists"] = [int(number) for number in options["with_lists"].split(",")]
    return options if options["query"] else None
