"""
The option C{minion_events}: which event tags a minion may fire, why it may not fire another one,
and the line of a configuration that would let it.

Names of the option mean minions as those of C{publisher_acl} mean users; the tags are globs. Two
kinds of tags are judged:

- tags below C{salt/} that stock's minions do not fire (L{Standing.CLOSED}) need a glob that begins
  with C{salt/} itself: C{'*'} opens none of them;
- a site's own tags are free while the option is empty, and need any glob that matches if not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from saltwisted.domain.acl import minion_may_say, minion_rules
from saltwisted.domain.events import Standing, standing
from saltwisted.domain.firing import of_salt

OPTION = "minion_events"
SALT = "salt/"
LONGEST = 200
"""Characters of a glob in a line that is made."""
MOST = 20
"""Rules of an option that is written anew; of a longer one only what is to be added is said."""


@frozen
class Refusal:
    """
    Why a minion may not fire a tag.

    @ivar counter: the counter that grows.
    @ivar source: what refuses it, in words.
    @ivar advice: the line of the master's configuration that allows it; C{""}: there is none.
    """

    counter: str
    source: str
    advice: str = ""


_NEVER = Refusal("dropped:event", "what minions may say: it is no tag of its own")


def refusal(acl: Mapping[str, Any] | None, minion_id: str, tag: Any) -> Refusal | None:
    """
    Why this option does not let a minion fire this tag; C{None}: it may.

    @param acl: the value of C{minion_events}.
    """
    stands = standing(minion_id, tag)
    if stands is Standing.FREE:
        if not acl or of_salt(tag) or minion_may_say(acl, minion_id, tag):
            return None
    elif stands is Standing.NEVER:
        return _NEVER
    elif minion_may_say(acl, minion_id, tag, SALT):
        return None
    return Refusal("denied:event", OPTION, allowing(acl or {}, minion_id, tag))


def allowing(acl: Mapping[str, Any], minion_id: str, tag: str) -> str:
    """
    The line that allows what the option allows and this tag of this minion as well, for a file of
    the configuration; C{""} if the tag is too long, or has what such a line cannot carry.
    """
    return adding(acl, _literally(minion_id), [_literally(tag)])


def adding(acl: Mapping[str, Any], name: str, globs: Sequence[str]) -> str:
    """
    The line that adds rules to what the option allows.

    The line is the whole option, since a second line of its name would be refused; of an option
    with more than L{MOST} rules it is what belongs to this name.

    @param name: which minions the rules are for.
    @return: C{""} if a line cannot carry them.
    """
    # Without the option a site's own tags are free, and with one rule they would not be any more
    rules: dict[str, list[str]] = {str(each): minion_rules(tags) for each, tags in acl.items()}
    rules = rules or {"*": ["*"]}
    rules[name] = [*rules.get(name, ()), *globs]
    if not _is_plain((name, *rules[name])):
        return ""
    others = [each for tags in rules.values() for each in tags]
    if len(others) > MOST or not _is_plain((*rules, *others)):
        return f"{_line(name, rules[name])}  # in {OPTION}"
    return f"{OPTION}: {{{', '.join(_line(*each) for each in rules.items())}}}"


def _literally(text: str) -> str:
    """The glob that means this text alone."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)


def _is_plain(texts: Sequence[str]) -> bool:
    """Whether a line of YAML can carry these texts in quotation marks, each of them short."""
    return all(text.isprintable() and len(text) <= LONGEST for text in texts)


def _line(name: str, tags: Sequence[str]) -> str:
    return f"{_quoted(name)}: [{', '.join(map(_quoted, tags))}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
