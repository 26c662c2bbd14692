"""
Which commits of a repository the nodes of a cluster serve: versions, and their consequences.

The holder of the duty makes versions, one for each set of refs. All nodes compare them in the same
way and never go back to a lower one, so it does not matter in which order they hear of them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from saltwisted.refnames import is_ref

Version = tuple[int, int, int]
"""
Epoch, term of the duty, number. Terms of a duty only grow, until claims begin anew (another kind of
claims, all votes lost); an epoch is above all terms of those before.
"""
NONE: Version = (0, 0, 0)
MOST_REF = 4096
_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_NAME = re.compile("[0-9a-f]{1,64}")
"""Of a commit in the configuration, which may be shortened, or of an object."""
BACK = "back"
"""In a state: ref to the tip that is served instead, of a repository that is rolled back."""
ASIDE = ("seen", "pins", "refused", "signed", "good", "verify", BACK)
"""What a state has beside its refs where only signed commits count, or it is rolled back."""
Tips = Mapping[str, Sequence[str]]
"""Ref to its object, the commit that this leads to, and that one's tree."""


def following(newest: Version, term: int) -> Version:
    """The next version of a holder that has heard of C{newest}."""
    epoch, last, number = newest
    if term > last:
        return (epoch, term, 1)
    if term == last:
        return (epoch, term, number + 1)
    return (epoch + 1, term, 1)


def version_of(value: Any) -> Version:
    """
    A version as a peer, or a file, has it; L{NONE} for none.

    @raises ValueError: it is something else.
    """
    if not value:
        return NONE
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        raise ValueError("no version")
    if any(not isinstance(each, int) or not 0 <= each < 1 << 62 for each in value):
        raise ValueError("no version")
    return (value[0], value[1], value[2])


def objects_of(value: Any, most: int) -> dict[str, str]:
    """
    Ref to object, as a peer says it.

    @raises ValueError: it is something else, or has more than C{most}.
    """
    if not isinstance(value, Mapping) or len(value) > most:
        raise ValueError("no refs")
    for ref, oid in value.items():
        if not _is_ours(ref) or not _is_id(oid):
            raise ValueError("no refs")
    return dict(value)


def _is_ours(ref: object) -> bool:
    """Whether a ref is one that a fetch makes; git dies of a file with another in it."""
    return (
        isinstance(ref, str)
        and len(ref) <= MOST_REF
        and ref.startswith(("refs/remotes/", "refs/tags/"))
        and is_ref(ref)
    )


def _is_id(oid: object) -> bool:
    """Whether this is the whole name of an object."""
    return isinstance(oid, str) and _ID.fullmatch(oid) is not None


def tips_of(value: Any, most: int) -> dict[str, list[str]]:
    """
    Ref to its tip, as a peer says it.

    @raises ValueError: it is something else, or has more than C{most}.
    """
    if not isinstance(value, Mapping):
        raise ValueError("no refs")
    for tip in value.values():
        if not isinstance(tip, (list, tuple)) or len(tip) != 3:
            raise ValueError("no refs")
    # A tag of what is no commit has neither of the others
    for part in range(3):
        objects_of({ref: tip[part] for ref, tip in value.items() if part == 0 or tip[part]}, most)
    return {ref: list(tip) for ref, tip in value.items()}


class Do(enum.Enum):
    """What a node does when it hears that another one serves a version."""

    NOTHING = "it serves the same, or a later one"
    SERVE = "it has the objects: it serves it"
    BRING = "it asks for the objects, and serves it then"


def heard(served: Version, version: Version, here: Collection[Version]) -> Do:
    """
    What follows from a version that another node serves.

    @param here: versions of which all objects are on this disk.
    """
    if version <= served:
        return Do.NOTHING
    return Do.SERVE if version in here else Do.BRING


def lacking(wanted: Mapping[str, str], refs: Mapping[str, str]) -> list[str]:
    """The objects that a node with C{refs} lacks."""
    return sorted(set(wanted.values()) - set(refs.values()))


def aside_of(value: Any, most: int) -> dict[str, Any]:
    """
    The data besides the refs in a peer's message, if only signed commits count.

    @param most: how many refs there may be.
    @raises ValueError: it is invalid.
    """
    if not isinstance(value, Mapping) or value.keys() - set(ASIDE):
        raise ValueError("invalid data beside the refs")
    try:
        return _aside(value, most)
    except (AttributeError, TypeError):
        # A number where a list or a map is expected
        raise ValueError("invalid data beside the refs") from None


def _aside(value: Mapping[str, Any], most: int) -> dict[str, Any]:
    names = [*value.get("pins", ()), *value.get("signed", ()), *value.get("good", ())]
    # These refs are written where git reads them, as those that are served
    objects_of(value.get("seen", {}), most)
    for ref, refused in value.get("refused", {}).items():
        if not _is_ours(ref) or not isinstance(refused, list) or len(refused) != 2:
            raise ValueError("invalid data beside the refs")
        names += [refused[0]]
        if not isinstance(refused[1], str):
            raise ValueError("invalid data beside the refs")
    if any(not isinstance(name, str) or _NAME.fullmatch(name) is None for name in names):
        raise ValueError("invalid data beside the refs")
    if BACK in value:
        return {**value, BACK: tips_of(value[BACK], most)}
    return dict(value)


def content(state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a state that is the same on all nodes."""
    refs = {ref: list(tip) for ref, tip in state.get("refs", {}).items()}
    return {"refs": refs, **{name: state[name] for name in ASIDE if name in state}}


def shown(state: Mapping[str, Any]) -> Tips:
    """What is served of a state: its refs, or those that it is rolled back to."""
    found: Tips = state.get(BACK) or state.get("refs", {})
    return found


def objects_in(state: Mapping[str, Any]) -> dict[str, str]:
    """The objects that a state needs, by names that nobody else gives."""
    found = {ref: str(tip[0]) for ref, tip in state.get("refs", {}).items()}
    found.update({f"{BACK} {ref}": tip[0] for ref, tip in (state.get(BACK) or {}).items()})
    return found


def carried(fetched: Mapping[str, Any], served: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    The new state of a holder after a fetch: a rollback stays until the remote has something new, or
    other keys may sign.

    @param served: what was served until now.
    """
    if fetched is served:
        return served
    state = {name: value for name, value in fetched.items() if name != BACK}
    same = _commits(fetched) == _commits(served)
    if served.get(BACK) and same and fetched.get("verify") == served.get("verify"):
        state[BACK] = served[BACK]
    return state


def rolled_back(served: Mapping[str, Any], tips: Tips) -> dict[str, Any]:
    """
    The state that serves these tips instead of what was fetched; for the newest tips, just that.
    """
    state = {name: value for name, value in served.items() if name != BACK}
    if {ref: list(tip) for ref, tip in tips.items()} != content(state)["refs"]:
        state[BACK] = {ref: list(tip) for ref, tip in tips.items()}
    return state


def difference(one: Tips, other: Tips) -> int:
    """In how many refs they differ."""
    return sum(list(one.get(ref) or ()) != list(other.get(ref) or ()) for ref in {*one, *other})


def _commits(state: Mapping[str, Any]) -> dict[str, str]:
    return {ref: str(tip[1]) for ref, tip in state.get("refs", {}).items()}


def is_new(
    fetched: Mapping[str, Any], served: Mapping[str, Any], ours: Version, newest: Version
) -> bool:
    """
    Whether what a holder has fetched is to be a new version.

    @param served: the state that it serves, which is version C{ours}.
    @param newest: the highest version that it has heard of.
    """
    if ours == NONE or newest > ours:
        return True
    # If there was nothing new, it is no matter how many refs there are
    return fetched is not served and content(fetched) != content(served)
