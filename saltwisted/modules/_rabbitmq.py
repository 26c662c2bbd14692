"""
The programs of a RabbitMQ server: how they are run, and what they print.

Debian's C{rabbitmqctl} hands its arguments to a shell as text, so that a name could be a command.
The program behind it is run here, as the server's user. Passwords go to its standard input: they
are in no process title and in no log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError, SaltInvocationError

BEHIND = "/usr/lib/rabbitmq/bin"
HOME = "/var/lib/rabbitmq"
USER = "rabbitmq"

Answer = dict[str, Any]


def run(
    salt: Any,
    program: str,
    words: Sequence[Any],
    values: Sequence[Any] = (),
    runas: str | None = None,
    secret: str | None = None,
) -> Answer:
    """
    Run a program of the server.

    @param values: what comes from outside: names, patterns.
    @param secret: a password.
    @raises SaltInvocationError: a value would be an option.
    """
    texts = [str(value) for value in values]
    for text in texts:
        if text.startswith("-") or "\0" in text:
            raise SaltInvocationError(f"RabbitMQ takes no {text!r} for a name or a value")
    if secret is not None and "\n" in secret:
        raise SaltInvocationError("A password of RabbitMQ is one line")
    path = os.path.join(BEHIND, program)
    kwargs: dict[str, Any] = {"reset_system_locale": False, "python_shell": False}
    is_root = os.geteuid() == 0 and runas in (None, "root", USER)
    if is_root and systools.is_executable(path):
        kwargs |= {"cwd": HOME, "env": {"HOME": HOME}}
        if program == "rabbitmqctl" or runas == USER:
            kwargs["runas"] = USER
    else:
        path = systools.which(program) or program
        kwargs |= {"runas": runas} if runas else {}
    if secret is not None:
        kwargs |= {"stdin": f"{secret}\n", "stdin_raw_newlines": True, "output_loglevel": "quiet"}
    return dict(salt["cmd.run_all"]([path, *map(str, words), *texts], **kwargs))


def checked(answer: Answer) -> str:
    """
    What the program printed.

    @raises CommandExecutionError: it complained, with what it said.
    """
    if answer["retcode"] != 0 or answer["stderr"]:
        raise CommandExecutionError(f"RabbitMQ command failed: {answer['stderr']}")
    # What it asks on its standard input stands there, too
    return "\n".join(each for each in answer["stdout"].splitlines() if each != "Password: ")


def lines(output: str) -> list[str]:
    """The lines of a list, without what older programs print around it."""
    return [
        line
        for line in output.splitlines()
        if line
        and not line.startswith("WARNING:")
        and "...done" not in line
        and not (line.startswith("Listing") and (line.endswith("...") or "\t" not in line))
    ]


def table(output: str) -> dict[str, list[str]]:
    """The first column, and the others."""
    found = {}
    for line in lines(output):
        key, *values = line.split("\t")
        found[key] = values
    return found
