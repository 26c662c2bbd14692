"""
Commands as states. A command that runs counts as a change.

With C{stateful} the command itself says on its last line of output (C{changed=yes
comment='...'}, or a JSON object) whether it changed anything.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import shlex
from collections.abc import Callable
from typing import Any

from saltwisted.modules._arguments import picked
from saltwisted.worker.exceptions import CommandExecutionError, SaltRenderError

log = logging.getLogger(__name__)

__opts__: Any
__salt__: Any
__grains__: Any
__env__: Any

_HANDED_ON = (
    *("cwd", "runas", "password", "env", "use_vt", "output_loglevel", "hide_output"),
    *("success_retcodes", "success_stdout", "success_stderr"),
)
"""Arguments that the execution module takes as they are."""
_BAD_ENV = "Invalidly-formatted 'env' parameter. See documentation."


def _answer(name: Any, result: bool | None = False, comment: Any = "") -> dict[str, Any]:
    return {"name": name, "changes": {}, "result": result, "comment": comment}


def _by_its_word(state: dict[str, Any]) -> dict[str, Any]:
    """A result as the output of the command tells it."""
    ran = state["changes"]
    state["changes"] = {}
    state["comment"] = ""
    out = ran.get("stdout")
    if not out:
        if ran.get("stderr"):
            state["comment"] = ran["stderr"]
        return state
    end: int | None = None
    try:
        data = json.loads(out)
        if not isinstance(data, dict):
            return _failed(state, "script JSON output must be a JSON object (e.g., {})!")
    except ValueError:
        end = out.rstrip().rfind("\n")
        data = {}
        try:
            for item in shlex.split(out[end + 1 :]):
                key, value = item.split("=")
                data[key] = value
        except ValueError:
            state = _failed(
                state,
                "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.",
            )
            state["changes"].update(ran)
            return state
    changed = _is_true(data.get("changed", "no"))
    if "comment" in data:
        state["comment"] = data.pop("comment")
    if changed:
        for key, value in ran.items():
            data.setdefault(key, value)
        # What was read as the result is not shown; without a line before it, stock shows all
        # of the line but its last sign.
        data["stdout"] = "" if end is None else data.get("stdout", "")[:end]
        state["changes"] = data
    return state


def _failed(state: dict[str, Any], why: str) -> dict[str, Any]:
    state["comment"] = why
    state["result"] = False
    return state


def _is_true(value: Any) -> bool:
    text = str(value).lower()
    if value and text in ("true", "yes", "1"):
        return True
    if text in ("false", "no", "0"):
        return False
    raise ValueError(f"Failed parsing boolean value: {value}")


def _stateful(name: Any, stateful: Any) -> tuple[Any, bool, bool]:
    """The command for this mode, whether it tells its result, and whether it may be tried."""
    trial = stateful[0].get("test_name") if isinstance(stateful, list) and stateful else None
    tells = stateful is True or isinstance(stateful, list)
    if __opts__["test"] and trial:
        name = trial
    return name, tells, bool(trial)


def wait(
    name: Any,
    cwd: Any = None,
    root: Any = None,
    runas: Any = None,
    shell: Any = None,
    env: Any = (),
    stateful: Any = False,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    use_vt: bool = False,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    As C{cmd.run}, but only when a watched state has changed.
    """
    return _answer(name, True)


def watch(
    name: Any,
    cwd: Any = None,
    root: Any = None,
    runas: Any = None,
    shell: Any = None,
    env: Any = (),
    stateful: Any = False,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    use_vt: bool = False,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Another name of C{cmd.wait}.
    """
    return _answer(name, True)


def wait_script(
    name: Any,
    source: Any = None,
    template: Any = None,
    cwd: Any = None,
    runas: Any = None,
    shell: Any = None,
    env: Any = None,
    stateful: Any = False,
    use_vt: bool = False,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    As C{cmd.script}, but only when a watched state has changed.
    """
    return _answer(name, True)


def _wrong_words(env: Any, **maps: Any) -> str:
    """What is wrong with arguments; empty if nothing is."""
    if env is not None and not isinstance(env, (list, dict)):
        return _BAD_ENV
    for option, value in maps.items():
        if value and not isinstance(value, dict):
            return f"Invalidly-formatted '{option}' parameter. Must be formed as a dict."
    return ""


def run(
    name: Any,
    cwd: Any = None,
    root: Any = None,
    runas: Any = None,
    password: Any = None,
    shell: Any = None,
    env: Any = None,
    prepend_path: Any = None,
    stateful: Any = False,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    timeout: Any = None,
    ignore_timeout: bool = False,
    use_vt: bool = False,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a command in a shell.

    cwd
        The directory to run it in; it has to be there.
    root
        Run it in a chroot.
    runas
        As this user.
    env, prepend_path
        Variables (a map, or a list of maps); a directory to put before C{PATH}.
    stateful
        True: the output says what changed; a list with C{test_name}: that command is run
        in test mode.
    timeout, ignore_timeout
        Seconds; whether running out of them is a success.
    hide_output, output_loglevel
        No output in the result; the level at which it is logged.
    success_retcodes, success_stdout, success_stderr
        What counts as success besides the code 0.

    Other arguments are those of C{cmd.run_all} or C{cmd.run_chroot}.
    """
    answer = _answer(name)
    name, tells, trial = _stateful(name, stateful)
    answer["comment"] = _wrong_words(env)
    if answer["comment"]:
        return answer
    options = {**copy.deepcopy(kwargs), **picked(locals(), (*_HANDED_ON, "root", "prepend_path"))}
    options["shell"] = shell or __grains__["shell"]
    if __opts__["test"] and not trial:
        answer["result"] = None
        answer["comment"] = f'Command "{name}" would have been executed'
        answer["changes"] = {"cmd": name}
        return _by_its_word(answer) if tells else answer
    if cwd and not os.path.isdir(cwd):
        answer["comment"] = f'Desired working directory "{cwd}" is not available'
        return answer
    function = "cmd.run_chroot" if root else "cmd.run_all"
    try:
        ran = __salt__[function](cmd=name, timeout=timeout, python_shell=True, **options)
    except Exception as error:  # whatever went wrong is this state's failure
        answer["comment"] = str(error)
        return answer
    answer["changes"] = ran
    answer["result"] = not ran["retcode"]
    answer["comment"] = f'Command "{name}" run'
    if ignore_timeout and ran.get("retcode") == 1 and "Timed out after" in ran.get("stdout", ""):
        ran["retcode"] = 0
        answer["result"] = True
    return _finished(answer, ran, tells)


def _finished(answer: dict[str, Any], ran: Any, tells: bool) -> dict[str, Any]:
    if tells:
        answer = _by_its_word(answer)
    if __opts__["test"] and ran["retcode"] == 0 and answer["changes"]:
        answer["result"] = None
    return answer


def script(
    name: Any,
    source: Any = None,
    template: Any = None,
    cwd: Any = None,
    runas: Any = None,
    password: Any = None,
    shell: Any = None,
    env: Any = None,
    stateful: Any = False,
    timeout: Any = None,
    use_vt: bool = False,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    defaults: Any = None,
    context: Any = None,
    success_retcodes: Any = None,
    success_stdout: Any = None,
    success_stderr: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Fetch a script and run it.

    source
        Where it is; the name by default. Words of the name after the first are arguments.
    template, defaults, context
        Render it before, with these variables.

    The other arguments are those of C{cmd.run} and C{cmd.script} of the execution module.
    """
    answer = _answer(name)
    name, tells, trial = _stateful(name, stateful)
    answer["comment"] = _wrong_words(env, context=context, defaults=defaults)
    if answer["comment"]:
        return answer
    options = {
        **copy.deepcopy(kwargs),
        **picked(locals(), (*_HANDED_ON, "template", "timeout")),
        "shell": shell or __grains__["shell"],
        "context": {**(defaults or {}), **(context or {})},
        "saltenv": __env__,
    }
    if source is None:
        source = name
    if not options.get("args") and len(name.split()) > 1:
        options["args"] = name.split(" ", 1)[1]
    if __opts__["test"] and not trial:
        answer["result"] = None
        answer["comment"] = f"Command '{name}' would have been executed"
        return _by_its_word(answer) if tells else answer
    if cwd and not os.path.isdir(cwd):
        answer["comment"] = f'Desired working directory "{cwd}" is not available'
        return answer
    try:
        ran = __salt__["cmd.script"](source, python_shell=True, **options)
    except (CommandExecutionError, SaltRenderError, OSError) as error:
        answer["comment"] = str(error)
        return answer
    answer["changes"] = ran
    answer["result"] = not (ran if kwargs.get("retcode", False) else ran["retcode"])
    if isinstance(ran, dict) and ran.get("cache_error"):
        answer["comment"] = f"Unable to cache script {source} from saltenv '{__env__}'"
    else:
        answer["comment"] = f"Command '{name}' run"
    return _finished(answer, ran, tells)


def call(
    name: Any,
    func: Callable[..., Any],
    args: Any = (),
    kws: Any = None,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    use_vt: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Call a Python function, for renderers that write Python.

    A map that it gives back is the result; anything else is C{changes["retval"]}.
    """
    value = func(*args, **(kws or {}))
    answer = _answer(name)
    if isinstance(value, dict):
        answer.update(value)
        return answer
    answer["changes"] = {"retval": value}
    answer["result"] = True if value is None else bool(value)
    if isinstance(value, str):
        answer["comment"] = value
    return answer


def wait_call(
    name: Any,
    func: Callable[..., Any],
    args: Any = (),
    kws: Any = None,
    stateful: Any = False,
    use_vt: bool = False,
    output_loglevel: str = "debug",
    hide_output: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    As C{cmd.call}, but only when a watched state has changed.
    """
    return _answer(name, True)


def mod_watch(name: Any, **kwargs: Any) -> dict[str, Any]:
    """
    Run the command because a watched state has changed.
    """
    functions: dict[str, Callable[..., dict[str, Any]]] = {
        "wait": run,
        "run": run,
        "watch": run,
        "wait_script": script,
        "script": script,
    }
    sfun = kwargs["sfun"]
    if sfun in functions:
        if kwargs.get("stateful"):
            kwargs.pop("stateful")
            return _by_its_word(functions[sfun](name, **kwargs))
        return functions[sfun](name, **kwargs)
    if sfun in ("wait_call", "call"):
        if kwargs.get("func"):
            func = kwargs.pop("func")
            return call(name, func, **kwargs)
        return _answer(name, False, f"cmd.{kwargs['sfun']} needs a named parameter func")
    return _answer(
        name,
        False,
        f"cmd.{sfun} does not work with the watch requisite, please use cmd.wait or "
        "cmd.wait_script",
    )
