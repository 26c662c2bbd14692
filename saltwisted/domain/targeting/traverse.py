"""
Looking into nested data with C{a:b:c}, and matching what is found there.

The rules are those of C{salt.utils.data} in 3008.5 (C{traverse_dict_and_list},
C{subdict_match}): lists may be entered by number or through the maps in them,
a key may itself contain the delimiter, numbers as keys are found by their text,
the last part may be one of the keys of a map as well as a value, comparison
ignores case. An expression is prepared once (L{Subdict}) and then asked of many
minions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from saltwisted.domain.targeting.globs import glob_test
from saltwisted.domain.yamltext import load_yaml

DELIMITER = ":"

Compare = Callable[[str], bool]
_NUMBER = 64
"""Characters of the longest word that may be a number: no key of a map is longer."""


@lru_cache(maxsize=1024)
def scalar(text: str) -> Any:
    """What YAML makes of a word: a number, a truth value, C{None}, or the word itself."""
    stripped = text.strip()
    if len(stripped) > _NUMBER or stripped in ("", "---", "..."):
        return text
    if any(sign in text for sign in "\t\r\n"):
        return text
    if stripped == "None":
        return None
    if stripped.isascii() and stripped.isdigit():
        return int(stripped)  # with Salt's rule that a leading zero means nothing
    if "_" in stripped and not set(stripped) - set("0123456789_"):
        return text
    import yaml

    try:
        value = load_yaml(text)
    except yaml.YAMLError:
        return text
    if isinstance(value, (bool, int, float)) or (value is None and "#" not in text):
        return value
    return text


def traverse(data: Any, key: Any, default: Any = None, delimiter: str = DELIMITER) -> Any:
    """
    The value at C{key} in nested maps and lists.

    @param key: a path as text, one number, or the steps themselves.
    @param default: what to return when there is nothing.
    """
    steps: Iterable[Any] = key
    if isinstance(key, str):
        steps = key.split(delimiter)
    elif isinstance(key, int):
        steps = [key]
    here = data
    for step in steps:
        here = _step(here, step)
        if here is _NOTHING:
            return default
    return here


_NOTHING = object()


def _step(here: Any, step: Any) -> Any:
    """What one step leads to, or C{_NOTHING}."""
    if isinstance(here, list):
        try:
            number: Any = int(step)
            numeric = True
        except ValueError:
            number, numeric = step, False
        for member in here:
            if isinstance(member, dict) and number in member:
                return member[number]
        try:
            return here[number] if numeric else _NOTHING
        except IndexError:
            return _NOTHING
    try:
        return here[step]
    except KeyError:
        found = scalar(step) if isinstance(step, str) else step
        if found == step and type(found) is type(step):
            return _NOTHING
        try:
            return here[found]
        except (KeyError, TypeError):
            return _NOTHING
    except (TypeError, IndexError):
        return _NOTHING


def comparer(pattern: str, regex: bool = False, exact: bool = False) -> Compare:
    """
    A predicate for lower-cased text: glob, regular expression, or equality.

    An invalid regular expression matches nothing, as in Salt.
    """
    lowered = pattern.lower()
    if regex:
        compiled = _regex(lowered)
        return (lambda text: False) if compiled is None else lambda text: bool(compiled.match(text))
    if exact:
        return lowered.__eq__
    return glob_test(lowered)


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


class Subdict:
    """
    An expression such as C{os_family:Debian}, ready to be asked of many maps.

    The deepest reading is tried first: C{a:b:c} is C{c} in C{data[a][b]}, then
    C{b:c} in C{data[a]}. The path is walked once, as far as the data goes; a reading is
    prepared when the data reaches it for the first time, so that a path which leads
    nowhere costs nothing.
    """

    __slots__ = ("_compares", "_delimiter", "_exact", "_expr", "_parts", "_regex", "_starts")

    def __init__(
        self, expr: str, delimiter: str = DELIMITER, regex: bool = False, exact: bool = False
    ) -> None:
        self._expr = expr
        self._parts = expr.split(delimiter) if delimiter else [expr]
        self._delimiter = delimiter
        self._regex = regex
        self._exact = exact
        self._starts = [0]
        for part in self._parts:
            self._starts.append(self._starts[-1] + len(part) + len(delimiter))
        self._compares: dict[int, tuple[str, Compare]] = {}

    def matches(self, data: Any) -> bool:
        """Whether the data holds what the expression says."""
        return self._search(data, {})

    def _reading(self, start: int) -> tuple[str, Compare]:
        """What follows the keys, from this character on: the text and its predicate."""
        reading = self._compares.get(start)
        if reading is None:
            pattern = self._expr[start:]
            reading = pattern, comparer(pattern, self._regex, self._exact)
            self._compares[start] = reading
        return reading

    def _walk(self, data: Any) -> list[Any]:
        """What is found after one step, after two, and so on until there is nothing."""
        places = []
        for part in self._parts[:-1]:
            data = _step(data, part)
            if data is _NOTHING:
                break
            places.append(data)
        return places

    def _search(self, data: Any, known: dict[tuple[str, int], bool]) -> bool:
        """
        Try the readings on one map.

        @param known: answers of this search by pattern and map; without them the number of
            ways through nested wild cards doubles with each colon.
        """
        parts = self._parts
        places = self._walk(data)
        # Two steps make a star, too, where it is the delimiter
        for cut in range(min(max(len(places), 2), len(parts) - 1), 0, -1):
            if cut <= 2 and self._delimiter.join(parts[:cut]) == "*":
                found = data
                pattern, compare = self._reading(0)
            elif cut <= len(places):
                found = places[cut - 1]
                if isinstance(found, Mapping) and not found:
                    continue
                pattern, compare = self._reading(self._starts[cut])
            else:
                continue
            if self._found(found, pattern, compare, known):
                return True
        return False

    def _found(
        self, found: Any, pattern: str, compare: Compare, known: dict[tuple[str, int], bool]
    ) -> bool:
        """Whether what stands at the end of a path is what the rest of the expression says."""
        if isinstance(found, Mapping):
            return bool(found) and self._in_map(found, pattern, compare, known)
        if isinstance(found, (list, tuple)):
            for member in found:
                if isinstance(member, Mapping) and self._in_map(member, pattern, compare, known):
                    return True
                if compare(str(member).lower()):
                    return True
            return False
        return compare(str(found).lower())

    def _in_map(
        self,
        target: Mapping[Any, Any],
        pattern: str,
        compare: Compare,
        known: dict[tuple[str, int], bool],
    ) -> bool:
        """A key of the map, a path below it, or with C{*:} anything one level down."""
        place = (pattern, id(target))
        answer = known.get(place)
        if answer is None:
            known[place] = False  # for a map that contains itself
            answer = known[place] = self._look(target, pattern, compare, known)
        return answer

    def _look(
        self,
        target: Mapping[Any, Any],
        pattern: str,
        compare: Compare,
        known: dict[tuple[str, int], bool],
    ) -> bool:
        wildcard = pattern.startswith("*:")
        if wildcard:
            pattern = pattern[2:]
            compare = comparer(pattern, self._regex, self._exact)
        if pattern == "*" or pattern in target:
            return True
        if any(compare(str(key).lower()) for key in target):
            return True
        if DELIMITER in pattern and self._below(pattern)._search(target, known):
            return True
        if not wildcard:
            return False
        for value in target.values():
            if isinstance(value, Mapping):
                if self._in_map(value, pattern, compare, known):
                    return True
            elif isinstance(value, list):
                if any(compare(str(item).lower()) for item in value):
                    return True
            elif compare(str(value).lower()):
                return True
        return False

    def _below(self, pattern: str) -> Subdict:
        """The same question one level down, where the delimiter is always a colon (Salt's rule)."""
        return _prepared(pattern, DELIMITER, self._regex, self._exact)


_kept = lru_cache(maxsize=1024)(Subdict)
_LONG = 1024
"""Characters of an expression that is not worth keeping: a thousand of them would be."""


def _prepared(expr: str, delimiter: str, regex: bool, exact: bool) -> Subdict:
    return (_kept if len(expr) <= _LONG else Subdict)(expr, delimiter, regex, exact)


def subdict_match(
    data: Any, expr: str, delimiter: str = DELIMITER, regex: bool = False, exact: bool = False
) -> bool:
    """Whether nested data matches C{key:key:value}; false without a delimiter in it."""
    return _prepared(expr, delimiter, regex, exact).matches(data)
