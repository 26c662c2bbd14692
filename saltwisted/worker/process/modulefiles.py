"""
Module files: where they are, which names they claim, and their compiled code.

Nothing of a module runs here; L{saltwisted.worker.process.loader} runs it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

import saltwisted
from saltwisted.worker.process import extensions
from saltwisted.worker.process.modulenames import claimed_names

BASE = "saltwisted.loaded"
"""Modules are named C{saltwisted.loaded.<int|ext>.<tag>.<name>}, much like stock."""

HERE = os.path.dirname(os.path.abspath(saltwisted.__file__))
"""The directory of our package."""


@frozen
class Kind:
    """
    One family of modules.

    @ivar folder: the directory under C{extmods} and in the packages.
    @ivar tag: Salt's word in module names and in C{disable_<tag>s}.
    @ivar option: the configuration's list of extra directories.
    @ivar own: our directory, relative to the package.
    """

    folder: str
    tag: str
    option: str
    own: str


KINDS: dict[str, Kind] = {
    name: Kind(folder or name, tag or name, option or f"{tag or name}_dirs", own or folder or name)
    for name, folder, tag, option, own in (
        ("modules", "", "module", "module_dirs", ""),
        ("states", "", "states", "states_dirs", ""),
        ("utils", "", "utils", "utils_dirs", ""),
        ("grains", "", "grain", "grains_dirs", ""),
        ("renderers", "", "renderer", "render_dirs", ""),
        ("returners", "", "returner", "returner_dirs", ""),
        ("outputters", "output", "output", "outputter_dirs", ""),
        ("runners", "", "runner", "runner_dirs", "master/runners"),
        ("wheel", "", "wheel", "wheel_dirs", "master/wheel"),
        ("pillar", "", "pillar", "pillar_dirs", ""),
        ("tops", "", "tops", "top_dirs", ""),
        ("matchers", "", "matchers", "matchers_dirs", ""),
        ("executors", "", "executors", "executor_dirs", ""),
        ("beacons", "", "beacons", "", ""),
        ("engines", "", "engines", "", ""),
        ("sdb", "", "sdb", "", "worker/sdb"),
        ("serializers", "", "serializers", "", ""),
        ("proxy", "", "proxy", "", ""),
        ("cache", "", "cache", "", ""),
        ("fileserver", "", "fileserver", "", ""),
        ("roster", "", "roster", "", ""),
        ("queues", "", "queue", "", ""),
        ("auth", "", "auth", "", ""),
        ("tokens", "", "tokens", "", ""),
    )
}


@define(eq=False)
class ModuleFile:
    """
    One module file.

    @ivar rank: C{"ext"}, C{"own"} or C{"stock"}.
    """

    name: str
    path: str
    rank: str
    package: bool
    tried: bool = field(default=False)


@frozen
class Code:
    """A compiled module, and whether it mentions names that are costly to provide."""

    code: types.CodeType
    grains: bool
    pillar: bool
    salt: bool


_codes: dict[str, Code] = {}
"""Compiled files of ours and of stock, by path; a warm parent fills it for its children."""

_claims: dict[str, tuple[tuple[int, int], frozenset[str] | None]] = {}
_VIRTUALNAME = re.compile(r"^__virtualname__\s*(?::[^=\n]+)?=\s*(.+)$", re.M)
_LITERAL = re.compile(r"""^[(\s]*["']([\w.-]+)["'][)\s]*(?:#.*)?$""")
_RETURNED = re.compile(r"""^\s+return\s+["']([\w.-]+)["']""", re.M)
_VIRTUAL = re.compile(r"^def __virtual__\(.*?(?=^\S|\Z)", re.M | re.S)
_ALIASES = re.compile(r"^__virtual_aliases__\s*(?::[^=\n]+)?=\s*(.+)$", re.M)
_WORD = re.compile(r"""["']([\w.-]+)["']""")


def claims(path: str, of_site: bool = False) -> frozenset[str] | None:
    """
    The names that a module may load as besides its file's, read from its text.

    @param of_site: anybody may have written it, in any spelling that Python has. Ours and stock's
        have the usual ones, and are looked through in a tenth of the time.
    @return: C{None} when the text computes the name: it may be any.
    """
    try:
        stat = os.stat(path)
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = _claims.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        with open(path, encoding="utf-8", errors="replace") as source:
            text = source.read()
    except OSError:
        return frozenset()
    if of_site:
        result = claimed_names(text)
        _claims[path] = (stamp, result)
        return result
    names: set[str] = set()
    if "__virtual" not in text:
        _claims[path] = (stamp, frozenset())
        return frozenset()
    sure = True
    for value in _VIRTUALNAME.findall(text):
        literal = _LITERAL.match(value)
        if literal:
            names.add(literal.group(1))
        else:
            sure = False
    virtual = _VIRTUAL.search(text)
    if virtual:
        names.update(_RETURNED.findall(virtual.group()))
    for value in _ALIASES.findall(text):
        names.update(_WORD.findall(value))
    result = frozenset(names) if sure else None
    _claims[path] = (stamp, result)
    return result


def stock_directory() -> str | None:
    """Where the C{salt} package lies, if it can be imported."""
    global _stock
    if _stock is _UNKNOWN:
        try:
            spec = importlib.util.find_spec("salt")
        except (ImportError, ValueError):
            spec = None
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        _stock = places[0] if places else None
    return _stock


_UNKNOWN = "?"
_stock: str | None = _UNKNOWN


class ImportPaths:
    """
    C{sys.path} with some directories added at its end, while a file is executed. If the file forks
    and two processes return from it, the new one ends.
    """

    def __init__(self, paths: list[str]) -> None:
        self._pid = os.getpid()
        self._paths = [path for path in paths if path not in sys.path]

    def __enter__(self) -> None:
        sys.path.extend(self._paths)

    def __exit__(self, *args: object) -> None:
        if os.getpid() != self._pid:
            os._exit(0)
        for path in self._paths:
            if path in sys.path:
                sys.path.remove(path)


def claiming(module: str, files: Iterable[ModuleFile], unsure: bool = True) -> Iterator[ModuleFile]:
    """
    Files that may load as a module of this name, by their text.

    @param unsure: whether those that compute their name are among them, as the last.
    """
    computed = []
    for file in files:
        of_site = file.rank == "ext"
        is_text = file.path.endswith(".py")
        if file.tried or not (is_text or of_site):
            continue
        names = claims(file.path, of_site) if is_text else None
        if names is None:
            computed.append(file)
        elif module in names:
            yield file
    if unsure:
        yield from computed


def make_parents(name: str) -> None:
    """Make C{saltwisted.loaded...} importable as packages, for relative imports inside modules."""
    parent = name.rpartition(".")[0]
    while parent.startswith(BASE) and parent not in sys.modules:
        package = types.ModuleType(parent)
        package.__path__ = []
        sys.modules[parent] = package
        parent = parent.rpartition(".")[0]


def adopt_parts(space: dict[str, Any], load: Callable[[str], types.ModuleType]) -> None:
    """
    Give a module of ours the public functions of its parts, C{__parts__}.

    A part is a private module beside it. One that is given as a module is imported: its functions
    need nothing that the loader puts into a module. One that is given by its name is loaded, as
    the module itself is. What a part imports does not become a function of the module.

    @param load: executes a part that is given by its name, as more of the module: under the
        module's own name.
    """
    for given in space.get("__parts__", ()):
        part = load(given) if isinstance(given, str) else given
        for name, value in vars(part).items():
            own = isinstance(value, types.FunctionType) and value.__module__ == part.__name__
            if own and not name.startswith("_"):
                space.setdefault(name, value)


def imported_parts(space: Mapping[str, Any]) -> frozenset[str]:
    """The names of those parts of a module that are imported."""
    parts = space.get("__parts__", ())
    return frozenset(part.__name__ for part in parts if not isinstance(part, str))


def path_of_part(path: str, part: str) -> str:
    """Where a part lies of the module that lies at a path."""
    return os.path.join(os.path.dirname(path), f"{part}.py")


def compiled(file: ModuleFile, name: str) -> Code:
    """The code of a module; of ours and of stock it is kept for the next one who wants it."""
    if file.rank != "ext":
        known = _codes.get(file.path)
        if known is None:
            known = _codes[file.path] = _compile(file.path, name)
        return known
    return _compile(file.path, name)


def _compile(path: str, name: str) -> Code:
    # Python trusts a cached .pyc by whole seconds and size, so a file that was synced twice in
    # a second could run as it was before: very young files are compiled without the cache.
    if time.time() - os.stat(path).st_mtime < 3:
        with open(path, "rb") as source:
            code = compile(source.read(), path, "exec", dont_inherit=True)
    else:
        loaded = importlib.machinery.SourceFileLoader(name, path).get_code(name)
        if loaded is None:
            raise ImportError(path)
        code = loaded
    names = _names(code)
    return Code(
        code,
        "__grains__" in names,
        "__pillar__" in names,
        any(word == "salt" or word.startswith("salt.") for word in names),
    )


def _names(code: types.CodeType) -> set[str]:
    """Every global name, attribute and import that a code object mentions, nested ones too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def preload(names: Iterable[str], kind: str = "modules") -> None:
    """
    Compile files of ours, import what they import, and look which extensions are installed, so
    that forked children need not.
    """
    extensions.entry_points(sys.path)
    folder = os.path.join(HERE, KINDS[kind].own)
    for name in names:
        path = os.path.join(folder, name + ".py")
        full = f"{BASE}.int.{KINDS[kind].tag}.{name}"
        if os.path.isfile(path):
            _preload_file(path, full)


def _preload_file(path: str, full: str) -> None:
    """Compile and run one file, for what it imports, and its parts."""
    if path in _codes:
        return
    code = _codes[path] = _compile(path, full)
    space: dict[str, Any] = {"__name__": full, "__file__": path}
    exec(code.code, space)  # noqa: S102
    for part in space.get("__parts__", ()):
        if isinstance(part, str):
            _preload_file(path_of_part(path, part), full)


def adopt_salt(find: Callable[[str, str], types.ModuleType | None] | None = None) -> bool:
    """
    Let a module, or an SLS file that is Python, import C{salt}: the package, with our exceptions in
    place of its own before other code of it takes them from there, or ours of that name.

    @param find: what C{salt.modules.NAME} means where the package is not installed; as before
        if it is not given.
    @return: whether there is a C{salt} package.
    """
    if stock_directory() is None:
        # Most calls execute no module of a site, and need no importer
        from saltwisted.worker.process import saltname

        saltname.install(find)
        return False
    _adopt_exceptions()
    return True


@functools.cache
def _adopt_exceptions() -> None:
    from saltwisted.worker import exceptions as ours

    stock = importlib.import_module("salt.exceptions")
    for name, value in vars(ours).items():
        if isinstance(value, type) and issubclass(value, ours.SaltException):
            setattr(stock, name, value)
