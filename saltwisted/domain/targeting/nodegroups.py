"""
Named groups of minions: C{nodegroups} of the master's configuration, expanded.

A group is a compound expression, a list of its words, or plain names, and may name other groups by
C{N@}. Minions know no groups, so the master expands them before it publishes (L{unfold}). The
rules, and what is an error and what is only empty, are those of
C{salt.utils.minions.nodegroup_comp}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltwisted.errors import TargetError

OPERATORS = frozenset(("and", "or", "not", "(", ")"))
ENGINE = re.compile("[A-Z]@")

EXPANDED = 65_536
"""Words of a target with the words of its groups in their places."""
TOO_MANY = f"The target has more than {EXPANDED} words, with those of its node groups"

Note = Callable[[str], None]
"""Takes one sentence for the log."""


def silent(_text: str) -> None:
    """Where nobody wants to hear."""


def expand(name: str, nodegroups: Mapping[str, Any], note: Note = silent) -> list[str]:
    """
    The words of a group, nested groups in parentheses; empty if it cannot be unfolded.

    @param note: hears why, for unknown groups, circles and wrong types.
    """
    return _expand(name, nodegroups, note, ())


def enclosed(name: str, nodegroups: Mapping[str, Any], note: Note = silent) -> list[str]:
    """As L{expand}, for a place within an expression: one operand, whatever stands beside it."""
    words = expand(name, nodegroups, note)
    return ["(", *words, ")"] if len(words) > 1 and not _is_one(words) else words


def _is_one(words: Sequence[str]) -> bool:
    """Whether the parenthesis at the beginning is closed by the one at the end."""
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return place == len(words) - 1 and place > 0
    return False


def _expand(
    name: str, nodegroups: Mapping[str, Any], note: Note, above: tuple[str, ...]
) -> list[str]:
    if name in above:
        note(f'Failed nodegroup expansion: illegal nested nodegroup "{name}"')
        return []
    if name not in nodegroups:
        note(f'Failed nodegroup expansion: unknown nodegroup "{name}"')
        return []
    definition = nodegroups[name]
    if isinstance(definition, str):
        words = definition.split()
    elif isinstance(definition, (list, tuple)):
        words = [str(word) for word in definition]
    else:
        note(f"Nodegroup '{name}' ({definition}) is neither a string, list nor tuple")
        return []
    nested = False
    unfolded: list[str] = []
    for word in words:
        if len(word) >= 3 and word.startswith("N@") and word not in OPERATORS:
            nested = True
            unfolded += _expand(word[2:], nodegroups, note, (*above, name))
        else:
            unfolded.append(word)
    simple = _plain(words)
    if simple is not None:
        return [simple]
    if nested or above:
        return ["(", *unfolded, ")"] if unfolded else []
    return words


def _plain(words: Sequence[str]) -> str | None:
    """Words without operators or engines are a list of names, or one regular expression."""
    if OPERATORS.intersection(words):
        return None
    if any("*" in word or ENGINE.match(word) for word in words):
        return None
    engine = "E@" if any(sign in word for word in words for sign in "([{\\?}])") else "L@"
    return engine + ",".join(words)


def unfold(tgt: Any, tgt_type: str, nodegroups: Mapping[str, Any]) -> tuple[Any, str]:
    """
    A target as it is published: without names of groups.

    @return: the target and its type, the same objects when no group is in it.
    @raises TargetError: for an unknown group named by the caller, as Salt's client does.
    """
    if tgt_type == "nodegroup":
        return " ".join(_known(str(tgt), nodegroups, [str(tgt)])), "compound"
    if tgt_type != "compound" or not isinstance(tgt, (str, list, tuple)):
        return tgt, tgt_type
    words = tgt.split() if isinstance(tgt, str) else [str(word) for word in tgt]
    if not any(word.startswith("N@") and len(word) > 2 for word in words):
        return (tgt if isinstance(tgt, str) else " ".join(words)), tgt_type
    unfolded: list[str] = []
    known: dict[str, list[str]] = {}
    for word in words:
        if not word.startswith("N@") or len(word) == 2:
            unfolded.append(word)
            continue
        name = word[2:]
        if name not in known:
            _known(name, nodegroups, words)
            known[name] = enclosed(name, nodegroups)
        unfolded += known[name]
        if len(unfolded) > EXPANDED:
            raise TargetError(TOO_MANY, tgt if isinstance(tgt, str) else " ".join(words), None)
    return " ".join(unfolded), tgt_type


def _known(name: str, nodegroups: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    if name not in nodegroups:
        expression = " ".join(words)
        position = expression.find(f"N@{name}")
        raise TargetError(
            f"Node group {name} unavailable in the master config file",
            expression,
            position if position >= 0 else None,
        )
    return expand(name, nodegroups)
