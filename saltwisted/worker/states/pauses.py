"""
Requests to a run of states: that it halts or ends at an id, or anywhere.

There is a file for each run, which the run reads before each state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from saltwisted.worker.states.cache import read_cache, write_cache

ANYWHERE = "__all__"
WISHES = ("pause", "resume", "kill")


def read(cachedir: str, jid: str) -> tuple[dict[str, Any], str]:
    """What is wished of a run, and the file that says so."""
    folder = os.path.join(cachedir, "state_pause")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, os.path.basename(jid))
    return (read_cache(path) if os.path.exists(path) else {}), path


def change(cachedir: str, jid: str, how: Callable[[dict[str, Any]], Any]) -> None:
    """Change it: C{how} gets what is wished so far, and changes that."""
    wishes, path = read(cachedir, jid)
    how(wishes)
    write_cache(path, wishes)


def put(cachedir: str, jid: str, wishes: Mapping[str, Any]) -> None:
    """This is all that is wished of it."""
    _, path = read(cachedir, jid)
    write_cache(path, dict(wishes))


def apply(wishes: dict[str, Any], wish: Mapping[str, Any]) -> None:
    """
    Change what is wished.

    @param wish: C{do} (C{pause}, C{resume}, C{kill}), C{id} and C{seconds}, or C{None} for these.
    """
    if wish["do"] == "pause":
        pause(wishes, wish.get("id"), wish.get("seconds"))
    elif wish["do"] == "resume":
        resume(wishes, wish.get("id"))
    else:
        kill(wishes, wish.get("id"))


def kill(wishes: dict[str, Any], state_id: str | None) -> None:
    """The run shall end."""
    wishes.setdefault(state_id or ANYWHERE, {})["kill"] = True


def pause(wishes: dict[str, Any], state_id: str | None, duration: Any) -> None:
    """It shall halt, for so many seconds or until it shall go on."""
    entry = wishes.setdefault(state_id or ANYWHERE, {})
    if duration:
        entry["duration"] = int(duration)


def resume(wishes: dict[str, Any], state_id: str | None) -> None:
    """It shall go on, at one id or wherever it halts."""
    if state_id is None:
        wishes.clear()
    else:
        wishes.pop(state_id, None)
