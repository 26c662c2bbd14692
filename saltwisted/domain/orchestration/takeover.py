"""
How a run whose node died continues: which step, and how.

A job on minions has a jid that was recorded before it was published. So it is found again: its
returns are awaited if it was published, and otherwise it is published under the same jid while that
is allowed; a minion that has run it does not run it again. If a minion that had it returns nothing,
nobody can know what it did (L{unheard}). A step that is published in parts (C{batch}) has one jid,
and a line before each part. The parts before the latest line were published for certain, those
after it were not, and the latest one is treated like a job. For anything else nobody can know what
it did, or whether it is over: such a step is I{interrupted}, and the run stops there, unless the
step itself says that it may be done twice (C{retry_on_takeover: true}).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

from attrs import define, field, frozen

from saltwisted.domain.orchestration.life import StepState
from saltwisted.domain.orchestration.words import Run, Step, ended_line, interrupted_line

CONTINUE, INTERRUPT, OFF = MODES = "continue", "interrupt", "off"
"""What C{orchestrate_takeover} may say."""
ON_MINIONS = ("state", "function")
"""Functions of the state module C{salt} that are one job on minions."""
RETRY = "retry_on_takeover"


class How(Enum):
    """How a step continues."""

    ATTACH = "its job is waited for"
    PUBLISH = "its job is published under the same jid"
    AGAIN = "it is done again"
    INTERRUPT = "it is interrupted"


@frozen
class Known:
    """
    What is known of the job of a step.

    @ivar published: whether there is a record of it; for a step in parts, of its latest part.
    @ivar age: seconds since its jid was assigned; for a step in parts, since that part was about to
        be published.
    """

    published: bool = False
    age: float = 0.0


def known_of(step: Step, minions: Collection[str] | None, given: float, now: float) -> Known:
    """
    What is known of the job of a step.

    @param minions: those for whom it was published, by its record; C{None} if there is no record.
    @param given: time of day of its jid.
    @param now: time of day.
    """
    parts = step.parts
    if parts is None or not parts.begun:
        return Known(published=minions is not None, age=now - given)
    published = minions is not None and set(parts.latest) <= set(minions)
    return Known(published=published, age=now - parts.begun[-1])


def how(step: Step, known: Known, window: float) -> tuple[How, str]:
    """
    How a step that was running continues, and why it cannot.

    @param window: C{publish_window}: a job that is older is not published any more.
    """
    low = step.low
    is_job = low.get("state") == "salt" and low.get("fun") in ON_MINIONS
    if is_job and step.jid:
        if (low.get("batch") or low.get("subset")) and (step.parts is None or not step.parts.begun):
            # No part goes out before its line
            return How.PUBLISH, ""
        if known.published:
            return How.ATTACH, ""
        if known.age <= window:
            return How.PUBLISH, ""
        latest = f"part {len(step.parts.begun)} of " if step.parts is not None else ""
        why = f"it is not known whether {latest}its job {step.jid} was published"
    else:
        why = f"nobody can know what {step.function} had done"
    if low.get(RETRY) is True:
        return How.AGAIN, ""
    return How.INTERRUPT, why


def unheard(low: Mapping[str, Any], minions: Collection[str]) -> list[str]:
    """
    Of the minions that had the job of a step when its node died and have not answered since: those
    because of which the result of the step is unknown, according to the step's own rules about
    minions that may fail.
    """
    if low.get("expect_minions") is False:
        return []
    may_fail = low.get("fail_minions") or ()
    if isinstance(may_fail, str):
        may_fail = [name.strip() for name in may_fail.split(",")]
    left = sorted(set(minions) - set(may_fail if isinstance(may_fail, list) else ()))
    if low.get("fun") == "state":
        allowed = str(low.get("allow_fail") or 0)
        if allowed.isdigit() and len(left) <= int(allowed):
            return []
    return left


def unheard_why(jid: str, minions: Collection[str], idle: Collection[str]) -> str:
    """
    Why a step is interrupted whose minions do not answer.

    @param idle: those of them that have said that they no longer run its job.
    """
    gone = [name for name in minions if name in idle]
    silent = [name for name in minions if name not in idle]
    told = []
    if gone:
        told.append(f"{', '.join(gone)}: does not run it any more, and its return did not come")
    if silent:
        told.append(f"{', '.join(silent)}: does not answer")
    return f"it is not known what became of job {jid} ({'; '.join(told)})"


@define
class Plan:
    """
    The result of a takeover.

    @ivar goes_on: whether the run continues; else C{lines} end it.
    @ivar attach: steps to jids whose jobs are awaited.
    @ivar publish: steps to jids whose jobs are published under the same jid.
    @ivar lines: what must be recorded first.
    """

    goes_on: bool = True
    attach: dict[int, str] = field(factory=dict)
    publish: dict[int, str] = field(factory=dict)
    lines: list[Mapping[str, Any]] = field(factory=list)


def plan(
    run: Run,
    mode: str,
    known: Callable[[Step], Known],
    window: float,
    node: str,
    at: float,
    doubtful: bool = False,
) -> Plan:
    """
    What is done with a run that was running.

    @param mode: C{orchestrate_takeover}.
    @param node: whose run was it.
    @param at: time of day.
    @param doubtful: members that are gone may have had lines that nobody else has.
    """
    found = Plan()
    if not run.about:
        # None of its lines ever counted: it has done nothing
        found.goes_on = False
        found.lines.append(ended_line("interrupted", at, f"{node} died before it had begun"))
        return found
    steps = run.running()
    why = ""
    if doubtful:
        why = f"{node} died, and those who are gone with it may have known of more"
        # More may have been begun than is known here
        steps = steps or [step for step in run.steps if not step.is_over][:1]
    elif mode != CONTINUE:
        why = f"{node} died, and orchestrate_takeover is {mode}"
    elif run.about.get("parent"):
        # Whoever goes on with that one may do this step again as a whole
        why = f"{node} died; this is a step of orchestration {run.about['parent']}"
    if why:
        found.lines += [interrupted_line(step.number, why, at) for step in steps]
        found.lines.append(ended_line("interrupted", at, why))
        found.goes_on = False
        return found
    for step in steps:
        chosen, why = how(step, known(step), window)
        if chosen is How.ATTACH:
            found.attach[step.number] = step.jid
        elif chosen is How.PUBLISH:
            found.publish[step.number] = step.jid
        elif chosen is How.INTERRUPT:
            found.lines.append(interrupted_line(step.number, f"{node} died: {why}", at))
    # Who said so before may have died before he could say that the run has ended
    names = [step.name for step in run.steps if step.state is StepState.INTERRUPTED]
    names += [run.steps[line["n"]].name for line in found.lines]
    if names:
        found.goes_on = False
        found.lines.append(ended_line("interrupted", at, f"{node} died in {', '.join(names)}"))
    return found
