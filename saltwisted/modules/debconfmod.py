"""
Answers to the questions of packages (virtual module C{debconf}).
"""

from __future__ import annotations

import logging
import re
from typing import Any

from saltwisted.modules import _files
from saltwisted.worker import systools

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__grains__: dict[str, Any]

__virtualname__ = "debconf"
__func_alias__ = {"set_": "set"}


def __virtual__() -> Any:
    if __grains__["os_family"] != "Debian":
        return (False, "The debconfmod module could not be loaded: unsupported OS family")
    if systools.which("debconf-get-selections") is None:
        return (
            False,
            "The debconfmod module could not be loaded: debconf-utils is not installed.",
        )
    return __virtualname__


_LINE = re.compile(r"^([^#\s]\S+)[\t ]+(\S+)[\t ]+(\S+)[\t ]+([^\n]*)$", re.MULTILINE)


def get_selections(fetchempty: bool = True) -> dict[str, list[list[str]]]:
    """
    All answers: package to lists of question, type and value.

    @param fetchempty: with empty values.

    CLI Example::

        salt '*' debconf.get_selections
    """
    found: dict[str, list[list[str]]] = {}
    output = __salt__["cmd.run_stdout"]("debconf-get-selections")
    for package, question, kind, value in _LINE.findall(output):
        if fetchempty or value:
            found.setdefault(package, []).append([question, kind, value])
    return found


def show(name: str) -> list[list[str]] | None:
    """
    The answers for a package; C{None} if there are none.

    CLI Example::

        salt '*' debconf.show <package name>
    """
    return get_selections().get(name)


def _load(path: str) -> None:
    __salt__["cmd.run_stdout"](["debconf-set-selections", path], python_shell=False)


def set_(package: str, question: str, type: str, value: str, *extra: str) -> bool:
    """
    Answer a question; values with blanks may be given as several words.

    CLI Example::

        salt '*' debconf.set <package> <question> <type> <value> [<value> ...]
    """
    path = _files.mkstemp(prefix="salt-")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(" ".join((package, question, type, str(value), *extra)))
        _load(path)
    finally:
        _files.safe_remove(path)
    return True


def set_template(
    path: str, template: str, context: Any, defaults: Any, saltenv: str = "base", **kwargs: Any
) -> bool:
    """
    Answers from a template on the master.

    CLI Example::

        salt '*' debconf.set_template salt://pathto/pkg.selections.jinja jinja None None
    """
    rendered = __salt__["cp.get_template"](
        path=path,
        dest=None,
        template=template,
        saltenv=saltenv,
        context=context,
        defaults=defaults,
        **kwargs,
    )
    return set_file(rendered, saltenv, **kwargs)


def set_file(path: str, saltenv: str = "base", **kwargs: Any) -> bool:
    """
    Answers from a file on the master; false if it is not there.

    CLI Example::

        salt '*' debconf.set_file salt://pathto/pkg.selections
    """
    cached = __salt__["cp.cache_file"](path, saltenv)
    if not cached:
        return False
    _load(cached)
    return True
