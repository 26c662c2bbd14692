"""
Records the answers of stock Salt to the calls of L{tests.modules.scripts}.

Run by hand when the scripts change, as root, with the Python of stock's venv::

    PEERS/3008/bin/python tests/modules/record.py [SCRIPT...]

The files in C{tests/vectors/modules} hold, in the order of the calls, C{["ok", answer]} or
C{["error", exception class, text]}; C{_version} says who answered.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import sys
import tempfile
import types
from typing import Any

if __name__ == "__main__":
    # The package of our tests needs what a venv of stock has not.
    from scripts import PILLAR, SCRIPTS, Script, plain, prepare
else:
    from tests.modules.scripts import PILLAR, SCRIPTS, Script, plain, prepare

VECTORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")


def options(folder: str) -> dict[str, Any]:
    """The configuration that both sides run with."""
    return {
        "id": "mm",
        "root_dir": folder,
        "file_client": "local",
        "file_roots": {"base": [os.path.join(folder, "roots")]},
        "pillar_roots": {"base": [os.path.join(folder, "pillar")]},
        "nodegroups": {"grp": "m*"},
        "test.foo": "hey",
        "aliases.file": os.path.join(folder, "aliases"),
        "user": "root",
    }


def answers(functions: Any, script: Script) -> list[Any]:
    """Call everything and write down what came."""
    found: list[Any] = []
    for name, args, kwargs in script.calls:
        try:
            value = functions[name](*copy.deepcopy(args), **copy.deepcopy(kwargs))
            if isinstance(value, types.GeneratorType):
                value = list(value)
            answer = ["ok", plain(copy.deepcopy(value), script.folder)]
        except Exception as error:
            answer = ["error", type(error).__name__, plain(str(error), script.folder)]
        found.append(json.loads(json.dumps(answer, default=repr)))
    return found


def prepared(name: str) -> Script:
    """A fresh directory with the files of a script, and its calls."""
    script = Script(tempfile.mkdtemp(prefix="recorded"))
    prepare(script)
    script.write("pillar/top.sls", "base: {'*': [data]}\n")
    script.write("pillar/data.sls", json.dumps(PILLAR))
    script.write("conf.d/minion", json.dumps(options(script.folder)))
    SCRIPTS[name](script)
    return script


def main() -> None:
    """Record every script."""
    import salt.client
    import salt.config
    import salt.version

    logging.disable(logging.CRITICAL)
    os.umask(0o022)
    os.environ["SHELL"] = "/bin/sh"
    for name in sys.argv[1:] or SCRIPTS:
        script = prepared(name)
        opts = salt.config.minion_config(script.path("conf.d/minion"))
        functions = salt.client.Caller(mopts=opts).sminion.functions
        recorded = {
            "_version": salt.version.__version__,
            "answers": answers(functions, script),
        }
        path = os.path.join(VECTORS, "modules", f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(recorded, file, indent=1, ensure_ascii=False, sort_keys=True)
            file.write("\n")
        shutil.rmtree(script.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
