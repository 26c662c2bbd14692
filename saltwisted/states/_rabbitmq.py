"""
What the states of RabbitMQ have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from saltwisted.worker import systools
from saltwisted.worker.exceptions import CommandExecutionError

Ret = dict[str, Any]


def loadable() -> Any:
    """C{__virtual__} of the states."""
    return True if systools.which("rabbitmqctl") else (False, "Command not found: rabbitmqctl")


def new(name: str, comment: str = "") -> Ret:
    """A state that found nothing to do."""
    return {"name": name, "result": True, "comment": comment, "changes": {}}


def tried(name: str, work: Callable[[], Ret]) -> Ret:
    """What a state did; what a server that refuses says is its comment."""
    try:
        return work()
    except CommandExecutionError as error:
        return {"name": name, "result": False, "comment": f"Error: {error}", "changes": {}}
