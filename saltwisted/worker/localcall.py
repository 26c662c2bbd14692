"""
One call in this process, as C{salt-call} makes it.

For people who write modules, C{python -m saltwisted.worker.localcall [-c DIR] FUN ARG...}
runs a function here and prints its return as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from saltwisted.worker.call import execute, yamlify
from saltwisted.worker.fileclient import file_client
from saltwisted.worker.loader import Loaders, make_grains
from saltwisted.worker.main import NoMaster


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
        fileclient=lambda: file_client(opts, master),
    )
    return execute(loaders, {"fun": fun, "arg": arg, "jid": "req"})


def main(argv: Sequence[str]) -> int:
    """The developer's command."""
    import json

    from saltwisted.worker.configio import load_from_disk

    words = list(argv)
    directory = None
    if words[:1] == ["-c"]:
        directory = words[1]
        words = words[2:]
    if not words:
        sys.stderr.write("usage: python -m saltwisted.worker.localcall [-c DIR] FUN ARG...\n")
        return 64
    loaded = load_from_disk("minion", directory)
    arg = [word if "=" in word else yamlify(word) for word in words[1:]]
    answer = run_call(loaded.config, words[0], arg)
    json.dump(answer, sys.stdout, indent=4, default=str)
    sys.stdout.write("\n")
    return 0 if answer["retcode"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
