"""
What a tree of states uses that saltwisted's minions do not have by themselves.

The files are read and not rendered: names that a template computes are not found, and names in a
comment may be. So this is a list to check before minions are changed, and it stops nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from saltwisted.domain.moved import uses, whereabouts

MOST_FILES = 50_000
MOST_BYTES = 1 << 20
_ENDS = (".sls", ".jinja", ".j2", ".jinja2")
_OWN = {"_modules": "modules", "_states": "states", "_renderers": "renderers"}


def missing(roots: Mapping[str, Iterable[str]]) -> list[str]:
    """
    A sentence for each module that the files below C{file_roots} use and that is elsewhere.
    """
    used: dict[tuple[str, str], list[str]] = {}
    own: set[tuple[str, str]] = set()
    for root in dict.fromkeys(path for paths in roots.values() for path in paths):
        for path in _files(root):
            folder, name = os.path.split(path)
            kind = _OWN.get(os.path.basename(folder))
            if kind is not None and name.endswith(".py"):
                own.add((kind, name[: -len(".py")]))
            elif name.endswith(_ENDS):
                for each in uses(_text(path)):
                    used.setdefault(each, []).append(os.path.relpath(path, root))
    found = []
    for (kind, module), paths in sorted(used.items()):
        where = "" if (kind, module) in own else whereabouts(kind, module)
        if where:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            found.append(f"{sorted(paths)[0]}{more}: {_WORDS[kind]} {module}. {where}")
    return found


_WORDS = {"modules": "module", "states": "state", "renderers": "renderer"}


def _files(root: str) -> Iterator[str]:
    left = MOST_FILES
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            left -= 1
            if left < 0:
                return
            yield os.path.join(folder, name)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
