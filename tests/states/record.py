"""
Records the answers of stock Salt to the states of C{scripts.py} and C{fakes.py}.

Run by hand when the scripts change, as root, with the Python of stock's venv::

    PEERS/3008/bin/python tests/states/record.py [SCRIPT...]

The files in this directory hold, in the order of the calls, what of each return is compared;
C{_version} says who answered.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import sys
import tempfile
from typing import Any

if __name__ == "__main__":
    # The package of our tests needs what a venv of stock has not.
    import fakes
    from scripts import KEPT, PILLAR, SCRIPTS, Script, plain, prepare
else:
    from tests.states import fakes
    from tests.states.scripts import KEPT, PILLAR, SCRIPTS, Script, plain, prepare

HERE = os.path.dirname(os.path.abspath(__file__))


def options(folder: str) -> dict[str, Any]:
    """The configuration that both sides run with."""
    return {
        "id": "mm",
        "root_dir": os.path.join(folder, "machine"),
        "file_client": "local",
        "file_roots": {"base": [os.path.join(folder, "roots")]},
        "pillar_roots": {"base": [os.path.join(folder, "pillar")]},
        "user": "root",
        "hosts.file": os.path.join(folder, "hosts"),
    }


def answers(functions: Any, script: Script) -> list[Any]:
    """Apply everything and write down what came."""
    found: list[Any] = []
    for name, words, test in script.calls:
        words = copy.deepcopy(words)
        try:
            if test is None:
                value = functions[name](**words)
                if name == "state.high":
                    value = {
                        tag: {key: part[key] for key in KEPT if key in part}
                        for tag, part in value.items()
                    }
            else:
                value = functions["state.single"](name, test=test, **words)
                if isinstance(value, dict):
                    (part,) = value.values()
                    value = {key: part[key] for key in KEPT if key in part}
            answer = ["ok", plain(value, script.folder)]
        except Exception as error:
            answer = ["error", type(error).__name__, plain(str(error), script.folder)]
        found.append(json.loads(json.dumps(answer, default=repr)))
    return found


def prepared(name: str) -> Script:
    """A fresh directory with the files of a script, and its calls."""
    script = Script(os.path.realpath(tempfile.mkdtemp(prefix="recorded")))
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
    for name in sys.argv[1:] or [*SCRIPTS, *fakes.STATES]:
        if name in fakes.STATES:
            found = fakes.answers("salt.states", name)
        else:
            script = prepared(name)
            opts = salt.config.minion_config(script.path("conf.d/minion"))
            found = answers(salt.client.Caller(mopts=opts).sminion.functions, script)
            shutil.rmtree(script.folder, ignore_errors=True)
        recorded = {"_version": salt.version.__version__, "answers": found}
        with open(os.path.join(HERE, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(recorded, file, indent=1, ensure_ascii=False, sort_keys=True)
            file.write("\n")


if __name__ == "__main__":
    main()
