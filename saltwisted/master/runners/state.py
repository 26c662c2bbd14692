"""
The C{state} runner: orchestration, and the event bus.

An orchestration is a run of states on the master, under its id; its C{salt.*} states act on
minions and in the master. It runs in a process of its own
(L{saltwisted.master.orchestration.running}).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.domain.highstate.verdicts import succeeded
from saltwisted.domain.targeting.globs import globbed
from saltwisted.errors import RemoteError, TransportClosed
from saltwisted.master.runner_table import Run, Runner
from saltwisted.transports.deferreds import let_go


def _checked(pillar: Any) -> None:
    if pillar is not None and not isinstance(pillar, dict):
        raise RemoteError("SaltInvocationError", "Pillar data must be formatted as a dictionary")


async def _states(
    run: Run, fun: str, given: tuple[list[Any], dict[str, Any]], **call: Any
) -> dict[str, Any]:
    """
    What a function of C{state} has answered, under the master's id.

    @param given: how the runner was called, so that it can be called again.
    @param call: C{do}, C{arg} and C{kwarg}.
    """
    runner = {"fun": fun, "arg": given[0], "kwarg": given[1]}
    value = await run.ctx.orchestrating.run(run, {**call, "runner": runner})
    return {run.ctx.node: value}


async def orchestrate(
    run: Run,
    mods: Any,
    saltenv: Any = "base",
    test: Any = None,
    exclude: Any = None,
    pillar: Any = None,
    pillarenv: Any = None,
    pillar_enc: Any = None,
    orchestration_jid: Any = None,
) -> dict[str, Any]:
    """
    Apply SLS of the master's file roots on the master, whose states tell minions what to do.

    @param mods: the SLS, as a list or a text with commas.
    @param test: say what would be done.
    @param exclude: SLS or ids to leave out.
    @param pillar: values to lay over the master's pillar.
    @param orchestration_jid: the jid by which C{state.pause} and others mean this run, and which
        its events have, if not that of the runner.

    CLI Example::

        salt-run state.orchestrate webserver
        salt-run state.orchestrate webserver saltenv=dev test=True
        salt-run state.orchestrate webserver saltenv=dev pillarenv=aws
    """
    _checked(pillar)
    run.targets_by_operator()
    config = run.ctx.config
    jid = str(orchestration_jid or run.jid)
    words = {
        "saltenv": saltenv if saltenv is not None else config.saltenv,
        "pillarenv": pillarenv if pillarenv is not None else config.pillarenv,
    }
    named = {
        "test": test,
        "exclude": exclude,
        "pillar": pillar,
        "pillar_enc": pillar_enc,
        **words,
    }
    data = await _states(
        run,
        "state.orchestrate",
        ([mods], {**named, "orchestration_jid": jid}),
        do="sls",
        arg=[mods],
        kwarg={**named, "__pub_jid": jid, "orchestration_jid": jid},
    )
    fine = succeeded(data) and not run.failed
    return {"data": data, "outputter": "highstate", "retcode": 0 if fine else 1}


async def orchestrate_single(
    run: Run,
    fun: str,
    name: str,
    test: Any = None,
    queue: Any = False,
    pillar: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Call one state on the master, such as C{salt.function}.

    CLI Example::

        salt-run state.orchestrate_single fun=salt.wheel name=key.list_all
    """
    _checked(pillar)
    named = {**kwargs, "test": test, **({"pillar": pillar} if pillar is not None else {})}
    data = await _states(
        run,
        "state.orchestrate_single",
        ([fun, name], named),
        do="single",
        arg=[fun, name],
        kwarg=named,
    )
    return await _shown(run, data)


async def orchestrate_high(
    run: Run,
    data: Any,
    test: Any = None,
    queue: Any = False,
    pillar: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run high data on the master.

    CLI Example::

        salt-run state.orchestrate_high '{
            stage_one:
                {salt.state: [{tgt: "db*"}, {sls: postgres_setup}]},
            stage_two:
                {salt.state: [{tgt: "web*"}, {sls: apache_setup}, {
                    require: [{salt: stage_one}],
                }]},
            }'
    """
    _checked(pillar)
    named = {**kwargs, "test": test, "pillar": pillar}
    answer = await _states(
        run,
        "state.orchestrate_high",
        ([data], named),
        do="high",
        arg=[data],
        kwarg=named,
    )
    return await _shown(run, answer)


async def _shown(run: Run, data: dict[str, Any]) -> dict[str, Any]:
    await run.progress({"data": data, "outputter": "highstate"}, "progress")
    run.judge(succeeded(data) and not run.failed)
    return data


async def orchestrate_show_sls(
    run: Run,
    mods: Any,
    saltenv: Any = "base",
    test: Any = None,
    queue: Any = False,
    pillar: Any = None,
    pillarenv: Any = None,
    pillar_enc: Any = None,
) -> dict[str, Any]:
    """
    Show the high data of SLS, as they are rendered on the master.

    CLI Example::

        salt-run state.orch_show_sls my-orch-formula.my-orch-state 'pillar={ nodegroup: ng1 }'
    """
    _checked(pillar)
    named = {
        "test": test,
        "pillar": pillar,
        "pillarenv": pillarenv,
        "pillar_enc": pillar_enc,
        "saltenv": saltenv,
    }
    data = await _states(
        run,
        "state.orchestrate_show_sls",
        ([mods], named),
        do="show_sls",
        arg=[mods],
        kwarg=named,
    )
    run.judge(isinstance(data[run.ctx.node], dict))
    return data


async def _wish(run: Run, jid: Any, do: str, state_id: Any, duration: Any = None) -> None:
    """
    Change what is wished of a run, on whichever node it goes on.

    @raises RemoteError: there is none, or C{duration} is no number of seconds.
    """
    try:
        seconds = int(duration) if duration else None
    except (TypeError, ValueError, OverflowError) as error:
        message = f"duration must be a number of seconds, not {duration!r}"
        raise RemoteError("SaltInvocationError", message) from error
    wish = {"do": do, "id": None if state_id is None else str(state_id), "seconds": seconds}
    await run.ctx.orchestrating.wish(str(jid), wish, run.user)


async def pause(run: Run, jid: Any, state_id: str | None = None, duration: Any = None) -> None:
    """
    Halt an orchestration before it comes to an id, or before its next state: for some seconds, or
    until C{state.resume}.

    CLI Example::

        salt-run state.pause 20171130110407769519 vim 20
    """
    await _wish(run, jid, "pause", state_id, duration)


async def resume(run: Run, jid: Any, state_id: str | None = None) -> None:
    """
    Let an orchestration go on that was paused at an id, or wherever it was.

    CLI Example::

        salt-run state.resume 20171130110407769519 vim
    """
    await _wish(run, jid, "resume", state_id)


async def soft_kill(run: Run, jid: Any, state_id: str | None = None) -> None:
    """
    End an orchestration before it comes to an id, or before its next state.

    CLI Example::

        salt-run state.soft_kill 20171130110407769519 vim
    """
    await _wish(run, jid, "kill", state_id)


async def event(
    run: Run,
    tagmatch: str = "*",
    count: int = -1,
    quiet: bool = False,
    sock_dir: str | None = None,
    pretty: bool = False,
    node: str = "master",
) -> dict[str, Any]:
    """
    Show events as they come, until C{count} have been seen (for ever by default).

    Each goes to the caller as an item C{{"tag", "data"}}; the last is the value.

    CLI Example::

        salt-run state.event
        salt-run state.event 'salt/job/*' count=5
        salt-run state.event pretty=True
    """
    ended: Deferred[None] = Deferred()
    seen = 0
    last: dict[str, Any] = {}

    def receive(tag: str, data: Mapping[str, Any]) -> None:
        nonlocal seen, last
        if ended.called or tag.startswith(f"salt/run/{run.jid}"):
            return
        if not globbed(tag, tagmatch):
            return
        seen += 1
        last = {"tag": tag, "data": dict(data)}
        if not quiet:
            let_go(_tell(run, last, _end), run.ctx.log, "an event was not shown")
        if 0 < int(count) <= seen:
            _end()

    def _end() -> None:
        if not ended.called:
            ended.callback(None)

    stop = run.ctx.bus.subscribe("", receive)
    try:
        await ended
    finally:
        stop()
    return last if int(count) == 1 else {}


async def _tell(run: Run, item: dict[str, Any], gone: Callable[[], None]) -> None:
    try:
        await run.progress(item, "event")
    except TransportClosed:
        gone()


FUNCTIONS: dict[str, Runner] = {
    "event": event,
    "orch": orchestrate,
    "orch_show_sls": orchestrate_show_sls,
    "orchestrate": orchestrate,
    "orchestrate_high": orchestrate_high,
    "orchestrate_show_sls": orchestrate_show_sls,
    "orchestrate_single": orchestrate_single,
    "pause": pause,
    "resume": resume,
    "rm_pause": resume,
    "set_pause": pause,
    "sls": orchestrate,
    "soft_kill": soft_kill,
}
