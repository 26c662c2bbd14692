"""
Runs many C{salt-call} commands of a stock Salt: imports it once, forks for each.

Reads a JSON list of C{{"name", "argv"}} on stdin, writes the list with C{status}, C{out} and
C{err} to stdout. Runs under the interpreter of the peer; nothing of ours is imported.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback


def one(argv: list[str]) -> tuple[int, str, str]:
    """One command in a child process: its exit status, output and errors."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                null = os.open(os.devnull, os.O_RDONLY)
                os.dup2(null, 0)
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.argv = argv
                from salt.scripts import salt_call

                salt_call()
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, code = os.waitpid(pid, 0)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
        return os.waitstatus_to_exitcode(code), texts[0], texts[1]


def main() -> None:
    """All commands, in order."""
    import salt.cli.call
    import salt.cli.caller
    import salt.scripts
    import salt.state  # noqa: F401

    answers = []
    for work in json.load(sys.stdin):
        status, out, err = one(work["argv"])
        answers.append({"name": work["name"], "status": status, "out": out, "err": err})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
