"""
Folds: the result of all entries of one kind, whatever the order of their arrival.

C{apply} of a fold is commutative, associative and idempotent: a fold is a join semilattice of
registers, so two nodes that have seen the same entries have the same contents. A fold can be
written as facts (C{dump}), which rebuild it by the same C{apply}. These are its snapshot, the whole
state for a joining node, and the basis of its digest.

L{Registers} is the base class for a fold: a kind provides the key of a body, the join of a register
with a body, and the facts of a register. C{apply} returns the changes, and the listeners
(L{Folds.listen}) decide what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from saltwisted.domain.causality.clock import is_stamp
from saltwisted.domain.causality.knowledge import Dot
from saltwisted.domain.replica.digest import Buckets, bucket_of, hash_of
from saltwisted.domain.replica.entry import Entry, Stream, decode_stream, fields_of, is_number
from saltwisted.domain.replica.knowledge import Knowledge
from saltwisted.errors import WireError
from saltwisted.interfaces import Fold
from saltwisted.wire.msgpack import pack_bin

State = TypeVar("State")
Listener = Callable[[Sequence[Any]], None]


class Fact(NamedTuple):
    """
    One fact of a fold, as given to C{apply}.

    @ivar origin: where it was created; C{number} is 0 if it stands for several entries.
    """

    body: Mapping[str, Any]
    stamp: int
    origin: Dot[Stream]


def encode_fact(fact: Fact) -> list[Any]:
    """C{[node, incarnation, number, stamp, body]}."""
    return [*fact.origin.source, fact.origin.number, fact.stamp, pack_bin(dict(fact.body))]


def decode_fact(row: Any) -> Fact:
    """
    The reverse.

    @raises WireError: for anything else.
    """
    if not isinstance(row, (list, tuple)) or len(row) != 5 or not is_number(row[2]):
        raise WireError("fact")
    stream = decode_stream(row[0], row[1])
    if not is_stamp(row[3]) or not isinstance(row[4], bytes):
        raise WireError("fact")
    return Fact(fields_of(row[4]), row[3], Dot(stream, row[2]))


class Registers(Generic[State]):
    """
    Independent registers by a text key. Subclasses say what a register is.

    @cvar kind: its name in entries.
    @ivar registers: key to state. States are values: replaced, never changed in place.
    """

    kind = ""

    def __init__(self) -> None:
        self.registers: dict[str, State] = {}
        self._buckets = Buckets()
        self._stale: set[str] = set()

    # -- what a kind says

    def key_of(self, body: Mapping[str, Any]) -> str:
        """
        Which register a body is about.

        @raises WireError: the body is none of this kind.
        """
        raise NotImplementedError

    def join(
        self, state: State | None, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]
    ) -> State | None:
        """
        The register with this fact in it; C{None} if nothing is known of it still.

        Must not change C{state}, and must return an equal value if the fact is not new.

        @raises WireError: the body is not of this kind.
        """
        raise NotImplementedError

    def facts(self, key: str, state: State) -> Iterable[Fact]:
        """What rebuilds the register; the same for equal states on every node."""
        raise NotImplementedError

    def signature(self, key: str, state: State) -> Iterable[bytes]:
        """
        The input of the register's digest; equal for equal states on every node. Empty for a
        register that is not compared.
        """
        return (pack_bin(encode_fact(fact)) for fact in self.facts(key, state))

    def counts(self, state: State) -> bool:
        """Whether a register is part of the digest; not so for what each node forgets in time."""
        return True

    def newest(self, body: Mapping[str, Any]) -> int:
        """The stamp that an act must exceed to replace what it has seen here; 0: any will do."""
        return 0

    def foreseen(self, body: Mapping[str, Any], stream: Stream) -> int:
        """Up to which number an act says that it has seen a stream; 0 where acts do not say."""
        return 0

    # -- Fold

    def apply(self, body: Mapping[str, Any], stamp: int, origin: Dot[Stream]) -> Sequence[str]:
        """
        Join one fact in.

        @return: the keys of the registers that changed.
        @raises WireError: the body is none of this kind; nothing has changed.
        """
        try:
            key = self.key_of(body)
            old = self.registers.get(key)
            new = self.join(old, body, stamp, origin)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise WireError(f"fact-{self.kind}") from error
        if new is None or new == old:
            return ()
        self.registers[key] = new
        self._stale.add(key)
        return (key,)

    def forget(self, key: str) -> None:
        """Drop a register whose tombstone has lived long enough."""
        if self.registers.pop(key, None) is not None:
            self._stale.add(key)

    def dump(self) -> Iterator[Fact]:
        """
        All facts. May be consumed in pieces between which the fold changes: registers
        are joined, so a newer one among older ones does no harm.
        """
        for key in list(self.registers):
            state = self.registers.get(key)
            if state is not None:
                yield from self.facts(key, state)

    def snapshot(self) -> Iterator[Fact]:
        """What is to be kept on this node's own disk: the same, or less where the rest is kept."""
        return self.dump()

    def digest(self) -> bytes:
        """16 bytes, equal where the registers are."""
        self._refresh()
        return self._buckets.whole()

    def buckets(self) -> bytes:
        """The digest of each bucket (see L{saltwisted.domain.replica.digest})."""
        self._refresh()
        return self._buckets.each()

    def dump_buckets(self, buckets: Container[int]) -> Iterator[Fact]:
        """The facts of some buckets."""
        for key, state in list(self.registers.items()):
            if bucket_of(key) in buckets:
                yield from self.facts(key, state)

    def expire(self, ignored: Knowledge, dropped: Knowledge) -> int:
        """
        Forget old deletions, in two steps; see L{KeySet.expire}. Returns how many were dropped.
        """
        return 0

    def _refresh(self) -> None:
        for key in self._stale:
            state = self.registers.get(key)
            value = 0
            if state is not None and self.counts(state):
                parts = list(self.signature(key, state))
                value = hash_of(parts) if parts else 0
            self._buckets.put(key, value)
        self._stale.clear()


class Unknown(Registers[frozenset[tuple[Any, ...]]]):
    """
    Facts of a kind that this version does not know, kept unchanged.

    A node that is not upgraded yet must not lose the others' facts in a snapshot.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def key_of(self, body: Mapping[str, Any]) -> str:
        """Each body is its own register."""
        return f"{hash_of([pack_bin(dict(body))]):x}"

    def join(
        self,
        state: frozenset[tuple[Any, ...]] | None,
        body: Mapping[str, Any],
        stamp: int,
        origin: Dot[Stream],
    ) -> frozenset[tuple[Any, ...]]:
        """The set of places where this body was seen."""
        return (state or frozenset()) | {(*origin, stamp, pack_bin(dict(body)))}

    def facts(self, key: str, state: frozenset[tuple[Any, ...]]) -> Iterable[Fact]:
        """What was seen."""
        return [decode_fact(row) for row in sorted(state)]

    def counts(self, state: frozenset[tuple[Any, ...]]) -> bool:
        """Not compared: a node that knows the kind may express the same in fewer facts."""
        return False


class Folds:
    """
    All folds of a log by kind, and the receivers of their changes.

    @ivar refused: entries whose body could not be read, by kind: kept in the log, not applied.
    """

    def __init__(self, folds: Iterable[Fold] = ()) -> None:
        self._folds: dict[str, Fold] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self.refused: dict[str, int] = {}
        for fold in folds:
            self.add(fold)

    def add(self, fold: Fold) -> None:
        """Add a kind; before the first entry is applied."""
        if fold.kind in self._folds:
            raise ValueError(f"two folds of the kind {fold.kind}")
        self._folds[fold.kind] = fold

    def listen(self, kind: str, listener: Listener) -> None:
        """
        Call C{listener(changes)} after changes of a kind, from whichever node they come.

        Also while the log is opened, once for all that is on disk.
        """
        self._listeners.setdefault(kind, []).append(listener)

    def kinds(self) -> Sequence[str]:
        """All kinds, known and merely kept."""
        return sorted(self._folds)

    def fold(self, kind: str) -> Fold:
        """The fold of a kind; facts of an unknown kind are kept unchanged."""
        found = self._folds.get(kind)
        if found is None:
            found = self._folds[kind] = Unknown(kind)
        return found

    def apply(self, entries: Iterable[Entry]) -> None:
        """Join entries in, and tell the listeners once per kind."""
        changes: dict[str, list[Any]] = {}
        for entry in entries:
            try:
                self._join(entry.kind, entry.fields(), entry.stamp, entry.dot, changes)
            except WireError:
                self.refused[entry.kind] = self.refused.get(entry.kind, 0) + 1
        self._tell(changes)

    def apply_facts(self, facts: Iterable[tuple[str, Fact]]) -> None:
        """Join facts of a snapshot, or of another node's state."""
        changes: dict[str, list[Any]] = {}
        for kind, fact in facts:
            try:
                self._join(kind, fact.body, fact.stamp, fact.origin, changes)
            except WireError:
                self.refused[kind] = self.refused.get(kind, 0) + 1
        self._tell(changes)

    def _join(
        self,
        kind: str,
        body: Mapping[str, Any],
        stamp: int,
        origin: Dot[Stream],
        changes: dict[str, list[Any]],
    ) -> None:
        changed = self.fold(kind).apply(body, stamp, origin)
        if changed:
            changes.setdefault(kind, []).extend(changed)

    def _tell(self, changes: Mapping[str, Sequence[Any]]) -> None:
        for kind, changed in changes.items():
            for listener in self._listeners.get(kind, ()):
                listener(changed)

    def expire(self, ignored: Knowledge, dropped: Knowledge) -> int:
        """Make all folds forget old deletions; returns how many were dropped."""
        return sum(fold.expire(ignored, dropped) for fold in list(self._folds.values()))

    def dump(self) -> Iterator[tuple[str, Fact]]:
        """Everything, as L{Fold.dump} gives it."""
        for kind in self.kinds():
            for fact in self._folds[kind].dump():
                yield kind, fact

    def snapshot(self) -> Iterator[tuple[str, Fact]]:
        """Everything, for this node's own disk."""
        for kind in self.kinds():
            for fact in self._folds[kind].snapshot():
                yield kind, fact

    def digests(self) -> dict[str, bytes]:
        """The digest of each kind that is known here."""
        return {
            kind: fold.digest()
            for kind, fold in sorted(self._folds.items())
            if not isinstance(fold, Unknown)
        }
