"""
The context of a run of states: who is informed of its results, and who halts or ends it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

from saltwisted.domain.highstate.words import Chunk
from saltwisted.worker.process.loader import Loaders
from saltwisted.worker.states.cache import read_cache
from saltwisted.worker.states.steps import ACTS


class Around:
    """
    @param jid: the job, for events and pauses.
    """

    def __init__(self, loaders: Loaders, jid: str | None) -> None:
        self._loaders = loaders
        self._jid = jid

    def fire(self, result: dict[str, Any], count: int, fire_event: Any) -> None:
        """Tell the master of a result, if the options or the state ask for it."""
        opts = self._loaders.opts
        acts = dict.get(self._loaders.pack, ACTS)
        if acts is None and (opts.get("local") or opts.get("file_client") == "local"):
            return
        if not fire_event and not opts.get("state_events", True):
            return
        data: dict[str, Any] = {"ret": result}
        jid = self._jid or "req"
        if fire_event is True or isinstance(fire_event, str):
            name = result["name"] if fire_event is True else fire_event
            tag = f"salt/state_result/{jid}/{opts['id']}/{name}"
        else:
            tag = f"salt/job/{jid}/prog/{opts['id']}/{result['__run_num__']}"
            data["len"] = count
        if acts is None:
            self._loaders.modules["event.fire_master"](data, tag)
        else:
            acts.fire(tag, data)

    def forget_wishes(self) -> None:
        """The run is over. What is wished of the run that this one is a step of stays."""
        acts = dict.get(self._loaders.pack, ACTS)
        if self._jid and (acts is None or acts.run == self._jid):
            with suppress(OSError):
                os.remove(os.path.join(self._loaders.opts["cachedir"], "state_pause", self._jid))

    def paused(self, low: Chunk) -> str:
        """Wait as long as C{state.pause} says; C{kill} if C{state.soft_kill} did."""
        if not self._jid:
            return "run"
        acts = dict.get(self._loaders.pack, ACTS)
        path = os.path.join(self._loaders.opts["cachedir"], "state_pause", str(self._jid))
        began = time.time()
        while os.path.isfile(path):
            try:
                wishes = read_cache(path)
            except (OSError, ValueError):
                wishes = {}
            wish = wishes.get(low["__id__"], wishes.get("__all__"))
            if wish is None:
                return "run"
            if "duration" in wish and time.time() - began > wish["duration"]:
                return "run"
            if "kill" in wish:
                if acts is not None:
                    acts.killed()
                return "kill"
            time.sleep(1)
        return "run"
