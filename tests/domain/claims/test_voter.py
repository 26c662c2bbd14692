"""
One member's votes.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from saltwisted.domain.claims.claimant import TABLE, Do, Duty, Round, Said, last_moment, step
from saltwisted.domain.claims.electorate import Seat, found
from saltwisted.domain.claims.messages import (
    DONE,
    DROP,
    END,
    GRANTED,
    HELD,
    LOW,
    MAX_ASKED,
    MAX_KEY,
    MAX_PLAN,
    MAX_TEXT,
    NO,
    RENEW,
    WANT,
    Question,
    Reply,
    decode_questions,
    decode_replies,
    encode_questions,
    encode_replies,
)
from saltwisted.domain.claims.voter import (
    LEAP,
    MARGIN,
    TERM,
    Adopt,
    Delete,
    Floor,
    Memory,
    Put,
    Voter,
    Whole,
    settle_seconds,
    unfinished,
)
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

ABC = found(Seat(name, name) for name in "abc")
SETTLE = settle_seconds(30.0)
TEXTS = ("act", "key", "what", "event", "result", "came")
OUT = TERM * (1 + MARGIN)
"""Seconds after which a voter gives a key up."""


class VoterTests(SynchronousTestCase):
    """Member c, asked by a and b."""

    def setUp(self) -> None:
        self.voter = Voter("c", Memory((), ABC, 0, False), 0.0, SETTLE)

    def ask(
        self, act: str, term: int, holder: str, now: float, key: str = "k/1", **more: Any
    ) -> Reply:
        """One question."""
        question = Question(act=act, key=key, term=term, holder=holder, **more)
        replies, self.writes = self.voter.ask(ABC, [question], now)
        return replies[0]

    def test_one_per_term(self) -> None:
        """A key is granted to one holder, whoever else asks, by whatever term."""
        self.assertEqual(self.ask(WANT, 1, "a#1", 0.0).said, GRANTED)
        self.assertEqual([type(write) for write in self.writes], [Put])

        held = self.ask(WANT, 9, "b#1", OUT - 0.1)

        self.assertEqual((held.said, held.holder, held.term), (HELD, "a#1", 1))
        self.assertEqual(self.writes, [])

    def test_copies(self) -> None:
        """
        Whoever finds the key of an event taken is told of all that a minion may have kept copies
        of, and of the newest in any case.
        """
        for number, at in ((1, 0.0), (2, 30.0), (3, 95.0)):
            self.ask(WANT, number, "a#1", at, f"event/x/{number}")

        held = self.ask(WANT, 9, "b#1", 100.0, "event/x/3")
        self.assertEqual([(i.number, i.age) for i in held.recent], [(2, 70.0), (3, 5.0)])

        self.ask(END, 3, "a#1", 100.0, "event/x/3")
        done = self.ask(WANT, 9, "b#1", 900.0, "event/x/3")
        self.assertEqual([i.number for i in done.recent], [3])

    def test_old_copies(self) -> None:
        """
        After a start how old an event is is told by the time of day, since the receipts of days are
        read again; but within ten seconds it may be new, whatever the time of day says.
        """
        self.ask(WANT, 1, "a#1", 0.0, "event/x/1", at=1000.0)
        self.ask(END, 1, "a#1", 0.0, "event/x/1")
        votes = [self.voter.vote("event/x/1")]
        again = Voter("c", Memory(votes, ABC, 0, False), 0.0, SETTLE, 5000.0)  # type: ignore[arg-type]

        ages = []
        for now in (8.0, 20.0):
            question = Question(act=WANT, key="event/x/1", term=0, holder="b#1")
            (reply,), _ = again.ask(ABC, [question], now)
            ages.append([each.age for each in reply.recent])

        self.assertEqual(ages, [[8.0], [4020.0]])

    def test_lost(self) -> None:
        """
        Who has a vote and has lost what it voted goes on far above what it hears first, once; a
        newcomer goes on above all that it hears before it votes.
        """
        lost, newcomer = (Voter(key, Memory(), 0.0, SETTLE) for key in "ax")
        for each in (lost, newcomer):
            self.assertEqual(each.heard(3), [])
            each.learn(ABC, 1.0)
        self.assertEqual(lost.heard(7), [Floor(7 + LEAP)])
        self.assertEqual(newcomer.heard(7), [])
        for voter, told in ((lost, 8 + LEAP), (newcomer, 8)):
            self.assertEqual([voter.heard(term) for term in (6, told)], [[], []])
            self.assertEqual(voter.highest, told)
            self.assertEqual(voter.whole(SETTLE), [Floor(told), Whole()])
            self.assertEqual(voter.heard(told + 100), [])

        (reply,), _ = lost.ask(ABC, [Question(act=WANT, key="k", term=9, holder="b#1")], SETTLE)
        self.assertEqual((reply.said, reply.term), (LOW, 8 + LEAP))

    def test_others_have_lost(self) -> None:
        """Who has lost nothing goes along when another one went on far above; else it need not."""
        self.assertEqual(self.voter.heard(None), [])
        self.assertEqual(self.voter.heard(LEAP // 4), [])
        self.assertEqual(self.voter.heard(LEAP + 7), [Floor(LEAP + 7)])
        self.assertEqual(self.voter.heard(LEAP + 7), [])

    def test_for_which_event(self) -> None:
        """
        A vote says for which event it was given, also when another member ends it; who takes a plan
        over does so for the event that it was made for.
        """
        key, first = "event/x/1", {"plan": b"P", "came": "a#1/5", "came_ago": 2.0}
        self.ask(WANT, 1, "a#1", 0.0, key, **first)
        held = self.ask(WANT, 2, "b#1", 1.0, key, came="b#1/9")
        self.assertEqual((held.said, held.came, held.came_ago), (HELD, "a#1/5", 3.0))
        self.assertEqual([(each.node, each.age) for each in held.recent], [("a", 1.0)])

        taken = self.ask(WANT, 2, "b#1", OUT, key, plan=b"Q", came="b#1/9")
        self.assertEqual((taken.said, taken.plan, taken.came), (GRANTED, b"P", "a#1/5"))
        self.ask(WANT, 2, "b#1", OUT, key, plan=b"P", came="a#1/5", came_ago=OUT + 2.0)
        self.assertEqual(self.ask(WANT, 3, "c#1", OUT, key).recent[0].node, "a")

        self.ask(END, 4, "d#1", OUT, key, came="d#1/1")
        done = self.ask(WANT, 5, "c#1", OUT, key)
        self.assertEqual((done.said, done.came, done.came_ago), (DONE, "d#1/1", 0.0))

    def test_given_up(self) -> None:
        """After the term and its margin the next one gets it, by a higher term only."""
        self.ask(WANT, 5, "a#1", 0.0)

        self.assertEqual(self.ask(WANT, 5, "b#1", OUT).said, LOW)
        self.assertEqual(self.ask(WANT, 6, "b#1", OUT).said, GRANTED)
        self.assertEqual(self.ask(RENEW, 5, "a#1", OUT).said, HELD)

    def test_holder_ends_first(self) -> None:
        """A holder's last moment comes before the voter's, though clocks differ by a tenth."""
        self.assertLess(last_moment(0.0) * 1.1, OUT)

    def test_renewed(self) -> None:
        """A renewal needs no write: after a restart a term counts as whole."""
        self.ask(WANT, 1, "a#1", 0.0)

        self.assertEqual(self.ask(RENEW, 1, "a#1", 5.0).said, GRANTED)
        self.assertEqual(self.writes, [])
        self.assertEqual(self.ask(WANT, 2, "b#1", 5.0 + OUT - 0.1).said, HELD)

    def test_renewed_by_others(self) -> None:
        """Who was not asked for a duty learns of its holder by the renewal; not so for an act."""
        self.assertEqual(self.ask(RENEW, 3, "a#1", 0.0).said, NO)
        self.assertEqual(self.ask(RENEW, 3, "a#1", 0.0, is_duty=True).said, GRANTED)
        self.assertEqual([type(write) for write in self.writes], [Put])

        self.assertEqual(self.ask(WANT, 9, "b#1", 1.0, is_duty=True).said, HELD)
        self.assertEqual(self.ask(RENEW, 2, "b#1", OUT, is_duty=True).said, LOW)

    def test_restart(self) -> None:
        """What was on disk at a start holds for a whole term from then on."""
        self.ask(WANT, 1, "a#1", 0.0)
        votes = [write.vote for write in self.writes if isinstance(write, Put)]
        self.voter = Voter("c", Memory(votes, ABC, 0, False), 1000.0, SETTLE)

        self.assertEqual(self.ask(WANT, 2, "b#1", 1000.0 + OUT - 0.1).said, HELD)
        self.assertEqual(self.ask(WANT, 2, "b#1", 1000.0 + OUT).said, GRANTED)

    def test_another_life(self) -> None:
        """A node that was started again is another holder: it does not know what it held."""
        self.ask(WANT, 1, "a#1", 0.0)

        self.assertEqual(self.ask(WANT, 2, "a#2", 1.0).said, HELD)

    def test_lost_votes(self) -> None:
        """A member that may have lost its votes votes for nothing until they have run out."""
        self.voter = Voter("c", Memory((), None, 0, True), 0.0, SETTLE)

        self.assertEqual(self.ask(WANT, 1, "a#1", SETTLE - 0.1).said, NO)
        self.assertEqual(self.ask(WANT, 1, "a#1", SETTLE).said, GRANTED)

    def test_lost_votes_are_not_forgotten(self) -> None:
        """What it learns while it abstains does not end that, and a restart begins it anew."""
        self.voter = Voter("c", Memory((), None, 0, True), 0.0, SETTLE)
        self.assertEqual(self.voter.learn(ABC, 1.0), [Adopt(ABC)])
        self.assertEqual(self.voter.whole(SETTLE - 0.1), [])

        self.voter = Voter("c", Memory((), ABC, 0, True), SETTLE, SETTLE)
        self.assertEqual(self.ask(WANT, 1, "a#1", 2 * SETTLE - 0.1).said, NO)

        self.assertEqual(self.voter.whole(2 * SETTLE), [Whole()])
        self.assertEqual(self.voter.whole(2 * SETTLE), [])

    def test_founder(self) -> None:
        """The first member of all has lost nothing."""
        self.voter = Voter("c", Memory(), 0.0, SETTLE)
        alone = found([Seat("c", "c")])

        self.assertEqual(self.voter.found(alone, 0.0), [Adopt(alone), Whole()])

        replies, _ = self.voter.ask(
            alone, [Question(act=WANT, key="k/1", term=1, holder="c#1")], 0.0
        )
        self.assertEqual(replies[0].said, GRANTED)

    def test_only_one_left(self) -> None:
        """Who is alone since others are gone, which may have voted, waits like any newcomer."""
        self.voter = Voter("c", Memory(), 0.0, SETTLE)
        alone = found([Seat("c", "c")])

        self.assertEqual(self.voter.found(alone, 0.0, had_others=True), [Adopt(alone)])

        question = Question(act=WANT, key="k/1", term=1, holder="c#1")
        self.assertEqual(self.voter.ask(alone, [question], 0.0)[0][0].said, NO)
        self.assertEqual(self.voter.ask(alone, [question], SETTLE)[0][0].said, GRANTED)

    def test_leap(self) -> None:
        """
        When a majority is gone for good, no term is granted that it may have given, before and
        after a restart.
        """
        self.ask(WANT, 7, "a#1", 0.0)

        (floor,) = self.voter.leap()

        self.assertEqual(floor, Floor(7 + LEAP))
        self.assertEqual(self.ask(WANT, 8, "b#1", 1.0, key="k/2").said, LOW)
        self.assertEqual(self.ask(WANT, 8 + LEAP, "b#1", 1.0, key="k/2").said, GRANTED)
        again = Voter("c", Memory((), ABC, floor.term, False), 0.0, SETTLE)
        self.assertEqual(again.highest, 7 + LEAP)

    def test_plan_is_kept(self) -> None:
        """Who gets the key of a dead holder is told what that had planned, and writes it down."""
        self.ask(WANT, 1, "a#1", 0.0, plan=b"P")
        self.assertEqual(unfinished(self.voter.votes(), OUT - 0.1), [])
        self.assertEqual([vote.key for vote in unfinished(self.voter.votes(), OUT)], ["k/1"])

        granted = self.ask(WANT, 2, "b#1", OUT)
        self.assertEqual((granted.plan, granted.accepted, granted.is_first), (b"P", 1, True))
        self.ask(WANT, 2, "b#1", OUT, plan=b"P")
        again = self.ask(WANT, 3, "d#1", 2 * OUT)

        self.assertEqual((again.plan, again.accepted, again.is_first), (b"P", 2, False))

    def test_ended(self) -> None:
        """What is done is done for all that ask later, and keeps no plan."""
        self.ask(WANT, 1, "a#1", 0.0, plan=b"P", what="w", event="e")
        self.ask(END, 1, "a#1", 1.0, result="done", at=7.0)

        done = self.ask(WANT, 2, "b#1", 100.0)

        self.assertEqual((done.said, done.result, done.plan), (DONE, "done", None))
        vote = self.voter.vote("k/1")
        assert vote is not None
        self.assertEqual((vote.ended, vote.what, vote.plan), (7.0, "w", None))

    def test_late_end(self) -> None:
        """The end of an earlier holder changes nothing for a later one."""
        self.ask(WANT, 1, "a#1", 0.0)
        self.ask(WANT, 2, "b#1", OUT)

        self.assertEqual(self.ask(END, 1, "a#1", OUT, result="done").said, NO)

    def test_dropped(self) -> None:
        """Who got no majority gives the key back; what an earlier one began stays begun."""
        self.ask(WANT, 1, "a#1", 0.0, plan=b"P")
        self.ask(DROP, 1, "a#1", 0.0)
        self.assertEqual([type(write) for write in self.writes], [Delete])
        self.ask(WANT, 1, "a#1", 0.0, plan=b"P")
        self.ask(WANT, 2, "b#1", OUT)

        self.ask(DROP, 2, "b#1", OUT)

        self.assertEqual([vote.plan for vote in unfinished(self.voter.votes(), OUT)], [b"P"])

    def test_who_votes(self) -> None:
        """Who goes by an older electorate gets nothing; who goes by a newer one is believed."""
        second = ABC.next([Seat(name, name) for name in "abcd"])
        assert second is not None
        _, writes = self.voter.ask(second, (), 5.0)
        self.assertEqual(writes, [Adopt(second)])

        refused = self.ask(WANT, 1, "a#1", 5.0)

        self.assertEqual(refused.said, NO)
        self.assertIn("later change", refused.why)

    def test_change_of_who_votes(self) -> None:
        """The second step is granted when all that was granted before the first has run out."""
        second = ABC.next([Seat(name, name) for name in "abcd"])
        assert second is not None
        self.voter.ask(second, (), 5.0)
        question = Question(act=WANT, key="electorate/3", term=1, holder="a#1")

        early, _ = self.voter.ask(second, [question], 5.0 + SETTLE - 0.1)
        due, _ = self.voter.ask(second, [question], 5.0 + SETTLE)
        other = evolve(question, key="electorate/9", term=2)
        wrong, _ = self.voter.ask(second, [other], 5.0 + SETTLE)

        self.assertEqual([r[0].said for r in (early, due, wrong)], [NO, GRANTED, NO])

    def test_forgotten_key(self) -> None:
        """A key that was forgotten is given again for a higher term alone."""
        self.ask(WANT, 7, "a#1", 0.0)
        self.ask(END, 7, "a#1", 0.0, result="done")
        self.voter.expire(2 * SETTLE)

        self.assertEqual(self.ask(WANT, 7, "b#1", 2 * SETTLE).said, LOW)
        self.assertEqual(self.ask(WANT, 8, "b#1", 2 * SETTLE).said, GRANTED)

    def test_unknown_question(self) -> None:
        """A question of a later release is refused by name."""
        self.assertIn("'dance'", self.ask("dance", 1, "a#1", 0.0).why)


class RoundTests(SynchronousTestCase):
    """The answers to one question."""

    def test_doubt(self) -> None:
        """Two different plans of first questions leave it open who began; one written again not."""
        round_ = Round(ABC)
        round_.add("a", Reply(said=GRANTED, plan=b"P", accepted=1))
        round_.add("b", Reply(said=GRANTED, plan=b"Q", accepted=2))
        self.assertTrue(round_.planned[1])

        round_.add("b", Reply(said=GRANTED, plan=b"Q", accepted=2, is_first=False))
        last, doubt = round_.planned
        assert last is not None
        self.assertEqual((last.plan, doubt), (b"Q", False))

    def test_taken(self) -> None:
        """It is taken when a majority says who holds it, or one says that it is done."""
        round_ = Round(ABC)
        round_.add("a", Reply(said=HELD, holder="x"))
        self.assertIsNone(round_.taken)
        round_.add("b", Reply(said=HELD, holder="x"))
        self.assertIsNotNone(round_.taken)

        done = Round(ABC)
        done.add("a", Reply(said=DONE))
        self.assertIsNotNone(done.taken)

    def test_over(self) -> None:
        """It is over when it is decided, or all have answered or will not."""
        round_ = Round(ABC)
        round_.add("a", Reply(said=GRANTED))
        self.assertFalse(round_.is_over)
        round_.add("b", None)
        round_.add("c", Reply(said=NO, why="it sleeps"))

        self.assertTrue(round_.is_over)
        self.assertFalse(round_.is_granted)
        self.assertEqual(round_.why(), "b cannot be asked; c: it sleeps")


class DutyTests(SynchronousTestCase):
    """The life of a duty."""

    def test_never_begun_twice(self) -> None:
        """Only what a majority granted is begun, and only from a state in which nothing runs."""
        begins = {row for row, taken in TABLE.items() if Do.BEGIN in taken.do}

        self.assertEqual(begins, {(Duty.ASKING, Said.GRANTED)})

    def test_always_ended(self) -> None:
        """Nothing leads out of a duty that is held but by its end."""
        out = {taken.do for (state, _), taken in TABLE.items() if state is Duty.HELD}

        self.assertEqual(out, {(Do.END,)})
        self.assertEqual(step(Duty.ENDING, Said.WANT).to, Duty.ENDING)


class MessageTests(SynchronousTestCase):
    """What is said between members (T-PEER: a member's words are checked, too)."""

    def test_coded(self) -> None:
        """What is written is read again."""
        question = Question(act=WANT, key="k", term=3, holder="a#1", plan=b"P", what="w", at=1.5)
        reply = Reply(said=GRANTED, term=3, plan=b"P", accepted=2, is_first=False, why="y")

        self.assertEqual(
            decode_questions(encode_questions(ABC, "a#1", [question], 7)), (ABC, [question], 7)
        )
        for abstains in (False, True):
            self.assertEqual(
                decode_replies(encode_replies(None, "c", [reply], abstains, 9)),
                (None, [reply], abstains, 9),
            )

    def test_of_an_older_release(self) -> None:
        """It does not say for which event it asks, nor how high its terms are."""
        asked = unpack_bin(encode_questions(ABC, "a#1", [Question(act=WANT, key="k", term=3)]))
        answer = unpack_bin(encode_replies(None, "c", [Reply(said=GRANTED, term=3)]))
        for message, rows, length in ((asked, "q", 9), (answer, "a", 11)):
            message[rows] = [row[:length] for row in message[rows]]
            del message["t"]

        _, (question,), highest = decode_questions(pack_bin(asked))
        self.assertEqual((question.came, highest), ("", None))
        _, (reply,), _, highest = decode_replies(pack_bin(answer))
        self.assertEqual((reply.came, highest), ("", None))

    @given(st.binary(max_size=60))
    def test_garbage(self, data: bytes) -> None:
        """Anything else is refused as such."""
        for decode in (decode_questions, decode_replies):
            try:
                decode(data)
            except WireError:
                continue

    def test_bounds(self) -> None:
        """Keys, terms and plans have bounds."""
        for bad in (
            Question(act=WANT, key="", term=1),
            Question(act=WANT, key="k" * 2000, term=1),
            Question(act=WANT, key="k", term=-1),
            Question(act=WANT, key="k", term=2**62),
            Question(act=WANT, key="k", term=1, plan=b"x" * (1024 * 1024 + 1)),
        ):
            self.assertRaises(WireError, decode_questions, encode_questions(None, "a#1", [bad]))
        for highest in (-1, 2**62, "7", 1.5):
            said: Any = highest
            body = encode_questions(None, "a#1", (), said)
            self.assertRaises(WireError, decode_questions, body)
            body = encode_replies(None, "c", (), False, said)
            self.assertRaises(WireError, decode_replies, body)

    def test_questions(self) -> None:
        """Each field of a question alone: of its type, and no longer than it may be."""
        good = Question(act=WANT, key="k", term=1, holder="a#1")
        whole = unpack_bin(encode_questions(ABC, "a#1", [good]))
        for name, value in (
            ("h", 5), ("h", None), ("h", b"a#1"), ("h", "a" * (MAX_KEY + 1)), ("q", None), ("q", 5),
            ("q", [whole["q"][0]] * (MAX_ASKED + 1)),
        ):  # fmt: skip
            self.assertRaises(WireError, decode_questions, pack_bin({**whole, name: value}))
        for changes in (
            *({name: value} for name in TEXTS for value in (5, None, b"x", "x" * (MAX_TEXT + 1))),
            *({"term": value} for value in (None, "1", 1.0, True)),
            *({"plan": value} for value in ("x", 5, [b"x"])),
        ):
            bad = encode_questions(ABC, "a#1", [evolve(good, **changes)])
            self.assertRaises(WireError, decode_questions, bad)
        plan = evolve(good, plan=b"x" * MAX_PLAN)
        decode_questions(encode_questions(ABC, "a" * MAX_KEY, [plan] + [good] * (MAX_ASKED - 1)))

    def test_replies(self) -> None:
        """Terms of a reply are numbers, a plan is bytes."""
        good = Reply(said=GRANTED, term=3, plan=b"P", accepted=2)
        for name, values in (
            ("term", (None, "3", 3.0, True)),
            ("accepted", (None, "3", 3.0, True)),
            ("plan", ("P", 5, [b"P"])),
        ):
            for value in values:
                bad = encode_replies(None, "c", [evolve(good, **{name: value})])
                self.assertRaises(WireError, decode_replies, bad)
