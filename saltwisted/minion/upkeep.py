"""
The upkeep of a link: its sign-ins, its publish keys, and its signs of life.

L{Heart}, L{Publications} and L{SignInAgain} do one thing each and do not know each other. This
module connects them: a publication that does not open needs keys, keys come from a sign of life or
a sign-in, and after either, waiting publications are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from saltwisted.config.options import MinionConfig
from saltwisted.domain.targeting.matchers import MinionFacts
from saltwisted.minion.attempt import Attempt
from saltwisted.minion.channel import Session
from saltwisted.minion.heart import Heart
from saltwisted.minion.outside import Outside
from saltwisted.minion.publications import Publications, Wishes
from saltwisted.minion.rules import Event, Failed, Rules, SignedIn, Standing, State
from saltwisted.minion.signin import SignInAgain, SignInTalk
from saltwisted.minion.subscriber import Subscriber

ASK_EVERY = 1.0
"""Seconds between two questions for publish keys that publications of a master of ours may
cause. That costs it no RSA, unlike a sign-in."""


@frozen
class Live:
    """
    The present state of a link.

    @ivar link: the link itself, from which jobs come.
    @ivar attempt: the current attempt.
    @ivar standing: its state according to the rules.
    """

    link: Any
    attempt: Callable[[], Attempt]
    standing: Callable[[], Standing]


class Upkeep:
    """
    Keeps one link fit: signed in, with the keys of what is published, and known to be alive.

    @ivar talk: signs in.
    @ivar publications: what the subscription brings.
    """

    def __init__(
        self,
        name: str,
        config: MinionConfig,
        rules: Rules,
        outside: Outside,
        session: Session,
        subscriber: Subscriber | None,
        facts: Callable[[], MinionFacts],
        live: Live,
        on_doubt: Callable[[bool], None],
        on_masters: Callable[[list[str], str], None],
    ) -> None:
        """
        @param subscriber: C{None}: there is no subscription.
        @param on_doubt: the link is up, but its subscription has ended.
        @param on_masters: as for L{Heart}.
        """
        self._rules = rules
        self._outside = outside
        self._session = session
        self._subscriber = subscriber
        self._live = live
        self._on_doubt = on_doubt
        self.talk = SignInTalk(name, config, rules, outside, session, facts)
        self._again = SignInAgain(outside.reactor, self._begin_again)
        self._heart = Heart(rules, session, outside, self._beat, on_masters)
        wishes = Wishes(
            keys=self._want_keys, next_key=self._heart.want_keys, sign_in=self._again.soon
        )
        seconds = outside.reactor.seconds
        self.publications = Publications(subscriber, session, seconds, wishes, live.link, name)

    # -- as the link comes and goes

    def begin(self) -> None:
        """The link has signed in, and asks for its pillar."""
        # A pillar may take a minute; whether the master is alive shows sooner.
        self._heart.after(self._rules.heartbeat_timeout, True)
        self._subscribe(self._live.attempt())

    def came_up(self) -> None:
        """It is up."""
        # The first one spreads the others, and brings the publish keys of one of ours.
        self._heart.after(self._rules.heartbeat * self._outside.dice.random(), self._session.ours)
        if self.publications.held:
            self._want_keys()

    def end(self, attempt: Attempt) -> None:
        """Close the attempt, which is no longer the current one."""
        self._heart.stop()
        self.publications.forget()
        waiting = self._again.stop()
        attempt.close()
        self._again.answer(waiting, Failed("closed"))

    # -- the subscription

    def _subscribe(self, attempt: Attempt) -> None:
        if self._subscriber is not None:
            attempt.subscribe(self.talk.publish_port, self.publications.came, self._lost)

    def _lost(self) -> None:
        state = self._live.standing().state
        if state is State.UP:
            self._heart.suspect()
            self._on_doubt(False)
        elif state is State.PREPARING:
            # What was asked on the other connections is as good as lost.
            self._live.attempt().happens(Failed("the connection ended"))

    # -- signing in again

    def sign_in(self) -> Deferred[None]:
        """A new sign-in on the living link: see L{SignInAgain.ask}."""
        return self._again.ask()

    def _begin_again(self) -> bool:
        attempt = self._live.attempt()
        if attempt.requests is None:
            return False
        attempt.run(
            self.talk.exchange(attempt.requests),
            lambda event: self._signed_in_again(attempt, event),
        )
        return True

    def _signed_in_again(self, attempt: Attempt, event: Event) -> Event:
        waiting = self._again.ended()
        if isinstance(event, SignedIn):
            self._subscribe(attempt)
            # One of ours knows more keys than the one that a sign-in brings: it is asked for them
            self.publications.read_held(float("-inf") if self._session.ours else float("inf"))
        self._again.answer(waiting, event)
        return event

    def _want_keys(self) -> None:
        """
        Get the keys of what is held, but do not ask all the time: whoever can make us wish for
        keys must not be able to make us, and all our brothers, a burden to the master.
        """
        if self._session.ours:
            self._heart.want_keys(ASK_EVERY)
        else:
            self._again.soon()

    # -- signs of life

    def _beat(self, always: bool) -> None:
        attempt = self._live.attempt()
        attempt.run(self._heart.ask(attempt, self._live.standing(), always), self._beaten)

    def _beaten(self, event: Event | None) -> Event | None:
        if self._session.ours and self.publications.held:
            self.publications.read_held(self._heart.answered)
        return event
