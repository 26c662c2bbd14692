"""
When the publish key changes, and who learns of it in advance.

Deleting or rejecting keys requests a new publish key, so that the affected minions can no longer
read publications. Many requests become one rotation (C{salt-key -D} on a thousand keys). No
rotation happens before the minions that are signing in have their answers, or a minute has passed:
a stock minion that signs in to read a publication could not read it with the key after the next.
Between the decision and the switch, our own minions fetch the next key through their sessions;
stock ones sign in at the next publication.

The clock is an argument, and so is the test whether the sign-ins are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from saltwisted.interfaces import IKeyAgreement
from saltwisted.master.publisher import Publisher

COALESCE = 1.0
"""Seconds in which further requests join a rotation that was asked for; also the time
that our own minions have to fetch the next key."""
PATIENCE = 60.0
"""Seconds after which a rotation that was asked for no longer waits for sign-ins."""
SPACING = 5.0
"""Seconds between two changes: a stock minion that hears of one by a job signs in for its key,
which takes seconds where the machine is busy, and could not read the job with the key after."""
RETRY = 0.5


class Rotation:
    """Merges requests for a new publish key, and switches to it."""

    log = Logger()

    def __init__(
        self,
        clock: Any,
        publisher: Publisher,
        settled: Callable[[], bool],
        announce: Callable[[], None],
        rotated: Callable[[], None],
        agreement: IKeyAgreement,
    ) -> None:
        """
        @param settled: whether no accepted minion waits for the answer to its sign-in.
        @param announce: tell our own minions that a next key is ready.
        @param rotated: called after each switch (event C{key}, C{ping_on_rotate}).
        @param agreement: takes the requests over where several nodes share the key.
        """
        self._clock = clock
        self._publisher = publisher
        self._settled = settled
        self._announce = announce
        self._rotated = rotated
        self._call: IDelayedCall | None = None
        self._asked = 0.0
        self._last = -SPACING
        self._agreement = agreement
        self.count = 0

    def request(self, why: str) -> None:
        """Ask for a rotation; it happens once for all that ask within the next moment."""
        if self._agreement.request(why):
            return
        pending = self._call is not None
        if pending and not self._publisher.next_is_told:
            return
        self._publisher.prepare_rotation()
        self._announce()
        if pending:
            return
        self.log.info("the publish key will be rotated: {why}", why=why)
        self._asked = self._clock.seconds()
        self._call = self._clock.callLater(COALESCE, self._switch)

    @property
    def pending(self) -> bool:
        """Whether a rotation was asked for and has not happened."""
        return self._call is not None

    def _switch(self) -> None:
        now = self._clock.seconds()
        wait = now - self._asked < PATIENCE and not self._settled()
        if wait or now - self._last < SPACING:
            self._call = self._clock.callLater(RETRY, self._switch)
            return
        self._call = None
        self._last = now
        self._publisher.rotate()
        self.count += 1
        self._rotated()

    def stop(self) -> None:
        """Forget a rotation that has not happened: a new start makes a new key anyway."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
