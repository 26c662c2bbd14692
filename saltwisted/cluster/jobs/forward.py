"""
Jobs and returns between the nodes.

A job goes to every other node at once (word C{job}), and again as a row of the job cache, which
also reaches nodes that are not linked to this one, or not yet. The first of the two that arrives
within the publish window is published. A return reaches the others only as a row; its event is
fired on their buses when it is on their disks. L{saltwisted.domain.replica.delivery} decides what
is published to whom, and until when.

Other modules ship rows (C{shipping}), send other events (C{events}), know where minions are
(C{presence}), and decide when a return may be acknowledged (C{acknowledging}).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred, DeferredList, execute
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger

from saltwisted.cluster.jobs.acknowledging import Acknowledging
from saltwisted.cluster.jobs.announcing import Announcing, Returned
from saltwisted.cluster.jobs.latest import LatestJobs
from saltwisted.domain.jid import is_jid, jid_seconds
from saltwisted.domain.jobids import BEGUN, JobInParts
from saltwisted.domain.replica.delivery import Offer, Window
from saltwisted.domain.replica.entry import Entry
from saltwisted.domain.who import EAUTH, who_in
from saltwisted.errors import WireError
from saltwisted.interfaces import IPeers
from saltwisted.stores.jobs.store import JobStore
from saltwisted.transports.bus import EventBus
from saltwisted.transports.deferreds import as_deferred, let_go
from saltwisted.transports.turns import Line
from saltwisted.wire.msgpack import pack_bin, unpack_bin

JOB = "job"
GIVEN = "given"
"""In the map of a job on its way: when it was given, where the jid does not say so."""
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
    Sends and receives jobs, and reports returns of other nodes to this one. Reactor thread only.

    @param publish: sends a job map to this node's minions.
    @param returns: is informed of returns.
    @param in_thread: calls a function in a thread.
    @ivar rows: other nodes' rows that are new here, a few hundred at once.
    @ivar on_return: called with jid and minion of each return that other nodes have stored.
    """

    log = Logger()
    cares_for_late = True

    def __init__(
        self,
        *,
        clock: Any,
        node: str,
        bus: EventBus,
        peers: IPeers,
        jobs: JobStore,
        holders: Holders,
        returns: Acknowledging,
        publish: Callable[[Mapping[str, Any], Sequence[str] | None], None],
        counters: Counter[str],
        window: float = 30.0,
        in_thread: Callable[..., Deferred[Any]] = execute,
    ) -> None:
        self._clock = clock
        self._node = node
        self._bus = bus
        self._peers = peers
        self._jobs = jobs
        self._holders = holders
        self._returns = returns
        self._publish = publish
        self._counters = counters
        self._window = Window(node, clock.seconds(), window)
        self._maps = LatestJobs(REMEMBERED, 2 * window)
        self._unreached = LatestJobs(REMEMBERED, 0.0)
        self._timer: IDelayedCall | None = None
        self._pauses: set[Deferred[None]] = set()
        self._announcing = Announcing(clock, bus, counters, in_thread)
        self.rows: Line[Entry] = Line(clock, self._row)
        self.on_return: list[Callable[[str, str], None]] = []
        told = jobs.replica.told
        told.on_stored(self._entries)
        told.on_new(self._new)
        peers.answer(JOB, self._job_came)
        peers.answer(PUBLISHED, self._published_there)
        peers.answer(REACHED, self._reached)
        peers.on_link(lambda link, up: None if up else returns.unlinked())

    def startService(self) -> None:
        """Nothing to start."""

    def stopService(self) -> None:
        """Acknowledge nothing any more: waiting minions try again elsewhere."""
        for pause in tuple(self._pauses):
            pause.cancel()
        self._returns.stop()
        self.rows.stop()
        self._announcing.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what the master tells and asks (IJobHearer)

    def job_published(
        self, job: Mapping[str, Any], minions: Sequence[str], given: float | None = None
    ) -> None:
        """A job of this node went out here: send it to the others."""
        jid = str(job["jid"])
        now = self._clock.seconds()
        self._maps.put(jid, job, minions, now)
        self._window.started(jid, minions, self._holders.own(), now)
        told = dict(job) if given is None else {**job, GIVEN: given}
        _tell_all(self._peers, JOB, pack_bin([told, list(minions)]))
        self._schedule()

    def unreached(self, jid: str) -> Sequence[str]:
        """Expected minions that were on no node while the job could be published."""
        found = self._unreached.get(jid)
        return () if found is None else found[1]

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
            given = job.pop(GIVEN, None)
            moment = jid_seconds(jid) if given is None else float(given)
        except (WireError, KeyError, TypeError, ValueError):
            self._counters["refused:job"] += 1
            return
        self._judge(node, jid, job, expected, moment)

    def _judge(
        self,
        node: str,
        jid: str,
        job: Mapping[str, Any],
        minions: Sequence[str],
        moment: float | None,
        tries: int = 0,
    ) -> None:
        """
        Publish another node's job, if it is still time.

        Its age is never reckoned from when it was sent: it may have lain in a socket while this
        node was stopped, or that one cut off.

        @param moment: when it was given, by that node's clock.
        """
        age = self._holders.age(node, moment) if moment is not None else None
        if age is not None:
            self._heard(node, jid, job, minions, age)
        elif tries < MEASURED and moment is not None:
            judged = self._measure_and_judge(node, jid, job, minions, moment, tries)
            let_go(judged, self.log, "a job from {node} was not checked", node=node)
        else:
            self._counters["refused:job-of-unknown-age"] += 1

    async def _measure_and_judge(
        self,
        node: str,
        jid: str,
        job: Mapping[str, Any],
        minions: Sequence[str],
        moment: float,
        tries: int,
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
        self._judge(node, jid, job, minions, moment, tries + 1)

    def _heard(
        self, node: str, jid: str, job: Mapping[str, Any], minions: Sequence[str], age: float
    ) -> None:
        if not self._is_part(jid, job):
            self._counters["refused:jid-of-another-job"] += 1
            return
        now = self._clock.seconds()
        for effect in self._window.job_came(jid, minions, self._holders.own(), age, now):
            self._maps.put(jid, job, minions, now)
            if isinstance(effect, Offer):
                self._offer(effect)
                continue
            if effect.only is None:
                self._publish(_for_minions(job), minions)
            else:
                self._publish_to(job, effect.only)
            self._counters["jobs:forwarded"] += 1
            _tell_all(self._peers, PUBLISHED, jid.encode())
        # It was published there before it was sent
        self._window.published(jid, node)
        self._schedule()

    def _is_part(self, jid: str, job: Mapping[str, Any]) -> bool:
        """Whether this is the job that is known here by its jid, or a part of it (T-PATH-6)."""
        known = self._maps.get(jid)
        if known is None:
            return True
        first = [JobInParts.first(who_in(each), each, 0.0) for each in (known[0], job)]
        return first[0].has_part(first[1])

    def _offer(self, offer: Offer) -> None:
        let_go(
            self._ask_and_publish(offer),
            self.log,
            "job {jid} was not offered to the members",
            jid=offer.jid,
        )

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
            _tell_all(self._peers, PUBLISHED, offer.jid.encode())
        self._schedule()

    def _publish_to(self, job: Mapping[str, Any], minions: Sequence[str]) -> None:
        only = {"tgt": list(minions), "tgt_type": "list"}
        self._publish({**_for_minions(job), **only}, minions)

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

    async def under_way(self, among: Collection[str]) -> dict[str, set[str]]:
        """Of these minions those that have not returned to some of the latest jobs: which."""
        found: dict[str, set[str]] = {}
        for jid, minions in self._maps.last(LATEST):
            expected = set(among).intersection(minions)
            if expected:
                for minion_id in expected.difference(await self._jobs.returned_ids(jid)):
                    found.setdefault(minion_id, set()).add(jid)
        return found

    # -- rows

    def _entries(self, entries: Sequence[Entry], source: str) -> None:
        """Our own rows are on disk, and wait for another node's."""
        self._returns.stored(
            [
                (entry.number, *self._note_return(entry)[:2])
                for entry in entries
                if entry.kind == "return"
            ]
        )
        self._schedule()

    def _new(self, entries: Sequence[Entry]) -> None:
        """Rows of other nodes that were new here; minions that returned are not sent the job."""
        for kind in ("return", "job"):
            for entry in entries:
                if entry.kind == kind:
                    self.rows.put(entry)

    def _row(self, entry: Entry) -> None:
        if entry.kind == "job":
            self._job_row(entry)
            return
        found = self._note_return(entry)
        for receiver in self.on_return:
            receiver(*found[:2])
        self._announcing.put(Returned(*found, entry.stream.node))

    def _note_return(self, entry: Entry) -> tuple[str, str, float, bytes | memoryview]:
        fields = entry.views()
        jid, minion_id, load = fields["jid"], fields["id"], fields["load"]
        self._window.returned(jid, minion_id)
        self._returns.noted(jid, minion_id, load, entry.stream.node)
        return jid, minion_id, fields["at"], load

    def _job_row(self, entry: Entry) -> None:
        fields = entry.fields()
        jid = fields["jid"]
        job = {**unpack_bin(fields["load"]), "jid": jid}
        minions, moment = unpack_bin(fields["minions"]), jid_seconds(jid)
        if BEGUN in job:
            # The row of a job in parts tells of the latest one, and has the minions of all
            moment = fields["at"]
            if job.get("tgt_type") == "list":
                tgt = job["tgt"]
                named = frozenset(tgt.split(",") if isinstance(tgt, str) else tgt)
                minions = [minion for minion in minions if minion in named]
        for kept in ("kwargs", BEGUN):
            job.pop(kept, None)
        self._judge(entry.stream.node, jid, job, minions, moment)

    # -- time

    def _schedule(self) -> None:
        due = [t for t in (self._returns.next_tick(), self._window.next_tick()) if t is not None]
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
        self._returns.tick(now)
        for offer in self._window.again(now):
            self._offer(offer)
        for closed in self._window.tick(now, self._holders.holders()):
            if closed.unreached:
                self._unreached.put(closed.jid, {}, closed.unreached, now)
                self._counters["jobs:unreached"] += len(closed.unreached)
        self._schedule()


def _for_minions(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job map as minions get it: who asked is between the masters."""
    return {name: value for name, value in job.items() if name != EAUTH}


def _tell_all(peers: IPeers, word: str, body: bytes) -> None:
    for link in peers.links():
        link.tell(word, body)
