"""
The lines of a run on the disks of several nodes.

One node writes: the one that holds the claim of the run. A line counts when a majority of the run's
seats (L{saltwisted.domain.orchestration.seats}) has it on disk; in a cluster of three these are two
copies. Each L{Keeper} has a prefix of the lines, and the term of the writer that sent them. A node
that takes a run over asks until a majority of the seats in the best record has answered. They
promise to accept nothing from earlier writers any more. The node continues with the record of the
highest term (of several, the longest): it has all lines that ever counted. It sends all of it again
under its own term before it acts, so that what it adopts counts as well. That is how Raft and
viewstamped replication change their leader, for one run at a time.

What a writer sends after it stood still is refused everywhere, so nothing that it writes counts,
and nothing that does not count has an effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from saltwisted.domain.claims.electorate import PAIR, Electorate, Seat
from saltwisted.domain.orchestration.seats import enough, next_seats
from saltwisted.errors import StoreError, WireError
from saltwisted.wire.msgpack import pack_bin, unpack_bin

Term = tuple[int, int]
"""The attempt, and the number of the claim under which it is written."""
NONE: Term = (0, 0)
Rank = tuple[Term, int]
"""Of whose hand the lines are, and how many: the higher one of two has all that counted."""


@frozen(kw_only=True)
class Record:
    """
    What one disk has of one run.

    @ivar promised: nothing of an earlier term is accepted any more.
    @ivar term: the term of the node that sent the lines.
    @ivar unread: how many lines there are, if they are on the disk and not in memory.
    """

    jid: str
    promised: Term = NONE
    term: Term = NONE
    lines: tuple[bytes, ...] = ()
    unread: int = 0

    @property
    def rank(self) -> Rank:
        """The higher one of two has all that counted in the other."""
        return self.term, self.unread or len(self.lines)

    def shed(self) -> Record:
        """Without its lines."""
        count = self.unread or len(self.lines)
        return evolve(self, lines=(), unread=count)

    def whole(self, lines: Sequence[bytes]) -> Record:
        """
        With its lines, as they were read.

        @raises StoreError: these are not all.
        """
        if len(lines) != self.unread:
            raise StoreError(f"{len(lines)} of {self.unread} lines of orchestration {self.jid}")
        return evolve(self, lines=tuple(lines), unread=0)


@frozen(kw_only=True)
class Put:
    """
    Write a row of a record.

    @ivar at: how many lines before these stay; all others are deleted.
    """

    jid: str
    promised: Term
    term: Term
    at: int
    lines: tuple[bytes, ...]


@frozen(kw_only=True)
class Look:
    """
    Promise to accept nothing from earlier writers, and return what you have.

    @ivar have: the rank of the asker's record; a record that is no higher is not sent.
    """

    jid: str
    term: Term
    have: Rank = (NONE, 0)


@frozen(kw_only=True)
class Send:
    """Lines of a writer: those that follow the first C{at}."""

    jid: str
    term: Term
    at: int
    lines: tuple[bytes, ...]


@frozen(kw_only=True)
class Reply:
    """
    @ivar ok: whether it was done.
    @ivar promised: the term that refused it.
    @ivar count: how many lines there are under the term of the question, so that more can follow.
    @ivar term: the term of C{lines}.
    @ivar lines: C{None} if the asker has as much.
    """

    ok: bool
    promised: Term = NONE
    count: int = 0
    term: Term = NONE
    lines: tuple[bytes, ...] | None = None


class Keeper:
    """
    The records of one disk. Answers are sent when the writes are on disk.

    The lines of an ended run need not be in memory; before a question about them, they are read
    again (L{whole}).
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = {record.jid: record for record in records}

    def __len__(self) -> int:
        return len(self._records)

    def jids(self) -> list[str]:
        """Of all runs that something is known of."""
        return sorted(self._records)

    def record(self, jid: str) -> Record:
        """What is known of one; an empty one if nothing is."""
        return self._records.get(jid) or Record(jid=jid)

    def shed(self, jid: str) -> None:
        """The lines of a run are on disk, and are not needed."""
        record = self._records.get(jid)
        if record is not None and record.lines:
            self._records[jid] = record.shed()

    def whole(self, record: Record) -> None:
        """A run as it was read from the disk."""
        self._records[record.jid] = record

    def look(self, asked: Look) -> tuple[Reply, list[Put]]:
        """Somebody would take over."""
        record = self.record(asked.jid)
        if asked.term <= record.promised:
            return Reply(ok=False, promised=record.promised), []
        new = Record(jid=asked.jid, promised=asked.term, term=record.term, lines=record.lines)
        self._records[asked.jid] = new
        more = record.rank > asked.have
        reply = Reply(
            ok=True,
            count=len(record.lines),
            term=record.term,
            lines=record.lines if more else None,
        )
        put = Put(
            jid=asked.jid, promised=asked.term, term=record.term, at=len(record.lines), lines=()
        )
        return reply, [put]

    def take(self, sent: Send) -> tuple[Reply, list[Put]]:
        """A writer sends lines."""
        record = self.record(sent.jid)
        if sent.term < record.promised:
            return Reply(ok=False, promised=record.promised), []
        if sent.term != record.term:
            if sent.at:
                # What comes before them was of another term
                return Reply(ok=True, count=0), []
            lines = sent.lines
        else:
            if sent.at > len(record.lines):
                return Reply(ok=True, count=len(record.lines)), []
            lines = record.lines[: sent.at] + sent.lines
            if len(lines) <= len(record.lines):
                # It was late, or came twice
                return Reply(ok=True, count=len(record.lines)), []
        self._records[sent.jid] = Record(
            jid=sent.jid, promised=sent.term, term=sent.term, lines=lines
        )
        put = Put(jid=sent.jid, promised=sent.term, term=sent.term, at=sent.at, lines=sent.lines)
        return Reply(ok=True, count=len(lines)), [put]

    def learn(self, record: Record) -> list[Put]:
        """Another disk has more of a run that nobody writes here; no promise is broken by it."""
        mine = self.record(record.jid)
        if record.rank <= mine.rank or record.term < mine.promised:
            return []
        new = Record(
            jid=record.jid,
            promised=max(mine.promised, record.term),
            term=record.term,
            lines=record.lines,
        )
        self._records[record.jid] = new
        return [Put(jid=new.jid, promised=new.promised, term=new.term, at=0, lines=new.lines)]

    def forget(self, jids: Iterable[str]) -> None:
        """They are too old."""
        for jid in jids:
            self._records.pop(jid, None)


@define
class Writer:
    """
    The node that writes a run.

    @ivar seats: the latest that the lines name.
    @ivar named: how many lines there are up to those that name them.
    @ivar lines: all of them.
    @ivar kept: key to how many of them that member has on disk under this term.
    @ivar deposed: whether a node with a higher term has taken over: nothing counts any more.
    """

    jid: str
    term: Term
    seats: Electorate
    lines: list[bytes] = field(factory=list)
    named: int = 0
    kept: dict[str, int] = field(factory=dict)
    deposed: bool = False
    size: int = 0

    def __attrs_post_init__(self) -> None:
        self.size = sum(map(len, self.lines))

    def add(self, line: bytes) -> int:
        """One line more; it has to count up to this number."""
        self.lines.append(line)
        self.size += len(line)
        return len(self.lines)

    def add_seats(self, line: bytes, seats: Electorate) -> None:
        """One line more, which names other seats: they hold for it, and for all that follows."""
        self.seats, self.named = seats, self.add(line)

    def to_send(self, key: str) -> Send | None:
        """What a member lacks."""
        at = self.kept.get(key, 0)
        if self.deposed or (at >= len(self.lines) and key in self.kept):
            return None
        return Send(jid=self.jid, term=self.term, at=at, lines=tuple(self.lines[at:]))

    def said(self, key: str, reply: Reply) -> None:
        """A member has answered."""
        if not reply.ok:
            self.deposed = self.deposed or reply.promised > self.term
        else:
            self.kept[key] = min(reply.count, len(self.lines))

    def counted(self, linked: Collection[str], gone: Collection[str] = (), two: str = PAIR) -> int:
        """Up to which number lines count; none if another node has taken over."""
        if self.deposed:
            return 0
        for number in sorted(set(self.kept.values()), reverse=True):
            have = {key for key, count in self.kept.items() if count >= number}
            if enough(have, self.seats, linked, gone, two):
                return number
        return 0

    def next_seats(
        self,
        members: Iterable[Seat],
        linked: Collection[str],
        gone: Collection[str] = (),
        two: str = PAIR,
    ) -> Electorate | None:
        """Whether the seats have to change now."""
        if self.deposed:
            return None
        counts = self.counted(linked, gone, two) >= self.named
        whole = {key for key, count in self.kept.items() if count >= len(self.lines)}
        return next_seats(self.seats, counts, members, whole, gone)


@define
class Takeover:
    """
    The answers to a L{Look}, until there are enough to continue.

    @ivar best: the record of the highest rank.
    @ivar said: the keys of those that have promised.
    @ivar refused: the highest promise to somebody else.
    """

    best: Record
    said: set[str] = field(factory=set)
    refused: Term = NONE

    def add(self, keys: Iterable[str], reply: Reply) -> None:
        """A member has answered, which is known by these keys."""
        if not reply.ok:
            self.refused = max(self.refused, reply.promised)
            return
        self.said.update(keys)
        if reply.lines is None:
            return
        found = Record(jid=self.best.jid, term=reply.term, lines=reply.lines)
        if found.rank > self.best.rank:
            self.best = found

    def is_enough(
        self,
        seats: Electorate,
        linked: Collection[str],
        gone: Collection[str] = (),
        two: str = PAIR,
    ) -> bool:
        """Whether all that ever counted is known, if the best record names these seats."""
        return enough(self.said, seats, linked, gone, two)


def next_term(attempt: int, claim: int, promised: Term) -> Term:
    """
    A term above all that are known. The numbers of claims grow with a key, but a master alone
    begins them again with each start.
    """
    term = (attempt, claim)
    return term if term > promised else (promised[0], promised[1] + 1)


# -- on the wire


def encode_look(look: Look) -> bytes:
    """A message."""
    (attempt, number), count = look.have
    return pack_bin([look.jid, list(look.term), [attempt, number, count]])


def decode_look(body: bytes) -> Look:
    """
    @raises WireError: it is none.
    """
    value = unpack_bin(body)
    try:
        jid, term, (attempt, number, count) = value
        return Look(jid=_text(jid), term=_term(term), have=(_term([attempt, number]), _int(count)))
    except (TypeError, ValueError) as error:
        raise WireError("orchestration-look") from error


def encode_question(jid: str, have: Rank) -> bytes:
    """Who asks for the lines of a run has some already."""
    (attempt, number), count = have
    return pack_bin([jid, attempt, number, count])


def decode_question(body: bytes) -> tuple[str, Rank]:
    """
    @raises WireError: it is none.
    """
    return decode_head(unpack_bin(body))


def decode_head(value: Any) -> tuple[str, Rank]:
    """
    A run, and which lines somebody has of it.

    @raises WireError: it is none.
    """
    try:
        jid, attempt, number, count = value
        return _text(jid), (_term([attempt, number]), _int(count))
    except (TypeError, ValueError) as error:
        raise WireError("orchestration-head") from error


def encode_send(sent: Send) -> bytes:
    """A message."""
    return pack_bin([sent.jid, list(sent.term), sent.at, list(sent.lines)])


def decode_send(body: bytes) -> Send:
    """
    @raises WireError: it is none.
    """
    value = unpack_bin(body)
    try:
        jid, term, at, lines = value
        return Send(jid=_text(jid), term=_term(term), at=_int(at), lines=_lines(lines))
    except (TypeError, ValueError) as error:
        raise WireError("orchestration-lines") from error


def encode_reply(reply: Reply) -> bytes:
    """A message."""
    lines = None if reply.lines is None else list(reply.lines)
    return pack_bin([reply.ok, list(reply.promised), reply.count, list(reply.term), lines])


def decode_reply(body: bytes) -> Reply:
    """
    @raises WireError: it is none.
    """
    value = unpack_bin(body)
    try:
        ok, promised, count, term, lines = value
        return Reply(
            ok=bool(ok),
            promised=_term(promised),
            count=_int(count),
            term=_term(term),
            lines=None if lines is None else _lines(lines),
        )
    except (TypeError, ValueError) as error:
        raise WireError("orchestration-reply") from error


def encode_record(record: Record) -> Mapping[str, Any]:
    """As plain data."""
    return {"jid": record.jid, "term": list(record.term), "lines": list(record.lines)}


def decode_record(value: Any) -> Record:
    """
    @raises WireError: it is none.
    """
    try:
        return Record(
            jid=_text(value["jid"]), term=_term(value["term"]), lines=_lines(value["lines"])
        )
    except (LookupError, TypeError, ValueError) as error:
        raise WireError("orchestration-record") from error


def _term(value: Sequence[Any]) -> Term:
    attempt, number = value
    return _int(attempt), _int(number)


def _int(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise WireError("orchestration-number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise WireError("orchestration-jid")
    return value


def _lines(value: Any) -> tuple[bytes, ...]:
    if not isinstance(value, list) or not all(isinstance(line, bytes) for line in value):
        raise WireError("orchestration-lines")
    return tuple(value)
