"""
Runs inside of the machine: C{salt-call} (ours or stock's) and shell commands, one after another.

Reads C{{"side", "ours", "work"}} as JSON on stdin, where each piece of C{work} is C{{"write"}}
(files by path), C{{"sh"}}, C{{"exec"}} (words) or C{{"argv"}}, and writes a list of C{{"status",
"out", "err"}} to stdout. Stock is imported once and forked for each C{argv}; an C{exec} is a
process of its own, and its processor time, that of its children included, is told as C{cpu}.
Nothing of ours is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
from typing import Any

LIMIT = 240


def shell(command: Any, **words: Any) -> dict[str, Any]:
    """One command and what it said."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIMIT, **words
    )
    return {"status": done.returncode, "out": done.stdout, "err": done.stderr}


def measured(command: list[str]) -> dict[str, Any]:
    """One command, and the processor time of it and of what it started and waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = shell(command, cwd="/")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {**done, "cpu": user + system}


def stock_driver() -> Any:
    """The part of the differential tests that forks stock."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(here, "..", "differential", "stock_driver.py")
    spec = importlib.util.spec_from_file_location("stock_driver", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """All of the work, in order."""
    given = json.load(sys.stdin)
    stock: Any = None
    answers = []
    for one in given["work"]:
        if "write" in one:
            for path, text in one["write"].items():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(text)
            answers.append({"status": 0, "out": "", "err": ""})
        elif "sh" in one:
            answers.append(shell(["/bin/sh", "-ec", one["sh"]]))
        elif "exec" in one:
            answers.append(measured(one["exec"]))
        elif given["side"] == "ours":
            answers.append(shell([*given["ours"], *one["argv"]], cwd=given["cwd"]))
        else:
            if stock is None:
                import salt.cli.call
                import salt.cli.caller
                import salt.scripts
                import salt.state  # noqa: F401

                stock = stock_driver()
            status, out, err = stock.one(["salt-call", *one["argv"]])
            answers.append({"status": status, "out": out, "err": err})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
