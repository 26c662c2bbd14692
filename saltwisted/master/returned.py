"""
What happens to a return once it is known to come from a minion: it is stored, and then announced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.master.ground import Ground
from saltwisted.transports.deferreds import as_deferred
from saltwisted.transports.turns import in_turns

AT_ONCE = 200
"""States of a return that are looked at once; more are in turns of the reactor."""
STATE_FUNS = frozenset(("state.sls", "state.apply", "state.highstate", "state.sls_id", "state.top"))


def keep(
    ground: Ground, who: str, load: Mapping[str, Any], requested: bool = False
) -> Deferred[Any]:
    """
    Fires when a return is stored and announced, and may be acknowledged.

    @param requested: the minion asked for its jid, which is new.
    """
    saved = as_deferred(ground.jobs.save_return(load, requested=requested))

    def stored(_new: bool) -> Any:
        announced = announce(ground, who, load)
        return announced.addCallback(acknowledged) if announced is not None else acknowledged(None)

    def acknowledged(_: None) -> Any:
        ground.seams.pins.returned(load["jid"], who)
        return ground.seams.acknowledging.return_stored(load["jid"], who)

    return saved.addCallback(stored)


def announce(ground: Ground, who: str, load: Mapping[str, Any]) -> Deferred[None] | None:
    """
    Fire C{salt/job/<jid>/ret/<id>}, and one error event per failed state of a state run.

    @return: fires when all of them are; C{None}: they are.
    """
    ground.bus.fire(f"salt/job/{load['jid']}/ret/{who}", load)
    if not load.get("retcode") or ground.config.state_events is None:
        return None
    runs = list(_state_runs(load))
    if sum(len(result) for _, result in runs) > AT_ONCE:
        return Deferred.fromCoroutine(_announce_many(ground, who, load, runs))
    for fun, result in runs:
        for tag, chunk in result.items():
            _announce_state(ground, who, load, fun, tag, chunk)
    return None


async def _announce_many(
    ground: Ground, who: str, load: Mapping[str, Any], runs: list[tuple[str, dict[Any, Any]]]
) -> None:
    for fun, result in runs:
        async for tag, chunk in in_turns(ground.clock, result.items()):
            _announce_state(ground, who, load, fun, tag, chunk)


def _announce_state(
    ground: Ground, who: str, load: Mapping[str, Any], fun: str, tag: Any, chunk: Any
) -> None:
    if isinstance(chunk, dict) and chunk.get("result") is False:
        ground.bus.fire(
            f"salt/job/{load['jid']}/sub/{who}/error/{fun}",
            {**chunk, "id": who, "fun": fun, "state": tag},
        )


def _state_runs(load: Mapping[str, Any]) -> Iterator[tuple[str, dict[Any, Any]]]:
    """
    The functions of a return that apply states, each with its results.

    A job of several functions returns a map of their names, or with C{multifunc_ordered} a list.
    """
    fun, result = load.get("fun"), load.get("return")
    named = [(fun, result)]
    if isinstance(fun, list):
        named = [
            (each, result.get(each) if isinstance(each, str) else None)
            for each in fun
            if isinstance(result, dict)
        ]
        if isinstance(result, list):
            named = list(zip(fun, result, strict=False))
    for each, part in named:
        if isinstance(each, str) and each in STATE_FUNS and isinstance(part, dict):
            yield each, part
