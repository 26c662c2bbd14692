"""
Function arguments from the command line: words become values as Salt reads them.

Each word is read as YAML, with Salt's exceptions; C{name=value} is a keyword.
YAML is imported only for words that could be anything but a plain string or a small
number. What Salt does with an argument is checked against recorded answers of
stock Salt (C{tests/cli/args.json}).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_KEYWORD = re.compile(r"^([^\d\W][\w.-]*)=(?!=)(.*)$")
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*\Z")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_JID = re.compile(r"[0-9]{20}(?:_.+)?\Z", re.DOTALL)
_YAML_WORDS = frozenset(
    word
    for base in ("yes", "no", "true", "false", "on", "off", "null")
    for word in (base, base.capitalize(), base.upper())
)


def value_of(text: str) -> Any:
    """
    The value that one word stands for.

    Text that YAML would mangle stays text: empty or with control characters, digits with
    underscores, maps and lists without brackets, a comment, anything that does not parse.
    """
    if _PLAIN.match(text):
        if text == "None":
            return None
        if text not in _YAML_WORDS:
            return text
    elif _INTEGER.match(text):
        return int(text)
    stripped = text.strip()
    if stripped in ("", "---", "..."):
        return text
    if "_" in text and set(stripped) <= set("0123456789_"):
        return text
    if "\t" in text or "\r" in text or "\n" in text:
        return text
    try:
        value = _load(text)
    except Exception:  # any text is allowed; what is not YAML is a string
        return text
    if "#" in text:
        return text if value is None or isinstance(value, str) else value
    if isinstance(value, dict):
        return value if text.startswith("{") else text
    if isinstance(value, list):
        return value if text.startswith("[") else text
    if value is None or isinstance(value, float | int | str):
        if (value == "" and text in ("|", "!")) or (value is None and text == "!"):
            return text
        return value
    return text


def _load(text: str) -> Any:
    from saltwisted.cli.yamlin import load

    return load(text)


def keyword(text: str) -> tuple[str, str] | None:
    """The two halves of C{name=value}, or C{None} for any other word (C{a==b}, two lines)."""
    found = _KEYWORD.match(text)
    return None if found is None else (found[1], found[2])


def parse(words: Iterable[Any], no_parse: Iterable[str] = ()) -> tuple[list[Any], dict[str, Any]]:
    """
    Positional and keyword arguments from words.

    @param no_parse: keywords whose values stay text (C{--no-parse}).
    """
    raw = frozenset(no_parse)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for word in words:
        if isinstance(word, str):
            pair = keyword(word)
            if pair is None:
                args.append(value_of(word))
            else:
                name, text = pair
                kwargs[name] = text if name in raw else value_of(text)
        elif isinstance(word, dict) and word.get("__kwarg__") is True:
            kwargs.update((key, value) for key, value in word.items() if key != "__kwarg__")
        else:
            args.append(word)
    return args, kwargs


def condense(args: Iterable[Any], kwargs: dict[str, Any] | None) -> list[Any]:
    """One list for the wire: keywords in a last map marked C{__kwarg__}, jids as text."""
    found = [
        str(arg) if isinstance(arg, int) and _JID.match(str(arg)) is not None else arg
        for arg in args
    ]
    if kwargs:
        found.append({"__kwarg__": True, **kwargs})
    return found


def parse_input(words: Iterable[Any], no_parse: Iterable[str] = ()) -> list[Any]:
    """Words to the C{arg} list of a publication."""
    return condense(*parse(words, no_parse))


def inquiry(publication: Mapping[str, Any], fun: str) -> dict[str, Any]:
    """
    What is asked of a job's target before the job is sent. It reads no files, so C{--generation}
    is not for it, and nothing of it goes to returners.
    """
    kwargs = dict(publication["kwargs"])
    kwargs.pop("generation", None)
    return {**publication, "fun": fun, "arg": [], "ret": "", "kwargs": kwargs}
