"""
What trees of states ask for while they are rendered: merging, rendering, looking for files.

C{serialize}, C{deserialize} and C{banner} of Salt's module of this name are not here.
"""

from __future__ import annotations

import os
import posixpath
from typing import Any

from saltwisted.domain.render import tree
from saltwisted.worker import templates
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any


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
