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
from typing import Any

from saltwisted.domain.highstate.verdicts import succeeded, without_uneventful
from saltwisted.domain.highstate.words import split_names, tag_of
from saltwisted.domain.secrecy import is_secret, told
from saltwisted.modules._state_runs import (
    EX_COMPILER,
    EX_FAILED,
    EX_PILLAR,
    KEEP,
    PILLAR_FAILED,
    StateRuns,
    override,
    pillar_errors,
)
from saltwisted.worker.exceptions import SaltInvocationError
from saltwisted.worker.masking import unnamed
from saltwisted.worker.states.cache import read_cache, write_cache, write_high
from saltwisted.worker.states.highstate import add_excludes, changed_options

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
__parts__ = ("_state_show", "_state_pauses", "_state_switches")

_run = StateRuns(globals())

__salt__: Any
__opts__: Any


# -- one at a time -----------------------------------------------------------------------


def running(concurrent: bool = False) -> list[str]:
    """
    Sentences about the state runs that are under way, without this one.

    concurrent
        True: pretend that there are none.

    CLI Example::

        salt '*' state.running
    """
    return _run.running(concurrent)


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
    if _run.disabled(["highstate"]):
        return {
            "name": "Salt highstate run is disabled. To re-enable, run state.enable highstate",
            "result": "False",
            "comment": "Disabled",
        }
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    kwargs.pop("env", None)
    kwargs["state_events"] = state_events
    with _run.compiler(kwargs, test, jid=True) as compiler:
        errors = pillar_errors(compiler, kwargs)
        answer: Any = None
        if not errors:
            with _run.snapshots(kwargs):
                answer = compiler.call_highstate(
                    exclude=kwargs.get("exclude", []),
                    cache=kwargs.get("cache"),
                    cache_path=_run.cache_path(kwargs),
                    force=bool(kwargs.get("force", False)),
                    whitelist=kwargs.get("whitelist"),
                    orchestration_jid=kwargs.get("orchestration_jid"),
                )
    if errors:
        _run.refuse(EX_PILLAR)
        return [PILLAR_FAILED, *errors]
    if isinstance(answer, dict) and _run.is_terse(kwargs):
        answer = without_uneventful(answer)
    _run.set_retcode(answer, compiler.high)
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
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    disabled = _run.disabled(mods if isinstance(mods, list) else [mods])
    if disabled:
        _run.refuse(EX_COMPILER)
        return disabled
    kwargs["state_events"] = state_events
    override(kwargs)
    _sync(sync_mods, kwargs)
    high: Any = None
    with _run.compiler(kwargs, test, base=True, jid=True) as compiler:
        errors = pillar_errors(compiler, kwargs)
        if errors:
            code = EX_PILLAR
            errors = [PILLAR_FAILED, *errors]
        elif kwargs.get("cache") and os.path.isfile(_run.cache_path(kwargs)):
            return compiler.run.call_high(
                read_cache(_run.cache_path(kwargs)), kwargs.get("orchestration_jid")
            )
        else:
            code = EX_COMPILER
            names = [str(mods)] if isinstance(mods, int) else split_names(mods)
            errors = compiler.assembly.assemble({compiler.opts["saltenv"]: names})
        if not errors:
            high = compiler.high
            add_excludes(high, split_names(exclude) if exclude else None)
            with _run.snapshots(kwargs):
                answer = compiler.run.call_high(high, kwargs.get("orchestration_jid"))
    if errors:
        _run.refuse(code)
        return errors
    if isinstance(answer, dict) and _run.is_terse(kwargs):
        answer = without_uneventful(answer)
    of_job = {"metadata": kwargs.get("__pub_metadata")}
    kept = told({**of_job, "return": answer})["return"]
    write_cache(os.path.join(__opts__["cachedir"], "sls.p"), kept)
    _run.set_retcode(answer, high)
    write_high(_run.cache_path(kwargs), high, is_secret(of_job))
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


def top(topfn: str, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    As C{state.highstate} by another top file.

    CLI Example::

        salt '*' state.top reverse_top.sls
        salt '*' state.top prod_top.sls exclude=sls_to_exclude
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, test) as compiler:
        errors = pillar_errors(compiler, kwargs)
        if not errors:
            changes = {"state_top": f"salt://{topfn.removeprefix('salt://')}"}
            if "saltenv" in kwargs:
                changes["state_top_saltenv"] = kwargs["saltenv"]
            with changed_options(compiler.loaders, changes), _run.snapshots(kwargs):
                answer = compiler.call_highstate(
                    exclude=kwargs.get("exclude", []),
                    cache=kwargs.get("cache"),
                    cache_path=_run.cache_path(kwargs),
                    orchestration_jid=kwargs.get("orchestration_jid"),
                )
    if errors:
        _run.refuse(EX_PILLAR)
        return [PILLAR_FAILED, *errors]
    _run.set_retcode(answer, compiler.high)
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
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    kwargs["state_events"] = state_events
    answer: dict[str, Any] = {}
    with _run.compiler(kwargs, test, base=True) as compiler:
        saltenv = compiler.opts["saltenv"]
        errors = pillar_errors(compiler, kwargs)
        if errors:
            code, errors = EX_PILLAR, [PILLAR_FAILED, *errors]
        else:
            code = EX_COMPILER
            chunks, errors = compiler.compile_sls({saltenv: split_names(mods)}, requisites=True)
        if not errors:
            for chunk in chunks:
                if chunk.get("__id__", "") == id_:
                    answer.update(compiler.run.call_alone(chunk, chunks))
    if errors:
        _run.refuse(code)
        return errors
    _run.set_retcode(answer)
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
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    parts = fun.split(".")
    if len(parts) < 2:
        _run.refuse(EX_COMPILER)
        return "Invalid function passed"
    kwargs.update({"state": parts[0], "fun": parts[1], "__id__": name, "name": name})
    with _run.compiler(kwargs, test) as compiler:
        errors = compiler.run.calls.verify(kwargs)
        if not errors:
            compiler.run.initialise(kwargs)
            with _run.snapshots(kwargs):
                answer = unnamed({tag_of(kwargs): compiler.run.calls.call(kwargs)}, [kwargs])
    if errors:
        _run.refuse(EX_COMPILER)
        return errors
    _run.set_retcode(answer)
    return answer


def low(data: Any, queue: Any = None, **kwargs: Any) -> Any:
    """
    Call one state by its low data.

    CLI Example::

        salt '*' state.low '{"state": "pkg", "fun": "installed", "name": "vi"}'
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler({}, KEEP) as compiler:
        errors = compiler.run.calls.verify(data)
        if not errors:
            answer = compiler.run.calls.call(data)
    if errors:
        _run.refuse(EX_COMPILER)
        return errors
    if isinstance(answer, list):
        _run.refuse(EX_COMPILER)
    if not succeeded(answer):
        _run.refuse(EX_FAILED)
    return answer


def high(data: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    Run high data.

    CLI Example::

        salt '*' state.high '{"vim": {"pkg": ["installed"]}}'
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, test) as compiler:
        answer = compiler.run.call_high(data)
    _run.set_retcode(answer, data)
    return answer


def template(tem: str, queue: Any = None, **kwargs: Any) -> Any:
    """
    Run an SLS file of this machine.

    CLI Example::

        salt '*' state.template '/path/to/file.sls'
    """
    kwargs.pop("env", None)
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        _run.check_pillar(compiler, kwargs)
        path = tem if tem.endswith(".sls") else f"{tem}.sls"
        data, errors = compiler.assembly.render(
            path, kwargs.get("saltenv", ""), set(), None, local=True
        )
        if not errors:
            answer = compiler.run.call_high(data)
    if errors:
        _run.refuse(EX_COMPILER)
        return errors
    _run.set_retcode(answer, data)
    return answer


def template_str(tem: str, queue: Any = None, **kwargs: Any) -> Any:
    """
    Run the text of an SLS.

    CLI Example::

        salt '*' state.template_str '<text>'
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        answer = compiler.call_text(tem)
    _run.set_retcode(answer)
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
        with _run.compiler(kwargs, test, file_client="local", file_roots=roots) as compiler:
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
    _run.set_retcode(answer)
    return answer


def _json_of(root: str, name: str, default: Any) -> Any:
    path = os.path.join(root, name)
    if not os.path.isfile(path):
        return default
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


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
