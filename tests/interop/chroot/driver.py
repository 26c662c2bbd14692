"""
Runs inside of the machine: C{salt-call} (ours or stock's) and shell commands, one after another.

Reads C{{"side", "ours", "work"}} as JSON on stdin, where each piece of C{work} is C{{"write"}}
(files by path), C{{"sh"}} or C{{"argv"}}, and writes a list of C{{"status", "out", "err"}} to
stdout. Stock is imported once and forked for each command. Nothing of ours is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
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
