"""
The C{log} module: a template writes a line to the minion's log.

Each function answers C{True}, so that it can stand where a template wants a value. Whether the line
appears is decided by the log level, as for all others.
"""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)

__virtualname__ = "log"


def __virtual__() -> str:
    return __virtualname__


def debug(message: Any) -> bool:
    """
    Log a message at the level C{debug}.

    CLI Example::

        salt '*' log.debug "It got here"
    """
    log.debug(message)
    return True


def info(message: Any) -> bool:
    """
    Log a message at the level C{info}.

    CLI Example::

        salt '*' log.info "It got here"
    """
    log.info(message)
    return True


def warning(message: Any) -> bool:
    """
    Log a message at the level C{warning}.

    CLI Example::

        salt '*' log.warning "This is odd"
    """
    log.warning(message)
    return True


def error(message: Any) -> bool:
    """
    Log a message at the level C{error}.

    CLI Example::

        salt '*' log.error "This is wrong"
    """
    log.error(message)
    return True


def critical(message: Any) -> bool:
    """
    Log a message at the level C{critical}.

    CLI Example::

        salt '*' log.critical "This is the end"
    """
    log.critical(message)
    return True


def exception(message: Any) -> bool:
    """
    Log a message at the level C{error}, and the exception that is handled if there is one.

    CLI Example::

        salt '*' log.exception "This is wrong"
    """
    log.exception(message)
    return True
