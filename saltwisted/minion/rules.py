"""
When to dial a master, when to wait, and what a link is worth: the pure half of a connection.

L{step} has all rules, as a table from (state, event) to (state, effects). It knows no clock, socket
or dice; L{saltwisted.minion.connection.MasterLink} drives it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from attrs import evolve, frozen

from saltwisted.config.options import MinionConfig

HELD = 0.2
"""Seconds to the next question where the master has kept its answer."""
QUICK = 0.6
"""Seconds, at most 1.5 times that, between the first questions of a minion whose key is pending."""
QUICK_ONES = 10
GROWTH = 1.2
"""How many those are, and how the wait grows after them, up to C{acceptance_wait_time}."""


class State(Enum):
    """The state of a link."""

    IDLE = "idle"
    RESOLVING = "resolving"
    SIGNING_IN = "signing in"
    PREPARING = "preparing"
    UP = "up"
    WAITING = "waiting"


@frozen(kw_only=True)
class Rules:
    """
    Salt's options for this, in seconds, and some of our own.

    @ivar rejected_wait: how long a rejected minion waits at most between two attempts.
    @ivar first: the first wait after a failure; doubled up to C{most} if the master answers, but
        wrongly, and up to C{silence} if nobody answers: that attempt has lasted long enough by
        itself, and a master that comes back must be found within seconds.
    @ivar heartbeat: between two heartbeats to a master that answers them with its keys.
    @ivar slow_heartbeat: the same for a stock master, for which each costs milliseconds.
    @ivar suspect_timeout: for a heartbeat that is sent because the subscription's connection has
        ended: a master that is gone is not given more time.
    @ivar misses: heartbeats in a row that may fail before the link starts over.
    """

    acceptance_wait_time: float = 10
    acceptance_wait_time_max: float = 0
    rejected_retry: bool = False
    rejected_wait: float = 300
    retry_dns: float = 30
    auth_timeout: float = 5
    auth_tries: int = 7
    first: float = 1
    most: float = 30
    silence: float = 2
    heartbeat: float = 10
    slow_heartbeat: float = 60
    heartbeat_timeout: float = 5
    suspect_timeout: float = 3
    misses: int = 2

    @classmethod
    def of(cls, config: MinionConfig) -> Rules:
        """
        As configured; C{saltwisted_heartbeat} is ours. With C{master_alive_interval} the
        masters are asked that often, whatever their kind.
        """
        alive = config.master_alive_interval
        beat = config.extra.get("saltwisted_heartbeat") or (max(1.0, alive) if alive > 0 else 0)
        return cls(
            acceptance_wait_time=max(0.1, config.acceptance_wait_time),
            acceptance_wait_time_max=config.acceptance_wait_time_max,
            rejected_retry=config.rejected_retry,
            retry_dns=config.retry_dns,
            auth_timeout=max(0.1, config.auth_timeout),
            auth_tries=max(1, config.auth_tries),
            heartbeat=float(beat or 10),
            slow_heartbeat=float(beat or 60),
        )


@frozen(kw_only=True)
class Standing:
    """
    Everything that the rules remember about a link.

    @ivar reason: why it is not up, in a word or a sentence.
    @ivar failures: failed attempts in a row.
    @ivar misses: missed heartbeats in a row.
    """

    state: State = State.IDLE
    reason: str = ""
    failures: int = 0
    misses: int = 0


# What happens to a link


@frozen
class Start:
    """The daemon wants this master."""


@frozen
class Stop:
    """The daemon no longer wants this master."""


@frozen
class Resolved:
    """The name has an address."""

    address: str


@frozen
class Unresolved:
    """It has none."""

    reason: str


@frozen
class SignedIn:
    """The master let us in, and proved who it is."""


@frozen
class Denied:
    """
    The master has refused for now.

    @ivar reason: as in L{NotYet}.
    @ivar held: whether it delayed the answer for a while, as ours does for a pending key: then the
        next attempt may follow at once.
    """

    reason: str
    held: bool = False


@frozen
class Distrusted:
    """What answered is not our master."""

    reason: str


@frozen
class Failed:
    """
    There was no answer, or an invalid one; C{answered}: the master is there, but this did not help.
    """

    reason: str
    answered: bool = False


@frozen
class Prepared:
    """A request and its answer were exchanged under the session key."""


@frozen
class Heard:
    """A heartbeat was answered."""


@frozen
class Missed:
    """A heartbeat was not answered; C{lost}: the subscription's connection has ended as well."""

    lost: bool = False


@frozen
class Rested:
    """The wait is over."""


Event = (
    Start
    | Stop
    | Resolved
    | Unresolved
    | SignedIn
    | Denied
    | Distrusted
    | Failed
    | Prepared
    | Heard
    | Missed
    | Rested
)


# What is to be done about it


@frozen
class Resolve:
    """Look the name up."""


@frozen
class SignIn:
    """Open the request channel to this address and sign in."""

    address: str


@frozen
class Prepare:
    """Subscribe, and fetch the pillar."""


@frozen
class Announce:
    """Report that the link is up; start the heartbeat."""


@frozen
class Withdraw:
    """
    Report that the link is no longer up.

    @ivar is_meant: whether we ended it, because another master is in use or the minion stops.
    """

    reason: str
    is_meant: bool = False


@frozen
class Fail:
    """Report that an attempt has failed."""


@frozen
class Doubt:
    """Report that the master did not answer this time."""


@frozen
class Trust:
    """Report that it has answered."""


@frozen
class Close:
    """Close all sockets."""


@frozen
class Wait:
    """Come back after so many seconds."""

    seconds: float


@frozen
class Complain:
    """An operator must act: report it, at limited intervals."""

    reason: str


Effect = (
    Resolve
    | SignIn
    | Prepare
    | Announce
    | Withdraw
    | Fail
    | Doubt
    | Trust
    | Close
    | Wait
    | Complain
)
Outcome = tuple[Standing, tuple[Effect, ...]]


def _grown(first: float, most: float, failures: int) -> float:
    return min(most, first * 2.0 ** min(failures, 30))


def wait_after(event: Event, failures: int, rules: Rules, luck: float) -> float:
    """
    Seconds until the next attempt.

    @param failures: in a row, before this one.
    @param luck: from 0 to 1. Minions that failed together must not come back together, so
        every wait is between half and one and a half times its length.
    """
    if isinstance(event, Unresolved):
        wait = min(rules.retry_dns or rules.first, _grown(rules.first, 6.0, failures))
    elif isinstance(event, Denied) and event.held:
        wait = HELD
    elif isinstance(event, Denied):
        most = max(rules.acceptance_wait_time, rules.acceptance_wait_time_max)
        wait = min(most, rules.acceptance_wait_time * (failures + 1))
        if event.reason == "rejected" and not rules.rejected_retry:
            wait = _grown(rules.acceptance_wait_time, rules.rejected_wait, failures)
        elif event.reason == "pending":
            # Somebody is likely to accept the key right now: the first questions come quickly
            wait = min(wait, QUICK * GROWTH ** min(max(0, failures - QUICK_ONES), 1000))
        elif event.reason == "cluster_retry":
            wait = rules.first
    elif isinstance(event, Distrusted):
        wait = _grown(rules.acceptance_wait_time, 60.0, failures)
    else:
        answered = isinstance(event, Failed) and event.answered
        wait = _grown(rules.first, rules.most if answered else rules.silence, failures)
    return wait * (0.5 + luck)


def _wait(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
    effects: list[Effect] = []
    if link.state is State.UP:
        effects.append(Withdraw(event.reason))
    effects.append(Close())
    if isinstance(event, (Distrusted, Denied)):
        effects.append(Complain(event.reason))
    effects.append(Wait(wait_after(event, link.failures, rules, luck)))
    if link.state is not State.UP:
        effects.append(Fail())
    after = evolve(
        link, state=State.WAITING, reason=event.reason, failures=link.failures + 1, misses=0
    )
    return after, tuple(effects)


def _missed(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
    if link.misses + 1 < rules.misses and not event.lost:
        return evolve(link, misses=link.misses + 1), (Doubt(),)
    return _silent(link, event, rules, luck)


def _silent(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
    return _wait(link, Failed("the master does not answer"), rules, luck)


def _stop(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
    told = (Withdraw("stopped", is_meant=True),) if link.state is State.UP else ()
    return Standing(), (*told, Close())


def _to(state: State, *effects: Effect, **changes: Any) -> Callable[..., Outcome]:
    def go(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
        return evolve(link, state=state, **changes), effects

    return go


def _sign_in(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
    return evolve(link, state=State.SIGNING_IN), (SignIn(event.address),)


def _stay(link: Standing, event: Any, rules: Rules, luck: float) -> Outcome:
    return link, ()


TABLE: dict[tuple[State, type], Callable[..., Outcome]] = {
    (State.IDLE, Start): _to(State.RESOLVING, Resolve(), reason="", failures=0),
    (State.IDLE, Stop): _stay,
    (State.RESOLVING, Resolved): _sign_in,
    (State.RESOLVING, Unresolved): _wait,
    (State.RESOLVING, Failed): _wait,
    (State.RESOLVING, Stop): _stop,
    (State.SIGNING_IN, SignedIn): _to(State.PREPARING, Prepare(), misses=0),
    (State.SIGNING_IN, Denied): _wait,
    (State.SIGNING_IN, Distrusted): _wait,
    (State.SIGNING_IN, Failed): _wait,
    (State.SIGNING_IN, Stop): _stop,
    (State.PREPARING, Prepared): _to(State.UP, Announce(), reason="", failures=0, misses=0),
    (State.PREPARING, SignedIn): _stay,
    (State.PREPARING, Heard): _to(State.PREPARING, misses=0),
    (State.PREPARING, Missed): _missed,
    (State.PREPARING, Denied): _wait,
    (State.PREPARING, Distrusted): _wait,
    (State.PREPARING, Failed): _wait,
    (State.PREPARING, Stop): _stop,
    (State.UP, Heard): _to(State.UP, Trust(), misses=0),
    (State.UP, Missed): _missed,
    (State.UP, SignedIn): _stay,
    (State.UP, Denied): _wait,
    (State.UP, Distrusted): _wait,
    (State.UP, Failed): _wait,
    (State.UP, Stop): _stop,
    (State.WAITING, Rested): _to(State.RESOLVING, Resolve()),
    (State.WAITING, Stop): _stop,
}
"""Every transition there is. What is not here is a mistake in the driver."""


def step(link: Standing, event: Event, rules: Rules, luck: float = 0.5) -> Outcome:
    """
    What an event means for a link.

    @raises LookupError: this cannot happen in this state.
    """
    return TABLE[link.state, event.__class__](link, event, rules, luck)
