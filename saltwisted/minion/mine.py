"""
The mine: data that a minion shares with others, sent to the master periodically.

C{mine.update} runs the C{mine_functions} in a job of its own; this module decides when: at start
and every C{mine_interval} minutes, as the scheduler's hidden job C{__mine_interval}, the name under
which Salt lists it. Data that a module provides for the mine goes to the master through the
callable given here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from saltwisted.errors import SaltwistedError

JOB = "__mine_interval"
FUNCTION = "mine.update"


def mine_job(interval: float, return_job: bool = False) -> dict[str, Any]:
    """
    The schedule entry which keeps the mine fresh.

    @param interval: minutes.
    """
    whole = interval == int(interval)
    return {
        "function": FUNCTION,
        **({"minutes": int(interval)} if whole else {"seconds": max(int(interval * 60), 1)}),
        "jid_include": True,
        "maxrunning": 2,
        "run_on_start": True,
        "return_job": return_job,
        "enabled": True,
    }


class Mine(Service):
    """
    Keeps the mine fresh while it runs.

    @param schedule: the scheduler's L{call <saltwisted.minion.schedule.Scheduler.call>}.
    @param request: sends a load to the master; fires with its answer, or fails.
    @param minion_id: the id under which it is sent.
    @param enabled: C{mine_enabled}.
    @param interval: C{mine_interval}, in minutes.
    @param return_job: C{mine_return_job}, whether the master sees the job's return.
    """

    log = Logger()
    name = "mine"

    def __init__(
        self,
        schedule: Callable[..., Mapping[str, Any]],
        request: Callable[[Mapping[str, Any]], Deferred[Any]],
        minion_id: str,
        enabled: bool = True,
        interval: float = 60,
        return_job: bool = False,
    ) -> None:
        self._schedule = schedule
        self._request = request
        self._id = minion_id
        self._enabled = enabled
        self._interval = interval
        self._return_job = return_job

    def startService(self) -> None:
        """Add the hidden job, or remove what an earlier start has left of it."""
        super().startService()
        if self._enabled and self._interval > 0:
            job = mine_job(self._interval, self._return_job)
            self._schedule("add", schedule={JOB: job}, persist=False)
        else:
            self._schedule("delete", name=JOB, persist=False)

    async def send(self, data: Mapping[str, Any], clear: bool = False) -> bool:
        """
        Give values to the master's mine, by name of function.

        @param clear: whether what the master had of this minion is dropped first.
        @return: whether the master took them; the error is logged otherwise.
        """
        load = {"cmd": "_mine", "id": self._id, "data": dict(data), "clear": clear}
        try:
            await self._request(load)
        except SaltwistedError as error:  # the next update brings it again
            self.log.error("the mine could not be sent to the master: {error}", error=str(error))
            return False
        return True
