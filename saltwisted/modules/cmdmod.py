"""
Run programs and shell commands, under Salt's C{cmd.*}.

The one road is L{_run}; the public functions choose its arguments and what part of
the result comes back. Starting and waiting is in L{saltwisted.modules._process}. What
the caller passed in (arguments, environment, standard input) is never logged; the
output is, at C{output_loglevel}, with those words blotted out.
"""

from __future__ import annotations

import fnmatch
import glob
import grp
import logging
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

from saltwisted.modules import _data, _process, _templates
from saltwisted.worker import systools
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
    SaltRenderError,
    TimedProcTimeoutError,
)

log = logging.getLogger(__name__)

__virtualname__ = "cmd"
__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any

DEFAULT_SHELL = os.environ.get("SHELL", "/bin/sh")

_LEVELS: dict[str, int] = {
    "all": logging.NOTSET,
    "debug": logging.DEBUG,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "garbage": 1,
    "info": logging.INFO,
    "profile": 15,
    "quiet": 1000,
    "trace": 5,
    "warning": logging.WARNING,
}


def __virtual__() -> str:
    return __virtualname__


def _level(name: Any) -> int | None:
    """The number of a log level's name; C{None} is quiet."""
    if isinstance(name, str):
        if name.lower() == "quiet":
            return None
        if name.lower() in _LEVELS:
            return _LEVELS[name.lower()]
    log.error(
        "Invalid output_loglevel. Valid levels are: %s. Falling back to 'info'.",
        ", ".join(sorted(_LEVELS, reverse=True)),
    )
    return logging.INFO


def _callback(function: Any) -> Callable[[Any], Any]:
    if callable(function):
        return function  # type: ignore[no-any-return]
    if function is not None:
        log.error("log_callback is not callable, ignoring")
    return lambda text: text


def _program(cmd: Any) -> str:
    """
    The first word of a command, the only one that may be logged.

    @raises IndexError: there is none; for a condition like C{unless: ''} as in stock.
    """
    if isinstance(cmd, (list, tuple)):
        return str(cmd[0]).strip()
    return str(cmd).split(None, 1)[0]


def _shell_default(python_shell: Any, pub_jid: Any) -> Any:
    """A job from the master gets a shell unless it says otherwise; other callers do not."""
    if python_shell is None and (pub_jid or __opts__.get("cmd_safe", True) is False):
        return True
    return python_shell


def _rendered(
    cmd: Any,
    cwd: str,
    template: str | None,
    saltenv: str | None,
    pillarenv: str | None,
    pillar_override: Any,
) -> tuple[Any, str]:
    if not template:
        return cmd, cwd
    if not _templates.known(template):
        raise CommandExecutionError(
            f"Attempted to render file paths with unavailable engine {template}"
        )
    if pillarenv is not None or pillar_override is not None:
        pillar = _gather_pillar(pillarenv or __opts__["pillarenv"], pillar_override)
    else:
        pillar = __pillar__
    context = {
        "salt": __salt__,
        "pillar": pillar,
        "grains": __grains__,
        "opts": __opts__,
        "saltenv": saltenv or __opts__.get("saltenv", "base"),
    }

    def render(text: Any) -> str:
        try:
            return _templates.render_text(str(text), template, context)
        except SaltRenderError:
            raise
        except Exception as error:
            raise CommandExecutionError(f"Failed to execute cmd with error: {error}") from error

    if isinstance(cmd, (list, tuple)):
        return [render(word) for word in cmd], render(cwd)
    return render(cmd), render(cwd)


def _gather_pillar(pillarenv: str | None, override: Any) -> Any:
    """The pillar for another environment or with other values laid over it."""
    pillar = __salt__["pillar.items"](pillar=override, pillarenv=pillarenv, unmask=True)
    if override and isinstance(override, dict):
        pillar.update(override)
    return pillar


def _permitted(cmd: Any) -> bool:
    """The site's C{cmd_blacklist_glob} and C{cmd_whitelist_glob}, for jobs from the master."""
    text = " ".join(str(word) for word in cmd) if isinstance(cmd, (list, tuple)) else str(cmd)
    config_get = __salt__["config.get"]
    denied = config_get("cmd_blacklist_glob") or ()
    allowed = config_get("cmd_whitelist_glob") or ()
    if any(fnmatch.fnmatch(text, pattern) for pattern in denied):
        return False
    return not allowed or any(fnmatch.fnmatch(text, pattern) for pattern in allowed)


def _environment(env: Any) -> dict[str, str]:
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


_LOCALE = (
    *("LC_" + part for part in (
        "CTYPE", "NUMERIC", "TIME", "COLLATE", "MONETARY", "MESSAGES", "PAPER", "NAME",
        "ADDRESS", "TELEPHONE", "MEASUREMENT", "IDENTIFICATION",
    )),
    "LANGUAGE",
)  # fmt: skip


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


def _run(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    stdout: Any = subprocess.PIPE,
    stderr: Any = subprocess.PIPE,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = False,
    env: Any = None,
    clean_env: bool = False,
    prepend_path: str | None = None,
    rstrip: bool = True,
    template: str | None = None,
    umask: Any = None,
    timeout: Any = None,
    with_communicate: bool = True,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    pillarenv: str | None = None,
    pillar_override: Any = None,
    use_vt: Any = False,
    password: Any = None,
    bg: bool = False,
    encoded_cmd: bool = False,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run one command to its end (or start it, with C{bg}) and say how it went.

    @return: C{pid}, C{retcode}, C{stdout}, C{stderr}.
    @raises CommandExecutionError: it could not be started: no such program, shell,
        directory or user, or the site forbids it.
    """
    pillar_override = pillar_override or kwargs.get("pillar")
    level = _level(output_loglevel)
    callback = _callback(log_callback)
    if runas is None:
        runas = __context__.get("runas")
    cwd = str(cwd) if cwd else _process.home(runas)
    if bg:
        ignore_retcode, use_vt = True, False
    if shell and not systools.is_executable(shell):
        raise CommandExecutionError(f"The shell {shell} is not available")
    cmd, cwd = _rendered(cmd, cwd, template, saltenv, pillarenv, pillar_override)
    if "__pub_jid" in kwargs and not _permitted(cmd):
        raise CommandExecutionError(f'The shell command "{cmd}" is not permitted')

    given = _environment(env)
    secrets = _process.secrets(cmd, stdin, given)
    if level is not None:
        quote = "" if isinstance(cmd, list) else "'"
        log.info(
            "%s",
            callback(
                f"Executing command {quote}{_program(cmd)}{quote} "
                + (f"as user '{runas}' " if runas else "")
                + (f"in group '{group}' " if group else "")
                + f"in directory '{cwd}'"
                + (". Executing command in the background, no output will be logged." if bg else "")
            ),
        )
    identity = _identity(runas, group)
    if runas:
        given = {**_process.login_environment(runas, shell), **given}
        given["USER"] = runas
        given["HOME"] = os.path.expanduser(f"~{runas}")
    if reset_system_locale is True:
        for name in _LOCALE:
            given.setdefault(name, "C")
    environment = given if clean_env else {**os.environ, **given}
    if prepend_path:
        environment["PATH"] = ":".join((prepend_path, environment["PATH"]))
    if "NOTIFY_SOCKET" not in given:
        environment.pop("NOTIFY_SOCKET", None)

    mask = _umask(umask)
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise CommandExecutionError(f"Specified cwd '{cwd}' either not absolute or does not exist")
    by_shell = bool(python_shell)
    if python_shell is not True and shell is not None and isinstance(cmd, str):
        cmd = shlex.split(cmd)
    try:
        good_codes = _data.split_input([0] if success_retcodes is None else success_retcodes, int)
    except ValueError as error:
        raise SaltInvocationError("success_retcodes must be a list of integers") from error
    good_out = [] if success_stdout is None else _data.split_input(success_stdout)
    good_err = [] if success_stderr is None else _data.split_input(success_stderr)

    options: dict[str, Any] = {"cwd": cwd, "env": environment, **identity}
    if mask is not None:
        options["umask"] = mask
    if use_vt:
        result = _process.in_terminal(cmd, shell, timeout, options)
    else:
        options["stdout"], options["stderr"] = stdout, stderr
        if by_shell:
            options["shell"] = True
            if python_shell is True:
                options["executable"] = shell
        # The texts of these errors are Salt's, environment and input left out.
        shown = {
            "cwd": cwd,
            "shell": python_shell if python_shell is not None else False,
            "stdout": stdout,
            "stderr": stderr,
            "with_communicate": with_communicate,
            "timeout": timeout,
            "bg": bg,
            "close_fds": True,
        }
        try:
            pid, retcode, out, err = _process.run(
                cmd,
                None if stdin is None else str(stdin),
                timeout,
                options,
                wait=not bg,
                capture=with_communicate and not bg,
                raw_newlines=bool(kwargs.get("stdin_raw_newlines")),
            )
        except OSError as error:
            raise CommandExecutionError(
                f"Unable to run command '{cmd if level is not None else 'REDACTED'}' "
                f"with the context '{shown}', reason: {error}"
            ) from error
        except _process.BadTimeout as error:
            raise TimedProcTimeoutError(str(error)) from None
        except TimedProcTimeoutError as error:
            return {
                "stdout": str(error),
                "stderr": "",
                "retcode": 1,
                "pid": getattr(error, "pid", None),
            }
        result = {
            "pid": pid,
            "retcode": retcode,
            "stdout": _process.text(out, output_encoding),
            "stderr": _process.text(err, output_encoding),
        }
        if rstrip:
            result["stdout"] = result["stdout"].rstrip()
            result["stderr"] = result["stderr"].rstrip()
    if (
        result["retcode"] in good_codes
        or any(part in result["stdout"] for part in good_out)
        or any(part in result["stderr"] for part in good_err)
    ):
        result["retcode"] = 0

    __context__["retcode"] = 0 if ignore_retcode else result["retcode"]
    if level is not None:
        if not ignore_retcode and result["retcode"] != 0:
            level = max(level, logging.ERROR)
            log.error(
                "%s",
                callback(f"Command '{_program(cmd)}' failed with return code: {result['retcode']}"),
            )
        if log.isEnabledFor(level):
            for part in ("stdout", "stderr"):
                if result[part]:
                    log.log(level, "%s: %s", part, callback(_process.blot(result[part], secrets)))
            if result["retcode"]:
                log.log(level, "retcode: %s", result["retcode"])
    return result


def _from(given: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Call L{_run} with the arguments of a public function: its C{locals()}, and changes."""
    extra = given.pop("kwargs")
    given.pop("hide_output", None)
    given.pop("redirect_stderr", None)
    given.pop("raise_err", None)
    extra.pop("__env__", None)
    given["python_shell"] = _shell_default(given.get("python_shell"), extra.get("__pub_jid", ""))
    return _run(**{**given, **extra, **changes})


def _run_quiet(cmd: Any, **kwargs: Any) -> Any:
    """For states' C{onlyif} and C{unless}: the output, logged nowhere."""
    kwargs.update(stderr=subprocess.STDOUT, output_loglevel="quiet", log_callback=None)
    return _run(cmd, **kwargs)["stdout"]


def _run_all_quiet(cmd: Any, **kwargs: Any) -> dict[str, Any]:
    """As L{_run_quiet}, with the whole result."""
    kwargs.update(output_loglevel="quiet", log_callback=None)
    return _run(cmd, **kwargs)


def _retcode_quiet(cmd: Any, **kwargs: Any) -> Any:
    """As L{_run_quiet}, with the exit code."""
    kwargs["output_loglevel"] = "quiet"
    return retcode(cmd, **kwargs)


def run(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    rstrip: bool = True,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    redirect_stderr: bool = True,
    bg: bool = False,
    password: Any = None,
    encoded_cmd: bool = False,
    raise_err: bool = False,
    prepend_path: str | None = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Run a command and answer with its output, standard error mixed in.

    cmd
        The command: one text, or a list of words. With a shell a text goes to the shell
        as it is; without one it is split into words.
    cwd
        Directory to run in; the home of the user if not given.
    stdin
        Text for its standard input; C{\\n} in it becomes a new line.
    runas, group
        Run as this user with its login environment and all its groups, or in this group.
    shell, python_shell
        The shell, and whether to use it. A job sent from a master uses it unless told
        otherwise; a call from a template, a state or another module does not.
    env, clean_env, prepend_path
        Variables to set (a map, or a list of maps); whether these are the only ones; what
        to put before C{PATH}.
    template
        Render command and directory with this engine first, for example C{jinja}.
    umask
        Octal mask for files it creates.
    output_encoding, rstrip
        How to read its output, and whether to cut white space off its end.
    output_loglevel, hide_output, log_callback
        At which level the output is logged (C{quiet} is not at all), whether it is
        returned, and a function through which log lines go.
    timeout
        Seconds until it is killed.
    reset_system_locale
        Give it the C locale for what C{LANG} does not decide.
    ignore_retcode, success_retcodes, success_stdout, success_stderr
        Do not call any exit code a failure; codes, or parts of its output, that mean
        success.
    redirect_stderr
        Whether standard error is mixed into the answer.
    bg
        Do not wait for it.
    raise_err
        Raise an error with its output if it fails.
    use_vt
        Run it on a pseudo terminal.

    CLI Example::

        salt '*' cmd.run "ls -l | awk '/foo/{print \\$2}'"
        salt '*' cmd.run "grep f" stdin='one\\ntwo\\nthree\\nfour\\nfive\\n'
        salt '*' cmd.run cmd='sed -e s/=/:/g'
    """
    given = dict(locals())
    result = _from(given, stderr=subprocess.STDOUT if redirect_stderr else subprocess.PIPE)
    failed = not ignore_retcode and result["retcode"] != 0
    output = "" if hide_output else result["stdout"]
    if failed and raise_err and _level(output_loglevel) is not None:
        raise CommandExecutionError(_callback(log_callback)(output))
    return output


def shell(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    rstrip: bool = True,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    bg: bool = False,
    password: Any = None,
    prepend_path: str | None = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> Any:
    """
    As C{cmd.run}, always through a shell: pipes and variables work from anywhere.

    CLI Example::

        salt '*' cmd.shell 'ls -l | wc -l'
    """
    given = dict(locals())
    given.update(given.pop("kwargs"))
    if given.get("python_shell") is None:
        given["python_shell"] = True
    return run(**given)


def run_stdout(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    rstrip: bool = True,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    password: Any = None,
    prepend_path: str | None = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Run a command and answer with its standard output alone. Arguments as for C{cmd.run}.

    CLI Example::

        salt '*' cmd.run_stdout "ls -l"
    """
    result = _from(dict(locals()))
    return "" if hide_output else result["stdout"]


def run_stderr(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    rstrip: bool = True,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    password: Any = None,
    prepend_path: str | None = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Run a command and answer with its standard error alone. Arguments as for C{cmd.run}.

    CLI Example::

        salt '*' cmd.run_stderr "ls -l /nowhere"
    """
    result = _from(dict(locals()))
    return "" if hide_output else result["stderr"]


def run_all(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    rstrip: bool = True,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    redirect_stderr: bool = False,
    password: Any = None,
    encoded_cmd: bool = False,
    prepend_path: str | None = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a command and answer with C{pid}, C{retcode}, C{stdout} and C{stderr}.

    Arguments as for C{cmd.run}.

    CLI Example::

        salt '*' cmd.run_all "ls -l"
    """
    result = _from(dict(locals()), stderr=subprocess.STDOUT if redirect_stderr else subprocess.PIPE)
    if hide_output:
        result["stdout"] = result["stderr"] = ""
    return result


def retcode(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    password: Any = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Run a command and answer with its exit code. Arguments as for C{cmd.run}.

    CLI Example::

        salt '*' cmd.retcode "file /bin/bash"
    """
    return _from(dict(locals()), stderr=subprocess.STDOUT)["retcode"]


def run_bg(
    cmd: Any,
    cwd: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    umask: Any = None,
    timeout: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    password: Any = None,
    prepend_path: str | None = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Start a command, do not wait, and answer with its C{pid}. Arguments as for C{cmd.run}.

    CLI Example::

        salt '*' cmd.run_bg "fstrim-all"
    """
    result = _from(
        dict(locals()), bg=True, stdout=None, stderr=None, with_communicate=False, rstrip=False
    )
    return {"pid": result["pid"]}


def script(
    source: str,
    args: Any = None,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    template: str | None = None,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    saltenv: str | None = None,
    use_vt: Any = False,
    bg: bool = False,
    password: Any = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Fetch a script (C{salt://}, a path or a URL), run it, and answer as C{cmd.run_all}.

    The copy that runs lies under a random name in C{cwd} (or the directory for temporary
    files), readable by the user who runs it, and is removed afterwards. With C{template}
    it is rendered first. C{args} is a text of words or a list.

    CLI Example::

        salt '*' cmd.script salt://scripts/runme.sh
        salt '*' cmd.script salt://scripts/runme.sh 'arg1 arg2 "arg 3"'
        salt '*' cmd.script salt://scripts/windows_task.ps1 args='-Input c:\\tmp\\infile.txt'
    """
    given = dict(locals())
    extra = given.pop("kwargs")
    extra.pop("__env__", None)
    for name in ("source", "args", "template", "hide_output"):
        given.pop(name)
    if saltenv is None:
        saltenv = given["saltenv"] = __opts__.get("saltenv") or "base"
    given["python_shell"] = _shell_default(python_shell, extra.get("__pub_jid", ""))
    ending = os.path.splitext(source.split("?saltenv=", 1)[0])[1]
    descriptor, path = tempfile.mkstemp(prefix="__salt.tmp.", suffix=ending, dir=cwd)
    os.close(descriptor)
    try:
        if template:
            if "pillarenv" in extra or "pillar" in extra:
                extra["pillar"] = _gather_pillar(
                    extra.get("pillarenv", __opts__.get("pillarenv")), extra.get("pillar")
                )
            fetched = __salt__["cp.get_template"](source, path, template, saltenv, **extra)
        else:
            fetched = __salt__["cp.cache_file"](source, saltenv)
            if fetched:
                try:
                    shutil.copyfile(fetched, path)
                except FileNotFoundError:
                    fetched = ""
        if not fetched:
            return {"pid": 0, "retcode": 1, "stdout": "", "stderr": "", "cache_error": True}
        if runas:
            os.chown(path, pwd.getpwnam(runas).pw_uid, -1)
        os.chmod(path, 0o500)
        if args:
            given["python_shell"] = False
        words = shlex.split(args) if isinstance(args, str) else list(args or ())
        result: dict[str, Any] = {}
        try:
            result = _run(**{**given, **extra, "cmd": [path, *words]})
        except (CommandExecutionError, SaltInvocationError) as error:
            log.error("cmd.script: Unable to run script: %s", type(error).__name__)
    finally:
        _remove(path)
    if hide_output:
        result["stdout"] = result["stderr"] = ""
    return result


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError as error:
        log.error("cmd: unable to clean tempfile '%s': %s", path, error.strerror)


def script_retcode(
    source: str,
    args: Any = None,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = None,
    env: Any = None,
    template: str | None = "jinja",
    umask: Any = None,
    timeout: Any = None,
    reset_system_locale: bool = True,
    saltenv: str | None = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "debug",
    log_callback: Any = None,
    use_vt: Any = False,
    password: Any = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> Any:
    """
    As C{cmd.script}, rendered with Jinja unless told otherwise; answers with the exit code.

    CLI Example::

        salt '*' cmd.script_retcode salt://scripts/runme.sh
    """
    given = dict(locals())
    given.update(given.pop("kwargs"))
    return script(**given)["retcode"]


def which(cmd: str) -> str | None:
    """
    The path of a program, or nothing.

    CLI Example::

        salt '*' cmd.which cat
    """
    return systools.which(cmd)


def which_bin(cmds: Any) -> str | None:
    """
    The path of the first of these programs that is there.

    CLI Example::

        salt '*' cmd.which_bin '[pip2, pip, pip-python]'
    """
    return systools.which_bin([cmds] if isinstance(cmds, str) else cmds)


def has_exec(cmd: str) -> bool:
    """
    Whether a program is there.

    CLI Example::

        salt '*' cmd.has_exec cat
    """
    return which(cmd) is not None


def exec_code(lang: str, code: str, cwd: Any = None, args: Any = None, **kwargs: Any) -> Any:
    """
    Run a piece of code with an interpreter and answer with its output.

    CLI Example::

        salt '*' cmd.exec_code ruby 'puts "cheese"'
    """
    return exec_code_all(lang, code, cwd, args, **kwargs)["stdout"]


def exec_code_all(
    lang: str, code: str, cwd: Any = None, args: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """
    As C{cmd.exec_code}, answering as C{cmd.run_all}.

    CLI Example::

        salt '*' cmd.exec_code_all ruby 'puts "cheese"'
    """
    words = [args] if isinstance(args, str) else list(args) if isinstance(args, list) else []
    descriptor, path = tempfile.mkstemp(prefix="__salt.tmp.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(code)
        if kwargs.get("runas") is not None:
            os.chown(path, pwd.getpwnam(kwargs["runas"]).pw_uid, -1)
        return run_all([lang, path, *words], cwd=cwd, python_shell=False, **kwargs)
    finally:
        _remove(path)


def tty(device: str, echo: Any = "") -> dict[str, str]:
    """
    Write a text to a terminal: C{tty0}, C{pts3}.

    CLI Example::

        salt '*' cmd.tty tty0 'This is a test'
    """
    if re.fullmatch(r"tty\w*", device):
        path = f"/dev/{device}"
    elif re.fullmatch(r"pts/?\d+", device):
        path = "/dev/pts/" + device.removeprefix("pts").lstrip("/")
    else:
        return {"Error": "The specified device is not a valid TTY"}
    try:
        # Never create a plain file under /dev.
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY)
        try:
            os.write(descriptor, str(echo).encode())
        finally:
            os.close(descriptor)
    except OSError:
        return {"Error": f"Echoing to {path} returned error"}
    return {"Success": f"Message was successfully echoed to {path}"}


def run_chroot(
    root: str,
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str | None = DEFAULT_SHELL,
    python_shell: Any = True,
    binds: Any = None,
    env: Any = None,
    clean_env: bool = False,
    template: str | None = None,
    rstrip: bool = True,
    umask: Any = None,
    output_encoding: str | None = None,
    output_loglevel: Any = "quiet",
    log_callback: Any = None,
    hide_output: bool = False,
    timeout: Any = None,
    reset_system_locale: bool = True,
    ignore_retcode: bool = False,
    saltenv: str | None = None,
    use_vt: Any = False,
    bg: bool = False,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a command in another root directory, with C{/dev}, C{/proc} and C{/sys} mounted there.

    C{binds} are more directories to make visible inside. What the command leaves running
    is terminated before the mounts are undone.

    CLI Example::

        salt '*' cmd.run_chroot /var/lib/lxc/container_name/rootfs 'sh /tmp/bootstrap.sh'
    """
    given = dict(locals())
    extra = given.pop("kwargs")
    for name in ("root", "runas", "group", "binds", "hide_output"):
        given.pop(name)
    line = " ".join(str(word) for word in cmd) if isinstance(cmd, (list, tuple)) else str(cmd)
    inner = "/bin/bash" if os.path.isfile(os.path.join(root, "bin/bash")) else "/bin/sh"
    words = ["chroot"]
    if runas:
        words += ["--userspec", f"{runas}:{group or ''}"]
    given["cmd"] = shlex.join([*words, root, inner, "-c", line])
    given["pillarenv"], given["pillar"] = extra.get("pillarenv"), extra.get("pillar")
    mounts: list[str] = []
    runner = __context__.pop("cmd.run_chroot.func", run_all)
    try:
        for kind, where in (("devtmpfs", "dev"), ("proc", "proc"), ("sysfs", "sys")):
            _mount(mounts, os.path.join(root, where), kind, ["-t", kind])
        for bind in binds or ():
            target = os.path.join(root, os.path.relpath(bind, "/"))
            _mount(mounts, target, bind, ["--bind"])
        result: dict[str, Any] = runner(**given)
    finally:
        _end_chroot(root)
        for target in reversed(mounts):
            _process.run(["umount", target], None, None, {"stderr": subprocess.PIPE})
    if hide_output:
        result["stdout"] = result["stderr"] = ""
    return result


def _mount(done: list[str], target: str, device: str, options: list[str]) -> None:
    """Mount something unless there is something; C{done} collects what to undo."""
    if os.path.ismount(target):
        return
    os.makedirs(target, exist_ok=True)
    _, code, _, err = _process.run(
        ["mount", *options, device, target], None, None, {"stderr": subprocess.PIPE}
    )
    if code != 0:
        raise CommandExecutionError(f"Unable to mount {target}: {_process.text(err, None)}")
    done.append(target)


def _end_chroot(root: str) -> None:
    """Terminate, then kill, what runs below this root."""
    for attempt in range(6):
        pids = _chroot_pids(root)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGTERM if attempt < 3 else signal.SIGKILL)
            except ProcessLookupError:
                pass
    if _chroot_pids(root):
        log.error("Processes running in chroot could not be killed, filesystem will remain mounted")


def _chroot_pids(chroot: str) -> list[int]:
    real = os.path.realpath(chroot)
    found = []
    for link in glob.glob("/proc/[0-9]*/root"):
        try:
            place = os.readlink(link)
        except OSError:
            continue
        if real != "/" and (place == real or place.startswith(real + "/")):
            found.append(int(link.split("/")[2]))
    return found


def shells() -> list[str]:
    """
    The login shells that C{/etc/shells} names.

    CLI Example::

        salt '*' cmd.shells
    """
    lines = (line.strip() for line in systools.read_text("/etc/shells").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


_SHELLS: dict[str, tuple[str, list[str]]] = {
    "bash": (r"version (\d\S*)", ["bash", "--version"]),
    "zsh": (r"^zsh (\d\S*)", ["zsh", "--version"]),
    "tcsh": (r"^tcsh (\d\S*)", ["tcsh", "--version"]),
    "perl": (r"^(\d\S*)", ["perl", "-e", 'printf "%vd\n", $^V;']),
    "python": (r"^Python (\d\S*)", ["python", "-V"]),
    "ruby": (r"^ruby (\d\S*)", ["ruby", "-v"]),
    "php": (r"^PHP (\d\S*)", ["php", "-v"]),
    "powershell": (
        r"PSVersion\s+(\d\S*)",
        ["powershell", "-NonInteractive", "$PSVersionTable"],
    ),
}


def shell_info(shell: str, list_modules: bool = False) -> dict[str, Any]:
    """
    Whether a shell or script language is here, where, and in which version.

    CLI Example::

        salt '*' cmd.shell_info bash
    """
    if shell not in _SHELLS:
        return {
            "error": f"Salt does not know how to get the version number for {shell}",
            "installed": None,
        }
    pattern, words = _SHELLS[shell]
    line = " ".join(words)
    options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "env": {"HOME": os.path.expanduser("~"), **os.environ},
    }
    try:
        _, _, out, _ = _process.run(words, None, 10, options)
    except OSError as error:
        return {"error": f"Unable to run command '{line}' Reason: {error}", "installed": False}
    except TimedProcTimeoutError:
        return {"error": f"Unable to run command '{line}' Reason: Timed out.", "installed": False}
    output = _process.text(out, None)
    result: dict[str, Any] = {"installed": None, "path": which(words[0])}
    found = re.search(pattern, output, re.IGNORECASE)
    if found:
        result["version_raw"] = found.group(1)
        number = re.match(r"\d[\d.]*", found.group(1))
        if number:
            parts = number.group().split(".")[:3]
            result["installed"] = True
            result["version"] = ".".join(parts if len(parts) > 1 else [*parts, "0"])
    if "version" not in result:
        result["error"] = (
            f"The version regex pattern for shell {shell}, could not find the version string"
        )
        result["stdout"] = output
    return result


def powershell(cmd: Any, *args: Any, shell: str = "powershell", **kwargs: Any) -> Any:
    """
    Not available: this minion runs on Linux.

    CLI Example::

        salt '*' cmd.powershell '$PSVersionTable.CLRVersion'
    """
    raise CommandExecutionError(f"The shell {shell} is not available")


def powershell_all(cmd: Any, *args: Any, shell: str = "powershell", **kwargs: Any) -> Any:
    """
    Not available: this minion runs on Linux.

    CLI Example::

        salt '*' cmd.powershell_all '$PSVersionTable.CLRVersion'
    """
    raise CommandExecutionError(f"The shell {shell} is not available")
