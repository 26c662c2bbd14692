"""
Records what stock Salt answers when it works with real servers.

Run by hand when the scripts change, as root, with the Python of stock's venv; the servers have to
be installed, not running::

    PEERS/3006/bin/python tests/servers/record.py [SCRIPT...]
"""

from __future__ import annotations

import json
import logging
import os
import sys
import types
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if __name__ == "__main__":
    # The package of our tests needs what a venv of stock has not: one of its name stands in.
    _package = types.ModuleType("tests")
    _package.__path__ = [os.path.join(ROOT, "tests")]
    sys.modules["tests"] = _package

from tests.servers.script import Call, Script, answer, configured  # noqa: E402
from tests.servers.scripts import SCRIPTS, SERVERS  # noqa: E402

VECTORS = os.path.join(ROOT, "tests", "vectors", "servers")


def answers(functions: Any, script: Script) -> list[Any]:
    """Make all calls; those with a mark are done by the server's own means."""
    found: list[Any] = []
    for call in script.calls:
        if call.name.startswith("!"):
            getattr(script.server, call.name[1:])()
            found.append(None)
        else:
            found.append(answer(functions, call, script.server.folder))
    return found


def prepared(name: str) -> Script:
    """A server that runs, and the calls."""
    server = SERVERS[name]()
    try:
        server.start()
        script = Script(server)
        SCRIPTS[name](script)
    except BaseException:
        server.stop()
        raise
    return script


def differences(calls: list[Call], theirs: list[Any], ours: list[Any]) -> list[str]:
    """Where ours is not what it is to be: stock's answer, or the better one that is written."""
    found = []
    for call, stock, our in zip(calls, theirs, ours, strict=True):
        wanted = call.expected(stock)
        if our != wanted:
            found.append(f"{call}\n  stock {stock}\n  want  {wanted}\n  ours  {our}")
        elif call.is_better and wanted == stock:
            found.append(f"{call}\n  is not different from stock: {stock}")
    return found


def main() -> None:
    """Record every script."""
    # Where Debian has the library of MySQL; and where ports are reserved
    sys.path += ["/usr/lib/python3/dist-packages", ROOT]
    import salt.client
    import salt.config
    import salt.version

    logging.disable(logging.CRITICAL)
    os.umask(0o022)
    os.environ["SHELL"] = "/bin/sh"
    for name in sys.argv[1:] or SCRIPTS:
        script = prepared(name)
        try:
            opts = salt.config.minion_config(os.path.join(configured(script.server), "minion"))
            functions = salt.client.Caller(mopts=opts).sminion.functions
            found = answers(functions, script)
        finally:
            script.server.stop()
        recorded = {"_version": salt.version.__version__, "answers": found}
        with open(os.path.join(VECTORS, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(recorded, file, indent=1, ensure_ascii=False, sort_keys=True)
            file.write("\n")


if __name__ == "__main__":
    main()
