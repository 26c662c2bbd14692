"""
The interfaces for automatic work that must be done only once: claims, and events to which a
reaction is owed.

The rules of L{saltwisted.interfaces} apply here too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol


class IEventKeys(Protocol):
    """The keys of minions' events, which are known before the events are claimed."""

    def of(self, minion: str, tag: str, data: Mapping[str, Any]) -> str | None:
        """The key of an event that arrives at this node now; C{None}: it arrived here before."""

    def back(self, key: str) -> None:
        """The event was refused: the minion sends it again."""

    def given(self, key: str) -> None:
        """An earlier life of this node assigned this key; the event is taken over now."""


class IClaims(Protocol):
    """
    Work that only one of the masters of a cluster may do. Reactor thread only.

    Short acts (a reaction) begin with a claim that contains what will be done, and end with a
    result. Duties (an entry of a schedule) are held for terms that are renewed. A key is a text
    whose part before the first C{/} is its kind, as in C{reaction/...}. L{begin_event} makes the
    key of a minion's event, or C{keys} does so earlier.
    """

    @property
    def keys(self) -> IEventKeys:
        """The keys of minions' events."""

    def begin(
        self, key: str, plan: Mapping[str, Any], what: str = "", event: str = ""
    ) -> Awaitable[Any]:
        """
        Claim a short act. Fires with a L{saltwisted.domain.claims.words.Claim} when a majority has
        the plan on disk, so that it may begin now, or with a C{Taken} or a C{NoMajority}; never
        fails. A key is granted once: for later requests, even of this node, it is taken.

        @param plan: plain data of at most 1 MiB: everything that another node needs to finish it
            when this node has died.
        @param what: a description, for people who read the receipts.
        @param event: the tag of the event for which it is done.
        """

    def begin_event(
        self,
        minion: str,
        tag: str,
        data: Mapping[str, Any],
        plan: Mapping[str, Any],
        what: str = "",
        came: Any = None,
    ) -> Awaitable[Any]:
        """
        As L{begin}, for an event that a minion sent to this node. It is C{Taken} for the copy of an
        event that came to another node (L{saltwisted.domain.claims.copies}). Call it once for each
        event, at once, in the order of their arrival.

        @param came: a L{saltwisted.domain.claims.words.Came}, if C{keys} was used when it arrived.
        """

    def holds(self, claim: Any) -> bool:
        """
        Whether a claim may still be acted on. Check in the same turn, just before each effect: this
        process may have stood still for longer than the term.
        """

    def end(self, claim: Any, result: str) -> Awaitable[None]:
        """A short act is done: C{result} in a few words (C{done}, C{failed: ...}, C{lost})."""

    def on_recover(self, kind: str, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        """
        Call C{recover(key, plan, claim)} with each unfinished claim of this kind whose holder died,
        when this node has got it. C{plan} is the dead holder's, C{claim} this node's own of a
        higher term. The act did begin, as far as anybody knows. C{recover} acts or does not, and
        calls L{end}; a coroutine is awaited. Claims of events are of kind C{event}.
        """

    def duty(
        self, name: str, begin: Callable[[Any], Any], end: Callable[[str], Awaitable[None] | None]
    ) -> None:
        """
        This node would do a duty. C{begin(claim)} is called when it has the duty for a term,
        possibly before this returns; C{claim.term} stays the same while the term is renewed.
        C{end(why)} is called when the duty is lost, released or in doubt, early enough that work
        that ends within a second has ended before another node may begin. It ends everything that
        was begun, including process groups; the duty is begun again only after that.
        """

    def release(self, name: str) -> Awaitable[None]:
        """This node no longer does a duty; fires when the work has ended and others may have it."""

    def would_claim(self) -> bool:
        """Whether this node would get a claim now: it may, and can reach a majority."""

    def set_leader(self, may: bool) -> None:
        """Whether this node may claim anything; if not, its duties end. Not kept over a restart."""

    def problem(self) -> str:
        """Why work that needs a claim is not done, for display; C{""} if there is no problem."""

    def on_problem(self, receiver: Callable[[str], None]) -> None:
        """Call C{receiver(problem)} whenever L{problem} has changed."""

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """Who has which duty, as far as this node knows: name to node and term."""

    def receipts(self, event: str = "", limit: int = 1000) -> Awaitable[Sequence[Any]]:
        """
        The L{saltwisted.domain.claims.words.Receipt}s, newest last.

        @param event: a glob that the event's tag has to match.
        """


class IKeptEvents(Protocol):
    """Events that match a reaction, on disk until it is claimed. Reactor thread only."""

    @property
    def problem(self) -> str:
        """Why the disk does not accept events, or C{""}."""

    def startService(self) -> Any:
        """Begin to read which events are owed."""

    def stopService(self) -> Any:
        """Acknowledge nothing more."""

    def keep(
        self, events: Sequence[tuple[str, str, Mapping[str, Any], Mapping[int, str]]]
    ) -> Awaitable[Sequence[Any]]:
        """
        Record events: minion, tag, data, and part to key. Fires when they are on this disk, with a
        L{saltwisted.domain.reactions.keeping.Owed} for each.

        @raises StoreError: through the Deferred, if the disk refuses or too many are owed.
        """

    def copied(self, owed: Sequence[Any]) -> Any:
        """When the events of one L{keep} may be acknowledged: a Deferred, or C{None}: at once."""

    def done(self, kept: Any) -> None:
        """Nothing is owed for it any more: it has ended, or was reported as lost."""

    def on_found(self, receiver: Callable[[Any, float], None]) -> None:
        """
        Call C{receiver(kept, age)} with the events that an ended life of a node has left. C{age} is
        by the time of day, which may have been set, if the event arrived before this life.
        """
