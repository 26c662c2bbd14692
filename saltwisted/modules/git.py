"""
Repositories by the C{git} program.

C{cwd} is the checkout, from the home of C{user} (or of who runs this) if it is relative. C{opts}
go behind the subcommand and C{git_opts} before it, as a list or as text that is split as a shell
would. Most functions answer with what git has printed.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import shlex
import shutil
import tempfile
import urllib.parse
from collections.abc import Mapping
from typing import Any

from saltwisted.modules import _data, _packages
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

__salt__: dict[str, Any]
__opts__: dict[str, Any]
__context__: dict[str, Any]

__func_alias__ = {"rm_": "rm"}

_SSH = (
    "ssh -oStrictHostKeyChecking=accept-new -oPasswordAuthentication=no"
    " -oKbdInteractiveAuthentication=no -oChallengeResponseAuthentication=no -i "
)
"""How an identity is used: by nobody's input; hosts may be new, but not have changed."""

_LOGIN = re.compile(r"(https?)://.*@", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"BEGIN (?:\w+\s)*PRIVATE KEY")
_FETCHED = re.compile(
    r"[\s*]*(?:(?P<old>[0-9a-f]+)\.\.(?P<new>[0-9a-f]+)"
    r"|\[(?:new (?P<kind>tag|branch)|tag update)\])\s+(?P<name>.+)->"
)
_STATES = {"M": "modified", "A": "new", "D": "deleted", "??": "untracked"}
_ANSWERS = ("worktree", "HEAD", "branch")


def __virtual__() -> Any:
    if systools.which("git") is None:
        return False, "The git execution module cannot be loaded: git unavailable."
    return True


def _redact(text: str) -> str:
    """Without user names and passwords in addresses."""
    return _LOGIN.sub(r"\1://<redacted>@", text)


def _with_login(url: Any, user: str | None, password: str | None) -> str:
    """
    An address that carries its user and password.

    @raises SaltInvocationError: they would travel in the open.
    """
    if user is None and password is None:
        return str(url)
    parts = urllib.parse.urlparse(str(url))
    if parts.scheme != "https":
        raise SaltInvocationError("Basic Auth only supported for HTTPS")
    login = urllib.parse.quote(user or "", safe="")
    if password is not None:
        login += ":" + urllib.parse.quote(password, safe="")
    return urllib.parse.urlunparse(parts._replace(netloc=f"{login}@{parts.netloc}"))


def _words(options: Any) -> list[str]:
    """Options as words; a closing C{--} is dropped, the functions set their own."""
    if options is None:
        return []
    if isinstance(options, list):
        return [str(item) for item in options]
    words = shlex.split(options) if isinstance(options, str) else [str(options)]
    return words[:-1] if words and words[-1] == "--" else words


def _listed(value: Any) -> list[str]:
    """A list as it is, else text cut at its commas."""
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    return str(value).split(",")


def _place(cwd: Any, user: Any) -> str:
    return os.path.join(os.path.expanduser(f"~{user or ''}"), str(cwd))


def _only(kwargs: Mapping[str, Any], *names: str) -> list[Any]:
    """
    Arguments whose names are taken by Python's own, in this order, C{None} if they are not given.

    @raises SaltInvocationError: there are others.
    """
    given = _data.clean_kwargs(**kwargs)
    found = [given.pop(name, None) for name in names]
    _data.invalid_kwargs(given)
    return found


def _is_encrypted(path: str) -> bool:
    """
    Whether a private key asks for a passphrase.

    @raises CommandExecutionError: it cannot be read, or is no private key.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError as error:
        raise CommandExecutionError(f"{path} does not exist") from error
    except PermissionError as error:
        raise CommandExecutionError(f"Permission denied reading from {path}") from error
    except OSError as error:
        raise CommandExecutionError(
            f"Error {error.errno} encountered reading from {path}: {error.strerror}"
        ) from error
    if not _PRIVATE_KEY.search(text):
        raise CommandExecutionError(f"{path} is not a private key")
    if "ENCRYPTED" in text:
        return True
    if "BEGIN OPENSSH" not in text:
        return False
    # OpenSSH's own form: a mark, then the name of the cipher with its length before it.
    inner = "".join(line for line in text.split("\n") if line and not line.startswith("-"))
    try:
        raw = base64.b64decode(inner)
    except binascii.Error:
        return False
    mark = b"openssh-key-v1\0"
    return raw.startswith(mark) and raw[len(mark) :][:8] != b"\0\0\0\4none"


def _run(
    command: list[str],
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    failhard: bool = True,
    redirect_stderr: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> dict[str, Any]:
    """
    Run git.

    @param identity: private keys to try one after the other, files or C{salt://} addresses.
    @param failhard: raise if git fails.
    @return: what C{cmd.run_all} gives.
    @raises CommandExecutionError: git has failed, with each of the keys if there are any.
    """
    options: dict[str, Any] = {
        "cwd": cwd,
        "runas": user,
        "password": password,
        "python_shell": False,
        "log_callback": _redact,
        "ignore_retcode": ignore_retcode,
        "redirect_stderr": redirect_stderr,
        "output_encoding": output_encoding,
    }
    said = "stdout" if redirect_stderr else "stderr"
    if identity:
        return _run_with_keys(command, identity, saltenv, failhard, said, options)
    result: dict[str, Any] = __salt__["cmd.run_all"](command, env={}, **options)
    if result["retcode"] and failhard:
        text = f"Command '{_redact(' '.join(command))}' failed"
        if result[said]:
            text += f": {_redact(result[said])}"
        raise CommandExecutionError(text)
    return result


def _run_with_keys(
    command: list[str],
    identity: Any,
    saltenv: str,
    failhard: bool,
    said: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    errors: list[str] = []
    missing: list[str] = []
    result: dict[str, Any] | None = None
    for key in identity if isinstance(identity, list) else [identity]:
        with tempfile.TemporaryDirectory(prefix="git-identity-") as folder:
            path = key
            if "salt://" in key:
                path = _fetch_key(key, os.path.join(folder, "key"), saltenv, options["runas"])
            elif not __salt__["file.file_exists"](key):
                missing.append(key)
                path = ""
            if not path:
                log.error("identity %s does not exist.", key)
                continue
            if "salt-call" not in __opts__.get("__cli", "") and _is_encrypted(path):
                errors.append(
                    f"Identity file {path} is passphrase-protected and cannot be used in a"
                    " non-interactive command. Using salt-call from the minion will allow a"
                    " passphrase-protected key to be used."
                )
                continue
            log.info("Attempting git authentication using identity file %s", path)
            env = {"GIT_IDENTITY": path, "GIT_SSH_COMMAND": _SSH + shlex.quote(path)}
            result = __salt__["cmd.run_all"](command, env=env, **options)
        if result is not None and result["retcode"] == 0:
            return result
        if result is not None and result[said]:
            errors.append(_redact(result[said]))
    if failhard or result is None:
        text = "Unable to authenticate using identity file:\n\n" + "\n".join(errors)
        if missing:
            text += "\n\n" if errors else ""
            text += f"The following identity file(s) were not found: {', '.join(missing)}"
        raise CommandExecutionError(text)
    return result


def _fetch_key(source: str, path: str, saltenv: str, user: str | None) -> str:
    """A key of the master in a private file, which C{user} may read; or the empty string."""
    if not __salt__["cp.get_file"](source, path, saltenv):
        return ""
    os.chmod(path, 0o600)
    if user:
        try:
            for owned in (path, os.path.dirname(path)):
                shutil.chown(owned, user)
        except (LookupError, OSError) as error:
            raise CommandExecutionError(f"Unable to give {source} to {user}: {error}") from error
    return path


def _old(version_: str) -> bool:
    """Whether this git is older than that version."""
    return _packages.loose_compare(version(versioninfo=False), version_) < 0


def _check_worktree_support() -> None:
    if _old("2.5.0"):
        raise CommandExecutionError(
            "Worktrees are only supported in git 2.5.0 and newer (detected git version: "
            f"{version(versioninfo=False)})"
        )


def _git_config(
    command: list[str], cwd: Any, everywhere: Any, options: dict[str, Any], failhard: bool = False
) -> dict[str, Any]:
    """
    Run C{git config} for a repository, or for the user.

    @raises SaltInvocationError: it is not said for which.
    """
    if cwd is None:
        if not everywhere:
            raise SaltInvocationError("'cwd' argument required unless global=True")
    else:
        cwd = _place(cwd, options["user"])
    return _run(["git", "config", *command], cwd=cwd, failhard=failhard, **options)


def _scope(everywhere: Any) -> str:
    return "--global" if everywhere else "--local"


def _refs(output: str) -> dict[str, str]:
    """What C{git ls-remote} prints: names and their hashes."""
    pairs = (line.split(None, 1) for line in output.split("\n"))
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def add(
    cwd: str,
    filename: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Put a file into the index.

    @return: what git has printed, a line for each file.

    CLI Example::

        salt '*' git.add /srv/checkout file.txt opts='--force'
    """
    more = [word for word in _words(opts) if word not in ("-v", "--verbose")]
    return str(
        _run(
            ["git", *_words(git_opts), "add", "--verbose", *more, "--", str(filename)],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def archive(
    cwd: str,
    output: str,
    rev: str = "HEAD",
    prefix: str | None = None,
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> bool:
    """
    Write the files of a commit into an archive.

    @param output: the archive; its ending says its kind unless C{format} does.
    @param prefix: what goes before each name; C{None} for the name of the checkout and a slash.

    CLI Example::

        salt '*' git.archive /srv/checkout /tmp/checkout.tar.gz rev=v1.0
    """
    (format_,) = _only(kwargs, "format")
    cwd, output = _place(cwd, user), _place(output, user)
    command = ["git", *_words(git_opts), "archive"]
    if prefix != "":
        command += ["--prefix", prefix or os.path.basename(cwd) + os.sep]
    if format_:
        command += ["--format", str(format_)]
    _run(
        [*command, "--output", output, str(rev)],
        cwd=cwd,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    return True


def branch(
    cwd: str,
    name: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> bool:
    """
    Make a branch, or with C{opts} delete or rename it.

    CLI Example::

        salt '*' git.branch /srv/checkout topic opts='--force'
    """
    more = [] if name is None else [str(name)]
    _run(
        ["git", *_words(git_opts), "branch", *_words(opts), *more],
        cwd=_place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    return True


def checkout(
    cwd: str,
    rev: str | None = None,
    force: bool = False,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Check out a commit.

    @raises SaltInvocationError: no C{rev}, and no new branch in C{opts} either.

    CLI Example::

        salt '*' git.checkout /srv/checkout topic force=True
    """
    words = _words(opts)
    if rev is None and "-b" not in words and "-B" not in words:
        raise SaltInvocationError("'rev' argument is required unless -b or -B in opts")
    command = [
        "git",
        *_words(git_opts),
        "checkout",
        *(["--force"] if force else []),
        *words,
        *([] if rev is None else [str(rev)]),
    ]
    return str(
        _run(
            command,
            cwd=_place(cwd, user),
            redirect_stderr=True,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def clone(
    cwd: str,
    url: str | None = None,
    name: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> bool:
    """
    Clone a repository to C{cwd}, or into it as C{name}.

    @param identity: private keys to try, files or C{salt://} addresses.

    CLI Example::

        salt '*' git.clone /srv git://example.org/project.git name=checkout
    """
    cwd = _place(cwd, user)
    if not url:
        raise SaltInvocationError("Missing 'url' argument")
    command = [
        "git",
        *_words(git_opts),
        "clone",
        *_words(opts),
        "--",
        _with_login(url, https_user, https_pass),
    ]
    if name is None:
        command.append(cwd)
        folder = "/tmp"
    else:
        command.append(str(name))
        os.makedirs(cwd, exist_ok=True)
        folder = cwd
    _run(
        command,
        cwd=folder,
        identity=identity,
        saltenv=saltenv,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    return True


def commit(
    cwd: str,
    message: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    filename: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Commit the index, or just one file.

    CLI Example::

        salt '*' git.commit /srv/checkout 'A message' opts='--author="Me <me@example.org>"'
    """
    more = ["--", str(filename)] if filename else []
    return str(
        _run(
            ["git", *_words(git_opts), "commit", "-m", str(message), *_words(opts), *more],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


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
    every, everywhere = _only(kwargs, "all", "global")
    options: dict[str, Any] = {
        "user": user,
        "password": password,
        "ignore_retcode": ignore_retcode,
        "output_encoding": output_encoding,
    }
    result = _git_config([_scope(everywhere), "--get-all", str(key)], cwd, everywhere, options)
    if result["retcode"] == 1:
        return None
    values = result["stdout"].splitlines()
    return values if every else values[-1] if values else ""


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
    (everywhere,) = _only(kwargs, "global")
    options: dict[str, Any] = {
        "user": user,
        "password": password,
        "ignore_retcode": ignore_retcode,
        "output_encoding": output_encoding,
    }
    words = [
        _scope(everywhere),
        "--get-regexp",
        str(key),
        *([] if value_regex is None else [str(value_regex)]),
    ]
    result = _git_config(words, cwd, everywhere, options)
    found: dict[str, list[str]] = {}
    for line in result["stdout"].splitlines() if result["retcode"] != 1 else ():
        name, _, value = line.partition(" ")
        if value:
            found.setdefault(name, []).append(value.lstrip())
    return found


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
    add_, everywhere = _only(kwargs, "add", "global")
    if value is not None and multivar is not None:
        raise SaltInvocationError("Only one of 'value' and 'multivar' is permitted")
    if value is None and multivar is None:
        raise SaltInvocationError("One of 'value' and 'multivar' is required")
    options: dict[str, Any] = {
        "user": user,
        "password": password,
        "ignore_retcode": ignore_retcode,
        "output_encoding": output_encoding,
    }
    values = [str(value)] if value is not None else _listed(multivar)
    for index, item in enumerate(values):
        how = "--add" if index or (add_ and value is not None) else "--replace-all"
        words = [*(["--global"] if everywhere else []), how, str(key), item]
        _git_config(words, cwd, everywhere, options, failhard=True)
    result: list[str] = config_get(key, cwd=cwd, **options, **{"all": True, "global": everywhere})
    return result


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
    every, everywhere = _only(kwargs, "all", "global")
    options: dict[str, Any] = {
        "user": user,
        "password": password,
        "ignore_retcode": ignore_retcode,
        "output_encoding": output_encoding,
    }
    words = ["--unset-all" if every else "--unset", _scope(everywhere), str(key)]
    if value_regex is not None:
        words.append(str(value_regex))
    result = _git_config(words, cwd, everywhere, options)
    retcode = result["retcode"]
    if retcode == 0:
        return True
    if retcode == 1:
        raise CommandExecutionError("Section or key is invalid")
    if retcode == 5:
        if config_get(key, cwd=cwd, **options, **{"global": everywhere}) is None:
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


def current_branch(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    The branch that is checked out; C{HEAD} if there is none.

    CLI Example::

        salt '*' git.current_branch /srv/checkout
    """
    return str(
        _run(
            ["git", "rev-parse", "--abbrev-ref", "HEAD"],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def describe(
    cwd: str,
    rev: str = "HEAD",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    The nearest tag of a commit and how far it is, or its short hash.

    CLI Example::

        salt '*' git.describe /srv/checkout
    """
    return str(
        _run(
            ["git", "describe", "--always", str(rev)],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def diff(
    cwd: str | None,
    item1: str | None = None,
    item2: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    no_index: bool = False,
    cached: bool = False,
    paths: Any = None,
    output_encoding: str | None = None,
) -> str:
    """
    How two commits differ, or the checkout and one.

    @param no_index: compare two of the C{paths}, whether or not they are in the repository.
    @param cached: compare the index.

    CLI Example::

        salt '*' git.diff /srv/checkout v1.0 HEAD paths=README,setup.py
    """
    if no_index and cached:
        raise CommandExecutionError("The 'no_index' and 'cached' options cannot be used together")
    command = ["git", *_words(git_opts), "diff", *_words(opts)]
    items = [str(item) for item in (item1, item2) if item]
    if no_index:
        command.append("--no-index")
        for item in items:
            log.warning(
                "Revision '%s' ignored in git diff, as revisions cannot be used when no_index=True",
                item,
            )
    elif cached:
        command.append("--cached")
        if item1:
            command.append(str(item1))
        if item2:
            log.warning(
                "Second revision '%s' ignored in git diff, at most one revision is considered when"
                " cached=True",
                item2,
            )
    else:
        command += items
    if paths:
        command += ["--", *_listed(paths)]
    # Without the index git tells by its code that there are differences.
    return str(
        _run(
            command,
            cwd=cwd,
            user=user,
            password=password,
            ignore_retcode=no_index,
            failhard=not no_index,
            redirect_stderr=True,
            output_encoding=output_encoding,
        )["stdout"]
    )


def discard_local_changes(
    cwd: str,
    path: str = ".",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Take a path from the index as it was.

    CLI Example::

        salt '*' git.discard_local_changes /srv/checkout path=README
    """
    return str(
        _run(
            ["git", "checkout", "--", str(path)],
            cwd=_place(cwd, user),
            redirect_stderr=True,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def fetch(
    cwd: str,
    remote: str | None = None,
    force: bool = False,
    refspecs: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> dict[str, Any]:
    """
    Fetch from a remote.

    @return: C{updated branches} with their C{old} and C{new} hashes, and the names of
        C{new branches}, C{new tags} and C{updated tags}, each only if there are any.

    CLI Example::

        salt '*' git.fetch /srv/checkout origin
    """
    command = ["git", *_words(git_opts), "fetch", *(["--force"] if force else [])]
    command += [word for word in _words(opts) if word not in ("-f", "--force")]
    if remote:
        command.append(str(remote))
    if refspecs is not None:
        command += _listed(refspecs)
    output = _run(
        command,
        cwd=_place(cwd, user),
        identity=identity,
        redirect_stderr=True,
        saltenv=saltenv,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )["stdout"]
    changes: dict[str, Any] = {}
    for match in filter(None, map(_FETCHED.match, output.split("\n"))):
        name = match["name"].rstrip()
        if match["kind"]:
            what = "new tags" if match["kind"] == "tag" else "new branches"
            changes.setdefault(what, []).append(name)
        elif match["old"]:
            pair = {"old": match["old"], "new": match["new"]}
            changes.setdefault("updated branches", {})[name] = pair
        else:
            changes.setdefault("updated tags", []).append(name)
    return changes


def init(
    cwd: str,
    bare: bool = False,
    template: str | None = None,
    separate_git_dir: str | None = None,
    shared: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Make a repository.

    @param shared: who may write: a word of git's, true or false, or a mode as a number whose
        decimal digits are meant as octal ones.

    CLI Example::

        salt '*' git.init /srv/checkout.git bare=True
    """
    cwd = _place(cwd, user)
    command = ["git", *_words(git_opts), "init", *(["--bare"] if bare else [])]
    if template is not None:
        command.append(f"--template={template}")
    if separate_git_dir is not None:
        command.append(f"--separate-git-dir={separate_git_dir}")
    if shared is not None:
        if isinstance(shared, int) and not isinstance(shared, bool):
            shared = f"0{shared}"
        elif not isinstance(shared, str):
            shared = str(shared).lower()
        command.append(f"--shared={shared}")
    return str(
        _run(
            [*command, *_words(opts), cwd],
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def is_worktree(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
) -> bool:
    """
    Whether a checkout is a worktree, which belongs to a repository elsewhere.

    CLI Example::

        salt '*' git.is_worktree /srv/checkout
    """
    try:
        result = _run(
            ["git", "rev-parse", "--show-toplevel"],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            output_encoding=output_encoding,
        )
        with open(os.path.join(result["stdout"], ".git"), encoding="utf-8") as file:
            words = file.readline().split(None, 1)
    except (CommandExecutionError, OSError):
        return False
    return len(words) == 2 and words[0] == "gitdir:" and os.path.isabs(words[1])


def list_branches(
    cwd: str,
    remote: bool = False,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> list[str]:
    """
    The branches of the repository, or those of its remotes.

    CLI Example::

        salt '*' git.list_branches /srv/checkout remote=True
    """
    kind = "remotes" if remote else "heads"
    output = _run(
        ["git", "for-each-ref", "--format", "%(refname:short)", f"refs/{kind}/"],
        cwd=_place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )["stdout"]
    return list(output.splitlines())


def list_tags(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> list[str]:
    """
    The tags of the repository.

    CLI Example::

        salt '*' git.list_tags /srv/checkout
    """
    output = _run(
        ["git", "for-each-ref", "--format", "%(refname:short)", "refs/tags/"],
        cwd=_place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )["stdout"]
    return list(output.splitlines())


def list_worktrees(
    cwd: str,
    stale: bool = False,
    user: str | None = None,
    password: str | None = None,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    The worktrees of a repository whose directories are there.

    @param stale: those whose directories are gone; with C{all=True} both.
    @return: by directory C{HEAD}, C{branch}, C{detached}, C{stale}, and the C{tags} of a detached
        commit.

    CLI Example::

        salt '*' git.list_worktrees /srv/checkout all=True
    """
    _check_worktree_support()
    (every,) = _only(kwargs, "all")
    if every and stale:
        raise CommandExecutionError("'all' and 'stale' cannot both be set to True")
    if _old("2.7.0"):
        raise CommandExecutionError("git lists its worktrees only from version 2.7.0 on")
    cwd = _place(cwd, user)
    options: dict[str, Any] = {
        "user": user,
        "password": password,
        "output_encoding": output_encoding,
    }
    output = _run(["git", "worktree", "list", "--porcelain"], cwd=cwd, **options)["stdout"]
    found: dict[str, Any] = {}
    for block in output.strip().split("\n\n"):
        facts: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = (
                "branch detached".partition(" ")
                if line == "detached"
                else line.strip().partition(" ")
            )
            if name in _ANSWERS and value:
                facts.setdefault(name, value.lstrip())
        if len(facts) < len(_ANSWERS):
            # A bare repository is listed as well, without a commit.
            log.debug("git.worktree: incomplete data:\n%s", block)
            continue
        gone = not os.path.isdir(facts["worktree"])
        if not every and gone != bool(stale):
            continue
        detached = facts["branch"] == "detached"
        entry = {
            "stale": gone,
            "HEAD": facts["HEAD"],
            "detached": detached,
            "branch": None if detached else facts["branch"].replace("refs/heads/", "", 1),
        }
        if detached:
            tags = _run(["git", "tag", "--points-at", facts["HEAD"]], cwd=cwd, **options)
            if tags["stdout"]:
                entry["tags"] = tags["stdout"].splitlines()
        found[facts["worktree"]] = entry
    return found


def ls_remote(
    cwd: str | None = None,
    remote: str = "origin",
    ref: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    saltenv: str = "base",
) -> dict[str, str]:
    """
    The names of a remote, which may be an address, and their hashes.

    CLI Example::

        salt '*' git.ls_remote /srv/checkout origin ref=main
    """
    command = ["git", *_words(git_opts), "ls-remote", *_words(opts)]
    command.append(_with_login(remote, https_user, https_pass))
    if ref:
        command.append(str(ref))
    return _refs(
        _run(
            command,
            cwd=None if cwd is None else _place(cwd, user),
            identity=identity,
            saltenv=saltenv,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def merge(
    cwd: str,
    rev: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Merge a commit, or what the branch follows.

    CLI Example::

        salt '*' git.merge /srv/checkout topic
    """
    _only(kwargs)
    more = [str(rev)] if rev else []
    return str(
        _run(
            ["git", *_words(git_opts), "merge", *_words(opts), *more],
            cwd=_place(cwd, user),
            identity=identity,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def merge_base(
    cwd: str,
    refs: Any = None,
    octopus: bool = False,
    is_ancestor: bool = False,
    independent: bool = False,
    fork_point: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> Any:
    """
    The best common ancestor of commits, with C{all=True} a list of all of them.

    @param refs: a list, or text cut at its commas.
    @param octopus: of all at once.
    @param is_ancestor: tell whether the first of two is an ancestor of the second.
    @param independent: those that cannot be reached from others.
    @param fork_point: the commit at which a branch has left this one.

    CLI Example::

        salt '*' git.merge_base /srv/checkout refs=main,topic
    """
    (every,) = _only(kwargs, "all")
    if every and (independent or is_ancestor or fork_point):
        raise SaltInvocationError(
            "The 'all' argument is not compatible with 'independent', 'is_ancestor', or"
            " 'fork_point'"
        )
    names = [] if refs is None else [name.strip() for name in _listed(refs)]
    if sum(map(bool, (octopus, independent, is_ancestor, fork_point))) > 1:
        raise SaltInvocationError(
            "Only one of 'octopus', 'independent', 'is_ancestor', and 'fork_point' is permitted"
        )
    if is_ancestor and len(names) != 2:
        raise SaltInvocationError("Two refs/commits are required if 'is_ancestor' is True")
    if fork_point and len(names) > 1:
        raise SaltInvocationError(
            "At most one ref/commit can be passed if 'fork_point' is specified"
        )
    command = ["git", *_words(git_opts), "merge-base", *_words(opts), *(["--all"] if every else [])]
    if octopus:
        command.append("--octopus")
    elif is_ancestor:
        command.append("--is-ancestor")
    elif independent:
        command.append("--independent")
    elif fork_point:
        command += ["--fork-point", str(fork_point)]
        names = names or ["HEAD"]
    result = _run(
        [*command, *names],
        cwd=_place(cwd, user),
        failhard=not is_ancestor,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    if is_ancestor:
        return result["retcode"] == 0
    bases = result["stdout"].splitlines()
    return bases if every else bases[0] if bases else ""


def merge_tree(
    cwd: str,
    ref1: str,
    ref2: str,
    base: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    What a merge would change, without doing it.

    CLI Example::

        salt '*' git.merge_tree /srv/checkout main topic
    """
    if base is None:
        try:
            base = merge_base(
                cwd,
                refs=[ref1, ref2],
                user=user,
                password=password,
                ignore_retcode=ignore_retcode,
                output_encoding=output_encoding,
            )
        except (SaltInvocationError, CommandExecutionError) as error:
            raise CommandExecutionError(
                f"Unable to determine merge base for {ref1} and {ref2}"
            ) from error
    return str(
        _run(
            ["git", "merge-tree", str(base), str(ref1), str(ref2)],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def pull(
    cwd: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
) -> str:
    """
    Fetch what the branch follows and merge it.

    CLI Example::

        salt '*' git.pull /srv/checkout opts='--rebase origin main'
    """
    return str(
        _run(
            ["git", *_words(git_opts), "pull", *_words(opts)],
            cwd=_place(cwd, user),
            identity=identity,
            saltenv=saltenv,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def push(
    cwd: str,
    remote: str | None = None,
    ref: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Send commits to a remote.

    @param ref: what to send, as C{local:remote} if it is to have another name there.

    CLI Example::

        salt '*' git.push /srv/checkout origin main
    """
    _only(kwargs)
    more = [str(word) for word in (remote, ref) if word is not None]
    return str(
        _run(
            ["git", *_words(git_opts), "push", *_words(opts), *more],
            cwd=_place(cwd, user),
            identity=identity,
            saltenv=saltenv,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def rebase(
    cwd: str,
    rev: str = "master",
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Put the commits of this branch onto another one; C{rev} is split as a shell would.

    CLI Example::

        salt '*' git.rebase /srv/checkout main
    """
    words = _words(opts)
    if "-i" in words or "--interactive" in words:
        raise SaltInvocationError("Interactive rebases are not supported")
    return str(
        _run(
            ["git", *_words(git_opts), "rebase", *words, *shlex.split(str(rev))],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def remote_get(
    cwd: str,
    remote: str = "origin",
    user: str | None = None,
    password: str | None = None,
    redact_auth: bool = True,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, str]:
    """
    The addresses of a remote, to C{fetch} and to C{push}.

    @raises CommandExecutionError: there is no such remote.

    CLI Example::

        salt '*' git.remote_get /srv/checkout origin
    """
    every = remotes(
        cwd,
        redact_auth=redact_auth,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    if remote not in every:
        raise CommandExecutionError(
            f"Remote '{remote}' not present in git checkout located at {_place(cwd, user)}"
        )
    return every[remote]


def remote_refs(
    url: str,
    heads: bool = False,
    tags: bool = False,
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    saltenv: str = "base",
    **kwargs: Any,
) -> dict[str, str]:
    """
    The names in the repository at an address and their hashes.

    @param heads: only branches.
    @param tags: only tags.

    CLI Example::

        salt '*' git.remote_refs https://example.org/project.git heads=True filter=main
    """
    (pattern,) = _only(kwargs, "filter")
    command = ["git", "ls-remote", *(["--heads"] if heads else []), *(["--tags"] if tags else [])]
    command.append(_with_login(url, https_user, https_pass))
    if pattern:
        command.append(str(pattern))
    return _refs(
        _run(
            command,
            identity=identity,
            saltenv=saltenv,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def remote_set(
    cwd: str,
    url: str,
    remote: str = "origin",
    user: str | None = None,
    password: str | None = None,
    https_user: str | None = None,
    https_pass: str | None = None,
    push_url: str | None = None,
    push_https_user: str | None = None,
    push_https_pass: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, str]:
    """
    Give a remote its addresses, new or instead of what it had.

    @return: the addresses it has now.

    CLI Example::

        salt '*' git.remote_set /srv/checkout https://example.org/project.git remote=upstream
    """
    options: dict[str, Any] = {
        "user": user,
        "password": password,
        "ignore_retcode": ignore_retcode,
        "output_encoding": output_encoding,
    }
    place = _place(cwd, user)
    address = _with_login(url, https_user, https_pass)
    if remote in remotes(cwd, user=user, password=password, output_encoding=output_encoding):
        log.debug("Remote '%s' already exists in %s, removing so it can be re-added", remote, cwd)
        _run(["git", "remote", "rm", str(remote)], cwd=place, **options)
    _run(["git", "remote", "add", str(remote), address], cwd=place, **options)
    if push_url:
        address = _with_login(push_url, push_https_user, push_https_pass)
        _run(["git", "remote", "set-url", "--push", str(remote), address], cwd=place, **options)
    return remote_get(cwd=cwd, remote=remote, **options)


def remotes(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    redact_auth: bool = True,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, dict[str, str]]:
    """
    The remotes of a checkout and their addresses.

    @param redact_auth: without users and passwords.

    CLI Example::

        salt '*' git.remotes /srv/checkout
    """
    found: dict[str, dict[str, str]] = {}
    output = _run(
        ["git", "remote", "--verbose"],
        cwd=_place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )["stdout"]
    for line in output.split("\n"):
        match = re.match(r"(\S+)\s+(.*\S)\s+\((\w+)\)", line)
        if match is None:
            continue
        name, url, action = match.groups()
        if action not in ("fetch", "push"):
            log.warning(
                "Unknown action '%s' for remote '%s' in git checkout located in %s",
                action,
                name,
                cwd,
            )
            continue
        found.setdefault(name, {})[action] = _redact(url) if redact_auth else url
    return found


def reset(
    cwd: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Reset the checkout, the index or the branch, as C{opts} say.

    CLI Example::

        salt '*' git.reset /srv/checkout opts='--hard origin/main'
    """
    return str(
        _run(
            ["git", *_words(git_opts), "reset", *_words(opts)],
            cwd=_place(cwd, user),
            identity=identity,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def rev_parse(
    cwd: str,
    rev: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Ask C{git rev-parse}.

    CLI Example::

        salt '*' git.rev_parse /srv/checkout main opts='--verify'
    """
    more = [] if rev is None else [str(rev)]
    return str(
        _run(
            ["git", *_words(git_opts), "rev-parse", *_words(opts), *more],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def revision(
    cwd: str,
    rev: str = "HEAD",
    short: bool = False,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    The hash of a commit.

    CLI Example::

        salt '*' git.revision /srv/checkout main short=True
    """
    more = ["--short"] if short else []
    return str(
        _run(
            ["git", "rev-parse", *more, str(rev)],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def rm_(
    cwd: str,
    filename: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Remove a file from the checkout and the index.

    CLI Example::

        salt '*' git.rm /srv/checkout file.txt opts='--cached'
    """
    return str(
        _run(
            ["git", *_words(git_opts), "rm", *_words(opts), "--", str(filename)],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def stash(
    cwd: str,
    action: str = "save",
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Put changes aside, or fetch them back.

    CLI Example::

        salt '*' git.stash /srv/checkout pop opts='stash@{0}'
    """
    return str(
        _run(
            ["git", *_words(git_opts), "stash", str(action), *_words(opts)],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def status(
    cwd: str,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> dict[str, list[str]]:
    """
    The files that are C{modified}, C{new}, C{deleted}, C{untracked}, or what git's letter says.

    CLI Example::

        salt '*' git.status /srv/checkout
    """
    output = _run(
        ["git", "status", "-z", "--porcelain"],
        cwd=_place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )["stdout"]
    found: dict[str, list[str]] = {}
    for line in output.split("\0"):
        words = line.split(None, 1)
        if len(words) == 2:
            found.setdefault(_STATES.get(words[0], words[0]), []).append(words[1])
    return found


def submodule(
    cwd: str,
    command: str,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    identity: Any = None,
    ignore_retcode: bool = False,
    saltenv: str = "base",
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command of C{git submodule}.

    CLI Example::

        salt '*' git.submodule /srv/checkout update opts='--init --recursive'
    """
    (init_,) = _only(kwargs, "init")
    if init_:
        raise SaltInvocationError(
            "The 'init' argument is no longer supported. Either set 'command' to 'init', or include"
            " '--init' in the 'opts' argument and set 'command' to 'update'."
        )
    return str(
        _run(
            ["git", *_words(git_opts), "submodule", str(command), *_words(opts)],
            cwd=_place(cwd, user),
            identity=identity,
            saltenv=saltenv,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def symbolic_ref(
    cwd: str,
    ref: str,
    value: Any = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    What a symbolic name stands for, or with C{value} let it stand for that.

    CLI Example::

        salt '*' git.symbolic_ref /srv/checkout HEAD refs/heads/main
    """
    words = _words(opts)
    if value is not None and ("-d" in words or "--delete" in words):
        raise SaltInvocationError(
            "Value cannot be set for symbolic ref if -d/--delete is included in opts"
        )
    more = (
        []
        if not value
        else [str(value)]
        if not isinstance(value, list)
        else [str(item) for item in value]
    )
    return str(
        _run(
            ["git", *_words(git_opts), "symbolic-ref", *words, str(ref), *more],
            cwd=_place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def tag(
    cwd: str,
    name: str,
    ref: str = "HEAD",
    message: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Tag a commit; with a C{message} the tag is an object of its own.

    CLI Example::

        salt '*' git.tag /srv/checkout v1.0 message='The first one'
    """
    words = [word for word in _words(opts) if word not in ("-a", "--annotate")]
    if any(word == "-m" or "--message" in word for word in words):
        raise SaltInvocationError('Tag messages must be passed in the "message" argument')
    command = ["git", *_words(git_opts), "tag"]
    if message is not None:
        command += ["-a", "-m", str(message)]
    command += [*words, str(name)]
    if "-d" not in words and "--delete" not in words:
        command.append(str(ref))
    return str(
        _run(
            command,
            cwd=_place(cwd, user),
            redirect_stderr=True,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def version(versioninfo: bool = False) -> Any:
    """
    The version of git.

    @param versioninfo: as a list of its parts, numbers where they are.

    CLI Example::

        salt '*' git.version
    """
    if "git.version" not in __context__:
        try:
            words = _run(["git", "--version"])["stdout"].split("(")[0].split(".windows")[0].split()
        except CommandExecutionError as error:
            log.error("Failed to obtain the git version (error follows):\n%s", error)
            words = []
        __context__["git.version"] = words[-1] if words else "unknown"
    found: str = __context__["git.version"]
    if not versioninfo:
        return found
    return [int(part) if part.isdigit() else part for part in found.split(".")]


def worktree_add(
    cwd: str,
    worktree_path: str,
    ref: str | None = None,
    reset_branch: bool | None = None,
    force: bool | None = None,
    detach: bool = False,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Make a worktree.

    @param ref: the commit to check out, instead of the one that is checked out.
    @param reset_branch: the branch may exist and is set to that commit.
    @param detach: without a branch; else C{branch=} names it, or the directory does.

    CLI Example::

        salt '*' git.worktree_add /srv/checkout /srv/topic ref=origin/main branch=topic
    """
    _check_worktree_support()
    (branch_,) = _only(kwargs, "branch")
    if branch_ and detach:
        raise SaltInvocationError("Only one of 'branch' and 'detach' is allowed")
    command = ["git", *_words(git_opts), "worktree", "add"]
    if detach:
        if force:
            log.warning("'force' argument to git.worktree_add is ignored when detach=True")
        command.append("--detach")
    else:
        command += ["-B" if reset_branch else "-b", str(branch_ or os.path.basename(worktree_path))]
        if force:
            command.append("--force")
    command += [*_words(opts), str(worktree_path), *([str(ref)] if ref else [])]
    return str(
        _run(
            command,
            cwd=_place(cwd, user),
            redirect_stderr=True,
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
        )["stdout"]
    )


def worktree_prune(
    cwd: str,
    dry_run: bool = False,
    verbose: bool = True,
    expire: str | None = None,
    opts: Any = "",
    git_opts: Any = "",
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
) -> str:
    """
    Forget the worktrees whose directories are gone.

    @param expire: only those that are gone for so long, in git's words.
    @return: what was, or with C{dry_run} would be, removed.

    CLI Example::

        salt '*' git.worktree_prune /srv/checkout dry_run=True
    """
    _check_worktree_support()
    command = ["git", *_words(git_opts), "worktree", "prune"]
    command += [*(["--dry-run"] if dry_run else []), *(["--verbose"] if verbose else [])]
    if expire:
        command += ["--expire", str(expire)]
    result = _run(
        [*command, *_words(opts)],
        cwd=_place(cwd, user),
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )
    # Since then what it does is no longer its output.
    newer = _packages.loose_compare(version(), "2.35.0") > 0
    return str(result["stderr" if newer else "stdout"])


def worktree_rm(cwd: str, user: str | None = None, output_encoding: str | None = None) -> bool:
    """
    Remove the directory of a worktree.

    @raises CommandExecutionError: it is none, or is not there.

    CLI Example::

        salt '*' git.worktree_rm /srv/topic
    """
    _check_worktree_support()
    cwd = _place(cwd, user)
    if not os.path.exists(cwd):
        raise CommandExecutionError(f"{cwd} does not exist")
    if not is_worktree(cwd, output_encoding=output_encoding):
        raise CommandExecutionError(f"{cwd} is not a git worktree")
    try:
        shutil.rmtree(cwd)
    except OSError as error:
        raise CommandExecutionError(f"Unable to remove {cwd}: {error}") from error
    return True
