"""C{salt.runner}: runners of the master on this machine, by its control socket."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from saltwisted.compat.client import connected, refusals


class RunnerClient:
    """
    @param opts: the master's options, as C{salt.config.master_config} gives them.
    """

    operation = "runner"

    def __init__(self, opts: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        self.opts = dict(opts)

    def cmd(
        self,
        fun: str,
        arg: Any = None,
        pub_data: Any = None,
        kwarg: Any = None,
        print_event: bool = True,
        full_return: bool = False,
    ) -> Any:
        """
        Call a function on the master and give what it returns.

        @param full_return: all that is said of it, C{success} among it.
        @raises SaltClientError: no master answers, or it refuses.
        """
        words, named = list(arg or ()), dict(kwarg or {})
        if words and isinstance(words[-1], dict) and words[-1].pop("__kwarg__", False):
            named = {**words.pop(), **named}
        with refusals(), closing(connected(self.opts)) as client:
            answer = client.call(self.operation, fun=fun, arg=words, kwarg=named)
        return answer if full_return else answer["return"]

    def cmd_sync(self, low: Mapping[str, Any], timeout: Any = None, **kwargs: Any) -> Any:
        """The same, from a map with C{fun}, C{arg} and C{kwarg}."""
        return self.cmd(low["fun"], low.get("arg"), kwarg=low.get("kwarg"))


Runner = RunnerClient
