"""
What the machine that ships a log (L{saltwisted.domain.replica.ship}) reads of it, and the effects
that it requests; methods that are named here are the machine's.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from saltwisted.domain.replica.entry import Entry, Stream
from saltwisted.domain.replica.fold import Fact
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.domain.replica.words import Facts, Message, encode

BATCH_BYTES = 256 * 1024


class LogView(Protocol):
    """What the machine reads of a log: everything in memory, as of now."""

    @property
    def stream(self) -> Stream: ...
    @property
    def last(self) -> int:
        """The number of the newest entry of the present stream, be it on disk yet or not."""

    def knowledge(self) -> Knowledge: ...
    def floor(self) -> Knowledge: ...
    def forgotten(self) -> Knowledge: ...
    def digests(self) -> Mapping[str, bytes]:
        """Empty while own entries are not on disk: then they do not fit the knowledge."""

    def aged(self) -> Knowledge:
        """What has been known here for a day at least, or everything if this log is that new."""

    def buckets(self, kind: str) -> bytes: ...
    def dump_buckets(self, kind: str, buckets: Container[int]) -> Sequence[Fact]: ...


@frozen
class Send:
    """
    Send these bytes to a peer.

    @ivar tail: what follows them: a long body, which is not copied.
    """

    peer: str
    message: bytes = field(repr=False)
    tail: bytes | memoryview = field(default=b"", repr=False)


@frozen
class Read:
    """Read entries and pass them to C{read}; pass none if that failed."""

    peer: str
    after: Knowledge
    limit: int = BATCH_BYTES


@frozen
class Merge:
    """Put entries of other nodes on disk, then call C{stored} or C{unstored} of the machine."""

    peer: str
    entries: Sequence[Entry]


@frozen
class SendState:
    """Send the whole state in parts (L{StatePart}), as fast as the link takes it."""

    peer: str


@frozen
class MergeState:
    """
    Put a part of a peer's state on disk; after the last one (which has C{knowledge}) call
    C{state_stored}.
    """

    peer: str
    facts: Facts
    knowledge: Knowledge | None = None


@frozen
class MergeFacts:
    """Put facts of a peer that differ from ours on disk."""

    peer: str
    facts: Facts


@frozen
class Renew:
    """Begin a new incarnation, then call C{renewed} or C{unrenewed}."""

    peer: str
    stream: Stream
    number: int


@frozen
class Forget:
    """A peer has forgotten tombstones up to here: ignore them here, too."""

    ignored: Knowledge


@frozen
class TooFarBehind:
    """
    The peer was away for too long (or, with C{by_peer}, this node was): one of the two has to join
    as a new node.
    """

    peer: str
    by_peer: bool


@frozen
class TooManyStreams:
    """The peer names more streams than a cluster has: nothing is exchanged with it."""

    peer: str


@frozen
class Doubted:
    """
    The peer claims too often that it knows more of us than we do: the claim is no longer believed.
    """

    peer: str


@frozen
class Differs:
    """
    Equal knowledge, different contents: a disk or a program is at fault. It is being repaired.
    """

    peer: str
    kind: str


Effect = (
    Send
    | Read
    | Merge
    | SendState
    | MergeState
    | MergeFacts
    | Renew
    | Forget
    | TooFarBehind
    | TooManyStreams
    | Differs
    | Doubted
)


def send(peer: str, message: Message) -> Send:
    """A message to a peer."""
    return Send(peer, encode(message))
