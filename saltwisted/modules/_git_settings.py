"""
The settings of C{git}, of a repository or of a user.
"""

from __future__ import annotations

from typing import Any

from saltwisted.modules import _git_output
from saltwisted.modules._git import GitCall, GitCalls, listed, reserved
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

_git = GitCalls(globals())


def _git_config(
    everywhere: Any,
    cwd: Any,
    user: str | None,
    password: str | None,
    ignore_retcode: bool,
    output_encoding: str | None,
) -> GitCall:
    """
    Git for a repository, or for the user if C{everywhere}.

    @raises SaltInvocationError: it is not said for which.
    """
    if cwd is None and not everywhere:
        raise SaltInvocationError("'cwd' argument required unless global=True")
    return _git(cwd, user, password, ignore_retcode, output_encoding)


def _scope(everywhere: Any) -> str:
    return "--global" if everywhere else "--local"


def _values(git: GitCall, everywhere: Any, key: str) -> list[str] | None:
    """All values of a setting, C{None} if it is not set."""
    result = git.run("config", _scope(everywhere), "--get-all", key, failhard=False)
    return None if result["retcode"] == 1 else list(result["stdout"].splitlines())


def config_get(
    key: str,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> Any:
    """
    A setting of the repository, or with C{global=True} of the user.

    @return: its last value, C{None} if it is not set; with C{all=True} a list of all of them.

    CLI Example::

        salt '*' git.config_get user.name cwd=/srv/checkout
    """
    every, everywhere = reserved(kwargs, "all", "global")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    values = _values(git, everywhere, key)
    if every or values is None:
        return values
    return values[-1] if values else ""


def config_get_regexp(
    key: str,
    value_regex: str | None = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, list[str]]:
    """
    The settings whose names, and values if asked, fit regular expressions.

    @return: the values of each.

    CLI Example::

        salt '*' git.config_get_regexp 'user\\..*' cwd=/srv/checkout
    """
    (everywhere,) = reserved(kwargs, "global")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    more = [] if value_regex is None else [value_regex]
    words = [_scope(everywhere), "--get-regexp", key, *more]
    result = git.run("config", *words, failhard=False)
    return _git_output.settings(result["stdout"]) if result["retcode"] != 1 else {}


config_get_regex = config_get_regexp


def config_set(
    key: str,
    value: Any = None,
    multivar: Any = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> list[str]:
    """
    Set a setting of the repository, or with C{global=True} of the user.

    @param value: the only value, or with C{add=True} one more.
    @param multivar: all the values, a list or text cut at its commas.
    @return: all values it has afterwards.

    CLI Example::

        salt '*' git.config_set user.email me@example.org cwd=/srv/checkout
    """
    add_, everywhere = reserved(kwargs, "add", "global")
    if value is not None and multivar is not None:
        raise SaltInvocationError("Only one of 'value' and 'multivar' is permitted")
    if value is None and multivar is None:
        raise SaltInvocationError("One of 'value' and 'multivar' is required")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    values = [str(value)] if value is not None else listed(multivar)
    for index, item in enumerate(values):
        how = "--add" if index or (add_ and value is not None) else "--replace-all"
        git.run("config", *(["--global"] if everywhere else []), how, key, item)
    return _values(git, everywhere, key)  # type: ignore[return-value]


def config_unset(
    key: str,
    value_regex: str | None = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> bool:
    """
    Remove a setting, with C{all=True} all its values.

    @raises CommandExecutionError: it is not there, or has several values.

    CLI Example::

        salt '*' git.config_unset user.email cwd=/srv/checkout
    """
    every, everywhere = reserved(kwargs, "all", "global")
    git = _git_config(everywhere, cwd, user, password, ignore_retcode, output_encoding)
    words = ["--unset-all" if every else "--unset", _scope(everywhere), str(key)]
    if value_regex is not None:
        words.append(str(value_regex))
    result = git.run("config", *words, failhard=False)
    retcode = result["retcode"]
    if retcode == 0:
        return True
    if retcode == 1:
        raise CommandExecutionError("Section or key is invalid")
    if retcode == 5:
        if _values(git, everywhere, key) is None:
            raise CommandExecutionError(f"Key '{key}' does not exist")
        text = f"Multiple values exist for key '{key}'"
        if value_regex is not None:
            text += " and value_regex matches multiple values"
        raise CommandExecutionError(text)
    if retcode == 6:
        raise CommandExecutionError("The value_regex is invalid")
    text = f"Failed to unset key '{key}', git config returned exit code {retcode}"
    if result["stderr"]:
        text += f"; {result['stderr']}"
    raise CommandExecutionError(text)
