"""
Runs of states that halt, go on or end early, for C{state}.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.worker.states import pauses as wished
from saltwisted.worker.states.pauses import change

__salt__: Any
__opts__: Any


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
        pauses, path = wished.read(__opts__["cachedir"], one)
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
    change(__opts__["cachedir"], str(jid), lambda wishes: wished.kill(wishes, state_id))


def pause(jid: Any, state_id: str | None = None, duration: Any = None) -> None:
    """
    Halt a run before it comes to an id, or before its next state; for some seconds, or until
    C{state.resume}.

    CLI Example::

        salt '*' state.pause 20171130110407769519 vim 20
    """
    change(__opts__["cachedir"], str(jid), lambda wishes: wished.pause(wishes, state_id, duration))


def resume(jid: Any, state_id: str | None = None) -> None:
    """
    Let a run go on that was paused at an id, or wherever it was.

    CLI Example::

        salt '*' state.resume 20171130110407769519 vim
    """
    change(__opts__["cachedir"], str(jid), lambda wishes: wished.resume(wishes, state_id))
