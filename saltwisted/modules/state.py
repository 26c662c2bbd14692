"""
Run states: C{state.apply} and its family.

The work is done by L{saltwisted.worker.states.highstate}. Where the texts of stock are known to
scripts they are kept, and so are the return codes: 1 for data that does not compile, 2
for states that failed, 5 for a pillar with errors.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from saltwisted.domain.highstate.verdicts import succeeded, without_uneventful
from saltwisted.domain.highstate.words import split_names, tag_of
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError
from saltwisted.worker.states import queue as statequeue
from saltwisted.worker.states.cache import read_cache, write_cache
from saltwisted.worker.states.calls import kept_surroundings
from saltwisted.worker.states.highstate import (
    HighState,
    add_excludes,
    changed_options,
    master_options,
)

log = logging.getLogger(__name__)

__proxyenabled__ = ["*"]

__outputter__ = dict.fromkeys(
    (
        "sls",
        "sls_id",
        "pkg",
        "top",
        "single",
        "highstate",
        "template",
        "template_str",
        "apply_",
        "test",
        "request",
        "check_request",
        "run_request",
    ),
    "highstate",
)

__func_alias__ = {"apply_": "apply"}

__salt__: Any
__opts__: Any
__context__: Any
__grains__: Any
__pillar__: Any

_EX_COMPILER = 1
_EX_FAILED = 2
_EX_PILLAR = 5
_PILLAR_FAILED = "Pillar failed to render with the following messages:"


# -- what all of them need ---------------------------------------------------------------


def _options(kwargs: dict[str, Any], test: Any = None) -> dict[str, Any]:
    """The options that the arguments of a call change."""
    changes: dict[str, Any] = {}
    if "localconfig" in kwargs:
        from saltwisted.worker.process.configio import load_from_disk

        loaded = load_from_disk("minion", None, overrides={"conf_file": kwargs["localconfig"]})
        changes.update(loaded.config.as_opts())
    saltenv = kwargs.get("saltenv")
    if saltenv is not None:
        saltenv = str(saltenv)
        if __opts__.get("lock_saltenv") and saltenv != __opts__.get("saltenv"):
            raise CommandExecutionError("lock_saltenv is enabled, saltenv cannot be changed")
        changes["saltenv"] = saltenv
    if "pillarenv" in kwargs or __opts__.get("pillarenv_from_saltenv", False):
        pillarenv = kwargs.get("pillarenv") or kwargs.get("saltenv")
        changes["pillarenv"] = None if pillarenv is None else str(pillarenv)
    if kwargs.get("state_events") is not None:
        changes["state_events"] = kwargs["state_events"]
    if test is not _KEEP:
        changes["test"] = _test_mode(test, kwargs)
    return changes


_KEEP = object()


def _test_mode(test: Any, kwargs: dict[str, Any]) -> Any:
    if test is None:
        for name, value in kwargs.items():
            if name.lower() == "test" and _is_true(value):
                return True
        if __salt__["config.get"]("test", omit_opts=True) is True:
            return True
        return __opts__.get("test")
    return test is not False


def _is_true(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return value > 0
    if isinstance(value, str):
        return value.lower() == "true"
    return bool(value)


def _override(kwargs: dict[str, Any]) -> Any:
    given = kwargs.get("pillar")
    if kwargs.get("pillar_enc") is None and given is not None and not isinstance(given, dict):
        raise SaltInvocationError(
            "Pillar data must be formatted as a dictionary, unless pillar_enc is specified."
        )
    return given


@contextmanager
def _compiler(
    kwargs: dict[str, Any], test: Any = None, base: bool = False, jid: bool = False, **more: Any
) -> Iterator[HighState]:
    """
    A compiler with the options of this call; all is as it was when it is done with.

    @param base: without an environment the base is meant.
    @param jid: the run is this job, with events and pauses.
    """
    override = _override(kwargs)
    loaders = __salt__.loaders
    changes = {**_options(kwargs, test), **more}
    if base and changes.get("saltenv", __opts__.get("saltenv")) is None:
        changes["saltenv"] = "base"
    same_pillar = changes.get("pillarenv", __opts__.get("pillarenv")) == __opts__.get("pillarenv")
    fresh = not (__opts__.get("__cli") == "salt-call" and same_pillar)
    context = loaders.context
    relaid = __opts__.get("file_client") == "local" and not same_pillar
    if relaid:
        changes["__pillarenv_before"] = __opts__.get("pillarenv")
    pillar = loaders.pillar if relaid or not fresh else None
    with ExitStack() as stack:
        stack.enter_context(changed_options(loaders, changes))
        stack.enter_context(master_options(loaders))
        stack.enter_context(kept_surroundings(loaders))
        loaders.replace(context={})
        try:
            yield HighState(
                loaders,
                pillar_override=override,
                pillar_enc=kwargs.get("pillar_enc"),
                jid=str(kwargs["__pub_jid"]) if jid and kwargs.get("__pub_jid") else None,
                mocked=bool(kwargs.get("mock", False)),
                fresh_pillar=fresh,
            )
        finally:
            loaders.replace(context=context)
            if pillar is not None and (override or relaid):
                loaders.replace(pillar=pillar)


def _set_retcode(answer: Any, high: Any = None) -> None:
    code = 0
    if isinstance(answer, list):
        code = _EX_COMPILER
    elif not succeeded(answer, high):
        code = _EX_FAILED
    __salt__.loaders.context["retcode"] = code


def _refuse(code: int) -> None:
    __salt__.loaders.context["retcode"] = code


def _pillar_errors(compiler: HighState, kwargs: dict[str, Any]) -> list[Any]:
    return compiler.errors_of_pillar(bool(kwargs.get("force")))


def _check_pillar(compiler: HighState, kwargs: dict[str, Any]) -> None:
    errors = _pillar_errors(compiler, kwargs)
    if errors:
        _refuse(_EX_PILLAR)
        raise CommandExecutionError("Pillar failed to render", info=errors)


def _cache_path(kwargs: dict[str, Any]) -> str:
    name = kwargs.get("cache_name", "highstate")
    return os.path.join(__opts__["cachedir"], f"{name}.cache.p")


def _is_terse(kwargs: dict[str, Any]) -> bool:
    return __salt__["config.option"]("state_data", "") == "terse" or bool(kwargs.get("terse"))


# -- one at a time -----------------------------------------------------------------------


def running(concurrent: bool = False) -> list[str]:
    """
    Sentences about the state runs that are under way, without this one.

    concurrent
        True: pretend that there are none.

    CLI Example::

        salt '*' state.running
    """
    if concurrent:
        return []
    mine = str(__opts__.get("jid") or "")
    return [
        f'The function "{job["fun"]}" is running as PID {job["pid"]} and was started at '
        f"{statequeue.started(job['jid'])} with jid {job['jid']}"
        for job in __salt__["saltutil.is_running"]("state.*")
        if str(job.get("jid")) != mine
    ]


def _conflict(queue: Any, kwargs: dict[str, Any]) -> Any:
    """
    What to answer instead of running; C{None} to go ahead.

    C{queue=True} hands the job over to the daemon's queue, or waits where there is none.
    """
    if queue is None:
        queue = __salt__["config.option"]("state_queue", False)
    if queue is True or (isinstance(queue, int) and not isinstance(queue, bool) and queue):
        limit = 0 if queue is True else queue
        jid = kwargs.get("__pub_jid") or __opts__.get("jid")
        if statequeue.wait(__opts__, jid, limit, __salt__["saltutil.is_running"]):
            return None
    found = running(concurrent=bool(kwargs.get("concurrent", False)))
    if found:
        _refuse(_EX_COMPILER)
        return found
    return None


# -- running -----------------------------------------------------------------------------


def apply_(mods: Any = None, **kwargs: Any) -> Any:
    """
    Apply SLS by name (as C{state.sls}), or without names all of the top file (as
    C{state.highstate}). The other arguments are those of these two.

    CLI Example::

        salt '*' state.apply
        salt '*' state.apply stuff,pkgs pillar='{"foo": "bar"}' test=True
    """
    if mods:
        return sls(mods, **kwargs)
    return highstate(**kwargs)


def test(*args: Any, **kwargs: Any) -> Any:
    """
    As C{state.apply} with C{test=True}.

    CLI Example::

        salt '*' state.test stuff
    """
    kwargs["test"] = True
    return apply_(*args, **kwargs)


def highstate(test: Any = None, queue: Any = None, state_events: Any = None, **kwargs: Any) -> Any:
    """
    Apply all that the top file gives this minion.

    test
        Only say what would be done.
    pillar, pillar_enc
        Values to lay over the pillar; the renderer that decrypts them.
    exclude
        SLS to leave out: a list, comma text, or maps with C{sls} or C{id}.
    whitelist
        Only these SLS.
    queue
        True: wait for other state runs; a number: if not more are waiting.
    concurrent
        True: run beside others.
    saltenv, pillarenv
        Environments.
    mock
        Call no state, but order and verify them.

    CLI Example::

        salt '*' state.highstate exclude=bar,baz
        salt '*' state.highstate pillar="{foo: 'Foo!', bar: 'Bar!'}"
    """
    if _disabled(["highstate"]):
        return {
            "name": "Salt highstate run is disabled. To re-enable, run state.enable highstate",
            "result": "False",
            "comment": "Disabled",
        }
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    kwargs.pop("env", None)
    kwargs["state_events"] = state_events
    with _compiler(kwargs, test, jid=True) as compiler:
        errors = _pillar_errors(compiler, kwargs)
        answer: Any = None
        if not errors:
            with _snapshots(kwargs):
                answer = compiler.call_highstate(
                    exclude=kwargs.get("exclude", []),
                    cache=kwargs.get("cache"),
                    cache_path=_cache_path(kwargs),
                    force=bool(kwargs.get("force", False)),
                    whitelist=kwargs.get("whitelist"),
                    orchestration_jid=kwargs.get("orchestration_jid"),
                )
    if errors:
        _refuse(_EX_PILLAR)
        return [_PILLAR_FAILED, *errors]
    if isinstance(answer, dict) and _is_terse(kwargs):
        answer = without_uneventful(answer)
    _set_retcode(answer, compiler.high)
    return answer


def sls(
    mods: Any,
    test: Any = None,
    exclude: Any = None,
    queue: Any = None,
    sync_mods: Any = None,
    state_events: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Apply some SLS.

    mods
        Their names: a list, or comma text; globs are allowed.
    sync_mods
        Kinds of custom modules to fetch before: C{modules,states} or C{all}.

    The other arguments are those of C{state.highstate}.

    CLI Example::

        salt '*' state.sls core,edit.vim
        salt '*' state.sls core exclude="[{'id': 'id_to_exclude'}, {'sls': 'sls_to_exclude'}]"
    """
    kwargs.pop("env", None)
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    disabled = _disabled(mods if isinstance(mods, list) else [mods])
    if disabled:
        _refuse(_EX_COMPILER)
        return disabled
    kwargs["state_events"] = state_events
    _override(kwargs)
    _sync(sync_mods, kwargs)
    high: Any = None
    with _compiler(kwargs, test, base=True, jid=True) as compiler:
        errors = _pillar_errors(compiler, kwargs)
        if errors:
            code = _EX_PILLAR
            errors = [_PILLAR_FAILED, *errors]
        elif kwargs.get("cache") and os.path.isfile(_cache_path(kwargs)):
            return compiler.run.call_high(
                read_cache(_cache_path(kwargs)), kwargs.get("orchestration_jid")
            )
        else:
            code = _EX_COMPILER
            names = [str(mods)] if isinstance(mods, int) else split_names(mods)
            errors = compiler.assembly.assemble({compiler.opts["saltenv"]: names})
        if not errors:
            high = compiler.high
            add_excludes(high, split_names(exclude) if exclude else None)
            with _snapshots(kwargs):
                answer = compiler.run.call_high(high, kwargs.get("orchestration_jid"))
    if errors:
        _refuse(code)
        return errors
    if isinstance(answer, dict) and _is_terse(kwargs):
        answer = without_uneventful(answer)
    write_cache(os.path.join(__opts__["cachedir"], "sls.p"), answer)
    _set_retcode(answer, high)
    write_cache(_cache_path(kwargs), high)
    return answer


def _sync(kinds: Any, kwargs: dict[str, Any]) -> None:
    if kinds is None:
        return
    wanted = ["all"] if kinds is True else split_names(kinds)
    for kind in ["all"] if "all" in wanted else wanted:
        function = f"saltutil.sync_{kind}"
        if function in __salt__:
            __salt__[function](saltenv=kwargs.get("saltenv") or __opts__.get("saltenv") or "base")
        else:
            log.warning("Invalid custom module type '%s', ignoring", kind)


@contextmanager
def _snapshots(kwargs: dict[str, Any]) -> Iterator[None]:
    """C{snapper_states}: snapshots before and after the run."""
    before = None
    wanted = bool(__opts__.get("snapper_states")) and not __opts__.get("test")
    jid = kwargs.get("__pub_jid", "called localy")
    options = {
        "config": __opts__.get("snapper_states_config", "root"),
        "description": f"Salt State run for jid {jid}",
        "__pub_jid": jid,
    }
    if wanted:
        try:
            before = __salt__["snapper.create_snapshot"](snapshot_type="pre", **options)
        except Exception:
            log.exception("Failed to create snapper pre snapshot for jid: %s", jid)
    yield
    if before:
        try:
            __salt__["snapper.create_snapshot"](snapshot_type="post", pre_number=before, **options)
        except Exception:
            log.exception("Failed to create snapper post snapshot for jid: %s", jid)


def top(topfn: str, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    As C{state.highstate} by another top file.

    CLI Example::

        salt '*' state.top reverse_top.sls
        salt '*' state.top prod_top.sls exclude=sls_to_exclude
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, test) as compiler:
        errors = _pillar_errors(compiler, kwargs)
        if not errors:
            changes = {"state_top": f"salt://{topfn.removeprefix('salt://')}"}
            if "saltenv" in kwargs:
                changes["state_top_saltenv"] = kwargs["saltenv"]
            with changed_options(compiler.loaders, changes), _snapshots(kwargs):
                answer = compiler.call_highstate(
                    exclude=kwargs.get("exclude", []),
                    cache=kwargs.get("cache"),
                    cache_path=_cache_path(kwargs),
                    orchestration_jid=kwargs.get("orchestration_jid"),
                )
    if errors:
        _refuse(_EX_PILLAR)
        return [_PILLAR_FAILED, *errors]
    _set_retcode(answer, compiler.high)
    return answer


def sls_id(
    id_: str,
    mods: Any,
    test: Any = None,
    queue: Any = None,
    state_events: Any = None,
    **kwargs: Any,
) -> Any:
    """
    Apply one id of some SLS, with what it requires.

    CLI Example::

        salt '*' state.sls_id my_state my_module,a_common_module
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    kwargs["state_events"] = state_events
    answer: dict[str, Any] = {}
    with _compiler(kwargs, test, base=True) as compiler:
        saltenv = compiler.opts["saltenv"]
        errors = _pillar_errors(compiler, kwargs)
        if errors:
            code, errors = _EX_PILLAR, [_PILLAR_FAILED, *errors]
        else:
            code = _EX_COMPILER
            chunks, errors = compiler.compile_sls({saltenv: split_names(mods)}, requisites=True)
        if not errors:
            for chunk in chunks:
                if chunk.get("__id__", "") == id_:
                    answer.update(compiler.run.call_alone(chunk, chunks))
    if errors:
        _refuse(code)
        return errors
    _set_retcode(answer)
    if not answer:
        raise SaltInvocationError(
            f"No matches for ID '{id_}' found in SLS '{mods}' within saltenv '{saltenv}'"
        )
    return answer


def single(fun: str, name: str, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    Call one state function.

    CLI Example::

        salt '*' state.single pkg.installed name=vim
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    parts = fun.split(".")
    if len(parts) < 2:
        _refuse(_EX_COMPILER)
        return "Invalid function passed"
    kwargs.update({"state": parts[0], "fun": parts[1], "__id__": name, "name": name})
    with _compiler(kwargs, test) as compiler:
        errors = compiler.run.calls.verify(kwargs)
        if not errors:
            compiler.run.initialise(kwargs)
            with _snapshots(kwargs):
                answer = {tag_of(kwargs): compiler.run.calls.call(kwargs)}
    if errors:
        _refuse(_EX_COMPILER)
        return errors
    _set_retcode(answer)
    return answer


def low(data: Any, queue: Any = None, **kwargs: Any) -> Any:
    """
    Call one state by its low data.

    CLI Example::

        salt '*' state.low '{"state": "pkg", "fun": "installed", "name": "vi"}'
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler({}, _KEEP) as compiler:
        errors = compiler.run.calls.verify(data)
        if not errors:
            answer = compiler.run.calls.call(data)
    if errors:
        _refuse(_EX_COMPILER)
        return errors
    if isinstance(answer, list):
        _refuse(_EX_COMPILER)
    if not succeeded(answer):
        _refuse(_EX_FAILED)
    return answer


def high(data: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    Run high data.

    CLI Example::

        salt '*' state.high '{"vim": {"pkg": ["installed"]}}'
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, test) as compiler:
        answer = compiler.run.call_high(data)
    _set_retcode(answer, data)
    return answer


def template(tem: str, queue: Any = None, **kwargs: Any) -> Any:
    """
    Run an SLS file of this machine.

    CLI Example::

        salt '*' state.template '/path/to/file.sls'
    """
    kwargs.pop("env", None)
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        _check_pillar(compiler, kwargs)
        path = tem if tem.endswith(".sls") else f"{tem}.sls"
        data, errors = compiler.assembly.render(
            path, kwargs.get("saltenv", ""), set(), None, local=True
        )
        if not errors:
            answer = compiler.run.call_high(data)
    if errors:
        _refuse(_EX_COMPILER)
        return errors
    _set_retcode(answer, data)
    return answer


def template_str(tem: str, queue: Any = None, **kwargs: Any) -> Any:
    """
    Run the text of an SLS.

    CLI Example::

        salt '*' state.template_str '<text>'
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        answer = compiler.call_text(tem)
    _set_retcode(answer)
    return answer


def pkg(pkg_path: str, pkg_sum: str, hash_type: str, test: Any = None, **kwargs: Any) -> Any:
    """
    Run low data with its files out of a tar archive, as C{salt-ssh} makes it.

    CLI Example::

        salt '*' state.pkg /tmp/salt_state.tgz 760a9353810e36f6d81416366fc426dc md5
    """
    if not os.path.isfile(pkg_path) or __salt__["file.get_hash"](pkg_path, hash_type) != pkg_sum:
        return {}
    root = tempfile.mkdtemp()
    try:
        with tarfile.open(pkg_path, "r:gz") as archive:
            names = [member.name for member in archive.getmembers()]
            if any(name.startswith(("/", "../")) or "../" in name for name in names):
                return {}
            archive.extractall(root, filter="data")
        chunks = _json_of(root, "lowstate.json", [])
        if not all(isinstance(chunk, dict) for chunk in chunks):
            return chunks
        kwargs["pillar"] = _json_of(root, "pillar.json", None)
        roots = {
            env: [os.path.join(root, env)]
            for env in os.listdir(root)
            if os.path.isdir(os.path.join(root, env))
        }
        with _compiler(kwargs, test, file_client="local", file_roots=roots) as compiler:
            compiler.loaders.replace(
                grains=_json_of(root, "roster_grains.json", None) or compiler.loaders.grains
            )
            ordered, errors = compiler.run.order(chunks)
            answer: Any = errors
            if not errors:
                answer = compiler.run.call_chunks(ordered)
                compiler.run.call_listen(ordered, answer)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    _set_retcode(answer)
    return answer


def _json_of(root: str, name: str, default: Any) -> Any:
    path = os.path.join(root, name)
    if not os.path.isfile(path):
        return default
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


# -- showing -----------------------------------------------------------------------------


def show_highstate(queue: Any = None, **kwargs: Any) -> Any:
    """
    The high data of the top file.

    CLI Example::

        salt '*' state.show_highstate
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        _check_pillar(compiler, kwargs)
        answer = compiler.compile_highstate()
    _set_retcode(answer)
    return answer


def graph_highstate(queue: Any = None, **kwargs: Any) -> Any:
    """
    The requisites of the top file's states as a graph in the language of Graphviz.

    CLI Example::

        salt '*' state.graph_highstate --out=txt
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        _check_pillar(compiler, kwargs)
        data = compiler.compile_highstate()
        if not isinstance(data, dict):
            return data
        compiler.run.compile_high(data)
        return compiler.run.graph.to_dot()


def graph(mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    The requisites of some SLS as a graph in the language of Graphviz.

    CLI Example::

        salt '*' state.graph core,edit.vim
    """
    data = show_sls(mods, test=test, queue=queue, **kwargs)
    if not isinstance(data, dict):
        return data
    with _compiler(kwargs, _KEEP) as compiler:
        compiler.run.compile_high(data)
        return compiler.run.graph.to_dot()


def show_lowstate(queue: Any = None, **kwargs: Any) -> Any:
    """
    The calls of the top file's states, in their order.

    CLI Example::

        salt '*' state.show_lowstate
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        _check_pillar(compiler, kwargs)
        return compiler.compile_low()


def show_state_usage(queue: Any = None, **kwargs: Any) -> Any:
    """
    Which SLS this minion uses and which not, by environment.

    CLI Example::

        salt '*' state.show_state_usage
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler({**kwargs, "saltenv": None}, _KEEP) as compiler:
        answer = compiler.usage()
    _set_retcode(answer)
    return answer


def show_states(queue: Any = None, **kwargs: Any) -> Any:
    """
    The SLS that a highstate would apply.

    CLI Example::

        salt '*' state.show_states
    """
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        _check_pillar(compiler, kwargs)
        answer = compiler.compile_low()
    if not all(isinstance(chunk, dict) for chunk in answer):
        _set_retcode(answer)
        return answer
    return list(dict.fromkeys(chunk["__sls__"] for chunk in answer))


def show_low_sls(mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    The calls of some SLS, in their order.

    CLI Example::

        salt '*' state.show_low_sls foo saltenv=dev
    """
    kwargs.pop("env", None)
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, test, base=True) as compiler:
        _check_pillar(compiler, kwargs)
        chunks, errors = compiler.compile_sls({compiler.opts["saltenv"]: split_names(mods)})
    if errors:
        _refuse(_EX_COMPILER)
        return errors
    return chunks


def show_sls(mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    The high data of some SLS.

    CLI Example::

        salt '*' state.show_sls core,edit.vim saltenv=dev
    """
    kwargs.pop("env", None)
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, test, base=True) as compiler:
        _check_pillar(compiler, kwargs)
        errors = compiler.verified({compiler.opts["saltenv"]: split_names(mods)})
    if errors:
        _refuse(_EX_COMPILER)
        return errors
    return compiler.high


def show_top(queue: Any = None, **kwargs: Any) -> Any:
    """
    Which SLS the top file gives this minion.

    CLI Example::

        salt '*' state.show_top
    """
    kwargs.pop("env", None)
    conflict = _conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _compiler(kwargs, _KEEP) as compiler:
        _check_pillar(compiler, kwargs)
        answer, errors = compiler.shown_top()
    if errors:
        _refuse(_EX_COMPILER)
        return errors
    return answer


def sls_exists(mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> bool:
    """
    Whether some SLS are there and make sense.

    CLI Example::

        salt '*' state.sls_exists core,edit.vim saltenv=dev
    """
    return isinstance(show_sls(mods, test=test, queue=queue, **kwargs), dict)


def id_exists(ids: Any, mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> bool:
    """
    Whether some SLS declare some ids.

    CLI Example::

        salt '*' state.id_exists create_myfile,update_template filestate
    """
    found = show_low_sls(mods, test=test, queue=queue, **kwargs)
    return set(split_names(ids)) <= {chunk["__id__"] for chunk in found}


# -- requests ----------------------------------------------------------------------------


def _requests_path() -> str:
    return os.path.join(__opts__["cachedir"], "req_state.p")


def request(mods: Any = None, **kwargs: Any) -> Any:
    """
    Try a run with C{test=True}, and leave it for C{state.run_request} to do in earnest.

    CLI Example::

        salt '*' state.request stuff,pkgs
    """
    kwargs["test"] = True
    answer = apply_(mods, **kwargs)
    known = check_request()
    known[kwargs.get("name", "default")] = {"test_run": answer, "mods": mods, "kwargs": kwargs}
    write_cache(_requests_path(), known)
    return answer


def check_request(name: str | None = None) -> Any:
    """
    What was requested, all of it or one by its name.

    CLI Example::

        salt '*' state.check_request
    """
    if not os.path.isfile(_requests_path()):
        return {}
    known = read_cache(_requests_path())
    return known[name] if name else known


def clear_request(name: str | None = None) -> bool:
    """
    Forget what was requested, all of it or one by its name.

    CLI Example::

        salt '*' state.clear_request
    """
    if not os.path.isfile(_requests_path()):
        return True
    if not name:
        os.remove(_requests_path())
        return True
    known = check_request()
    if name not in known:
        return False
    del known[name]
    write_cache(_requests_path(), known)
    return True


def run_request(name: str = "default", **kwargs: Any) -> Any:
    """
    Do what was requested.

    CLI Example::

        salt '*' state.run_request
    """
    wanted = check_request().get(name)
    if not wanted or "mods" not in wanted or "kwargs" not in wanted:
        return {}
    options = {**wanted["kwargs"], **kwargs}
    options.pop("test", None)
    answer = apply_(wanted["mods"], **options)
    clear_request()
    return answer


# -- pausing -----------------------------------------------------------------------------


def _pauses(jid: str) -> tuple[dict[str, Any], str]:
    folder = os.path.join(__opts__["cachedir"], "state_pause")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, os.path.basename(str(jid)))
    return (read_cache(path) if os.path.exists(path) else {}), path


def get_pauses(jid: Any = None) -> dict[str, Any]:
    """
    What is paused, for one run, several or all; what belongs to no run is removed.

    CLI Example::

        salt '*' state.get_pauses
    """
    folder = os.path.join(__opts__["cachedir"], "state_pause")
    if not os.path.exists(folder):
        return {}
    active = {str(job["jid"]) for job in __salt__["saltutil.is_running"]("state.*")}
    if jid is None:
        wanted = os.listdir(folder)
    else:
        wanted = [str(one) for one in (jid if isinstance(jid, list) else [jid])]
    answer = {}
    for one in wanted:
        pauses, path = _pauses(one)
        if one in active:
            answer[one] = pauses
        elif os.path.exists(path):
            os.remove(path)
    return answer


def soft_kill(jid: Any, state_id: str | None = None) -> None:
    """
    End a run before it comes to an id, or before its next state.

    CLI Example::

        salt '*' state.soft_kill 20171130110407769519 vim
    """
    pauses, path = _pauses(jid)
    pauses.setdefault(state_id or "__all__", {})["kill"] = True
    write_cache(path, pauses)


def pause(jid: Any, state_id: str | None = None, duration: Any = None) -> None:
    """
    Halt a run before it comes to an id, or before its next state; for some seconds, or until
    C{state.resume}.

    CLI Example::

        salt '*' state.pause 20171130110407769519 vim 20
    """
    pauses, path = _pauses(jid)
    entry = pauses.setdefault(state_id or "__all__", {})
    if duration:
        entry["duration"] = int(duration)
    write_cache(path, pauses)


def resume(jid: Any, state_id: str | None = None) -> None:
    """
    Let a run go on that was paused at an id, or wherever it was.

    CLI Example::

        salt '*' state.resume 20171130110407769519 vim
    """
    pauses, path = _pauses(jid)
    if state_id is None:
        pauses = {}
    else:
        pauses.pop(state_id, None)
    write_cache(path, pauses)


# -- enabling ----------------------------------------------------------------------------


def _disabled_names() -> list[str]:
    found = __salt__["grains.get"]("state_runs_disabled")
    return list(found) if isinstance(found, list) else []


def disable(states: Any) -> dict[str, Any]:
    """
    Keep SLS or state functions from being run.

    CLI Example::

        salt '*' state.disable highstate,test.succeed_without_changes
    """
    return _switch(states, False)


def enable(states: Any) -> dict[str, Any]:
    """
    Let SLS or state functions be run that were disabled.

    CLI Example::

        salt '*' state.enable highstate
    """
    return _switch(states, True)


def _switch(states: Any, on: bool) -> dict[str, Any]:
    names = _disabled_names()
    lines = []
    changed = False
    word = "enabled" if on else "disabled"
    for state in split_names(states):
        if (state in names) is not on:
            lines.append(f"Info: {state} state already {word}.")
            continue
        lines.append(f"Info: {state} state {word}.")
        changed = True
        if on:
            names.remove(state)
        else:
            names.append(state)
    if changed:
        __salt__["grains.setval"]("state_runs_disabled", names)
    __salt__["saltutil.refresh_modules"]()
    return {"res": True, "msg": "\n".join(lines)}


def list_disabled() -> Any:
    """
    What is disabled.

    CLI Example::

        salt '*' state.list_disabled
    """
    return __salt__["grains.get"]("state_runs_disabled")


def _disabled(names: list[Any]) -> list[str]:
    """Sentences about those of the names that are disabled."""
    found = []
    for name in names:
        for pattern in _disabled_names():
            if ".*" in pattern:
                if str(name).startswith(pattern.split(".")[0] + "."):
                    found.append(
                        f'The state file "{name}" is currently disabled by "{pattern}", '
                        f"to re-enable, run state.enable {pattern}."
                    )
            elif pattern == name:
                found.append(
                    f'The state file "{name}" is currently disabled, '
                    f"to re-enable, run state.enable {name}."
                )
    return found


def clear_cache() -> list[str]:
    """
    Remove the high data of earlier runs; answers with the names of the files.

    CLI Example::

        salt '*' state.clear_cache
    """
    removed = []
    for name in os.listdir(__opts__["cachedir"]):
        path = os.path.join(__opts__["cachedir"], name)
        if name.endswith(".cache.p") and os.path.isfile(path):
            os.remove(path)
            removed.append(name)
    return removed
