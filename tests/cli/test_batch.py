"""
Batches: who runs when, on a clock of numbers; and what C{salt --batch} prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.cli.batch import Plan
from saltwisted.domain.batches import batch_size, whole
from tests.cli.support import CommandTestCase
from tests.cli.test_salt import job


class SizeTests(SynchronousTestCase):
    """Numbers and percentages."""

    def test_sizes(self) -> None:
        """A share below one is one; others are cut; nothing is less than one."""
        cases = [("3", 10), ("25%", 10), ("1%", 10), ("0", 10), ("100%", 7), (8, 3), ("33%", 10)]

        self.assertEqual([batch_size(text, count) for text, count in cases], [3, 2, 1, 1, 7, 8, 3])

    def test_nonsense(self) -> None:
        """Anything else is refused."""
        endless = ("inf%", "-inf%", "nan%", "1e400%", float("inf"), float("nan"), "inf", "9" * 5000)
        for text in ("x", "%", "1.5", "", None, [], *endless):
            self.assertRaises(ValueError, batch_size, text, 10)
            self.assertRaises(ValueError, whole, text)
        self.assertEqual(batch_size("1e300%", 10), int(1e299))


class PlanTests(SynchronousTestCase):
    """L{Plan}, without a daemon."""

    def test_wait(self) -> None:
        """A place is free only when the wait after its minion's return has passed."""
        plan = Plan(["a", "b"], 1, 10.0, False)

        first = plan.start(0.0)
        plan.finish("a", 0, 5.0)

        self.assertEqual((first, plan.start(5.0), plan.next_free()), (["a"], [], 15.0))
        self.assertEqual((plan.start(14.9), plan.start(15.0)), ([], ["b"]))

    def test_failhard(self) -> None:
        """After a failure with failhard nothing more is started, and the batch is over."""
        plan = Plan(["a", "b"], 1, 0.0, True)
        plan.start(0.0)

        plan.finish("a", 2, 1.0)

        self.assertTrue(plan.done)
        self.assertEqual(plan.start(2.0), [])

    @given(st.integers(0, 30), st.integers(1, 10), st.sampled_from([0.0, 1.5]), st.randoms())
    def test_all_once_and_never_too_many(
        self, count: int, size: int, wait: float, dice: Any
    ) -> None:
        """Every minion is started once, and never more run at a time than the size."""
        plan = Plan([str(n) for n in range(count)], size, wait, False)
        started: list[str] = []
        now = 0.0

        while not plan.done:
            started += plan.start(now)
            self.assertLessEqual(len(plan.active), size)
            if plan.active:
                plan.finish(dice.choice(sorted(plan.active)), 0, now)
            now += 1.0

        self.assertEqual(sorted(started), sorted(str(n) for n in range(count)))


class BatchTests(CommandTestCase):
    """The command."""

    def setUp(self) -> None:
        """A daemon with three minions; C{codes} are their return codes, C{away} do not ping."""
        super().setUp()
        self.codes = {"a": 0, "b": 0, "c": 0}
        self.away: tuple[str, ...] = ()
        self.mute: tuple[str, ...] = ()
        self.jids: set[str] = set()
        self.asked: list[dict[str, Any]] = []

        def answer(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
            self.asked.append(args)
            if args["fun"] == "test.ping":
                up = [(name, True, 0) for name in self.codes if name not in self.away]
                return job(*up, missing=self.away)(args)
            self.jids.add(args["jid"])
            silent = tuple(name for name in args["tgt"] if name in self.mute)
            returns = [(n, True, self.codes[n]) for n in args["tgt"] if n not in silent]
            return job(*returns, missing=silent)(args)

        self.fake = self.daemon(run=answer)

    def test_one_at_a_time(self) -> None:
        """The next part is announced before the return that made room for it, as in stock."""
        result = self.command("salt", "-b1", "*", "x.y")

        shown = [line for line in result.out.splitlines() if line and line[0] != " "]
        self.assertEqual(
            shown,
            [
                "Executing run on ['a']",
                "Executing run on ['b']",
                *["a:", "jid:", "retcode:"],
                "Executing run on ['c']",
                *["b:", "jid:", "retcode:"],
                *["c:", "jid:", "retcode:"],
            ],
        )
        self.assertEqual(result.status, 0)
        self.assertEqual(len(self.jids), 1, "all parts are one job")

    def test_exact_text(self) -> None:
        """One part with one minion, byte for byte."""
        self.codes = {"a": 0}

        result = self.command("salt", "-b", "100%", "*", "x.y")

        self.assertEqual(
            result.out,
            "\nExecuting run on ['a']\n\na:\n    True\njid:\n    20261121064303567846\n"
            "retcode:\n    0\n",
        )

    def test_highest_code(self) -> None:
        """The status is the highest return code."""
        self.codes = {"a": 1, "b": 7, "c": 0}

        self.assertEqual(self.command("salt", "-b2", "*", "x.y").status, 7)

    def test_failhard(self) -> None:
        """--failhard ends the batch with the first failure."""
        self.codes = {"a": 1, "b": 0, "c": 0}

        result = self.command("salt", "-b1", "--failhard", "*", "x.y")

        self.assertEqual(result.out.count("Executing run on"), 1)
        self.assertEqual(result.err, "[ERROR   ] Batch run stopped due to failhard\n")
        self.assertEqual(result.status, 1)

    def test_who_is_down(self) -> None:
        """Who does not answer the ping is named and gets no job; the status is 1."""
        self.away = ("b",)

        result = self.command("salt", "-b3", "*", "x.y")

        self.assertTrue(
            result.out.startswith("Minion b did not respond. No job will be sent.\n"), result.out
        )
        self.assertIn("Executing run on ['a', 'c']", result.out)
        self.assertEqual(result.status, 1)
        self.away = ("a", "b", "c")
        self.assertEqual(self.command("salt", "-b3", "*", "x.y").status, 1)
        self.assertEqual(self.command("salt", "-b3", "--async", "*", "x.y").status, 1)

    def test_who_is_silent(self) -> None:
        """Who answers the ping and not the job keeps nobody waiting; the status is 1, or higher."""
        self.mute = ("a",)

        result = self.command("salt", "-b1", "*", "x.y")

        self.assertIn("Executing run on ['c']", result.out)
        self.assertNotIn("a:\n", result.out)
        self.assertEqual(result.status, 1)
        self.assertEqual(self.command("salt", "-s", "-b1", "*", "x.y").status, 1)
        self.codes["b"] = 7
        self.assertEqual(self.command("salt", "-b1", "*", "x.y").status, 7)

    def test_nobody(self) -> None:
        """A batch without minions says so twice, as in stock; the status is 2, as without it."""
        self.codes = {}

        result = self.command("salt", "-b1", "*", "x.y")

        self.assertEqual(
            result.out,
            "No minions matched the target. No command was sent, no jid was assigned.\n"
            "No minions matched the target.\n",
        )
        self.assertEqual(result.status, 2)
        self.assertEqual(self.command("salt", "-b1", "--async", "*", "x.y").status, 2)

    def test_wrong_size(self) -> None:
        """A size that is none: a sentence, status 1, no job."""
        result = self.command("salt", "-b", "many", "*", "x.y")

        self.assertIn("Invalid batch specification 'many'", result.err)
        self.assertEqual(result.status, 1)
        self.assertEqual(self.jids, set())

    def test_safe_limit(self) -> None:
        """From --batch-safe-limit minions on, a batch is made of it."""
        self.fake.answers["match"] = lambda args: list(self.codes)

        result = self.command("salt", "--batch-safe-limit=3", "--batch-safe-size=2", "*", "x.y")

        self.assertTrue(
            result.out.startswith(
                "\nNOTICE: Too many minions targeted, switching to batch execution.\n"
                "\nExecuting run on ['a', 'b']\n"
            )
        )

    def test_static(self) -> None:
        """-s with a batch prints one document at the end; who is silent has an empty value."""
        self.mute = ("b",)

        result = self.command("salt", "-s", "-b2", "*", "x.y", "--out=raw")

        self.assertEqual(result.out, "{'a': True, 'b': {}, 'c': True}\n")

    def test_generation(self) -> None:
        """C{--generation} is for the job: what is asked of its target before reads no files."""
        self.command("salt", "-b3", "--generation", "0a1b2c3", "*", "state.apply")

        said = [(each["fun"], each["kwargs"].get("generation")) for each in self.asked]
        self.assertEqual(said, [("test.ping", None), ("state.apply", "0a1b2c3")])
