"""
What the reactor reports about its work: figures, log lines and events.

C{saltwisted/reaction/run} reports each reaction that begins, C{.../failed} each that failed,
C{.../lost} each event without a reaction although an entry matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from twisted.logger import Logger

from saltwisted.domain.reactions.chains import Link
from saltwisted.domain.reactions.entries import Entry
from saltwisted.domain.reactions.keeping import Kept
from saltwisted.transports.bus import EventBus

OWN = "saltwisted/reaction/"
RUN, FAILED, LOST = f"{OWN}run", f"{OWN}failed", f"{OWN}lost"
SHOWN = 200
OF_CLAIMS = ("claim", "died")
"""Why nobody reacts, if that is for want of a claim or since a claim's holder died."""
NOWHERE = Link("")


@frozen(kw_only=True, eq=False)
class Waiting:
    """
    An event that waits for its reaction.

    @ivar sender: the minion whose key sent it, or C{""}.
    @ivar of: the minion to which the event belongs, whoever fired it: copies of it may be at other
        nodes.
    @ivar owner: whose share of the queue it takes.
    @ivar entries: those whose SLS files react now.
    @ivar part: the number of the entry that it is for, if that entry is handled separately; else 0.
    @ivar since: when it was put into the queue, by the reactor's clock.
    @ivar kept: the record of it until it is claimed, or C{None}.
    @ivar age: how many seconds old it was when it was taken over from another life of a node.
    @ivar came: when it arrived at a node, by this node's clock.
    @ivar asked: who fired it, through which interface and from where, if that is known and a
        person.
    """

    tag: str
    data: Mapping[str, Any] = field(repr=False)
    sender: str = ""
    of: str = ""
    owner: str = ""
    entries: tuple[Entry, ...] = ()
    link: Link = field(default=NOWHERE)
    number: int = 0
    part: int = 0
    since: float = 0.0
    kept: Kept | None = None
    age: float = 0.0
    came: float = 0.0
    asked: str = ""

    @property
    def has_line(self) -> bool:
        """Whether its entry has C{batch}: the next goes when this has ended."""
        return bool(self.part and self.entries[0].batch)


class Telling:
    """
    Reactor thread only.

    @ivar figures: counts of what happened.
    """

    log = Logger()

    def __init__(self, clock: Any, bus: EventBus, counters: Counter[str]) -> None:
        self._clock, self._counters = clock, counters
        self._bus = bus
        self._said: dict[str, Counter[str]] = {}
        self._call: Any = None
        self.figures: Counter[str] = Counter()

    def stop(self) -> None:
        """Say nothing more by the clock."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def run(self, waiting: Waiting, step: Mapping[str, Any]) -> None:
        """A reaction begins."""
        link = waiting.link
        self._bus.fire(
            RUN,
            {
                "tag": waiting.tag,
                "sls": step["sls"],
                "reaction": step["id"],
                "fun": f"{step['kind']}.{step['fun']}",
                "jid": step.get("jid", ""),
                "trace": link.trace,
                "generation": link.generation + 1,
                "cause": link.cause,
            },
        )

    def fail(self, waiting: Waiting, sls: str, why: str, id_: str = "", fun: str = "") -> None:
        """A reaction went wrong, or an SLS, if no id is known."""
        self.figures["failed"] += 1
        where = f"{id_} ({fun}) of " if id_ else ""
        self.log.error(
            "reaction {where}{sls} to event {tag} failed: {why}",
            where=where,
            sls=sls,
            tag=waiting.tag[:SHOWN],
            why=why,
        )
        self._bus.fire(
            FAILED,
            {
                "tag": waiting.tag,
                "sls": sls,
                "reaction": id_,
                "fun": fun,
                "error": why,
                "trace": waiting.link.trace,
                "generation": waiting.link.generation,
            },
        )

    def lose(self, tag: str, why: str, link: Link, word: str, owner: str = "") -> None:
        """
        Nobody reacts to an event. The log says the first of a kind at once, and then their number
        once a second, and whose most of them are.

        @param word: the kind of cause, for the figures.
        @param owner: the minion whose event it is, if it is one's.
        """
        self.figures[f"lost:{word}"] += 1
        if word in OF_CLAIMS:
            self._counters["claims_lost"] += 1
        if self._call is None:
            self._call = self._clock.callLater(1, self._count)
        said = self._said.setdefault(word, Counter())
        if not said:
            of = f" of {owner}" if owner else ""
            self.log.error("no reaction to event {tag}{of}: {why}", tag=tag[:SHOWN], of=of, why=why)
        said[owner] += 1
        if tag.startswith(OWN):
            return
        self._bus.fire(
            LOST,
            {
                "tag": tag,
                "error": why,
                "why": word,
                "trace": link.trace,
                "generation": link.generation,
            },
        )

    def _count(self) -> None:
        self._call = None
        for word, said in self._said.items():
            count = said.total()
            if count > 1:
                owner, own = said.most_common(1)[0]
                most = f"; {own} of them are of {owner}" if owner else ""
                self.log.error(
                    "no reactions to {count} events within a second ({word}){most}",
                    count=count,
                    word=word,
                    most=most,
                )
        self._said.clear()
