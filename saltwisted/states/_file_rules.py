"""
What the file states decide about names, lines and dates, without touching a file.
"""

from __future__ import annotations

import datetime
import fnmatch
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from attrs import define, field

RECURSE_WORDS = ("user", "group", "mode", "ignore_files", "ignore_dirs", "silent")

NOTHING = "<_null_>"
"""Salt's mark in a diff of data for "was not there"."""


def texts(value: Any, encoding: str | None = None) -> list[str]:
    """
    A list of texts of whatever an SLS gave: a text, a list, a number.

    @raises UnicodeDecodeError: bytes that are no text.
    """
    if isinstance(value, bytes):
        return [value.decode(encoding or "utf-8")]
    if isinstance(value, str):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return [str(item) for item in value]
    return [str(value)]


def wanted(path: str, include: Any = None, exclude: Any = None) -> bool:
    """Whether a relative path passes the patterns: globs, or C{E@} and an expression."""

    def fits(patterns: Any) -> bool:
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            if pattern.startswith("E@"):
                if re.search(pattern[2:], path):
                    return True
            elif fnmatch.fnmatch(path, pattern):
                return True
        return False

    if include and not fits(include):
        return False
    return not (exclude and fits(exclude))


def recurse_words(words: Any) -> set[str]:
    """
    The set of what C{file.directory} is to do below a directory.

    @raises TypeError: no list.
    @raises ValueError: an unknown word, or two that exclude each other.
    """
    if not words:
        return set()
    if not isinstance(words, list):
        raise TypeError('"recurse" must be formed as a list of strings')
    if any(word not in RECURSE_WORDS for word in words):
        known = ", ".join(f'"{word}"' for word in RECURSE_WORDS)
        raise ValueError(f'Types for "recurse" limited to {known}.')
    if "ignore_files" in words and "ignore_dirs" in words:
        raise ValueError(
            'Must not specify "recurse" options "ignore_files" and "ignore_dirs" at the same time.'
        )
    return set(words)


def pair_sources(
    source: Any, source_hash: Any, sources: Any, hashes: Any
) -> tuple[str, list[tuple[Any, Any]]]:
    """An error text, or sources with their hashes."""
    sources, hashes = sources or [], hashes or []
    if source and sources:
        return "source and sources are mutually exclusive", []
    if source_hash and hashes:
        return "source_hash and source_hashes are mutually exclusive", []
    if source:
        return "", [(source, source_hash)]
    return "", list(zip_longest(sources, hashes[: len(sources)]))


def is_remote(source: Any) -> bool:
    """Whether a source (or one of several) is fetched from a web or FTP server."""
    many = [source] if isinstance(source, str) else source
    return any(str(one).lower().startswith(("http:", "https:", "ftp:")) for one in many)


def data_diff(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, Any]:
    """Where new data differs, as nested C{old}/C{new} pairs; what it lacks does not count."""
    found: dict[Any, Any] = {}
    for key, value in new.items():
        if key not in old:
            found[key] = {"new": value, "old": NOTHING}
        elif isinstance(value, dict) and isinstance(old[key], dict):
            if below := data_diff(old[key], value):
                found[key] = below
        elif value != old[key]:
            found[key] = {"new": value, "old": old[key]}
    return found


# -- patch ---------------------------------------------------------------------------


def patch_words(options: str, strip: Any) -> tuple[str, list[str], Any]:
    """
    An error text, or the options for C{patch} and how many directories to strip.

    What the state decides itself (where rejects and output go) may not be given.
    """
    words = shlex.split(options)
    kept: list[str] = []
    refused: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word.startswith(("-N", "--forward", "-r", "--reject-file", "-o", "--output")):
            refused.append(word)
        shown = "-p" if word.startswith("-p") else "-strip"
        if word.startswith(("-p", "--strip")):
            try:
                if shown == "-p":
                    strip = int(word[2:])
                elif "=" in word:
                    strip = int(word.rsplit("=", 1)[-1])
                else:
                    at += 1
                    strip = int(words[at])
            except (ValueError, IndexError):
                return (
                    f"Invalid format for '{shown}' CLI option. Consider using the 'strip' "
                    "option for this state.",
                    [],
                    None,
                )
        else:
            kept.append(word)
        at += 1
    if refused:
        return f"The following CLI options are not allowed: {', '.join(refused)}", [], None
    return "", kept, strip


def shown(data: Mapping[str, Any], indent: int, outputter: Any) -> str:
    """
    A flat map as text.

    @param outputter: what C{--out} says: for C{json} it is that, otherwise what the nested
        outputter shows without colours.
    """
    if outputter == "json":
        return json.dumps(data, indent=4, ensure_ascii=False)
    blanks = " " * indent
    lines = [f"{blanks}----------"]
    for key in sorted(data):
        value = data[key]
        lines.append(f"{blanks}{key}:")
        texts = value.splitlines() if isinstance(value, str) else [str(value)]
        lines += [f"{blanks}    {line}" for line in texts]
    return "\n".join(lines)


# -- keyvalue -------------------------------------------------------------------------


@define
class KeyLines:
    """
    What C{file.keyvalue} makes of a file's lines.

    @ivar content: the new lines.
    @ivar diff: what to show.
    @ivar changes: lines that changed or came; C{deleted}: lines that C{prune} took away.
    """

    content: list[str]
    diff: list[str]
    changes: int
    deleted: int


@define
class _Keys:
    """
    Keys that are given their values, line by line.

    @ivar left: how many lines of each key are still to be kept.
    @ivar result: what came of the lines so far.
    """

    values: Mapping[str, Any]
    separator: str
    uncomment: str | None
    key_ignore_case: bool
    value_ignore_case: bool
    left: dict[str, int]
    result: KeyLines = field(factory=lambda: KeyLines([], [], 0, 0))

    def folded(self, text: str) -> str:
        """A key, or a line that begins with one, as it is compared."""
        return text.lower() if self.key_ignore_case else text

    def change(self, line: str) -> str:
        """A line with the value of its key; empty if it is one too many."""
        bare = line.lstrip(self.uncomment)
        opened = len(bare) < len(line)
        tested = self.folded(bare)
        there, sep, value_there = (bare if opened else line).partition(self.separator)
        for key, value in self.values.items():
            if not tested.startswith(self.folded(key)) or sep != self.separator:
                continue
            if self.folded(there) != self.folded(key):
                continue
            have, want = value_there.strip(), str(value).strip()
            if self.value_ignore_case:
                have, want = have.lower(), want.lower()
            same = have == want
            must = False
            if opened:
                # A commented line serves if the key is still wanted, else it is let be.
                must = self.left[key] > 0
                same = same or not must
            elif self.left[key] == 0:
                must = True
            if not same or must:
                line = self._replace(line, key, value, there)
            if self.left[key] > 0:
                self.left[key] -= 1
        return line

    def _replace(self, line: str, key: str, value: Any, there: str) -> str:
        """The line that stands for another one, which goes; C{there} is the key as it is spelt."""
        diff = self.result.diff
        diff.append(f"- {line}")
        line = ""
        if self.left[key] != 0:
            line = f"{there}{self.separator}{value}\n"
            if isinstance(value, str):
                diff.append(f"+ {line}")
            else:
                diff.append(f"+ {line.rstrip()} (from {type(value).__name__} type)\n")
        self.result.changes += 1
        return line

    def add_missing(self, append: bool, prepend: bool) -> None:
        """Put keys that no line had to the end, or to the start."""
        result = self.result
        missing = [
            f"{key}{self.separator}{value}\n"
            for key, value in self.values.items()
            if self.left[key] > 0
        ]
        if append and missing:
            result.diff += ["- <EOF>\n", *(f"+ {line}" for line in missing), "+ <EOF>\n"]
            result.content += missing
            result.changes += len(missing)
        elif prepend and missing:
            backwards = missing[::-1]
            result.diff[:0] = ["  <SOF>\n", *(f"+ {line}" for line in backwards)]
            result.content[:0] = backwards
            result.changes += len(missing)


def set_keys(
    lines: Sequence[str],
    values: Mapping[str, Any],
    separator: str,
    *,
    count: int = 1,
    uncomment: str | None = None,
    key_ignore_case: bool = False,
    value_ignore_case: bool = False,
    append: bool = False,
    prepend: bool = False,
    prune: bool = False,
) -> KeyLines:
    """Give keys their values on the lines of a file: Salt's rules, oddities included."""
    left = dict.fromkeys(values, count)
    keys = _Keys(values, separator, uncomment, key_ignore_case, value_ignore_case, left)
    names = tuple(keys.folded(key) for key in values)
    pruned: list[str] = []
    for line in lines:
        if prune and not keys.folded(line.lstrip(uncomment)).startswith(names):
            pruned.append(line)
        else:
            keys.result.content.append(keys.change(line))
    keys.add_missing(append, prepend)
    result = keys.result
    for line in pruned:
        result.diff.insert(1, f"- {line}")
    result.deleted = len(pruned)
    return result


# -- retention ------------------------------------------------------------------------

_DEPTHS = {
    "first_of_year": 1,
    "first_of_month": 2,
    "first_of_day": 3,
    "first_of_hour": 4,
    "most_recent": 5,
}


def _first(tree: Any) -> set[str]:
    while isinstance(tree, dict):
        tree = tree[min(tree)]
    return {tree}


def _newest(tree: Any, depth: int, number: int) -> set[str]:
    """The first file of each of the last C{number} branches at a depth."""
    if depth <= 0:
        return _first(tree)
    found: set[str] = set()
    for key in sorted(tree, reverse=True):
        if len(found) >= number:
            break
        found |= _newest(tree[key], depth - 1, number - len(found))
    return found


def retained(files: Mapping[str, tuple[datetime.datetime, float]], rules: Any) -> set[str]:
    """
    Which of dated files the rules of C{file.retention_schedule} keep.

    @param files: name to its time, and the same in seconds.
    @raises KeyError: no such rule.
    """
    by_month: dict[Any, Any] = {}
    by_week: dict[Any, Any] = {}
    for name, (when, seconds) in files.items():
        for tree, keys in (
            (by_month, (when.year, when.month, when.day, when.hour)),
            (by_week, (when.year, when.isocalendar()[1], when.weekday())),
        ):
            for key in keys:
                tree = tree.setdefault(key, {})
            tree[seconds] = name
    keep: set[str] = set()
    for rule, number in rules.items():
        limit = sys.maxsize if number == "all" else int(number)
        if rule == "first_of_week":
            # One more than asked for, since the present week has just begun.
            keep |= _newest(by_week, 2, limit + 1)
        else:
            keep |= _newest(by_month, _DEPTHS[rule], limit)
    return keep
