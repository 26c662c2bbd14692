"""
The life of a run of an orchestration, and of one of its steps: two tables.

A run that was interrupted, has failed or was stopped continues only when an operator, who has
checked it, says so; a run that is done never does. A step that is done is never begun again.
"""

from __future__ import annotations

from enum import Enum


class RunState(Enum):
    """The state of a run."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"


class StepState(Enum):
    """The state of a step."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


class Said(Enum):
    """The kinds of lines."""

    BEGUN = "it begins"
    DONE = "it ended well"
    FAILED = "it failed"
    INTERRUPTED = "nobody can know what it did"
    STOPPED = "an operator stopped it"
    TAKEN = "another node goes on"
    RESUMED = "an operator has it go on"
    SKIPPED = "an operator goes on behind it"


RUN: dict[tuple[RunState, Said], RunState] = {
    (RunState.RUNNING, Said.TAKEN): RunState.RUNNING,
    (RunState.RUNNING, Said.DONE): RunState.DONE,
    (RunState.RUNNING, Said.FAILED): RunState.FAILED,
    (RunState.RUNNING, Said.INTERRUPTED): RunState.INTERRUPTED,
    (RunState.RUNNING, Said.STOPPED): RunState.STOPPED,
    (RunState.FAILED, Said.RESUMED): RunState.RUNNING,
    (RunState.INTERRUPTED, Said.RESUMED): RunState.RUNNING,
    (RunState.STOPPED, Said.RESUMED): RunState.RUNNING,
}

STEP: dict[tuple[StepState, Said], StepState] = {
    (StepState.WAITING, Said.BEGUN): StepState.RUNNING,
    # What a requisite keeps from running has a result all the same
    (StepState.WAITING, Said.DONE): StepState.DONE,
    (StepState.WAITING, Said.FAILED): StepState.FAILED,
    (StepState.WAITING, Said.SKIPPED): StepState.SKIPPED,
    # Those who knew whether it had begun are gone
    (StepState.WAITING, Said.INTERRUPTED): StepState.INTERRUPTED,
    # It says so itself: it may be done twice
    (StepState.RUNNING, Said.BEGUN): StepState.RUNNING,
    (StepState.RUNNING, Said.DONE): StepState.DONE,
    (StepState.RUNNING, Said.FAILED): StepState.FAILED,
    (StepState.RUNNING, Said.INTERRUPTED): StepState.INTERRUPTED,
    (StepState.RUNNING, Said.SKIPPED): StepState.SKIPPED,
    # Its job may still run: who goes on attaches to it
    (StepState.RUNNING, Said.RESUMED): StepState.RUNNING,
    (StepState.FAILED, Said.RESUMED): StepState.WAITING,
    (StepState.FAILED, Said.SKIPPED): StepState.SKIPPED,
    (StepState.INTERRUPTED, Said.RESUMED): StepState.WAITING,
    (StepState.INTERRUPTED, Said.SKIPPED): StepState.SKIPPED,
}
"""What is not in a table changes nothing."""


def run_step(state: RunState, said: Said) -> RunState | None:
    """The next state of a run; C{None}: this line is not allowed in the present state."""
    return RUN.get((state, said))


def step_step(state: StepState, said: Said) -> StepState | None:
    """The next state of a step; C{None}: this line is not allowed in the present state."""
    return STEP.get((state, said))
