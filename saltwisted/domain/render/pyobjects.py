"""
The C{pyobjects} renderer: an SLS as a Python program that makes state objects.

C{File.managed("/etc/motd", source="salt://motd")} adds a state under that id,
C{with} adds a requisite to all states inside, C{extend} and C{include} are
functions, and C{import salt://lib.sls} brings the names of another file. Every
rendering has a registry of its own.
"""

from __future__ import annotations

import builtins
import inspect
import posixpath
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from saltwisted.domain.render.functions import LoadedMod
from saltwisted.domain.render.host import RenderHost

REQUISITES = tuple(
    name + ending
    for ending in ("", "_in")
    for name in ("listen", "onchanges", "onfail", "require", "watch", "use")
)

_IMPORT = re.compile(r"^\s*import\s+(salt://.*)$")
_FROM = re.compile(r"^\s*from\s+(salt://.*)\s+import (.*)$")


class StateException(Exception):
    """The program is invalid as states."""


class DuplicateState(StateException):
    """The same function twice under one id."""


class InvalidFunction(StateException):
    """A state function that does not exist."""


class Registry:
    """
    What a program has made so far.

    @ivar enabled: false while other files are read for their names alone.
    """

    def __init__(self) -> None:
        self.enabled = True
        self.states: OrderedDict[str, Any] = OrderedDict()
        self.extended: OrderedDict[str, Any] = OrderedDict()
        self.included: list[Any] = []
        self.inside: list[Requisite] = []

    def include(self, *names: Any) -> None:
        """C{include("a", "b")}."""
        if self.enabled:
            self.included.extend(names)

    def add(self, state: State, extend: bool) -> None:
        """
        Take up a new state with the requisites of the blocks around it.

        @raises DuplicateState: it is there already.
        """
        if not self.enabled:
            return
        known = self.extended if extend else self.states
        below = known.setdefault(state.id_, OrderedDict())
        if state.full_func in below:
            raise DuplicateState(
                f"A state with id ''{state.id_}'', type ''{state.full_func}'' exists"
            )
        for requisite in self.inside:
            state.kwargs.setdefault(requisite.requisite, []).append(requisite())
        below.update(state())

    def data(self) -> OrderedDict[str, Any]:
        """The whole in the form of a rendered SLS."""
        made = OrderedDict(self.states)
        if self.included:
            made["include"] = self.included
        if self.extended:
            made["extend"] = self.extended
        return made


class StateExtend:
    """The id of a state elsewhere, by C{extend("id")}."""

    def __init__(self, name: str) -> None:
        self.name = name


class Requisite:
    """A reference to a state, as a value or as a C{with} block."""

    def __init__(self, registry: Registry, requisite: str, module: str, id_: str) -> None:
        self._registry = registry
        self.requisite = requisite
        self.module = module
        self.id_ = id_

    def __call__(self) -> dict[str, str]:
        return {self.module: self.id_}

    def __enter__(self) -> None:
        if self._registry.enabled:
            self._registry.inside.append(self)

    def __exit__(self, *args: object) -> None:
        if self._registry.enabled:
            del self._registry.inside[-1]


class State:
    """One state function under one id."""

    def __init__(
        self, registry: Registry, id_: Any, module: str, func: str, kwargs: dict[str, Any]
    ) -> None:
        self.module = module
        self.func = func
        self.kwargs = kwargs
        for name in REQUISITES:
            if name in kwargs and not isinstance(kwargs[name], Iterable):
                kwargs[name] = [kwargs[name]]
        extend = isinstance(id_, StateExtend)
        self.id_: str = id_.name if extend else id_
        registry.add(self, extend)
        self.requisite = Requisite(registry, "require", module, self.id_)

    @property
    def attrs(self) -> list[dict[str, Any]]:
        """The arguments, one to a map, in the order of their names."""
        for name in REQUISITES:
            if name in self.kwargs:
                self.kwargs[name] = [
                    one() if isinstance(one, Requisite) else one for one in self.kwargs[name]
                ]
        return [{name: self.kwargs[name]} for name in sorted(self.kwargs)]

    @property
    def full_func(self) -> str:
        """C{file.managed}."""
        return f"{self.module}.{self.func}"

    def __str__(self) -> str:
        return f"{self.id_} = {self.full_func}:{self.attrs}"

    def __call__(self) -> dict[str, Any]:
        return {self.full_func: self.attrs}

    def __enter__(self) -> None:
        self.requisite.__enter__()

    def __exit__(self, *args: object) -> None:
        self.requisite.__exit__(*args)


class StateFactory:
    """
    C{File}: makes states of one module; called, it is a requisite.

    @param known: names of its functions; empty when nobody knows.
    """

    def __init__(self, registry: Registry, module: str, known: Iterable[str]) -> None:
        self._registry = registry
        self.module = module
        self._known = frozenset(known)

    def __getattr__(self, func: str) -> Callable[..., State]:
        if self._known and func not in self._known:
            raise InvalidFunction(
                f"The function '{func}' does not exist in the StateFactory for '{self.module}'"
            )
        return lambda id_, **kwargs: State(self._registry, id_, self.module, func, kwargs)

    def __call__(self, id_: str, requisite: str = "require") -> Requisite:
        return Requisite(self._registry, requisite, self.module, id_)


class Salt:
    """C{salt.cmd.run("x")}."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions

    def __getattr__(self, module: str) -> LoadedMod:
        return LoadedMod(self._functions, module)


def map_class(functions: Mapping[str, Any]) -> type:
    """The base class C{Map}: attributes chosen by grains, then by pillar."""

    class MapMeta(type):
        """Chooses when a subclass is made."""

        def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> None:
            super().__init__(name, bases, space)
            for attribute, value in _chosen(cls, space, functions).items():
                setattr(cls, attribute, value)

    return MapMeta("Map", (), {})


def _chosen(cls: type, space: Mapping[str, Any], functions: Mapping[str, Any]) -> dict[str, Any]:
    """
    The attributes of those inner classes whose grain has the wanted value.

    An inner class names its grain by C{__grain__} (C{os_family}) and the value by C{__match__}
    (its own name). C{priority} orders the grains, the last match wins; C{merge} names a
    pillar key that wins over all.
    """
    choices = [
        (getattr(inner, "__grain__", "os_family"), getattr(inner, "__match__", name), inner)
        for name, inner in space.items()
        if not name.startswith("_") and inspect.isclass(inner)
    ]
    order = getattr(cls, "priority", None)
    if isinstance(order, Iterable):
        ranks = {grain: rank for rank, grain in enumerate(order)}
        choices.sort(key=lambda choice: ranks.get(choice[0], len(ranks)))
    found: dict[str, Any] = {}
    if choices:
        grains = functions["grains.item"](*{grain for grain, _, _ in choices})
        for grain, value, inner in choices:
            if grain in grains and grains[grain] == value:
                found.update({k: v for k, v in vars(inner).items() if not k.startswith("_")})
    key = getattr(cls, "merge", None)
    if key is not None:
        found.update(functions["pillar.get"](key) or {})
    return found


class Names(dict[str, Any]):
    """
    The globals of a program; state modules appear when their names are used.

    @param known: gives the function names of a state module, none for an unknown one, or
        C{None} when that cannot be known.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        registry: Registry,
        known: Callable[[str], Iterable[str] | None],
    ) -> None:
        super().__init__(values)
        self._registry = registry
        self._modules = known

    def __missing__(self, name: str) -> Any:
        if not name[:1].isupper() or hasattr(builtins, name):
            raise KeyError(name)
        module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        functions = self._modules(module)
        if functions is not None and not functions:
            raise KeyError(name)
        made = self[name] = StateFactory(self._registry, module, functions or ())
        return made

    def fresh(self) -> Names:
        """The same names for another file."""
        return Names(self, self._registry, self._modules)


def run(
    text: str,
    path: str,
    saltenv: str,
    host: RenderHost,
    functions: Mapping[str, Any],
    values: Mapping[str, Any],
) -> Any:
    """
    The states that a program makes.

    @param values: its globals besides those of this module.
    @raises Exception: whatever the program raises.
    """
    registry = Registry()

    def known(module: str) -> Iterable[str] | None:
        if "sys.list_state_functions" not in functions:
            return None
        listed = functions["sys.list_state_functions"]
        found = listed(module)
        if not found and not listed("test"):
            return None  # no states here at all, as where a pillar is compiled
        return [str(name).partition(".")[2] for name in found]

    names = Names(
        {
            "include": registry.include,
            "extend": StateExtend,
            "Map": map_class(functions),
            "salt": Salt(functions),
            "pillar": functions.get("pillar.get"),
            "grains": functions.get("grains.get"),
            "mine": functions.get("mine.get"),
            "config": functions.get("config.get"),
            "__salt__": functions,
            **values,
        },
        registry,
        known,
    )
    registry.enabled = False
    program = _with_imports(text, names, saltenv, host, ())
    registry.enabled = True
    exec(compile(program, path, "exec"), names)  # noqa: S102 - its purpose
    return registry.data()


def _with_imports(
    text: str, names: Names, saltenv: str, host: RenderHost, above: tuple[str, ...]
) -> str:
    """
    Execute the C{salt://} imports of a file into its globals; the rest of its text.

    @raises ImportError: a file or a name in it is not there, or files import one another.
    """
    rest = []
    blank = names.fresh()
    for line in text.splitlines():
        match = _IMPORT.match(line) or _FROM.match(line)
        if match is None:
            rest.append(line)
            continue
        rest.append("")  # keeps the numbers of the lines
        url = match.group(1).strip()
        found = host.find(url.removeprefix("salt://").lstrip("/"), saltenv)
        if found is None:
            raise ImportError(f"Could not find the file '{url}'")
        if found in above:
            raise ImportError(f"The file '{url}' imports itself")
        space = blank.fresh()
        content = host.read(found).decode()
        program = _with_imports(content, space, saltenv, host, (*above, found))
        exec(compile(program, found, "exec"), space)  # noqa: S102
        if match.re is _IMPORT:
            name = posixpath.splitext(posixpath.basename(found))[0]
            names[name] = SimpleNamespace(**space)
            continue
        for part in match.group(2).split(","):
            name, _, alias = (word.strip() for word in part.partition(" as "))
            if name not in space:
                raise ImportError(f"'{name}' was not found in '{url}'")
            names[alias or name] = space[name]
    return "\n".join(rest)
