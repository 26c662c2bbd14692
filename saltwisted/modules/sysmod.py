"""
What functions there are: their documentation and arguments.

The same questions for execution modules (C{sys.doc}), states, returners, renderers and
runners.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterator
from typing import Any

from saltwisted.modules import _data
from saltwisted.worker import templates
from saltwisted.worker.called import called

__virtualname__ = "sys"
__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__states__: Any


def __virtual__() -> str:
    return __virtualname__


def _kind(name: str) -> Any:
    """The loader of another kind of modules."""
    return __salt__.loaders[name]


def _renderers() -> dict[str, Any]:
    """Renderers by name: ours, and custom ones, whose functions are called C{render}."""
    context = {"salt": __salt__, "opts": __opts__}
    found = dict(templates.engines(context))
    custom = _kind("renderers")
    found.update({name.partition(".")[0]: custom[name] for name in custom})
    return found


_MARKUP = (
    (re.compile(r" *.. code-block:: \S+\n{1,2}"), ""),
    (re.compile(r"\.\. note::"), "Note:"),
    (re.compile(r"\.\. warning::"), "Warning:"),
    (re.compile(r"\.\. versionadded::"), "New in version"),
    (re.compile(r"\.\. versionchanged::"), "Changed in version"),
    (re.compile(r"(?m)(?<=\w)::$"), ":"),
)


def _plain(docs: dict[str, Any]) -> dict[str, Any]:
    """Documentation without the marks of reStructuredText that get in a reader's way."""
    for name, text in docs.items():
        if text:
            for pattern, plain in _MARKUP:
                text = pattern.sub(plain, text)
            docs[name] = text
    return docs


def _fitting(functions: Any, words: tuple[str, ...]) -> Iterator[str]:
    """Names of functions: all, those of a module, one by its whole name, or by a glob."""
    if not words:
        yield from functions
    for word in words:
        if "*" in word:
            yield from fnmatch.filter(functions, word)
        elif "." in word and word in functions:
            yield word
        else:
            prefix = word if word.endswith(".") or not word else f"{word}."
            for name in functions:
                if name == word or name.startswith(prefix):
                    yield name


def _docs(functions: Any, words: tuple[str, ...]) -> dict[str, Any]:
    return _plain({name: functions[name].__doc__ for name in _fitting(functions, words)})


def _functions(functions: Any, words: tuple[str, ...]) -> list[str]:
    if not words:
        return sorted(functions)
    names: set[str] = set()
    for word in words:
        if "*" in word or "." in word:
            names.update(fnmatch.filter(functions, word))
        else:
            names.update(name for name in functions if name.startswith(f"{word}."))
    return sorted(names)


def _modules(functions: Any, words: tuple[str, ...]) -> list[str]:
    there = {name.split(".")[0] for name in functions}
    if not words:
        return sorted(there)
    found: set[str] = set()
    for word in words:
        if "*" in word:
            found.update(name.split(".")[0] for name in fnmatch.filter(functions, word))
        elif word in there:
            found.add(word)
    return sorted(found)


def doc(*args: str) -> dict[str, Any]:
    """
    The documentation of functions: all, of modules, or by name or glob.

    CLI Example::

        salt '*' sys.doc
        salt '*' sys.doc sys
        salt '*' sys.doc sys.doc
        salt '*' sys.doc 'sys.list_*'
    """
    return _docs(called(__salt__), args)


def list_functions(*args: str, **kwargs: Any) -> list[str]:
    """
    The names of functions: all, of modules, or by glob.

    CLI Example::

        salt '*' sys.list_functions
        salt '*' sys.list_functions sys user
        salt '*' sys.list_functions 'sys.list_*'
    """
    return _functions(called(__salt__), args)


def list_modules(*args: str) -> list[str]:
    """
    The names of the modules that are loaded here, or those that fit.

    CLI Example::

        salt '*' sys.list_modules
        salt '*' sys.list_modules 's*'
    """
    return _modules(called(__salt__), args)


def reload_modules(initial_load: bool = False, context: Any = None) -> bool:
    """
    Make the minion look at its modules again.

    CLI Example::

        salt '*' sys.reload_modules
    """
    __salt__["saltutil.refresh_modules"]()
    return True


def argspec(module: str = "") -> dict[str, Any]:
    """
    The arguments of functions: of a module, or by glob.

    CLI Example::

        salt '*' sys.argspec pkg.install
        salt '*' sys.argspec 'pkg.*'
    """
    return _data.argspec_report(called(__salt__), module)


def state_doc(*args: str) -> dict[str, Any]:
    """
    The documentation of states, with that of their modules under the modules' names.

    CLI Example::

        salt '*' sys.state_doc service
        salt '*' sys.state_doc service.running
    """
    docs: dict[str, Any] = {}
    for name in _fitting(__states__, args):
        function = __states__[name]
        module = name.split(".")[0]
        if module not in docs:
            home = sys.modules.get(function.__module__)
            space = getattr(function, "__globals__", None)
            docs[module] = space["__doc__"] if space else getattr(home, "__doc__", None)
        docs[name] = function.__doc__
    return _plain(docs)


def state_argspec(module: str = "") -> dict[str, Any]:
    """
    The arguments of states.

    CLI Example::

        salt '*' sys.state_argspec pkg.installed
    """
    return _data.argspec_report(__states__, module)


def list_state_functions(*args: str, **kwargs: Any) -> list[str]:
    """
    The names of states.

    CLI Example::

        salt '*' sys.list_state_functions file
    """
    return _functions(__states__, args)


def list_state_modules(*args: str) -> list[str]:
    """
    The names of state modules.

    CLI Example::

        salt '*' sys.list_state_modules 'mysql_*'
    """
    return _modules(__states__, args)


def returner_doc(*args: str) -> dict[str, Any]:
    """
    The documentation of returners.

    CLI Example::

        salt '*' sys.returner_doc sqlite3
    """
    return _docs(_kind("returners"), args)


def returner_argspec(module: str = "") -> dict[str, Any]:
    """
    The arguments of returners.

    CLI Example::

        salt '*' sys.returner_argspec xmpp
    """
    return _data.argspec_report(_kind("returners"), module)


def list_returners(*args: str) -> list[str]:
    """
    The names of returner modules.

    CLI Example::

        salt '*' sys.list_returners
    """
    return _modules(_kind("returners"), args)


def list_returner_functions(*args: str, **kwargs: Any) -> list[str]:
    """
    The names of returner functions.

    CLI Example::

        salt '*' sys.list_returner_functions mysql
    """
    return _functions(_kind("returners"), args)


def renderer_doc(*args: str) -> dict[str, Any]:
    """
    The documentation of renderers.

    CLI Example::

        salt '*' sys.renderer_doc cheetah jinja
    """
    return _docs(_renderers(), args)


def list_renderers(*args: str) -> list[str]:
    """
    The names of renderers.

    CLI Example::

        salt '*' sys.list_renderers 'yaml*'
    """
    names = set(_renderers())
    if not args:
        return sorted(names)
    return sorted({name for word in args for name in fnmatch.filter(names, word)})


def runner_doc(*args: str) -> dict[str, Any]:
    """
    The documentation of runners.

    CLI Example::

        salt '*' sys.runner_doc cache
    """
    return _docs(_kind("runners"), args)


def runner_argspec(module: str = "") -> dict[str, Any]:
    """
    The arguments of runners.

    CLI Example::

        salt '*' sys.runner_argspec state
    """
    return _data.argspec_report(_kind("runners"), module)


def list_runners(*args: str) -> list[str]:
    """
    The names of runner modules.

    CLI Example::

        salt '*' sys.list_runners 'm*'
    """
    return _modules(_kind("runners"), args)


def list_runner_functions(*args: str, **kwargs: Any) -> list[str]:
    """
    The names of runner functions.

    CLI Example::

        salt '*' sys.list_runner_functions state
    """
    return _functions(_kind("runners"), args)


def state_schema(module: str = "") -> list[dict[str, Any]]:
    """
    JSON schemas of the arguments of states.

    CLI Example::

        salt '*' sys.state_schema pkg.installed
    """
    return [_schema(name, spec) for name, spec in state_argspec(module).items()]


_KINDS = ("boolean", "integer", "number", "string")


def _schema(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    args = spec["args"] or []
    defaults = list(spec["defaults"] or [])
    required = args[: len(args) - len(defaults)]
    properties: dict[str, Any] = {}
    for arg in required:
        properties[arg] = {
            "oneOf": [{"type": kind, "title": arg, "description": arg} for kind in _KINDS]
        }
    for arg, default in zip(args[len(required) :], defaults, strict=True):
        properties[arg] = {
            "oneOf": [
                {"type": kind, "title": arg, "description": arg, "default": default}
                for kind in _KINDS
            ]
        }
    return {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": name,
        "description": name,
        "type": "object",
        "properties": properties,
        "x-ordering": args,
        "additionalProperties": False,
    }
