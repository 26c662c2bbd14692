"""
Pins: which generation a minion is served while a job of its runs.

A job that reads files sees one tree for its whole run, also when its minion asks several nodes.
Stock file requests carry no jid, so they are matched by minion; of two jobs the older counts.
A pin lasts until the return, or a day. One of a minion that asked no node for anything within ten
minutes ends then: it never got the job, and may come back for something else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from attrs import define

from saltwisted.errors import DeniedError

KEPT = 24 * 3600.0
UNUSED = 600.0
MOST = 200_000
READING = ("state.", "cp.", "saltutil.sync_", "saltutil.refresh_modules")


def reads_files(fun: object) -> bool:
    """Whether a job of this function (or of several) asks for files."""
    names = fun if isinstance(fun, list) else [fun]
    return any(str(name).startswith(READING) for name in names)


def check_reads(fun: object, generation: str) -> None:
    """
    See whether a job of this function may be asked to run on an earlier tree.

    @raises DeniedError: it reads no files, so that this would mean nothing.
    """
    if not reads_files(fun):
        name = ", ".join(map(str, fun)) if isinstance(fun, list) else fun
        raise DeniedError(
            f"generation {generation!r}: a job of {name} reads no files of the master"
        )


class IPinnedJobs(Protocol):
    """What is recorded of jobs, for pins that have to be made again."""

    def unfinished(
        self, since: float
    ) -> Awaitable[Sequence[tuple[str, Mapping[str, Any], Sequence[str]]]]:
        """
        Jobs that read files and have not returned: jid, record, and the minions that are missing.

        @param since: seconds since 1970; what was published before does not count.
        """

    def returned_ids(self, jid: str) -> Awaitable[Sequence[str]]:
        """Who has returned."""


@define
class _Job:
    """What is pinned of one job, and for how many minions."""

    digests: Mapping[str, bytes]
    since: float
    pins: int = 0
    used: bool = False


@define
class Pin:
    """
    @ivar digests: share to the digest of its tree.
    @ivar node: who published the job, and so has the tree; C{""} is this node.
    @ivar used: whether the minion has asked for files since, here or elsewhere.
    """

    jid: str
    digests: Mapping[str, bytes]
    since: float
    node: str = ""
    used: bool = False


class Pins:
    """All pins of one node."""

    def __init__(self) -> None:
        self._pins: dict[str, list[Pin]] = {}
        self._jobs: dict[str, _Job] = {}
        self._count = 0

    def add(
        self,
        jid: str,
        minions: Iterable[str],
        digests: Mapping[str, bytes],
        now: float,
        node: str = "",
    ) -> None:
        """These minions see these trees while this job runs."""
        for minion in minions:
            mine = self._pins.setdefault(minion, [])
            if any(pin.jid == jid for pin in mine) or self._count >= MOST:
                continue
            job = self._jobs.setdefault(jid, _Job(digests, now))
            job.pins += 1
            mine.append(Pin(jid, job.digests, now, node))
            mine.sort(key=lambda pin: pin.jid)
            self._count += 1

    def release(self, jid: str, minion: str) -> None:
        """The job has returned."""
        mine = self._pins.get(minion)
        if mine:
            self._keep(minion, [pin for pin in mine if pin.jid != jid])

    def of(self, minion: str, now: float) -> Pin | None:
        """By which pin a minion is served: C{None} for the newest."""
        mine = self._pins.get(minion)
        if not mine:
            return None
        living = [pin for pin in mine if now - pin.since < (KEPT if pin.used else UNUSED)]
        if len(living) != len(mine):
            self._keep(minion, living)
        return living[0] if living else None

    def others(self, minions: Iterable[str], digests: Mapping[str, bytes], now: float) -> list[str]:
        """Which of some minions have a pin with other trees than these."""
        pins = ((minion, self.of(minion, now)) for minion in minions)
        return [minion for minion, pin in pins if pin is not None and pin.digests != digests]

    def used(self, jid: str, minion: str) -> None:
        """The minion has asked another node for files of this job."""
        for pin in self._pins.get(minion, ()):
            if pin.jid == jid:
                pin.used = self._jobs[jid].used = True

    def all(self, now: float) -> Iterator[tuple[str, Pin]]:
        """Minion and pin, of all that live."""
        for minion, pins in self._pins.items():
            for pin in pins:
                if now - pin.since < (KEPT if pin.used else UNUSED):
                    yield minion, pin

    def pinned(self) -> set[bytes]:
        """All digests that somebody may still be served."""
        return {digest for job in self._jobs.values() for digest in job.digests.values()}

    def running(self, now: float) -> list[Mapping[str, bytes]]:
        """The trees of jobs whose pins last, each only once."""
        found = {
            tuple(sorted(job.digests.items())): job.digests
            for job in self._jobs.values()
            if now - job.since < (KEPT if job.used else UNUSED)
        }
        return list(found.values())

    def _keep(self, minion: str, pins: list[Pin]) -> None:
        kept = {pin.jid for pin in pins}
        for pin in self._pins[minion]:
            if pin.jid not in kept:
                job = self._jobs[pin.jid]
                job.pins -= 1
                if not job.pins:
                    del self._jobs[pin.jid]
        self._count -= len(self._pins[minion]) - len(pins)
        if pins:
            self._pins[minion] = pins
        else:
            del self._pins[minion]
