"""
How a node stands in its cluster: rules from what it says of its members to findings.

One place for C{saltwisted members}, C{status} and C{doctor}, so that they say the same, the true
cause first. The facts are the answer to C{members} (L{saltwisted.cluster.control}), as plain data.
Nobody is ever told to remove members while this node may be the one that is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from saltwisted import advice
from saltwisted.advice import Said
from saltwisted.domain.doctor import Finding, Severity

Here = Callable[[Said], Said]
DOWN, SUSPENDED = "down", "suspended"
LAG_ENTRIES = 100
"""Entries behind which somebody ought to know; fewer are on their way at any moment."""
SETBACK = 30.0
"""Seconds by which a clock is set back before it is worth a word: a time service moves it less."""


def findings(state: Mapping[str, Any]) -> Iterator[Finding]:
    """All that is wrong with this node's membership, and with the members as it sees them."""
    rows: Sequence[Mapping[str, Any]] = state.get("members") or ()
    own = next((row for row in rows if row.get("this")), {})
    if not state.get("ready") and len(rows) <= 1:
        yield _outside(state, own)
        return
    cut = cause(state)
    if cut is not None:
        yield cut
    for row in rows:
        if cut is not None and row.get("state") == DOWN:
            continue  # it is named there, and no finding of its own
        if row is own and row.get("state") == "starting":
            yield _outside(state, own)
            continue
        yield from of_member(row, is_majority(state))


def cause(state: Mapping[str, Any]) -> Finding | None:
    """
    What explains everything else: this node reaches too few of the members.

    A cluster of two has no minority: which of them decides is said by the claims.
    """
    seats = [row for row in state.get("members") or () if row.get("state") != SUSPENDED]
    missing = [row for row in seats if row.get("state") == DOWN]
    reached = len(seats) - len(missing)
    if len(seats) < 3 or reached * 2 > len(seats):
        return None
    which = "cut-off" if reached == 1 else "half" if reached * 2 == len(seats) else "minority"
    names = [str(row.get("node")) for row in missing]
    said = advice.of(f"cluster.{which}", reached=reached, all=len(seats), missing=names)
    return Finding(
        id=f"cluster.{which}",
        severity=Severity.ERROR,
        text=f"no majority of the cluster is in reach of {state.get('node')}",
        evidence=[f"{row.get('node')}: {row['problem']}" for row in missing if row.get("problem")],
        advice=said,
    )


def is_majority(state: Mapping[str, Any]) -> bool:
    """Whether this node is on the side that may remove the other: as far as it can know."""
    seats = [row for row in state.get("members") or () if row.get("state") != SUSPENDED]
    reached = sum(row.get("state") != DOWN for row in seats)
    if reached * 2 != len(seats):
        return bool(reached * 2 > len(seats))
    claims = state.get("claims")
    return isinstance(claims, Mapping) and not claims.get("problem")


def of_member(row: Mapping[str, Any], may_remove: bool) -> Iterator[Finding]:
    """
    What is wrong with one member.

    @param may_remove: whether this node is on the side of a majority.
    """
    node, state = str(row.get("node")), str(row.get("state"))
    problem = str(row.get("problem") or "")
    if state not in ("serving", "alive"):
        yield Finding(
            id="member.state",
            severity=Severity.WARNING,
            text=f"{node} is {state}",
            evidence=[problem] if problem else [],
            node=node,
            advice=_of_state(node, state, problem, may_remove),
        )
    lag = row.get("lag") or {}
    behind = [
        f"{name}: {lag[name]}"
        for name in ("keys", "returns")
        if isinstance(lag.get(name), (int, float)) and lag[name] > LAG_ENTRIES
    ]
    if behind and state != DOWN:
        yield Finding(
            id="member.lag",
            severity=Severity.WARNING,
            text=f"{node} is behind",
            evidence=behind,
            node=node,
            advice=advice.of("members.look"),
        )


def _of_state(node: str, state: str, problem: str, may_remove: bool) -> Said | None:
    if state == DOWN:
        return advice.of("member.down" if may_remove else "member.away", node=node)
    # What it says of itself is nearer to the point
    if state in ("degraded", "starting") and not problem:
        return advice.of(f"member.{state}", node=node)
    if state == SUSPENDED:
        return advice.of("member.suspended", node=node)
    return None


def _outside(state: Mapping[str, Any], own: Mapping[str, Any]) -> Finding:
    """This node is no member, or serves nobody: its own words say why."""
    problem = str(state.get("problem") or "it does not serve yet")
    name = str(state.get("advice") or "")
    told = advice.of(name) if name in advice.TABLE else None
    return Finding(
        id="cluster.outside" if own.get("state") != "starting" else "cluster.starting",
        severity=Severity.ERROR if own.get("state") != "starting" else Severity.WARNING,
        text=f"not serving: {problem}",
        advice=told,
    )


def drift(rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Options that should be equal."""
    if rows:
        yield Finding(
            id="option.drift",
            severity=Severity.WARNING,
            text="options that should be the same on all members differ",
            evidence=[str(row.get("option")) for row in rows],
            advice=advice.of("drift.look"),
        )


def clock(set_back: float) -> Iterator[Finding]:
    """
    A clock that was set back since the daemon started.

    @param set_back: seconds; see L{seconds_back}.
    """
    if set_back > SETBACK:
        yield Finding(
            id="clock.back",
            severity=Severity.WARNING,
            text=f"the clock was set back by {set_back:.0f} s while the daemon ran",
            advice=advice.of("clock.back"),
        )


def seconds_back(by_clock: float, by_uptime: float) -> float:
    """
    By how much a clock was set back.

    @param by_clock: seconds that have passed by the clock.
    @param by_uptime: seconds that have really passed.
    """
    return max(0.0, by_uptime - by_clock)


def lines(finding: Finding, here: Here = lambda said: said) -> Iterator[str]:
    """
    A finding for people: what it is, what was seen, what to do.

    @param here: C{here(said)}: advice as it can be run on this machine.
    """
    text, told = finding.text, finding.advice
    if told is not None and told.words in text:
        # The daemon has said it, which does not know how it was asked
        text, told = text.replace(told.words, str(here(told))), None
    seen = f": {'; '.join(finding.evidence)}" if finding.evidence else ""
    yield f"{text}{seen}"
    if told is not None:
        yield str(here(told))
