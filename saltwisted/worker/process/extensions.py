"""
Salt extensions: installed packages that provide modules, by entry points of the group
C{salt.loader}.

An entry point names a package, in which the directories C{modules}, C{states}, C{utils} ... are
those of the kinds; or a function that returns a map of such directories by kind; or, under the name
of an option such as C{module_dirs}, a function that returns a list of them.

Every call looks for modules, so the search is cheap: the metadata of packages in each directory of
C{sys.path} is read once, and again when the directory has changed. A package is found without
executing it. A function is executed when modules are first looked for. An error of one extension is
logged with its name, and the others are used.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

log = logging.getLogger(__name__)

GROUP = "salt.loader"
_YOUNG = 3.0
"""Seconds: what has just been written may not be whole yet, and is read again."""


class EntryPoint(NamedTuple):
    """
    One line of an extension's metadata.

    @ivar extension: the distribution that has it, and C{version} its version.
    @ivar module: what it names; C{function} in it, or empty for a package.
    """

    extension: str
    version: str
    name: str
    module: str
    function: str = ""


_found: dict[str, tuple[int, tuple[EntryPoint, ...]]] = {}
"""By directory of C{sys.path}: when it was last changed, and its entry points."""

_dirs: dict[EntryPoint, Mapping[str, tuple[str, ...]]] = {}
"""What each entry point offers, once asked."""

_given: set[str] = set()
"""Every directory that was given to a loader."""


def directories(folder: str, option: str, prepare: Callable[[], object]) -> list[str]:
    """
    Directories of installed extensions with modules of one kind, by the extensions' names.

    @param folder: what the kind's directory is called in packages.
    @param option: the option that lists more directories of the kind.
    @param prepare: called before a function of an extension is; it makes C{salt} importable.
    """
    found: list[str] = []
    for entry in entry_points(sys.path):
        for path in _directories(entry, folder, option, prepare):
            if path not in found and os.path.isdir(path):
                found.append(path)
    _given.update(found)
    return found


def utility(name: str) -> str | None:
    """
    The package of an extension's utility, such as C{saltext.dockermod.utils.dockermod}.

    Extensions took utilities along that Salt had, and go on importing them as C{salt.utils.NAME}.
    """
    for entry in entry_points(sys.path):
        if entry.function:
            continue
        for place in _directories(entry, "utils", "utils_dirs", lambda: None):
            if any(
                os.path.isfile(os.path.join(place, end))
                for end in (f"{name}.py", f"{name}/__init__.py")
            ):
                return f"{entry.module}.utils.{name}"
    return None


def is_offered(folder: str) -> bool:
    """
    Whether a directory is one of an extension. Its files are no neighbours to import by bare name:
    C{saltext/github/modules/github.py} would be taken for the library C{github}.
    """
    return folder in _given


def entry_points(paths: Iterable[str]) -> list[EntryPoint]:
    """All entry points of extensions below some directories; of two of one name the first."""
    found: dict[tuple[str, str], EntryPoint] = {}
    seen: set[str] = set()
    for path in paths:
        here: set[str] = set()
        for entry in _of_directory(path or os.curdir):
            if entry.extension not in seen:
                here.add(entry.extension)
                found.setdefault((entry.extension, entry.name), entry)
        seen |= here
    return [found[key] for key in sorted(found)]


def _of_directory(path: str) -> tuple[EntryPoint, ...]:
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        return ()
    known = _found.get(path)
    if known is not None and known[0] == changed:
        return known[1]
    result = tuple(_read(path))
    if time.time() - changed / 1e9 >= _YOUNG:
        _found[path] = (changed, result)
    return result


def _read(path: str) -> Iterator[EntryPoint]:
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return
    for name in names:
        if not name.endswith((".dist-info", ".egg-info")):
            continue
        try:
            with open(os.path.join(path, name, "entry_points.txt"), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if GROUP in text:
            yield from _of_distribution(name, text)


def _of_distribution(folder: str, text: str) -> Iterator[EntryPoint]:
    """
    What C{entry_points.txt} says; read here, since C{importlib.metadata} takes 20 ms to load.

    @param folder: C{name-version.dist-info}, and much like that for older ones.
    """
    extension, _, version = folder.rpartition(".")[0].partition("-")
    group = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group == GROUP and line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            module, _, function = value.partition("[")[0].partition(":")
            yield EntryPoint(
                extension.replace("_", "-"),
                version.partition("-")[0],
                name.strip(),
                module.strip(),
                function.strip(),
            )


def _directories(
    entry: EntryPoint, folder: str, option: str, prepare: Callable[[], object]
) -> list[str]:
    try:
        if not entry.function:
            return [os.path.join(place, folder) for place in _package(entry)]
        offered = _dirs.get(entry)
        if offered is None:
            prepare()
            offered = _dirs[entry] = _call(entry)
        return list(offered.get(folder, offered.get(f":{option}", ())))
    except Exception as error:  # it is foreign code, and one of several
        _dirs[entry] = {}
        log.error(
            "Error processing Salt Extension %s(version: %s): %s: %s",
            entry.extension,
            entry.version,
            type(error).__name__,
            error,
        )
        return []


def _package(entry: EntryPoint) -> tuple[str, ...]:
    """Where a package lies; what is above it is imported to find that out, itself it is not."""
    offered = _dirs.get(entry)
    if offered is None:
        spec = importlib.util.find_spec(entry.module) if entry.module else None
        if spec is None:
            raise ModuleNotFoundError(f"No module named '{entry.module}'")
        if spec.submodule_search_locations is None:
            raise ValueError(f"{entry.module} is no package")
        offered = _dirs[entry] = {"": tuple(spec.submodule_search_locations)}
    return tuple(offered.get("", ()))


def _call(entry: EntryPoint) -> Mapping[str, tuple[str, ...]]:
    """
    Ask a function for its directories: by kind, or, of the old form, by C{":"} and the option.
    """
    value = importlib.import_module(entry.module)
    for part in entry.function.split("."):
        value = getattr(value, part)
    if not callable(value):
        raise ValueError(f"{entry.module}:{entry.function} is no function")
    offered = value()
    if not isinstance(offered, Mapping):
        return {f":{entry.name}": _paths(offered)}
    return {str(kind): _paths(paths) for kind, paths in offered.items()}


def _paths(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(
            "The callable must return an iterable of strings. A single string is not supported."
        )
    return tuple(os.fspath(path) for path in given)
