"""
Finds modules and gives them what Salt's modules expect to find around them.

A module is a file in one of several directories: those of the configuration (C{module_dirs},
C{<kind>_dirs}), those synced from the master (C{extension_modules}, normally
C{cachedir/extmods}), those of installed extensions (L{saltwisted.worker.process.extensions}),
ours, and, where the C{salt} package is importable, stock's. A module of the configuration, the
master or an extension replaces every other file of its name, as a whole. If files of different
names say that they are one module, it has the functions of all of them, those of the site
first; stock's files only add the functions that ours lack. A module is executed when a name of
it is first asked for, and asking for C{test.ping} executes C{test} alone: which file claims a
name such as C{pkg} is read from its text, without running it.

The conventions (C{__virtual__}, C{__virtualname__}, C{__func_alias__}, C{__load__},
C{__init__}, the injected C{__salt__}, C{__grains__} ...) are those of Salt's
C{salt/loader/lazy.py}. Error texts are stock's, since people script on them.

Each L{Loaders} executes modules of its own, so that two of them in one process
(pillars of two minions) share nothing.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import inspect
import logging
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from saltwisted.worker.called import Called
from saltwisted.worker.process.asbefore import begins as noted
from saltwisted.worker.process.beside import replaced, take_beside
from saltwisted.worker.process.catalogue import Catalogue
from saltwisted.worker.process.elsewhere import why_missing
from saltwisted.worker.process.extensions import is_offered
from saltwisted.worker.process.late import late, late_client
from saltwisted.worker.process.latefunctions import LateFunctions, LoadedFunctions, LoadedModule
from saltwisted.worker.process.modulefiles import (
    BASE,
    KINDS,
    Code,
    ImportPaths,
    ModuleFile,
    adopt_parts,
    adopt_salt,
    compiled,
    imported_parts,
    make_parents,
    path_of_part,
)
from saltwisted.worker.process.opts import Opts

log = logging.getLogger(__name__)


SELF: dict[str, str] = {
    "modules": "__salt__",
    "states": "__states__",
    "utils": "__utils__",
    "serializers": "__serializers__",
    "runners": "__runner__",
    "executors": "__executors__",
    "returners": "__ret__",
    "renderers": "__renderers__",
}
"""Under which name each kind is injected into the modules of all kinds."""

_loading = threading.RLock()
"""
Who has it executes modules. A site's module asks from threads; the second one to ask for a name
waits until its file has run, and does not take it for one that failed.
"""


def _forked() -> None:
    # Whoever had it is not in this process.
    global _loading
    _loading = threading.RLock()


os.register_at_fork(after_in_child=_forked)


class Loaders:
    """
    All kinds of modules around one set of options, grains and pillar.

    @param opts: the Salt-shaped options (C{config.as_opts()}); copied, one level deep.
    @param grains: a mapping, or a function that creates one at the first use.
    @param pillar: likewise.
    @param context: C{__context__}; a new dictionary by default.
    @param master: C{__master__}: requests to the master.
    @param daemon: C{__daemon__}: the minion daemon, or C{None}.
    @param fileclient: C{__fileclient__} (and stock's C{__file_client__}), or a function that
        creates it.
    @param stock: whether stock's modules fill in what ours lack.
    @param extra: further names to inject.
    @param beside: by kind, the functions that replace our own modules of that kind if these are not
        for this process. A site module replaces all functions of the same module.
    @param begins: called with the path of each site file before it is executed, because it may end
        the process.
    """

    def __init__(
        self,
        opts: Mapping[str, Any],
        *,
        grains: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        pillar: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        context: dict[str, Any] | None = None,
        master: Any = None,
        daemon: Any = None,
        fileclient: Any = None,
        stock: bool = True,
        extra: Mapping[str, Any] | None = None,
        beside: Mapping[str, Mapping[str, Any]] | None = None,
        begins: Callable[[str], None] = noted,
    ) -> None:
        self._grains = late(opts.get("grains") if grains is None else grains)
        self._pillar = late(opts.get("pillar") if pillar is None else pillar)
        self.opts = Opts(opts, {"grains": self._grains, "pillar": self._pillar})
        self.context: dict[str, Any] = {} if context is None else context
        self.stock = stock
        self.beside = beside or {}
        self.begins = begins
        self._kinds: dict[str, Loader] = {}
        self._fileclient = late_client(fileclient)
        self.pack: dict[str, Any] = _Pack(self)
        self.pack.update(
            __opts__=self.opts,
            __context__=self.context,
            __master__=master,
            __daemon__=daemon,
            __proxy__={},
            __resource__={},
            __resource_funcs__={},
            **(extra or {}),
        )

    def __getitem__(self, kind: str) -> Loader:
        loader = self._kinds.get(kind)
        if loader is None:
            loader = self._kinds[kind] = Loader(self, kind)
            loader.provide()
        return loader

    def look_again(self) -> None:
        """
        Forget all modules if a file of the site's has changed since it was read: for processes
        that work longer than for one call.
        """
        if any(loader._catalogue.changed() for loader in self._kinds.values()):
            for loader in self._kinds.values():
                loader.clear()

    @property
    def modules(self) -> Loader:
        """C{__salt__}: all of them."""
        return self["modules"]

    @property
    def called(self) -> Loader | Called:
        """Those of C{modules} that a person or a site may call by name (C{whitelist_modules})."""
        return self["modules"].called

    @property
    def states(self) -> Loader:
        """C{__states__}."""
        return self["states"]

    @property
    def utils(self) -> Loader:
        """C{__utils__}."""
        return self["utils"]

    @property
    def grains(self) -> Any:
        """C{__grains__}, made now if it was not yet."""
        return self._grains()

    @property
    def pillar(self) -> Any:
        """C{__pillar__}, made now if it was not yet."""
        return self._pillar()

    def replace(
        self,
        *,
        grains: Mapping[str, Any] | None = None,
        pillar: Mapping[str, Any] | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        """
        Put other grains, pillar or context before the modules, also those already loaded.

        What C{__virtual__} decided by the old grains stays decided; use a new L{Loaders}
        where that matters.
        """
        changed: dict[str, Any] = {}
        if grains is not None:
            self._grains = late(grains)
            changed["__grains__"] = grains
            self.opts["grains"] = grains
        if pillar is not None:
            self._pillar = late(pillar)
            changed["__pillar__"] = pillar
            self.opts["pillar"] = pillar
        if context is not None:
            self.context = context
            changed["__context__"] = context
        self.pack.update(changed)
        for loader in self._kinds.values():
            for module in loader.executed:
                module.__dict__.update(
                    {key: value for key, value in changed.items() if key in module.__dict__}
                )

    def module_of(self, kind: str, file: str) -> types.ModuleType | None:
        """The executed module of a kind, by the name of its file; C{None}: there is none."""
        return self[kind].module_of(file)

    def adopt_salt(self) -> None:
        """Let Python code that is no module, as that of SLS files, import C{salt}."""
        adopt_salt(self.module_of)

    def clear(self) -> None:
        """Forget every loaded module and look at the directories again."""
        for loader in self._kinds.values():
            loader.clear()


def make_grains(opts: Mapping[str, Any]) -> Any:
    """
    This machine's grains, with those of synced modules, computed as they are asked for.

    Custom grain modules see the grains of the configuration and no pillar, as in Salt.
    """
    from saltwisted.worker.grains.collect import Grains

    custom: list[Loader] = []

    def functions() -> Any:
        if not custom:
            custom.append(Loaders(opts, grains=dict(grains.static), pillar={})["grains"])
        return custom[0].items()

    static = opts.static_grains if isinstance(opts, Opts) else opts.get("grains")
    grains = Grains(opts, functions, static.static if isinstance(static, Grains) else static or {})
    return grains


class _Pack(dict[str, Any]):
    """What is injected; the costly parts come into being when they are first asked for."""

    def __init__(self, loaders: Loaders) -> None:
        super().__init__()
        self._loaders = loaders

    def __missing__(self, key: str) -> Any:
        loaders = self._loaders
        if key == "__grains__":
            value = loaders.grains
        elif key == "__pillar__":
            value = loaders.pillar
        elif key in ("__fileclient__", "__file_client__"):
            value = loaders._fileclient()
        elif key == "__wire_salt__":
            value = loaders.called
        else:
            for kind, name in SELF.items():
                if name == key:
                    return loaders[kind]
            raise KeyError(key)
        self[key] = value
        return value

    def __contains__(self, key: object) -> bool:
        try:
            self[key]  # type: ignore[index]
        except KeyError:
            return False
        return True


class Loader(LateFunctions):
    """
    C{"module.function"} to function, filled as names are requested.

    Also C{loader.module.function}, C{in}, iteration (which loads everything) and C{get}. Functions
    may be requested from any thread; only one thread may change the loader.

    @ivar called: those of its functions that a person or a site may call by name.
    @ivar executed: the module objects that ran so far.
    @ivar loaded_modules: names under which functions were found.
    @ivar missing_modules: name to the reason why a module is missing.
    """

    def __init__(self, loaders: Loaders, kind: str) -> None:
        super().__init__()
        self.loaders = loaders
        self.kind = kind
        self.spec = KINDS[kind]
        tag = self.tag = self.spec.tag
        self.opts = loaders.opts
        self.pack = loaders.pack
        self.pack_self = SELF.get(kind)
        self.parent_loader = None
        self.loaded_base_name = BASE
        self.executed: list[types.ModuleType] = []
        self.loaded_modules: set[str] = set()
        self.missing_modules: dict[str, Any] = {}
        self._begun: list[ModuleFile] = []
        self._exhausted: set[str] = set()
        self._of_site: set[str] = set()
        self._whole = False
        option = f"disable_{tag}{'' if tag.endswith('s') else 's'}"
        disabled = frozenset(loaders.opts.get(option) or ())
        stock = loaders.stock and kind != "grains"
        prepare = functools.partial(adopt_salt, loaders.module_of)
        self._beside = loaders.beside.get(kind)
        own = self._beside is None
        self._catalogue = Catalogue(self.spec, loaders.opts, disabled, stock, prepare, own)
        # A file of states names states alone, so the whole kind is bound; for modules, see called
        allowed = loaders.opts.get("whitelist_state_modules") if kind == "states" else ()
        self.whitelist = frozenset(allowed or ())
        names = loaders.opts.get("whitelist_modules") if kind == "modules" else ()
        self.called: Loader | Called = Called(self, frozenset(names)) if names else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "loaded_modules" not in self.__dict__:
            raise AttributeError(name)
        found = self.find_module(name)
        if found is None:
            raise AttributeError(name)
        return found

    def find_module(self, name: str) -> LoadedModule | None:
        """The functions of a module, as attributes; C{None}: there is none of this name."""
        if name not in self.loaded_modules:
            self._find(name, None)
        return LoadedModule(self, name) if name in self.loaded_modules else None

    def __repr__(self) -> str:
        return f"<Loader {self.kind}>"

    def __copy__(self) -> Loader:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Loader:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a loader belongs to its process")

    # -- what Salt's loader offers besides ------------------------------------

    def loaded_names(self) -> list[str]:
        """The names of the functions that are loaded already."""
        return list(LoadedFunctions(self))

    def missing_fun_string(self, function_name: str) -> str:
        """Why a function is not there, in stock's words."""
        return why_missing(self.kind, function_name, self.loaded_modules, self.missing_modules)

    def load_all(self) -> None:
        """Execute every file."""
        with _loading:
            if self._whole:
                return
            for files in list(self._catalogue.by_name().values()):
                for file in files:
                    self._load(file)
            for file in self._catalogue.stock().values():
                self._load(file)
            for name in self._beside or ():
                take_beside(self, name.partition(".")[0])
            self._whole = True

    def module_of(self, file: str) -> types.ModuleType | None:
        """The executed module of a file, by its name without suffix."""
        with _loading:
            for each in self._catalogue.by_name().get(file, ()):
                if each in self._begun:
                    return replaced(self, file)
                self._load(each)
        wanted = f".{self.tag}.{file}"
        return next((each for each in self.executed if each.__name__.endswith(wanted)), None)

    def files_of(self, module: str) -> list[str]:
        """The paths of the files of this name."""
        return [file.path for file in self._catalogue.by_name().get(module, ())]

    def is_claimed(self, module: str, file: str) -> bool:
        """Whether a file, by its name without suffix, says that it is this module."""
        return any(each.name == file for each in self._catalogue.candidates(module))

    def clear(self) -> None:
        """Forget all functions; the directories are read again at the next question."""
        super().clear()
        self.executed.clear()
        self.loaded_modules.clear()
        self.missing_modules.clear()
        self._exhausted.clear()
        self._of_site.clear()
        self._catalogue.forget()
        self._whole = False
        self.provide()

    def reload_modules(self) -> None:
        """Stock's name for L{clear}."""
        self.clear()

    # -- files ---------------------------------------------------------------

    @property
    def module_dirs(self) -> list[str]:
        """Every directory, most important first."""
        return self._catalogue.module_dirs

    def _find(self, module: str, key: str | None) -> bool:
        """
        Load candidates for a module until the key is there.

        @param key: a function's full name; C{None}: any function of the module will do.
        """
        with _loading:
            return self._find_alone(module, key)

    def _find_alone(self, module: str, key: str | None) -> bool:
        if key is not None and dict.__contains__(self, key):
            return True
        if module in self._exhausted or (key is None and not module.isidentifier()):
            return False
        if self.whitelist and module not in self.whitelist:
            log.error(
                "Failed to load function %s because its module (%s) is not in the whitelist: %s",
                key,
                module,
                sorted(self.whitelist),
            )
            return False
        for file in self._catalogue.candidates(module):
            self._load(file)
            if key is None:
                if module in self.loaded_modules:
                    return True
            elif dict.__contains__(self, key):
                return True
        if (
            not self._catalogue.is_of_site(module)
            and take_beside(self, module)
            and (key is None or dict.__contains__(self, key))
        ):
            return True
        self._exhausted.add(module)
        return False

    # -- one module ------------------------------------------------------------

    def _load(self, file: ModuleFile) -> None:
        """Execute a file and take its functions; a failure is remembered as its reason."""
        if file.tried:
            return
        file.tried = True
        if file.rank == "ext":
            self._catalogue.watch(file.path)
            self.loaders.begins(file.path)
        self._begun.append(file)
        try:
            loaded = self._execute(file)
        except ImportError as error:
            log.debug("Failed to import %s %s:", self.tag, file.name, exc_info=True)
            self.missing_modules.setdefault(file.name, error)
            return
        except (Exception, SystemExit) as error:
            log.error(
                "Failed to import %s %s, this is due most likely to a syntax error:",
                self.tag,
                file.name,
                exc_info=True,
            )
            self.missing_modules.setdefault(file.name, error)
            return
        finally:
            self._begun.remove(file)
        module = loaded[0][0]
        try:
            for each, code in loaded:
                self._inject(each, code)
        except BaseException:
            # Not the module's fault: the pillar or the grains could not be had.
            file.tried = False
            raise
        init = module.__dict__.get("__init__")
        if inspect.isfunction(init):
            try:
                init(self.opts)
            except TypeError as error:
                log.error("%s", error)
            except Exception:
                log.debug(
                    "Error loading %s.%s: __init__ failed", self.tag, file.name, exc_info=True
                )
                self.missing_modules[file.name] = "__init__ failed"
                return
        usable, name, reason = self._virtual(module, file.name)
        if not usable:
            self._note_missing(file.name, name, reason)
            return
        self.executed += [each for each, _ in loaded]
        self._take(module, (name, *module.__dict__.get("__virtual_aliases__", ())), file)

    def _execute(self, file: ModuleFile) -> list[tuple[types.ModuleType, Code | None]]:
        """Run a file: the module, and those of its parts that are loaded, each with its code."""
        name = f"{BASE}.{'ext' if file.rank == 'ext' else 'int'}.{self.tag}.{file.name}"
        make_parents(name)
        if not file.path.endswith(".py"):
            spec = importlib.util.spec_from_file_location(name, file.path)
            if spec is None or spec.loader is None:
                raise ImportError(file.path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return [(module, None)]
        code = compiled(file, name)
        if code.salt or file.rank == "ext":
            # A site's module may import a neighbour that mentions C{salt}.
            adopt_salt(self.loaders.module_of)
        module = types.ModuleType(name)
        module.__file__ = file.path
        module.__package__ = name if file.package else name.rpartition(".")[0]
        module.__spec__ = importlib.machinery.ModuleSpec(
            name, None, origin=file.path, is_package=file.package
        )
        if file.package:
            module.__path__ = [os.path.dirname(file.path)]
            for child in [other for other in sys.modules if other.startswith(name + ".")]:
                del sys.modules[child]
        sys.modules[name] = module
        with ImportPaths(self._import_paths(file)):
            exec(code.code, module.__dict__)  # noqa: S102 - this is what a loader does
        loaded: list[tuple[types.ModuleType, Code | None]] = [(module, code)]
        if file.rank == "own":
            loaded += self._execute_parts(file, module)
        return loaded

    @staticmethod
    def _execute_parts(
        file: ModuleFile, module: types.ModuleType
    ) -> list[tuple[types.ModuleType, Code | None]]:
        """Run the parts of a module of ours, under its name, and let it adopt their functions."""
        loaded: list[tuple[types.ModuleType, Code | None]] = []

        def load(part: str) -> types.ModuleType:
            path = path_of_part(file.path, part)
            code = compiled(ModuleFile(part, path, file.rank, False), module.__name__)
            more = types.ModuleType(module.__name__)
            more.__file__ = path
            more.__package__ = module.__package__
            exec(code.code, more.__dict__)  # noqa: S102 - as the module itself
            loaded.append((more, code))
            return more

        adopt_parts(module.__dict__, load)
        return loaded

    def _import_paths(self, file: ModuleFile) -> list[str]:
        """Synced modules may import their neighbours and synced utilities by bare name."""
        if file.rank != "ext":
            return []
        folder = os.path.dirname(os.path.dirname(file.path) if file.package else file.path)
        utils = self.loaders["utils"]._catalogue.directories()
        paths = [folder] + [path for path, rank in utils if rank == "ext"]
        return [path for path in paths if not is_offered(path)]

    def _inject(self, module: types.ModuleType, code: Code | None) -> None:
        """
        Put Salt's names into a module; of an extension module nobody knows what it mentions.
        """
        grains = code is None or code.grains
        pillar = code is None or code.pillar
        space = module.__dict__
        own_opts = space.get("__opts__")
        for name, value in list(dict.items(self.pack)):
            if name not in ("__grains__", "__pillar__"):
                space[name] = value
        for name in (*SELF.values(), "__fileclient__", "__file_client__", "__wire_salt__"):
            space[name] = self.pack[name]
        if isinstance(own_opts, dict) and own_opts and own_opts is not self.opts:
            space["__opts__"] = {**self.opts, **own_opts}
        if grains:
            space["__grains__"] = self.pack["__grains__"]
        if pillar:
            space["__pillar__"] = self.pack["__pillar__"]
        if self.kind == "runners":
            space["__salt__"] = self
        if code is not None and code.salt:
            self._enter_stock()

    def _enter_stock(self) -> None:
        """Let stock's own helpers, which look for the loader in a context variable, find us."""
        for name in ("salt.loader.context", "saltwisted.compat.loader.context"):
            context = sys.modules.get(name)
            if context is not None and self.kind in ("modules", "states", "runners"):
                context.loader_ctxvar.set(self)

    def _virtual(self, module: types.ModuleType, name: str) -> tuple[bool, str, Any]:
        """
        What C{__virtual__} says.

        @return: usable or not, the name to load as (or to note the reason under), the reason.
        """
        virtual = module.__dict__.get("__virtual__")
        if not inspect.isfunction(virtual):
            return True, name, None
        reason = None
        try:
            answer = virtual()
            if isinstance(answer, tuple):
                answer, reason = (*answer, None)[:2]
        except KeyError:
            log.debug("KeyError when loading %s", name, exc_info=True)
            return True, name, None
        except Exception as error:
            reason = (
                f"Exception raised when processing __virtual__ function for {module.__name__}. "
                f"Module will not be loaded: {error}"
            )
            log.error("%s", reason)
            answer = None
        wanted = module.__dict__.get("__virtualname__", answer)
        if not answer:
            if answer is None and reason is None:
                log.warning(
                    "%s.__virtual__() is wrongly returning `None`. It should either return "
                    "`True`, `False` or a new name.",
                    module.__name__,
                )
            if "__virtualname__" in module.__dict__ and isinstance(wanted, str) and wanted:
                name = wanted
            return False, name, reason
        if answer is not True and answer != name and wanted != answer:
            log.error(
                "The module '%s' is showing some bad usage. Its __virtualname__ attribute is set "
                "to '%s' yet the __virtual__() function is returning '%s'.",
                module.__name__,
                wanted,
                answer,
            )
        return True, wanted if isinstance(wanted, str) else name, None

    def _note_missing(self, file_name: str, name: str, reason: Any) -> None:
        self.missing_modules[file_name] = reason
        if name == file_name:
            return
        known = self.missing_modules.get(name)
        if known is None:
            self.missing_modules[name] = reason
        elif reason is not None and str(reason) not in str(known).split("; "):
            self.missing_modules[name] = f"{known}; {reason}"

    def _take(self, module: types.ModuleType, names: Iterable[str], file: ModuleFile) -> None:
        space = module.__dict__
        parts = imported_parts(space) if file.rank == "own" else frozenset()
        listed = space.get("__load__")
        if listed is None:
            listed = space.get("__all__")
        if listed is None:
            listed = sorted(space)
        aliases = space.get("__func_alias__") or {}
        outputters = space.get("__outputter__") or {}
        # Here and not only where one is asked for: listing functions loads every module
        names = tuple(name for name in names if not self.whitelist or name in self.whitelist)
        of_site = file.rank == "ext"
        for attribute in listed:
            if attribute.startswith("_"):
                continue
            function = getattr(module, attribute)
            if not inspect.isfunction(function):
                continue
            if not function.__module__.startswith(BASE) and function.__module__ not in parts:
                continue
            if attribute in outputters:
                function.__outputter__ = outputters[attribute]  # type: ignore[attr-defined]
            shown = aliases.get(attribute, attribute)
            for name in names:
                key = f"{name}.{shown}"
                # The site's function, whichever was executed first; of two files of the site's,
                # that of the first
                if not dict.__contains__(self, key) or (of_site and key not in self._of_site):
                    dict.__setitem__(self, key, function)
                if of_site:
                    self._of_site.add(key)
        self.loaded_modules.update(names)
        decorators = sys.modules.get("salt.utils.decorators")
        if decorators is not None and file.rank != "own":
            try:
                decorators.Depends.enforce_dependencies(LoadedFunctions(self), self.tag, file.name)
            except RuntimeError as error:
                log.info("Depends.enforce_dependencies() failed: %s", error)

    def provide(self) -> None:
        """The C{providers} option: names taken from another module, whatever its C{__virtual__}."""
        providers = self.opts.get("providers") if self.kind == "modules" else None
        if not isinstance(providers, dict):
            return
        for name, source in providers.items():
            if not isinstance(source, str):
                continue
            file = next(
                iter(self._catalogue.by_name().get(source, ())), None
            ) or self._catalogue.stock().get(source)
            if file is None:
                continue
            copy = ModuleFile(file.name, file.path, file.rank, file.package, True)
            try:
                loaded = self._execute(copy)
                for each, code in loaded:
                    self._inject(each, code)
            except Exception:
                log.error("The provider %s for %s could not be loaded", source, name, exc_info=True)
                continue
            self.executed += [each for each, _ in loaded]
            self._take(loaded[0][0], (name,), copy)
