"""
What an option is: a name, a type, a default, and how a value is made to fit.

L{Options} turns the annotated class bodies of C{options.py} into frozen
values. It does not use attrs, alone in this house: the command line builds a
configuration before each C{salt '*' test.ping}, and importing attrs would cost
it more time than everything else here together. What one may do with an
C{Options} is what one may do with a frozen attrs class: build it with keywords,
read it, compare it, L{Options.evolve} it.

The rules for values follow Salt's C{salt.config._validate_opts}: it only warns,
so whatever works there must start here too, and only what cannot work is
refused. Parsing files is in C{load.py}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")
HandedOn = Annotated[T, "handed on"]
"""
The type of an option that is accepted, checked and handed on to modules and templates, and that
nothing here looks at. Reading it as an attribute is an error: whoever begins to look at one
takes this word away from it, and the page of all options says so.
"""
Secret = Annotated[T, "secret"]
"""
The type of an option whose value nobody is shown (L{saltwisted.config.secrets}). One that is
handed on as well is C{HandedOn[Secret[...]]}.
"""
_HANDED_ON, _SECRET = "HandedOn[", "Secret["

TRUE_WORDS = frozenset(("true", "yes", "on", "y", "1"))
FALSE_WORDS = frozenset(("false", "no", "off", "n", "0", ""))


class Misfit(Exception):
    """A value that cannot be an option's; its text says what to write instead."""


def fresh(value: Any) -> Any:
    """A copy of plain data whose maps and lists belong to nobody else."""
    if isinstance(value, Mapping):
        return {key: fresh(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fresh(item) for item in value]
    return value


class NotLookedAt(TypeError):
    """Our own code asks for an option of which the schema says that nothing here looks at it."""


def _without(mark: str, kinds: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Types as they are written without a mark, and the names of those that had it."""
    marked = {name for name, kind in kinds.items() if kind.startswith(mark)}
    bare = {n: k[len(mark) : -1] if n in marked else k for n, k in kinds.items()}
    return bare, marked


class _Unread:
    """In the place of an attribute that nobody may read, whatever the instance has."""

    def __init__(self, name: str, default: Any) -> None:
        self._name = name
        self._default = default

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self._default
        # No AttributeError: getattr() with a default would hide it
        raise NotLookedAt(f"option {self._name!r} is handed on: say in options.py that it is used")

    def __set__(self, instance: Any, value: Any) -> NoReturn:
        raise AttributeError(f"option {self._name!r} cannot be set: evolve() makes a new one")


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class Options:
    """
    The base of the configuration classes: annotated names with defaults, frozen.

    @cvar fields: every option of the class: name to its type as written (C{"str | None"}).
    @cvar defaults: every option's default; shared, so copy it with L{fresh}.
    @cvar handed_on: the options that nothing here looks at (L{HandedOn}).
    @cvar secret: the options whose values nobody is shown (L{Secret}).
    """

    fields: ClassVar[dict[str, str]] = {}
    defaults: ClassVar[dict[str, Any]] = {}
    handed_on: ClassVar[frozenset[str]] = frozenset()
    secret: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        inherited, own = cls.fields, cls.__dict__.get("__annotations__", {})
        own = {name: kind for name, kind in own.items() if "ClassVar" not in kind}
        bare, unread = _without(_HANDED_ON, own)
        bare, untold = _without(_SECRET, bare)
        cls.fields = {**inherited, **bare}
        cls.defaults = {name: getattr(cls, name) for name in cls.fields}
        cls.handed_on = (cls.handed_on - own.keys()) | unread
        cls.secret = cls.secret | untold
        for name in unread:
            setattr(cls, name, _Unread(name, cls.defaults[name]))

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in self.fields:
                raise TypeError(f"{type(self).__name__} has no option {name!r}")
        state = self.__dict__
        for name, default in self.defaults.items():
            state[name] = values[name] if name in values else fresh(default)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: evolve({name}=...) makes a new one")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Never the values: passwords and keys are among them."""
        return f"<{type(self).__name__} of {self.__dict__.get('config_dir')}>"

    def value(self, name: str) -> Any:
        """
        What stands in an option, whether or not anything here looks at it.

        This is for code that compares, copies or judges configurations. It is
        C{None} where there is no such option.
        """
        state = self.__dict__
        return state[name] if name in state else state.get("extra", {}).get(name)

    def evolve(self, **changes: Any) -> Any:
        """A copy of the same class with some options changed."""
        return type(self)(**{**self.__dict__, **changes})

    def adopt(self, other: Options, names: Iterable[str]) -> None:
        """
        Take the values of these options from C{other}: the one way in which a configuration
        changes while a daemon runs, so that its holders read the new values.

        @raises TypeError: they are of different roles.
        """
        if type(self) is not type(other):
            raise TypeError(f"{type(other).__name__} is no {type(self).__name__}")
        self.__dict__.update({name: other.__dict__[name] for name in names})


def is_int(value: Any) -> bool:
    """An integer which is not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


EXACT: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": is_int,
    "float": lambda value: (isinstance(value, float) and isfinite(value)) or is_int(value),
    "list[Any]": lambda value: isinstance(value, list),
    "dict[str, Any]": lambda value: isinstance(value, dict),
    "None": lambda value: value is None,
    "Any": lambda value: True,
}


def _to_str(value: Any) -> Any:
    if isinstance(value, (bool, int, float)) or type(value).__name__ in ("date", "datetime"):
        return str(value)
    raise Misfit("text is needed")


def _to_bool(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if word in TRUE_WORDS or word in FALSE_WORDS:
            return word in TRUE_WORDS
    raise Misfit("true or false is needed")


def _to_int(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            pass
    raise Misfit("a whole number is needed")


def _to_float(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            return _to_int(value)
        except Misfit:
            try:
                number = float(value.strip())
            except ValueError:
                pass
            else:
                if isfinite(number):
                    return number
    raise Misfit("a number is needed")


def _to_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if value == {}:
        return []
    raise Misfit("a list is needed")


def _to_dict(value: Any) -> Any:
    if value == []:
        return {}
    if isinstance(value, list) and all(isinstance(item, dict) and len(item) == 1 for item in value):
        return {key: item for part in value for key, item in part.items()}
    raise Misfit("a mapping is needed")


COERCE: dict[str, Callable[[Any], Any]] = {
    "str": _to_str,
    "bool": _to_bool,
    "int": _to_int,
    "float": _to_float,
    "list[Any]": _to_list,
    "dict[str, Any]": _to_dict,
}


def fit(declared: str, value: Any) -> tuple[Any, str | None]:
    """
    Make a value fit a declared type.

    @param declared: the type as written in C{options.py}, such as C{"str | None"}.
    @return: the value, and C{None} if it fitted as it was, or a few words about
        the change, for a warning.
    @raises Misfit: when it cannot work.
    """
    kinds = declared.split(" | ")
    for kind in kinds:
        if EXACT[kind](value):
            return value, None
    why = []
    for kind in kinds:
        if kind in COERCE:
            try:
                changed = COERCE[kind](value)
            except Misfit as error:
                why.append(str(error))
            else:
                return changed, f"read as {changed!r}"
    raise Misfit(" or ".join(why))
