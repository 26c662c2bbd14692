"""
What one command is to be run with, under Salt's names for it.

The functions of C{cmd.*} have these as arguments; L{saltwisted.modules.cmdmod} runs them.
Starting and waiting is in L{saltwisted.modules._process}.
"""

from __future__ import annotations

import fnmatch
import grp
import logging
import os
import pwd
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, fields_dict

from saltwisted.modules import _data, _process
from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

log = logging.getLogger(__name__)

_LOCALE = (
    *("LC_" + part for part in (
        "CTYPE", "NUMERIC", "TIME", "COLLATE", "MONETARY", "MESSAGES", "PAPER", "NAME",
        "ADDRESS", "TELEPHONE", "MEASUREMENT", "IDENTIFICATION",
    )),
    "LANGUAGE",
)  # fmt: skip


def environment(env: Any) -> dict[str, str]:
    """The caller's C{env} as a map of texts: it may be a map or a list of maps."""
    if isinstance(env, list):
        env = _data.repack_dictlist(env)
    if not isinstance(env, dict):
        return {}
    result = {}
    for key, value in env.items():
        if value is None:
            log.error(
                "Environment variable '%s' passed without a value. "
                "Setting value to an empty string",
                key,
            )
            value = ""
        result[str(key)] = value if isinstance(value, str) else str(value)
    return result


def _umask(value: Any) -> int | None:
    if value is None:
        return None
    digits = str(value).lstrip("0")
    if not digits:
        raise CommandExecutionError("Zero umask is not allowed.")
    try:
        return int(digits, 8)
    except ValueError as error:
        raise CommandExecutionError(f"Invalid umask: '{value}'") from error


def _identity(runas: str | None, group: str | None) -> dict[str, Any]:
    """
    The arguments of C{Popen} that make the child another user, with all its groups.

    Empty when the caller is that user already: then no right to change is needed.
    """
    if not runas and not group:
        return {}
    if runas:
        try:
            user = pwd.getpwnam(runas)
        except KeyError as error:
            raise CommandExecutionError(f"User '{runas}' is not available") from error
    else:
        user = pwd.getpwuid(os.geteuid())
    gid = user.pw_gid
    if group:
        try:
            gid = grp.getgrnam(group).gr_gid
        except KeyError as error:
            raise CommandExecutionError(f"Group '{group}' is not available") from error
    if user.pw_uid == os.geteuid() and gid == os.getegid():
        return {}
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": gid, "extra_groups": groups}


@define(kw_only=True, eq=False, repr=False)
class CommandOptions:
    """
    One command and how it is to be run; C{cmd.run} says what each word means.

    @ivar from_master: whether it is of a job that a master has sent. No argument sets this.
    """

    cmd: Any
    cwd: Any = None
    stdin: Any = None
    stdout: Any = subprocess.PIPE
    stderr: Any = subprocess.PIPE
    output_encoding: str | None = None
    output_loglevel: Any = "debug"
    log_callback: Any = None
    runas: str | None = None
    group: str | None = None
    shell: str | None
    python_shell: Any = False
    env: Any = None
    clean_env: bool = False
    prepend_path: str | None = None
    rstrip: bool = True
    template: str | None = None
    umask: Any = None
    timeout: Any = None
    with_communicate: bool = True
    reset_system_locale: bool = True
    ignore_retcode: bool = False
    saltenv: str | None = None
    pillarenv: str | None = None
    pillar_override: Any = None
    pillar: Any = None
    use_vt: Any = False
    bg: bool = False
    stdin_raw_newlines: Any = False
    success_retcodes: Any = None
    success_stdout: Any = None
    success_stderr: Any = None
    from_master: bool = field(init=False, default=False)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> CommandOptions:
        """From a call's arguments; words that say nothing here are left out."""
        options = cls(**{name: value for name, value in given.items() if name in _WORDS})
        options.from_master = "__pub_jid" in given
        return options

    def settle(self, runas: str | None) -> None:
        """
        Put in what is not given.

        @param runas: the user if none is given.
        @raises CommandExecutionError: the shell cannot be run.
        """
        self.pillar_override = self.pillar_override or self.pillar
        if self.runas is None:
            self.runas = runas
        self.cwd = str(self.cwd) if self.cwd else _process.home(self.runas)
        if self.bg:
            self.ignore_retcode, self.use_vt = True, False
        if self.shell and not systools.is_executable(self.shell):
            raise CommandExecutionError(f"The shell {self.shell} is not available")

    def surroundings(self, given: dict[str, str]) -> dict[str, Any]:
        """
        User, environment, mask and directory, as C{Popen} takes them.

        @param given: the variables that the caller has set.
        @raises CommandExecutionError: there are no such ones.
        """
        identity = _identity(self.runas, self.group)
        if self.runas:
            given = {**_process.login_environment(self.runas, self.shell), **given}
            given["USER"] = self.runas
            given["HOME"] = os.path.expanduser(f"~{self.runas}")
        if self.reset_system_locale is True:
            given = {**given, **{name: "C" for name in _LOCALE if name not in given}}
        variables = given if self.clean_env else {**os.environ, **given}
        if self.prepend_path:
            variables["PATH"] = ":".join((self.prepend_path, variables["PATH"]))
        if "NOTIFY_SOCKET" not in given:
            variables.pop("NOTIFY_SOCKET", None)
        mask = _umask(self.umask)
        if not os.path.isabs(self.cwd) or not os.path.isdir(self.cwd):
            raise CommandExecutionError(
                f"Specified cwd '{self.cwd}' either not absolute or does not exist"
            )
        found = {"cwd": self.cwd, "env": variables, **identity}
        return found if mask is None else {**found, "umask": mask}

    def split(self) -> None:
        """
        Cut the command into words unless a shell does, and read what means success.

        @raises SaltInvocationError: a code is not a number.
        """
        if self.python_shell is not True and self.shell is not None and isinstance(self.cmd, str):
            self.cmd = shlex.split(self.cmd)
        codes = [0] if self.success_retcodes is None else self.success_retcodes
        try:
            self.success_retcodes = _data.split_input(codes, int)
        except ValueError as error:
            raise SaltInvocationError("success_retcodes must be a list of integers") from error
        self.success_stdout, self.success_stderr = (
            [] if parts is None else _data.split_input(parts)
            for parts in (self.success_stdout, self.success_stderr)
        )

    def succeeded(self, result: dict[str, Any]) -> bool:
        """Whether this result of the command means success."""
        return (
            result["retcode"] in self.success_retcodes
            or any(part in result["stdout"] for part in self.success_stdout)
            or any(part in result["stderr"] for part in self.success_stderr)
        )

    def start(self, surroundings: dict[str, Any], shown: bool) -> dict[str, Any]:
        """
        Start the command and wait for its end, unless it is to be left alone.

        @param shown: whether the command may be in the text of an error.
        @raises CommandExecutionError: it could not be started.
        @raises TimedProcTimeoutError: it ran too long.
        """
        popen = {**surroundings, "stdout": self.stdout, "stderr": self.stderr}
        if self.python_shell:
            popen["shell"] = True
            if self.python_shell is True:
                popen["executable"] = self.shell
        try:
            pid, retcode, out, err = _process.run(
                self.cmd,
                None if self.stdin is None else str(self.stdin),
                self.timeout,
                popen,
                wait=not self.bg,
                capture=self.with_communicate and not self.bg,
                raw_newlines=bool(self.stdin_raw_newlines),
            )
        except OSError as error:
            raise CommandExecutionError(
                f"Unable to run command '{self.cmd if shown else 'REDACTED'}' "
                f"with the context '{self._context()}', reason: {error}"
            ) from error
        texts = [_process.text(data, self.output_encoding) for data in (out, err)]
        if self.rstrip:
            texts = [text.rstrip() for text in texts]
        return {"pid": pid, "retcode": retcode, "stdout": texts[0], "stderr": texts[1]}

    def _context(self) -> dict[str, Any]:
        """What Salt shows of a command that could not be started, without environment and input."""
        return {
            "cwd": self.cwd,
            "shell": self.python_shell if self.python_shell is not None else False,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "with_communicate": self.with_communicate,
            "timeout": self.timeout,
            "bg": self.bg,
            "close_fds": True,
        }


_WORDS = frozenset(name for name, each in fields_dict(CommandOptions).items() if each.init)


def permitted(cmd: Any, config_get: Callable[[str], Any]) -> bool:
    """The site's C{cmd_blacklist_glob} and C{cmd_whitelist_glob}, for jobs from the master."""
    text = " ".join(str(word) for word in cmd) if isinstance(cmd, (list, tuple)) else str(cmd)
    denied = config_get("cmd_blacklist_glob") or ()
    allowed = config_get("cmd_whitelist_glob") or ()
    if any(fnmatch.fnmatch(text, pattern) for pattern in denied):
        return False
    return not allowed or any(fnmatch.fnmatch(text, pattern) for pattern in allowed)
