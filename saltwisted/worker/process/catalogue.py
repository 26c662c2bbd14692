"""
The module files of one kind: in which directories they are, and which of them may provide a module.
"""

from __future__ import annotations

import importlib.machinery
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saltwisted.worker.process import extensions
from saltwisted.worker.process.modulefiles import (
    HERE,
    Kind,
    ModuleFile,
    claiming,
    stock_directory,
)

Stamp = tuple[int, int, int] | None


def stamp_of(path: str) -> Stamp:
    """What is another when a file or directory has changed; C{None}: there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


class Catalogue:
    """
    Files by their names; the directories are read once, until L{forget}.

    @ivar disabled: names that are ignored.
    @ivar with_stock: whether stock's files fill in what ours lack.
    @ivar prepare: called before code of an installed extension runs.
    @ivar with_own: whether our own files are for this process.
    """

    def __init__(
        self,
        spec: Kind,
        opts: Mapping[str, Any],
        disabled: frozenset[str],
        with_stock: bool,
        prepare: Callable[[], object],
        with_own: bool = True,
    ) -> None:
        self.spec = spec
        self.opts = opts
        self.disabled = disabled
        self.with_stock = with_stock
        self.prepare = prepare
        self.with_own = with_own
        self._files: dict[str, list[ModuleFile]] | None = None
        self._seen: dict[str, Stamp] = {}
        self._stock_files: dict[str, ModuleFile] | None = None

    def forget(self) -> None:
        """Read the directories again at the next question."""
        self._files = self._stock_files = None
        self._seen.clear()

    def watch(self, path: str) -> None:
        """A file or directory of the site's is read now."""
        self._seen.setdefault(path, stamp_of(path))

    def changed(self) -> bool:
        """Whether something of the site's has come, gone or been written since it was read."""
        return any(stamp_of(path) != was for path, was in self._seen.items())

    @property
    def module_dirs(self) -> list[str]:
        """Every directory, most important first."""
        return [path for path, _ in self.directories()] + self.stock_directories()

    def directories(self) -> Iterator[tuple[str, str]]:
        """Those of the site, of extensions and ours, most important first, each with its rank."""
        opts, spec = self.opts, self.spec
        for base in reversed(opts.get("module_dirs") or ()):
            for folder in (spec.folder, "_" + spec.folder):
                path = os.path.join(base, folder)
                if os.path.isdir(path):
                    yield path, "ext"
                    break
        synced = opts.get("extension_modules")
        if not synced and opts.get("cachedir"):
            synced = os.path.join(opts["cachedir"], "extmods")
        if synced:
            yield os.path.join(synced, spec.folder), "ext"
        for path in opts.get(spec.option) or ():
            yield path, "ext"
        for path in extensions.directories(spec.folder, spec.option, self.prepare):
            yield path, "ext"
        if self.with_own:
            yield os.path.join(HERE, spec.own), "own"

    def stock_directories(self) -> list[str]:
        """Those of the C{salt} package, if it is used."""
        base = stock_directory() if self.with_stock else None
        return [os.path.join(base, self.spec.folder)] if base else []

    def by_name(self) -> dict[str, list[ModuleFile]]:
        """File name without suffix to the file in service (a list of at most one)."""
        if self._files is None:
            found: dict[str, list[ModuleFile]] = {}
            for base in self.opts.get("module_dirs") or ():
                self.watch(base)  # it may get a directory of this kind
            for directory, rank in self.directories():
                if rank == "ext":
                    self.watch(directory)
                for file in self._scan(directory, rank):
                    found.setdefault(file.name, []).append(file)
            self._files = {name: files[:1] for name, files in found.items()}
        return self._files

    def is_of_site(self, name: str) -> bool:
        """Whether the file of this name is the site's or an extension's."""
        return any(file.rank == "ext" for file in self.by_name().get(name, ()))

    def replaced(self, name: str) -> Iterator[ModuleFile]:
        """Ours of this name, though a file of the site's or an extension's is in its place."""
        for directory, rank in self.directories():
            if rank == "own":
                yield from (file for file in self._scan(directory, rank) if file.name == name)

    def stock(self) -> dict[str, ModuleFile]:
        """Stock's files, save those that a synced file replaces."""
        if self._stock_files is None:
            self._stock_files = {}
            ours = self.by_name()
            for directory in self.stock_directories():
                for file in self._scan(directory, "stock"):
                    if all(other.rank == "own" for other in ours.get(file.name, ())):
                        self._stock_files.setdefault(file.name, file)
        return self._stock_files

    def _scan(self, directory: str, rank: str) -> Iterator[ModuleFile]:
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            return
        present = set(names)
        for name in names:
            if name.startswith("_"):
                continue
            stem, suffix = os.path.splitext(name)
            if suffix == ".py":
                # Salt prefers a package to a file of the same name.
                if stem in present and os.path.isfile(os.path.join(directory, stem, "__init__.py")):
                    continue
                file = ModuleFile(stem, os.path.join(directory, name), rank, False)
            elif suffix in importlib.machinery.EXTENSION_SUFFIXES:
                file = ModuleFile(stem.split(".")[0], os.path.join(directory, name), rank, False)
            elif not suffix:
                path = os.path.join(directory, name, "__init__.py")
                if not os.path.isfile(path):
                    continue
                file = ModuleFile(stem, path, rank, True)
            else:
                continue
            if file.name not in self.disabled:
                yield file

    def candidates(self, module: str) -> Iterator[ModuleFile]:
        """
        Files that may provide this module, the likeliest first: the site's, ours, those of the
        site's that compute their name, and stock's.
        """
        found = self.by_name()
        exact = found.get(module, ())
        files = [file for (file,) in found.values()]
        site = [file for file in files if file.rank == "ext"]
        yield from (file for file in exact if file.rank == "ext")
        yield from claiming(module, site, unsure=False)
        yield from (file for file in exact if file.rank != "ext")
        yield from claiming(module, (file for file in files if file.rank != "ext"))
        yield from claiming(module, site)
        stock = self.stock()
        if module in stock:
            yield stock[module]
        yield from claiming(module, stock.values())
