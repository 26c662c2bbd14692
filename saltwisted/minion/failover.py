"""
Which of several masters to use when one is enough: the pure half of fail-over.

L{step} is a table from (state, event) to (choice, effects), as in L{saltwisted.minion.rules}.
Masters are numbers here, in the order of the configuration. L{saltwisted.minion.links.Links} drives
it.

Masters are dialled one after another, without waiting for the previous one to fail: the next
follows after C{stagger} seconds or at the first failure, and each round dials as many as all
earlier rounds together. The first that proves itself serves; the others are dropped. None is given
up: the link of a dialled master keeps trying until one serves. If the serving one is in doubt,
others are dialled as well, so that they are ready if it turns out to be dead; if it answers again,
they are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any
from zlib import crc32

from attrs import evolve, frozen

from saltwisted.config.options import MinionConfig


class Place(Enum):
    """The state of the choice."""

    STOPPED = "stopped"
    SEEKING = "seeking"
    SERVED = "served"
    DOUBTING = "doubting"


@frozen(kw_only=True)
class Policy:
    """
    Times in seconds.

    @ivar stagger: how long the dialled masters have before the next are dialled.
    @ivar doubt: how long the master in use has to dispel a doubt before others are dialled: the
        time that a restart takes, so that not all minions leave because of one.
    @ivar failback: between two checks whether the first master is back; 0 for never.
    """

    stagger: float = 2.0
    doubt: float = 1.0
    failback: float = 0.0

    @classmethod
    def of(cls, config: MinionConfig) -> Policy:
        """
        As configured. An interval of 0 is Salt's C{master_alive_interval}; where that is 0
        too, stock never goes back, and we look every 30 seconds.
        """
        if not config.master_failback:
            return cls()
        every = config.master_failback_interval or config.master_alive_interval or 30.0
        return cls(failback=max(1.0, float(every)))


@frozen(kw_only=True)
class Choice:
    """
    Everything that is remembered.

    @ivar order: every master, the one to dial first in front.
    @ivar home: the master to return to, if that is wanted.
    @ivar dialled: the masters whose links are started.
    @ivar serving: the one in use.
    """

    place: Place = Place.STOPPED
    order: tuple[int, ...] = ()
    home: int | None = None
    dialled: frozenset[int] = frozenset()
    serving: int | None = None


# What happens


@frozen
class Begin:
    """A master is wanted."""


@frozen
class End:
    """No master is wanted any more."""


@frozen
class Up:
    """This master has proved itself."""

    master: int


@frozen
class Down:
    """This one was up, and no longer is; its link keeps trying by itself."""

    master: int


@frozen
class Unreached:
    """An attempt to reach this one has failed; its link keeps trying by itself."""

    master: int


@frozen
class Doubted:
    """There is a sign that this one may be gone; C{silent}: it did not answer in time."""

    master: int
    silent: bool = False


@frozen
class Trusted:
    """This one has answered."""

    master: int


@frozen
class Turn:
    """The wait that L{Ask} began is over."""


@frozen
class Look:
    """The wait that L{LookLater} began is over."""


@frozen
class Listed:
    """The list of masters has changed: these, the one to dial first in front."""

    order: tuple[int, ...]
    home: int | None = None


Event = Begin | End | Up | Down | Unreached | Doubted | Trusted | Turn | Look | Listed


# What is to be done


@frozen
class Dial:
    """Start the link of this master."""

    master: int


@frozen
class Drop:
    """Stop it."""

    master: int


@frozen
class Serve:
    """Use this one from now on."""

    master: int


@frozen
class Lose:
    """The one in use is gone."""

    master: int


@frozen
class Ask:
    """Send a L{Turn} after so many seconds; this replaces an earlier L{Ask}."""

    seconds: float


@frozen
class Hush:
    """Send no L{Turn} any more."""


@frozen
class LookLater:
    """Send a L{Look} after so many seconds; this replaces an earlier L{LookLater}."""

    seconds: float


@frozen
class LookNever:
    """Send no L{Look} any more."""


Effect = Dial | Drop | Serve | Lose | Ask | Hush | LookLater | LookNever
Outcome = tuple[Choice, tuple[Effect, ...]]


def ranked(
    config: MinionConfig, masters: Sequence[int], shuffle: Callable[[list[int]], None]
) -> Choice:
    """
    The masters in the order to dial them, by C{random_master} and C{master_type}.

    With C{distributed} the CRC32 of the id says who is first. The first of the list stays
    first when it is shuffled, if the minion is to go back to it (as in Salt), or was
    sent there by its id.

    @param masters: in the order of the configuration.
    @param shuffle: shuffles a list in place.
    """
    order = list(masters)
    distributed = config.master_type == "distributed"
    if distributed and order:
        order.insert(0, order.pop(crc32(config.id.encode()) % len(order)))
    if config.random_master or config.master_shuffle:
        fixed = 1 if config.master_failback or distributed else 0
        rest = order[fixed:]
        shuffle(rest)
        order[fixed:] = rest
    home = order[0] if config.master_failback and order else None
    return Choice(order=tuple(order), home=home)


def _more(choice: Choice, count: int, policy: Policy) -> tuple[Choice, list[Effect]]:
    """Dial so many more; the next turn comes if there is anybody left for it."""
    left = [master for master in choice.order if master not in choice.dialled]
    chosen = left[:count]
    effects: list[Effect] = [Dial(master) for master in chosen]
    effects.append(Ask(policy.stagger) if len(left) > len(chosen) else Hush())
    return evolve(choice, dialled=choice.dialled.union(chosen)), effects


def _drop(masters: Sequence[int]) -> list[Effect]:
    return [Drop(master) for master in sorted(masters)]


def _begin(choice: Choice, event: Any, policy: Policy) -> Outcome:
    after, effects = _more(evolve(choice, place=Place.SEEKING), 1, policy)
    return after, tuple(effects)


def _end(choice: Choice, event: Any, policy: Policy) -> Outcome:
    lost = () if choice.serving is None else (Lose(choice.serving),)
    effects = (*lost, *_drop(list(choice.dialled)), Hush(), LookNever())
    after = evolve(choice, place=Place.STOPPED, dialled=frozenset(), serving=None)
    return after, effects


def _serve(choice: Choice, master: int, policy: Policy) -> Outcome:
    """This one from now on: it is in use before the one before is let go."""
    others = [other for other in choice.dialled if other != master]
    away = policy.failback > 0 and choice.home not in (None, master)
    lost = () if choice.serving is None else (Lose(choice.serving),)
    effects = (
        Serve(master),
        *lost,
        *_drop(others),
        Hush(),
        LookLater(policy.failback) if away else LookNever(),
    )
    after = evolve(choice, place=Place.SERVED, dialled=frozenset((master,)), serving=master)
    return after, effects


def _up(choice: Choice, event: Up, policy: Policy) -> Outcome:
    if event.master == choice.serving:
        return choice, ()
    if event.master not in choice.dialled:
        return choice, (Drop(event.master),)
    if choice.place is not Place.SERVED or event.master == choice.home:
        return _serve(choice, event.master, policy)
    after = evolve(choice, dialled=choice.dialled - {event.master})
    return after, (Drop(event.master),)


def _down(choice: Choice, event: Down, policy: Policy) -> Outcome:
    if event.master != choice.serving:
        return choice, ()
    order = (*(other for other in choice.order if other != event.master), event.master)
    alone = evolve(choice, place=Place.SEEKING, serving=None, order=order)
    left: tuple[Effect, ...] = ()
    if event.master not in choice.order:
        dialled = choice.dialled - {event.master}
        alone, left = evolve(alone, order=choice.order, dialled=dialled), (Drop(event.master),)
    after, effects = _more(alone, 1, policy)
    return after, (Lose(event.master), *left, *effects, LookNever())


def _unreached(choice: Choice, event: Unreached, policy: Policy) -> Outcome:
    if event.master not in choice.dialled or event.master == choice.serving:
        return choice, ()
    if choice.place is Place.SERVED:
        # It was asked whether it is back, and it is not.
        after = evolve(choice, dialled=choice.dialled - {event.master})
        return after, (Drop(event.master),)
    after, effects = _more(choice, 1, policy)
    return after, tuple(effects)


def _doubted(choice: Choice, event: Doubted, policy: Policy) -> Outcome:
    if event.master != choice.serving:
        return choice, ()
    doubting = evolve(choice, place=Place.DOUBTING)
    if event.silent:
        return _turn(doubting, Turn(), policy)
    return doubting, (Ask(policy.doubt),)


def _trusted(choice: Choice, event: Trusted, policy: Policy) -> Outcome:
    if event.master != choice.serving:
        return choice, ()
    others = [other for other in choice.dialled if other != event.master]
    after = evolve(choice, place=Place.SERVED, dialled=frozenset((event.master,)))
    return after, (*_drop(others), Hush())


def _turn(choice: Choice, event: Turn, policy: Policy) -> Outcome:
    after, effects = _more(choice, max(1, len(choice.dialled - {choice.serving})), policy)
    return after, tuple(effects)


def _look(choice: Choice, event: Look, policy: Policy) -> Outcome:
    home = choice.home
    again = LookLater(policy.failback)
    if home is None or home in choice.dialled:
        return choice, (again,)
    return evolve(choice, dialled=choice.dialled | {home}), (Dial(home), again)


def _later(choice: Choice, event: Look, policy: Policy) -> Outcome:
    return choice, (LookLater(policy.failback),)


def _listed(choice: Choice, event: Listed, policy: Policy) -> Outcome:
    """
    Who is not listed any more is let go, but the one in use, which stays until it fails; where
    the list has become empty those that are tried are tried on.
    """
    if not event.order:
        return choice, ()
    gone = [m for m in choice.dialled if m not in event.order and m != choice.serving]
    after = evolve(
        choice,
        order=event.order,
        home=event.home,
        dialled=choice.dialled.difference(gone),
    )
    effects: list[Effect] = _drop(gone)
    if choice.place is Place.SEEKING:
        after, more = _more(after, 0 if after.dialled else 1, policy)
        effects += more
    return after, tuple(effects)


def _nothing(choice: Choice, event: Any, policy: Policy) -> Outcome:
    return choice, ()


def _stray(choice: Choice, event: Up, policy: Policy) -> Outcome:
    return choice, (Drop(event.master),)


TABLE: dict[tuple[Place, type], Callable[[Choice, Any, Policy], Outcome]] = {
    (Place.STOPPED, Listed): _listed,
    (Place.STOPPED, Begin): _begin,
    (Place.STOPPED, End): _nothing,
    (Place.STOPPED, Up): _stray,
    (Place.STOPPED, Down): _nothing,
    (Place.STOPPED, Unreached): _nothing,
    (Place.STOPPED, Doubted): _nothing,
    (Place.STOPPED, Trusted): _nothing,
    (Place.STOPPED, Turn): _nothing,
    (Place.STOPPED, Look): _nothing,
    (Place.SEEKING, Listed): _listed,
    (Place.SEEKING, Begin): _nothing,
    (Place.SEEKING, End): _end,
    (Place.SEEKING, Up): _up,
    (Place.SEEKING, Down): _nothing,
    (Place.SEEKING, Unreached): _unreached,
    (Place.SEEKING, Doubted): _nothing,
    (Place.SEEKING, Trusted): _nothing,
    (Place.SEEKING, Turn): _turn,
    (Place.SEEKING, Look): _nothing,
    (Place.SERVED, Listed): _listed,
    (Place.SERVED, Begin): _nothing,
    (Place.SERVED, End): _end,
    (Place.SERVED, Up): _up,
    (Place.SERVED, Down): _down,
    (Place.SERVED, Unreached): _unreached,
    (Place.SERVED, Doubted): _doubted,
    (Place.SERVED, Trusted): _nothing,
    (Place.SERVED, Turn): _nothing,
    (Place.SERVED, Look): _look,
    (Place.DOUBTING, Listed): _listed,
    (Place.DOUBTING, Begin): _nothing,
    (Place.DOUBTING, End): _end,
    (Place.DOUBTING, Up): _up,
    (Place.DOUBTING, Down): _down,
    (Place.DOUBTING, Unreached): _unreached,
    (Place.DOUBTING, Doubted): _doubted,
    (Place.DOUBTING, Trusted): _trusted,
    (Place.DOUBTING, Turn): _turn,
    (Place.DOUBTING, Look): _later,
}
"""Every transition; each event can come in each place, since links speak when they like."""


def step(choice: Choice, event: Event, policy: Policy) -> Outcome:
    """What an event means for the choice."""
    return TABLE[choice.place, event.__class__](choice, event, policy)
