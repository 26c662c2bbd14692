"""
Arguments of functions.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any

from saltwisted.domain import arguments
from saltwisted.modules import _data
from saltwisted.utils import jid
from saltwisted.utils._own import own
from saltwisted.worker.exceptions import SaltInvocationError

clean_kwargs = own(__name__, _data.clean_kwargs)
argspec_report = own(__name__, _data.argspec_report)
yamlify_arg = own(__name__, arguments.yamlify)

KWARG_REGEX = re.compile(r"^([^\d\W][\w.-]*)=(?!=)(.*)$")


def get_function_argspec(func: Any, is_class_method: bool | None = None) -> Any:
    """
    The arguments of a function as C{args varargs keywords defaults}, of what it wraps if any.

    @param is_class_method: leave out the first one, which is C{self}.
    @raises TypeError: not a callable, or one that cannot be looked into.
    """
    spec = _data.argspec(func)
    return spec._replace(args=spec.args[1:]) if is_class_method else spec


def parse_kwarg(string_: Any) -> tuple[str | None, str | None]:
    """
    Name and text of C{name=value}; twice C{None} for any other text.

    @raises TypeError: no text.
    """
    found = KWARG_REGEX.match(string_)
    return (found[1], found[2]) if found else (None, None)


def condition_input(args: Iterable[Any], kwargs: Any) -> list[Any]:
    """Arguments as a job carries them: job ids are texts, keywords a marked map at the end."""
    sent = [str(arg) if isinstance(arg, int) and jid.is_jid(str(arg)) else arg for arg in args]
    if isinstance(kwargs, dict) and kwargs:
        sent.append({"__kwarg__": True, **kwargs})
    return sent


def parse_input(
    args: Iterable[Any], condition: bool = True, no_parse: Collection[str] | None = None
) -> Any:
    """
    The arguments of a command line: C{name=value} is a keyword, values are YAML.

    @param condition: as a job carries them; else positional ones and keywords.
    @param no_parse: keywords whose values stay texts.
    """
    positional, keywords = arguments.read_input(
        args, no_parse=no_parse or (), jids_are_text=condition
    )
    return condition_input(positional, keywords) if condition else (positional, keywords)


def parse_function(s: str) -> tuple[str | None, list[str] | None, dict[str, str] | None]:
    """C{module.function(a, b, c=d)} taken apart, values stay texts; else thrice C{None}."""
    name, words, keywords = arguments.parse_call(s)
    return (None, None, None) if name is None else (name, words, keywords)


def prepare_kwargs(
    all_kwargs: Mapping[str, Any], class_init_kwargs: Container[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords for making an object, and those for its function; what is C{None} is in neither."""
    given = {key: value for key, value in all_kwargs.items() if value is not None}
    return (
        {key: value for key, value in given.items() if key in class_init_kwargs},
        {key: value for key, value in given.items() if key not in class_init_kwargs},
    )


def format_call(
    fun: Callable[..., Any],
    data: Mapping[str, Any],
    initial_ret: dict[str, Any] | None = None,
    expected_extra_kws: Container[str] = (),
    is_class_method: bool | None = None,
) -> dict[str, Any]:
    """
    The arguments for a function, taken from a map by their names.

    @param initial_ret: a map that is filled and given back; its C{full} names the function.
    @param expected_extra_kws: names in C{data} that are no arguments, and no mistake.
    @return: with C{args} and C{kwargs}.
    @raises SaltInvocationError: one is missing, or there is one that the function does not know.
    """
    ret = initial_ret or {}
    spec = get_function_argspec(fun, is_class_method=is_class_method)
    known = arg_lookup(fun, spec)
    found = [data[name] for name in known["args"] if name in data]
    ret["args"] = found
    ret["kwargs"] = {}
    needed = len(known["args"])
    if len(found) < needed:
        raise SaltInvocationError(
            f"{fun.__name__} takes at least {needed} argument{'s' if needed > 1 else ''}"
            f" ({len(found)} given)"
        )
    ret["kwargs"].update({name: data.get(name, value) for name, value in known["kwargs"].items()})
    extra = {
        name: value
        for name, value in data.items()
        if name not in spec.args and name not in expected_extra_kws
    }
    if spec.keywords:
        ret["kwargs"].update(extra)
    elif extra:
        *names, last = (f"'{name}'" for name in extra)
        told = (
            f"{', '.join(names)} and {last} are invalid keyword arguments"
            if names
            else (f"{last} is an invalid keyword argument")
        )
        full = ret.get("full", f"{fun.__module__}.{fun.__name__}")
        raise SaltInvocationError(f"{told} for '{full}'")
    return ret


def invalid_kwargs(invalid_kwargs: Any, raise_exc: bool = True) -> str:
    """
    The sentence that refuses arguments which a function does not know.

    @raises SaltInvocationError: with it, unless C{raise_exc} is false.
    """
    names = (
        [f"{key}={value}" for key, value in invalid_kwargs.items()]
        if isinstance(invalid_kwargs, dict)
        else invalid_kwargs
    )
    text = f"The following keyword arguments are not valid: {', '.join(names)}"
    if raise_exc:
        raise SaltInvocationError(text)
    return text


def shlex_split(s: Any, **kwargs: Any) -> Any:
    """The words of a text, as a shell finds them; anything else as it is."""
    return shlex.split(s, **kwargs) if isinstance(s, str) else s


def split_input(val: Any, mapper: Callable[[Any], Any] | None = None) -> list[Any]:
    """A list as it is, anything else as text split at its commas; each item through a function."""
    items = val if isinstance(val, list) else [one.strip() for one in str(val).split(",")]
    return [mapper(one) for one in items] if mapper else list(items)


def arg_lookup(fun: Callable[..., Any], aspec: Any = None) -> dict[str, Any]:
    """The arguments of a function: names of those that it needs, and defaults of the others."""
    spec = aspec or get_function_argspec(fun)
    defaults = dict(zip(spec.args[::-1], (spec.defaults or ())[::-1], strict=False))
    return {"kwargs": defaults, "args": [name for name in spec.args if name not in defaults]}


def test_mode(**kwargs: Any) -> bool:
    """Whether one of the arguments is C{test}, in capitals or not, and true."""
    from saltwisted.utils.data import is_true

    return any(key.lower() == "test" and is_true(value) for key, value in kwargs.items())
