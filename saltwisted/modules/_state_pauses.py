"""
Runs of states that halt, go on or end early, for C{state}.
"""

from __future__ import annotations

import os
from typing import Any

from saltwisted.worker.states.cache import read_cache, write_cache

__salt__: Any
__opts__: Any


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
