"""
Publications: whether one is from my master, whether it is for me, whether I have seen it.

A L{Subscriber} serves all masters of one minion. Each publication is checked for the master's
signature (always, once the master's key is known; stock minions check it only if configured), the
publish key, the job's form, replay, and target. What passes is given to C{on_job(job, source)}
exactly once per jid, in the reactor thread; C{job} is a L{saltwisted.wire.publication.Job},
C{source} whatever the connection provided (a L{saltwisted.minion.connection.MasterLink}).

Replay (T-REPLAY-1). A job is written to disk before it is run, so a recorded publication has no
effect a second time, through another master or after a restart. Jids are times: one that is more
than C{window} seconds older than the newest job is refused as well, even if it was never seen here;
so is one below the oldest that is still remembered. A newest jid more than C{window} ahead of our
own clock does not count, so that one job from a master with a wrong clock does not block the
following ones. Salt's C{serial}, if a master sends it, must grow for as long as its publish key
lives.

L{saltwisted.minion.connection} decides when to sign in again; other modules run jobs.
"""

from __future__ import annotations

import hashlib
from calendar import timegm
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from twisted.logger import Logger

from saltwisted.domain.targeting.matchers import MinionFacts, publication_matches
from saltwisted.errors import AuthenticationError, StoreError
from saltwisted.minion.channel import Session
from saltwisted.wire.publication import (
    Job,
    Publication,
    decode_publication,
    open_job,
    verify_publication,
)

NEXT_KEY = "saltwisted.next_key"
"""A saltwisted master publishes this to nobody: fetch the next publish key now."""


class SeenJobs(Protocol):
    """Where seen jobs survive a restart: L{saltwisted.stores.minion.SeenFile}."""

    def load(self) -> list[str]:
        """All lines, oldest first."""

    def append(self, line: str) -> None:
        """Keep one more line."""

    def replace(self, lines: list[str]) -> None:
        """Keep these lines alone."""


def jid_time(jid: str) -> float | None:
    """Seconds since 1970 of a jid, or C{None} if it is not a valid time."""
    digits = jid[:20]
    if len(digits) != 20 or not digits.isdigit() or not digits.isascii():
        return None
    if len(jid) > 20 and not (jid[20] == "_" and jid[21:].isdigit()):
        return None
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:14])
    if not (year > 1970 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    return timegm((year, month, day, hour, minute, second)) + int(digits[14:]) / 1_000_000


class Seen:
    """
    Which jobs were run, in memory and on disk.

    A source is a master by its configured name. Lines are C{j <jid> <source>} for a job, C{s <key>
    <number>} for a serial, C{f <seconds>} for the floor: the time of the newest job that was
    forgotten again.
    """

    def __init__(
        self,
        kept: SeenJobs,
        now: Callable[[], float],
        window: float = 3600.0,
        remember: int = 10_000,
    ) -> None:
        """
        @param now: our own clock, seconds since 1970.
        @param window: seconds that a job may be behind the newest one of the same source;
            0 for any.
        @param remember: how many jids are kept, at least C{minion_jid_queue_hwm}.
        """
        self._kept = kept
        self._now = now
        self._window = window
        self._remember = max(1, remember)
        self._jids: OrderedDict[str, str] = OrderedDict()
        self._serials: OrderedDict[str, int] = OrderedDict()
        self._newest: dict[str, float] = {}
        self._floor = 0.0
        self._lines = 0

    def load(self) -> None:
        """
        Read the file. Invalid lines are skipped.

        @raises StoreError: the file cannot be read; starting without it would forget.
        """
        for line in self._kept.load():
            self._lines += 1
            kind, _, rest = line.partition(" ")
            first, _, second = rest.partition(" ")
            if kind == "j" and first:
                self._note(first, second)
            elif kind == "s" and second.isdecimal():
                self._serials[first] = int(second)
            elif kind == "f" and first.replace(".", "", 1).isdecimal():
                self._floor = max(self._floor, float(first))

    def _note(self, jid: str, source: str) -> None:
        self._jids[jid] = source
        when = jid_time(jid)
        if when is not None and when > self._newest.get(source, 0.0):
            self._newest[source] = when
        while len(self._jids) > self._remember:
            gone, _ = self._jids.popitem(last=False)
            self._floor = max(self._floor, jid_time(gone) or 0.0)

    def why_not(self, job: Job, publish_key: str, source: str) -> str:
        """
        A word why this job must not run, or C{""}.

        @param publish_key: the text of the key that opened it.
        """
        if job.jid in self._jids:
            return "duplicate"
        when = jid_time(job.jid)
        if when is not None:
            # A mark far ahead of our clock was set by a clock that was wrong: ours or theirs. It
            # must not shut out the jobs that are right.
            ahead = self._now() + (self._window or 3600.0)
            newest = self._newest.get(source, 0.0)
            if self._window and when + self._window < newest <= ahead:
                return "stale"
            if when <= self._floor <= ahead:
                return "stale"
        if job.serial is not None and job.serial <= self._serials.get(_digest(publish_key), 0):
            return "serial"
        return ""

    def add(self, job: Job, publish_key: str, source: str) -> None:
        """
        Remember that this job is handed out.

        @raises StoreError: it is remembered, but could not be written.
        """
        self._note(job.jid, source)
        lines = [_line(job.jid, source)]
        if job.serial is not None:
            digest = _digest(publish_key)
            self._serials[digest] = job.serial
            self._serials.move_to_end(digest)
            while len(self._serials) > 16:
                self._serials.popitem(last=False)
            lines.append(f"s {digest} {job.serial}")
        if self._lines > 2 * self._remember + 100:
            whole = self._all()
            self._kept.replace(whole)
            self._lines = len(whole)
            return
        for line in lines:
            self._kept.append(line)
        self._lines += len(lines)

    def _all(self) -> list[str]:
        return [
            f"f {self._floor:.6f}",
            *(f"s {key} {number}" for key, number in self._serials.items()),
            *(_line(jid, source) for jid, source in self._jids.items()),
        ]


def _line(jid: str, source: str) -> str:
    return f"j {_word(jid)} {_word(source)}"


def _word(text: str) -> str:
    """As one word on one line; jids and host names are, unless somebody plays tricks."""
    return text if text.isprintable() and " " not in text else repr(text).replace(" ", "_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Subscriber:
    """
    Checks publications and hands out jobs.

    @ivar counters: the results of publications, by a word.
    """

    log = Logger()

    def __init__(
        self,
        facts: Callable[[], MinionFacts],
        on_job: Callable[[Job, Any], None],
        seen: Seen,
        insist: bool = True,
    ) -> None:
        """
        @param facts: id, grains, pillar and node groups as they are now.
        @param insist: demand the master's signature; only false where the configuration says
            so in as many words (a master with C{sign_pub_messages: false}).
        """
        self._facts = facts
        self._on_job = on_job
        self._seen = seen
        self._insist = insist
        self.counters: Counter[str] = Counter()

    def read(self, payload: Any, session: Session) -> Publication:
        """
        The outer half: shape and signature.

        @raises AuthenticationError: not signed by this session's master.
        @raises WireError: no publication.
        """
        publication = decode_publication(payload)
        if session.master_key is None:
            raise AuthenticationError("no master")
        if publication.signature or self._insist:
            verify_publication(publication, session.master_key)
        return publication

    def open(self, publication: Publication, session: Session, now: float) -> tuple[Job, str]:
        """
        The inner half, with the publish key, the one announced as the next, or a former one.

        @param now: seconds, on the clock of C{session}.
        @return: the job, and the text of the key that opened it.
        @raises AuthenticationError: sealed with none of them: it is time to ask for the keys.
        @raises WireError: malformed.
        """
        for key in session.readable(now, bool(publication.signature)):
            try:
                job = open_job(publication, key)
            except AuthenticationError:
                continue
            if key == session.next_key:
                session.told(now, key)
            return job, key.text
        raise AuthenticationError("publish key")

    def take(self, job: Job, publish_key: str, source: Any, name: str) -> bool:
        """
        Run a job, if it is for us and new.

        @param source: goes to C{on_job}.
        @param name: of the master it came from.
        @return: whether it was handed out.
        """
        facts = self._facts()
        if not publication_matches(job.load, facts, self._note):
            self.counters["elsewhere"] += 1
            return False
        why = self._seen.why_not(job, publish_key, name)
        if why:
            self.counters[why] += 1
            if why != "duplicate":
                self.log.warn(
                    "job {jid} ({fun}) from {master} is not run: {why}; a replay, or the master's"
                    " clock went back",
                    jid=job.jid,
                    fun=str(job.fun)[:200],
                    master=name,
                    why=why,
                )
            return False
        try:
            self._seen.add(job, publish_key, name)
        except StoreError as error:
            self.counters["unkept"] += 1
            self.log.error("job {jid} cannot be recorded: {error}", jid=job.jid, error=str(error))
        self.counters["taken"] += 1
        self._on_job(job, source)
        return True

    def _note(self, text: str) -> None:
        self.log.debug("target: {text}", text=text[:200])
