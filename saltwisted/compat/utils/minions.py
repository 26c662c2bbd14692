"""
C{salt.utils.minions}: which minions a target means, asked of the master on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from saltwisted.compat.client import connected, refusals

_WORD = re.compile(r"(?:(?P<engine>[GPIJLNSERTM])(?P<delimiter>(?<=[GPIJ]).)?@)?(?P<pattern>.+)$")


def get_minion_data(minion: str | None, opts: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """
    A minion's id, grains and pillar, as its master knows them; C{None} for what it does not.

    @param opts: the master's options. Without C{minion_data_cache} nobody is asked.
    """
    if not minion or not opts.get("minion_data_cache"):
        return minion or None, None, None
    found = []
    for fun in ("cache.grains", "cache.pillar"):
        with refusals(), closing(connected(opts)) as client:
            answer = client.call("runner", fun=fun, arg=[minion], kwarg={"tgt_type": "list"})
        found.append(dict(answer["return"] or {}).get(minion) or None)
    return minion, found[0], found[1]


def parse_target(target_expression: str) -> dict[str, Any]:
    """A word of a compound target: its engine, delimiter and pattern."""
    match = _WORD.match(target_expression)
    nothing = {"engine": None, "delimiter": None, "pattern": target_expression}
    return match.groupdict() if match else nothing


class CkMinions:
    """
    @param opts: the master's options.
    """

    def __init__(self, opts: Mapping[str, Any]) -> None:
        self.opts = opts

    def check_minions(
        self,
        expr: Any,
        tgt_type: str = "glob",
        delimiter: str = ":",
        greedy: bool = True,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """
        C{{"minions": [...], "missing": [...]}}: accepted minions that a target means, and those
        that it names and nobody knows.
        """
        with refusals(), closing(connected(self.opts)) as client:
            answer = client.call("match", tgt=expr, tgt_type=tgt_type, delimiter=delimiter)
        known = list(answer)
        named = expr.split(",") if isinstance(expr, str) else list(expr)
        missing = sorted(set(named) - set(known)) if tgt_type == "list" else []
        return {"minions": known, "missing": missing}
