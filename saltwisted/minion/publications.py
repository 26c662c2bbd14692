"""
What arrives over a link's subscription: read, opened, or kept until its key is here.

L{saltwisted.minion.subscriber} decides whether a publication is trusted and run. This module
decides what to do with one that does not open: its key may be on the way, or it is noise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import frozen

from saltwisted.errors import AuthenticationError, WireError
from saltwisted.minion.channel import Session
from saltwisted.minion.subscriber import NEXT_KEY, Subscriber
from saltwisted.wire.publication import Job, Publication

MAX_HELD = 1000
"""Publications that wait for their key at most; the oldest is dropped."""

DOUBT_EVERY = 60.0
"""Seconds between two sign-ins that publications of somebody else may cause."""


@frozen(kw_only=True)
class Wishes:
    """
    What publications request from the link.

    @ivar keys: a publication is waiting: get the keys.
    @ivar next_key: the master has announced its next publish key: fetch it.
    @ivar sign_in: the master may have another key than before: sign in to find out.
    """

    keys: Callable[[], None]
    next_key: Callable[[], None]
    sign_in: Callable[[], None]


class Publications:
    """
    The publications of one master, on their way to the subscriber.
    """

    def __init__(
        self,
        subscriber: Subscriber | None,
        session: Session,
        seconds: Callable[[], float],
        wishes: Wishes,
        source: Any,
        name: str,
    ) -> None:
        """
        @param subscriber: C{None} for a link that only asks.
        @param seconds: the reactor's clock.
        @param source: goes with each job.
        @param name: of the master.
        """
        self._subscriber = subscriber
        self._session = session
        self._seconds = seconds
        self._wishes = wishes
        self._source = source
        self._name = name
        self._doubted = float("-inf")
        self._held: deque[tuple[Publication, float]] = deque(maxlen=MAX_HELD)

    @property
    def held(self) -> int:
        """How many wait for their key."""
        return len(self._held)

    def forget(self) -> None:
        """The attempt has ended: waiting publications are dropped."""
        self._held = deque(maxlen=MAX_HELD)

    def came(self, payload: Any) -> None:
        """Something was published."""
        subscriber = self._subscriber
        if subscriber is None:
            return
        try:
            publication = subscriber.read(payload, self._session)
        except AuthenticationError as error:
            # Somebody's noise, or a master whose key has changed: a sign-in tells which, and
            # says so to the operator
            subscriber.counters[error.reason] += 1
            now = self._seconds()
            if now - self._doubted >= DOUBT_EVERY:
                self._doubted = now
                self._wishes.sign_in()
            return
        except WireError as error:
            subscriber.counters[error.reason] += 1
            return
        now = self._seconds()
        try:
            job, key = subscriber.open(publication, self._session, now)
        except AuthenticationError:
            # The publish key has changed: keep this until the new one is here.
            subscriber.counters["held"] += 1
            self._held.append((publication, now))
            self._wishes.keys()
            return
        except WireError as error:
            subscriber.counters[error.reason] += 1
            return
        if job.fun == NEXT_KEY:
            self._wishes.next_key()
            return
        self._take(subscriber, job, key)

    def read_held(self, asked: float) -> None:
        """
        Try again to open waiting publications.

        @param asked: publications from before this time that still cannot be opened are dropped:
            the master has since said which keys there are.
        """
        subscriber, held = self._subscriber, self._held
        waiting = list(held)
        held.clear()
        now = self._seconds()
        for publication, came in waiting:
            if subscriber is None or held is not self._held:
                return
            try:
                job, key = subscriber.open(publication, self._session, now)
            except AuthenticationError as error:
                if came <= asked:
                    subscriber.counters["given up:" + error.reason] += 1
                else:
                    held.append((publication, came))
                continue
            except WireError as error:
                subscriber.counters["given up:" + error.reason] += 1
                continue
            if job.fun != NEXT_KEY:
                self._take(subscriber, job, key)
        if held and held is self._held:
            self._wishes.keys()

    def _take(self, subscriber: Subscriber, job: Job, key: str) -> None:
        subscriber.take(job, key, self._source, self._name)
