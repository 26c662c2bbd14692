"""
Event tags: how they are built, and which a minion may fire on its master.

Tags are words between slashes, C{salt/job/<jid>/ret/<id>}. The rule for minions (T-EVT-1) refuses
tags in the name of a master, a job or another minion, and allows everything else, because sites
fire tags of their own for their reactors.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import translate
from re import compile as compile_pattern
from typing import Any

TRIMMED = "VALUE_TRIMMED"
"""What Salt puts in the place of a value that makes an event too large."""

_MASTERS = (
    "salt/job/*/publish",
    "salt/job/*/new",
    "salt/job/*/return",
    "salt/auth",
    "salt/key*",
    "salt/cloud/*",
    "salt/run/*",
    "salt/cluster/*",
    "salt/wheel/*",
    "salt/presence/*",
    "cluster/*",
    "saltwisted/*",
)
_FORBIDDEN = compile_pattern("|".join(translate(pattern) for pattern in _MASTERS))
_JOB_WORDS = frozenset(("ret", "prog", "start", "sub"))
_ABOUT = {("salt", "minion"): 2, ("salt", "beacon"): 2, ("salt", "state_result"): 3}
_ABOUT |= {("minion", "refresh"): 2, ("resource", "refresh"): 2}
"""The first two words of tags about one minion, to the place of its id."""
_JUDGED = ("salt/", "cluster/", "saltwisted/", "minion/", "resource/")
MAX_TAG = 4096
"""Characters of a tag."""


def minion_may_fire(minion_id: str, tag: object) -> bool:
    """
    Whether a minion may fire this tag, alone or in a list.

    Refused: what Salt refuses in lists; in addition the tags of sign-in, keys, wheel,
    presence and cluster; tags of jobs, state results, refreshes, minions and beacons that name
    another minion; and what cannot be a tag (the packed form of events ends it at two newlines).
    """
    if not isinstance(tag, str) or not tag or len(tag) > MAX_TAG or "\n\n" in tag:
        return False
    if not tag.startswith(_JUDGED):
        return True
    if _FORBIDDEN.match(tag) is not None:
        return False
    words = tag.split("/")
    place = _ABOUT.get((words[0], words[1]))
    if place is not None:
        return len(words) <= place or words[place] == minion_id
    if words[:2] == ["salt", "job"] and len(words) > 3 and words[3] in _JOB_WORDS:
        return len(words) > 4 and words[4] == minion_id
    return True


def trimmed(data: Mapping[str, Any], limit: int) -> Mapping[str, Any]:
    """
    The event's data with its largest values replaced until it weighs at most C{limit} bytes.

    As in Salt, values go whole. The weight is an estimate of the packed size.
    """
    sizes = {key: weight(value) for key, value in data.items()}
    total = sum(sizes.values()) + sum(len(str(key)) + 1 for key in sizes)
    if total <= limit:
        return data
    small = dict(data)
    for key in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if total <= limit:
            break
        value = data[key]
        if isinstance(value, dict) and value:
            inner = trimmed(value, max(limit - (total - sizes[key]), 0))
            small[key] = inner
            total -= sizes[key] - weight(inner)
        elif sizes[key] > len(TRIMMED):
            small[key] = TRIMMED
            total -= sizes[key] - len(TRIMMED) - 1
    return small


def weight(value: Any, depth: int = 64) -> int:
    """Roughly the bytes that a value takes when packed."""
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) + 2
    if depth and kind is dict:
        total = 2
        for key, item in value.items():
            # Nearly all that is fired is flat: no call for each text
            total += len(key) + 2 if type(key) is str else weight(key, 0)
            total += len(item) + 2 if type(item) is str else weight(item, depth - 1)
        return total
    if depth and (kind is list or kind is tuple):
        total = 2
        for item in value:
            # An event may name ten thousand minions: no call for each
            total += len(item) + 2 if type(item) is str else weight(item, depth - 1)
        return total
    return 9


WALK = 30_000
"""Values of an event that are looked at one by one: one or two milliseconds."""
BEYOND = 80
"""Bytes for which each value counts of an event that has more: about what it takes in memory."""


def rough_weight(value: Any) -> int:
    """
    As L{weight}, but of what has more than L{WALK} values only the first are looked at: it counts
    for L{BEYOND} bytes for each value that is known to be in there, and so for megabytes.
    """
    total, count = 0, 1
    waiting: list[Any] = [(value,)]
    while waiting:
        for item in waiting.pop():
            kind = type(item)
            if kind is str or kind is bytes:
                total += len(item) + 2
            elif kind is dict:
                total += 2
                if item:
                    count += len(item)
                    waiting.append(item)
                    waiting.append(item.values())
            elif kind is list or kind is tuple:
                total += 2
                if item:
                    count += len(item)
                    waiting.append(item)
            else:
                total += 9
        if count > WALK:
            return max(total, count * BEYOND)
    return total
