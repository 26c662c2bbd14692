"""
The seams of what masters do by themselves, and once: claims, and events that a reaction is owed to.

See L{saltwisted.interfaces}, whose rules hold here too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol


class IEventKeys(Protocol):
    """The keys of minions' events, so that they are known before the events are claimed."""

    def of(self, minion: str, tag: str, data: Mapping[str, Any]) -> str | None:
        """The key of an event that comes to this node now; C{None}: it came here before."""

    def back(self, key: str) -> None:
        """That event was refused: the minion sends it again."""

    def given(self, key: str) -> None:
        """An earlier life of this node gave this key; the event is taken up now."""


class IClaims(Protocol):
    """
    What is to be done once, by one of the masters that stand together. Reactor thread only.

    Short acts (a reaction) begin with a claim that holds what will be done, and end with a
    result. Duties (an entry of a schedule) are held for terms that are renewed. A key is a text
    whose part before the first C{/} says of which kind it is, as in C{reaction/...}; that of a
    minion's event is made by L{begin_event}, or by C{keys} before.
    """

    @property
    def keys(self) -> IEventKeys:
        """Of minions' events."""

    def begin(
        self, key: str, plan: Mapping[str, Any], what: str = "", event: str = ""
    ) -> Awaitable[Any]:
        """
        Claim a short act; fires with a L{saltwisted.domain.claims.words.Claim} when a majority has
        the plan on disk, so that it may begin now, or with a C{Taken} or a C{NoMajority}; never
        fails. A key is given once: it is taken for whoever asks again, this node too.

        @param plan: plain data of at most 1 MiB: all that somebody needs who finishes it when
            this node has died.
        @param what: what it is, for people who read the receipts.
        @param event: the tag of the event that it is done for.
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
        event that came to another node (L{saltwisted.domain.claims.copies}). To be called once for
        each event that came, at once, in their order.

        @param came: a L{saltwisted.domain.claims.words.Came}, if C{keys} were asked when it came.
        """

    def holds(self, claim: Any) -> bool:
        """
        Whether a claim may still be acted on. Ask in the same turn, just before each effect: this
        process may have stood still for longer than the term.
        """

    def end(self, claim: Any, result: str) -> Awaitable[None]:
        """A short act is done: C{result} in a few words (C{done}, C{failed: ...}, C{lost})."""

    def on_recover(self, kind: str, recover: Callable[[str, Mapping[str, Any], Any], Any]) -> None:
        """
        Call C{recover(key, plan, claim)} with each unfinished claim of this kind whose holder died,
        when this node has got it. C{plan} is the dead holder's, C{claim} this node's own
        of a higher term. It did begin, as far as anybody knows. C{recover} acts or
        does not, and calls L{end}; a coroutine is awaited. Those of events are of kind C{event}.
        """

    def duty(
        self, name: str, begin: Callable[[Any], Any], end: Callable[[str], Awaitable[None] | None]
    ) -> None:
        """
        This node would do a duty. C{begin(claim)} is called when it has it for a term, maybe
        before this returns; C{claim.term} stays the same while the term is renewed. C{end(why)} is
        called when it is lost, released or in doubt, early enough that
        what is ended within a second has ended before another node may begin. It ends all that was
        begun, process groups included; the duty is begun again after that at the earliest.
        """

    def release(self, name: str) -> Awaitable[None]:
        """This node does not do a duty any more; fires when it has ended and others may have it."""

    def would_claim(self) -> bool:
        """Whether this node would get a claim now: it may, and can ask a majority."""

    def set_leader(self, may: bool) -> None:
        """Whether this node may claim anything; if not, its duties end. Not kept over a restart."""

    def problem(self) -> str:
        """Why nothing that needs a claim is done, for people; C{""} if all is well."""

    def on_problem(self, receiver: Callable[[str], None]) -> None:
        """Call C{receiver(problem)} whenever L{problem} has changed."""

    def holders(self) -> Mapping[str, tuple[str, int]]:
        """Who has which duty, as far as is known here: name to node and term."""

    def receipts(self, event: str = "", limit: int = 1000) -> Awaitable[Sequence[Any]]:
        """
        The L{saltwisted.domain.claims.words.Receipt}s, newest last.

        @param event: a glob that the event's tag has to match.
        """


class IKeptEvents(Protocol):
    """Events that some reaction matches, on disk until it is claimed. Reactor thread only."""

    @property
    def problem(self) -> str:
        """Why the disk does not take events, or C{""}."""

    def startService(self) -> Any:
        """Begin to read what is owed."""

    def stopService(self) -> Any:
        """Acknowledge nothing more."""

    def keep(
        self, events: Sequence[tuple[str, str, Mapping[str, Any], Mapping[int, str]]]
    ) -> Awaitable[Sequence[Any]]:
        """
        Write events down: minion, tag, data, and part to key. Fires when they are on this disk,
        with a L{saltwisted.domain.reactions.keeping.Owed} for each.

        @raises StoreError: through the Deferred, when the disk refuses or too many are owed.
        """

    def copied(self, owed: Sequence[Any]) -> Any:
        """When what one L{keep} wrote may be acknowledged: a Deferred, or C{None}: at once."""

    def done(self, kept: Any) -> None:
        """Nothing is owed for it any more: it has ended, or was said as lost."""

    def on_found(self, receiver: Callable[[Any, float], None]) -> None:
        """
        Call C{receiver(kept, age)} with what was left by a life of a node that is over. C{age} is
        by the time of day, which may have been set, if it came before this life.
        """
