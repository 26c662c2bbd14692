"""
What C{git} does with other repositories: clone, fetch, push, and their addresses.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from attrs import evolve

from saltwisted.modules import _git_output
from saltwisted.modules._git import (
    GitCalls,
    listed,
    place,
    redact,
    reserved,
    split_options,
    with_login,
)
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)


_git = GitCalls(globals())


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    folder = place(cwd, user)
    if not url:
        raise SaltInvocationError("Missing 'url' argument")
    command = ["clone", *split_options(opts), "--", with_login(url, https_user, https_pass)]
    if name is None:
        evolve(git, cwd="/tmp").run(*command, folder)
    else:
        os.makedirs(folder, exist_ok=True)
        git.run(*command, name)
    return True


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
    command = ["fetch", *(["--force"] if force else [])]
    command += [word for word in split_options(opts) if word not in ("-f", "--force")]
    if remote:
        command.append(str(remote))
    if refspecs is not None:
        command += listed(refspecs)
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return _git_output.fetched(git.output(*command, mixed=True))


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
    command = ["ls-remote", *split_options(opts)]
    command.append(with_login(remote, https_user, https_pass))
    if ref:
        command.append(str(ref))
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return _git_output.refs(git.output(*command))


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return git.output("pull", *split_options(opts))


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
    reserved(kwargs)
    more = [str(word) for word in (remote, ref) if word is not None]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return git.output("push", *split_options(opts), *more)


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
            f"Remote '{remote}' not present in git checkout located at {place(cwd, user)}"
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
    (pattern,) = reserved(kwargs, "filter")
    command = ["ls-remote", *(["--heads"] if heads else []), *(["--tags"] if tags else [])]
    command.append(with_login(url, https_user, https_pass))
    if pattern:
        command.append(str(pattern))
    git = _git(
        None, user, password, ignore_retcode, output_encoding, identity=identity, saltenv=saltenv
    )
    return _git_output.refs(git.output(*command))


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    address = with_login(url, https_user, https_pass)
    if remote in remotes(cwd, user=user, password=password, output_encoding=output_encoding):
        log.debug("Remote '%s' already exists in %s, removing so it can be re-added", remote, cwd)
        git.run("remote", "rm", remote)
    git.run("remote", "add", remote, address)
    if push_url:
        address = with_login(push_url, push_https_user, push_https_pass)
        git.run("remote", "set-url", "--push", remote, address)
    return remote_get(
        cwd,
        remote,
        user=user,
        password=password,
        ignore_retcode=ignore_retcode,
        output_encoding=output_encoding,
    )


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    found = _git_output.remotes(git.output("remote", "--verbose"), cwd)
    if not redact_auth:
        return found
    return {
        name: {action: redact(url) for action, url in urls.items()} for name, urls in found.items()
    }


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
    (init_,) = reserved(kwargs, "init")
    if init_:
        raise SaltInvocationError(
            "The 'init' argument is no longer supported. Either set 'command' to 'init', or include"
            " '--init' in the 'opts' argument and set 'command' to 'update'."
        )
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity, saltenv)
    return git.output("submodule", command, *split_options(opts))
