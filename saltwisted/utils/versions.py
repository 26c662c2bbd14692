"""Versions compared, with the names of C{salt.utils.versions}."""

from __future__ import annotations

import logging
import numbers
import re
import warnings
from collections.abc import Callable
from functools import total_ordering
from typing import Any

log = logging.getLogger(__name__)

_PARTS = re.compile(r"(\d+|[a-z]+|\.)")
_ANSWERS: dict[str, tuple[int, ...]] = {
    "<": (-1,),
    "<=": (-1, 0),
    "==": (0,),
    ">=": (0, 1),
    ">": (1,),
}


@total_ordering
class LooseVersion:
    """
    A version of any form: numbers and words, compared one by one; a number is more than a word.

    @ivar vstring: the text.
    @ivar version: its parts.
    """

    def __init__(self, vstring: Any = None) -> None:
        self.vstring = ""
        self.version: list[int | str] = []
        if vstring is not None:
            self.parse(vstring)

    def parse(self, vstring: Any) -> None:
        """Take another text."""
        self.vstring = str(vstring)
        found = [part for part in _PARTS.split(self.vstring) if part and part != "."]
        self.version = [int(part) if part.isdigit() else part for part in found]

    def __str__(self) -> str:
        return self.vstring

    def __repr__(self) -> str:
        return f"LooseVersion ('{self}')"

    def _order(self) -> list[tuple[int, int | str]]:
        return [(0, part) if isinstance(part, str) else (1, part) for part in self.version]

    def __eq__(self, other: object) -> bool:
        return self._order() == _loose(other)._order()

    def __lt__(self, other: object) -> bool:
        return self._order() < _loose(other)._order()

    __hash__ = None  # type: ignore[assignment]


def _loose(value: Any) -> LooseVersion:
    return value if isinstance(value, LooseVersion) else LooseVersion(value)


def version_cmp(pkg1: Any, pkg2: Any, ignore_epoch: bool = False) -> int | None:
    """
    -1, 0 or 1: how the first version stands to the second; C{None} when only one says anything.

    @param ignore_epoch: what stands before a colon does not count.
    """
    texts = [str(each) for each in (pkg1, pkg2)]
    if ignore_epoch:
        texts = [text.split(":", 1)[-1] for text in texts]
    one, two = map(LooseVersion, texts)
    if bool(one.version) is not bool(two.version):
        return None
    return (one > two) - (one < two)


def compare(
    ver1: Any = "",
    oper: str = "==",
    ver2: Any = "",
    cmp_func: Callable[..., Any] | None = None,
    ignore_epoch: bool = False,
) -> bool:
    """
    Whether two versions stand as an operator says.

    @param cmp_func: answers -1, 0 or 1 in place of L{version_cmp}; C{None} for "cannot say".
    """
    if oper != "!=" and oper not in _ANSWERS:
        log.error("Invalid operator '%s' for version comparison", oper)
        return False
    found = (cmp_func or version_cmp)(ver1, ver2, ignore_epoch=ignore_epoch)
    if found is None:
        return False
    if not isinstance(found, numbers.Integral):
        log.error("The version comparison function did not return an integer/long.")
        return False
    sign = (found > 0) - (found < 0)  # type: ignore[operator]
    return sign != 0 if oper == "!=" else sign in _ANSWERS[oper]


def warn_until(
    version: Any,
    message: str,
    category: type[Warning] = DeprecationWarning,
    stacklevel: int | None = None,
    _version_info_: Any = None,
    _dont_call_warnings: bool = False,
) -> None:
    """
    Warn of something that goes away with a version of Salt.

    The version is put into the message in place of C{{version}}. Which Salt would already have
    dropped it is not asked: this is not that Salt.
    """
    if not _dont_call_warnings:
        text = str(version) if not isinstance(version, tuple) else ".".join(map(str, version))
        warnings.warn(message.replace("{version}", text), category, stacklevel=stacklevel or 2)


def warn_until_date(
    date: Any,
    message: str,
    category: type[Warning] = DeprecationWarning,
    stacklevel: int | None = None,
    **kwargs: Any,
) -> None:
    """Warn of something that goes away on a date; C{{date}} in the message is that date."""
    text = date if isinstance(date, str) else date.isoformat()
    warnings.warn(message.replace("{date}", text), category, stacklevel=stacklevel or 2)


def kwargs_warn_until(
    kwargs: Any,
    version: Any,
    category: type[Warning] = DeprecationWarning,
    stacklevel: int | None = None,
    **others: Any,
) -> None:
    """Warn of arguments that a function takes no longer; without any, of nothing."""
    if kwargs:
        names = ", ".join(repr(name) for name in kwargs)
        warn_until(
            version,
            f"These go away with '{version}', and are not to be given any more: {names}.",
            category,
            stacklevel or 3,
        )


def parse(version: str) -> Any:
    """
    A version by the rules of Python packages.

    @raises ImportError: the C{packaging} library is not installed.
    """
    from importlib import import_module

    return import_module("packaging.version").parse(version)


def __getattr__(name: str) -> Any:
    if name != "Version":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()["Version"] = _version_class()
    return found


def _version_class() -> Any:
    """
    C{Version}: a version by the rules of Python packages, that can be compared with a text, too.

    @raises ImportError: the C{packaging} library is not installed.
    """
    from importlib import import_module

    base: Any = import_module("packaging.version").Version

    def comparing(name: str) -> Any:
        method = getattr(base, name)

        def compared(self: Any, other: Any) -> Any:
            return method(self, type(self)(other) if isinstance(other, str) else other)

        return compared

    names = ("__lt__", "__le__", "__eq__", "__ge__", "__gt__", "__ne__")
    members = {name: comparing(name) for name in names}
    return type("Version", (base,), {**members, "__hash__": base.__hash__, "__module__": __name__})
