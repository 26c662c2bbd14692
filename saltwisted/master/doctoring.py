"""
The doctor's findings as data, for whoever asks the master: a row of the table of operations.

What C{saltwisted doctor} looks at takes files and connections that block, so a worker process
looks, as this master's user; it asks the master by its control socket, as the command does.
"""

from __future__ import annotations

from typing import Any

from saltwisted.config.options import MasterConfig
from saltwisted.domain.operations.table import Call, Operation, owner_only
from saltwisted.master.workers import WorkerPool

ENTRY = "saltwisted.tools.doctor:serve"
TIMEOUT = 60.0
OWNER = owner_only("only root and the master's own user may see what is wrong with it")


class DoctorOperations:
    """The row of the doctor."""

    def __init__(self, config: MasterConfig, workers: WorkerPool) -> None:
        self._config = config
        self._workers = workers

    def operations(self) -> list[Operation]:
        """The rows."""
        return [Operation(name="doctor", right=OWNER, handler=self.look)]

    async def look(self, call: Call) -> Any:
        """Report what is wrong with this master, each with its evidence and what mends it."""
        asked = {"config_dir": str(self._config.config_dir or "")}
        return await self._workers.call(ENTRY, asked, TIMEOUT)
