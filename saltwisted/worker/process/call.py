"""
One function call of a job: arguments in, Salt's return fields out.

L{saltwisted.worker.process.main} (a job's own process) and L{saltwisted.worker.process.localcall}
(C{salt-call}) decide in which process this runs, and who is informed. The rules and every wording
are those of stock's C{minion.Minion._thread_return}: people's scripts depend on them.
"""

from __future__ import annotations

import inspect
import logging
import shlex
import time
import traceback
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any, NamedTuple

from saltwisted.domain.arguments import keyword_of, marked, yamlify
from saltwisted.worker.exceptions import (
    CommandExecutionError,
    CommandNotFoundError,
    SaltClientError,
    SaltInvocationError,
)
from saltwisted.worker.masking import answering
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.process.modulefiles import HERE

log = logging.getLogger(__name__)

Progress = Callable[[int, Any], None]
"""Told each item of a function that yields: its number, its value."""


class ArgSpec(NamedTuple):
    """What a function accepts, in the shape that C{sys.argspec} shows."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def argspec(function: Callable[..., Any]) -> ArgSpec:
    """
    The arguments of a function; of what it wraps, if it is a wrapper.

    Keyword-only arguments are listed among C{args}, as Salt does.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    args: list[str] = []
    defaults: list[Any] = []
    varargs = keywords = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            args.append(parameter.name)
            if parameter.default is not parameter.empty:
                defaults.append(parameter.default)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            varargs = parameter.name
        elif parameter.kind == parameter.VAR_KEYWORD:
            keywords = parameter.name
    return ArgSpec(args, varargs, keywords, tuple(defaults) or None)


def _accepts(function: Callable[..., Any]) -> tuple[Sequence[str], bool]:
    """Names that may be given as keywords, and whether any other may be too."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__signature__"):
        spec = argspec(function)
        return spec.args, spec.keywords is not None
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return named, bool(code.co_flags & inspect.CO_VARKEYWORDS)


def split_arguments(
    function: Callable[..., Any],
    args: Iterable[Any],
    publication: Mapping[str, Any] | None = None,
    ignore_invalid: bool = False,
) -> tuple[list[Any], dict[str, Any]]:
    """
    The C{arg} list of a job as positional and keyword arguments.

    Keywords come as one map marked C{__kwarg__}, or as text C{name=value}. A function that
    takes any keyword is given the job's fields as C{__pub_<field>} besides.

    @raises SaltInvocationError: a keyword that the function does not take.
    """
    named, anything = _accepts(function)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    invalid: list[str] = []
    for arg in args:
        if marked(arg):
            given = {key: value for key, value in arg.items() if key != "__kwarg__"}
        else:
            word = keyword_of(arg)
            if word is None:
                positional.append(arg)
                continue
            given = {word[0]: yamlify(word[1])}
        for key, value in given.items():
            if anything or key in named:
                keywords[key] = value
            else:
                invalid.append(f"{key}={value}")
    if invalid and not ignore_invalid:
        raise SaltInvocationError(
            "The following keyword arguments are not valid: " + ", ".join(invalid)
        )
    if anything and publication is not None:
        for key, value in publication.items():
            keywords[f"__pub_{key}"] = value
    return positional, keywords


def execute(
    loaders: Loaders,
    job: Mapping[str, Any],
    *,
    blackouts: Sequence[Sequence[str]] = (),
    progress: Progress | None = None,
    own: bool = False,
) -> dict[str, Any]:
    """
    Run a job (one function, or several) and say how it went.

    @param job: Salt's publication: C{fun}, C{arg}, C{jid} and the optional fields.
    @param blackouts: the white list of every minion blackout in force.
    @param progress: told what a generator yields.
    @param own: the job is this program's own: C{whitelist_modules} binds only others, and only
        theirs pass through C{module_executors}.
    @return: C{return}, C{retcode}, C{success}, C{fun}, C{fun_args}, C{jid}, and of C{out},
        C{user}, C{metadata}, C{master_id} those that apply.
    """
    if isinstance(job["fun"], (list, tuple)):
        ret = _several(loaders, job, blackouts)
    else:
        ret = _one(loaders, job, blackouts, progress, own)
    ret.update(jid=job["jid"], fun=job["fun"], fun_args=job["arg"])
    for key in ("user", "master_id"):
        if key in job:
            ret[key] = job[key]
    if "metadata" in job:
        if isinstance(job["metadata"], dict):
            ret["metadata"] = job["metadata"]
        else:
            log.warning("The metadata parameter must be a dictionary. Ignoring.")
    return ret


def _one(
    loaders: Loaders,
    job: Mapping[str, Any],
    blackouts: Sequence[Sequence[str]],
    progress: Progress | None,
    own: bool,
) -> dict[str, Any]:
    functions = loaders.modules if own else loaders.called
    name = job["fun"]
    ret: dict[str, Any] = {"success": False}
    if name not in functions:
        ret.update(**{"return": _missing(loaders, name)}, retcode=1, out="nested")
        return ret
    try:
        value = call(loaders, job, name, job["arg"], blackouts, own)
        if isinstance(value, types.GeneratorType):
            value = _collect(value, progress)
        ret["return"] = value
        ret["retcode"] = retcode = _retcode(loaders, value)
        ret["success"] = retcode == 0
        outputter = getattr(functions[name], "__outputter__", None)
        if isinstance(outputter, str):
            ret["out"] = outputter
    except CommandNotFoundError as error:
        _fail(ret, f"Command required for '{name}' not found: {error}")
    except CommandExecutionError as error:
        log.error("A command in '%s' had a problem: %s", name, error)
        log.debug("Where it came from:", exc_info=True)
        _fail(ret, f"ERROR: {error}")
    except (SaltInvocationError, SaltClientError) as error:
        log.error("Problem executing '%s': %s", name, error)
        log.debug("Where it came from:", exc_info=True)
        _fail(ret, f"ERROR executing '{name}': {error}")
    except TypeError as error:
        doc = functions[name].__doc__ or ""
        log.debug("Passed invalid arguments to %s:", name, exc_info=True)
        _fail(ret, f"Passed invalid arguments to {name}: {error}\n{doc}")
    except Exception:
        log.warning("The minion function caused an exception", exc_info=True)
        _fail(ret, f"The minion function caused an exception: {traceback.format_exc()}")
    return ret


def _fail(ret: dict[str, Any], text: str) -> None:
    ret.update(**{"return": text}, out="nested", retcode=1)


def _several(
    loaders: Loaders, job: Mapping[str, Any], blackouts: Sequence[Sequence[str]]
) -> dict[str, Any]:
    names = list(job["fun"])
    ordered = bool(loaders.opts.get("multifunc_ordered"))
    ret: dict[str, Any] = {"return": {}, "retcode": {}, "success": {}}
    if ordered:
        count = len(names)
        ret = {"return": [None] * count, "retcode": [None] * count, "success": [False] * count}
    for index, name in enumerate(names):
        key = index if ordered else name
        ret["success"][key] = False
        try:
            value = call(loaders, job, name, job["arg"][index], blackouts)
            if isinstance(value, types.GeneratorType):
                value = _collect(value, None)
            retcode = _retcode(loaders, value)
            ret["return"][key] = value
            ret["retcode"][key] = retcode
            ret["success"][key] = retcode == 0
        except Exception as error:
            log.warning("The minion function caused an exception: %s", error)
            ret["return"][key] = traceback.format_exc()
            ret["retcode"][key] = 1
    return ret


def call(
    loaders: Loaders,
    job: Mapping[str, Any],
    name: str,
    args: Iterable[Any],
    blackouts: Sequence[Sequence[str]] = (),
    own: bool = False,
) -> Any:
    """
    Call one function through the job's executors, with a fresh C{__context__["retcode"]}.

    @param own: see L{execute}.

    @raises SaltInvocationError: a blackout, a wrong executor, or invalid keywords.
    """
    for allowed in blackouts:
        if name != "saltutil.refresh_pillar" and name not in allowed:
            raise SaltInvocationError(
                "Minion in blackout mode. Set 'minion_blackout' to False in pillar or grains to "
                "resume operations. Only saltutil.refresh_pillar allowed in blackout mode."
            )
    functions = loaders.modules if own else loaders.called
    if name not in functions:
        raise SaltInvocationError(functions.missing_fun_string(name))
    function = functions[name]
    path = getattr(getattr(function, "__code__", None), "co_filename", "")
    if path and not path.startswith(HERE):
        loaders.begins(path)
    positional, keywords = split_arguments(function, args, job)
    loaders.context["retcode"] = 0
    opts = loaders.opts
    executors = job.get("module_executors") or opts.get("module_executors") or ["direct_call"]
    if own:
        # Nobody has asked for it whom an executor could keep waiting, or run as somebody else
        executors = ["direct_call"]
    if isinstance(executors, str):
        executors = [executors]
    if not isinstance(executors, list):
        raise SaltInvocationError(
            f"Wrong executors specification: {executors}. String or non-empty list expected"
        )
    if opts.get("sudo_user") and executors[-1] != "sudo" and not own:
        executors = [*executors[:-1], "sudo"]
    with answering(name):
        for executor in executors:
            ours = _EXECUTORS.get(executor)
            if ours is not None and not _is_replaced(loaders, executor):
                value = ours(loaders, job, function, positional, keywords)
            else:
                full = f"{executor}.execute"
                if full not in loaders["executors"]:
                    raise SaltInvocationError(f"Executor '{executor}' is not available")
                value = loaders["executors"][full](opts, dict(job), function, positional, keywords)
            if value is not None:
                return value
    return None


def _direct_call(
    loaders: Loaders,
    job: Mapping[str, Any],
    function: Callable[..., Any],
    args: list[Any],
    keywords: dict[str, Any],
) -> Any:
    return function(*args, **keywords)


def _splay(
    loaders: Loaders,
    job: Mapping[str, Any],
    function: Callable[..., Any],
    args: list[Any],
    keywords: dict[str, Any],
) -> None:
    """Wait for a share of C{splaytime} seconds that depends on the minion's id alone."""
    longest = (job.get("executor_opts") or {}).get("splaytime", loaders.opts.get("splaytime", 300))
    if longest <= 0:
        raise ValueError("splaytime must be a positive integer")
    value = 0
    for byte in str(loaders.opts["id"]).encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    value = (value + (value << 15)) & 0xFFFFFFFF
    time.sleep(int(longest * (value & 8191) / 8192))


def _sudo(
    loaders: Loaders,
    job: Mapping[str, Any],
    function: Callable[..., Any],
    args: list[Any],
    keywords: dict[str, Any],
) -> Any:
    """Run the function in C{sudo -u <sudo_user> salt-call}."""
    import json

    user = loaders.opts.get("sudo_user")
    if not user:
        raise SaltInvocationError("Executor 'sudo' is not available")
    if job["fun"] in ("state.sls", "state.highstate", "state.apply"):
        keywords["concurrent"] = True
    command = ["sudo", "-u", user, "salt-call", "--priv", user, "--out", "json", "--metadata"]
    command += ["-c", str(loaders.opts.get("config_dir")), "--", job["fun"]]
    command += [shlex.quote(str(arg)) for arg in args]
    command += [
        shlex.quote(f"{key}={value}")
        for key, value in keywords.items()
        if not key.startswith("__pub_")
    ]
    result = loaders.modules["cmd.run_all"](command, python_shell=False)
    if result["retcode"] != 0:
        loaders.context["retcode"] = result["retcode"]
        return result["stderr"]
    answer = json.loads(result["stdout"])["local"]
    loaders.context["retcode"] = answer.get("retcode", 0)
    return answer["return"]


def _is_replaced(loaders: Loaders, executor: str) -> bool:
    """Whether a file of the site's takes the place of ours; that of all jobs is not looked for."""
    return executor != "direct_call" and loaders["executors"]._catalogue.is_of_site(executor)


_EXECUTORS = {"direct_call": _direct_call, "splay": _splay, "sudo": _sudo}


def _collect(values: Iterable[Any], progress: Progress | None) -> Any:
    """All that a generator yields: maps are merged, anything else becomes a list."""
    whole: Any = {}
    for number, value in enumerate(values):
        if isinstance(value, dict) and isinstance(whole, dict):
            whole.update(value)
        else:
            if not whole:
                whole = []
            elif isinstance(whole, dict):
                whole = [whole]
            whole.append(value)
        if progress is not None:
            progress(number, value)
    return whole


def _retcode(loaders: Loaders, value: Any) -> int:
    """C{__context__["retcode"]}; else 1 for a map whose C{result} or C{success} is false."""
    code = loaders.context.get("retcode", 0)
    if code == 0 and isinstance(value, dict):
        try:
            if not (value.get("result", True) and value.get("success", True)):
                return 1
        except Exception:  # a value whose truth cannot be told counts as true
            return 0
    return code  # type: ignore[no-any-return]


def _missing(loaders: Loaders, name: str) -> Any:
    """What to say about a function that is not there: why, with the docs of those like it."""
    functions = loaders.called
    # All that may be the module were executed to look for it; nobody else's is for this
    alike = sorted(each for each in functions.loaded_names() if fnmatch(each, f"{name}*"))
    if alike and "sys.doc" in loaders.modules:
        docs = loaders.modules["sys.doc"](*alike)
        if docs:
            docs[name] = functions.missing_fun_string(name)
            return docs
    return functions.missing_fun_string(name)
