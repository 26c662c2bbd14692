"""
Jobs and returns between the nodes.

A job goes to every other node at once (word C{job}), and once more as a row of the job cache,
which reaches nodes that are not linked to this one, or not yet. Whichever comes first within
the publish window is published. A return reaches the others as a row alone; its event is
fired on their buses when it is on their disks. When a return may be acknowledged, and what
is published to whom and until when, is decided by L{saltwisted.domain.replica.delivery}.

What is not here: shipping rows (C{shipping}), other events (C{events}), where minions are
(C{presence}).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.domain.jid import is_jid, jid_seconds
from saltwisted.domain.jobids import BEGUN, JobInParts
from saltwisted.domain.replica.delivery import (
    Acknowledge,
    Copies,
    Offer,
    Repeats,
    Window,
    load_hash,
)
from saltwisted.domain.replica.entry import Entry
from saltwisted.errors import StoreError, WireError
from saltwisted.interfaces import IPeerLink, IPeers
from saltwisted.stores.jobs.store import JobStore, stored_form
from saltwisted.transports.bus import EventBus
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.wire.msgpack import pack_bin, unpack_bin

JOB = "job"
PUBLISHED = "job-published"
REACHED = "job-reached"
MEASURED, MEASURE_AGAIN = 20, 1.0
"""How often another node's clock is looked at for the age of a job, and how soon again."""
ASKING = 3.0
"""Seconds that the other nodes have to say whether a minion may have a job from them."""
REMEMBERED = 2000
"""Job maps that are kept for publishing them again, and jobs of which the unreached are kept."""
LATEST = 200
"""Jobs that are checked for minions that have yet to return."""
LARGE = 256 * 1024
"""Bytes above which a return is put on the bus only if somebody listens."""


class Holders(Protocol):
    """Where minions are; see L{saltwisted.cluster.jobs.presence}."""

    def holders(self) -> Mapping[str, str]:
        """Minion to node; a map that is never changed."""

    def own(self) -> Mapping[str, float]:
        """The minions at this node, and since when (by the reactor's clock) they are."""

    def age(self, node: str, moment: float) -> float | None:
        """Seconds since a moment by another node's clock; C{None} when it has to be measured."""

    def measure(self, node: str) -> Deferred[None]:
        """Look at another node's clock."""


class Forward:
    """
    Sends and takes jobs and returns. Reactor thread only.

    @param publish: sends a job map to this node's minions.
    @param others: the other members.
    """

    log = Logger()

    def __init__(
        self,
        *,
        clock: Any,
        node: str,
        bus: EventBus,
        peers: IPeers,
        jobs: JobStore,
        holders: Holders,
        publish: Callable[[Mapping[str, Any], Sequence[str] | None], None],
        counters: Counter[str],
        window: float = 30.0,
        copies: int = 2,
        others: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._clock = clock
        self._node = node
        self._members = others
        self._bus = bus
        self._peers = peers
        self._jobs = jobs
        self._holders = holders
        self._publish = publish
        self._counters = counters
        self._window = Window(node, clock.seconds(), window)
        self._copies = Copies(copies)
        self._repeats = Repeats()
        self._maps: OrderedDict[str, tuple[Mapping[str, Any], list[str]]] = OrderedDict()
        self._unreached: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._waiting: dict[tuple[str, str], list[Deferred[None]]] = {}
        self._timer: IDelayedCall | None = None
        self._pauses: set[Deferred[None]] = set()
        told = jobs.replica.told
        told.on_stored(self._entries)
        told.on_new(self._new)
        told.on_confirmed(self._confirmed)
        peers.answer(JOB, self._job_came)
        peers.answer(PUBLISHED, self._published_there)
        peers.answer(REACHED, self._reached)
        peers.on_link(self._link)

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """Acknowledge nothing any more: minions that wait try again elsewhere."""
        for pause in tuple(self._pauses):
            pause.cancel()
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what the master tells and asks (IJobHearer, IAcknowledging)

    def job_published(self, job: Mapping[str, Any], minions: Sequence[str]) -> None:
        """A job of this node went out here: send it to the others."""
        jid = str(job["jid"])
        self._remember(jid, job, minions)
        self._window.started(jid, minions, self._holders.own(), self._clock.seconds())
        self._tell_all(JOB, pack_bin([dict(job), list(minions)]))
        self._schedule()

    def return_stored(self, jid: str, minion_id: str) -> Deferred[None] | None:
        """What to wait for before this return is acknowledged."""
        if not self._copies.is_waiting(jid, minion_id):
            return None
        waiting: Deferred[None] = Deferred()
        self._waiting.setdefault((jid, minion_id), []).append(waiting)
        return waiting

    def repeated(self, minion_id: str, load: Mapping[str, Any]) -> str | None:
        """The jid that another node gave to this return."""
        digest = load_hash(stored_form(load))
        found = self._repeats.jid_of(minion_id, digest, self._node, self._clock.seconds())
        if found is not None:
            self._counters["returns:repeated-elsewhere"] += 1
        return found

    def unreached(self, jid: str) -> Sequence[str]:
        """Expected minions that were on no node while the job could be published."""
        return self._unreached.get(jid, ())

    async def one_copy(self, jid: str) -> Sequence[str]:
        """
        The minions whose return is on this node alone. One without other members has one copy of
        everything: that is no news.
        """
        return await self._jobs.one_copy(jid) if self._members() else ()

    def arrived(self, minion_id: str) -> None:
        """A minion has come to this node: it may have missed a job."""
        for offer in self._window.arrived(minion_id, self._clock.seconds()):
            self._offer(offer)

    # -- jobs

    def _job_came(self, node: str, body: bytes) -> None:
        try:
            job, minions = unpack_bin(body)
            jid, expected = job["jid"], [str(minion) for minion in minions]
            if not isinstance(job, dict) or not is_jid(jid):
                raise WireError("job")
        except (WireError, KeyError, TypeError, ValueError):
            self._counters["refused:job"] += 1
            return
        self._judge(node, jid, job, expected)

    def _judge(
        self,
        node: str,
        jid: str,
        job: Mapping[str, Any],
        minions: Sequence[str],
        tries: int = 0,
    ) -> None:
        """
        Publish another node's job, if it is still time.

        Its age is never reckoned from when it was sent: it may have lain in a socket while this
        node was stopped, or that one cut off.
        """
        moment = jid_seconds(jid)
        age = self._holders.age(node, moment) if moment is not None else None
        if age is not None:
            self._heard(node, jid, job, minions, age)
        elif tries < MEASURED and moment is not None:
            judged = self._measure_and_judge(node, jid, job, minions, tries)
            let_go(judged, self.log, "a job of {node} was not judged", node=node)
        else:
            self._counters["refused:job-of-unknown-age"] += 1

    async def _measure_and_judge(
        self, node: str, jid: str, job: Mapping[str, Any], minions: Sequence[str], tries: int
    ) -> None:
        """Right after a cut a link may be lost once more: its clock is looked at again."""
        if tries:
            pause: Deferred[None] = deferLater(self._clock, MEASURE_AGAIN)
            self._pauses.add(pause)
            try:
                await pause
            finally:
                self._pauses.discard(pause)
        await self._holders.measure(node)
        self._judge(node, jid, job, minions, tries + 1)

    def _heard(
        self, node: str, jid: str, job: Mapping[str, Any], minions: Sequence[str], age: float
    ) -> None:
        if not self._is_part(jid, job):
            self._counters["refused:jid-of-another-job"] += 1
            return
        now = self._clock.seconds()
        for effect in self._window.job_came(jid, minions, self._holders.own(), age, now):
            self._remember(jid, job, minions)
            if isinstance(effect, Offer):
                self._offer(effect)
                continue
            if effect.only is None:
                self._publish(job, minions)
            else:
                self._publish_to(job, effect.only)
            self._counters["jobs:forwarded"] += 1
            self._tell_all(PUBLISHED, jid.encode())
        # It was published there before it was sent
        self._window.published(jid, node)
        self._schedule()

    def _is_part(self, jid: str, job: Mapping[str, Any]) -> bool:
        """Whether this is the job that is known here by its jid, or a part of it (T-PATH-6)."""
        known = self._maps.get(jid)
        if known is None:
            return True
        first = [JobInParts.first(str(each.get("user")), each, 0.0) for each in (known[0], job)]
        return first[0].has_part(first[1])

    def _offer(self, offer: Offer) -> None:
        let_go(self._ask_and_publish(offer), self.log, "{jid} was not offered", jid=offer.jid)

    async def _ask_and_publish(self, offer: Offer) -> None:
        """Publish a job to minions that may have missed it, when nobody says that they have it."""
        body = pack_bin([offer.jid, list(offer.minions)])
        links = self._peers.links()
        asked = [as_deferred(link.ask(REACHED, body, ASKING)) for link in links]
        found = await DeferredList(asked, consumeErrors=True)
        answers: dict[str, list[str]] = {}
        for link, (good, answer) in zip(links, found, strict=True):
            if good:
                minions, publishers = unpack_bin(answer)
                answers[link.node] = [str(minion_id) for minion_id in minions]
                # A node that is not linked to this one may be, or have been, to that one
                for node in publishers:
                    self._window.published(offer.jid, str(node))
        job = self._maps.get(offer.jid)
        only = self._window.answered(offer, answers, self._clock.seconds())
        if only and job is not None:
            self._counters["jobs:again"] += len(only)
            self._publish_to(job[0], only)
            self._tell_all(PUBLISHED, offer.jid.encode())
        self._schedule()

    def _publish_to(self, job: Mapping[str, Any], minions: Sequence[str]) -> None:
        self._publish({**job, "tgt": list(minions), "tgt_type": "list"}, minions)

    def _reached(self, node: str, body: bytes) -> bytes:
        """
        Which of these minions have had a job from here.

        @raises WireError: the question is none.
        """
        try:
            jid, minions = unpack_bin(body)
            jid, minions = str(jid), [str(minion) for minion in minions]
        except (TypeError, ValueError):
            raise WireError(REACHED) from None
        moment = jid_seconds(jid)
        # Whose job it is does not matter here: how old it is by our own clock has to do
        age = self._holders.age("", moment) if moment is not None else None
        found = self._window.reached(jid, minions, age, self._clock.seconds())
        return pack_bin([found, self._window.publishers(jid)])

    def _published_there(self, node: str, body: bytes) -> None:
        self._window.published(body.decode("utf-8", "replace"), node)

    async def under_way(self, among: Collection[str]) -> set[str]:
        """Of these minions those that have not returned to one of the latest jobs."""
        found: set[str] = set()
        for jid, (_, minions) in list(self._maps.items())[-LATEST:]:
            expected = set(among).intersection(minions) - found
            if expected:
                found |= expected.difference(await self._jobs.returned_ids(jid))
        return found

    def _remember(self, jid: str, job: Mapping[str, Any], minions: Sequence[str]) -> None:
        self._maps[jid] = (dict(job), list(minions))
        self._maps.move_to_end(jid)
        while len(self._maps) > REMEMBERED:
            self._maps.popitem(last=False)

    def _tell_all(self, word: str, body: bytes) -> None:
        for link in self._peers.links():
            link.tell(word, body)

    # -- rows

    def _entries(self, entries: Sequence[Entry], source: str) -> None:
        """Our own rows are on disk, and wait for another node's."""
        now = self._clock.seconds()
        linked = len(self._peers.links())
        for entry in entries:
            if entry.kind == "return":
                jid, minion_id = self._note_return(entry)[:2]
                stored = self._copies.stored(entry.number, jid, minion_id, linked, now)
                self._acknowledge(stored)
        self._schedule()

    def _new(self, entries: Sequence[Entry]) -> None:
        """Rows of other nodes that were new here; minions that returned are not sent the job."""
        for entry in entries:
            if entry.kind == "return":
                self._announce(*self._note_return(entry), entry.stream.node)
        for entry in entries:
            if entry.kind == "job":
                self._job_row(entry)

    def _note_return(self, entry: Entry) -> tuple[str, str, float, bytes]:
        fields = entry.fields()
        jid, minion_id, load = fields["jid"], fields["id"], fields["load"]
        self._window.returned(jid, minion_id)
        if not self._jobs.known.is_published(jid):
            node, now = entry.stream.node, self._clock.seconds()
            self._repeats.remember(minion_id, load_hash(load), jid, node, now)
        return jid, minion_id, fields["at"], load

    def _announce(self, jid: str, minion_id: str, at: float, load: bytes, node: str) -> None:
        tag = f"salt/job/{jid}/ret/{minion_id}"
        if len(load) > LARGE and not self._bus.listening(tag):
            return
        stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
        data = {"cmd": "_return", "id": minion_id, "jid": jid, **unpack_bin(load)}
        data["_stamp"] = stamp
        self._bus.fire(tag, data, node)

    def _job_row(self, entry: Entry) -> None:
        fields = entry.fields()
        jid = fields["jid"]
        job = {**unpack_bin(fields["load"]), "jid": jid}
        for kept in ("kwargs", BEGUN):
            job.pop(kept, None)
        self._judge(entry.stream.node, jid, job, unpack_bin(fields["minions"]))

    # -- acknowledgements

    def _confirmed(self, number: int) -> None:
        self._acknowledge(self._copies.confirmed(number))

    def _link(self, link: IPeerLink, up: bool) -> None:
        if not up and not self._peers.links():
            self._acknowledge(self._copies.alone())

    def begun_anew(self) -> None:
        """
        The job cache was damaged: what waits for another node's disk may be on none. Minions that
        are not answered bring it again.
        """
        for key in self._copies.lost():
            for waiting in self._waiting.pop(key, ()):
                waiting.errback(StoreError("the job cache was damaged"))

    def _acknowledge(self, effects: Sequence[Acknowledge]) -> None:
        for effect in effects:
            self._counters[f"returns:copies-{effect.copies}"] += 1
            for waiting in self._waiting.pop((effect.jid, effect.minion_id), ()):
                waiting.callback(None)

    # -- time

    def _schedule(self) -> None:
        due = [t for t in (self._copies.next_tick(), self._window.next_tick()) if t is not None]
        if self._timer is not None:
            if due and self._timer.getTime() <= min(due):
                return
            self._timer.cancel()
            self._timer = None
        if due:
            delay = max(min(due) - self._clock.seconds(), 0.0)
            self._timer = self._clock.callLater(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        self._acknowledge(self._copies.tick(now))
        for offer in self._window.again(now):
            self._offer(offer)
        for closed in self._window.tick(now, self._holders.holders()):
            if closed.unreached:
                self._unreached[closed.jid] = closed.unreached
                self._counters["jobs:unreached"] += len(closed.unreached)
                if len(self._unreached) > REMEMBERED:
                    self._unreached.popitem(last=False)
        self._schedule()
