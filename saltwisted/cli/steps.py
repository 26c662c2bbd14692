"""
The lines of an orchestration that goes on: one as each step begins, and one as it ends.

They are for people who wait at a terminal, and go to standard error: what C{salt-run} prints on
standard output has Salt's form.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from saltwisted.cli import console

ON_MINIONS = ("salt.state", "salt.function")
OUTCOMES = {True: "done", False: "failed", None: "would change something"}
ROOM = 120
"""Characters of a comment in a line."""


def are_shown() -> bool:
    """At a terminal alone."""
    return sys.stderr.isatty()


def show(told: Mapping[str, Any]) -> None:
    """A step begins, or has ended."""
    console.write_error(f"{text(told)}\n")


def text(told: Mapping[str, Any]) -> str:
    """
    One line.

    @param told: as the events C{saltwisted/orchestrate/JID/step} and C{result}, with C{what}.
    """
    head = f"Step {told['step']} of {told['steps']}, {told['id']} ({told['function']})"
    if told["what"] == "step":
        job = f", job {told['job']}" if told["function"] in ON_MINIONS and told["job"] else ""
        return f"{head}: begins{job}"
    line = f"{head}: {OUTCOMES.get(told['result'], told['result'])} after {told['seconds']:.1f} s"
    if told["result"] is False:
        why = " ".join(str(told.get("comment", "")).split())
        line += f": {why[:ROOM]}{'...' if len(why) > ROOM else ''}" if why else ""
    return line
