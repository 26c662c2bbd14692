"""
YAML read with one kind of error.

PyYAML lets the errors of its constructors through: C{!!int x} is a ValueError, C{!!bool x} a
KeyError, C{!!timestamp x} an AttributeError. And libyaml's composer overflows the C stack, and ends
the process, if brackets are nested tens of thousands deep.
"""

from __future__ import annotations

from typing import IO, Any

from saltwisted.errors import YAML_SLIPS

MAX_DEPTH = 900
"""Levels of nesting; libyaml itself ends at 1000, and every reader of the value recurses."""
SUSPICIOUS = 10000
"""From so many possible levels on they are counted; the C stack ends somewhere above 20 000."""
TOO_DEEP = "maximum recursion depth exceeded"


def load_yaml(source: str | bytes | IO[Any], loader: Any = None) -> Any:
    """
    The value of one YAML document.

    @param loader: a safe one; without it PyYAML's own.
    @raises yaml.YAMLError: it is none, whatever is wrong with it.
    """
    import yaml

    text: str | bytes = source if isinstance(source, (str, bytes)) else source.read()
    check_depth(text)
    try:
        return yaml.load(text, Loader=loader or yaml.CSafeLoader)  # noqa: S506 - a safe one
    except YAML_SLIPS as error:
        raise own_error(error) from error


def own_error(slip: Exception) -> Exception:
    """What PyYAML stumbled over, as an error of its own; stock says no more than these words."""
    import yaml

    return yaml.YAMLError(str(slip))


def check_depth(text: str | bytes) -> None:
    """
    Refuse a text that would overflow the C stack: libyaml's composer recurses without a limit.

    A block needs a column of its own in some line, a flow collection a bracket. Only if there are
    very many of these is the text read event by event.

    @raises yaml.YAMLError: it is nested too deeply.
    """
    if isinstance(text, bytes):
        brackets = text.count(b"[") + text.count(b"{")
        longest = max(map(len, text.split(b"\n")))
    else:
        brackets = text.count("[") + text.count("{")
        longest = max(map(len, text.split("\n")))
    if 2 * longest + brackets < SUSPICIOUS:
        return
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise yaml.YAMLError(TOO_DEEP)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
