"""
Keeps secrets out of the log: the output of a failed command, a traceback, a module's own messages.

While a state with C{no_log: True} runs, or a job whose contents nobody may see, log records of this
process keep their level and logger and lose their text. That is done where records are created, so
no handler, of ours or of a site module, gets the text. Other output to standard error (a warning of
Python, the traceback of a thread, a C{print}) is discarded, because standard error also goes to the
daemon's log. Events that are fired meanwhile keep their tags and lose their texts, and nothing is
put into the mine, where others could read it (L{silent}).

Processes that are forked meanwhile stay silent for good; they are part of the secret.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any

from saltwisted.domain.secrecy import is_secret

_silent: list[str] = []
"""What is secret of all that runs now, the outermost first; threads and forked processes see it."""
_functions: list[str] = []
TEXT = "(%s is secret: what is logged of it is not shown)"


@contextmanager
def unlogged(what: str) -> Iterator[None]:
    """
    Within this block, also in threads, no log record of this process has a text.

    @param what: the name of what is secret, which may be told.
    """
    before = logging.getLogRecordFactory()

    def hidden(
        name: str,
        level: int,
        path: str,
        line: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        sinfo: str | None = None,
        **more: Any,
    ) -> logging.LogRecord:
        return before(name, level, path, line, TEXT, (what,), None, func, None, **more)

    with open(os.devnull, "w", encoding="utf-8") as null, redirect_stderr(null):
        logging.setLogRecordFactory(hidden)
        _silent.append(what)
        try:
            yield
        finally:
            _silent.pop()
            logging.setLogRecordFactory(before)


def secret_function() -> str:
    """The function of the job that nobody may see, if this process does one; C{""}: none."""
    return _functions[-1] if _functions else ""


def silent() -> bool:
    """Whether something secret runs in this process: nothing of it may be told anybody."""
    return bool(_silent)


@contextmanager
def unlogged_state(*lows: Mapping[str, Any]) -> Iterator[None]:
    """As L{unlogged} if one of these calls of states has C{no_log}."""
    with ExitStack() as stack:
        for low in lows:
            if low.get("no_log"):
                stack.enter_context(unlogged(f"the state {low.get('__id__')}"))
                break
        yield


@contextmanager
def unlogged_job(job: Mapping[str, Any]) -> Iterator[None]:
    """As L{unlogged} if this job is one that only those may see who do it."""
    with ExitStack() as stack:
        if is_secret(job):
            stack.enter_context(unlogged(f"the job {job.get('jid')}"))
            _functions.append(str(job.get("fun")))
            stack.callback(_functions.pop)
        yield
