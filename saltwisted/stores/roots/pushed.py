"""
C{minionfs}: the files that minions have pushed to this master, by C{cp.push}.

A file of the minion I{web1} is C{salt://web1/path}, below the mount point if there is one. One
minion chooses what other minions are served. So its names are only paths inside its own folder, no
links are followed, and a C{top.sls} is never served (as in Salt).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.domain.git.mapping import let_through
from saltwisted.stores.roots.served import Found, Roots, RunInPool, Shared, clean_path
from saltwisted.stores.roots.tree import Listing, real_path

FRESH = 1.0
"""Seconds for which a list is not made again."""
TOP = "top.sls"
Said = tuple[str, list[str], list[str]]
"""Mount point, white and black list."""


class PushedFiles(Roots):
    """
    Reactor thread only.

    @param config: the master's options, which may change at runtime.
    """

    name = "minionfs"

    def __init__(self, config: Any, run: RunInPool, **clocks: Any) -> None:
        super().__init__({}, run, config, **clocks)
        self._config = config
        self._folder = os.path.join(config.cachedir, "minions")
        self._list: tuple[Said, float, Listing] | None = None
        self._coming: tuple[Said, Shared] | None = None

    def envs(self) -> list[str]:
        """The one that is configured; none while minions may push nothing, as in Salt."""
        return [str(self._config.minionfs_env)] if self._config.file_recv else []

    def refresh(self) -> None:
        """Discard the cached list."""
        super().refresh()
        self._list = None

    def _shown(self, minion: str) -> bool:
        """Whether the files of a minion are served."""
        return let_through(minion, *self._lists())

    def _lists(self) -> tuple[list[str], list[str]]:
        config = self._config
        return _texts(config.minionfs_whitelist), _texts(config.minionfs_blacklist)

    def _mountpoint(self) -> list[str]:
        text = str(self._config.minionfs_mountpoint or "").removeprefix("salt://")
        return [part for part in text.split("/") if part not in ("", ".")]

    def find(self, saltenv: str, path: str, index: int | None = None) -> Found | None:
        """One file, by C{stat}."""
        rel, above = clean_path(path), self._mountpoint()
        if rel is None or saltenv not in self.envs() or index not in (None, 0):
            return None
        parts = rel.split("/")
        below = parts[len(above) :]
        if parts[: len(above)] != above or len(below) < 2 or below[-1] == TOP:
            return None
        if not self._shown(below[0]):
            return None
        full = os.path.join(self._folder, below[0], "files", *below[1:])
        real = os.path.join(os.path.realpath(self._folder), below[0], "files", *below[1:])
        try:
            info = os.stat(full)
            if not stat.S_ISREG(info.st_mode) or real_path(full) != real:
                return None
        except (OSError, ValueError):
            return None
        return None if self._ignored(full) else Found(full, rel, info, self.name)

    def listing(self, saltenv: str) -> Listing | Deferred[Listing]:
        """Everything, at most a second old."""
        if saltenv not in self.envs():
            return Listing()
        said = ("/".join(self._mountpoint()), *self._lists())
        known = self._list
        if known is not None and known[0] == said and self._monotonic() - known[1] < FRESH:
            return known[2]
        if self._coming is not None and self._coming[0] == said:
            return self._coming[1].join()
        return self._walk_pushed(said).join()

    def _walk_pushed(self, said: Said) -> Shared:
        began, shared = self._monotonic(), Shared()
        self._coming = (said, shared)

        def finished(outcome: Any) -> Any:
            if self._coming is not None and self._coming[1] is shared:
                self._coming = None
            if isinstance(outcome, Listing):
                self._list = (said, began, outcome)
            return outcome

        shared.follow(self.run(pushed, self._folder, said, self._ignored).addBoth(finished))
        return shared


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(each) for each in value or ()]


def pushed(folder: str, said: Said, ignored: Callable[[str], bool]) -> Listing:
    """
    What minions have pushed: files, and the directories in which they are. Blocking.

    Links are left out, and names that are not UTF-8.
    """
    mountpoint, white, black = said
    files: list[str] = []
    dirs: list[str] = []
    for minion in _names(folder):
        top = os.path.join(folder, minion, "files")
        if not let_through(minion, white, black) or os.path.islink(top):
            continue
        prefix = f"{mountpoint}/{minion}" if mountpoint else minion
        for here, folders, names in os.walk(top):
            folders[:] = [name for name in folders if _is_text(name)]
            below = here[len(top) :]
            if below:
                dirs.append(prefix + below)
            for name in names:
                path = f"{prefix}{below}/{name}"
                if _is_text(name) and not ignored(path) and not os.path.islink(f"{here}/{name}"):
                    files.append(path)
    return Listing(tuple(sorted(files)), tuple(sorted(dirs)))


def _names(folder: str) -> list[str]:
    try:
        return [name for name in sorted(os.listdir(folder)) if _is_text(name)]
    except OSError:
        return []


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
