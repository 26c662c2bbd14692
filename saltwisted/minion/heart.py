"""
The heartbeat of a link: when its master is asked whether it is alive and which publish keys it has,
and how the answer is used.

While the link is up, the master is asked every C{Rules.heartbeat} seconds unless it sent something
anyway, at once when the subscription has lost its connection, and soon when keys are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall

from saltwisted.errors import TransportClosed, WireError
from saltwisted.minion.attempt import Attempt
from saltwisted.minion.channel import Session
from saltwisted.minion.outside import Outside
from saltwisted.minion.rules import Event, Heard, Missed, Rules, Standing, State
from saltwisted.wire.crypticle import SessionKey

OUR_HEARTBEAT: dict[str, Any] = {"cmd": "_saltwisted_keys"}
"""Our master answers with its publish keys."""

STOCK_HEARTBEAT: dict[str, Any] = {"cmd": "_minion_event", "pretag": None, "events": []}
"""No events: a stock master does nothing about it, and says so."""

ASK_WITHIN = 0.5
"""Seconds within which all minions of such a master ask for its keys, when it is time to."""


class Heart:
    """
    Asks one master for signs of life and for its keys, each time that its only timer fires.

    @ivar answered: when the newest answered request for keys was sent, in this attempt.
    """

    def __init__(
        self,
        rules: Rules,
        session: Session,
        outside: Outside,
        due: Callable[[bool], None],
        on_masters: Callable[[list[str], str], None],
    ) -> None:
        """
        @param due: it is time; whoever is called runs L{ask}, C{always} as it is told.
        @param on_masters: a master of a cluster has said which masters there are, and which of
            these it is itself.
        """
        self._rules = rules
        self._session = session
        self._outside = outside
        self._due = due
        self._on_masters = on_masters
        self._timer: IDelayedCall | None = None
        self._asking = False
        self._asked = float("-inf")
        self._suspected = float("-inf")
        self.answered = float("-inf")

    def after(self, seconds: float, always: bool = False) -> None:
        """
        Beat in so many seconds; this replaces the planned beat.

        @param always: ask even if the master sent something lately.
        """
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._outside.reactor.callLater(seconds, self._beat, always)

    def _beat(self, always: bool) -> None:
        self._timer = None
        self._asking = False
        self._due(always)

    def want_keys(self, pause: float = 0.0) -> None:
        """
        Ask for the publish keys soon; an earlier planned beat is not postponed.

        @param pause: seconds since they were asked for last, at least.
        """
        now = self._outside.reactor.seconds()
        at = max(now + ASK_WITHIN * self._outside.dice.random(), self._asked + pause)
        if not self._asking or self._timer is None or self._timer.getTime() > at:
            self._asking = True
            self.after(at - now, True)

    def suspect(self) -> None:
        """The subscription's connection ended: ask at once whether the master is alive."""
        self._suspected = self._outside.now()
        self.after(0.2 * self._outside.dice.random(), True)

    def stop(self) -> None:
        """The attempt has ended."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self.answered = float("-inf")

    async def ask(self, attempt: Attempt, standing: Standing, always: bool) -> Event | None:
        """
        Ask, if need be, and plan the next beat.

        @return: what it means for the link; C{None}: nothing.
        """
        rules, outside = self._rules, self._outside
        channel, heart = attempt.channel, attempt.heart
        preparing = standing.state is State.PREPARING
        if channel is None or heart is None or not (standing.state is State.UP or preparing):
            return None
        event: Event | None = Heard()
        ours = self._session.ours
        period = rules.heartbeat if ours else rules.slow_heartbeat
        since = outside.now()
        quiet = since - channel.heard
        suspected = self._suspected > channel.heard
        if always or standing.misses or not 0 <= quiet < 0.75 * period:
            try:
                ask = OUR_HEARTBEAT if ours else STOCK_HEARTBEAT
                wait = rules.suspect_timeout if suspected else rules.heartbeat_timeout
                asked = self._asked = outside.reactor.seconds()
                if self._take_keys(await heart.request(ask, wait, 1)) and not attempt.is_over:
                    self.answered = asked
                channel.heard = outside.now()
                if suspected:
                    attempt.resubscribe()
            except (TransportClosed, WireError):
                # Silence, or a refusal even after a new sign-in: as good as silence.
                event = Heard() if channel.heard > since else Missed(suspected)
        if isinstance(event, Heard) and self._suspected > since:
            event = None  # it was asked before the connection ended, and says nothing of after
        if not attempt.is_over and self._timer is None:
            period = rules.heartbeat if self._session.ours else rules.slow_heartbeat
            if preparing:
                period = min(period, rules.heartbeat_timeout)
            spread = 0.8 + 0.4 * outside.dice.random()
            self.after(1.0 if isinstance(event, Missed) else period * spread)
        return event

    def _take_keys(self, value: Any) -> bool:
        """
        What a master of our kind says in answer: its publish keys, and who else is there.

        @return: whether it is such an answer.
        """
        if not isinstance(value, dict) or not isinstance(value.get("aes"), str):
            return False
        following, before = value.get("next"), value.get("before")
        try:
            publish_key = SessionKey(value["aes"])
            next_key = SessionKey(following) if isinstance(following, str) else None
            former = [SessionKey(text) for text in before] if isinstance(before, list) else []
        except (WireError, TypeError, AttributeError):
            return False
        self._session.told(self._outside.reactor.seconds(), publish_key, next_key, former)
        masters = value.get("masters")
        if isinstance(masters, list) and masters:
            self._on_masters(masters, str(value.get("self") or ""))
        return True
