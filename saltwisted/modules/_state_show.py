"""
What state trees mean for this minion, shown and not run, for C{state}.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.highstate.words import split_names
from saltwisted.modules._state_runs import EX_COMPILER, KEEP, StateRuns

_run = StateRuns(globals())


def show_highstate(queue: Any = None, **kwargs: Any) -> Any:
    """
    The high data of the top file.

    CLI Example::

        salt '*' state.show_highstate
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        _run.check_pillar(compiler, kwargs)
        answer = compiler.compile_highstate()
    _run.set_retcode(answer)
    return answer


def graph_highstate(queue: Any = None, **kwargs: Any) -> Any:
    """
    The requisites of the top file's states as a graph in the language of Graphviz.

    CLI Example::

        salt '*' state.graph_highstate --out=txt
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        _run.check_pillar(compiler, kwargs)
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
    with _run.compiler(kwargs, KEEP) as compiler:
        compiler.run.compile_high(data)
        return compiler.run.graph.to_dot()


def show_lowstate(queue: Any = None, **kwargs: Any) -> Any:
    """
    The calls of the top file's states, in their order.

    CLI Example::

        salt '*' state.show_lowstate
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        _run.check_pillar(compiler, kwargs)
        return compiler.compile_low()


def show_state_usage(queue: Any = None, **kwargs: Any) -> Any:
    """
    Which SLS this minion uses and which not, by environment.

    CLI Example::

        salt '*' state.show_state_usage
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler({**kwargs, "saltenv": None}, KEEP) as compiler:
        answer = compiler.usage()
    _run.set_retcode(answer)
    return answer


def show_states(queue: Any = None, **kwargs: Any) -> Any:
    """
    The SLS that a highstate would apply.

    CLI Example::

        salt '*' state.show_states
    """
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        _run.check_pillar(compiler, kwargs)
        answer = compiler.compile_low()
    if not all(isinstance(chunk, dict) for chunk in answer):
        _run.set_retcode(answer)
        return answer
    return list(dict.fromkeys(chunk["__sls__"] for chunk in answer))


def show_low_sls(mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    The calls of some SLS, in their order.

    CLI Example::

        salt '*' state.show_low_sls foo saltenv=dev
    """
    kwargs.pop("env", None)
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, test, base=True) as compiler:
        _run.check_pillar(compiler, kwargs)
        chunks, errors = compiler.compile_sls({compiler.opts["saltenv"]: split_names(mods)})
    if errors:
        _run.refuse(EX_COMPILER)
        return errors
    return chunks


def show_sls(mods: Any, test: Any = None, queue: Any = None, **kwargs: Any) -> Any:
    """
    The high data of some SLS.

    CLI Example::

        salt '*' state.show_sls core,edit.vim saltenv=dev
    """
    kwargs.pop("env", None)
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, test, base=True) as compiler:
        _run.check_pillar(compiler, kwargs)
        errors = compiler.verified({compiler.opts["saltenv"]: split_names(mods)})
    if errors:
        _run.refuse(EX_COMPILER)
        return errors
    return compiler.high


def show_top(queue: Any = None, **kwargs: Any) -> Any:
    """
    Which SLS the top file gives this minion.

    CLI Example::

        salt '*' state.show_top
    """
    kwargs.pop("env", None)
    conflict = _run.conflict(queue, kwargs)
    if conflict is not None:
        return conflict
    with _run.compiler(kwargs, KEEP) as compiler:
        _run.check_pillar(compiler, kwargs)
        answer, errors = compiler.shown_top()
    if errors:
        _run.refuse(EX_COMPILER)
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
