"""
What trees of states ask for while they are rendered: merging, rendering, looking for files,
writing data as text.
"""

from __future__ import annotations

import os
import posixpath
import textwrap
from collections.abc import Callable
from typing import Any

from saltwisted.domain.render import tree
from saltwisted.modules import _data, _serializers
from saltwisted.worker import templates
from saltwisted.worker.exceptions import (
    ArgumentValueError,
    CommandExecutionError,
    SaltInvocationError,
)

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__serializers__: Any


def update(dest: Any, upd: Any, recursive_update: bool = True, merge_lists: bool = False) -> Any:
    """
    Merge one map into another, which is changed.

    CLI Example::

        salt '*' slsutil.update '{foo: Foo}' '{bar: Bar}'
    """
    return tree.update(dest, upd, recursive_update, merge_lists)


def merge(
    obj_a: Any,
    obj_b: Any,
    strategy: str = "smart",
    renderer: str = "yaml",
    merge_lists: bool = False,
) -> Any:
    """
    One map over another, by a strategy: C{smart aggregate list none overwrite recurse}.

    CLI Example::

        salt '*' slsutil.merge '{foo: Foo}' '{bar: Bar}'
    """
    return tree.merge(obj_a, obj_b, strategy, renderer, merge_lists)


def merge_all(
    lst: Any, strategy: str = "smart", renderer: str = "yaml", merge_lists: bool = False
) -> Any:
    """
    All maps of a list, each over those before it.

    CLI Example::

        salt-call slsutil.merge_all '[{foo: Foo}, {foo: Bar}]'
    """
    merged: Any = {}
    for one in lst:
        merged = tree.merge(merged, one, strategy, renderer, merge_lists)
    return merged


def renderer(
    path: str | None = None,
    string: str | None = None,
    default_renderer: str = "jinja|yaml",
    **kwargs: Any,
) -> Any:
    """
    What a file or a text means after its renderers; further arguments are its variables.

    CLI Example::

        salt '*' slsutil.renderer salt://path/to/file
        salt '*' slsutil.renderer string='Hello, {{ name }}.' default_renderer=jinja name=world
    """
    if not path and not string:
        raise SaltInvocationError("Must pass path or string.")
    if path and string:
        raise SaltInvocationError("Must not pass both path and string.")
    words = {key: value for key, value in kwargs.items() if not key.startswith("__pub_")}
    saltenv = words.pop("saltenv", "base")
    sls = words.pop("sls", "")
    facts = {"salt": __salt__, "opts": __opts__, "grains": __grains__, "pillar": __pillar__}
    local = __salt__["cp.get_url"](path, saltenv=saltenv) if path else ""
    return templates.render_data(
        facts, local, string or "", saltenv, sls, pipe=default_renderer, extra=words
    )


def _format(serializer: str, name: str) -> Callable[..., Any]:
    """The C{serialize} or C{deserialize} of a format."""
    write, read = _serializers.pair(serializer, __serializers__)
    if write is None and read is None:
        raise CommandExecutionError(f"Serializer '{serializer}' not found.")
    function = write if name == "serialize" else read
    if function is None:
        raise CommandExecutionError(f"Serializer '{serializer}' does not implement {name}.")
    return function


def serialize(serializer: str, obj: Any, **mod_kwargs: Any) -> Any:
    """
    Data as a text in a format: C{configparser json msgpack toml yaml yamlex}.

    Further arguments are options of that format's library.

    CLI Example::

        salt '*' --no-parse=obj slsutil.serialize 'json' obj="{'foo': 'Foo!'}"
    """
    return _format(serializer, "serialize")(obj, **_data.clean_kwargs(**mod_kwargs))


def deserialize(serializer: str, stream_or_string: Any, **mod_kwargs: Any) -> Any:
    """
    The data that a text in a format means.

    CLI Example::

        salt '*' slsutil.deserialize 'json' '{"foo": "Foo!"}'
    """
    return _format(serializer, "deserialize")(stream_or_string, **_data.clean_kwargs(**mod_kwargs))


_TITLE = "THIS FILE IS MANAGED BY SALT - DO NOT EDIT"
_TEXT = (
    "The contents of this file are managed by Salt. Any changes to this file may be overwritten "
    "automatically and without warning."
)


def banner(
    width: int = 72,
    commentchar: str = "#",
    borderchar: str = "#",
    blockstart: str | None = None,
    blockend: str | None = None,
    title: str | None = None,
    text: str | None = None,
    newline: bool = False,
) -> str:
    """
    A comment in a box, for the head of a managed file.

    width
        Characters of a line.
    commentchar
        How a comment begins in that file.
    borderchar
        The character of the upper and lower edge.
    blockstart
        A line above the box, for languages whose comments are blocks.
    blockend
        A line below it.
    title
        What stands in the middle.
    text
        What stands below it.
    newline
        Whether a newline ends it.

    CLI Example::

        salt '*' slsutil.banner commentchar=';'
    """
    left, right = commentchar.rstrip(), commentchar.strip()
    inner = width - len(left) - len(right) - 2
    if inner <= 0:
        raise ArgumentValueError("Width is too small to render banner")
    # The edge and the empty line hold the whole comment sign, the others its visible part: with
    # " *" each has the width that it has in stock.
    edge = commentchar + borderchar[:1] * (width - len(left) - len(right)) + right
    empty = commentchar + " " * (width - 2 * len(commentchar)) + commentchar
    lines = [
        edge,
        empty,
        *(
            f"{left} {line.center(inner)} {right}"
            for line in textwrap.wrap(_or(title, _TITLE), inner)
        ),
        empty,
        *(f"{left} {line.ljust(inner)} {right}" for line in textwrap.wrap(_or(text, _TEXT), inner)),
        edge,
    ]
    around = [blockstart, *lines, blockend]
    box = os.linesep.join(line for line in around if line is not None)
    return box + os.linesep if newline else box


def _or(given: str | None, default: str) -> str:
    return default if given is None else given


def boolstr(value: Any, true: Any = "true", false: Any = "false") -> Any:
    """
    One of two words, by the truth of a value.

    CLI Example::

        salt '*' slsutil.boolstr True yes no
    """
    return true if value else false


def file_exists(path: str, saltenv: str = "base") -> bool:
    """
    Whether there is a file in the tree of states.

    CLI Example::

        salt '*' slsutil.file_exists nginx/defaults.yaml
    """
    return path in __salt__["cp.list_master"](saltenv)


def dir_exists(path: str, saltenv: str = "base") -> bool:
    """
    Whether there is a directory in the tree of states.

    CLI Example::

        salt '*' slsutil.dir_exists nginx/files
    """
    return path in __salt__["cp.list_master_dirs"](saltenv)


def path_exists(path: str, saltenv: str = "base") -> bool:
    """
    Whether there is a file or directory in the tree of states.

    CLI Example::

        salt '*' slsutil.path_exists nginx/defaults.yaml
    """
    return file_exists(path, saltenv) or dir_exists(path, saltenv)


def findup(startpath: str, filenames: Any, saltenv: str = "base") -> str:
    """
    The first of some names in a directory of the tree or in the nearest one above it.

    CLI Example::

        salt '*' slsutil.findup formulas/shared/nginx map.jinja
    """
    here = posixpath.normpath(startpath) if startpath else ""
    if here and not path_exists(here, saltenv):
        raise SaltInvocationError(f"Starting path not found in the state tree: {here}")
    names = [filenames] if isinstance(filenames, str) else filenames
    if not isinstance(names, list):
        raise SaltInvocationError("Filenames argument must be a string or list of strings")
    while True:
        for name in names:
            found = posixpath.join(here, name)
            if path_exists(found, saltenv):
                return found
        if not here:
            raise CommandExecutionError("File pattern(s) not found in path ancestry")
        here = os.path.dirname(here)
