"""C{salt.runner}: runners of the master on this machine, by its control socket."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from saltwisted.compat.client import connected, refusals
from saltwisted.domain.arguments import read_input
from saltwisted.worker.exceptions import SaltInvocationError

_PROOF = ("token", "eauth", "username", "password")
_NOT_ARGUMENTS = frozenset((*_PROOF, "client", "user", "key", "fun", "arg", "kwarg"))
"""What in a map for L{RunnerClient.cmd_sync} are no keywords of the function."""


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
        if arg is not None and not isinstance(arg, (list, tuple)):
            raise SaltInvocationError("arg must be formatted as a list/tuple")
        if kwarg is not None and not isinstance(kwarg, dict):
            raise SaltInvocationError("kwarg must be formatted as a dictionary")
        words, named = read_input(arg or (), kwarg, self.opts.get("no_parse") or ())
        with refusals(), closing(connected(self.opts)) as client:
            answer = client.call(self.operation, fun=fun, arg=words, kwarg=named)
        return answer if full_return else answer["return"]

    def cmd_sync(
        self, low: Mapping[str, Any], timeout: Any = None, full_return: bool = False
    ) -> Any:
        """
        The same, from a map with C{fun}, C{arg} and C{kwarg}; what else is in it are keywords, and
        what the function does not take is dropped.
        """
        proof = {key: low[key] for key in _PROOF if key in low}
        words, named = read_input(low.get("arg") or (), low.get("kwarg"), jids_are_text=False)
        named |= {key: low[key] for key in low if key not in _NOT_ARGUMENTS}
        with refusals(), closing(connected(self.opts)) as client:
            answer = client.call(
                self.operation, fun=low["fun"], arg=words, kwarg=named, loose=True, **proof
            )
        return answer if full_return else answer["return"]


Runner = RunnerClient
