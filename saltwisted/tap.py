"""
C{twistd saltwisted}: its options, and which role they start.

Only C{--role} and C{--config} are read here; everything else is Salt's own
configuration. Problems are told in one sentence and end with exit status 78 where a person
has to mend something and 1 otherwise, before anything is bound or written.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Any

from twisted.application.service import IService
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError

from saltwisted import __version__
from saltwisted.errors import SaltwistedError
from saltwisted.roles.ending import status_of
from saltwisted.roles.uptime import run_by_uptime
from saltwisted.turns import share

ROLES = ("master", "minion", "cluster")


class Options(UsageOptions):
    """The command line after C{twistd saltwisted}."""

    synopsis = "twistd [options] saltwisted --role master|minion|cluster [--config DIR]"
    optParameters = [
        ["role", "r", None, "What to be: " + " or ".join(ROLES)],
        ["config", "c", None, "Directory with Salt's files (master, minion, *.d/)"],
        ["log-level", "l", None, "Salt's log level; overrides log_level of the configuration"],
    ]

    def opt_version(self) -> None:
        """Print saltwisted's version."""
        sys.stdout.write(f"saltwisted {__version__}\n")
        raise SystemExit(0)

    def postOptions(self) -> None:
        """Refuse a missing or unknown role, with what to write instead."""
        role = self["role"]
        if role is None:
            raise UsageError("--role is needed: " + " or ".join(ROLES))
        if role not in ROLES:
            raise UsageError(f"--role {role!r} is unknown: use " + " or ".join(ROLES))


def makeService(options: Any) -> IService:
    """
    Build the service of the chosen role.

    @raises SystemExit: with one sentence on stderr, when the configuration cannot work.
    """
    from twisted.internet import reactor

    run_by_uptime(reactor)
    share(reactor)
    # What is imported and built stays: to look through it for garbage again and again takes a
    # tenth of the start
    gc.disable()
    try:
        role = import_module(f"saltwisted.roles.{options['role']}")
        service: IService = role.build(reactor, options["config"], options["log-level"])
    except SaltwistedError as error:
        sys.stderr.write(f"saltwisted: {error}\n")
        raise SystemExit(status_of(error)) from None
    finally:
        gc.enable()
    return service
