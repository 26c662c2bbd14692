"""
Letting go of values of many parts.

To free a list of a million maps is one call, during which no other thread of the interpreter runs.
Here it is taken apart first, a few elements at a time. What somebody else holds too is left as it
is, and so is what is in it.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

RUN = 500
"""Elements that are freed together."""


def _references_of_one() -> int:
    """
    What C{getrefcount} says of something that a local name alone holds: releases of Python differ.
    """
    ahead: list[Any] = [[]]
    one = ahead.pop()
    return getrefcount(one)


_ALONE = _references_of_one()


def free(whole: list[Any]) -> None:
    """
    Empty a list, and whatever in it nobody else holds. For a thread, which others may interrupt
    between any two runs.
    """
    ahead: list[Any] = []
    while whole:
        _take_off(whole, ahead)
        while ahead:
            one = ahead.pop()
            if getrefcount(one) == _ALONE:
                while one:
                    _take_off(one, ahead)


def _take_off(one: Any, ahead: list[Any]) -> None:
    """Take some elements off a list or a map; containers among them are put aside."""
    if one.__class__ is list:
        some = one[-RUN:]
        del one[-RUN:]
    else:
        some = [one.popitem()[1] for _ in range(min(RUN, len(one)))]
    ahead += [each for each in some if each.__class__ is list or each.__class__ is dict]
