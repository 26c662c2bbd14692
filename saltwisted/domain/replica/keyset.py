"""
Minion keys of the whole cluster: one register for each (minion id, key).

What happens to a key is an act: C{accept}; the revocations C{reject}, C{delete} and C{deny}; and
the sightings C{pend} (a new key signed in and waits) and C{clash} (a key signed in while another
one holds the id). Every act lists the revocations of its register that its node had seen (C{seen}:
stream to number). Then:

 - A key is accepted if and only if some acceptance has seen every known revocation of it.
 - Otherwise, if there is a revocation that no other act has seen, the latest of those decides.
 - Otherwise the sightings decide: it is pending, or denied.

Only the list decides which act knew of which. Stamps order acts that did not know of each other,
and are displayed. So an old acceptance that is sent again loses, and no clock wins for ever.

A register keeps what matters of that and no history: all known revocations (C{seen}), those that no
act has seen yet (C{open}), and the earliest acceptance and sightings that have seen all. An
acceptance that names a revocation proves that it exists. So an act that has not seen all known
revocations can be forgotten for good, which makes the join associative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from attrs import field, frozen

from saltwisted.domain.causality.clock import is_stamp, stamp_seconds
from saltwisted.domain.causality.knowledge import Dot, covers, joined
from saltwisted.domain.keys import clean_key, valid_minion_id
from saltwisted.domain.replica.entry import Stream, decode_stream, is_number
from saltwisted.domain.replica.fold import Fact, Registers
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import WireError

KIND = "keys"
REVOCATIONS = ("delete", "deny", "reject")
"""Least to most severe: decides between revocations of one stamp."""
GRANTS = ("accept", "clash", "pend")
MANY = "many"
"""An act on several keys at once, which are all acted on or none: C{acts}, a list of acts."""
MAX_ACTS = 2000
MAX_SEEN = 4096
MAX_PUB = 64 * 1024
_PUB_KEPT = 2048
"""Bytes of a key whose name is kept; one of 8192 bits has 1100."""

_HEX = frozenset("0123456789abcdef")
Seen = Mapping[Stream, int]


@frozen(order=True)
class Mark:
    """
    When and where an act was done.

    @ivar by: who did it, for display.
    """

    stamp: int
    node: str
    by: str = ""

    @property
    def seconds(self) -> float:
        """When, by the clock of the node."""
        return stamp_seconds(self.stamp)


@frozen
class Open:
    """A revocation that no other act has seen."""

    number: int
    act: str
    mark: Mark

    @property
    def rank(self) -> tuple[int, str, int]:
        """The greatest decides."""
        return self.mark.stamp, self.mark.node, REVOCATIONS.index(self.act)


@frozen
class KeyRegister:
    """
    What is known of one key of one id.

    @ivar pub: the key, PEM.
    @ivar seen: every known revocation: stream to the number of the last.
    @ivar open: those that no act has seen, by stream.
    @ivar grants: the earliest acceptance and sightings that have seen all revocations.
    """

    minion_id: str
    finger: str
    pub: bytes = field(default=b"", repr=False)
    seen: Seen = field(factory=dict)
    open: Mapping[Stream, Open] = field(factory=dict)
    grants: Mapping[str, Mark] = field(factory=dict)

    @property
    def decisive(self) -> Open | None:
        """The revocation that holds, if no grant does."""
        return max(self.open.values(), key=lambda item: item.rank, default=None)

    @property
    def word(self) -> str:
        """C{accepted rejected denied deleted pending clash}, or C{""}: nothing holds."""
        if "accept" in self.grants:
            return "accepted"
        if (revoked := self.decisive) is not None:
            return {"reject": "rejected", "deny": "denied", "delete": "deleted"}[revoked.act]
        if "pend" in self.grants:
            return "pending"
        return "clash" if "clash" in self.grants else ""

    @property
    def since(self) -> Mark | None:
        """When and where what holds was done."""
        if "accept" in self.grants:
            return self.grants["accept"]
        if (revoked := self.decisive) is not None:
            return revoked.mark
        return self.grants.get("pend") or self.grants.get("clash")


@frozen
class Shown:
    """
    One key in the form in which it is displayed: in one of Salt's states.

    @ivar conflict: whether it was accepted, or is pending, but another key of the id holds.
    """

    state: str
    finger: str
    pub: bytes = field(repr=False)
    since: Mark | None = None
    conflict: bool = False


@frozen
class View:
    """
    All keys of one minion id, as every node shows them.

    @ivar holder: the one key that is accepted, rejected or pending, if any.
    @ivar denied: the others that are shown as denied, earliest first.
    """

    holder: Shown | None = None
    denied: Sequence[Shown] = ()


def register_key(minion_id: str, finger: str) -> str:
    """The key of a register."""
    return f"{finger}/{minion_id}"


def finger_of(pub: bytes) -> str:
    """The name of a key here: SHA-256 of its clean PEM text; people are shown Salt's own."""
    return _finger_kept(pub) if len(pub) <= _PUB_KEPT else sha256(clean_key(pub)).hexdigest()


@lru_cache(maxsize=256)
def _finger_kept(pub: bytes) -> str:
    """The same, kept for a while: an act on a key asks four times."""
    return sha256(clean_key(pub)).hexdigest()


class KeySet(Registers[KeyRegister]):
    """The fold of all minion keys."""

    kind = KIND

    def __init__(self) -> None:
        super().__init__()
        self._fingers: dict[str, set[str]] = {}
        self._horizon: Knowledge = {}

    # -- Registers

    def key_of(self, body: Mapping[str, Any]) -> str:
        """By key and id."""
        minion_id, finger = body["id"], body["fp"]
        if not valid_minion_id(minion_id) or not isinstance(finger, str):
            raise WireError("key-id")
        if not 0 < len(finger) <= 128 or not _HEX.issuperset(finger):
            # It is the first part of a register's name
            raise WireError("key-finger")
        return register_key(minion_id, finger)

    def join(
        self, state: KeyRegister | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> KeyRegister:
        """Join one act, or a register's merged state."""
        pub = body.get("pub", b"")
        if not isinstance(pub, bytes) or len(pub) > MAX_PUB:
            raise WireError("key-pub")
        act = body["act"]
        empty = KeyRegister(body["id"], body["fp"])
        if act == "state":
            other = _read_state(empty, body)
        else:
            other = _of_act(
                empty, act, _read_seen(body["seen"]), _mark(body, stamp, origin), origin
            )
        if state is not None and self._expired(other):
            return state
        known = state
        if known is not None and self._expired(known) and not covers(other.seen, known.seen):
            # The node that did this had already forgotten what we still remember
            known = None
        if not pub or (known is not None and known.pub):
            return other if known is None else _joined(known, other)
        if finger_of(pub) != empty.finger:
            raise WireError("key-finger")
        named = _with(other, pub, other.seen, other.open, other.grants)
        return named if known is None else _joined(known, named)

    def facts(self, key: str, state: KeyRegister) -> Iterable[Fact]:
        """One fact for all that is known of a key."""
        body: dict[str, Any] = {
            "act": "state",
            "id": state.minion_id,
            "fp": state.finger,
            "seen": _write_seen(state.seen),
            "open": [
                [*stream, item.number, item.act, *_write_mark(item.mark)]
                for stream, item in sorted(state.open.items())
            ],
            "grants": [[act, *_write_mark(mark)] for act, mark in sorted(state.grants.items())],
        }
        if state.pub and state.word != "deleted":
            body["pub"] = state.pub
        return [Fact(body, 0, Dot(Stream("-", "0" * 16), 0))]

    def counts(self, state: KeyRegister) -> bool:
        """Deleted keys are forgotten after a while, by each node by itself."""
        return state.word not in ("deleted", "")

    def apply(self, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]) -> Sequence[str]:
        """
        Join an act in.

        @return: the minion ids that it changes something for.
        """
        if body.get("act") == MANY:
            return [
                minion_id
                for act in self._read_many(body)
                for minion_id in self.apply(act, stamp, origin)
            ]
        changed = super().apply(body, stamp, origin)
        for _ in changed:
            self._fingers.setdefault(body["id"], set()).add(body["fp"])
            return (body["id"],)
        return ()

    def _read_many(self, body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        acts = body.get("acts")
        if not isinstance(acts, list) or len(acts) > MAX_ACTS:
            raise WireError("key-acts")
        keys = set()
        for act in acts:
            if not isinstance(act, dict) or act.get("act") not in (*GRANTS, *REVOCATIONS):
                raise WireError("key-acts")
            try:
                keys.add(self.key_of(act))
            except (KeyError, TypeError, AttributeError) as error:
                raise WireError("key-acts") from error
        if len(keys) != len(acts):
            # Of one register the second act would have to have seen the first
            raise WireError("key-acts")
        return acts

    def foreseen(self, body: Mapping[str, Any], stream: Stream) -> int:
        """
        How far a revocation says that it has seen a stream: one that this very stream is about to
        contain would count for nothing if somebody had claimed to have seen it before it was there.
        """
        acts = body["acts"] if body["act"] == MANY else [body]
        return max(
            (
                number
                for act in acts
                if act["act"] in REVOCATIONS
                for node, incarnation, number in act["seen"]
                if (node, incarnation) == stream
            ),
            default=0,
        )

    def forget(self, key: str) -> None:
        """Drop a tombstone."""
        finger, _, minion_id = key.partition("/")
        super().forget(key)
        fingers = self._fingers.get(minion_id, set())
        fingers.discard(finger)
        if not fingers:
            self._fingers.pop(minion_id, None)

    # -- asking

    def register(self, minion_id: str, finger: str) -> KeyRegister | None:
        """What is known of one key."""
        return self.registers.get(register_key(minion_id, finger))

    def of_id(self, minion_id: str) -> Sequence[KeyRegister]:
        """All keys of an id, in the order of their fingerprints."""
        fingers = self._fingers.get(minion_id, ())
        return [
            self.registers[register_key(minion_id, finger)]
            # Mostly there is one, or none
            for finger in (fingers if len(fingers) < 2 else sorted(fingers))
        ]

    def ids(self) -> Iterable[str]:
        """Every id of which something is known, deleted ones too."""
        return self._fingers.keys()

    def view(self, minion_id: str) -> View:
        """
        The keys of an id as they are shown and obeyed.

        Of several accepted keys the earliest acceptance holds, and the others show as
        denied. Else a rejected one holds, as in Salt, where a rejection is of the id; else the
        earliest pending one.
        """
        registers = self.of_id(minion_id)
        if len(registers) == 1:
            return _view_of_one(registers[0])
        found = {r.finger: r for r in registers}
        holder: Shown | None = None
        for word in ("accepted", "rejected", "pending"):
            among = [r for r in found.values() if r.word == word]
            if among:
                first = min(among, key=_order)
                holder = Shown(word, first.finger, first.pub, first.since)
                break
        denied = [
            Shown("denied", r.finger, r.pub, r.since, r.word in ("accepted", "pending", "rejected"))
            for r in sorted(found.values(), key=_order)
            if r.word not in ("deleted", "") and (holder is None or r.finger != holder.finger)
        ]
        return View(holder, denied)

    # -- forgetting

    def _expired(self, state: KeyRegister) -> bool:
        return (
            bool(self._horizon)
            and state.word in ("deleted", "")
            and covers(self._horizon, state.seen)
        )

    def expire(self, ignored: Knowledge, dropped: Knowledge) -> int:
        """
        Forget deleted keys in two steps.

        What is ignored no longer counts against an act that did not know of it, but acts from here
        still name it. What is dropped is gone. A deletion must be ignored by all members
        before the first drops it: between the two lie days.

        @param ignored: what every member knows that is not to join as new.
        @return: how many were dropped.
        """
        self._horizon = joined(self._horizon, ignored)
        old = [
            key
            for key, state in self.registers.items()
            if self._expired(state) and covers(dropped, state.seen)
        ]
        for key in old:
            self.forget(key)
        return len(old)

    # -- acting

    def act(self, act: str, minion_id: str, pub: bytes, by: str = "") -> dict[str, Any]:
        """
        The body of an act on a key that has seen everything that is known here now.

        @param by: who did it, or where the minion was seen.
        """
        body = self.act_on(act, minion_id, finger_of(pub), by)
        if act != "delete":
            body["pub"] = clean_key(pub) + b"\n"
        return body

    def denial(self, minion_id: str, start: str) -> dict[str, Any] | None:
        """
        The act that ends what a token should not have begun; none when somebody has decided.

        @param start: how the fingerprint of the key begins.
        """
        for register in self.of_id(minion_id):
            if register.finger.startswith(start) and register.word == "accepted":
                if register.seen:
                    return None
                return self.act_on("deny", minion_id, register.finger, "a token used up")
        return None

    def is_revoked(self, minion_id: str, finger: str) -> bool:
        """Whether a revocation of a key is known."""
        known = self.register(minion_id, finger)
        return known is not None and bool(known.seen)

    def act_on(self, act: str, minion_id: str, finger: str, by: str = "") -> dict[str, Any]:
        """The same of a key that the cluster knows already."""
        state = self.register(minion_id, finger)
        body: dict[str, Any] = {
            "act": act,
            "id": minion_id,
            "fp": finger,
            "seen": _write_seen(state.seen if state is not None else {}),
        }
        if act != "delete" and state is not None and state.pub:
            body["pub"] = state.pub
        if by:
            body["by"] = by
        return body


def _view_of_one(known: KeyRegister) -> View:
    """What L{KeySet.view} says of an id with a single key."""
    word = known.word
    if word in ("accepted", "rejected", "pending"):
        return View(Shown(word, known.finger, known.pub, known.since), [])
    if word in ("deleted", ""):
        return View(None, [])
    return View(None, [Shown("denied", known.finger, known.pub, known.since, False)])


def _with(
    known: KeyRegister,
    pub: bytes,
    seen: Seen,
    opened: Mapping[Stream, Open],
    grants: Mapping[str, Mark],
) -> KeyRegister:
    """Another state of a register; C{evolve} takes ten times as long."""
    return KeyRegister(known.minion_id, known.finger, pub, seen, opened, grants)


def _order(state: KeyRegister) -> tuple[int, str, str]:
    since = state.since
    return (since.stamp, since.node, state.finger) if since is not None else (0, "", state.finger)


def _of_act(
    empty: KeyRegister, act: str, seen: Seen, mark: Mark, origin: Dot[Stream]
) -> KeyRegister:
    if act in GRANTS:
        return _with(empty, b"", seen, {}, {act: mark})
    if act not in REVOCATIONS or origin.number < 1:
        raise WireError("key-act")
    if seen.get(origin.source, 0) >= origin.number:
        raise WireError("key-seen")
    revoked = Open(origin.number, act, mark)
    known = {**seen, origin.source: origin.number}
    return _with(empty, b"", known, {origin.source: revoked}, {})


def _joined(one: KeyRegister, other: KeyRegister) -> KeyRegister:
    seen = dict(one.seen)
    for stream, number in other.seen.items():
        seen[stream] = max(number, seen.get(stream, 0))
    return _with(
        one,
        one.pub or other.pub,
        seen,
        _joined_open(one, other),
        _joined_grants(one, other, seen),
    )


def _joined_open(one: KeyRegister, other: KeyRegister) -> dict[Stream, Open]:
    found: dict[Stream, Open] = {}
    for mine, theirs in ((one, other), (other, one)):
        for stream, item in mine.open.items():
            known = theirs.open.get(stream)
            if known is not None:
                # Of two revocations of one stream the later has seen the earlier
                best = max(known, item, key=lambda o: o.number)
                found[stream] = best
            elif item.number > theirs.seen.get(stream, 0):
                found[stream] = item
    return found


def _joined_grants(one: KeyRegister, other: KeyRegister, seen: Seen) -> dict[str, Mark]:
    grants: dict[str, Mark] = {}
    for part in (one, other):
        if part.seen == seen:
            for act, mark in part.grants.items():
                grants[act] = min(mark, grants.get(act, mark))
    return grants


def _mark(body: Mapping[str, Any], stamp: int, origin: Dot[Stream]) -> Mark:
    by = body.get("by", "")
    if not isinstance(by, str):
        raise WireError("key-by")
    return Mark(stamp, origin.source.node, by[:200])


def _write_mark(mark: Mark) -> list[Any]:
    return [mark.stamp, mark.node, mark.by]


def _read_mark(stamp: Any, node: Any, by: Any) -> Mark:
    if not is_stamp(stamp) or not isinstance(node, str) or not isinstance(by, str):
        raise WireError("key-mark")
    return Mark(stamp, node, by)


def _write_seen(seen: Seen) -> list[list[Any]]:
    return [[stream.node, stream.incarnation, number] for stream, number in sorted(seen.items())]


def _read_seen(rows: Any) -> dict[Stream, int]:
    if not isinstance(rows, list) or len(rows) > MAX_SEEN:
        raise WireError("key-seen")
    seen: dict[Stream, int] = {}
    for node, incarnation, number in rows:
        if not is_number(number) or number < 1:
            raise WireError("key-seen")
        seen[decode_stream(node, incarnation)] = number
    return seen


def _read_state(empty: KeyRegister, body: Mapping[str, Any]) -> KeyRegister:
    seen = _read_seen(body["seen"])
    opened: dict[Stream, Open] = {}
    for node, incarnation, number, act, *mark in body["open"]:
        stream = decode_stream(node, incarnation)
        if act not in REVOCATIONS or not is_number(number) or seen.get(stream, 0) != number:
            raise WireError("key-open")
        opened[stream] = Open(number, act, _read_mark(*mark))
    grants: dict[str, Mark] = {}
    for act, *mark in body["grants"]:
        if act not in GRANTS:
            raise WireError("key-grant")
        grants[act] = _read_mark(*mark)
    return _with(empty, b"", seen, opened, grants)
