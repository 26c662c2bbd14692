"""C{salt.wheel}: wheel functions of the master on this machine, by its control socket."""

from __future__ import annotations

from typing import Any

from saltwisted.compat.runner import RunnerClient


class WheelClient(RunnerClient):
    """
    @param opts: the master's options, as C{salt.config.master_config} gives them.
    """

    operation = "wheel"

    def call_func(self, fun: str, **kwargs: Any) -> Any:
        """Call a function with named arguments."""
        return self.cmd(fun, kwarg=kwargs)


Wheel = WheelClient
