"""What differs between two maps, with the names of C{salt.utils.dictdiffer}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class DictDiffer:
    """Which keys of two maps came, went, changed or stayed. Their values are not looked into."""

    def __init__(self, current_dict: Mapping[Any, Any], past_dict: Mapping[Any, Any]) -> None:
        self.current_dict, self.past_dict = current_dict, past_dict
        self.intersect = set(current_dict) & set(past_dict)

    def added(self) -> set[Any]:
        """Keys that only the newer one has."""
        return set(self.current_dict) - self.intersect

    def removed(self) -> set[Any]:
        """Keys that only the older one has."""
        return set(self.past_dict) - self.intersect

    def changed(self) -> set[Any]:
        """Keys whose values differ."""
        return {key for key in self.intersect if self.past_dict[key] != self.current_dict[key]}

    def unchanged(self) -> set[Any]:
        """Keys whose values are the same."""
        return {key for key in self.intersect if self.past_dict[key] == self.current_dict[key]}


def diff(current_dict: Mapping[Any, Any], past_dict: Mapping[Any, Any]) -> DictDiffer:
    """What differs between two maps, by their keys."""
    return DictDiffer(current_dict, past_dict)


def recursive_diff(
    past_dict: Mapping[Any, Any],
    current_dict: Mapping[Any, Any],
    ignore_missing_keys: bool = True,
    list_dict_matchers: Sequence[Any] | None = None,
) -> RecursiveDictDiffer:
    """What differs between two maps, and between the maps in them."""
    return RecursiveDictDiffer(
        past_dict, current_dict, ignore_missing_keys, list_dict_matchers or ()
    )


class RecursiveDictDiffer(DictDiffer):
    """
    What differs between two maps and the maps in them. Names of keys are joined by dots.

    @param ignore_missing_keys: what only the older map has is no difference.
    @param list_dict_matchers: by which keys maps in two lists belong together; lists are compared
        as a whole where no key of these is in all of their maps.
    @ivar diffs: C{{"new": ..., "old": ...}} for each key that differs; maps of such for maps.
    @ivar ignore_unset_values: what came or went did not change.
    """

    NONE_VALUE = "<_null_>"

    def __init__(
        self,
        past_dict: Mapping[Any, Any],
        current_dict: Mapping[Any, Any],
        ignore_missing_keys: bool,
        list_dict_matchers: Sequence[Any],
    ) -> None:
        super().__init__(current_dict, past_dict)
        self._missing, self._matchers = not ignore_missing_keys, tuple(list_dict_matchers or ())
        self.diffs = self._between(current_dict, past_dict)
        self.ignore_unset_values = True

    def _between(self, new: Mapping[Any, Any], old: Mapping[Any, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in new.items():
            if key not in old:
                found[key] = {"new": value, "old": self.NONE_VALUE}
            elif value != old[key]:
                inside = self._inside(value, old[key])
                if inside is None:
                    found[key] = {"new": value, "old": old[key]}
                elif inside:
                    found[key] = inside
        if self._missing:
            for key in old:
                if key not in new:
                    found[key] = {"new": self.NONE_VALUE, "old": old[key]}
        return found

    def _inside(self, new: Any, old: Any) -> dict[Any, Any] | None:
        """The differences in two values; C{None}: they are compared as a whole."""
        if isinstance(new, dict) and isinstance(old, dict):
            return self._between(new, old)
        if not (isinstance(new, list) and isinstance(old, list) and new and old):
            return None
        if not all(isinstance(each, dict) for each in (*new, *old)):
            return None
        shared = [key for key in self._matchers if all(key in each for each in (*new, *old))]
        if not shared:
            return None
        key = shared[-1]
        known = {each[key]: each for each in old}
        pairs = {
            each[key]: self._between(each, known[each[key]]) for each in new if each[key] in known
        }
        return {name: diffs for name, diffs in pairs.items() if diffs}

    def _values(self, diffs: Mapping[Any, Any], which: str) -> dict[Any, Any]:
        return {
            key: each[which] if which in each else self._values(each, which)
            for key, each in diffs.items()
        }

    @property
    def new_values(self) -> dict[Any, Any]:
        """The newer values of what differs."""
        return self._values(self.diffs, "new")

    @property
    def old_values(self) -> dict[Any, Any]:
        """The older values of what differs."""
        return self._values(self.diffs, "old")

    @property
    def changes_str(self) -> str:
        """The differences in words, a line each."""
        return "\n".join(self._lines(self.diffs))

    def _lines(self, diffs: Mapping[Any, Any]) -> list[str]:
        lines: list[str] = []
        for key in sorted(diffs):
            each = diffs[key]
            if set(each) == {"new", "old"}:
                lines.append(f"{key} from {self._word(each['old'])} to {self._word(each['new'])}")
            else:
                inside = self._lines(each)
                lines += [f"{key}:", *(f"  {line}" for line in inside)] if inside else []
        return lines

    def _word(self, value: Any) -> str:
        if value == self.NONE_VALUE:
            return "nothing"
        if isinstance(value, list):
            return f"'{', '.join(value)}'"
        return f"'{value}'" if isinstance(value, str) else f"{value}"

    def _leaves(self, diffs: Mapping[Any, Any], prefix: str, dot: str) -> Iterator[tuple[str, Any]]:
        for key, each in diffs.items():
            if not isinstance(each, dict):
                continue
            if "old" in each and "new" in each:
                yield f"{prefix}{key}", each
            else:
                yield from self._leaves(each, f"{prefix}{key}{dot}", dot)

    def _names(self, value: Any, prefix: str, nested: bool, dot: str) -> Iterator[str]:
        """The keys in a map that came or went as a whole."""
        for key, each in value.items():
            yield f"{prefix}{key}"
            if nested and isinstance(each, dict):
                yield from self._names(each, f"{prefix}{key}{dot}", nested, dot)

    def _alone(self, which: str, other: str, nested: bool, dot: str) -> list[str]:
        found: list[str] = []
        for name, each in self._leaves(self.diffs, "", dot):
            if each[other] == self.NONE_VALUE:
                found.append(name)
                if nested and isinstance(each[which], dict):
                    found += self._names(each[which], f"{name}{dot}", nested, dot)
            elif isinstance(each[which], dict) and not isinstance(each[other], dict):
                found += self._names(each[which], f"{name}{dot}", nested, dot)
        return sorted(found)

    def added(self, include_nested: bool = False, separator: str = ".") -> Any:
        """Keys that only the newer map has."""
        return self._alone("new", "old", include_nested, separator)

    def removed(self, include_nested: bool = False, separator: str = ".") -> Any:
        """Keys that only the older map has."""
        return self._alone("old", "new", include_nested, separator)

    def changed(self, separator: str = ".") -> Any:
        """Keys whose values differ."""
        return sorted(
            name
            for name, each in self._leaves(self.diffs, "", separator)
            if not (self.ignore_unset_values and self.NONE_VALUE in (each["new"], each["old"]))
        )

    def unchanged(self, separator: str = ".") -> Any:
        """Keys whose values are the same."""
        return sorted(self._same(self.current_dict, self.diffs, "", separator))

    def _same(
        self, values: Mapping[Any, Any], diffs: Mapping[Any, Any], prefix: str, dot: str
    ) -> Iterator[str]:
        for key, value in values.items():
            if key not in diffs:
                yield f"{prefix}{key}"
            elif isinstance(value, dict) and "new" not in diffs[key]:
                yield from self._same(value, diffs[key], f"{prefix}{key}{dot}", dot)


def deep_diff(old: Any, new: Any, ignore: Any = None) -> dict[str, Any]:
    """
    The parts of two maps that are not in the other: C{{"old": ..., "new": ...}}, what is empty
    left out.

    @param ignore: keys that do not count, at any depth.
    """
    left, right = _different(old, new, frozenset(ignore or ()))
    return {key: value for key, value in (("old", left), ("new", right)) if value}


def _different(
    old: Mapping[Any, Any], new: Mapping[Any, Any], ignore: frozenset[Any]
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    left: dict[Any, Any] = {}
    right: dict[Any, Any] = {}
    for key, value in old.items():
        if key in ignore or (key in new and new[key] == value):
            continue
        if key in new and isinstance(value, Mapping) and isinstance(new[key], Mapping):
            left[key], right[key] = _different(value, new[key], ignore)
        else:
            left[key] = value
    for key, value in new.items():
        if key not in ignore and key not in right and not (key in old and old[key] == value):
            right[key] = value
    return left, right
