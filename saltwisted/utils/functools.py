"""Functions under other names, with the names of C{salt.utils.functools}."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


def namespaced_function(
    function: Any, global_dict: dict[str, Any], defaults: Any = None, **kwargs: Any
) -> Any:
    """The same function, with the names of another module around it."""
    made = types.FunctionType(
        function.__code__,
        global_dict,
        name=function.__name__,
        argdefs=defaults or function.__defaults__,
        closure=function.__closure__,
    )
    made.__dict__.update(function.__dict__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def alias_function(fun: Any, name: str, doc: str | None = None) -> Any:
    """The same function under another name, and with another text about it."""
    made = types.FunctionType(
        fun.__code__, fun.__globals__, str(name), fun.__defaults__, fun.__closure__
    )
    made.__dict__.update(fun.__dict__)
    made.__kwdefaults__ = fun.__kwdefaults__
    words = (
        doc
        if doc and isinstance(doc, str)
        else (f"\n    This function is an alias of ``{fun.__name__}``.\n{fun.__doc__ or ''}")
    )
    made.__doc__ = words
    return made


def call_function(salt_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """
    Call with the named arguments that a function knows, and no others.

    @raises SaltInvocationError: one that it needs is missing.
    """
    from saltwisted.utils.args import get_function_argspec
    from saltwisted.worker.exceptions import SaltInvocationError

    spec = get_function_argspec(salt_function)
    names = spec.args
    needed = names[: len(names) - len(spec.defaults or ())]
    missing = [name for name in needed[len(args) :] if name not in kwargs]
    if missing:
        raise SaltInvocationError(f"Missing arguments: {', '.join(missing)}")
    given = kwargs if spec.keywords else {k: v for k, v in kwargs.items() if k in names}
    return salt_function(*args, **given)
