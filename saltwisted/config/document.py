"""
One configuration file: its text as a map, or the error with file and line.

The YAML rules are those of Salt's own loader: a duplicate key is an error, C{0644} is six hundred
and forty-four, dates stay text, merge keys work, and no tag can create a Python object. C{load.py}
decides which files there are, and which wins.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable, Iterator
from typing import Any

from saltwisted.errors import YAML_SLIPS, ConfigError
from saltwisted.mergekeys import flatten

STR = "tag:yaml.org,2002:str"
DEEPEST = 500
"""Levels of nesting; libyaml's composer crashes the process near ten thousand."""
LARGEST = 1_000_000
"""Values in one file, each counted as often as it is referred to."""

_loader: Any = None


def loader_class() -> Any:
    """
    Salt's dialect of YAML, over libyaml.

    Made at first use: a configuration of comments alone needs no YAML at all,
    and importing it is the dearest part of starting a command.
    """
    global _loader
    if _loader is None:
        _loader = _make_loader()
    return _loader


class _Dialect:
    """Salt's five differences, to be put before C{yaml.CSafeLoader}."""

    construct_object: Any

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key that stands twice."""
        if node.id != "mapping":
            raise _construction_error(
                None, None, f"expected a mapping node, but found {node.id}", node.start_mark
            )
        flatten(node)
        result: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=deep)
            if not isinstance(key, Hashable) or isinstance(key, tuple):
                problem = f"found unacceptable key {key_node.value}"
            elif key in result:
                problem = f"found conflicting ID '{key}'"
            else:
                result[key] = self.construct_object(value_node, deep=deep)
                continue
            raise _construction_error(
                "while constructing a mapping", node.start_mark, problem, key_node.start_mark
            )
        return result

    def plain_map(self, node: Any) -> Iterator[dict[Hashable, Any]]:
        """A map, in two steps so that it may hold itself."""
        data: dict[Hashable, Any] = {}
        yield data
        data.update(self.construct_mapping(node))

    def construct_scalar(self, node: Any) -> Any:
        """A leading zero does not make a number octal."""
        number = node.tag == "tag:yaml.org,2002:int" and node.value.startswith("0")
        if number and not node.value.startswith(("0b", "0x")):
            node.value = node.value.lstrip("0") or "0"
        return super().construct_scalar(node)  # type: ignore[misc]

    def text(self, node: Any) -> Any:
        """The scalar as it is written."""
        return self.construct_scalar(node)

    def binary(self, node: Any) -> bytes:
        """Base64, with or without its padding."""
        try:
            value = self.construct_scalar(node).encode("ascii")
            return base64.decodebytes(value + b"=" * (-len(value) % 4))
        except (UnicodeEncodeError, binascii.Error) as error:
            raise _construction_error(
                None, None, f"failed to decode base64 data: {error}", node.start_mark
            ) from None


def _make_loader() -> Any:
    import yaml

    class ConfigLoader(_Dialect, yaml.CSafeLoader):
        """C{yaml.CSafeLoader} with Salt's five differences."""

    loader: Any = ConfigLoader
    loader.add_constructor("tag:yaml.org,2002:map", loader.plain_map)
    for tag in (STR, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:python/unicode"):
        loader.add_constructor(tag, loader.text)
    loader.add_constructor("tag:yaml.org,2002:binary", loader.binary)
    return loader


def _construction_error(*words: Any) -> Exception:
    from yaml.constructor import ConstructorError

    return ConstructorError(*words)


def is_empty(text: str) -> bool:
    """Whether the text holds nothing but blank lines and comments."""
    return all(not line or line.isspace() or line.lstrip()[0] == "#" for line in text.split("\n"))


def _too_deep(text: str) -> int | None:
    """The line where the nesting passes L{DEEPEST}, if it does."""
    bound = text.count("[") + text.count("{")
    bound += max(len(line) - len(line.lstrip(" -?:\t")) for line in text.split("\n"))
    if bound < DEEPEST:
        return None
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader_class()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                return event.start_mark.line + 1 if event.start_mark else 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return None


def _weigh(value: Any) -> int:
    """
    How many values there are, following every reference.

    @raises RecursionError: when a value contains itself, or there are too many.
    """
    seen = 0
    levels = [[value]]
    while levels:
        if not levels[-1]:
            levels.pop()
            continue
        item = levels[-1].pop()
        seen += 1
        if seen > LARGEST or len(levels) > 2 * DEEPEST:
            raise RecursionError("references multiply without end")
        if isinstance(item, dict):
            levels.append(list(item.values()))
        elif isinstance(item, list):
            levels.append(list(item))
    return seen


def parse(text: str, path: str) -> dict[str, Any]:
    """
    The top level of one configuration file.

    @raises ConfigError: with file and line when it is not YAML, or no mapping.
    """
    if is_empty(text):
        return {}
    import yaml

    try:
        deep = _too_deep(text)
        if deep is not None:
            raise ConfigError(f"nested more than {DEEPEST} levels deep", path, deep)
        value = yaml.load(text, Loader=loader_class())  # noqa: S506 - a safe loader
        if "*" in text and "&" in text:
            _weigh(value)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(reason, path, mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise ConfigError(" ".join(str(error).split()), path) from None
    except YAML_SLIPS as error:
        raise ConfigError(" ".join(str(error).split()) or "nested too deeply", path) from None
    if not value:
        return {}
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise ConfigError(f"lines of the form 'option: value' are needed, not a {kind}", path, 1)
    return value


def line_of(text: str, option: str, *inner: str) -> int | None:
    """
    The line (1-based) where a top-level option stands; only for error messages.

    @param inner: keys below it, one in the other; in a list, those of the maps that it has.
    """
    import yaml

    try:
        nodes: list[Any] = [yaml.compose(text, Loader=loader_class())]
    except yaml.YAMLError:
        return None
    line = None
    for name in (option, *inner):
        found = next(
            (
                (key, value)
                for node in nodes
                for key, value in (node.value if isinstance(node, yaml.MappingNode) else ())
                if getattr(key, "value", None) == name
            ),
            None,
        )
        if found is None:
            return None
        key, value = found
        line = int(key.start_mark.line) + 1
        nodes = list(value.value) if isinstance(value, yaml.SequenceNode) else [value]
    return line
