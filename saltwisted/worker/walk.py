"""
C{os.walk} that follows links to directories and still ends.

A directory is not entered below itself: only those above it on the way count. If two ways lead to
one, it is listed under both, as it would be with copies instead of links. A walk that remembered
every directory would drop the second way, and which one that is would depend on the order of the
names on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

Step = tuple[str, list[str], list[str]]


def walk(
    top: str,
    follow: bool = True,
    topdown: bool = True,
    onerror: Callable[[OSError], None] | None = None,
) -> Iterator[Step]:
    """
    Each directory with its directories and its other entries, as C{os.walk} has them.

    A link that leads to a directory above it is among the directories and is not entered.
    With C{topdown} the list of directories may be changed, as with C{os.walk}.
    """
    if not follow:
        return os.walk(top, topdown, onerror)
    return _walk(top, topdown, onerror, ())


def _walk(
    here: str,
    topdown: bool,
    onerror: Callable[[OSError], None] | None,
    above: tuple[tuple[int, int], ...],
) -> Iterator[Step]:
    dirs: list[str] = []
    others: list[str] = []
    try:
        info = os.stat(here)
        identity = (info.st_dev, info.st_ino)
        if identity in above:
            return
        with os.scandir(here) as entries:
            for entry in entries:
                (dirs if _is_dir(entry) else others).append(entry.name)
    except OSError as error:
        if onerror is not None:
            onerror(error)
        return
    if topdown:
        yield here, dirs, others
    for name in dirs:
        yield from _walk(os.path.join(here, name), topdown, onerror, (*above, identity))
    if not topdown:
        yield here, dirs, others


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
