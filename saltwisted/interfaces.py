"""
The interfaces between floors: what one floor may ask of another.

A store, a bus or a server is known to its users only by a Protocol from this module, so that a test
can replace it with a fake, and a cluster with a replicated one. Any object with the right methods
fits; beside each implementation, one line has mypy compare the two (C{_Name: type[IName] = Name}).
Nothing is decided here. Values that pass through an interface are plain data or frozen classes from
C{wire} and C{domain}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Entropy = Callable[[int], bytes]
"""C{n} random bytes; C{os.urandom} in service, seeded in tests."""


class Event(Protocol):
    """An event on the bus: a tag, a map, and the node where it was fired."""

    tag: str
    data: Mapping[str, Any]
    origin: str


class IEventBus(Protocol):
    """The only path between neighbours of floor 5. Reactor thread only."""

    def fire(self, tag: str, data: Mapping[str, Any], origin: str = "") -> None:
        """
        Give an event to every matching subscriber, in order of subscription.

        If a subscriber raises, the error is logged, and only this subscriber loses the event.
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
        """Write a key atomically in this state, and remove it from the others (unless denied)."""

    def move(self, minion_id: str, source: str, target: str) -> bool:
        """Move a key between states; false if it is not in the source state."""

    def delete(self, minion_id: str, states: Iterable[str]) -> Sequence[str]:
        """Remove the key from these states; returns the states that had one."""

    def on_change(self, receiver: Callable[[str, str, str], None]) -> None:
        """Call C{receiver(minion_id, old_state, new_state)}; C{""} means absent."""


class IRequestServer(Protocol):
    """A transport that receives requests and sends one reply for each."""

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
        """The pillar of one minion, compiled or cached; errors are in C{_errors}, as in Salt."""


# -- the cluster (docs/adr/005-cluster-seams.md)


class Fold(Protocol):
    """
    The result of the entries of one kind of fact; see L{saltwisted.domain.replica.fold}.

    C{apply} is commutative, associative and idempotent. C{body} is a map of plain data, C{stamp} a
    hybrid logical clock, C{origin} a C{(node, incarnation, number)}.
    """

    kind: str

    def apply(self, body: Mapping[str, Any], stamp: int, origin: Any) -> Sequence[Any]:
        """
        Join one fact in; returns what changed, in a form that depends on the fold, or nothing.

        @raises WireError: the body is not of this kind; nothing has changed.
        """

    def dump(self) -> Iterator[Any]:
        """C{(body, stamp, origin)} for everything that is needed to rebuild the fold."""

    def snapshot(self) -> Iterator[Any]:
        """As L{dump}, for this node's own disk: without data that is stored elsewhere on it."""

    def digest(self) -> bytes:
        """16 bytes that are equal on two nodes with the same contents."""

    def buckets(self) -> bytes:
        """256 such digests, one after another, each for a part of the fold."""

    def dump_buckets(self, buckets: Container[int]) -> Iterator[Any]:
        """As L{dump}, but only some parts."""

    def expire(self, ignored: Mapping[Any, int], dropped: Mapping[Any, int]) -> int:
        """
        Forget old deletions: C{ignored} no longer counts against acts that did not know of it,
        C{dropped} is removed. There is nothing to do if nothing is deleted.
        """

    def newest(self, body: Mapping[str, Any]) -> int:
        """The stamp that an act must exceed to replace what it has seen here; 0: any will do."""

    def foreseen(self, body: Mapping[str, Any], stream: Any) -> int:
        """Up to which number an act says that it has seen a stream; 0 where acts do not say."""


class ILog(Protocol):
    """
    A replicated log: streams of entries, numbered without gaps. Reactor thread only.

    An entry (L{saltwisted.domain.replica.entry.Entry}) counts as known when it is on disk
    here. Knowledge is a map of C{(node, incarnation)} to the last number.
    """

    @property
    def name(self) -> str:
        """The name of this log among those of a node; its words on a link begin with it."""

    @property
    def stream(self) -> Any:
        """C{(node, incarnation)} of the stream to which this node appends now."""

    @property
    def last(self) -> int:
        """The number of the newest entry of that stream, on disk or not."""

    def knowledge(self) -> Mapping[Any, int]:
        """How far each stream is on disk."""

    def floor(self) -> Mapping[Any, int]:
        """Up to where entries are merged into the state, which a node that knows less needs."""

    def forgotten(self) -> Mapping[Any, int]:
        """
        Up to where tombstones may have been forgotten: a node that knows something, but less than
        this, was away for too long and has to join as a new node.
        """

    def aged(self) -> Mapping[Any, int]:
        """
        What has been known here for a day at least: only that may be ignored because another
        member says so. Everything, where the log itself is that new.
        """

    def forget(self, ignored: Mapping[Any, int]) -> None:
        """Another member may have forgotten tombstones up to here; all of that is known here."""

    def since(self, after: Mapping[Any, int], limit: int) -> Awaitable[Sequence[Any]]:
        """
        Entries beyond C{after}, in order within each stream, of about C{limit} bytes together and
        at least one if there is any. C{after} covers the floor.
        """

    def append(self, kind: str, body: Mapping[str, Any]) -> Awaitable[Any]:
        """
        Add an entry to this node's stream; fires with the L{Entry} when it is on disk.

        It is in the folds when this returns, and is sent to no other node before it is on disk.

        @raises StoreError: at once, if the disk is too far behind.
        """

    def merge(self, entries: Sequence[Any], source: str) -> Awaitable[Sequence[Any]]:
        """
        Add entries of other nodes; fires when they are on disk and in the folds, with those that
        were new. Entries that do not follow without a gap are left out.

        @param source: the node that sent them.
        """

    def on_entries(self, receiver: Callable[[Sequence[Any], str], None]) -> None:
        """Call C{receiver(entries, source)} when entries are on disk; C{""} is this node."""

    def state(self) -> tuple[Mapping[Any, int], Iterator[tuple[str, Any]]]:
        """
        The whole state: knowledge, and C{(kind, fact)} that contain at least that much. A log
        without a state returns expired entries as knowledge, and no facts.
        """

    def merge_state(
        self, facts: Sequence[tuple[str, Any]], knowledge: Mapping[Any, int] | None
    ) -> Awaitable[None]:
        """
        Add a part of another node's state; the last part has the knowledge that it gives. Fires
        when it is on disk.
        """

    def merge_facts(self, facts: Sequence[tuple[str, Any]]) -> Awaitable[None]:
        """Add facts of a peer that has the same knowledge but different contents."""

    def digests(self) -> Mapping[str, bytes]:
        """
        The digest of each kind; equal knowledge means equal digests. Empty while that does not
        hold: own entries are not on disk yet, or a whole state is being received.
        """

    def buckets(self, kind: str) -> bytes:
        """The digests of the parts of one kind."""

    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Any]:
        """The facts of some parts of one kind."""

    def renew(self) -> Awaitable[None]:
        """
        Begin a new incarnation, because another node knows more of this stream than this node
        itself. What no other node had confirmed is added again under the new one.
        """

    def confirmed(self, number: int) -> None:
        """Another node has this node's present stream up to here on its disk."""


class IPeerLink(Protocol):
    """One live, mutually authenticated connection to a member. Reactor thread only."""

    @property
    def node(self) -> str:
        """The member's node id, from its certificate and the membership."""

    @property
    def queued(self) -> int:
        """Bytes that wait to be sent, by both C{tell} and C{ask}."""

    def tell(self, word: str, body: bytes, tail: bytes | memoryview = b"") -> None:
        """
        Send one way: C{body}, and what follows it, not copied. Bodies of one word come in order,
        each once, while the link lives; what is not read when it ends is lost. At most 16 MiB.
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
        Call C{handler(node, body)} for each C{tell} and C{ask} of this word. Its result, or that of
        its Awaitable (bytes or C{None}), is the answer to an C{ask}.
        """

    def stream(self, purpose: str, factory: Callable[[str, bool], Any]) -> None:
        """
        Open a separate framed connection to each member for C{purpose}: C{factory(node, dialled)}
        makes the protocol of either side.
        """


# -- what a master asks of whatever stands beside it (docs/adr/009-seams-before-walls.md); what it
# does alone is in L{saltwisted.master.seams}


class IKeyChanges(Protocol):
    """Who confirms that keys have changed."""

    def together(self) -> AbstractContextManager[None]:
        """Entered while an operator changes several keys: they become one act."""

    def in_one(self) -> AbstractContextManager[None]:
        """Entered while several sign-ins are decided: their changes are written as one."""

    def settled(self) -> Awaitable[Sequence[str]]:
        """
        Awaited after an operator has changed keys; returns the members that have not confirmed the
        change by then.
        """


class IVoucher(Protocol):
    """Who else lets a minion in, besides the site's rules."""

    def pre_accepted(self, auth: Any) -> bool:
        """Whether a token vouches for a L{saltwisted.wire.commands.Auth}; uses the token."""


class ISecrets(Protocol):
    """The source of the secrets from which session keys are derived."""

    def versions(self) -> Sequence[Any]:
        """The valid L{saltwisted.wire.sessionkey.SessionSecret}s, newest first."""

    def acceptance(self, minion_id: str) -> int | None:
        """Number of the acceptance of a minion's key, or C{None} if it is not accepted."""


class IKeyAgreement(Protocol):
    """Who decides when the publish key changes."""

    def request(self, why: str) -> bool:
        """Take over a request for a new key; false if the master makes one by itself."""


class IJobHearer(Protocol):
    """
    Who is informed of each job that is published here.

    @ivar cares_for_late: whether it makes sure that minions that connect later get a job. If not, a
        master does so by itself, for jobs that it publishes again after a start.
    """

    cares_for_late: bool

    def job_published(
        self, job: Mapping[str, Any], minions: Sequence[str], given: float | None = None
    ) -> None:
        """
        A job (its map, the minions) is being published.

        @param given: time of day, if the jid does not say when it was given: for a job in parts,
            which share a jid.
        """

    def unreached(self, jid: str) -> Sequence[str]:
        """The minions to which a job of the last minutes could not be sent."""


class IAcknowledging(Protocol):
    """
    When a minion is told that its master has its return; L{saltwisted.claiming.IKeptEvents} does
    the same for events.
    """

    def return_stored(self, jid: str, minion_id: str) -> Any:
        """
        A return is on disk here: returns a Deferred that fires when it may be acknowledged, or
        C{None} if it may be at once.
        """

    def repeated(self, minion_id: str, load: Mapping[str, Any]) -> Any:
        """The jid of a return without one on another node, or C{None}; awaitable if it is long."""

    def one_copy(self, jid: str) -> Awaitable[Sequence[str]]:
        """The minions whose return is only on this node, if there are several nodes."""


class IPins(Protocol):
    """Which generation of the files a minion is served, and where that of a job is pinned."""

    @property
    def newest(self) -> Any:
        """The L{saltwisted.master.fileserver.FileServer} of the newest files."""

    def files(self, minion: str) -> Any:
        """
        The file server for one minion while one of its jobs is pinned, or a Deferred of it; C{None}
        for that of the newest files.
        """

    def still(self) -> Any:
        """
        A file server of the present files, as far as they can be pinned: for a run of this master,
        which reads the same from its beginning to its end.
        """

    def again(self, generation: str) -> Awaitable[Any]:
        """The file server for a continued run: over the commits of its generation, or an error."""

    def follow(self, jid: str, fun: Any, generation: str) -> Awaitable[None]:
        """
        A job is a step of a run on this generation, and runs on its commits; before L{facts}.

        @raises DeniedError: they are not available.
        """

    def choose(
        self, jid: str, fun: Any, generation: str, minions: Sequence[str]
    ) -> Awaitable[Sequence[str]]:
        """
        A job of this jid must run on an earlier tree; called before L{facts}.

        @return: those of its minions that get the files of an older job until it has returned.
        @raises DeniedError: it cannot, by name: the tree is unknown or no longer kept.
        """

    def facts(self, jid: str, fun: Any) -> Mapping[str, Any]:
        """Further facts for the record of a new job: plain data."""

    def notes(self, jid: str) -> Mapping[str, Any]:
        """What became known of a job after it was recorded."""

    def published(self, jid: str, minions: Sequence[str]) -> None:
        """A job is being published: its minions are pinned."""

    def returned(self, jid: str, minion: str) -> None:
        """A minion has returned: it gets the newest files again."""


class IPillarHolders(Protocol):
    """Who compiles a pillar, and from what."""

    @property
    def elsewhere(self) -> bool:
        """Whether this master has no pillars, and asks one that has them."""

    def ask(self, question: bytes) -> Awaitable[bytes]:
        """
        Have another master answer (L{saltwisted.master.handlers.pillar}); the private reply, sealed
        for its minion.

        @raises TransportClosed: no master has them.
        """

    def generation(self) -> int:
        """Changes when the trees from which pillars are compiled are replaced as a whole."""

    def roots(self, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """The directories that replace those of C{pillar_roots}, by environment."""


class IWhereabouts(Protocol):
    """Which minions are at other nodes."""

    def elsewhere(self) -> Mapping[str, str]:
        """Minion to node; empty for a lone master."""

    def refresh(self) -> Awaitable[None]:
        """Awaited before an answer that must be current."""

    def came(self, minion_id: str) -> None:
        """A minion has signed in here, or has sent its first request."""


class IMasters(Protocol):
    """Where our minions find the masters of a cluster."""

    def masters(self) -> Sequence[str]:
        """C{host} or C{host:port} of each; empty for a lone master."""

    @property
    def serves(self) -> str:
        """Which of them this master is."""


class IVouching(Protocol):
    """Who signs the certificate of this node's HTTP API."""

    @property
    def pin(self) -> str:
        """SHA-256 of the authority's public key; C{""} if there is no authority."""

    def names(self) -> Sequence[str]:
        """The names and addresses of this node; the first is its id."""

    def issue(self, public: bytes, names: Sequence[str], days: int) -> tuple[bytes, bytes]:
        """
        A certificate for a key (DER) with these names, and that of the authority, PEM.

        @raises WireError: there is no authority, or its key cannot be used.
        """

    def on_change(self, hear: Callable[[], None]) -> None:
        """Whenever C{hear} is called, there may be another authority."""


class IGate(Protocol):
    """Whether a request may be processed now."""

    def keeps(self, frame: bytes | memoryview, peer: str, reply: Callable[[bytes], None]) -> bool:
        """Take over a request that has to wait; it comes back by itself."""


class IPruneTime(Protocol):
    """The time by which old data is pruned."""

    def time(self) -> float | None:
        """C{None}: nothing may be pruned now."""

    @property
    def problem(self) -> str:
        """Why nothing may be pruned, or C{""}; for the status."""


class IOrchestrations(Protocol):
    """
    Where orchestrations are recorded while they run, so that they can be shown and continued.
    Reactor thread only.

    A run has the jid of its runner. Its steps have numbers: the places of their chunks in the
    compiled order, from 0; listening states come after these. If a method fails with a
    L{saltwisted.errors.SaltwistedError}, the run ends here, before it does anything else.
    """

    def run_begin(self, jid: str, run: Mapping[str, Any]) -> Awaitable[None]:
        """
        A run is compiled; its first step begins when this fires.

        @param run: plain data: C{chunks} (in order), C{pillar} (the digest of the pillar with which
            they were rendered), C{generation} (of the roots, or C{""}), C{user} and C{eauth}
            (who has begun it), C{fun} and C{options} (everything else that
            L{IOrchestrating.resume} needs), C{parent} (the jid of the run of which this is a step,
            or C{""}).
        """

    def step_begin(
        self, jid: str, number: int, low: Mapping[str, Any], proposed: str
    ) -> Awaitable[Mapping[str, Any]]:
        """
        A step is about to act; it does so when this fires. A step that is tried again (C{retry})
        begins again.

        @param low: its chunk.
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
        The job of a step is published in parts under its jid; the first may be when this fires.

        @param turns: the minions of each part.
        @param lost: which minions did not answer before, and a text about each.
        """

    def step_part(self, jid: str, number: int, part: int) -> Awaitable[bool]:
        """
        A part is about to be published, and is when this fires with true. With false, it certainly
        was before the takeover, and only has to be awaited.

        @param part: counted from 0.
        """

    def step_end(self, jid: str, number: int, result: Mapping[str, Any]) -> Awaitable[None]:
        """
        A step has its result; the next one begins when this fires. Steps that are not run because
        of their requisites have one too, and have not begun.
        """

    def run_end(self, jid: str, outcome: Mapping[str, Any]) -> Awaitable[None]:
        """
        A run is over. This is not called if the master dies or is stopped.

        @param outcome: C{success}, and C{why} if it was ended from outside.
        """

    def serve(self, orchestrating: IOrchestrating) -> None:
        """Called once, before the start: sets the object that continues and ends runs here."""

    def holds(self, jid: str) -> bool:
        """Whether a run may still act here: check in the same turn, just before each effect."""

    def show(self, jid: str) -> Awaitable[Any]:
        """
        What all nodes know of a run (L{saltwisted.domain.orchestration.words.Run}).

        @raises DeniedError: nobody knows it.
        """

    def listed(self, most: int = 0) -> Awaitable[Sequence[Mapping[str, Any]]]:
        """
        The known runs, oldest first, as plain data without their steps.

        @param most: only the newest of them, so many; 0 for all.
        """

    def go_on(self, jid: str, first: str, user: str) -> Awaitable[Any]:
        """
        An operator wants a run to continue here that failed, was interrupted or stopped; returns
        what is known of it then.

        @param first: the number or id of the step from which to continue; C{""}: the first one that
            is not done. Those before it count as done.
        @raises DeniedError: it cannot continue.
        @raises TakenOver: another node has it by now.
        """

    def stop(self, jid: str, user: str) -> Awaitable[Any]:
        """
        An operator ends a run at once, on whichever node it runs. The work of minions goes on.

        @raises DeniedError: it does not run, or its node cannot be reached.
        @raises TakenOver: another node has it by now.
        """

    def wished(self, jid: str, wishes: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        A run that goes on here must halt, continue or end: when this fires, a node that takes over
        knows it.

        @param wishes: everything that was requested for it (L{saltwisted.worker.states.pauses}).
        """

    def wish_elsewhere(self, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        The same for a run on another node, which is asked to do it.

        @param jid: its own, or the one that was given to it by C{orchestration_jid}.
        @param wish: as L{IOrchestrating.wish} takes it.
        @raises DeniedError: it does not run, or its node cannot be reached.
        """

    def startService(self) -> Any:
        """Continue what was left. It may be awaited."""

    def stopService(self) -> Any:
        """Leave the runs of this node to others. It may be awaited."""


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
        Continue a run whose steps were compiled before, under its own jid.

        @param run: the argument of L{IOrchestrations.run_begin}.
        @param done: the results of steps that must not be run, by their numbers as text.
        @param wishes: where it must halt or end.
        @return: the runner's answer, as from L{saltwisted.master.calls.Calls.runner}.
        """

    def wish(self, jid: str, wish: Mapping[str, Any], user: str) -> Awaitable[None]:
        """
        Make a run halt, continue or end at one of its steps, wherever it runs.

        @param jid: its own, or the one in its events.
        @param wish: see L{saltwisted.worker.states.pauses.apply}.
        @raises RemoteError: the run does not exist.
        """

    def stop(self, jid: str, why: str) -> bool:
        """End a run at once, in the middle of a step; returns whether it ran here."""
