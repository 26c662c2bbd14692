"""
The questions of a claimant to a voter, and the answers.

One message carries many questions of one claimant, and the electorate that it uses. A message is a
packed map; a reader ignores fields that it does not know, and refuses a question that it does not
know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from saltwisted.domain.claims.copies import Instance
from saltwisted.domain.claims.electorate import Electorate, decode_electorate, encode_electorate
from saltwisted.errors import WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

MAX_KEY = 1024
MAX_PLAN = 1024 * 1024
MAX_TEXT = 4096
MAX_ASKED = 10_000
MOST_TERM = 2**62

WANT, RENEW, DROP, END = "want", "renew", "drop", "end"
GRANTED, HELD, DONE, LOW, NO = "granted", "held", "done", "low", "no"


@frozen(kw_only=True)
class Question:
    """
    One question about one key.

    @ivar act: C{want} a term; C{renew} it; C{drop} it, because nothing was done under it; C{end}.
    @ivar holder: who asks: the node and its life, because a node that was restarted does not know
        what it held.
    @ivar is_duty: whether it is held and renewed, without a plan and a receipt.
    @ivar plan: packed; C{None} if the question does not include it.
    @ivar at: time of day when it began, or ended.
    @ivar came: the event for which it is begun, C{node#life/number}, by the node that received it;
        C{""} if it is not an event of a minion.
    @ivar came_ago: how many seconds ago the event arrived.
    """

    act: str
    key: str
    term: int
    holder: str = ""
    is_duty: bool = False
    plan: bytes | None = None
    what: str = ""
    event: str = ""
    at: float = 0.0
    result: str = ""
    came: str = ""
    came_ago: float = 0.0


@frozen(kw_only=True)
class Reply:
    """
    The answer to a question.

    @ivar said: C{granted}; C{held} by somebody for some time; C{done}; too C{low} a term; C{no}.
    @ivar term: the highest known term of the key, or of any.
    @ivar age: seconds since it was begun.
    @ivar plan: the recorded plan of a holder that died, if there is one.
    @ivar accepted: the term in which that was recorded.
    @ivar is_first: whether that holder had not yet heard of all earlier plans.
    @ivar is_old: whether its age is at least that: it is of an earlier life of the voter.
    @ivar recent: other identical events (L{saltwisted.domain.claims.copies}).
    @ivar why: for display.
    @ivar came: the event for which it was begun, as in a question.
    @ivar came_ago: how many seconds ago the event had arrived at its node, at least.
    """

    said: str
    term: int = 0
    holder: str = ""
    age: float = 0.0
    result: str = ""
    plan: bytes | None = None
    accepted: int = 0
    is_first: bool = True
    is_old: bool = False
    recent: tuple[Instance, ...] = ()
    why: str = ""
    came: str = ""
    came_ago: float = 0.0


def encode_questions(
    electorate: Electorate | None,
    holder: str,
    asked: Sequence[Question],
    highest: int | None = None,
) -> bytes:
    """
    A message.

    @param highest: the highest term that the asker has ever granted.
    """
    rows = [
        [
            q.act,
            q.key,
            q.term,
            q.is_duty,
            q.plan,
            q.what,
            q.event,
            q.at,
            q.result,
            q.came,
            q.came_ago,
        ]
        for q in asked
    ]
    known = encode_electorate(electorate)
    return pack_bin({"e": known, "h": holder, "q": rows, "t": highest})


def decode_questions(body: bytes) -> tuple[Electorate | None, list[Question], int | None]:
    """
    The reverse; the last is the highest term, C{None} if it is missing.

    @raises WireError: it is invalid, or too large.
    """
    value = unpack_bin(body)
    try:
        holder, rows = value["h"], value["q"]
        if not isinstance(holder, str) or len(holder) > MAX_KEY or len(rows) > MAX_ASKED:
            raise WireError("claims-questions")
        questions = [_question(holder, row) for row in rows]
        return decode_electorate(value["e"]), questions, _highest(value)
    except (LookupError, TypeError, ValueError) as error:
        raise WireError("claims-questions") from error


def _highest(value: Any) -> int | None:
    highest = value.get("t")
    if highest is not None and (type(highest) is not int or not 0 <= highest < MOST_TERM):
        raise WireError("claims-term")
    return highest


def _question(holder: str, row: Any) -> Question:
    act, key, term, is_duty, plan, what, event, at, result = row[:9]
    # A node of an older release does not say it
    came, came_ago = row[9:11] or ("", 0.0)
    texts = (act, key, what, event, result, came)
    if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        raise WireError("claims-text")
    if type(term) is not int or not 0 <= term < MOST_TERM or not 0 < len(key) <= MAX_KEY:
        raise WireError("claims-term")
    if plan is not None and (not isinstance(plan, bytes) or len(plan) > MAX_PLAN):
        raise WireError("claims-plan")
    return Question(
        act=act,
        key=key,
        term=term,
        holder=holder,
        is_duty=bool(is_duty),
        plan=plan,
        what=what,
        event=event,
        at=float(at),
        result=result,
        came=came,
        came_ago=float(came_ago),
    )


def encode_replies(
    electorate: Electorate | None,
    key: str,
    replies: Sequence[Reply],
    abstains: bool = False,
    highest: int | None = None,
) -> bytes:
    """
    An answer.

    @param key: of who answers.
    @param abstains: whether its votes, if it has one, count for nothing yet.
    @param highest: the highest term that it has ever granted.
    """
    rows = [
        [
            r.said,
            r.term,
            r.holder,
            r.age,
            r.result,
            r.plan,
            r.accepted,
            r.is_first,
            r.is_old,
            [[i.number, i.node, i.age] for i in r.recent],
            r.why,
            r.came,
            r.came_ago,
        ]
        for r in replies
    ]
    known = encode_electorate(electorate)
    return pack_bin({"e": known, "k": key, "a": rows, "n": abstains, "t": highest})


def decode_replies(body: bytes) -> tuple[Electorate | None, list[Reply], bool, int | None]:
    """
    The reverse; the last two are whether the answering member abstains, and its highest term,
    C{None} if it is missing.

    @raises WireError: it is invalid.
    """
    value = unpack_bin(body)
    try:
        replies = [_reply(row) for row in value["a"]]
        known = decode_electorate(value["e"])
        return known, replies, bool(value.get("n")), _highest(value)
    except (LookupError, TypeError, ValueError) as error:
        raise WireError("claims-replies") from error


def _reply(row: Any) -> Reply:
    said, term, holder, age, result, plan, accepted, is_first, is_old, recent, why = row[:11]
    came, came_ago = row[11:13] or ("", 0.0)
    if type(term) is not int or type(accepted) is not int:
        raise WireError("claims-term")
    if plan is not None and not isinstance(plan, bytes):
        raise WireError("claims-plan")
    return Reply(
        said=str(said),
        term=term,
        holder=str(holder),
        age=float(age),
        result=str(result),
        plan=plan,
        accepted=accepted,
        is_first=bool(is_first),
        is_old=bool(is_old),
        recent=tuple(Instance(int(n), str(node), float(old)) for n, node, old in recent),
        why=str(why),
        came=str(came),
        came_ago=float(came_ago),
    )
