"""
What the git states share: a repository that functions are called on, and how a state ends.
"""

from __future__ import annotations

import logging
import os
import re
import string
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from attrs import define, field

from saltwisted.modules import _files
from saltwisted.modules._git import redact, with_login
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

Ret = dict[str, Any]


class Finished(Exception):
    """The return is complete."""


def is_hash(rev: str) -> bool:
    """Whether a revision looks like a commit's id, perhaps cut short."""
    return len(rev) <= 40 and all(letter in string.hexdigits for letter in rev)


def short(commit: str | None) -> str | None:
    """A commit as the comments show it."""
    return None if commit is None else commit[:7]


def same_rev(one: str | None, other: str | None, kind: str | None) -> bool:
    """Whether two revisions are one; a C{sha1} may be cut short."""
    if one is None or other is None:
        return one is other
    return one.startswith(other) if kind == "sha1" else one == other


def joined(comments: list[str]) -> str:
    """Sentences as one comment."""
    return ". ".join(comments) + ("." if len(comments) > 1 else "")


def reason(error: BaseException) -> str:
    """An error without the command that failed."""
    if not isinstance(error, CommandExecutionError):
        return str(error)
    return re.sub(r"^Command [\"'].+[\"'] failed: ", "", error.strerror)


def unknown_words(words: Mapping[str, Any]) -> str:
    """What to say of arguments that a state does not have; nothing if there are none."""
    names = [f"{key}={value}" for key, value in words.items() if not key.startswith("__")]
    return f"The following keyword arguments are not valid: {', '.join(names)}" if names else ""


def text_or_none(value: Any) -> str | None:
    """What YAML took for a number is a text."""
    return None if value is None else str(value)


@define(kw_only=True)
class Work:
    """
    One state on one checkout.

    @ivar salt: C{__salt__}.
    @ivar env: the environment for keys on the master.
    @ivar comments: what was done so far.
    """

    salt: Any
    test: bool
    env: str
    ret: Ret
    name: Any
    target: str
    user: str | None
    password: str | None = field(repr=False)
    encoding: str | None
    remote: str = "origin"
    identity: Any = None
    https_user: str | None = None
    https_pass: str | None = field(default=None, repr=False)
    comments: list[str] = field(factory=list)

    # -- ends

    def finish(self, comment: str, result: bool | None = None) -> NoReturn:
        """This is the end of it; by default a forecast."""
        self.ret["result"] = result
        self.ret["comment"] = comment
        raise Finished

    def fail(self, text: str, told: bool = True) -> NoReturn:
        """
        It failed.

        @param told: also tell what was done before.
        """
        if told and self.comments:
            text += f"\n\nChanges already made: {joined(self.comments)}"
        self.finish(text, False)

    def up_to_date(self, comments: list[str], local_changes: bool = False) -> NoReturn:
        """Nothing to do."""
        text = f"Repository {self.target} is up-to-date"
        if local_changes:
            text += (
                ", but with uncommitted changes. Set 'force_reset' to True to purge uncommitted"
                " changes."
            )
        if comments:
            would = "that would be " if self.test else ""
            text += f"\n\nChanges {would}made: {joined(comments)}"
        self.finish(text, self.ret["result"])

    # -- git

    def git(self, function: str, *args: Any, **words: Any) -> Any:
        """
        Call a function on the checkout, as the user.

        @raises CommandExecutionError: git failed.
        """
        call: Callable[..., Any] = self.salt[f"git.{function}"]
        return call(
            self.target,
            *args,
            user=self.user,
            password=self.password,
            output_encoding=self.encoding,
            **words,
        )

    def ask(self, function: str, *args: Any, **words: Any) -> Any:
        """As L{git}; C{None} if it fails."""
        try:
            return self.git(function, *args, ignore_retcode=True, **words)
        except CommandExecutionError:
            return None

    def commit_of(self, rev: str) -> Any:
        """The commit that a revision names in the checkout, or C{None}."""
        return self.ask("rev_parse", rev + "^{commit}")

    def is_checkout(self, folder: str = ".git") -> bool:
        """Whether the target is a repository already."""
        return os.path.isdir(os.path.join(self.target, folder)) or bool(self.git("is_worktree"))

    def position(self) -> tuple[str | None, str | None]:
        """The commit and the branch of the checkout."""
        return self.ask("revision"), self.ask("current_branch")

    @property
    def login(self) -> dict[str, Any]:
        """What a server asks for."""
        return {"https_user": self.https_user, "https_pass": self.https_pass}

    @property
    def keys(self) -> dict[str, Any]:
        """The ssh keys."""
        return {"identity": self.identity, "saltenv": self.env}

    def shown(self, url: Any) -> str:
        """An address without user and password."""
        return redact(str(url))

    def fetch_url(self) -> str:
        """
        The address with user and password.

        @raises Finished: they would travel in the open.
        """
        try:
            return with_login(self.name, self.https_user, self.https_pass)
        except SaltInvocationError as error:
            self.fail(error.strerror)

    # -- preparations

    def check_identity(self, noun: str) -> None:
        """Have the keys as a list of absolute paths."""
        if self.identity is None:
            return
        if isinstance(self.identity, str):
            self.identity = [self.identity]
        if not isinstance(self.identity, list):
            self.fail(f"{noun} must be either a list or a string")
        self.identity = [os.path.expanduser(one) for one in self.identity]
        for one in self.identity:
            path = one
            if "salt://" in one:
                try:
                    path = self.salt["cp.cache_file"](one, self.env)
                except OSError:
                    self.fail(f"{noun} '{one}' does not exist.")
            if not os.path.isabs(path or ""):
                self.fail(f"{noun} '{path}' is not an absolute path")

    def check_no_file(self) -> None:
        """The target is not a file."""
        if os.path.isfile(self.target):
            self.fail(f"Target '{self.target}' exists and is a regular file, cannot proceed")

    def make_room(self, force: bool, forecast: Mapping[str, Any]) -> None:
        """
        Empty the target, if that is allowed.

        @param forecast: changes to announce under C{test}.
        """
        if not os.path.isdir(self.target):
            return
        entries = os.listdir(self.target)
        if not force:
            if entries:
                self.fail(
                    f"Target '{self.target}' exists, is non-empty and is not a git repository. Set"
                    " the 'force_clone' option to True to remove this directory's contents and"
                    " proceed with cloning the remote repository"
                )
            return
        if self.test:
            self.ret["changes"].update(forecast)
            self.finish(
                f"Target directory {self.target} exists. Since force_clone=True, the contents of"
                f" {self.target} would be deleted, and {self.name} would be cloned into this"
                " directory."
            )
        errors = []
        for entry in entries:
            path = os.path.join(self.target, entry)
            try:
                _files.remove_tree(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                errors.append(f"  {path}\n    {error}")
        if errors:
            self.fail("Unable to remove\n" + "\n".join(errors))
        self.ret["changes"]["forced clone"] = True

    def update_submodules(self, with_env: bool = True) -> None:
        """
        Have the submodules as the commit wants them.

        @raises CommandExecutionError: git failed.
        """
        keys = self.keys if with_env else {"identity": self.identity}
        self.git("submodule", "update", opts=["--init", "--recursive"], **keys)

    def run(self, work: Callable[[], None]) -> Ret:
        """The return after some work."""
        try:
            work()
        except Finished:
            log.debug("%s: %s", self.target, self.ret["comment"])
        return self.ret
