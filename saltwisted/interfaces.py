"""
The seams of the house: what one floor may ask of another.

A store, a bus or a server is known to its users only by an interface from
this module, so that a test can put a fake in its place and a cluster can put a
replicated one. Nothing is decided here. Values that cross a seam are plain
data or frozen classes from C{wire} and C{domain}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NewType, Protocol

from zope.interface import Attribute, Interface

MinionId = NewType("MinionId", str)
NodeId = NewType("NodeId", str)
Jid = NewType("Jid", str)
Fingerprint = NewType("Fingerprint", str)

Entropy = Callable[[int], bytes]
"""C{n} random bytes; C{os.urandom} in service, seeded in tests."""


class Event(Protocol):
    """What travels on the bus: a tag, a map, and the node where it arose."""

    tag: str
    data: Mapping[str, Any]
    origin: str


class IEventBus(Interface):
    """The one path between neighbours of floor 5. Reactor thread only."""

    def fire(tag: str, data: Mapping[str, Any], origin: str = "") -> None:
        """
        Give an event to every matching subscriber, in order of subscription.

        A subscriber that raises is logged and loses this event alone.
        """

    def subscribe(
        prefix: str, receiver: Callable[[str, Mapping[str, Any]], None]
    ) -> Callable[[], None]:
        """Call C{receiver(tag, data)} for tags with this prefix; returns the un-subscribe call."""


class IKeyStore(Interface):
    """
    Minion keys in Salt's directories: one state per minion id.

    States are Salt's own words: C{accepted}, C{pending}, C{rejected}, C{denied}.
    The read methods are called per request: one C{stat}, no directory scan.
    """

    def accepted(minion_id: str) -> bytes | None:
        """The accepted public key (PEM bytes), or C{None}; notices outside changes by C{stat}."""

    def pending(minion_id: str) -> bytes | None:
        """The pending public key, or C{None}."""

    def rejected(minion_id: str) -> bytes | None:
        """The rejected public key, or C{None}."""

    def denied(minion_id: str) -> bytes | None:
        """The denied public key, or C{None}."""

    def list_keys() -> Mapping[str, Sequence[str]]:
        """State (C{accepted pending rejected denied}) to sorted ids."""

    def accepted_ids() -> Sequence[str]:
        """Sorted ids of accepted minions, from memory."""

    def put(state: str, minion_id: str, pub: bytes) -> None:
        """Write a key atomically in this state and take it out of the others (unless denied)."""

    def move(minion_id: str, source: str, target: str) -> bool:
        """Move a key between states; false if it is not in the source state."""

    def delete(minion_id: str, states: Iterable[str]) -> Sequence[str]:
        """Remove the key from these states; returns the states where there was one."""

    def on_change(receiver: Callable[[str, str, str], None]) -> None:
        """Call C{receiver(minion_id, old_state, new_state)}; C{""} means absent."""


class IJobStore(Interface):
    """Jobs and returns, on disk before they are acknowledged. Reactor thread only."""

    def save_job(jid: str, load: Mapping[str, Any], minions: Sequence[str]) -> Awaitable[None]:
        """Remember a published job and whom it expects."""

    def save_return(load: Mapping[str, Any]) -> Awaitable[bool]:
        """
        Store a return (Salt's C{_return} load). Fires once it is on disk: true if it
        was new, false if C{(jid, id)} was there already. Idempotent.
        """

    def job(jid: str) -> Awaitable[Mapping[str, Any] | None]:
        """Load and expected minions of one job."""

    def returns(jid: str) -> Awaitable[Mapping[str, Mapping[str, Any]]]:
        """Minion id to C{{return, retcode, success, out?}}."""

    def list_jobs(**criteria: Any) -> Awaitable[Sequence[Mapping[str, Any]]]:
        """Jobs, newest last; criteria as in C{jobs.list_jobs}."""


class IMinionCache(Interface):
    """What a master knows about minions: grains, pillar, mine. Memory in front of disk."""

    def get(bank: str, minion_id: str) -> Mapping[str, Any] | None:
        """Bank is C{grains}, C{pillar} or C{mine}."""

    def put(bank: str, minion_id: str, value: Mapping[str, Any]) -> None:
        """Replace; written behind, atomically, mode 0600."""

    def delete(bank: str, minion_id: str) -> None:
        """Forget."""

    def ids(bank: str) -> Sequence[str]:
        """Minion ids that have a value in the bank."""


class IRequestServer(Interface):
    """A transport that receives requests and takes one reply for each."""

    def listen(handler: Callable[[bytes, str, Callable[[bytes], None]], None]) -> None:
        """C{handler(frame, peer_address, reply)}; C{reply} is called once, at any time later."""

    port = Attribute("The bound TCP port.")


class IPublishServer(Interface):
    """A transport that sends one publication to all subscribers, or to those of some topics."""

    def publish(payload: bytes, topics: Sequence[bytes] | None = None) -> None:
        """Never blocks; a subscriber above its high-water mark loses messages, and is counted."""

    port = Attribute("The bound TCP port.")


class IPillarSource(Interface):
    """Where pillars come from."""

    def pillar(
        minion_id: str,
        grains: Mapping[str, Any],
        saltenv: str | None,
        pillarenv: str | None,
        override: Mapping[str, Any] | None,
    ) -> Awaitable[Mapping[str, Any]]:
        """Compile (or remember) the pillar of one minion; errors are in C{_errors}, as in Salt."""
