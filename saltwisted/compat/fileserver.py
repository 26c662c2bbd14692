"""
C{salt.fileserver}: the files of this machine's C{file_roots}, as stock's file server tells them.

Other sources, such as C{gitfs}, are the master's own, and are not seen from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted.worker.localroots import LocalRoots


class Fileserver:
    """
    @param opts: a master's options, or a minion's with C{file_client: local}.
    """

    def __init__(self, opts: Mapping[str, Any]) -> None:
        self.opts = opts
        self._roots = LocalRoots(opts)

    def _ask(self, command: str, load: Mapping[str, Any] | None = None) -> Any:
        return self._roots.request({**(load or {}), "cmd": command})

    def update(self, back: Any = None, **kwargs: Any) -> None:
        """Nothing: directories are read when they are asked for."""

    def envs(self, back: Any = None, sources: bool = False) -> Any:
        """The names of the environments."""
        return {"roots": self._ask("_file_envs")} if sources else set(self._ask("_file_envs"))

    def file_envs(self, load: Any = None) -> Any:
        """As L{envs}."""
        return self.envs()

    def file_list(self, load: Mapping[str, Any]) -> Any:
        """Relative paths of all files of C{load["saltenv"]}."""
        return self._ask("_file_list", load)

    def file_list_emptydirs(self, load: Mapping[str, Any]) -> Any:
        """Directories with nothing in them."""
        return self._ask("_file_list_emptydirs", load)

    def dir_list(self, load: Mapping[str, Any]) -> Any:
        """All directories."""
        return self._ask("_dir_list", load)

    def symlink_list(self, load: Mapping[str, Any]) -> Any:
        """Links and where they point."""
        return self._ask("_symlink_list", load)

    def find_file(self, path: str, saltenv: str, back: Any = None) -> Any:
        """Where a file lies: C{{"path", "rel", ...}}, both empty if there is none."""
        return self._ask("_file_find", {"path": path, "saltenv": saltenv})

    def file_find(self, load: Mapping[str, Any]) -> Any:
        """As L{find_file}."""
        return self._ask("_file_find", load)

    def file_hash(self, load: Mapping[str, Any]) -> Any:
        """The digest of a file, and of which kind it is."""
        return self._ask("_file_hash", load)

    def serve_file(self, load: Mapping[str, Any]) -> Any:
        """A part of a file's contents."""
        return self._ask("_serve_file", load)
