"""
Looking into nested data with C{a:b:c}, and matching what is found there.

The rules are those of C{salt.utils.data} in 3008.2 (C{traverse_dict_and_list},
C{subdict_match}): lists may be entered by number or through the maps in them,
a key may itself contain the delimiter, numbers as keys are found by their text,
comparison ignores case. An expression is prepared once (L{Subdict}) and then
asked of many minions.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

DELIMITER = ":"

Compare = Callable[[str], bool]


@lru_cache(maxsize=1024)
def scalar(text: str) -> Any:
    """What YAML makes of a word: a number, a truth value, C{None}, or the word itself."""
    stripped = text.strip()
    if stripped in ("", "---", "...") or any(sign in text for sign in "\t\r\n"):
        return text
    if stripped == "None":
        return None
    if stripped.isdigit():
        return int(stripped)  # with Salt's rule that a leading zero means nothing
    if "_" in stripped and not set(stripped) - set("0123456789_"):
        return text
    import yaml

    try:
        value = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, TypeError):
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
        if isinstance(here, list):
            try:
                number: Any = int(step)
                numeric = True
            except ValueError:
                number, numeric = step, False
            for member in here:
                if isinstance(member, dict) and number in member:
                    here = member[number]
                    break
            else:
                if not numeric:
                    return default
                try:
                    here = here[number]
                except IndexError:
                    return default
            continue
        try:
            here = here[step]
        except KeyError:
            found = scalar(step) if isinstance(step, str) else step
            if found == step and type(found) is type(step):
                return default
            try:
                here = here[found]
            except (KeyError, TypeError):
                return default
        except (TypeError, IndexError):
            return default
    return here


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
    glob = _glob(lowered)
    return lambda text: glob.match(text) is not None


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


class Subdict:
    """
    An expression such as C{os_family:Debian}, ready to be asked of many maps.

    The deepest reading is tried first: C{a:b:c} is C{c} in C{data[a][b]}, then
    C{b:c} in C{data[a]}.
    """

    __slots__ = ("_delimiter", "_exact", "_readings", "_regex")

    def __init__(
        self, expr: str, delimiter: str = DELIMITER, regex: bool = False, exact: bool = False
    ) -> None:
        parts = expr.split(delimiter) if delimiter else [expr]
        self._delimiter = delimiter
        self._regex = regex
        self._exact = exact
        self._readings: list[tuple[str | None, str, Compare]] = []
        for cut in range(len(parts) - 1, 0, -1):
            key = delimiter.join(parts[:cut])
            if key == "*":
                self._readings.append((None, expr, comparer(expr, regex, exact)))
            else:
                rest = delimiter.join(parts[cut:])
                self._readings.append((key, rest, comparer(rest, regex, exact)))

    def matches(self, data: Any) -> bool:
        """Whether the data holds what the expression says."""
        return self._search(data, {})

    def _search(self, data: Any, known: dict[tuple[str, int], bool]) -> bool:
        """
        Try the readings on one map.

        @param known: answers of this search by pattern and map; without them the number of
            ways through nested wild cards doubles with each colon.
        """
        for key, pattern, compare in self._readings:
            found = data if key is None else traverse(data, key, {}, self._delimiter)
            if isinstance(found, Mapping):
                if found and self._in_map(found, pattern, compare, known):
                    return True
            elif isinstance(found, (list, tuple)):
                for member in found:
                    if isinstance(member, Mapping) and self._in_map(
                        member, pattern, compare, known
                    ):
                        return True
                    if compare(str(member).lower()):
                        return True
            elif compare(str(found).lower()):
                return True
        return False

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


_prepared = lru_cache(maxsize=1024)(Subdict)


def subdict_match(
    data: Any, expr: str, delimiter: str = DELIMITER, regex: bool = False, exact: bool = False
) -> bool:
    """Whether nested data matches C{key:key:value}; false without a delimiter in it."""
    return _prepared(expr, delimiter, regex, exact).matches(data)
