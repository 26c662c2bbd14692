"""
One call in this process, as C{salt-call} makes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.worker.fileclient import file_client
from saltwisted.worker.git.localfiles import local_files
from saltwisted.worker.process.call import execute
from saltwisted.worker.process.loader import Loaders, make_grains
from saltwisted.worker.process.main import NoMaster


def run_call(
    config: Any,
    fun: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    local: bool = True,
) -> dict[str, Any]:
    """
    Call one function and give back Salt's return fields.

    @param config: the minion's configuration (C{as_opts()}).
    @param args: positional arguments, already values.
    """
    opts = config.as_opts()
    if local:
        opts["file_client"] = "local"
    arg = list(args)
    if kwargs:
        arg.append({"__kwarg__": True, **kwargs})
    master = NoMaster()
    loaders = Loaders(
        opts,
        grains=lambda: make_grains(opts),
        pillar={},
        master=master,
        fileclient=lambda: file_client(opts, master, served=local_files(opts)),
    )
    return execute(loaders, {"fun": fun, "arg": arg, "jid": "req"})
