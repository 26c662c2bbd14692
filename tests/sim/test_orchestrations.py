"""
However nodes, disks, clocks and network fail, each step of an orchestration is done once, or the
run says at which one it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.orchestration import takeover
from saltwisted.domain.orchestration.copies import Keeper, Look, Put, Reply
from saltwisted.domain.orchestration.takeover import How, Known
from saltwisted.domain.orchestration.words import Step
from saltwisted.master.orchestration.going import Goings
from saltwisted.master.orchestration.kept import KeptOrchestrations
from tests.sim.claims import Broken
from tests.sim.orchestrations import Missed, Moving, OrchWorld
from tests.sim.play import count

SEEDS = count(8, 50, 100_000)
MOVING = count(1, 5, 10_000)
MISSED = 4
"""Seeds in which newcomers and one that was away go on with lines of which these know too few."""


class OrchestrationSimTests(SynchronousTestCase):
    """Plays of up to five nodes."""

    def test_seeds(self) -> None:
        """No step is done twice, none before its time, and every run ends when all is well."""
        for seed in range(SEEDS):
            OrchWorld(seed).run()

    def test_same_seed_same_world(self) -> None:
        """A seed says everything: two runs of it are the same."""
        first, second = OrchWorld(5), OrchWorld(5)
        first.run()
        second.run()

        self.assertEqual(first.story, second.story)


class MovingTests(SynchronousTestCase):
    """Members join in the middle of runs, and those that had the lines are gone then."""

    def test_seeds(self) -> None:
        """No step is done twice, and every run ends when those that are needed are back."""
        for seed in range(MOVING):
            Moving(seed).run()

    def test_missed_lines(self) -> None:
        """What a majority had before two joined is not overlooked by a majority with these."""
        for seed in range(MISSED):
            Missed(seed).move()


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out: else the simulation proves nothing."""

    def caught(
        self,
        most: int = 60,
        play: Callable[[int], None] = lambda seed: OrchWorld(seed).run(),
        first: int = 0,
    ) -> None:
        """One of some seeds breaks a promise."""
        for seed in range(first, first + most):
            try:
                play(seed)
            except Broken:
                self.flushLoggedErrors()
                return
        self.fail(f"{most} seeds broke no promise")

    def test_a_step_is_not_waited_for(self) -> None:
        """A step that has an effect before its line counts is done again by who takes over."""
        write = Goings.write

        async def unwritten(self: Any, going: Any, line: Any) -> None:
            if line["what"] != "step":
                await write(self, going, line)

        with mock.patch.object(Goings, "write", unwritten):
            self.caught()

    def test_everything_is_done_again(self) -> None:
        """Who does again what nobody knows of does a runner twice."""

        def again(step: Step, known: Known, window: float) -> tuple[How, str]:
            return How.AGAIN, ""

        with mock.patch.object(takeover, "how", again):
            self.caught()

    def test_newest_is_read(self) -> None:
        """Who goes on with what is served now renders from other commits in the middle of a run."""
        resume = KeptOrchestrations._resume

        def newest(self: Any, run: Any, done: Any) -> Any:
            run.about = {**run.about, "generation": self._successor._generation(run.jid)}
            return resume(self, run, done)

        with mock.patch.object(KeptOrchestrations, "_resume", newest):
            self.caught()

    def test_parts_are_chosen_again(self) -> None:
        """Who chooses the minions of a batch anew after a takeover tells some of them twice."""
        with mock.patch("saltwisted.domain.orchestration.words.Parts.shown", lambda self: None):
            self.caught(200)

    def test_a_part_is_not_waited_for(self) -> None:
        """A part that goes out before its line counts goes out behind the back of a successor."""
        write = Goings.write

        async def unwritten(self: Any, going: Any, line: Any) -> None:
            if line["what"] != "part":
                await write(self, going, line)

        with mock.patch.object(Goings, "write", unwritten):
            self.caught(200, first=3)

    def test_no_promise(self) -> None:
        """A keeper that goes on to take lines of an earlier writer lets two write."""

        def look(self: Keeper, asked: Look) -> tuple[Reply, list[Put]]:
            record = self.record(asked.jid)
            reply = Reply(ok=True, term=record.term, lines=record.lines)
            return reply, []

        take = Keeper.take

        def take_any(self: Keeper, sent: Any) -> Any:
            record = self.record(sent.jid)
            if sent.term < record.promised:
                return Reply(ok=True, count=sent.at + len(sent.lines)), []
            return take(self, sent)

        held = mock.patch("saltwisted.master.orchestration.leases.Leases.holds", lambda self: True)
        taken = mock.patch.object(Keeper, "take", take_any)
        with mock.patch.object(Keeper, "look", look), taken, held:
            self.caught()

    def test_one_disk_is_enough(self) -> None:
        """A line that counts on one disk of three is gone with its node."""
        with mock.patch("saltwisted.domain.orchestration.copies.enough", lambda *args: True):
            self.caught(200)

    def test_members_are_asked(self) -> None:
        """
        Who asks a majority of those that are members now, and not of those that had seats when the
        lines were written, misses some.
        """
        asked = "saltwisted.master.orchestration.keepers.seats_of"
        with mock.patch(asked, lambda lines: (None, 0)):
            self.caught(30, lambda seed: Missed(seed).move())
