"""
The machine behind a renderer, if a master serves more than directories.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.worker.fileclient import FileClient
from saltwisted.worker.renderhost import RootsHost


class ServedHost(RootsHost):
    """
    Finds C{salt://} paths through the file server of the master; it reads copies.

    A file is requested once between two calls of L{forget}: first its hash, and its content only if
    the hash differs.

    @param files: the client of that file server.
    """

    def __init__(
        self,
        files: FileClient,
        opts: Mapping[str, Any],
        functions: Callable[[], Mapping[str, Any]] = dict,
        prepare: Callable[[], object] = bool,
    ) -> None:
        super().__init__({}, opts, functions, prepare)
        self._files = files
        self._asked: dict[tuple[str, str], str | None] = {}

    def forget(self) -> None:
        """Ask for all files anew."""
        super().forget()
        self._asked.clear()

    def _in_roots(self, path: str, saltenv: str) -> str | None:
        key = (path, saltenv)
        if key not in self._asked:
            # With a bar a question mark in a name is one
            copy = self._files.cache_file(f"salt://|{path.lstrip('/')}", saltenv)
            self._asked[key] = str(copy).lstrip("|") if copy else None
        return self._asked[key]

    def matching(self, pattern: str, saltenv: str) -> list[str]:
        """The files that a pattern with wild cards means, sorted by name."""
        wanted = pattern.split("/")
        found = [
            self._in_roots(name, saltenv)
            for name in sorted(self._files.file_list(saltenv))
            if _fits(name.split("/"), wanted)
        ]
        return [copy for copy in found if copy is not None]


def _fits(parts: list[str], wanted: list[str]) -> bool:
    """Whether a path is what a pattern means, as the shell compares them."""
    return len(parts) == len(wanted) and all(
        fnmatch.fnmatchcase(part, pattern) and not (part[:1] == "." and pattern[:1] != ".")
        for part, pattern in zip(parts, wanted, strict=True)
    )
