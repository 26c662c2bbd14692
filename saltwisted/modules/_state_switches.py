"""
SLS and state functions that are not to be run, for C{state}.
"""

from __future__ import annotations

from typing import Any

from saltwisted.domain.highstate.words import split_names
from saltwisted.modules._state_runs import StateRuns

__salt__: Any

_run = StateRuns(globals())


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
    names = _run.disabled_names()
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
