"""
The seams of the house: what one floor may ask of another.

A store, a bus or a server is known to its users only by a Protocol from this module, so that a
test can put a fake in its place and a cluster can put a replicated one. An object that has the
methods fits; mypy compares the two where an implementation stands
(C{_Name: type[IName] = Name}). Nothing is decided here. Values that cross a seam
are plain data or frozen classes from C{wire} and C{domain}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Entropy = Callable[[int], bytes]
"""C{n} random bytes; C{os.urandom} in service, seeded in tests."""


class Event(Protocol):
    """What travels on the bus: a tag, a map, and the node where it arose."""

    tag: str
    data: Mapping[str, Any]
    origin: str


class IEventBus(Protocol):
    """The one path between neighbours of floor 5. Reactor thread only."""

    def fire(self, tag: str, data: Mapping[str, Any], origin: str = "") -> None:
        """
        Give an event to every matching subscriber, in order of subscription.

        A subscriber that raises is logged and loses this event alone.
        """

    def subscribe(
        self, prefix: str, receiver: Callable[[str, Mapping[str, Any]], None]
    ) -> Callable[[], None]:
        """Call C{receiver(tag, data)} for tags with this prefix; returns the un-subscribe call."""


class IKeyStore(Protocol):
    """
    Minion keys in Salt's directories: one state per minion id.

    States are Salt's own words: C{accepted}, C{pending}, C{rejected}, C{denied}.
    The read methods are called per request: one C{stat}, no directory scan.
    """

    def accepted(self, minion_id: str) -> bytes | None:
        """The accepted public key (PEM bytes), or C{None}; notices outside changes by C{stat}."""

    def pending(self, minion_id: str) -> bytes | None:
        """The pending public key, or C{None}."""

    def denied(self, minion_id: str) -> bytes | None:
        """The denied public key, or C{None}."""

    def key(self, state: str, minion_id: str) -> bytes | None:
        """The public key in this state, or C{None}."""

    def list_keys(self) -> Mapping[str, Sequence[str]]:
        """State (C{accepted pending rejected denied}) to sorted ids."""

    def accepted_ids(self) -> Sequence[str]:
        """Sorted ids of accepted minions, from memory."""

    def put(self, state: str, minion_id: str, pub: bytes) -> None:
        """Write a key atomically in this state and take it out of the others (unless denied)."""

    def move(self, minion_id: str, source: str, target: str) -> bool:
        """Move a key between states; false if it is not in the source state."""

    def delete(self, minion_id: str, states: Iterable[str]) -> Sequence[str]:
        """Remove the key from these states; returns the states where there was one."""

    def on_change(self, receiver: Callable[[str, str, str], None]) -> None:
        """Call C{receiver(minion_id, old_state, new_state)}; C{""} means absent."""


class IRequestServer(Protocol):
    """A transport that receives requests and takes one reply for each."""

    def listen(self, handler: Callable[..., None]) -> None:
        """C{handler(frame or view of it, peer_address, reply)}; C{reply} is called once, later."""

    @property
    def port(self) -> int:
        """The bound TCP port."""


class IPublishServer(Protocol):
    """A transport that sends one publication to all subscribers, or to those of some topics."""

    def publish(self, payload: bytes, topics: Sequence[bytes] | None = None) -> None:
        """Never blocks; a subscriber above its high-water mark loses messages, and is counted."""

    @property
    def port(self) -> int:
        """The bound TCP port."""


class IPillarSource(Protocol):
    """Where pillars come from."""

    def pillar(
        self,
        minion_id: str,
        grains: Mapping[str, Any],
        saltenv: str | None,
        pillarenv: str | None,
        override: Mapping[str, Any] | None,
    ) -> Awaitable[Mapping[str, Any]]:
        """Compile (or remember) the pillar of one minion; errors are in C{_errors}, as in Salt."""


# -- the cluster (docs/adr/005-cluster-seams.md)


class Fold(Protocol):
    """
    What the entries of one kind of fact add up to; see L{saltwisted.domain.replica.fold}.

    C{apply} is commutative, associative and idempotent. C{body} is a map of plain data, C{stamp} a
    hybrid logical clock, C{origin} a C{(node, incarnation, number)}.
    """

    kind: str

    def apply(self, body: Mapping[str, Any], stamp: int, origin: Any) -> Sequence[Any]:
        """
        Join one fact in; what changed, in the fold's own words, or nothing.

        @raises WireError: the body is none of this kind; nothing has changed.
        """

    def dump(self) -> Iterator[Any]:
        """C{(body, stamp, origin)} for everything that is needed to rebuild the fold."""

    def snapshot(self) -> Iterator[Any]:
        """As L{dump}, for this node's own disk: without what is kept elsewhere on it."""

    def digest(self) -> bytes:
        """16 bytes that are equal on two nodes that hold the same."""

    def buckets(self) -> bytes:
        """256 such digests, one after another, each of a part of the fold."""

    def dump_buckets(self, buckets: Container[int]) -> Iterator[Any]:
        """As L{dump}, of some parts."""

    def expire(self, ignored: Mapping[Any, int], dropped: Mapping[Any, int]) -> int:
        """
        Forget what was deleted by then: C{ignored} no longer counts against what did not know of
        it, C{dropped} is gone. Nothing to do where nothing is deleted.
        """


class ILog(Protocol):
    """
    A replicated log: streams of entries, numbered without gaps. Reactor thread only.

    An entry (L{saltwisted.domain.replica.entry.Entry}) counts as known when it is on disk
    here. Knowledge is a map of C{(node, incarnation)} to the last number.
    """

    @property
    def name(self) -> str:
        """Which log this is among those of a node, as its words on a link begin."""

    @property
    def stream(self) -> Any:
        """C{(node, incarnation)} of what this node appends now."""

    @property
    def last(self) -> int:
        """The number of the newest entry of that stream, on disk or not."""

    def knowledge(self) -> Mapping[Any, int]:
        """How far each stream is on disk."""

    def floor(self) -> Mapping[Any, int]:
        """How far entries are no longer kept one by one: who knows less needs the whole state."""

    def forgotten(self) -> Mapping[Any, int]:
        """
        How far tombstones may have been forgotten: a node that knows something, but less than
        this, was away for too long and has to join as new.
        """

    def forget(self, ignored: Mapping[Any, int]) -> None:
        """Another member may have forgotten tombstones up to here, which is all known here."""

    def since(self, after: Mapping[Any, int], limit: int) -> Awaitable[Sequence[Any]]:
        """
        Entries beyond C{after}, in order within each stream, of about C{limit} bytes together and
        at least one if there is any. C{after} covers the floor.
        """

    def append(self, kind: str, body: Mapping[str, Any]) -> Awaitable[Any]:
        """
        Add an entry to this node's stream; fires with the L{Entry} when it is on disk.

        It is in the folds when this returns, and goes to no other node before it is on disk.

        @raises StoreError: at once, when the disk is too far behind.
        """

    def merge(self, entries: Sequence[Any], source: str) -> Awaitable[Sequence[Any]]:
        """
        Take entries of other nodes; fires when they are on disk and in the folds, with
        those that were new. What does not follow without a gap is left out.

        @param source: the node that sent them.
        """

    def on_entries(self, receiver: Callable[[Sequence[Any], str], None]) -> None:
        """Call C{receiver(entries, source)} when entries are on disk; own have source C{""}."""

    def state(self) -> tuple[Mapping[Any, int], Iterator[tuple[str, Any]]]:
        """
        The whole state: knowledge, and C{(kind, fact)} that contain at least that much. A log
        that keeps no state gives what has expired as knowledge and no facts.
        """

    def merge_state(
        self, facts: Sequence[tuple[str, Any]], knowledge: Mapping[Any, int] | None
    ) -> Awaitable[None]:
        """
        Take a part of another node's state; with the last part comes what is known by it.
        Fires when it is on disk.
        """

    def merge_facts(self, facts: Sequence[tuple[str, Any]]) -> Awaitable[None]:
        """Take facts of a peer that knows the same and holds something else."""

    def digests(self) -> Mapping[str, bytes]:
        """
        The digest of each kind; equal knowledge means equal digests. Empty while that does not
        hold: own entries are not on disk yet, or a whole state is coming in.
        """

    def buckets(self, kind: str) -> bytes:
        """The digests of the parts of one kind."""

    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Any]:
        """The facts of some parts of one kind."""

    def renew(self) -> Awaitable[None]:
        """
        Begin a new incarnation, since another node knows more of this stream than this node
        itself; what no other node had confirmed is added again under the new one.
        """

    def confirmed(self, number: int) -> None:
        """Another node has this node's present stream up to here on its disk."""


class IPeerLink(Protocol):
    """One live, mutually authenticated connection to a member. Reactor thread only."""

    @property
    def node(self) -> str:
        """The member's node id, read from its certificate and the membership."""

    @property
    def queued(self) -> int:
        """Bytes that wait to be sent, by both C{tell} and C{ask}."""

    def tell(self, word: str, body: bytes) -> None:
        """
        Send one way. Bodies of one word arrive in order, each once, as long as the link lives;
        what was not read by the other side when it ends is lost. At most 16 MiB.
        """

    def ask(self, word: str, body: bytes, timeout: float = 10.0) -> Awaitable[bytes]:
        """
        Ask, and wait for the answer.

        @raises RequestTimeout: no answer in C{timeout} seconds.
        @raises TransportClosed: the link ended first.
        @raises RemoteError: the other side refused or failed.
        """

    def close(self, reason: str) -> None:
        """End the link; C{reason} goes to the log."""


class IPeers(Protocol):
    """The links to the other members. Reactor thread only."""

    def links(self) -> Sequence[Any]:
        """The L{IPeerLink}s that are up, at most one for each member, sorted by node."""

    def on_link(self, receiver: Callable[[Any, bool], None]) -> None:
        """Call C{receiver(link, up)} when a link is up, and when it has ended."""

    def answer(self, word: str, handler: Callable[[str, bytes], Any]) -> None:
        """
        Have C{handler(node, body)} called for each C{tell} and C{ask} of this word. What it gives
        back, or what its Awaitable fires with (bytes or C{None}), is the answer to an C{ask}.
        """

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        """
        Have a framed connection of its own to each member for C{purpose}: C{factory(node,
        dialled)} makes the protocol of either side.
        """


# -- what a master asks of whatever stands beside it (docs/adr/009-seams-before-walls.md); what it
# does alone is in L{saltwisted.master.seams}


class IKeyChanges(Protocol):
    """Who confirms that keys have changed."""

    def together(self) -> AbstractContextManager[None]:
        """Entered while an operator changes several keys: they become one act."""

    def in_one(self) -> AbstractContextManager[None]:
        """Entered while several sign-ins are decided: what they change is written as one."""

    def settled(self) -> Awaitable[Sequence[str]]:
        """
        Awaited after an operator has changed keys; the members that have not confirmed the change
        by then.
        """


class IVoucher(Protocol):
    """Who else lets a minion in, beside the site's rules."""

    def pre_accepted(self, auth: Any) -> bool:
        """Whether a token stands for who signs in (L{saltwisted.wire.commands.Auth}); uses it."""


class ISecrets(Protocol):
    """Where the secrets come from that session keys are derived from."""

    def versions(self) -> Sequence[Any]:
        """The L{saltwisted.wire.sessionkey.SessionSecret}s that count, newest first."""

    def acceptance(self, minion_id: str) -> int | None:
        """Number of the acceptance of a minion's key, or C{None} when it is not accepted."""


class IKeyAgreement(Protocol):
    """Who decides when the publish key changes."""

    def request(self, why: str) -> bool:
        """Take a request for a new key over; false if the master makes one by itself."""


class IJobHearer(Protocol):
    """
    Who hears of each job that is published here.

    @ivar cares_for_late: whether it sees to it that minions get a job that come after it. If not,
        a master does so by itself, for what it publishes again after a start.
    """

    cares_for_late: bool

    def job_published(
        self, job: Mapping[str, Any], minions: Sequence[str], given: float | None = None
    ) -> None:
        """
        A job (its map, the minions) goes out now.

        @param given: time of day, where the jid does not say when it was given: of a job that goes
            out in parts, which share a jid.
        """

    def unreached(self, jid: str) -> Sequence[str]:
        """The minions that a job of the last minutes could not be sent to."""


class IAcknowledging(Protocol):
    """
    When a minion is told that its master has what it returned; for events there is
    L{saltwisted.claiming.IKeptEvents}.
    """

    def return_stored(self, jid: str, minion_id: str) -> Any:
        """
        A return is on disk here: a Deferred that fires when it may be acknowledged, or C{None} if
        it may be at once.
        """

    def repeated(self, minion_id: str, load: Mapping[str, Any]) -> str | None:
        """The jid that a return without one has on another node, or C{None}."""

    def one_copy(self, jid: str) -> Awaitable[Sequence[str]]:
        """The minions whose return is on this node alone, where there are several."""


class IPins(Protocol):
    """Which generation of the files a minion is served, and where that of a job is pinned."""

    @property
    def newest(self) -> Any:
        """The L{saltwisted.master.fileserver.FileServer} of the newest files."""

    def files(self, minion: str) -> Any:
        """
        The file server for one minion while a job of its is pinned, or a Deferred of it;
        C{None} for that of the newest files.
        """

    def still(self) -> Any:
        """
        A file server of what is the newest now, as far as that can be pinned: for a run of this
        master, which reads the same from its beginning to its end.
        """

    def again(self, generation: str) -> Awaitable[Any]:
        """That of a run which is gone on with: over the commits of its generation, or an error."""

    def follow(self, jid: str, fun: Any, generation: str) -> Awaitable[None]:
        """
        A job is a step of a run on this generation, and runs on its commits; before L{facts}.

        @raises DeniedError: they cannot be had.
        """

    def choose(
        self, jid: str, fun: Any, generation: str, minions: Sequence[str]
    ) -> Awaitable[Sequence[str]]:
        """
        A job of this jid is to run on an earlier tree; before L{facts}.

        @return: those of its minions that are served for an older job until this has returned.
        @raises DeniedError: it cannot, by name: the tree is unknown or no longer kept.
        """

    def facts(self, jid: str, fun: Any) -> Mapping[str, Any]:
        """What else the record of a new job says: plain data."""

    def notes(self, jid: str) -> Mapping[str, Any]:
        """What became known of a job since it was recorded."""

    def published(self, jid: str, minions: Sequence[str]) -> None:
        """A job goes out now: its minions are pinned."""

    def returned(self, jid: str, minion: str) -> None:
        """A minion has returned: it is served the newest again."""


class IPillarHolders(Protocol):
    """Who compiles a pillar, and from what."""

    @property
    def elsewhere(self) -> bool:
        """Whether this master has no pillars, and asks one that has them."""

    def ask(self, question: bytes) -> Awaitable[bytes]:
        """
        Have another master answer (L{saltwisted.master.handlers.pillar}); the private reply, sealed
        for its minion.

        @raises TransportClosed: nobody has.
        """

    def generation(self) -> int:
        """Changes when what pillars are compiled from is replaced as a whole."""

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """The directories of C{pillar_roots}, by environment, that are read in their place."""


class IWhereabouts(Protocol):
    """Which minions are at other nodes."""

    def elsewhere(self) -> Mapping[str, str]:
        """Minion to node; nothing for a master alone."""

    def refresh(self) -> Awaitable[None]:
        """Awaited before an answer that shall be of this moment."""

    def came(self, minion_id: str) -> None:
        """A minion has signed in here, or has spoken for the first time."""


class IMasters(Protocol):
    """Where our minions find the masters that stand together."""

    def masters(self) -> Sequence[str]:
        """C{host} or C{host:port} of each; nothing for a master alone."""

    @property
    def serves(self) -> str:
        """Which of them is this one."""


class IVouching(Protocol):
    """Who vouches for the certificate of this node's HTTP API."""

    @property
    def pin(self) -> str:
        """SHA-256 of the authority's public key; C{""} where there is no authority."""

    def names(self) -> Sequence[str]:
        """What this node is called and where it is reached; the first is its id."""

    def issue(self, public: bytes, names: Sequence[str], days: int) -> tuple[bytes, bytes]:
        """
        A certificate for a key (DER) with these names, and that of the authority, PEM.

        @raises WireError: there is no authority, or its key is of no use.
        """

    def on_change(self, hear: Callable[[], None]) -> None:
        """There may be another authority whenever C{hear} is called."""


class IGate(Protocol):
    """Whether a request may be looked at now."""

    def keeps(self, frame: bytes | memoryview, peer: str, reply: Callable[[bytes], None]) -> bool:
        """Take a request over that has to wait; it comes back by itself."""


class IPruneTime(Protocol):
    """What time it is for who forgets."""

    def time(self) -> float | None:
        """C{None}: nothing may be forgotten now."""

    @property
    def problem(self) -> str:
        """Why nothing may be, or C{""}; for the status."""


class IOrchestrations(Protocol):
    """
    Where orchestrations are written down as they go, so that they can be shown and gone on with.
    Reactor thread only.

    A run has the jid of its runner. Its steps have numbers: the places of their calls in the order
    that was compiled, from 0; what listens to others comes after these. Whatever of this fails with
    a L{saltwisted.errors.SaltwistedError} ends the run here, before it does anything else.
    """

    def run_begin(self, jid: str, run: Mapping[str, Any]) -> Awaitable[None]:
        """
        A run is compiled; its first step begins when this fires.

        @param run: plain data: C{chunks} (the calls in their order), C{pillar} (the digest of the
            pillar that they were rendered with), C{generation} (of the roots, or C{""}), C{user},
            C{fun} and C{options} (all that L{IOrchestrating.resume} needs besides), C{parent} (the
            jid of the run that this is a step of, or C{""}).
        """

    def step_begin(
        self, jid: str, number: int, low: Mapping[str, Any], proposed: str
    ) -> Awaitable[Mapping[str, Any]]:
        """
        A step is about to act; it does so when this fires. A step that is tried again (C{retry})
        begins again.

        @param low: its call.
        @param proposed: a new jid.
        @return: C{jid}, under which it publishes, if it does (C{proposed}, unless there is one
            already), and C{result}, which is C{None} unless it has one already: then that counts,
            and it does not act. C{parts}, if another node, or another life, has decided on them:
            C{turns} and C{lost} as for L{step_parts}, and how many of them have C{begun}.
        """

    def step_parts(
        self, jid: str, number: int, turns: Sequence[Sequence[str]], lost: Mapping[str, Any]
    ) -> Awaitable[None]:
        """
        The job of a step goes out in parts under its jid; the first may when this fires.

        @param turns: the minions of each.
        @param lost: who did not answer before, and what there is to say of each.
        """

    def step_part(self, jid: str, number: int, part: int) -> Awaitable[bool]:
        """
        A part is about to go out, and does so when this fires with true. Else it did before the
        takeover, for certain, and is only to be waited for.

        @param part: counted from 0.
        """

    def step_end(self, jid: str, number: int, result: Mapping[str, Any]) -> Awaitable[None]:
        """
        A step has its result; the next one begins when this fires. Steps that are not run, since
        their requisites do not let them, have one too, and have not begun.
        """

    def run_end(self, jid: str, outcome: Mapping[str, Any]) -> Awaitable[None]:
        """
        A run is over. Nobody says so of one whose master dies or is stopped.

        @param outcome: C{success}, and C{why} if it was ended from outside.
        """

    def serve(self, orchestrating: IOrchestrating) -> None:
        """To be called once, before the start: by whom runs are gone on with here, and ended."""

    def holds(self, jid: str) -> bool:
        """Whether a run may still act here: asked in the same turn, just before each effect."""

    def show(self, jid: str) -> Awaitable[Any]:
        """
        What all nodes know of a run (L{saltwisted.domain.orchestration.words.Run}).

        @raises DeniedError: nobody knows it.
        """

    def listed(self, most: int = 0) -> Awaitable[Sequence[Mapping[str, Any]]]:
        """
        The runs that are known, oldest first, as plain data without their steps.

        @param most: the newest of them, so many; 0 for all.
        """

    def go_on(self, jid: str, first: str, user: str) -> Awaitable[Any]:
        """
        An operator has a run go on here that failed, was interrupted or stopped; what is known of
        it then.

        @param first: the number or id of the step to go on from; C{""}: the first one that is not
            done. Those before it count as done.
        @raises DeniedError: it cannot go on.
        @raises TakenOver: somebody else has it by now.
        """

    def stop(self, jid: str, user: str) -> Awaitable[Any]:
        """
        An operator ends a run at once, on whichever node it goes on. What minions do goes on there.

        @raises DeniedError: it does not go on, or its node cannot be asked.
        @raises TakenOver: somebody else has it by now.
        """

    def wished(self, jid: str, wishes: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        Somebody wants a run that goes on here to halt, to go on or to end: whoever takes over knows
        it when this fires.

        @param wishes: all that is wished of it (L{saltwisted.worker.states.pauses}).
        """

    def wish_elsewhere(self, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        The same of a run that goes on at another node, which is asked to see to it.

        @param jid: its own, or the one that was given to it by C{orchestration_jid}.
        @param wish: as L{IOrchestrating.wish} takes it.
        @raises DeniedError: it does not go on, or its node cannot be asked.
        """

    def startService(self) -> Any:
        """Go on with what was left. It may be awaited."""

    def stopService(self) -> Any:
        """Leave what goes on here to others. It may be awaited."""


class IOrchestrating(Protocol):
    """Orchestrations that run in this master. Reactor thread only."""

    @property
    def active(self) -> Mapping[str, Any]:
        """Those that run here now, by jid."""

    def resume(
        self,
        jid: str,
        run: Mapping[str, Any],
        done: Mapping[str, Mapping[str, Any]],
        wishes: Mapping[str, Any],
    ) -> Awaitable[Mapping[str, Any]]:
        """
        Go on with a run whose steps were compiled before, under its own jid.

        @param run: what L{IOrchestrations.run_begin} was told.
        @param done: the results of steps that are not to be run, by their numbers as text.
        @param wishes: where it is to halt or to end.
        @return: the runner's answer, as L{saltwisted.master.calls.Calls.runner} gives it.
        """

    def wish(self, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        Have a run halt, go on or end at one of its steps, wherever it goes on.

        @param jid: its own, or the one in its events.
        @param wish: see L{saltwisted.worker.states.pauses.apply}.
        @raises RemoteError: there is none.
        """

    def stop(self, jid: str, why: str) -> bool:
        """End a run at once, in the middle of a step; whether it ran here."""
