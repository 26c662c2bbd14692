"""
What is logged of a command: its program, and its output at a level.

Its arguments, environment and input are not. It is logged under the name of the module C{cmd},
as people filter by that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from saltwisted.modules import _process
from saltwisted.modules._command import CommandOptions

LEVELS: dict[str, int] = {
    "all": logging.NOTSET,
    "debug": logging.DEBUG,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "garbage": 1,
    "info": logging.INFO,
    "profile": 15,
    "quiet": 1000,
    "trace": 5,
    "warning": logging.WARNING,
}


def level(log: logging.Logger, name: Any) -> int | None:
    """The number of a log level's name; C{None} is quiet."""
    if isinstance(name, str):
        if name.lower() == "quiet":
            return None
        if name.lower() in LEVELS:
            return LEVELS[name.lower()]
    log.error(
        "Invalid output_loglevel. Valid levels are: %s. Falling back to 'info'.",
        ", ".join(sorted(LEVELS, reverse=True)),
    )
    return logging.INFO


def callback(log: logging.Logger, function: Any) -> Callable[[Any], Any]:
    if callable(function):
        return function  # type: ignore[no-any-return]
    if function is not None:
        log.error("log_callback is not callable, ignoring")
    return lambda text: text


def program(cmd: Any) -> str:
    """
    The first word of a command, the only one that may be logged.

    @raises IndexError: there is none; for a condition like C{unless: ''} as in stock.
    """
    if isinstance(cmd, (list, tuple)):
        return str(cmd[0]).strip()
    return str(cmd).split(None, 1)[0]


def announcement(options: CommandOptions) -> str:
    """The line of the log that says what is run; the program's arguments are not in it."""
    quote = "" if isinstance(options.cmd, list) else "'"
    return (
        f"Executing command {quote}{program(options.cmd)}{quote} "
        + (f"as user '{options.runas}' " if options.runas else "")
        + (f"in group '{options.group}' " if options.group else "")
        + f"in directory '{options.cwd}'"
        + (". Executing command in the background, no output will be logged." if options.bg else "")
    )


def report(
    log: logging.Logger,
    options: CommandOptions,
    result: dict[str, Any],
    level: int,
    callback: Callable[[Any], Any],
    secrets: Any,
) -> None:
    """Log how a command went, without what the caller has passed in."""
    if not options.ignore_retcode and result["retcode"] != 0:
        level = max(level, logging.ERROR)
        failure = f"failed with return code: {result['retcode']}"
        log.error("%s", callback(f"Command '{program(options.cmd)}' {failure}"))
    if log.isEnabledFor(level):
        for part in ("stdout", "stderr"):
            if result[part]:
                log.log(level, "%s: %s", part, callback(_process.blot(result[part], secrets)))
        if result["retcode"]:
            log.log(level, "retcode: %s", result["retcode"])
