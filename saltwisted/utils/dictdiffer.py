"""What differs between two maps, with the names of C{salt.utils.dictdiffer}."""

from __future__ import annotations

from collections.abc import Mapping
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
