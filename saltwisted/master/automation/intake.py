"""
From the bus to the reactor's queue: which events trigger reactions, when, and how many may wait.

Only events of this node count here; claims deal with copies of a minion's event at several nodes.

Each minion has a fair share of the queue (L{saltwisted.domain.sharing}). While there is room, one
may fill all of it; where there is none, a minion that brings more than the others loses its own
newest event, and never another's. Minions are served by turns, so one event does not wait for the
thousands that somebody else has fired before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, evolve, field

from saltwisted.domain.events import rough_weight
from saltwisted.domain.reactions.chains import Chains, Link
from saltwisted.domain.reactions.entries import Entry
from saltwisted.domain.reactions.keeping import Kept, Owed, part_of
from saltwisted.domain.reactions.pacing import DROP, WAIT, Pacing, kind_of
from saltwisted.domain.sharing import ByTurns, Shares
from saltwisted.master.asked import named
from saltwisted.master.automation.pause import Pause
from saltwisted.master.automation.reactions import Reactions
from saltwisted.master.automation.telling import OWN, RUN, Telling, Waiting
from saltwisted.master.ground import Ground
from saltwisted.transports.bus import Fired
from saltwisted.transports.turns import in_turns

MANAGE = "salt/reactors/manage/"
"""By these stock's runner talks to its reactor."""
_OF_A_MINION = ("salt/job/", "salt/auth")
"""Tags of events that a master fires for what one minion has sent, and perhaps sends to others."""
STRANGERS = "*"
"""Who has no accepted key: all of them have one share together. No minion has this name."""


_Kind = tuple[int, tuple[str, ...]]


@define(eq=False)
class Line:
    """Events of an entry with C{batch}: how many run, and which ones wait for them."""

    running: int = 0
    waiting: ByTurns[Waiting] = field(factory=ByTurns)


@define(eq=False)
class _Held:
    """Events that wait until the entries are read."""

    events: ByTurns[Fired] = field(factory=ByTurns)
    shares: Shares = field(factory=Shares)


class Intake:
    """
    Reactor thread only.

    @param ready: called when something was put into the queue.
    @param reread: called when the file of entries has changed; L{resume} follows.
    @ivar queue: events that wait for their reactions, in order.
    @ivar boot: distinguishes this life of this node from all others.
    """

    def __init__(
        self,
        ground: Ground,
        reactions: Reactions,
        pause: Pause,
        telling: Telling,
        ready: Callable[[], None],
        reread: Callable[[], None],
    ) -> None:
        self._ground = ground
        self._kept = ground.seams.kept
        self._clock = ground.clock
        self._reactions = reactions
        self._pause = pause
        self._telling = telling
        self._ready = ready
        self._reread = reread
        self._pacing = Pacing()
        self._lines: dict[int, Line] = {}
        self._quiet: dict[_Kind, tuple[Any, Waiting]] = {}
        # The keys of the above, by owner
        self._quiet_of: dict[str, dict[_Kind, None]] = {}
        # Of all that waits, in whichever of these
        self._shares = Shares()
        self._held: _Held | None = None
        self._again = False
        self._stop: Callable[[], None] = lambda: None
        self.chains = Chains()
        self.queue: ByTurns[Waiting] = ByTurns()
        self.boot = ""

    def start(self) -> None:
        """Listen."""
        self.boot = f"{self._ground.node}/{self._ground.now():.6f}"
        self._stop = self._ground.bus.subscribe_events("", self._heard)

    def stop(self) -> None:
        """Stop listening, and drop waiting events."""
        self._stop()
        for call, _ in self._quiet.values():
            call.cancel()
        self._quiet.clear()
        self._quiet_of.clear()
        self._lines.clear()
        self.queue.clear()
        self._shares.clear()

    @property
    def depth(self) -> int:
        """How many events wait, in the queue or for their turn in it."""
        return self._shares.total

    @property
    def oldest(self) -> float:
        """When the first in the queue came; now, if there is none."""
        firsts = (waiting.since for waiting in self.queue.first())
        return min(firsts, default=float(self._clock.seconds()))

    def take(self) -> Waiting:
        """The next one of the queue, which waits no more."""
        owner, waiting = self.queue.take()
        self._shares.give(owner)
        return waiting

    @property
    def hwm(self) -> int:
        """How many may wait."""
        return max(int(self._ground.config.reactor_worker_hwm), 1)

    # -- which events ------------------------------------------------------------------------

    def _heard(self, event: Fired) -> None:
        tag = event.tag
        cause = event.cause
        if cause is not None and tag.startswith("salt/job/") and tag.endswith("/new"):
            # What its returns cause is of the same chain
            self.chains.learn(tag.split("/")[2], cause)
        if event.origin:
            if tag == RUN:
                self._learn(event.data)
            return
        if tag == RUN or tag.startswith(MANAGE):
            return
        if self._reactions.has_changed():
            self.hold()
        if self._held is None:
            self._match(event)
        else:
            self._hold_back(self._held, event)

    def _hold_back(self, held: _Held, event: Fired) -> None:
        """The entries are being read; what it is about is not known before that."""
        owner = _owner(event.tag, event.data, event.sender)
        if held.shares.total >= self.hwm:
            largest = held.shares.largest
            if event.tag.startswith(OWN) or held.shares.of(owner) >= held.shares.of(largest):
                self._lose_held(event, owner)
                return
            held.shares.give(largest)
            loses = held.events.drop(largest)
            if loses is not None:
                self._lose_held(loses, largest)
        held.shares.take(owner)
        held.events.put(owner, event)

    def _lose_held(self, event: Fired, owner: str) -> None:
        self._lose_full(event.tag, self._link(event), owner)
        self._settle(event.owed)

    def take_up(self, kept: Kept, data: Mapping[str, Any], age: float) -> None:
        """An event of another life of a node, that nobody has reacted to."""
        owed = Owed(parts={kept.part: kept}, is_found=True, age=age)
        event = Fired(self._ground.bus.last, kept.tag, data, "", kept.minion, None, owed)
        if self._held is None:
            self._match(event)
        else:
            self._held.shares.take(kept.minion)
            self._held.events.put(kept.minion, event)

    def _settle(self, owed: Owed | None) -> None:
        """Nobody reacts to it."""
        for kept in owed.parts.values() if owed is not None else ():
            self._kept.done(kept)

    def hold(self) -> None:
        """Have the entries read again; events that come meanwhile wait for them."""
        if self._held is None:
            self._held = _Held()
            self._reread()
        else:
            self._again = True

    async def resume(self) -> None:
        """The entries are read, unless the file has changed since: then it is read once more."""
        if self._changed_meanwhile():
            self._reread()
            return
        while self._held is not None and self._held.events:
            # Others come meanwhile, and wait behind these
            some, self._held = self._held.events, _Held()
            async for _ in in_turns(self._clock, range(len(some))):
                self._match(some.take()[1])
        self._held = None
        if self._changed_meanwhile():
            self.hold()

    def _changed_meanwhile(self) -> bool:
        again, self._again = self._again, False
        return again

    def _learn(self, data: Mapping[str, Any]) -> None:
        """Another node has begun a reaction: its chain goes on here."""
        jid, trace, generation = (data.get(name) for name in ("jid", "trace", "generation"))
        if isinstance(jid, str) and isinstance(trace, str) and isinstance(generation, int):
            self.chains.learn(jid, Link(trace, generation, jid))

    def _link(self, event: Fired) -> Link:
        if isinstance(event.cause, Link):
            return event.cause
        data = event.data
        if event.tag.startswith(OWN) and isinstance(data.get("generation"), int):
            # Only masters fire these
            return Link(str(data.get("trace", "")), data["generation"] + 1)
        found = self.chains.link(event.tag, data)
        return found or Link(trace=f"{self.boot}/{event.number}")

    def _match(self, event: Fired) -> None:
        if event.owed is None:
            self._sort(event, {})
            return
        left = dict(event.owed.parts)
        try:
            self._sort(event, left)
        finally:
            for kept in left.values():
                self._kept.done(kept)

    def _sort(self, event: Fired, left: dict[int, Kept]) -> None:
        """
        Have each entry that matches react, now or later.

        @param left: what is written down for each part; what goes on is taken out.
        """
        entries = self._reactions.matching(event.tag)
        if event.owed is not None and event.owed.is_found:
            entries = [entry for entry in entries if part_of(entry) in left]
            if not entries:
                why = "it was taken up after a node died, and no entry matches it here"
                self._telling.lose(event.tag, why, self._link(event), "died")
        if not entries:
            return
        if self._pause.paused:
            self._telling.figures["paused"] += 1
            return
        link = self._link(event)
        now, owed = float(self._clock.seconds()), event.owed
        age, since = (owed.age, owed.since(now)) if owed is not None else (0.0, 0.0)
        if not self._may(event, link, since):
            return
        data, of = event.data, event.sender
        if not of and event.tag.startswith(_OF_A_MINION) and isinstance(data.get("id"), str):
            of = data["id"]
        waiting = Waiting(
            tag=event.tag,
            data=data,
            sender=event.sender,
            of=of,
            link=link,
            number=event.number,
            age=age,
            came=now - since,
            owner=_owner(event.tag, data, event.sender),
            # Copies of a minion's event are planned for alike, wherever they come
            asked="" if of else named(event.asked),
        )
        together: list[Entry] = []
        for entry in entries:
            word = self._pacing.judge(entry, event.tag, data, self._clock.seconds())
            if word == DROP:
                self._telling.figures["throttled"] += 1
            elif word == WAIT or entry.batch:
                kept = left.pop(entry.number, None)
                own = evolve(waiting, entries=(entry,), part=entry.number, kept=kept)
                (self._wait if word == WAIT else self._line_up)(entry, own)
            else:
                together.append(entry)
        if together:
            self._put(evolve(waiting, entries=tuple(together), kept=left.pop(0, None)))

    def _may(self, event: Fired, link: Link, since: float) -> bool:
        """
        Whether a chain is not too long, and an event not too large, nor too old already.

        @param since: for how many seconds it has been there.
        """
        config = self._ground.config
        window = float(config.publish_window)
        if since > window:
            why = f"it waited for {since:.0f} s; publish_window is {window:.0f}"
            self._telling.lose(event.tag, why, link, "old")
            return False
        limit = int(config.reactor_chain_limit)
        if link.generation > limit:
            why = f"it stands behind {link.generation} reactions; reactor_chain_limit is {limit}"
            self._telling.lose(event.tag, why, link, "chain")
            return False
        size, most = rough_weight(event.data), int(config.max_event_size)
        if size > most:
            why = f"the event has about {size} bytes; max_event_size is {most}"
            self._telling.lose(event.tag, why, link, "size")
            return False
        return True

    # -- when --------------------------------------------------------------------------------

    def _wait(self, entry: Entry, waiting: Waiting) -> None:
        """Until no other event of its kind has come for so long."""
        assert entry.debounce is not None
        key = (entry.number, kind_of(entry.debounce, waiting.tag, waiting.data))
        if key in self._quiet:
            self._telling.figures["debounced"] += 1
            call, before = self._unquiet(key)
            if before.kept is not None:
                self._kept.done(before.kept)
            call.reset(entry.debounce.seconds)
            self._be_quiet(key, call, waiting)
            return
        if self._is_full(waiting):
            return

        def quiet() -> None:
            _, last = self._unquiet(key)
            if entry.batch:
                self._line_up(entry, last)
            else:
                self._put(last)

        call = self._clock.callLater(entry.debounce.seconds, quiet)
        self._be_quiet(key, call, waiting)

    def _be_quiet(self, key: _Kind, call: Any, waiting: Waiting) -> None:
        self._quiet[key] = (call, waiting)
        self._quiet_of.setdefault(waiting.owner, {})[key] = None
        self._shares.take(waiting.owner)

    def _unquiet(self, key: _Kind) -> tuple[Any, Waiting]:
        call, waiting = self._quiet.pop(key)
        same = self._quiet_of[waiting.owner]
        del same[key]
        if not same:
            del self._quiet_of[waiting.owner]
        self._shares.give(waiting.owner)
        return call, waiting

    def _line_up(self, entry: Entry, waiting: Waiting) -> None:
        line = self._lines.setdefault(entry.number, Line())
        if line.running < entry.batch:
            line.running += 1
            self._put(waiting)
        elif not self._is_full(waiting):
            self._shares.take(waiting.owner)
            line.waiting.put(waiting.owner, waiting)

    def ended(self, waiting: Waiting) -> None:
        """All that an event has set off has ended: the next of its line may go."""
        line = self._lines.get(waiting.part) if waiting.has_line else None
        if line is None:
            return
        line.running -= 1
        if line.waiting:
            line.running += 1
            owner, next_one = line.waiting.take()
            self._shares.give(owner)
            self._put(next_one)

    # -- how many ----------------------------------------------------------------------------

    def _put(self, waiting: Waiting) -> None:
        if self._is_full(waiting):
            self.ended(waiting)
            return
        self._shares.take(waiting.owner)
        self.queue.put(waiting.owner, evolve(waiting, since=self._clock.seconds()))
        self._ready()

    def _is_full(self, waiting: Waiting) -> bool:
        """
        Whether there is no room for it. Who has most of what waits makes room for all others: its
        newest event is lost.
        """
        if self.depth < self.hwm:
            return False
        largest = self._shares.largest
        # That something is lost makes nobody lose more
        is_own = waiting.tag.startswith(OWN)
        if is_own or self._shares.of(waiting.owner) >= self._shares.of(largest):
            self._lose(waiting)
            return True
        self._push_out(largest)
        return False

    def _push_out(self, owner: str) -> None:
        """Lose its newest event, of those that wait for the longest still to come."""
        if owner in self._quiet_of:
            call, loses = self._unquiet(next(reversed(self._quiet_of[owner])))
            call.cancel()
            self._lose(loses)
            return
        for line in self._lines.values():
            found = line.waiting.drop(owner)
            if found is not None:
                self._shares.give(owner)
                self._lose(found)
                return
        found = self.queue.drop(owner)
        if found is not None:
            self._shares.give(owner)
            self._lose(found)
            self.ended(found)

    def _lose(self, waiting: Waiting) -> None:
        self._lose_full(waiting.tag, waiting.link, waiting.owner)
        if waiting.kept is not None:
            self._kept.done(waiting.kept)

    def _lose_full(self, tag: str, link: Link, owner: str) -> None:
        why = f"{self.hwm} events wait already; see reactor_worker_hwm"
        self._telling.lose(tag, why, link, "hwm", owner)


def _owner(tag: str, data: Mapping[str, Any], sender: str) -> str:
    """
    Whose share an event takes: a minion's, that of all L{STRANGERS}, or C{""}, which is that of all
    that people and masters fire themselves.
    """
    if sender:
        return sender
    if not tag.startswith(_OF_A_MINION):
        return ""
    if tag.startswith("salt/auth") and data.get("act") != "accept":
        return STRANGERS
    minion = data.get("id")
    return minion if isinstance(minion, str) else ""
