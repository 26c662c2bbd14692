"""
Real processes: the node that orchestrates is killed at random moments, again and again.

Twenty steps: most are jobs on a minion that is linked to all three nodes, each fourth is a state
on the master itself. Each step leaves a line with its number. By SIGKILL dies the node
that runs it, at a random moment; then the run goes on elsewhere, or is interrupted in a step of
which nobody can know what it did. C{SALTWISTED_LONG=1} kills fifty times and prints how long the
next step took to begin.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from attrs import define
from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.real import OurNode, join_all, let_all_vote, nodes
from tests.harness import OurMinion, scratch, until, write_config

LONG = os.environ.get("SALTWISTED_LONG") == "1"
KILLS = int(os.environ.get("SALTWISTED_KILLS", "50")) if LONG else 2
STEPS = 20
LENGTH = 0.25
"""Seconds that a step takes."""
SLS = """
{% for number in range(STEPS) %}
{% set line = "echo " ~ number ~ " $(date +%s.%N) >> LOG." ~ pillar["turn"] ~ "; sleep LENGTH" %}
step {{ number }}:
{% if number % 4 == 2 %}
  cmd.run:
    - name: '{{ line }}'
{% else %}
  salt.function:
    - name: cmd.run
    - tgt: m1
    - arg: ['{{ line }}']
{% endif %}
    - order: {{ number + 1 }}
    - failhard: true
{% endfor %}
"""


@define
class Killed:
    """
    What became of a run.

    @ivar state: how it ended.
    @ivar step: the number of the step that ran, or was next.
    @ivar seconds: from the kill to what was done next; C{None} if nothing was left to do.
    """

    turn: int
    state: str
    step: int
    seconds: float | None


class KillTests(SynchronousTestCase):
    """Three nodes and a minion."""

    timeout = 7200

    def setUp(self) -> None:
        """They serve, and all vote."""
        self.home = scratch(self)
        self.log = os.path.join(self.home, "log")
        text = SLS.replace("LOG", self.log).replace("STEPS", str(STEPS))
        with open(os.path.join(self.home, "deploy.sls"), "w") as stream:
            stream.write(text.replace("LENGTH", str(LENGTH)))
        self.made: list[OurNode] = nodes(
            self, "a b c", file_roots={"base": [self.home]}, auto_accept=True
        )
        join_all(self.made)
        let_all_vote(self.made)
        hot = [node.address for node in self.made]
        self.minion = OurMinion(self.home, self.made[0], "m1")
        write_config(os.path.join(self.minion.conf, "minion.d", "many.conf"), {"master": hot})
        self.addCleanup(self.minion.kill)
        self.minion.up()
        self.dice = random.Random(int(os.environ.get("SALTWISTED_SEED", time.time_ns() % 10**6)))

    def traces(self, turn: int) -> list[tuple[int, float]]:
        """The steps that have run, and when."""
        try:
            with open(f"{self.log}.{turn}") as stream:
                lines = [line.split() for line in stream.read().splitlines()]
        except FileNotFoundError:
            return []
        return [(int(number), float(at)) for number, at in (line for line in lines if line[1:])]

    def kill_once(self, turn: int) -> Killed:
        """Begin a run, kill its node at a random moment, and see what becomes of it."""
        node = self.dice.choice(self.made)
        others = [each for each in self.made if each is not node]
        for each in self.made:
            until(f"the minion at {each.name}", lambda each=each: each.hears("m1"))
        step, more = self.dice.randrange(STEPS), self.dice.random() * LENGTH * 1.5
        jid = node.orchestrate("deploy", turn=turn)
        until(f"step {step}", lambda: len(self.traces(turn)) > step, every=0.005)
        # A random moment is nothing that can be waited for
        time.sleep(more)
        node.kill()
        killed = time.time()

        def over() -> dict[str, Any] | None:
            found = others[0].orchestration(jid)
            return found if found["state"] not in ("", "running") else None

        try:
            run = until("the end of the run", over, 120.0)
        except AssertionError as error:
            said = "\n".join(each.tail() for each in others)
            raise AssertionError(f"{error}: {others[0].orchestration(jid)}\n{said}") from None
        found = self.judged(turn, run, killed, self.traces(turn))
        self.assertEqual(others[1].orchestration(jid)["state"], run["state"])
        node.up()
        return found

    def judged(
        self, turn: int, run: dict[str, Any], killed: float, traces: list[tuple[int, float]]
    ) -> Killed:
        """Each step ran once, in order; or the run was interrupted in the right one."""
        numbers = [number for number, _ in traces]
        states = [step["state"] for step in run["steps"]]
        told = f"turn {turn}: {run['state']} ({run['why']}), ran {numbers}, steps {states}"
        self.assertEqual(numbers, sorted(set(numbers)), told)
        next_ones = [at for _, at in traces if at > killed]
        step = next((n for n, at in traces if at > killed), len(states))
        if run["state"] == "done":
            self.assertEqual(numbers, list(range(STEPS)), told)
            self.assertEqual(set(states), {"done"}, told)
            return Killed(turn, "done", step, next_ones[0] - killed if next_ones else None)
        self.assertEqual(run["state"], "interrupted", told)
        stopped = states.index("interrupted")
        # A state on the master: it had begun, and so has left its line, or was about to
        self.assertEqual(stopped % 4, 2, told)
        self.assertEqual(states[:stopped], ["done"] * stopped, told)
        self.assertEqual(set(states[stopped + 1 :]) - {"waiting"}, set(), told)
        self.assertIn(numbers, (list(range(stopped)), list(range(stopped + 1))), told)
        return Killed(turn, "interrupted", stopped, run["ended"] - killed)

    def test_kills(self) -> None:
        """
        Whenever the node dies, each step has run once in the end, or the run is interrupted in the
        step of which nobody knows; what follows begins within ten seconds of the kill.
        """
        found = []
        for turn in range(KILLS):
            found.append(self.kill_once(turn))
            if LONG:
                sys.stderr.write(f"{found[-1]}\n")

        seconds = sorted(one.seconds for one in found if one.seconds is not None)
        if LONG and seconds:
            done = sum(one.state == "done" for one in found)
            middle, most = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.9)]
            sys.stderr.write(
                f"{len(found)} kills: {done} runs done, {len(found) - done} interrupted; what"
                f" followed began after {seconds[0]:.1f} to {seconds[-1]:.1f} s, half within"
                f" {middle:.1f} s, 90 % within {most:.1f} s\n"
            )
