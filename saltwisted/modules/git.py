"""
Repositories by the C{git} program.

C{cwd} is the checkout, from the home of C{user} (or of who runs this) if it is relative. C{opts}
go behind the subcommand and C{git_opts} before it, as a list or as text that is split as a shell
would. Most functions answer with what git has printed.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.modules import _git_output
from saltwisted.modules._git import GitCalls, place, reserved, split_options
from saltwisted.worker import systools
from saltwisted.worker.exceptions import SaltInvocationError

__func_alias__ = {"rm_": "rm"}
__parts__ = ("_git_remotes", "_git_settings", "_git_commits", "_git_worktrees")


def __virtual__() -> Any:
    if systools.which("git") is None:
        return False, "The git execution module cannot be loaded: git unavailable."
    return True


_git = GitCalls(globals())


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
    more = [word for word in split_options(opts) if word not in ("-v", "--verbose")]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("add", "--verbose", *more, "--", filename)


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
    (format_,) = reserved(kwargs, "format")
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    command = ["archive"]
    if prefix != "":
        command += ["--prefix", prefix or os.path.basename(place(cwd, user)) + os.sep]
    if format_:
        command += ["--format", str(format_)]
    git.run(*command, "--output", place(output, user), rev)
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
    words = split_options(opts)
    if rev is None and "-b" not in words and "-B" not in words:
        raise SaltInvocationError("'rev' argument is required unless -b or -B in opts")
    command = [
        "checkout",
        *(["--force"] if force else []),
        *words,
        *([] if rev is None else [str(rev)]),
    ]
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output(*command, mixed=True)


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("commit", "-m", message, *split_options(opts), *more)


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return git.output("checkout", "--", path, mixed=True)


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
    cwd = place(cwd, user)
    command = ["init", *(["--bare"] if bare else [])]
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
    git = _git(None, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output(*command, *split_options(opts), cwd)


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts, identity)
    return git.output("reset", *split_options(opts))


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("rm", *split_options(opts), "--", filename)


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding, git_opts)
    return git.output("stash", action, *split_options(opts))


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
    git = _git(cwd, user, password, ignore_retcode, output_encoding)
    return _git_output.status(git.output("status", "-z", "--porcelain"))


def version(versioninfo: bool = False) -> Any:
    """
    The version of git.

    @param versioninfo: as a list of its parts, numbers where they are.

    CLI Example::

        salt '*' git.version
    """
    found = _git.version()
    if not versioninfo:
        return found
    return [int(part) if part.isdigit() else part for part in found.split(".")]
