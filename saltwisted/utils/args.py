"""
Arguments of functions.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from saltwisted.modules import _data
from saltwisted.utils._own import own
from saltwisted.worker.exceptions import SaltInvocationError

clean_kwargs = own(__name__, _data.clean_kwargs)
get_function_argspec = own(__name__, _data.argspec)


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


_CLOSING = {"[": "]", "{": "}", "(": ")"}


def parse_function(s: str) -> tuple[str | None, list[str] | None, dict[str, str] | None]:
    """
    A call such as C{module.function(one, [2, 3], name=value)} in its parts, which stay text: name,
    arguments and keywords. Three times C{None}, if it is none.
    """
    lexer = shlex.shlex(s, posix=True)
    lexer.escapedquotes = "\"'"
    name, opened, rest = "", False, iter(lexer)
    for piece in rest:
        opened = piece == "("
        if opened:
            break
        name += piece
    args: list[str] = []
    kwargs: dict[str, str] = {}
    words: list[str] = []
    key, brackets = "", ""
    for piece in rest if name and opened else ():
        if piece in (",", ")") and not brackets:
            if key:
                kwargs[key] = "".join(words)
            elif words:
                args.append("".join(words))
            if piece == ")":
                return name, args, kwargs
            key, words = "", []
            continue
        if piece == "=" and not brackets:
            key, words = "".join(words), []
            continue
        if piece in _CLOSING:
            brackets += piece
        elif piece in _CLOSING.values():
            if not brackets or _CLOSING[brackets[-1]] != piece:
                break
            brackets = brackets[:-1]
        words.append(piece)
    return None, None, None
