"""
Run programs and shell commands, under Salt's C{cmd.*}.

The one road is L{_run}; the public functions choose its L{CommandOptions} and what part of
the result comes back. Starting and waiting is in L{saltwisted.modules._process}. What
the caller passed in (arguments, environment, standard input) is never logged; the
output is, at C{output_loglevel}, with those words blotted out.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from typing import Any

from saltwisted.modules import _cmd_log, _cmd_look, _cmd_script, _process
from saltwisted.modules._command import CommandOptions, environment, permitted
from saltwisted.worker import templates
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    SaltInvocationError,
    SaltRenderError,
    TimedProcTimeoutError,
)

log = logging.getLogger(__name__)

__parts__ = (_cmd_look,)
__virtualname__ = "cmd"
__proxyenabled__ = ["*"]

__salt__: Any
__opts__: Any
__grains__: Any
__pillar__: Any
__context__: Any

DEFAULT_SHELL = os.environ.get("SHELL", "/bin/sh")


def __virtual__() -> str:
    return __virtualname__


def _shell_default(python_shell: Any, pub_jid: Any) -> Any:
    """A job from the master gets a shell unless it says otherwise; other callers do not."""
    if python_shell is None and (pub_jid or __opts__.get("cmd_safe", True) is False):
        return True
    return python_shell


def _rendered(options: CommandOptions) -> tuple[Any, str]:
    """The command and its directory, through a template engine if there is one."""
    cmd, cwd, template = options.cmd, options.cwd, options.template
    if not template:
        return cmd, cwd
    if not templates.known(template):
        raise CommandExecutionError(
            f"Attempted to render file paths with unavailable engine {template}"
        )
    if options.pillarenv is not None or options.pillar_override is not None:
        pillar = _gather_pillar(options.pillarenv or __opts__["pillarenv"], options.pillar_override)
    else:
        pillar = __pillar__
    context = {
        "salt": __salt__,
        "pillar": pillar,
        "grains": __grains__,
        "opts": __opts__,
        "saltenv": options.saltenv or __opts__.get("saltenv", "base"),
    }

    def render(text: Any) -> str:
        try:
            return templates.render_text(str(text), template, context)
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


def _run(options: CommandOptions) -> dict[str, Any]:
    """
    Run one command to its end (or start it, with C{bg}) and say how it went.

    @return: C{pid}, C{retcode}, C{stdout}, C{stderr}.
    @raises CommandExecutionError: it could not be started: no such program, shell,
        directory or user, or the site forbids it.
    """
    level = _cmd_log.level(log, options.output_loglevel)
    callback = _cmd_log.callback(log, options.log_callback)
    options.settle(__context__.get("runas"))
    options.cmd, options.cwd = _rendered(options)
    if options.from_master and not permitted(options.cmd, __salt__["config.get"]):
        raise CommandExecutionError(f'The shell command "{options.cmd}" is not permitted')
    given = environment(options.env)
    secrets = _process.secrets(options.cmd, options.stdin, given)
    if level is not None:
        log.info("%s", callback(_cmd_log.announcement(options)))
    surroundings = options.surroundings(given)
    options.split()
    if options.use_vt:
        result = _process.in_terminal(options.cmd, options.shell, options.timeout, surroundings)
    else:
        try:
            result = options.start(surroundings, shown=level is not None)
        except _process.BadTimeout as error:
            raise TimedProcTimeoutError(str(error)) from None
        except TimedProcTimeoutError as error:
            pid = getattr(error, "pid", None)
            return {"stdout": str(error), "stderr": "", "retcode": 1, "pid": pid}
    if options.succeeded(result):
        result["retcode"] = 0
    __context__["retcode"] = 0 if options.ignore_retcode else result["retcode"]
    if level is not None:
        _cmd_log.report(log, options, result, level, callback, secrets)
    return result


def _options(given: dict[str, Any], **changes: Any) -> CommandOptions:
    """The arguments of a public function, which are its C{locals()}, and changes."""
    extra = given["kwargs"]
    shell = _shell_default(given["python_shell"], extra.get("__pub_jid", ""))
    return CommandOptions.of({**given, "python_shell": shell, **extra, **changes})


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
    result = _run(
        _options(locals(), stderr=subprocess.STDOUT if redirect_stderr else subprocess.PIPE)
    )
    failed = not ignore_retcode and result["retcode"] != 0
    output = "" if hide_output else result["stdout"]
    if failed and raise_err and _cmd_log.level(log, output_loglevel) is not None:
        raise CommandExecutionError(_cmd_log.callback(log, log_callback)(output))
    return output


def _run_quiet(
    cmd: Any,
    cwd: Any = None,
    stdin: Any = None,
    output_encoding: str | None = None,
    runas: str | None = None,
    **kwargs: Any,
) -> Any:
    """C{cmd.run} without a word in the log, as grains of a site import it."""
    given = {"python_shell": False, "output_encoding": output_encoding, **kwargs}
    return run(cmd, cwd, stdin, runas, output_loglevel="quiet", **given)


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
    result = _run(_options(locals()))
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
    result = _run(_options(locals()))
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
    result = _run(
        _options(locals(), stderr=subprocess.STDOUT if redirect_stderr else subprocess.PIPE)
    )
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
    return _run(_options(locals(), stderr=subprocess.STDOUT))["retcode"]


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
    alone = {"stdout": None, "stderr": None, "with_communicate": False, "rstrip": False}
    return {"pid": _run(_options(locals(), bg=True, **alone))["pid"]}


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
    options = _options(locals(), cmd=None, template=None)
    path = _cmd_script.temporary(source, cwd)
    result: dict[str, Any] = {}
    try:
        if not _fetch_script(source, path, template, options, kwargs):
            return {"pid": 0, "retcode": 1, "stdout": "", "stderr": "", "cache_error": True}
        if args:
            options.python_shell = False
        options.cmd = [path, *(shlex.split(args) if isinstance(args, str) else list(args or ()))]
        try:
            result = _run(options)
        except (CommandExecutionError, SaltInvocationError) as error:
            log.error("cmd.script: Unable to run script: %s", type(error).__name__)
    finally:
        _cmd_script.remove(path)
    if hide_output:
        result["stdout"] = result["stderr"] = ""
    return result


def _fetch_script(
    source: str,
    path: str,
    template: str | None,
    options: CommandOptions,
    extra: dict[str, Any],
) -> bool:
    """Put a script at C{path}, rendered if asked, for who runs it; tell whether there is one."""
    saltenv = options.saltenv
    if saltenv is None:
        saltenv = options.saltenv = __opts__.get("saltenv") or "base"
    if template:
        extra = {name: value for name, value in extra.items() if name != "__env__"}
        if "pillarenv" in extra or "pillar" in extra:
            extra["pillar"] = _gather_pillar(
                extra.get("pillarenv", __opts__.get("pillarenv")), extra.get("pillar")
            )
        fetched = __salt__["cp.get_template"](source, path, template, saltenv, **extra)
    else:
        fetched = _cmd_script.copied(__salt__["cp.cache_file"](source, saltenv), path)
    if not fetched:
        return False
    _cmd_script.make_ready(path, options.runas)
    return True


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
    with _cmd_script.written(code, kwargs.get("runas")) as path:
        return run_all([lang, path, *words], cwd=cwd, python_shell=False, **kwargs)


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
    from saltwisted.modules import _chroot  # few commands need it

    runner = __context__.pop("cmd.run_chroot.func", run_all)
    with _chroot.mounted(root, binds):
        result: dict[str, Any] = runner(**given)
    if hide_output:
        result["stdout"] = result["stderr"] = ""
    return result
