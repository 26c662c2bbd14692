"""
A render host without a machine: files in a dictionary, a clock that stands.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

from saltwisted.domain.pillar.settings import resolve_roots
from saltwisted.worker.renderfilters import impure_filters


class FunctionFailed(Exception):
    """What Salt's functions raise here."""


class MemoryHost:
    """
    Files by environment and path. Local paths are C{DIR/env/path}.

    @ivar logged: (level, message).
    """

    function_errors: tuple[type[BaseException], ...] = (FunctionFailed,)

    def __init__(self, roots: Mapping[str, Mapping[str, str | bytes]], env: str = "base") -> None:
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.logged: list[tuple[str, str]] = []
        for name, files in roots.items():
            for path, text in files.items():
                raw = text.encode() if isinstance(text, str) else text
                self.files[f"DIR/{name}/{path}"] = raw
        self.roots = resolve_roots({name: [f"DIR/{name}"] for name in roots}, env)
        self.filters: Mapping[str, Callable[..., Any]] = impure_filters(dict)

    def find(self, path: str, saltenv: str) -> str | None:
        for root in self.roots.get(saltenv, ()):
            full = posixpath.normpath(f"{root}/{path}")
            if full in self.files:
                return full
        return None

    def names(self, saltenv: str) -> list[str]:
        found = set()
        for root in self.roots.get(saltenv, ()):
            for full in self.files:
                if full.startswith(root + "/") and full.endswith(".sls"):
                    path = full[len(root) + 1 :]
                    cut = -9 if path.endswith("/init.sls") else -4
                    found.add(path.replace("/", ".")[:cut])
        return sorted(found)

    def stamp(self, path: str) -> int | None:
        raw = self.files.get(path)
        return None if raw is None else hash(raw)

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return self.files[path]

    def now(self) -> float:
        return 7.0

    def log(self, level: str, message: str) -> None:
        self.logged.append((level, message))

    def rendering(self) -> AbstractContextManager[None]:
        return nullcontext()

    def gpg(self, message: bytes) -> bytes:
        return b"plain:" + message.splitlines()[1] + b"\n"

    def prepare_python(self) -> None:
        """Nothing is imported in these tests."""

    def library(self, name: str) -> Any:
        try:
            return import_module(name)
        except ImportError:
            return None
