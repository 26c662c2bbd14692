"""
However nodes, disks, clocks and network fail, what is to be done once is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cluster.claims.ballots import Ballots
from saltwisted.cluster.claims.claims import ClusterClaims
from saltwisted.cluster.claims.votes import PRUNE_EVERY, Votes
from saltwisted.domain.claims import voter
from saltwisted.domain.claims.claimant import Round
from saltwisted.domain.claims.electorate import Electorate
from saltwisted.domain.claims.voter import settle_seconds
from saltwisted.domain.claims.words import Claim
from saltwisted.stores import claims as table
from saltwisted.transports.deferreds import as_deferred
from tests.sim.claims import DUTIES, WINDOW, Broken, Growing, SimNode, World, new_disk
from tests.sim.play import count

SEEDS = count(12, 200, 100_000)
GROWING = count(6, 60, 100_000)


class ClaimSimTests(SynchronousTestCase):
    """Plays of up to seven nodes."""

    def test_seeds(self) -> None:
        """No duty has two holders, no act is done twice, and all goes on when all is well."""
        for seed in range(SEEDS):
            World(seed).run()

    def test_growing(self) -> None:
        """Nor when masters that held duties by themselves become one cluster within seconds."""
        for seed in range(GROWING):
            Growing(seed).run()

    def test_same_seed_same_world(self) -> None:
        """A seed says everything: two runs of it are the same."""
        first, second = World(3), World(3)
        first.run()
        second.run()

        self.assertEqual(first.story, second.story)
        self.assertEqual(first.messages, second.messages)


class Fresh(World):
    """Three members at once, none of which has ever voted."""

    grows = 1.0

    def grow(self, names: Sequence[str]) -> None:
        """They begin together."""
        for name in "abc":
            self.make(name, "abc").start()
        self.heal()


class Young(World):
    """A master that begins alone, and one that has just joined it when it has read its disk."""

    grows = 1.0

    def grow(self, names: Sequence[str]) -> None:
        """The first, as soon as it votes, and the second."""
        first = self.make("b", "b")
        first.start()
        while first.votes.voter is None:
            self.advance(0.001)
        second = self.make("a", "ab")
        first.knows.add("a")
        second.start()
        self.heal()


class Slow(World):
    """A master that others join in its first minutes, on machines that are as slow to answer."""

    grows = 1.0

    def grow(self, names: Sequence[str]) -> None:
        """An answer takes up to 1.6 seconds, and comes."""
        self.delays = (0.05, 0.3, 0.8)
        self.make("c", "c").start()
        for name in self.dice.sample("abde", self.dice.choice((2, 3, 4))):
            self.alone(name, self.dice.uniform(0.0, 120.0))

    def longest(self, seconds: float) -> float:
        """For how long a duty was not done, at most."""
        undone, found = dict.fromkeys(DUTIES, 0.0), 0.0
        while self.clock.seconds() < seconds:
            self.advance(1.0)
            self.meet()
            for name, doing in self.doing.items():
                is_done = any(each.node.life == each.life for each in doing)
                undone[name] = 0.0 if is_done else undone[name] + 1.0
                found = max(found, undone[name])
        return found


class ProblemTests(SynchronousTestCase):
    """What a member says of why it would claim nothing."""

    def test_they_abstain(self) -> None:
        """
        While too few vote, since they may have lost what they voted, each says so and would claim
        nothing; when that is over each says so by itself, whether or not anybody asked.
        """
        world = Fresh(1)
        world.advance(8.0)
        for node in world.nodes.values():
            self.assertIn("may be lost", node.claims.problem(), node.name)
            self.assertFalse(node.claims.would_claim())

        world.advance(settle_seconds(WINDOW))

        for node in world.nodes.values():
            self.assertEqual(node.claims.problem(), "", node.name)
            self.assertTrue(node.claims.would_claim())
        self.assertEqual(len(world.nodes["a"].claims.holders()), len(DUTIES))


class WhoAskedTests(SynchronousTestCase):
    """What is on record of an act that another member takes over."""

    def test_T_LOG_3_taken_over(self) -> None:
        """
        T-LOG-3: who asked for what a member had begun that dies is known to the member that
        finishes it, from the plan, and is in the receipt afterwards, at every member.
        """
        for seed in range(5):
            world = Fresh(seed)
            world.advance(8.0 + settle_seconds(WINDOW))
            a, *others = (world.nodes[name] for name in "abc")
            found: list[Any] = []
            for node in others:
                node.claims.on_recover("act", partial(self.recover, node, found))
            plan = {"kind": "local", "jid": "a1", "asked": "fred (the HTTP API, 10.1.2.3)"}
            what = "local.test.ping, for fred (the HTTP API, 10.1.2.3)"
            begun: list[Any] = []
            as_deferred(a.claims.begin("act/by fred", plan, what, "my/tag")).addCallback(
                begun.append
            )
            world.advance(0.5)
            self.assertIsInstance(begun[0], Claim)
            a.kill()
            world.advance(60.0)

            (taken,) = found
            self.assertEqual(taken, ("act/by fred", plan))
            for node in others:
                told: list[Any] = []
                as_deferred(node.claims.receipts("my/tag")).addCallback(told.append)
                world.advance(5.0)
                self.assertEqual({receipt.what for receipt in told[0]}, {what}, told[0])
                self.assertIn("done", {receipt.result for receipt in told[0]}, told[0])

    def recover(self, node: Any, found: list[Any], key: str, plan: Any, claim: Claim) -> Any:
        """A member finishes it."""
        found.append((key, plan))
        return node.claims.end(claim, "done")


class Survivor(World):
    """
    Of two members the first does something behind a cut, dies and is removed; the event comes to
    the second, too.
    """

    grows, sizes = 0.0, (2,)

    def run(self) -> None:
        """One act, and the check at the end of each play."""
        self.advance(20.0)
        a, b = self.nodes["a"], self.nodes["b"]
        self.cuts.add(frozenset("ab"))
        self.cut(a, b)
        a.react("act/again", "once")
        while "act/again" not in self.done:
            self.advance(0.1)
        a.kill()
        self.removed.add("a")
        b.gone.add("a")
        self.advance(2.0)
        b.react("act/again", "once")
        self.advance(60.0)
        self.is_well = True
        self.check()


class Left(World):
    """Of two members the first has duties behind a cut, dies and is removed."""

    grows, sizes = 0.0, (2,)

    def raise_terms(self, node: SimNode) -> None:
        """What this node grants itself now, nobody else hears."""
        for name in DUTIES:
            for _ in range(3):
                _ = as_deferred(node.claims.release(name))
                self.advance(3.0)
                node.want(name)
                self.advance(3.0)

    def run(self) -> None:
        """Duties are begun by growing terms, which the world looks at."""
        self.advance(20.0)
        a, b = self.nodes["a"], self.nodes["b"]
        self.cuts.add(frozenset("ab"))
        self.cut(a, b)
        self.raise_terms(a)
        a.kill()
        self.removed.add("a")
        b.gone.add("a")
        self.advance(60.0)
        self.is_well = True
        self.check()


class Forgetful(Left):
    """Of two members the first, which decides alone, loses its disk, once or twice."""

    def run(self) -> None:
        """Duties are begun by growing terms, which the world looks at; then both claim."""
        a, b = self.nodes["a"], self.nodes["b"]
        for _ in range(1 + self.seed // 2 % 2):
            self.advance(5.0)
            if self.seed % 2:
                self.cuts.add(frozenset("ab"))
                self.cut(a, b)
            self.advance(2 * settle_seconds(WINDOW))
            self.raise_terms(a)
            self.lose(a)
            self.heal()
        self.advance(2 * settle_seconds(WINDOW))
        self.is_well = True
        self.check()

    def lose(self, node: SimNode) -> None:
        """All that it voted."""
        node.kill()
        node.disk = new_disk()
        self.start(node)


class ForgetfulThree(Forgetful):
    """Of three members one loses its disk, and what it granted the third one knows alone."""

    sizes = (3,)

    def run(self) -> None:
        """The two that are left do not begin with lower terms."""
        self.advance(20.0)
        a, b, c = (self.nodes[name] for name in "abc")
        b.kill()
        self.raise_terms(a)
        c.kill()
        self.lose(a)
        self.start(b)
        self.advance(2 * settle_seconds(WINDOW))
        self.start(c)
        self.advance(20.0)
        self.is_well = True
        self.check()


class Sleeper(World):
    """One of three members stands still between the claim and the act, which others finish."""

    grows, sizes = 0.0, (3,)

    def run(self) -> None:
        """When it goes on, it acts if it holds the claim, and not else."""

        def act(node: SimNode, key: str, plan: Any, claim: Claim) -> None:
            node.freeze()
            node.awake(lambda: node.claims.holds(claim) and self.effect(node, key, plan, claim))

        self.advance(20.0)
        a = self.nodes["a"]
        with mock.patch.object(SimNode, "act", act):
            a.react("act/again", "local")
            self.advance(1.0)
        self.advance(20.0)
        a.thaw()
        self.advance(20.0)
        self.is_well = True
        self.check()


class Stuck(World):
    """
    Of three members one is away, and the disk of another one takes no write. It is started again,
    when only the one that was away is there.
    """

    grows, sizes = 0.0, (3,)

    def run(self) -> None:
        """What two of them would do is done by the first, or else by the last."""
        self.advance(20.0)
        a, b, c = (self.nodes[name] for name in "abc")
        c.kill()
        b.store.batches.hangs = True
        a.react("act/again", "once")
        for _ in range(60):
            self.advance(0.2)
        a.kill()
        b.kill()
        self.start(b)
        self.start(c)
        self.advance(20.0)
        c.react("act/again", "once")
        self.advance(20.0)
        self.is_well = True
        self.check()


class Stalled(World):
    """
    Of two members the first stands still for minutes. What it was asked before lies in its sockets:
    an act that was done then.
    """

    grows, sizes = 0.0, (2,)

    def run(self) -> None:
        """The other one has it from itself that it is done, and takes nothing back."""
        self.advance(20.0)
        a, b = self.nodes["a"], self.nodes["b"]
        b.react("act/again", "local")
        self.advance(15.0)
        a.freeze()
        # Its timers are due before that
        self.advance(2.0)
        b.kill()
        self.start(b)
        self.advance(3.0)
        b.react("act/again", "local")
        self.advance(2 * settle_seconds(WINDOW) + PRUNE_EVERY)
        a.thaw()
        self.advance(30.0)
        self.is_well = True
        self.check()


class FoundingTests(SynchronousTestCase):
    """Who votes in a young cluster."""

    def test_at_once(self) -> None:
        """
        A master that begins alone decides from its first moment, however early another one joins:
        both claim within seconds, and nobody has to abstain first.
        """
        for seed in range(20):
            world = Young(seed)

            world.advance(6.0)

            for node in world.nodes.values():
                self.assertEqual(node.claims.problem(), "", f"{node.name} {seed}")
                self.assertTrue(node.claims.would_claim())
            self.assertEqual([len(doing) for doing in world.doing.values()], [1, 1], seed)


class SlowTests(SynchronousTestCase):
    """Members that need long for each answer."""

    def test_duties_go_on(self) -> None:
        """
        A duty is held, or has another holder soon, while masters join; it would be nobody's for
        minutes if none waited for such answers.
        """
        self.assertLess(max(Slow(seed).longest(240.0) for seed in range(6)), 20.0)

        with mock.patch("saltwisted.cluster.claims.ballots.PATIENCE", 1.0):
            self.assertGreater(max(Slow(seed).longest(240.0) for seed in range(6)), 25.0)


class MutationTests(SynchronousTestCase):
    """Rules that are broken on purpose must be found out: else the simulation proves nothing."""

    def caught(self, first: int = 0, most: int = 60, world: Callable[[int], World] = World) -> None:
        """One of some seeds breaks a promise."""
        for seed in range(first, first + most):
            try:
                world(seed).run()
            except Broken:
                self.flushLoggedErrors()
                return
        self.fail(f"{most} seeds broke no promise")

    def test_half_is_enough(self) -> None:
        """A half of the members is no majority."""

        def half(seats: Any, keys: Any, gone: Any, two: str) -> bool:
            left = [seat.key for seat in seats if seat.key not in gone]
            return sum(1 for key in left if key in keys) * 2 >= len(left)

        with mock.patch("saltwisted.domain.claims.electorate._is_majority", half):
            self.caught()

    def test_votes_are_forgotten(self) -> None:
        """What is not on disk when it is answered is granted again after a crash."""

        async def write(self: Ballots, writes: Any) -> None:
            self._store.write(writes).addErrback(lambda failure: None)

        Stuck(0).run()
        with mock.patch.object(Ballots, "write", write):
            self.caught(most=1, world=Stuck)

    def test_short_terms(self) -> None:
        """A voter that gives a key up before its holder does lets two hold it."""
        with mock.patch.object(voter, "MARGIN", -0.8):
            self.caught()

    def test_a_holder_that_does_not_look(self) -> None:
        """A holder that acts without asking whether it still holds acts too late."""
        Sleeper(0).run()
        with mock.patch.object(ClusterClaims, "holds", lambda self, claim: True):
            self.caught(most=1, world=Sleeper)

    def test_plans_are_forgotten(self) -> None:
        """Who gets the key of a dead holder has to be told what that had begun."""

        def planned(self: Round) -> tuple[None, bool]:
            return None, False

        with mock.patch.object(Round, "planned", property(planned)):
            self.caught()

    def test_nobody_waits_for_who_votes(self) -> None:
        """Changes of who votes, with no time and no second majority between, split the votes."""

        def next_one(self: Electorate, wanted: Any) -> Electorate | None:
            seats = tuple(sorted(set(wanted)))
            return Electorate(self.epoch + 1, (seats,)) if seats != self.sets[-1] else None

        with mock.patch.object(Electorate, "next", next_one):
            self.caught(most=200)

    def test_what_the_dead_did_last(self) -> None:
        """Who is left of two does not know what the first of them had done without it."""
        Survivor(0).run()

        with mock.patch.object(Votes, "doubts_until", lambda self: 0.0):
            self.caught(most=3, world=Survivor)

    def test_terms_of_the_dead(self) -> None:
        """Nor which terms it had given: they must not be given again."""
        Left(0).run()

        with mock.patch.object(voter.Voter, "leap", lambda self: []):
            self.caught(most=3, world=Left)

    def test_what_was_asked_long_ago(self) -> None:
        """Who stood still must not forget what was done before it reads what it was asked."""
        Stalled(0).run()

        with mock.patch("saltwisted.cluster.claims.votes.STOOD_STILL", float("inf")):
            self.caught(most=1, world=Stalled)

    def test_terms_of_a_lost_disk(self) -> None:
        """
        A member that has lost its votes, and could grant without those that are there, does not
        begin with terms that it has given.
        """
        for seed in range(4):
            Forgetful(seed).run()
        ForgetfulThree(0).run()

        for world in (Forgetful, ForgetfulThree):
            with mock.patch.object(voter.Voter, "heard", lambda self, highest: []):
                self.caught(most=4, world=world)

    def test_terms_of_a_disk_that_is_lost_again(self) -> None:
        """What a member went on with after it had lost its votes the others know, too."""
        heard = voter.Voter.heard

        def only_lost(self: voter.Voter, highest: int | None) -> list[voter.Write]:
            return [] if self._is_whole else heard(self, highest)

        with mock.patch.object(voter.Voter, "heard", only_lost):
            self.caught(first=3, most=1, world=Forgetful)

    def test_votes_of_another_cluster(self) -> None:
        """Who was alone and joins must not go by the electorate of which it was the only member."""
        own = table.own

        with mock.patch.object(table, "own", lambda db, cluster, key: own(db, "any", key)):
            self.caught(world=Growing)
