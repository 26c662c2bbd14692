"""
Arguments in the form in which a job carries them, and how a minion interprets them.

Minions read the text C{name=value} as a keyword, with its value as YAML, and expand C{__slot__:}
when a state is called. A master that checks a call (L{saltwisted.domain.nested}) must read it in
the same way, so both use this module.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from saltwisted.domain.jid import is_jid
from saltwisted.domain.render.yaml import YAMLError, safe_load

_KEYWORD = re.compile(r"^([^\d\W][\w.-]*)=(?!=)(.*)$")

SLOT = "__slot__:"
TEXT = 16_384
"""Characters with brackets that are read as YAML, of one call with all that it leads to."""
AT_ONCE = 2048
"""As many take a few milliseconds."""
_CLOSING = {"[": "]", "{": "}", "(": ")"}


def keyword_of(arg: Any) -> tuple[str, str] | None:
    """Name and text of an argument C{name=value}; C{None} for any other."""
    match = _KEYWORD.match(arg) if isinstance(arg, str) else None
    return None if match is None else (match[1], match[2])


def marked(arg: Any) -> bool:
    """Whether an argument is a map of keywords."""
    return isinstance(arg, Mapping) and arg.get("__kwarg__") is True


def split_words(args: Iterable[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, the values of text C{name=value} as YAML reads them."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for arg in args:
        if marked(arg):
            keywords.update({str(key): arg[key] for key in arg if key != "__kwarg__"})
            continue
        word = keyword_of(arg)
        if word is None:
            positional.append(arg)
        else:
            keywords[word[0]] = yamlify(word[1])
    return positional, keywords


def read_input(
    words: Iterable[Any],
    named: Mapping[str, Any] | None = None,
    no_parse: Collection[str] = (),
    jids_are_text: bool = True,
) -> tuple[list[Any], dict[str, Any]]:
    """
    Positional and keyword arguments, as whoever types them means them: each text is YAML, and
    C{name=value} is a keyword. Every door at which somebody names a function for the master reads
    its arguments by this; minions read a job by L{split_words}, where other text stays text.

    @param named: keywords that came as such: they count more, and their text stays text.
    @param no_parse: keywords whose text stays text.
    @param jids_are_text: whether a number that may be a job id is text again.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for arg in words:
        word = keyword_of(arg)
        if word is not None:
            keywords[word[0]] = word[1] if word[0] in no_parse else yamlify(word[1])
        elif marked(arg):
            keywords.update({str(key): arg[key] for key in arg if key != "__kwarg__"})
        elif isinstance(arg, Mapping):
            # The mark is no part of the map, whatever it says
            positional.append({key: arg[key] for key in arg if key != "__kwarg__"})
        else:
            value = yamlify(arg)
            again = jids_are_text and type(value) is int and is_jid(str(value))
            positional.append(str(value) if again else value)
    keywords.update(named or {})
    return positional, keywords


def yaml_weight(words: Iterable[Any]) -> int:
    """
    Characters of texts with brackets: what L{read_input} takes its time for, some 2 microseconds
    each. All other text is read a hundred times as fast.
    """
    return sum(
        len(each) for each in words if isinstance(each, str) and ("[" in each or "{" in each)
    )


def in_one_list(positional: Iterable[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """Arguments as a job carries them: keywords in a last map marked C{__kwarg__}."""
    return [*positional, *([{"__kwarg__": True, **keywords}] if keywords else [])]


def yamlify(text: Any) -> Any:
    """
    The value that a word of text stands for, by Salt's rules for arguments.

    Maps and lists need their brackets; what YAML would lose (comments, tabs, digits with
    underscores) stays text. C{0644} is 644, as everywhere in Salt.
    """
    if not isinstance(text, str):
        return text
    bare = text.strip()
    if bare in ("", "---", "...") or any(char in text for char in "\t\r\n"):
        return text
    if "_" in text and not bare.strip("0123456789_"):
        return text
    if text == "None":
        return None
    try:
        value = safe_load(text)
    except YAMLError:  # whatever is not YAML is meant as text
        return text
    if "#" in text:
        return text if value is None or isinstance(value, str) else value
    if isinstance(value, dict):
        return value if text.startswith("{") else text
    if isinstance(value, list):
        return value if text.startswith("[") else text
    if value is None or value == "":
        return text if bare in ("!", "|") else value
    return value if isinstance(value, (int, float, str)) else text


def parse_call(text: str) -> tuple[str | None, list[str], dict[str, str]]:
    """
    C{module.function(a, b, c=d)}, parsed; values stay texts.

    @return: name, arguments and keywords; the name is C{None} if it is not such a call.
    """
    words = shlex.shlex(text, posix=True)
    words.escapedquotes = "\"'"
    name: list[str] = []
    for sign in words:
        if sign == "(":
            break
        name.append(sign)
    else:
        return None, [], {}
    if not name:
        return None, [], {}
    args: list[str] = []
    keywords: dict[str, str] = {}
    word: list[str] = []
    brackets: list[str] = []
    key = None
    for sign in words:
        if sign in ("[", "{", "("):
            brackets.append(sign)
            word.append(sign)
        elif sign in (",", ")") and not brackets:
            if key:
                keywords[key] = "".join(word)
            elif word:
                args.append("".join(word))
            if sign == ")":
                return "".join(name), args, keywords
            key, word = None, []
        elif sign in ("]", "}", ")"):
            if not brackets or sign != _CLOSING[brackets.pop()]:
                break
            word.append(sign)
        elif sign == "=" and not brackets:
            key, word = "".join(word), []
        else:
            word.append(sign)
    return None, [], {}
