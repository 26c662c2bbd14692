"""
What is shown of a minion's return, and what it does to the exit status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltwisted import advice

Return = dict[str, dict[str, Any]]
"""One minion's return: its id to C{{ret, retcode, out, jid}}."""


def as_return(data: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a return event that are shown, in Salt's order."""
    found = {"ret": data.get("return")}
    found.update((key, data[key]) for key in ("out", "retcode", "jid") if key in data)
    return found


def missing_return(connected: bool, jid: str | None) -> dict[str, Any]:
    """What is shown for a minion that did not answer, as a return of its own."""
    if connected:
        text = f"Minion did not return. [No response]\n{advice.of('job.lookup', jid=jid)}"
    else:
        text = "Minion did not return. [Not connected]"
    return {"out": "no_return", "ret": text, "retcode": 1}


def retcode_of(item: Any) -> int:
    """The return code in a return: a number, or the highest of several functions'."""
    if isinstance(item, dict):
        code = item.get("retcode", 0)
        if isinstance(code, dict):
            return max(code.values(), default=0)
        return code if code else 0
    return 1 if item is False else 0


def formatted(full: Return) -> tuple[dict[str, Any], str, int]:
    """A return as id to value, its outputter and its return code."""
    shown = {name: item["ret"] for name, item in full.items()}
    out = ""
    retcode = 0
    for item in full.values():
        out = item.get("out", out) or out
        retcode = max(retcode, retcode_of(item))
    return shown, out, retcode
