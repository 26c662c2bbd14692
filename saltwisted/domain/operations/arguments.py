"""
The arguments of an operation: their names, their types, and the errors about wrong ones.

They are checked here, once, before the caller's rights are checked and before the operation sees
them. Only the operation knows what the values mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from attrs import frozen

from saltwisted.errors import RemoteError

LONGEST_NAME = 64
"""Characters of a name that is compared with others; comparing longer ones takes long."""
MOST = 2.0**64
"""No number is as large: a sum of two could be no number any more."""
SHOWN = 100
"""Characters of a wrong word that are repeated to its sender."""


@frozen
class Kind:
    """
    The type of a value.

    @ivar words: its name in an error, after "must be".
    """

    words: str
    fits: Callable[[Any], bool]


def is_seconds(value: Any) -> bool:
    """Whether a value is a length of time: a number, or text that is one; nothing is zero."""
    try:
        return 0 <= float(value or 0) < 1e9
    except (TypeError, ValueError, OverflowError):
        return False


def _is_number(value: Any) -> bool:
    """Infinity and what is no number at all are of the type of numbers, too: they are refused."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -MOST < value < MOST


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_texts(value: Any) -> bool:
    return _is_list(value) and all(isinstance(each, str) for each in value)


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for each in value)


ANYTHING = Kind("anything", lambda value: True)
JID = Kind("a job id", lambda value: True)
"""What is a good one is judged where it is used."""
TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", lambda value: _is_number(value) and isinstance(value, int))
NUMBER = Kind("a number", _is_number)
SECONDS = Kind("a number of seconds", is_seconds)
LIST = Kind("a list", _is_list)
TEXTS = Kind("a list of texts", _is_texts)
WORDS = Kind("text or a list of texts", lambda value: isinstance(value, str) or _is_texts(value))
MAP = Kind("a map with text for keys", _is_map)


def one_of(*words: str) -> Kind:
    """One of these words."""
    shown = [repr(word) for word in words]
    text = " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    return Kind(text, lambda value: isinstance(value, str) and value in words)


@frozen
class Argument:
    """
    One argument of an operation. An optional one that is C{None} counts as not given.

    @ivar needed: whether it is required.
    @ivar may_be_empty: whether an empty value is allowed if it is required.
    """

    name: str
    kind: Kind
    needed: bool = False
    may_be_empty: bool = False


def checked(
    operation: str, takes: Sequence[Argument], is_open: bool, given: Mapping[str, Any]
) -> dict[str, Any]:
    """
    The given arguments, without those that are C{None}.

    @param is_open: whether the operation takes others besides; those are left unchanged.
    @raises RemoteError: Salt's C{SaltInvocationError}, which names the first that is wrong.
    """
    known = {argument.name: argument for argument in takes}
    found: dict[str, Any] = {}
    for name, value in given.items():
        argument = known.get(name)
        if argument is None and not is_open:
            raise _wrong(f"{operation} takes no {_short(name)}{nearest(name, known)}")
        if argument is None:
            found[name] = value
        elif value is not None or argument.may_be_empty:
            if not argument.kind.fits(value):
                raise _wrong(
                    f"{operation}: {name} must be {argument.kind.words}, not {_named(value)}"
                )
            found[name] = value
    for argument in takes:
        value = found.get(argument.name)
        if argument.needed and (argument.name not in found or not (value or argument.may_be_empty)):
            raise _wrong(f"{operation} needs {argument.name!r}")
    return found


def nearest(name: Any, known: Iterable[str]) -> str:
    """The known name that was perhaps meant, as the end of a sentence; often nothing."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return ""
    found = get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _wrong(text: str) -> RemoteError:
    return RemoteError("SaltInvocationError", text)


def _short(value: Any) -> str:
    return repr(value if len(str(value)) <= SHOWN else f"{str(value)[:SHOWN]}...")


def _named(value: Any) -> str:
    """The kind of a value in words; a text or number itself, since it may be a slip."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, (str, int, float)):
        return _short(value)
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, (list, tuple)) else type(value).__name__
