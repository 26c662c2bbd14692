"""
Lists of names in the form in which minions get them, packed once for all who ask.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred

from saltwisted.master.replies import Packed
from saltwisted.stores.roots.joined import Made
from saltwisted.stores.roots.served import Shared
from saltwisted.wire.msgpack import pack

FEW = 500
"""Names up to which a list is packed with its reply."""
AT_ONCE = 20_000
"""Names that are packed in the reactor's thread, in a millisecond; more are packed in another."""
RUN = 1000
"""Names after which that thread may be interrupted."""
KEPT = 1 << 20
"""Bytes of packed lists that are kept."""


class Lists:
    """
    Reactor thread only.

    @param run: runs a blocking call in the pool.
    """

    def __init__(self, run: Callable[..., Deferred[Any]]) -> None:
        self._run = run
        self._packed: Made[Packed] = Made(KEPT, lambda answer: len(answer.packed))
        self._coming: dict[Hashable, tuple[tuple[str, ...], Shared]] = {}

    def packed(
        self, name: Hashable, names: tuple[str, ...], again: bool = True
    ) -> list[str] | Packed | Deferred[Packed]:
        """
        A list of names, in the form of an answer.

        @param name: the name of the list.
        @param again: whether others will ask for the same.
        """
        if len(names) <= FEW or (not again and len(names) <= AT_ONCE):
            return list(names)
        if not again:
            return self._run(packed_names, names).addCallback(Packed)
        known = self._packed.of(name, (names,))
        if known is not None:
            return known
        if len(names) <= AT_ONCE:
            return self._packed.keep(name, (names,), Packed(pack(names)))
        coming = self._coming.get(name)
        if coming is None or coming[0] is not names:
            coming = self._coming[name] = names, Shared()
            coming[1].follow(self._run(packed_names, names).addBoth(self._came, name, names))
        return coming[1].join()

    def _came(self, outcome: Any, name: Hashable, names: tuple[str, ...]) -> Any:
        coming = self._coming.get(name)
        if coming is not None and coming[0] is names:
            del self._coming[name]
        if not isinstance(outcome, bytes):
            return outcome
        return self._packed.keep(name, (names,), Packed(outcome))


def packed_links(prefix: str, links: Mapping[str, str]) -> bytes:
    """
    Links whose names begin so, as a packed map: for a thread, which others may interrupt between
    any two.
    """
    count, pieces = 0, []
    for name, target in links.items():
        if name.startswith(prefix):
            count += 1
            pieces.append(pack(name) + pack(target))
    return b"\xdf" + count.to_bytes(4, "big") + b"".join(pieces)


def packed_names(names: Sequence[str]) -> bytes:
    """A list of names, packed in runs: for a thread, which others may interrupt between any two."""
    runs = [pack(names[start : start + RUN]) for start in range(0, len(names), RUN)]
    heads = (3 if run[0] == 0xDC else 1 for run in runs)
    count = len(names)
    head = (
        b"\xdc" + count.to_bytes(2, "big")
        if count < 1 << 16
        else b"\xdd" + count.to_bytes(4, "big")
    )
    return head + b"".join(run[skip:] for run, skip in zip(runs, heads, strict=True))


def beginning_with(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of sorted names that begin so."""
    if not prefix:
        return names
    first = bisect_left(names, prefix)
    after = bisect_left(names, True, first, key=lambda name: not name.startswith(prefix))
    return names[first:after]
