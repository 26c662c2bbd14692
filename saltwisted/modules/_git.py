"""
One run of the C{git} program: where, as whom, with which keys, and how its failure is told.

What git is asked is in L{saltwisted.modules.git}; what it answers is read in
L{saltwisted.modules._git_output}.
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

from attrs import field, frozen

from saltwisted.modules import _data, _packages
from saltwisted.modules._injected import Injected
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

_SSH = (
    "ssh -oStrictHostKeyChecking=accept-new -oPasswordAuthentication=no"
    " -oKbdInteractiveAuthentication=no -oChallengeResponseAuthentication=no -i "
)
"""How an identity is used: by nobody's input; hosts may be new, but not have changed."""

_LOGIN = re.compile(r"(https?)://.*@", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"BEGIN (?:\w+\s)*PRIVATE KEY")


def redact(text: str) -> str:
    """Without user names and passwords in addresses."""
    return _LOGIN.sub(r"\1://<redacted>@", text)


def with_login(url: Any, user: str | None, password: str | None) -> str:
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


def split_options(options: Any) -> list[str]:
    """Options as words; a closing C{--} is dropped, the functions set their own."""
    if options is None:
        return []
    if isinstance(options, list):
        return [str(item) for item in options]
    words = shlex.split(options) if isinstance(options, str) else [str(options)]
    return words[:-1] if words and words[-1] == "--" else words


def place(cwd: Any, user: Any) -> str:
    """A directory, from the home of the user if it is relative."""
    return os.path.join(os.path.expanduser(f"~{user or ''}"), str(cwd))


def listed(value: Any) -> list[str]:
    """A list as it is, else text cut at its commas."""
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    return str(value).split(",")


def reserved(kwargs: Mapping[str, Any], *names: str) -> list[Any]:
    """
    Arguments whose names are taken by Python's own, in this order, C{None} if they are not given.

    @raises SaltInvocationError: there are others.
    """
    given = _data.clean_kwargs(**kwargs)
    found = [given.pop(name, None) for name in names]
    _data.invalid_kwargs(given)
    return found


@frozen(kw_only=True, eq=False, repr=False)
class GitCall:
    """
    How git is to be run; L{run} runs it.

    @ivar salt: the functions of the minion, of which C{cmd.run_all} runs git.
    @ivar asks: whether somebody is there who can type a passphrase.
    @ivar git_opts: options that go before the subcommand.
    @ivar identity: private keys to try one after the other, files or C{salt://} addresses.
    @ivar saltenv: where C{salt://} addresses are looked up.
    """

    salt: Any
    asks: bool
    cwd: str | None
    user: str | None
    password: str | None = field(repr=False)
    ignore_retcode: bool
    output_encoding: str | None
    git_opts: Any
    identity: Any
    saltenv: str

    def output(self, *words: Any, failhard: bool = True, mixed: bool = False) -> str:
        """Run git and tell what it has printed. Arguments as for L{run}."""
        return str(self.run(*words, failhard=failhard, mixed=mixed)["stdout"])

    def run(self, *words: Any, failhard: bool = True, mixed: bool = False) -> dict[str, Any]:
        """
        Run git.

        @param failhard: raise if git fails.
        @param mixed: standard error is part of the output.
        @return: what C{cmd.run_all} gives.
        @raises CommandExecutionError: git has failed, with each of the keys if there are any.
        """
        command = ["git", *split_options(self.git_opts), *map(str, words)]
        said = "stdout" if mixed else "stderr"
        if self.identity:
            return self._run_with_keys(command, failhard, said)
        result = self._start(command, {}, mixed)
        if result["retcode"] and failhard:
            text = f"Command '{redact(' '.join(command))}' failed"
            if result[said]:
                text += f": {redact(result[said])}"
            raise CommandExecutionError(text)
        return result

    def _start(self, command: list[str], env: dict[str, str], mixed: bool) -> dict[str, Any]:
        result: dict[str, Any] = self.salt["cmd.run_all"](
            command,
            env=env,
            cwd=self.cwd,
            runas=self.user,
            password=self.password,
            python_shell=False,
            log_callback=redact,
            ignore_retcode=self.ignore_retcode,
            redirect_stderr=mixed,
            output_encoding=self.output_encoding,
        )
        return result

    def _run_with_keys(self, command: list[str], failhard: bool, said: str) -> dict[str, Any]:
        errors: list[str] = []
        missing: list[str] = []
        result: dict[str, Any] | None = None
        for key in self.identity if isinstance(self.identity, list) else [self.identity]:
            with tempfile.TemporaryDirectory(prefix="git-identity-") as folder:
                path = self._find_key(key, folder, missing)
                if not path:
                    log.error("identity %s does not exist.", key)
                    continue
                if not self.asks and is_encrypted(path):
                    errors.append(
                        f"Identity file {path} is passphrase-protected and cannot be used in a"
                        " non-interactive command. Using salt-call from the minion will allow a"
                        " passphrase-protected key to be used."
                    )
                    continue
                log.info("Attempting git authentication using identity file %s", path)
                env = {"GIT_IDENTITY": path, "GIT_SSH_COMMAND": _SSH + shlex.quote(path)}
                result = self._start(command, env, said == "stdout")
            if result["retcode"] == 0:
                return result
            if result[said]:
                errors.append(redact(result[said]))
        if failhard or result is None:
            text = "Unable to authenticate using identity file:\n\n" + "\n".join(errors)
            if missing:
                text += "\n\n" if errors else ""
                text += f"The following identity file(s) were not found: {', '.join(missing)}"
            raise CommandExecutionError(text)
        return result

    def _find_key(self, key: str, folder: str, missing: list[str]) -> str:
        """Where a key lies, or the empty string; C{missing} collects files that are not there."""
        if "salt://" in key:
            return self._fetch_key(key, os.path.join(folder, "key"))
        if self.salt["file.file_exists"](key):
            return key
        missing.append(key)
        return ""

    def _fetch_key(self, source: str, path: str) -> str:
        """A key of the master in a private file, which the user may read; or the empty string."""
        if not self.salt["cp.get_file"](source, path, self.saltenv):
            return ""
        os.chmod(path, 0o600)
        if self.user:
            try:
                for owned in (path, os.path.dirname(path)):
                    shutil.chown(owned, self.user)
            except (LookupError, OSError) as error:
                raise CommandExecutionError(
                    f"Unable to give {source} to {self.user}: {error}"
                ) from error
        return path


@frozen(eq=False)
class GitCalls(Injected):
    """Makes the calls of a module: C{_git(cwd, user, ...)}."""

    def __call__(
        self,
        cwd: Any,
        user: str | None = None,
        password: str | None = None,
        ignore_retcode: bool = False,
        output_encoding: str | None = None,
        git_opts: Any = None,
        identity: Any = None,
        saltenv: str = "base",
    ) -> GitCall:
        """Git in a checkout, with what nearly every function is given; see L{GitCall}."""
        return GitCall(
            salt=self.salt,
            asks="salt-call" in (self.opts.get("__cli") or ""),
            cwd=None if cwd is None else place(cwd, user),
            user=user,
            password=password,
            ignore_retcode=ignore_retcode,
            output_encoding=output_encoding,
            git_opts=git_opts,
            identity=identity,
            saltenv=saltenv,
        )

    def version(self) -> str:
        """The version of git, C{unknown} if it does not tell; asked for once in a job."""
        context = self.context
        if "git.version" not in context:
            try:
                words = self(None).output("--version").split("(")[0].split(".windows")[0].split()
            except CommandExecutionError as error:
                log.error("Failed to obtain the git version (error follows):\n%s", error)
                words = []
            context["git.version"] = words[-1] if words else "unknown"
        return str(context["git.version"])

    def older(self, version: str) -> bool:
        """Whether this git is older than that version."""
        return _packages.loose_compare(self.version(), version) < 0

    def need_worktrees(self) -> None:
        """@raises CommandExecutionError: this git is too old for worktrees."""
        if self.older("2.5.0"):
            raise CommandExecutionError(
                "Worktrees are only supported in git 2.5.0 and newer (detected git version: "
                f"{self.version()})"
            )


def is_encrypted(path: str) -> bool:
    """
    Whether a private key asks for a passphrase.

    @raises CommandExecutionError: it cannot be read, or is not a private key.
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
