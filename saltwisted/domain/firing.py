"""
Which events a user or minion may fire, by rules of C{'@event'} and the option C{minion_events}.

Salt has no such rules. Here a user whose rules have C{'@event': ['deploy/*']} may fire the tags
that match these globs, through any interface, and no others; no other right is needed for
C{event.send}. A user without such a rule may do what Salt allows. C{'@event': ['send']} is Salt's
own way to allow the function of that runner, and so all tags.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from saltwisted.domain.arguments import split_words
from saltwisted.domain.nested import Unreadable, calls, nesting, readable

EVENT = "@event"
SEND = "event.send"
_FUNCTION = frozenset(("send", ".*", ".+"))
"""Conditions by which Salt would mean the function."""
_PLACES: Mapping[str, int] = {SEND: 0, "event.fire_master": 1}
"""Functions of minions that fire at the master, to the place of the tag among their arguments."""


def tags_of(rules: Sequence[Any]) -> list[Any] | None:
    """What the rules of a user say about events; C{None}, nothing."""
    found: list[Any] | None = None
    for rule in rules:
        if isinstance(rule, Mapping) and len(rule) == 1 and EVENT in rule:
            tags = rule[EVENT]
            found = (found or []) + (list(tags) if isinstance(tags, (list, tuple)) else [tags])
    return found


def may_fire(rules: Sequence[Any], tag: Any) -> bool:
    """Whether a user with these rules may fire this tag, as far as rules say it."""
    tags = tags_of(rules)
    if tags is None:
        return True
    return isinstance(tag, str) and any(
        each in _FUNCTION or fnmatchcase(tag, each) for each in tags if isinstance(each, str)
    )


def tag_sent(arg: Sequence[Any], kwarg: Mapping[str, Any]) -> Any:
    """The tag in a call of the runner C{event.send}."""
    if not readable(arg):
        return None
    positional, keywords = split_words(arg)
    return positional[0] if positional else {**keywords, **kwarg}.get("tag")


def may_have_fired(rules: Sequence[Any], fun: Any, arg: Any) -> Generator[None, None, bool]:
    """
    Whether a user may have minions call these functions, as far as they fire events; in steps. A
    function that fires and is called by another one, so that its tag cannot be read, is refused.
    """
    if tags_of(rules) is None:
        return True
    try:
        for name, own in calls(fun, arg):
            inside = yield from nesting(name, own)
            if any(each in _PLACES for each in inside.functions):
                return False
            if name == "state.single" and (not readable(own) or _state(own).startswith("event.")):
                return False
            if name in _PLACES and not (readable(own) and may_fire(rules, _tag(name, own))):
                return False
    except Unreadable:
        return False
    return True


def _state(arg: Sequence[Any]) -> str:
    positional, keywords = split_words(arg)
    return str(positional[0] if positional else keywords.get("fun"))


def _tag(name: str, arg: Sequence[Any]) -> Any:
    positional, keywords = split_words(arg)
    place = _PLACES[name]
    return positional[place] if len(positional) > place else keywords.get("tag")


_WORDS = frozenset(("salt", "minion", "resource"))
_BARE = frozenset(("minion_start", "minion_ping", "salt/deltaproxy/start"))
_SELF = frozenset(("minion", "beacon", "state_result", "job", "refresh"))


def of_salt(tag: str) -> bool:
    """
    Whether Salt's own programs use this tag for a minion;
    L{saltwisted.domain.events.standing} makes sure that it names no other minion.
    """
    words = tag.split("/")
    return tag in _BARE or (len(words) > 2 and words[0] in _WORDS and words[1] in _SELF)
